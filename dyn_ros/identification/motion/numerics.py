# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How many samples are enough, what counts as rounding, and deviations without outliers."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ...engine.kernel.types import Array

ROUNDS = 8  # of estimates in turn with what depends on them, at most
FOLDS = 8  # of consecutive samples, each predicted from the others, to choose a model
BETTER = 0.98  # of the error: what remains with a choice that is not noise
STATISTICS = 20000  # samples for medians and quantiles
REGRESSION = 2400  # samples for the equations of a motion, which is smooth
BLOCK = 1 << 15  # samples that are processed at a time, for less memory
ROUNDING = 1e-8  # relative size of what differs by rounding alone
RIDGE = 1e-7  # of each column's sum of squares, for combinations that are not determined
SINGULAR = 1e-13  # eigenvalue of normal equations that counts as zero, relative to the largest


def evenly(count: int, most: int) -> slice:
    """Return about this many of some samples, evenly spaced."""
    return slice(None, None, 1 + count // most)


def normal_deviation(x: Array) -> Array:
    """Return the standard deviation of normal noise with the median size of each column."""
    deviation: Array = np.median(np.abs(x), axis=0) / ndtri(0.75)
    return deviation
