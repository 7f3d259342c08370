# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings as tables: files with a column for each signal of each joint.

A column is named ``position.elbow``, or ``/joint_states/elbow/position`` as PlotJuggler names it.
"""
from __future__ import annotations

import csv
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..model.types import Array

Table: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""Path of a file, or columns by name."""

SIGNALS = ("position", "velocity", "acceleration", "effort", "in_contact")
TIMES = ("time", "__time")
_DOTTED = re.compile(rf"({'|'.join(SIGNALS)})\.(.+)", re.DOTALL)
_SLASHED = re.compile(rf"/?(.+)/({'|'.join(SIGNALS)})", re.DOTALL)
_ROWS = 20000                   # of a CSV file that are read at a time


class Columns:
    """The columns of a table. Those that are requested are read together by ``load``.

    Parameters
    ----------
    table : str, PathLike or Mapping
        Path of a ``.csv`` or ``.parquet`` file, or columns by name.

    Attributes
    ----------
    names : tuple of str
        Of all columns.
    """

    def __init__(self, table: Table) -> None:
        self._reader = _open(table)
        self.names = tuple(self._reader.names)
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise ValueError(f"the table has several columns of the name {_listed(twice)}; rename "
                             "or remove all but one")
        self._requested: list[tuple[str, Array]] = []

    def time(self) -> Array:
        """Request the time stamps; return the array that ``load`` fills."""
        for name in TIMES:
            if name in self.names:
                return self._request({name: 0}, 1)[:, 0]
        raise ValueError(f"time: there is no column {' or '.join(map(repr, TIMES))}, in s; the "
                         f"columns are {_listed(self.names)}")

    def _request(self, places: Mapping[str, int], count: int) -> Array:
        values = np.zeros((len(self), count))
        self._requested += [(name, values[:, place]) for name, place in places.items()]
        return values

    def load(self) -> None:
        """Read all columns that were requested.

        Raises
        ------
        ValueError
            One does not contain numbers.
        """
        self._reader.read([name for name, _ in self._requested],
                          [values for _, values in self._requested])

    def __len__(self) -> int:
        return len(self._reader)

    def has(self, signal: str, owner: str) -> bool:
        """Whether there is a column of a joint or frame."""
        return self._column(signal, owner) is not None

    def signal(self, signal: str, owners: Sequence[str],
               absent: frozenset[str] = frozenset()) -> Array:
        """Request a signal of several joints or frames; return the array that ``load`` fills.

        Parameters
        ----------
        signal : str
            One of ``SIGNALS``.
        owners : sequence of str
        absent : frozenset of str
            Those that may be absent: their columns are zero.

        Returns
        -------
        (B, count) ndarray

        Raises
        ------
        ValueError
            Columns are missing; names them and similar ones.
        """
        found = {owner: self._column(signal, owner) for owner in owners}
        missing = [owner for owner, name in found.items() if name is None and owner not in absent]
        if missing:
            raise ValueError(self._missing(signal, missing))
        return self._request({name: k for k, name in enumerate(found.values()) if name is not None},
                             len(owners))

    def owners(self, signal: str) -> list[str]:
        """Return what the columns of a signal belong to, in their order."""
        return [owner for name in self.names for kind, owner in [parsed(name)] if kind == signal]

    def _column(self, signal: str, owner: str) -> str | None:
        if f"{signal}.{owner}" in self.names:
            return f"{signal}.{owner}"
        end = f"/{owner}/{signal}"
        fitting = [name for name in self.names if ("/" + name).endswith(end)]
        if len(fitting) > 1:
            raise ValueError(f"several columns contain the {signal} of {owner!r}: "
                             f"{_listed(fitting)}; rename one of them to '{signal}.{owner}'")
        return fitting[0] if fitting else None

    def _missing(self, signal: str, missing: Sequence[str]) -> str:
        listed = []
        for owner in missing:
            words = [f"{signal}.{owner}", f"/{owner}/{signal}"]
            close = dict.fromkeys(name for word in words
                                  for name in difflib.get_close_matches(word, self.names, 2))
            similar = f" (similar: {_listed(tuple(close))})" if close else ""
            listed.append(f"'{signal}.{owner}'{similar}")
        return (f"the table lacks {len(missing)} columns of the robot: {', '.join(listed)}; its "
                f"columns are {_listed(self.names)}")


