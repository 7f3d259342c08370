# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Summaries of the columns of tables; the sum of two summaries covers both tables."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine.kernel.types import Array
from .quantity_table import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_TIME_COLUMNS = "time", "stamp"


@dataclass(frozen=True)
class ColumnSummary:
    """Statistics of the numbers of a column that are not NaN."""

    count: int
    sum_of_squares: float
    lowest: float
    highest: float
    unit: str = ""

    @property
    def rms(self) -> float:
        """Root of the mean square; NaN without numbers."""
        return float(np.sqrt(self.sum_of_squares / self.count)) if self.count else float("nan")

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        return ColumnSummary(
            self.count + other.count,
            self.sum_of_squares + other.sum_of_squares,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.unit or other.unit,
        )


def summarize_column(values: Array, unit: str = "") -> ColumnSummary:
    """Return the statistics of the numbers of a column; NaN do not count."""
    numbers = values[~np.isnan(values)]
    return ColumnSummary(
        len(numbers),
        float(numbers @ numbers),
        float(numbers.min(initial=np.inf)),
        float(numbers.max(initial=-np.inf)),
        unit,
    )


@dataclass
class Summary:
    """A summary of one or several tables."""

    rows: int = 0
    seconds: float = 0.0  # sum of the times from the first to the last state of each table
    columns: dict[str, ColumnSummary] = field(default_factory=dict)

    @classmethod
    def of_table(cls, table: Table) -> Summary:
        """Return the summary of a table."""
        stamp = table.columns["stamp"]
        seconds = 1e-9 * float(stamp.max() - stamp.min()) if len(stamp) else 0.0
        return cls(
            len(table),
            seconds,
            {
                name: summarize_column(values, table.units.get(name, ""))
                for name, values in table.columns.items()
                if name not in _TIME_COLUMNS
            },
        )

    def __add__(self, other: Summary) -> Summary:
        columns = dict(self.columns)
        for name, summary in other.columns.items():
            columns[name] = columns[name] + summary if name in columns else summary
        return Summary(self.rows + other.rows, self.seconds + other.seconds, columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON can represent it, without infinity."""
        return {
            "rows": self.rows,
            "seconds": self.seconds,
            "columns": {
                name: astuple(summary) if summary.count else (0, 0.0, None, None, summary.unit)
                for name, summary in self.columns.items()
            },
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Summary:
        """Return the summary from which ``to_dict`` made a dictionary."""
        return cls(
            content["rows"],
            content["seconds"],
            {
                name: ColumnSummary(count, *values)
                if count
                else summarize_column(np.zeros(0), unit=values[-1])
                for name, (count, *values) in content["columns"].items()
            },
        )

    def to_rich(self) -> RichTable:
        """Return a table for a terminal."""
        from rich import box
        from rich.markup import escape
        from rich.table import Column as RichColumn
        from rich.table import Table as RichTable

        table = RichTable(
            RichColumn("column", overflow="fold"),
            *(
                RichColumn(name, justify="right", no_wrap=True)
                for name in ("known", "RMS", "lowest", "highest")
            ),
            "unit",
            box=box.SIMPLE_HEAD,
        )
        for name, column in self.columns.items():
            fraction = f"{100.0 * column.count / self.rows:.1f} %" if self.rows else ""
            numbers = [""] * 3
            if column.count:
                numbers = [f"{value:.4g}" for value in (column.rms, column.lowest, column.highest)]
            table.add_row(escape(name), fraction, *numbers, column.unit)
        return table
