# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The columns of the joints and their rates, and the bodies that they move, for derivatives."""

from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import F_EXT, A, V, field
from ...kernel.lanes import holds_lanes, lift, load
from ...machine_code.declare import kernel
from ..dynamics.crba import COMPOSITE
from ..dynamics.rnea import add_force, external_force
from ..kinematics import root_axes as ra
from ..kinematics.jacobians import DJ, J, load_column, move_columns, store_column
from ..kinematics.kinematics import OA_GF, OV

PSID = field(
    "psid", ("ncolumns", 6), "ov x J, with ov of the parent joint [m/s, rad/s per rad, m].", True
)
PSIDD = field(
    "psidd",
    ("ncolumns", 6),
    "oa_gf x J + ov x psid, with oa_gf and ov of the parent joint [m/s2, rad/s2 per rad, m].",
    True,
)
DVDQ = field(
    "dVdq",
    ("ncolumns", 6),
    "Derivative of the velocity of a body in the subtree with respect to q, in a frame "
    "moving with the column; equal to psid [m/s, rad/s per rad, m].",
    True,
)
DADQ = field(
    "dAdq",
    ("ncolumns", 6),
    "Derivative of the acceleration of a body in the subtree "
    "with respect to q, in a frame moving with the column; equal "
    "to psidd without gravity [m/s2, rad/s2 per rad, m].",
    True,
)
DADV = field("dAdv", ("ncolumns", 6), "dJ + dVdq [m/s, rad/s per rad, m].", True)
# Of each body, then of each joint's subtree, about the first joint's origin
COMPOSITE_INERTIA = field("_oYcrb", ("rows", 10))
COMPOSITE_CORIOLIS = field("_oBcrb", ("rows", 12))
COMPOSITE_FORCE = field("_of", ("rows", 6))


# --- outward


@kernel
def set_relative(r):
    """Set the universe to rest, about the first joint's origin."""
    ra.set_root_relative(r)
    ly.clear(r.work, ly.offset(r, OV), 6)


@kernel
def place_columns(r, i):
    """Place the body of joint i, and store its columns of J; return its inertia."""
    return shift_columns(r, i, ra.place_body_relative(r, i))


@kernel
def placed_columns(r, i):
    """``place_columns`` for a body that has been placed in the root frame."""
    ra.make_relative(r, i)
    return shift_columns(r, i, al.load_inertia(r.work, ly.offset(r, COMPOSITE) + 10 * i))


@kernel
def shift_columns(r, i, Y):
    """Store the columns of J of joint i; return the inertia of its body."""
    p = ra.position(r, i)
    for c in range(ly.ncolumns(r, i)):
        store_column(r, J, i, c, al.motion_moved(al.scale(-1.0, p), ra.load_column(r, i, c)))
    Y = al.inertia_moved(p, Y)
    return al.Inertia(lift(Y.mass, p[0]), Y.moment, Y.rotational)


@kernel
def velocity_columns(r, i):
    """Store psid and dAdv of joint i, after ``move_columns``."""
    ov = al.load_motion(r.work, ly.offset(r, OV) + 6 * ly.parent(r, i))
    for c in range(ly.ncolumns(r, i)):
        psid = al.motion_cross(ov, load_column(r, J, i, c))
        store_column(r, PSID, i, c, psid)
        store_column(r, DADV, i, c, al.motion_add(psid, load_column(r, DJ, i, c)))


@kernel
def acceleration_columns(r, i, acceleration, columns):
    """Store the acceleration of joint i and a x S + v x psid, after ``velocity_columns``.

    ``acceleration`` is OA or OA_GF, whose row for the universe is already set; ``columns`` is the
    field of the result.
    """
    ov = al.load_motion(r.work, ly.offset(r, OV) + 6 * ly.parent(r, i))
    oa = al.load_motion(r.work, ly.offset(r, acceleration) + 6 * ly.parent(r, i))
    total = oa
    for c in range(ly.ncolumns(r, i)):
        S, psid = load_column(r, J, i, c), load_column(r, PSID, i, c)
        store_column(
            r, columns, i, c, al.motion_add(al.motion_cross(oa, S), al.motion_cross(ov, psid))
        )
        k = ly.idx_v(r, i) + c
        total = al.motion_add(
            total,
            al.motion_add(
                al.motion_scale(load(r.work, ly.offset(r, A) + k), S),
                al.motion_scale(load(r.work, ly.offset(r, V) + k), psid),
            ),
        )
    al.store_spatial(r.work, ly.offset(r, acceleration) + 6 * i, total)


