# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialization of messages that repeat: once as a whole, and then only their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .definition import DTYPES, SEQUENCE, SINGLE, STRING, Definition, MessageField, class_definition
from .field_ranges import COUNT, PLAIN_ENCAPSULATION, STAMP, TIME, FieldFinder, FieldRange

Numbers = npt.NDArray[Any]

_pack_stamp = STAMP.pack_into  # a global makes `set_stamp` a sixth faster than an attribute
_STRING_END = b"\0"
_MAX_ALIGNMENT = 8  # bytes; the body starts at this offset in memory, so that doubles are aligned


class _MessageWriter:
    """Serializer of messages to a `body`; a field that a message lacks is zero or empty."""

    def __init__(self, definition: Definition) -> None:
        self._types = definition.types
        self.body = bytearray()

    def write_message(self, name: str, value: Any) -> None:
        """Append a message of the type ``name``."""
        fields = self._types[name]
        for field in fields:
            self._write_field(field, getattr(value, field.name, None))
        if not fields:
            self.body.append(0)  # CDR has no empty messages

    def write_length(self, count: int) -> None:
        """Append the length of a sequence or a string."""
        self._align(COUNT.size)
        self.body += COUNT.pack(count)

    def _align(self, alignment: int) -> None:
        """Append zeros up to a multiple of the alignment [bytes]."""
        self.body += bytes(-len(self.body) % alignment)

    def _write_field(self, field: MessageField, value: Any) -> None:
        """Append a number, string or message, or an array of these; None is zero or empty."""
        elements = value
        if field.size == SINGLE:
            elements = (value,)
        elif value is None:
            elements = [None] * max(field.size, 0)
        if field.size == SEQUENCE:
            self.write_length(len(elements))
        if field.type in DTYPES:
            self._write_numbers(DTYPES[field.type], elements)
            return
        for element in elements:
            if field.type == STRING:
                characters = (element or "").encode() + _STRING_END
                self.write_length(len(characters))
                self.body += characters
            else:
                self.write_message(field.type, element)

    def _write_numbers(self, dtype: np.dtype[Any], values: Any) -> None:
        """Append numbers, aligned to their size; zeros if the first is None."""
        if not len(values):
            return
        self._align(dtype.itemsize)
        if values[0] is None:
            self.body += bytes(dtype.itemsize * len(values))
        elif isinstance(values[0], bytes):  # rclpy's numbers of the type byte
            self.body += b"".join(values)
        else:
            self.body += np.array(values, dtype).tobytes()


class _RepeatedMessage:
    """A message that occurs `count` times in a row, with the same content.

    Its repetitions have the same bytes, except for padding, which depends on the alignment of their
    starts.
    """

    def __init__(
        self,
        writer: _MessageWriter,
        definition: Definition,
        kind: str,
        message: Any,
        path: str = "",
        count: int = 1,
    ) -> None:
        self.path = path
        self._starts: list[int] = []
        self._ranges: dict[int, list[FieldRange]] = {}  # key: start modulo _MAX_ALIGNMENT
        content_of_phase: dict[int, bytes] = {}
        for _ in range(max(count, 1)):
            start = len(writer.body)
            phase = start % _MAX_ALIGNMENT
            if phase in content_of_phase:
                writer.body += content_of_phase[phase]
            else:
                writer.write_message(kind, message)
                content_of_phase[phase] = bytes(writer.body[start:])
                self._ranges[phase] = FieldFinder(definition, each_field=True).find(
                    bytes(phase) + content_of_phase[phase], kind, phase, path
                )
            self._starts.append(start)
        if not count:
            del writer.body[self._starts.pop() :]

    def ranges(self) -> list[FieldRange]:
        """Return the ranges of the fields in the first repetition."""
        return next(iter(self._ranges.values()), [])

    def starts(self, k: int) -> list[int]:
        """Return the start of range k in the body, for each repetition."""
        return [
            start - start % _MAX_ALIGNMENT + self._ranges[start % _MAX_ALIGNMENT][k].start
            for start in self._starts
        ]


