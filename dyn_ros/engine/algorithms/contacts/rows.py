# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rows of contacts: unit forces, drift, and the stabilization of Baumgarte (1972).

All are expressed in the root frame. A contact frame c1 moves with joint 1, c2 with joint 2 or with
the world. The unit forces of a contact of dimension 6 act on both bodies at the origin of c1, those
of dimension 3 at the origins of c1 and c2. Results in WORLD are found at c1 and then moved.
"""
from collections import namedtuple

from ...kernel.algebra import (
    SE3,
    Force,
    Motion,
    add,
    cross,
    dot,
    force_moved,
    force_scale,
    lift9,
    load3,
    load9,
    load_motion,
    motion_add,
    motion_cross,
    motion_moved,
    motion_rotated,
    motion_scale,
    motion_sub,
    power,
    product,
    rotate,
    rotate_inverse,
    store3,
    store9,
    store_spatial,
    sub,
    transposed,
    zero3,
)
from ...kernel.compiler import kernel
from ...kernel.fields import MAX_CONSTRAINTS, field
from ...kernel.lanes import all_above, lift, load, select_above, sqrt, store
from ...kernel.layout import idx_v, increase, ncolumns, nconstraints, nv, offset, parent
from ...kernel.logarithm import log6
from ...model.frames import ReferenceFrame
from ..constrained.constraint_forces import (
    COUPLING,
    EXCESS,
    TRUNK_FORCES,
    UNIT_FORCES,
    clear_eliminated,
    couple,
    last_velocity,
    propagate,
    scale_eliminated,
    store_unit_force,
)
from ..constrained.semidefinite import WIDTH, absolute, clear_rows
from ..dynamics.aba import DINV, LINK_ACCELERATION
from ..kinematics.root_axes import BODY_VELOCITY, ROTATION, from_parent, load_column
from .contacts import (
    axes_of,
    first_body,
    first_placement,
    gains,
    is_at_origin,
    is_point,
    ncontacts,
    row_start,
    row_stop,
    second_body,
    second_placement,
)

LOCAL = int(ReferenceFrame.LOCAL)
MAX_CONTACTS = MAX_CONSTRAINTS // 3
AXES = field("_contact_axes", (MAX_CONTACTS, 9))        # rotation of the rows
POSES = field("_contact_poses", (MAX_CONTACTS, 21))     # rotations of c1 and c2, c2 minus c1
ARMS = field("_contact_arms", (MAX_CONTACTS, 6))        # of the forces, from the joints' origins
POINTS = field("_contact_points", (MAX_CONTACTS, 3))    # from the world's origin to c1
ERRORS = field("_contact_errors", (MAX_CONTACTS, 6))    # motion from c1 to c2, at c1
DOUBTFUL = 1e-12
"""A smaller diagonal entry of J M^-1 J', relative to the trace of D^-1, may be a rounding error."""
ROUNDING = 1e-24
"""The square of a rounding error of J, relative to its entries without cancellation."""

Pair = namedtuple("Pair", "first second")               # of motions, one for each body


# --- geometry

@kernel
def relative_position(r, i, j):
    """From the origin of joint i to that of joint j; 0 is the root."""
    p = zero3(load(r.work, offset(r, ROTATION)))
    while i != j:
        if i > j:
            p, i = sub(p, from_parent(r, i)), parent(r, i)
        else:
            p, j = add(p, from_parent(r, j)), parent(r, j)
    return p


@kernel
def placed(r, i, X):
    """A frame at X in the frame of joint i: its rotation, and its origin from that of the joint."""
    R = load9(r.work, offset(r, ROTATION) + 9 * i)
    return SE3(product(R, X.rotation), rotate(R, X.translation))


@kernel
def store_arms(r, n, t1, t2):
    """Store where the unit forces of contact n act, with c1 and c2 at t1 and t2 of the joints."""
    arms = offset(r, ARMS) + 6 * n
    if not is_point(r, n):
        t2 = add(t1, relative_position(r, second_body(r, n), first_body(r, n)))
    store3(r.work, arms, t1)
    store3(r.work, arms + 3, t2)


@kernel
def set_contact(r, n):
    """Store axes and arms of contact n."""
    i, j = first_body(r, n), second_body(r, n)
    X1, X2 = placed(r, i, first_placement(r, n)), placed(r, j, second_placement(r, n))
    axes = X1.rotation
    if axes_of(r, n) != LOCAL:
        axes = lift9((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), axes[0])
    store9(r.work, offset(r, AXES) + 9 * n, axes)
    store_arms(r, n, X1.translation, X2.translation)
    if is_at_origin(r, n):
        store3(r.work, offset(r, POINTS) + 3 * n,
               add(relative_position(r, 0, i), X1.translation))


