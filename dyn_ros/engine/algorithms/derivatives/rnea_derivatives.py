# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of inverse dynamics with respect to configuration, velocity and acceleration.

Singh, Russell and Wensing (2022), based on Carpentier and Mansard (2018). Expressed in the root
frame, about the first joint's origin, which preserves accuracy far from the root; public results
are finally shifted to the world's origin. A column of a joint's motion subspace S has the rates
psid = v x S and psidd = a x S + v x psid, with v and a of the parent joint. The subtree enters
through its composite inertia Y, Coriolis inertia B and force f. Each column is combined with those
of its own joint and of its ancestors:

    dtau_i/dq_j = S_i (B psid_j + Y psidd_j)                j is an ancestor of i, or i itself
    dtau_j/dq_i = S_j (B psid_i + Y psidd_i + S_i x* f)     j is an ancestor of i
    dtau_i/dv_j = S_i (B S_j + Y dAdv_j),  dtau_j/dv_i = S_j (B S_i + Y dAdv_i)
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import F_EXT, A, Q, V, field
from ...kernel.lanes import holds_lanes, load, store
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel, subroutine
from ...model.model import Model
from ..dynamics.crba import M
from ..dynamics.rnea import TAU
from ..kinematics import root_axes as ra
from ..kinematics.jacobians import DJ, J, load_column, store_column
from ..kinematics.kinematics import OA_GF, OV
from . import rnea_columns as rc

DTAU_DQ = field(
    "dtau_dq",
    ("nv", "nv"),
    "Derivative of the joint torques with respect to configuration: [i, j] of "
    "torque i along velocity j, the direction in which ``Model.integrate`` moves q [N "
    "m, N per rad, m].",
    sparse=True,
)
DTAU_DV = field(
    "dtau_dv",
    ("nv", "nv"),
    "Derivative of the joint torques with respect to velocity [N m s, N s per rad, m].",
    sparse=True,
)
DG_DQ = field(
    "dg_dq",
    ("nv", "nv"),
    "Derivative of the gravity torques with respect to configuration: [i, j] of "
    "torque i along velocity j, in the tangent space [N m, N per rad, m].",
    sparse=True,
)
DFDA = field(
    "dFda",
    ("ncolumns", 6),
    "Derivative of the force on a joint's subtree with respect to the acceleration of the "
    "joint, expressed in the world, at its origin [kg, kg m, kg m2].",
    True,
)
DFDQ = field(
    "dFdq",
    ("ncolumns", 6),
    "Derivative of the force on a joint's subtree with respect to q, expressed in the "
    "world, at its origin [N, N m per rad, m]; with gravity, but without it after "
    "``centroidal_derivatives``.",
    True,
)
DFDV = field(
    "dFdv",
    ("ncolumns", 6),
    "Derivative of the force on a joint's subtree with respect to velocity, expressed in "
    "the world, at its origin [N s, N m s per rad, m].",
    True,
)


@kernel
def inward(r, publishing):
    """The derivatives, column by column from the tips; publishing also M, tau and dFd*."""
    n, M_, dq, dv, tau = (
        ly.nv(r),
        ly.offset(r, M),
        ly.offset(r, DTAU_DQ),
        ly.offset(r, DTAU_DV),
        ly.offset(r, TAU),
    )
    rc.clear_composites(r)
    ly.clear_matrix(r, dq)
    ly.clear_matrix(r, dv)
    if publishing:
        ly.clear_matrix(r, M_)
        ly.clear(r.work, tau, n)
    for i in range(ly.njoints(r), 0, -1):
        Y, B = rc.composite_inertia(r, i), rc.composite_coriolis(r, i)
        f = rc.composite_force(r, rc.COMPOSITE_FORCE, i)
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            S = load_column(r, J, i, c)
            Fa = al.momentum(Y, S)
            Fv = al.force_add(
                al.coriolis_times(B, S), al.momentum(Y, load_column(r, rc.DADV, i, c))
            )
            Fq = al.force_add(
                al.coriolis_times(B, load_column(r, rc.PSID, i, c)),
                al.momentum(Y, load_column(r, rc.PSIDD, i, c)),
            )
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
                ly.accumulate(
                    r,
                    dq + row,
                    al.power(Fa, load_column(r, rc.PSIDD, j, d))
                    + al.dot(u, load_column(r, rc.PSID, j, d).angular),
                )
                ly.accumulate(
                    r,
                    dv + row,
                    al.power(Fa, load_column(r, rc.DADV, j, d)) + al.dot(u, S_d.angular),
                )
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
    for columns in (J, DJ, rc.PSID, rc.DADV):
        motions_in_world(r, columns, n)
    motions_in_world(r, OV, ly.njoints(r) + 1)
    if holds_lanes(r.work):
        return
    for k in range(6 * n):
        store(r.work, ly.offset(r, rc.DVDQ) + k, load(r.work, ly.offset(r, rc.PSID) + k))


@kernel
def columns_in_world(r):
    velocity_columns_in_world(r)
    for columns in (rc.PSIDD, rc.DADQ):
        motions_in_world(r, columns, ly.nallcolumns(r))
    for columns in (DFDA, DFDQ, DFDV):
        forces_in_world(r, columns, ly.nallcolumns(r))
    motions_in_world(r, OA_GF, ly.njoints(r) + 1)


@subroutine
def rnea_derivatives_kernel(r):
    rc.outward(r, False)
    inward(r, True)
    columns_in_world(r)


# --- at rest


