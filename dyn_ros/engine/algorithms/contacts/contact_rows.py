# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rows of contacts: unit forces, drift, and the stabilization of Baumgarte (1972).

All are expressed in the root frame. A contact frame c1 moves with joint 1, c2 with joint 2 or with
the world. The unit forces of a contact of dimension 6 act on both bodies at the origin of c1, those
of dimension 3 at the origins of c1 and c2. Results in WORLD are found at c1 and then moved.
"""

from collections import namedtuple

from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame
from ..constrained import constraint_forces as cf
from ..constrained.semidefinite import WIDTH, absolute, clear_rows
from ..dynamics.aba import DINV, LINK_ACCELERATION
from ..kinematics import root_axes as ra
from . import packed

LOCAL = int(ReferenceFrame.LOCAL)
AXES = field("_contact_axes", (packed.MAX_CONTACTS, 9))  # rotation of the rows
POSES = field("_contact_poses", (packed.MAX_CONTACTS, 21))  # rotations of c1 and c2, c2 minus c1
ARMS = field("_contact_arms", (packed.MAX_CONTACTS, 6))  # of the forces, from the joints' origins
POINTS = field("_contact_points", (packed.MAX_CONTACTS, 3))  # from the world's origin to c1
ERRORS = field("_contact_errors", (packed.MAX_CONTACTS, 6))  # motion from c1 to c2, at c1
MIN_RELIABLE_DIAGONAL = 1e-12
"""A smaller diagonal entry of J M^-1 J', relative to the trace of D^-1, may be a rounding error."""
SQUARED_ROUNDING_ERROR = 1e-24
"""The square of a rounding error of J, relative to its entries without cancellation."""
FORCES, MOTIONS = 3, 0  # the first row that a shift changes

Pair = namedtuple("Pair", "first second")  # of motions, one for each body


# --- geometry


@kernel
def relative_position(r, i, j):
    """Return the vector from the origin of joint i to the origin of joint j; 0 is the root.

    Reads ROTATION, FROM_PARENT.
    """
    p = zero3(entry(r, ra.ROTATION, 0))
    while i != j:
        if i > j:
            p, i = sub(p, ra.from_parent(r, i)), parent(r, i)
        else:
            p, j = add(p, ra.from_parent(r, j)), parent(r, j)
    return p


@kernel
def placed(r, n, which):
    """Return frame c1 or c2 of contact n, relative to its joint's origin, in root axes.

    Reads ROTATION.
    """
    X = packed.body_placement(r, n, which)
    R = rotation(r, ra.ROTATION, packed.body(r, n, which))
    return SE3(product(R, X.rotation), rotate(R, X.translation))


@kernel
def store_arms(r, n, t1, t2):
    """Store where the unit forces of contact n act, with c1 and c2 at t1 and t2 of the joints.

    Reads ROTATION, FROM_PARENT; writes ARMS.
    """
    arms = offset(r, ARMS) + 6 * n
    if not packed.is_point(r, n):
        t2 = add(t1, relative_position(r, packed.body(r, n, 1), packed.body(r, n, 0)))
    store3(r.work, arms, t1)
    store3(r.work, arms + 3, t2)


@kernel
def set_contact(r, n):
    """Store axes and arms of contact n. Reads ROTATION, FROM_PARENT; writes AXES, ARMS, POINTS."""
    X1, X2 = placed(r, n, 0), placed(r, n, 1)
    axes = X1.rotation
    if packed.axes_of(r, n) != LOCAL:
        axes = lift9((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), axes[0])
    set_rotation(r, AXES, n, axes)
    store_arms(r, n, X1.translation, X2.translation)
    if packed.is_at_origin(r, n):
        set_vector(r, POINTS, n, add(relative_position(r, 0, packed.body(r, n, 0)), X1.translation))


@kernel
def store_poses(r, n):
    """Store the rotations of c1 and c2 of contact n, and the vector from c1 to c2.

    Reads ROTATION, FROM_PARENT; writes POSES.
    """
    X1, X2, poses = placed(r, n, 0), placed(r, n, 1), offset(r, POSES) + 21 * n
    gap = add(
        relative_position(r, packed.body(r, n, 0), packed.body(r, n, 1)),
        sub(X2.translation, X1.translation),
    )
    store9(r.work, poses, X1.rotation)
    store9(r.work, poses + 9, X2.rotation)
    store3(r.work, poses + 18, gap)


@kernel
def arm(r, n, body):
    """Return the vector from the joint of a body, 0 or 1, to where the unit forces act on it.

    Reads ARMS.
    """
    return load3(r.work, offset(r, ARMS) + 6 * n + 3 * body)


@kernel
def row_force(r, n, c):
    """Return the unit force of row c of contact n, about the point where it acts. Reads AXES."""
    E = offset(r, AXES) + 9 * n + (c if c < 3 else c - 3)
    e = (load(r.work, E), load(r.work, E + 3), load(r.work, E + 6))
    if c < 3:
        return Force(e, zero3(e[0]))
    return Force(zero3(e[0]), e)


