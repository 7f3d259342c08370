# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags of ROS 1, format 2.0, https://wiki.ros.org/Bags/Format/2.0.

The headers of all records are read, so that bags without an index can be read. The library
`rosbags` refuses them, and needs 90 ms to open a bag of 100,000 messages, which are read in 15 ms
here.
"""
from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import ROS1, Raw
from . import serialized as ser
from . import spans as sp
from .compression import Damaged, decompress
from .index import index_of
from .index_kernel import INDEX_ROS1
from .serialized import Channels, CodeOf
from .spans import Scan, Span, Topic

MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _BAG_HEADER, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 4, 5, 6, 7
_HEAD = 1 << 12         # bytes that are read for the header of a record
_NS = 1_000_000_000


class _Chunk(NamedTuple):
    offset: int                 # of its data
    length: int                 # in the file
    kind: str                   # of the compression
    size: int
    counts: dict[int, int]      # messages of each connection
    start: int = 1 << 62
    stop: int = -1


class _Scanner:
    """Scans one file."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        self.end = path.stat().st_size
        self.connections: dict[int, tuple[str, str]] = {}       # topic, type
        self.chunks: list[_Chunk] = []
        self.damage = ""

    def scan(self) -> None:
        position, is_indexed, missing = len(MAGIC), False, 0
        while position < self.end:
            fields, start, length = self._header(position)
            opcode = fields.get("op", b"\0")[0]
            is_cut = start < 0 or start + length > self.end
            if opcode == _CHUNK and start > 0:
                self._add_chunk(fields, start, min(length, self.end - start))
            if is_cut:
                self._forget_last()
                where = "a chunk" if opcode == _CHUNK else "a record"
                self.damage = sp.cut(self.path, where, position)
                return
            if opcode == 0:
                self.damage = self.damage or f"is damaged at byte {position:,}"
            elif opcode == _INDEX:
                self._add_index(fields, start, length)
            elif opcode == _CONNECTION:
                self._connect(position, start + length - position)
            elif opcode == _BAG_HEADER:
                is_indexed = int.from_bytes(fields.get("index_pos", b""), "little") > 0
                missing += int.from_bytes(fields.get("chunk_count", b""), "little")
            elif opcode == _CHUNK_INFO:
                missing -= 1
            position = start + length
        if not is_indexed or missing > 0:
            self._forget_last()
            self.damage = f"has no whole index: all of its {self.end:,} bytes can be read"

    def _forget_last(self) -> None:
        """Forget what the last chunk contains: its index may be cut."""
        if self.chunks:
            self.chunks[-1] = self.chunks[-1]._replace(counts={})

    def _header(self, position: int) -> tuple[dict[str, bytes], int, int]:
        """Fields of the header of a record, and offset and length of its data."""
        self.file.seek(position)
        head = self.file.read(_HEAD)
        size = int.from_bytes(head[:4], "little")
        if size + 8 > len(head):
            if len(head) < 8 or position + size + 8 > self.end:
                return {}, -1, 0
            head += self.file.read(size + 8 - len(head))
        length = int.from_bytes(head[4 + size:8 + size], "little")
        return _fields(head[4:4 + size]), position + 8 + size, length

    def _add_chunk(self, fields: dict[str, bytes], start: int, length: int) -> None:
        kind = fields.get("compression", b"none").decode("ascii", "replace")
        size = int.from_bytes(fields.get("size", b""), "little")
        self.chunks.append(_Chunk(start, length, kind, size, {}))

    def _add_index(self, fields: dict[str, bytes], start: int, length: int) -> None:
        """Note number and times of the messages of a connection in the last chunk."""
        self.file.seek(start)
        entries = np.frombuffer(self.file.read(length - length % 12), "<u4").reshape(-1, 3)
        if not self.chunks or not len(entries):
            return
        times = entries[:, 0].astype(np.int64) * _NS + entries[:, 1]
        last = self.chunks[-1]
        number = int.from_bytes(fields.get("conn", b""), "little")
        self.chunks[-1] = last._replace(
            counts={**last.counts, number: len(entries)},
            start=min(last.start, sp.limited(int(times.min()))),
            stop=max(last.stop, sp.limited(int(times.max()))))

    def _connect(self, position: int, length: int) -> None:
        self.file.seek(position)
        self._define(self.file.read(length))

    def _define(self, record: bytes) -> None:
        """Note the topic and the type of a connection."""
        size = int.from_bytes(record[:4], "little")
        fields, more = _fields(record[4:4 + size]), _fields(record[8 + size:])
        number = int.from_bytes(fields.get("conn", b""), "little")
        topic = fields.get("topic", b"").decode("utf-8", "replace")
        kind = more.get("type", b"").decode("utf-8", "replace")
        self.connections.setdefault(number, (topic, ser.ros2_type(kind)))

    def examine(self) -> None:
        """Read the chunks whose connections or times are unknown."""
        for k, chunk in enumerate(self.chunks):
            if chunk.counts and chunk.counts.keys() <= self.connections.keys():
                continue
            content, problem = _content(self.file, chunk[:4])
            if problem:
                self.damage = "; ".join(filter(None, (self.damage, problem)))
                continue
            index, _ = index_of(INDEX_ROS1, content, None)
            for _, _, offset, length in index[index[:, 0] < 0].tolist():
                self._define(content[offset:offset + length].tobytes())
            rows = index[index[:, 0] >= 0]
            self.chunks[k] = chunk._replace(
                counts=dict(Counter(rows[:, 0].tolist())),
                start=int(rows[:, 1].min(initial=1 << 62)), stop=int(rows[:, 1].max(initial=-1)))


