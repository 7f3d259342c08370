# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How the velocity after an impact and the impulses respond to changes of the robot.

With Y = M^-1 J' and G = J Y, the solution of

    M d(v) - J' d(impulse) = -dp,  J d(v) = -drow

is d(impulse) = G^-1 (Y' dp - drow) and d(v) = Y d(impulse) - M^-1 dp. A batch leaves out products
with the zeros of dp and drow, whose columns are as sparse as the tree, two columns at a time.
"""
from ..model.fields import field
from ..model.layout import coupled, ncolumns, nconstraints, nv, offset
from ..spatial.compiler import kernel
from ..spatial.lanes import holds_lanes, load_simd, simd_width, store, store_simd
from .contact_response import (
    RESPONSE,
    add_pair,
    add_rows,
    add_torques,
    are_linked,
    coupling_inverse,
    matrix,
)
from .contact_rows import LOCAL
from .contacts import axes_of, ncontacts, second_body
from .minverse import MINV
from .products import (
    add_six,
    combine,
    load_six,
    multiply,
    rows_of,
    scale_six,
    store_six,
    transposed,
    zero_six,
)

WANTED = field("_wanted_rates", ("constraints", "nv"))  # Y' dp - drow


@kernel
def still_columns(r):
    """Number of the first velocities along which no result of an impact changes.

    The first joint moves the whole robot, and with it the axes of contacts in LOCAL.
    """
    if coupled(r):
        return 0
    for n in range(ncontacts(r)):
        if second_body(r, n) > 0 or axes_of(r, n) != LOCAL:
            return 0
    return ncolumns(r, 1)


@kernel
def store_pair(r, C, x, y, i, rows, k):
    """Store rows i to i + 5 of columns k and k + 1."""
    store_six(r, C, 1.0, x, i, rows, k, 1)
    if k + 1 < nv(r):
        store_six(r, C, 1.0, y, i, rows, k + 1, 1)


@kernel
def torque_pair(r, A, dp, i, k, linked):
    """Rows i to i + 5 of A' dp in columns k and k + 1."""
    x = zero_six(r, dp)
    return add_torques(r, x, x, A, dp, rows_of(dp.start + 1, dp.step), i, k,
                       min(k + 1, nv(r) - 1), linked)


@kernel
def set_wanted(r, dp, drow, first):
    """Y' dp - drow, from column ``first`` on."""
    m, n, W, Y = nconstraints(r), nv(r), matrix(r, WANTED), transposed(matrix(r, RESPONSE))
    if holds_lanes(r.work):
        linked, R = are_linked(r), transposed(drow)
        for i in range(0, m, 6):
            for k in range(first, n, 2):
                x, y = torque_pair(r, Y, dp, i, k, linked)
                store_pair(r, W, add_six(x, load_six(r, R, k, i), -1.0),
                           add_six(y, load_six(r, R, k + 1, i), -1.0), i, m, k)
        return
    multiply(r, W, 1.0, Y, dp, m, n, n)
    for k in range(0, m * n, simd_width(r.work)):
        x = load_simd(r.work, W.start + k, m * n - k)
        store_simd(r.work, W.start + k, m * n - k,
                   x - load_simd(r.work, drow.start + k, m * n - k))


@kernel
def move(r, dv, dp, impulses, first):
    """d(v) = Y d(impulse) - M^-1 dp, from column ``first`` on."""
    m, n, W, Y = nconstraints(r), nv(r), matrix(r, MINV), matrix(r, RESPONSE)
    if not holds_lanes(r.work):
        combine(r, dv, -1.0, W, dp, n, 1.0, Y, impulses, m, n, n)
        return
    linked, following = are_linked(r), rows_of(impulses.start + 1, n)
    for i in range(0, n, 6):
        for k in range(first, n, 2):
            x, y = torque_pair(r, W, dp, i, k, linked)
            x, y = scale_six(-1.0, x), scale_six(-1.0, y)
            for j in range(m):
                x, y = add_pair(r, x, y, Y, impulses, following, j, i, k)
            store_pair(r, dv, x, y, i, n, k)


@kernel
def clear_columns(r, C, rows, count):
    """Clear the first columns."""
    for i in range(rows):
        for k in range(count):
            store(r.work, C.start + C.step * i + k, 0.0)


@kernel
def respond_to_configuration(r, dp, drow, dv, impulses):
    """d(v) and d(impulse) from dp and drow."""
    m, n, first = nconstraints(r), nv(r), 0
    if holds_lanes(r.work):
        first = still_columns(r)
        clear_columns(r, dv, n, first)
        clear_columns(r, impulses, m, first)
    set_wanted(r, dp, drow, first)
    multiply(r, rows_of(impulses.start + first, n), 1.0, coupling_inverse(r),
             rows_of(offset(r, WANTED) + first, n), m, m, n - first)
    move(r, dv, dp, impulses, first)


@kernel
def respond_to_rows(r, s, drow, dv, impulses):
    """d(v) and d(impulse) from s drow, without dp."""
    m, n, inverse = nconstraints(r), nv(r), coupling_inverse(r)
    if holds_lanes(r.work):
        following = rows_of(drow.start + 1, n)
        for i in range(0, m, 6):
            for k in range(0, n, 2):
                x = zero_six(r, drow)
                x, y = add_rows(r, x, x, inverse, drow, following, i, k, min(k + 1, n - 1))
                store_pair(r, impulses, scale_six(-s, x), scale_six(-s, y), i, m, k)
    else:
        multiply(r, impulses, -s, inverse, drow, m, m, n)
    multiply(r, dv, 1.0, matrix(r, RESPONSE), impulses, n, m, n)
