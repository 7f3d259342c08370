# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Access to serialized data in kernels: little-endian integers at any byte."""

import ctypes
from typing import Any


def bytes_at(address: int) -> Any:
    """Return a pointer to the bytes at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_uint8))


def load8(a: Any, i: int) -> int:
    """Return byte i."""
    return a[i]


def load16(a: Any, i: int) -> int:
    """Return the unsigned integer of two bytes that begins at byte i."""
    return int.from_bytes(bytes(a[i : i + 2]), "little")


def load32(a: Any, i: int) -> int:
    """Return the unsigned integer of four bytes that begins at byte i."""
    return int.from_bytes(bytes(a[i : i + 4]), "little")


def load64(a: Any, i: int) -> int:
    """Return the signed integer of eight bytes that begins at byte i."""
    return int.from_bytes(bytes(a[i : i + 8]), "little", signed=True)
