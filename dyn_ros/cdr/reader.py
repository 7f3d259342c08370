# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recognizes messages that repeat: with the contents of one before, except for some numbers."""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .definition import STRING, Definition
from .layout import LENGTH, PLAIN, Item, Walk

MAX_LAYOUTS = 32        # bounds the memory and the search if a publisher never repeats its names

Read = TypeVar("Read")


class Layout(Generic[Read]):
    """All messages that differ from one only in numbers and times of the fields that vary.

    They may also differ in their padding, which rclpy does not initialize. "header.stamp" means
    that of all messages in a sequence; `items` has these fields by their whole paths. A ValueError
    says that the message is not plain CDR, or is cut.
    """

    def __init__(self, definition: Definition, data: bytes, varying: frozenset[str]) -> None:
        if not data.startswith(PLAIN):
            raise ValueError("expected little-endian CDR without options")
        self.items: dict[str, Item] = {}
        parts, at, constant = [], 0, len(PLAIN)     # bytes that are constant, up to now
        for item in Walk(definition).items(data[len(PLAIN):]):
            varies = item.type not in (LENGTH, STRING) and item.name in varying
            if varies:
                self.items[item.path] = item
            if varies or item.start > at:
                parts.append(f"{constant}s{item.start - at}x")
                constant = 0
            if varies:
                parts.append(f"{item.size}x")
            else:
                constant += item.size
            at = item.start + item.size
        self._struct = struct.Struct("".join(parts) + f"{constant}s")
        self._constant = self._struct.unpack_from(data)

    def fits(self, data: bytes) -> bool:
        """Whether a message has this layout."""
        return (len(data) >= self._struct.size
                and self._struct.unpack_from(data) == self._constant)

    def read(self, data: bytes) -> Read:
        """What a message of this layout contains."""
        raise NotImplementedError


class Reader(Generic[Read]):
    """Reads the messages of a topic: from their bytes if their layout is known.

    `deserialize` reads the others: the first of a layout, and those that are not plain CDR. Then
    `layout` of the data and of what was read is known.
    """

    def __init__(self, deserialize: Callable[[bytes], Read],
                 layout: Callable[[bytes, Read], Layout[Read]]) -> None:
        self._deserialize, self._layout = deserialize, layout
        self.layouts: list[Layout[Read]] = []

    def read(self, data: bytes) -> Any:
        """What a message contains; the errors are those of `deserialize`."""
        for layout in self.layouts:
            if layout.fits(data):
                return layout.read(data)
        read = self._deserialize(data)
        try:
            layout = self._layout(data, read)
        except ValueError:
            return read
        if len(self.layouts) >= MAX_LAYOUTS:
            self.layouts.clear()
        self.layouts.append(layout)
        return read
