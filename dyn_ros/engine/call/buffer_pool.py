# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Aligned memory, and reuse of the memory of large results."""
import math
from collections.abc import Callable

import numpy as np

from ..kernel.types import Array

_ALIGNMENT = 64                                     # bytes: one row of lanes
_LARGE, _KEPT = 1 << 17, 1 << 30                    # bytes: large result, most free memory kept
_MOST = 32                                          # free buffers: enough for a few calls


def aligned(new: Callable[[int], Array], count: int) -> Array:
    """Allocate an array with ``new``, np.empty or np.zeros, aligned to a row of lanes."""
    buffer = new(count + _ALIGNMENT // 8)
    start = (-buffer.ctypes.data % _ALIGNMENT) // 8
    return buffer[start:start + count]


class _Loan:
    """A buffer used by an array, returned to the pool when the last view is deleted."""

    def __init__(self, buffer: Array, shape: tuple[int, ...], free: dict[int, Array]) -> None:
        self._buffer, self._free = buffer, free
        self.__array_interface__ = {"shape": shape, "typestr": "<f8", "version": 3,
                                    "data": (buffer.ctypes.data, False)}

    def __del__(self) -> None:
        self._free[id(self._buffer)] = self._buffer
        kept = 0
        for number, (key, buffer) in enumerate(reversed(list(self._free.items()))):
            kept += buffer.nbytes
            if number >= _MOST or kept > _KEPT:
                self._free.pop(key, None)


class BufferPool:
    """Allocates large results in the buffers of earlier ones that are no longer referenced.

    New memory takes as long as the computation of the numbers in it, because the system clears
    it. The last view can be deleted in any thread, also during ``array``; the dictionary of free
    buffers is therefore modified by atomic operations only.
    """

    def __init__(self) -> None:
        self._free: dict[int, Array] = {}           # by identity, in order of return

    def array(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialized float64 array; large ones are aligned."""
        count = math.prod(shape)
        if 8 * count < _LARGE:
            return np.empty(shape)
        buffer = self._taken(count)
        if buffer is None:
            buffer = aligned(np.empty, count)
        return np.asarray(_Loan(buffer, shape, self._free))

    def _taken(self, count: int) -> Array | None:
        """Take a free buffer of that many numbers, or return None."""
        for key, buffer in reversed(list(self._free.items())):
            if buffer.size == count and self._free.pop(key, None) is not None:
                return buffer
        return None
