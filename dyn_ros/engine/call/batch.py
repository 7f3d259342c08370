# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Batches: arrays for the results, tiles for copying them, and threads."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernel import packing
from ..kernel.fields import EMPTY, Axis, Field, axis_lengths, public_view
from ..kernel.lanes import LANES
from ..kernel.names import join_names
from ..kernel.types import Array
from ..kernel.validation import require_writable
from ..machine_code import extension
from ..machine_code.declare import JIT
from ..model.model import Model
from . import entries
from .batch_rows import ARRAY, DOUBLE, ORDER, REJECTED, TILES, Precision
from .data import Data
from .workspace import Workspace, allocate_aligned

NO_ROWS = np.zeros((0, 0))
"""The rows of an omitted input."""
_extension: Any = extension.native() if JIT else None
_MAX_SUMMED_STATES = 1 << 13  # states; a multiple of LANES
_MAX_RESULT_AXES = 3  # for one state; MAX_AXES in small_batch.c
_LONG_ROW = 8  # cache lines
_FLOATS = 5  # among the arguments of run_batch, as FLOATS in extension.h
_SINGLE_STATES = (300, 2), (10000, 3), (math.inf, 1)
"""Largest numbers in the results of a state, and of states that run one by one, as measured."""
_UNSET, _ZEROS, _PLACEMENTS, _COPIED = range(4)  # MemoryKind in small_batch.c
_NO_PLACE = (0,) * 6
"""What ``SingleStates.place`` returns for batches that run in lanes only."""
_FIRST_CACHE_SIZE = 1 << 15  # bytes
_MAX_LANES_SIZE = 1 << 22  # bytes of a workspace that is in the caches
_MIN_UNCACHED_SIZE = 1 << 23  # bytes; larger results do not stay in the caches


