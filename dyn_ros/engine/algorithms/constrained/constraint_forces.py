# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constraint forces by elimination along the tree, for ``vereshchagin`` and contacts.

Popov, Vereshchagin and Zenkevich (1978), Vereshchagin (1989). A constraint is a unit force on a
body, or on two; the inward sweep propagates it to the root. With the inertia matrix M = U D U', U
upper triangular, it computes the columns of U^-1 J', where the rows of J are the constraints, and
the diagonal D. Then J M^-1 J' = (U^-1 J')' D^-1 (U^-1 J').

The forces of adjacent constraints are propagated together, as a vector.
"""

from ...kernel import algebra as al
from ...kernel import lanes as la
from ...kernel import packing as ly
from ...kernel.fields import TAU_IN, field
from ...machine_code.declare import kernel
from ..dynamics import aba
from ..dynamics.cholesky import pivot, solve_inward, solve_outward
from ..dynamics.crba import COMPOSITE
from ..dynamics.minverse import load_forces
from ..dynamics.rnea import add_force
from ..kinematics import root_axes as ra
from .products import rows_of
from .semidefinite import WIDTH, absolute, clear_rows

UNIT_FORCES = field("_unit_forces", (6, WIDTH))  # about the origin of a joint; a column each
TRUNK_FORCES = field("_trunk_forces", (6, WIDTH))  # where all come together
ELIMINATED = field("_eliminated", ("nv", WIDTH))  # U^-1 J'
EXCESS = field("_excess", ("constraints",))  # error of the free motion
SCALED = field("_scaled", ("nv", WIDTH))  # the same times D^-1/2
COUPLING = field("_coupling", (WIDTH, WIDTH))  # J M^-1 J'; rows are written by threes
COLUMN = field("_column", ("nv",))
FORCE = field("_force_root", ("rows", 6))


@kernel
def store_unit_force(r, k, f):
    """Store the unit force of constraint k, about the origin of the joint that it acts on."""
    a = ly.offset(r, UNIT_FORCES) + k
    for x in range(3):
        la.store(r.work, a + WIDTH * x, f.linear[x])
        la.store(r.work, a + WIDTH * (3 + x), f.angular[x])


@kernel
def add_to_trunk(r, k, count, f):
    """Add unit forces to those that reach the trunk."""
    for x in range(3):
        a = ly.offset(r, TRUNK_FORCES) + WIDTH * x + k
        increase_simd(r, a, count, f.linear[x])
        increase_simd(r, a + 3 * WIDTH, count, f.angular[x])


@kernel
def increase_simd(r, k, count, x):
    la.store_simd(r.work, k, count, la.load_simd(r.work, k, count) + x)


@kernel
def propagate(r, forces, joint, end, start, stop, eliminating, moving):
    """Propagate the unit forces of constraints ``start`` to ``stop`` from a joint to another one.

    Each joint stores its component, and the rest is propagated to the parent; if eliminating, what
    reaches the end, unless it is the root, is added to the forces on the trunk. If moving, the
    excess is increased by the power of the forces on the bias accelerations.
    """
    X_, b_ = ly.offset(r, ELIMINATED), ly.offset(r, EXCESS)
    for k in range(start, stop, la.simd_width(r.work)):
        count = stop - k
        f = load_forces(r, forces + k, WIDTH, count)
        b = la.load_simd(r.work, b_ + k, count) if moving else la.lift(0.0, f.linear[0])
        i = joint
        while i > end:
            for c in range(ly.ncolumns(r, i) - 1, -1, -1):
                j = ly.idx_v(r, i) + c
                x = ra.dot_column(r, i, c, f)
                increase_simd(r, X_ + WIDTH * j + k, count, x)
                if eliminating:
                    f = al.force_sub(
                        f,
                        al.force_scale(
                            x * la.load(r.work, ly.offset(r, aba.DINV) + j),
                            al.load_force(r.work, ly.offset(r, aba.U) + 6 * j),
                        ),
                    )
            if moving:
                b = b + al.power(f, al.load_motion(r.work, ly.offset(r, aba.BIAS) + 6 * i))
            f = al.force_moved(ra.from_parent(r, i), f)
            i = ly.parent(r, i)
        if eliminating and end > 0:
            add_to_trunk(r, k, count, f)
        if moving:
            last = al.load_motion(r.work, ly.offset(r, aba.LINK_ACCELERATION))
            if end == 0:
                b = b + al.power(f, last)
            la.store_simd(r.work, b_ + k, count, b)


@kernel
def clear_eliminated(r):
    clear_rows(r, ly.nv(r), ly.nconstraints(r), ly.offset(r, ELIMINATED))


# --- with the factor of M, if mimic joints couple branches


@kernel
def transmit_inward(r, tau):
    """tau <- S' f, with f the sum of the forces on the bodies of each subtree."""
    ly.clear(r.work, tau, ly.nv(r))
    f_ = ly.offset(r, FORCE)
    for i in range(ly.njoints(r), 0, -1):
        f = al.load_force(r.work, f_ + 6 * i)
        for c in range(ly.ncolumns(r, i)):
            ly.increase(r.work, tau + ly.idx_v(r, i) + c, ra.dot_column(r, i, c, f))
        add_force(r, f_ + 6 * ly.parent(r, i), al.force_moved(ra.from_parent(r, i), f))


