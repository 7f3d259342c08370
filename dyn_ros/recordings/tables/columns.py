# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of a table with the recording of a robot, by the names of its joints."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np

from ...engine.kernel.names import name_file, similar_names
from ...engine.kernel.types import Array
from ...engine.model.model import Model
from ...files.limits import MAX_CHUNK_SIZE
from ...files.writing import write_whole_file
from . import files as tables
from .files import CsvFile, ParquetFile, Table
from .renaming import resolve_columns
from .times import STAMP, TIMES, Clock, column_clock, named_clock

_ROW_GROUP_SIZE = 20000  # rows, in Parquet and in blocks of CSV
_MAX_LISTED_COLUMNS = 4


class Columns:
    """Columns of a table by their content, such as "time" or "position.elbow".

    Columns of signals that are blank in all rows count as absent. ``columns`` states other names of
    columns, see ``Samples.from_table``; without a model, names of single columns. Attributes:
    ``names`` of all columns, ``renamed_columns`` with other names by their content, and
    ``names_by_content`` of all columns that are not blank.
    """

    def __init__(
        self,
        table: Table | CsvFile | ParquetFile,
        model: Model | None = None,
        columns: Mapping[str, str] | None = None,
        name: str = "the table",
        max_chunk_size: float = MAX_CHUNK_SIZE,
    ) -> None:
        self._reader = tables.open_table(table, columns is not None, max_chunk_size)
        self.names = tuple(self._reader.names)
        tables.require_unique(self.names, name)
        columns = columns or {}
        self.renamed_columns = (
            resolve_columns(model, columns, self.names) if model else dict(columns)
        )
        renamed_names = self.renamed_columns.values()
        self._blank_names = self._reader.blank_names
        self.names_by_content = {
            content: name
            for content, name in (
                *self.renamed_columns.items(),
                *((name, name) for name in self.names if name not in renamed_names),
            )
            if name not in self._blank_names
        }

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._reader)

    def read(self, *groups: Sequence[str | None]) -> list[Array]:
        """Read the columns of each group (B, n) at once; columns without a name are 0."""
        if isinstance(self._reader, ParquetFile):
            self._reader.require_rows(sum(map(len, groups)))
        arrays = [np.zeros((len(self._reader), len(group))) for group in groups]
        places = [
            (name, array[:, k])
            for group, array in zip(groups, arrays)
            for k, name in enumerate(group)
            if name is not None
        ]
        self._reader.fill_arrays([name for name, _ in places], [values for _, values in places])
        return arrays

    def read_with_time(self, *groups: Sequence[str | None]) -> tuple[list[Array], Array, Clock]:
        """Read columns as `read`, the times of the rows (B,) [s], and the clock with its unit.

        Times of empty cells are NaN.
        """
        clock = self.clock
        if self.has_dates(clock):
            *arrays, cells = *self.read(*groups), [self._reader.read_dates(clock.names[0])]
        else:
            *arrays, numbers = self.read(*groups, clock.names)
            cells = list(numbers.T)
        clock = clock.with_unit_of(cells)
        return arrays, clock.to_seconds(cells), clock

    def has_dates(self, clock: Clock) -> bool:
        """Return True if the column of a clock contains dates or durations."""
        return len(clock.names) == 1 and self._reader.has_dates(clock.names[0])

    @cached_property
    def clock(self) -> Clock:
        """Columns with the times of the rows; raises a ValueError if there are none.

        The renamed one, a column of integers that is named "stamp", one of the other usual names,
        or the only column of dates.
        """
        if "time" in self.renamed_columns:
            return column_clock(self.renamed_columns["time"])
        if STAMP in self.names_by_content and self._reader.is_integer(STAMP):
            return column_clock(STAMP)
        if clock := named_clock(self.names_by_content):
            return clock
        dates = [
            name
            for name in self.names_by_content
            if not tables.parse_column(name)[0] and self._reader.has_dates(name)
        ]
        if len(dates) == 1:
            return column_clock(dates[0])
        expected = " or ".join(map(repr, TIMES[:2]))
        raise ValueError(
            f"time: there is no column {expected}, in s; the columns are "
            f"{tables.list_names(self.names)}; rename one, or specify another name with columns="
        )

    def find_columns(
        self, signal: str, owners: Sequence[str], absent: Collection[str] = ()
    ) -> list[str | None]:
        """Return the names of the columns of a signal, in the order of its owners.

        A missing column is None for owners in ``absent``; for others, raise a ValueError.
        """
        names = [self._find_column(signal, owner) for owner in owners]
        missing_owners = [
            owner for owner, name in zip(owners, names) if name is None and owner not in absent
        ]
        if missing_owners:
            raise ValueError(self._missing_columns_message(signal, missing_owners))
        return names

    def has_signal(self, signal: str, owner: str) -> bool:
        """Return True if there is a column of a signal."""
        return self._find_column(signal, owner) is not None

    def owners(self, signal: str) -> list[str]:
        """Return the owners of the columns of a signal, such as joints, in their order."""
        return [
            owner
            for kind, owner in map(tables.parse_column, self.names_by_content)
            if kind == signal
        ]

    def warn_of_unknown_joints(self, model: Model) -> list[str]:
        """Return a warning about joints that the robot does not have, in a list, or no warning."""
        robot_names = joint_and_coordinate_names(model)
        unknown_owners = dict.fromkeys(
            owner
            for signal in ("position", "effort")
            for owner in self.owners(signal)
            if not any(owner == name or owner.endswith("/" + name) for name in robot_names)
        )
        return (
            [
                "ignored joints of the table that the robot does not have: "
                f"{', '.join(unknown_owners)}"
            ]
            if unknown_owners
            else []
        )

    def _find_column(self, signal: str, owner: str) -> str | None:
        """Return the column of a signal; raise a ValueError if there are several."""
        if f"{signal}.{owner}" in self.names_by_content:
            return self.names_by_content[f"{signal}.{owner}"]
        if f"{signal}.{owner}" in self.renamed_columns:  # to a blank column
            return None
        suffix = f"/{owner}/{signal}"
        matches = [
            name
            for name in self.names
            if ("/" + name).endswith(suffix) and name not in self._blank_names
        ]
        if len(matches) > 1:
            raise ValueError(
                f"several columns contain the {signal} of {owner!r}: "
                f"{tables.list_names(matches)}; rename one of them to '{signal}.{owner}'"
            )
        return matches[0] if matches else None

    def _missing_columns_message(self, signal: str, owners: Sequence[str]) -> str:
        """Return the message about owners without a column of a signal."""
        names = [name for name in self.names if tables.parse_column(name)[0] in ("", signal)]
        descriptions = []
        for owner in owners[:_MAX_LISTED_COLUMNS]:
            expected_names = [f"{signal}.{owner}", f"/{owner}/{signal}"]
            close = dict.fromkeys(
                name for expected in expected_names for name in similar_names(expected, names)
            )
            hint = f" (similar: {tables.list_names(tuple(close))})" if close else ""
            if self._is_blank(signal, owner):
                hint = " (its column is blank)"
            descriptions.append(f"'{signal}.{owner}'{hint}")
        if len(owners) > _MAX_LISTED_COLUMNS:
            descriptions.append(f"{len(owners) - _MAX_LISTED_COLUMNS} more")
        return (
            f"the table lacks {len(owners)} columns of the robot: {', '.join(descriptions)}; its "
            f"columns are {tables.list_names(self.names)}; {self.list_remedy()}write 0 in all "
            "rows for an effort that was not measured, or specify other names of columns with "
            "columns=, or lock joints that were not recorded with lock="
        )

    def _is_blank(self, signal: str, owner: str) -> bool:
        """Return True if there is a column of a signal, without any number."""
        name = self.renamed_columns.get(f"{signal}.{owner}", f"{signal}.{owner}")
        return any(
            blank == name or ("/" + blank).endswith(f"/{owner}/{signal}")
            for blank in self._blank_names
        )

    def blank_remedy(self) -> str:
        """Return which columns are blank, for messages on missing columns; "" without any."""
        names = [name for name in self.names if name in self._blank_names]
        return f"blank columns: {tables.list_names(names)}; " if names else ""

    def list_remedy(self) -> str:
        """Return how to use columns of lists, for messages on missing columns; "" without any."""
        lists = getattr(self._reader, "list_names", {})
        return "".join(
            f"the column {name!r} contains {count} numbers in each row, which are signals of the "
            f"joints; name them with columns=, such as position={name}.{{}}; "
            for name, count in lists.items()
        )


