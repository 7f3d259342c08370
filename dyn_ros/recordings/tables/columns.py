# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of a table with the recording of a robot, by the names of its joints."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike

import numpy as np

from ...engine.kernel.names import similar_names
from ...engine.kernel.types import Array
from ...engine.model.model import Model
from . import files as tables
from .files import CsvFile, ParquetFile, Table
from .renaming import resolve_columns

_ROW_GROUP_SIZE = 20000  # rows, in Parquet and in blocks of CSV
_MAX_LISTED_COLUMNS = 4


class Columns:
    """Columns of a table by their content, such as "time" or "position.elbow".

    ``columns`` states other names of columns, see ``Samples.from_table``; without a model, names of
    single columns. Attributes: ``names`` of all columns, ``renamed_columns`` with other names by
    their content, and ``names_by_content`` of all columns.
    """

    def __init__(
        self,
        table: Table | CsvFile | ParquetFile,
        model: Model | None = None,
        columns: Mapping[str, str] | None = None,
        name: str = "the table",
    ) -> None:
        self._reader = tables.open_table(table, without_names=columns is not None)
        self.names = tuple(self._reader.names)
        tables.require_unique(self.names, name)
        columns = columns or {}
        self.renamed_columns = (
            resolve_columns(model, columns, self.names) if model else dict(columns)
        )
        renamed_names = self.renamed_columns.values()
        self.names_by_content = {
            **self.renamed_columns,
            **{name: name for name in self.names if name not in renamed_names},
        }

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._reader)

    def read(self, *groups: Sequence[str | None]) -> list[Array]:
        """Read the columns of each group (B, n) at once; columns without a name are 0."""
        arrays = [np.zeros((len(self._reader), len(group))) for group in groups]
        places = [
            (name, array[:, k])
            for group, array in zip(groups, arrays)
            for k, name in enumerate(group)
            if name is not None
        ]
        self._reader.fill_arrays([name for name, _ in places], [values for _, values in places])
        return arrays

    def find_time_name(self, names: Sequence[str] = tables.TIMES) -> str:
        """Return the column of time stamps: the renamed one or the first of ``names``; or ""."""
        names = ["time"] if "time" in self.renamed_columns else names
        return next(
            (self.names_by_content[name] for name in names if name in self.names_by_content), ""
        )

    def time_columns(self) -> list[str]:
        """Return the column of time stamps [s], in a list; raise a ValueError without one."""
        if name := self.find_time_name():
            return [name]
        expected = " or ".join(map(repr, tables.TIMES))
        raise ValueError(
            f"time: there is no column {expected}, in s; the columns are "
            f"{tables.list_names(self.names)}; specify another name with --columns or "
            "columns="
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
        if f"{signal}.{owner}" in self.renamed_columns:
            return self.renamed_columns[f"{signal}.{owner}"]
        if f"{signal}.{owner}" in self.names:
            return f"{signal}.{owner}"
        suffix = f"/{owner}/{signal}"
        matches = [name for name in self.names if ("/" + name).endswith(suffix)]
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
            descriptions.append(f"'{signal}.{owner}'{hint}")
        if len(owners) > _MAX_LISTED_COLUMNS:
            descriptions.append(f"{len(owners) - _MAX_LISTED_COLUMNS} more")
        return (
            f"the table lacks {len(owners)} columns of the robot: {', '.join(descriptions)}; its "
            f"columns are {tables.list_names(self.names)}; a joint that was not recorded can be "
            "locked (--lock, model.reduced), an effort that was not measured can be 0 in all "
            "rows, and columns can have other names (--columns, columns=)"
        )


def write_columns(path: str | PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write columns (B,) to a file, CSV or Parquet by its suffix."""
    if tables.file_suffix(path) == ".parquet":
        arrow = tables.import_pyarrow()
        arrow.parquet.write_table(arrow.table(dict(columns)), path, row_group_size=_ROW_GROUP_SIZE)
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)
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
        raise ValueError(
            f"{table}: {error}" if isinstance(table, (str, PathLike)) else error
        ) from error
