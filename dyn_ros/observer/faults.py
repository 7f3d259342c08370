# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Faults of measured efforts: missing, stuck, saturated, of the wrong sign or in other units.

Measured efforts are compared with those that the model needs for the motion, both as means of
tenths of a second. A fault is reported only if neither a payload nor a push explains it, and if the
motion says enough: an arm at rest, or a joint with a vertical axis that does not accelerate, says
nothing. What remains unexplained is not a fault.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..algorithms.regressors import joint_torque_regressor
from ..algorithms.rnea import generalized_gravity, rnea
from ..model.data import Data
from ..model.inputs import require_model
from ..model.model import Model
from ..model.types import ArrayLike
from ..spatial.types import Array

Kind = Literal["missing", "stuck", "saturated", "sign", "scale"]

WINDOW = 60.0
"""Duration of the motion that is compared [s]."""

_PERIOD = 0.1                   # s: of the means
_CHECK = 1.0                    # s: between two checks
_FEWEST = 50                    # means with which efforts are compared
_SEVERAL = 20                   # equal samples: a constant
_RUN = 1.0                      # s for which a constant effort lasts that is stuck or missing
_CLIPPED = 0.03                 # s for which it lasts at a limit
_AT_LIMIT = 1e-3                # of the limit
_CHANGES = 0.15                 # of the typical effort of a joint: a change that a sensor shows
_SWING = 0.05                   # of the same: standard deviation of a motion that says something
_TURNS = 4                      # times that the effort passes from high to low or back
_EXPLAINED = 0.9                # part of the variance
_OPPOSITE = 0.5, 2.0            # the factors between which an effort has just the wrong sign
_UNITS = 1.0 / 3.0, 3.0         # the factors beyond which efforts are in other units
_BETTER = 4.0                   # squares of errors: a payload must explain efforts not nearly so well
_FLOATING_LOAD = 0.1            # of the weight: an external force on a floating base
_SMOOTH = 0.02                  # rad/s, m/s
_RANDOM = 200                   # configurations


@dataclasses.dataclass(frozen=True)
class EffortFault:
    """What is wrong with the measured efforts of a joint.

    Attributes
    ----------
    joint : str
        Name of the coordinate, as in ``model.velocity_names``.
    kind : str
        "missing": they are all zero. "stuck": all equal. "saturated": they stay at a limit.
        "sign": they point the other way. "scale": they have other units.
    factor : float
        Measured efforts are so many times those that the model needs; NaN unless "sign" or
        "scale".
    message : str
        What was found, and what would correct it.
    """

    joint: str
    kind: Kind
    factor: float
    message: str

    def __str__(self) -> str:
        """Return the message."""
        return self.message


class EffortMonitor:
    """Finds faults of measured efforts while a robot moves.

    Pass it each sample with the external efforts of a ``MomentumObserver``: together with the
    measured efforts they are those that the model needs. A sample takes a few microseconds, and
    once per second of motion a check takes about a millisecond. The last minute counts.

    Parameters
    ----------
    model : Model
    gain : float or (nv,) array_like
        Of the observer [1/s].

    Attributes
    ----------
    faults : tuple of EffortFault
        Of the last check.
    """
