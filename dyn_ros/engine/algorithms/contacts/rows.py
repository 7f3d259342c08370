# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rows of contacts: unit forces, drift, and the stabilization of Baumgarte (1972).

All are expressed in the root frame. A contact frame c1 moves with joint 1, c2 with joint 2 or with
the world. The unit forces of a contact of dimension 6 act on both bodies at the origin of c1, those
of dimension 3 at the origins of c1 and c2. Results in WORLD are found at c1 and then moved.
"""

from collections import namedtuple

from ...kernel import algebra as al
from ...kernel import lanes as la
from ...kernel import packing as ly
from ...kernel.fields import MAX_CONSTRAINTS, field
from ...kernel.logarithm import log6
from ...machine_code.declare import kernel
from ...model.frames import ReferenceFrame
from ..constrained import constraint_forces as cf
from ..constrained.semidefinite import WIDTH, absolute, clear_rows
from ..dynamics.aba import DINV, LINK_ACCELERATION
from ..kinematics import root_axes as ra
from . import packed

LOCAL = int(ReferenceFrame.LOCAL)
MAX_CONTACTS = MAX_CONSTRAINTS // 3
AXES = field("_contact_axes", (MAX_CONTACTS, 9))  # rotation of the rows
POSES = field("_contact_poses", (MAX_CONTACTS, 21))  # rotations of c1 and c2, c2 minus c1
ARMS = field("_contact_arms", (MAX_CONTACTS, 6))  # of the forces, from the joints' origins
POINTS = field("_contact_points", (MAX_CONTACTS, 3))  # from the world's origin to c1
ERRORS = field("_contact_errors", (MAX_CONTACTS, 6))  # motion from c1 to c2, at c1
DOUBTFUL = 1e-12
"""A smaller diagonal entry of J M^-1 J', relative to the trace of D^-1, may be a rounding error."""
ROUNDING = 1e-24
"""The square of a rounding error of J, relative to its entries without cancellation."""
FORCES, MOTIONS = 3, 0  # the first row that a shift changes

Pair = namedtuple("Pair", "first second")  # of motions, one for each body


# --- geometry


@kernel
def relative_position(r, i, j):
    """From the origin of joint i to the origin of joint j; 0 is the root."""
    p = al.zero3(la.load(r.work, ly.offset(r, ra.ROTATION)))
    while i != j:
        if i > j:
            p, i = al.sub(p, ra.from_parent(r, i)), ly.parent(r, i)
        else:
            p, j = al.add(p, ra.from_parent(r, j)), ly.parent(r, j)
    return p


@kernel
def placed(r, n, which):
    """Frame c1 or c2 of contact n: its rotation, and its origin relative to its joint's origin."""
    X = packed.placement(r, n, which)
    R = al.load9(r.work, ly.offset(r, ra.ROTATION) + 9 * packed.body(r, n, which))
    return al.SE3(al.product(R, X.rotation), al.rotate(R, X.translation))


@kernel
def store_arms(r, n, t1, t2):
    """Store where the unit forces of contact n act, with c1 and c2 at t1 and t2 of the joints."""
    arms = ly.offset(r, ARMS) + 6 * n
    if not packed.is_point(r, n):
        t2 = al.add(t1, relative_position(r, packed.body(r, n, 1), packed.body(r, n, 0)))
    al.store3(r.work, arms, t1)
    al.store3(r.work, arms + 3, t2)


@kernel
def set_contact(r, n):
    """Store axes and arms of contact n."""
    X1, X2 = placed(r, n, 0), placed(r, n, 1)
    axes = X1.rotation
    if packed.axes_of(r, n) != LOCAL:
        axes = al.lift9((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), axes[0])
    al.store9(r.work, ly.offset(r, AXES) + 9 * n, axes)
    store_arms(r, n, X1.translation, X2.translation)
    if packed.is_at_origin(r, n):
        al.store3(
            r.work,
            ly.offset(r, POINTS) + 3 * n,
            al.add(relative_position(r, 0, packed.body(r, n, 0)), X1.translation),
        )


@kernel
def store_poses(r, n):
    """Store the rotations of c1 and c2 of contact n, and the way from c1 to c2."""
    X1, X2, poses = placed(r, n, 0), placed(r, n, 1), ly.offset(r, POSES) + 21 * n
    gap = al.add(
        relative_position(r, packed.body(r, n, 0), packed.body(r, n, 1)),
        al.sub(X2.translation, X1.translation),
    )
    al.store9(r.work, poses, X1.rotation)
    al.store9(r.work, poses + 9, X2.rotation)
    al.store3(r.work, poses + 18, gap)


@kernel
def arm(r, n, body):
    """From the origin of the joint of a body, 0 or 1, to where the unit forces act on it."""
    return al.load3(r.work, ly.offset(r, ARMS) + 6 * n + 3 * body)


