# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Efforts and speeds that are usual for a robot, and those that cannot be measurements."""
from __future__ import annotations

import numpy as np

from ..engine.algorithms.dynamics.rnea import rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.model import Model

IMPLAUSIBLE = 1000.0
"""An effort or a speed of so many times the limit of its joint cannot be a measurement."""

_UNLIMITED = 1e3                # N m, N, rad/s, m/s: the limit that is assumed where there is none
_LEAST_LIMIT = 1.0              # rad/s, m/s: of speeds
_RANDOM = 200                   # configurations


def typical_efforts(model: Model) -> Array:
    """Root mean squares of the efforts of random motions with rates of 1, (nv,)."""
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(_RANDOM)])
    v, a = rng.standard_normal((2, _RANDOM, model.nv))
    efforts: Array = np.sqrt(np.mean(rnea(model, Data(model), q, v, a) ** 2, axis=0))
    return efforts


def largest_efforts(model: Model) -> Array:
    """``IMPLAUSIBLE`` times limits [N m, N], or times typical efforts that are larger, (nv,)."""
    largest: Array = IMPLAUSIBLE * np.maximum(_limits(model.effort_limit), typical_efforts(model))
    return largest


def largest_speeds(model: Model) -> Array:
    """``IMPLAUSIBLE`` times limits [rad/s, m/s], or times 1 if this is larger, (nv,)."""
    largest: Array = IMPLAUSIBLE * np.maximum(_limits(model.velocity_limit), _LEAST_LIMIT)
    return largest


def _limits(numbers: Array) -> Array:
    return np.where((numbers > 0.0) & np.isfinite(numbers), numbers, _UNLIMITED)
