# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""MCAP files, https://mcap.dev/spec.

A whole file is opened by its summary, which the library `mcap` reads: it states place, times and
channels of each chunk. Of a file that was cut, is being written, or has no summary, the headers of
all records are read. The messages in a chunk are always indexed by compiled code, which is 20 times
as fast as the library's reader (benchmarks/reading.py).
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from ...files.limits import Limits
from ...files.reading import open_regular_file
from . import chunks as ck
from . import spans as sp
from .chunks import Chunk, read_at
from .compression import Damaged, decompress_chunk
from .index_kernel import INDEX_MCAP
from .message_files import ros2_type
from .spans import Source

MAGIC = b"\x89MCAP0\r\n"
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX, _DATA_END = 3, 4, 5, 6, 7, 15
_HEADER = struct.Struct("<BQ")
_CHUNK_HEADER = struct.Struct("<QQQII")  # times, size, checksum, length of the compression
_INDEX_HEADER = struct.Struct("<HI")
_FOOTER_SIZE = 37  # bytes, with the magic number
_BLOCK_SIZE = 1 << 22  # bytes; messages outside chunks are read in blocks
_MAX_SUMMARY_SIZE = 50_000_000  # bytes; reading one takes 13 times as much memory
_SPAN_SIZE = 1 << 20  # bytes; smaller chunks are joined


def scan_mcap(path: Path, limits: Limits) -> Source:
    """Find the topics and spans of a file; raise a ValueError if it is no MCAP file."""
    with open_regular_file(path) as file:
        if empty := sp.require_magic(file, MAGIC, path, "MCAP file"):
            return Source((), (), empty)
        return _source_from_summary(file, path.stat().st_size, limits) or _McapScanner(
            file, path, limits, INDEX_MCAP, _read_records
        ).scan_records().source(_SPAN_SIZE)


# --- a whole file


def _source_from_summary(file: BinaryIO, size: int, limits: Limits) -> Source | None:
    """Return what the summary states; None if it is damaged, or messages are outside chunks."""
    try:
        from mcap.reader import SeekingReader

        summary: Any = None
        if not _summary_damage(file, size):
            file.seek(0)
            summary = SeekingReader(file, record_size_limit=size).get_summary()
        if summary is None or summary.statistics is None:
            return None
        indexes, statistics = summary.chunk_indexes, summary.statistics
        types = {number: ros2_type(schema.name) for number, schema in summary.schemas.items()}
        channels = tuple(
            (number, channel.topic, types.get(channel.schema_id, ""), channel.message_encoding)
            for number, channel in sorted(summary.channels.items())
        )
    except Exception:  # `mcap` is missing, or raises any class of error for a damaged summary
        return None
    message_count = sum(
        (index.message_index_length - 15 * len(index.message_index_offsets)) // 16
        for index in indexes
    )
    chunks = [
        Chunk(
            (index.chunk_start_offset, index.chunk_length, index.uncompressed_size),
            index.uncompressed_size,
            dict.fromkeys(index.message_index_offsets, 0),
            sp.clip_log_time(index.message_start_time),
            sp.clip_log_time(index.message_end_time),
            index.chunk_length,
        )
        for index in indexes
    ]
    if (
        message_count != statistics.message_count
        or len(chunks) != statistics.chunk_count
        or any(
            sum(chunk.place[:2]) > size or not chunk.is_known(summary.channels) for chunk in chunks
        )
    ):
        return None
    if _overlap(chunks):
        return None
    intact_chunks = [chunk for chunk in chunks if _has_size(file, chunk)]
    readable_chunks, refusal = ck.limit_chunks(intact_chunks, limits)
    damage = (
        ""
        if len(intact_chunks) == len(chunks)
        else (f"is damaged: {len(intact_chunks):,} of its {len(chunks):,} chunks are found")
    )
    return ck.make_source(
        channels,
        readable_chunks,
        statistics.channel_message_counts,
        sp.join_damage(damage, [refusal]),
        _SPAN_SIZE,
    )


