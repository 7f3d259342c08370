# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files with a column for each signal of each joint, CSV or Parquet.

A column is named ``position.elbow``, or ``/joint_states/elbow/position`` as PlotJuggler names it.
Whole columns are read strictly: other values than numbers are errors. Blocks of rows, for
recordings, are read as far as possible, with a sentence about each problem.
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

from ...engine.kernel.names import join_names as names_in_message
from ...engine.kernel.types import Array

SIGNALS = ("position", "velocity", "acceleration", "effort", "in_contact")
TIMES = ("time", "__time")
STAMP = "stamp"  # ns, as in results; more accurate than a time in s
NO_TIME = -(2**63)  # empty cell of STAMP, whose column of integers has no NaN

Table: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""Path of a file, or columns by name."""

Place: TypeAlias = tuple[int, ...]
"""Place of a block of rows: offset and length [bytes]; in Parquet row group, first row, count."""

_DOTTED_NAME = re.compile(rf"({'|'.join(SIGNALS)})\.(.+)", re.DOTALL)
_SLASHED_NAME = re.compile(rf"/?(.+)/({'|'.join(SIGNALS)})", re.DOTALL)
_MAX_ROWS = 32768  # rows read at a time
_MAX_BLOCK_SIZE = 1 << 22  # bytes of a CSV file
_EMPTY_CELLS = (
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
)
"""Cells that pyarrow reads as empty."""
_SECTOR_SIZE = 512  # bytes; sizes of files cut by a full disk or a stop are multiples
_INCOMPLETE_NUMBER = re.compile(r"[-+]?(\d*\.?\d*[eE][-+]?)?")


def parse_column(name: str) -> tuple[str, str]:
    """Return signal and owner in the name of a column, or empty strings."""
    if match := _DOTTED_NAME.fullmatch(name):
        return match[1], match[2]
    if match := _SLASHED_NAME.fullmatch(name):
        return match[2], match[1].rpartition("joint_states/")[2]
    return "", ""


def list_names(names: Sequence[str]) -> str:
    """Return names for an error message, at most 40."""
    return names_in_message(names, 40, repr)


def require_unique(names: Sequence[str], table: str = "the table") -> None:
    """Raise a ValueError if several columns have one name."""
    if repeated_names := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"{table} has several columns of the name {list_names(repeated_names)}; "
            "rename or remove all but one"
        )


def file_suffix(path: str | PathLike[str]) -> str:
    """Return ``.csv`` or ``.parquet``; raise a ValueError for other files."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise ValueError(f"{str(path)!r}: expected a file that ends with .csv or .parquet")
    return suffix


def import_pyarrow() -> Any:
    """Import pyarrow with its readers of CSV and Parquet."""
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


def open_table(
    table: Table | CsvFile | ParquetFile, without_names: bool = False
) -> CsvFile | ParquetFile | MemoryTable:
    """Open a table; columns of a CSV file ``without_names`` are named by their numbers, from 1."""
    if isinstance(table, (CsvFile, ParquetFile)):
        return table
    if isinstance(table, Mapping):
        return MemoryTable(table)
    if isinstance(table, (str, PathLike)):
        return open_file(table, without_names)
    raise TypeError(
        "table: expected the path of a file, or a dict of columns, got "
        f"{type(table).__name__}: {table!r:.80}"
    )


def open_file(path: str | PathLike[str], without_names: bool = False) -> CsvFile | ParquetFile:
    """Open a file, see `open_table`."""
    return ParquetFile(path) if file_suffix(path) == ".parquet" else CsvFile(path, without_names)


def _require_numbers(arrow: Any, name: str, column: Any) -> None:
    """Raise a ValueError unless a column contains numbers."""
    kinds = arrow.types
    if not (
        kinds.is_integer(column.type)
        or kinds.is_floating(column.type)
        or kinds.is_boolean(column.type)
    ):
        raise ValueError(f"the column {name!r} has the type {column.type}, expected numbers")


