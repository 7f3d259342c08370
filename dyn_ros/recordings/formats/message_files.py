# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Common parts of the formats of serialized messages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...cdr.decode import CDR, ROS1, Decoder, Messages, Raw
from ...files.limits import Limits
from .compression import ZSTD_MAGIC, Damaged, TooLarge, decompress_message, decompressed_file
from .spans import STRING_TYPE, Format, Source, join_damage

Channels = tuple[tuple[int, str, str, str], ...]
"""Number, topic, type and encoding of each channel of a file."""


def ros2_type(name: str) -> str:
    """Return the name of a type as ROS 2 writes it, from a name of ROS 1 or 2."""
    package, _, path = name.partition("/")
    return name if "/" in path or not path else f"{package}/msg/{path}"


def message_format(
    scan: Callable[[Path, Limits], Source],
    load_messages: Callable[[Path, tuple[Any, ...], dict[int, int]], Raw],
) -> Format:
    """Return a format of serialized messages, from functions that scan a file and load a span.

    ``scan(path, limits)`` finds topics and spans; the place of a span begins with its `Channels`.
    ``load_messages(path, places, codes)`` returns the serialized messages of the requested
    channels; it gets the places that follow in the place of the span, such as its chunks' places,
    and the codes of these channels by number. Compressed files and messages are decompressed here.
    """

    def scan_file(path: Path, limits: Limits) -> Source:
        """Find topics and spans of a file, also if it is compressed.

        The places of spans begin with the limits.
        """
        plain, damage = decompressed_file(path, limits)
        scanned = scan(plain, limits)
        return replace(
            scanned,
            damage=join_damage(scanned.damage, [damage]),
            spans=tuple(span._replace(place=(limits, *span.place)) for span in scanned.spans),
        )

    def load_span(
        path: Path,
        place: tuple[Any, ...],
        topics: Collection[str],
        code_of: Callable[[str, str, str], int | None],
    ) -> Raw:
        """Return the messages of topics for whose channels ``code_of`` returns a code."""
        limits, channels, *places = place
        requested_topics = frozenset(topics)  # both may be many
        codes = {
            number: code
            for number, name, kind, encoding in channels
            if name in requested_topics and (code := code_of(name, kind, encoding)) is not None
        }
        if not codes:
            return Raw(np.zeros(0, np.uint8), np.zeros((0, 4), np.int64))
        plain, _ = decompressed_file(path, limits)
        return _decompress_messages(load_messages(plain, tuple(places), codes), limits.chunk_size)

    def read_messages(
        path: Path, place: tuple[Any, ...], topics: Collection[str], decoder: Decoder
    ) -> Messages:
        """Read joint states and odometry; see `Format`."""
        return decoder.decode(load_span(path, place, topics, decoder.channel_code))

    def read_text(path: Path, place: tuple[Any, ...], topics: Collection[str]) -> str | None:
        """Return the first text of a span, or None."""
        return _first_text(
            load_span(
                path,
                place,
                topics,
                lambda name, kind, encoding: (
                    {CDR: 0, ROS1: 2}.get(encoding) if kind == STRING_TYPE else None
                ),
            )
        )

    return Format(scan_file, read_messages, read_text)


def _first_text(raw: Raw) -> str | None:
    """Return the first text in messages with a string that is not empty, or None."""
    for code, _, offset, length in raw.message_index[
        np.argsort(raw.message_index[:, 1], kind="stable")
    ].tolist():
        data = raw.content[offset : offset + length].tobytes()
        if code == 0:
            order: Any = "little" if data[1:2] == b"\x01" else "big"
            text = data[8 : 8 + int.from_bytes(data[4:8], order)]
        else:
            text = data[4 : 4 + int.from_bytes(data[:4], "little")]
        if text.strip(b"\0"):
            return text.rstrip(b"\0").decode("utf-8", "replace")
    return None


def _decompress_messages(raw: Raw, max_size: int) -> Raw:
    """Return the messages, decompressed if they are compressed one by one.

    Leaves out those that would let the content exceed ``max_size`` [bytes].
    """
    index, content = raw.message_index, raw.content
    offsets = index[index[:, 3] >= len(ZSTD_MAGIC), 2]
    is_packed = np.ones(len(offsets), bool)
    for k, byte in enumerate(ZSTD_MAGIC):
        is_packed &= content[offsets + k] == byte
    if not is_packed.any():
        return raw
    index, position = index.copy(), 0
    contents: list[bytes] = []
    problems = list(raw.problems)
    is_intact = np.ones(len(index), bool)
    for row, (_, _, offset, length) in enumerate(index.tolist()):
        message = content[offset : offset + length].tobytes()
        if message.startswith(ZSTD_MAGIC):
            try:
                message = decompress_message(message, max_size - position)
            except Damaged as error:
                problems.append(_describe_message(error, max_size))
                is_intact[row] = False
                continue
        index[row, 2:] = position, len(message)
        position += len(message)
        contents.append(message)
    return Raw(np.frombuffer(b"".join(contents), np.uint8), index[is_intact], tuple(problems))


def _describe_message(error: Damaged, max_size: int) -> str:
    """Return a sentence on a message that cannot be decompressed."""
    if isinstance(error, TooLarge):
        return (
            f"a message is left out, with which a span would hold more than {max_size:,} bytes; "
            "pass max_chunk_size= to read it"
        )
    return f"a message {error}"
