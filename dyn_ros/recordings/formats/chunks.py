# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files read in chunks, and the common structure of records in MCAP and ROS 1 bags."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import Raw
from ...engine.call.algorithm import load_function
from ...engine.machine_code.compiler import Entry
from ...files.limits import Limits
from ...files.reading import open_regular_file
from . import spans as sp
from .compression import Damaged
from .index_kernel import MIN_RECORD_SIZE
from .message_files import Channels, message_format
from .spans import MAX_CHANNELS, Format, Source, Span, Topic

_MAX_DEFINITIONS = 200_000
"""Largest number of schemas and channels that are read, also repeated ones; it takes 0.5 s."""

_MIN_RECORD_LIMIT = 1_000_000  # records outside chunks; their headers are read in 5 s
_MIN_MEAN_RECORD_SIZE = 1000  # bytes; chunks and their indexes have more on average
_MAX_LISTED_CHUNKS = 20
EXCESS_TOPICS = f"contains more topics than {MAX_CHANNELS:,}; the others are not read"
_MIN_BLOCK_SIZE, _MAX_BLOCK_SIZE = 1 << 6, 1 << 16  # bytes; zeros are skipped block by block

_NO_MESSAGES = np.zeros((0, 4), np.int64)

ChunkReader = Callable[[BinaryIO, tuple[Any, ...]], tuple[bytes, bool]]
"""Function that returns the records of a chunk at a place, and True if their end is missing.

It raises `Damaged` if they cannot be read.
"""


class Chunk(NamedTuple):
    """A chunk, consecutive messages outside chunks, or rows of a database.

    Attributes
    ----------
    place : tuple
        Offset [bytes] or first row, and what else locates the chunk in the file.
    size : int
        Size of the content [bytes, uncompressed].
    counts : dict of int to int
        Numbers of messages by channel; 0 if only their presence is known, empty if nothing is.
    start, stop : int
        Log times of the first and last message [ns]; ``stop`` < ``start`` if there is none.
    stored_size : int
        Size in the file [bytes].
    """

    place: tuple[Any, ...]
    size: int
    counts: dict[int, int]
    start: int = 1 << 62
    stop: int = -1
    stored_size: int = 0

    def is_known(self, channels: Mapping[int, Any]) -> bool:
        """Return True if times and channels are known without reading the chunk."""
        return (
            bool(self.counts)
            and self.counts.keys() <= channels.keys()
            and 0 < self.stop >= self.start
        )


