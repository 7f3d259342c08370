# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory: the workspace of one algorithm, and buffers for large results, which are reused."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel import packing
from ..kernel.fields import Field, axis_lengths, initialize
from ..kernel.lanes import SIMD_WIDTH
from ..kernel.types import Array
from ..model.model import Model
from .batch_rows import DOUBLE, Precision

_ALIGNMENT = 64  # bytes: one row of lanes
MIN_POOLED_SIZE = 1 << 17  # bytes; NumPy or buffers.c allocate smaller results
MAX_FREE_SIZE = 1 << 30  # bytes in free buffers
MAX_FREE_BUFFERS = 32  # enough for a few calls
_PADDING = 2 * SIMD_WIDTH  # numbers; kernels and tiles of results may read past the last row


def allocate_aligned(new: Callable[[int], Array], count: int) -> Array:
    """Allocate an array with ``new``, np.empty or np.zeros, aligned to a row of lanes."""
    buffer = new(count + _ALIGNMENT // 8)
    start = (-buffer.ctypes.data % _ALIGNMENT) // 8
    return buffer[start : start + count]


def new_field(model: Model, field: Field) -> Array:
    """Return the array of a public field, including the universe: zeros, or identity placements."""
    shape = axis_lengths(model, field.shape)
    count = math.prod(shape)
    array = allocate_aligned(np.zeros, count + _PADDING)[:count].reshape(shape)
    if field.holds_placements:
        initialize(field, array, 0.0)
    return array


class Workspace:
    """Memory for the fields of one algorithm, of one state or of several in lanes.

    ``fields`` are all that the kernel refers to. ``public_arrays`` belong to ``Data``; all other
    fields are scratch of this algorithm: ``work``, (n,) or (n, lanes). See packing.py for
    ``call_ints``.
    """

    def __init__(
        self,
        model: Model,
        fields: Iterable[Field],
        lanes: bool = False,
        public_arrays: Mapping[Field, Array] | None = None,
        precision: Precision = DOUBLE,
    ) -> None:
        self.model = model
        self._public_arrays = dict(public_arrays or {})  # keeps their memory
        self.call_ints: NDArray[np.int64] = np.zeros(packing.CALL_INTS, np.int64)
        self._private, end = [], 0
        for field in sorted(fields):
            shape = axis_lengths(model, field.shape)
            self.call_ints[packing.SIZE + field] = math.prod(shape)
            if field not in self._public_arrays:
                self._private.append((field, end, shape))
                count = math.prod(shape)
                end += -(-count // precision.lanes) if lanes and field.summed else count
        rows = (end + _PADDING, precision.lanes) if lanes else (end + _PADDING,)
        memory = allocate_aligned(np.zeros, precision.size * math.prod(rows) // 8)
        self.work = memory.view(precision.dtype).reshape(rows)
        for field, start, shape in self._private:
            self.call_ints[packing.OFFSET + field] = start
            if not field.zeros:
                initialize(field, self._part(field, start, shape), np.nan)
        for field, array in self._public_arrays.items():
            self.call_ints[packing.OFFSET + field] = (
                array.ctypes.data - self.work.ctypes.data
            ) // 8

    def _part(self, field: Field, start: int, shape: tuple[int, ...]) -> Array:
        count = math.prod(shape)
        if field.summed:
            return self.work[start:].reshape(-1)[:count].reshape(shape)
        return self.work[start : start + count].reshape(shape + self.work.shape[1:])

    def __getitem__(self, field: Field) -> Array:
        """Return the array of a field, including the universe."""
        if field in self._public_arrays:
            return self._public_arrays[field]
        return self._part(
            field,
            int(self.call_ints[packing.OFFSET + field]),
            axis_lengths(self.model, field.shape),
        )

    def offset(self, field: Field) -> int:
        """Return the offset of a field, in rows of the workspace."""
        return int(self.call_ints[packing.OFFSET + field])


class _Loan:
    """A buffer used by an array, returned to the pool when the last view is deleted."""

    def __init__(
        self, buffer: Array, shape: tuple[int, ...], free: dict[int, Array], dtype: np.dtype[Any]
    ) -> None:
        self._buffer, self._free = buffer, free
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
            "data": (buffer.ctypes.data, False),
        }

    def __del__(self) -> None:
        self._free[id(self._buffer)] = self._buffer
        free_size = 0
        for number, (key, buffer) in enumerate(reversed(list(self._free.items()))):
            free_size += buffer.nbytes
            if number >= MAX_FREE_BUFFERS or free_size > MAX_FREE_SIZE:
                self._free.pop(key, None)


class BufferPool:
    """Allocates large results in the buffers of earlier ones that are no longer referenced.

    New memory takes as long as the computation of the numbers in it, because the system clears
    it. The last view can be deleted in any thread, also during ``array``; the dictionary of free
    buffers is therefore modified by atomic operations only.
    """

    def __init__(self) -> None:
        self._free: dict[int, Array] = {}  # buffers by identity, in order of return

    def array(self, shape: tuple[int, ...], precision: Precision = DOUBLE) -> Array:
        """Return an uninitialized array; large ones are aligned."""
        count = -(-precision.size * math.prod(shape) // 8)
        if 8 * count < MIN_POOLED_SIZE:
            return np.empty(shape, precision.dtype)
        buffer = self._taken(count)
        if buffer is None:
            buffer = allocate_aligned(np.empty, count)
        return np.asarray(_Loan(buffer, shape, self._free, precision.dtype))

    def _taken(self, count: int) -> Array | None:
        """Take a free buffer of that many numbers, or return None."""
        for key, buffer in reversed(list(self._free.items())):
            if buffer.size == count and self._free.pop(key, None) is not None:
                return buffer
        return None
