# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Efforts that stay at their maximum or minimum, as if drives are at a limit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array

_MIN_SAMPLES = 10
_MIN_COUNT_RATIO = 5.0  # samples at the largest value, relative to those at the second largest
_MAX_STEP = 0.1  # from the second largest to the largest value, relative to the range of efforts


def find_saturated_efforts(q: Array, tau: Array) -> tuple[NDArray[np.bool_], list[list[float]]]:
    """Return a mask (B, nv) of saturated efforts, and the values at which each joint saturates.

    A measured effort in motion rarely equals its largest value more than once. If it is rounded or
    held, its second largest value is as frequent. A torque that a simulation without noise keeps
    constant is separated from other torques by a larger step. Samples without motion are not
    counted, but marked. Ten public recordings of real arms contain no saturated effort.
    """
    moves = np.concatenate([[True], (q[1:] != q[:-1]).any(axis=1)])
    is_saturated = np.zeros(tau.shape, bool)
    values: list[list[float]] = [[] for _ in tau.T]
    for k, effort in enumerate(tau.T):
        for sign in (1.0, -1.0):
            outward = sign * effort
            largest = float(outward.max())
            is_largest = outward == largest
            count = np.count_nonzero(is_largest & moves)
            if largest <= 0.0 or count < _MIN_SAMPLES or is_largest.all():
                continue
            second = float(outward[~is_largest].max())
            if count >= _MIN_COUNT_RATIO * np.count_nonzero(
                (outward == second) & moves
            ) and largest - second <= _MAX_STEP * np.ptp(effort):
                is_saturated[:, k] |= is_largest
                values[k].append(sign * largest)
    return is_saturated, values