class ChunkScanner(ABC):
    """Reader of the headers of all records, and of chunks whose times or channels are unknown."""

    def __init__(
        self,
        file: BinaryIO,
        path: Path,
        limits: Limits,
        entry: Entry,
        read_records: ChunkReader,
    ) -> None:
        self.file, self.path, self.end = file, path, path.stat().st_size
        self.limits, self._entry, self._read_records = limits, entry, read_records
        self.channels: dict[int, tuple[str, str, str]] = {}  # topic, type and encoding by number
        self.chunks: list[Chunk] = []
        self.damage = ""
        self._problems: list[str] = []  # sentences on content that is not read
        self._definition_count = 0
        self._remaining_records = _MIN_RECORD_LIMIT + self.end // _MIN_MEAN_RECORD_SIZE

    @abstractmethod
    def define(self, code: int, record: bytes) -> None:
        """Add what a record defines, a schema or channel; its code is negative."""

    def note_damage(self, damage: str) -> None:
        """Note damage of the file unless there was some before."""
        self.damage = self.damage or damage

    def note_refusal(self, problem: str) -> None:
        """Note what exceeds a limit, once."""
        if problem not in self._problems:
            self._problems.append(problem)

    def count_record(self, position: int) -> bool:
        """Count a record outside chunks; return False, and note it, after too many."""
        self._remaining_records -= 1
        if self._remaining_records >= 0:
            return True
        self.note_refusal(
            f"is not read from byte {position:,} on: it has more records than expected of "
            f"{self.end:,} bytes"
        )
        return False

    def read_record(self, offset: int, length: int) -> bytes:
        """Return the content of a record outside chunks; none if it is larger than a chunk."""
        if length <= self.limits.chunk_size:
            return self.read(offset, length)
        self.note_refusal(
            f"contains a record at byte {offset:,} that is skipped: "
            f"{self.limits.describe_chunk(length)}"
        )
        return b""

    def skip_zeros(self, position: int) -> int:
        """Return the offset of the next byte that is not 0, or the end of the file."""
        self.file.seek(position)
        size = _MIN_BLOCK_SIZE
        while block := self.file.read(size):
            if nonzero_tail := block.lstrip(b"\0"):
                return position + len(block) - len(nonzero_tail)
            position += len(block)
            size = min(2 * size, _MAX_BLOCK_SIZE)
        return self.end

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        return read_at(self.file, offset, length)

    def set_last_count(self, number: int, count: int) -> None:
        """Set the number of messages of a channel in the last chunk, of `MAX_CHANNELS` at most."""
        counts = self.chunks[-1].counts
        if len(counts) < MAX_CHANNELS or number in counts:
            counts[number] = count

    def forget_last_counts(self) -> None:
        """Forget the counts of the last chunk, whose index may be cut."""
        if self.chunks:
            self.chunks[-1] = self.chunks[-1]._replace(counts={})

    def define_channels(self, content: bytes | memoryview) -> tuple[NDArray[np.int64], int]:
        """Add what records define; return what `index_messages` does, without definitions."""
        index, size = index_messages(self._entry, np.frombuffer(content, np.uint8), None)
        if not len(index) or index[:, 0].min() >= 0:
            return index, size
        definitions = np.flatnonzero(index[:, 0] < 0)
        remaining = _MAX_DEFINITIONS - self._definition_count
        if len(definitions) > remaining:
            self.note_refusal(
                f"contains more than {_MAX_DEFINITIONS:,} descriptions of topics; the others "
                "are not read"
            )
        for code, _, offset, length in index[definitions[:remaining]].tolist():
            self.define(code, bytes(content[offset : offset + length]))
        self._definition_count += min(len(definitions), remaining)
        return index[index[:, 0] >= 0], size

    def add_channel(self, number: int, channel: tuple[str, str, str]) -> None:
        """Add topic, type and encoding of a channel, unless its number is taken."""
        if len(self.channels) < MAX_CHANNELS:
            self.channels.setdefault(number, channel)
        elif number not in self.channels:
            self.note_refusal(EXCESS_TOPICS)

    def examine_chunks(self) -> None:
        """Leave out chunks beyond the limits; read those whose times or channels are unknown."""
        self.chunks, refusal = limit_chunks(self.chunks, self.limits)
        if refusal:
            self.note_refusal(refusal)
        skipped_count = 0
        for k, chunk in enumerate(self.chunks):
            if chunk.is_known(self.channels):
                continue
            content, _, problem = _read_chunk(self.file, chunk.place, self._read_records)
            if not problem:
                self.chunks[k] = count_messages(chunk, self.define_channels(content)[0])
            elif chunk.stop < chunk.start:  # otherwise reported when the chunk is read
                skipped_count += 1
                if skipped_count <= _MAX_LISTED_CHUNKS:
                    self._problems.append(problem)
        if skipped_count > _MAX_LISTED_CHUNKS:
            self._problems.append(f"{skipped_count - _MAX_LISTED_CHUNKS:,} more chunks are skipped")

    def source(self, span_size: int) -> Source:
        """Return topics and spans, see `make_source`."""
        counts: Counter[int] = Counter()
        for chunk in self.chunks:
            counts.update(chunk.counts)
        is_counted = all(chunk.counts or chunk.stop < 0 for chunk in self.chunks)
        channels = tuple((number, *channel) for number, channel in sorted(self.channels.items()))
        known_counts = counts if is_counted else None
        damage = sp.join_damage(self.damage, self._problems)
        return make_source(channels, self.chunks, known_counts, damage, span_size)


def limit_chunks(
    chunks: Sequence[Chunk], limits: Limits, what: str = "chunk at byte"
) -> tuple[list[Chunk], str]:
    """Return the chunks within limits, and a sentence on the others, or an empty string."""
    readable: list[Chunk] = []
    refused: list[Chunk] = []
    content_size = 0
    for chunk in chunks:
        is_readable = max(chunk.size, chunk.stored_size) <= limits.chunk_size
        if is_readable and content_size + chunk.size > limits.content_size:
            place = f"is not read from the {what} {chunk.place[0]:,} on"
            return readable, f"{place}: {limits.describe_content()}"
        content_size += chunk.size if is_readable else 0
        (readable if is_readable else refused).append(chunk)
    if not refused:
        return readable, ""
    more = "" if len(refused) == 1 else f"; so are {len(refused) - 1:,} others"
    return readable, (
        f"contains a {what} {refused[0].place[0]:,} that is skipped: "
        f"{limits.describe_chunk(max(refused[0].size, refused[0].stored_size))}{more}"
    )


def count_messages(chunk: Chunk, index: NDArray[np.int64]) -> Chunk:
    """Return a chunk with the times and counts of its messages.

    ``index`` has a row for each message, see `index_messages`, with the number of its channel.
    """
    if not len(index):  # there may be a million empty chunks
        return chunk._replace(start=1 << 62, stop=-1, counts={})
    times = index[index[:, 1] >= 0, 1]
    return chunk._replace(
        start=int(times.min(initial=1 << 62)),
        stop=int(times.max(initial=-1)),
        counts=dict(Counter(index[:, 0].tolist())),
    )


