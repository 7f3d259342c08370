# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Quantities, the names of their columns, and the tables that they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

QUANTITIES = (
    "state",
    "gravity",
    "nle",
    "torque",
    "residual",
    "external",
    "contacts",
    "centroidal",
    "energy",
    "power",
)
"""The names of all quantities, in the order of their columns."""

REQUIREMENTS = {
    "nle": "velocities",
    "torque": "velocities",
    "residual": "velocities and efforts",
    "external": "velocities and efforts",
    "contacts": "velocities and efforts",
    "power": "velocities and efforts",
}
"""What a recording has to contain, in addition to positions."""

AXES = "x", "y", "z"
INERTIA = "ixx", "ixy", "ixz", "iyy", "iyz", "izz"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of numbers, a row for each state."""

    columns: dict[str, Any]  # "time" [s] and "stamp" [ns], since 1970, then the others
    log_time: Any  # when the message was recorded that completed a state [ns]
    units: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # of velocities and efforts
    position_names: list[str] = field(default_factory=list)
    frame: str = ""  # of torques, as in messages
    world: str = ""  # of positions in the world
    base: str = ""  # "floating" or "planar", if it moves and is selected
    contacts: list[Any] = field(default_factory=list)  # if they were computed

    def __len__(self) -> int:
        return len(self.log_time)

    def take(self, rows: Any) -> Table:
        return replace(
            self,
            log_time=self.log_time[rows],
            columns={name: values[rows] for name, values in self.columns.items()},
        )


def known_quantities(names: Iterable[str]) -> tuple[str, ...]:
    """The quantities in the order of their columns, each once; a ValueError for unknown ones."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in QUANTITIES]
    if unknown or not wanted:
        raise ValueError(
            f"quantities: expected some of {', '.join(QUANTITIES)}; got "
            + (", ".join(map(repr, unknown)) or "none")
        )
    return tuple(name for name in QUANTITIES if name in wanted)
