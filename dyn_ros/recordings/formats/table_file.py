# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables, CSV or Parquet, read as messages, one for each row that contains positions.

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
from ...engine.kernel.names import join_names, shorten
from ...engine.kernel.types import Array
from ...files.limits import Limits
from ...files.reading import open_regular_file
from ..tables import files as tables
from ..tables.columns import Columns
from ..tables.row_selection import describe_blank_rows, escape_braces, uncorrupted_rows
from ..tables.times import MAX_STAMP, NO_TIME, TIMES, Clock, StampCheck
from .spans import TABLE_ENCODING, Format, Source, Span, Topic

_TOPIC, _BASE_TOPIC = "/joint_states", "/odom"
_SIGNALS = ("position", "velocity", "effort")
_POSE = ("/x", "/y", "/z", "/qx", "/qy", "/qz", "/qw")
_TWIST = ("/linear_x", "/linear_y", "/linear_z", "/angular_x", "/angular_y", "/angular_z")
_PLANAR_POSE, _PLANAR_TWIST = ("/x", "/y", "/theta"), ("/linear_x", "/linear_y", "/angular_z")
_MIN_ROW_SIZE = 512  # bytes that a row counts at least; in memory, it has up to 130
_TIME_REMEDY = f"convert other units to s, below {1e-9 * MAX_STAMP:.2g}"


class _JointColumns(NamedTuple):
    """Columns of the joints of one topic.

    Attributes
    ----------
    topic : str
    names : tuple of str
        Joints.
    columns : tuple of three tuples of str
        Columns of positions, velocities and efforts. There are no velocities if one is missing;
        names of missing efforts are empty.
    """

    topic: str
    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]


class _BaseColumns(NamedTuple):
    """Columns of a base, in the order of pose and twist; names of missing columns are empty."""

    topic: str
    is_planar: bool
    pose: tuple[str, ...]
    twist: tuple[str, ...]


class _TableTopics:
    """Topics of joints and bases that the columns of a table contain."""

    def __init__(self, columns: Columns, path: Path) -> None:
        topics: dict[str, dict[str, dict[str, str]]] = {}
        for content, column in columns.names_by_content.items():
            signal, owner = tables.parse_column(content)
            if signal in _SIGNALS:
                signals = topics.setdefault(
                    _topic_of_column(content), {kind: {} for kind in _SIGNALS}
                )
                signals[signal][owner] = column
        try:
            clock = columns.clock
        except ValueError:
            clock = None
        if clock is None or not any(signals["position"] for signals in topics.values()):
            times = " or ".join(map(repr, TIMES[:2]))
            raise ValueError(
                f"{str(path)!r}: expected a column {times}, in s, and columns such as "
                "'position.elbow' or '/joint_states/elbow/position', got "
                f"{join_names(columns.names, 10, shorten)}; "
                f"{columns.blank_remedy()}{columns.list_remedy()}"
                "rename them, or specify other names with columns="
            )
        self.clock = clock
        self.bases = [
            base for topic, signals in topics.items() for base in _base_columns(topic, signals)
        ]
        base_column_names = {name for base in self.bases for name in (*base.pose, *base.twist)}
        self.joints = [
            joints
            for topic, signals in topics.items()
            if (joints := _joint_columns(topic, signals, base_column_names)).names
        ]

    def topics(self, count: int) -> tuple[Topic, ...]:
        """Return the topics, each with a number of messages."""
        return (
            *(Topic(joints.topic, JOINT_STATE, TABLE_ENCODING, count) for joints in self.joints),
            *(Topic(base.topic, ODOMETRY, TABLE_ENCODING, count) for base in self.bases),
        )

    def names(self, topics: Collection[str]) -> list[str]:
        """Return the columns of topics; the time comes first."""
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
        return list(dict.fromkeys((*self.clock.names, *names)))


def _find_topics(
    table: tables.CsvFile | tables.ParquetFile, path: Path, renamed: Mapping[str, str]
) -> _TableTopics:
    """Find the topics of a table; ``renamed`` are columns with other names, by their content."""
    return _TableTopics(Columns(table, columns=renamed, name=repr(str(path))), path)


def _topic_of_column(name: str) -> str:
    """Return the topic in a column name of PlotJuggler, or the default."""
    namespace, topic, _ = name.rpartition("joint_states/")
    return f"/{(namespace + topic).strip('/')}" if topic else _TOPIC


