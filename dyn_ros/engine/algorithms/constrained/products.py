# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices in a workspace, in blocks of six rows and three vectors of columns."""

from ...kernel.vocabulary import *


@kernel
def load_six(r, A, j, i):
    """Return numbers i to i + 5 of row j. Reads A."""
    k, d = A.start + A.step * j + A.across * i, A.across
    return (
        load(r.work, k),
        load(r.work, k + d),
        load(r.work, k + 2 * d),
        load(r.work, k + 3 * d),
        load(r.work, k + 4 * d),
        load(r.work, k + 5 * d),
    )


@kernel
def add_six(total, a, x):
    """Return total + a x, for six numbers each."""
    return (
        total[0] + a[0] * x,
        total[1] + a[1] * x,
        total[2] + a[2] * x,
        total[3] + a[3] * x,
        total[4] + a[4] * x,
        total[5] + a[5] * x,
    )


@kernel
def scale_six(s, x):
    """Return s x, for six numbers."""
    return s * x[0], s * x[1], s * x[2], s * x[3], s * x[4], s * x[5]


@kernel
def store_six(r, C, s, x, i, rows, k, count):
    """Store s x in a vector of columns of rows i to i + 5. Writes C."""
    for t in range(6):
        if i + t < rows:
            store_simd(r.work, C.start + C.step * (i + t) + C.across * k, count, s * x[t])


@kernel
def zero_six(r, C):
    """Return six zeros of the type of the numbers of C. Reads C."""
    zero = lift(0.0, load_simd(r.work, C.start, 1))
    return zero, zero, zero, zero, zero, zero


@kernel
def add_block(r, x, A, B, inner, i, k, count):
    """Return x plus rows i to i + 5 of A' B, in a vector of columns. Reads A, B."""
    for j in range(inner):
        x = add_six(x, load_six(r, A, j, i), load_simd(r.work, B.start + B.step * j + k, count))
    return x


@kernel
def add_blocks(r, x, y, z, A, B, inner, i, k, count):
    """Return x, y and z plus rows i to i + 5 of A' B, in three vectors of columns. Reads A, B."""
    width = simd_width(r.work)
    for j in range(inner):
        a, b = load_six(r, A, j, i), B.start + B.step * j + k
        x = add_six(x, a, load_simd(r.work, b, count))
        y = add_six(y, a, load_simd(r.work, b + width, count - width))
        z = add_six(z, a, load_simd(r.work, b + 2 * width, count - 2 * width))
    return x, y, z


@kernel
def combine(r, C, s, A, B, inner, s2, A2, B2, inner2, rows, columns):
    """Set C to s A' B + s2 A2' B2, with s and s2 of 1 or -1.

    A is inner x rows, B is inner x columns; kernels may read five numbers behind A and A2, and two
    vectors behind B and B2.

    Reads A, A2, B, B2; writes C.
    """
    width, t = simd_width(r.work), s * s2
    for i in range(0, rows, 6):
        for k in range(0, columns, 3 * width):
            count, x = columns - k, zero_six(r, C)
            if count > width:
                x, y, z = add_blocks(r, x, x, x, A, B, inner, i, k, count)
                x, y, z = add_blocks(
                    r,
                    scale_six(t, x),
                    scale_six(t, y),
                    scale_six(t, z),
                    A2,
                    B2,
                    inner2,
                    i,
                    k,
                    count,
                )
                store_six(r, C, s2, y, i, rows, k + width, count - width)
                if count > 2 * width:
                    store_six(r, C, s2, z, i, rows, k + 2 * width, count - 2 * width)
            else:
                x = add_block(r, x, A, B, inner, i, k, count)
                x = add_block(r, scale_six(t, x), A2, B2, inner2, i, k, count)
            store_six(r, C, s2, x, i, rows, k, count)


@kernel
def multiply(r, C, s, A, B, rows, inner, columns):
    """Set C to s A' B. Reads A, B; writes C."""
    combine(r, C, 1.0, A, B, 0, s, A, B, inner, rows, columns)