@kernel
def store_body(r, i, acceleration, Y):
    """Store inertia, Coriolis inertia and force of the body of joint i; return its momentum."""
    v = al.load_motion(r.work, ly.offset(r, OV) + 6 * i)
    h = al.momentum(Y, v)
    f = al.force_add(
        al.momentum(Y, al.load_motion(r.work, ly.offset(r, acceleration) + 6 * i)),
        al.force_cross(v, h),
    )
    al.store_inertia(r.work, ly.offset(r, COMPOSITE_INERTIA) + 10 * i, Y)
    al.store_coriolis(
        r.work, ly.offset(r, COMPOSITE_CORIOLIS) + 12 * i, al.coriolis_inertia(Y, v, h.linear)
    )
    al.store_spatial(r.work, ly.offset(r, COMPOSITE_FORCE) + 6 * i, f)
    return h


@kernel
def subtract_external_force(r, i):
    if ly.has_input(r, F_EXT):
        R = al.load9(r.work, ly.offset(r, ra.ROTATION) + 9 * i)
        pushed = al.force_moved(ra.position(r, i), al.force_rotated(R, external_force(r, i)))
        f = ly.offset(r, COMPOSITE_FORCE) + 6 * i
        al.store_spatial(r.work, f, al.force_sub(al.load_force(r.work, f), pushed))


@kernel
def outward(r, placed):
    """Columns, velocities, accelerations and bodies of all joints; see ``placed_columns``."""
    ra.let_fall(r, OA_GF)
    outward_bodies(r, placed, not holds_lanes(r.work))


@kernel
def outward_bodies(r, placed, publishing):
    """``outward`` with the given acceleration of the universe; publishing stores dAdq."""
    set_relative(r)
    g = al.constant3(r.floats, ly.GRAVITY)
    for i in range(1, ly.njoints(r) + 1):
        Y = placed_columns(r, i) if placed else place_columns(r, i)
        move_columns(r, i)
        velocity_columns(r, i)
        acceleration_columns(r, i, OA_GF, PSIDD)
        if publishing:
            for c in range(ly.ncolumns(r, i)):
                psidd = load_column(r, PSIDD, i, c)
                turned = al.cross(g, load_column(r, J, i, c).angular)
                store_column(r, DADQ, i, c, al.Motion(al.add(psidd.linear, turned), psidd.angular))
        store_body(r, i, OA_GF, Y)
        subtract_external_force(r, i)


# --- inward


@kernel
def clear_composites(r):
    """Clear the composites of the universe, which sum all bodies."""
    ly.clear(r.work, ly.offset(r, COMPOSITE_INERTIA), 10)
    ly.clear(r.work, ly.offset(r, COMPOSITE_CORIOLIS), 12)
    ly.clear(r.work, ly.offset(r, COMPOSITE_FORCE), 6)


@kernel
def composite_inertia(r, i):
    """Return Y of the subtree of joint i, and add it to its parent."""
    Y = al.load_inertia(r.work, ly.offset(r, COMPOSITE_INERTIA) + 10 * i)
    p = ly.offset(r, COMPOSITE_INERTIA) + 10 * ly.parent(r, i)
    al.store_inertia(r.work, p, al.inertia_add(al.load_inertia(r.work, p), Y))
    return Y


@kernel
def composite_coriolis(r, i):
    """Return B of the subtree of joint i, and add it to its parent."""
    B = al.load_coriolis(r.work, ly.offset(r, COMPOSITE_CORIOLIS) + 12 * i)
    p = ly.offset(r, COMPOSITE_CORIOLIS) + 12 * ly.parent(r, i)
    al.store_coriolis(r.work, p, al.coriolis_add(al.load_coriolis(r.work, p), B))
    return B


@kernel
def composite_force(r, field, i):
    """Return the force on the subtree of joint i, or its momentum, and add it to the parent's."""
    f = al.load_force(r.work, ly.offset(r, field) + 6 * i)
    add_force(r, ly.offset(r, field) + 6 * ly.parent(r, i), f)
    return f
