# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages as bytes: a `Template` serializes all of a message once, and then only its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .definition import DTYPES, SEQUENCE, SINGLE, STRING, Definition, Field, definition_of
from .layout import COUNT, PLAIN, STAMP, TIME, Item, Walk

Numbers = npt.NDArray[Any]

_pack_stamp = STAMP.pack_into  # as a global, a sixth of `set_stamp` faster than an import's
_ALIGNMENT = 8  # the largest one; the body starts there in memory, so that doubles are aligned


class _Writer:
    def __init__(self, definition: Definition) -> None:
        self._types = definition.types
        self.body = bytearray()

    def message(self, name: str, value: Any) -> None:
        fields = self._types[name]
        for field in fields:
            self._field(field, getattr(value, field.name, None))
        if not fields:
            self.body.append(0)  # CDR has no empty messages

    def length(self, count: int) -> None:
        """Append what precedes a sequence or a string."""
        self._align(COUNT.size)
        self.body += COUNT.pack(count)

    def _align(self, alignment: int) -> None:
        self.body += bytes(-len(self.body) % alignment)

    def _field(self, field: Field, value: Any) -> None:
        elements = value
        if field.size == SINGLE:
            elements = (value,)
        elif value is None:
            elements = [None] * max(field.size, 0)
        if field.size == SEQUENCE:
            self.length(len(elements))
        if field.type in DTYPES:
            self._numbers(DTYPES[field.type], elements)
            return
        for element in elements:
            if field.type == STRING:
                characters = (element or "").encode() + b"\0"
                self.length(len(characters))
                self.body += characters
            else:
                self.message(field.type, element)

    def _numbers(self, dtype: np.dtype[Any], values: Any) -> None:
        if not len(values):
            return
        self._align(dtype.itemsize)
        if values[0] is None:
            self.body += bytes(dtype.itemsize * len(values))
        elif isinstance(values[0], bytes):  # rclpy's numbers of the type byte
            self.body += b"".join(values)
        else:
            self.body += np.array(values, dtype).tobytes()


class _Part:
    """A message that occurs some times in a row.

    Its repetitions have the same bytes, except for the padding, which depends on where they start.
    """

    def __init__(
        self,
        writer: _Writer,
        definition: Definition,
        kind: str,
        message: Any,
        path: str = "",
        count: int = 1,
    ) -> None:
        self.path = path
        self._starts: list[int] = []
        self._items: dict[int, list[Item]] = {}  # by the start, modulo the alignment
        written: dict[int, bytes] = {}
        for _ in range(max(count, 1)):
            start = len(writer.body)
            phase = start % _ALIGNMENT
            if phase in written:
                writer.body += written[phase]
            else:
                writer.message(kind, message)
                written[phase] = bytes(writer.body[start:])
                self._items[phase] = Walk(definition, each_field=True).items(
                    bytes(phase) + written[phase], kind, phase, path
                )
            self._starts.append(start)
        if not count:
            del writer.body[self._starts.pop() :]

    def items(self) -> list[Item]:
        """What the message consists of, in its first repetition."""
        return next(iter(self._items.values()), [])

    def starts(self, k: int) -> list[int]:
        """Where item k is in the body, for each repetition."""
        return [
            start - start % _ALIGNMENT + self._items[start % _ALIGNMENT][k].start
            for start in self._starts
        ]


