# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bodies expressed in the axes of the world, each about its own joint's origin.

In these coordinates, inertias, forces and motions are shifted between joints but not rotated, and
unlike about a common origin, accuracy is preserved for bodies far from it. They are used by crba,
aba, the Vereshchagin solver, contacts and the regressors of torque and momentum. Centers of mass,
momenta of the whole robot, all_terms, minverse, composite and articulated inertias use positions
relative to the first joint's origin, so that a distant base does not cost accuracy either; so do
derivatives, about this origin. X is the shift from a joint's origin to its parent's: X^-1 v_p is
the parent's velocity about the joint's origin.
"""

from ...kernel.vocabulary import *

ROTATION = field("_rotation", ("rows", 9))  # rotates joint axes to world axes
FROM_PARENT = field("_from_parent", ("rows", 3))  # vector from the parent's origin
COLUMNS = field("_columns", ("ncolumns", 6))  # S; revolute and prismatic joints use 3 numbers
BODY_VELOCITY = field("_body_velocity", ("rows", 6))
BODY_ACCELERATION = field("_body_acceleration", ("rows", 6))
ORIGIN = field("_origin", (3,))  # position of the first joint
POSITION = field("_position", ("rows", 3))  # relative to the first joint


@kernel
def place_universe(r):
    """Set the rotation of the universe to the identity. Writes ROTATION."""
    set_identity_rotation(r, ROTATION, 0)


@kernel
def place_universe_at_rest(r):
    """Set the rotation of the universe to the identity and its velocity to zero.

    Writes ROTATION, BODY_VELOCITY.
    """
    place_universe(r)
    clear_motion(r, BODY_VELOCITY, 0)


@kernel
def set_universe_acceleration(r, field):
    """Set the acceleration of the universe in a field to minus gravity. Writes field."""
    clear_motion(r, field, 0)
    set_vector(r, field, 0, scale(-1.0, gravity(r)))


@kernel
def place_body(r, i):
    """Compute rotation, offset and motion subspace of joint i; return the inertia of its body.

        R = R_p R_i,  t = R_p t_i,  S = R S_i,  Y = R Y_i R'

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS.
    """
    R_p = rotation(r, ROTATION, parent(r, i))
    X = joint_placement(r, i)
    R = product(R_p, X.rotation)
    set_rotation(r, ROTATION, i, R)
    set_vector(r, FROM_PARENT, i, rotate(R_p, X.translation))
    if kind(r, i) == REVOLUTE or kind(r, i) == PRISMATIC:
        set_axis(r, i, rotate(R, scale(ratio(r, i), axis(r, i))))
    else:
        for c in range(ncolumns(r, i)):
            set_motion(r, COLUMNS, idx_column(r, i) + c, motion_rotated(R, column(r, i, c)))
    return inertia_rotated(R, body_inertia(r, i))


@kernel
def from_parent(r, i):
    """Return the vector from the parent's origin to the origin of joint i. Reads FROM_PARENT."""
    return vector(r, FROM_PARENT, i)


@kernel
def set_axis(r, i, u):
    """Store the axis of a revolute or prismatic joint, in the first numbers of its column.

    Writes COLUMNS.
    """
    set_column_axis(r, COLUMNS, i, u)


@kernel
def world_axis(r, i):
    """Return the axis of a revolute or prismatic joint. Reads COLUMNS."""
    return column_axis(r, COLUMNS, i)


@kernel
def subspace_column(r, i, c):
    """Return S_c. Reads COLUMNS."""
    if kind(r, i) == REVOLUTE:
        u = world_axis(r, i)
        return Motion(zero3(u[0]), u)
    if kind(r, i) == PRISMATIC:
        u = world_axis(r, i)
        return Motion(u, zero3(u[0]))
    return motion(r, COLUMNS, idx_column(r, i) + c)


@kernel
def add_column(r, i, c, m, x):
    """Return m + x S_c. Reads COLUMNS."""
    if kind(r, i) == REVOLUTE:
        return Motion(m.linear, add(m.angular, scale(x, world_axis(r, i))))
    if kind(r, i) == PRISMATIC:
        return Motion(add(m.linear, scale(x, world_axis(r, i))), m.angular)
    return motion_add(m, motion_scale(x, motion(r, COLUMNS, idx_column(r, i) + c)))


