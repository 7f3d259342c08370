# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of samples, tolerances, and robust deviations shared by all of identification."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ...engine.kernel.types import Array

MAX_ROUNDS = 8  # estimates of parameters and of what depends on them, in turn
FOLDS = 8  # blocks of consecutive samples in cross-validation
MIN_SAMPLES = 200  # samples; fewer do not show the jitter of time stamps
MAX_ERROR_RATIO = 0.98  # error with a choice, relative to the error without it
MIN_STANDARD_ERRORS = 2.0  # standard errors; a smaller difference is noise
STATISTICS_SAMPLES = 20000  # samples, evenly spaced; enough for medians and quantiles
REGRESSION_SAMPLES = 2400  # samples, evenly spaced; enough for a motion, which is smooth
BLOCK_SIZE = 1 << 12  # samples processed at a time, to limit memory
FILTER_BLOCK_SIZE = 8 * BLOCK_SIZE  # samples filtered at a time
MIN_SPEED = 1e-6  # rad/s or m/s (accelerations: rad/s2 or m/s2); a slower joint is at rest
NOISE_LIMIT = 10.0  # standard deviations of its noise; a smaller velocity may be 0
MIN_TRAVEL = 1e-3  # rad or m; a joint that moves less is at rest
RELATIVE_TOLERANCE = 1e-8  # relative; a smaller difference is rounding
RIDGE = 1e-7  # regularization, relative to the sum of squares of each column
ROUNDOFF = 1e-13  # rounding error of sums, relative; smaller eigenvalues and residuals count as 0


def evenly_spaced(count: int, max_count: int, repeats: NDArray[np.bool_] | None = None) -> slice:
    """Return a slice of at most max_count of count samples, evenly spaced.

    It has fewer if joints that repeat, in a mask (count, nv), would lose half of their new values.
    """
    step = 1 + count // max_count
    if repeats is not None:
        is_new = ~repeats
        min_fraction = 0.5 * is_new.mean(axis=0)
        while step < count and (is_new[::step].mean(axis=0) < min_fraction).any():
            step += 1
    return slice(None, None, step)


def robust_deviation(x: Array) -> Array:
    """Return the standard deviation of each column (B, n), from its median absolute value."""
    deviation: Array = np.median(np.abs(x), axis=0) / ndtri(0.75)
    return deviation


def second_differences(x: Array) -> Array:
    """Return second differences of columns (B, n), (B - 2, n); NaN if one of three numbers is.

    In columns without three successive numbers, only every few rows are known: these are compared.
    """
    differences: Array = np.diff(x, 2, axis=0)
    for k in np.flatnonzero(np.isnan(differences).all(axis=0)):
        column = x[:, k]
        known_differences = np.diff(column[np.isfinite(column)], 2)
        differences[: len(known_differences), k] = known_differences
    return differences
