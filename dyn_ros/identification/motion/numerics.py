# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How many samples are enough, what counts as rounding, and deviations without outliers."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ...engine.kernel.types import Array

ROUNDS = 8  # of estimates in turn with what depends on them, at most
FOLDS = 8  # of consecutive samples, each predicted from the others, to choose a model
FEW_SAMPLES = 200  # too few to correct time stamps
BETTER = 0.98  # of the error: what remains with a choice that is not noise
CERTAIN = 2.0  # standard errors of a difference that is not noise
STATISTICS = 20000  # samples for medians and quantiles
REGRESSION = 2400  # samples for the equations of a motion, which is smooth
BLOCK = 1 << 12  # samples that are processed at a time, for less memory
FILTERED = 8 * BLOCK  # of a signal, whose filter settles at both ends of each block
STILL = 1e-6  # rad/s, m/s, rad/s2, m/s2: less is rest
NOISE_LIMIT = 10.0  # standard deviations of its noise, within which a velocity may be 0
STUCK = 1e-3  # rad, m: a joint that moves less is at rest
ROUNDING = 1e-8  # relative difference that is rounding
RIDGE = 1e-7  # of each column's sum of squares, for combinations that are not determined
ARITHMETIC = 1e-13  # relative error of sums: a smaller eigenvalue or residual counts as zero


def evenly(count: int, most: int) -> slice:
    """Return about this many of some samples, evenly spaced."""
    return slice(None, None, 1 + count // most)


def normal_deviation(x: Array) -> Array:
    """Return the standard deviation of normal noise with the median size of each column."""
    deviation: Array = np.median(np.abs(x), axis=0) / ndtri(0.75)
    return deviation
