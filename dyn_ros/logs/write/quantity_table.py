# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names of the quantities and their columns, and the table that contains them."""

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
"""Signals that a recording has to contain in addition to positions, by quantity."""

AXES = "x", "y", "z"
INERTIA = "ixx", "ixy", "ixz", "iyy", "iyz", "izz"


@dataclass(frozen=True, eq=False)
class Table:
    """Quantities in columns, with a row for each state.

    Attributes
    ----------
    columns : dict of str to (n,) array
        "time" [s] and "stamp" [ns], since 1970, then the columns of the quantities.
    log_time : (n,) array
        Time at which the message that completed the state was recorded [ns].
    units : dict of str to str
        Unit of each column.
    names, position_names : list of str
        Names of the selected velocities and efforts, and of the selected positions.
    frame, world : str
        Frame of messages with efforts, and fixed frame of messages with positions in the world.
    base : str
        "floating" or "planar" if the base moves and is selected; otherwise empty.
    contacts : list of ContactInterval
        Contacts in these states; empty unless they were computed.
    """

    columns: dict[str, Any]
    log_time: Any
    units: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    position_names: list[str] = field(default_factory=list)
    frame: str = ""
    world: str = ""
    base: str = ""
    contacts: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.log_time)

    def take(self, rows: Any) -> Table:
        """Return the table of some rows, by indices, a mask or a slice."""
        return replace(
            self,
            log_time=self.log_time[rows],
            columns={name: values[rows] for name, values in self.columns.items()},
        )


def order_quantities(names: Iterable[str]) -> tuple[str, ...]:
    """Return the named quantities in the order of their columns, each once.

    Raise a ValueError if there are none, or for a name that is not a quantity.
    """
    requested = list(names)
    unknown = [name for name in requested if name not in QUANTITIES]
    if unknown or not requested:
        raise ValueError(
            f"quantities: expected some of {', '.join(QUANTITIES)}; got "
            + (", ".join(map(repr, unknown)) or "none")
        )
    return tuple(name for name in QUANTITIES if name in requested)
