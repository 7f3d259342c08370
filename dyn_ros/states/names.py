# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Lists of joint names that compiled code recognizes in serialized messages."""
from __future__ import annotations

from ..cdr.decode import KnownLists


class KnownNames(KnownLists):
    """Lists of joint names by number; the child frame of odometry is checked before."""

    children = ("",)

    def __init__(self) -> None:
        super().__init__()
        self.layouts: list[tuple[str, ...]] = []
        self._numbers: dict[tuple[str, ...], int] = {}

    def get(self, names: tuple[str, ...]) -> int | None:
        """Return the number of a list, or None if it is new."""
        return self._numbers.get(names)

    def add(self, names: tuple[str, ...]) -> int:
        """Add a new list; return its number."""
        number = self._numbers[names] = len(self.layouts)
        self.layouts.append(names)
        self.add_list(0, number, [name.encode("utf-8", "surrogatepass") for name in names])
        return number
