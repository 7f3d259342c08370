# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables, CSV or Parquet, as messages: one for each row that contains positions.

The columns are those of the identification: ``position.elbow``, or ``/joint_states/elbow/position``
as PlotJuggler names it, where what precedes the joint is the topic. Positions of a base, such as
``position.root_joint/qw``, become an odometry.
"""
from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.types import Array
from .decode import Decoder, Messages
from .source import JOINT_STATE, ODOMETRY, TABLE, Scan, Span, Topic

_STAMP = "stamp"                # [ns], as in results; more accurate than a time in s
_TOPIC, _BASE_TOPIC = "/joint_states", "/odom"
_SIGNALS = ("position", "velocity", "effort")
_POSE = ("/x", "/y", "/z", "/qx", "/qy", "/qz", "/qw")
_TWIST = ("/linear_x", "/linear_y", "/linear_z", "/angular_x", "/angular_y", "/angular_z")
_PLANAR_POSE, _PLANAR_TWIST = ("/x", "/y", "/theta"), ("/linear_x", "/linear_y", "/angular_z")
_BLOCK = 1 << 22                # bytes of a CSV file, at most, in a span
_UNKNOWN = (None, "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "N/A",
            "NA", "NULL", "n/a", "null")        # cells that pyarrow reads as empty
_LAST_TIME = 2 ** 62            # ns
_NO_TIME = -2 ** 63
_SECTOR = 512                   # bytes: a file that was cut by a full disk or a stop is a multiple
_BEGUN = re.compile(r"[-+]?(\d*\.?\d*[eE][-+]?)?")
_ROWS = 32768                   # rows of a Parquet file, at most, in a span


class _Joints(NamedTuple):
    """Columns of the joints of one topic; no columns of a signal that not all joints have."""

    topic: str
    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]        # of positions, velocities, efforts


class _Base(NamedTuple):
    """Columns of a base, in the order of a pose and a twist; empty names for what is not there."""

    topic: str
    is_planar: bool
    pose: tuple[str, ...]
    twist: tuple[str, ...]


class _Columns:
    """What the columns of a table contain."""

    def __init__(self, names: Sequence[str], path: Path) -> None:
        from ..identification.columns import TIMES, parsed
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"{str(path)!r} has several columns of the name {repeated[0]!r}; "
                             "rename or remove all but one")
        self.time = next((name for name in (_STAMP, *TIMES) if name in names), "")
        found: dict[str, dict[str, dict[str, str]]] = {}
        for name in names:
            signal, owner = parsed(name)
            if signal in _SIGNALS:
                signals = found.setdefault(_topic(name), {each: {} for each in _SIGNALS})
                signals[signal][owner] = name
        if not self.time or not any(signals["position"] for signals in found.values()):
            raise ValueError(f"{str(path)!r}: expected a column {' or '.join(map(repr, TIMES))}, "
                             "in s, and columns such as 'position.elbow' or "
                             f"'/joint_states/elbow/position', got {', '.join(names[:20])}")
        self.bases = [base for topic, signals in found.items()
                      for base in _bases(topic, signals)]
        used = {name for base in self.bases for name in (*base.pose, *base.twist)}
        self.joints = [joints for topic, signals in found.items()
                       if (joints := _joints(topic, signals, used)).names]

    def topics(self, count: int) -> tuple[Topic, ...]:
        return (*(Topic(joints.topic, JOINT_STATE, TABLE, count) for joints in self.joints),
                *(Topic(base.topic, ODOMETRY, TABLE, count) for base in self.bases))

    def names(self, topics: Collection[str]) -> list[str]:
        """Names of the columns that are read."""
        names = [name for joints in self.joints if joints.topic in topics
                 for group in joints.columns for name in group]
        names += [name for base in self.bases if base.topic in topics
                  for name in (*base.pose, *base.twist) if name]
        return list(dict.fromkeys((self.time, *names)))


def _topic(name: str) -> str:
    """The topic that a column of PlotJuggler names, or the usual one."""
    before, found, _ = name.rpartition("joint_states/")
    return f"/{(before + found).strip('/')}" if found else _TOPIC


def _joints(topic: str, signals: dict[str, dict[str, str]], used: set[str]) -> _Joints:
    names = tuple(owner for owner, column in signals["position"].items() if column not in used)
    columns = tuple(
        tuple(signals[signal][name] for name in names)
        if all(name in signals[signal] for name in names) else () for signal in _SIGNALS)
    return _Joints(topic, names, columns)


def _bases(topic: str, signals: dict[str, dict[str, str]]) -> Iterator[_Base]:
    positions, velocities = signals["position"], signals["velocity"]
    place = topic.rpartition("/")[0]
    for is_planar, pose, twist in ((False, _POSE, _TWIST), (True, _PLANAR_POSE, _PLANAR_TWIST)):
        for owner in positions:
            name = owner.removesuffix(pose[-1])
            if name != owner and all(name + suffix in positions for suffix in pose):
                yield _Base(place + _BASE_TOPIC, is_planar,
                            tuple(positions[name + suffix] for suffix in pose),
                            tuple(velocities.get(name + suffix, "") for suffix in twist))


# --- files

def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise ImportError("tables require pyarrow: pip install dyn_ros[logs]") from None
    return pyarrow


def scan(path: Path) -> Scan:
    """Find the topics and spans of a table.

    Raises
    ------
    ValueError
        It is no table, or has no columns of times and positions.
    OSError
        It cannot be read.
    ImportError
        Without pyarrow.
    """
    if path.stat().st_size == 0:
        return Scan((), (), "is empty: 0 bytes")
    find_blocks = _csv_blocks if path.suffix.lower() == ".csv" else _parquet_blocks
    names, blocks, damage = find_blocks(path)
    columns = _Columns(names, path)
    spans: list[Span] = []
    time: int | None = None
    log_time = count = 0
    for place, size in blocks:
        table, problems = _read(path, names, place, [columns.time])
        stamps = _stamps(table, columns.time)[1]
        damage.extend(problem for problem in problems if problem not in damage)
        if not len(stamps):
            continue
        first = int(stamps[0])
        log_time = first if time is None else log_time + max(first - time, 0)
        stop = int(_log_times(stamps, log_time)[-1])
        spans.append(Span(log_time, stop, size, (tuple(names), place, log_time)))
        time, log_time = int(stamps[-1]), stop
        count += len(stamps)
    return Scan(columns.topics(count), tuple(spans), "; ".join(damage))


def _csv_blocks(path: Path) -> tuple[list[str], Iterator[tuple[tuple[int, ...], int]], list[str]]:
    """Names of the columns, blocks of lines, and damage."""
    from ..identification.columns import names_of
    with open(path, "rb") as file:
        head = file.readline()
    try:
        names = names_of(path, head.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r}: expected text in UTF-8: {error}; save the table as CSV "
                         "in UTF-8, or as Parquet") from None

    damage: list[str] = []

    def blocks() -> Iterator[tuple[tuple[int, ...], int]]:
        start = len(head)
        with open(path, "rb") as file:
            while True:
                file.seek(start)
                block = file.read(_BLOCK)
                length = block.rfind(b"\n") + 1
                if not length:
                    break
                yield (start, length), length
                start += length
        if _is_row(block, len(names)) and (start + len(block)) % _SECTOR:
            yield (start, len(block)), len(block)
        elif block or not head.endswith(b"\n"):
            damage.append("ends without a line break: its last line may be cut, and is ignored")

    return names, blocks(), damage


def _is_row(line: bytes, count: int) -> bool:
    """Whether a line has so many cells, and the last one is not the beginning of a number."""
    try:
        rows = list(csv.reader([line.decode()], strict=True))
    except (csv.Error, UnicodeDecodeError):
        return False
    return (len(rows) == 1 and len(rows[0]) == count
            and not _BEGUN.fullmatch(rows[0][-1].strip()))


def _parquet_blocks(path: Path
                    ) -> tuple[list[str], Iterator[tuple[tuple[int, ...], int]], list[str]]:
    """Names of the columns, ranges of rows in row groups, and damage."""
    file = _parquet(path)
    names = list(file.schema_arrow.names)

    def blocks() -> Iterator[tuple[tuple[int, ...], int]]:
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            for start in range(0, rows, _ROWS):
                count = min(_ROWS, rows - start)
                yield (group, start, count), count * len(names) * 8

    return names, blocks(), []


def _parquet(path: Path) -> Any:
    arrow = _pyarrow()
    try:
        return arrow.parquet.ParquetFile(path, pre_buffer=False)
    except (arrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None):       # such as a file that is not there
            raise
        raise ValueError(f"{str(path)!r} is cut, or no Parquet file: {error}") from None


def _read(path: Path, names: Sequence[str], place: tuple[int, ...], columns: list[str]
          ) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Columns of a block by name, and problems."""
    arrow = _pyarrow()
    problems: list[str] = []
    try:
        if path.suffix.lower() == ".csv":
            table = _read_csv(arrow, path, names, place, columns, problems)
        else:
            table = _groups.read(path, place, columns)
        return {name: _numbers(arrow, name, table.column(name)) for name in columns}, problems
    except (arrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None):
            raise
        return ({name: np.zeros(0) for name in columns},
                [*problems, f"the rows of a part cannot be read: {error}"])


