# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How the velocity after an impact and the impulses respond to changes of the robot.

With M^-1 = V' V, R = V J' and G = R' R, the solution of

    M d(v) - J' d(impulse) = -dp,  J d(v) = -drow

is d(impulse) = -G^-1 (drow - R' V dp) and d(v) = V' (R d(impulse) - V dp). A batch leaves out
products with the zeros of drow, and columns along which nothing changes.
"""
from ...kernel import layout as ly
from ...kernel.compiler import kernel
from ...kernel.lanes import holds_lanes, store
from ..constrained import products
from .packed import axes_of, body, ncontacts
from .response import add_rows, coupling_inverse
from .root_products import add_motions, add_reactions, minus_root_times, root_transposed_times
from .rows import LOCAL


@kernel
def still_columns(r):
    """Number of the first velocities along which no result of an impact changes."""
    if ly.coupled(r):
        return 0
    for n in range(ncontacts(r)):
        if body(r, n, 1) > 0 or axes_of(r, n) != LOCAL:
            return 0
    return ly.ncolumns(r, 1)


@kernel
def store_pair(r, C, x, y, i, rows, k):
    """Store rows i to i + 5 of columns k and k + 1."""
    products.store_six(r, C, 1.0, x, i, rows, k, 1)
    if k + 1 < ly.nv(r):
        products.store_six(r, C, 1.0, y, i, rows, k + 1, 1)


@kernel
def clear_columns(r, C, rows, count):
    """Clear the first columns."""
    for i in range(rows):
        for k in range(count):
            store(r.work, C.start + C.step * i + k, 0.0)


@kernel
def respond_to_configuration(r, dp, drow, dv, impulses):
    """d(v) and d(impulse) from dp and drow, which is overwritten."""
    m, n, first = ly.nconstraints(r), ly.nv(r), 0
    if holds_lanes(r.work):
        first = still_columns(r)
        clear_columns(r, dv, n, first)
        clear_columns(r, impulses, m, first)
    minus_root_times(r, dv, dp, first)
    add_motions(r, drow, dv, first)
    products.multiply(r, products.rows_of(impulses.start + first, n), -1.0, coupling_inverse(r),
                      products.rows_of(drow.start + first, n), m, m, n - first)
    add_reactions(r, dv, impulses, first, True)
    root_transposed_times(r, dv, first)


@kernel
def respond_to_rows(r, s, drow, dv, impulses):
    """d(v) and d(impulse) from s drow, without dp."""
    m, n, inverse = ly.nconstraints(r), ly.nv(r), coupling_inverse(r)
    if holds_lanes(r.work):
        following = products.rows_of(drow.start + 1, n)
        for i in range(0, m, 6):
            for k in range(0, n, 2):
                x = products.zero_six(r, drow)
                x, y = add_rows(r, x, x, inverse, drow, following, i, k, min(k + 1, n - 1))
                store_pair(r, impulses, products.scale_six(-s, x), products.scale_six(-s, y), i, m,
                           k)
    else:
        products.multiply(r, impulses, -s, inverse, drow, m, m, n)
    add_reactions(r, dv, impulses, 0, False)
    root_transposed_times(r, dv, 0)
