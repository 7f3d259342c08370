# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constraint forces by elimination along the tree, for ``vereshchagin`` and contacts.

Popov, Vereshchagin and Zenkevich (1978), Vereshchagin (1989). A constraint is a unit force on a
body, or on two; the inward sweep propagates it to the root. With the inertia matrix
M = L' D L (see cholesky.py), it computes the columns of L^-T J', where the rows of J are the
constraints, and the diagonal D. Then J M^-1 J' = (L^-T J')' D^-1 (L^-T J').

The constraint residual is the acceleration by which the free motion violates each constraint,

    b = J qdd_free + drift - (acceleration demanded)

where J qdd + drift is the acceleration of the constraint. The constraint forces lambda solve
J M^-1 J' lambda + b = 0. In ``vereshchagin``, nu = -lambda, and J qdd_free + drift is
alpha' a_free, with a_free the acceleration of the tip.

The forces of adjacent constraints are propagated together, as a vector.
"""

from ...kernel.vocabulary import *
from ..dynamics import aba
from ..dynamics.cholesky import pivot, solve_inward, solve_outward
from ..dynamics.crba import INERTIA
from ..dynamics.minverse import force_vectors
from ..kinematics import world_axes as wa
from .semidefinite import WIDTH, clear_rows

UNIT_FORCES = field("_unit_forces", (6, WIDTH))  # about the origin of a joint; a column each
TRUNK_FORCES = field("_trunk_forces", (6, WIDTH))  # the sums where all branches meet
# J'; with elimination, L^-T J'
JACOBIAN_TRANSPOSE = field("_jacobian_transpose", ("nv", WIDTH))
# b [m/s2, rad/s2]; of impacts [m/s, rad/s]
CONSTRAINT_RESIDUAL = field("_constraint_residual", ("constraints",))
SCALED_JACOBIAN = field("_scaled_jacobian", ("nv", WIDTH))  # |D|^-1/2 L^-T J'
COUPLING = field("_coupling", (WIDTH, WIDTH))  # J M^-1 J', by threes of its rows
JACOBIAN_COLUMN = field("_jacobian_column", ("nv",))  # a column of J', or L^-T J' lambda
# Force on each body, then the force that its joint transmits, in world axes
TRANSMITTED_FORCE = field("_transmitted_force", ("rows", 6))


@kernel
def store_unit_force(r, k, f):
    """Store the unit force of constraint k, about the origin of the joint on whose body it acts.

    Writes UNIT_FORCES.
    """
    columns = matrix_of_width(r, UNIT_FORCES, WIDTH)
    for c in range(3):
        set_element(r, columns, c, k, f.linear[c])
        set_element(r, columns, 3 + c, k, f.angular[c])


@kernel
def add_to_trunk(r, k, count, f):
    """Add unit forces in columns k, k + 1, ... to those that reach the trunk.

    Writes TRUNK_FORCES.
    """
    columns = matrix_of_width(r, TRUNK_FORCES, WIDTH)
    for c in range(3):
        add_to_elements(r, columns, c, k, count, f.linear[c])
        add_to_elements(r, columns, 3 + c, k, count, f.angular[c])


@kernel
def eliminate_velocity(r, f, j, x):
    """Return the force that remains of f if velocity j gives way to it, with x = S_j' f.

        f - U_j D_j^-1 x

    Reads U, DINV.
    """
    return force_sub(f, force_scale(x * entry(r, aba.DINV, j), force(r, aba.U, j)))


@kernel
def propagate_forces(r, forces, joint, end, start, stop, with_elimination, with_bias):
    """Propagate unit forces of constraints ``start`` to ``stop`` from ``joint`` to ``end``.

    The field ``forces`` has them in its columns.

        X_jk = S_j' f_k                     column k of J', or with elimination of L^-T J'
        f_k = f_k - U_j D_j^-1 X_jk         with elimination
        b_k = b_k + c_i' f_k                with bias
        f_k = f_k, about the parent's origin                Vereshchagin (1989)

    With elimination, joints give way to the forces (U and D of aba.py); what reaches ``end``,
    unless it is the root, is then added to the forces on the trunk. With bias, the constraint
    residual b is increased by the effect of the bias accelerations c and, at the root, of its
    acceleration.

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS_ACCELERATION, U, DINV, forces; writes
    TRUNK_FORCES, JACOBIAN_TRANSPOSE, CONSTRAINT_RESIDUAL.
    """
    X, columns = matrix_of_width(r, JACOBIAN_TRANSPOSE, WIDTH), matrix_of_width(r, forces, WIDTH)
    for k in range(start, stop, simd_width(r.work)):
        count = stop - k
        f = force_vectors(r, columns, k, count)
        b = entries(r, CONSTRAINT_RESIDUAL, k, count) if with_bias else lift(0.0, f.linear[0])
        i = joint
        while i > end:
            for c in range(ncolumns(r, i) - 1, -1, -1):
                j = idx_v(r, i) + c
                x = wa.dot_column(r, i, c, f)
                add_to_elements(r, X, j, k, count, x)
                if with_elimination:
                    f = eliminate_velocity(r, f, j, x)
            if with_bias:
                b = b + power(f, motion(r, aba.BIAS_ACCELERATION, i))
            f = force_moved(wa.from_parent(r, i), f)
            i = parent(r, i)
        if with_elimination and end > 0:
            add_to_trunk(r, k, count, f)
        if with_bias:
            root = motion(r, aba.LINK_ACCELERATION, 0)
            if end == 0:
                b = b + power(f, root)
            set_entries(r, CONSTRAINT_RESIDUAL, k, count, b)


@kernel
def clear_jacobian(r):
    """Clear J'. Writes JACOBIAN_TRANSPOSE."""
    clear_rows(r, nv(r), nconstraints(r), JACOBIAN_TRANSPOSE)