@kernel
def place_unit_forces(r, n, body, sign):
    """Store the unit forces of contact n on a body, about the origin of its joint.

    Reads AXES, ARMS; writes UNIT_FORCES.
    """
    p = arm(r, n, body)
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        f = force_moved(p, row_force(r, n, k - packed.row_start(r, n)))
        cf.store_unit_force(r, k, force_scale(sign, f))


# --- drift and stabilization


@kernel
def contact_velocities(r, n):
    """Return the velocities of both bodies of contact n, where the unit forces act.

    Reads BODY_VELOCITY, ARMS.
    """
    return Pair(
        motion_moved(arm(r, n, 0), motion(r, ra.BODY_VELOCITY, packed.body(r, n, 0))),
        motion_moved(arm(r, n, 1), motion(r, ra.BODY_VELOCITY, packed.body(r, n, 1))),
    )


@kernel
def drift(r, n, v):
    """Return the rate of the contact's velocity, less the relative spatial acceleration.

        dimension 3: w_1 x v_1 - w_2 x v_2
        LOCAL: v_1 x v_2

    A point accelerates by (w x v, 0) more than the spatial acceleration. In LOCAL, the axes move
    with the first body.
    """
    v1, v2 = v
    if packed.is_point(r, n):
        return Motion(
            sub(cross(v1.angular, v1.linear), cross(v2.angular, v2.linear)),
            zero3(v1.linear[0]),
        )
    if packed.axes_of(r, n) == LOCAL:
        return motion_cross(v1, v2)
    return Motion(zero3(v1.linear[0]), zero3(v1.linear[0]))


@kernel
def pose_error(r, n):
    """Return the motion from c1 to c2, at c1; for dimension 3, their distance.

        R_1 log6(X_1^-1 X_2)

    Reads POSES.
    """
    poses = offset(r, POSES) + 21 * n
    gap = load3(r.work, poses + 18)
    if packed.is_point(r, n):
        return Motion(gap, zero3(gap[0]))
    R1, R2 = load9(r.work, poses), load9(r.work, poses + 9)
    m = log6(SE3(product(transposed(R1), R2), rotate_inverse(R1, gap)))
    return motion_rotated(R1, m)


@kernel
def stabilization(r, n, v):
    """Return kp err - kd v, Baumgarte (1972). Reads ROTATION, FROM_PARENT; writes POSES, ERRORS."""
    kp, kd = packed.gains(r, n)
    a = motion_scale(-kd, motion_sub(v.first, v.second))
    if kp > 0.0:
        store_poses(r, n)
        m = pose_error(r, n)
        set_motion(r, ERRORS, n, m)
        a = motion_add(a, motion_scale(kp, m))
    return a


@kernel
def set_excess(r, n):
    """Start the excess of contact n: minus what is wanted; the world has no minus gravity.

        b_k = -f_k . (kp err - kd v - drift)

    Reads ROTATION, FROM_PARENT, BODY_VELOCITY, LINK_ACCELERATION, AXES, ARMS; writes EXCESS, POSES,
    ERRORS.
    """
    v = contact_velocities(r, n)
    a = motion_sub(stabilization(r, n, v), drift(r, n, v))
    root = motion(r, LINK_ACCELERATION, 0)
    if packed.body(r, n, 1) == 0:
        a = motion_add(a, root)
    if packed.body(r, n, 0) == 0:
        a = motion_sub(a, root)
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        set_entry(r, cf.EXCESS, k, -power(row_force(r, n, k - packed.row_start(r, n)), a))


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
def trunk(r):
    """Return the last joint that moves all bodies in contact, or 0."""
    joint = max(packed.body(r, 0, 0), packed.body(r, 0, 1))
    for n in range(packed.ncontacts(r)):
        for i in (packed.body(r, n, 0), packed.body(r, n, 1)):
            if i > 0:
                joint = common_joint(r, joint, i)
    return joint


@kernel
def propagate_bodies(r, n, end, eliminating, moving):
    """Propagate the unit forces of contact n from both bodies to a joint.

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS, U, DINV, AXES, ARMS; writes UNIT_FORCES,
    EXCESS.
    """
    forces = offset(r, cf.UNIT_FORCES)
    start, stop = packed.row_start(r, n), packed.row_stop(r, n)
    if packed.body(r, n, 0) > 0:
        place_unit_forces(r, n, 0, 1.0)
        cf.propagate(r, forces, packed.body(r, n, 0), end, start, stop, eliminating, moving)
    if packed.body(r, n, 1) > 0:
        place_unit_forces(r, n, 1, -1.0)
        cf.propagate(r, forces, packed.body(r, n, 1), end, start, stop, eliminating, moving)


@kernel
def propagate_contact(r, n, moving):
    """Compute J' of contact n. In J, unit forces of dimension 6 cancel from a common joint on.

    Reads FROM_PARENT, COLUMNS, LINK_ACCELERATION, BIAS, U, DINV, AXES, ARMS; writes UNIT_FORCES,
    EXCESS.
    """
    end = 0
    if not packed.is_point(r, n):
        end = common_joint(r, packed.body(r, n, 0), packed.body(r, n, 1))
    propagate_bodies(r, n, end, False, moving)


