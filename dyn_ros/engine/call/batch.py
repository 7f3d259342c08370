# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Batches: arrays for the results, tiles for copying them, and threads."""
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel import layout
from ..kernel.fields import EMPTY, Axis, Field, axis_lengths, public_view
from ..kernel.lanes import LANES
from ..kernel.types import Array
from ..model.model import Model
from . import native
from .data import Data
from .workspace import Workspace

_NOTHING = np.zeros((0, 0))         # the batch of an omitted input
_MOST_SUMMED = 1 << 13              # states; a multiple of LANES
_NO_TILES: NDArray[np.int64] = np.zeros(0, np.int64)


class BatchSpace:
    """One thread's memory for the batches of an algorithm, whose kernel refers to ``fields``."""

    def __init__(self, model: Model, fields: set[Field]) -> None:
        self._workspace = Workspace(model, fields | {EMPTY}, lanes=True)
        self._tiles: dict[tuple[Field, int], NDArray[np.int64]] = {}
        self.totals: dict[Field, Array] = {}
        self.addresses = tuple(array.ctypes.data for array in (
            model._ints, self._workspace.table, model._floats, self._workspace.work))

    def add_up(self, call: Callable[[int, int], int], start: int, stop: int,
               sums: Sequence[Field]) -> int:
        """Call with parts of a thread's states; set ``totals`` to the sums of all of them.

        Rounding errors grow with the number of states in a part, which is therefore limited.
        Returns the status.
        """
        self.totals = {known: np.zeros_like(self._sum(known)) for known in sums}
        status = 0
        for first, last in self._parts(start, stop):
            for known in sums:
                self._sum(known)[...] = 0.0
            outcome = call(first, last)
            if outcome == native.REJECTED:
                return outcome
            status = status or outcome
            for known in sums:
                self.totals[known] += self._sum(known)
        return status

    def _sum(self, known: Field) -> Array:
        return public_view(self._workspace.model, known, self._workspace[known])

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Ranges of states; the table states how many lanes of their last tile hold one."""
        middle = stop - (stop - start) % LANES
        self._workspace.table[layout.NSTATES] = LANES
        for first in range(start, middle, _MOST_SUMMED):
            yield first, min(first + _MOST_SUMMED, middle)
        self._workspace.table[layout.NSTATES] = stop - middle
        if middle < stop:
            yield middle, stop

    def tile_offsets(self, known: Field, columns: int) -> NDArray[np.int64]:
        """Offsets of the tiles of ``LANES`` numbers that make up the rows of a result.

        The last tile ends with its row. Tiles that are empty because of the tree refer to a block
        of zeros, which stays in the caches. A sum has none: it is not copied to rows.
        """
        if known.summed:
            return _NO_TILES
        if (known, columns) not in self._tiles:
            first = np.minimum(np.arange(0, columns, LANES), max(columns - LANES, 0))
            tiles = self._workspace.offset(known) + first
            if known.shape[:1] == ("rows",):        # without the universe
                tiles += math.prod(known.shape[1:])
            if known.sparse:
                full = np.zeros(columns + LANES, bool)
                tree = _nonzeros(self._workspace.model, known.shape)
                full[:tree.size] = tree.ravel()
                empty = ~full[first[:, None] + np.arange(LANES)].any(axis=1)
                tiles[empty] = self._workspace.offset(EMPTY)
            self._tiles[known, columns] = tiles
        return self._tiles[known, columns]


def _nonzeros(model: Model, shape: tuple[Axis, ...]) -> NDArray[np.bool_]:
    """Whether the entries of a sparse field can differ from zero."""
    if shape == ("nv", "parameters"):
        return _carried(model)
    return _along_tree(model, len(shape))


def _carried(model: Model) -> NDArray[np.bool_]:
    """Whether the parameters in the columns are those of bodies that the velocity moves."""
    mask = np.zeros((model.nv, model.njoints, 10), bool)
    for joint, subtree in zip(model._tree_table[1:], model.subtrees):
        start = joint[layout.IDX_V]
        mask[start:start + joint[layout.NCOLUMNS], subtree] = True
    return mask


def _along_tree(model: Model, axes: int) -> NDArray[np.bool_]:
    """Whether tuples of velocities are pairwise in the same branch; one axis per velocity."""
    k, (_, end) = np.arange(model.nv), model._velocity_tree
    before = (k[:, None] <= k) & (k < end[:, None])
    pairs = before | before.T
    return pairs if axes == 2 else pairs[:, :, None] & pairs[:, None, :] & pairs


def as_rows(batch: Array | None) -> Array:
    """Convert a batch of matrices to a batch of rows."""
    if batch is None:
        return _NOTHING
    return batch if batch.ndim == 2 else batch.reshape(len(batch), math.prod(batch.shape[1:]))


def new_result(data: Data, known: Field, size: int, constraints: int) -> tuple[Array, Array]:
    """Allocate the results of a batch, one row per state, and the view to return.

    Long rows are padded to whole cache lines. For a sum they are empty, and the view is a new
    array of one sum.
    """
    if known.summed:
        return np.empty((size, 0)), np.zeros(axis_lengths(data.model, known.shape))
    shape = axis_lengths(data.model, known.shape, constraints)
    if known.shape[:1] == ("rows",):
        shape = (shape[0] - 1, *shape[1:])
    count = math.prod(shape)
    padded = -(-count // LANES) * LANES if count >= LANES * LANES else count
    rows = data._buffer_pool.array((size, padded))
    results = rows[:, :count].reshape(size, *shape)
    return rows, results.swapaxes(-1, -2) if known.transposed else results


def in_parts(data: Data, size: int, threads: int,
             run: Callable[[int, int, int], Any]) -> Sequence[Any]:
    """Call ``run(thread, start, stop)`` for each thread's part of a batch; return the results."""
    step = -(-size // threads // LANES) * LANES or LANES
    starts = range(0, size, step)

    def part(start: int) -> Any:
        return run(start // step, start, min(start + step, size))

    return data._threads.share(part, starts) if len(starts) > 1 else [part(n) for n in starts]