@kernel
def eliminate_projected(r):
    """U^-1 (tau - nle) and D from the factor of M, and bias accelerations of all bodies."""
    a_, f_ = ly.offset(r, aba.LINK_ACCELERATION), ly.offset(r, FORCE)
    for i in range(1, ly.njoints(r) + 1):
        a = al.motion_add(
            al.motion_moved(ra.from_parent(r, i), al.load_motion(r.work, a_ + 6 * ly.parent(r, i))),
            al.load_motion(r.work, ly.offset(r, aba.BIAS) + 6 * i),
        )
        Y = al.load_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i)
        al.store_spatial(r.work, a_ + 6 * i, a)
        al.store_spatial(
            r.work,
            f_ + 6 * i,
            al.force_add(
                al.load_force(r.work, ly.offset(r, aba.BIAS_FORCE) + 6 * i), al.momentum(Y, a)
            ),
        )
    transmit_inward(r, ly.offset(r, aba.BIAS_TORQUE))
    for k in range(ly.nv(r)):
        la.store(
            r.work,
            ly.offset(r, aba.BIAS_TORQUE) + k,
            la.load(r.work, ly.offset(r, TAU_IN) + k)
            - la.load(r.work, ly.offset(r, aba.BIAS_TORQUE) + k),
        )
    solve_inward(r, ly.offset(r, aba.BIAS_TORQUE))
    store_pivots(r)


@kernel
def store_pivots(r):
    for k in range(ly.nv(r)):
        la.store(r.work, ly.offset(r, aba.DINV) + k, 1.0 / pivot(r, k))


@kernel
def eliminate_columns(r):
    """U^-1 J' from J', column by column."""
    X, x = ly.offset(r, ELIMINATED), ly.offset(r, COLUMN)
    for k in range(ly.nconstraints(r)):
        for j in range(ly.nv(r)):
            la.store(r.work, x + j, la.load(r.work, X + WIDTH * j + k))
        solve_inward(r, x)
        for j in range(ly.nv(r)):
            la.store(r.work, X + WIDTH * j + k, la.load(r.work, x + j))


@kernel
def accelerate_projected(r):
    """ddq from the factor of M, then body accelerations."""
    a_ = ly.offset(r, aba.LINK_ACCELERATION)
    for k in range(ly.nv(r)):
        la.store(
            r.work, ly.offset(r, aba.DDQ) + k, la.load(r.work, ly.offset(r, aba.BIAS_TORQUE) + k)
        )
    solve_outward(r, ly.offset(r, aba.DDQ))
    for i in range(1, ly.njoints(r) + 1):
        a = al.motion_add(
            al.motion_moved(ra.from_parent(r, i), al.load_motion(r.work, a_ + 6 * ly.parent(r, i))),
            al.load_motion(r.work, ly.offset(r, aba.BIAS) + 6 * i),
        )
        for c in range(ly.ncolumns(r, i)):
            a = ra.add_column(
                r, i, c, a, la.load(r.work, ly.offset(r, aba.DDQ) + ly.idx_v(r, i) + c)
            )
        al.store_spatial(r.work, a_ + 6 * i, a)


# --- the system of the constraint forces


@kernel
def last_velocity(r, i):
    """The velocity from which the path from joint i to the root starts."""
    return ly.nv(r) - 1 if ly.coupled(r) else ly.idx_v(r, i) + ly.ncolumns(r, i) - 1


@kernel
def is_common(r, j, other):
    """Whether velocity j also moves the body that velocity ``other`` moves; -1: no body."""
    return j <= other and other < ly.velocity_end(r, j)