def make_source(
    channels: Channels,
    chunks: Sequence[Chunk],
    counts: Mapping[int, int] | None,
    damage: str,
    span_size: int,
) -> Source:
    """Return topics and spans; counts of messages by channel are None if they are unknown.

    Chunks are joined to spans of at most ``span_size`` [bytes]; empty chunks are left out.
    """
    topics = [
        Topic(name, kind, encoding, None if counts is None else counts.get(number, 0))
        for number, name, kind, encoding in channels
    ]
    groups: list[list[Chunk]] = []
    group_size = 0
    for chunk in chunks:
        if chunk.stop < chunk.start:
            continue
        if not groups or group_size + chunk.size > span_size:
            groups.append([])
            group_size = 0
        groups[-1].append(chunk)
        group_size += chunk.size
    channel_by_number = {channel[0]: channel for channel in channels}
    subsets: dict[frozenset[int], Channels] = {}  # shared by spans, to save memory

    def make_span(group: list[Chunk]) -> Span:
        """Return the span of chunks; its place is their channels, then the place of each."""
        numbers = frozenset(number for chunk in group for number in chunk.counts)
        if not all(chunk.counts for chunk in group):
            numbers = frozenset(channel_by_number)
        if numbers not in subsets:
            subsets[numbers] = tuple(
                channel_by_number[number] for number in sorted(numbers & channel_by_number.keys())
            )
        return Span(
            min(chunk.start for chunk in group),
            max(chunk.stop for chunk in group),
            sum(chunk.size for chunk in group),
            (subsets[numbers], *(chunk.place for chunk in group)),
        )

    return Source(sp.merge_topics(topics), tuple(map(make_span, groups)), damage)


# --- reading


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    """Return bytes of a file, fewer at its end."""
    file.seek(offset)
    return file.read(length)


def _read_chunk(
    file: BinaryIO, place: tuple[Any, ...], read_records: ChunkReader
) -> tuple[bytes, bool, str]:
    """Return the records of a chunk, True if their end is missing, and the problem if any."""
    try:
        return *read_records(file, place), ""
    except Damaged as error:
        return b"", False, f"the chunk at byte {place[0]} is skipped: {error}"


def index_messages(
    entry: Entry, content: NDArray[np.uint8], channels: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], int]:
    """Return the index of the messages in uncompressed records, and the size of whole records.

    Each row has code, log time, offset and length of a message. ``channels`` has the number and
    code of each channel, sorted; if None, all messages are listed with the numbers of their
    channels, and records that define channels with negative codes, and the size is that of the
    records before the first chunk.
    """
    if len(content) < MIN_RECORD_SIZE:
        return _NO_MESSAGES, 0
    index = np.empty((len(content) // MIN_RECORD_SIZE + 2, 4), np.int64)  # first row: sizes
    address = index.ctypes.data
    load_function(entry)(
        content.ctypes.data,
        len(content),
        0 if channels is None else channels.ctypes.data,
        -1 if channels is None else len(channels),
        address + index.strides[0],
        address,
    )
    row_count, size = index[0, :2].tolist()
    return index[1 : row_count + 1], size


def chunk_format(
    scan: Callable[[Path, Limits], Source], entry: Entry, read_records: ChunkReader
) -> Format:
    """Return the format of files of chunks, from functions that scan a file and read a chunk."""

    def load_messages(path: Path, places: tuple[Any, ...], codes: dict[int, int]) -> Raw:
        """Return the messages of channels with codes, in the chunks at these places."""
        contents, indices, problems, size = [], [], [], 0
        channels = np.array(sorted(codes.items()), np.int64).reshape(-1, 2)
        with open_regular_file(path) as file:
            file_size = os.fstat(file.fileno()).st_size
            for place in places:
                records, is_cut, problem = _read_chunk(file, place, read_records)
                data = np.frombuffer(records, np.uint8)
                index, end = index_messages(entry, data, channels)
                if end < len(data) and not is_cut:
                    problem = (
                        f"the chunk at byte {place[0]} is damaged: {len(data) - end:,} of "
                        f"its {len(data):,} bytes are not read"
                    )
                if place[0] + place[1] > file_size:  # it was whole when the file was scanned
                    problem = f"the chunk at byte {place[0]} is cut; the file has become shorter"
                problems += [problem] if problem else []
                index[:, 2] += size
                size += len(data)
                contents.append(data)
                indices.append(index)
        if len(contents) == 1:
            return Raw(contents[0], indices[0], tuple(problems))
        return Raw(np.concatenate(contents), np.concatenate(indices), tuple(problems))

    return message_format(scan, load_messages)
