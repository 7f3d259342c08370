# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""MCAP files, https://mcap.dev/spec.

A whole file is opened by its summary, which the library `mcap` reads: it states place, times and
channels of each chunk. Of a file that was cut, is being written, or has no summary, the headers of
all records are read. The messages in a chunk are always indexed by compiled code, which is 20 times
as fast as the library's reader (docs/recordings.md).
"""
from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import Raw
from . import serialized as ser
from . import spans as sp
from .compression import Damaged, decompress
from .index import index_of
from .index_kernel import INDEX_MCAP
from .serialized import Channels, CodeOf
from .spans import Scan, Span

MAGIC = b"\x89MCAP0\r\n"
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX, _DATA_END = 3, 4, 5, 6, 7, 15
_HEADER = struct.Struct("<BQ")
_CHUNK_HEADER = struct.Struct("<QQQII")     # times, size, checksum, length of the compression
_INDEX_HEADER = struct.Struct("<HI")
_FOOTER = 37            # bytes, with the magic at the end of the file
_BLOCK = 1 << 22        # bytes of messages outside chunks that are read at a time
_SPAN = 1 << 20         # bytes: smaller chunks are joined


class _Block(NamedTuple):
    """A chunk, or consecutive messages outside of chunks."""

    offset: int
    length: int                 # in the file
    start: int
    stop: int
    size: int
    counts: dict[int, int]      # messages by channel, 0: some; empty: nothing is known


class _Contents(NamedTuple):
    """What a file contains; counts of messages by channel, None if the file does not state them."""

    channels: Channels
    blocks: list[_Block]
    counts: dict[int, int] | None
    damage: str = ""


def scan(path: Path) -> Scan:
    """Find the topics and spans of a file; a ValueError if it is no MCAP file."""
    with open(path, "rb") as file:
        if empty := sp.require_start(file, MAGIC, path, "MCAP file"):
            return Scan((), (), empty)
        size = path.stat().st_size
        channels, blocks, counts, damage = _summarized(file, size) or _Walk(file, path).contents()
    topics = [sp.Topic(name, kind, encoding, None if counts is None else counts.get(number, 0))
              for number, name, kind, encoding in channels]
    return Scan(sp.merged(topics), tuple(_spans(blocks, channels)), damage)


# --- a whole file

def _summarized(file: BinaryIO, size: int) -> _Contents | None:
    """What the summary of a file states; None if it cannot be used, or not all is in chunks."""
    try:
        from mcap.reader import SeekingReader
        summary: Any = None
        if not _summary_damage(file, size):
            file.seek(0)
            summary = SeekingReader(file, record_size_limit=size).get_summary()
        if summary is None or summary.statistics is None:
            return None
        chunks, statistics = summary.chunk_indexes, summary.statistics
        types = {number: ser.ros2_type(schema.name) for number, schema in summary.schemas.items()}
        channels = tuple((number, channel.topic, types.get(channel.schema_id, ""),
                          channel.message_encoding)
                         for number, channel in sorted(summary.channels.items()))
    except Exception:       # `mcap` is not installed, or whatever class a damaged summary leads to
        return None
    messages = sum((chunk.message_index_length - 15 * len(chunk.message_index_offsets)) // 16
                   for chunk in chunks)
    blocks = [_Block(chunk.chunk_start_offset, chunk.chunk_length,
                     sp.limited(chunk.message_start_time), sp.limited(chunk.message_end_time),
                     chunk.uncompressed_size, dict.fromkeys(chunk.message_index_offsets, 0))
              for chunk in chunks]
    if (messages != statistics.message_count or len(chunks) != statistics.chunk_count
            or not all(_is_usable(block, size, summary.channels) for block in blocks)):
        return None
    intact = [block for block in blocks if _read(file, block.offset, 1) == bytes([_CHUNK])]
    damage = "" if len(intact) == len(blocks) else (
        f"is damaged: {len(intact):,} of its {len(blocks):,} chunks are found")
    return _Contents(channels, intact, statistics.channel_message_counts, damage)


def _is_usable(block: _Block, size: int, channels: Any) -> bool:
    return (block.offset + block.length <= size and 0 < block.stop >= block.start
            and bool(block.counts) and block.counts.keys() <= channels.keys())


def _summary_damage(file: BinaryIO, size: int) -> str:
    """What is wrong with the end of a file, whose last records are summary and footer."""
    footer = _read(file, max(size - _FOOTER, 0), _FOOTER)
    if not footer.endswith(MAGIC) or footer[:1] != b"\x02":
        return f"ends in the middle of its index, at byte {size:,}: all messages can be read"
    start, _, checksum = struct.unpack_from("<QQI", footer, 9)
    start, stop = start or size - _FOOTER, size - len(MAGIC) - 4
    if checksum and zlib.crc32(_read(file, start, max(stop - start, 0))) != checksum:
        return "has a damaged index: its checksum does not match"
    return ""


def _read(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


# --- a file that was cut, is being written, or has no summary

class _Walk:
    """Reads the headers of all records, and the content of chunks of which something is unknown."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path, self._end = file, path, path.stat().st_size
        self._schemas: dict[int, str] = {}
        self._channels: dict[int, tuple[int, str, str]] = {}     # schema, topic, encoding
        self._blocks: list[_Block] = []
        self._damage = ""

    def contents(self) -> _Contents:
        behind = self._walk()
        self._examine()
        self._define_all(behind)            # if it is damaged: what the chunks do not state
        channels = tuple((number, topic, ser.ros2_type(self._schemas.get(schema, "")), encoding)
                         for number, (schema, topic, encoding) in sorted(self._channels.items()))
        counts: Counter[int] = Counter()
        for block in self._blocks:
            counts.update(block.counts)
        is_counted = all(block.counts or block.stop < 0 for block in self._blocks)
        return _Contents(channels, self._blocks, counts if is_counted else None, self._damage)

    def _walk(self) -> NDArray[np.uint8]:
        """Read all headers; return the bytes behind the data."""
        position = len(MAGIC)
        while position < self._end:
            head = _read(self._file, position, _HEADER.size)
            opcode, length = _HEADER.unpack(head) if len(head) == _HEADER.size else (0, self._end)
            behind = position + _HEADER.size + length
            if opcode == _CHUNK:
                self._add_chunk(position, min(behind, self._end) - position)
            if behind > self._end:
                self._forget_last()
                where = {_CHUNK: "a chunk", _MESSAGE: "a message"}.get(opcode, "a record")
                self._damage = sp.cut(self._path, where, position)
                return np.zeros(0, np.uint8)
            if opcode == 0:
                self._damage = self._damage or f"is damaged at byte {position:,}"
            elif opcode == _MESSAGE:
                behind = self._add_messages(position, _HEADER.size + length)
            elif opcode == _MESSAGE_INDEX:
                self._count(_read(self._file, position + _HEADER.size, _INDEX_HEADER.size))
            elif opcode in (_SCHEMA, _CHANNEL):
                self._define(opcode, _read(self._file, position + _HEADER.size, length))
            elif opcode == _DATA_END:
                self._damage = _summary_damage(self._file, self._end) or self._damage
                return np.frombuffer(_read(self._file, behind, self._end - behind), np.uint8)
            position = behind
        self._forget_last()
        self._damage = f"has no index: all of its {self._end:,} bytes can be read"
        return np.zeros(0, np.uint8)

    def _forget_last(self) -> None:
        """Forget what the last chunk contains: its index may be cut."""
        if self._blocks:
            self._blocks[-1] = self._blocks[-1]._replace(counts={})

    def _define_all(self, content: NDArray[np.uint8]) -> tuple[NDArray[np.int64], int]:
        """Note the schemas and channels among records; return the index of all messages."""
        index, size = index_of(INDEX_MCAP, content, None)
        for code, _, offset, length in index[index[:, 0] < 0].tolist():
            self._define(-code, content[offset:offset + length].tobytes())
        return index, size

    def _define(self, opcode: int, content: bytes) -> None:
        """Note a schema or a channel."""
        try:
            if opcode == _SCHEMA:
                number, = struct.unpack_from("<H", content)
                self._schemas.setdefault(number, _text(content, 2)[0])
            else:
                number, schema = struct.unpack_from("<HH", content)
                topic, behind = _text(content, 4)
                self._channels.setdefault(number, (schema, topic, _text(content, behind)[0]))
        except struct.error:
            self._damage = self._damage or "contains a damaged description of a topic"

    def _add_chunk(self, offset: int, length: int) -> None:
        head = _read(self._file, offset + _HEADER.size, _CHUNK_HEADER.size)
        if len(head) == _CHUNK_HEADER.size:
            start, stop, size, _, _ = _CHUNK_HEADER.unpack(head)
            self._blocks.append(
                _Block(offset, length, sp.limited(start), sp.limited(stop), size, {}))

    def _count(self, head: bytes) -> None:
        """Note the number of messages of a channel in the last chunk."""
        if len(head) == _INDEX_HEADER.size and self._blocks:
            channel, length = _INDEX_HEADER.unpack(head)
            if length >= 16:
                self._blocks[-1].counts[channel] = length // 16

    def _add_messages(self, offset: int, least: int) -> int:
        """Note messages outside chunks; return the offset behind them."""
        content = np.frombuffer(_read(self._file, offset, max(_BLOCK, least)), np.uint8)
        index, length = self._define_all(content)
        self._blocks.append(_examined(_Block(offset, length, 0, 0, length, {}), index))
        return offset + length

    def _examine(self) -> None:
        """Read the chunks of which something is unknown."""
        for k, block in enumerate(self._blocks):
            if block.counts and block.counts.keys() <= self._channels.keys() and (
                    0 < block.stop >= block.start):
                continue
            content, problem = _content(self._file, block.offset, block.length)
            if not problem:                 # which is reported when the chunk is read
                self._blocks[k] = _examined(block, self._define_all(content)[0])


