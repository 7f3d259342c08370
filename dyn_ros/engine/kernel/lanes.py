# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The operations of kernels on numbers: on a float64, or on ``LANES`` of them.

A kernel is written once, in ordinary arithmetic. Compiled for a workspace of floats, it
computes one robot state; compiled for a workspace of lanes, it computes ``LANES`` states at
once, with one vector instruction per operation. The functions here are what runs without the
compiler; ``lanes_llvm.py`` implements them in compiled code, where an array is a plain pointer. A
new operation on one state also needs an entry in ``_OPERATIONS`` of ``export/specialize/trace.py``.
"""

import ctypes
import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..machine_code import library
from ..machine_code.declare import IMPLEMENTATIONS, JIT, kernel
from ..machine_code.targets import TARGETS

IMPLEMENTATIONS.append(f"{__package__}.lanes_llvm")
LANES = TARGETS[library.target()].lanes if JIT and library.target() else 8
LANES32 = 2 * LANES  # of float32, in as many registers
SIMD_WIDTH = 8  # numbers in a vector within one state; rows are padded to it; at least LANES


def integers_at(address: int) -> Any:
    """Return a pointer to the integers at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_int64))


def floats_at(address: int) -> Any:
    """Return a pointer to the floats at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_double))


def floats32_at(address: int) -> Any:
    """Return a pointer to the floats of 32 bits at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float))


def lanes_at(address: int) -> Any:
    """Return a pointer to the rows of a workspace of lanes at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_double * LANES))


def lanes32_at(address: int) -> Any:
    """Return a pointer to the rows of a workspace of lanes of 32 bits at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float * LANES32))


def dual_numbers_at(address: int) -> Any:
    """Return a pointer to the rows of a workspace of lanes of dual numbers at an address."""
    # The digest of machine code depends on what its functions refer to, here on LANES.
    raise NotImplementedError(
        f"lanes of {LANES} dual numbers exist in compiled code only; unset NUMBA_DISABLE_JIT"
    )


def second_order_dual_numbers_at(address: int) -> Any:
    """Return a pointer to the rows of a workspace of lanes of dual numbers of order two."""
    return dual_numbers_at(address)


DUAL_NUMBERS_AT = (dual_numbers_at, second_order_dual_numbers_at)


def load(a: Any, i: int) -> Any:
    """Load number i of integers, floats or a workspace, without a bounds check."""
    return a[i]


def store(a: Any, i: int, x: Any) -> None:
    """Store number i; the counterpart of ``load``."""
    a[i] = x


def constant(a: Any, i: int) -> Any:
    """Load number i of constant data, without a bounds check."""
    return a[i]


def lift(value: float, like: Any) -> Any:
    """Convert a constant to the number type of ``like``, so that both branches of an if agree."""
    return np.float64(value) if isinstance(like, np.float64) else value


def all_above(a: Any, b: Any) -> bool:
    """Return True if a > b in every lane; false for NaN."""
    return bool(np.all(a > b))


