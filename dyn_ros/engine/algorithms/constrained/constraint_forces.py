# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constraint forces by elimination along the tree, for ``vereshchagin`` and contacts.

Popov, Vereshchagin and Zenkevich (1978), Vereshchagin (1989). A constraint is a unit force on a
body, or on two; the inward sweep propagates it to the root. With the inertia matrix M = U D U', U
upper triangular, it computes the columns of U^-1 J', where the rows of J are the constraints, and
the diagonal D. Then J M^-1 J' = (U^-1 J')' D^-1 (U^-1 J').

The forces of adjacent constraints are propagated together, as a vector.
"""

from ...kernel.vocabulary import *
from ..dynamics import aba
from ..dynamics.cholesky import pivot, solve_inward, solve_outward
from ..dynamics.crba import COMPOSITE
from ..dynamics.minverse import load_forces
from ..kinematics import root_axes as ra
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
    """Store the unit force of constraint k, about the origin of the joint that it acts on.

    Writes UNIT_FORCES.
    """
    a = offset(r, UNIT_FORCES) + k
    for x in range(3):
        store(r.work, a + WIDTH * x, f.linear[x])
        store(r.work, a + WIDTH * (3 + x), f.angular[x])


@kernel
def add_to_trunk(r, k, count, f):
    """Add unit forces to those that reach the trunk."""
    for x in range(3):
        a = offset(r, TRUNK_FORCES) + WIDTH * x + k
        increase_simd(r, a, count, f.linear[x])
        increase_simd(r, a + 3 * WIDTH, count, f.angular[x])


@kernel
def increase_simd(r, k, count, x):
    """Add a vector to adjacent numbers at an offset."""
    store_simd(r.work, k, count, load_simd(r.work, k, count) + x)


@kernel
def propagate(r, forces, joint, end, start, stop, eliminating, moving):
    """Propagate the unit forces of constraints ``start`` to ``stop`` from a joint to ``end``.

        X_jk = S_j' f_k
        f_k = f_k - U_j D_j^-1 X_jk         if eliminating
        b_k = b_k + c_i' f_k                if moving
        f_k = f_k, about the parent's origin                Vereshchagin (1989)

    Each joint stores its component, and the rest is propagated to the parent; if eliminating, what
    reaches the end, unless it is the root, is added to the forces on the trunk. If moving, the
    excess is increased by the power of the forces on the bias accelerations.

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS, U, DINV, forces; writes EXCESS.
    """
    X_, b_ = offset(r, ELIMINATED), offset(r, EXCESS)
    for k in range(start, stop, simd_width(r.work)):
        count = stop - k
        f = load_forces(r, forces + k, WIDTH, count)
        b = load_simd(r.work, b_ + k, count) if moving else lift(0.0, f.linear[0])
        i = joint
        while i > end:
            for c in range(ncolumns(r, i) - 1, -1, -1):
                j = idx_v(r, i) + c
                x = ra.dot_column(r, i, c, f)
                increase_simd(r, X_ + WIDTH * j + k, count, x)
                if eliminating:
                    f = force_sub(
                        f,
                        force_scale(
                            x * entry(r, aba.DINV, j),
                            force(r, aba.U, j),
                        ),
                    )
            if moving:
                b = b + power(f, motion(r, aba.BIAS, i))
            f = force_moved(ra.from_parent(r, i), f)
            i = parent(r, i)
        if eliminating and end > 0:
            add_to_trunk(r, k, count, f)
        if moving:
            last = motion(r, aba.LINK_ACCELERATION, 0)
            if end == 0:
                b = b + power(f, last)
            store_simd(r.work, b_ + k, count, b)


@kernel
def clear_eliminated(r):
    """Clear the columns of U^-1 J'. Writes ELIMINATED."""
    clear_rows(r, nv(r), nconstraints(r), offset(r, ELIMINATED))


# --- with the factor of M, if mimic joints couple branches


