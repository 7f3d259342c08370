# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of serialized messages: what their formats have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...cdr.decode import CDR, ROS1, Decoder, Messages, Raw
from .compression import ZSTD_MAGIC, Damaged, decompress_message, decompressed_file
from .spans import STRING, Format, Source

Channels = tuple[tuple[int, str, str, str], ...]
"""Channels of a file: number, topic, type, encoding."""


def ros2_type(name: str) -> str:
    """Name of a type as ROS 2 writes it, from either form."""
    package, _, rest = name.partition("/")
    return name if "/" in rest or not rest else f"{package}/msg/{rest}"


def serialized(
    scan: Callable[[Path], Source], load: Callable[[Path, tuple[Any, ...], dict[int, int]], Raw]
) -> Format:
    """A format of serialized messages, from what scans a file, and loads a span.

    The place of a span begins with its `Channels`. ``load(path, rest of the place, codes)`` gets
    the codes of those that are requested, by their numbers. Files and messages may be compressed
    too.
    """

    def scan_any(path: Path) -> Source:
        plain, damage = decompressed_file(path)
        scanned = scan(plain)
        return replace(scanned, damage="; ".join(filter(None, (damage, scanned.damage))))

    def load_any(
        path: Path,
        place: tuple[Any, ...],
        topics: Collection[str],
        code_of: Callable[[str, str, str], int | None],
    ) -> Raw:
        channels, *rest = place
        codes = {
            number: code
            for number, name, kind, encoding in channels
            if name in topics and (code := code_of(name, kind, encoding)) is not None
        }
        if not codes:
            return Raw(np.zeros(0, np.uint8), np.zeros((0, 4), np.int64))
        return _unpacked(load(decompressed_file(path)[0], tuple(rest), codes))

    def read(
        path: Path, place: tuple[Any, ...], topics: Collection[str], decoder: Decoder
    ) -> Messages:
        return decoder.decode(load_any(path, place, topics, decoder.channel_code))

    def text(path: Path, place: tuple[Any, ...], topics: Collection[str]) -> str | None:
        return _first_text(
            load_any(
                path,
                place,
                topics,
                lambda name, kind, encoding: (
                    {CDR: 0, ROS1: 2}.get(encoding) if kind == STRING else None
                ),
            )
        )

    return Format(scan_any, read, text)


def _first_text(raw: Raw) -> str | None:
    for code, _, offset, length in raw.rows[np.argsort(raw.rows[:, 1], kind="stable")].tolist():
        data = raw.content[offset : offset + length].tobytes()
        if code == 0:
            order: Any = "little" if data[1:2] == b"\x01" else "big"
            text = data[8 : 8 + int.from_bytes(data[4:8], order)]
        else:
            text = data[4 : 4 + int.from_bytes(data[:4], "little")]
        if text.strip(b"\0"):
            return text.rstrip(b"\0").decode("utf-8", "replace")
    return None


def _unpacked(raw: Raw) -> Raw:
    """The messages, decompressed if they are compressed one by one."""
    index, content = raw.rows, raw.content
    offsets = index[index[:, 3] >= len(ZSTD_MAGIC), 2]
    is_packed = np.ones(len(offsets), bool)
    for k, byte in enumerate(ZSTD_MAGIC):
        is_packed &= content[offsets + k] == byte
    if not is_packed.any():
        return raw
    index, position = index.copy(), 0
    contents: list[bytes] = []
    problems = list(raw.problems)
    keep = np.ones(len(index), bool)
    for row, (_, _, offset, length) in enumerate(index.tolist()):
        message = content[offset : offset + length].tobytes()
        if message.startswith(ZSTD_MAGIC):
            try:
                message = decompress_message(message)
            except Damaged as error:
                problems.append(f"a message {error}")
                keep[row] = False
                continue
        index[row, 2:] = position, len(message)
        position += len(message)
        contents.append(message)
    return Raw(np.frombuffer(b"".join(contents), np.uint8), index[keep], tuple(problems))