@kernel
def row_force(r, n, c):
    """The unit force of row c of contact n, about the point where it acts."""
    E = ly.offset(r, AXES) + 9 * n + (c if c < 3 else c - 3)
    e = (la.load(r.work, E), la.load(r.work, E + 3), la.load(r.work, E + 6))
    if c < 3:
        return al.Force(e, al.zero3(e[0]))
    return al.Force(al.zero3(e[0]), e)


@kernel
def place_unit_forces(r, n, body, sign):
    """Store the unit forces of contact n on a body, about the origin of its joint."""
    p = arm(r, n, body)
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        f = al.force_moved(p, row_force(r, n, k - packed.row_start(r, n)))
        cf.store_unit_force(r, k, al.force_scale(sign, f))


# --- drift and stabilization


@kernel
def contact_velocities(r, n):
    """Velocities of both bodies of contact n, where the unit forces act."""
    v_ = ly.offset(r, ra.BODY_VELOCITY)
    return Pair(
        al.motion_moved(arm(r, n, 0), al.load_motion(r.work, v_ + 6 * packed.body(r, n, 0))),
        al.motion_moved(arm(r, n, 1), al.load_motion(r.work, v_ + 6 * packed.body(r, n, 1))),
    )


@kernel
def drift(r, n, v):
    """The rate of the contact's velocity, less the relative spatial acceleration.

    A point accelerates by (w x v, 0) more than the spatial acceleration. In LOCAL, the axes move
    with the first body.
    """
    v1, v2 = v
    if packed.is_point(r, n):
        return al.Motion(
            al.sub(al.cross(v1.angular, v1.linear), al.cross(v2.angular, v2.linear)),
            al.zero3(v1.linear[0]),
        )
    if packed.axes_of(r, n) == LOCAL:
        return al.motion_cross(v1, v2)
    return al.Motion(al.zero3(v1.linear[0]), al.zero3(v1.linear[0]))


@kernel
def pose_error(r, n):
    """The motion from c1 to c2, at c1; for dimension 3, their distance."""
    poses = ly.offset(r, POSES) + 21 * n
    gap = al.load3(r.work, poses + 18)
    if packed.is_point(r, n):
        return al.Motion(gap, al.zero3(gap[0]))
    R1, R2 = al.load9(r.work, poses), al.load9(r.work, poses + 9)
    m = log6(al.SE3(al.product(al.transposed(R1), R2), al.rotate_inverse(R1, gap)))
    return al.motion_rotated(R1, m)


@kernel
def stabilization(r, n, v):
    """kp err - kd v."""
    kp, kd = packed.gains(r, n)
    a = al.motion_scale(-kd, al.motion_sub(v.first, v.second))
    if kp > 0.0:
        store_poses(r, n)
        m = pose_error(r, n)
        al.store_spatial(r.work, ly.offset(r, ERRORS) + 6 * n, m)
        a = al.motion_add(a, al.motion_scale(kp, m))
    return a


@kernel
def set_excess(r, n):
    """Start the excess of contact n: minus what is wanted; the world has no minus gravity."""
    v = contact_velocities(r, n)
    a = al.motion_sub(stabilization(r, n, v), drift(r, n, v))
    root = al.load_motion(r.work, ly.offset(r, LINK_ACCELERATION))
    if packed.body(r, n, 1) == 0:
        a = al.motion_add(a, root)
    if packed.body(r, n, 0) == 0:
        a = al.motion_sub(a, root)
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        la.store(
            r.work,
            ly.offset(r, cf.EXCESS) + k,
            -al.power(row_force(r, n, k - packed.row_start(r, n)), a),
        )


# --- rows and the matrix J M^-1 J'


@kernel
def common_joint(r, i, j):
    """The last joint that moves the bodies of joints i and j, or 0."""
    while i != j:
        if i > j:
            i = ly.parent(r, i)
        else:
            j = ly.parent(r, j)
    return i


@kernel
def trunk(r):
    """The last joint that moves all bodies in contact, or 0."""
    joint = max(packed.body(r, 0, 0), packed.body(r, 0, 1))
    for n in range(packed.ncontacts(r)):
        for i in (packed.body(r, n, 0), packed.body(r, n, 1)):
            if i > 0:
                joint = common_joint(r, joint, i)
    return joint


@kernel
def propagate_bodies(r, n, end, eliminating, moving):
    """Propagate the unit forces of contact n from both bodies to a joint."""
    forces = ly.offset(r, cf.UNIT_FORCES)
    start, stop = packed.row_start(r, n), packed.row_stop(r, n)
    if packed.body(r, n, 0) > 0:
        place_unit_forces(r, n, 0, 1.0)
        cf.propagate(r, forces, packed.body(r, n, 0), end, start, stop, eliminating, moving)
    if packed.body(r, n, 1) > 0:
        place_unit_forces(r, n, 1, -1.0)
        cf.propagate(r, forces, packed.body(r, n, 1), end, start, stop, eliminating, moving)


