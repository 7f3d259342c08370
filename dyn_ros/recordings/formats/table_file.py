# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables, CSV or Parquet, as messages: one for each row that contains positions.

The columns are those of the identification: ``position.elbow``, or ``/joint_states/elbow/position``
as PlotJuggler names it, where what precedes the joint is the topic. Positions of a base, such as
``position.root_joint/qw``, become an odometry.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import JOINT_STATE, ODOMETRY, Decoder, Messages
from ...engine.kernel.types import Array
from ..tables import files as tables
from ..tables.columns import Columns
from ..tables.row_selection import LAST_STAMP, measured_rows
from .spans import TABLE, Format, Source, Span, Topic

_TOPIC, _BASE_TOPIC = "/joint_states", "/odom"
_SIGNALS = ("position", "velocity", "effort")
_POSE = ("/x", "/y", "/z", "/qx", "/qy", "/qz", "/qw")
_TWIST = ("/linear_x", "/linear_y", "/linear_z", "/angular_x", "/angular_y", "/angular_z")
_PLANAR_POSE, _PLANAR_TWIST = ("/x", "/y", "/theta"), ("/linear_x", "/linear_y", "/angular_z")
_EXPECTED = f"convert other units to s, below {1e-9 * LAST_STAMP:.2g}"


class _Joints(NamedTuple):
    """Columns of the joints of one topic; no velocities if some are missing.

    The names of missing efforts are empty.
    """

    topic: str
    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]  # of positions, velocities, efforts


class _Base(NamedTuple):
    """Columns of a base, in the order of a pose and a twist; empty names for what is not there."""

    topic: str
    is_planar: bool
    pose: tuple[str, ...]
    twist: tuple[str, ...]


class _Topics:
    """What the columns of a table are as topics: joints of each, and bases."""

    def __init__(self, columns: Columns, path: Path) -> None:
        self.time = columns.first_time((tables.STAMP, *tables.TIMES))
        topics: dict[str, dict[str, dict[str, str]]] = {}
        for content, column in columns.contents.items():
            signal, owner = tables.parsed(content)
            if signal in _SIGNALS:
                signals = topics.setdefault(_topic(content), {kind: {} for kind in _SIGNALS})
                signals[signal][owner] = column
        if not self.time or not any(signals["position"] for signals in topics.values()):
            times = " or ".join(map(repr, tables.TIMES))
            raise ValueError(
                f"{str(path)!r}: expected a column {times}, in s, and columns such as "
                "'position.elbow' or '/joint_states/elbow/position', got "
                f"{', '.join(columns.names[:20])}; specify other names with --columns or "
                "columns="
            )
        self.bases = [base for topic, signals in topics.items() for base in _bases(topic, signals)]
        used = {name for base in self.bases for name in (*base.pose, *base.twist)}
        self.joints = [
            joints
            for topic, signals in topics.items()
            if (joints := _joints(topic, signals, used)).names
        ]

    def topics(self, count: int) -> tuple[Topic, ...]:
        return (
            *(Topic(joints.topic, JOINT_STATE, TABLE, count) for joints in self.joints),
            *(Topic(base.topic, ODOMETRY, TABLE, count) for base in self.bases),
        )

    def names(self, topics: Collection[str]) -> list[str]:
        names = [
            name
            for joints in self.joints
            if joints.topic in topics
            for group in joints.columns
            for name in group
            if name
        ]
        names += [
            name
            for base in self.bases
            if base.topic in topics
            for name in (*base.pose, *base.twist)
            if name
        ]
        return list(dict.fromkeys((self.time, *names)))


def _topics(table: tables.Csv | tables.Parquet, path: Path, given: Mapping[str, str]) -> _Topics:
    """Find the topics of a table; ``given`` are columns with other names, by what they contain."""
    return _Topics(Columns(table, columns=given, name=repr(str(path))), path)


def _topic(name: str) -> str:
    """The topic that a column of PlotJuggler names, or the usual one."""
    before, middle, _ = name.rpartition("joint_states/")
    return f"/{(before + middle).strip('/')}" if middle else _TOPIC


def _joints(topic: str, signals: dict[str, dict[str, str]], used: set[str]) -> _Joints:
    names = tuple(owner for owner, column in signals["position"].items() if column not in used)
    columns: list[tuple[str, ...]] = []
    for signal in _SIGNALS:
        by_owner = signals[signal]
        is_used = signal == "effort" or all(name in by_owner for name in names)
        columns.append(tuple(by_owner.get(name, "") for name in names) if is_used else ())
    return _Joints(topic, names, tuple(columns))


