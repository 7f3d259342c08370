# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A low pass of the first order over many samples."""
from numba import types

from ...kernel.compiler import Entry


def filter_samples(x, share, share_stride, value, filtered):
    """The signal after each sample, in order, in ``filtered``; and the last one in ``value``.

    x and filtered are (N, n). share is the part of the difference that a step covers;
    share_stride is 0 for one step of all samples, 1 for one for each sample.
    """
    for row in range(x.shape[0]):
        part = share[row * share_stride]
        for k in range(x.shape[1]):
            value[k] = value[k] + part * (x[row, k] - value[k])
            filtered[row, k] = value[k]
    return 0


_FLAT, _MATRIX = types.Array(types.float64, 1, "C"), types.Array(types.float64, 2, "C")
FILTER = Entry("momentum_observer-low_pass", filter_samples, types.int64(
    _MATRIX, _FLAT, types.int64, _FLAT, _MATRIX), nogil=True)