def select_above(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x if a > b, otherwise y, for each lane."""
    return x if a > b else y


def holds_lanes(a: Any) -> bool:
    """Return True if the workspace consists of lanes, as for a batch."""
    return False


def simd_width(a: Any) -> int:
    """Return how many adjacent entries are processed together: 1 in lanes, else ``SIMD_WIDTH``."""
    return 1


def load_simd(a: Any, i: int, count: int) -> Any:
    """Return the vector of ``simd_width(a)`` numbers of a workspace from number i on.

    At most ``count`` numbers are loaded; the rest of the vector is zero. With a
    width of 1, one number is loaded for any ``count``, also for 0 or less.
    """
    return a[i]


def store_simd(a: Any, i: int, count: int, x: Any) -> None:
    """Store the first ``count`` numbers of a vector; the counterpart of ``load_simd``."""
    a[i] = x


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a b + c with a single rounding."""
    rounded = np.float64(a) * b + c
    if not np.isfinite(rounded):
        return rounded
    return np.float64(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def rint(x: Any) -> Any:
    """Return the nearest integer, as a float."""
    return np.rint(x)


def sqrt(x: Any) -> Any:
    """Return the square root."""
    return np.sqrt(x)


def fabs(x: Any) -> Any:
    """Return the absolute value."""
    return abs(x)


# --- single lanes, and tiles: squares of ``LANES`` x ``LANES`` numbers


def load_lane(a: Any, i: int, lane: int) -> Any:
    """Return number ``lane`` of row i of a workspace of lanes."""
    return a[i][lane]


def store_lane(a: Any, i: int, lane: int, x: Any) -> None:
    """Store a number; the counterpart of ``load_lane``."""
    a[i][lane] = x


def gather_tile(floats: Any, i: int, stride: int, work: Any, k: int) -> None:
    """Copy ``LANES`` floats from i, i + stride, ... to rows k ... of a workspace of lanes."""
    for lane in range(LANES):
        for n in range(LANES):
            work[k + n][lane] = floats[i + lane * stride + n]


def scatter_tile(work: Any, k: int, floats: Any, i: int, stride: int) -> None:
    """Copy rows k ... of a workspace of lanes to ``LANES`` floats at i, i + stride, ..."""
    for lane in range(LANES):
        for n in range(LANES):
            floats[i + lane * stride + n] = work[k + n][lane]


def gather_short_rows(floats: Any, i: int, columns: int, count: int, work: Any, k: int) -> None:
    """Copy ``count`` adjacent rows of floats, the last one repeated, to a workspace of lanes.

    They begin at i, have at most as many columns as there are lanes, and become columns there.
    """
    for lane in range(LANES):
        for n in range(columns):
            work[k + n][lane] = floats[i + min(lane, count - 1) * columns + n]


def scatter_short_rows(work: Any, k: int, floats: Any, i: int, columns: int, count: int) -> None:
    """Copy rows k ... of the first lanes to adjacent rows of floats; see ``gather_short_rows``."""
    for lane in range(count):
        for n in range(columns):
            floats[i + lane * columns + n] = work[k + n][lane]


def scatter_tile_past_caches(work: Any, k: int, floats: Any, i: int, stride: int) -> None:
    """Copy a tile like ``scatter_tile``, with nontemporal stores, for results beyond the caches.

    Whole cache lines only; the caller orders them before later stores.
    """
    scatter_tile(work, k, floats, i, stride)


def clear_tile_past_caches(floats: Any, i: int, stride: int) -> None:
    """Set ``LANES`` floats at i, i + stride, ... to zero with nontemporal stores."""
    for lane in range(LANES):
        for n in range(LANES):
            floats[i + lane * stride + n] = 0.0


def transpose_tile(work: Any, i: int, k: int, stride: int) -> None:
    """Copy the numbers of one lane in rows i ... of a workspace of lanes to one row.

    Those of lane n go to row k + n stride.
    """
    for lane in range(LANES):
        for n in range(LANES):
            work[k + lane * stride][n] = work[i + n][lane]


_SIN = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(1, 10))
_COS = tuple((-1) ** n / math.factorial(2 * n) for n in range(1, 11))
PI = 3.141592653589793116, 1.2246467991473532e-16  # the nearest number, and the rest
PI32 = 3.1415927410125732, -8.74227766e-08
_MAX_ANGLE = 1e14  # rad; beyond it, k may not be the nearest integer


def split_pi(like: Any) -> tuple[float, float]:
    """Return the number nearest to pi of the type of ``like``, and the rest."""
    return PI


@kernel
def sincos(x):
    """Return sin x and cos x, accurate to 2e-16, of 32 bits to 1e-7.

    x = k pi + r with |r| <= pi/2, followed by Taylor series in r^2. NaN if |x| is 1e14 or more.
    """
    pi, rest = split_pi(x)
    k = rint(x * (1.0 / PI[0]))
    r = fma(k, -rest, fma(k, -pi, x))
    r = select_above(_MAX_ANGLE * _MAX_ANGLE, x * x, r, math.nan)
    z = r * r
    s = z * _SIN[8]
    for i in range(7, -1, -1):
        s = z * (_SIN[i] + s)
    c = z * _COS[9]
    for i in range(8, -1, -1):
        c = z * (_COS[i] + c)
    half = k * 0.5
    odd = half - rint(half)  # 0 for even k, +-1/2 for odd k
    sign = 1.0 - 8.0 * (odd * odd)
    return sign * (r + r * s), sign * (1.0 + c)
