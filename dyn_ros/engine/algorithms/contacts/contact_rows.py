# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rows of contacts: unit forces, drift of frames, and the stabilization of Baumgarte (1972).

A row k is a unit force f_k that the contact exerts on a body, and -f_k on the other body; J' has
its generalized forces as column k. All is expressed in world axes. Side 0 of a contact is its frame
c1, side 1 is c2, whose body can be the world. The unit forces of a contact of dimension 6 act on
both bodies at c1; for dimension 3, they act at c1 and c2. Results in WORLD are computed at c1 and
then moved to the world's origin.
"""

from collections import namedtuple

from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame
from ..constrained import constraint_forces as cf
from ..constrained.semidefinite import WIDTH, clear_rows
from ..dynamics.aba import DINV, LINK_ACCELERATION
from ..kinematics import world_axes as wa
from . import packed_contacts as packed

LOCAL = int(ReferenceFrame.LOCAL)
# Rotation matrices whose columns are the axes
CONTACT_AXES = field("_contact_axes", (packed.MAX_CONTACTS, 9))
# A row for each body; see ``force_arm``
FORCE_ARMS = field("_force_arms", (2 * packed.MAX_CONTACTS, 3))
# Origin of c1, relative to the world's
CONTACT_POINTS = field("_contact_points", (packed.MAX_CONTACTS, 3))
# Matrices of 7 x 3; see ``store_poses``
CONTACT_POSES = field("_contact_poses", (packed.MAX_CONTACTS, 21))
# Motions from c1 to c2, at c1
POSE_ERRORS = field("_pose_errors", (packed.MAX_CONTACTS, 6))
MIN_RELIABLE_DIAGONAL = 1e-12
"""A smaller diagonal entry of J M^-1 J', relative to the trace of D^-1, may be a rounding error."""
SQUARED_ROUNDING_ERROR = 1e-24
"""The square of a rounding error of J, relative to its entries without cancellation."""
MOMENT_ROWS, LINEAR_ROWS = 3, 0
"""First of the three rows of a contact that depend on the point of reference: the moment of a
force, the linear velocity of a motion."""

BodyPair = namedtuple("BodyPair", "first second")
"""A motion, or anything else, of each body of a contact."""


# --- geometry


@kernel
def relative_position(r, i, j):
    """Return the vector from the origin of joint i to the origin of joint j; 0 is the root.

        p = p_j - p_i, summed along the tree up to the joints' common ancestor

    Reads ROTATION, FROM_PARENT.
    """
    p = zero3(entry(r, wa.ROTATION, 0))
    while i != j:
        if i > j:
            p, i = sub(p, wa.from_parent(r, i)), parent(r, i)
        else:
            p, j = add(p, wa.from_parent(r, j)), parent(r, j)
    return p


@kernel
def contact_frame(r, n, side):
    """Return frame c1 (side 0) or c2 (side 1) of contact n, about its joint, in world axes.

        X = (R_i R_c, R_i p_c)

    Reads ROTATION.
    """
    X = packed.contact_placement(r, n, side)
    R = rotation(r, wa.ROTATION, packed.contact_joint(r, n, side))
    return SE3(product(R, X.rotation), rotate(R, X.translation))


@kernel
def store_arms(r, n, t1, t2):
    """Store the arms of the unit forces of contact n, with c1 and c2 at t1 and t2 of the joints.

    Wrenches (dimension 6) act on both bodies at c1, forces (dimension 3) at c1 and at c2.

    Reads ROTATION, FROM_PARENT; writes FORCE_ARMS.
    """
    if not packed.is_point(r, n):
        i, j = packed.contact_joint(r, n, 0), packed.contact_joint(r, n, 1)
        t2 = add(t1, relative_position(r, j, i))
    set_vector(r, FORCE_ARMS, 2 * n, t1)
    set_vector(r, FORCE_ARMS, 2 * n + 1, t2)


