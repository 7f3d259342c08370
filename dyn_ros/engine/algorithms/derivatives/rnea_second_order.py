# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Second-order derivatives of inverse dynamics.

Singh, Russell and Wensing, "On second-order derivatives of rigid-body dynamics" (2022),
based on the first order in rnea_derivatives.py.
Along q_i, the subtree of velocity i moves with S_i. In addition, v changes by psid_i, S_j does not
change, psid_j changes by psid_i x S_j, and psidd_j by psidd_i x S_j + 2 psid_i x psid_j; by
Jacobi's identity, this also holds for the columns of i's own joint. The subtree of i has the
composite inertia Y and the Coriolis inertia B, with the rates along q_i

    dY = S_i x* Y - Y S_i x,  dB = S_i x* B - B S_i x + B(Y, psid_i)

Let j be an ancestor of i, and k of j. With dF/da_i = Y S_i, dF/dv_i, dF/dq_i of the first order,
and F1 = S_j x* dF/da_i, F2 = dY S_j, each entry is a product with columns of k:

    dM_ik/dq_j = F1 S_k,  dM_jk/dq_i = F2 S_k,  dM_ij/dq_k = 0
    d2tau_i/dv_j dv_k = (F1 - F2) S_k = -d2tau_j/dv_i dv_k,  d2tau_k/dv_i dv_j = (F1 + F2) S_k
    d2tau_i/dq_k dv_j = (F1 - F2) psid_k = -d2tau_j/dq_k dv_i
    d2tau_i/dq_j dv_k = F3 S_k + F1 dAdv_k,  d2tau_i/dq_j dq_k = F3 psid_k + F1 psidd_k
    d2tau_j/dq_i dv_k = F4 S_k + F2 dAdv_k,  d2tau_j/dq_i dq_k = F4 psid_k + F2 psidd_k
    d2tau_k/dq_i dv_j = F5 S_k,  d2tau_k/dq_j dv_i = F6 S_k,  d2tau_k/dq_i dq_j = F7 S_k

    F3 = psid_j x* Y S_i - dY psid_j + S_j x* B' S_i,  F4 = dB' S_j,  F5 = dB S_j + dY dAdv_j
    F6 = psid_j x* Y S_i + dY psid_j + S_j x* dF/dv_i
    F7 = dB psid_j + dY psidd_j + S_j x* dF/dq_i

Columns of the same joint are used in both roles, j before k and k before j. Entries that differ
between the roles are valid for one order only, and two change: d2tau_i/dv_j dv_k = -F2 S_k if j
and k are columns of the same joint, d2tau_k/dv_i dv_j = (F1 + F2 + Y S_i x S_j) S_k if i and j are.
"""

from __future__ import annotations

from collections import namedtuple

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics.crba import M, inertia_rate
from ..kinematics.jacobians import J
from . import rnea_columns as rc
from . import rnea_derivatives as rd

CUBE = ("nv", "nv", "nv")
D2TAU_DQDQ = field(
    "d2tau_dqdq",
    CUBE,
    "[i, j, k] is the derivative of dtau_dq[i, j] along velocity k, the direction "
    "in which ``Model.integrate`` moves q: torques in N m or N, directions in rad "
    "or m.",
    sparse=True,
)
D2TAU_DVDV = field(
    "d2tau_dvdv",
    CUBE,
    "[i, j, k] is the derivative of dtau_dv[i, j] with respect to velocity k.",
    sparse=True,
)
D2TAU_DQDV = field(
    "d2tau_dqdv",
    CUBE,
    "[i, j, k] is the derivative of dtau_dq[i, j] with respect to velocity k.",
    sparse=True,
)
D2TAU_DADQ = field(
    "d2tau_dadq", CUBE, "[i, j, k] is the derivative of M[i, j] along velocity k.", sparse=True
)
TENSORS = D2TAU_DQDQ, D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ

Outer = namedtuple("Outer", "S Fa Fv Fq Y dY dB u")
"""Quantities of the outer velocity i; u = B' S_i."""
Forces = namedtuple("Forces", "F1 F2 F3 F4 F5 F6 F7 difference")


@kernel
def coriolis_rate(B, S):
    """Return S x* B - B S x, which has the form of B."""
    s, p, W = S.linear, B.momentum, skew(S.angular)
    L, R, t = product(W, B.angular), product(B.angular, W), dot(s, p)
    return CoriolisInertia(
        cross(S.angular, p),
        (
            L[0] - R[0] + t - p[0] * s[0],
            L[1] - R[1] - p[0] * s[1],
            L[2] - R[2] - p[0] * s[2],
            L[3] - R[3] - p[1] * s[0],
            L[4] - R[4] + t - p[1] * s[1],
            L[5] - R[5] - p[1] * s[2],
            L[6] - R[6] - p[2] * s[0],
            L[7] - R[7] - p[2] * s[1],
            L[8] - R[8] + t - p[2] * s[2],
        ),
    )