@kernel
def propagate_contact(r, n, moving):
    """J' of contact n. In J, unit forces of dimension 6 cancel from a common joint on."""
    end = 0
    if not packed.is_point(r, n):
        end = common_joint(r, packed.body(r, n, 0), packed.body(r, n, 1))
    propagate_bodies(r, n, end, False, moving)


@kernel
def propagate_contacts(r, eliminating, moving):
    """J' if not eliminating, else U^-1 J'; if moving, also the error of the bias acceleration."""
    cf.clear_eliminated(r)
    clear_rows(r, 6, ly.nconstraints(r), ly.offset(r, cf.TRUNK_FORCES))
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
        cf.propagate(r, ly.offset(r, cf.TRUNK_FORCES), end, 0, 0, ly.nconstraints(r), True, moving)


@kernel
def to_origin(r, moved, x, step):
    """Move numbers of contacts in WORLD, ``FORCES`` or ``MOTIONS``, to the world's origin.

    Row k is k steps after the offset x. A force then has another moment, a motion another linear
    part.
    """
    for n in range(packed.ncontacts(r)):
        if packed.is_at_origin(r, n):
            k = x + step * packed.row_start(r, n)
            fixed, changed = k + step * (3 - moved), k + step * moved
            m = al.cross(
                al.load3(r.work, ly.offset(r, POINTS) + 3 * n),
                (
                    la.load(r.work, fixed),
                    la.load(r.work, fixed + step),
                    la.load(r.work, fixed + 2 * step),
                ),
            )
            for c in range(3):
                ly.increase(r.work, changed + step * c, m[c])


@kernel
def row_size(r, i, lever, weights):
    """Largest weighted square of a row at a lever on joint i: the sum without cancellation."""
    total = la.lift(0.0, la.load(r.work, weights))
    reach = la.sqrt(al.dot(lever, lever)) + la.lift(1.0, total)
    while i > 0:
        for c in range(ly.ncolumns(r, i)):
            S = ra.load_column(r, i, c)
            square = al.dot(S.linear, S.linear) + al.dot(S.angular, S.angular) * (reach * reach)
            total = total + absolute(la.load(r.work, weights + ly.idx_v(r, i) + c)) * square
        p = ra.from_parent(r, i)
        reach = reach + la.sqrt(al.dot(p, p))
        i = ly.parent(r, i)
    return total


@kernel
def drop_row(r, A, k, count, size):
    """Clear row and column k of a symmetric matrix if they are rounding errors of a size."""
    keep = la.select_above(la.load(r.work, A + (WIDTH + 1) * k), ROUNDING * size, 1.0, 0.0)
    for i in range(count):
        for entry in (A + WIDTH * k + i, A + WIDTH * i + k):
            la.store(r.work, entry, keep * la.load(r.work, entry))


@kernel
def drop_rounding(r, n, C, weights):
    """Clear rows of contact n in C = J W J' that are rounding errors: no velocity moves them."""
    size = row_size(r, packed.body(r, n, 0), arm(r, n, 0), weights) + row_size(
        r, packed.body(r, n, 1), arm(r, n, 1), weights
    )
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        drop_row(r, C, k, ly.nconstraints(r), size)


@kernel
def are_large(r, n, C, scale):
    """Whether no row of contact n can be a rounding error."""
    for k in range(packed.row_start(r, n), packed.row_stop(r, n)):
        if not la.all_above(la.load(r.work, C + (WIDTH + 1) * k), scale):
            return False
    return True


@kernel
def drop_all_rounding(r, C, weights):
    """Clear rows of C = J W J' that are rounding errors."""
    scale = la.lift(0.0, la.load(r.work, weights))
    for j in range(ly.nv(r)):
        scale = scale + absolute(la.load(r.work, weights + j))
    for n in range(packed.ncontacts(r)):
        if not are_large(r, n, C, DOUBTFUL * scale):
            drop_rounding(r, n, C, weights)


@kernel
def branches(r, n):
    """The velocities from which the paths from the bodies of contact n to the root start, or -1."""
    first, second = packed.body(r, n, 0), packed.body(r, n, 1)
    return (
        cf.last_velocity(r, first) if first > 0 else -1,
        cf.last_velocity(r, second) if second > 0 else -1,
    )


@kernel
def couple_contacts(r):
    """J M^-1 J' from U^-1 J'."""
    cf.scale_eliminated(r)
    for n in range(packed.ncontacts(r)):
        first, second = branches(r, n)
        cf.couple(r, packed.row_start(r, n), packed.row_stop(r, n), first, second)
    drop_all_rounding(r, ly.offset(r, cf.COUPLING), ly.offset(r, DINV))