def _column_arrays(arrow: Any, table: Any, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return columns of a block; empty cells are NaN or ``NO_TIME``."""
    arrays = {}
    for name in columns:
        column = table.column(name)
        _require_numbers(arrow, name, column)
        if name == STAMP and arrow.types.is_integer(column.type):  # stays exact without NaN
            column = column.cast(arrow.int64(), safe=False).fill_null(NO_TIME)
        arrays[name] = np.asarray(column.to_numpy())
    return arrays


# --- CSV


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return True if all cells are numbers."""
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False


class CsvFile:
    """CSV file, usually with a line of names; ``blocks`` adds a possible cut to ``damage``."""

    def __init__(self, path: str | PathLike[str], without_names: bool = False) -> None:
        self._path = path
        with open(path, "rb") as file:
            self._first_line = file.readline()
        if not self._first_line:
            raise ValueError("the table is empty: 0 bytes")
        self.names = self._read_names()
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

    def _read_names(self) -> list[str]:
        """Return the names in the first line."""
        line = (re.split(rb"[\r\n]", self._first_line, maxsplit=1) or [b""])[0]
        try:
            head = line.decode("utf-8-sig")
            names = [name.strip() for row in csv.reader([head]) for name in row]
        except UnicodeDecodeError as error:
            raise self._encoding_error(error) from None
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

    def _encoding_error(self, error: UnicodeDecodeError) -> ValueError:
        """Return the error about bytes that are not UTF-8."""
        return ValueError(
            f"{str(self._path)!r}: expected text in UTF-8: {error}; save the table "
            "as CSV in UTF-8, or as Parquet"
        )

    def _data_lines(self) -> Iterator[str]:
        """Yield the lines of data that are not empty."""
        with open(self._path, encoding="utf-8-sig") as file:
            if self._has_names:
                next(file, None)
            yield from (line for line in file if line.strip())

    @cached_property
    def _row_count(self) -> int:
        """Number of lines of data."""
        try:
            return sum(1 for _ in self._data_lines())
        except UnicodeDecodeError as error:
            raise self._encoding_error(error) from None

    def __len__(self) -> int:
        return self._row_count

    def fill_arrays(self, names: Sequence[str], arrays: Sequence[Array]) -> None:
        """Read whole columns into arrays; raise a ValueError for other values than numbers."""
        lines, start = self._data_lines(), 0
        indices = [self.names.index(name) for name in names]
        while indices and start < len(self):
            rows = min(_MAX_ROWS, len(self) - start)
            try:
                block = np.loadtxt(
                    lines,
                    delimiter=",",
                    usecols=indices,
                    max_rows=rows,
                    ndmin=2,
                    comments=None,
                    quotechar='"',
                )
            except ValueError as error:
                raise ValueError(
                    f"{str(self._path)!r}: expected numbers in the columns "
                    f"{list_names(names)}, after row {start} of data: {error}"
                ) from None
            for values, column in zip(arrays, block.T):
                values[start : start + len(column)] = column
            start += len(block)

    def blocks(self) -> Iterator[tuple[Place, int]]:
        """Yield the places of blocks of lines, and their sizes [bytes]."""
        start = len(self._first_line) if self._has_names else 0
        with open(self._path, "rb") as file:
            while True:
                file.seek(start)
                block = file.read(_MAX_BLOCK_SIZE)
                length = block.rfind(b"\n") + 1
                if not length:
                    break
                yield (start, length), length
                start += length
        if self._is_complete_row(block) and (start + len(block)) % _SECTOR_SIZE:
            yield (start, len(block)), len(block)
        elif block or not self._first_line.endswith(b"\n"):
            self.damage.append("ends without a line break; its last line may be cut and is ignored")

    def _is_complete_row(self, line: bytes) -> bool:
        """Return True if a line has all cells, and the last one is no beginning of a number."""
        try:
            rows = list(csv.reader([line.decode()], strict=True))
        except (csv.Error, UnicodeDecodeError):
            return False
        return (
            len(rows) == 1
            and len(rows[0]) == len(self.names)
            and not _INCOMPLETE_NUMBER.fullmatch(rows[0][-1].strip())
        )

    def read_block(
        self, place: Place, columns: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """Return columns of a block, the first one the time, and sentences on problems."""
        arrow, (start, length) = import_pyarrow(), place
        with open(self._path, "rb") as file:
            file.seek(start)
            block = file.read(length)
        if not block.isascii():  # columns of text, which are not read
            block = block.decode("ascii", "replace").encode("ascii", "replace")
        skipped_sizes: list[int] = []  # cells per line

        def skip_row(row: Any) -> str:
            """Note the cells of a row with another number of them, and skip it."""
            skipped_sizes.append(row.actual_columns)
            return "skip"

        def read_as(types: dict[str, Any]) -> Any:
            """Return the block as a table of pyarrow; raise if a cell is not of its type."""
            skipped_sizes.clear()
            return arrow.csv.read_csv(
                io.BytesIO(block),
                arrow.csv.ReadOptions(
                    use_threads=False, column_names=self.names, block_size=len(block)
                ),
                arrow.csv.ParseOptions(invalid_row_handler=skip_row),
                arrow.csv.ConvertOptions(include_columns=columns, column_types=types),
            )

        types = {name: arrow.int64() if name == STAMP else arrow.float64() for name in columns}
        problems: list[str] = []
        try:
            table = read_as(types)
        except arrow.ArrowInvalid:
            texts = read_as(dict.fromkeys(columns, arrow.string()))
            table = _parse_cells(arrow, texts, types, problems)
        if skipped_sizes:
            problems.append(
                f"skipped {len(skipped_sizes)} lines that have {skipped_sizes[0]} instead of "
                f"{len(self.names)} columns"
            )
        return _column_arrays(arrow, table, columns), problems


def _parse_cells(arrow: Any, table: Any, types: dict[str, Any], problems: list[str]) -> Any:
    """Return a table of texts as numbers; a row with other texts has only its time."""
    numbers: dict[str, list[float | None]] = {}
    invalid_rows: dict[int, str] = {}  # description by row
    for name, kind in types.items():
        convert: Any = int if arrow.types.is_integer(kind) else float
        numbers[name] = []
        for row, text in enumerate(table.column(name).to_pylist()):
            try:
                numbers[name].append(None if text in _EMPTY_CELLS else convert(text))
            except ValueError:
                numbers[name].append(None)
                invalid_rows.setdefault(row, f"{text[:20]!r} in the column {name!r}")
    if invalid_rows:
        problems.append(
            f"skipped {len(invalid_rows)} lines that do not contain numbers only, the first: "
            f"{invalid_rows[min(invalid_rows)]}"
        )
    for values in list(numbers.values())[1:]:
        for row in invalid_rows:
            values[row] = None
    return arrow.table({name: arrow.array(values, types[name]) for name, values in numbers.items()})


# --- Parquet


class ParquetFile:
    """Parquet file; a ValueError is raised if it is cut."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._arrow = import_pyarrow()
        try:
            self._file = self._arrow.parquet.ParquetFile(path, pre_buffer=False)
        except (self._arrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None):  # such as a file that is not there
                raise
            raise ValueError(f"{str(path)!r} is cut, or no Parquet file: {error}") from None
        self.names = list(self._file.schema_arrow.names)
        self.damage: list[str] = []
        self._batches: Iterator[Any] = iter(())
        self._decoded_columns: tuple[Any, ...] = ()  # row group, columns
        self._next_row = 0  # first row that is not decoded

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def fill_arrays(self, names: Sequence[str], arrays: Sequence[Array]) -> None:
        """Read whole columns, one after the other to save memory."""
        for name, values in zip(names, arrays):
            start = 0
            for batch in self._file.iter_batches(_MAX_ROWS, columns=[name], use_threads=False):
                column = batch.column(0)
                _require_numbers(self._arrow, name, column)
                values[start : start + len(column)] = self._values(column)
                start += len(column)
        self._arrow.default_memory_pool().release_unused()

    def _values(self, column: Any) -> NDArray[Any]:
        """Return a column, if possible without a copy; `to_numpy` imports pandas if it can."""
        if not column.null_count and not self._arrow.types.is_boolean(column.type):
            return np.from_dlpack(column)
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

    def blocks(self) -> Iterator[tuple[Place, int]]:
        """Yield places of rows in row groups, and their approximate sizes [bytes]."""
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            for start in range(0, rows, _MAX_ROWS):
                count = min(_MAX_ROWS, rows - start)
                yield (group, start, count), count * len(self.names) * 8

    def read_block(
        self, place: Place, columns: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """Return columns of a block, and no problems; consecutive blocks are decoded once."""
        group, start, _ = place
        if (group, tuple(columns)) != self._decoded_columns or start != self._next_row:
            self._batches = self._file.iter_batches(
                _MAX_ROWS, row_groups=[group], columns=list(columns), use_threads=False
            )
            self._decoded_columns, self._next_row = (group, tuple(columns)), 0
        while self._next_row <= start:
            batch = next(self._batches, None)
            if batch is None:
                raise ValueError(f"row group {group} has fewer rows than the file states")
            self._next_row += len(batch)
        return _column_arrays(self._arrow, self._arrow.Table.from_batches([batch]), columns), []


# --- memory


class MemoryTable:
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names = list(columns)
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        shape = next((values.shape for values in self._columns.values()), ())
        for name, values in self._columns.items():
            if not isinstance(name, str):
                raise TypeError(
                    f"table: expected names of columns, got {type(name).__name__}: {name!r:.80}"
                )
            if values.ndim != 1 or values.shape != shape:
                raise ValueError(
                    f"column {name!r}: expected shape ({shape[0] if shape else 'B'},) "
                    f"as the first column, got {values.shape}"
                )

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def fill_arrays(self, names: Sequence[str], arrays: Sequence[Array]) -> None:
        """Copy columns into arrays; raise a ValueError for other values than numbers."""
        for name, values in zip(names, arrays):
            column = self._columns[name]
            if column.dtype.kind not in "fiub":
                raise ValueError(
                    f"column {name!r}: expected numbers, got {column.dtype}: "
                    f"{column[:1].tolist()!r:.80}"
                )
            values[:] = column
