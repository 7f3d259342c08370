# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The columns of the joints and their rates, and the bodies that they move, for derivatives.

Everything is expressed in world axes, about the first joint's origin. X is the shift from a joint's
origin to the first joint's.
"""

from ...kernel.vocabulary import *
from ..dynamics.crba import INERTIA
from ..dynamics.rnea import external_force
from ..kinematics import world_axes as wa
from ..kinematics.jacobians import DJ, J, move_columns
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
    "Derivative of the velocity of a body of the subtree with respect to q, in its own axes; equal "
    "to psid [m/s, rad/s per rad, m].",
    True,
)
DADQ = field(
    "dAdq",
    ("ncolumns", 6),
    "psidd without gravity: the acceleration of a body of the subtree with velocity v changes, in "
    "its own axes, by dAdq + dVdq x v [m/s2, rad/s2 per rad, m].",
    True,
)
DADV = field("dAdv", ("ncolumns", 6), "dJ + dVdq [m/s, rad/s per rad, m].", True)
# The outward pass stores these quantities of bodies; the inward pass sums them over subtrees.
SUBTREE_INERTIA = field("_subtree_inertia", ("rows", 10))
SUBTREE_CORIOLIS = field("_subtree_coriolis", ("rows", 12))
SUBTREE_FORCE = field("_subtree_force", ("rows", 6))


# --- outward


@kernel
def place_universe_for_columns(r):
    """Place the universe at the first joint's origin, at rest, before the columns of joints.

    Writes ROTATION, BODY_VELOCITY, BODY_ACCELERATION, ORIGIN, POSITION, OV.
    """
    wa.place_universe_relative(r)
    clear_motion(r, OV, 0)


@kernel
def place_body_columns(r, i):
    """Place the body of joint i, and store its columns of J; return its inertia.

    Reads Q; writes ROTATION, FROM_PARENT, COLUMNS, ORIGIN, POSITION, J.
    """
    return store_jacobian_columns(r, i, wa.place_body_relative(r, i))


@kernel
def store_placed_columns(r, i):
    """Place the columns of joint i, whose body has been placed in world axes.

    Reads COLUMNS, INERTIA; writes FROM_PARENT, ORIGIN, POSITION, J.
    """
    wa.make_relative(r, i)
    return store_jacobian_columns(r, i, inertia(r, INERTIA, i))


@kernel
def store_jacobian_columns(r, i, Y):
    """Store J of joint i; return the inertia of its body about the first joint's origin.

        J_c = X S_c,  Y = X* Y X^-1

    Y is given about the origin of joint i.

    Reads COLUMNS, POSITION; writes J.
    """
    p = wa.position(r, i)
    for c in range(ncolumns(r, i)):
        set_column(r, J, i, c, motion_moved(scale(-1.0, p), wa.subspace_column(r, i, c)))
    Y = inertia_moved(p, Y)
    return Inertia(lift(Y.mass, p[0]), Y.first_moment, Y.rotational)


@kernel
def store_velocity_columns(r, i):
    """Store psid and dAdv of joint i, after ``move_columns``.

        psid = v_p x S
        dAdv = dS/dt + psid                 dS/dt = v x S

    Reads OV, J, DJ; writes PSID, DADV.
    """
    ov = motion(r, OV, parent(r, i))
    for c in range(ncolumns(r, i)):
        psid = motion_cross(ov, motion_column(r, J, i, c))
        set_column(r, PSID, i, c, psid)
        set_column(r, DADV, i, c, motion_add(psid, motion_column(r, DJ, i, c)))


@kernel
def store_acceleration_columns(r, i, acceleration, columns):
    """Store the acceleration of joint i and psidd, after ``store_velocity_columns``.

        psidd = a_p x S + v_p x psid
        a = a_p + S qdd + psid qd

    ``acceleration`` is OA or OA_GF, whose row for the universe is already set; ``columns`` is the
    field of the result.

    Reads V, A, OV, J, PSID; writes acceleration, columns.
    """
    ov = motion(r, OV, parent(r, i))
    oa = motion(r, acceleration, parent(r, i))
    total = oa
    for c in range(ncolumns(r, i)):
        S, psid = motion_column(r, J, i, c), motion_column(r, PSID, i, c)
        set_column(r, columns, i, c, motion_add(motion_cross(oa, S), motion_cross(ov, psid)))
        k = idx_v(r, i) + c
        total = motion_add(
            total,
            motion_add(
                motion_scale(entry(r, A, k), S),
                motion_scale(entry(r, V, k), psid),
            ),
        )
    set_motion(r, acceleration, i, total)


@kernel
def store_body(r, i, acceleration, Y):
    """Store inertia, Coriolis inertia and force of the body of joint i; return its momentum.

        h = Y v
        f = Y a + v x* h
        B u = v x* Y u - Y (v x u) + u x* h         for any motion u

    Reads OV, acceleration; writes SUBTREE_INERTIA, SUBTREE_CORIOLIS, SUBTREE_FORCE.
    """
    v = motion(r, OV, i)
    h = inertia_times(Y, v)
    f = force_add(
        inertia_times(Y, motion(r, acceleration, i)),
        force_cross(v, h),
    )
    set_inertia(r, SUBTREE_INERTIA, i, Y)
    set_coriolis(r, SUBTREE_CORIOLIS, i, coriolis_inertia(Y, v, h.linear))
    set_force(r, SUBTREE_FORCE, i, f)
    return h


@kernel
def subtract_external_force(r, i):
    """Subtract the external force on the body of joint i from the force on its subtree.

        f = f - X* R f_ext                  R: rotation from body to world axes

    Reads F_EXT, ROTATION, POSITION; writes SUBTREE_FORCE.
    """
    if has_input(r, F_EXT):
        R = rotation(r, wa.ROTATION, i)
        pushed = force_moved(wa.position(r, i), force_rotated(R, external_force(r, i)))
        set_force(r, SUBTREE_FORCE, i, force_sub(force(r, SUBTREE_FORCE, i), pushed))


@kernel
def outward_pass(r, bodies_placed):
    """Compute columns, velocities, accelerations and bodies, in an outward pass.

    With ``bodies_placed``, the bodies have been placed in world axes; see
    ``store_placed_columns``. For a single state, dAdq is stored as well.

    Reads Q, V, A, F_EXT; writes OV, OA_GF, J, DJ, PSID, PSIDD, DADQ, DADV; calls
    outward_pass_from_universe.
    """
    wa.set_universe_acceleration(r, OA_GF)
    outward_pass_from_universe(r, bodies_placed, not is_batch(r))


@kernel
def outward_pass_from_universe(r, bodies_placed, with_public_results):
    """Compute what ``outward_pass`` does, with the acceleration of the universe already set.

    With ``with_public_results``, also dAdq = psidd + (gravity x S.angular, 0).

    Reads Q, V, A, F_EXT; writes OV, OA_GF, J, DJ, PSID, PSIDD, DADQ, DADV; calls
    place_universe_for_columns, move_columns, store_velocity_columns, store_acceleration_columns,
    store_body, subtract_external_force, store_placed_columns, place_body_columns.
    """
    place_universe_for_columns(r)
    g = gravity(r)
    for i in range(1, njoints(r) + 1):
        Y = store_placed_columns(r, i) if bodies_placed else place_body_columns(r, i)
        move_columns(r, i)
        store_velocity_columns(r, i)
        store_acceleration_columns(r, i, OA_GF, PSIDD)
        if with_public_results:
            for c in range(ncolumns(r, i)):
                psidd = motion_column(r, PSIDD, i, c)
                turned = cross(g, motion_column(r, J, i, c).angular)
                set_column(r, DADQ, i, c, Motion(add(psidd.linear, turned), psidd.angular))
        store_body(r, i, OA_GF, Y)
        subtract_external_force(r, i)


# --- inward


@kernel
def clear_subtree_sums(r):
    """Clear the sums of the universe, whose subtree is the whole robot.

    Writes SUBTREE_INERTIA, SUBTREE_CORIOLIS, SUBTREE_FORCE.
    """
    clear_inertia(r, SUBTREE_INERTIA, 0)
    clear_coriolis(r, SUBTREE_CORIOLIS, 0)
    clear_force(r, SUBTREE_FORCE, 0)


@kernel
def add_inertia_to_parent(r, i):
    """Add Y of the subtree of joint i to its parent's; return it. Writes SUBTREE_INERTIA."""
    Y = inertia(r, SUBTREE_INERTIA, i)
    add_to_inertia(r, SUBTREE_INERTIA, parent(r, i), Y)
    return Y


@kernel
def add_coriolis_to_parent(r, i):
    """Add B of the subtree of joint i to its parent's; return it. Writes SUBTREE_CORIOLIS."""
    B = coriolis(r, SUBTREE_CORIOLIS, i)
    add_to_coriolis(r, SUBTREE_CORIOLIS, parent(r, i), B)
    return B


@kernel
def add_force_to_parent(r, field, i):
    """Add the force on the subtree of joint i, or its momentum, to its parent's; return it.

    Writes field.
    """
    f = force(r, field, i)
    add_to_force(r, field, parent(r, i), f)
    return f
