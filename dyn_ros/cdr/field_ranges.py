# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Byte ranges of the fields in serialized messages, and a reader of messages that repeat.

All are plain CDR: version 1, little endian, without options.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from .definition import DTYPES, SEQUENCE, SINGLE, STRING, Definition

MAX_PATTERNS = 32  # bounds the memory and the search if publishers never repeat names
PLAIN_ENCAPSULATION = b"\0\1\0\0"  # the four bytes before the body
LENGTH, TIME = "length", "time"
TIMES = "builtin_interfaces/Time", "builtin_interfaces/Duration"
STAMP, COUNT = struct.Struct("<iI"), struct.Struct("<I")
_TRUNCATION_ERROR = "the message ends before its last field"

Result = TypeVar("Result")


class FieldRange(NamedTuple):
    """Contiguous bytes of a message: numbers of one type, a string, a time, or a length."""

    prefix: str  # path of the message that has the field: "markers.0."
    name: str  # path of the field in that message: "pose.position.x"
    type: str  # a key of DTYPES; STRING, with its length and final zero; LENGTH; TIME
    start: int  # [bytes], counted from the start of the body
    size: int  # [bytes]

    @property
    def path(self) -> str:
        """Path of the field in the whole message."""
        return self.prefix + self.name

    @property
    def elements(self) -> slice:
        """Slice of the numbers in an array that shows the whole body as numbers of their type."""
        width = DTYPES[self.type].itemsize
        return slice(self.start // width, (self.start + self.size) // width)


class _FieldFormat(NamedTuple):
    """Serialized form of a field of a message, or of a message in it that is not in an array."""

    name: str
    type: str
    size: int  # number of elements, or SINGLE, SEQUENCE
    width: int  # [bytes] per element; 0 if each element has to be parsed
    alignment: int  # [bytes]


@functools.lru_cache(maxsize=256)
class FieldFinder:
    """Finder of the byte ranges of all fields in serialized messages.

    A message of numbers of one type, such as a pose, is one range, unless `each_field` is true.
    Sequences and arrays of such messages always are.
    """

    def __init__(self, definition: Definition, each_field: bool = False) -> None:
        self._definition, self._each_field = definition, each_field
        self._formats = {name: list(self._message_formats(name, "")) for name in definition.types}

    def _message_formats(self, name: str, prefix: str) -> Iterator[_FieldFormat]:
        """Yield the formats of a message's fields in order; the prefix precedes their names."""
        fields = self._definition.types[name]
        for field, kind, size in fields:
            path = prefix + field
            block = self._definition.numbers.get(kind)
            if kind in TIMES and size == SINGLE:
                yield _FieldFormat(path, TIME, SINGLE, STAMP.size, 4)
            elif block and (size != SINGLE or kind in DTYPES or not self._each_field):
                width = DTYPES[block[0]].itemsize
                yield _FieldFormat(path, block[0], size, width * block[1], width)
            elif size == SINGLE and kind != STRING:
                yield from self._message_formats(kind, path + ".")
            else:
                yield _FieldFormat(path, kind, size, 0, COUNT.size)
        if not fields:
            yield _FieldFormat(prefix[:-1], "uint8", SINGLE, 1, 1)  # CDR has no empty messages

    def find(
        self, body: bytes | bytearray, kind: str = "", start: int = 0, prefix: str = ""
    ) -> list[FieldRange]:
        """Return the ranges of a message in order; they omit only padding.

        For a message in the body, pass its type, its start, and a prefix for the paths. Raise a
        ValueError if the body is truncated.
        """
        ranges: list[FieldRange] = []
        self._append_message(ranges, body, start, kind or self._definition.name, prefix)
        return ranges

    def _append_message(
        self, ranges: list[FieldRange], body: bytes | bytearray, at: int, name: str, prefix: str
    ) -> int:
        """Append the ranges of a message; return the position behind it."""
        for field, kind, size, width, alignment in self._formats[name]:
            count = size or 1
            if size == SEQUENCE:
                at += -at % COUNT.size
                count = _read_count(body, at)
                ranges.append(FieldRange(prefix, field, LENGTH, at, COUNT.size))
                at += COUNT.size
            if width:
                at += -at % alignment if count else 0
                ranges.append(FieldRange(prefix, field, kind, at, width * count))
                at += width * count
            else:
                for i in range(count):
                    element = f"{field}.{i}" if size else field
                    if kind == STRING:
                        at += -at % COUNT.size
                        length = COUNT.size + _read_count(body, at)
                        ranges.append(FieldRange(prefix, element, STRING, at, length))
                        at += length
                    else:
                        at = self._append_message(ranges, body, at, kind, f"{prefix}{element}.")
            if at > len(body):
                raise ValueError(_TRUNCATION_ERROR)
        return at


def _read_count(body: bytes | bytearray, at: int) -> int:
    """Return the 32-bit integer at a position; raise a ValueError if the body ends before it."""
    if at + COUNT.size > len(body):
        raise ValueError(_TRUNCATION_ERROR)
    return int(COUNT.unpack_from(body, at)[0])


# --- messages that repeat


class MessagePattern(Generic[Result]):
    """The messages that differ from a sample only in numbers and times of the `varying` fields.

    They may also differ in their padding, which rclpy does not initialize. "header.stamp" stands
    for the stamps of all messages in a sequence. `ranges` are the varying fields by their paths.
    Raise a ValueError if the sample is not plain CDR, or is truncated.
    """

    def __init__(self, definition: Definition, data: bytes, varying: frozenset[str]) -> None:
        if not data.startswith(PLAIN_ENCAPSULATION):
            raise ValueError("expected little-endian CDR without options")
        self.ranges: dict[str, FieldRange] = {}
        formats, at, constant_size = [], 0, len(PLAIN_ENCAPSULATION)
        for field in FieldFinder(definition).find(data[len(PLAIN_ENCAPSULATION) :]):
            varies = field.type not in (LENGTH, STRING) and field.name in varying
            if varies:
                self.ranges[field.path] = field
            if varies or field.start > at:
                formats.append(f"{constant_size}s{field.start - at}x")
                constant_size = 0
            if varies:
                formats.append(f"{field.size}x")
            else:
                constant_size += field.size
            at = field.start + field.size
        self._struct = struct.Struct("".join(formats) + f"{constant_size}s")
        self._constant = self._struct.unpack_from(data)

    def matches(self, data: bytes) -> bool:
        """Return True if a message has this pattern."""
        return len(data) >= self._struct.size and self._struct.unpack_from(data) == self._constant

    def read(self, data: bytes) -> Result:
        """Return the content of a message of this pattern."""
        raise NotImplementedError


class PatternReader(Generic[Result]):
    """Reader of the messages of a topic, which reads a message of a known pattern from its bytes.

    `deserialize` reads all others: the first one of a pattern, and messages that are not plain
    CDR. `make_pattern` is then called with the data and the result, and its pattern is known.
    """

    def __init__(
        self,
        deserialize: Callable[[bytes], Result],
        make_pattern: Callable[[bytes, Result], MessagePattern[Result]],
    ) -> None:
        self._deserialize, self._make_pattern = deserialize, make_pattern
        self.patterns: list[MessagePattern[Result]] = []

    def read(self, data: bytes) -> Any:
        """Return the content of a message; errors are as in `deserialize`."""
        for pattern in self.patterns:
            if pattern.matches(data):
                return pattern.read(data)
        content = self._deserialize(data)
        try:
            pattern = self._make_pattern(data, content)
        except ValueError:
            return content
        if len(self.patterns) >= MAX_PATTERNS:
            self.patterns.clear()
        self.patterns.append(pattern)
        return content
