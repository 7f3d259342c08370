# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of inverse dynamics with respect to configuration, velocity and acceleration.

Singh, Russell and Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial
vector algebra" (2022), based on Carpentier and Mansard, "Analytical derivatives of rigid body
dynamics algorithms" (2018). Expressed in the root frame, about the first joint's origin, which
preserves accuracy far from the root; public results are finally shifted to the world's origin. A
column of a joint's motion subspace S has the rates psid = v x S and psidd = a x S + v x psid,
with v and a of the parent joint. The subtree enters through its composite inertia Y, Coriolis
inertia B and force f. Each column is combined with those of its own joint and of its ancestors:

    dtau_i/dq_j = S_i (B psid_j + Y psidd_j)                j is an ancestor of i, or i itself
    dtau_j/dq_i = S_j (B psid_i + Y psidd_i + S_i x* f)     j is an ancestor of i
    dtau_i/dv_j = S_i (B S_j + Y dAdv_j),  dtau_j/dv_i = S_j (B S_i + Y dAdv_i)
"""
from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import layout as ly
from ...kernel.compiler import kernel, subroutine
from ...kernel.fields import F_EXT, A, Q, V, field
from ...kernel.lanes import holds_lanes, lift, load, store
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..dynamics.crba import COMPOSITE, M
from ..dynamics.rnea import TAU, external_force
from ..kinematics import root_axes as ra
from ..kinematics.jacobians import DJ, J, move_columns
from ..kinematics.kinematics import OA_GF, OV

DTAU_DQ = field("dtau_dq", ("nv", "nv"), "Derivative of the joint torques with respect to "
                                         "configuration [N m, N per rad, m].", sparse=True)
DTAU_DV = field("dtau_dv", ("nv", "nv"), "Derivative of the joint torques with respect to "
                                         "velocity [N m s, N s per rad, m].", sparse=True)
DG_DQ = field("dg_dq", ("nv", "nv"), "Derivative of the gravity torques with respect to "
                                     "configuration [N m, N per rad, m].", sparse=True)
PSID = field("psid", ("ncolumns", 6), "ov x J, with ov of the parent joint.", True)
PSIDD = field("psidd", ("ncolumns", 6), "oa_gf x J + ov x psid, with oa_gf and ov of the parent "
                                        "joint.", True)
DVDQ = field("dVdq", ("ncolumns", 6),
             "Derivative of the velocity of a body in the subtree with respect to q, in a frame "
             "moving with the column; equal to psid.", True)
DADQ = field("dAdq", ("ncolumns", 6),
             "Derivative of the acceleration of a body in the subtree with respect to q, in a "
             "frame moving with the column; equal to psidd without gravity.", True)
DADV = field("dAdv", ("ncolumns", 6), "dJ + dVdq.", True)
DFDA = field("dFda", ("ncolumns", 6), "Derivative of the force on a joint's subtree with respect "
                                      "to the acceleration of the joint, expressed in the world, "
                                      "at its origin.", True)
DFDQ = field("dFdq", ("ncolumns", 6), "Derivative of this force with respect to q; with or "
                                      "without gravity, depending on the last algorithm.", True)
DFDV = field("dFdv", ("ncolumns", 6), "Derivative of this force with respect to velocity.", True)
# Of each body, then of each joint's subtree, about the first joint's origin
COMPOSITE_INERTIA = field("_oYcrb", ("rows", 10))
COMPOSITE_CORIOLIS = field("_oBcrb", ("rows", 12))
COMPOSITE_FORCE = field("_of", ("rows", 6))


@kernel
def columns_at(r, field, i, c):
    """Offset of column c of joint i in a field with the axis "ncolumns"."""
    return ly.offset(r, field) + 6 * (ly.idx_column(r, i) + c)


@kernel
def load_column(r, field, i, c):
    return al.load_motion(r.work, columns_at(r, field, i, c))


@kernel
def store_column(r, field, i, c, m):
    al.store_spatial(r.work, columns_at(r, field, i, c), m)


# --- outward

@kernel
def set_gravity(r):
    """Set the acceleration of the universe to minus gravity."""
    ly.clear(r.work, ly.offset(r, OA_GF), 6)
    al.store3(r.work, ly.offset(r, OA_GF), al.scale(-1.0, al.constant3(r.floats, ly.GRAVITY)))


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
        store_column(r, columns, i, c,
                     al.motion_add(al.motion_cross(oa, S), al.motion_cross(ov, psid)))
        k = ly.idx_v(r, i) + c
        total = al.motion_add(
            total, al.motion_add(al.motion_scale(load(r.work, ly.offset(r, A) + k), S),
                                 al.motion_scale(load(r.work, ly.offset(r, V) + k), psid)))
    al.store_spatial(r.work, ly.offset(r, acceleration) + 6 * i, total)


@kernel
def store_body(r, i, acceleration, Y):
    """Store inertia, Coriolis inertia and force of the body of joint i; return its momentum."""
    v = al.load_motion(r.work, ly.offset(r, OV) + 6 * i)
    h = al.momentum(Y, v)
    f = al.force_add(al.momentum(Y, al.load_motion(r.work, ly.offset(r, acceleration) + 6 * i)),
                     al.force_cross(v, h))
    al.store_inertia(r.work, ly.offset(r, COMPOSITE_INERTIA) + 10 * i, Y)
    al.store_coriolis(r.work, ly.offset(r, COMPOSITE_CORIOLIS) + 12 * i,
                      al.coriolis_inertia(Y, v, h.linear))
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
    set_gravity(r)
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
    """Return Y of the subtree of joint i, and add it to that of its parent."""
    Y = al.load_inertia(r.work, ly.offset(r, COMPOSITE_INERTIA) + 10 * i)
    p = ly.offset(r, COMPOSITE_INERTIA) + 10 * ly.parent(r, i)
    al.store_inertia(r.work, p, al.inertia_add(al.load_inertia(r.work, p), Y))
    return Y


@kernel
def composite_coriolis(r, i):
    """Return B of the subtree of joint i, and add it to that of its parent."""
    B = al.load_coriolis(r.work, ly.offset(r, COMPOSITE_CORIOLIS) + 12 * i)
    p = ly.offset(r, COMPOSITE_CORIOLIS) + 12 * ly.parent(r, i)
    al.store_coriolis(r.work, p, al.coriolis_add(al.load_coriolis(r.work, p), B))
    return B


@kernel
def composite_force(r, field, i):
    """Return the force on the subtree of joint i, or its momentum, and add it to the parent's."""
    f = al.load_force(r.work, ly.offset(r, field) + 6 * i)
    p = ly.offset(r, field) + 6 * ly.parent(r, i)
    al.store_spatial(r.work, p, al.force_add(al.load_force(r.work, p), f))
    return f