def _examined(block: _Block, index: NDArray[np.int64]) -> _Block:
    """The block with the times and counts of its messages."""
    rows = index[index[:, 0] >= 0]
    times = rows[rows[:, 1] >= 0, 1]
    return block._replace(start=int(times.min(initial=1 << 62)), stop=int(times.max(initial=-1)),
                          counts=dict(Counter(rows[:, 0].tolist())))


def _text(content: bytes, offset: int) -> tuple[str, int]:
    """A string, and the offset behind it."""
    length, = struct.unpack_from("<I", content, offset)
    if length > len(content) - offset - 4:
        raise struct.error("the string is cut")
    behind = offset + 4 + length
    return content[offset + 4:behind].decode("utf-8", "replace"), behind


# --- reading

def _spans(blocks: list[_Block], channels: Channels) -> list[Span]:
    """Spans of about a megabyte or one chunk, without those that have no messages."""
    spans: list[Span] = []
    group: list[_Block] = []
    subsets: dict[frozenset[int], Channels] = {}

    def close() -> None:
        known = all(block.counts for block in group)
        numbers = frozenset(number for block in group for number in block.counts) if known else (
            frozenset(number for number, *_ in channels))
        subset = subsets.setdefault(numbers, tuple(
            channel for channel in channels if channel[0] in numbers))
        spans.append(Span(min(block.start for block in group), max(block.stop for block in group),
                          sum(block.size for block in group),
                          (subset, tuple((block.offset, block.length) for block in group))))
        group.clear()

    for block in blocks:
        if block.stop < block.start:
            continue                        # no messages
        if group and sum(other.size for other in group) + block.size > _SPAN:
            close()
        group.append(block)
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
    """Read the messages of a span."""
    channels, parts = place
    codes = ser.codes_of(channels, code_of)
    contents, indices, problems, size = [], [], [], 0
    if codes:
        with open(path, "rb") as file:
            for offset, length in parts:
                content, problem = _content(file, offset, length)
                problems += [problem] if problem else []
                index, end = index_of(INDEX_MCAP, content, codes)
                if end < len(content) and file.read(1):
                    problems.append(sp.unread(offset, len(content) - end, len(content)))
                index[:, 2] += size
                size += len(content)
                contents.append(content)
                indices.append(index)
    if len(contents) == 1:
        return Raw(contents[0], indices[0], tuple(problems))
    return Raw(np.concatenate(contents or [np.zeros(0, np.uint8)]),
               np.concatenate(indices or [np.zeros((0, 4), np.int64)]), tuple(problems))


FORMAT = ser.serialized(scan, load)
