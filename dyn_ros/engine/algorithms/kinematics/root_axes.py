# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bodies expressed in the root frame, each about its own joint's origin.

In these coordinates, inertias, forces and motions are shifted between joints but not rotated, and
unlike in a common frame, accuracy is preserved for bodies far from the root. They are used by
crba, aba, and all functions for centers of mass. The latter use the first joint's origin instead
of the root's, so that a distant base does not cost accuracy either.
"""
from ...kernel.algebra import (
    Motion,
    add,
    cross,
    dot,
    inertia_rotated,
    load3,
    load9,
    load_motion,
    motion_add,
    motion_cross,
    motion_moved,
    motion_rotated,
    motion_scale,
    power,
    product,
    rotate,
    scale,
    store3,
    store9,
    store_spatial,
    sub,
    zero3,
)
from ...kernel.compiler import kernel
from ...kernel.fields import A, V, field
from ...kernel.joints import column, joint_placement
from ...kernel.lanes import load, store
from ...kernel.layout import (
    PRISMATIC,
    REVOLUTE,
    axis,
    body_inertia,
    clear,
    idx_column,
    idx_v,
    kind,
    ncolumns,
    offset,
    parent,
    ratio,
)

ROTATION = field("_oR", ("rows", 9))          # from the joint frame to the root frame
FROM_PARENT = field("_arm", ("rows", 3))              # from the parent's origin to the joint's
COLUMNS = field("_columns", ("ncolumns", 6))  # S; revolute and prismatic joints use 3 numbers
BODY_VELOCITY = field("_velocity", ("rows", 6))
BODY_ACCELERATION = field("_acceleration", ("rows", 6))
ORIGIN = field("_first_origin", (3,))         # from the root's origin to the first joint's
POSITION = field("_position", ("rows", 3))    # from the first joint's origin to the joint's


@kernel
def set_root(r):
    clear(r.work, offset(r, ROTATION), 9)
    for k in range(3):
        store(r.work, offset(r, ROTATION) + 4 * k, 1.0)


@kernel
def place_body(r, i):
    """Store rotation, offset from the parent and motion subspace of joint i; return its inertia."""
    R_p = load9(r.work, offset(r, ROTATION) + 9 * parent(r, i))
    X = joint_placement(r, i)
    R = product(R_p, X.rotation)
    store9(r.work, offset(r, ROTATION) + 9 * i, R)
    store3(r.work, offset(r, FROM_PARENT) + 3 * i, rotate(R_p, X.translation))
    s = offset(r, COLUMNS) + 6 * idx_column(r, i)
    if kind(r, i) == REVOLUTE or kind(r, i) == PRISMATIC:
        store3(r.work, s, rotate(R, scale(ratio(r, i), axis(r, i))))
    else:
        for c in range(ncolumns(r, i)):
            store_spatial(r.work, s + 6 * c, motion_rotated(R, column(r, i, c)))
    return inertia_rotated(R, body_inertia(r, i))


@kernel
def from_parent(r, i):
    return load3(r.work, offset(r, FROM_PARENT) + 3 * i)


@kernel
def load_column(r, i, c):
    """S_c."""
    s = offset(r, COLUMNS) + 6 * (idx_column(r, i) + c)
    if kind(r, i) == REVOLUTE:
        u = load3(r.work, s)
        return Motion(zero3(u[0]), u)
    if kind(r, i) == PRISMATIC:
        u = load3(r.work, s)
        return Motion(u, zero3(u[0]))
    return load_motion(r.work, s)


@kernel
def add_column(r, i, c, m, x):
    """m + x S_c."""
    s = offset(r, COLUMNS) + 6 * (idx_column(r, i) + c)
    if kind(r, i) == REVOLUTE:
        return Motion(m.linear, add(m.angular, scale(x, load3(r.work, s))))
    if kind(r, i) == PRISMATIC:
        return Motion(add(m.linear, scale(x, load3(r.work, s))), m.angular)
    return motion_add(m, motion_scale(x, load_motion(r.work, s)))


@kernel
def cross_column(r, i, c, v, x):
    """v x (x S_c)."""
    s = offset(r, COLUMNS) + 6 * (idx_column(r, i) + c)
    if kind(r, i) == REVOLUTE:
        u = scale(x, load3(r.work, s))
        return Motion(cross(v.linear, u), cross(v.angular, u))
    if kind(r, i) == PRISMATIC:
        return Motion(cross(v.angular, scale(x, load3(r.work, s))), zero3(x))
    return motion_cross(v, motion_scale(x, load_motion(r.work, s)))


@kernel
def dot_column(r, i, c, f):
    """S_c . f."""
    s = offset(r, COLUMNS) + 6 * (idx_column(r, i) + c)
    if kind(r, i) == REVOLUTE:
        return dot(load3(r.work, s), f.angular)
    if kind(r, i) == PRISMATIC:
        return dot(load3(r.work, s), f.linear)
    return power(f, load_motion(r.work, s))


@kernel
def body_velocity(r, i):
    """Store and return the velocity of joint i."""
    rates = offset(r, V) + idx_v(r, i)
    v = motion_moved(from_parent(r, i),
                     load_motion(r.work, offset(r, BODY_VELOCITY) + 6 * parent(r, i)))
    v = add_column(r, i, 0, v, load(r.work, rates))
    for c in range(1, ncolumns(r, i)):
        v = add_column(r, i, c, v, load(r.work, rates + c))
    store_spatial(r.work, offset(r, BODY_VELOCITY) + 6 * i, v)
    return v


@kernel
def bias_acceleration(r, i, v):
    """v x (S x) of joint i with velocity v."""
    rates = offset(r, V) + idx_v(r, i)
    a = cross_column(r, i, 0, v, load(r.work, rates))
    for c in range(1, ncolumns(r, i)):
        a = motion_add(a, cross_column(r, i, c, v, load(r.work, rates + c)))
    return a


@kernel
def body_acceleration(r, i, v):
    """Store and return the spatial acceleration of joint i, without gravity; v is its velocity."""
    rates = offset(r, A) + idx_v(r, i)
    a = motion_moved(from_parent(r, i),
                     load_motion(r.work, offset(r, BODY_ACCELERATION) + 6 * parent(r, i)))
    a = motion_add(a, bias_acceleration(r, i, v))
    for c in range(ncolumns(r, i)):
        a = add_column(r, i, c, a, load(r.work, rates + c))
    store_spatial(r.work, offset(r, BODY_ACCELERATION) + 6 * i, a)
    return a


# --- relative to the first joint's origin

@kernel
def set_root_relative(r):
    """Place the universe at the first joint's origin, at rest."""
    set_root(r)
    clear(r.work, offset(r, ORIGIN), 3)
    clear(r.work, offset(r, POSITION), 3)
    clear(r.work, offset(r, BODY_VELOCITY), 6)
    clear(r.work, offset(r, BODY_ACCELERATION), 6)


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
        store3(r.work, offset(r, ORIGIN), from_parent(r, i))
    if parent(r, i) == 0:
        store3(r.work, offset(r, FROM_PARENT) + 3 * i,
               sub(from_parent(r, i), load3(r.work, offset(r, ORIGIN))))
    store3(r.work, offset(r, POSITION) + 3 * i, add(position(r, parent(r, i)), from_parent(r, i)))


@kernel
def position(r, i):
    return load3(r.work, offset(r, POSITION) + 3 * i)
