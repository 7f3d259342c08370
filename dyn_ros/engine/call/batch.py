# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Batches: arrays for the results, tiles for copying them, and threads."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel import packing
from ..kernel.fields import EMPTY, Axis, Field, axis_lengths, public_view
from ..kernel.lanes import LANES
from ..kernel.types import Array
from ..machine_code import extension
from ..machine_code.declare import JIT
from ..model.model import Model
from . import entries
from .data import Data
from .workspace import Workspace, allocate_aligned

NO_ROWS = np.zeros((0, 0))
"""The rows of an omitted input, and of a result that the caller does not return."""
_extension: Any = extension.native() if JIT else None
_MAX_SUMMED_STATES = 1 << 13  # states; a multiple of LANES
_MAX_RESULT_AXES = 3  # for one state; MAX_AXES in small_batch.c
_CACHE_LINE = 8  # numbers in a cache line, as in batches.c
_MIN_UNCACHED_NUMBERS = 1 << 20  # larger results do not stay in the caches


class BatchSpace:
    """One thread's memory for the batches of an algorithm."""

    def __init__(self, model: Model, algorithm: Any) -> None:
        program = algorithm.program(model)
        self._workspace = Workspace(model, program.fields | {EMPTY}, lanes=True)
        self._tiles: dict[tuple[Field, int], tuple[NDArray[np.int64], int]] = {}
        self.totals: dict[Field, Array] = {}
        call_ints: Any = self._workspace.call_ints
        self._options, self._call_ints = (
            entries.option_shifts(algorithm.options),
            memoryview(call_ints),
        )
        self._varying = [
            (n, f) for n, f in enumerate(algorithm.inputs) if f in algorithm.optional or f.is_open
        ]
        self._open_results = [(n, f) for n, f in enumerate(algorithm.results) if f.is_open]
        for f in algorithm.inputs:
            self._call_ints[packing.HAS_INPUT + f] = True
        self._scratch = allocate_aligned(np.zeros, entries.SCRATCH_NUMBERS)
        offset, quaternions = self._workspace.offset, entries.locate_quaternions(model)
        # Descriptors that entries.GATHER and entries.SCATTER read
        self._inputs = np.array(
            [
                (0, 0, offset(f), *(quaternions if f.shape == ("nq",) else (0, 0)))
                for f in algorithm.inputs
            ],
            np.int64,
        )
        self._outputs = np.zeros((len(algorithm.results), entries.ARRAY), np.int64)
        for n, f in enumerate(algorithm.results):
            if not (f.is_open or f.summed):
                self._outputs[n, entries.TILES] = self._address_of_tiles(
                    f, _row_length(_row_shape(model, f, 0))
                )
        self._arguments = (
            program.lanes.address,
            entries.GATHER.address,
            entries.SCATTER.address,
            *entries.kernel_args_addresses(model, self._workspace),
            LANES,
            offset(EMPTY),
            self._inputs,
            len(self._inputs),
            self._outputs,
            len(self._outputs),
            self._scratch,
        )
        self._past_caches = False

    def pass_arguments(
        self, selector: int, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> None:
        """Set what ``run`` reads and writes, as rows, and its options.

        Rows without columns are omitted inputs, sums, and results that are not returned. They must
        outlive ``run``.
        """
        call_ints = self._call_ints
        _extension.set_arrays(self._inputs, inputs)
        total = _extension.set_arrays(self._outputs, outputs)
        self._past_caches = total >= _MIN_UNCACHED_NUMBERS
        for option, shift, mask in self._options:
            call_ints[packing.OPTION + option] = selector >> shift & mask
        call_ints[packing.NCONSTRAINTS] = 0
        for n, f in self._varying:
            columns = inputs[n].shape[1]
            call_ints[packing.HAS_INPUT + f] = columns > 0
            if f.is_open and columns:
                call_ints[packing.NCONSTRAINTS] = columns // entries.open_input_rows(f)
        for n, f in self._open_results:
            self._outputs[n, entries.TILES] = self._address_of_tiles(f, outputs[n].shape[1])

    def run(self, start: int, stop: int) -> int:
        """Run on a range of rows; return the status."""
        return _extension.run_batch(*self._arguments, start, stop, self._past_caches)

    def prepare(
        self,
        algorithm: Any,
        results: Sequence[Field],
        make: Callable[..., Any] | None,
        constraints: int,
    ) -> Any:
        """Return the extension's object for batches with small results.

        It is for one number of constraints, and one choice of ``results``.
        """
        model, call_ints = self._workspace.model, _extension.address(self._workspace.call_ints)
        addresses = [
            _extension.address(x) if isinstance(x, np.ndarray) else x for x in self._arguments
        ]
        inputs = [
            (
                call_ints + 8 * (packing.HAS_INPUT + f),
                f not in algorithm.optional,
                len(f.shape),
                *(*axis_lengths(model, f.shape, constraints), 1)[:2],
            )
            for f in algorithm.inputs
        ]
        outputs = []
        for f in results:
            shape = _row_shape(model, f, constraints)
            length = _row_length(shape)
            axes = (*shape, *[1] * (_MAX_RESULT_AXES - len(shape)))
            tiles = self._address_of_tiles(f, length)
            row = algorithm.results.index(f)
            outputs.append((row, tiles, length, f.transposed, len(shape), *axes))
        return _extension.PreparedBatch(
            model,
            (self, model._ints, model._floats),
            make,
            np.array([(*addresses, 0, 0, False)], np.int64),
            call_ints + 8 * packing.NCONSTRAINTS,
            constraints,
            np.array(inputs, np.int64),
            np.array(outputs, np.int64),
            entries.option_rows(algorithm.options, call_ints),
        )

    def add_up(self, start: int, stop: int, sums: Sequence[Field]) -> int:
        """Run on parts of a thread's states; set ``totals`` to the sums of all of them.

        Rounding errors grow with the number of states in a part, which is therefore limited.
        Returns the status.
        """
        parts = {
            field: public_view(self._workspace.model, field, self._workspace[field])
            for field in sums
        }
        self.totals = {field: np.zeros_like(part) for field, part in parts.items()}
        status = 0
        for first, last in self._parts(start, stop):
            for part in parts.values():
                part[...] = 0.0
            outcome = self.run(first, last)
            if outcome == entries.REJECTED:
                return outcome
            status = status or outcome
            for field, part in parts.items():
                self.totals[field] += part
        return status

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of states, and store how many lanes of their last tile hold a state."""
        middle = stop - (stop - start) % LANES
        self._workspace.call_ints[packing.NSTATES] = LANES
        for first in range(start, middle, _MAX_SUMMED_STATES):
            yield first, min(first + _MAX_SUMMED_STATES, middle)
        self._workspace.call_ints[packing.NSTATES] = stop - middle
        if middle < stop:
            yield middle, stop

    def _address_of_tiles(self, field: Field, columns: int) -> int:
        """Return the address of the tiles' offsets; a sum has none, as it is not copied to rows."""
        if columns == 0:
            return 0
        if (field, columns) not in self._tiles:
            tiles = self._tile_offsets(field, columns)
            self._tiles[field, columns] = tiles, _extension.address(tiles)
        return self._tiles[field, columns][1]

    def _tile_offsets(self, field: Field, columns: int) -> NDArray[np.int64]:
        """Return the offsets of the tiles of ``LANES`` numbers that make up the rows of a result.

        The last tile ends with its row. Tiles that are empty because of the tree refer to a block
        of zeros, which stays in the caches.
        """
        first = np.minimum(np.arange(0, columns, LANES), max(columns - LANES, 0))
        tiles = self._workspace.offset(field) + first
        if field.shape[:1] == ("rows",):  # without the universe
            tiles += math.prod(field.shape[1:])
        if field.sparse:
            full = np.zeros(columns + LANES, bool)
            tree = _nonzero_entries(self._workspace.model, field.shape)
            full[: tree.size] = tree.ravel()
            empty = ~full[first[:, None] + np.arange(LANES)].any(axis=1)
            tiles[empty] = self._workspace.offset(EMPTY)
        return tiles


def _nonzero_entries(model: Model, shape: tuple[Axis, ...]) -> NDArray[np.bool_]:
    """Return a mask of the entries of a sparse field that can differ from zero."""
    if shape == ("nv", "parameters"):
        return _moved_parameters(model)
    return _same_branch(model, len(shape))


def _moved_parameters(model: Model) -> NDArray[np.bool_]:
    """Return a mask of the parameters in the columns of bodies that the velocity moves."""
    mask = np.zeros((model.nv, model.njoints, 10), bool)
    for joint, subtree in zip(model._tree_table[1:], model.subtrees):
        start = joint[packing.IDX_V]
        mask[start : start + joint[packing.NCOLUMNS], subtree] = True
    return mask


def _same_branch(model: Model, axes: int) -> NDArray[np.bool_]:
    """Return a mask of tuples of velocities that are pairwise in the same branch."""
    k, (_, end) = np.arange(model.nv), model._velocity_tree
    before = (k[:, None] <= k) & (k < end[:, None])
    pairs = before | before.T
    return pairs if axes == 2 else pairs[:, :, None] & pairs[:, None, :] & pairs


def as_rows(batch: Array | None) -> Array:
    """Convert a batch of matrices to a batch of rows."""
    if batch is None:
        return NO_ROWS
    return batch if batch.ndim == 2 else batch.reshape(len(batch), math.prod(batch.shape[1:]))


def _row_shape(model: Model, field: Field, constraints: int) -> tuple[int, ...]:
    shape = axis_lengths(model, field.shape, constraints)
    return (shape[0] - 1, *shape[1:]) if field.shape[:1] == ("rows",) else shape


def _row_length(shape: tuple[int, ...]) -> int:
    """Return the length of a result's rows [numbers]: long ones consist of whole cache lines."""
    count = math.prod(shape)
    return -(-count // _CACHE_LINE) * _CACHE_LINE if count >= _CACHE_LINE * _CACHE_LINE else count


def new_result(data: Data, field: Field, size: int, constraints: int) -> tuple[Array, Array]:
    """Allocate the results of a batch, one row per state, and the view to return.

    For a sum they are empty, and the view is a new array of one sum.
    """
    if field.summed:
        return np.empty((size, 0)), np.zeros(axis_lengths(data.model, field.shape))
    shape = _row_shape(data.model, field, constraints)
    rows = data._buffer_pool.array((size, _row_length(shape)))
    results = rows[:, : math.prod(shape)].reshape(size, *shape)
    return rows, results.swapaxes(-1, -2) if field.transposed else results


def run_in_threads(
    data: Data, size: int, threads: int, run: Callable[[int, int, int], Any]
) -> Sequence[Any]:
    """Call ``run(thread, start, stop)`` for each thread's part of a batch; return the results."""
    step = -(-size // threads // LANES) * LANES or LANES
    starts = range(0, size, step)

    def part(start: int) -> Any:
        return run(start // step, start, min(start + step, size))

    return data._threads.share(part, starts) if len(starts) > 1 else [part(n) for n in starts]