def _read_csv(arrow: Any, path: Path, names: Sequence[str], place: tuple[int, ...],
              columns: list[str], problems: list[str]) -> Any:
    start, length = place
    with open(path, "rb") as file:
        file.seek(start)
        block = file.read(length)
    if not block.isascii():         # of text, which is not read
        block = block.decode("ascii", "replace").encode("ascii", "replace")
    skipped: list[int] = []

    def skip(row: Any) -> str:
        skipped.append(row.actual_columns)
        return "skip"

    def convert(types: dict[str, Any]) -> Any:
        skipped.clear()
        return arrow.csv.read_csv(
            io.BytesIO(block), arrow.csv.ReadOptions(
                use_threads=False, column_names=list(names), block_size=len(block)),
            arrow.csv.ParseOptions(invalid_row_handler=skip),
            arrow.csv.ConvertOptions(include_columns=columns, column_types=types))

    types = {name: arrow.int64() if name == _STAMP else arrow.float64() for name in columns}
    try:
        table = convert(types)
    except arrow.ArrowInvalid:
        table = _with_words(arrow, convert(dict.fromkeys(columns, arrow.string())), types, problems)
    if skipped:
        problems.append(f"skipped {len(skipped)} lines that have {skipped[0]} instead of "
                        f"{len(names)} columns")
    return table