def write(path: str | PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write columns to a file, CSV or Parquet by its suffix.

    Parameters
    ----------
    path : str or PathLike
        Ends with ``.csv`` or ``.parquet``.
    columns : dict of str to (B,) ndarray
        By name.

    Raises
    ------
    ValueError
        Another suffix.
    ImportError
        Parquet without pyarrow.
    """
    if _suffix(path) == ".parquet":
        arrow, parquet = _pyarrow()
        parquet.write_table(arrow.table(dict(columns)), path, row_group_size=_ROWS)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(map(_quoted, columns)) + "\n")
        count = len(next(iter(columns.values())))
        for start in range(0, count, _ROWS):
            block = [column[start:start + _ROWS] for column in columns.values()]
            np.savetxt(file, np.transpose(block), "%.17g", ",")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if re.search('[,"\n]', name) else name


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:40]))
    return f"{shown} and {len(names) - 40} more" if len(names) > 40 else shown or "none"


def parsed(name: str) -> tuple[str, str]:
    """Signal and owner of a column, or empty strings."""
    if match := _DOTTED.fullmatch(name):
        return match[1], match[2]
    if match := _SLASHED.fullmatch(name):
        return match[2], match[1].rpartition("joint_states/")[2]
    return "", ""


def names_of(path: str | PathLike[str], head: str) -> list[str]:
    """Names of the columns of a CSV file, from its first line.

    Raises
    ------
    ValueError
        The line cannot be read, or its names are not separated by commas.
    """
    try:
        names = [name.strip() for row in csv.reader([head]) for name in row]
    except csv.Error as error:
        raise ValueError(f"{str(path)!r}: the line of names cannot be read: {error}") from None
    if len(names) == 1 and (found := re.search("[;\t]", head)):
        raise ValueError(f"{str(path)!r}: expected columns separated by commas, and decimal "
                         f"points, got {found[0]!r} in the line of names; save the table so")
    return names


def _suffix(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{str(path)!r}: expected a file that ends with .csv or .parquet")
    return suffix


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files require pyarrow: pip install dyn_ros[identify]; "
                          "CSV files do not") from None
    return pyarrow, pyarrow.parquet


def _open(table: Table) -> _Memory | _Csv | _Parquet:
    if isinstance(table, Mapping):
        return _Memory(table)
    return _Parquet(table) if _suffix(table) == ".parquet" else _Csv(table)


class _Memory:
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names = list(columns)
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        sizes = {name: values.shape for name, values in self._columns.items()}
        for name, size in sizes.items():
            if len(size) != 1 or size != next(iter(sizes.values())):
                raise ValueError(f"column {name!r}: expected shape "
                                 f"({next(iter(sizes.values()), (0,))[0]},) as the first column, "
                                 f"got {size}")

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def read(self, names: Sequence[str], into: Sequence[Array]) -> None:
        for name, values in zip(names, into):
            values[:] = _numbers(name, self._columns[name])


class _Parquet:
    """A Parquet file; blocks of rows are read one by one."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._arrow, parquet = _pyarrow()
        self._file = parquet.ParquetFile(path, pre_buffer=False)
        self.names = list(self._file.schema_arrow.names)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def read(self, names: Sequence[str], into: Sequence[Array]) -> None:
        for name, values in zip(names, into):
            start = 0
            for batch in self._file.iter_batches(_ROWS, columns=[name], use_threads=False):
                column = self._values(batch.column(0))
                values[start:start + len(column)] = _numbers(name, column)
                start += len(column)
        self._arrow.default_memory_pool().release_unused()

    def _values(self, column: Any) -> NDArray[Any]:
        """A column without a copy, if possible; `to_numpy` would import pandas if it is there."""
        kinds = self._arrow.types
        if not column.null_count and (kinds.is_floating(column.type)
                                      or kinds.is_integer(column.type)):
            return np.from_dlpack(column)
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values


class _Csv:
    """A CSV file with a line of names; blocks of rows are read one by one."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = path
        try:
            with open(path, encoding="utf-8-sig") as file:
                self._head = file.readline()
            self._count = sum(1 for _ in self._lines())
        except UnicodeDecodeError as error:
            raise ValueError(f"{str(path)!r}: expected text in UTF-8: {error}; save the table as "
                             "CSV in UTF-8, or as Parquet") from None
        self.names = names_of(path, self._head)

    def _lines(self) -> Iterator[str]:
        with open(self._path, encoding="utf-8-sig") as file:
            next(file, None)
            yield from (line for line in file if line.strip())

    def __len__(self) -> int:
        return self._count

    def read(self, names: Sequence[str], into: Sequence[Array]) -> None:
        lines, chosen, start = self._lines(), [self.names.index(name) for name in names], 0
        while chosen and start < self._count:
            rows = min(_ROWS, self._count - start)
            try:
                block = np.loadtxt(lines, delimiter=",", usecols=chosen, max_rows=rows, ndmin=2,
                                   comments=None, quotechar='"')
            except ValueError as error:
                raise ValueError(f"{str(self._path)!r}: expected numbers in the columns "
                                 f"{_listed(names)}, after row {start} of data: {error}"
                                 ) from None
            for values, column in zip(into, block.T):
                values[start:start + len(column)] = column
            start += len(block)


def _numbers(name: str, column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind not in "fiub":
        raise ValueError(f"column {name!r}: expected numbers, got {column.dtype}: "
                         f"{column[:1].tolist()!r:.80}")
    return column
