# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What every kind of recording consists of: topics, and spans that can be read on their own."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..cdr.decode import CDR, JOINT_STATE, ODOMETRY, ROS1, Raw  # noqa: F401

STRING, TABLE = "std_msgs/msg/String", "table"
MAX_CHUNK = 1 << 31
"""Largest size of an uncompressed chunk that is read [bytes]."""

EARLIEST, LATEST = 0, (1 << 63) - 1
"""Range of log times that are accepted [ns]."""


class Topic(NamedTuple):
    """A topic of a recording.

    Attributes
    ----------
    name : str
    type : str
        As ROS 2 writes it: ``sensor_msgs/msg/JointState``.
    encoding : str
        ``cdr``, ``ros1`` and ``table`` can be decoded; others are as in the file.
    count : int or None
        Number of messages, if the file states it.
    """

    name: str
    type: str
    encoding: str
    count: int | None = None        # type: ignore[assignment]      # hides tuple.count


class Span(NamedTuple):
    """A part of a recording that is read at once.

    Attributes
    ----------
    start, stop : int
        Log times of its first and last message [ns].
    size : int
        Uncompressed size [bytes].
    place : tuple
        What the reader of the file needs; can be pickled.
    """

    start: int
    stop: int
    size: int
    place: tuple[Any, ...]


class Scan(NamedTuple):
    """What the scan of one file found."""

    topics: tuple[Topic, ...]
    spans: tuple[Span, ...]
    damage: str = ""


CodeOf = Callable[[str, str, str], "int | None"]
"""Code of a topic's messages by its name, type and encoding; None if they are not requested."""

Channels = tuple[tuple[int, str, str, str], ...]
"""Channels of a file: number, topic, type, encoding."""


class Format(NamedTuple):
    """What reads one kind of file.

    Attributes
    ----------
    scan : callable
        Finds the topics and spans of a file.
    load : callable
        Reads the messages of a span.
    """

    scan: Callable[[Path], Scan]
    load: Callable[[Path, tuple[Any, ...], CodeOf], Raw]


def codes_of(channels: Channels, code_of: CodeOf) -> dict[int, int]:
    """Codes of the channels that are requested, by their numbers."""
    codes = {number: code_of(*rest) for number, *rest in channels}
    return {number: code for number, code in codes.items() if code is not None}


def ros2_type(name: str) -> str:
    """Name of a type as ROS 2 writes it, from either form."""
    package, _, rest = name.partition("/")
    return name if "/" in rest or not rest else f"{package}/msg/{rest}"


def merged(topics: list[Topic]) -> tuple[Topic, ...]:
    """Topics by name; several channels of one topic are added."""
    found: dict[tuple[str, str, str], int | None] = {}
    for name, kind, encoding, count in topics:
        key = name, kind, encoding
        before = found.get(key, 0)
        found[key] = None if before is None or count is None else before + count
    return tuple(Topic(*key, count) for key, count in sorted(found.items()))


def cut(path: Path, where: str, usable: int) -> str:
    """Description of a file that ends too early."""
    more = ", and what precedes the cut in the chunk" if where == "a chunk" else ""
    return (f"ends in the middle of {where}: {usable:,} of {path.stat().st_size:,} bytes can be "
            f"read{more}")


def require_start(file: BinaryIO, magic: bytes, path: Path, kind: str) -> str:
    """Read how a file begins; return what is wrong if it ends there, or an empty string.

    Raises
    ------
    ValueError
        It begins with something else, so it is not of this kind.
    """
    head = file.read(len(magic))
    if head == magic:
        return ""
    if magic.startswith(head):
        return f"is empty: {len(head)} bytes"
    raise ValueError(f"{str(path)!r} is no {kind}: it begins with {head!r}")


def unread(offset: int, size: int, total: int) -> str:
    """Description of a chunk whose records cannot be read to their end."""
    return f"the chunk at byte {offset} is damaged: {size:,} of its {total:,} bytes are not read"


def limited(time: int) -> int:
    """Log time within the accepted range."""
    return min(max(time, EARLIEST), LATEST)
