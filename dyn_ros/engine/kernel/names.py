# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names and values in messages: lists, unknown and similar names, and names of arguments."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_ARGUMENTS = (
    "base|columns|friction_terms|gravity|lock|max_chunk_size|mesh_paths|mimic|odometry|overwrite|"
    "port|robot|"
    "root_joint|since|strict|thresholds|topics|until|velocity"
)
_MODEL_ATTRIBUTES = (
    "armature|damping|friction|from_mujoco|from_urdf_file|gravity|is_physical|reduced"
)
_REFERENCE = re.compile(
    rf"\b(?P<argument>{_ARGUMENTS})="
    r"(?:(?P<value>True|False|None)\b|\"(?P<text>[a-z]+)\"|(?![\w\"'<{\[(]))"
    rf"|\b[mM]odel\.(?P<attribute>{_MODEL_ATTRIBUTES})\b"
)
"""An argument of a function in a message, such as ``lock=``, or an attribute of a model."""

MAX_DECIMAL_BITS = 10_000
"""Longer integers are hexadecimal in messages: Python converts at most 4300 decimal digits."""


def join_names(
    names: Iterable[str], most: int | None = None, write: Callable[[str], str] = str
) -> str:
    """Join names, up to ``most`` of them and the number of the others; "none" without any."""
    names = list(names)
    more = "" if most is None or len(names) <= most else f" and {len(names) - most} more"
    return (", ".join(map(write, names[:most])) or "none") + more


def short_repr(value: object, width: int = 80) -> str:
    """Return ``repr(value)``, cut to ``width`` characters, without formatting the others.

    Lists may be long, deep, or contain themselves. Integers that are too long for decimal digits
    are hexadecimal.
    """
    text = ""
    for piece in _repr_pieces(value, width):
        text += piece
        if len(text) > width:
            return shorten(text, width)
    return text


def shorten(text: str, width: int = 200) -> str:
    """Return a text of at most ``width`` characters, with "..." in place of what is cut."""
    return text if len(text) <= width else text[: width - 3] + "..."


def _repr_pieces(value: object, width: int) -> Iterator[str]:
    """Yield the representation of a value in pieces; ends of long strings are left out."""
    method = type(value).__repr__
    if isinstance(value, (list, tuple)) and method in (list.__repr__, tuple.__repr__):
        yield "[" if method is list.__repr__ else "("
        for k, item in enumerate(value):
            yield ", " if k else ""
            yield from _repr_pieces(item, width)
        yield "]" if method is list.__repr__ else ",)" if len(value) == 1 else ")"
    elif isinstance(value, dict) and method is dict.__repr__:
        yield "{"
        for k, (key, item) in enumerate(value.items()):
            yield ", " if k else ""
            yield from _repr_pieces(key, width)
            yield ": "
            yield from _repr_pieces(item, width)
        yield "}"
    elif isinstance(value, (str, bytes)):
        yield repr(value[: width + 1])
    elif isinstance(value, int) and value.bit_length() > MAX_DECIMAL_BITS:
        yield hex(value)
    else:
        yield repr(value)


def unknown_name(what: str, name: object, names: Iterable[str], most: int | None = None) -> str:
    """Say that nothing has this name, and list the names that exist."""
    return f"no {what} named {short_repr(name)}; available: {join_names(names, most)}"


def similar_names(name: str, names: Iterable[str], most: int = 2, least: float = 0.6) -> list[str]:
    """Return the most similar names; ``least`` is the similarity, 1 of equal names."""
    return difflib.get_close_matches(name, list(names), most, least)


def without_file(path: Path, text: str) -> str:
    """Return a message without the name of a file at its beginning, with or without folder."""
    name, colon, rest = text.partition(": ")
    name = name.strip("'")
    is_file = colon and (
        name in (str(path), repr(str(path))[1:-1], path.name) or path.name.startswith(f"{name}.")
    )
    return rest if is_file else text


def name_file(path: Path, text: str) -> str:
    """Return a message that begins with the path of a file, once."""
    return f"{path}: {without_file(path, text)}"


def name_arguments(text: str, name_of: Callable[[str, str], str]) -> str:
    """Replace arguments of Python functions in a message by what its readers can set.

    Messages name arguments as ``columns=`` or ``strict=True``, and attributes as
    ``model.gravity``. Their advice follows after "; ", and consists of alternatives that are
    separated by ", or ". ``name_of(argument, value)`` returns the name of an option or a
    parameter; if it is empty, because there is none, the alternative is left out.
    """

    def find_name(reference: re.Match[str]) -> str:
        return name_of(
            reference["argument"] or reference["attribute"],
            reference["value"] or reference["text"] or "",
        )

    clauses = []
    for k, clause in enumerate(text.split("; ")):
        alternatives = [
            _REFERENCE.sub(lambda reference: find_name(reference) or reference[0], alternative)
            for number, alternative in enumerate(clause.split(", or "))
            if k == number == 0 or all(map(find_name, _REFERENCE.finditer(alternative)))
        ]
        if alternatives:
            clauses.append(", or ".join(alternatives))
    return "; ".join(clauses)
