# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of the robot as inputs of a call, different for each state of a batch.

A kernel reads the constants of the model from ``r.floats``. If this points to rows of lanes
instead of floats, each state of a batch has constants of its own, and dual numbers differentiate
with respect to them. ``set_constants`` computes such rows from the inputs below.
"""

from ..machine_code.declare import kernel
from .algebra import constant3, lift3, load3, outer_product, product, rotate, skew
from .fields import field
from .lanes import load, store
from .packing import (
    AXIS,
    GRAVITY,
    INERTIA,
    INERTIA_ROW,
    PLACE,
    PLACE_COS,
    PLACE_SIN,
    REVOLUTE,
    SLIDE,
    TRANSLATION,
    has_input,
    joint_floats,
    kind,
    njoints,
    nv,
    offset,
)

INERTIAL_PARAMETERS = field("_inertial_parameters", ("njoints", 10))
ARMATURE = field("_armature", ("nv",))
GRAVITY_IN = field("_gravity", (3,))
JOINT_PLACEMENTS = field("_joint_placements", ("njoints", 4, 4))
PARAMETERS = (INERTIAL_PARAMETERS, ARMATURE, GRAVITY_IN, JOINT_PLACEMENTS)


@kernel
def copy_to_constants(r, field, first, start, count):
    """Copy ``count`` entries of a field, from ``first`` on, to the constants from ``start`` on."""
    for k in range(count):
        store(r.floats, start + k, load(r.work, offset(r, field) + first + k))


@kernel
def set_joint_placement(r, i):
    """Set the constants of joint i that depend on its placement in its parent.

    Reads JOINT_PLACEMENTS.
    """
    k = offset(r, JOINT_PLACEMENTS) + 16 * (i - 1)
    x, y, z = load3(r.work, k), load3(r.work, k + 4), load3(r.work, k + 8)
    R = (x[0], x[1], x[2], y[0], y[1], y[2], z[0], z[1], z[2])
    row = joint_floats(i)
    u = lift3(constant3(r.floats, row + AXIS), x[0])
    place = R
    if kind(r, i) == REVOLUTE:
        place = outer_product(rotate(R, u), u)
        S = product(R, skew(u))
        for n in range(9):
            store(r.floats, row + PLACE_SIN + n, S[n])
            store(r.floats, row + PLACE_COS + n, R[n] - place[n])
    slide = rotate(R, u)
    for n in range(9):
        store(r.floats, row + PLACE + n, place[n])
    for n in range(3):
        store(r.floats, row + TRANSLATION + n, load(r.work, k + 4 * n + 3))
        store(r.floats, row + SLIDE + n, slide[n])


@kernel
def set_constants(r):
    """Set the constants for which the caller passed an input.

    Reads INERTIAL_PARAMETERS, ARMATURE, GRAVITY_IN, JOINT_PLACEMENTS.
    """
    n = njoints(r)
    if has_input(r, INERTIAL_PARAMETERS):
        for i in range(1, n + 1):
            copy_to_constants(
                r,
                INERTIAL_PARAMETERS,
                INERTIA_ROW * (i - 1),
                joint_floats(i) + INERTIA,
                INERTIA_ROW,
            )
    if has_input(r, ARMATURE):
        copy_to_constants(r, ARMATURE, 0, joint_floats(n + 1), nv(r))
    if has_input(r, GRAVITY_IN):
        copy_to_constants(r, GRAVITY_IN, 0, GRAVITY, 3)
    if has_input(r, JOINT_PLACEMENTS):
        for i in range(1, n + 1):
            set_joint_placement(r, i)
