# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of a rosbag2 with the storage sqlite3.

A span is a range of row numbers, which are the ids of messages if these are the primary key. Rows
are read in this order, which needs no index, and as far as they are whole in a damaged database.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import Raw
from ...files.limits import Limits
from ...files.reading import open_regular_file
from . import spans as sp
from .chunks import EXCESS_TOPICS, Chunk, limit_chunks, make_source
from .compression import beginning_of_file
from .message_files import Channels, message_format, ros2_type
from .spans import MAX_CHANNELS, Source

MAGIC = b"SQLite format 3\0"
_HEADER_SIZE = 100  # bytes
_SPAN_SIZE = 1 << 21  # bytes
_MIN_SPAN_ROWS, _MAX_SPAN_ROWS = 64, 50_000
_BLOCK_ROWS = 2000
_STEPS_PER_CHECK = 10_000  # steps of the virtual machine of sqlite3
_MAX_STEPS_PER_ROW = 100  # steps
_MAX_FAILURES = 100  # damaged spans; afterwards the search ends
_MAX_NAME_SIZE = 100_000  # bytes, of name and type of a topic
_DEFAULT_SPAN_ROWS = 5000  # used while the size of the table is unknown
_ROWS_IN_RANGE = (
    "FROM messages WHERE _rowid_ >= ? AND _rowid_ < ? AND typeof(topic_id) = 'integer' "
    "AND typeof(timestamp) = 'integer' AND typeof(data) = 'blob'"
)


def _cut_partial_page(path: Path) -> Path:
    """Return the file, or a copy without a partial page at its end, which would read as zeros."""
    page_size, counted_size = _read_sizes(path)
    size = path.stat().st_size
    if not page_size or not size % page_size:
        return path
    whole_size = size - size % page_size
    if 0 < counted_size <= whole_size:  # sqlite does not read what is behind
        return path
    return beginning_of_file(path, whole_size)


def _write_ahead_log(path: Path) -> Path:
    """Return the path of the file with the transactions that a database does not contain yet."""
    return path.with_name(path.name + "-wal")


def _describe_unread_log(path: Path) -> str:
    """Return a sentence on a write-ahead log that is not read, or ""."""
    log = _write_ahead_log(path)
    if not log.exists() or not log.stat().st_size or _cut_partial_page(path) == path:
        return ""
    return (
        f"ends within a page, so that {log.name} is not read, which may contain its last messages"
    )


def _read_sizes(path: Path) -> tuple[int, int]:
    """Return the sizes of a page and of all pages in the header, 0 if it does not count them."""
    with open_regular_file(path) as file:
        header = file.read(_HEADER_SIZE)
    page_size, change, page_count, counted_change = (
        int.from_bytes(header[start:stop], "big")
        for start, stop in ((16, 18), (24, 28), (28, 32), (92, 96))
    )
    page_size = 65536 if page_size == 1 else page_size
    return page_size, page_size * page_count if change == counted_change else 0


def _open_database(path: Path) -> sqlite3.Connection:
    """Open a database without writing to it, except for what a write-ahead log requires."""
    path = _cut_partial_page(path)
    address = f"file:{quote(os.fsencode(path.resolve()))}"
    connection = None
    if _write_ahead_log(path).exists():
        try:
            connection = sqlite3.connect(address + "?mode=ro", uri=True)
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.Error:  # such as a folder that cannot be written to
            connection = None
    connection = connection or sqlite3.connect(address + "?immutable=1", uri=True)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    _limit_steps(connection, _MAX_SPAN_ROWS)
    connection.execute("PRAGMA writable_schema=ON")  # also opens a file that is too short
    return connection


def scan_database(path: Path, limits: Limits) -> Source:
    """Find the topics and spans of a database; raise a ValueError if it is none of rosbag2."""
    with open_regular_file(path) as file:
        if empty := sp.require_magic(file, MAGIC, path, "database of sqlite3"):
            return Source((), (), empty)
    with closing(_open_database(path)) as connection:
        try:
            if computed := _computed_tables(connection):
                return Source((), (), computed)
            rows = connection.execute(
                "SELECT id, name, type, serialization_format FROM topics "
                f"WHERE length(name) + length(type) < {_MAX_NAME_SIZE} LIMIT {MAX_CHANNELS + 1}"
            ).fetchall()
            channels: Channels = tuple(
                (int(number), str(name), ros2_type(str(kind)), str(encoding))
                for number, name, kind, encoding in rows
            )
        except (sqlite3.Error, ValueError, TypeError) as error:
            if path.stat().st_size < _SPAN_SIZE or "no such" in str(error):
                return Source((), (), f"contains no topics of a rosbag2: {error}")
            raise ValueError(f"{str(path)!r}: its topics cannot be read: {error}") from None
        source = _scan_messages(connection, path, channels[:MAX_CHANNELS], limits)
    excess = EXCESS_TOPICS if len(channels) > MAX_CHANNELS else ""
    return replace(
        source, damage=sp.join_damage(source.damage, [excess, _describe_unread_log(path)])
    )