def _overlap(chunks: list[Chunk]) -> bool:
    """Return True if chunks overlap in the file."""
    places = sorted(chunk.place for chunk in chunks)
    return any(
        start + length > following for (start, length, _), (following, *_) in pairwise(places)
    )


def _has_size(file: BinaryIO, chunk: Chunk) -> bool:
    """Return True if there is a chunk in the file with the size of its content."""
    header = read_at(file, chunk.place[0], _HEADER.size + _CHUNK_HEADER.size)
    if header[:1] != bytes([_CHUNK]) or len(header) < _HEADER.size + _CHUNK_HEADER.size:
        return False
    return bool(_CHUNK_HEADER.unpack_from(header, _HEADER.size)[2] == chunk.size)


def _summary_damage(file: BinaryIO, size: int) -> str:
    """Return the damage of summary and footer at the end of a file, or an empty string."""
    footer = read_at(file, max(size - _FOOTER_SIZE, 0), _FOOTER_SIZE)
    if not footer.endswith(MAGIC) or footer[:1] != b"\x02":
        return f"ends in the middle of its index, at byte {size:,}, but all messages can be read"
    start, _, checksum = struct.unpack_from("<QQI", footer, 9)
    start, stop = start or size - _FOOTER_SIZE, size - len(MAGIC) - 4
    if stop - start > _MAX_SUMMARY_SIZE:
        return (
            f"has an index of {stop - start:,} bytes, more than the {_MAX_SUMMARY_SIZE:,} that are "
            "read, but all messages can be read"
        )
    if checksum and zlib.crc32(read_at(file, start, max(stop - start, 0))) != checksum:
        return "has a damaged index, whose checksum does not match"
    return ""


# --- reading


def _read_records(file: BinaryIO, place: tuple[Any, ...]) -> tuple[bytes, bool]:
    """Return the records of a chunk or outside chunks; see `chunks.ChunkReader`."""
    offset, length, max_size = place
    data = read_at(file, offset, length)
    if data[:1] != bytes([_CHUNK]):
        return data, False
    try:
        _, _, size, checksum, _ = _CHUNK_HEADER.unpack_from(data, _HEADER.size)
        kind, next_offset = _read_string(data, _HEADER.size + _CHUNK_HEADER.size - 4)
        (compressed_size,) = struct.unpack_from("<Q", data, next_offset)
    except struct.error:
        return b"", True  # cut before its records
    if size > max_size:
        raise Damaged(f"claims to contain {size:,} bytes, more than {max_size:,} before")
    compressed = data[next_offset + 8 : next_offset + 8 + compressed_size]
    is_cut = len(compressed) < compressed_size
    content = decompress_chunk(kind, compressed, size, is_cut)
    if checksum and not is_cut and zlib.crc32(content) != checksum:
        raise Damaged("its checksum does not match its content")
    return content, is_cut


def _read_string(content: bytes, offset: int) -> tuple[str, int]:
    """Return a string, and the offset behind it."""
    (length,) = struct.unpack_from("<I", content, offset)
    if length > len(content) - offset - 4:
        raise struct.error("the string is cut")
    next_offset = offset + 4 + length
    return content[offset + 4 : next_offset].decode("utf-8", "replace"), next_offset


# --- a file that was cut, is being written, or has no summary