@kernel
def propagate_contacts(r, eliminating, moving):
    """Compute J', or U^-1 J' if eliminating; if moving, also the error of the bias acceleration.

    Writes TRUNK_FORCES, ELIMINATED; calls set_contact, propagate, set_excess, propagate_bodies,
    propagate_contact.
    """
    cf.clear_eliminated(r)
    clear_rows(r, 6, nconstraints(r), offset(r, cf.TRUNK_FORCES))
    end = trunk(r) if eliminating else 0
    for n in range(packed.ncontacts(r)):
        set_contact(r, n)
        if moving:
            set_excess(r, n)
        if eliminating:
            propagate_bodies(r, n, end, True, moving)
        else:
            propagate_contact(r, n, moving)
    if end > 0:
        cf.propagate(r, offset(r, cf.TRUNK_FORCES), end, 0, 0, nconstraints(r), True, moving)


@kernel
def to_origin(r, moved, x, step):
    """Move numbers of contacts in WORLD, ``FORCES`` or ``MOTIONS``, to the world's origin.

        force: moment + p x force
        motion: linear + p x angular

    Row k is k steps after the offset x.

    Reads POINTS, step; writes x.
    """
    for n in range(packed.ncontacts(r)):
        if packed.is_at_origin(r, n):
            k = x + step * packed.row_start(r, n)
            fixed, changed = k + step * (3 - moved), k + step * moved
            m = cross(
                vector(r, POINTS, n),
                (
                    load(r.work, fixed),
                    load(r.work, fixed + step),
                    load(r.work, fixed + 2 * step),
                ),
            )
            for c in range(3):
                increase(r.work, changed + step * c, m[c])


@kernel
def row_size(r, i, lever, weights):
    """Return the largest weighted square of a row at a lever on joint i, without cancellation.

    Reads FROM_PARENT, COLUMNS, weights.
    """
    total = lift(0.0, load(r.work, weights))
    reach = sqrt(dot(lever, lever)) + lift(1.0, total)
    while i > 0:
        for c in range(ncolumns(r, i)):
            S = ra.subspace_column(r, i, c)
            square = dot(S.linear, S.linear) + dot(S.angular, S.angular) * (reach * reach)
            total = total + absolute(load(r.work, weights + idx_v(r, i) + c)) * square
        p = ra.from_parent(r, i)
        reach = reach + sqrt(dot(p, p))
        i = parent(r, i)
    return total


@kernel
def drop_row(r, A, k, count, size):
    """Clear row and column k of a symmetric matrix if they are rounding errors of a size.

    Writes A.
    """
    keep = select_above(load(r.work, A + (WIDTH + 1) * k), SQUARED_ROUNDING_ERROR * size, 1.0, 0.0)
    for i in range(count):
        for entry in (A + WIDTH * k + i, A + WIDTH * i + k):
            store(r.work, entry, keep * load(r.work, entry))


@kernel
def drop_rounding(r, n, C, weights):
    """Clear rows of contact n in C = J W J' that are rounding errors: no velocity moves them.

    Reads FROM_PARENT, COLUMNS, ARMS, weights; writes C.
    """
    size = row_size(r, packed.body(r, n, 0), arm(r, n, 0), weights) + row_size(
        r, packed.body(r, n, 1), arm(r, n, 1), weights
    )
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        drop_row(r, C, k, nconstraints(r), size)


@kernel
def are_large(r, n, C, scale):
    """Return True if no row of contact n can be a rounding error. Reads C."""
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        if not all_above(load(r.work, C + (WIDTH + 1) * k), scale):
            return False
    return True


@kernel
def drop_all_rounding(r, C, weights):
    """Clear rows of C = J W J' that are rounding errors.

    Reads FROM_PARENT, COLUMNS, ARMS, weights; writes C.
    """
    scale = lift(0.0, load(r.work, weights))
    for j in range(nv(r)):
        scale = scale + absolute(load(r.work, weights + j))
    for n in range(packed.ncontacts(r)):
        if not are_large(r, n, C, MIN_RELIABLE_DIAGONAL * scale):
            drop_rounding(r, n, C, weights)


@kernel
def branches(r, n):
    """Return the first velocities of the paths from the bodies of contact n to the root, or -1."""
    first, second = packed.body(r, n, 0), packed.body(r, n, 1)
    return (
        cf.last_velocity(r, first) if first > 0 else -1,
        cf.last_velocity(r, second) if second > 0 else -1,
    )


@kernel
def couple_contacts(r):
    """Compute J M^-1 J' from U^-1 J'.

    Reads FROM_PARENT, COLUMNS, DINV, ELIMINATED, ARMS; writes SCALED, COUPLING.
    """
    cf.scale_eliminated(r)
    for n in range(packed.ncontacts(r)):
        first, second = branches(r, n)
        cf.couple(r, packed.row_start(r, n), packed.row_stop(r, n), first, second)
    drop_all_rounding(r, offset(r, cf.COUPLING), offset(r, DINV))
