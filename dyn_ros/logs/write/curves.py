# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of results as curves to plot: the lowest and the highest point of each interval.

A curve is interrupted where numbers are unknown, where states are missing, and between recordings.
Rows are read in batches, so that the memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array
from ...observer.runs_kernel import MAX_MISSED_PERIODS, SHORTEST_GAP
from ...recordings.tables.files import open_for_arrow
from .parquet import import_pyarrow

_BATCH_SIZE = 1 << 17  # rows
_RECORDING_GAP = 0.004  # relative to the total duration


class DecimatedCurve(NamedTuple):
    """Lowest and highest points of a column, in order of time."""

    x: Array  # (n,), time since the beginning [s]
    y: NDArray[np.float32]  # (n,), NaN where the curve is interrupted

    @property
    def has_points(self) -> bool:
        """True unless all numbers are unknown."""
        return not np.isnan(self.y).all()

    @property
    def isolated_points(self) -> DecimatedCurve:
        """The points without a neighbor, which a line does not show."""
        is_number = np.concatenate([[False], ~np.isnan(self.y), [False]])
        is_isolated = is_number[1:-1] & ~is_number[:-2] & ~is_number[2:]
        return DecimatedCurve(self.x[is_isolated], self.y[is_isolated])


class RecordingSpan(NamedTuple):
    """A recording on the axis of time."""

    name: str
    start: float  # s
    stop: float  # s
    stamp: int  # ns, of its first state


class Curves(NamedTuple):
    """The curves of recordings, which follow each other on the axis of time."""

    by_column: dict[str, DecimatedCurve]
    units: dict[str, str]  # unit of each column
    spans: list[RecordingSpan]


def min_max_points(x: Array, y: Array, edges: NDArray[np.int_]) -> tuple[Array, Array]:
    """Return the lowest and the highest point of each interval, in order.

    Intervals begin at the rows ``edges``, ascending from 0. NaN are left out; an interval that
    contains nothing else keeps its first NaN.
    """
    sizes = np.diff(np.append(edges, len(y)))
    interval = np.repeat(np.arange(len(edges)), sizes)
    is_unknown = np.ones(len(edges), bool)
    extreme_rows = []
    for extreme in (np.fmin, np.fmax):
        hits = np.flatnonzero(y == np.repeat(extreme.reduceat(y, edges), sizes))
        extreme_rows.append(hits[np.unique(interval[hits], return_index=True)[1]])
        is_unknown[interval[hits]] = False
    rows = np.unique(np.concatenate([*extreme_rows, edges[is_unknown]]))
    return x[rows], y[rows]


class _CurveBuilder:
    """Points of recordings that are added one after the other.

    ``width`` is the number of rows of an interval; shorter gaps than ``min_gap`` [s] do not
    interrupt a curve.
    """

    def __init__(self, width: int, min_gap: float) -> None:
        self._width, self._min_gap = width, min_gap
        self._last_stamp, self._sampling_period = np.nan, np.nan
        self.time = 0.0
        self.points: dict[str, list[tuple[Array, Array]]] = {}

    def begin_recording(self, gap: float) -> float:
        """Begin a recording after a gap [s]; return its time on the axis [s]."""
        self.time += gap
        self._last_stamp = np.nan
        return self.time

    def add_rows(self, stamp: NDArray[np.int64], columns: Mapping[str, Array]) -> None:
        """Add rows of the current recording."""
        steps = 1e-9 * np.diff(stamp)
        first_step = 0.0
        if not np.isnan(self._last_stamp):
            first_step = 1e-9 * (float(stamp[0]) - self._last_stamp)
        forward_steps = steps[steps > 0.0]
        if forward_steps.size:
            self._sampling_period = float(np.median(forward_steps))
        max_step = max(
            MAX_MISSED_PERIODS * np.nan_to_num(self._sampling_period), SHORTEST_GAP, self._min_gap
        )
        steps = np.concatenate([[first_step], steps])
        is_break = (steps < 0.0) | (steps > max_step)
        x = self.time + np.cumsum(np.maximum(steps, 0.0))  # a clock set back goes on
        edges = np.union1d(np.arange(0, len(x), self._width), np.flatnonzero(is_break))
        for name, values in columns.items():
            point_x, point_y = min_max_points(x, values, edges)
            at = np.searchsorted(point_x, x[is_break])
            self.points.setdefault(name, []).append(
                (np.insert(point_x, at, x[is_break]), np.insert(point_y, at, np.nan))
            )
        self.time, self._last_stamp = float(x[-1]), float(stamp[-1])

    def end_recording(self) -> None:
        """Interrupt all curves at the end of the current recording."""
        for points in self.points.values():
            points.append((np.array([self.time]), np.array([np.nan])))


