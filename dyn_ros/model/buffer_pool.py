# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Aligned memory, and memory of large results that is used again."""
import math
from collections.abc import Callable

import numpy as np

from .types import Array

_ALIGNMENT = 64                                     # bytes: one row of lanes
_LARGE, _KEPT = 1 << 17, 1 << 30                    # bytes: of one result, of all that are free
_MOST = 32                                          # free buffers: what a few calls take


def aligned(new: Callable[[int], Array], count: int) -> Array:
    """An array from ``new``, np.empty or np.zeros, that starts at a whole row of lanes."""
    buffer = new(count + _ALIGNMENT // 8)
    start = (-buffer.ctypes.data % _ALIGNMENT) // 8
    return buffer[start:start + count]


class _Loan:
    """A buffer that an array uses; it returns to the pool when the last view is gone."""

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
    """New arrays for large results, in buffers of earlier ones that nothing refers to any more.

    Fresh memory costs as much as the numbers in it: the system has to clear it. The last view
    may go in any thread, also in the midst of ``array``: the dictionary of free buffers is only
    ever changed by one step of the interpreter.
    """

    def __init__(self) -> None:
        self._free: dict[int, Array] = {}           # by identity, the latest last

    def array(self, shape: tuple[int, ...]) -> Array:
        """An array of float64 with arbitrary numbers in it; a large one is aligned."""
        count = math.prod(shape)
        if 8 * count < _LARGE:
            return np.empty(shape)
        buffer = self._taken(count)
        if buffer is None:
            buffer = aligned(np.empty, count)
        return np.asarray(_Loan(buffer, shape, self._free))

    def _taken(self, count: int) -> Array | None:
        """A free buffer of that many numbers, or None."""
        for key, buffer in reversed(list(self._free.items())):
            if buffer.size == count and self._free.pop(key, None) is not None:
                return buffer
        return None
