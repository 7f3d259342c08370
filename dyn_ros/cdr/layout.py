# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the fields of serialized messages are, and messages that repeat, except for some numbers.

Plain CDR: of version 1, little endian, without options.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from .definition import DTYPES, SEQUENCE, SINGLE, STRING, Definition

MAX_LAYOUTS = 32  # bounds the memory and the search if publishers never repeat names
PLAIN = b"\0\1\0\0"  # the encapsulation, in front of the body
LENGTH, TIME = "length", "time"
TIMES = "builtin_interfaces/Time", "builtin_interfaces/Duration"
STAMP, COUNT = struct.Struct("<iI"), struct.Struct("<I")
_CUT = "the message ends before its last field"

Read = TypeVar("Read")


class Item(NamedTuple):
    """Bytes of a message that belong together."""

    prefix: str  # of the path: "markers.0."
    name: str  # the rest of the path: "pose.position.x"
    type: str  # of numbers; STRING with its length and the zero that ends it; LENGTH; TIME
    start: int  # [bytes], from the start of the body
    size: int  # [bytes]

    @property
    def path(self) -> str:
        """The whole path of the field."""
        return self.prefix + self.name

    @property
    def part(self) -> slice:
        """The numbers in an array of all numbers of their type in the body."""
        width = DTYPES[self.type].itemsize
        return slice(self.start // width, (self.start + self.size) // width)


class _Step(NamedTuple):
    """A field of a message, or of the messages in it that are no sequences."""

    name: str
    type: str
    size: int  # of an array; or SINGLE, SEQUENCE
    width: int  # of an element [bytes]; 0: has to be walked through
    alignment: int


@functools.lru_cache(maxsize=256)
class Walk:
    """Finds where everything in serialized messages is.

    Messages of numbers of one type, such as poses, are one item, unless each field is wanted. In
    sequences and arrays they always are.
    """

    def __init__(self, definition: Definition, each_field: bool = False) -> None:
        self._definition, self._each_field = definition, each_field
        self._steps = {name: list(self._steps_of(name, "")) for name in definition.types}

    def _steps_of(self, name: str, prefix: str) -> Iterator[_Step]:
        fields = self._definition.types[name]
        for field, kind, size in fields:
            path = prefix + field
            block = self._definition.numbers.get(kind)
            if kind in TIMES and size == SINGLE:
                yield _Step(path, TIME, SINGLE, STAMP.size, 4)
            elif block and (size != SINGLE or kind in DTYPES or not self._each_field):
                width = DTYPES[block[0]].itemsize
                yield _Step(path, block[0], size, width * block[1], width)
            elif size == SINGLE and kind != STRING:
                yield from self._steps_of(kind, path + ".")
            else:
                yield _Step(path, kind, size, 0, COUNT.size)
        if not fields:
            yield _Step(prefix[:-1], "uint8", SINGLE, 1, 1)  # CDR has no empty messages

    def items(
        self, body: bytes | bytearray, kind: str = "", start: int = 0, prefix: str = ""
    ) -> list[Item]:
        """All bytes of a message but its padding, in order; a ValueError if it is cut.

        With more arguments, those of a message in it: its type, start, and prefix of the paths.
        """
        items: list[Item] = []
        self._add(items, body, start, kind or self._definition.name, prefix)
        return items

    def _add(
        self, items: list[Item], body: bytes | bytearray, at: int, name: str, prefix: str
    ) -> int:
        """Append the items of a message; return where it ends."""
        for field, kind, size, width, alignment in self._steps[name]:
            count = size or 1
            if size == SEQUENCE:
                at += -at % COUNT.size
                count = _count(body, at)
                items.append(Item(prefix, field, LENGTH, at, COUNT.size))
                at += COUNT.size
            if width:
                at += -at % alignment if count else 0
                items.append(Item(prefix, field, kind, at, width * count))
                at += width * count
            else:
                for i in range(count):
                    element = f"{field}.{i}" if size else field
                    if kind == STRING:
                        at += -at % COUNT.size
                        length = COUNT.size + _count(body, at)
                        items.append(Item(prefix, element, STRING, at, length))
                        at += length
                    else:
                        at = self._add(items, body, at, kind, f"{prefix}{element}.")
            if at > len(body):
                raise ValueError(_CUT)
        return at


def _count(body: bytes | bytearray, at: int) -> int:
    if at + COUNT.size > len(body):
        raise ValueError(_CUT)
    return int(COUNT.unpack_from(body, at)[0])


# --- messages that repeat


class Layout(Generic[Read]):
    """All messages that differ from one only in numbers and times of the fields that vary.

    They may also differ in their padding, which rclpy does not initialize. "header.stamp" means
    that of all messages in a sequence; `items` has these fields by their whole paths. A ValueError
    is raised if the message is not plain CDR, or is cut.
    """

    def __init__(self, definition: Definition, data: bytes, varying: frozenset[str]) -> None:
        if not data.startswith(PLAIN):
            raise ValueError("expected little-endian CDR without options")
        self.items: dict[str, Item] = {}
        parts, at, constant = [], 0, len(PLAIN)  # bytes that are constant, up to now
        for item in Walk(definition).items(data[len(PLAIN) :]):
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
        return len(data) >= self._struct.size and self._struct.unpack_from(data) == self._constant

    def read(self, data: bytes) -> Read:
        """What a message of this layout contains."""
        raise NotImplementedError


class Reader(Generic[Read]):
    """Reads the messages of a topic: from their bytes if their layout is known.

    `deserialize` reads the others: the first of a layout, and those that are not plain CDR. Then
    `layout` of the data and of what was read is known.
    """

    def __init__(
        self, deserialize: Callable[[bytes], Read], layout: Callable[[bytes, Read], Layout[Read]]
    ) -> None:
        self._deserialize, self._layout = deserialize, layout
        self.layouts: list[Layout[Read]] = []

    def read(self, data: bytes) -> Any:
        """What a message contains; errors are as in `deserialize`."""
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