@kernel
def inward(r, publishing):
    """The derivatives, column by column from the tips; publishing also M, tau and dFd*."""
    n, M_, dq, dv, tau = ly.nv(
        r), ly.offset(r, M), ly.offset(r, DTAU_DQ), ly.offset(r, DTAU_DV), ly.offset(r, TAU)
    clear_composites(r)
    ly.clear_matrix(r, dq)
    ly.clear_matrix(r, dv)
    if publishing:
        ly.clear_matrix(r, M_)
        ly.clear(r.work, tau, n)
    for i in range(ly.njoints(r), 0, -1):
        Y, B = composite_inertia(r, i), composite_coriolis(r, i)
        f = composite_force(r, COMPOSITE_FORCE, i)
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            S = load_column(r, J, i, c)
            Fa = al.momentum(Y, S)
            Fv = al.force_add(al.coriolis_times(B, S), al.momentum(Y, load_column(r, DADV, i, c)))
            Fq = al.force_add(al.coriolis_times(B, load_column(r, PSID, i, c)),
                              al.momentum(Y, load_column(r, PSIDD, i, c)))
            u = al.coriolis_transpose_times(B, S)
            if publishing:
                ly.increase(r.work, tau + k, al.power(f, S))
            for d in range(ly.ncolumns(r, i)):
                S_d = load_column(r, J, i, d)
                row = n * (ly.idx_v(r, i) + d) + k
                if publishing and d <= c:
                    ly.accumulate(r, M_ + row, al.power(Fa, S_d))
                if publishing and d < c:
                    ly.accumulate(r, M_ + n * k + ly.idx_v(r, i) + d, al.power(Fa, S_d))
                ly.accumulate(r, dq + row, al.power(Fq, S_d))
                ly.accumulate(r, dv + row, al.power(Fv, S_d))
            Fq = al.force_add(Fq, al.force_cross(S, f))
            if publishing:
                store_column(r, DFDA, i, c, Fa)
                store_column(r, DFDQ, i, c, Fq)
                store_column(r, DFDV, i, c, Fv)
            j, d = ly.column_before(r, i, 0)
            while j > 0:
                S_d = load_column(r, J, j, d)
                x = al.power(Fa, S_d)
                row = n * (ly.idx_v(r, j) + d) + k
                if publishing:
                    ly.accumulate(r, M_ + row, x)
                ly.accumulate(r, dq + row, al.power(Fq, S_d))
                ly.accumulate(r, dv + row, al.power(Fv, S_d))
                row = n * k + ly.idx_v(r, j) + d
                if publishing:
                    ly.accumulate(r, M_ + row, x)
                ly.accumulate(r, dq + row, al.power(Fa, load_column(r, PSIDD, j, d))
                              + al.dot(u, load_column(r, PSID, j, d).angular))
                ly.accumulate(r, dv + row,
                              al.power(Fa, load_column(r, DADV, j, d)) + al.dot(u, S_d.angular))
                j, d = ly.column_before(r, j, d)
    if publishing:
        for k in range(n):
            ly.increase(r.work, M_ + n * k + k, ly.armature(r, k))
            ly.increase(r.work, tau + k, ly.armature(r, k) * load(r.work, ly.offset(r, A) + k))