def _with_words(arrow: Any, table: Any, types: dict[str, Any], problems: list[str]) -> Any:
    """The numbers of a table of texts; a row in which something else is has only its time.

    The first column is the time.
    """
    made: dict[str, list[float | None]] = {}
    bad: dict[int, str] = {}
    for name, kind in types.items():
        read: Any = int if arrow.types.is_integer(kind) else float
        made[name] = []
        for row, text in enumerate(table.column(name).to_pylist()):
            try:
                made[name].append(None if text in _UNKNOWN else read(text))
            except ValueError:
                made[name].append(None)
                bad.setdefault(row, f"{text[:20]!r} in the column {name!r}")
    if bad:
        problems.append(f"skipped {len(bad)} lines with something else than numbers, the first: "
                        f"{bad[min(bad)]}")
    for values in list(made.values())[1:]:
        for row in bad:
            values[row] = None
    return arrow.table({name: arrow.array(values, types[name]) for name, values in made.items()})


class _Groups:
    """Reads ranges of rows; those of one row group, in order, are decoded once."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._batches: Iterator[Any] = iter(())
        self._next = 0

    def read(self, path: Path, place: tuple[int, ...], columns: list[str]) -> Any:
        arrow = _pyarrow()
        group, start, _ = place
        key = path, path.stat().st_mtime_ns, group, tuple(columns)
        if key != self._key or start != self._next:
            self._batches = _parquet(path).iter_batches(
                _ROWS, row_groups=[group], columns=columns, use_threads=False)
            self._key, self._next = key, 0
        batch = None
        while self._next <= start:
            batch = next(self._batches, None)
            if batch is None:
                raise arrow.ArrowInvalid(f"row group {group} has fewer rows than the file states")
            self._next += len(batch)
        return arrow.Table.from_batches([batch])


_groups = _Groups()


def _numbers(arrow: Any, name: str, column: Any) -> NDArray[Any]:
    """A column as numbers; empty cells are NaN, or no time."""
    if not (arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)):
        raise arrow.ArrowInvalid(f"the column {name!r} has the type {column.type}, expected "
                                 "numbers")
    if name == _STAMP and arrow.types.is_integer(column.type):      # exact, where NaN is a float
        column = column.cast(arrow.int64(), safe=False).fill_null(_NO_TIME)
    return np.asarray(column.to_numpy())


# --- rows

def _stamps(table: dict[str, NDArray[Any]], name: str
            ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows have a time, and their times [ns]."""
    values = table[name]
    if values.dtype == np.int64 and name == _STAMP:
        known = (values > -_LAST_TIME) & (values < _LAST_TIME)
        return known, values[known]
    with np.errstate(over="ignore"):
        scaled = np.round(values.astype(float) * (1.0 if name == _STAMP else 1e9))
    usable = np.abs(scaled) < _LAST_TIME
    return usable, scaled[usable].astype(np.int64)