@kernel
def store_poses(r, n):
    """Store the rotations of c1 and c2 of contact n, and the way from c1 to c2."""
    i, j, poses = first_body(r, n), second_body(r, n), offset(r, POSES) + 21 * n
    X1, X2 = placed(r, i, first_placement(r, n)), placed(r, j, second_placement(r, n))
    gap = add(relative_position(r, i, j), sub(X2.translation, X1.translation))
    store9(r.work, poses, X1.rotation)
    store9(r.work, poses + 9, X2.rotation)
    store3(r.work, poses + 18, gap)


@kernel
def arm(r, n, body):
    """From the origin of the joint of a body, 0 or 1, to where the unit forces act on it."""
    return load3(r.work, offset(r, ARMS) + 6 * n + 3 * body)


@kernel
def row_force(r, n, c):
    """The unit force of row c of contact n, about the point where it acts."""
    E = offset(r, AXES) + 9 * n + (c if c < 3 else c - 3)
    e = (load(r.work, E), load(r.work, E + 3), load(r.work, E + 6))
    if c < 3:
        return Force(e, zero3(e[0]))
    return Force(zero3(e[0]), e)


@kernel
def place_unit_forces(r, n, body, sign):
    """Store the unit forces of contact n on a body, about the origin of its joint."""
    p = arm(r, n, body)
    for k in range(row_start(r, n), row_stop(r, n)):
        f = force_moved(p, row_force(r, n, k - row_start(r, n)))
        store_unit_force(r, k, force_scale(sign, f))


# --- drift and stabilization

@kernel
def contact_velocities(r, n):
    """Velocities of both bodies of contact n, where the unit forces act."""
    v_ = offset(r, BODY_VELOCITY)
    return Pair(motion_moved(arm(r, n, 0), load_motion(r.work, v_ + 6 * first_body(r, n))),
                motion_moved(arm(r, n, 1), load_motion(r.work, v_ + 6 * second_body(r, n))))


@kernel
def drift(r, n, v):
    """The rate of the contact's velocity, less the relative spatial acceleration.

    A point accelerates by (w x v, 0) more than the spatial acceleration. In LOCAL, the axes move
    with the first body.
    """
    v1, v2 = v
    if is_point(r, n):
        return Motion(sub(cross(v1.angular, v1.linear), cross(v2.angular, v2.linear)),
                      zero3(v1.linear[0]))
    if axes_of(r, n) == LOCAL:
        return motion_cross(v1, v2)
    return Motion(zero3(v1.linear[0]), zero3(v1.linear[0]))


@kernel
def pose_error(r, n):
    """The motion from c1 to c2, at c1; for dimension 3, their distance."""
    poses = offset(r, POSES) + 21 * n
    gap = load3(r.work, poses + 18)
    if is_point(r, n):
        return Motion(gap, zero3(gap[0]))
    R1, R2 = load9(r.work, poses), load9(r.work, poses + 9)
    m = log6(SE3(product(transposed(R1), R2), rotate_inverse(R1, gap)))
    return motion_rotated(R1, m)


@kernel
def stabilization(r, n, v):
    """kp err - kd v."""
    kp, kd = gains(r, n)
    a = motion_scale(-kd, motion_sub(v.first, v.second))
    if kp > 0.0:
        store_poses(r, n)
        m = pose_error(r, n)
        store_spatial(r.work, offset(r, ERRORS) + 6 * n, m)
        a = motion_add(a, motion_scale(kp, m))
    return a


@kernel
def set_excess(r, n):
    """Start the excess of contact n: minus the wanted spatial acceleration.

    The accelerations of moving bodies contain minus gravity, that of the world does not.
    """
    v = contact_velocities(r, n)
    a = motion_sub(stabilization(r, n, v), drift(r, n, v))
    root = load_motion(r.work, offset(r, LINK_ACCELERATION))
    if second_body(r, n) == 0:
        a = motion_add(a, root)
    if first_body(r, n) == 0:
        a = motion_sub(a, root)
    for k in range(row_start(r, n), row_stop(r, n)):
        store(r.work, offset(r, EXCESS) + k, -power(row_force(r, n, k - row_start(r, n)), a))


# --- rows and the matrix J M^-1 J'

@kernel
def common_joint(r, i, j):
    """The last joint that moves the bodies of joints i and j, or 0."""
    while i != j:
        if i > j:
            i = parent(r, i)
        else:
            j = parent(r, j)
    return i


@kernel
def trunk(r):
    """The last joint that moves all bodies in contact, or 0."""
    found = max(first_body(r, 0), second_body(r, 0))
    for n in range(ncontacts(r)):
        for i in (first_body(r, n), second_body(r, n)):
            if i > 0:
                found = common_joint(r, found, i)
    return found


@kernel
def propagate_bodies(r, n, end, eliminating, moving):
    """Propagate the unit forces of contact n from both bodies to a joint."""
    i, j, start, stop = first_body(r, n), second_body(r, n), row_start(r, n), row_stop(r, n)
    if i > 0:
        place_unit_forces(r, n, 0, 1.0)
        propagate(r, offset(r, UNIT_FORCES), i, end, start, stop, eliminating, moving)
    if j > 0:
        place_unit_forces(r, n, 1, -1.0)
        propagate(r, offset(r, UNIT_FORCES), j, end, start, stop, eliminating, moving)