@kernel
def place_contact(r, n):
    """Store the axes and the arms of contact n, and in WORLD the position of c1.

    Reads ROTATION, FROM_PARENT; writes CONTACT_AXES, FORCE_ARMS, CONTACT_POINTS.
    """
    X1, X2 = contact_frame(r, n, 0), contact_frame(r, n, 1)
    axes = X1.rotation
    if packed.reference_frame(r, n) != LOCAL:
        axes = lift9((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), axes[0])
    set_rotation(r, CONTACT_AXES, n, axes)
    store_arms(r, n, X1.translation, X2.translation)
    if packed.is_at_origin(r, n):
        p = relative_position(r, 0, packed.contact_joint(r, n, 0))
        set_vector(r, CONTACT_POINTS, n, add(p, X1.translation))


@kernel
def store_poses(r, n):
    """Store the rotations of c1 and c2 (three rows each), and the vector from c1 to c2.

    Reads ROTATION, FROM_PARENT; writes CONTACT_POSES.
    """
    X1, X2, poses = (
        contact_frame(r, n, 0),
        contact_frame(r, n, 1),
        matrix_row(r, CONTACT_POSES, n, 7, 3),
    )
    gap = add(
        relative_position(r, packed.contact_joint(r, n, 0), packed.contact_joint(r, n, 1)),
        sub(X2.translation, X1.translation),
    )
    set_elements9(r, poses, 0, 0, X1.rotation)
    set_elements9(r, poses, 3, 0, X2.rotation)
    set_elements3(r, poses, 6, 0, gap)


@kernel
def contact_orientation(r, n, side):
    """Return the rotation of c1 (side 0) or c2 (side 1) of contact n, after ``store_poses``.

    Reads CONTACT_POSES.
    """
    return elements9(r, matrix_row(r, CONTACT_POSES, n, 7, 3), 3 * side, 0)


@kernel
def relative_origin(r, n):
    """Return the vector from c1 to c2 of contact n, after ``store_poses``. Reads CONTACT_POSES."""
    return elements3(r, matrix_row(r, CONTACT_POSES, n, 7, 3), 6, 0)


@kernel
def force_arm(r, n, side):
    """Return the vector from the origin of a body's joint to the point where unit forces act on it.

    Reads FORCE_ARMS.
    """
    return vector(r, FORCE_ARMS, 2 * n + side)


@kernel
def row_force(r, n, c):
    """Return the unit force of row c of contact n, about the point where it acts.

        f = (e_c, 0)  or  (0, e_c-3), with e the axes of the contact

    Reads CONTACT_AXES.
    """
    E, k = matrix_row(r, CONTACT_AXES, n, 3, 3), c if c < 3 else c - 3
    e = (element(r, E, 0, k), element(r, E, 1, k), element(r, E, 2, k))
    if c < 3:
        return Force(e, zero3(e[0]))
    return Force(zero3(e[0]), e)


@kernel
def place_unit_forces(r, n, side, sign):
    """Store the unit forces of contact n on a body, about the origin of its joint.

        f_k = sign (e, p x e)               force
        f_k = sign (0, e)                   torque

    Reads CONTACT_AXES, FORCE_ARMS; writes UNIT_FORCES.
    """
    p = force_arm(r, n, side)
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        f = force_moved(p, row_force(r, n, k - packed.row_start(r, n)))
        cf.store_unit_force(r, k, force_scale(sign, f))


# --- drift of frames, and stabilization


@kernel
def contact_velocities(r, n):
    """Return the velocities of both bodies of contact n, at the points where unit forces act.

        v = (v_i + w_i x p, w_i)

    Reads BODY_VELOCITY, FORCE_ARMS.
    """
    i, j = packed.contact_joint(r, n, 0), packed.contact_joint(r, n, 1)
    return BodyPair(
        motion_moved(force_arm(r, n, 0), motion(r, wa.BODY_VELOCITY, i)),
        motion_moved(force_arm(r, n, 1), motion(r, wa.BODY_VELOCITY, j)),
    )


