# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the numbers in serialized messages, for readers that know their layout."""
from __future__ import annotations

import struct
from typing import Any

from rclpy.serialization import deserialize_message

HEADER = 4              # bytes before the body: the encapsulation; the body is aligned to 8
PLAIN = b"\0\1\0\0"     # encapsulation of plain CDR, little endian, without options
MAX_LAYOUTS = 32        # bounds the memory and the search if a publisher never repeats its names
_COUNT = struct.Struct("<I")


def deserialized(data: bytes, kind: Any, name: str) -> Any:
    """Return a message of a type and its name, as rclpy reads it; raise a ValueError if not."""
    try:
        return deserialize_message(data, kind)
    except Exception as error:          # whatever an RMW implementation raises
        raise ValueError(f"cannot deserialize {len(data)} bytes ({data[:16].hex(' ')} ...) as "
                         f"{name}: its publisher may use another version of this type "
                         f"({error})") from error


class Parser:
    """Walks through a serialized message; raises struct.error if the data ends before.

    Parameters
    ----------
    data : bytes
        Plain CDR, little endian.
    """

    def __init__(self, data: bytes) -> None:
        self._form = [f"<{HEADER}s"]
        self._data = data
        self._at = HEADER
        self.spans = [(0, HEADER)]      # where the constant bytes start and stop

    def layout(self) -> struct.Struct:
        """Return the struct whose values are the constant bytes up to here."""
        return struct.Struct("".join(self._form))

    def variable(self, size: int, alignment: int) -> int:
        """Bytes that may differ between messages of a layout; return where they start."""
        return self._advance("x", size, alignment)

    def constant(self, size: int, alignment: int = 1) -> int:
        """Bytes that are the same in all messages of a layout; return where they start."""
        start = self._advance("s", size, alignment)
        self.spans.append((start, start + size))
        return start

    def count(self) -> int:
        """The length of a sequence."""
        return int(_COUNT.unpack_from(self._data, self.constant(_COUNT.size, 4))[0])

    def constants(self, size: int = 1) -> None:
        """A string, or a sequence of elements of this size in bytes, with its length."""
        start = self._at + (HEADER - self._at) % _COUNT.size
        count = int(_COUNT.unpack_from(self._data, start)[0])
        self.constant(_COUNT.size + size * count, _COUNT.size)

    def variables(self, size: int, alignment: int) -> tuple[int, int]:
        """A sequence of numbers, with its length; return where its elements start and stop.

        Its elements have a size in bytes; their numbers are aligned.
        """
        used = size * self.count()
        if not used:
            return self._at, self._at
        start = self.variable(used, alignment)
        return start, start + used

    def _advance(self, code: str, size: int, alignment: int) -> int:
        padding = (HEADER - self._at) % alignment
        start = self._at + padding
        self._at = start + size
        self._form.append(f"{padding}x{size}{code}")
        return start

