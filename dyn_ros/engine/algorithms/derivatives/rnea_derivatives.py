# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of inverse dynamics with respect to configuration, velocity and acceleration.

Singh, Russell and Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial
vector algebra" (2022), based on Carpentier and Mansard (2018). Expressed in world axes, about the
first joint's origin, which preserves accuracy far from the origin of the world; public results are
finally shifted to the world's origin. A column of a joint's motion subspace S has the rates
psid = v x S and psidd = a x S + v x psid, with v and a of the parent joint, and
dAdv = dS/dt + psid. The subtree enters through its composite inertia Y, Coriolis inertia B and
force f. Each column is combined with the columns of its joint and of its ancestors:

    dtau_i/dq_j = S_i (B psid_j + Y psidd_j)                j is an ancestor of i, or i itself
    dtau_j/dq_i = S_j (B psid_i + Y psidd_i + S_i x* f)     j is an ancestor of i
    dtau_i/dv_j = S_i (B S_j + Y dAdv_j),  dtau_j/dv_i = S_j (B S_i + Y dAdv_i)
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics.crba import M
from ..dynamics.rnea import TAU
from ..kinematics import world_axes as wa
from ..kinematics.jacobians import DJ, J
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
def differentiate_inward(r, with_public_results):
    """Compute the derivatives, column by column, in an inward pass.

        Fa = Y S,  Fv = B S + Y dAdv,  Fq = B psid + Y psidd + S x* f
        dtau_j/dq_k = S_j . Fq,  dtau_j/dv_k = S_j . Fv,  M_jk = S_j . Fa
        dtau_k/dq_j = Fa . psidd_j + B' S_k . psid_j
        dtau_k/dv_j = Fa . dAdv_j + B' S_k . S_j

    j: velocities of ancestors of the joint of k. For j of the same joint, dtau_j/dq_k lacks
    S x* f, dtau_j/dv_k and M_jk are as above.

    With ``with_public_results``, also M, tau = S . f + armature qdd, and dF/da = Fa, dF/dq = Fq,
    dF/dv = Fv.

    Reads A, J, PSID, PSIDD, DADV; writes M, TAU, DTAU_DQ, DTAU_DV, DFDA, DFDQ, DFDV; calls
    clear_subtree_sums.
    """
    H, dq, dv = matrix(r, M), matrix(r, DTAU_DQ), matrix(r, DTAU_DV)
    rc.clear_subtree_sums(r)
    clear_sparse(r, DTAU_DQ)
    clear_sparse(r, DTAU_DV)
    if with_public_results:
        clear_sparse(r, M)
        clear_entries(r, TAU, nv(r))
    for i in range(njoints(r), 0, -1):
        Y, B = rc.add_inertia_to_parent(r, i), rc.add_coriolis_to_parent(r, i)
        f = rc.add_force_to_parent(r, rc.SUBTREE_FORCE, i)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            S = motion_column(r, J, i, c)
            Fa = inertia_times(Y, S)
            Fv = force_add(coriolis_times(B, S), inertia_times(Y, motion_column(r, rc.DADV, i, c)))
            Fq = force_add(
                coriolis_times(B, motion_column(r, rc.PSID, i, c)),
                inertia_times(Y, motion_column(r, rc.PSIDD, i, c)),
            )
            u = coriolis_transpose_times(B, S)
            if with_public_results:
                add_to_entry(r, TAU, k, power(f, S))
            for d in range(ncolumns(r, i)):
                n, S_d = idx_v(r, i) + d, motion_column(r, J, i, d)
                if with_public_results and d <= c:
                    accumulate_element(r, H, n, k, power(Fa, S_d))
                if with_public_results and d < c:
                    accumulate_element(r, H, k, n, power(Fa, S_d))
                accumulate_element(r, dq, n, k, power(Fq, S_d))
                accumulate_element(r, dv, n, k, power(Fv, S_d))
            Fq = force_add(Fq, force_cross(S, f))
            if with_public_results:
                set_column(r, DFDA, i, c, Fa)
                set_column(r, DFDQ, i, c, Fq)
                set_column(r, DFDV, i, c, Fv)
            j, d = column_before(r, i, 0)
            while j > 0:
                n, S_d = idx_v(r, j) + d, motion_column(r, J, j, d)
                x = power(Fa, S_d)
                if with_public_results:
                    accumulate_element(r, H, n, k, x)
                accumulate_element(r, dq, n, k, power(Fq, S_d))
                accumulate_element(r, dv, n, k, power(Fv, S_d))
                if with_public_results:
                    accumulate_element(r, H, k, n, x)
                psid, psidd = motion_column(r, rc.PSID, j, d), motion_column(r, rc.PSIDD, j, d)
                accumulate_element(r, dq, k, n, power(Fa, psidd) + dot(u, psid.angular))
                dAdv = motion_column(r, rc.DADV, j, d)
                accumulate_element(r, dv, k, n, power(Fa, dAdv) + dot(u, S_d.angular))
                j, d = column_before(r, j, d)
    if with_public_results:
        for k in range(nv(r)):
            add_to_element(r, H, k, k, armature(r, k))
            add_to_entry(r, TAU, k, armature(r, k) * entry(r, A, k))


