# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled code around a kernel: its entries for one state and for lanes, and the rows of a batch.

Entries have plain addresses as arguments; the extension (``machine_code/extension.py``) calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel import packing
from ..kernel.fields import MAX_CONSTRAINTS, Field, Option, axis_lengths
from ..kernel.joints import compute_sines
from ..kernel.lanes import (
    LANES,
    all_above,
    clear_tile_past_caches,
    floats_at,
    gather_tile,
    integers_at,
    lanes_at,
    load,
    load_lane,
    load_simd,
    scatter_tile,
    scatter_tile_past_caches,
    store,
    store_simd,
)
from ..kernel.lie import UNIT_TOLERANCE
from ..machine_code import extension
from ..machine_code.compiler import Entry
from ..machine_code.declare import kernel
from ..model.model import Model
from .workspace import Workspace

REJECTED = -1
MAX_SINGLE_NUMBERS = 2  # states; copying more of them number by number takes longer than a tile
NUMBER = 8  # bytes
ROW = NUMBER * LANES  # bytes of one number of each state
TILE = ROW * LANES  # bytes
SCRATCH_NUMBERS = 2 * LANES * LANES
"""Memory that entries for the rows of a batch need, aligned to rows [numbers]."""
ALWAYS = (compute_sines,)
"""Kernels that every call for one state runs in addition to the kernel of the algorithm."""


# --- the entries of an algorithm


def make_state_entry(run: Callable[[Any], object]) -> Callable:
    """Return the entry for one state: a workspace of floats; returns the status."""

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = packing.KernelArgs(
            integers_at(ints),
            integers_at(call_ints),
            floats_at(floats),
            floats_at(work),
        )
        store(r.call_ints, packing.STATUS, 0)
        compute_sines(r)
        run(r)
        return load(r.call_ints, packing.STATUS)

    return call


def make_lanes_entry(run: Callable[[Any], object]) -> Callable:
    """Return the entry for ``LANES`` states; its caller clears the status."""

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = packing.KernelArgs(
            integers_at(ints), integers_at(call_ints), floats_at(floats), lanes_at(work)
        )
        run(r)
        return load(r.call_ints, packing.STATUS)

    return call


# --- the rows of a batch


@kernel
def _are_finite(lanes, start, count):
    """Return True if the numbers in some rows of lanes are finite."""
    for k in range(start, start + count):
        x = load(lanes, k)
        if not (all_above(math.inf, x) and all_above(x, -math.inf)):
            return False
    return True


@kernel
def _are_unit(lanes, start, count, offsets):
    """Return True if the quaternions at some offsets are unit, in every lane."""
    for n in range(count):
        k = start + load(offsets, n)
        x, y, z, w = (
            load(lanes, k),
            load(lanes, k + 1),
            load(lanes, k + 2),
            load(lanes, k + 3),
        )
        e = x * x + y * y + z * z + w * w - 1.0
        if not all_above(UNIT_TOLERANCE * UNIT_TOLERANCE, e * e):
            return False
    return True


@kernel
def _copy_row(target, source):
    """Copy ``LANES`` numbers from one address to another."""
    store(lanes_at(target), 0, load(lanes_at(source), 0))


@kernel
def _copy_few(target, source, count):
    """Copy less than ``LANES`` numbers from one address to another."""
    store_simd(floats_at(target), 0, count, load_simd(floats_at(source), 0, count))


