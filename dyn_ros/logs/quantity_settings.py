# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Settings of what is computed from the states of a recording, and options of a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from ..observer.settings import POSITIVE, ObserverSettings, setting
from ..observer.thresholds import FALSE_ALARMS


@dataclass(frozen=True)
class QuantitySettings(ObserverSettings):
    """Settings of what is computed: those of the observer, and of recordings.

    Rows of the observer are velocities of the selected joints; those of thresholds are velocities
    of the robot.
    """

    joints: tuple[str, ...] = ()  # in the result; empty: all
    calibrated: tuple[str, ...] = ()  # joints of the robot of thresholds; empty: unknown
    cutoff: float = setting(
        10.0,
        "Cutoff of the filters of positions, for velocities, and of accelerations, for torque",
        unit="Hz",
        limits=POSITIVE,
    )
    velocity: bool | None = True  # measured; False: rates of the positions; None: these
    # where none are measured

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

    The gain and the smoothing in ``settings`` do not count: they are chosen for the recordings
    unless they are given here.
    """

    settings: QuantitySettings = QuantitySettings(velocity=None)
    gain: float | None = None  # [1/s]; None: a tenth of the sampling rate, up to 100/s
    smoothing: float | None = None  # [1/s]; None: the gain
    false_alarms: float = FALSE_ALARMS  # wanted rate of the robot [1/h]
