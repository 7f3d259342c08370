# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of results as curves of few points: of each interval, the lowest and the highest one.

A curve is interrupted where numbers are unknown, where states are missing, and between recordings.
Rows are read in parts, so that the memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array
from ...observer.runs_kernel import LOST, SHORTEST_GAP
from .parquet import pyarrow_module

_BATCH = 1 << 17  # rows
_PAUSE = 0.004  # of the whole time: between two recordings


class Curve(NamedTuple):
    """Points of a curve: time since the beginning [s], and y, NaN where it is interrupted."""

    x: Array
    y: NDArray[np.float32]

    @property
    def is_known(self) -> bool:
        return not np.isnan(self.y).all()

    @property
    def alone(self) -> Curve:
        """The points without a neighbor, which a line does not show."""
        known = np.concatenate([[False], ~np.isnan(self.y), [False]])
        rows = known[1:-1] & ~known[:-2] & ~known[2:]
        return Curve(self.x[rows], self.y[rows])


class Piece(NamedTuple):
    """A recording on the axis of time [s], and the stamp of its first state [ns]."""

    name: str
    start: float
    stop: float
    stamp: int


class Curves(NamedTuple):
    """The curves of several recordings, one after the other, and their units by column."""

    by_column: dict[str, Curve]
    units: dict[str, str]
    pieces: list[Piece]


def peaks(x: Array, y: Array, edges: NDArray[np.int_]) -> tuple[Array, Array]:
    """The lowest and the highest point of each interval, in order.

    Intervals begin at the rows ``edges``, ascending from 0. NaN are left out; of an interval
    without other numbers, its first NaN remains.
    """
    sizes = np.diff(np.append(edges, len(y)))
    number = np.repeat(np.arange(len(edges)), sizes)
    unknown = np.ones(len(edges), bool)
    chosen = []
    for extreme in (np.fmin, np.fmax):
        hits = np.flatnonzero(y == np.repeat(extreme.reduceat(y, edges), sizes))
        chosen.append(hits[np.unique(number[hits], return_index=True)[1]])
        unknown[number[hits]] = False
    rows = np.unique(np.concatenate([*chosen, edges[unknown]]))
    return x[rows], y[rows]


class _Reader:
    """Adds the points of recordings, one after the other."""

    def __init__(self, width: int, span: float) -> None:
        self._width, self._least_gap = width, span
        self.time, self._last, self._usual = 0.0, np.nan, np.nan
        self.points: dict[str, list[tuple[Array, Array]]] = {}

    def begin(self, pause: float) -> float:
        self.time += pause
        self._last = np.nan
        return self.time

    def add(self, stamp: NDArray[np.int64], columns: Mapping[str, Array]) -> None:
        """Add rows of the current recording."""
        steps = 1e-9 * np.diff(stamp)
        first = 0.0 if np.isnan(self._last) else 1e-9 * (float(stamp[0]) - self._last)
        ahead = steps[steps > 0.0]
        if ahead.size:
            self._usual = float(np.median(ahead))
        limit = max(LOST * np.nan_to_num(self._usual), SHORTEST_GAP, self._least_gap)
        steps = np.concatenate([[first], steps])
        cut = (steps < 0.0) | (steps > limit)
        x = self.time + np.cumsum(np.maximum(steps, 0.0))  # a clock set back goes on
        edges = np.union1d(np.arange(0, len(x), self._width), np.flatnonzero(cut))
        for name, values in columns.items():
            parts = self.points.setdefault(name, [])
            points = peaks(x, values, edges)
            at = np.searchsorted(points[0], x[cut])
            parts.append((np.insert(points[0], at, x[cut]), np.insert(points[1], at, np.nan)))
        self.time, self._last = float(x[-1]), float(stamp[-1])

    def end(self) -> None:
        for points in self.points.values():
            points.append((np.array([self.time]), np.array([np.nan])))


def read_curves(
    files: Mapping[str, Sequence[Path]], points: int, columns: Collection[str] | None = None
) -> Curves:
    """Read columns of Parquet files as curves of about so many intervals.

    The files of each recording are in order, by its name; the default are all columns but time and
    stamp. A ValueError if there are no rows.
    """
    pyarrow_module()
    from pyarrow import parquet

    metadata = {
        name: [parquet.read_metadata(path) for path in paths] for name, paths in files.items()
    }
    of_all = [file for of_recording in metadata.values() for file in of_recording]
    rows = sum(file.num_rows for file in of_all)
    if not rows:
        raise ValueError("plot: expected results with at least one state, got none")
    schemas = [file.schema.to_arrow_schema() for file in of_all]
    units = {
        field.name: (field.metadata or {}).get(b"unit", b"").decode()
        for schema in schemas
        for field in schema
        if field.name not in ("time", "stamp") and (columns is None or field.name in columns)
    }
    span = sum(_seconds(of_recording) for of_recording in metadata.values())
    reader = _Reader(max(1, rows // points), span / points)
    pieces: list[Piece] = []
    for name, paths in files.items():
        start, stamp = reader.begin(_PAUSE * span if pieces else 0.0), -1
        for path in paths:
            for stamps, values in _batches(path, list(units)):
                stamp = int(stamps[0]) if stamp < 0 else stamp
                reader.add(stamps, values)
        if stamp >= 0:
            pieces.append(Piece(name, start, reader.time, stamp))
            reader.end()
    curves = {}
    for name in units:
        if name in reader.points:
            x, y = map(np.concatenate, zip(*reader.points[name]))
            curves[name] = Curve(x, y.astype(np.float32))
    return Curves(curves, units, pieces)


def _batches(
    path: Path, columns: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], dict[str, Array]]]:
    """Yield the stamps and these columns of a file, some rows at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, pre_buffer=False) as file:
        names = [column for column in columns if column in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH, columns=["stamp", *names]):
            if len(batch):
                yield (
                    batch.column("stamp").to_numpy(),
                    {
                        column: batch.column(column).to_numpy(zero_copy_only=False)
                        for column in names
                    },
                )


def _seconds(files: Sequence[Any]) -> float:
    """The time that the states of a recording span, from the metadata of its files [s]."""
    groups = [
        file.row_group(k).column(file.schema.names.index("stamp")).statistics
        for file in files
        for k in range(file.num_row_groups)
    ]
    known = [stamp for stamp in groups if stamp is not None and stamp.has_min_max]
    return (
        1e-9 * (max(stamp.max for stamp in known) - min(stamp.min for stamp in known))
        if known
        else 0.0
    )