def _bases(topic: str, signals: dict[str, dict[str, str]]) -> Iterator[_Base]:
    positions, velocities = signals["position"], signals["velocity"]
    place = topic.rpartition("/")[0]
    for is_planar, pose, twist in ((False, _POSE, _TWIST), (True, _PLANAR_POSE, _PLANAR_TWIST)):
        for owner in positions:
            name = owner.removesuffix(pose[-1])
            if name != owner and all(name + suffix in positions for suffix in pose):
                yield _Base(
                    place + _BASE_TOPIC,
                    is_planar,
                    tuple(positions[name + suffix] for suffix in pose),
                    tuple(velocities.get(name + suffix, "") for suffix in twist),
                )


# --- files


def scan(path: Path, given: Mapping[str, str] | None = None) -> Source:
    """Find the topics and spans of a table; an error as ``sources.open_source`` raises it.

    ``given`` are columns with other names, by what they would be called.
    """
    if path.stat().st_size == 0:
        return Source((), (), "is empty: 0 bytes")
    tables.pyarrow()
    given = given or {}
    table = _opened(path, bool(given))
    columns = _topics(table, path, given)
    spans: list[Span] = []
    problems: dict[str, None] = {}
    unusable: list[float] = []
    time: int | None = None
    log_time = count = 0
    for place, size in table.blocks():
        values, more = _read(table, place, [columns.time])
        problems.update(dict.fromkeys(more))
        stamps = _stamps(values, columns.time)[1]
        if not len(stamps):
            unusable += values[columns.time][:1].tolist()
            continue
        first = int(stamps[0])
        log_time = first if time is None else log_time + max(first - time, 0)
        stop = int(_log_times(stamps, log_time)[-1])
        spans.append(Span(log_time, stop, size, (place, log_time, given)))
        time, log_time = int(stamps[-1]), stop
        count += len(stamps)
    if unusable and not spans:
        problems.update(
            {
                f"no row has a usable time, the first: {unusable[0]:.6g} in the column "
                f"{columns.time!r}; {_EXPECTED}": None
            }
        )
    if not (spans or problems or table.damage):
        problems["has no rows"] = None
    ends = [
        span._replace(place=(*span.place, n == 0, n == len(spans) - 1))
        for n, span in enumerate(spans)
    ]
    return Source(columns.topics(count), tuple(ends), "; ".join((*problems, *table.damage)))


def _opened(path: Path, without_names: bool) -> tables.Csv | tables.Parquet:
    """The table; the latest one stays open, as its blocks are read one after the other."""
    return _open(path, path.stat().st_mtime_ns, without_names)


@functools.lru_cache(1)
def _open(path: Path, modified: int, without_names: bool) -> tables.Csv | tables.Parquet:
    return tables.open_file(path, without_names)


