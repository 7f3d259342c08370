# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files with a column for each signal of each joint, CSV or Parquet.

A column is named ``position.elbow``, or ``/joint_states/elbow/position`` as PlotJuggler names it.
Whole columns are read strictly: what is no number is an error. Blocks of rows, for recordings, are
read as far as possible, with a sentence about each problem.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.names import listed as names_in_message
from ...engine.kernel.types import Array

SIGNALS = ("position", "velocity", "acceleration", "effort", "in_contact")
TIMES = ("time", "__time")
STAMP = "stamp"  # [ns], as in results; more accurate than a time in s
NO_TIME = -(2**63)  # an empty cell of STAMP, whose column has no NaN

Table: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""Path of a file, or columns by name."""

Place: TypeAlias = tuple[int, ...]
"""Where a block of rows is: offset and length [bytes]; of Parquet row group, first row, count."""

_DOTTED = re.compile(rf"({'|'.join(SIGNALS)})\.(.+)", re.DOTALL)
_SLASHED = re.compile(rf"/?(.+)/({'|'.join(SIGNALS)})", re.DOTALL)
_ROWS = 32768  # rows, at most, that are read at a time
_BLOCK = 1 << 22  # bytes of a CSV file, at most, in a block
_UNKNOWN = (
    None,
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "1.#IND",
    "1.#QNAN",
    "N/A",
    "NA",
    "NULL",
    "n/a",
    "null",
)  # cells that pyarrow reads as empty
_SECTOR = 512  # bytes: a file that was cut by a full disk or a stop is a multiple
_BEGUN = re.compile(r"[-+]?(\d*\.?\d*[eE][-+]?)?")


def parsed(name: str) -> tuple[str, str]:
    """Signal and owner of a column, or empty strings."""
    if match := _DOTTED.fullmatch(name):
        return match[1], match[2]
    if match := _SLASHED.fullmatch(name):
        return match[2], match[1].rpartition("joint_states/")[2]
    return "", ""


def listed(names: Sequence[str]) -> str:
    """Names for an error message, not too many of them."""
    return names_in_message(names, 40, repr)


def require_unique(names: Sequence[str], table: str = "the table") -> None:
    """Raise a ValueError if several columns have one name."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"{table} has several columns of the name {listed(twice)}; rename or remove all but one"
        )


def file_suffix(path: str | PathLike[str]) -> str:
    """Return ``.csv`` or ``.parquet``; raise a ValueError for other files."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{str(path)!r}: expected a file that ends with .csv or .parquet")
    return suffix


def pyarrow() -> Any:
    """The package, with its readers of CSV and Parquet."""
    try:
        import pyarrow
        import pyarrow.csv  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ImportError(
            "Parquet files, and tables except for identification, require pyarrow: "
            'pip install "dyn_ros[logs]"'
        ) from None
    return pyarrow


def open_table(table: Table | Csv | Parquet, without_names: bool = False) -> Csv | Parquet | Memory:
    """Open a table; columns of a CSV file ``without_names`` have their numbers, from 1."""
    if isinstance(table, (Csv, Parquet)):
        return table
    if isinstance(table, Mapping):
        return Memory(table)
    if isinstance(table, (str, PathLike)):
        return open_file(table, without_names)
    raise TypeError(
        "table: expected the path of a file, or a dict of columns, got "
        f"{type(table).__name__}: {table!r:.80}"
    )


def open_file(path: str | PathLike[str], without_names: bool = False) -> Csv | Parquet:
    """Open a file, see `open_table`."""
    return Parquet(path) if file_suffix(path) == ".parquet" else Csv(path, without_names)


def _require_numbers(arrow: Any, name: str, column: Any) -> None:
    kinds = arrow.types
    if not (
        kinds.is_integer(column.type)
        or kinds.is_floating(column.type)
        or kinds.is_boolean(column.type)
    ):
        raise ValueError(f"the column {name!r} has the type {column.type}, expected numbers")


def _recorded(arrow: Any, table: Any, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Columns of a block; empty cells are NaN, or no time."""
    numbers = {}
    for name in columns:
        column = table.column(name)
        _require_numbers(arrow, name, column)
        if name == STAMP and arrow.types.is_integer(column.type):  # exact, where NaN is a float
            column = column.cast(arrow.int64(), safe=False).fill_null(NO_TIME)
        numbers[name] = np.asarray(column.to_numpy())
    return numbers


# --- CSV


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False


