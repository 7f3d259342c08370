# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of forward dynamics with respect to configuration, velocity and torque.

Carpentier and Mansard (2018): for constant tau, M d(ddq) = -d(rnea), so ddq_dq = -M^-1 dtau_dq and
ddq_dv = -M^-1 dtau_dv, with the derivatives of rnea at ddq.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics import minverse
from ..dynamics.aba import DDQ, aba_kernel, mimic_aba_kernel
from ..dynamics.crba import M
from . import rnea_columns as rc
from . import rnea_derivatives as rd

DDQ_DQ = field(
    "ddq_dq",
    ("nv", "nv"),
    "Derivative of the joint accelerations with respect to configuration: [i, j] of "
    "acceleration i along velocity j, the direction in which "
    "``Model.integrate`` moves q [rad/s2, m/s2 per rad, m].",
)
DDQ_DV = field(
    "ddq_dv",
    ("nv", "nv"),
    "Derivative of the joint accelerations with respect to velocity [rad/s2, m/s2 per rad/s, m/s].",
)


@kernel
def set_minus_minverse_times(r, X, Y, B, C):
    """Set X to -M^-1 B and Y to -M^-1 C, eight rows at a time; B and C are as sparse as the tree.

        X_ik = - sum of Minv_ij B_jk over the ancestors and descendants j of k

    Reads MINV, B, C; writes X, Y.
    """
    n, Minv = nv(r), matrix(r, minverse.MINV)
    for i in range(0, n, 8):
        for k in range(0, n, simd_width(r.work)):
            end = k
            for j in range(k, min(k + simd_width(r.work), n)):
                end = max(end, velocity_end(r, j))
            zero = 0.0 * elements(r, B, 0, k, n - k)
            x = (zero, zero, zero, zero, zero, zero, zero, zero)
            y = x
            j = end - 1
            while j >= 0:
                row = elements8(r, Minv, j, i)
                x = minverse.add_scaled(x, row, -elements(r, B, j, k, n - k))
                y = minverse.add_scaled(y, row, -elements(r, C, j, k, n - k))
                j = j - 1 if j > k else velocity_parent(r, j)
            minverse.set_rows(r, X, i, k, x)
            minverse.set_rows(r, Y, i, k, y)


@kernel
def differentiate_accelerations(r, bodies_placed):
    """Compute all derivatives about the first joint's origin, after the accelerations.

        dqdd/dq = -M^-1 dtau/dq,  dqdd/dv = -M^-1 dtau/dv

    Reads Q, V, F_EXT, DDQ, MINV; writes A, M, OV, OA_GF, TAU, J, DJ, PSID, PSIDD, DADQ, DADV,
    DTAU_DQ, DTAU_DV, DFDA, DFDQ, DFDV, DDQ_DQ, DDQ_DV; calls outward_pass, differentiate_inward.
    """
    for k in range(nv(r)):
        set_entry(r, A, k, entry(r, DDQ, k))
    rc.outward_pass(r, bodies_placed)
    rd.differentiate_inward(r, True)
    dtau_dq, dtau_dv = matrix(r, rd.DTAU_DQ), matrix(r, rd.DTAU_DV)
    set_minus_minverse_times(r, matrix(r, DDQ_DQ), matrix(r, DDQ_DV), dtau_dq, dtau_dv)


@subroutine
def solve_for_derivatives(r):
    """Compute the derivatives of the accelerations from the torques' derivatives.

        dqdd/dq = -M^-1 dtau/dq,  dqdd/dv = -M^-1 dtau/dv

    Reads Q, V, TAU_IN, F_EXT; writes M, OV, OA_GF, TAU, J, DJ, PSID, PSIDD, DADQ, DADV, DTAU_DQ,
    DTAU_DV, DFDA, DFDQ, DFDV, DDQ, LINK_ACCELERATION, MINV, DDQ_DQ, DDQ_DV; calls aba_kernel,
    invert_after_elimination, differentiate_accelerations.
    """
    aba_kernel(r)
    minverse.invert_after_elimination(r)
    differentiate_accelerations(r, True)


@subroutine
def solve_for_derivatives_with_mimic(r):
    """Compute ``solve_for_derivatives`` for models with mimic joints.

    Reads Q, V, TAU_IN, F_EXT; writes LIMI, JOINT_V, JOINT_A, JOINT_F, M, OV, OA_GF, TAU, NLE, J,
    DJ, PSID, PSIDD, DADQ, DADV, DTAU_DQ, DTAU_DV, DFDA, DFDQ, DFDV, DDQ, MINV, DDQ_DQ, DDQ_DV;
    calls mimic_aba_kernel, invert_after_factor, differentiate_accelerations.
    """
    mimic_aba_kernel(r)
    minverse.invert_after_factor(r)
    differentiate_accelerations(r, False)


ALSO_WRITES = (DDQ, rd.DTAU_DQ, rd.DTAU_DV, M, *rd.ALSO_WRITES)


@algorithm(
    sequence(solve_for_derivatives, rd.shift_columns_to_world),
    inputs=(Q, V, TAU_IN, F_EXT),
    results=(DDQ_DQ, DDQ_DV, minverse.MINV),
    optional=(F_EXT,),
    also_writes=ALSO_WRITES,
    mimic_kernel=sequence(solve_for_derivatives_with_mimic, rd.shift_columns_to_world),
)
def aba_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array]:
    """Compute derivatives of ``aba`` with respect to configuration, velocity and torque.

    Carpentier and Mansard (2018); O(n^3) in the worst case, less for branched trees. Includes
    ``model.armature``. External forces are constant in the joint frames. The derivative with
    respect to torque is the inverse of M. In Python, fields of ``rnea_derivatives`` are computed
    at these accelerations.

    Examples
    --------
    >>> ddq_dq, ddq_dv, ddq_dtau = dyn_ros.aba_derivatives(model, data, q, v, tau)
    >>> np.allclose(ddq_dtau, dyn_ros.minverse(model, data, q))
    True
    """