# --- expressed in the world: public results of a single state

@kernel
def motions_in_world(r, field, count):
    """Shift motions from the first joint's origin to the world's origin."""
    if holds_lanes(r.work):
        return
    o = al.scale(-1.0, al.load3(r.work, ly.offset(r, ra.ORIGIN)))
    for k in range(ly.offset(r, field), ly.offset(r, field) + 6 * count, 6):
        al.store_spatial(r.work, k, al.motion_moved(o, al.load_motion(r.work, k)))


@kernel
def forces_in_world(r, field, count):
    """Shift forces from the first joint's origin to the world's origin."""
    if holds_lanes(r.work):
        return
    o = al.load3(r.work, ly.offset(r, ra.ORIGIN))
    for k in range(ly.offset(r, field), ly.offset(r, field) + 6 * count, 6):
        al.store_spatial(r.work, k, al.force_moved(o, al.load_force(r.work, k)))


@kernel
def velocity_columns_in_world(r):
    n = ly.nallcolumns(r)
    for columns in (J, DJ, PSID, DADV):
        motions_in_world(r, columns, n)
    motions_in_world(r, OV, ly.njoints(r) + 1)
    if holds_lanes(r.work):
        return
    for k in range(6 * n):
        store(r.work, ly.offset(r, DVDQ) + k, load(r.work, ly.offset(r, PSID) + k))


@kernel
def columns_in_world(r):
    velocity_columns_in_world(r)
    for columns in (PSIDD, DADQ):
        motions_in_world(r, columns, ly.nallcolumns(r))
    for columns in (DFDA, DFDQ, DFDV):
        forces_in_world(r, columns, ly.nallcolumns(r))
    motions_in_world(r, OA_GF, ly.njoints(r) + 1)


