# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The columns of a recording of one robot in a table: those of its joints, by their names."""
from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from ..engine.kernel.types import Array
from . import tables

Table: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""Path of a file, or columns by name."""

_GROUP = 20000                  # rows of a row group of Parquet, and of a CSV file at a time


class Columns:
    """The columns of a table. Those that are requested are read together by ``load``."""

    def __init__(self, table: Table) -> None:
        self._reader = _open(table)
        self.names = tuple(self._reader.names)
        tables.require_unique(self.names)
        self._requested: list[tuple[str, Array]] = []

    def time(self) -> Array:
        """Request the time stamps; return the array that ``load`` fills."""
        for name in tables.TIMES:
            if name in self.names:
                return self._request({name: 0}, 1)[:, 0]
        expected = " or ".join(map(repr, tables.TIMES))
        raise ValueError(f"time: there is no column {expected}, in s; the columns are "
                         f"{tables.listed(self.names)}")

    def _request(self, places: Mapping[str, int], count: int) -> Array:
        values = np.zeros((len(self), count))
        self._requested += [(name, values[:, place]) for name, place in places.items()]
        return values

    def load(self) -> None:
        """Read all columns that were requested; a ValueError if one does not contain numbers."""
        self._reader.fill([name for name, _ in self._requested],
                          [values for _, values in self._requested])

    def __len__(self) -> int:
        return len(self._reader)

    def signal(self, signal: str, owners: Sequence[str],
               absent: frozenset[str] = frozenset()) -> Array:
        """Request a signal of several joints or frames; return the array that ``load`` fills.

        Columns of those in ``absent`` may be missing, and are zero. A ValueError names other
        missing ones, and similar ones.
        """
        names = {owner: self._column(signal, owner) for owner in owners}
        missing = [owner for owner, name in names.items() if name is None and owner not in absent]
        if missing:
            raise ValueError(self._missing(signal, missing))
        return self._request({name: k for k, name in enumerate(names.values()) if name is not None},
                             len(owners))

    def owners(self, signal: str) -> list[str]:
        """Return what the columns of a signal belong to, in their order."""
        return [owner for kind, owner in map(tables.parsed, self.names) if kind == signal]

    def _column(self, signal: str, owner: str) -> str | None:
        if f"{signal}.{owner}" in self.names:
            return f"{signal}.{owner}"
        end = f"/{owner}/{signal}"
        fitting = [name for name in self.names if ("/" + name).endswith(end)]
        if len(fitting) > 1:
            raise ValueError(f"several columns contain the {signal} of {owner!r}: "
                             f"{tables.listed(fitting)}; rename one of them to '{signal}.{owner}'")
        return fitting[0] if fitting else None

    def _missing(self, signal: str, missing: Sequence[str]) -> str:
        listed = []
        for owner in missing:
            words = [f"{signal}.{owner}", f"/{owner}/{signal}"]
            close = dict.fromkeys(name for word in words
                                  for name in difflib.get_close_matches(word, self.names, 2))
            similar = f" (similar: {tables.listed(tuple(close))})" if close else ""
            listed.append(f"'{signal}.{owner}'{similar}")
        return (f"the table lacks {len(missing)} columns of the robot: {', '.join(listed)}; its "
                f"columns are {tables.listed(self.names)}")


def write(path: str | PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write columns (B,) to a file, CSV or Parquet by its suffix."""
    if tables.file_suffix(path) == ".parquet":
        arrow = tables.pyarrow()
        arrow.parquet.write_table(arrow.table(dict(columns)), path, row_group_size=_GROUP)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(map(_quoted, columns)) + "\n")
        count = len(next(iter(columns.values())))
        for start in range(0, count, _GROUP):
            block = [column[start:start + _GROUP] for column in columns.values()]
            np.savetxt(file, np.transpose(block), "%.17g", ",")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if re.search('[,"\n]', name) else name


def _open(table: Table) -> _Memory | tables.Csv | tables.Parquet:
    if isinstance(table, Mapping):
        return _Memory(table)
    if not isinstance(table, (str, PathLike)):
        raise TypeError("table: expected the path of a file, or a dict of columns, got "
                        f"{type(table).__name__}: {table!r:.80}")
    return tables.open_table(table)


class _Memory:
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names = list(columns)
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        first = next((values.shape for values in self._columns.values()), ())
        for name, values in self._columns.items():
            if not isinstance(name, str):
                raise TypeError("table: expected names of columns, got "
                                f"{type(name).__name__}: {name!r:.80}")
            if values.ndim != 1 or values.shape != first:
                raise ValueError(f"column {name!r}: expected shape ({first[0] if first else 'B'},) "
                                 f"as the first column, got {values.shape}")

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def fill(self, names: Sequence[str], into: Sequence[Array]) -> None:
        for name, values in zip(names, into):
            column = self._columns[name]
            if column.dtype.kind not in "fiub":
                raise ValueError(f"column {name!r}: expected numbers, got {column.dtype}: "
                                 f"{column[:1].tolist()!r:.80}")
            values[:] = column