@kernel
def transmit_inward(r, tau):
    """Set the field tau to S' f, with f the sum of the forces on the bodies of each subtree.

        tau = S' f,  f_p = f_p + f

    Reads FROM_PARENT, COLUMNS; writes FORCE, tau.
    """
    clear_entries(r, tau, nv(r))
    for i in range(njoints(r), 0, -1):
        f = force(r, FORCE, i)
        for c in range(ncolumns(r, i)):
            add_to_entry(r, tau, idx_v(r, i) + c, ra.dot_column(r, i, c, f))
        add_to_force(r, FORCE, parent(r, i), force_moved(ra.from_parent(r, i), f))


@kernel
def eliminate_projected(r):
    """Compute U^-1 (tau - nle) and D from the factor of M, and bias accelerations of all bodies.

        a = a_p + c,  f = pA + Y a

    Reads TAU_IN, FROM_PARENT, COLUMNS, COMPOSITE, L, BIAS, BIAS_FORCE; writes LINK_ACCELERATION,
    DINV, BIAS_TORQUE, FORCE.
    """
    for i in range(1, njoints(r) + 1):
        a = motion_add(
            motion_moved(ra.from_parent(r, i), motion(r, aba.LINK_ACCELERATION, parent(r, i))),
            motion(r, aba.BIAS, i),
        )
        Y = inertia(r, COMPOSITE, i)
        set_motion(r, aba.LINK_ACCELERATION, i, a)
        set_force(r, FORCE, i, force_add(force(r, aba.BIAS_FORCE, i), momentum(Y, a)))
    transmit_inward(r, aba.BIAS_TORQUE)
    for k in range(nv(r)):
        set_entry(r, aba.BIAS_TORQUE, k, entry(r, TAU_IN, k) - entry(r, aba.BIAS_TORQUE, k))
    solve_inward(r, aba.BIAS_TORQUE)
    store_pivots(r)


@kernel
def store_pivots(r):
    """Store the inverse pivots, 1 / D. Reads L; writes DINV."""
    for k in range(nv(r)):
        set_entry(r, aba.DINV, k, 1.0 / pivot(r, k))


@kernel
def eliminate_columns(r):
    """Replace J' with U^-1 J', column by column. Reads L; writes ELIMINATED, COLUMN."""
    X = matrix_of_width(r, ELIMINATED, WIDTH)
    for k in range(nconstraints(r)):
        for j in range(nv(r)):
            set_entry(r, COLUMN, j, element(r, X, j, k))
        solve_inward(r, COLUMN)
        for j in range(nv(r)):
            set_element(r, X, j, k, entry(r, COLUMN, j))


@kernel
def accelerate_projected(r):
    """Compute qdd from the factor of M, then the accelerations of bodies.

        qdd = L^-1 D^-1 u
        a = a_p + c + S qdd

    Reads FROM_PARENT, COLUMNS, L, BIAS, BIAS_TORQUE; writes DDQ, LINK_ACCELERATION.
    """
    for k in range(nv(r)):
        set_entry(r, aba.DDQ, k, entry(r, aba.BIAS_TORQUE, k))
    solve_outward(r, aba.DDQ)
    for i in range(1, njoints(r) + 1):
        a = motion_add(
            motion_moved(ra.from_parent(r, i), motion(r, aba.LINK_ACCELERATION, parent(r, i))),
            motion(r, aba.BIAS, i),
        )
        for c in range(ncolumns(r, i)):
            a = ra.add_column(r, i, c, a, entry(r, aba.DDQ, idx_v(r, i) + c))
        set_motion(r, aba.LINK_ACCELERATION, i, a)


# --- the system of the constraint forces


@kernel
def last_velocity(r, i):
    """Return the velocity at which the path from joint i to the root starts."""
    return nv(r) - 1 if coupled(r) else idx_v(r, i) + ncolumns(r, i) - 1


@kernel
def is_common(r, j, other):
    """Return True if velocity j also moves the body of velocity ``other``; -1 for no body."""
    return j <= other and other < velocity_end(r, j)


