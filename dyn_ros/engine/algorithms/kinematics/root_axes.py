# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bodies expressed in the root frame, each about its own joint's origin.

In these coordinates, inertias, forces and motions are shifted between joints but not rotated, and
unlike in a common frame, accuracy is preserved for bodies far from the root. They are used by
crba, aba, and all functions for centers of mass. The latter use the first joint's origin instead
of the root's, so that a distant base does not cost accuracy either.
"""

from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import A, V, field
from ...kernel.joints import column, joint_placement
from ...kernel.lanes import load, store
from ...machine_code.declare import kernel

ROTATION = field("_oR", ("rows", 9))  # from the joint frame to the root frame
FROM_PARENT = field("_arm", ("rows", 3))  # from the parent's origin to the joint's
COLUMNS = field("_columns", ("ncolumns", 6))  # S; revolute and prismatic joints use 3 numbers
BODY_VELOCITY = field("_velocity", ("rows", 6))
BODY_ACCELERATION = field("_acceleration", ("rows", 6))
ORIGIN = field("_first_origin", (3,))  # from the root's origin to the first joint's
POSITION = field("_position", ("rows", 3))  # from the first joint's origin to the joint's


@kernel
def set_root(r):
    ly.clear(r.work, ly.offset(r, ROTATION), 9)
    for k in range(3):
        store(r.work, ly.offset(r, ROTATION) + 4 * k, 1.0)


@kernel
def set_root_at_rest(r):
    set_root(r)
    ly.clear(r.work, ly.offset(r, BODY_VELOCITY), 6)


@kernel
def let_fall(r, field):
    """Set the acceleration of the universe in a field to minus gravity."""
    ly.clear(r.work, ly.offset(r, field), 6)
    al.store3(r.work, ly.offset(r, field), al.scale(-1.0, al.constant3(r.floats, ly.GRAVITY)))


@kernel
def place_body(r, i):
    """Store rotation, offset from the parent and motion subspace of joint i; return its inertia."""
    R_p = al.load9(r.work, ly.offset(r, ROTATION) + 9 * ly.parent(r, i))
    X = joint_placement(r, i)
    R = al.product(R_p, X.rotation)
    al.store9(r.work, ly.offset(r, ROTATION) + 9 * i, R)
    al.store3(r.work, ly.offset(r, FROM_PARENT) + 3 * i, al.rotate(R_p, X.translation))
    s = ly.offset(r, COLUMNS) + 6 * ly.idx_column(r, i)
    if ly.kind(r, i) == ly.REVOLUTE or ly.kind(r, i) == ly.PRISMATIC:
        al.store3(r.work, s, al.rotate(R, al.scale(ly.ratio(r, i), ly.axis(r, i))))
    else:
        for c in range(ly.ncolumns(r, i)):
            al.store_spatial(r.work, s + 6 * c, al.motion_rotated(R, column(r, i, c)))
    return al.inertia_rotated(R, ly.body_inertia(r, i))


@kernel
def from_parent(r, i):
    return al.load3(r.work, ly.offset(r, FROM_PARENT) + 3 * i)


@kernel
def load_column(r, i, c):
    """S_c."""
    s = ly.offset(r, COLUMNS) + 6 * (ly.idx_column(r, i) + c)
    if ly.kind(r, i) == ly.REVOLUTE:
        u = al.load3(r.work, s)
        return al.Motion(al.zero3(u[0]), u)
    if ly.kind(r, i) == ly.PRISMATIC:
        u = al.load3(r.work, s)
        return al.Motion(u, al.zero3(u[0]))
    return al.load_motion(r.work, s)


@kernel
def add_column(r, i, c, m, x):
    """m + x S_c."""
    s = ly.offset(r, COLUMNS) + 6 * (ly.idx_column(r, i) + c)
    if ly.kind(r, i) == ly.REVOLUTE:
        return al.Motion(m.linear, al.add(m.angular, al.scale(x, al.load3(r.work, s))))
    if ly.kind(r, i) == ly.PRISMATIC:
        return al.Motion(al.add(m.linear, al.scale(x, al.load3(r.work, s))), m.angular)
    return al.motion_add(m, al.motion_scale(x, al.load_motion(r.work, s)))


@kernel
def cross_column(r, i, c, v, x):
    """v x (x S_c)."""
    s = ly.offset(r, COLUMNS) + 6 * (ly.idx_column(r, i) + c)
    if ly.kind(r, i) == ly.REVOLUTE:
        u = al.scale(x, al.load3(r.work, s))
        return al.Motion(al.cross(v.linear, u), al.cross(v.angular, u))
    if ly.kind(r, i) == ly.PRISMATIC:
        return al.Motion(al.cross(v.angular, al.scale(x, al.load3(r.work, s))), al.zero3(x))
    return al.motion_cross(v, al.motion_scale(x, al.load_motion(r.work, s)))


@kernel
def dot_column(r, i, c, f):
    """S_c . f."""
    s = ly.offset(r, COLUMNS) + 6 * (ly.idx_column(r, i) + c)
    if ly.kind(r, i) == ly.REVOLUTE:
        return al.dot(al.load3(r.work, s), f.angular)
    if ly.kind(r, i) == ly.PRISMATIC:
        return al.dot(al.load3(r.work, s), f.linear)
    return al.power(f, al.load_motion(r.work, s))


@kernel
def velocity(r, i, field, x):
    """Store in a field, and return, the velocity of joint i whose rates are at offset x."""
    rates = x + ly.idx_v(r, i)
    v = al.motion_moved(
        from_parent(r, i), al.load_motion(r.work, ly.offset(r, field) + 6 * ly.parent(r, i))
    )
    v = add_column(r, i, 0, v, load(r.work, rates))
    for c in range(1, ly.ncolumns(r, i)):
        v = add_column(r, i, c, v, load(r.work, rates + c))
    al.store_spatial(r.work, ly.offset(r, field) + 6 * i, v)
    return v


@kernel
def body_velocity(r, i):
    return velocity(r, i, BODY_VELOCITY, ly.offset(r, V))


@kernel
def bias_acceleration(r, i, v):
    """v x (S x) of joint i with velocity v."""
    rates = ly.offset(r, V) + ly.idx_v(r, i)
    a = cross_column(r, i, 0, v, load(r.work, rates))
    for c in range(1, ly.ncolumns(r, i)):
        a = al.motion_add(a, cross_column(r, i, c, v, load(r.work, rates + c)))
    return a


@kernel
def body_acceleration(r, i, v):
    """Store and return the spatial acceleration of joint i, without gravity; v is its velocity."""
    rates = ly.offset(r, A) + ly.idx_v(r, i)
    a = al.motion_moved(
        from_parent(r, i),
        al.load_motion(r.work, ly.offset(r, BODY_ACCELERATION) + 6 * ly.parent(r, i)),
    )
    a = al.motion_add(a, bias_acceleration(r, i, v))
    for c in range(ly.ncolumns(r, i)):
        a = add_column(r, i, c, a, load(r.work, rates + c))
    al.store_spatial(r.work, ly.offset(r, BODY_ACCELERATION) + 6 * i, a)
    return a


# --- relative to the first joint's origin


@kernel
def set_root_relative(r):
    """Place the universe at the first joint's origin, at rest."""
    set_root_at_rest(r)
    ly.clear(r.work, ly.offset(r, ORIGIN), 3)
    ly.clear(r.work, ly.offset(r, POSITION), 3)
    ly.clear(r.work, ly.offset(r, BODY_ACCELERATION), 6)


@kernel
def place_body_relative(r, i):
    """``place_body``, with offsets and positions relative to the first joint's origin."""
    Y = place_body(r, i)
    make_relative(r, i)
    return Y


@kernel
def make_relative(r, i):
    """Store offset and position of joint i relative to the first joint's, after ``place_body``."""
    if i == 1:
        al.store3(r.work, ly.offset(r, ORIGIN), from_parent(r, i))
    if ly.parent(r, i) == 0:
        al.store3(
            r.work,
            ly.offset(r, FROM_PARENT) + 3 * i,
            al.sub(from_parent(r, i), al.load3(r.work, ly.offset(r, ORIGIN))),
        )
    al.store3(
        r.work,
        ly.offset(r, POSITION) + 3 * i,
        al.add(position(r, ly.parent(r, i)), from_parent(r, i)),
    )


@kernel
def position(r, i):
    return al.load3(r.work, ly.offset(r, POSITION) + 3 * i)


@kernel
def from_root(r, i):
    """Position of the origin of joint i relative to the root's origin."""
    return al.add(al.load3(r.work, ly.offset(r, ORIGIN)), position(r, i))