@kernel
def _gather_rows(lanes, start, rows, columns, first, count, scratch):
    """Load rows into the lanes, repeating the last one if necessary.

    ``rows`` is an address, and ``scratch`` that of memory for two tiles: rows that are no whole
    tile are copied to the first one, and transposed to the second one if they are short.
    """
    row, i = NUMBER * columns, first * columns
    source, tile = rows + NUMBER * i, floats_at(scratch)
    if columns < LANES:
        short = lanes_at(scratch + TILE)
        for lane in range(LANES):
            _copy_few(scratch + ROW * lane, source + row * min(lane, count - 1), columns)
        gather_tile(tile, 0, LANES, short, 0)
        for k in range(columns):
            store(lanes, start + k, load(short, k))
        return
    last = columns - LANES
    for n in range((columns + LANES - 1) // LANES):
        k = min(LANES * n, last)
        if count == LANES:
            gather_tile(floats_at(rows), i + k, columns, lanes, start + k)
        else:
            for lane in range(LANES):
                _copy_row(scratch + ROW * lane, source + row * min(lane, count - 1) + NUMBER * k)
            gather_tile(tile, 0, LANES, lanes, start + k)


@kernel
def _scatter_rows(lanes, tiles, rows, columns, first, count, past_caches, empty, scratch):
    """Store the lanes in rows, including padding.

    Tiles of ``LANES`` columns begin at the rows of the workspace in ``tiles``; the one at ``empty``
    is zero. ``rows`` is an address, and ``scratch`` that of memory for a tile of rows that are not
    a whole one.
    """
    row, i, last = NUMBER * columns, first * columns, max(columns - LANES, 0)
    target, tile, floats = rows + NUMBER * i, floats_at(scratch), floats_at(rows)
    ntiles = (columns + LANES - 1) // LANES
    if columns < LANES:
        if columns == 0:
            return
        scatter_tile(lanes, load(tiles, 0), tile, 0, LANES)
        for lane in range(count):
            _copy_few(target + row * lane, scratch + ROW * lane, columns)
    elif count <= MAX_SINGLE_NUMBERS:
        for n in range(ntiles):
            k, start = load(tiles, n), i + min(LANES * n, last)
            for lane in range(count):
                for column in range(LANES):
                    x = load_lane(lanes, k + column, lane)
                    store(floats, start + lane * columns + column, x)
    elif count < LANES:
        for n in range(ntiles):
            start = NUMBER * min(LANES * n, last)
            scatter_tile(lanes, load(tiles, n), tile, 0, LANES)
            for lane in range(count):
                _copy_row(target + row * lane + start, scratch + ROW * lane)
    elif past_caches != 0:
        for n in range(ntiles):
            k = load(tiles, n)
            if k == empty:
                clear_tile_past_caches(floats, i + LANES * n, columns)
            else:
                scatter_tile_past_caches(lanes, k, floats, i + LANES * n, columns)
    else:
        for n in range(ntiles):
            start = min(LANES * n, last)
            scatter_tile(lanes, load(tiles, n), floats, i + start, columns)


@kernel
def _scatter_reordered(lanes, order, rows, columns, first, count, scratch):
    """Store the rows of the workspace in ``order``, one for each column, in rows.

    ``rows`` is an address, and ``scratch`` that of memory for two tiles.
    """
    row, last, width = NUMBER * columns, max(columns - LANES, 0), min(columns, LANES)
    target, tile, selected = rows + row * first, floats_at(scratch), lanes_at(scratch + TILE)
    for n in range((columns + LANES - 1) // LANES):
        start = min(LANES * n, last)
        for k in range(width):
            store(selected, k, load(lanes, load(order, start + k)))
        scatter_tile(selected, 0, tile, 0, LANES)
        for lane in range(count):
            to, source = target + row * lane + NUMBER * start, scratch + ROW * lane
            if width < LANES:
                _copy_few(to, source, width)
            else:
                _copy_row(to, source)


# What describes each array of a batch, in batches.c too: its address, its columns, and the place of
# an input in the workspace, with its quaternions, or the address of a result's tiles, or of the
# order of its columns.
ADDRESS, COLUMNS, START, QUATERNIONS, NQUATERNIONS, ARRAY = range(6)
TILES, PAST_CACHES, ORDER = START, QUATERNIONS, NQUATERNIONS


def gather_states(
    first: int, count: int, work: int, arrays: int, narrays: int, scratch: int
) -> int:
    """Load the inputs of some states into the lanes, and check them."""
    lanes, descriptors = lanes_at(work), integers_at(arrays)
    for n in range(0, ARRAY * narrays, ARRAY):
        columns, start = load(descriptors, n + COLUMNS), load(descriptors, n + START)
        rows = load(descriptors, n + ADDRESS)
        _gather_rows(lanes, start, rows, columns, first, count, scratch)
        if not (
            _are_finite(lanes, start, columns)
            and _are_unit(
                lanes,
                start,
                load(descriptors, n + NQUATERNIONS),
                integers_at(load(descriptors, n + QUATERNIONS)),
            )
        ):
            return REJECTED
    return 0


def scatter_states(
    first: int, count: int, work: int, arrays: int, narrays: int, scratch: int, empty: int
) -> int:
    """Store the results of some states."""
    lanes, descriptors = lanes_at(work), integers_at(arrays)
    for n in range(0, ARRAY * narrays, ARRAY):
        rows, columns = load(descriptors, n + ADDRESS), load(descriptors, n + COLUMNS)
        order = load(descriptors, n + ORDER)
        if order != 0:
            _scatter_reordered(lanes, integers_at(order), rows, columns, first, count, scratch)
        else:
            _scatter_rows(
                lanes,
                integers_at(load(descriptors, n + TILES)),
                rows,
                columns,
                first,
                count,
                load(descriptors, n + PAST_CACHES),
                empty,
                scratch,
            )
    return 0


GATHER = Entry("call-gather", gather_states, "qqqqqq")
SCATTER = Entry("call-scatter", scatter_states, "qqqqqqq")


# --- how the extension finds what it reads


def kernel_args_addresses(model: Model, workspace: Workspace) -> tuple[int, int, int, int]:
    """Return the four addresses in ``KernelArgs``: ints, call_ints, floats, work."""
    ints, call_ints, floats, work = map(
        extension.native().address,
        (model._ints, workspace.call_ints, model._floats, workspace.work),
    )
    return ints, call_ints, floats, work


def locate_quaternions(model: Model) -> tuple[int, int]:
    """Return the address of the offsets of the quaternions in a configuration, and their number."""
    start = 8 * int(model._ints[packing.UNIT_LIST])
    return extension.native().address(model._ints) + start, int(model._ints[packing.NUNIT])


def option_shifts(options: Sequence[Option]) -> list[tuple[Option, int, int]]:
    """Return options with shifts and masks to extract them from a selector, lowest bits last."""
    return [
        (
            option,
            sum(later.bits for later in options[n + 1 :]),
            (1 << option.bits) - 1 if option.bits else -1,
        )
        for n, option in enumerate(options)
    ]


def option_rows(options: Sequence[Option], call_ints: int) -> NDArray[np.int64]:
    """Return options as the extension sets them: an address, a shift and a mask in each row."""
    rows = [
        (call_ints + 8 * (packing.OPTION + option), shift, mask)
        for option, shift, mask in option_shifts(options)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def open_input_rows(field: Field) -> int:
    """Return the rows of an input with a variable last axis, 1 for a vector."""
    return math.prod(int(axis) for axis in field.shape[:-1])


def prepare_call(
    algorithm: Any,
    data: Any,
    workspace: Workspace,
    code: int,
    results: Any,
    finish: Callable[[], Any] | None,
) -> Any:
    """Return the call for one state of a Data, for the extension; ``code`` is an address."""
    model, places = data.model, kernel_args_addresses(data.model, workspace)
    call_ints, work = places[1], places[3]
    inputs = [
        (
            work + 8 * workspace.offset(f),
            call_ints + 8 * (packing.HAS_INPUT + f),
            *_input_shape(model, f),
            f not in algorithm.optional,
            f.is_open,
            f.shape == ("nq",),
        )
        for f in algorithm.inputs
    ]
    return extension.native().Prepared(
        model,
        (workspace, model._ints, model._floats),
        results,
        finish,
        np.array(
            [
                (
                    code,
                    *places,
                    call_ints + 8 * packing.NCONSTRAINTS,
                    MAX_CONSTRAINTS,
                    *locate_quaternions(model),
                )
            ]
        ),
        np.array(inputs, np.int64),
        option_rows(algorithm.options, call_ints),
    )


def _input_shape(model: Model, field: Field) -> tuple[int, int]:
    """Return the rows and columns of an input; no columns for a vector or an open input."""
    if field.is_open:
        return open_input_rows(field), 0
    rows, columns = (*axis_lengths(model, field.shape), 0)[:2]
    return rows, columns
