# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Second-order derivatives of inverse dynamics.

Singh, Russell and Wensing, "On second-order derivatives of rigid-body dynamics" (2022),
based on the first order in rnea_derivatives.py.
Along q_d, the subtree of column d moves with S_d. In addition, v changes by psid_d, S_e does not
change, psid_e changes by psid_d x S_e, and psidd_e by psidd_d x S_e + 2 psid_d x psid_e; by
Jacobi's identity, this also holds for the columns of d's own joint. The subtree of d has the
composite inertia Y and the Coriolis inertia B, with the rates along q_d

    P = S_d x* Y - Y S_d x,  D = S_d x* B - B S_d x + B(Y, psid_d)

Let e be an ancestor of d, and f of e. With dF/da_d = Y S_d, dF/dv_d, dF/dq_d of the first order,
and F1 = S_e x* dF/da_d, F2 = P S_e, each entry is a product with columns of f:

    dM_df/dq_e = F1 S_f,  dM_ef/dq_d = F2 S_f,  dM_de/dq_f = 0
    d2tau_d/dv_e dv_f = (F1 - F2) S_f = -d2tau_e/dv_d dv_f,  d2tau_f/dv_d dv_e = (F1 + F2) S_f
    d2tau_d/dq_f dv_e = (F1 - F2) psid_f = -d2tau_e/dq_f dv_d
    d2tau_d/dq_e dv_f = F3 S_f + F1 dAdv_f,  d2tau_d/dq_e dq_f = F3 psid_f + F1 psidd_f
    d2tau_e/dq_d dv_f = F4 S_f + F2 dAdv_f,  d2tau_e/dq_d dq_f = F4 psid_f + F2 psidd_f
    d2tau_f/dq_d dv_e = F5 S_f,  d2tau_f/dq_e dv_d = F6 S_f,  d2tau_f/dq_d dq_e = F7 S_f

    F3 = psid_e x* Y S_d - P psid_e + S_e x* B' S_d,  F4 = D' S_e,  F5 = D S_e + P dAdv_e
    F6 = psid_e x* Y S_d + P psid_e + S_e x* dF/dv_d
    F7 = D psid_e + P psidd_e + S_e x* dF/dq_d