@kernel
def scale_eliminated(r):
    """Compute D^-1/2 U^-1 J', which makes J M^-1 J' symmetric to the last bit.

    Reads DINV, ELIMINATED; writes SCALED.
    """
    X, Y = offset(r, ELIMINATED), offset(r, SCALED)
    for j in range(nv(r)):
        s = sqrt(absolute(entry(r, aba.DINV, j)))
        for k in range(0, nconstraints(r), simd_width(r.work)):
            at = WIDTH * j + k
            store_simd(r.work, Y + at, SIMD_WIDTH, s * load_simd(r.work, X + at, SIMD_WIDTH))


@kernel
def add_three(total, a, x):
    """Return total + a x, for three numbers each."""
    return total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x


@kernel
def add_path(r, x, y, A, B, count, first, other):
    """Add three rows of A' B to two vectors of columns, for the velocities of a path.

    The path starts at velocity ``first`` and ends at the root, or where it meets the path of
    velocity ``other``, if that is not -1.

    Reads A, B.
    """
    j = first
    while j >= 0 and not is_common(r, j, other):
        k, d, b = A.start + A.step * j, A.across, B.start + B.step * j
        a = (load(r.work, k), load(r.work, k + d), load(r.work, k + 2 * d))
        x = add_three(x, a, load_simd(r.work, b, count))
        y = add_three(y, a, load_simd(r.work, b + simd_width(r.work), count - simd_width(r.work)))
        j = velocity_parent(r, j)
    return x, y


@kernel
def product_along(r, A, B, count, first, second):
    """Return three rows of A' B in two vectors of columns, for the velocities of one or two bodies.

    Reads A, B.
    """
    zero = lift(0.0, load_simd(r.work, B.start, count))
    x = (zero, zero, zero)
    x, y = add_path(r, x, x, A, B, count, first, -1)
    return add_path(r, x, y, A, B, count, second, first)


@kernel
def couple(r, start, stop, first, second):
    """Compute rows of J M^-1 J' for bodies that two velocities move, or -1; lanes use symmetry.

        J M^-1 J' = R' R,  R = D^-1/2 U^-1 J'

    Reads SCALED; writes COUPLING.
    """
    m, C, Y, width = (
        nconstraints(r),
        offset(r, COUPLING),
        offset(r, SCALED),
        simd_width(r.work),
    )
    for k in range(start, stop, 3):
        for i in range(0, stop if is_batch(r) else m, 2 * width):
            x, y = product_along(
                r, matrix_at(Y + k, WIDTH), matrix_at(Y + i, WIDTH), 2 * SIMD_WIDTH, first, second
            )
            for t in range(3):
                row = C + WIDTH * (k + t) + i
                store_simd(r.work, row, SIMD_WIDTH, x[t])
                if i + width < m:
                    store_simd(r.work, row + width, SIMD_WIDTH, y[t])
                if is_batch(r) and k + t < m:
                    store_simd(r.work, C + WIDTH * i + k + t, 1, x[t])
                    if i + width < m:
                        store_simd(r.work, C + WIDTH * (i + width) + k + t, 1, y[t])


@kernel
def add_free_motion(r, torque):
    """Add J M^-1 tau to the excess, with U^-1 tau at the offset ``torque``.

        J M^-1 tau = (U^-1 J')' D^-1 (U^-1 tau)

    Reads DINV, ELIMINATED, torque; writes EXCESS.
    """
    m, b, X = nconstraints(r), offset(r, EXCESS), offset(r, ELIMINATED)
    for k in range(0, m, simd_width(r.work)):
        total = load_simd(r.work, b + k, m - k)
        for j in range(nv(r)):
            x = entry(r, aba.DINV, j) * load(r.work, torque + j)
            total = total + x * load_simd(r.work, X + WIDTH * j + k, SIMD_WIDTH)
        store_simd(r.work, b + k, m - k, total)


@kernel
def eliminated_times(r, x, y, s):
    """Set the numbers at offset y to s U^-1 J' x, with x the constraints' numbers at an offset.

    Reads DINV, ELIMINATED, x; writes y.
    """
    zero = lift(0.0, entry(r, aba.DINV, 0))
    for j in range(nv(r)):
        total = zero
        for k in range(nconstraints(r)):
            total = total + load(r.work, x + k) * load(
                r.work, offset(r, ELIMINATED) + WIDTH * j + k
            )
        store(r.work, y + j, s * total)