@kernel
def frame_drift(r, n, v):
    """Return the drift of the axes and points of contact n: constrained less spatial acceleration.

        (w_1 x v_1 - w_2 x v_2, 0)          dimension 3
        v_1 x v_2                           dimension 6, LOCAL
        0                                   dimension 6, other axes

    Dimension 3 constrains the classical acceleration, which is (w x v, 0) more than the spatial
    one. In LOCAL, the axes of dimension 6 move with the first body.
    """
    v1, v2 = v
    if packed.is_point(r, n):
        return Motion(
            sub(cross(v1.angular, v1.linear), cross(v2.angular, v2.linear)),
            zero3(v1.linear[0]),
        )
    if packed.reference_frame(r, n) == LOCAL:
        return motion_cross(v1, v2)
    return Motion(zero3(v1.linear[0]), zero3(v1.linear[0]))


@kernel
def pose_error(r, n):
    """Return the motion from c1 to c2, at c1; for dimension 3, the vector from c1 to c2.

        R_1 log6(X_1^-1 X_2)

    Reads CONTACT_POSES.
    """
    gap = relative_origin(r, n)
    if packed.is_point(r, n):
        return Motion(gap, zero3(gap[0]))
    R1, R2 = contact_orientation(r, n, 0), contact_orientation(r, n, 1)
    m = log6(SE3(product(transposed(R1), R2), rotate_inverse(R1, gap)))
    return motion_rotated(R1, m)


@kernel
def stabilizing_acceleration(r, n, v):
    """Return the acceleration that stabilizes contact n, for velocities v of both bodies.

        a = kp err - kd (v_1 - v_2)         Baumgarte (1972)

    Reads ROTATION, FROM_PARENT; writes CONTACT_POSES, POSE_ERRORS.
    """
    kp, kd = packed.baumgarte_gains(r, n)
    a = motion_scale(-kd, motion_sub(v.first, v.second))
    if kp > 0.0:
        store_poses(r, n)
        m = pose_error(r, n)
        set_motion(r, POSE_ERRORS, n, m)
        a = motion_add(a, motion_scale(kp, m))
    return a


@kernel
def set_contact_residual(r, n):
    """Set the constraint residual of contact n to its part without accelerations of bodies.

        b_k = f_k . (frame drift - (kp err - kd v))     see ``frame_drift``

    Accelerations of bodies include minus gravity, as the root's. If a body is the world, the
    acceleration of the root is added here.

    Reads ROTATION, FROM_PARENT, BODY_VELOCITY, LINK_ACCELERATION, CONTACT_AXES, FORCE_ARMS; writes
    CONSTRAINT_RESIDUAL, CONTACT_POSES, POSE_ERRORS.
    """
    v = contact_velocities(r, n)
    a = motion_sub(stabilizing_acceleration(r, n, v), frame_drift(r, n, v))
    root = motion(r, LINK_ACCELERATION, 0)
    if packed.contact_joint(r, n, 1) == 0:
        a = motion_add(a, root)
    if packed.contact_joint(r, n, 0) == 0:
        a = motion_sub(a, root)
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        f = row_force(r, n, k - packed.row_start(r, n))
        set_entry(r, cf.CONSTRAINT_RESIDUAL, k, -power(f, a))


# --- rows and the matrix J M^-1 J'


@kernel
def common_joint(r, i, j):
    """Return the last joint that moves the bodies of joints i and j, or 0."""
    while i != j:
        if i > j:
            i = parent(r, i)
        else:
            j = parent(r, j)
    return i


@kernel
def trunk_joint(r):
    """Return the last joint that moves all bodies in contact, or 0."""
    joint = max(packed.contact_joint(r, 0, 0), packed.contact_joint(r, 0, 1))
    for n in range(packed.ncontacts(r)):
        for i in (packed.contact_joint(r, n, 0), packed.contact_joint(r, n, 1)):
            if i > 0:
                joint = common_joint(r, joint, i)
    return joint