# --- with the factor of M, if there are mimic joints


@kernel
def transmit_forces_inward(r, tau):
    """Set the field tau to S' f, with f the sum of the forces on the bodies of each subtree.

        tau = S' f,  f_p = f_p + f

    Reads FROM_PARENT, COLUMNS; writes TRANSMITTED_FORCE, tau.
    """
    clear_entries(r, tau, nv(r))
    for i in range(njoints(r), 0, -1):
        f = force(r, TRANSMITTED_FORCE, i)
        for c in range(ncolumns(r, i)):
            add_to_entry(r, tau, idx_v(r, i) + c, wa.dot_column(r, i, c, f))
        add_to_force(r, TRANSMITTED_FORCE, parent(r, i), force_moved(wa.from_parent(r, i), f))


@kernel
def eliminate_with_mimic(r):
    """Compute L^-T (tau - nle) and D from the factor of M, and bias accelerations of all bodies.

        a = a_p + c,  f = pA + Y a

    Reads TAU_IN, FROM_PARENT, COLUMNS, INERTIA, L, BIAS_ACCELERATION, BIAS_FORCE; writes
    LINK_ACCELERATION, DINV, BIAS_TORQUE, TRANSMITTED_FORCE.
    """
    for i in range(1, njoints(r) + 1):
        a = motion_add(
            motion_moved(wa.from_parent(r, i), motion(r, aba.LINK_ACCELERATION, parent(r, i))),
            motion(r, aba.BIAS_ACCELERATION, i),
        )
        Y = inertia(r, INERTIA, i)
        set_motion(r, aba.LINK_ACCELERATION, i, a)
        set_force(
            r, TRANSMITTED_FORCE, i, force_add(force(r, aba.BIAS_FORCE, i), inertia_times(Y, a))
        )
    transmit_forces_inward(r, aba.BIAS_TORQUE)
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
def eliminate_jacobian(r):
    """Replace J' with L^-T J', column by column.

    Reads L; writes JACOBIAN_TRANSPOSE, JACOBIAN_COLUMN.
    """
    X = matrix_of_width(r, JACOBIAN_TRANSPOSE, WIDTH)
    for k in range(nconstraints(r)):
        for j in range(nv(r)):
            set_entry(r, JACOBIAN_COLUMN, j, element(r, X, j, k))
        solve_inward(r, JACOBIAN_COLUMN)
        for j in range(nv(r)):
            set_element(r, X, j, k, entry(r, JACOBIAN_COLUMN, j))


@kernel
def accelerate_with_mimic(r):
    """Compute qdd from the factor of M, then the accelerations of bodies.

        qdd = L^-1 D^-1 u
        a = a_p + c + S qdd

    Reads FROM_PARENT, COLUMNS, L, BIAS_ACCELERATION, BIAS_TORQUE; writes DDQ, LINK_ACCELERATION.
    """
    for k in range(nv(r)):
        set_entry(r, aba.DDQ, k, entry(r, aba.BIAS_TORQUE, k))
    solve_outward(r, aba.DDQ)
    for i in range(1, njoints(r) + 1):
        a = motion_add(
            motion_moved(wa.from_parent(r, i), motion(r, aba.LINK_ACCELERATION, parent(r, i))),
            motion(r, aba.BIAS_ACCELERATION, i),
        )
        for c in range(ncolumns(r, i)):
            a = wa.add_column(r, i, c, a, entry(r, aba.DDQ, idx_v(r, i) + c))
        set_motion(r, aba.LINK_ACCELERATION, i, a)


# --- the system of the constraint forces


@kernel
def last_velocity(r, i):
    """Return the velocity at which the path from joint i to the root starts."""
    return nv(r) - 1 if has_mimic_joints(r) else idx_v(r, i) + ncolumns(r, i) - 1


@kernel
def is_common_velocity(r, j, k):
    """Return True if velocity j also moves the body of velocity k; -1 for no body."""
    return j <= k and k < velocity_end(r, j)