def write_columns(path: str | PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write columns (B,) to a file, CSV or Parquet by its suffix, completely or not at all."""
    is_parquet = tables.file_suffix(path) == ".parquet"
    arrow = tables.import_pyarrow() if is_parquet else None
    with write_whole_file(path) as file:
        if arrow is not None:
            table = arrow.table(dict(columns))
            arrow.parquet.write_table(table, file, row_group_size=_ROW_GROUP_SIZE)
            return
        names = io.StringIO()
        csv.writer(names, lineterminator="\n").writerow(columns)
        file.write(names.getvalue().encode())
        count = len(next(iter(columns.values())))
        for start in range(0, count, _ROW_GROUP_SIZE):
            block = [column[start : start + _ROW_GROUP_SIZE] for column in columns.values()]
            np.savetxt(file, np.transpose(block), "%.17g", ",")


def joint_and_coordinate_names(model: Model) -> set[str]:
    """Return the names of a robot's joints, locked ones included, and of its coordinates."""
    return {
        *model.position_names,
        *model.velocity_names,
        *model.joint_names,
        *(frame.name for frame in model.tree.frames if frame.kind != "body"),
    }


@contextmanager
def name_file_in_errors(table: Table) -> Iterator[None]:
    """Prefix ValueErrors with the name of the file."""
    try:
        yield
    except ValueError as error:
        if not isinstance(table, (str, PathLike)):
            raise
        raise ValueError(name_file(Path(table), str(error))) from error