def _log_times(stamps: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Times that never go back: a step back takes no time."""
    steps = np.maximum(np.diff(stamps, prepend=stamps[:1]), 0)
    return first + np.cumsum(steps)


def read(path: Path, place: tuple[Any, ...], topics: Collection[str], decoder: Decoder
         ) -> Messages:
    """Read the messages of a span.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    names, block, first = place
    columns = _Columns(names, path)
    table, problems = _read(path, names, block, columns.names(topics))
    for problem in problems:
        decoder.report(problem)
    usable, stamps = _stamps(table, columns.time)
    bad = int(np.count_nonzero(~usable))
    if bad:
        decoder.report("rows without a time", bad)
        table = {name: values[usable] for name, values in table.items()}
    parts = [_joint_messages(joints, table, decoder) for joints in columns.joints
             if joints.topic in topics]
    parts += [_base_messages(base, table, decoder) for base in columns.bases
              if base.topic in topics]
    if not parts or not len(stamps):
        return Messages.none(bad)
    return _joined(parts, stamps, _log_times(stamps, first), bad)


class _Part(NamedTuple):
    """Messages of one topic."""

    layout: int
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


def _joint_messages(joints: _Joints, table: dict[str, NDArray[Any]], decoder: Decoder) -> _Part:
    """Messages of the rows with a position; without a signal that has no number in a row."""
    blocks = [_matrix(table, names) for names in joints.columns]
    present = [np.logical_not(np.isnan(block)).any(axis=1).reshape(-1) for block in blocks]
    rows = np.flatnonzero(present[0])
    counts = np.stack([given[rows] * block.shape[1] for given, block in zip(present, blocks)], 1)
    mask = np.concatenate([np.repeat(given[rows, None], block.shape[1], axis=1)
                           for given, block in zip(present, blocks)], axis=1)
    numbers = np.concatenate([block[rows] for block in blocks], axis=1)[mask]
    return _Part(decoder.layout(joints.names), decoder.topic(joints.topic), rows,
                 counts.astype(np.int32), numbers)


def _base_messages(base: _Base, table: dict[str, NDArray[Any]], decoder: Decoder) -> _Part:
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
    return _Part(decoder.child(""), decoder.topic(base.topic), rows, counts,
                 np.concatenate([pose, twist], axis=1)[rows].ravel())


def _joined(parts: list[_Part], stamps: NDArray[np.int64], log_times: NDArray[np.int64],
            bad: int) -> Messages:
    """Messages of all topics, in order of their rows."""
    rows = np.concatenate([part.rows for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    sizes = counts.sum(axis=1, dtype=np.int64)
    order = np.argsort(rows, kind="stable")

    def repeated(values: list[int]) -> NDArray[np.int32]:
        lengths = [len(part.rows) for part in parts]
        return np.repeat(np.array(values, np.int32), lengths)[order]

    return Messages(
        repeated([part.layout for part in parts]), repeated([part.topic for part in parts]),
        log_times[rows][order], stamps[rows][order], counts[order],
        (np.cumsum(sizes) - sizes)[order], np.concatenate([part.numbers for part in parts]), bad)
