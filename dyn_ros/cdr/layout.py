# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the fields of a serialized message are: CDR of version 1, little endian, no options."""
from __future__ import annotations

import struct
from typing import NamedTuple

from .definition import DTYPES, SEQUENCE, SINGLE, STRING, Definition, Field

PLAIN = b"\0\1\0\0"             # the encapsulation, in front of the body
LENGTH, TIME = "length", "time"
TIMES = "builtin_interfaces/Time", "builtin_interfaces/Duration"
STAMP, COUNT = struct.Struct("<iI"), struct.Struct("<I")


class Item(NamedTuple):
    """Bytes of a message that belong together.

    Attributes
    ----------
    path : str
        The field, such as "pose.position.x" or "markers.0.ns".
    type : str
        That of the numbers; STRING for characters and the zero that ends them; LENGTH for what
        precedes a string or a sequence; TIME for a stamp or a duration.
    start, size : int
        In bytes, from the start of the body.
    """

    path: str
    type: str
    start: int
    size: int


def items_of(definition: Definition, body: bytes | bytearray, kind: str = "", start: int = 0,
             path: str = "") -> list[Item]:
    """All bytes of a message but its padding, in order; a ValueError if the body ends before.

    With other arguments, those of a message in it: its type, where it starts, prefix of the paths.
    """
    walk = _Walk(definition, body, start)
    walk.message(kind or definition.name, path)
    return walk.items


class _Walk:
    def __init__(self, definition: Definition, body: bytes | bytearray, start: int) -> None:
        self._types, self._numbers = definition.types, definition.numbers
        self._body, self._at = body, start
        self.items: list[Item] = []

    def message(self, name: str, path: str) -> None:
        if name in TIMES:
            self._add(path[:-1], TIME, STAMP.size, 4)
            return
        fields = self._types[name]
        for field in fields:
            self._field(field, path + field.name)
        if not fields:
            self._add(path[:-1], "uint8", 1, 1)         # CDR has no empty messages

    def _field(self, field: Field, path: str) -> None:
        count = self._length(path) if field.size == SEQUENCE else field.size or 1
        if field.type in DTYPES or (field.size != SINGLE and field.type in self._numbers):
            kind, numbers = self._numbers[field.type]
            width = DTYPES[kind].itemsize
            self._add(path, kind, width * numbers * count, width if count else 1)
            return
        for i in range(count):
            element = path if field.size == SINGLE else f"{path}.{i}"
            if field.type == STRING:
                self._add(element, STRING, self._length(element), 1)
            else:
                self.message(field.type, element + ".")

    def _length(self, path: str) -> int:
        return int(COUNT.unpack_from(self._body, self._add(path, LENGTH, COUNT.size, 4))[0])

    def _add(self, path: str, kind: str, size: int, alignment: int) -> int:
        start = self._at + -self._at % alignment
        self._at = start + size
        if self._at > len(self._body):
            raise ValueError(f"the message ends before {path}")
        self.items.append(Item(path, kind, start, size))
        return start