class Template:
    """A serialized message whose stamp and numbers are written in place; all else is constant.

    The message is an object with the fields of its definition, by default the one of its class;
    fields that it lacks are zero or empty. With counts, its only field is a sequence of messages,
    and message i occurs counts[i] times in a row. A path names a field, such as "effort" or
    "inertia.data", or a message in this one, such as "com", for all its numbers; "markers.2.pose"
    is in all repetitions of message 2. The numbers of a string are its bytes. Raise a ValueError if
    a path has no numbers, or if its numbers are not contiguous.
    """

    def __init__(
        self,
        message: Any,
        counts: Sequence[int] | None = None,
        definition: Definition | None = None,
    ) -> None:
        self._definition = definition or class_definition(message.__class__)
        writer = _MessageWriter(self._definition)
        self._messages = list(self._write_messages(writer, message, counts))
        self._buffer = (
            bytearray(_MAX_ALIGNMENT - len(PLAIN_ENCAPSULATION)) + PLAIN_ENCAPSULATION + writer.body
        )
        self._bytes = memoryview(self._buffer)[_MAX_ALIGNMENT - len(PLAIN_ENCAPSULATION) :]
        self._stamps: list[int] = []
        for repeated in self._messages:
            for k, field in enumerate(repeated.ranges()):
                if field.type == TIME and field.name == "header.stamp":
                    self._stamps += [_MAX_ALIGNMENT + start for start in repeated.starts(k)]
        self._selections: dict[str, tuple[Numbers, npt.NDArray[np.intp]]] = {}

    def _write_messages(
        self, writer: _MessageWriter, message: Any, counts: Sequence[int] | None
    ) -> Iterator[_RepeatedMessage]:
        """Write the message, or each of its sequence as often as it counts, and yield them.

        Raise a ValueError if there is not one count for each message.
        """
        definition = self._definition
        if counts is None:
            yield _RepeatedMessage(writer, definition, definition.name, message)
            return
        [(name, kind, _)] = definition.types[definition.name]
        messages = getattr(message, name)
        if len(counts) != len(messages):
            raise ValueError(
                f"counts: expected {len(messages)} numbers, one for each message in "
                f"{name}, but got {len(counts)}"
            )
        writer.write_length(sum(counts))
        for i, (element, count) in enumerate(zip(messages, counts)):
            yield _RepeatedMessage(writer, definition, kind, element, f"{name}.{i}.", count)

    def array(self, path: str) -> Numbers:
        """Return the numbers of a field, (n,), as an array that writes into the message."""
        dtype, starts, size = self._find_numbers(path)
        if len(starts) > 1:
            raise ValueError(
                f"{self._definition.name}: {path!r} is in a message that is repeated "
                f"{len(starts)} times; use `write` for all of them"
            )
        return np.frombuffer(self._buffer, dtype, size, starts[0] if size else 0)

    def write(self, path: str, values: npt.ArrayLike) -> None:
        """Write the numbers of a field in all repetitions of its message i, (counts[i], n)."""
        selection = self._selections.get(path)
        if selection is None:
            dtype, starts, size = self._find_numbers(path)
            if not size:
                raise self._unknown_path(path)
            buffer_numbers = np.frombuffer(self._buffer, dtype, len(self._buffer) // dtype.itemsize)
            index = np.array(starts, np.intp)[:, None] // dtype.itemsize + np.arange(size)
            selection = self._selections[path] = buffer_numbers, index
        buffer_numbers, index = selection
        buffer_numbers[index] = values

    def _find_numbers(self, path: str) -> tuple[np.dtype[Any], list[int], int]:
        """Return the type of a field's numbers, their start in each repetition, and their count.

        The starts are offsets in the buffer [bytes]. Raise a ValueError if there are no numbers, or
        if they are not contiguous.
        """
        matches = [
            (repeated, k, field)
            for repeated in self._messages
            for k, field in enumerate(repeated.ranges())
            if (field.type in DTYPES and f"{field.path}.".startswith(f"{path}."))
            or (field.type == STRING and field.path == path)
        ]
        if not matches:
            raise self._unknown_path(path)
        nonempty = [match for match in matches if match[2].size] or matches[:1]
        repeated, k, first = nonempty[0]
        if first.type == STRING:
            starts = [_MAX_ALIGNMENT + start + COUNT.size for start in repeated.starts(k)]
            return np.dtype(np.uint8), starts, first.size - COUNT.size - len(_STRING_END)
        stop = first.start
        for owner, _, field in nonempty:
            if owner is not repeated or field.type != first.type or field.start != stop:
                raise ValueError(
                    f"{self._definition.name}: the numbers of {path!r} are not "
                    "contiguous; request its fields one by one"
                )
            stop += field.size
        dtype = DTYPES[first.type]
        return (
            dtype,
            [_MAX_ALIGNMENT + start for start in repeated.starts(k)],
            (stop - first.start) // dtype.itemsize,
        )

    def _unknown_path(self, path: str) -> ValueError:
        """Return the error that a path has no numbers, with those that have."""
        writable_paths = ", ".join(
            field.path
            for repeated in self._messages
            for field in repeated.ranges()
            if field.type in DTYPES
        )
        return ValueError(
            f"{self._definition.name}: {path!r} has no writable numbers; expected one of "
            f"{writable_paths or 'no field'}, or a message with these"
        )

    def set_stamp(self, nanoseconds: int) -> None:
        """Set header.stamp [ns] of all repeated messages; raise a ValueError if there is none."""
        if not self._stamps:
            raise ValueError(f"{self._definition.name}: no header, and therefore no stamp to set")
        sec, nanosec = divmod(nanoseconds, 1_000_000_000)
        if not -1 << 31 <= sec < 1 << 31:
            raise ValueError(f"stamp of {sec} s; expected -2**31 to 2**31 - 1")
        for at in self._stamps:
            _pack_stamp(self._buffer, at, sec, nanosec)

    def to_bytes(self) -> bytes:
        """Return the serialized message, for `publish`."""
        return bytes(self._bytes)

    def fill(self, stamps: npt.NDArray[np.int64], values: Mapping[str, Any]) -> list[bytes]:
        """Return a serialized message for each stamp [ns], with its row of the values by path."""
        messages = np.tile(np.frombuffer(self._buffer, np.uint8), (len(stamps), 1))
        for at in self._stamps:
            _overwrite_bytes(
                messages, at, np.stack(np.divmod(stamps, 1_000_000_000), axis=1).astype("<u4")
            )
        for path, numbers in values.items():
            dtype, starts, size = self._find_numbers(path)
            _overwrite_bytes(
                messages, starts[0], np.asarray(numbers).astype(dtype).reshape(len(messages), size)
            )
        return [
            message.tobytes()
            for message in messages[:, _MAX_ALIGNMENT - len(PLAIN_ENCAPSULATION) :]
        ]


def _overwrite_bytes(messages: npt.NDArray[np.uint8], start: int, values: Numbers) -> None:
    """Write a row of values into each message, as bytes from `start` on."""
    content = np.ascontiguousarray(values).view(np.uint8)
    messages[:, start : start + content.shape[1]] = content