# --- expressed in the world: public results of a single state


@kernel
def shift_motions_to_world(r, field, count):
    """Shift motions from the first joint's origin to the world's origin.

    Reads ORIGIN; writes field.
    """
    if is_batch(r):
        return
    o = scale(-1.0, vector(r, wa.ORIGIN, 0))
    for k in range(count):
        set_motion(r, field, k, motion_moved(o, motion(r, field, k)))


@kernel
def shift_forces_to_world(r, field, count):
    """Shift forces from the first joint's origin to the world's origin.

    Reads ORIGIN; writes field.
    """
    if is_batch(r):
        return
    o = vector(r, wa.ORIGIN, 0)
    for k in range(count):
        set_force(r, field, k, force_moved(o, force(r, field, k)))


@kernel
def shift_velocity_columns_to_world(r):
    """Shift J, its derivatives and the velocities to the world's origin.

    Reads ORIGIN; writes OV, J, DJ, PSID, DVDQ, DADV.
    """
    n = nallcolumns(r)
    for columns in (J, DJ, rc.PSID, rc.DADV):
        shift_motions_to_world(r, columns, n)
    shift_motions_to_world(r, OV, njoints(r) + 1)
    if is_batch(r):
        return
    for k in range(6 * n):
        set_entry(r, rc.DVDQ, k, entry(r, rc.PSID, k))


@kernel
def shift_columns_to_world(r):
    """Shift all public columns and motions to the world's origin.

    Writes OV, OA_GF, J, DJ, PSID, PSIDD, DVDQ, DADQ, DADV, DFDA, DFDQ, DFDV; calls
    shift_velocity_columns_to_world.
    """
    shift_velocity_columns_to_world(r)
    for columns in (rc.PSIDD, rc.DADQ):
        shift_motions_to_world(r, columns, nallcolumns(r))
    for columns in (DFDA, DFDQ, DFDV):
        shift_forces_to_world(r, columns, nallcolumns(r))
    shift_motions_to_world(r, OA_GF, njoints(r) + 1)


@subroutine
def rnea_derivatives_kernel(r):
    """Compute the derivatives of the joint torques with respect to q, v and a.

    See the formulas of this module.

    Reads Q, V, A, F_EXT; writes M, OV, OA_GF, TAU, J, DJ, PSID, PSIDD, DVDQ, DADQ, DADV, DTAU_DQ,
    DTAU_DV, DFDA, DFDQ, DFDV; calls outward_pass, differentiate_inward, shift_columns_to_world.
    """
    rc.outward_pass(r, False)
    differentiate_inward(r, True)
    shift_columns_to_world(r)


# --- at rest


@kernel
def differentiate_inward_at_rest(r, field):
    """Compute the derivatives with respect to q at rest, stored in a field, in an inward pass.

        dtau_j/dq_k = S_j . (Y psidd_k + S_k x* f)
        dtau_k/dq_j = Y S_k . psidd_j

    j: velocities of ancestors of the joint of k. For j of the same joint, dtau_j/dq_k lacks
    S_k x* f.

    Reads J, PSIDD; writes SUBTREE_INERTIA, SUBTREE_CORIOLIS, SUBTREE_FORCE, DFDQ, field.
    """
    dq = matrix(r, field)
    rc.clear_subtree_sums(r)
    clear_sparse(r, field)
    for i in range(njoints(r), 0, -1):
        Y, f = rc.add_inertia_to_parent(r, i), rc.add_force_to_parent(r, rc.SUBTREE_FORCE, i)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            S = motion_column(r, J, i, c)
            Fa, Fq = inertia_times(Y, S), inertia_times(Y, motion_column(r, rc.PSIDD, i, c))
            for d in range(ncolumns(r, i)):
                accumulate_element(r, dq, idx_v(r, i) + d, k, power(Fq, motion_column(r, J, i, d)))
            Fq = force_add(Fq, force_cross(S, f))
            set_column(r, DFDQ, i, c, Fq)
            j = parent(r, i)
            while j > 0:
                for d in range(ncolumns(r, j)):
                    n = idx_v(r, j) + d
                    accumulate_element(r, dq, n, k, power(Fq, motion_column(r, J, j, d)))
                    accumulate_element(r, dq, k, n, power(Fa, motion_column(r, rc.PSIDD, j, d)))
                j = parent(r, j)


