# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Quantities, the names of their columns, and the tables that they make."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

QUANTITIES = ("state", "gravity", "nle", "torque", "residual", "external", "centroidal", "energy",
              "power")
"""The names of all quantities, in the order of their columns."""

REQUIREMENTS = {"nle": "velocities", "torque": "velocities", "residual": "velocities and efforts",
                "external": "velocities and efforts", "power": "velocities and efforts"}
"""What a recording has to contain, besides positions."""

AXES = "x", "y", "z"
INERTIA = "ixx", "ixy", "ixz", "iyy", "iyz", "izz"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of numbers, a row for each state.

    Attributes
    ----------
    columns : dict of str to (n,) ndarray
        "time" [s] and "stamp" [ns], since 1970, then a column for each number.
    log_time : (n,) ndarray of int64
        When the message was recorded that completed the state [ns].
    units : dict of str to str
        The unit of each column.
    names, position_names : list of str
        The coordinates of the selected joints: of velocities and efforts, and of positions.
    frame, world : str
        In which frame torques and positions in the world are expressed, as in messages.
    base : str
        The kind of a base that moves and is selected, "floating" or "planar"; empty: none.
    """

    columns: dict[str, Any]
    log_time: Any
    units: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    position_names: list[str] = field(default_factory=list)
    frame: str = ""
    world: str = ""
    base: str = ""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.log_time)

    def take(self, rows: Any) -> Table:
        """Return some of the rows."""
        return replace(self, log_time=self.log_time[rows], columns={
            name: values[rows] for name, values in self.columns.items()})


def known_quantities(names: Iterable[str]) -> tuple[str, ...]:
    """The quantities in the order of their columns, each once; a ValueError for unknown ones."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in QUANTITIES]
    if unknown or not wanted:
        raise ValueError(f"quantities: expected some of {', '.join(QUANTITIES)}; got "
                         + (", ".join(map(repr, unknown)) or "none"))
    return tuple(name for name in QUANTITIES if name in wanted)
