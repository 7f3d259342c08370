# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files with a column for each signal of each joint, CSV or Parquet.

A column is named ``position.elbow``, or ``/joint_states/elbow/position`` as PlotJuggler names it.
Empty cells are NaN. Whole columns are read strictly: other values than numbers are errors. Blocks
of rows, for recordings, are read as far as possible, with a sentence about each problem.
"""

from __future__ import annotations

import ast
import csv
import io
import itertools
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.names import join_names as names_in_message
from ...engine.kernel.types import Array
from ...files.limits import MAX_CHUNK_SIZE, MAX_EXPANSION, Limits, describe_chunk
from ...files.reading import open_regular_file
from .parquet_sizes import ColumnSize, PagesSize, RowGroup, read_pages_size, read_row_groups
from .times import NO_TIME, STAMP, Dates, is_time, parse_times

SIGNALS = ("position", "velocity", "acceleration", "effort", "in_contact")

Table: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""Path of a file, or columns by name; also a table of pandas, polars or pyarrow."""

Place: TypeAlias = tuple[int, ...]
"""Place of a block of rows: offset and length [bytes]; in Parquet row group, first row, count."""

_DOTTED_NAME = re.compile(rf"({'|'.join(SIGNALS)})\.(.+)", re.DOTALL)
_SLASHED_NAME = re.compile(rf"/?(.+)/({'|'.join(SIGNALS)})", re.DOTALL)
_MAX_ROWS = 32768  # rows read at a time
_MAX_BLOCK_SIZE = 1 << 22  # bytes of a CSV file; longer lines are not read
_MAX_DECODED_SIZE = 1 << 25  # bytes of numbers that are decoded at once
_MAX_COLUMNS = 20_000
_EMPTY_CELLS = (
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
    "None",
    "n/a",
    "null",
    "nan",
    "-nan",
    "NaN",
    "-NaN",
)
"""Cells without a number."""
_MESSAGE_SIGNALS = ("position", "velocity", "effort")  # in the order of a joint state
_EMPTY_CELL = re.compile(
    rf"(?:(?<=,)|^)\s*(?:\"\"|{'|'.join(map(re.escape, _EMPTY_CELLS[1:]))})?"
    r"\s*(?=,|$)"
)
_HEAD_LINES = 200  # lines of a CSV file that show which columns are blank or contain dates
_EXACT_DIGITS = 16  # digits of stamps that floats would round
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
        import pyarrow.compute  # noqa: F401
        import pyarrow.csv  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ImportError(
            "Parquet files, and tables except for identification, require pyarrow: "
            'pip install "dyn_ros[logs]"'
        ) from None
    return pyarrow


def open_for_arrow(path: str | PathLike[str]) -> Any:
    """Return an open file for pyarrow, which opens only paths in UTF-8 itself."""
    return import_pyarrow().OSFile(os.fsencode(path))


def open_table(
    table: Table | CsvFile | ParquetFile,
    without_names: bool = False,
    max_chunk_size: float = MAX_CHUNK_SIZE,
) -> CsvFile | ParquetFile | MemoryTable:
    """Open a table; columns of a CSV file ``without_names`` are named by their numbers, from 1.

    ``max_chunk_size`` is the largest size of a column of a row group [bytes].
    """
    if isinstance(table, (CsvFile, ParquetFile)):
        return table
    if isinstance(table, Mapping):
        return MemoryTable(table)
    if isinstance(table, (str, PathLike)):
        return open_file(table, without_names, max_chunk_size)
    columns = _frame_columns(table)
    if columns is not None:
        return MemoryTable(columns)
    raise TypeError(
        "table: expected the path of a file, or a dict of columns, got "
        f"{type(table).__name__}: {table!r:.80}"
    )


def open_file(
    path: str | PathLike[str], without_names: bool = False, max_chunk_size: float = MAX_CHUNK_SIZE
) -> CsvFile | ParquetFile:
    """Open a file, see `open_table`."""
    if file_suffix(path) == ".parquet":
        return ParquetFile(path, max_chunk_size)
    return CsvFile(path, without_names)


def _require_few_columns(path: str | PathLike[str], count: int) -> None:
    """Raise a ValueError if a table has more columns than can be read."""
    if count > _MAX_COLUMNS:
        raise ValueError(
            f"{str(path)!r}: expected at most {_MAX_COLUMNS:,} columns, got {count:,}; remove "
            "those that are not signals of the robot"
        )


