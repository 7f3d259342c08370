# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices in a workspace, in blocks of six rows and three SIMD vectors."""

from ...kernel.vocabulary import *


@kernel
def multiply_add6(total, a, x):
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
def scale6(s, x):
    """Return s x, for six numbers."""
    return s * x[0], s * x[1], s * x[2], s * x[3], s * x[4], s * x[5]


@kernel
def store_six_rows(r, C, s, x, i, rows, k, count):
    """Store s x in rows i to i + 5 of C, in a vector of columns from k on. Writes C."""
    for t in range(6):
        if i + t < rows:
            set_elements(r, columns_from(C, k), i + t, 0, count, s * x[t])


@kernel
def zero6(r, C):
    """Return six zeros of the type of the numbers of C. Reads C."""
    zero = lift(0.0, elements(r, C, 0, 0, 1))
    return zero, zero, zero, zero, zero, zero


@kernel
def add_product_block(r, x, A, B, inner, i, k, count):
    """Return x plus rows i to i + 5 of A' B, in a vector of columns from k on.

        x_i = x_i + sum of A_ji B_jk over j < inner     count: columns of B from k on

    Reads A, B.
    """
    for j in range(inner):
        x = multiply_add6(x, elements6(r, A, j, i), elements(r, B, j, k, count))
    return x


@kernel
def add_product_blocks(r, x, y, z, A, B, inner, i, k, count):
    """Return x, y and z plus rows i to i + 5 of A' B, in three vectors of columns from k on.

    ``count`` columns of B are left from k on. With a width of 1, y and z are read even if fewer
    columns are left; sum_of_transpose_times does not store them.

    Reads A, B.
    """
    width = simd_width(r.work)
    for j in range(inner):
        a = elements6(r, A, j, i)
        x = multiply_add6(x, a, elements(r, B, j, k, count))
        y = multiply_add6(y, a, elements(r, B, j, k + width, count - width))
        z = multiply_add6(z, a, elements(r, B, j, k + 2 * width, count - 2 * width))
    return x, y, z


@kernel
def sum_of_transpose_times(r, C, s, A, B, inner, s2, A2, B2, inner2, rows, columns):
    """Set C to a sum of two products of transposed matrices, with s and s2 of 1 or -1.

        C = s A' B + s2 A2' B2

    A is inner x rows, B is inner x columns; A2 and B2 have inner2 rows. Up to five numbers behind A
    and A2 are read, and two vectors behind B and B2.

    Reads A, A2, B, B2; writes C.
    """
    width, t = simd_width(r.work), s * s2  # C = s2 (t A' B + A2' B2)
    for i in range(0, rows, 6):
        for k in range(0, columns, 3 * width):
            count, x = columns - k, zero6(r, C)
            if count > width:
                x, y, z = add_product_blocks(r, x, x, x, A, B, inner, i, k, count)
                x, y, z = scale6(t, x), scale6(t, y), scale6(t, z)
                x, y, z = add_product_blocks(r, x, y, z, A2, B2, inner2, i, k, count)
                store_six_rows(r, C, s2, y, i, rows, k + width, count - width)
                if count > 2 * width:
                    store_six_rows(r, C, s2, z, i, rows, k + 2 * width, count - 2 * width)
            else:
                x = add_product_block(r, x, A, B, inner, i, k, count)
                x = add_product_block(r, scale6(t, x), A2, B2, inner2, i, k, count)
            store_six_rows(r, C, s2, x, i, rows, k, count)


@kernel
def transpose_times(r, C, s, A, B, rows, inner, columns):
    """Set C to the product of a transposed matrix and a matrix; s is any number.

        C = s A' B                          A: inner x rows, B: inner x columns

    Reads A, B; writes C.
    """
    sum_of_transpose_times(r, C, 1.0, A, B, 0, s, A, B, inner, rows, columns)
