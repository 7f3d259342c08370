# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of a rosbag2 with the storage sqlite3.

A span is a range of row numbers. Rows are read in this order, which needs no index, and as far as
they are whole in a damaged database.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import Raw
from . import serialized as ser
from . import spans as sp
from .chunks import Chunk, scan_of
from .compression import beginning_of_file
from .serialized import Channels
from .spans import Source

MAGIC = b"SQLite format 3\0"
_SPAN = 1 << 21  # bytes
_FEWEST, _MOST = 64, 50_000  # rows of a span
_BLOCK = 2000  # rows
_STEPS = 10_000  # of the virtual machine of sqlite3 between checks of its progress
_ROW_STEPS = 100  # more than a row takes
_FAILURES = 100  # damaged spans after which the rest is not searched
_UNKNOWN = 5000  # rows of a span if the size of the table is unknown
_WHERE = (
    "FROM messages WHERE id >= ? AND id < ? AND typeof(topic_id) = 'integer' "
    "AND typeof(timestamp) = 'integer' AND typeof(data) = 'blob'"
)


def _whole_pages(path: Path) -> Path:
    """The file, or a copy without the incomplete page at its end, which would read as zeros."""
    with open(path, "rb") as file:
        file.seek(16)
        page = int.from_bytes(file.read(2), "big")
    page = 65536 if page == 1 else page
    size = path.stat().st_size
    return beginning_of_file(path, size - size % page) if page and size % page else path


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database; nothing is written, except for what a write-ahead log requires."""
    path = _whole_pages(path)
    address = f"file:{quote(str(path.resolve()))}"
    has_log = path.with_name(path.name + "-wal").exists()
    connection = None
    if has_log:
        try:
            connection = sqlite3.connect(address + "?mode=ro", uri=True)
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error:  # such as a folder that cannot be written to
            connection = None
    connection = connection or sqlite3.connect(address + "?immutable=1", uri=True)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    _limit(connection, _MOST)
    connection.execute("PRAGMA writable_schema=ON")  # also opens a file that is too short
    return connection


def scan(path: Path) -> Source:
    """Find the topics and spans of a database; a ValueError if it is none of rosbag2."""
    with open(path, "rb") as file:
        if empty := sp.require_start(file, MAGIC, path, "database of sqlite3"):
            return Source((), (), empty)
    with closing(_connect(path)) as connection:
        try:
            rows = connection.execute(
                "SELECT id, name, type, serialization_format FROM topics"
            ).fetchall()
            channels: Channels = tuple(
                (int(number), str(name), ser.ros2_type(str(kind)), str(encoding))
                for number, name, kind, encoding in rows
            )
        except (sqlite3.Error, ValueError, TypeError) as error:
            if path.stat().st_size < _SPAN or "no such" in str(error):
                return Source((), (), f"contains no topics of a rosbag2: {error}")
            raise ValueError(f"{str(path)!r}: its topics cannot be read: {error}") from None
        return _scan_messages(connection, path, channels)


def _scan_messages(connection: sqlite3.Connection, path: Path, channels: Channels) -> Source:
    chunks: list[Chunk] = []
    total: Counter[int] = Counter()
    damage = ""
    try:
        first, last, count = connection.execute(
            "SELECT min(id), max(id), count(*) FROM messages"
        ).fetchone()
        is_end_known = True
    except sqlite3.Error as error:
        first, last, count, is_end_known = 1, sp.LATEST, 0, False
        damage = f"is damaged: {error}"
    if first is None:
        return scan_of(channels, (), total, "", 0)
    if not isinstance(first, int) or not isinstance(last, int):
        return Source((), (), f"is damaged; its messages have the numbers {first!r} to {last!r}")
    mean = max(path.stat().st_size // count, 1) if count else _SPAN // _UNKNOWN
    rows = min(max(_SPAN // mean, _FEWEST), _MOST)
    start, failures = first, 0
    while start <= last:
        stop = min(start + rows, sp.LATEST)
        of_topics, problem = _examine(connection, start, stop)
        counts = {number: messages for number, messages, *_ in of_topics}
        total.update(counts)
        if of_topics:
            chunks.append(
                Chunk(
                    (start, stop),
                    mean * sum(counts.values()),
                    sp.limited(min(row[2] for row in of_topics)),
                    sp.limited(max(row[3] for row in of_topics)),
                    counts,
                )
            )
        damage = damage or problem
        failures += bool(problem) or not of_topics
        if sum(total.values()) > count and is_end_known:
            damage = damage or "is damaged; the same rows are found several times"
            break
        if (
            failures > _FAILURES
            or not is_end_known
            and (problem or not of_topics)
            or stop == sp.LATEST
        ):
            break
        start = _next_row(connection, stop)
    if not damage and sum(total.values()) < count:
        damage = f"is damaged in {count - sum(total.values()):,} messages"
    if damage:
        damage = f"{damage.rstrip('.')}; {sum(total.values()):,} messages can be read"
    return scan_of(channels, chunks, total, damage, 0)


def _next_row(connection: sqlite3.Connection, start: int) -> int:
    """Number of the first row from a number on; a damaged database may have large gaps."""
    try:
        _limit(connection, _MOST)
        (number,) = connection.execute(
            "SELECT min(id) FROM messages WHERE id >= ?", (start,)
        ).fetchone()
    except sqlite3.Error:
        return start
    return max(number, start) if isinstance(number, int) else sp.LATEST


def _limit(connection: sqlite3.Connection, rows: int) -> None:
    """Interrupt the next statement if it takes far longer than so many rows do.

    The pages of a damaged database may refer to each other in a circle.
    """
    left = 10 + rows * _ROW_STEPS // _STEPS

    def is_too_long() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(is_too_long, _STEPS)


def _examine(
    connection: sqlite3.Connection, start: int, stop: int
) -> tuple[list[tuple[int, int, int, int]], str]:
    """Number, count, earliest and latest of each topic in a range; and what is damaged."""
    _limit(connection, stop - start)
    try:
        return connection.execute(
            f"SELECT topic_id, count(*), min(timestamp), max(timestamp) {_WHERE} GROUP BY topic_id",
            (start, stop),
        ).fetchall(), ""
    except sqlite3.Error:
        rows, error = _whole_rows(connection, start, stop)
    times: dict[int, list[int]] = {}
    for number, time, _ in rows:
        times.setdefault(number, []).append(time)
    return [(number, len(times), min(times), max(times)) for number, times in times.items()], error


def _whole_rows(
    connection: sqlite3.Connection, start: int, stop: int
) -> tuple[list[tuple[int, int, bytes]], str]:
    """Rows up to the first that cannot be read."""
    rows: list[tuple[int, int, bytes]] = []
    try:
        rows.extend(row for block in _blocks(connection, start, stop, 1) for row in block)
    except sqlite3.Error as error:
        return rows, f"is damaged in the messages {start} to {stop - 1}: {error}"
    return rows, ""


def _blocks(
    connection: sqlite3.Connection, start: int, stop: int, size: int
) -> Iterator[list[tuple[int, int, bytes]]]:
    _limit(connection, stop - start)
    cursor = connection.execute(
        f"SELECT topic_id, timestamp, data {_WHERE} ORDER BY id", (start, stop)
    )
    while block := cursor.fetchmany(size):
        yield block


def load(path: Path, place: tuple[Any, ...], codes: dict[int, int]) -> Raw:
    ((start, stop),) = place
    heads: list[NDArray[np.int64]] = []
    contents: list[bytes] = []
    problem = ""

    def take(block: list[tuple[int, int, bytes]]) -> None:
        rows = [row for row in block if row[0] in codes]
        heads.append(
            np.array(
                [(codes[number], time, 0, len(content)) for number, time, content in rows], np.int64
            ).reshape(-1, 4)
        )
        contents.extend([content for _, _, content in rows])

    with closing(_connect(path)) as connection:
        try:
            for block in _blocks(connection, start, stop, _BLOCK):
                take(block)  # many tuples at a time would be searched for garbage
        except sqlite3.Error:
            heads.clear()
            contents.clear()
            rows, problem = _whole_rows(connection, start, stop)
            take(rows)
    index = np.concatenate([np.zeros((0, 4), np.int64), *heads])
    index[1:, 2] = np.cumsum(index[:-1, 3])
    return Raw(np.frombuffer(b"".join(contents), np.uint8), index, (problem,) if problem else ())


FORMAT = ser.serialized(scan, load)
