# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What every kind of recording consists of: topics, and spans that can be read on their own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ...cdr.decode import CDR, ROS1, Decoder, Messages

STRING, TABLE = "std_msgs/msg/String", "table"
DECODABLE = CDR, ROS1, TABLE
"""Encodings of topics that can be decoded."""

MAX_CHUNK = 1 << 31
"""Largest size of an uncompressed chunk that is read [bytes]."""

LATEST = (1 << 63) - 1
"""Latest log time that is accepted [ns]; the earliest one is 0."""


class Topic(NamedTuple):
    """A topic of a recording.

    Its type is as ROS 2 writes it, ``sensor_msgs/msg/JointState``; its encoding one of
    ``DECODABLE``, or as in the file; its count the number of messages, if the file states it.
    """

    name: str
    type: str
    encoding: str
    count: int | None = None  # type: ignore[assignment]      # hides tuple.count


class Span(NamedTuple):
    """A section of a recording that is read at once.

    Log times of its first and last message [ns], its uncompressed size [bytes], and what the
    reader of the file needs to find it, which can be pickled.
    """

    start: int
    stop: int
    size: int
    place: tuple[Any, ...]


@dataclass(frozen=True)
class Source:
    """A recording that can be read in parts: a file, or the folder of a rosbag2. It can be pickled.

    Its spans are sorted by their start and may overlap in time; ``damage`` is what is wrong with
    it and what can be read nevertheless. Its name is without suffix. `sources.open_source` sets
    path and name.
    """

    topics: tuple[Topic, ...]
    spans: tuple[Span, ...]
    damage: str = ""
    path: Path = Path()
    name: str = ""


class Format(NamedTuple):
    """What reads one kind of file.

    ``scan(path)`` finds topics and spans; a ValueError if it is no file of this kind.
    ``read(path, place, topics, decoder)`` reads the joint states and odometry of a span, in order
    of log time; what cannot be read is reported to the decoder. ``text(path, place, topics)`` is
    the first text of a span, None if there is none.
    """

    scan: Callable[[Path], Source]
    read: Callable[[Path, tuple[Any, ...], Collection[str], Decoder], Messages]
    text: Callable[[Path, tuple[Any, ...], Collection[str]], str | None]


def merged(topics: list[Topic]) -> tuple[Topic, ...]:
    """Topics by name; several channels of one topic are added."""
    counts: dict[tuple[str, str, str], int | None] = {}
    for name, kind, encoding, count in topics:
        key = name, kind, encoding
        before = counts.get(key, 0)
        counts[key] = None if before is None or count is None else before + count
    return tuple(Topic(*key, count) for key, count in sorted(counts.items()))


def require_start(file: BinaryIO, magic: bytes, path: Path, kind: str) -> str:
    """Read how a file begins; return what is wrong if it ends there, or an empty string.

    A ValueError if it begins with something else, so it is not of this kind.
    """
    head = file.read(len(magic))
    if head == magic:
        return ""
    if magic.startswith(head):
        return f"is empty: {len(head)} bytes"
    raise ValueError(f"{str(path)!r} is no {kind}; it begins with {head!r}")


def cut(path: Path, where: str, usable: int) -> str:
    """Description of a file that ends too early."""
    more = ", and what precedes the cut in the chunk" if where == "a chunk" else ""
    return (
        f"ends in the middle of {where}; {usable:,} of {path.stat().st_size:,} bytes can be "
        f"read{more}"
    )


def limited(time: int) -> int:
    return min(max(time, 0), LATEST)