@kernel
def cross_column(r, i, c, v, x):
    """Return v x (x S_c). Reads COLUMNS."""
    if kind(r, i) == REVOLUTE:
        u = scale(x, world_axis(r, i))
        return Motion(cross(v.linear, u), cross(v.angular, u))
    if kind(r, i) == PRISMATIC:
        return Motion(cross(v.angular, scale(x, world_axis(r, i))), zero3(x))
    return motion_cross(v, motion_scale(x, motion(r, COLUMNS, idx_column(r, i) + c)))


@kernel
def dot_column(r, i, c, f):
    """Return S_c . f. Reads COLUMNS."""
    if kind(r, i) == REVOLUTE:
        return dot(world_axis(r, i), f.angular)
    if kind(r, i) == PRISMATIC:
        return dot(world_axis(r, i), f.linear)
    return power(f, motion(r, COLUMNS, idx_column(r, i) + c))


@kernel
def store_velocity(r, i, field, rates):
    """Store in a field, and return, the velocity of joint i with the rates of a field.

        v = X^-1 v_p + S qd

    Reads FROM_PARENT, COLUMNS, rates; writes field.
    """
    v = motion_moved(from_parent(r, i), motion(r, field, parent(r, i)))
    v = add_column(r, i, 0, v, entry(r, rates, idx_v(r, i)))  # each joint has at least one
    for c in range(1, ncolumns(r, i)):
        v = add_column(r, i, c, v, entry(r, rates, idx_v(r, i) + c))
    set_motion(r, field, i, v)
    return v


@kernel
def body_velocity(r, i):
    """Store and return the velocity of joint i, v = X^-1 v_p + S qd.

    Reads V, FROM_PARENT, COLUMNS; writes BODY_VELOCITY.
    """
    return store_velocity(r, i, BODY_VELOCITY, V)


@kernel
def bias_acceleration(r, i, v):
    """Return v x (S qd) of joint i with velocity v. Reads V, COLUMNS."""
    a = cross_column(r, i, 0, v, entry(r, V, idx_v(r, i)))
    for c in range(1, ncolumns(r, i)):
        a = motion_add(a, cross_column(r, i, c, v, entry(r, V, idx_v(r, i) + c)))
    return a


@kernel
def body_acceleration(r, i, v):
    """Store and return the spatial acceleration of joint i with velocity v.

        a = X^-1 a_p + v x (S qd) + S qdd

    Reads V, A, FROM_PARENT, COLUMNS; writes BODY_ACCELERATION.
    """
    a = motion_moved(from_parent(r, i), motion(r, BODY_ACCELERATION, parent(r, i)))
    a = motion_add(a, bias_acceleration(r, i, v))
    for c in range(ncolumns(r, i)):
        a = add_column(r, i, c, a, entry(r, A, idx_v(r, i) + c))
    set_motion(r, BODY_ACCELERATION, i, a)
    return a


# --- relative to the first joint's origin


@kernel
def place_universe_relative(r):
    """Place the universe at the first joint's origin, at rest.

    Writes ROTATION, BODY_VELOCITY, BODY_ACCELERATION, ORIGIN, POSITION.
    """
    place_universe_at_rest(r)
    clear_vector(r, ORIGIN, 0)
    clear_vector(r, POSITION, 0)
    clear_motion(r, BODY_ACCELERATION, 0)


@kernel
def place_body_relative(r, i):
    """Do what ``place_body`` does, with offsets and positions relative to the first joint's origin.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, ORIGIN, POSITION.
    """
    Y = place_body(r, i)
    make_relative(r, i)
    return Y


@kernel
def make_relative(r, i):
    """Store offset and position of joint i relative to the first joint's, after ``place_body``.

    Writes FROM_PARENT, ORIGIN, POSITION.
    """
    if i == 1:
        set_vector(r, ORIGIN, 0, from_parent(r, i))
    if parent(r, i) == 0:
        set_vector(r, FROM_PARENT, i, sub(from_parent(r, i), vector(r, ORIGIN, 0)))
    set_vector(r, POSITION, i, add(position(r, parent(r, i)), from_parent(r, i)))


@kernel
def position(r, i):
    """Return the vector from the first joint's origin to the origin of joint i. Reads POSITION."""
    return vector(r, POSITION, i)


@kernel
def from_world_origin(r, i):
    """Return the position of joint i relative to the world's origin. Reads ORIGIN, POSITION."""
    return add(vector(r, ORIGIN, 0), position(r, i))
