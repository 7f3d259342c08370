# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The columns of a recording of one robot in a table, by the names of its joints."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike

import numpy as np

from ...engine.kernel.names import similar
from ...engine.kernel.types import Array
from ...engine.model.model import Model
from . import files as tables
from .files import Csv, Parquet, Table
from .renaming import renamed

_GROUP = 20000  # rows of a row group of Parquet, and of a CSV file at a time
_LISTED = 4  # missing columns in a message


class Columns:
    """The columns of a table by what they contain, such as "time" or "position.elbow".

    Some may be given, because they have other names, see ``Samples.from_table``. Without a model,
    these are the names of single columns.
    """

    def __init__(
        self,
        table: Table | Csv | Parquet,
        model: Model | None = None,
        columns: Mapping[str, str] | None = None,
        name: str = "the table",
    ) -> None:
        self._reader = tables.open_table(table, without_names=columns is not None)
        self.names = tuple(self._reader.names)
        tables.require_unique(self.names, name)
        columns = columns or {}
        self.given = renamed(model, columns, self.names) if model else dict(columns)
        others = {name: name for name in self.names if name not in self.given.values()}
        self.contents = {**self.given, **others}

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._reader)

    def read(self, *groups: Sequence[str | None]) -> list[Array]:
        """The columns of each group, (B, n), read together; zeros without a name."""
        arrays = [np.zeros((len(self._reader), len(group))) for group in groups]
        places = [
            (name, array[:, k])
            for group, array in zip(groups, arrays)
            for k, name in enumerate(group)
            if name is not None
        ]
        self._reader.fill([name for name, _ in places], [values for _, values in places])
        return arrays

    def first_time(self, names: Sequence[str] = tables.TIMES) -> str:
        """The column of time stamps that is given, or the first of the names; empty without one."""
        names = ["time"] if "time" in self.given else names
        return next((self.contents[name] for name in names if name in self.contents), "")

    def time(self) -> list[str]:
        """The name of the column of time stamps [s]; a ValueError if there is none."""
        if name := self.first_time():
            return [name]
        expected = " or ".join(map(repr, tables.TIMES))
        raise ValueError(
            f"time: there is no column {expected}, in s; the columns are "
            f"{tables.listed(self.names)}; specify another name with --columns or "
            "columns="
        )

    def signal(
        self, signal: str, owners: Sequence[str], absent: Collection[str] = ()
    ) -> list[str | None]:
        """The names of the columns of a signal; None for those in ``absent`` that are missing."""
        names = [self._column(signal, owner) for owner in owners]
        missing = [
            owner for owner, name in zip(owners, names) if name is None and owner not in absent
        ]
        if missing:
            raise ValueError(self._missing(signal, missing))
        return names

    def has(self, signal: str, owner: str) -> bool:
        """Whether there is a column of a signal."""
        return self._column(signal, owner) is not None

    def owners(self, signal: str) -> list[str]:
        """Return what the columns of a signal belong to, in their order."""
        return [owner for kind, owner in map(tables.parsed, self.contents) if kind == signal]

    def ignored(self, model: Model) -> list[str]:
        """A warning about joints that the robot does not have, if any."""
        known = known_names(model)
        others = dict.fromkeys(
            owner
            for signal in ("position", "effort")
            for owner in self.owners(signal)
            if not any(owner == name or owner.endswith("/" + name) for name in known)
        )
        return (
            [f"ignored joints of the table that the robot does not have: {', '.join(others)}"]
            if others
            else []
        )

    def _column(self, signal: str, owner: str) -> str | None:
        if f"{signal}.{owner}" in self.given:
            return self.given[f"{signal}.{owner}"]
        if f"{signal}.{owner}" in self.names:
            return f"{signal}.{owner}"
        end = f"/{owner}/{signal}"
        fitting = [name for name in self.names if ("/" + name).endswith(end)]
        if len(fitting) > 1:
            raise ValueError(
                f"several columns contain the {signal} of {owner!r}: "
                f"{tables.listed(fitting)}; rename one of them to '{signal}.{owner}'"
            )
        return fitting[0] if fitting else None

    def _missing(self, signal: str, missing: Sequence[str]) -> str:
        listed, names = [], [name for name in self.names if tables.parsed(name)[0] in ("", signal)]
        for owner in missing[:_LISTED]:
            words = [f"{signal}.{owner}", f"/{owner}/{signal}"]
            close = dict.fromkeys(name for word in words for name in similar(word, names))
            hint = f" (similar: {tables.listed(tuple(close))})" if close else ""
            listed.append(f"'{signal}.{owner}'{hint}")
        if len(missing) > _LISTED:
            listed.append(f"{len(missing) - _LISTED} more")
        return (
            f"the table lacks {len(missing)} columns of the robot: {', '.join(listed)}; its "
            f"columns are {tables.listed(self.names)}; a joint that was not recorded can be "
            "locked (--lock, model.reduced), an effort that was not measured can be 0 in all "
            "rows, and columns can have other names (--columns, columns=)"
        )


def write(path: str | PathLike[str], columns: Mapping[str, Array]) -> None:
    """Write columns (B,) to a file, CSV or Parquet by its suffix."""
    if tables.file_suffix(path) == ".parquet":
        arrow = tables.pyarrow()
        arrow.parquet.write_table(arrow.table(dict(columns)), path, row_group_size=_GROUP)
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)
        count = len(next(iter(columns.values())))
        for start in range(0, count, _GROUP):
            block = [column[start : start + _GROUP] for column in columns.values()]
            np.savetxt(file, np.transpose(block), "%.17g", ",")


def known_names(model: Model) -> set[str]:
    """The names of a robot's joints, locked ones included, and of its coordinates."""
    return {
        *model.position_names,
        *model.velocity_names,
        *model.joint_names,
        *(frame.name for frame in model.tree.frames if frame.kind != "body"),
    }


@contextmanager
def errors_of(table: Table) -> Iterator[None]:
    """Let errors begin with the name of the file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"{table}: {error}" if isinstance(table, (str, PathLike)) else error
        ) from error