@kernel
def outer_column(r, joint, c):
    """Return column c of a joint, of velocity i, with the inertia of its subtree and its rates.

    Reads J, PSID, SUBTREE_INERTIA, SUBTREE_CORIOLIS, DFDA, DFDQ, DFDV.
    """
    Y = inertia(r, rc.SUBTREE_INERTIA, joint)
    B = coriolis(r, rc.SUBTREE_CORIOLIS, joint)
    S, psid = motion_column(r, J, joint, c), motion_column(r, rc.PSID, joint, c)
    dB = coriolis_add(coriolis_rate(B, S), coriolis_inertia(Y, psid, inertia_times(Y, psid).linear))
    return Outer(
        S,
        force_column(r, rd.DFDA, joint, c),
        force_column(r, rd.DFDV, joint, c),
        force_column(r, rd.DFDQ, joint, c),
        Y,
        inertia_rate(Y, S),
        dB,
        coriolis_transpose_times(B, S),
    )


@kernel
def compute_forces(r, outer, joint, c, one_joint):
    """Compute F1 to F7 and F1 - F2 of velocities i (``outer``) and j, column c of a joint.

    If both are of the same joint, F5 is not needed and holds Y S_i x S_j. F4 has only its angular
    part, as its linear part is zero.

    Reads J, PSID, PSIDD, DADV.
    """
    dY, dB = outer.dY, outer.dB
    S, psid = motion_column(r, J, joint, c), motion_column(r, rc.PSID, joint, c)
    turned, rate = force_cross(psid, outer.Fa), inertia_times(dY, psid)
    F3 = force_sub(turned, rate)
    F3 = Force(F3.linear, add(F3.angular, cross(S.angular, outer.u)))
    F5 = force_add(coriolis_times(dB, S), inertia_times(dY, motion_column(r, rc.DADV, joint, c)))
    if one_joint:
        F5 = inertia_times(outer.Y, motion_cross(outer.S, S))
    F6 = force_add(force_add(turned, rate), force_cross(S, outer.Fv))
    F7 = force_add(
        force_add(coriolis_times(dB, psid), force_cross(S, outer.Fq)),
        inertia_times(dY, motion_column(r, rc.PSIDD, joint, c)),
    )
    F1, F2 = force_cross(S, outer.Fa), inertia_times(dY, S)
    return Forces(F1, F2, F3, coriolis_transpose_times(dB, S), F5, F6, F7, force_sub(F1, F2))


@kernel
def cube_index(r, i, j, k):
    """Return the number of entry [i, j, k] of a tensor (nv, nv, nv)."""
    return (i * nv(r) + j) * nv(r) + k


@kernel
def store_entries(r, i, j, k, F, joint, c, ij_one_joint, jk_one_joint):
    """Store all entries for velocities i, j and k, where k is column c of a joint.

    Reads J, PSID, PSIDD, DADV; writes D2TAU_DQDQ, D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ.
    """
    S, psid = motion_column(r, J, joint, c), motion_column(r, rc.PSID, joint, c)
    psidd, dAdv = motion_column(r, rc.PSIDD, joint, c), motion_column(r, rc.DADV, joint, c)
    x, y = power(F.F1, S), power(F.F2, S)
    z = power(F.difference, psid)
    ijk, ikj = cube_index(r, i, j, k), cube_index(r, i, k, j)
    jik, jki = cube_index(r, j, i, k), cube_index(r, j, k, i)
    kij, kji = cube_index(r, k, i, j), cube_index(r, k, j, i)
    dqdq = power(F.F3, psid) + power(F.F1, psidd)
    accumulate_entry(r, D2TAU_DQDQ, ijk, dqdq)
    accumulate_entry(r, D2TAU_DQDV, ikj, z)
    if jk_one_joint:
        accumulate_entry(r, D2TAU_DVDV, ijk, -y)
    else:
        X = power(F.F7, S)
        accumulate_entry(r, D2TAU_DQDQ, ikj, dqdq)
        accumulate_entry(r, D2TAU_DQDQ, kij, X)
        accumulate_entry(r, D2TAU_DQDV, ijk, power(F.F3, S) + power(F.F1, dAdv))
        accumulate_entry(r, D2TAU_DQDV, kji, power(F.F6, S))
        accumulate_entry(r, D2TAU_DVDV, ijk, x - y)
        accumulate_entry(r, D2TAU_DVDV, ikj, x - y)
        accumulate_entry(r, D2TAU_DADQ, ikj, x)
        accumulate_entry(r, D2TAU_DADQ, kij, x)
        if ij_one_joint:
            accumulate_entry(r, D2TAU_DVDV, kij, x + y + power(F.F5, S))
        else:
            accumulate_entry(r, D2TAU_DQDQ, kji, X)
            accumulate_entry(r, D2TAU_DQDV, kij, power(F.F5, S))
            accumulate_entry(r, D2TAU_DVDV, kij, x + y)
            accumulate_entry(r, D2TAU_DVDV, kji, x + y)
            accumulate_entry(r, D2TAU_DADQ, kji, y)
    if not ij_one_joint:
        dqdq = dot(F.F4, psid.angular) + power(F.F2, psidd)
        accumulate_entry(r, D2TAU_DQDQ, jik, dqdq)
        accumulate_entry(r, D2TAU_DQDQ, jki, dqdq)
        accumulate_entry(r, D2TAU_DQDV, jik, dot(F.F4, S.angular) + power(F.F2, dAdv))
        accumulate_entry(r, D2TAU_DQDV, jki, -z)
        accumulate_entry(r, D2TAU_DVDV, jik, y - x)
        accumulate_entry(r, D2TAU_DVDV, jki, y - x)
        accumulate_entry(r, D2TAU_DADQ, jki, y)


