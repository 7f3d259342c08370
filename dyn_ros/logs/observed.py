# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the observer node publishes for the states of a recording: its settings, and the joints."""
from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..observer.momentum_observer import METHODS
from ..observer.session import KALMAN_NOISE, Index, Session, Setup
from ..states.joint_states import joint_rows

_FORGOTTEN = 40.0       # time constants after which the start of a filter no longer shows
_PERIOD = 0.01          # s: an assumption, by which the bandwidth of "kalman" is estimated
_POSITIVE = ("gain", "max_gap", "cutoff", "joint_gains", "noise_torque", "noise_velocity",
             "noise_disturbance")


@dataclass(frozen=True)
class Settings:
    """Settings of what is computed; the defaults are those of the nodes.

    Tuples have a number for each velocity of the selected joints, or one for all; empty: the
    default.
    """

    joints: tuple[str, ...] = ()            # in the result; empty: all
    method: str = "momentum"                # or "direct" or "kalman": of the external efforts
    gain: float = 100.0                     # bandwidth of the observer [1/s]
    smoothing: float = 100.0                # bandwidth of the second low pass [1/s]; 0: none
    joint_gains: tuple[float, ...] = ()     # instead of gain, for each velocity [1/s]
    friction: bool = True                   # in the model of the external efforts
    friction_velocity: float = 0.0          # Coulomb friction is proportional below [rad/s, m/s]
    effort_constant: tuple[float, ...] = ()     # from the recorded effort to that at the joint
    effort_delay: float = 0.0               # of efforts behind positions; negative: they lead [s]
    max_gap: float = 0.2                    # between two states, the observer restarts after it [s]
    noise_torque: tuple[float, ...] = ()        # for "kalman", standard deviations: of efforts
    noise_velocity: tuple[float, ...] = ()      # [N m, N], velocities [rad/s, m/s], and the change
    noise_disturbance: tuple[float, ...] = ()   # of external efforts in one second [N m, N]
    cutoff: float = 10.0                    # of the zero-phase filter of accelerations [Hz]

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got "
                             f"{self.method!r:.80}")
        for name, value in vars(self).items():
            if name in ("joints", "method", "friction"):
                continue
            numbers = np.atleast_1d(np.asarray(value, float))
            if not np.isfinite(numbers).all():
                raise ValueError(f"{name}: expected finite numbers, got {value}")
            if name in _POSITIVE and not (numbers > 0.0).all():
                raise ValueError(f"{name}: expected more than 0, got {value}")
        for name in ("smoothing", "friction_velocity"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name}: expected at least 0, got {getattr(self, name)}")

    @property
    def warm_up(self) -> float:
        """Seconds before a state after which its results no longer depend on earlier states.

        The difference is below 1e-12 of the efforts.
        """
        bandwidth = min(self.joint_gains, default=self.gain)
        if self.method == "kalman":
            slowest = (min(self.noise_disturbance, default=KALMAN_NOISE["disturbance"])
                       / max(self.noise_torque, default=KALMAN_NOISE["torque"]))
            bandwidth = min(bandwidth, slowest / math.sqrt(_PERIOD))
        is_smoothed = self.smoothing and self.method != "kalman"
        time_constants = 1.0 / bandwidth + (1.0 / self.smoothing if is_smoothed else 0.0)
        return _FORGOTTEN * time_constants + self.max_gap + abs(self.effort_delay)


class SelectedJoints(NamedTuple):
    """The selected joints of a model: their rows in q and in v, and the names of these rows."""

    position_rows: Index
    rows: Index
    position_names: list[str]
    names: list[str]


def select(model: Model, joints: Sequence[str] = ()) -> SelectedJoints:
    """Select joints by name; none: all that have coordinates of their own."""
    own = [name for name, nv in zip(model.joint_names, model.nvs) if nv]
    for name in joints:
        if name not in own:
            what = ("is a mimic joint, without coordinates of its own"
                    if name in model.joint_names else "is no joint of the robot")
            raise ValueError(f"joints: {name!r:.80} {what}; available: {', '.join(own)}")
    if len(set(joints)) != len(joints):
        raise ValueError(f"joints: expected each name once, got {', '.join(joints)}")
    position_rows, rows = joint_rows(model, joints or own)
    return SelectedJoints(np.array(position_rows, np.int64), np.array(rows, np.int64),
                          [model.position_names[row] for row in position_rows],
                          [model.velocity_names[row] for row in rows])


def row_values(model: Model, settings: Settings, name: str, default: float) -> Array:
    """A number for each velocity of the model, (nv,), from a setting of the selected joints."""
    numbers = getattr(settings, name)
    values = np.full(model.nv, default)
    if not numbers:
        return values
    rows = select(model, settings.joints).rows
    if len(numbers) not in (1, len(rows)):
        raise ValueError(f"{name}: expected one number, or {len(rows)}: one for each velocity of "
                         f"the selected joints; got {len(numbers)}")
    values[rows] = numbers
    return values


# --- results

def is_moving_known(states: Any, max_gap: float) -> NDArray[np.bool_]:
    """Whether the velocities of a state are known and no joint is too far behind, (n,)."""
    known: NDArray[np.bool_] = (np.isfinite(states.v).all(axis=1)
                                & (states.behind <= round(max_gap * 1e9)))
    return known


def observe(model: Model, states: Any, settings: Settings, wanted: Collection[str]
            ) -> dict[str, Array]:
    """The "residual" and "external" efforts of each state, as the observer node publishes them.

    They are (n, nv), NaN where the node publishes nothing [N m, N].
    """
    setup = Setup.of(vars(settings), lambda name, default: row_values(
        model, settings, name.replace(".", "_"), default))
    return Session(model, setup).run(states.stamp, states.q, states.v, states.tau,
                                     is_moving_known(states, settings.max_gap), wanted)