@kernel
def propagate_body(r, n, side, sign, end, with_elimination, with_bias):
    """Propagate the unit forces of contact n from one of its bodies to joint ``end``.

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS_ACCELERATION, U, DINV, CONTACT_AXES,
    FORCE_ARMS; writes UNIT_FORCES, TRUNK_FORCES, JACOBIAN_TRANSPOSE, CONSTRAINT_RESIDUAL.
    """
    i, start, stop = packed.contact_joint(r, n, side), packed.row_start(r, n), packed.row_stop(r, n)
    if i > 0:
        place_unit_forces(r, n, side, sign)
        cf.propagate_forces(r, cf.UNIT_FORCES, i, end, start, stop, with_elimination, with_bias)


@kernel
def propagate_bodies(r, n, end, with_elimination, with_bias):
    """Propagate the unit forces of contact n from both bodies to joint ``end``.

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS_ACCELERATION, U, DINV, CONTACT_AXES,
    FORCE_ARMS; writes UNIT_FORCES, TRUNK_FORCES, JACOBIAN_TRANSPOSE, CONSTRAINT_RESIDUAL.
    """
    propagate_body(r, n, 0, 1.0, end, with_elimination, with_bias)
    propagate_body(r, n, 1, -1.0, end, with_elimination, with_bias)


@kernel
def propagate_contact(r, n, with_bias):
    """Compute J' of contact n; unit forces of dimension 6 on two bodies cancel at a common joint.

        J_kj = S_j' f_k

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS_ACCELERATION, U, DINV, CONTACT_AXES,
    FORCE_ARMS; writes UNIT_FORCES, TRUNK_FORCES, JACOBIAN_TRANSPOSE, CONSTRAINT_RESIDUAL.
    """
    end = 0
    if not packed.is_point(r, n):
        end = common_joint(r, packed.contact_joint(r, n, 0), packed.contact_joint(r, n, 1))
    propagate_bodies(r, n, end, with_elimination=False, with_bias=with_bias)


@kernel
def propagate_contacts(r, with_elimination, with_bias):
    """Compute J', or L^-T J' with elimination; with bias, also the constraint residual.

        b = J c + frame drift - (kp err - kd v)         c: the bias accelerations

    J c is the sum of c_i' f_k along the tree. With elimination, f_k is what remains of the unit
    force after the velocities of joint i and of its descendants have given way.
    ``add_free_acceleration`` completes b.

    Calls place_contact, propagate_forces, set_contact_residual, propagate_bodies,
    propagate_contact.
    """
    cf.clear_jacobian(r)
    clear_rows(r, 6, nconstraints(r), cf.TRUNK_FORCES)
    end = trunk_joint(r) if with_elimination else 0
    for n in range(packed.ncontacts(r)):
        place_contact(r, n)
        if with_bias:
            set_contact_residual(r, n)
        if with_elimination:
            propagate_bodies(r, n, end, with_elimination=True, with_bias=with_bias)
        else:
            propagate_contact(r, n, with_bias)
    if end > 0:
        m = nconstraints(r)
        cf.propagate_forces(
            r, cf.TRUNK_FORCES, end, 0, 0, m, with_elimination=True, with_bias=with_bias
        )


@kernel
def move_column_to_origin(r, dependent_rows, A, j):
    """Move column j of A, with a number for each row of contacts, to the world's origin in WORLD.

        n = n + p x f                       column of forces, dependent_rows: MOMENT_ROWS
        v = v + p x w                       column of motions, dependent_rows: LINEAR_ROWS

    Reads CONTACT_POINTS; writes A.
    """
    for n in range(packed.ncontacts(r)):
        if packed.is_at_origin(r, n):
            k = packed.row_start(r, n)
            fixed, changed = k + (3 - dependent_rows), k + dependent_rows
            x = (element(r, A, fixed, j), element(r, A, fixed + 1, j), element(r, A, fixed + 2, j))
            m = cross(vector(r, CONTACT_POINTS, n), x)
            for c in range(3):
                add_to_element(r, A, changed + c, j, m[c])


@kernel
def move_entries_to_origin(r, dependent_rows, target):
    """Move a field, with a number for each row of contacts, to the world's origin in WORLD.

    Reads CONTACT_POINTS; writes target.
    """
    move_column_to_origin(r, dependent_rows, matrix_of_width(r, target, 1), 0)