@subroutine
def rnea_derivatives_kernel(r):
    outward(r, False)
    inward(r, True)
    columns_in_world(r)


# --- at rest

@kernel
def inward_at_rest(r, dq):
    """``inward`` at rest: only the derivatives with respect to q."""
    n = ly.nv(r)
    clear_composites(r)
    ly.clear_matrix(r, dq)
    for i in range(ly.njoints(r), 0, -1):
        Y, f = composite_inertia(r, i), composite_force(r, COMPOSITE_FORCE, i)
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            S = load_column(r, J, i, c)
            Fa, Fq = al.momentum(Y, S), al.momentum(Y, load_column(r, PSIDD, i, c))
            for d in range(ly.ncolumns(r, i)):
                ly.accumulate(r, dq + n * (ly.idx_v(r, i) + d) + k,
                              al.power(Fq, load_column(r, J, i, d)))
            Fq = al.force_add(Fq, al.force_cross(S, f))
            store_column(r, DFDQ, i, c, Fq)
            j = ly.parent(r, i)
            while j > 0:
                for d in range(ly.ncolumns(r, j)):
                    ly.accumulate(r, dq + n * (ly.idx_v(r, j) + d) + k,
                                  al.power(Fq, load_column(r, J, j, d)))
                    ly.accumulate(r, dq + n * k + ly.idx_v(r, j) + d,
                                  al.power(Fa, load_column(r, PSIDD, j, d)))
                j = ly.parent(r, j)


@kernel
def statics_derivatives(r, dq):
    """``outward`` and ``inward`` at rest: psidd is -g x S, psid is zero."""
    set_relative(r)
    set_gravity(r)
    oa = al.load_motion(r.work, ly.offset(r, OA_GF))
    for i in range(1, ly.njoints(r) + 1):
        Y = place_columns(r, i)
        for c in range(ly.ncolumns(r, i)):
            store_column(r, PSIDD, i, c, al.motion_cross(oa, load_column(r, J, i, c)))
        al.store_inertia(r.work, ly.offset(r, COMPOSITE_INERTIA) + 10 * i, Y)
        al.store_spatial(r.work, ly.offset(r, COMPOSITE_FORCE) + 6 * i, al.momentum(Y, oa))
        subtract_external_force(r, i)
    inward_at_rest(r, dq)
    for columns in (J, PSIDD):
        motions_in_world(r, columns, ly.nallcolumns(r))
    forces_in_world(r, DFDQ, ly.nallcolumns(r))


@kernel
def generalized_gravity_derivatives_kernel(r):
    statics_derivatives(r, ly.offset(r, DG_DQ))


@kernel
def static_torque_derivatives_kernel(r):
    statics_derivatives(r, ly.offset(r, DTAU_DQ))


LEAVES = (TAU, J, DJ, PSID, PSIDD, DVDQ, DADQ, DADV, DFDQ, DFDV, DFDA, OV, OA_GF)
_rnea_derivatives = Algorithm(
    "rnea_derivatives", rnea_derivatives_kernel, (Q, V, A, F_EXT), (DTAU_DQ, DTAU_DV, M),
    optional=(F_EXT,), leaves=LEAVES).caller()
_gravity_derivatives = Algorithm(
    "generalized_gravity_derivatives", generalized_gravity_derivatives_kernel, (Q,),
    (DG_DQ,), leaves=(J, PSIDD, DFDQ)).caller()
_static_derivatives = Algorithm(
    "static_torque_derivatives", static_torque_derivatives_kernel, (Q, F_EXT),
    (DTAU_DQ,), leaves=(J, PSIDD, DFDQ)).caller()


