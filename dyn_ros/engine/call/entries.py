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

from ..kernel import lanes as la
from ..kernel import packing as ly
from ..kernel.fields import MAX_CONSTRAINTS, Field, Option, axis_lengths
from ..kernel.joints import compute_sines
from ..kernel.lie import UNIT_TOLERANCE
from ..machine_code import extension
from ..machine_code.compiler import Entry
from ..machine_code.declare import kernel
from ..model.model import Model
from .workspace import Workspace

REJECTED = -1
ALWAYS = (compute_sines,)
"""Kernels that every call for one state runs in addition to the kernel of the algorithm."""


# --- the entries of an algorithm


def for_one(run: Callable[[Any], object]) -> Callable:
    """Return the entry for one state: a workspace of floats; returns the status."""

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = ly.KernelArgs(
            la.integers_at(ints),
            la.integers_at(call_ints),
            la.floats_at(floats),
            la.floats_at(work),
        )
        la.store(r.call_ints, ly.STATUS, 0)
        compute_sines(r)
        run(r)
        return la.load(r.call_ints, ly.STATUS)

    return call


def for_lanes(run: Callable[[Any], object]) -> Callable:
    """Return the entry for ``LANES`` states; its caller clears the status."""

    def call(ints: int, call_ints: int, floats: int, work: int) -> int:
        r = ly.KernelArgs(
            la.integers_at(ints), la.integers_at(call_ints), la.floats_at(floats), la.lanes_at(work)
        )
        run(r)
        return la.load(r.call_ints, ly.STATUS)

    return call


# --- the rows of a batch


@kernel
def _are_finite(lanes, start, count):
    """Return True if the numbers in some rows of lanes are finite."""
    for k in range(start, start + count):
        x = la.load(lanes, k)
        if not (la.all_above(math.inf, x) and la.all_above(x, -math.inf)):
            return False
    return True


@kernel
def _are_unit(lanes, start, count, offsets):
    """Return True if the quaternions at some offsets are unit, in every lane."""
    for n in range(count):
        k = start + la.load(offsets, n)
        x, y, z, w = (
            la.load(lanes, k),
            la.load(lanes, k + 1),
            la.load(lanes, k + 2),
            la.load(lanes, k + 3),
        )
        e = x * x + y * y + z * z + w * w - 1.0
        if not la.all_above(UNIT_TOLERANCE * UNIT_TOLERANCE, e * e):
            return False
    return True


@kernel
def _gather_rows(lanes, start, rows, columns, first, count):
    """Load rows into the lanes, repeating the last one if necessary."""
    i = first * columns
    if count == la.LANES and columns >= la.LANES:
        last = columns - la.LANES
        for k in range(0, last, la.LANES):
            la.gather_tile(rows, i + k, columns, lanes, start + k)
        la.gather_tile(rows, i + last, columns, lanes, start + last)
    else:
        for lane in range(la.LANES):
            for k in range(columns):
                x = la.load(rows, i + min(lane, count - 1) * columns + k)
                la.store_lane(lanes, start + k, lane, x)


@kernel
def _scatter_rows(lanes, tiles, rows, columns, first, count, past_caches, empty):
    """Store the lanes in rows, including padding.

    Tiles of ``LANES`` columns begin at the rows of the workspace in ``tiles``; the one at ``empty``
    is zero.
    """
    i, last = first * columns, max(columns - la.LANES, 0)
    ntiles = (columns + la.LANES - 1) // la.LANES
    if count < la.LANES or columns < la.LANES:
        for n in range(ntiles):
            start = min(la.LANES * n, last)
            for lane in range(count):
                for k in range(min(la.LANES, columns)):
                    x = la.load_lane(lanes, la.load(tiles, n) + k, lane)
                    la.store(rows, i + lane * columns + start + k, x)
    elif past_caches != 0:
        for n in range(ntiles):
            k = la.load(tiles, n)
            if k == empty:
                la.clear_tile_past_caches(rows, i + la.LANES * n, columns)
            else:
                la.scatter_tile_past_caches(lanes, k, rows, i + la.LANES * n, columns)
    else:
        for n in range(ntiles):
            start = min(la.LANES * n, last)
            la.scatter_tile(lanes, la.load(tiles, n), rows, i + start, columns)