def _joint_columns(
    topic: str, signals: dict[str, dict[str, str]], base_column_names: set[str]
) -> _JointColumns:
    """Return the columns of the joints of a topic, without bases."""
    names = tuple(
        owner for owner, column in signals["position"].items() if column not in base_column_names
    )
    columns: list[tuple[str, ...]] = []
    for signal in _SIGNALS:
        by_owner = signals[signal]
        is_used = signal == "effort" or all(name in by_owner for name in names)
        columns.append(tuple(by_owner.get(name, "") for name in names) if is_used else ())
    return _JointColumns(topic, names, tuple(columns))


def _base_columns(topic: str, signals: dict[str, dict[str, str]]) -> Iterator[_BaseColumns]:
    """Yield the columns of the bases of a topic."""
    positions, velocities = signals["position"], signals["velocity"]
    namespace = topic.rpartition("/")[0]
    for is_planar, pose, twist in ((False, _POSE, _TWIST), (True, _PLANAR_POSE, _PLANAR_TWIST)):
        for owner in positions:
            name = owner.removesuffix(pose[-1])
            if name != owner and all(name + suffix in positions for suffix in pose):
                yield _BaseColumns(
                    namespace + _BASE_TOPIC,
                    is_planar,
                    tuple(positions[name + suffix] for suffix in pose),
                    tuple(velocities.get(name + suffix, "") for suffix in twist),
                )


# --- files


def scan_table(path: Path, limits: Limits, renamed: Mapping[str, str] | None = None) -> Source:
    """Find the topics and spans of a table; raise errors as ``sources.open_source``.

    ``renamed`` are columns with other names, by the usual names.
    """
    with open_regular_file(path) as file:
        if not file.read(1):
            return Source((), (), "is empty: 0 bytes")
    tables.import_pyarrow()
    renamed = renamed or {}
    table = _open_cached(path, bool(renamed), limits)
    columns = _find_topics(table, path, renamed)
    spans: list[Span] = []
    problems: dict[str, None] = {}
    unusable_times: list[str] = []
    time: int | None = None
    log_time = count = content_size = 0
    clock, check = columns.clock, StampCheck(columns.clock)
    for place, size in table.blocks():
        if content_size + size > limits.content_size:
            problems[f"is read to its row {count:,}: {limits.describe_content()}"] = None
            break
        values, block_problems = _read_block(table, place, clock.names)
        problems.update(dict.fromkeys(block_problems))
        cells = [values[name] for name in clock.names]
        if not spans:
            clock = clock.with_unit_of(cells)
            check = StampCheck(clock)
        stamps = _usable(clock.to_stamps(cells))
        content_size += max(size, _MIN_ROW_SIZE * len(cells[0]))
        if not len(stamps):
            unusable_times += map(str, cells[0][:1])
            continue
        check.add(stamps)
        first = int(stamps[0])
        log_time = first if time is None else log_time + max(first - time, 0)
        stop = int(_log_times(stamps, log_time)[-1])
        spans.append(Span(log_time, stop, size, (limits, place, log_time, renamed, clock)))
        time, log_time = int(stamps[-1]), stop
        count += len(stamps)
    if error := check.error():
        raise ValueError(f"{str(path)!r}: {error}")
    if unusable_times and not spans:
        problems.update(
            {
                f"no row has a usable time, the first: {unusable_times[0]} in the column "
                f"{clock.names[0]!r}; {_TIME_REMEDY}": None
            }
        )
    if not (spans or problems or table.damage):
        problems["has no rows"] = None
    placed_spans = [
        span._replace(place=(*span.place, n == 0, n == len(spans) - 1))
        for n, span in enumerate(spans)
    ]
    return Source(columns.topics(count), tuple(placed_spans), "; ".join((*problems, *table.damage)))


def _open_cached(
    path: Path, without_names: bool, limits: Limits
) -> tables.CsvFile | tables.ParquetFile:
    """Return a table; the last one stays open, as its blocks are read one after the other."""
    return _open_unmodified(path, path.stat().st_mtime_ns, without_names, limits.chunk_size)


@functools.lru_cache(1)
def _open_unmodified(
    path: Path, modification_time: int, without_names: bool, max_chunk_size: int
) -> tables.CsvFile | tables.ParquetFile:
    """Open a table, or return it if it is the last one and has not been modified."""
    return tables.open_file(path, without_names, max_chunk_size)