def read_curves(
    files: Mapping[str, Sequence[Path]], points: int, columns: Collection[str] | None = None
) -> Curves:
    """Read columns of Parquet files as curves of about ``points`` intervals.

    ``files`` has the files of each recording in order of time, by its name. By default all columns
    but time and stamp are read. Raise a ValueError if there are no rows.
    """
    import_pyarrow()
    from pyarrow import parquet

    metadata = {
        name: [parquet.read_metadata(open_for_arrow(path)) for path in paths]
        for name, paths in files.items()
    }
    all_metadata = [file for recording in metadata.values() for file in recording]
    rows = sum(file.num_rows for file in all_metadata)
    if not rows:
        raise ValueError("plot: expected results with at least one state, got none")
    schemas = [file.schema.to_arrow_schema() for file in all_metadata]
    units = {
        field.name: (field.metadata or {}).get(b"unit", b"").decode()
        for schema in schemas
        for field in schema
        if field.name not in ("time", "stamp") and (columns is None or field.name in columns)
    }
    duration = sum(_recording_duration(recording) for recording in metadata.values())
    builder = _CurveBuilder(max(1, rows // points), duration / points)
    spans: list[RecordingSpan] = []
    for name, paths in files.items():
        start, first_stamp = (
            builder.begin_recording(_RECORDING_GAP * duration if spans else 0.0),
            -1,
        )
        for path in paths:
            for stamps, values in _read_batches(path, list(units)):
                first_stamp = int(stamps[0]) if first_stamp < 0 else first_stamp
                builder.add_rows(stamps, values)
        if first_stamp >= 0:
            spans.append(RecordingSpan(name, start, builder.time, first_stamp))
            builder.end_recording()
    curves = {}
    for name in units:
        if name in builder.points:
            x, y = map(np.concatenate, zip(*builder.points[name]))
            curves[name] = DecimatedCurve(x, y.astype(np.float32))
    return Curves(curves, units, spans)


def _read_batches(
    path: Path, columns: Sequence[str]
) -> Iterator[tuple[NDArray[np.int64], dict[str, Array]]]:
    """Yield the stamps and these columns of a file, a batch of rows at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(open_for_arrow(path), pre_buffer=False) as file:
        names = [column for column in columns if column in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH_SIZE, columns=["stamp", *names]):
            if len(batch):
                yield (
                    batch.column("stamp").to_numpy(),
                    {
                        column: batch.column(column).to_numpy(zero_copy_only=False)
                        for column in names
                    },
                )


def _recording_duration(files: Sequence[Any]) -> float:
    """Return the time that the states of a recording span, from its files' metadata [s]."""
    stamp_statistics = [
        file.row_group(k).column(file.schema.names.index("stamp")).statistics
        for file in files
        for k in range(file.num_row_groups)
    ]
    ranges = [
        (stamps.min, stamps.max)
        for stamps in stamp_statistics
        if stamps is not None and stamps.has_min_max
    ]
    if not ranges:
        return 0.0
    return 1e-9 * (max(highest for _, highest in ranges) - min(lowest for lowest, _ in ranges))