def _read_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a CSV file; raise a ValueError for one that is too long."""
    number = 0
    while line := file.readline(_MAX_BLOCK_SIZE):
        number += 1
        if len(line) == _MAX_BLOCK_SIZE and line[-1] != "\n":
            raise ValueError(
                f"{file.name!r}: line {number:,} has more than {_MAX_BLOCK_SIZE:,} characters, "
                f"which begin with {line[:20]!r}; remove it"
            )
        yield line


def _is_text(arrow: Any, kind: Any) -> bool:
    """Return True for a type of texts."""
    if arrow.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(arrow.types.is_string(kind) or arrow.types.is_large_string(kind))


def _to_dates(arrow: Any, column: Any) -> Dates:
    """Return dates, durations or texts of them; NaT for empty cells."""
    kinds, kind = arrow.types, column.type
    if _is_text(arrow, kind):
        return parse_times(column.to_pylist())
    if kinds.is_duration(kind):
        exact = arrow.duration("ns")
    elif kinds.is_time(kind):
        exact = arrow.time64("ns")
    else:
        exact = arrow.timestamp("ns", getattr(kind, "tz", None))
    stamps = column.cast(exact, safe=False).cast(arrow.int64()).fill_null(NO_TIME)
    return np.asarray(stamps.to_numpy(), np.int64).view("M8[ns]")


def _require_numbers(arrow: Any, name: str, column: Any) -> None:
    """Raise a ValueError unless a column contains numbers."""
    kinds = arrow.types
    if not (
        kinds.is_integer(column.type)
        or kinds.is_floating(column.type)
        or kinds.is_boolean(column.type)
    ):
        raise ValueError(f"the column {name!r} has the type {column.type}, expected numbers")


def _column_arrays(
    arrow: Any,
    columns: Mapping[str, Any],
    exact_names: Collection[str],
    date_names: Collection[str],
) -> dict[str, NDArray[Any]]:
    """Return columns of a block; empty cells are NaN, or ``NO_TIME`` in columns of exact stamps."""
    arrays = {}
    for name, column in columns.items():
        if name in date_names:
            arrays[name] = _to_dates(arrow, column)
            continue
        _require_numbers(arrow, name, column)
        if name in exact_names and arrow.types.is_integer(column.type):  # stays exact without NaN
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
        with open_regular_file(path) as file:
            self._first_line = file.readline(_MAX_BLOCK_SIZE)
        if not self._first_line:
            raise ValueError("the table is empty: 0 bytes")
        if len(self._first_line) == _MAX_BLOCK_SIZE and self._first_line[-1:] != b"\n":
            raise ValueError(
                f"{str(path)!r}: expected the names of columns in the first line, got more than "
                f"{_MAX_BLOCK_SIZE:,} bytes, which begin with {self._first_line[:20]!r}"
            )
        self.names = self._read_names()
        if not self.names:
            raise ValueError(
                f"{str(path)!r}: expected the names of columns in the first line, which is blank"
            )
        _require_few_columns(path, len(self.names))
        self._has_names = not _are_numbers(self.names)
        self._joint_text = ""  # joints of a message, which each line contains
        self.damage: list[str] = []
        if not without_names and self._find_message_columns():
            return
        if not self._has_names:
            if not without_names:
                raise ValueError(
                    f"{str(path)!r}: the first line has numbers instead of the names "
                    "of columns; insert names, or state the numbers of columns with "
                    "columns=, such as time=1 position=2-7 effort=8-13"
                )
            self.names = [str(k + 1) for k in range(len(self.names))]

    def _find_message_columns(self) -> bool:
        """Name the columns of joint states that ROS printed by their joints; return True if so.

        ``ros2 topic echo --csv`` prints no names of columns: stamp, frame, joints, and their
        numbers. ``rostopic echo -p`` prints names such as ``field.position0``.
        """
        cells = self.names
        if cells[0] == "%time" and "field.position0" in cells:
            row = next(csv.reader(self._data_lines()), [])
            texts = dict(zip(cells, row))
            owners = {
                name[len("field.name") :]: text.strip()
                for name, text in texts.items()
                if re.fullmatch(r"field\.name\d+", name)
            }
            self._joint_text = ",".join(owners.values())
            self.names = [STAMP if cell == "field.header.stamp" else cell for cell in cells]
            for k, cell in enumerate(cells):
                match = re.fullmatch(r"field\.(position|velocity|effort)(\d+)", cell)
                if match and match[2] in owners:
                    self.names[k] = f"{match[1]}.{owners[match[2]]}"
            return True
        if len(cells) < 5 or not (cells[0].isdigit() and cells[1].isdigit()):
            return False
        count = sum(
            1 for _ in itertools.takewhile(lambda cell: not _are_numbers([cell]), cells[3:])
        )
        joints, numbers = cells[3 : 3 + count], cells[3 + count :]
        if not (joints and _are_numbers(numbers)) or _are_numbers(cells[2:3]):
            return False
        if len(numbers) not in (count, 3 * count):
            raise ValueError(
                f"{str(self._path)!r}: the first line names {count} joints and has {len(numbers)} "
                f"numbers; expected {count} positions, or also {count} velocities and {count} "
                "efforts, as ros2 topic echo --csv prints; insert a line with names of columns"
            )
        self.names = ["sec", "nanosec", "frame_id", *(f"name.{k}" for k in range(count))]
        self.names += [f"{signal}.{joint}" for signal in _MESSAGE_SIGNALS for joint in joints]
        self.names = self.names[: len(cells)]
        self._joint_text, self._has_names = ",".join(joints), False
        return True

    def _read_names(self) -> list[str]:
        """Return the names in the first line."""
        line = (re.split(rb"[\r\n]", self._first_line, maxsplit=1) or [b""])[0]
        try:
            head = line.decode("utf-8-sig")
            if "\0" in head:
                start = line.index(0)
                raise UnicodeDecodeError("utf-8", line, start, start + 1, "may be UTF-16")
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
        if len(names) == 1 and " " in names[0]:
            raise ValueError(
                f"{str(self._path)!r}: expected columns separated by commas, got spaces in the "
                "first line; convert the table, for example with: sed -E 's/^ +//; s/ +/,/g'"
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
            all_lines = _read_lines(file)
            if self._has_names:
                next(all_lines, None)
            lines = (line for line in all_lines if line.strip())
            yield from self._check_joints(lines) if self._joint_text else lines

    def _check_joints(self, lines: Iterator[str]) -> Iterator[str]:
        """Yield lines; raise a ValueError if a message has other joints than the first one."""
        for number, line in enumerate(lines):
            if self._joint_text not in line:
                raise ValueError(self._other_joints_message(f"row {number} of data"))
            yield line

    def _other_joints_message(self, place: str) -> str:
        """Return the message about messages of different joints."""
        return (
            f"{str(self._path)!r}: expected the joints {self._joint_text} in each row, got others "
            f"in {place}; record a bag, which may contain messages of several publishers"
        )

    @cached_property
    def _first_cells(self) -> dict[str, str]:
        """First cells that are not empty in the first lines, by column."""
        cells: dict[str, str] = {}
        try:
            with open(self._path, encoding="utf-8-sig", errors="replace") as file:
                lines = itertools.islice(_read_lines(file), int(self._has_names), _HEAD_LINES)
                for row in csv.reader(line for line in lines if line.strip()):
                    for name, cell in zip(self.names, row):
                        if name not in cells and not _is_empty_cell(cell):
                            cells[name] = cell.strip()
                    if len(cells) == len(self.names):
                        break
        except (csv.Error, ValueError):  # reading reports it
            pass
        return cells

    def has_dates(self, name: str) -> bool:
        """Return True if a column contains dates or durations."""
        return is_time(self._first_cells.get(name, ""))

    def is_integer(self, name: str) -> bool:
        """Return True if a column contains integers."""
        return self._first_cells.get(name, "").lstrip("-").isdigit()

    def _is_exact(self, name: str) -> bool:
        """Return True if a column contains integers that are read without rounding."""
        digits = self._first_cells.get(name, "")
        return name == STAMP or (self.is_integer(name) and len(digits) >= _EXACT_DIGITS)

    @cached_property
    def blank_names(self) -> frozenset[str]:
        """Columns of signals without any number."""
        names = [
            name for name in self.names if name not in self._first_cells and parse_column(name)[0]
        ]
        is_blank = np.ones(len(names), bool)
        try:
            if not names or not len(self):  # without rows, no column is blank
                return frozenset()
            for _, block in self._number_blocks(names):
                is_blank &= np.isnan(block).all(axis=0)
                if not is_blank.any():
                    break
        except ValueError:  # reading reports it
            return frozenset()
        return frozenset(name for name, blank in zip(names, is_blank) if blank)

    def read_dates(self, name: str) -> Dates:
        """Return a column of dates or durations; NaT for other cells."""
        k = self.names.index(name)
        rows = csv.reader(self._data_lines())
        return parse_times(row[k] if k < len(row) else "" for row in rows)

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
        for start, block in self._number_blocks(names):
            for values, column in zip(arrays, block.T):
                values[start : start + len(column)] = column

    def _number_blocks(self, names: Sequence[str]) -> Iterator[tuple[int, Array]]:
        """Yield columns in blocks (B, n), each with its first row; empty cells are NaN."""
        indices = [self.names.index(name) for name in names]
        lines, start, has_empty_cells = self._data_lines(), 0, False
        while indices and start < len(self):
            try:
                block = np.loadtxt(
                    map(_fill_empty_cells, lines) if has_empty_cells else lines,
                    delimiter=",",
                    usecols=indices,
                    max_rows=min(_MAX_ROWS, len(self) - start),
                    ndmin=2,
                    comments=None,
                    quotechar='"',
                )
            except ValueError as error:
                if has_empty_cells:
                    raise self._number_error(names, start, error) from None
                has_empty_cells = True  # from here on, as filling them takes time
                lines = itertools.islice(self._data_lines(), start, None)
                continue
            yield start, block
            start += len(block)

    def _number_error(self, names: Sequence[str], start: int, error: ValueError) -> ValueError:
        """Return the error about the first cell, from a row on, that is no number."""
        lines = itertools.islice(self._data_lines(), start, start + _MAX_ROWS)
        for number, row in enumerate(csv.reader(lines), start):
            cells = dict(zip(self.names, row))
            for name in names:
                if name not in cells:
                    return ValueError(
                        f"{str(self._path)!r}: expected {len(self.names)} columns, got {len(row)} "
                        f"in row {number} of data, counted from 0; remove or complete this line"
                    )
                if not (_is_empty_cell(cells[name]) or _are_numbers([cells[name]])):
                    return ValueError(
                        f"{str(self._path)!r}: expected numbers in the column {name!r}, got "
                        f"{cells[name]!r:.40} in row {number} of data, counted from 0; correct "
                        "this cell, or leave it blank"
                    )
        return ValueError(f"{str(self._path)!r}: expected numbers: {error}")

    def blocks(self) -> Iterator[tuple[Place, int]]:
        """Yield the places of blocks of lines, and their sizes [bytes]."""
        start = len(self._first_line) if self._has_names else 0
        with open(self._path, "rb") as file:
            while True:
                file.seek(start)
                block = file.read(_MAX_BLOCK_SIZE)
                length = block.rfind(b"\n") + 1
                if length:
                    yield (start, length), length
                elif len(block) == _MAX_BLOCK_SIZE:
                    length = _rest_of_line(file) + len(block)
                    self.damage.append(
                        f"contains a line at byte {start:,} that is skipped: it has {length:,} "
                        f"bytes, more than {_MAX_BLOCK_SIZE:,}"
                    )
                else:
                    break
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
        if self._joint_text and block.count(self._joint_text.encode()) != len(
            [line for line in block.splitlines() if line.strip()]
        ):
            raise ValueError(self._other_joints_message("a row"))
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
                arrow.csv.ConvertOptions(
                    include_columns=columns, column_types=types, null_values=_EMPTY_CELLS
                ),
            )

        exact_names = [name for name in columns[:2] if self._is_exact(name)]
        types = dict.fromkeys(columns, arrow.float64())
        types |= dict.fromkeys(exact_names, arrow.int64())
        date_names = [name for name in columns[:1] if self.has_dates(name)]
        types |= dict.fromkeys(date_names, arrow.string())
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
        return (
            _column_arrays(
                arrow, {name: table.column(name) for name in columns}, exact_names, date_names
            ),
            problems,
        )


def _rest_of_line(file: BinaryIO) -> int:
    """Read the rest of a line that is too long; return its size [bytes]."""
    size = 0
    while part := file.readline(_MAX_BLOCK_SIZE):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size


def _is_empty_cell(cell: str) -> bool:
    """Return True if a cell contains no number: it is blank, or states so."""
    return cell.strip() in _EMPTY_CELLS


def _fill_empty_cells(line: str) -> str:
    """Return a line of a CSV file with "nan" in its empty cells."""
    return _EMPTY_CELL.sub("nan", line.rstrip("\r\n"))


def _parse_cells(arrow: Any, table: Any, types: dict[str, Any], problems: list[str]) -> Any:
    """Return a table of texts as numbers; a row with other texts has only its time."""

    def parse_integer(text: str) -> int:
        if not -(1 << 63) <= (number := int(text)) < 1 << 63:
            raise ValueError("an integer of more than 64 bits")
        return number

    numbers: dict[str, list[float | str | None]] = {}
    invalid_rows: dict[int, str] = {}  # description by row
    for name, kind in types.items():
        convert: Any = parse_integer if arrow.types.is_integer(kind) else float
        if arrow.types.is_string(kind):
            convert = str
        numbers[name] = []
        for row, text in enumerate(table.column(name).to_pylist()):
            try:
                numbers[name].append(
                    None if text is None or text.strip() in _EMPTY_CELLS else convert(text)
                )
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
    """Parquet file; a ValueError is raised if it is cut.

    ``max_chunk_size`` is the largest size of a column of a row group [bytes].
    """

    def __init__(self, path: str | PathLike[str], max_chunk_size: float = MAX_CHUNK_SIZE) -> None:
        self._arrow = import_pyarrow()
        self._path, self._max_chunk_size = path, max_chunk_size
        with open_regular_file(path) as file:
            if not file.read(1):
                raise ValueError(f"{str(path)!r}: is empty: 0 bytes")
        self._limits = Limits.of_file(Path(path), max_chunk_size)
        try:
            self._file = self._arrow.parquet.ParquetFile(open_for_arrow(path), pre_buffer=False)
        except (self._arrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None):  # such as a file that is not there
                raise
            raise ValueError(f"{str(path)!r}: is cut, or no Parquet file: {error}") from None
        _require_few_columns(path, self._file.metadata.num_columns)
        self._row_groups = self._read_row_groups()
        self._pages_sizes: dict[ColumnSize, PagesSize] = {}
        self._schema = self._file.schema_arrow
        self._block_rows = self._choose_block_rows()
        self._list_elements: dict[str, tuple[str, int]] = {}  # list column and index, by name
        self._has_dates: dict[str, bool] = {}
        self._joints: tuple[str, list[str]] = "", []  # column of lists of names, first list
        self._file_names = {_join_levels(name): name for name in self._schema.names}
        self.names = self._expand_lists()
        self.damage: list[str] = []
        self._batches: Iterator[Any] = iter(())
        self._decoded_columns: tuple[Any, ...] = ()  # row group, columns
        self._next_row = 0  # first row that is not decoded

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def _read_row_groups(self) -> list[RowGroup]:
        """Return the row groups; raise a ValueError if the footer contradicts itself."""
        metadata = self._file.metadata
        try:
            row_groups = read_row_groups(self._path)
        except ValueError as error:
            raise ValueError(f"{str(self._path)!r}: {error}") from None
        if any(len(group.columns) != metadata.num_columns for group in row_groups) or (
            sum(group.row_count for group in row_groups) != metadata.num_rows
        ):
            raise ValueError(
                f"{str(self._path)!r}: its footer is damaged: its row groups have other rows or "
                "columns than the file"
            )
        return row_groups

    def require_rows(self, column_count: int) -> None:
        """Raise a ValueError if the file has more rows than can be in memory for its size."""
        if 8 * column_count * len(self) > self._limits.content_size:
            raise ValueError(
                f"it has {len(self):,} rows and {column_count} columns of numbers: "
                f"{self._limits.describe_content()}"
            )

    def _choose_block_rows(self) -> int:
        """Return the number of rows that are decoded at once, also of columns of long lists."""
        values = 1.0
        for group in self._row_groups:
            count = sum(column.value_count for column in group.columns)
            values = max(values, count / max(group.row_count, 1))
        return max(min(_MAX_ROWS, int(_MAX_DECODED_SIZE / (8 * values))), 1)

    def _iterate_batches(
        self, columns: Sequence[str], rows: int, row_groups: Sequence[int] | None = None
    ) -> Iterator[Any]:
        """Return batches of columns of the file; raise a ValueError for one that is too large."""
        groups = range(len(self._row_groups)) if row_groups is None else row_groups
        names = set(columns)
        for group in groups:
            for column in self._row_groups[group].columns:
                if column.path.partition(".")[0] in names or column.path in names:
                    self._require_size(column, group)
        batches: Iterator[Any] = self._file.iter_batches(
            rows, row_groups=groups, columns=columns, use_threads=False
        )
        return batches

    def _require_size(self, column: ColumnSize, group: int) -> None:
        """Raise a ValueError if a column of a row group expands to a size that is too large.

        Its pages, which are decompressed as a whole, may be as large as the column.
        """
        description = f"the column {column.path!r:.80} of row group {group}: "
        if column not in self._pages_sizes:
            try:
                self._pages_sizes[column] = read_pages_size(self._path, column)
            except ValueError as error:
                raise ValueError(f"{description}{error}") from None
        pages = self._pages_sizes[column]
        size, value_count = max(column.size, pages.size), max(column.value_count, pages.value_count)
        if size > max(self._max_chunk_size, MAX_EXPANSION * column.compressed_size):
            raise ValueError(description + describe_chunk(size, self._max_chunk_size))
        if 8 * value_count > self._limits.content_size:
            raise ValueError(
                f"{description}it holds {value_count:,} numbers: {self._limits.describe_content()}"
            )

    def _expand_lists(self) -> list[str]:
        """Return the names of columns; a list has a name for each number of a row.

        Lists beside a list of joints are signals of these joints, as of a joint state.
        """
        kinds = self._arrow.types
        list_fields = [
            field
            for field in self._schema
            if kinds.is_list(field.type)
            or kinds.is_large_list(field.type)
            or kinds.is_fixed_size_list(field.type)
        ]
        if not list_fields:
            return list(self._file_names)
        names = [field.name for field in list_fields]
        first_rows = next(self._iterate_batches(names, 1), None)
        first = {name: first_rows.column(name)[0].as_py() if first_rows else [] for name in names}
        for field in list_fields:
            if field.name.rpartition("/")[2] == "name" and _is_text(
                self._arrow, field.type.value_type
            ):
                self._joints = field.name, first[field.name] or []
        expanded: list[str] = []
        for field in self._schema:
            if field.name not in first or _is_text(self._arrow, field.type.value_type):
                expanded.append(_join_levels(field.name))
                continue
            count = len(first[field.name] or [])
            labels = [f"{field.name}.{k}" for k in range(count)]
            signal = field.name.rpartition("/")[2]
            if signal in SIGNALS and count == len(self._joints[1]):
                labels = [f"{signal}.{joint}" for joint in self._joints[1]]
            self._list_elements |= {label: (field.name, k) for k, label in enumerate(labels)}
            expanded += labels
        _require_few_columns(self._path, len(expanded))
        return expanded

    @property
    def list_names(self) -> dict[str, int]:
        """Columns of lists that name no joints, and the numbers in each row."""
        return {
            column: 1 + k
            for name, (column, k) in self._list_elements.items()
            if not parse_column(name)[0]
        }

    def _file_column(self, name: str) -> str:
        """Return the column of the file that contains a column."""
        return self._list_elements.get(name, (self._file_names.get(name, name), 0))[0]

    def _select(self, table: Any, name: str) -> Any:
        """Return a column of a table or batch of the file."""
        column = table.column(self._file_column(name))
        if name not in self._list_elements:
            return column
        try:
            return self._arrow.compute.list_element(column, self._list_elements[name][1])
        except self._arrow.ArrowException as error:
            raise ValueError(
                f"the column {self._file_column(name)!r}: expected lists of one length: {error}"
            ) from None

    def _check_joints(self, table: Any) -> None:
        """Raise a ValueError if a row names other joints than the first row."""
        name, joints = self._joints
        texts = table.column(name).to_pylist() if name in table.schema.names else []
        if other := next((text for text in texts if text != joints), None):
            raise ValueError(
                f"the column {name!r}: expected {list_names(joints)} in each row, got "
                f"{list_names(other)}; write a column for each joint, such as 'position.elbow'"
            )

    def _file_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the file that columns are read from, with the names of joints."""
        columns = dict.fromkeys(map(self._file_column, names))
        if any(parse_column(name)[0] and name in self._list_elements for name in names):
            columns[self._joints[0]] = None
        return list(columns)

    def fill_arrays(self, names: Sequence[str], arrays: Sequence[Array]) -> None:
        """Read whole columns, one after the other to save memory."""
        for name, values in zip(names, arrays):
            for start, column in self._column_batches(name):
                _require_numbers(self._arrow, name, column)
                values[start : start + len(column)] = self._values(column)
        self._arrow.default_memory_pool().release_unused()

    def _column_batches(self, name: str) -> Iterator[tuple[int, Any]]:
        """Yield a column in batches, each with its first row."""
        start = 0
        for batch in self._iterate_batches(self._file_columns([name]), self._block_rows):
            self._check_joints(batch)
            yield start, self._select(batch, name)
            start += len(batch)

    def has_dates(self, name: str) -> bool:
        """Return True if a column contains dates or durations, also as text."""
        if name not in self._has_dates:
            self._has_dates[name] = name in self._file_names and self._find_dates(name)
        return self._has_dates[name]

    def _find_dates(self, name: str) -> bool:
        """Return True if a column has a type of dates, or its first text is one."""
        kind = self._type(name)
        if not _is_text(self._arrow, kind):
            return bool(self._arrow.types.is_temporal(kind))
        _, column = next(self._column_batches(name), (0, None))
        texts = () if column is None else column.slice(0, _HEAD_LINES).to_pylist()
        return is_time(str(next(filter(None, texts), "")))

    def is_integer(self, name: str) -> bool:
        """Return True if a column contains integers."""
        return name in self._file_names and bool(self._arrow.types.is_integer(self._type(name)))

    def _type(self, name: str) -> Any:
        """Return the type of a column of the file."""
        return self._schema.field(self._file_names[name]).type

    @cached_property
    def blank_names(self) -> frozenset[str]:
        """Columns of signals without any number."""
        candidates = {
            file_name: name
            for name, file_name in self._file_names.items()
            if len(self) and parse_column(name)[0]
        }
        for group in self._row_groups:
            for column in group.columns if candidates else ():
                if column.has_range:
                    candidates.pop(column.path, None)
        return frozenset(filter(self._is_blank, candidates.values()))

    def _is_blank(self, name: str) -> bool:
        """Return True if a column contains no number."""
        kinds, kind = self._arrow.types, self._type(name)
        if kinds.is_null(kind):
            return True
        return bool(kinds.is_floating(kind) or kinds.is_integer(kind)) and all(
            np.isnan(self._values(column).astype(float)).all()
            for _, column in self._column_batches(name)
        )

    def read_dates(self, name: str) -> Dates:
        """Return a column of dates, durations, or texts of them; NaT for empty cells."""
        dates = [_to_dates(self._arrow, column) for _, column in self._column_batches(name)]
        return np.concatenate([np.zeros(0, "M8[ns]"), *dates])

    def _values(self, column: Any) -> NDArray[Any]:
        """Return a column, if possible without a copy; `to_numpy` imports pandas if it can."""
        if not column.null_count and not self._arrow.types.is_boolean(column.type):
            return np.from_dlpack(column)
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

    def blocks(self) -> Iterator[tuple[Place, int]]:
        """Yield places of rows in row groups, and their approximate sizes [bytes]."""
        for group, row_group in enumerate(self._row_groups):
            for start in range(0, row_group.row_count, self._block_rows):
                count = min(self._block_rows, row_group.row_count - start)
                yield (group, start, count), count * len(self.names) * 8

    def read_block(
        self, place: Place, columns: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """Return columns of a block, and no problems; consecutive blocks are decoded once."""
        group, start, _ = place
        if (group, tuple(columns)) != self._decoded_columns or start != self._next_row:
            self._batches = self._iterate_batches(
                self._file_columns(columns), self._block_rows, [group]
            )
            self._decoded_columns, self._next_row = (group, tuple(columns)), 0
        while self._next_row <= start:
            batch = next(self._batches, None)
            if batch is None:
                raise ValueError(f"row group {group} has fewer rows than the file states")
            self._next_row += len(batch)
        table = self._arrow.Table.from_batches([batch])
        self._check_joints(table)
        date_names = [name for name in columns[:1] if self.has_dates(name)]
        return _column_arrays(
            self._arrow, {name: self._select(table, name) for name in columns}, [STAMP], date_names
        ), []


# --- memory


class MemoryTable:
    """Columns in memory."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names = list(columns)
        self._columns = {name: _to_array(values) for name, values in columns.items()}
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

    def has_dates(self, name: str) -> bool:
        """Return True if a column contains dates or durations, also as text."""
        column = self._columns[name]
        if column.dtype.kind in "mM":
            return True
        return column.dtype.kind in "OUST" and is_time(str(next(iter(column.tolist()), "")))

    def is_integer(self, name: str) -> bool:
        """Return True if a column contains integers."""
        return self._columns[name].dtype.kind in "iu"

    @cached_property
    def blank_names(self) -> frozenset[str]:
        """Columns of signals without any number."""
        return frozenset(
            name
            for name, column in self._columns.items()
            if parse_column(name)[0]
            and len(column)
            and column.dtype.kind == "f"
            and np.isnan(column[0])
            and np.isnan(column).all()
        )

    def read_dates(self, name: str) -> Dates:
        """Return a column of dates or durations; NaT for empty cells."""
        column = self._columns[name]
        if column.dtype.kind == "M":
            return column.astype("M8[ns]")
        if column.dtype.kind == "m":
            return column.astype("m8[ns]").view("M8[ns]")
        return parse_times(column.tolist())


def _to_array(values: Any) -> NDArray[Any]:
    """Return a column in memory as an array; missing numbers are NaN."""
    if isinstance(values, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(values), np.nan, values.data)
    zone = getattr(getattr(values, "dtype", None), "tz", None)
    if zone is not None:  # dates of pandas; numpy has none with a time zone
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    array = np.asarray(values)
    if array.dtype != object:
        return array
    try:
        return np.array([_to_float(value) for value in array.ravel()]).reshape(array.shape)
    except (TypeError, ValueError):
        return array


def _to_float(value: Any) -> float:
    """Return a number, or NaN for None and pandas.NA; raise a TypeError for other objects."""
    if value is None or type(value).__name__ == "NAType":
        return np.nan
    if isinstance(value, (int, float, np.number)):
        return float(value)
    raise TypeError


def _frame_columns(frame: Any) -> Mapping[str, Any] | None:
    """Return the columns of a table of pandas, polars or pyarrow, by name; None for others.

    An index of pandas that states times is the column "time".
    """
    if hasattr(frame, "column_names") and hasattr(frame, "column"):
        return {name: _arrow_column(frame.column(name)) for name in frame.column_names}
    if not (hasattr(frame, "columns") and hasattr(frame, "shape")):
        return None
    columns = {_join_levels(name): frame[name] for name in frame.columns}
    index = getattr(frame, "index", None)
    kind = getattr(getattr(index, "dtype", None), "kind", "")
    if index is not None and (kind in "mM" if kind else False) and "time" not in columns:
        return {"time": index.to_series(), **columns}
    if index is not None and isinstance(index.name, str) and index.name not in columns:
        return {index.name: index.to_series(), **columns}
    return columns


def _join_levels(name: Any) -> Any:
    """Return the name of a column with several levels in pandas, joined by dots; others as given.

    In Parquet, such names are the text of a tuple.
    """
    levels = name
    if isinstance(name, str) and name.startswith("(") and name.endswith(")"):
        try:
            levels = ast.literal_eval(name)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # also of hostile names
            return name
    if not isinstance(levels, tuple) or not all(isinstance(level, str) for level in levels):
        return name
    return ".".join(filter(None, levels))


def _arrow_column(column: Any) -> Any:
    """Return a column of pyarrow as an array, of dates if it contains dates."""
    arrow = import_pyarrow()
    if arrow.types.is_temporal(column.type):
        return _to_dates(arrow, column)
    return column.to_numpy()