class Template:
    """The bytes of a message, whose stamp and numbers are written in place; the rest is constant.

    The message is an object with the fields of its definition, by default that of its class; those
    that it lacks are zero or empty. With counts, its only field is a sequence of messages, of
    which message i occurs counts[i] times in a row. A path is that of a field, such as "effort" or
    "inertia.data", or that of a message in this one, such as "com", for all its numbers;
    "markers.2.pose" is in all repetitions of message 2. A ValueError is raised if it has no
    numbers, or others between them.
    """

    def __init__(
        self,
        message: Any,
        counts: Sequence[int] | None = None,
        definition: Definition | None = None,
    ) -> None:
        self._definition = definition or definition_of(message.__class__)
        writer = _Writer(self._definition)
        self._parts = list(self._write(writer, message, counts))
        self._buffer = bytearray(_ALIGNMENT - len(PLAIN)) + PLAIN + writer.body
        self._bytes = memoryview(self._buffer)[_ALIGNMENT - len(PLAIN) :]
        self._stamps: list[int] = []
        for part in self._parts:
            for k, item in enumerate(part.items()):
                if item.type == TIME and item.name == "header.stamp":
                    self._stamps += [_ALIGNMENT + start for start in part.starts(k)]
        self._targets: dict[str, tuple[Numbers, npt.NDArray[np.intp]]] = {}

    def _write(
        self, writer: _Writer, message: Any, counts: Sequence[int] | None
    ) -> Iterator[_Part]:
        definition = self._definition
        if counts is None:
            yield _Part(writer, definition, definition.name, message)
            return
        [(name, kind, _)] = definition.types[definition.name]
        messages = getattr(message, name)
        if len(counts) != len(messages):
            raise ValueError(
                f"counts: expected {len(messages)} numbers, one for each message in "
                f"{name}, but got {len(counts)}"
            )
        writer.length(sum(counts))
        for i, (element, count) in enumerate(zip(messages, counts)):
            yield _Part(writer, definition, kind, element, f"{name}.{i}.", count)

    def array(self, path: str) -> Numbers:
        """The numbers of a field, (n,), as an array that writes into the message."""
        dtype, starts, size = self._numbers(path)
        if len(starts) > 1:
            raise ValueError(
                f"{self._definition.name}: {path!r} is in a message that is repeated "
                f"{len(starts)} times; use `write` for all of them"
            )
        return np.frombuffer(self._buffer, dtype, size, starts[0] if size else 0)

    def write(self, path: str, values: npt.ArrayLike) -> None:
        """Write the numbers of a field of a message that is repeated, (counts[i], n)."""
        target = self._targets.get(path)
        if target is None:
            dtype, starts, size = self._numbers(path)
            if not size:
                raise self._unknown(path)
            every = np.frombuffer(self._buffer, dtype, len(self._buffer) // dtype.itemsize)
            index = np.array(starts, np.intp)[:, None] // dtype.itemsize + np.arange(size)
            target = self._targets[path] = every, index
        every, index = target
        every[index] = values

    def _numbers(self, path: str) -> tuple[np.dtype[Any], list[int], int]:
        """The type of the numbers of a field, where each repetition starts, and their count."""
        matches = [
            (part, k, item)
            for part in self._parts
            for k, item in enumerate(part.items())
            if item.type in DTYPES and f"{item.path}.".startswith(f"{path}.")
        ]
        if not matches:
            raise self._unknown(path)
        filled = [match for match in matches if match[2].size] or matches[:1]
        part, k, first = filled[0]
        stop = first.start
        for other, _, item in filled:
            if other is not part or item.type != first.type or item.start != stop:
                raise ValueError(
                    f"{self._definition.name}: the numbers of {path!r} are not "
                    "contiguous; request its fields one by one"
                )
            stop += item.size
        dtype = DTYPES[first.type]
        return (
            dtype,
            [_ALIGNMENT + start for start in part.starts(k)],
            (stop - first.start) // dtype.itemsize,
        )

    def _unknown(self, path: str) -> ValueError:
        known = ", ".join(
            item.path for part in self._parts for item in part.items() if item.type in DTYPES
        )
        return ValueError(
            f"{self._definition.name}: {path!r} has no writable numbers; expected one of "
            f"{known or 'no field'}, or a message with these"
        )

    def set_stamp(self, nanoseconds: int) -> None:
        """Set header.stamp [ns], of all repeated messages; a ValueError if there is none."""
        if not self._stamps:
            raise ValueError(f"{self._definition.name}: no header, and therefore no stamp to set")
        sec, nanosec = divmod(nanoseconds, 1_000_000_000)
        if not -1 << 31 <= sec < 1 << 31:
            raise ValueError(f"stamp of {sec} s; expected -2**31 to 2**31 - 1")
        for at in self._stamps:
            _pack_stamp(self._buffer, at, sec, nanosec)

    def to_bytes(self) -> bytes:
        """The serialized message, for `publish`."""
        return bytes(self._bytes)

    def fill(self, stamps: npt.NDArray[np.int64], values: Mapping[str, Any]) -> list[bytes]:
        """The bytes of a message for each stamp [ns], with a row of these numbers, by path."""
        messages = np.tile(np.frombuffer(self._buffer, np.uint8), (len(stamps), 1))
        for at in self._stamps:
            _put(messages, at, np.stack(np.divmod(stamps, 1_000_000_000), axis=1).astype("<u4"))
        for path, numbers in values.items():
            dtype, starts, size = self._numbers(path)
            _put(
                messages, starts[0], np.asarray(numbers).astype(dtype).reshape(len(messages), size)
            )
        return [message.tobytes() for message in messages[:, _ALIGNMENT - len(PLAIN) :]]


def _put(messages: npt.NDArray[np.uint8], start: int, values: Numbers) -> None:
    content = np.ascontiguousarray(values).view(np.uint8)
    messages[:, start : start + content.shape[1]] = content
