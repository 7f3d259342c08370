# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The memory of one algorithm: inputs and scratch, and the table of their offsets."""
import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..kernel import layout
from ..kernel.fields import Field, axis_lengths, initialize
from ..kernel.lanes import LANES
from ..kernel.types import Array
from ..model.model import Model
from .buffer_pool import aligned

_BEHIND = LANES                                     # kernels may read past the last row


def new_field(model: Model, known: Field) -> Array:
    """The array of a public field, including the universe: zeros, or identity placements."""
    shape = axis_lengths(model, known.shape)
    count = math.prod(shape)
    array = aligned(np.zeros, count + _BEHIND)[:count].reshape(shape)
    if known.holds_placements:
        initialize(known, array, 0.0)
    return array


class Workspace:
    """Memory for the fields of one algorithm, of one state or of ``LANES`` states at once.

    ``fields`` are all that the kernel refers to. The ``published`` ones have memory in ``Data``;
    all others are scratch of this algorithm: ``work``, (n,) or (n, LANES). See layout for
    ``table``.
    """

    def __init__(self, model: Model, fields: Iterable[Field], lanes: bool = False,
                 published: Mapping[Field, Array] | None = None) -> None:
        self.model = model
        self._published = dict(published or {})     # which keeps their memory
        self.table: NDArray[np.int64] = np.zeros(layout.TABLE, np.int64)
        self._private, end = [], 0
        for known in sorted(fields):
            shape = axis_lengths(model, known.shape)
            self.table[layout.SIZE + known] = math.prod(shape)
            if known not in self._published:
                self._private.append((known, end, shape))
                count = math.prod(shape)
                end += -(-count // LANES) if lanes and known.summed else count
        rows = (end + _BEHIND, LANES) if lanes else (end + _BEHIND,)
        self.work = aligned(np.zeros, math.prod(rows)).reshape(rows)
        for known, start, shape in self._private:
            self.table[layout.OFFSET + known] = start
            if not known.zeros:
                initialize(known, self._part(known, start, shape), np.nan)
        for known, array in self._published.items():
            self.table[layout.OFFSET + known] = (array.ctypes.data - self.work.ctypes.data) // 8

    def _part(self, known: Field, start: int, shape: tuple[int, ...]) -> Array:
        count = math.prod(shape)
        if known.summed:
            return self.work[start:].reshape(-1)[:count].reshape(shape)
        return self.work[start:start + count].reshape(shape + self.work.shape[1:])

    def __getitem__(self, known: Field) -> Array:
        """The array of a field, including the universe."""
        if known in self._published:
            return self._published[known]
        return self._part(known, int(self.table[layout.OFFSET + known]),
                          axis_lengths(self.model, known.shape))

    def offset(self, known: Field) -> int:
        """Offset of a field, in rows of the workspace."""
        return int(self.table[layout.OFFSET + known])
