# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A summary of the columns of many tables, which can be added."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine.kernel.types import Array
from .quantity_table import Table

if TYPE_CHECKING:
    from rich.table import Table as Printed

_LEFT_OUT = "time", "stamp"


@dataclass(frozen=True)
class Column:
    """What is known about the numbers of a column without NaN; ``square`` is the sum of squares."""

    count: int
    square: float
    lowest: float
    highest: float
    unit: str = ""

    @property
    def rms(self) -> float:
        """Root of the mean square; NaN without numbers."""
        return float(np.sqrt(self.square / self.count)) if self.count else float("nan")

    def __add__(self, other: Column) -> Column:
        return Column(
            self.count + other.count,
            self.square + other.square,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            self.unit or other.unit,
        )


def column(values: Array, unit: str = "") -> Column:
    known = values[~np.isnan(values)]
    return Column(
        len(known),
        float(known @ known),
        float(known.min(initial=np.inf)),
        float(known.max(initial=-np.inf)),
        unit,
    )


@dataclass
class Summary:
    """A summary of tables; the sum of two summaries covers all their tables.

    ``seconds`` are those from the first to the last state of each table.
    """

    rows: int = 0
    seconds: float = 0.0
    columns: dict[str, Column] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table) -> Summary:
        stamp = table.columns["stamp"]
        seconds = 1e-9 * float(stamp.max() - stamp.min()) if len(stamp) else 0.0
        return cls(
            len(table),
            seconds,
            {
                name: column(values, table.units.get(name, ""))
                for name, values in table.columns.items()
                if name not in _LEFT_OUT
            },
        )

    def __add__(self, other: Summary) -> Summary:
        columns = dict(self.columns)
        for name, one in other.columns.items():
            columns[name] = columns[name] + one if name in columns else one
        return Summary(self.rows + other.rows, self.seconds + other.seconds, columns)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "seconds": self.seconds,
            "columns": {
                name: astuple(one) if one.count else (0, 0.0, None, None, one.unit)
                for name, one in self.columns.items()
            },
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Summary:
        return cls(
            content["rows"],
            content["seconds"],
            {
                name: Column(count, *numbers) if count else column(np.zeros(0), numbers[-1])
                for name, (count, *numbers) in content["columns"].items()
            },
        )

    def printed(self) -> Printed:
        from rich import box
        from rich.markup import escape
        from rich.table import Column as Cells
        from rich.table import Table as Printed

        table = Printed(
            Cells("column", overflow="fold"),
            *(
                Cells(name, justify="right", no_wrap=True)
                for name in ("known", "RMS", "lowest", "highest")
            ),
            "unit",
            box=box.SIMPLE_HEAD,
        )
        for name, one in self.columns.items():
            share = f"{100.0 * one.count / self.rows:.1f} %" if self.rows else ""
            numbers = [f"{number:.4g}" for number in (one.rms, one.lowest, one.highest)]
            table.add_row(escape(name), share, *(numbers if one.count else [""] * 3), one.unit)
        return table
