# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags of ROS 1, format 2.0, https://wiki.ros.org/Bags/Format/2.0.

The headers of all records are read, so that bags without an index can be read. The library
`rosbags` refuses them, and needs 90 ms to open a bag of 100,000 messages, which are read in 15 ms
here.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...cdr.decode import ROS1
from ...files.limits import Limits
from ...files.reading import open_regular_file
from . import chunks as ck
from . import spans as sp
from .chunks import Chunk, read_at
from .compression import decompress_chunk
from .index_kernel import INDEX_ROS1
from .message_files import ros2_type
from .spans import Source

MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _BAG_HEADER, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 4, 5, 6, 7
_HEADER_READ_SIZE = 1 << 12  # bytes; longer headers take a second read
_NANOSECONDS = 1_000_000_000


def scan_bag(path: Path, limits: Limits) -> Source:
    """Find the topics and spans of a bag; raise a ValueError for other files or versions."""
    with open_regular_file(path) as file:
        if empty := sp.require_magic(file, MAGIC, path, "bag of format 2.0"):
            return Source((), (), empty)
        scanner = _BagScanner(file, path, limits, INDEX_ROS1, _read_records)
        scanner.scan_headers()
        scanner.examine_chunks()
    return scanner.source(0)


def _read_records(file: BinaryIO, place: tuple[Any, ...]) -> tuple[bytes, bool]:
    """Return the records of a chunk; see `chunks.ChunkReader`."""
    offset, length, kind, size = place
    compressed = read_at(file, offset, length)
    is_cut = file.read(1) == b""
    content = decompress_chunk(kind, compressed, size, is_cut)
    return content, len(content) < size


class _BagScanner(ck.ChunkScanner):
    """Scanner of a bag."""

    def scan_headers(self) -> None:
        """Read the headers of all records."""
        position, is_indexed, missing_chunks = len(MAGIC), False, 0
        while position < self.end and self.count_record(position):
            fields, start, length = self._read_header(position)
            opcode = fields.get("op", b"\0")[0]
            is_cut = start < 0 or start + length > self.end
            if opcode == _CHUNK and start > 0:
                self._add_chunk(fields, start, min(length, self.end - start))
            if is_cut:
                self.forget_last_counts()
                where = "a chunk" if opcode == _CHUNK else "a record"
                self.damage = sp.describe_cut(self.path, where, position)
                return
            if opcode == 0:
                self.note_damage(f"is damaged at byte {position:,}")
                length = max(length, self.skip_zeros(position) - start)
            elif opcode == _INDEX:
                self._add_index(fields, start, length)
            elif opcode == _CONNECTION:
                if record := self.read_record(position, start + length - position):
                    self.define(-opcode, record)
            elif opcode == _BAG_HEADER:
                is_indexed = _field_number(fields, "index_pos") > 0
                missing_chunks += _field_number(fields, "chunk_count")
            elif opcode == _CHUNK_INFO:
                missing_chunks -= 1
            position = start + length
        if not is_indexed or missing_chunks > 0:
            self.forget_last_counts()
            missing = f"has no complete index, but all of its {self.end:,} bytes can be read"
            self.damage = sp.join_damage(missing, [self.damage])

    def _read_header(self, position: int) -> tuple[dict[str, bytes], int, int]:
        """Return the fields of a record header, and offset and length of the data."""
        head = self.read(position, _HEADER_READ_SIZE)
        size = int.from_bytes(head[:4], "little")
        if size + 8 > len(head):
            if len(head) < 8 or position + size + 8 > self.end:
                return {}, -1, 0
            if size > self.limits.chunk_size:
                self.read_record(position, size)  # notes why it is skipped
                size_bytes = self.read(position + 4 + size, 4)
                return {}, position + 8 + size, int.from_bytes(size_bytes, "little")
            head += self.file.read(size + 8 - len(head))
        length = int.from_bytes(head[4 + size : 8 + size], "little")
        return _parse_fields(head[4 : 4 + size]), position + 8 + size, length

    def _add_chunk(self, fields: dict[str, bytes], start: int, length: int) -> None:
        """Add a chunk, whose content is at an offset."""
        kind = fields.get("compression", b"none").decode("ascii", "replace")
        size = _field_number(fields, "size")
        self.chunks.append(Chunk((start, length, kind, size), size, {}, stored_size=length))

    def _add_index(self, fields: dict[str, bytes], start: int, length: int) -> None:
        """Add number and times of the messages of a connection to the last chunk."""
        entries = np.frombuffer(self.read_record(start, length - length % 12), "<u4").reshape(-1, 3)
        if not self.chunks or not len(entries):
            return
        times = entries[:, 0].astype(np.int64) * _NANOSECONDS + entries[:, 1]
        self.set_last_count(_field_number(fields, "conn"), len(entries))
        last = self.chunks[-1]
        self.chunks[-1] = last._replace(
            start=min(last.start, sp.clip_log_time(int(times.min()))),
            stop=max(last.stop, sp.clip_log_time(int(times.max()))),
        )

    def define(self, code: int, record: bytes) -> None:
        """Add the channel of a connection."""
        size = int.from_bytes(record[:4], "little")
        fields, connection_fields = (
            _parse_fields(record[4 : 4 + size]),
            _parse_fields(record[8 + size :]),
        )
        topic = fields.get("topic", b"").decode("utf-8", "replace")
        kind = connection_fields.get("type", b"").decode("utf-8", "replace")
        self.add_channel(_field_number(fields, "conn"), (topic, ros2_type(kind), ROS1))


def _parse_fields(header: bytes) -> dict[str, bytes]:
    """Return the fields of a header by name."""
    fields, position = {}, 0
    while position + 4 <= len(header):
        (length,) = struct.unpack_from("<I", header, position)
        name, _, value = header[position + 4 : position + 4 + length].partition(b"=")
        fields[name.decode("utf-8", "replace")] = value or b"\0"
        position += 4 + length
    return fields


def _field_number(fields: dict[str, bytes], name: str) -> int:
    """Return a number in a field, 0 if there is none."""
    return int.from_bytes(fields.get(name, b""), "little")


FORMAT = ck.chunk_format(scan_bag, INDEX_ROS1, _read_records)
