# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices in a workspace, six rows and one vector of columns at a time."""
from collections import namedtuple

from ..spatial.compiler import kernel
from ..spatial.lanes import load, load_simd, simd_width, store_simd

Matrix = namedtuple("Matrix", "start row column")    # offset, and steps between rows and columns


@kernel
def transpose(A):
    return Matrix(A.start, A.column, A.row)


@kernel
def load_six(r, A, i, rows, j):
    """Column j of rows i to i + 5; the last row is repeated."""
    k, last = A.start + A.column * j, rows - 1
    return (load(r.work, k + A.row * i), load(r.work, k + A.row * min(i + 1, last)),
            load(r.work, k + A.row * min(i + 2, last)), load(r.work, k + A.row * min(i + 3, last)),
            load(r.work, k + A.row * min(i + 4, last)), load(r.work, k + A.row * min(i + 5, last)))


@kernel
def add_six(total, a, x):
    """total + a x, for six numbers each."""
    return (total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x,
            total[3] + a[3] * x, total[4] + a[4] * x, total[5] + a[5] * x)


@kernel
def add_product(r, C, sign, A, B, rows, inner, columns):
    """C <- C + sign A B for rows x inner and inner x columns; their rows are contiguous.

    The rows of A need not be.
    """
    if inner == 0:
        return
    for i in range(0, rows, 6):
        for k in range(0, columns, simd_width(r.work)):
            count, c = columns - k, C.start + C.row * i + k
            zero = 0.0 * load_simd(r.work, B.start + k, count)
            x = (zero, zero, zero, zero, zero, zero)
            for j in range(inner):
                x = add_six(x, load_six(r, A, i, rows, j),
                            load_simd(r.work, B.start + B.row * j + k, count))
            for t in range(6):
                if i + t < rows:
                    row = c + C.row * t
                    store_simd(r.work, row, count,
                               load_simd(r.work, row, count) + sign * x[t])