class BatchSpace:
    """One thread's memory for the batches of an algorithm."""

    def __init__(self, model: Model, algorithm: Any, precision: Precision) -> None:
        program, self._precision = algorithm.program(model), precision
        self._workspace = Workspace(
            model, program.fields | {EMPTY}, lanes=True, precision=precision
        )
        self._tiles: dict[tuple[Field, int], tuple[NDArray[np.int64], int]] = {}
        self._orders: dict[tuple[Field, tuple[int, ...]], tuple[NDArray[np.int64], int]] = {}
        self.totals: dict[Field, Array] = {}
        call_ints: Any = self._workspace.call_ints
        self._options, self._call_ints = (
            entries.option_shifts(algorithm.options),
            memoryview(call_ints),
        )
        self._varying = [
            (n, f) for n, f in enumerate(algorithm.inputs) if f in algorithm.optional or f.is_open
        ]
        self._results = algorithm.results
        for f in algorithm.inputs:
            self._call_ints[packing.HAS_INPUT + f] = True
        self._scratch = allocate_aligned(np.zeros, precision.scratch_numbers * precision.size // 8)
        offset, quaternions = self._workspace.offset, entries.locate_quaternions(model)
        # Descriptors that precision.gather and precision.scatter read
        self._inputs = np.array(
            [
                (0, 0, offset(f), *(quaternions if f.shape == ("nq",) else (0, 0)))
                for f in algorithm.inputs
            ],
            np.int64,
        )
        self._outputs = np.zeros((len(algorithm.results), ARRAY), np.int64)
        self._arguments = (
            program.entry_for(precision).address,
            precision.gather.address,
            precision.scatter.address,
            *entries.kernel_args_addresses(model, self._workspace),
            precision.lanes,
            offset(EMPTY),
            self._inputs,
            len(self._inputs),
            self._outputs,
            len(self._outputs),
            self._scratch,
            precision.size,
        )
        self._past_caches = False
        # The constants of the model in this precision, where a kernel reads them
        self._constants = model._floats.astype(precision.dtype, copy=False)
        if self._constants is not model._floats:
            arguments = list(self._arguments)
            arguments[_FLOATS] = _extension.address(self._constants)
            self._arguments = tuple(arguments)

    def pass_arguments(
        self,
        selector: int,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        shapes: Sequence[tuple[int, ...] | None],
    ) -> None:
        """Set what ``run`` reads and writes, as rows, and its options.

        Rows without columns are omitted inputs, sums, and results that are not returned. They must
        outlive ``run``. ``shapes`` are those of transposed results, whose rows are in another order
        than in the workspace.
        """
        call_ints = self._call_ints
        if self._constants is not self._workspace.model._floats:
            self._constants[...] = self._workspace.model._floats
        _extension.set_arrays(self._inputs, inputs)
        total = _extension.set_arrays(self._outputs, outputs)
        self._past_caches = total * self._precision.size >= _MIN_UNCACHED_SIZE
        for option, shift, mask in self._options:
            call_ints[packing.OPTION + option] = selector >> shift & mask
        call_ints[packing.NCONSTRAINTS] = 0
        for n, f in self._varying:
            columns = inputs[n].shape[1]
            call_ints[packing.HAS_INPUT + f] = columns > 0
            if f.is_open and columns:
                call_ints[packing.NCONSTRAINTS] = columns // entries.open_input_rows(f)
        for n, (f, rows, shape) in enumerate(zip(self._results, outputs, shapes)):
            self._outputs[n, TILES] = self._address_of_tiles(f, rows.shape[1])
            self._outputs[n, ORDER] = self._address_of_order(f, shape) if shape else 0

    def run(self, start: int, stop: int) -> int:
        """Run on a range of rows; return the status."""
        return _extension.run_batch(*self._arguments, start, stop, self._past_caches)

    def prepare(
        self,
        algorithm: Any,
        results: Sequence[Field],
        make: Callable[..., Any] | None,
        constraints: int,
        single: "SingleStates | None",
        max_single_states: int,
    ) -> Any:
        """Return the extension's object for batches with small results.

        It is for one number of constraints, and one choice of ``results``. Without ``single``, all
        batches run in lanes.
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
            length = _row_length(shape, self._precision)
            axes = (*shape, *[1] * (_MAX_RESULT_AXES - len(shape)))
            tiles = self._address_of_tiles(f, length)
            own_tiles = self._address_of_tiles(f, math.prod(shape))
            order = self._address_of_order(f, shape) if f.transposed else 0
            outputs.append(
                (
                    algorithm.results.index(f),
                    tiles,
                    own_tiles,
                    order,
                    length,
                    *(single.place(f, constraints) if single else _NO_PLACE),
                    f.transposed,
                    len(shape),
                    *axes,
                )
            )
        return _extension.PreparedBatch(
            model,
            (self, model._ints, model._floats),
            make,
            single and single.prepared,
            max_single_states,
            np.array([(*addresses, 0, 0, False)], np.int64),  # FIRST, LAST, IS_LARGE
            call_ints + 8 * packing.NCONSTRAINTS,
            constraints,
            np.array(inputs, np.int64),
            np.array(outputs, np.int64),
            entries.option_rows(algorithm.options, call_ints),
            model._floats[:0] if self._constants is model._floats else model._floats,
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
            if outcome == REJECTED:
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

    def _address_of_order(self, field: Field, shape: tuple[int, ...]) -> int:
        """Return the address of the rows of the workspace for each column of a transposed result.

        ``shape`` is that of one state, before the transposition.
        """
        if (field, shape) not in self._orders:
            rows = _first_row(self._workspace, field) + np.arange(math.prod(shape)).reshape(shape)
            order = np.ascontiguousarray(rows.swapaxes(-1, -2).ravel())
            self._orders[field, shape] = order, _extension.address(order)
        return self._orders[field, shape][1]

    def _tile_offsets(self, field: Field, columns: int) -> NDArray[np.int64]:
        """Return the offsets of the tiles that make up the rows of a result.

        A tile has as many columns as there are lanes; the last one ends with its row. Tiles that
        are empty because of the tree refer to a block of zeros, which stays in the caches.
        """
        lanes = self._precision.lanes
        first = np.minimum(np.arange(0, columns, lanes), max(columns - lanes, 0))
        tiles = _first_row(self._workspace, field) + first
        if field.sparse:
            full = np.zeros(columns + lanes, bool)
            tree = _nonzero_entries(self._workspace.model, field.shape)
            full[: tree.size] = tree.ravel()
            empty = ~full[first[:, None] + np.arange(lanes)].any(axis=1)
            tiles[empty] = self._workspace.offset(EMPTY)
        return tiles


def _memory_kind(field: Field) -> int:
    """Return what the memory of a result must hold before a kernel writes to it."""
    if field.is_open:
        return _COPIED
    return _PLACEMENTS if field.holds_placements else _ZEROS if field.zeros else _UNSET


class SingleStates(NamedTuple):
    """The memory of an algorithm for batches that run on one state after the other."""

    workspace: Workspace
    prepared: Any  # the extension's object

    def place(self, field: Field, constraints: int) -> tuple[int, ...]:
        """Return where a result is, and what its kernel expects, as a BatchOutput."""
        workspace, first_row = self.workspace, _first_row(self.workspace, field)
        universe_length = first_row - workspace.offset(field)
        shape = _row_shape(workspace.model, field, constraints)
        return (
            _extension.address(workspace.work) + 8 * first_row,
            _extension.address(workspace.call_ints) + 8 * (packing.OFFSET + field),
            workspace.offset(field),
            universe_length,
            _memory_kind(field),
            _row_length((universe_length + math.prod(shape),), DOUBLE),
        )


def max_single_states(workspace: Workspace, results: Sequence[Field]) -> int:
    """Return the largest number of states that one state after the other is faster for.

    It depends on the function and the model alone, so that results are reproducible: both ways
    round differently. A tile of lanes takes less time than two states if it is in the first cache.
    Otherwise, it takes as long as two, or three if it stores more results, which are then copied
    for a single state, unless they are too many. Above the size of the caches, lanes are slower for
    any number of states.
    """
    size = 8 * LANES * workspace.work.size
    if size > _MAX_LANES_SIZE:
        return sys.maxsize
    if size <= _FIRST_CACHE_SIZE:
        return 1
    numbers = sum(math.prod(axis_lengths(workspace.model, f.shape)) for f in results)
    return next(states for limit, states in _SINGLE_STATES if numbers <= limit)


def _first_row(workspace: Workspace, field: Field) -> int:
    """Return the row of a workspace with the first number of a result."""
    start = workspace.offset(field)
    if field.shape[:1] != ("rows",):
        return start
    return start + math.prod(axis_lengths(workspace.model, field.shape[1:]))


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


def _row_length(shape: tuple[int, ...], precision: Precision) -> int:
    """Return the length of a result's rows [numbers]: long ones consist of whole cache lines."""
    count, line = math.prod(shape), precision.cache_line
    return -(-count // line) * line if count >= _LONG_ROW * line else count


class Result(NamedTuple):
    """The memory of a result of a batch."""

    rows: Array  # one for each state, without columns for a sum
    array: Array  # what the caller returns
    transposed_shape: tuple[int, ...] | None = None  # of one state, if rows are in another order


NO_RESULT = Result(NO_ROWS, NO_ROWS)
"""The memory of a result that the caller does not return."""


def new_result(data: Data, field: Field, size: int, constraints: int) -> Result:
    """Allocate a result of a batch, with a view of the rows to return.

    For a sum the rows are empty, and the view is a new array of one sum.
    """
    if field.summed:
        return Result(np.empty((size, 0)), np.zeros(axis_lengths(data.model, field.shape)))
    shape = _row_shape(data.model, field, constraints)
    precision = data._precision
    rows = data._buffer_pool.array((size, _row_length(shape, precision)), precision)
    results = rows[:, : math.prod(shape)].reshape(size, *shape)
    return Result(rows, results.swapaxes(-1, -2) if field.transposed else results)


def given_results(
    model: Model,
    fields: Sequence[Field],
    out: Any,
    size: int,
    constraints: int,
    inputs: dict[str, Array | None],
    dtype: np.dtype[Any],
) -> dict[Field, Result]:
    """Return the memory in an argument ``out`` by result; raise a ValueError if it cannot be used.

    ``inputs`` are arrays by name that the call reads while it writes results.
    """
    arrays = _arrays_by_name([field.name for field in fields], out)
    results: dict[Field, Result] = {}
    for field in fields:
        if (name := field.name.lstrip("_")) in arrays:
            shape = _row_shape(model, field, constraints)
            returned = (*shape[:-2], shape[-1], shape[-2]) if field.transposed else shape
            array = require_writable(f"out: {name}", arrays.pop(name), (size, *returned), dtype)
            rows = np.asarray(array).reshape(size, math.prod(shape))
            results[field] = Result(rows, array, shape if field.transposed else None)
    others = dict(inputs)
    for field, result in results.items():
        name = field.name.lstrip("_")
        for other, read in others.items():
            if read is not None and np.may_share_memory(result.rows, read):
                raise ValueError(
                    f"out: {name} shares memory with {other}; pass an array of its own"
                )
        others[f"out: {name}"] = result.rows
    return results


def _arrays_by_name(names: Sequence[str], out: Any) -> dict[str, Any]:
    """Return the items of an argument ``out`` by the name of their result, without None."""
    names = [name.lstrip("_") for name in names]
    items = out if isinstance(out, (tuple, list)) else (out,)
    if len(items) > len(names) or len(set(names)) < len(names):
        listed = f"arrays for {join_names(names)}, in this order" if names else "None"
        raise ValueError(f"out: expected {listed}, got {len(items)}")
    return {name: item for name, item in zip(names, items) if item is not None}


def run_in_threads(
    data: Data, size: int, threads: int, run: Callable[[int, int, int], Any]
) -> Sequence[Any]:
    """Call ``run(thread, start, stop)`` for each thread's part of a batch; return the results."""
    lanes = data._precision.lanes
    step = -(-size // threads // lanes) * lanes or lanes
    starts = range(0, size, step)

    def part(start: int) -> Any:
        return run(start // step, start, min(start + step, size))

    return data._threads.share(part, starts) if len(starts) > 1 else [part(n) for n in starts]
