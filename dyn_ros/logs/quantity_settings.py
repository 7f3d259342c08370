# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Settings of quantities that are computed from recordings, and options of a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from ..observer.settings import POSITIVE, ObserverSettings, setting_field
from ..observer.thresholds import FALSE_ALARMS


@dataclass(frozen=True)
class QuantitySettings(ObserverSettings):
    """Settings of quantities: settings of the observer, and of recordings.

    Settings of the observer have a number for each velocity of the selected joints, thresholds a
    number for each velocity of the robot.

    Attributes
    ----------
    joints : tuple of str
        Joints in the result; empty: all.
    calibrated : tuple of str
        Joints of the robot for which thresholds were calibrated; empty: unknown.
    cutoff : float
        Cutoff of the filters of positions and accelerations [Hz].
    velocity : bool or None
        True: use measured velocities. False: compute velocities from the positions. None: compute
        those that were not measured.
    """

    joints: tuple[str, ...] = ()
    calibrated: tuple[str, ...] = ()
    cutoff: float = setting_field(
        10.0,
        "Cutoff of the filters of positions, for velocities, and of accelerations, for torque",
        unit="Hz",
        limits=POSITIVE,
    )
    velocity: bool | None = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0.0 in self.effort_constant:
            raise ValueError(
                "effort_constant: expected numbers other than 0, got "
                f"{self.effort_constant}; fix joints without efforts in the "
                "description"
            )


@dataclass(frozen=True)
class CalibrationOptions:
    """Options of a calibration of thresholds.

    ``gain`` and ``smoothing`` replace the values in ``settings``; by default they are chosen for
    the recordings.
    """

    settings: QuantitySettings = QuantitySettings(velocity=None)
    gain: float | None = None  # [1/s]; None: a tenth of the sampling rate, up to 100/s
    smoothing: float | None = None  # [1/s]; None: the gain
    false_alarms: float = FALSE_ALARMS  # expected rate for the whole robot [1/h]
