# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of tables with other names than ``position.elbow``, as the option --columns states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...engine.kernel.names import similar_names
from ...engine.model.model import Model
from . import files as tables

_NUMBER_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def resolve_columns(
    model: Model, columns: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """Return the column of each signal, by its usual name, such as "position.elbow".

    ``columns`` is as for ``Samples.from_table``, ``names`` are the names of all columns.
    """
    resolved: dict[str, str] = {}
    for key, value in columns.items():
        signal, _, owner = key.partition(".")
        if key == "time" or owner and signal in tables.SIGNALS:
            (resolved[key],) = _parse_column_list(key, value, names, 1)
        elif signal in tables.SIGNALS[:-1] and not owner:
            owners = model.position_names if signal == "position" else model.velocity_names
            resolved |= {
                f"{signal}.{name}": column
                for name, column in _columns_of_owners(key, value, names, owners)
            }
        else:
            signals = ("time", *tables.SIGNALS)
            raise ValueError(
                f"columns: no signal {key!r:.80}; expected one of {', '.join(signals)}, "
                "or with the name of a joint, such as 'position.elbow'"
            )
    return resolved


def _columns_of_owners(
    key: str, value: str, names: Sequence[str], owners: Sequence[str]
) -> list[tuple[str, str]]:
    """Return owners and their columns, by a pattern with names or numbers, or in order."""
    if "{}" not in value:
        return [*zip(owners, _parse_column_list(key, value, names, len(owners)))]
    first = 0 if value.replace("{}", "0") in names else 1
    for words in (owners, [str(first + k) for k in range(len(owners))]):
        columns_of_owners = [
            (owner, column)
            for owner, word in zip(owners, words)
            if (column := value.replace("{}", word)) in names
        ]
        if columns_of_owners:
            return columns_of_owners
    raise _missing_column_error(key, value.replace("{}", "1"), names)


def _parse_column_list(key: str, value: str, names: Sequence[str], max_count: int) -> list[str]:
    """Return columns in a list with commas, by name or number; at most ``max_count``."""
    columns: list[str] = []
    for word in value.split(","):
        numbers = None if word in names else _NUMBER_RANGE.fullmatch(word)
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
            raise _missing_column_error(key, word, names)
    if len(columns) > max_count:
        raise ValueError(
            f"columns: {key}={value} are {len(columns)} columns; expected at most {max_count}"
        )
    return columns


def _missing_column_error(key: str, name: str, names: Sequence[str]) -> ValueError:
    """Return the error about a column that the table does not have."""
    close = similar_names(name, names)
    hint = f" (similar: {tables.list_names(close)})" if close else ""
    return ValueError(
        f"columns: {key}: the table has no column {name!r}{hint}; its columns are "
        f"{tables.list_names(names)}"
    )
