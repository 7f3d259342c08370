# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Definitions of messages: their fields, from the texts in recordings or the classes of ROS 2."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

DTYPES = {
    name: np.dtype(code)
    for name, code in {
        "bool": "u1",
        "byte": "u1",
        "char": "u1",
        "int8": "i1",
        "uint8": "u1",
        "int16": "<i2",
        "uint16": "<u2",
        "int32": "<i4",
        "uint32": "<u4",
        "int64": "<i8",
        "uint64": "<u8",
        "float32": "<f4",
        "float64": "<f8",
    }.items()
}
"""Serialized types of numbers, by their names in definitions."""
STRING = "string"
SINGLE, SEQUENCE = 0, -1  # sizes of fields that are not arrays of fixed size

_CLASS_PRIMITIVES = {"boolean": "bool", "octet": "byte", "float": "float32", "double": "float64"}
_TEXT_TYPE = re.compile(r"([\w/]+)(?:<=\d+)?(\[(?:<=\d+|(\d*))\])?")
_CLASS_TYPE = re.compile(r"(sequence<)?([\w/]+)(?:<\d+>)?(?:(?:, \d+)?>)?(?:\[(\d+)\])?")


class MessageField(NamedTuple):
    """A number, a string, or a message such as "geometry_msgs/Point", or an array of these."""

    name: str
    type: str
    size: int = SINGLE  # number of elements, or SINGLE, SEQUENCE


@dataclass(frozen=True, eq=False)
class Definition:
    """Fields of a message, and of all messages in it, by the names of their types.

    `numbers` has the types of numbers, and of messages that contain only numbers of one type, with
    this type and the count of the numbers.
    """

    name: str
    types: dict[str, tuple[MessageField, ...]]
    numbers: dict[str, tuple[str, int]]

    @classmethod
    def from_types(cls, name: str, types: dict[str, tuple[MessageField, ...]]) -> Definition:
        """Return the definition of the message ``name`` of ``types``, with all messages in it.

        Raise a ValueError if a field has an unknown type.
        """
        for field in (field for fields in types.values() for field in fields):
            if field.type not in (*DTYPES, STRING, *types):
                raise ValueError(f"{name}: no definition of the type {field.type}")
        uniform = {kind: _uniform_numbers(types, kind) for kind in (*DTYPES, *types)}
        return cls(name, types, {kind: numbers for kind, numbers in uniform.items() if numbers})


def _uniform_numbers(
    types: dict[str, tuple[MessageField, ...]], name: str
) -> tuple[str, int] | None:
    """Return the type and count of the numbers in a type, or None if it has anything else."""
    if name in DTYPES:
        return name, 1
    fields = types.get(name, ())
    uniform = [
        numbers
        for field in fields
        if field.size != SEQUENCE and (numbers := _uniform_numbers(types, field.type))
    ]
    if len(uniform) < len(fields) or len({kind for kind, _ in uniform}) != 1:
        return None
    return uniform[0][0], sum(
        count * max(field.size, 1) for field, (_, count) in zip(fields, uniform)
    )


@functools.lru_cache(maxsize=256)
def parse_definition(name: str, text: str) -> Definition:
    """Parse a definition as recordings contain it, followed by the messages nested in it.

    Raise a ValueError that names a line that cannot be read, or a type without a definition.
    """
    name = name.replace("/msg/", "/")
    outer_text, *inner_texts = re.split(r"^=+\n", text, flags=re.MULTILINE)
    types = {name: tuple(_parse_fields(name, outer_text))}
    for inner_text in inner_texts:
        title, _, lines = inner_text.partition("\n")
        kind = title.removeprefix("MSG:").strip().replace("/msg/", "/")
        types[kind] = tuple(_parse_fields(kind, lines))
    return Definition.from_types(name, types)


def _parse_fields(name: str, text: str) -> Iterator[MessageField]:
    """Yield the fields in the text of one definition; it has a field or a constant on each line."""
    for line in text.splitlines():
        kind, declaration = (*line.partition("#")[0].split(maxsplit=1), "", "")[:2]
        if not kind or re.match(r"\w+\s*=", declaration):  # an empty line, or a constant
            continue
        declared, field = _TEXT_TYPE.fullmatch(kind), re.match(r"\w+", declaration)
        if declared is None or field is None:
            raise ValueError(f"{name}: cannot read {line!r}")
        element, is_array, size = declared.groups()
        if element not in (*DTYPES, STRING) and "/" not in element:
            element = f"{name.split('/')[0]}/{element}"
        yield MessageField(
            field[0],
            element.replace("/msg/", "/"),
            int(size) if size else SEQUENCE if is_array else SINGLE,
        )


@functools.cache
def class_definition(message_type: Any) -> Definition:
    """Return the definition of a class of messages; raise a ValueError if it is not supported."""
    name = f"{message_type.__module__.split('.')[0]}/{message_type.__name__}"
    types: dict[str, tuple[MessageField, ...]] = {}
    _add_definition(types, name, message_type)
    return Definition.from_types(name, types)


def _add_definition(
    types: dict[str, tuple[MessageField, ...]], name: str, message_type: Any
) -> None:
    """Add the fields of a class of messages to `types`, and of all messages in it."""
    fields = []
    for field, kind in message_type.get_fields_and_field_types().items():
        declared = _CLASS_TYPE.fullmatch(kind)
        if declared is None:
            raise ValueError(f"{name}: the type {kind} of {field} is not supported")
        is_sequence, element, size = declared.groups()
        fields.append(
            MessageField(
                field,
                _CLASS_PRIMITIVES.get(element, element),
                SEQUENCE if is_sequence else int(size or SINGLE),
            )
        )
    types[name] = tuple(fields)
    for element in {field.type for field in fields if "/" in field.type} - {*types}:
        package, _, inner = element.partition("/")
        _add_definition(types, element, getattr(importlib.import_module(f"{package}.msg"), inner))
