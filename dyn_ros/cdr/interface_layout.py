# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Layouts of control_msgs/DynamicJointState: where its values belong in joint states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..engine.kernel.types import Array

EFFORT_INTERFACES = ("torque", "force", "effort", "current")
"""Interfaces that are read as effort; the first one that a joint has counts."""

_NO_DESTINATION = -1  # for a value that joint states do not contain


@dataclass(frozen=True)
class InterfaceLayout:
    """The names in messages whose values are at the same places, as bytes in UTF-8.

    An entry is a joint if it has the interface "position"; others, such as sensors, are ignored.
    """

    entry_names: tuple[bytes, ...]
    interface_names: tuple[tuple[bytes, ...], ...]  # a tuple for each entry

    @cached_property
    def joints(self) -> tuple[int, ...]:
        """Indices of the entries that are joints."""
        return tuple(k for k, names in enumerate(self.interface_names) if b"position" in names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the joints."""
        return tuple(
            self.entry_names[k].split(b"\0")[0].decode("utf-8", "replace") for k in self.joints
        )

    @property
    def distinct_interfaces(self) -> tuple[str, ...]:
        """The names of the interfaces of all entries, each once."""
        names = dict.fromkeys(name for entry in self.interface_names for name in entry)
        return tuple(name.split(b"\0")[0].decode("utf-8", "replace") for name in names)

    @cached_property
    def effort_interfaces(self) -> tuple[str, ...]:
        """The interface of each joint that is read as its effort, or an empty string."""
        return tuple(
            next(
                (name for name in EFFORT_INTERFACES if name.encode() in self.interface_names[k]),
                "",
            )
            for k in self.joints
        )

    @cached_property
    def destinations(self) -> tuple[tuple[int, ...], ...]:
        """Index of each value of each entry in the numbers of joint states, or -1.

        The numbers are the positions of all joints, their velocities, and their efforts.
        """
        count = len(self.joints)
        destinations = [[_NO_DESTINATION] * len(names) for names in self.interface_names]
        for place, (k, effort) in enumerate(zip(self.joints, self.effort_interfaces)):
            for field, interface in enumerate(("position", "velocity", effort)):
                if interface.encode() in self.interface_names[k]:
                    column = self.interface_names[k].index(interface.encode())
                    destinations[k][column] = field * count + place
        return tuple(map(tuple, destinations))

    def fields(self, values: Sequence[Sequence[float] | Array]) -> tuple[list[float], ...]:
        """Return positions, velocities and efforts from the values of all entries; NaN: unknown."""
        count = len(self.joints)
        numbers = [float("nan")] * (3 * count)
        for entry_destinations, entry_values in zip(self.destinations, values):
            for destination, value in zip(entry_destinations, entry_values):
                if destination != _NO_DESTINATION:
                    numbers[destination] = value
        return numbers[:count], numbers[count : 2 * count], numbers[2 * count :]

    def to_bytes(self) -> bytes:
        """Return the layout for compiled code, see `read_layout`."""
        parts = [_pack_integers(len(self.joints)), _pack_strings(self.entry_names)]
        for names, destinations in zip(self.interface_names, self.destinations):
            parts += [_pack_strings(names), _pack_integers(*destinations)]
        return b"".join(parts)


def _pack_integers(*numbers: int) -> bytes:
    """Return integers of eight bytes."""
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def _pack_strings(strings: Sequence[bytes]) -> bytes:
    """Return the number of strings, their size [bytes], and each string behind its length."""
    content = b"".join(_pack_integers(len(string)) + string for string in strings)
    return _pack_integers(len(strings), len(content)) + content