Columns of the same joint are used in both roles, e before f and f before e. Entries that differ
between the roles are valid for one order only, and two change: d2tau_d/dv_e dv_f = -F2 S_f if e
and f are columns of the same joint, d2tau_f/dv_d dv_e = (F1 + F2 + Y S_d x S_e) S_f if d and e are.
"""

from __future__ import annotations

from collections import namedtuple

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike
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

Outer = namedtuple("Outer", "S Fa Fv Fq Y P D u")  # column d; u = B' S_d
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
def outer_column(r, i, c):
    """Return column d, with the inertia of its subtree and its rates.

    Reads J, PSID, SUBTREE_INERTIA, SUBTREE_CORIOLIS, DFDA, DFDQ, DFDV.
    """
    Y = inertia(r, rc.SUBTREE_INERTIA, i)
    B = coriolis(r, rc.SUBTREE_CORIOLIS, i)
    S, psid = motion_column(r, J, i, c), motion_column(r, rc.PSID, i, c)
    D = coriolis_add(coriolis_rate(B, S), coriolis_inertia(Y, psid, inertia_times(Y, psid).linear))
    return Outer(
        S,
        force_column(r, rd.DFDA, i, c),
        force_column(r, rd.DFDV, i, c),
        force_column(r, rd.DFDQ, i, c),
        Y,
        inertia_rate(Y, S),
        D,
        coriolis_transpose_times(B, S),
    )


@kernel
def compute_forces(r, d, j, b, one_joint):
    """Compute F1 to F7 and F1 - F2 for column d and column b of joint j.

    If both are columns of the same joint, F5 is not needed and holds Y S_d x S_e. F4 has only its
    angular part, as its linear part is zero.

    Reads J, PSID, PSIDD, DADV.
    """
    S, psid = motion_column(r, J, j, b), motion_column(r, rc.PSID, j, b)
    turned, rate = force_cross(psid, d.Fa), inertia_times(d.P, psid)
    F3 = force_sub(turned, rate)
    F3 = Force(F3.linear, add(F3.angular, cross(S.angular, d.u)))
    F5 = force_add(coriolis_times(d.D, S), inertia_times(d.P, motion_column(r, rc.DADV, j, b)))
    if one_joint:
        F5 = inertia_times(d.Y, motion_cross(d.S, S))
    F6 = force_add(force_add(turned, rate), force_cross(S, d.Fv))
    F7 = force_add(
        force_add(coriolis_times(d.D, psid), force_cross(S, d.Fq)),
        inertia_times(d.P, motion_column(r, rc.PSIDD, j, b)),
    )
    F1, F2 = force_cross(S, d.Fa), inertia_times(d.P, S)
    return Forces(F1, F2, F3, coriolis_transpose_times(d.D, S), F5, F6, F7, force_sub(F1, F2))


@kernel
def cube_index(r, i, j, k):
    """Return the number of entry [i, j, k] of a tensor (nv, nv, nv)."""
    return (i * nv(r) + j) * nv(r) + k


@kernel
def store_entries(r, d, e, f, F, k, a, de_one_joint, ef_one_joint):
    """Store all entries for velocities d, e and f, where f is column a of joint k.

    Reads J, PSID, PSIDD, DADV; writes D2TAU_DQDQ, D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ.
    """
    S, psid = motion_column(r, J, k, a), motion_column(r, rc.PSID, k, a)
    psidd, dAdv = motion_column(r, rc.PSIDD, k, a), motion_column(r, rc.DADV, k, a)
    x, y = power(F.F1, S), power(F.F2, S)
    z = power(F.difference, psid)
    def_, dfe = cube_index(r, d, e, f), cube_index(r, d, f, e)
    edf, efd = cube_index(r, e, d, f), cube_index(r, e, f, d)
    fde, fed = cube_index(r, f, d, e), cube_index(r, f, e, d)
    dqdq = power(F.F3, psid) + power(F.F1, psidd)
    accumulate_entry(r, D2TAU_DQDQ, def_, dqdq)
    accumulate_entry(r, D2TAU_DQDV, dfe, z)
    if ef_one_joint:
        accumulate_entry(r, D2TAU_DVDV, def_, -y)
    else:
        X = power(F.F7, S)
        accumulate_entry(r, D2TAU_DQDQ, dfe, dqdq)
        accumulate_entry(r, D2TAU_DQDQ, fde, X)
        accumulate_entry(r, D2TAU_DQDV, def_, power(F.F3, S) + power(F.F1, dAdv))
        accumulate_entry(r, D2TAU_DQDV, fed, power(F.F6, S))
        accumulate_entry(r, D2TAU_DVDV, def_, x - y)
        accumulate_entry(r, D2TAU_DVDV, dfe, x - y)
        accumulate_entry(r, D2TAU_DADQ, dfe, x)
        accumulate_entry(r, D2TAU_DADQ, fde, x)
        if de_one_joint:
            accumulate_entry(r, D2TAU_DVDV, fde, x + y + power(F.F5, S))
        else:
            accumulate_entry(r, D2TAU_DQDQ, fed, X)
            accumulate_entry(r, D2TAU_DQDV, fde, power(F.F5, S))
            accumulate_entry(r, D2TAU_DVDV, fde, x + y)
            accumulate_entry(r, D2TAU_DVDV, fed, x + y)
            accumulate_entry(r, D2TAU_DADQ, fed, y)
    if not de_one_joint:
        dqdq = dot(F.F4, psid.angular) + power(F.F2, psidd)
        accumulate_entry(r, D2TAU_DQDQ, edf, dqdq)
        accumulate_entry(r, D2TAU_DQDQ, efd, dqdq)
        accumulate_entry(r, D2TAU_DQDV, edf, dot(F.F4, S.angular) + power(F.F2, dAdv))
        accumulate_entry(r, D2TAU_DQDV, efd, -z)
        accumulate_entry(r, D2TAU_DVDV, edf, y - x)
        accumulate_entry(r, D2TAU_DVDV, efd, y - x)
        accumulate_entry(r, D2TAU_DADQ, efd, y)


@kernel
def store_second_order(r):
    """Store the second-order derivatives, after ``outward_pass`` and ``differentiate_inward``.

    Writes D2TAU_DQDQ, D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ; calls outer_column, compute_forces,
    store_entries.
    """
    for tensor in TENSORS:
        clear_sparse(r, tensor)
    for i in range(1, njoints(r) + 1):
        for c in range(ncolumns(r, i)):
            d = outer_column(r, i, c)
            j, b = i, ncolumns(r, i) - 1
            while j > 0:
                F = compute_forces(r, d, j, b, j == i)
                k, a = j, ncolumns(r, j) - 1
                while k > 0:
                    store_entries(
                        r,
                        idx_v(r, i) + c,
                        idx_v(r, j) + b,
                        idx_v(r, k) + a,
                        F,
                        k,
                        a,
                        j == i,
                        k == j,
                    )
                    k, a = column_before(r, k, a)
                j, b = column_before(r, j, b)


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