def _read(
    table: tables.Csv | tables.Parquet, place: tables.Place, columns: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Columns of a block by name, the first one the time, and problems."""
    try:
        return table.read(place, columns)
    except (tables.pyarrow().ArrowException, ValueError, OSError) as error:
        if getattr(error, "errno", None):
            raise
        return (
            {name: np.zeros(0) for name in columns},
            [f"the rows of a part cannot be read: {error}"],
        )


# --- rows


def _stamps(
    table: dict[str, NDArray[Any]], name: str
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows have a time, and their times [ns]."""
    values = table[name]
    if values.dtype == np.int64 and name == tables.STAMP:
        known = (values > -LAST_STAMP) & (values < LAST_STAMP)
        return known, values[known]
    with np.errstate(over="ignore"):
        scaled = np.round(values.astype(float) * (1.0 if name == tables.STAMP else 1e9))
    usable = np.abs(scaled) < LAST_STAMP
    return usable, scaled[usable].astype(np.int64)


def _log_times(stamps: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Times that never go back: a step back takes no time."""
    steps = np.maximum(np.diff(stamps, prepend=stamps[:1]), 0)
    return first + np.cumsum(steps)


def read(path: Path, place: tuple[Any, ...], topics: Collection[str], decoder: Decoder) -> Messages:
    block, first, given, *ends = place
    source = _opened(path, bool(given))
    columns = _topics(source, path, given)
    table, problems = _read(source, block, columns.names(topics))
    for problem in problems:
        decoder.report(problem)
    usable, stamps = _stamps(table, columns.time)
    log_times = _log_times(stamps, first)
    bad = int(np.count_nonzero(~usable))
    known = table[columns.time][~usable & ~_is_empty(table[columns.time])]
    if bad > len(known):
        decoder.report("a row without a time", bad - len(known))
    if len(known):  # a power of ten, as each text is counted
        decoder.report(
            f"a row whose time in the column {columns.time!r} cannot be used, about "
            f"{float(known[0]):.0e}; {_EXPECTED}",
            len(known),
        )
    rows = _measured(table, columns.time, usable, ends)
    for where, left_out in (("beginning", rows.start), ("end", len(usable) - rows.stop)):
        if left_out:
            decoder.report(
                f"left out {left_out} rows at the {where}: there are numbers or stamps "
                "among them that cannot be measured"
            )
    kept = np.zeros(len(usable), bool)
    kept[rows] = usable[rows]
    stamps, log_times = stamps[kept[usable]], log_times[kept[usable]]
    table = {name: values[kept] for name, values in table.items()}
    parts = [
        _joint_messages(joints, table, decoder)
        for joints in columns.joints
        if joints.topic in topics
    ]
    parts += [
        _base_messages(base, table, decoder) for base in columns.bases if base.topic in topics
    ]
    if not parts or not len(stamps):
        return Messages.none(bad)
    return _joined(parts, stamps, log_times, bad)


def _is_empty(stamps: NDArray[Any]) -> NDArray[np.bool_]:
    empty: NDArray[np.bool_] = (
        np.isnan(stamps) if stamps.dtype.kind == "f" else stamps == tables.NO_TIME
    )
    return empty


def _measured(
    table: dict[str, NDArray[Any]], time: str, usable: NDArray[np.bool_], ends: Sequence[bool]
) -> slice:
    """The rows without corrupt ones at the ends of the file, as identification leaves them out.

    ``usable``: whether a row has a time; ``ends``: whether the block is at the beginning of the
    file, and at its end. Empty cells are not corrupt.
    """
    count = len(usable)
    if not any(ends):
        return slice(0, count)
    stamps = table[time]
    empty = _is_empty(stamps)
    known = {
        name: np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        for name, values in table.items()
        if name != time
    }
    rows = measured_rows(np.where(usable | empty, 0.0, np.inf), known)
    return slice(rows.start if ends[0] else 0, rows.stop if ends[1] else count)


class _Block(NamedTuple):
    """Messages of one topic."""

    name_list: int
    topic: int
    rows: NDArray[np.intp]
    counts: NDArray[np.int32]
    numbers: Array


def _matrix(table: dict[str, NDArray[Any]], names: Sequence[str]) -> Array:
    count = len(next(iter(table.values())))
    matrix = np.full((count, len(names)), np.nan)
    for k, name in enumerate(names):
        if name:
            matrix[:, k] = table[name]
    return matrix


def _joint_messages(joints: _Joints, table: dict[str, NDArray[Any]], decoder: Decoder) -> _Block:
    """Messages of the rows with a position; without a signal that has no number in a row."""
    blocks = [_matrix(table, names) for names in joints.columns]
    present = [np.logical_not(np.isnan(block)).any(axis=1).reshape(-1) for block in blocks]
    rows = np.flatnonzero(present[0])
    counts = np.stack([given[rows] * block.shape[1] for given, block in zip(present, blocks)], 1)
    mask = np.concatenate(
        [
            np.repeat(given[rows, None], block.shape[1], axis=1)
            for given, block in zip(present, blocks)
        ],
        axis=1,
    )
    numbers = np.concatenate([block[rows] for block in blocks], axis=1)[mask]
    return _Block(
        decoder.name_list_number(joints.names),
        decoder.topic_number(joints.topic),
        rows,
        counts.astype(np.int32),
        numbers,
    )


def _base_messages(base: _Base, table: dict[str, NDArray[Any]], decoder: Decoder) -> _Block:
    """Odometry of the rows with a pose."""
    pose, twist = _matrix(table, base.pose), _matrix(table, base.twist)
    if base.is_planar:
        x, y, yaw = pose.T
        zero = np.zeros(len(pose))
        pose = np.stack([x, y, zero, zero, zero, np.sin(0.5 * yaw), np.cos(0.5 * yaw)], 1)
        vx, vy, wz = twist.T
        twist = np.stack([vx, vy, zero, zero, zero, wz], 1)
    rows = np.flatnonzero(~np.isnan(pose[:, 0]))
    counts = np.tile(np.array([7, 6, 0], np.int32), (len(rows), 1))
    return _Block(
        decoder.child_frame_number(""),
        decoder.topic_number(base.topic),
        rows,
        counts,
        np.concatenate([pose, twist], axis=1)[rows].ravel(),
    )


def _joined(
    parts: list[_Block], stamps: NDArray[np.int64], log_times: NDArray[np.int64], bad: int
) -> Messages:
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    sizes = counts.sum(axis=1, dtype=np.int64)
    order = np.argsort(rows, kind="stable")

    def repeated(values: list[int]) -> NDArray[np.int32]:
        lengths = [len(part.rows) for part in parts]
        return np.repeat(np.array(values, np.int32), lengths)[order]

    return Messages(
        repeated([part.name_list for part in parts]),
        repeated([part.topic for part in parts]),
        log_times[rows][order],
        stamps[rows][order],
        counts[order],
        (np.cumsum(sizes) - sizes)[order],
        np.concatenate([part.numbers for part in parts]),
        bad,
    )


FORMAT = Format(scan, read, lambda path, place, topics: None)
