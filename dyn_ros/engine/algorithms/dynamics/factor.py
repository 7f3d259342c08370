# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The inertia matrix as M = L' D L, L unit lower triangular and as sparse as the tree.

Featherstone (2008), tables 6.3 to 6.5.
"""
from ...kernel import algebra as al
from ...kernel import layout as ly
from ...kernel.compiler import kernel
from ...kernel.fields import field
from ...kernel.lanes import all_above, load, store
from ..kinematics.root_axes import load_column
from .crba import COMPOSITE, M

L = field("_L", ("nv", "nv"))        # L below the diagonal, D on it
DIAGONAL_SIZE = field("_diagonal_size", ("nv",))
DOUBTFUL = 1e-7
"""A smaller pivot, relative to the inertia of the subtree, may be a rounding error.

singular.py decides whether it is. The value is about the square root of the machine epsilon: a
pivot d, for inertias of size 1, amplifies rounding errors of later pivots by up to 1 / d. If no
pivot is below the threshold, none is a rounding error.
"""


@kernel
def pivot(r, k):
    """D of velocity k, after ``factor``."""
    return load(r.work, ly.offset(r, L) + k * (ly.nv(r) + 1))


@kernel
def diagonal_sizes(r):
    """Size of the diagonal entries of M without cancellation, after ``crba_kernel``."""
    ly.clear(r.work, ly.offset(r, DIAGONAL_SIZE), ly.nv(r))
    for i in range(1, ly.njoints(r) + 1):
        Y = al.load_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i)
        for c in range(ly.ncolumns(r, i)):
            S = load_column(r, i, c)
            ly.increase(r.work, ly.offset(r, DIAGONAL_SIZE) + ly.idx_v(r, i) + c,
                        al.dot(S.linear, S.linear) * Y.mass
                        + al.dot(S.angular, S.angular) * al.symmetric_size(Y.rotational))


@kernel
def factor(r):
    """L and D of M."""
    diagonal_sizes(r)
    n, M_, L_ = ly.nv(r), ly.offset(r, M), ly.offset(r, L)
    for k in range(n):
        for j in range(k + 1):
            store(r.work, L_ + k * n + j, load(r.work, M_ + k * n + j))
    for k in range(n - 1, -1, -1):
        row = L_ + k * n
        d = load(r.work, row + k)
        if not all_above(d, DOUBTFUL * load(r.work, ly.offset(r, DIAGONAL_SIZE) + k)):
            ly.fail(r, k)
        i = ly.velocity_parent(r, k)
        while i >= 0:
            a = load(r.work, row + i) / d
            j = i
            while j >= 0:
                ij = L_ + i * n + j
                store(r.work, ij, load(r.work, ij) - load(r.work, row + j) * a)
                j = ly.velocity_parent(r, j)
            store(r.work, row + i, a)
            i = ly.velocity_parent(r, i)


@kernel
def solve_inward(r, x):
    """x <- L^-T x for the nv numbers at offset x, after ``factor``."""
    n, L_ = ly.nv(r), ly.offset(r, L)
    for i in range(n - 1, -1, -1):
        x_i = load(r.work, x + i)
        j = ly.velocity_parent(r, i)
        while j >= 0:
            store(r.work, x + j, load(r.work, x + j) - load(r.work, L_ + i * n + j) * x_i)
            j = ly.velocity_parent(r, j)


@kernel
def solve_outward(r, x):
    """x <- L^-1 D^-1 x, the second half of M^-1 x."""
    n, L_ = ly.nv(r), ly.offset(r, L)
    for i in range(n):
        x_i = load(r.work, x + i) / load(r.work, L_ + i * n + i)
        j = ly.velocity_parent(r, i)
        while j >= 0:
            x_i = x_i - load(r.work, L_ + i * n + j) * load(r.work, x + j)
            j = ly.velocity_parent(r, j)
        store(r.work, x + i, x_i)


@kernel
def solve(r, x):
    """x <- M^-1 x for the nv numbers at offset x, after ``factor``."""
    solve_inward(r, x)
    solve_outward(r, x)
