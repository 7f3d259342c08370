# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether measured velocities lag behind positions, as after slow filters."""

from __future__ import annotations

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model.coordinates import joint_slices
from ...engine.model.model import Model
from . import filtering

LONGEST = 0.5  # s: of lags that are tried
MIN_DURATION = 3.0 * LONGEST  # s
SAMPLING_RATE = 200.0  # Hz, about: of the samples that are compared
DIFFERENCE = 0.05  # of the velocity (RMS): a lag that matters
UNEXPLAINED = 0.5  # of the squared difference, at most, once velocities are shifted


def late_velocities(model: Model, time: Array, q: Array, v: Array) -> str:
    """A sentence on velocities that are late, without a remedy; empty if none is.

    ``time`` (n,) [s] increases, ``q`` (n, nq) and ``v`` (n, nv) are as measured, without gaps.
    """
    late = {}
    for joint in joint_slices(model):
        if joint.v.stop - joint.v.start == 1 and (
            found := _lag(time, q[:, joint.q.start], v[:, joint.v.start])
        ):
            late[joint.name] = found
    if not late:
        return ""
    ends = [f"{1e3 * x:.3g}" for x in (min(late.values()), max(late.values()))]
    return (
        f"the velocities of {', '.join(late)} lag behind the positions by "
        f"{' to '.join(dict.fromkeys(ends))} ms"
    )


def _lag(time: Array, q: Array, v: Array) -> float:
    """By how much velocities are late [s]; 0 if they are not, or it does not matter."""
    if len(time) < 2 or time[-1] - time[0] < MIN_DURATION:
        return 0.0
    rate = (len(time) - 1) / (time[-1] - time[0])
    cutoff = filtering.highest_cutoff(rate)
    some = slice(None, None, max(1, round(rate / SAMPLING_RATE)))
    expected = filtering.derivatives(time, np.unwrap(q), cutoff, 1)[1][some]
    measured = filtering.derivatives(time, v, cutoff, 0)[0][some]
    rate *= len(expected) / len(time)
    most = round(LONGEST * rate)
    first = most + filtering.settling_samples(rate, cutoff)
    reference = expected[first : len(expected) - first]
    if not reference.any():
        return 0.0
    squares = np.array(
        [
            np.square(measured[k : k + len(reference)] - reference).sum()
            for k in range(first - most, first + most + 1)
        ]
    )
    n = int(np.argmin(squares))
    matters = squares[most] > DIFFERENCE**2 * float(reference @ reference)
    if not (matters and most < n < 2 * most and squares[n] < UNEXPLAINED * squares[most]):
        return 0.0
    before, least, after = squares[n - 1 : n + 2]
    return float(n - most + 0.5 * (before - after) / (before - 2.0 * least + after)) / rate
