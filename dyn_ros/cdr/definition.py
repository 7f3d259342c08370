# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What messages consist of: from their definitions, or from the classes of ROS 2."""

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
"""The types of numbers, and how they are serialized."""
STRING = "string"
SINGLE, SEQUENCE = 0, -1  # instead of the size of an array

_OF_CLASSES = {"boolean": "bool", "octet": "byte", "float": "float32", "double": "float64"}
_TEXT_TYPE = re.compile(r"([\w/]+)(?:<=\d+)?(\[(?:<=\d+|(\d*))\])?")
_CLASS_TYPE = re.compile(r"(sequence<)?([\w/]+)(?:<\d+>)?(?:(?:, \d+)?>)?(?:\[(\d+)\])?")


class Field(NamedTuple):
    """A field, whose type is a number, a string, or a message as "geometry_msgs/Point"."""

    name: str
    type: str
    size: int = SINGLE


@dataclass(frozen=True, eq=False)
class Definition:
    """A message, and all messages in it: their fields by their names.

    `numbers` has the type and the count of the numbers in a number, or in a message of numbers of
    one type.
    """

    name: str
    types: dict[str, tuple[Field, ...]]
    numbers: dict[str, tuple[str, int]]

    @classmethod
    def of(cls, name: str, types: dict[str, tuple[Field, ...]]) -> Definition:
        """Return the definition of a message; a ValueError if one of a field is missing."""
        for field in (field for fields in types.values() for field in fields):
            if field.type not in (*DTYPES, STRING, *types):
                raise ValueError(f"{name}: no definition of the type {field.type}")
        blocks = {kind: _numbers(types, kind) for kind in (*DTYPES, *types)}
        return cls(name, types, {kind: block for kind, block in blocks.items() if block})


def _numbers(types: dict[str, tuple[Field, ...]], name: str) -> tuple[str, int] | None:
    if name in DTYPES:
        return name, 1
    fields = types.get(name, ())
    blocks = [
        block
        for field in fields
        if field.size != SEQUENCE and (block := _numbers(types, field.type))
    ]
    if len(blocks) < len(fields) or len({kind for kind, _ in blocks}) != 1:
        return None
    return blocks[0][0], sum(
        count * max(field.size, 1) for field, (_, count) in zip(fields, blocks)
    )


@functools.lru_cache(maxsize=256)
def parse(name: str, text: str) -> Definition:
    """Read a definition as recordings contain it, with the definitions of all messages in it.

    A ValueError names a line that cannot be read, or a definition that is missing.
    """
    name = name.replace("/msg/", "/")
    first, *others = re.split(r"^=+\n", text, flags=re.MULTILINE)
    types = {name: tuple(_fields(name, first))}
    for other in others:
        title, _, lines = other.partition("\n")
        kind = title.removeprefix("MSG:").strip().replace("/msg/", "/")
        types[kind] = tuple(_fields(kind, lines))
    return Definition.of(name, types)


def _fields(name: str, text: str) -> Iterator[Field]:
    for line in text.splitlines():
        kind, rest = (*line.partition("#")[0].split(maxsplit=1), "", "")[:2]
        if not kind or re.match(r"\w+\s*=", rest):  # nothing, or a constant
            continue
        declared, field = _TEXT_TYPE.fullmatch(kind), re.match(r"\w+", rest)
        if declared is None or field is None:
            raise ValueError(f"{name}: cannot read {line!r}")
        element, is_array, size = declared.groups()
        if element not in (*DTYPES, STRING) and "/" not in element:
            element = f"{name.split('/')[0]}/{element}"
        yield Field(
            field[0],
            element.replace("/msg/", "/"),
            int(size) if size else SEQUENCE if is_array else SINGLE,
        )


@functools.cache
def definition_of(message_type: Any) -> Definition:
    """Return the definition of a class of messages; raise a ValueError if it is not supported."""
    name = f"{message_type.__module__.split('.')[0]}/{message_type.__name__}"
    types: dict[str, tuple[Field, ...]] = {}
    _add(types, name, message_type)
    return Definition.of(name, types)


def _add(types: dict[str, tuple[Field, ...]], name: str, message_type: Any) -> None:
    fields = []
    for field, kind in message_type.get_fields_and_field_types().items():
        declared = _CLASS_TYPE.fullmatch(kind)
        if declared is None:
            raise ValueError(f"{name}: the type {kind} of {field} is not supported")
        is_sequence, element, size = declared.groups()
        fields.append(
            Field(
                field,
                _OF_CLASSES.get(element, element),
                SEQUENCE if is_sequence else int(size or SINGLE),
            )
        )
    types[name] = tuple(fields)
    for element in {field.type for field in fields if "/" in field.type} - {*types}:
        package, _, inner = element.partition("/")
        _add(types, element, getattr(importlib.import_module(f"{package}.msg"), inner))
