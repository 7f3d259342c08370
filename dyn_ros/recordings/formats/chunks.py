# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that are read in chunks, and what the records of MCAP and of ROS 1 have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cdr.decode import Raw
from ...engine.call.algorithm import compiled
from ...engine.machine_code.compiler import Entry
from . import serialized as ser
from . import spans as sp
from .compression import Damaged
from .index_kernel import MIN_RECORD
from .serialized import Channels
from .spans import Format, Source, Span, Topic

Content = Callable[[BinaryIO, tuple[Any, ...]], tuple[bytes, bool]]
"""Returns the records of a chunk at a place, and whether their end is missing; or `Damaged`."""


class Chunk(NamedTuple):
    """A chunk, consecutive messages outside chunks, or rows of a database.

    ``place`` is where it is, first its offset; ``size`` that of its content; ``start`` and ``stop``
    the log times of its messages; ``counts`` their numbers by channel, 0: some, empty: nothing is
    known.
    """

    place: tuple[Any, ...]
    size: int
    start: int = 1 << 62
    stop: int = -1
    counts: Mapping[int, int] = {}

    def is_known(self, channels: Mapping[int, Any]) -> bool:
        """Whether its times and channels are known without reading it."""
        return (
            bool(self.counts)
            and self.counts.keys() <= channels.keys()
            and 0 < self.stop >= self.start
        )


class Walk(ABC):
    """Reads the headers of all records, and the content of chunks of which something is unknown."""

    def __init__(self, file: BinaryIO, path: Path, entry: Entry, content: Content) -> None:
        self.file, self.path, self.end = file, path, path.stat().st_size
        self._entry, self._content = entry, content
        self.channels: dict[int, tuple[str, str, str]] = {}  # topic, type, encoding
        self.chunks: list[Chunk] = []
        self.damage = ""

    @abstractmethod
    def define(self, code: int, record: bytes) -> None:
        """Note what a record defines, from its code in the index."""

    def note(self, damage: str) -> None:
        self.damage = self.damage or damage

    def read(self, offset: int, length: int) -> bytes:
        return read_at(self.file, offset, length)

    def forget_last(self) -> None:
        """Forget what the last chunk contains: its index may be cut."""
        if self.chunks:
            self.chunks[-1] = self.chunks[-1]._replace(counts={})

    def define_all(self, content: bytes) -> tuple[NDArray[np.int64], int]:
        """Note what records define; return the index of the messages, and the size of all."""
        index, size = index_of(self._entry, np.frombuffer(content, np.uint8), None)
        for code, _, offset, length in index[index[:, 0] < 0].tolist():
            self.define(code, content[offset : offset + length])
        return index[index[:, 0] >= 0], size

    def examine(self) -> None:
        for k, chunk in enumerate(self.chunks):
            if chunk.is_known(self.channels):
                continue
            content, _, problem = _read(self.file, chunk.place, self._content)
            if not problem:
                self.chunks[k] = examined(chunk, self.define_all(content)[0])
            elif chunk.stop < chunk.start:  # otherwise reported when the chunk is read
                self.damage = "; ".join(filter(None, (self.damage, problem)))

    def scan(self, span: int) -> Source:
        counts: Counter[int] = Counter()
        for chunk in self.chunks:
            counts.update(chunk.counts)
        is_counted = all(chunk.counts or chunk.stop < 0 for chunk in self.chunks)
        channels = tuple((number, *rest) for number, rest in sorted(self.channels.items()))
        return scan_of(channels, self.chunks, counts if is_counted else None, self.damage, span)


def examined(chunk: Chunk, index: NDArray[np.int64]) -> Chunk:
    """The chunk with the times and counts of its messages."""
    times = index[index[:, 1] >= 0, 1]
    return chunk._replace(
        start=int(times.min(initial=1 << 62)),
        stop=int(times.max(initial=-1)),
        counts=dict(Counter(index[:, 0].tolist())),
    )


def scan_of(
    channels: Channels,
    chunks: Sequence[Chunk],
    counts: Mapping[int, int] | None,
    damage: str,
    span: int,
) -> Source:
    """Topics and spans; a file may not state the counts of messages by channel.

    Chunks are joined to spans of this size; those without messages are left out.
    """
    topics = [
        Topic(name, kind, encoding, None if counts is None else counts.get(number, 0))
        for number, name, kind, encoding in channels
    ]
    groups: list[list[Chunk]] = []
    for chunk in chunks:
        if chunk.stop < chunk.start:
            continue
        if not groups or sum(other.size for other in groups[-1]) + chunk.size > span:
            groups.append([])
        groups[-1].append(chunk)
    subsets: dict[frozenset[int], Channels] = {}  # which many spans share

    def span_of(group: list[Chunk]) -> Span:
        numbers = frozenset(number for chunk in group for number in chunk.counts)
        if not all(chunk.counts for chunk in group):
            numbers = frozenset(number for number, *_ in channels)
        subset = subsets.setdefault(
            numbers, tuple(channel for channel in channels if channel[0] in numbers)
        )
        return Span(
            min(chunk.start for chunk in group),
            max(chunk.stop for chunk in group),
            sum(chunk.size for chunk in group),
            (subset, *(chunk.place for chunk in group)),
        )

    return Source(sp.merged(topics), tuple(map(span_of, groups)), damage)


# --- reading


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _read(file: BinaryIO, place: tuple[Any, ...], content: Content) -> tuple[bytes, bool, str]:
    """Records of a chunk, whether their end is missing, and what is wrong with them."""
    try:
        return *content(file, place), ""
    except Damaged as error:
        return b"", False, f"the chunk at byte {place[0]} is skipped: {error}"


def index_of(
    entry: Entry, content: NDArray[np.uint8], codes: dict[int, int] | None
) -> tuple[NDArray[np.int64], int]:
    """Index of the messages in an uncompressed chunk, and the size of its whole records.

    ``codes`` are those of channels by their numbers. None: all messages, with the number of their
    channel as code, and negative codes for what defines channels.
    """
    channels = np.array(sorted((codes or {}).items()), np.int64).reshape(-1, 2)
    index = np.empty((len(content) // MIN_RECORD + 1, 4), np.int64)
    state = np.zeros(2, np.int64)
    compiled(entry)(
        content.ctypes.data,
        len(content),
        channels.ctypes.data,
        -1 if codes is None else len(channels),
        index.ctypes.data,
        state.ctypes.data,
    )
    return index[: state[0]], int(state[1])


def chunked(scan: Callable[[Path], Source], entry: Entry, content: Content) -> Format:
    def load(path: Path, place: tuple[Any, ...], codes: dict[int, int]) -> Raw:
        contents, indices, problems, size = [], [], [], 0
        with open(path, "rb") as file:
            for chunk in place:
                records, is_cut, problem = _read(file, chunk, content)
                data = np.frombuffer(records, np.uint8)
                index, end = index_of(entry, data, codes)
                if end < len(data) and not is_cut:
                    problem = (
                        f"the chunk at byte {chunk[0]} is damaged: {len(data) - end:,} of "
                        f"its {len(data):,} bytes are not read"
                    )
                problems += [problem] if problem else []
                index[:, 2] += size
                size += len(data)
                contents.append(data)
                indices.append(index)
        if len(contents) == 1:
            return Raw(contents[0], indices[0], tuple(problems))
        return Raw(np.concatenate(contents), np.concatenate(indices), tuple(problems))

    return ser.serialized(scan, load)