@kernel
def scale_jacobian(r):
    """Compute |D|^-1/2 L^-T J', which makes J M^-1 J' symmetric to the last bit.

        R = |D|^-1/2 L^-T J'

    Reads DINV, JACOBIAN_TRANSPOSE; writes SCALED_JACOBIAN.
    """
    X, R = matrix_of_width(r, JACOBIAN_TRANSPOSE, WIDTH), matrix_of_width(r, SCALED_JACOBIAN, WIDTH)
    for j in range(nv(r)):
        s = sqrt(fabs(entry(r, aba.DINV, j)))
        for k in range(0, nconstraints(r), simd_width(r.work)):
            set_elements(r, R, j, k, SIMD_WIDTH, s * elements(r, X, j, k, SIMD_WIDTH))


@kernel
def multiply_add3(total, a, x):
    """Return total + a x, for three numbers each."""
    return total[0] + a[0] * x, total[1] + a[1] * x, total[2] + a[2] * x


@kernel
def add_path_product(r, x, y, A, B, count, first, second):
    """Return x and y plus three rows of A' B, in two vectors of columns, for velocities of a path.

        x_t = x_t + sum of A_jt B_j,  y_t likewise for the next columns of B

    The path starts at velocity ``first`` and ends at the root, or where it meets the path of
    velocity ``second``, if that is not -1.

    Reads A, B.
    """
    j, width = first, simd_width(r.work)
    while j >= 0 and not is_common_velocity(r, j, second):
        a = (element(r, A, j, 0), element(r, A, j, 1), element(r, A, j, 2))
        x = multiply_add3(x, a, elements(r, B, j, 0, count))
        y = multiply_add3(y, a, elements(r, B, j, width, count - width))
        j = velocity_parent(r, j)
    return x, y


@kernel
def product_along_paths(r, A, B, count, first, second):
    """Return three rows of A' B in two vectors of columns, for the velocities of one or two bodies.

        C_ik = sum of A_ji B_jk over the velocities j that move one of the bodies

    Reads A, B.
    """
    zero = lift(0.0, elements(r, B, 0, 0, count))
    x = (zero, zero, zero)
    x, y = add_path_product(r, x, x, A, B, count, first, -1)
    return add_path_product(r, x, y, A, B, count, second, first)


@kernel
def compute_coupling_rows(r, start, stop, first, second):
    """Compute rows ``start`` to ``stop`` of J M^-1 J', of constraints between two bodies.

        J M^-1 J' = R' R,  R = |D|^-1/2 L^-T J'

    The paths from the bodies to the root start at velocities ``first`` and ``second``; -1 if there
    is no body. Batches compute rows up to ``stop`` only, and their transposes.

    Reads SCALED_JACOBIAN; writes COUPLING.
    """
    G, R = matrix_of_width(r, COUPLING, WIDTH), matrix_of_width(r, SCALED_JACOBIAN, WIDTH)
    m, width = nconstraints(r), simd_width(r.work)
    for k in range(start, stop, 3):
        for i in range(0, stop if is_batch(r) else m, 2 * width):
            x, y = product_along_paths(
                r, columns_from(R, k), columns_from(R, i), 2 * SIMD_WIDTH, first, second
            )
            for t in range(3):
                set_elements(r, G, k + t, i, SIMD_WIDTH, x[t])
                if i + width < m:
                    set_elements(r, G, k + t, i + width, SIMD_WIDTH, y[t])
                if is_batch(r) and k + t < m:
                    set_elements(r, G, i, k + t, 1, x[t])
                    if i + width < m:
                        set_elements(r, G, i + width, k + t, 1, y[t])


@kernel
def add_free_acceleration(r, torque):
    """Add J M^-1 tau to the constraint residual, with L^-T tau in the field ``torque``.

        J M^-1 tau = (L^-T J')' D^-1 (L^-T tau)

    Reads DINV, JACOBIAN_TRANSPOSE, torque; writes CONSTRAINT_RESIDUAL.
    """
    m, X = nconstraints(r), matrix_of_width(r, JACOBIAN_TRANSPOSE, WIDTH)
    for k in range(0, m, simd_width(r.work)):
        total = entries(r, CONSTRAINT_RESIDUAL, k, m - k)
        for j in range(nv(r)):
            x = entry(r, aba.DINV, j) * entry(r, torque, j)
            total = total + x * elements(r, X, j, k, SIMD_WIDTH)
        set_entries(r, CONSTRAINT_RESIDUAL, k, m - k, total)


@kernel
def eliminated_jacobian_times(r, x, y, s):
    """Set the field y to s L^-T J' x, with x a field of numbers of the constraints.

    Reads DINV, JACOBIAN_TRANSPOSE, x; writes y.
    """
    X, zero = matrix_of_width(r, JACOBIAN_TRANSPOSE, WIDTH), lift(0.0, entry(r, aba.DINV, 0))
    for j in range(nv(r)):
        total = zero
        for k in range(nconstraints(r)):
            total = total + entry(r, x, k) * element(r, X, j, k)
        set_entry(r, y, j, s * total)