@kernel
def scale_eliminated(r):
    """D^-1/2 U^-1 J', which makes J M^-1 J' symmetric to the last bit."""
    X, Y = ly.offset(r, ELIMINATED), ly.offset(r, SCALED)
    for j in range(ly.nv(r)):
        s = la.sqrt(absolute(la.load(r.work, ly.offset(r, aba.DINV) + j)))
        for k in range(0, ly.nconstraints(r), la.simd_width(r.work)):
            at = WIDTH * j + k
            la.store_simd(
                r.work, Y + at, la.SIMD_WIDTH, s * la.load_simd(r.work, X + at, la.SIMD_WIDTH)
            )


@kernel
def add_three(total, a, x):
    """total + a x, for three numbers each."""
    return total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x


@kernel
def add_path(r, x, y, A, B, count, first, other):
    """Add three rows of A B to two vectors of columns, for the velocities of a path.

    The path starts at velocity ``first`` and ends at the root, or where it meets that of velocity
    ``other``, if that is not -1. A is transposed.
    """
    j = first
    while j >= 0 and not is_common(r, j, other):
        k, d, b = A.start + A.step * j, A.across, B.start + B.step * j
        a = (la.load(r.work, k), la.load(r.work, k + d), la.load(r.work, k + 2 * d))
        x = add_three(x, a, la.load_simd(r.work, b, count))
        y = add_three(
            y, a, la.load_simd(r.work, b + la.simd_width(r.work), count - la.simd_width(r.work))
        )
        j = ly.velocity_parent(r, j)
    return x, y


@kernel
def product_along(r, A, B, count, first, second):
    """Three rows of A B in two vectors of columns, for the velocities of one or two bodies."""
    zero = la.lift(0.0, la.load_simd(r.work, B.start, count))
    x = (zero, zero, zero)
    x, y = add_path(r, x, x, A, B, count, first, -1)
    return add_path(r, x, y, A, B, count, second, first)


@kernel
def couple(r, start, stop, first, second):
    """Rows of J M^-1 J' for bodies that two velocities move, or -1; lanes use symmetry."""
    m, C, Y, some = (
        ly.nconstraints(r),
        ly.offset(r, COUPLING),
        ly.offset(r, SCALED),
        la.simd_width(r.work),
    )
    for k in range(start, stop, 3):
        for i in range(0, stop if la.holds_lanes(r.work) else m, 2 * some):
            x, y = product_along(
                r, rows_of(Y + k, WIDTH), rows_of(Y + i, WIDTH), 2 * la.SIMD_WIDTH, first, second
            )
            for t in range(3):
                row = C + WIDTH * (k + t) + i
                la.store_simd(r.work, row, la.SIMD_WIDTH, x[t])
                if i + some < m:
                    la.store_simd(r.work, row + some, la.SIMD_WIDTH, y[t])
                if la.holds_lanes(r.work) and k + t < m:
                    la.store_simd(r.work, C + WIDTH * i + k + t, 1, x[t])
                    if i + some < m:
                        la.store_simd(r.work, C + WIDTH * (i + some) + k + t, 1, y[t])


@kernel
def add_free_motion(r, torque):
    """Add J M^-1 tau to the excess, with U^-1 tau at the offset ``torque``."""
    m, b, X = ly.nconstraints(r), ly.offset(r, EXCESS), ly.offset(r, ELIMINATED)
    for k in range(0, m, la.simd_width(r.work)):
        total = la.load_simd(r.work, b + k, m - k)
        for j in range(ly.nv(r)):
            x = la.load(r.work, ly.offset(r, aba.DINV) + j) * la.load(r.work, torque + j)
            total = total + x * la.load_simd(r.work, X + WIDTH * j + k, la.SIMD_WIDTH)
        la.store_simd(r.work, b + k, m - k, total)


@kernel
def eliminated_times(r, x, y, s):
    """y <- s U^-1 J' x for the numbers of the constraints at offset x."""
    zero = la.lift(0.0, la.load(r.work, ly.offset(r, aba.DINV)))
    for j in range(ly.nv(r)):
        total = zero
        for k in range(ly.nconstraints(r)):
            total = total + la.load(r.work, x + k) * la.load(
                r.work, ly.offset(r, ELIMINATED) + WIDTH * j + k
            )
        la.store(r.work, y + j, s * total)
