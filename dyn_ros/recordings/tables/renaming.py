# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of tables that have names of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...engine.kernel.names import similar
from ...engine.model.model import Model
from . import files as tables

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


def renamed(model: Model, given: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The column of each signal, by what it would be called, such as "position.elbow".

    ``given`` is as for ``Samples.from_table``, ``names`` are the names of the columns.
    """
    columns: dict[str, str] = {}
    for key, value in given.items():
        signal, _, owner = key.partition(".")
        if key == "time" or owner and signal in tables.SIGNALS:
            (columns[key],) = _listed(key, value, names, 1)
        elif signal in tables.SIGNALS[:-1] and not owner:
            owners = model.position_names if signal == "position" else model.velocity_names
            columns |= {
                f"{signal}.{name}": column for name, column in _of_owners(key, value, names, owners)
            }
        else:
            known = ("time", *tables.SIGNALS)
            raise ValueError(
                f"columns: no signal {key!r:.80}; expected one of {', '.join(known)}, "
                "or with the name of a joint, such as 'position.elbow'"
            )
    return columns


def _of_owners(
    key: str, value: str, names: Sequence[str], owners: Sequence[str]
) -> list[tuple[str, str]]:
    """Joints and their columns: by a pattern with their names or numbers, or in order."""
    if "{}" not in value:
        return [*zip(owners, _listed(key, value, names, len(owners)))]
    first = 0 if value.replace("{}", "0") in names else 1
    for words in (owners, [str(first + k) for k in range(len(owners))]):
        found = [
            (owner, column)
            for owner, word in zip(owners, words)
            if (column := value.replace("{}", word)) in names
        ]
        if found:
            return found
    raise _missing(key, value.replace("{}", "1"), names)


def _listed(key: str, value: str, names: Sequence[str], most: int) -> list[str]:
    """Columns that are listed with commas, by name or number; at most so many."""
    columns: list[str] = []
    for word in value.split(","):
        numbers = None if word in names else _NUMBERS.fullmatch(word)
        if numbers:
            first, last = int(numbers[1]), int(numbers[2] or numbers[1])
            if not 1 <= first <= last <= len(names):
                raise ValueError(
                    f"columns: {key}={value}: the table has the columns 1 to {len(names)}"
                )
            columns += names[first - 1 : last]
        elif word in names:
            columns.append(word)
        else:
            raise _missing(key, word, names)
    if len(columns) > most:
        raise ValueError(
            f"columns: {key}={value} are {len(columns)} columns; expected at most {most}"
        )
    return columns


def _missing(key: str, name: str, names: Sequence[str]) -> ValueError:
    close = similar(name, names)
    hint = f" (similar: {tables.listed(close)})" if close else ""
    return ValueError(
        f"columns: {key}: the table has no column {name!r}{hint}; its columns are "
        f"{tables.listed(names)}"
    )