def _read_block(
    table: tables.CsvFile | tables.ParquetFile, place: tables.Place, columns: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return columns of a block by name, the first one the time, and sentences on problems."""
    try:
        return table.read_block(place, columns)
    except (tables.import_pyarrow().ArrowException, ValueError, OSError) as error:
        if getattr(error, "errno", None):
            raise
        return (
            {name: np.zeros(0) for name in columns},
            [f"the rows of a part cannot be read: {error}"],
        )


# --- rows


def _usable(stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return stamps without NO_TIME."""
    is_usable = stamps != NO_TIME
    return stamps if is_usable.all() else stamps[is_usable]


def _log_times(stamps: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Return times that start at ``first`` and never go back: a step back takes no time."""
    steps = np.maximum(np.diff(stamps, prepend=stamps[:1]), 0)
    return first + np.cumsum(steps)


def read_messages(
    path: Path, place: tuple[Any, ...], topics: Collection[str], decoder: Decoder
) -> Messages:
    """Read the messages of a span; see `spans.Format`."""
    limits, block_place, first_time, renamed, clock, *is_end = place
    table = _open_cached(path, bool(renamed), limits)
    columns = _find_topics(table, path, renamed)
    values, problems = _read_block(table, block_place, columns.names(topics))
    for problem in problems:
        decoder.count_problem(problem)
    cells = [values.pop(name) for name in clock.names]
    stamps = clock.to_stamps(cells)
    is_usable, stamps = stamps != NO_TIME, _usable(stamps)
    log_times = _log_times(stamps, first_time)
    if clock.note and is_end[0]:
        decoder.count_note(escape_braces(clock.note))
    rejected_count = _report_unusable_times(cells[0], clock, is_usable, decoder)
    rows = _uncorrupted_rows(values, is_usable, _is_empty(cells[0]), is_end)
    for where, count in (("beginning", rows.start), ("end", len(is_usable) - rows.stop)):
        if count:
            decoder.count_problem(
                f"left out {count} rows at the {where}: there are numbers or stamps "
                "among them that cannot be measured"
            )
    row_mask = np.zeros(len(is_usable), bool)
    row_mask[rows] = is_usable[rows]
    stamps, log_times = stamps[row_mask[is_usable]], log_times[row_mask[is_usable]]
    values = {name: column[row_mask] for name, column in values.items()}
    messages = [
        _joint_messages(joints, values, decoder)
        for joints in columns.joints
        if joints.topic in topics
    ]
    messages += [
        _base_messages(base, values, decoder) for base in columns.bases if base.topic in topics
    ]
    if not messages or not len(stamps):
        return Messages.empty(rejected_count)
    has_message = np.zeros(len(stamps), bool)
    for each in messages:
        has_message[each.rows] = True
    blank_count = int(np.count_nonzero(~has_message))
    if blank_count:
        names = [name for joints in columns.joints for name in joints.columns[0]]
        decoder.count_note(describe_blank_rows(names or columns.names(topics)), blank_count)
    return _join_messages(messages, stamps, log_times, rejected_count)


def _report_unusable_times(
    times: NDArray[Any], clock: Clock, is_usable: NDArray[np.bool_], decoder: Decoder
) -> int:
    """Report rows without a time, or with one that cannot be used; return the latters' number."""
    count = int(np.count_nonzero(~is_usable))
    if not count:
        return 0
    unusable_times = times[~is_usable & ~_is_empty(times)]
    if count > len(unusable_times):
        decoder.count_note(describe_blank_rows(clock.names), count - len(unusable_times))
    if len(unusable_times):  # rounded to a power of ten, as each text is counted
        decoder.count_problem(
            f"a row whose time in the column {clock.names[0]!r} cannot be used, about "
            f"{float(unusable_times[0]):.0e}; {_TIME_REMEDY}",
            len(unusable_times),
        )
    return len(unusable_times)


def _is_empty(stamps: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of empty cells of a column of times."""
    if stamps.dtype.kind == "M":
        return np.isnat(stamps)
    empty: NDArray[np.bool_] = np.isnan(stamps) if stamps.dtype.kind == "f" else stamps == NO_TIME
    return empty


def _uncorrupted_rows(
    table: dict[str, NDArray[Any]],
    is_usable: NDArray[np.bool_],
    is_empty: NDArray[np.bool_],
    is_end: Sequence[bool],
) -> slice:
    """Return the rows of a block without corrupt ones at the ends of the file.

    Identification leaves out the same rows. ``is_usable`` and ``is_empty`` are masks of rows with
    a usable time and without a time; ``is_end`` states whether the block is at the beginning and at
    the end of the file. Empty cells are not corrupt.
    """
    count = len(is_usable)
    if not any(is_end):
        return slice(0, count)
    times = np.where(is_usable | is_empty, 0.0, np.inf)
    rows = uncorrupted_rows(times, table)
    return slice(rows.start if is_end[0] else 0, rows.stop if is_end[1] else count)


class _TopicMessages(NamedTuple):
    """Messages of one topic."""

    name_list: int
    topic: int
    rows: NDArray[np.intp]
    counts: NDArray[np.int32]
    numbers: Array


def _column_matrix(table: dict[str, NDArray[Any]], names: Sequence[str]) -> Array:
    """Return columns as a matrix (B, n); NaN for those without a name."""
    count = len(next(iter(table.values())))
    matrix = np.full((count, len(names)), np.nan)
    for k, name in enumerate(names):
        if name:
            matrix[:, k] = table[name]
    return matrix


def _joint_messages(
    joints: _JointColumns, table: dict[str, NDArray[Any]], decoder: Decoder
) -> _TopicMessages:
    """Return messages of the rows with a position, without signals that are empty in a row."""
    blocks = [_column_matrix(table, names) for names in joints.columns]
    is_present = [np.logical_not(np.isnan(block)).any(axis=1).reshape(-1) for block in blocks]
    rows = np.flatnonzero(is_present[0])
    counts = np.stack([mask[rows] * block.shape[1] for mask, block in zip(is_present, blocks)], 1)
    number_mask = np.concatenate(
        [
            np.repeat(mask[rows, None], block.shape[1], axis=1)
            for mask, block in zip(is_present, blocks)
        ],
        axis=1,
    )
    numbers = np.concatenate([block[rows] for block in blocks], axis=1)[number_mask]
    return _TopicMessages(
        decoder.name_list_number(joints.names),
        decoder.topic_number(joints.topic),
        rows,
        counts.astype(np.int32),
        numbers,
    )


def _base_messages(
    base: _BaseColumns, table: dict[str, NDArray[Any]], decoder: Decoder
) -> _TopicMessages:
    """Return odometry of the rows with a pose."""
    pose, twist = _column_matrix(table, base.pose), _column_matrix(table, base.twist)
    if base.is_planar:
        x, y, yaw = pose.T
        zero = np.zeros(len(pose))
        pose = np.stack([x, y, zero, zero, zero, np.sin(0.5 * yaw), np.cos(0.5 * yaw)], 1)
        vx, vy, wz = twist.T
        twist = np.stack([vx, vy, zero, zero, zero, wz], 1)
    rows = np.flatnonzero(~np.isnan(pose[:, 0]))
    counts = np.tile(np.array([7, 6, 0], np.int32), (len(rows), 1))
    return _TopicMessages(
        decoder.child_frame_number(""),
        decoder.topic_number(base.topic),
        rows,
        counts,
        np.concatenate([pose, twist], axis=1)[rows].ravel(),
    )


def _join_messages(
    topics: list[_TopicMessages],
    stamps: NDArray[np.int64],
    log_times: NDArray[np.int64],
    rejected_count: int,
) -> Messages:
    """Return the messages of all topics in the order of their rows."""
    rows = np.concatenate([topic.rows for topic in topics])
    counts = np.concatenate([topic.counts for topic in topics])
    sizes = counts.sum(axis=1, dtype=np.int64)
    order = np.argsort(rows, kind="stable")

    def repeat_in_order(values: list[int]) -> NDArray[np.int32]:
        """Return the value of each message's topic."""
        lengths = [len(topic.rows) for topic in topics]
        return np.repeat(np.array(values, np.int32), lengths)[order]

    return Messages(
        repeat_in_order([topic.name_list for topic in topics]),
        repeat_in_order([topic.topic for topic in topics]),
        log_times[rows][order],
        stamps[rows][order],
        counts[order],
        (np.cumsum(sizes) - sizes)[order],
        np.concatenate([topic.numbers for topic in topics]),
        rejected_count,
    )


FORMAT = Format(scan_table, read_messages, lambda path, place, topics: None)