@kernel
def static_derivatives(r, field):
    """Compute the derivatives of the torques at rest, stored in a field.

        psidd = a_0 x S,  psid = 0          a_0 = (-gravity, 0)

    Reads Q, F_EXT; writes OV, OA_GF, J, PSIDD, DFDQ, field; calls place_universe_for_columns,
    differentiate_inward_at_rest, place_body_columns, subtract_external_force.
    """
    rc.place_universe_for_columns(r)
    wa.set_universe_acceleration(r, OA_GF)
    oa = motion(r, OA_GF, 0)
    for i in range(1, njoints(r) + 1):
        Y = rc.place_body_columns(r, i)
        for c in range(ncolumns(r, i)):
            set_column(r, rc.PSIDD, i, c, motion_cross(oa, motion_column(r, J, i, c)))
        set_inertia(r, rc.SUBTREE_INERTIA, i, Y)
        set_force(r, rc.SUBTREE_FORCE, i, inertia_times(Y, oa))
        rc.subtract_external_force(r, i)
    differentiate_inward_at_rest(r, field)
    for columns in (J, rc.PSIDD):
        shift_motions_to_world(r, columns, nallcolumns(r))
    shift_forces_to_world(r, DFDQ, nallcolumns(r))


@kernel
def generalized_gravity_derivatives_kernel(r):
    """Compute the derivatives of the gravity torques.

    Reads Q, F_EXT; writes OV, OA_GF, J, PSIDD, DG_DQ, DFDQ; calls static_derivatives.
    """
    static_derivatives(r, DG_DQ)


@kernel
def static_torque_derivatives_kernel(r):
    """Compute the derivatives of the torques at rest under external forces.

    Reads Q, F_EXT; writes OV, OA_GF, J, PSIDD, DTAU_DQ, DFDQ; calls static_derivatives.
    """
    static_derivatives(r, DTAU_DQ)


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


@algorithm(
    rnea_derivatives_kernel,
    inputs=(Q, V, A, F_EXT),
    results=(DTAU_DQ, DTAU_DV, M),
    optional=(F_EXT,),
    also_writes=ALSO_WRITES,
)
def rnea_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array]:
    """Compute derivatives of ``rnea`` with respect to configuration, velocity and acceleration.

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


@algorithm(
    generalized_gravity_derivatives_kernel,
    inputs=(Q,),
    results=(DG_DQ,),
    also_writes=(J, rc.PSIDD, DFDQ),
)
def generalized_gravity_derivatives(
    model: Model, data: Data, q: ArrayLike, *, threads: int = 1, out: OutArrays | None = None
) -> Array:
    """Compute the derivative of ``generalized_gravity`` with respect to configuration.

    Singh, Russell and Wensing (2022) at rest; O(n d) for a tree of depth d.

    Examples
    --------
    The stiffness of gravity, a symmetric matrix:

    >>> dg_dq = dyn_ros.generalized_gravity_derivatives(model, data, q)
    >>> dg_dq.shape, np.allclose(dg_dq, dg_dq.T)
    ((7, 7), True)
    """


@algorithm(
    static_torque_derivatives_kernel,
    inputs=(Q, F_EXT),
    results=(DTAU_DQ,),
    also_writes=(J, rc.PSIDD, DFDQ),
)
def static_torque_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    f_ext: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the derivative of ``static_torque`` with respect to configuration.

    Singh, Russell and Wensing (2022) at rest; O(n d) for a tree of depth d. External forces are
    constant in the joint frames.

    Examples
    --------
    >>> none = np.zeros((model.njoints, 6))
    >>> stiffness = dyn_ros.static_torque_derivatives(model, data, q, none).copy()
    >>> np.allclose(stiffness, dyn_ros.generalized_gravity_derivatives(model, data, q))
    True
    """