@kernel
def inward_at_rest(r, dq):
    """``inward`` at rest: only the derivatives with respect to q."""
    n = ly.nv(r)
    rc.clear_composites(r)
    ly.clear_matrix(r, dq)
    for i in range(ly.njoints(r), 0, -1):
        Y, f = rc.composite_inertia(r, i), rc.composite_force(r, rc.COMPOSITE_FORCE, i)
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            S = load_column(r, J, i, c)
            Fa, Fq = al.momentum(Y, S), al.momentum(Y, load_column(r, rc.PSIDD, i, c))
            for d in range(ly.ncolumns(r, i)):
                ly.accumulate(
                    r, dq + n * (ly.idx_v(r, i) + d) + k, al.power(Fq, load_column(r, J, i, d))
                )
            Fq = al.force_add(Fq, al.force_cross(S, f))
            store_column(r, DFDQ, i, c, Fq)
            j = ly.parent(r, i)
            while j > 0:
                for d in range(ly.ncolumns(r, j)):
                    ly.accumulate(
                        r, dq + n * (ly.idx_v(r, j) + d) + k, al.power(Fq, load_column(r, J, j, d))
                    )
                    ly.accumulate(
                        r,
                        dq + n * k + ly.idx_v(r, j) + d,
                        al.power(Fa, load_column(r, rc.PSIDD, j, d)),
                    )
                j = ly.parent(r, j)


@kernel
def statics_derivatives(r, dq):
    """``outward`` and ``inward`` at rest: psidd is -g x S, psid is zero."""
    rc.set_relative(r)
    ra.let_fall(r, OA_GF)
    oa = al.load_motion(r.work, ly.offset(r, OA_GF))
    for i in range(1, ly.njoints(r) + 1):
        Y = rc.place_columns(r, i)
        for c in range(ly.ncolumns(r, i)):
            store_column(r, rc.PSIDD, i, c, al.motion_cross(oa, load_column(r, J, i, c)))
        al.store_inertia(r.work, ly.offset(r, rc.COMPOSITE_INERTIA) + 10 * i, Y)
        al.store_spatial(r.work, ly.offset(r, rc.COMPOSITE_FORCE) + 6 * i, al.momentum(Y, oa))
        rc.subtract_external_force(r, i)
    inward_at_rest(r, dq)
    for columns in (J, rc.PSIDD):
        motions_in_world(r, columns, ly.nallcolumns(r))
    forces_in_world(r, DFDQ, ly.nallcolumns(r))


@kernel
def generalized_gravity_derivatives_kernel(r):
    statics_derivatives(r, ly.offset(r, DG_DQ))


@kernel
def static_torque_derivatives_kernel(r):
    statics_derivatives(r, ly.offset(r, DTAU_DQ))


ALSO_WRITES = (
    TAU,
    J,
    DJ,
    rc.PSID,
    rc.PSIDD,
    rc.DVDQ,
    rc.DADQ,
    rc.DADV,
    DFDQ,
    DFDV,
    DFDA,
    OV,
    OA_GF,
)
_rnea_derivatives = Algorithm(
    "rnea_derivatives",
    rnea_derivatives_kernel,
    (Q, V, A, F_EXT),
    (DTAU_DQ, DTAU_DV, M),
    optional=(F_EXT,),
    also_writes=ALSO_WRITES,
).caller()
_gravity_derivatives = Algorithm(
    "generalized_gravity_derivatives",
    generalized_gravity_derivatives_kernel,
    (Q,),
    (DG_DQ,),
    also_writes=(J, rc.PSIDD, DFDQ),
).caller()
_static_derivatives = Algorithm(
    "static_torque_derivatives",
    static_torque_derivatives_kernel,
    (Q, F_EXT),
    (DTAU_DQ,),
    also_writes=(J, rc.PSIDD, DFDQ),
).caller()


def rnea_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
) -> tuple[Array, Array, Array]:
    """Derivatives of ``rnea`` with respect to configuration, velocity and acceleration.

    Singh, Russell and Wensing (2022), based on Carpentier and Mansard (2018); O(n d) for a tree of
    depth d. Includes ``model.armature``. External forces are constant in the joint frames. The
    derivative with respect to acceleration is M.

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


def generalized_gravity_derivatives(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1
) -> Array:
    """Derivative of ``generalized_gravity`` with respect to configuration.

    Singh, Russell and Wensing (2022) at rest; O(n d) for a tree of depth d.

    Examples
    --------
    The stiffness of gravity, a symmetric matrix:

    >>> dg_dq = dyn_ros.generalized_gravity_derivatives(model, data, q)
    >>> dg_dq.shape, np.allclose(dg_dq, dg_dq.T)
    ((7, 7), True)
    """
    return _gravity_derivatives(model, data, threads, q)


def static_torque_derivatives(
    model: Model, data: Data, q: ArrayLike, f_ext: ArrayLike, *, threads: int = 1
) -> Array:
    """Derivative of ``static_torque`` with respect to configuration.

    Singh, Russell and Wensing (2022) at rest; O(n d) for a tree of depth d. External forces are
    constant in the joint frames.

    Examples
    --------
    >>> none = np.zeros((model.njoints, 6))
    >>> stiffness = dyn_ros.static_torque_derivatives(model, data, q, none).copy()
    >>> np.allclose(stiffness, dyn_ros.generalized_gravity_derivatives(model, data, q))
    True
    """
    return _static_derivatives(model, data, threads, q, f_ext)