def _computed_tables(connection: sqlite3.Connection) -> str:
    """Return a sentence on tables that are not stored, or an empty string.

    Views, virtual tables and generated columns compute what they contain, which has no limit.
    """
    for table in ("topics", "messages"):
        computed = connection.execute(
            "SELECT 1 FROM sqlite_master WHERE lower(name) = ? AND (type = 'view' OR rootpage = 0) "
            "UNION ALL SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden > 0 LIMIT 1",
            (table, table),
        ).fetchone()
        if computed:
            return (
                f"contains a table {table!r} that is not stored but computed, by a view for "
                "example; copy it into a table"
            )
    try:
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN SELECT 1 {_ROWS_IN_RANGE}", (0, 1)
        ).fetchone()
        has_row_numbers = "PRIMARY KEY" in plan[3]
    except sqlite3.Error as error:
        has_row_numbers = "_rowid_" not in str(error)  # otherwise, the table is damaged or missing
    if not has_row_numbers:  # each span would take a search in all rows
        return (
            "contains a table 'messages' whose rows have no numbers; copy it into a table with the "
            "column 'id INTEGER PRIMARY KEY'"
        )
    return ""


def _scan_messages(
    connection: sqlite3.Connection, path: Path, channels: Channels, limits: Limits
) -> Source:
    """Find the spans of the messages, also in a damaged database."""
    chunks: list[Chunk] = []
    total_counts: Counter[int] = Counter()
    damage = ""
    try:
        first, last, count = connection.execute(
            "SELECT min(_rowid_), max(_rowid_), count(*) FROM messages"
        ).fetchone()
        is_end_known = True
    except sqlite3.Error as error:
        first, last, count, is_end_known = 1, sp.MAX_LOG_TIME, 0, False
        damage = _describe_cut(path) or f"is damaged: {error}"
    if first is None:
        return make_source(channels, (), total_counts, "", 0)
    if not isinstance(first, int) or not isinstance(last, int):
        return Source((), (), f"is damaged; its messages have the numbers {first!r} to {last!r}")
    mean_size = max(path.stat().st_size // count, 1) if count else _SPAN_SIZE // _DEFAULT_SPAN_ROWS
    row_count = min(max(_SPAN_SIZE // mean_size, _MIN_SPAN_ROWS), _MAX_SPAN_ROWS)
    start, failures = first, 0
    last_count = last_size = 0  # messages of the last chunk, and their size if it may be large
    may_be_large = path.stat().st_size > limits.chunk_size
    while start <= last:
        stop = min(start + row_count, sp.MAX_LOG_TIME)
        statistics, problem = _topic_statistics(connection, start, stop, limits, may_be_large)
        while (content_size := sum(row[4] for row in statistics)) > limits.chunk_size:
            if stop == start + 1:
                break
            stop = start + (stop - start) // 2
            statistics, problem = _topic_statistics(connection, start, stop, limits, may_be_large)
        counts = {number: messages for number, messages, *_ in statistics}
        total_counts.update(counts)
        if statistics:
            message_count = sum(counts.values())
            chunk = Chunk(
                (start, stop, limits.chunk_size),
                content_size
                if content_size > limits.chunk_size
                else min(mean_size * message_count, limits.chunk_size),
                counts,
                sp.clip_log_time(min(row[2] for row in statistics)),
                sp.clip_log_time(max(row[3] for row in statistics)),
            )
            last_count += message_count
            last_size += content_size
            if (
                chunks
                and not problem
                and last_count <= row_count
                and last_size <= limits.chunk_size
            ):
                chunks[-1] = _join_chunks(chunks[-1], chunk)  # row numbers are sparse
            else:
                chunks.append(chunk)
                last_count, last_size = row_count if problem else message_count, content_size
        damage = damage or problem
        failures += bool(problem) or not statistics
        if sum(total_counts.values()) > count and is_end_known:
            damage = damage or "is damaged; the same rows are found several times"
            break
        if (
            failures > _MAX_FAILURES
            or not is_end_known
            and (problem or not statistics)
            or stop == sp.MAX_LOG_TIME
        ):
            break
        start = _next_row(connection, stop)
    if not damage and sum(total_counts.values()) < count:
        damage = f"is damaged in {count - sum(total_counts.values()):,} messages"
    if damage:
        damage = f"{damage.rstrip('.')}; {sum(total_counts.values()):,} messages can be read"
    chunks, refusal = limit_chunks(chunks, limits, "message with the number")
    return make_source(channels, chunks, total_counts, sp.join_damage(damage, [refusal]), 0)


def _join_chunks(first: Chunk, second: Chunk) -> Chunk:
    """Return one chunk of two ranges of rows; the counts of the first are updated."""
    for number, count in second.counts.items():
        first.counts[number] = first.counts.get(number, 0) + count
    return first._replace(
        place=(first.place[0], *second.place[1:]),
        size=min(first.size + second.size, first.place[2]),
        start=min(first.start, second.start),
        stop=max(first.stop, second.stop),
    )


def _describe_cut(path: Path) -> str:
    """Return a sentence on a database that is shorter than its header says, or ""."""
    (_, full_size), size = _read_sizes(path), path.stat().st_size
    if size >= full_size:
        return ""
    return f"ends after {size:,} of {full_size:,} bytes"


def _next_row(connection: sqlite3.Connection, start: int) -> int:
    """Return the number of the first row from ``start`` on; damage may cause large gaps."""
    try:
        _limit_steps(connection, _MAX_SPAN_ROWS)
        (number,) = connection.execute(
            "SELECT min(_rowid_) FROM messages WHERE _rowid_ >= ?", (start,)
        ).fetchone()
    except sqlite3.Error:
        return start
    return max(number, start) if isinstance(number, int) else sp.MAX_LOG_TIME


def _limit_steps(connection: sqlite3.Connection, rows: int) -> None:
    """Interrupt the next statement if it takes far more steps than ``rows`` do.

    The pages of a damaged database may refer to each other in a circle.
    """
    rows = min(rows, _MAX_SPAN_ROWS)  # numbers of rows may be sparse
    remaining_checks = 10 + rows * _MAX_STEPS_PER_ROW // _STEPS_PER_CHECK

    def is_too_long() -> bool:
        """Return True, which interrupts the statement, if no check remains."""
        nonlocal remaining_checks
        remaining_checks -= 1
        return remaining_checks < 0

    connection.set_progress_handler(is_too_long, _STEPS_PER_CHECK)


def _topic_statistics(
    connection: sqlite3.Connection, start: int, stop: int, limits: Limits, may_be_large: bool
) -> tuple[list[tuple[int, int, int, int, int]], str]:
    """Return number, count, first and last log time, and size of each topic in a range.

    Returns the damage, too. The sizes [bytes] are 0 unless the range ``may_be_large``, as they take
    time.
    """
    _limit_steps(connection, stop - start)
    size = "length(data)" if may_be_large else "0"
    try:
        return connection.execute(
            "SELECT topic_id, count(*), min(timestamp), max(timestamp), sum(size) "
            f"FROM (SELECT topic_id, timestamp, {size} AS size {_ROWS_IN_RANGE} LIMIT -1) "
            "GROUP BY topic_id",  # LIMIT keeps the sorter from copying the data
            (start, stop),
        ).fetchall(), ""
    except sqlite3.Error:
        rows, error = _read_until_damage(connection, start, stop, limits.chunk_size)
    times: dict[int, list[int]] = {}
    sizes: Counter[int] = Counter()
    for number, time, content in rows:
        times.setdefault(number, []).append(time)
        sizes[number] += len(content)
    return [
        (number, len(times), min(times), max(times), sizes[number])
        for number, times in times.items()
    ], error


def _read_until_damage(
    connection: sqlite3.Connection, start: int, stop: int, max_size: int
) -> tuple[list[tuple[int, int, bytes]], str]:
    """Return the rows before the first that cannot be read, and the damage.

    Reads rows of up to ``max_size`` bytes together.
    """
    rows: list[tuple[int, int, bytes]] = []
    try:
        for block in _read_blocks(connection, start, stop, 1):
            max_size -= len(block[0][2])
            if max_size < 0:
                break
            rows += block
    except sqlite3.Error as error:
        return rows, (f"of the messages from number {start} on, {len(rows):,} can be read: {error}")
    return rows, ""


def _read_blocks(
    connection: sqlite3.Connection, start: int, stop: int, size: int
) -> Iterator[list[tuple[int, int, bytes]]]:
    """Yield topic, log time and content of rows, in blocks."""
    _limit_steps(connection, stop - start)
    cursor = connection.execute(
        f"SELECT topic_id, timestamp, data {_ROWS_IN_RANGE} ORDER BY _rowid_", (start, stop)
    )
    while block := cursor.fetchmany(size):
        yield block


def load_messages(path: Path, places: tuple[Any, ...], codes: dict[int, int]) -> Raw:
    """Load the messages of a span; see `message_files.message_format`."""
    ((start, stop, size),) = places
    indices: list[NDArray[np.int64]] = []
    contents: list[bytes] = []
    problem = ""

    def add_rows(block: list[tuple[int, int, bytes]]) -> None:
        """Add rows of requested channels: topic, log time and content."""
        rows = [row for row in block if row[0] in codes]
        indices.append(
            np.array(
                [(codes[number], time, 0, len(content)) for number, time, content in rows], np.int64
            ).reshape(-1, 4)
        )
        contents.extend([content for _, _, content in rows])

    with closing(_open_database(path)) as connection:
        try:
            for block in _read_blocks(connection, start, stop, _BLOCK_ROWS):
                add_rows(block)  # blocks limit the tuples that the garbage collector visits
        except sqlite3.Error:
            indices.clear()
            contents.clear()
            rows, problem = _read_until_damage(connection, start, stop, size)
            add_rows(rows)
    index = np.concatenate([np.zeros((0, 4), np.int64), *indices])
    index[1:, 2] = np.cumsum(index[:-1, 3])
    return Raw(np.frombuffer(b"".join(contents), np.uint8), index, (problem,) if problem else ())


FORMAT = message_format(scan_database, load_messages)
