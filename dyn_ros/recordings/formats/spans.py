# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics and spans of recordings of every format; a span can be read on its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ...cdr.decode import CDR, ROS1, Decoder, Messages
from ...files.limits import Limits

STRING_TYPE, TABLE_ENCODING = "std_msgs/msg/String", "table"
DECODABLE = CDR, ROS1, TABLE_ENCODING
"""Encodings of messages that can be decoded."""

MAX_CHANNELS = 65_536
"""Largest number of channels of a file; MCAP numbers them with 16 bits."""

MAX_LOG_TIME = (1 << 63) - 1
"""Largest log time [ns]; the smallest one is 0."""


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

    Attributes
    ----------
    start, stop : int
        Log times of the first and last message [ns].
    size : int
        [bytes, uncompressed]
    place : tuple
        Arguments with which the format finds it in the file; they can be pickled. In a `Source`
        that was opened, they follow the name of the file in its folder: ``(name, place)``.
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
    """Functions that read files of one format.

    ``scan(path, limits)`` finds topics and spans within limits, and raises a ValueError for files
    of other formats.
    ``read_messages(path, place, topics, decoder)`` reads the joint states and odometry of a span,
    in order of log time, and reports to the decoder what cannot be read. ``read_text(path, place,
    topics)`` returns the first text of a span, or None.
    """

    scan: Callable[[Path, Limits], Source]
    read_messages: Callable[[Path, tuple[Any, ...], Collection[str], Decoder], Messages]
    read_text: Callable[[Path, tuple[Any, ...], Collection[str]], str | None]


def merge_topics(topics: list[Topic]) -> tuple[Topic, ...]:
    """Return topics sorted by name, with the messages of all channels of a topic."""
    counts: dict[tuple[str, str, str], int | None] = {}
    for name, kind, encoding, count in topics:
        key = name, kind, encoding
        total = counts.get(key, 0)
        counts[key] = None if total is None or count is None else total + count
    return tuple(Topic(*key, count) for key, count in sorted(counts.items()))


def require_magic(file: BinaryIO, magic: bytes, path: Path, kind: str) -> str:
    """Read the magic number of a file; return a sentence if the file ends there, or "".

    Raise a ValueError if it begins with something else, so that its format is another one.
    """
    head = file.read(len(magic))
    if head == magic:
        return ""
    if magic.startswith(head):
        return f"is empty: {len(head)} bytes"
    raise ValueError(f"{str(path)!r}: is no {kind}; it begins with {head!r}")


def describe_cut(path: Path, where: str, usable: int) -> str:
    """Return a sentence on a file that ends too early."""
    remainder = ", and what precedes the cut in the chunk" if where == "a chunk" else ""
    return (
        f"ends in the middle of {where}; {usable:,} of {path.stat().st_size:,} bytes can be "
        f"read{remainder}"
    )


def join_damage(damage: str, problems: Iterable[str]) -> str:
    """Return a sentence on the damage of a file and on other problems of its content."""
    problems = list(filter(None, problems))
    return "; ".join(filter(None, (qualify_damage(damage, problems), *problems)))


def qualify_damage(damage: str, problems: Collection[str]) -> str:
    """Return the damage of a file; with other problems, not that all of it can be read."""
    return damage.partition(", but all ")[0] if problems else damage


def clip_log_time(time: int) -> int:
    """Return the closest valid log time [ns]."""
    return min(max(time, 0), MAX_LOG_TIME)