def _fields(header: bytes) -> dict[str, bytes]:
    fields, position = {}, 0
    while position + 4 <= len(header):
        length, = struct.unpack_from("<I", header, position)
        name, _, value = header[position + 4:position + 4 + length].partition(b"=")
        fields[name.decode("utf-8", "replace")] = value or b"\0"
        position += 4 + length
    return fields


def scan(path: Path) -> Scan:
    """Find the topics and spans of a bag; a ValueError if it is none, or one of another version."""
    with open(path, "rb") as file:
        if empty := sp.require_start(file, MAGIC, path, "bag of format 2.0"):
            return Scan((), (), empty)
        scanner = _Scanner(file, path)
        scanner.scan()
        scanner.examine()
    channels: Channels = tuple((number, topic, kind, ROS1)
                               for number, (topic, kind) in sorted(scanner.connections.items()))
    total: Counter[int] = Counter()
    for chunk in scanner.chunks:
        total.update(chunk.counts)
    spans = []
    for chunk in scanner.chunks:
        if chunk.stop >= chunk.start:
            subset = tuple(channel for channel in channels if channel[0] in chunk.counts)
            spans.append(Span(chunk.start, chunk.stop, chunk.size, (subset, tuple(chunk[:4]))))
    topics = [Topic(*channel[1:], total[channel[0]]) for channel in channels]
    return Scan(sp.merged(topics), tuple(spans), scanner.damage)


def _content(file: BinaryIO, place: tuple[Any, ...]) -> tuple[NDArray[np.uint8], str]:
    """Records of a chunk, and what is wrong with them."""
    offset, length, kind, size = place
    file.seek(offset)
    packed = file.read(length)
    is_cut = file.read(1) == b""
    try:
        return np.frombuffer(decompress(kind, packed, size, is_cut), np.uint8), ""
    except Damaged as error:
        return np.zeros(0, np.uint8), f"the chunk at byte {offset} is skipped: {error}"


def load(path: Path, place: tuple[Any, ...], code_of: CodeOf) -> Raw:
    """Read the messages of a span."""
    channels, chunk = place
    codes = ser.codes_of(channels, code_of)
    if not codes:
        return Raw(np.zeros(0, np.uint8), np.zeros((0, 4), np.int64))
    with open(path, "rb") as file:
        content, problem = _content(file, chunk)
    index, end = index_of(INDEX_ROS1, content, codes)
    if end < len(content) and len(content) >= chunk[3]:
        problem = sp.unread(chunk[0], len(content) - end, len(content))
    return Raw(content, index, (problem,) if problem else ())


FORMAT = ser.serialized(scan, load)