class Csv:
    """A CSV file with a line of names. After ``blocks``, ``damage`` notes a possible cut."""

    def __init__(self, path: str | PathLike[str], without_names: bool = False) -> None:
        self._path = path
        with open(path, "rb") as file:
            self._head = file.readline()
        if not self._head:
            raise ValueError("the table is empty: 0 bytes")
        self.names = self._names()
        self._has_names = not _are_numbers(self.names)
        if not self._has_names:
            if not without_names:
                raise ValueError(
                    f"{str(path)!r}: the first line has numbers instead of the names "
                    "of columns; insert names, or state the numbers of columns, such "
                    "as --columns time=1 position=2-7 effort=8-13"
                )
            self.names = [str(k + 1) for k in range(len(self.names))]
        self.damage: list[str] = []

    def _names(self) -> list[str]:
        line = (re.split(rb"[\r\n]", self._head, maxsplit=1) or [b""])[0]
        try:
            head = line.decode("utf-8-sig")
            names = [name.strip() for row in csv.reader([head]) for name in row]
        except UnicodeDecodeError as error:
            raise self._not_text(error) from None
        except csv.Error as error:
            raise ValueError(
                f"{str(self._path)!r}: the line of names cannot be read: {error}"
            ) from None
        if len(names) == 1 and (separator := re.search("[;\t]", head)):
            raise ValueError(
                f"{str(self._path)!r}: expected columns separated by commas, and "
                f"decimal points, got {separator[0]!r} in the line of names; save the "
                "table so"
            )
        return names

    def _not_text(self, error: UnicodeDecodeError) -> ValueError:
        return ValueError(
            f"{str(self._path)!r}: expected text in UTF-8: {error}; save the table "
            "as CSV in UTF-8, or as Parquet"
        )

    def _lines(self) -> Iterator[str]:
        with open(self._path, encoding="utf-8-sig") as file:
            if self._has_names:
                next(file, None)
            yield from (line for line in file if line.strip())

    @cached_property
    def _count(self) -> int:
        try:
            return sum(1 for _ in self._lines())
        except UnicodeDecodeError as error:
            raise self._not_text(error) from None

    def __len__(self) -> int:
        return self._count

    def fill(self, names: Sequence[str], into: Sequence[Array]) -> None:
        lines, chosen, start = self._lines(), [self.names.index(name) for name in names], 0
        while chosen and start < len(self):
            rows = min(_ROWS, len(self) - start)
            try:
                block = np.loadtxt(
                    lines,
                    delimiter=",",
                    usecols=chosen,
                    max_rows=rows,
                    ndmin=2,
                    comments=None,
                    quotechar='"',
                )
            except ValueError as error:
                raise ValueError(
                    f"{str(self._path)!r}: expected numbers in the columns "
                    f"{listed(names)}, after row {start} of data: {error}"
                ) from None
            for values, column in zip(into, block.T):
                values[start : start + len(column)] = column
            start += len(block)

    def blocks(self) -> Iterator[tuple[Place, int]]:
        """Places of blocks of lines, and their sizes [bytes]."""
        start = len(self._head) if self._has_names else 0
        with open(self._path, "rb") as file:
            while True:
                file.seek(start)
                block = file.read(_BLOCK)
                length = block.rfind(b"\n") + 1
                if not length:
                    break
                yield (start, length), length
                start += length
        if self._is_row(block) and (start + len(block)) % _SECTOR:
            yield (start, len(block)), len(block)
        elif block or not self._head.endswith(b"\n"):
            self.damage.append("ends without a line break; its last line may be cut and is ignored")

    def _is_row(self, line: bytes) -> bool:
        """Whether a line has all cells, and the last one is not the beginning of a number."""
        try:
            rows = list(csv.reader([line.decode()], strict=True))
        except (csv.Error, UnicodeDecodeError):
            return False
        return (
            len(rows) == 1
            and len(rows[0]) == len(self.names)
            and not _BEGUN.fullmatch(rows[0][-1].strip())
        )

    def read(
        self, place: Place, columns: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """Columns of a block, the first one the time, and problems."""
        arrow, (start, length) = pyarrow(), place
        with open(self._path, "rb") as file:
            file.seek(start)
            block = file.read(length)
        if not block.isascii():  # of text, which is not read
            block = block.decode("ascii", "replace").encode("ascii", "replace")
        skipped: list[int] = []

        def skip(row: Any) -> str:
            skipped.append(row.actual_columns)
            return "skip"

        def convert(types: dict[str, Any]) -> Any:
            skipped.clear()
            return arrow.csv.read_csv(
                io.BytesIO(block),
                arrow.csv.ReadOptions(
                    use_threads=False, column_names=self.names, block_size=len(block)
                ),
                arrow.csv.ParseOptions(invalid_row_handler=skip),
                arrow.csv.ConvertOptions(include_columns=columns, column_types=types),
            )

        types = {name: arrow.int64() if name == STAMP else arrow.float64() for name in columns}
        problems: list[str] = []
        try:
            table = convert(types)
        except arrow.ArrowInvalid:
            texts = convert(dict.fromkeys(columns, arrow.string()))
            table = _with_words(arrow, texts, types, problems)
        if skipped:
            problems.append(
                f"skipped {len(skipped)} lines that have {skipped[0]} instead of "
                f"{len(self.names)} columns"
            )
        return _recorded(arrow, table, columns), problems


def _with_words(arrow: Any, table: Any, types: dict[str, Any], problems: list[str]) -> Any:
    """The numbers of a table of texts; a row in which something else is has only its time."""
    numbers: dict[str, list[float | None]] = {}
    bad: dict[int, str] = {}
    for name, kind in types.items():
        number: Any = int if arrow.types.is_integer(kind) else float
        numbers[name] = []
        for row, text in enumerate(table.column(name).to_pylist()):
            try:
                numbers[name].append(None if text in _UNKNOWN else number(text))
            except ValueError:
                numbers[name].append(None)
                bad.setdefault(row, f"{text[:20]!r} in the column {name!r}")
    if bad:
        problems.append(
            f"skipped {len(bad)} lines that do not contain numbers only, the first: {bad[min(bad)]}"
        )
    for values in list(numbers.values())[1:]:
        for row in bad:
            values[row] = None
    return arrow.table({name: arrow.array(values, types[name]) for name, values in numbers.items()})


# --- Parquet


class Parquet:
    """A Parquet file; a ValueError if it is cut."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._arrow = pyarrow()
        try:
            self._file = self._arrow.parquet.ParquetFile(path, pre_buffer=False)
        except (self._arrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None):  # such as a file that is not there
                raise
            raise ValueError(f"{str(path)!r} is cut, or no Parquet file: {error}") from None
        self.names = list(self._file.schema_arrow.names)
        self.damage: list[str] = []
        self._batches: Iterator[Any] = iter(())
        self._decoded: tuple[Any, ...] = ()  # row group and columns
        self._next = 0  # row that follows what was decoded

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def fill(self, names: Sequence[str], into: Sequence[Array]) -> None:
        """Read whole columns, one after the other to save memory."""
        for name, values in zip(names, into):
            start = 0
            for batch in self._file.iter_batches(_ROWS, columns=[name], use_threads=False):
                column = batch.column(0)
                _require_numbers(self._arrow, name, column)
                values[start : start + len(column)] = self._values(column)
                start += len(column)
        self._arrow.default_memory_pool().release_unused()

    def _values(self, column: Any) -> NDArray[Any]:
        """A column without a copy, if possible; `to_numpy` would import pandas if it is there."""
        if not column.null_count and not self._arrow.types.is_boolean(column.type):
            return np.from_dlpack(column)
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

    def blocks(self) -> Iterator[tuple[Place, int]]:
        """Places of rows in row groups, and about their sizes [bytes]."""
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            for start in range(0, rows, _ROWS):
                count = min(_ROWS, rows - start)
                yield (group, start, count), count * len(self.names) * 8

    def read(
        self, place: Place, columns: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """Columns of a block, and problems; blocks in the order of rows are decoded once."""
        group, start, _ = place
        if (group, tuple(columns)) != self._decoded or start != self._next:
            self._batches = self._file.iter_batches(
                _ROWS, row_groups=[group], columns=list(columns), use_threads=False
            )
            self._decoded, self._next = (group, tuple(columns)), 0
        while self._next <= start:
            batch = next(self._batches, None)
            if batch is None:
                raise ValueError(f"row group {group} has fewer rows than the file states")
            self._next += len(batch)
        return _recorded(self._arrow, self._arrow.Table.from_batches([batch]), columns), []


# --- memory


class Memory:
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names = list(columns)
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        first = next((values.shape for values in self._columns.values()), ())
        for name, values in self._columns.items():
            if not isinstance(name, str):
                raise TypeError(
                    f"table: expected names of columns, got {type(name).__name__}: {name!r:.80}"
                )
            if values.ndim != 1 or values.shape != first:
                raise ValueError(
                    f"column {name!r}: expected shape ({first[0] if first else 'B'},) "
                    f"as the first column, got {values.shape}"
                )

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def fill(self, names: Sequence[str], into: Sequence[Array]) -> None:
        for name, values in zip(names, into):
            column = self._columns[name]
            if column.dtype.kind not in "fiub":
                raise ValueError(
                    f"column {name!r}: expected numbers, got {column.dtype}: "
                    f"{column[:1].tolist()!r:.80}"
                )
            values[:] = column
