# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled code that copies rows of a batch to lanes and back, in double or single precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..kernel.lanes import (
    LANES,
    LANES32,
    all_above,
    clear_tile_past_caches,
    floats32_at,
    floats_at,
    gather_short_rows,
    gather_tile,
    integers_at,
    lanes32_at,
    lanes_at,
    load,
    load_lane,
    load_simd,
    scatter_short_rows,
    scatter_tile,
    scatter_tile_past_caches,
    store,
    store_simd,
)
from ..kernel.lie import UNIT_TOLERANCE
from ..machine_code.compiler import Entry
from ..machine_code.declare import kernel

REJECTED = -1
MAX_SINGLE_NUMBERS = 2  # states; copying more of them number by number takes longer than a tile

# What describes each array of a batch, in batches.c too: its address, its columns, and the place of
# an input in the workspace, with its quaternions, or the address of a result's tiles, or of the
# order of its columns.
ADDRESS, COLUMNS, START, QUATERNIONS, NQUATERNIONS, ARRAY = range(6)
TILES, PAST_CACHES, ORDER = START, QUATERNIONS, NQUATERNIONS


class Precision(NamedTuple):
    """The numbers of batches."""

    dtype: np.dtype[Any]
    size: int
    """Bytes of a number."""
    lanes: int
    """States that are computed side by side."""
    lanes_at: Callable[[int], Any]
    floats_at: Callable[[int], Any]
    gather: Entry
    scatter: Entry

    @property
    def cache_line(self) -> int:
        """Return how many numbers a cache line has, of 64 bytes."""
        return 64 // self.size

    @property
    def scratch_numbers(self) -> int:
        """Return how much memory the entries need, aligned to rows [numbers]."""
        return 2 * self.lanes * self.lanes


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


def _make_copies(
    lanes_count: int,
    number: int,
    lanes_at: Callable[[int], Any],
    floats_at: Callable[[int], Any],
) -> tuple[Callable, Callable]:
    """Return the functions that gather and scatter states, for lanes of numbers of some bytes."""
    row_size = number * lanes_count
    tile_size = row_size * lanes_count

    @kernel
    def copy_row(target, source):
        """Copy a number for each lane from one address to another."""
        store(lanes_at(target), 0, load(lanes_at(source), 0))

    @kernel
    def copy_few(target, source, count):
        """Copy less numbers than there are lanes from one address to another."""
        store_simd(floats_at(target), 0, count, load_simd(floats_at(source), 0, count))

    @kernel
    def gather_rows(lanes, start, rows, columns, first, count, scratch):
        """Load rows into the lanes, repeating the last one if necessary.

        ``rows`` is an address, and ``scratch`` that of memory for a tile of rows that are no whole
        one.
        """
        row, i = number * columns, first * columns
        source, tile = rows + number * i, floats_at(scratch)
        if columns < lanes_count:
            if columns > 0:
                gather_short_rows(floats_at(rows), i, columns, count, lanes, start)
            return
        last = columns - lanes_count
        for n in range((columns + lanes_count - 1) // lanes_count):
            k = min(lanes_count * n, last)
            if count == lanes_count:
                gather_tile(floats_at(rows), i + k, columns, lanes, start + k)
            else:
                for lane in range(lanes_count):
                    copy_row(
                        scratch + row_size * lane, source + row * min(lane, count - 1) + number * k
                    )
                gather_tile(tile, 0, lanes_count, lanes, start + k)

    @kernel
    def scatter_rows(lanes, tiles, rows, columns, first, count, past_caches, empty, scratch):
        """Store the lanes in rows, including padding.

        Tiles of one column for each lane begin at the rows of the workspace in ``tiles``; the one
        at ``empty`` is zero. ``rows`` is an address, and ``scratch`` that of memory for a tile of
        rows that are not a whole one.
        """
        row, i, last = number * columns, first * columns, max(columns - lanes_count, 0)
        target, tile, floats = rows + number * i, floats_at(scratch), floats_at(rows)
        ntiles = (columns + lanes_count - 1) // lanes_count
        if columns < lanes_count:
            if columns == 0:
                return
            scatter_short_rows(lanes, load(tiles, 0), floats, i, columns, count)
        elif count <= MAX_SINGLE_NUMBERS:
            for n in range(ntiles):
                k, start = load(tiles, n), i + min(lanes_count * n, last)
                for lane in range(count):
                    for column in range(lanes_count):
                        x = load_lane(lanes, k + column, lane)
                        store(floats, start + lane * columns + column, x)
        elif count < lanes_count:
            for n in range(ntiles):
                start = number * min(lanes_count * n, last)
                scatter_tile(lanes, load(tiles, n), tile, 0, lanes_count)
                for lane in range(count):
                    copy_row(target + row * lane + start, scratch + row_size * lane)
        elif past_caches != 0:
            for n in range(ntiles):
                k = load(tiles, n)
                if k == empty:
                    clear_tile_past_caches(floats, i + lanes_count * n, columns)
                else:
                    scatter_tile_past_caches(lanes, k, floats, i + lanes_count * n, columns)
        else:
            for n in range(ntiles):
                start = min(lanes_count * n, last)
                scatter_tile(lanes, load(tiles, n), floats, i + start, columns)

    @kernel
    def scatter_reordered(lanes, order, rows, columns, first, count, scratch):
        """Store the rows of the workspace in ``order``, one for each column, in rows.

        ``rows`` is an address, and ``scratch`` that of memory for two tiles.
        """
        row, last = number * columns, max(columns - lanes_count, 0)
        width, target = min(columns, lanes_count), rows + row * first
        tile, selected = floats_at(scratch), lanes_at(scratch + tile_size)
        for n in range((columns + lanes_count - 1) // lanes_count):
            start = min(lanes_count * n, last)
            for k in range(width):
                store(selected, k, load(lanes, load(order, start + k)))
            scatter_tile(selected, 0, tile, 0, lanes_count)
            for lane in range(count):
                to, source = target + row * lane + number * start, scratch + row_size * lane
                if width < lanes_count:
                    copy_few(to, source, width)
                else:
                    copy_row(to, source)

    def gather_states(
        first: int, count: int, work: int, arrays: int, narrays: int, scratch: int
    ) -> int:
        """Load the inputs of some states into the lanes, and check them."""
        lanes, descriptors = lanes_at(work), integers_at(arrays)
        for n in range(0, ARRAY * narrays, ARRAY):
            columns, start = load(descriptors, n + COLUMNS), load(descriptors, n + START)
            rows = load(descriptors, n + ADDRESS)
            gather_rows(lanes, start, rows, columns, first, count, scratch)
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
                scatter_reordered(lanes, integers_at(order), rows, columns, first, count, scratch)
            else:
                scatter_rows(
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

    return gather_states, scatter_states


_GATHER, _SCATTER = _make_copies(LANES, 8, lanes_at, floats_at)
_GATHER32, _SCATTER32 = _make_copies(LANES32, 4, lanes32_at, floats32_at)
DOUBLE = Precision(
    np.dtype(np.float64),
    8,
    LANES,
    lanes_at,
    floats_at,
    Entry("call-gather", _GATHER, "qqqqqq"),
    Entry("call-scatter", _SCATTER, "qqqqqqq"),
)
SINGLE = Precision(
    np.dtype(np.float32),
    4,
    LANES32,
    lanes32_at,
    floats32_at,
    Entry("call-gather32-lanes", _GATHER32, "qqqqqq"),
    Entry("call-scatter32-lanes", _SCATTER32, "qqqqqqq"),
)
