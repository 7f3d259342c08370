# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""MCAP files, https://mcap.dev/spec.

The headers of all records are read, from the first to the last, because a recording that was
interrupted has no index at its end. The content of a chunk is read only if nothing else states its
channels or times.
"""
from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compression import Damaged, decompress
from .decode import index_of
from .decode_kernel import INDEX_MCAP
from .source import (
    Channels,
    CodeOf,
    Raw,
    Scan,
    Span,
    Topic,
    codes_of,
    cut,
    limited,
    merged,
    require_start,
    ros2_type,
    unread,
)

MAGIC = b"\x89MCAP0\r\n"
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX, _STATISTICS, _DATA_END = 3, 4, 5, 6, 7, 11, 15
_HEADER = struct.Struct("<BQ")
_CHUNK_HEADER = struct.Struct("<QQQII")     # times, size, checksum, length of the compression
_CHUNK_COUNT = struct.Struct("<22xI")       # in statistics
_INDEX_HEADER = struct.Struct("<HI")
_BLOCK = 1 << 22        # bytes of messages outside chunks that are read at a time
_SPAN = 1 << 20         # bytes: smaller chunks are joined


class _Part(NamedTuple):
    """A chunk, or consecutive messages outside of chunks."""

    offset: int
    length: int                     # in the file
    start: int
    stop: int
    size: int
    counts: dict[int, int] | None   # messages of each channel, if known


class _Scanner:
    """Scans one file."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        self.end = path.stat().st_size
        self.schemas: dict[int, str] = {}
        self.channels: dict[int, tuple[int, str, str]] = {}     # schema, topic, encoding
        self.parts: list[_Part] = []
        self.damage = ""
        self.lists_channels = False         # all of them, in the summary
        self.doubtful = b""                 # a summary that is damaged

    def read(self, offset: int, length: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(length)

    def scan(self) -> None:
        position = len(MAGIC)
        while position < self.end:
            head = self.read(position, _HEADER.size)
            opcode, length = _HEADER.unpack(head) if len(head) == _HEADER.size else (0, self.end)
            behind = position + _HEADER.size + length
            if opcode == _CHUNK and behind > self.end:
                self._add_chunk(position, self.end - position)
            if behind > self.end:
                self._forget_last()
                where = {_CHUNK: "a chunk", _MESSAGE: "a message"}.get(opcode, "a record")
                self.damage = cut(self.path, where, position)
                return
            if opcode == 0:
                self.damage = self.damage or f"is damaged at byte {position:,}"
            if opcode == _MESSAGE:
                behind = self._add_messages(position, _HEADER.size + length)
            elif opcode == _CHUNK:
                self._add_chunk(position, behind - position)
            elif opcode == _MESSAGE_INDEX:
                self._count(self.read(position + _HEADER.size, _INDEX_HEADER.size))
            elif opcode in (_SCHEMA, _CHANNEL):
                self._define(opcode, self.read(position + _HEADER.size, length))
            elif opcode == _DATA_END:
                self._read_summary(behind)
                return
            position = behind
        self._forget_last()
        self.damage = f"has no index: all of its {self.end:,} bytes can be read"

    def _read_summary(self, position: int) -> None:
        data = self.read(position, self.end - position)
        if not data.endswith(MAGIC):
            self.damage = (f"ends in the middle of its index, at byte {self.end:,}: all messages "
                           "can be read")
        elif not _is_intact(data):
            self.damage = "has a damaged index: its checksum does not match"
            self.doubtful = data
            return
        self._take_summary(data)

    def _take_summary(self, data: bytes) -> None:
        content = np.frombuffer(data, np.uint8)
        index, _ = index_of(INDEX_MCAP, content, None)
        self._define_all(content, index)
        self.lists_channels = not self.damage and bool((index[:, 0] == -_CHANNEL).any())
        found = sum(part.counts is not None for part in self.parts)
        if not self.damage and found < (count := _chunk_count(data)):
            self.damage = f"is damaged: {found:,} of its {count:,} chunks are found"

    def _forget_last(self) -> None:
        """Forget what the last chunk contains: its index may be cut."""
        if self.parts and self.parts[-1].counts is not None:
            self.parts[-1] = self.parts[-1]._replace(counts={})

    def _define_all(self, content: NDArray[np.uint8], index: NDArray[np.int64]) -> None:
        for code, _, offset, length in index[index[:, 0] < 0].tolist():
            self._define(-code, content[offset:offset + length].tobytes())

    def _define(self, opcode: int, content: bytes) -> None:
        """Note a schema or a channel."""
        try:
            if opcode == _SCHEMA:
                number, = struct.unpack_from("<H", content)
                self.schemas.setdefault(number, _text(content, 2)[0])
            else:
                number, schema = struct.unpack_from("<HH", content)
                topic, behind = _text(content, 4)
                self.channels.setdefault(number, (schema, topic, _text(content, behind)[0]))
        except struct.error:
            self.damage = self.damage or "contains a damaged description of a topic"

    def _add_chunk(self, offset: int, length: int) -> None:
        head = self.read(offset + _HEADER.size, _CHUNK_HEADER.size)
        if len(head) == _CHUNK_HEADER.size:
            start, stop, size, _, _ = _CHUNK_HEADER.unpack(head)
            self.parts.append(_Part(offset, length, limited(start), limited(stop), size, {}))

    def _count(self, head: bytes) -> None:
        """Note the number of messages of a channel in the last chunk."""
        if len(head) == _INDEX_HEADER.size and self.parts:
            channel, length = _INDEX_HEADER.unpack(head)
            counts = self.parts[-1].counts
            if counts is not None and length >= 16:
                counts[channel] = length // 16

    def _add_messages(self, offset: int, least: int) -> int:
        """Note messages outside chunks; return the offset behind them."""
        content = np.frombuffer(self.read(offset, max(_BLOCK, least)), np.uint8)
        index, length = index_of(INDEX_MCAP, content, None)
        self._define_all(content, index)
        self.parts.append(_examined(_Part(offset, length, 0, 0, length, None), index))
        return offset + length

    def examine(self) -> None:
        """Read the chunks of which something is unknown."""
        for k, part in enumerate(self.parts):
            if part.counts is None:
                continue
            is_listed = self.lists_channels or part.counts
            if is_listed and part.counts.keys() <= self.channels.keys() and part.stop > 0 and (
                    part.start <= part.stop):
                continue
            content, problem = _content(self.file, part.offset, part.length)
            if problem:
                continue                    # it is reported when the chunk is read
            index, _ = index_of(INDEX_MCAP, content, None)
            self._define_all(content, index)
            self.parts[k] = _examined(part, index)
        self._take_summary(self.doubtful)   # what the chunks do not state

    def channel_list(self) -> Channels:
        return tuple((number, topic, ros2_type(self.schemas.get(schema, "")), encoding)
                     for number, (schema, topic, encoding) in sorted(self.channels.items()))


def _is_intact(summary: bytes) -> bool:
    """Whether the checksum of the summary, if there is one, matches."""
    place = max(len(summary) - len(MAGIC) - 4, 0)
    checksum, = struct.unpack_from("<I", summary, place)
    return not checksum or zlib.crc32(summary[:place]) == checksum


def _chunk_count(summary: bytes) -> int:
    """Number of chunks that the statistics in the summary state, or 0."""
    position = 0
    while position + _HEADER.size + _CHUNK_COUNT.size <= len(summary):
        opcode, length = _HEADER.unpack_from(summary, position)
        position += _HEADER.size
        if opcode == _STATISTICS and length >= _CHUNK_COUNT.size:
            count: int = _CHUNK_COUNT.unpack_from(summary, position)[0]
            return count
        position += length
    return 0


def _examined(part: _Part, index: NDArray[np.int64]) -> _Part:
    """The part with the times and counts of its messages."""
    rows = index[index[:, 0] >= 0]
    times = rows[rows[:, 1] >= 0, 1]
    counts = Counter(rows[:, 0].tolist())
    return part._replace(start=int(times.min(initial=1 << 62)), stop=int(times.max(initial=-1)),
                         counts=dict(counts))


def _text(content: bytes, offset: int) -> tuple[str, int]:
    """A string, and the offset behind it."""
    length, = struct.unpack_from("<I", content, offset)
    if length > len(content) - offset - 4:
        raise struct.error("the string is cut")
    behind = offset + 4 + length
    return content[offset + 4:behind].decode("utf-8", "replace"), behind


def scan(path: Path) -> Scan:
    """Find the topics and spans of a file.

    Raises
    ------
    ValueError
        It is no MCAP file.
    OSError
        It cannot be read.
    """
    with open(path, "rb") as file:
        if empty := require_start(file, MAGIC, path, "MCAP file"):
            return Scan((), (), empty)
        scanner = _Scanner(file, path)
        scanner.scan()
        scanner.examine()
    channels = scanner.channel_list()
    total: Counter[int] = Counter()
    for part in scanner.parts:
        total.update(part.counts or {})
    is_counted = all(part.counts or part.counts is None or part.stop < 0
                     for part in scanner.parts)
    topics = [Topic(topic, kind, encoding, total[number] if is_counted else None)
              for number, topic, kind, encoding in channels]
    return Scan(merged(topics), tuple(_spans(scanner.parts, channels)), scanner.damage)


def _spans(parts: list[_Part], channels: Channels) -> list[Span]:
    """Spans of about a megabyte or one chunk, without those that have no messages."""
    spans: list[Span] = []
    group: list[_Part] = []
    subsets: dict[frozenset[int], Channels] = {}

    def close() -> None:
        known = all(part.counts for part in group)
        numbers = frozenset(number for part in group for number in part.counts or ()
                            ) if known else frozenset(number for number, *_ in channels)
        subset = subsets.setdefault(numbers, tuple(
            channel for channel in channels if channel[0] in numbers))
        spans.append(Span(min(part.start for part in group), max(part.stop for part in group),
                          sum(part.size for part in group),
                          (subset, tuple((part.offset, part.length) for part in group))))
        group.clear()

    for part in parts:
        if part.stop < part.start:
            continue                        # no messages
        if group and sum(each.size for each in group) + part.size > _SPAN:
            close()
        group.append(part)
    if group:
        close()
    return spans


def _content(file: BinaryIO, offset: int, length: int) -> tuple[NDArray[np.uint8], str]:
    """Records of a chunk, or of messages outside chunks; and what is wrong with them."""
    file.seek(offset)
    data = file.read(length)
    if data[:1] != bytes([_CHUNK]):
        return np.frombuffer(data, np.uint8), ""
    try:
        return np.frombuffer(_chunk_content(data), np.uint8), ""
    except Damaged as error:
        return np.zeros(0, np.uint8), f"the chunk at byte {offset} is skipped: {error}"


def _chunk_content(data: bytes) -> bytes:
    try:
        _, _, size, checksum, _ = _CHUNK_HEADER.unpack_from(data, _HEADER.size)
        kind, behind = _text(data, _HEADER.size + _CHUNK_HEADER.size - 4)
        packed_size, = struct.unpack_from("<Q", data, behind)
    except struct.error:
        return b""                          # cut before its records
    packed = data[behind + 8:behind + 8 + packed_size]
    is_cut = len(packed) < packed_size
    content = decompress(kind, packed, size, is_cut)
    if checksum and not is_cut and zlib.crc32(content) != checksum:
        raise Damaged("its checksum does not match its content")
    return content


def load(path: Path, place: tuple[Any, ...], code_of: CodeOf) -> Raw:
    """Read the messages of a span.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    channels, parts = place
    codes = codes_of(channels, code_of)
    contents, indices, problems, size = [], [], [], 0
    if codes:
        with open(path, "rb") as file:
            for offset, length in parts:
                content, problem = _content(file, offset, length)
                problems += [problem] if problem else []
                index, end = index_of(INDEX_MCAP, content, codes)
                if end < len(content) and file.read(1):
                    problems.append(unread(offset, len(content) - end, len(content)))
                index[:, 2] += size
                size += len(content)
                contents.append(content)
                indices.append(index)
    if len(contents) == 1:
        return Raw(contents[0], indices[0], tuple(problems))
    return Raw(np.concatenate(contents or [np.zeros(0, np.uint8)]),
               np.concatenate(indices or [np.zeros((0, 4), np.int64)]), tuple(problems))
