# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Settings of what is computed from the states of a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..observer.momentum_observer import METHODS
from ..observer.session import KALMAN_NOISE

_PERIOD = 0.01  # s: an assumption, by which the bandwidth of "kalman" is estimated
_FORGOTTEN = 40.0  # time constants after which the start of a filter no longer shows
THRESHOLDS = {
    "fixed": "thresholds.fixed",
    "per_speed": "thresholds.per_speed",
    "at_rest": "thresholds.at_rest",
}
"""Thresholds, and the parameters of the observer node that contain them."""

_POSITIVE = (
    "gain",
    "max_gap",
    "cutoff",
    "joint_gains",
    "noise_torque",
    "noise_velocity",
    "noise_disturbance",
)
_NOT_NEGATIVE = ("smoothing", "friction_velocity", *THRESHOLDS.values())


@dataclass(frozen=True)
class Settings:
    """Settings of what is computed; the defaults are as in the nodes.

    Tuples have a number for each velocity of the selected joints, or one for all; empty: the
    default.
    """

    joints: tuple[str, ...] = ()  # in the result; empty: all
    method: str = "momentum"  # or "direct" or "kalman": of the external efforts
    gain: float = 100.0  # bandwidth of the observer [1/s]
    smoothing: float = 100.0  # bandwidth of the second low pass [1/s]; 0: none
    joint_gains: tuple[float, ...] = ()  # instead of gain, for each velocity [1/s]
    friction: bool = True  # in the model of the external efforts
    friction_velocity: float = 0.0  # Coulomb friction is proportional below [rad/s, m/s]
    effort_constant: tuple[float, ...] = ()  # from the recorded effort to that at the joint
    effort_delay: float = 0.0  # of efforts behind positions; negative: they lead [s]
    max_gap: float = 0.2  # between two states, the observer restarts after it [s]
    # for "kalman", standard deviations:
    noise_torque: tuple[float, ...] = ()  # of efforts [N m, N]
    noise_velocity: tuple[float, ...] = ()  # of velocities [rad/s, m/s]
    noise_disturbance: tuple[float, ...] = ()  # of changes of external efforts in 1 s [N m, N]
    # ``THRESHOLDS`` of contacts, for each velocity of the robot, or one for all:
    thresholds_fixed: tuple[float, ...] = ()  # [N m, N]
    thresholds_per_speed: tuple[float, ...] = ()  # [N m s, N s]
    thresholds_at_rest: tuple[float, ...] = ()  # [N m, N]
    calibrated: tuple[str, ...] = ()  # joints of the robot of thresholds; empty: unknown
    cutoff: float = 10.0  # of the zero-phase filter of accelerations and rates of positions [Hz]
    velocity: bool | None = True  # measured; False: rates of the positions; None: these
    # where none are measured

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"method: expected one of {', '.join(METHODS)}, got {self.method!r:.80}"
            )
        for name, value in vars(self).items():
            if name in ("joints", "method", "friction", "velocity", "calibrated"):
                continue
            name, numbers = (
                THRESHOLDS.get(name.removeprefix("thresholds_"), name),
                _numbers(name, value),
            )
            if not np.isfinite(numbers).all():
                raise ValueError(f"{name}: expected finite numbers, got {value}")
            if name in _POSITIVE and not (numbers > 0.0).all():
                raise ValueError(f"{name}: expected more than 0, got {value}")
            if name in _NOT_NEGATIVE and not (numbers >= 0.0).all():
                raise ValueError(f"{name}: expected at least 0, got {value}")
        if 0.0 in self.effort_constant:
            raise ValueError(
                "effort_constant: expected numbers other than 0, got "
                f"{self.effort_constant}; fix joints without efforts in the "
                "description"
            )
        if not isinstance(self.friction, bool):
            raise ValueError(f"friction: expected True or False, got {self.friction!r:.80}")

    @property
    def warm_up(self) -> float:
        """Seconds before a state after which its results no longer depend on earlier states.

        The difference is below 1e-12 of the efforts.
        """
        bandwidth = min(self.joint_gains, default=self.gain)
        if self.method == "kalman":
            slowest = min(self.noise_disturbance, default=KALMAN_NOISE["disturbance"]) / max(
                self.noise_torque, default=KALMAN_NOISE["torque"]
            )
            bandwidth = min(bandwidth, slowest / math.sqrt(_PERIOD))
        is_smoothed = self.smoothing and self.method != "kalman"
        time_constants = 1.0 / bandwidth + (1.0 / self.smoothing if is_smoothed else 0.0)
        return _FORGOTTEN * time_constants + self.max_gap + abs(self.effort_delay)


def _numbers(name: str, value: Any) -> NDArray[Any]:
    """A setting as an array, of one dimension if it may have a number for each velocity."""
    several = isinstance(getattr(Settings, name), tuple)
    try:
        numbers = np.asarray(value)
    except ValueError:  # lists of different lengths
        numbers = np.empty((0, 0))
    if numbers.dtype.kind not in "fiu" or numbers.ndim != several:
        raise ValueError(
            f"{THRESHOLDS.get(name.removeprefix('thresholds_'), name)}: expected "
            f"{'numbers' if several else 'a number'}, got {value!r:.80}"
        )
    return numbers