@kernel
def propagate_contact(r, n, moving):
    """J' of contact n. In J, unit forces of dimension 6 cancel from a common joint on."""
    end = 0 if is_point(r, n) else common_joint(r, first_body(r, n), second_body(r, n))
    propagate_bodies(r, n, end, False, moving)


@kernel
def propagate_contacts(r, eliminating, moving):
    """J' if not eliminating, else U^-1 J'; if moving, also the error of the bias acceleration."""
    clear_eliminated(r)
    clear_rows(r, 6, nconstraints(r), offset(r, TRUNK_FORCES))
    end = trunk(r) if eliminating else 0
    for n in range(ncontacts(r)):
        set_contact(r, n)
        if moving:
            set_excess(r, n)
        if eliminating:
            propagate_bodies(r, n, end, True, moving)
        else:
            propagate_contact(r, n, moving)
    if end > 0:
        propagate(r, offset(r, TRUNK_FORCES), end, 0, 0, nconstraints(r), True, moving)


@kernel
def forces_to_origin(r, forces, step):
    """Move the forces of contacts in WORLD to the world's origin; row k is k steps on."""
    for n in range(ncontacts(r)):
        if is_at_origin(r, n):
            k = forces + step * row_start(r, n)
            m = cross(load3(r.work, offset(r, POINTS) + 3 * n),
                      (load(r.work, k), load(r.work, k + step), load(r.work, k + 2 * step)))
            for c in range(3):
                increase(r.work, k + step * (3 + c), m[c])


@kernel
def motions_to_origin(r, motions, step):
    """Move the rows of contacts in WORLD to the world's origin; row k is k steps on."""
    for n in range(ncontacts(r)):
        if is_at_origin(r, n):
            k = motions + step * row_start(r, n)
            m = cross(load3(r.work, offset(r, POINTS) + 3 * n),
                      (load(r.work, k + 3 * step), load(r.work, k + 4 * step),
                       load(r.work, k + 5 * step)))
            for c in range(3):
                increase(r.work, k + step * c, m[c])


@kernel
def row_size(r, i, lever, weights):
    """Weighted size that the square of a row can have, which acts at a lever on joint i: the sum
    over velocities without cancellation.
    """
    total = lift(0.0, load(r.work, weights))
    reach = sqrt(dot(lever, lever)) + lift(1.0, total)
    while i > 0:
        for c in range(ncolumns(r, i)):
            S = load_column(r, i, c)
            square = dot(S.linear, S.linear) + dot(S.angular, S.angular) * (reach * reach)
            total = total + absolute(load(r.work, weights + idx_v(r, i) + c)) * square
        p = from_parent(r, i)
        reach = reach + sqrt(dot(p, p))
        i = parent(r, i)
    return total


@kernel
def drop_row(r, A, k, count, size):
    """Clear row and column k of a symmetric matrix if they are rounding errors of a size."""
    keep = select_above(load(r.work, A + (WIDTH + 1) * k), ROUNDING * size, 1.0, 0.0)
    for i in range(count):
        for entry in (A + WIDTH * k + i, A + WIDTH * i + k):
            store(r.work, entry, keep * load(r.work, entry))


@kernel
def drop_rounding(r, n, C, weights):
    """Clear rows of contact n in C = J W J' that are rounding errors: no velocity moves them."""
    size = (row_size(r, first_body(r, n), arm(r, n, 0), weights)
            + row_size(r, second_body(r, n), arm(r, n, 1), weights))
    for k in range(row_start(r, n), row_stop(r, n)):
        drop_row(r, C, k, nconstraints(r), size)


@kernel
def are_large(r, n, C, scale):
    """Whether no row of contact n can be a rounding error."""
    for k in range(row_start(r, n), row_stop(r, n)):
        if not all_above(load(r.work, C + (WIDTH + 1) * k), scale):
            return False
    return True


@kernel
def drop_all_rounding(r, C, weights):
    """Clear rows of C = J W J' that are rounding errors."""
    scale = lift(0.0, load(r.work, weights))
    for j in range(nv(r)):
        scale = scale + absolute(load(r.work, weights + j))
    for n in range(ncontacts(r)):
        if not are_large(r, n, C, DOUBTFUL * scale):
            drop_rounding(r, n, C, weights)


@kernel
def couple_contacts(r):
    """J M^-1 J' from U^-1 J'."""
    scale_eliminated(r)
    for n in range(ncontacts(r)):
        i, j = first_body(r, n), second_body(r, n)
        first = last_velocity(r, i) if i > 0 else -1
        second = last_velocity(r, j) if j > 0 else -1
        couple(r, row_start(r, n), row_stop(r, n), first, second)
    drop_all_rounding(r, offset(r, COUPLING), offset(r, DINV))
