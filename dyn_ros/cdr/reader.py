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
    """All messages that differ from one in some numbers and times only, and in their padding.

    Padding is undefined: rclpy does not initialize it.

    Parameters
    ----------
    definition : Definition
    data : bytes
        The message. A ValueError if it is not plain CDR, or ends before its last field.
    varying : frozenset of str
        The numbers and times that may differ: fields, such as "header.stamp" for the stamps of all
        messages in a sequence.

    Attributes
    ----------
    items : dict of str to Item
        Where these are, by their paths.
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

    Parameters
    ----------
    deserialize : callable(data)
        Reads every other message: the first of a layout, and those that are not plain CDR.
    layout : callable(data, read)
        Returns the layout of a message that has been deserialized.
    same : callable(read, read)
        Whether a layout reads what has been deserialized; otherwise it is not used.
    """

    def __init__(self, deserialize: Callable[[bytes], Read],
                 layout: Callable[[bytes, Read], Layout[Read]],
                 same: Callable[[Read, Read], bool]) -> None:
        self._deserialize, self._layout, self._same = deserialize, layout, same
        self.layouts: list[Layout[Read]] = []

    def read(self, data: bytes) -> Any:
        """What a message contains; the errors are those of `deserialize`."""
        for layout in self.layouts:
            if layout.fits(data):
                return layout.read(data)
        read = self._deserialize(data)
        try:
            layout = self._layout(data, read)
            is_known = self._same(layout.read(data), read)
        except (ValueError, IndexError):
            return read
        if is_known:
            if len(self.layouts) >= MAX_LAYOUTS:
                self.layouts.clear()
            self.layouts.append(layout)
        return read