# What describes each array of a batch, in batches.c too: its address, its columns, and the place of
# an input in the workspace, with its quaternions, or the addresses of a result's tiles.
ADDRESS, COLUMNS, START, QUATERNIONS, NQUATERNIONS, ARRAY = range(6)
TILES, PAST_CACHES = START, QUATERNIONS


def _gather(first: int, count: int, work: int, arrays: int, narrays: int) -> int:
    """Load the inputs of some states into the lanes, and check them."""
    lanes, descriptors = la.lanes_at(work), la.integers_at(arrays)
    for n in range(0, ARRAY * narrays, ARRAY):
        columns, start = la.load(descriptors, n + COLUMNS), la.load(descriptors, n + START)
        _gather_rows(
            lanes, start, la.floats_at(la.load(descriptors, n + ADDRESS)), columns, first, count
        )
        if not (
            _are_finite(lanes, start, columns)
            and _are_unit(
                lanes,
                start,
                la.load(descriptors, n + NQUATERNIONS),
                la.integers_at(la.load(descriptors, n + QUATERNIONS)),
            )
        ):
            return REJECTED
    return 0


def _scatter(first: int, count: int, work: int, arrays: int, narrays: int, empty: int) -> int:
    """Store the results of some states."""
    lanes, descriptors = la.lanes_at(work), la.integers_at(arrays)
    for n in range(0, ARRAY * narrays, ARRAY):
        _scatter_rows(
            lanes,
            la.integers_at(la.load(descriptors, n + TILES)),
            la.floats_at(la.load(descriptors, n + ADDRESS)),
            la.load(descriptors, n + COLUMNS),
            first,
            count,
            la.load(descriptors, n + PAST_CACHES),
            empty,
        )
    return 0


GATHER = Entry("call-gather", _gather, "qqqqq")
SCATTER = Entry("call-scatter", _scatter, "qqqqqq")


# --- how the extension finds what it reads


def addresses(model: Model, workspace: Workspace) -> tuple[int, int, int, int]:
    """Return the addresses of the arguments of a kernel."""
    ints, call_ints, floats, work = map(
        extension.native().address,
        (model._ints, workspace.call_ints, model._floats, workspace.work),
    )
    return ints, call_ints, floats, work


def quaternions(model: Model) -> tuple[int, int]:
    """Return the address of the offsets of the quaternions in a configuration, and their number."""
    start = 8 * int(model._ints[ly.UNIT_LIST])
    return extension.native().address(model._ints) + start, int(model._ints[ly.NUNIT])


def packing(options: Sequence[Option]) -> list[tuple[Option, int, int]]:
    """Return options with shifts and masks to extract them from a selector, lowest bits last."""
    return [
        (
            option,
            sum(later.bits for later in options[n + 1 :]),
            (1 << option.bits) - 1 if option.bits else -1,
        )
        for n, option in enumerate(options)
    ]


def heads(field: Field) -> int:
    """Return the rows of an input with a variable last axis, 1 for a vector."""
    return math.prod(int(axis) for axis in field.shape[:-1])


def prepared(
    algorithm: Any,
    data: Any,
    workspace: Workspace,
    code: int,
    results: Any,
    finish: Callable[[], Any] | None,
) -> Any:
    """Return the call for one state of a Data, for the extension; ``code`` is an address."""
    model, places = data.model, addresses(data.model, workspace)
    call_ints, work = places[1], places[3]
    inputs = [
        (
            work + 8 * workspace.offset(f),
            call_ints + 8 * (ly.HAS_INPUT + f),
            *_shape(model, f),
            f not in algorithm.optional,
            f.is_open,
            f.shape == ("nq",),
        )
        for f in algorithm.inputs
    ]
    options = [
        (call_ints + 8 * (ly.OPTION + option), shift, mask)
        for option, shift, mask in packing(algorithm.options)
    ]
    return extension.native().Prepared(
        model,
        (workspace, model._ints, model._floats),
        results,
        finish,
        np.array(
            [(code, *places, call_ints + 8 * ly.NCONSTRAINTS, MAX_CONSTRAINTS, *quaternions(model))]
        ),
        np.array(inputs, np.int64),
        np.array(options, np.int64).reshape(-1, 3),
    )


def _shape(model: Model, field: Field) -> tuple[int, int]:
    """Return the rows and columns of an input; no columns for a vector or an open input."""
    if field.is_open:
        return heads(field), 0
    rows, columns = (*axis_lengths(model, field.shape), 0)[:2]
    return rows, columns