def rnea_derivatives(model: Model, data: Data, q: ArrayLike, v: ArrayLike, a: ArrayLike,
                     f_ext: ArrayLike | None = None, *,
                     threads: int = 1) -> tuple[Array, Array, Array]:
    """Derivatives of ``rnea`` with respect to configuration, velocity and acceleration.

    Singh, Russell and Wensing (2022), based on Carpentier and Mansard (2018); O(n d) for a tree of
    depth d. Includes ``model.armature``. External forces are constant in the joint frames. Also
    computes ``data.tau``, ``data.ov`` and ``data.oa_gf``, and, as columns expressed in the world at
    its origin: ``data.J``, ``data.dJ``, ``data.psid``, ``data.psidd``, ``data.dVdq``,
    ``data.dAdq``, ``data.dAdv``, ``data.dFdq``, ``data.dFdv`` and ``data.dFda``.

    Returns
    -------
    dtau_dq : (nv, nv) ndarray
        [i, j] is the derivative of torque i along velocity j, the direction in which
        ``Model.integrate`` moves q, in the tangent space [N m, N per rad, m].
    dtau_dv : (nv, nv) ndarray
        With respect to velocity [N m s, N s per rad, m].
    M : (nv, nv) ndarray
        With respect to acceleration: the joint-space inertia matrix [kg m2, kg m, kg].
        For a single state, ``data.dtau_dq``, ``data.dtau_dv`` and ``data.M``; for a batch, new
        arrays with a leading batch axis.

    Examples
    --------
    The linear prediction of the torques after a small step in q:

    >>> dtau_dq, dtau_dv, M = dyn_ros.rnea_derivatives(model, data, q, v, a)
    >>> step = 1e-6 * np.ones(7)
    >>> before = dyn_ros.rnea(model, data, q, v, a).copy()
    >>> after = dyn_ros.rnea(model, data, q + step, v, a)
    >>> np.allclose(dtau_dq @ step, after - before, atol=1e-9)
    True
    """
    return _rnea_derivatives(model, data, threads, q, v, a, f_ext)


def generalized_gravity_derivatives(model: Model, data: Data, q: ArrayLike, *,
                                    threads: int = 1) -> Array:
    """Derivative of ``generalized_gravity`` with respect to configuration.

    Singh, Russell and Wensing (2022) at rest; O(n d) for a tree of depth d. Also computes
    ``data.J``, ``data.psidd`` and ``data.dFdq``.

    Returns
    -------
    (nv, nv) ndarray
        [i, j] is the derivative of torque i along velocity j, in the tangent space [N m, N per rad,
        m]. For a single state, ``data.dg_dq``; for a batch, a new array with a leading batch axis.

    Examples
    --------
    The stiffness of gravity, a symmetric matrix:

    >>> dg_dq = dyn_ros.generalized_gravity_derivatives(model, data, q)
    >>> dg_dq.shape, np.allclose(dg_dq, dg_dq.T)
    ((7, 7), True)
    """
    return _gravity_derivatives(model, data, threads, q)


def static_torque_derivatives(model: Model, data: Data, q: ArrayLike, f_ext: ArrayLike, *,
                              threads: int = 1) -> Array:
    """Derivative of ``static_torque`` with respect to configuration.

    Singh, Russell and Wensing (2022) at rest; O(n d) for a tree of depth d. External forces are
    constant in the joint frames. Also computes ``data.J``, ``data.psidd`` and ``data.dFdq``.

    Returns
    -------
    (nv, nv) ndarray
        [i, j] is the derivative of torque i along velocity j, in the tangent space [N m, N per rad,
        m]. For a single state, ``data.dtau_dq``; for a batch, a new array with a leading batch
        axis.

    Examples
    --------
    >>> none = np.zeros((model.njoints, 6))
    >>> stiffness = dyn_ros.static_torque_derivatives(model, data, q, none).copy()
    >>> np.allclose(stiffness, dyn_ros.generalized_gravity_derivatives(model, data, q))
    True
    """
    return _static_derivatives(model, data, threads, q, f_ext)
