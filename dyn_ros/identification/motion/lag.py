# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Lag of measured velocities behind positions, as after slow filters."""

from __future__ import annotations

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model.coordinates import joint_slices
from ...engine.model.model import Model
from . import filtering

MAX_LAG = 0.5  # s
MIN_DURATION = 3.0 * MAX_LAG  # s
SAMPLING_RATE = 200.0  # Hz; samples of faster recordings are skipped
MIN_RELATIVE_ERROR = 0.05  # RMS, relative to the velocity; less does not matter
MAX_RESIDUAL_RATIO = 0.5  # sum of squares with the lag, relative to the sum without it


def describe_velocity_lag(model: Model, time: Array, q: Array, v: Array) -> str:
    """Return a sentence about velocities that lag behind positions, or an empty string.

    ``time`` (n,) [s] increases, ``q`` (n, nq) and ``v`` (n, nv) are as measured, without gaps.
    """
    lags = {}  # s, by joint
    for joint in joint_slices(model):
        if joint.v.stop - joint.v.start == 1 and (
            lag := _velocity_lag(time, q[:, joint.q.start], v[:, joint.v.start])
        ):
            lags[joint.name] = lag
    if not lags:
        return ""
    bounds = [f"{1e3 * lag:.3g}" for lag in (min(lags.values()), max(lags.values()))]
    return (
        f"the velocities of {', '.join(lags)} lag behind the positions by "
        f"{' to '.join(dict.fromkeys(bounds))} ms"
    )


def _velocity_lag(time: Array, q: Array, v: Array) -> float:
    """Return the lag of velocities [s]; 0 if there is none, or it does not matter."""
    if len(time) < 2 or time[-1] - time[0] < MIN_DURATION:
        return 0.0
    rate = (len(time) - 1) / (time[-1] - time[0])
    cutoff = filtering.highest_cutoff(rate)
    decimated = slice(None, None, max(1, round(rate / SAMPLING_RATE)))
    expected = filtering.filter_derivatives(time, np.unwrap(q), cutoff, 1)[1][decimated]
    measured = filtering.filter_derivatives(time, v, cutoff, 0)[0][decimated]
    rate *= len(expected) / len(time)
    max_shift = round(MAX_LAG * rate)
    margin = max_shift + filtering.settling_samples(rate, cutoff)
    reference = expected[margin : len(expected) - margin]
    if not reference.any():
        return 0.0
    squares = np.array(
        [
            np.square(measured[k : k + len(reference)] - reference).sum()
            for k in range(margin - max_shift, margin + max_shift + 1)
        ]
    )
    n = int(np.argmin(squares))
    matters = squares[max_shift] > MIN_RELATIVE_ERROR**2 * float(reference @ reference)
    is_late = max_shift < n < 2 * max_shift
    if not (matters and is_late and squares[n] < MAX_RESIDUAL_RATIO * squares[max_shift]):
        return 0.0
    error_before, min_error, error_after = squares[n - 1 : n + 2]
    curvature = error_before - 2.0 * min_error + error_after
    vertex = 0.5 * (error_before - error_after) / curvature
    return float(n - max_shift + vertex) / rate
