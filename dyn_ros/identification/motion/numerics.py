# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How many samples are enough, what counts as rounding, and deviations without outliers."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ...engine.kernel.types import Array

ROUNDS = 8  # of estimates in turn with what depends on them, at most
FOLDS = 8  # of consecutive samples, each predicted from the others, to choose a model
MIN_SAMPLES = 200  # fewer do not show the jitter of time stamps
BETTER = 0.98  # of the error: what remains with a choice that is not noise
MIN_STANDARD_ERRORS = 2.0  # of a difference; a smaller one counts as noise
STATISTICS = 20000  # samples for medians and quantiles
REGRESSION = 2400  # samples for the equations of a motion, which is smooth
BLOCK = 1 << 12  # samples that are processed at a time, for less memory
FILTER_BLOCK = 8 * BLOCK  # samples that are filtered at a time
MIN_SPEED = 1e-6  # rad/s, m/s, and rad/s2, m/s2 of accelerations; slower is rest
NOISE_LIMIT = 10.0  # standard deviations of its noise, within which a velocity may be 0
MIN_TRAVEL = 1e-3  # rad, m; a joint that moves less is at rest
ROUNDING = 1e-8  # relative difference that is rounding
RIDGE = 1e-7  # of each column's sum of squares, for combinations that are not determined
ROUNDOFF = 1e-13  # relative rounding error of sums; smaller eigenvalues and residuals count as 0


def evenly(count: int, most: int) -> slice:
    """Return about this many of some samples, evenly spaced."""
    return slice(None, None, 1 + count // most)


def normal_deviation(x: Array) -> Array:
    """Return the standard deviation of normal noise with the median size of each column."""
    deviation: Array = np.median(np.abs(x), axis=0) / ndtri(0.75)
    return deviation