class _McapScanner(ck.ChunkScanner):
    """Scanner of a file without a usable summary."""

    def scan_records(self) -> _McapScanner:
        """Scan all records, and return this scanner."""
        self._schemas: dict[int, str] = {}
        self._indexed_size = 0  # bytes from the beginning whose messages outside chunks are known
        summary = self._scan_headers()
        self.examine_chunks()
        self.define_channels(summary)  # channels that damaged chunks do not define
        return self

    def _scan_headers(self) -> bytes:
        """Read all headers; return the summary, the bytes behind the data."""
        position = len(MAGIC)
        while position < self.end and self.count_record(position):
            header = self.read(position, _HEADER.size)
            opcode, length = (
                _HEADER.unpack(header) if len(header) == _HEADER.size else (0, self.end)
            )
            next_offset = position + _HEADER.size + length
            if opcode == _CHUNK:
                self._add_chunk(position, min(next_offset, self.end) - position)
            if next_offset > self.end:
                self.forget_last_counts()
                where = {_CHUNK: "a chunk", _MESSAGE: "a message"}.get(opcode, "a record")
                self.damage = sp.describe_cut(self.path, where, position)
                return b""
            if opcode == 0:
                self.note_damage(f"is damaged at byte {position:,}")
                next_offset = max(next_offset, self.skip_zeros(position))
            elif opcode == _MESSAGE and position < self._indexed_size:
                pass
            elif opcode == _MESSAGE and length <= self.limits.chunk_size:
                next_offset = self._add_messages(position, _HEADER.size + length)
            elif opcode == _MESSAGE:
                self.read_record(position, length)  # notes that it is skipped
            elif opcode == _MESSAGE_INDEX:
                self._add_count(self.read(position + _HEADER.size, _INDEX_HEADER.size))
            elif opcode in (_SCHEMA, _CHANNEL):
                record = self.read_record(position + _HEADER.size, length)
                if len(record) == length:
                    self.define(-opcode, record)
            elif opcode == _DATA_END:
                self.damage = _summary_damage(self.file, self.end) or self.damage
                is_readable = self.end - next_offset <= _MAX_SUMMARY_SIZE
                return self.read(next_offset, self.end - next_offset) if is_readable else b""
            position = next_offset
        self.forget_last_counts()
        missing = f"has no index, but all of its {self.end:,} bytes can be read"
        self.damage = sp.join_damage(missing, [self.damage])
        return b""

    def define(self, code: int, record: bytes) -> None:
        """Add a schema or channel."""
        try:
            if code == -_SCHEMA:
                (number,) = struct.unpack_from("<H", record)
                self._schemas.setdefault(number, _read_string(record, 2)[0])
            else:
                number, schema = struct.unpack_from("<HH", record)
                topic, next_offset = _read_string(record, 4)
                kind = ros2_type(self._schemas.get(schema, ""))
                self.add_channel(number, (topic, kind, _read_string(record, next_offset)[0]))
        except struct.error:
            self.note_damage("contains a damaged description of a topic")

    def _add_chunk(self, offset: int, length: int) -> None:
        """Add a chunk with the times and size in its header."""
        header = self.read(offset + _HEADER.size, _CHUNK_HEADER.size)
        if len(header) == _CHUNK_HEADER.size:
            start, stop, size, _, _ = _CHUNK_HEADER.unpack(header)
            self.chunks.append(
                Chunk(
                    (offset, length, size),
                    size,
                    {},
                    sp.clip_log_time(start),
                    sp.clip_log_time(stop),
                    stored_size=length,
                )
            )

    def _add_count(self, header: bytes) -> None:
        """Add the number of messages in a message index to the last chunk."""
        if len(header) == _INDEX_HEADER.size and self.chunks:
            channel, length = _INDEX_HEADER.unpack(header)
            if length >= 16:
                self.set_last_count(channel, length // 16)

    def _add_messages(self, offset: int, min_length: int) -> int:
        """Add messages outside chunks; return the offset behind them, or of a chunk among them.

        Messages and chunks may alternate, so that all messages in a block are added together.
        """
        block = self.read(offset, max(_BLOCK_SIZE, min_length))
        index, size = self.define_channels(block)
        length = int(index[-1, 2:].sum()) if len(index) else size
        self.chunks.append(ck.count_messages(Chunk((offset, length, length), length, {}), index))
        self._indexed_size = offset + length
        return offset + size


FORMAT = ck.chunk_format(scan_mcap, INDEX_MCAP, _read_records)