@kernel
def store_second_order(r):
    """Store the second-order derivatives, after ``outward_pass`` and ``differentiate_inward``.

    Writes D2TAU_DQDQ, D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ; calls outer_column, compute_forces,
    store_entries.
    """
    for tensor in TENSORS:
        clear_sparse(r, tensor)
    for joint_i in range(1, njoints(r) + 1):
        for ci in range(ncolumns(r, joint_i)):
            outer = outer_column(r, joint_i, ci)
            joint_j, cj = joint_i, ncolumns(r, joint_i) - 1
            while joint_j > 0:
                F = compute_forces(r, outer, joint_j, cj, joint_j == joint_i)
                joint_k, ck = joint_j, ncolumns(r, joint_j) - 1
                while joint_k > 0:
                    store_entries(
                        r,
                        idx_v(r, joint_i) + ci,
                        idx_v(r, joint_j) + cj,
                        idx_v(r, joint_k) + ck,
                        F,
                        joint_k,
                        ck,
                        joint_j == joint_i,
                        joint_k == joint_j,
                    )
                    joint_k, ck = column_before(r, joint_k, ck)
                joint_j, cj = column_before(r, joint_j, cj)


@subroutine
def rnea_second_order_derivatives_kernel(r):
    """Compute the first and second derivatives of the joint torques.

    See the formulas of this module.

    Reads Q, V, A, F_EXT; writes M, OV, OA_GF, TAU, J, DJ, PSID, PSIDD, DVDQ, DADQ, DADV, DTAU_DQ,
    DTAU_DV, DFDA, DFDQ, DFDV, D2TAU_DQDQ, D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ; calls outward_pass,
    differentiate_inward, store_second_order, shift_columns_to_world.
    """
    rc.outward_pass(r, False)
    rd.differentiate_inward(r, True)
    store_second_order(r)
    rd.shift_columns_to_world(r)


@algorithm(
    rnea_second_order_derivatives_kernel,
    inputs=(Q, V, A, F_EXT),
    results=TENSORS,
    optional=(F_EXT,),
    also_writes=(rd.DTAU_DQ, rd.DTAU_DV, M, *rd.ALSO_WRITES),
)
def rnea_second_order_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute second-order derivatives of ``rnea`` by configuration, velocity and acceleration.

    Singh, Russell and Wensing (2022), in closed form; O(n d^2) for a tree of depth d. Derivatives
    with respect to acceleration and velocity, and twice with respect to acceleration, are zero.
    External forces are constant in the joint frames.

    d2tau_dvdv is symmetric in j and k, d2tau_dadq in i and j, and d2tau_dqdq in j and k, except for
    two directions of the same floating, planar or spherical joint, which do not commute: the
    entries then differ by the derivative of torque i along their Lie bracket.

    Examples
    --------
    How the inertia matrix changes along the second joint:

    >>> d2 = dyn_ros.rnea_second_order_derivatives(model, data, q, v, a)
    >>> step = 1e-5 * np.eye(7)[1]
    >>> after = dyn_ros.crba(model, data, q + step).copy()
    >>> before = dyn_ros.crba(model, data, q - step)
    >>> np.allclose(d2[3][:, :, 1], (after - before) / 2e-5, atol=1e-8)
    True
    """
