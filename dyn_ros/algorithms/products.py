# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices in a workspace: six rows and two vectors of columns at a time."""
from collections import namedtuple

from ..spatial.compiler import kernel
from ..spatial.lanes import (
    all_above,
    holds_lanes,
    lift,
    load,
    load_simd,
    simd_width,
    store_simd,
)

Matrix = namedtuple("Matrix", "start step")          # offset of the first row, and between rows
ZERO = 1e-300                        # a smaller square is that of a zero


@kernel
def load_six(r, k):
    return (load(r.work, k), load(r.work, k + 1), load(r.work, k + 2), load(r.work, k + 3),
            load(r.work, k + 4), load(r.work, k + 5))


@kernel
def add_six(total, a, x):
    """total + a x, for six numbers each."""
    return (total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x,
            total[3] + a[3] * x, total[4] + a[4] * x, total[5] + a[5] * x)


@kernel
def add_block(r, x, A, B, inner, i, k, count):
    """x plus rows i to i + 5 of A' B, in a vector of columns."""
    for j in range(inner):
        x = add_six(x, load_six(r, A.start + A.step * j + i),
                    load_simd(r.work, B.start + B.step * j + k, count))
    return x


@kernel
def add_blocks(r, x, y, A, B, inner, i, k, count):
    """The same in two vectors of columns. A batch skips zeros of B."""
    for j in range(inner):
        b = B.start + B.step * j + k
        u = load_simd(r.work, b, count)
        w = load_simd(r.work, b + simd_width(r.work), count - simd_width(r.work))
        if not (holds_lanes(r.work) and all_above(ZERO, u * u + w * w)):
            a = load_six(r, A.start + A.step * j + i)
            x, y = add_six(x, a, u), add_six(y, a, w)
    return x, y


@kernel
def store_six(r, C, sign, x, i, rows, k, count):
    for t in range(6):
        if i + t < rows:
            store_simd(r.work, C.start + C.step * (i + t) + k, count, sign * x[t])


@kernel
def combine(r, C, sign, A, B, inner, A2, B2, inner2, rows, columns):
    """C <- sign (A' B + A2' B2).

    A is inner x rows, B is inner x columns; kernels may read five numbers behind A and A2.
    """
    some = simd_width(r.work)
    for i in range(0, rows, 6):
        for k in range(0, columns, 2 * some):
            count = columns - k
            zero = lift(0.0, load_simd(r.work, B.start + k, count))
            x = (zero, zero, zero, zero, zero, zero)
            if count > some:
                x, y = add_blocks(r, x, x, A, B, inner, i, k, count)
                x, y = add_blocks(r, x, y, A2, B2, inner2, i, k, count)
                store_six(r, C, sign, y, i, rows, k + some, count - some)
            else:
                x = add_block(r, x, A, B, inner, i, k, count)
                x = add_block(r, x, A2, B2, inner2, i, k, count)
            store_six(r, C, sign, x, i, rows, k, count)


@kernel
def multiply(r, C, sign, A, B, rows, inner, columns):
    """C <- sign A' B."""
    combine(r, C, sign, A, B, inner, A, B, 0, rows, columns)


@kernel
def copy_rows(r, source, target, sign, rows, columns):
    """target <- sign source."""
    for i in range(rows):
        for k in range(0, columns, simd_width(r.work)):
            x = load_simd(r.work, source.start + source.step * i + k, columns - k)
            store_simd(r.work, target.start + target.step * i + k, columns - k, sign * x)
