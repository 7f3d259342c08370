# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Lists of joint names that compiled code recognizes in serialized messages."""
from __future__ import annotations

import numpy as np


class KnownNames:
    """Lists of joint names by number, and their bytes as `decode_message` compares them.

    Attributes
    ----------
    layouts : list of tuple of str
    children : tuple of str
        The child frame of odometry, which has been checked.
    strings : ndarray of uint8
        The names, each after its length.
    lists : (n, 4) ndarray of int64
        Kind, number of names, where they start in `strings`, number of the list.
    """

    children = ("",)

    def __init__(self) -> None:
        self.layouts: list[tuple[str, ...]] = []
        self.strings, self.lists = np.zeros(0, np.uint8), np.zeros((0, 4), np.int64)
        self._numbers: dict[tuple[str, ...], int] = {}

    def get(self, names: tuple[str, ...]) -> int | None:
        """Return the number of a list, or None if it is new."""
        return self._numbers.get(names)

    def add(self, names: tuple[str, ...]) -> int:
        """Add a new list; return its number."""
        number = self._numbers[names] = len(self.layouts)
        self.layouts.append(names)
        strings = [name.encode("utf-8", "surrogatepass") for name in names]
        content = b"".join(len(each).to_bytes(8, "little") + each for each in strings)
        row = [0, len(names), len(self.strings), number]
        self.lists = np.concatenate([self.lists, np.array([row], np.int64)])
        self.strings = np.concatenate([self.strings, np.frombuffer(content, np.uint8)])
        return number