@kernel
def row_square_bound(r, i, lever, weights):
    """Return the largest weighted square of a row at a lever on joint i, without cancellation.

        sum of |W_j| (|v_j|^2 + |w_j|^2 (1 + |lever| + d_j)^2)

    The sum is over the velocities j on the way to the root, with columns (v_j, w_j) of S and the
    weights W; d_j is the length of the way to joint j.

    Reads FROM_PARENT, COLUMNS, weights.
    """
    total = lift(0.0, entry(r, weights, 0))
    reach = sqrt(dot(lever, lever)) + lift(1.0, total)
    while i > 0:
        for c in range(ncolumns(r, i)):
            S = wa.subspace_column(r, i, c)
            square = dot(S.linear, S.linear) + dot(S.angular, S.angular) * (reach * reach)
            total = total + fabs(entry(r, weights, idx_v(r, i) + c)) * square
        p = wa.from_parent(r, i)
        reach = reach + sqrt(dot(p, p))
        i = parent(r, i)
    return total


@kernel
def drop_row(r, A, k, count, size):
    """Clear row and column k of a symmetric matrix if its diagonal is a rounding error.

        A_kk <= SQUARED_ROUNDING_ERROR size     with the size of the row without cancellation

    Writes A.
    """
    keep = select_above(element(r, A, k, k), SQUARED_ROUNDING_ERROR * size, 1.0, 0.0)
    for i in range(count):
        set_element(r, A, k, i, keep * element(r, A, k, i))
        set_element(r, A, i, k, keep * element(r, A, i, k))


@kernel
def drop_contact_rows(r, n, C, weights):
    """Clear rows of contact n in C = J W J' that are rounding errors, as no velocity moves them.

    Reads FROM_PARENT, COLUMNS, FORCE_ARMS, weights; writes C.
    """
    size_1 = row_square_bound(r, packed.contact_joint(r, n, 0), force_arm(r, n, 0), weights)
    size_2 = row_square_bound(r, packed.contact_joint(r, n, 1), force_arm(r, n, 1), weights)
    size = size_1 + size_2
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        drop_row(r, C, k, nconstraints(r), size)


@kernel
def rows_are_reliable(r, n, C, scale):
    """Return True if no row of contact n can be a rounding error. Reads C."""
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        if not all_above(element(r, C, k, k), scale):
            return False
    return True


@kernel
def drop_rounding_errors(r, C, weights):
    """Clear rows of C = J W J' that are rounding errors.

    Reads FROM_PARENT, COLUMNS, FORCE_ARMS, weights; writes C.
    """
    scale = lift(0.0, entry(r, weights, 0))
    for j in range(nv(r)):
        scale = scale + fabs(entry(r, weights, j))
    for n in range(packed.ncontacts(r)):
        if not rows_are_reliable(r, n, C, MIN_RELIABLE_DIAGONAL * scale):
            drop_contact_rows(r, n, C, weights)


@kernel
def branch_velocities(r, n):
    """Return the first velocities of the paths from the bodies of contact n to the root, or -1."""
    first, second = packed.contact_joint(r, n, 0), packed.contact_joint(r, n, 1)
    return (
        cf.last_velocity(r, first) if first > 0 else -1,
        cf.last_velocity(r, second) if second > 0 else -1,
    )


@kernel
def compute_contact_coupling(r):
    """Compute J M^-1 J' from L^-T J', with rows cleared that are rounding errors.

        J M^-1 J' = R' R,  R = D^-1/2 L^-T J'

    Reads FROM_PARENT, COLUMNS, DINV, JACOBIAN_TRANSPOSE, FORCE_ARMS; writes SCALED_JACOBIAN,
    COUPLING.
    """
    cf.scale_jacobian(r)
    for n in range(packed.ncontacts(r)):
        first, second = branch_velocities(r, n)
        cf.compute_coupling_rows(r, packed.row_start(r, n), packed.row_stop(r, n), first, second)
    drop_rounding_errors(r, matrix_of_width(r, cf.COUPLING, WIDTH), DINV)
