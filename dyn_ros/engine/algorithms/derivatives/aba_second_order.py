# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Second-order derivatives of forward dynamics.

For constant tau, rnea(q, v, ddq(q, v)) is constant, so its second derivatives are zero. They
contain those of ddq times M. With the tensors of rnea_second_order.py at ddq, where R_dadq is
dM/dq, and the derivatives of aba_derivatives.py,

    d2ddq_dqdq[:, j, k] = -M^-1 (R_dqdq[:, j, k] + R_dadq[:, :, j] ddq_dq[:, k]
                                 + R_dadq[:, :, k] ddq_dq[:, j])
    d2ddq_dqdv[:, j, k] = -M^-1 (R_dqdv[:, j, k] + R_dadq[:, :, j] ddq_dv[:, k])
    d2ddq_dvdv[:, j, k] = -M^-1 R_dvdv[:, j, k]
    d2ddq_dtaudq[:, j, k] = -M^-1 R_dadq[:, :, k] M^-1[:, j]
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics import minverse
from . import rnea_second_order
from .aba_derivatives import (
    ALSO_WRITES,
    DDQ_DQ,
    DDQ_DV,
    solve_for_derivatives,
    solve_for_derivatives_with_mimic,
)
from .rnea_derivatives import shift_columns_to_world

D2DDQ_DQDQ = field(
    "d2ddq_dqdq",
    rnea_second_order.CUBE,
    "[i, j, k] is the derivative of ddq_dq[i, j] along velocity k, the direction in "
    "which ``Model.integrate`` moves q: accelerations in rad/s2 or m/s2, directions "
    "in rad or m.",
)
D2DDQ_DVDV = field(
    "d2ddq_dvdv",
    rnea_second_order.CUBE,
    "[i, j, k] is the derivative of ddq_dv[i, j] with respect to velocity k.",
)
D2DDQ_DQDV = field(
    "d2ddq_dqdv",
    rnea_second_order.CUBE,
    "[i, j, k] is the derivative of ddq_dq[i, j] with respect to velocity k.",
)
D2DDQ_DTAUDQ = field(
    "d2ddq_dtaudq",
    rnea_second_order.CUBE,
    "[i, j, k] is the derivative of Minv[i, j] along velocity k; torques in N m or N.",
)
SLICE = field("_slice", ("nv", SIMD_WIDTH))


@kernel
def zero_vectors(r):
    """Return eight SIMD vectors of zeros. Reads MINV."""
    zero = 0.0 * elements(r, matrix(r, minverse.MINV), 0, 0, nv(r))
    return zero, zero, zero, zero, zero, zero, zero, zero


@kernel
def first_order_block(r, i, j, k):
    """Return three products with row i of dM/dq, for rows j to j + 7 and a few columns from k on.

        qq_jk = sum of R_dadq_ilj ddq_dq_lk + ddq_dq_lj R_dadq_ilk
        qv_jk = sum of R_dadq_ilj ddq_dv_lk
        tq_jk = sum of Minv_lj R_dadq_ilk

    Row i of dM/dq is nonzero only for ancestors and descendants l of velocity i.

    Reads MINV, DDQ_DQ, DDQ_DV, D2TAU_DADQ.
    """
    n, Minv = nv(r), matrix(r, minverse.MINV)
    dM = matrix_row(r, rnea_second_order.D2TAU_DADQ, i, n, n)
    ddq_dq, ddq_dv = matrix(r, DDQ_DQ), matrix(r, DDQ_DV)
    qq, qv, tq = zero_vectors(r), zero_vectors(r), zero_vectors(r)
    l = velocity_end(r, i) - 1
    while l >= 0:
        dM_lj, dM_lk = elements8(r, dM, l, j), elements(r, dM, l, k, n - k)
        qq = minverse.add_scaled(qq, dM_lj, elements(r, ddq_dq, l, k, n - k))
        qq = minverse.add_scaled(qq, elements8(r, ddq_dq, l, j), dM_lk)
        qv = minverse.add_scaled(qv, dM_lj, elements(r, ddq_dv, l, k, n - k))
        tq = minverse.add_scaled(tq, elements8(r, Minv, l, j), dM_lk)
        l = l - 1 if l > i else velocity_parent(r, l)
    return qq, qv, tq


@kernel
def store_sum(r, X, B, i, j, k, x):
    """Set rows from j on of X[i] to B[i] plus vectors x, from column k on; X and B are tensors.

    Reads B; writes X.
    """
    n = nv(r)
    rows, addend = matrix_row(r, X, i, n, n), matrix_row(r, B, i, n, n)
    for t in range(min(8, n - j)):
        set_elements(r, rows, j + t, k, n - k, x[t] + elements(r, addend, j + t, k, n - k))


@kernel
def add_first_order_terms(r):
    """Compute the terms in parentheses above, without d2ddq_dvdv; M^-1 is still to be applied.

    Eight rows j and a few columns k are computed at a time.

    Reads MINV, DDQ_DQ, DDQ_DV, D2TAU_DQDQ, D2TAU_DQDV, D2TAU_DADQ; writes D2DDQ_DQDQ, D2DDQ_DQDV,
    D2DDQ_DTAUDQ.
    """
    n = nv(r)
    for i in range(n):
        dtaudq = matrix_row(r, D2DDQ_DTAUDQ, i, n, n)
        for j in range(0, n, 8):
            for k in range(0, n, simd_width(r.work)):
                qq, qv, tq = first_order_block(r, i, j, k)
                store_sum(r, D2DDQ_DQDQ, rnea_second_order.D2TAU_DQDQ, i, j, k, qq)
                store_sum(r, D2DDQ_DQDV, rnea_second_order.D2TAU_DQDV, i, j, k, qv)
                for t in range(min(8, n - j)):
                    set_elements(r, dtaudq, j + t, k, n - k, tq[t])


@kernel
def set_minus_minverse_times_tensor(r, X, B):
    """Set the tensor X to -M^-1 B; X and B are fields, which may be equal.

        X_ijk = - sum of Minv_il B_ljk

    Reads MINV, B; writes SLICE, X.
    """
    n, Minv = nv(r), matrix(r, minverse.MINV)
    rows, target = matrix_of_width(r, B, n * n), matrix_of_width(r, X, n * n)
    columns = matrix_of_width(r, SLICE, SIMD_WIDTH)
    for jk in range(0, n * n, simd_width(r.work)):
        count = n * n - jk
        for l in range(n):
            set_elements(r, columns, l, 0, count, elements(r, rows, l, jk, count))
        for i in range(0, n, 8):
            total = zero_vectors(r)
            for l in range(n):
                total = minverse.add_scaled(
                    total,
                    elements8(r, Minv, l, i),
                    elements(r, columns, l, 0, SIMD_WIDTH),
                )
            for t in range(min(8, n - i)):
                set_elements(r, target, i + t, jk, count, -total[t])


@subroutine
def differentiate_twice(r):
    """Compute the second-order derivatives, after the first-order ones.

    See the formulas of this module.

    Writes OV, OA_GF, J, DJ, PSID, PSIDD, DVDQ, DADQ, DADV, DFDA, DFDQ, DFDV, D2TAU_DQDQ,
    D2TAU_DVDV, D2TAU_DQDV, D2TAU_DADQ, D2DDQ_DQDQ, D2DDQ_DVDV, D2DDQ_DQDV, D2DDQ_DTAUDQ, SLICE;
    calls store_second_order, shift_columns_to_world, add_first_order_terms.
    """
    rnea_second_order.store_second_order(r)
    shift_columns_to_world(r)
    add_first_order_terms(r)
    set_minus_minverse_times_tensor(r, D2DDQ_DVDV, rnea_second_order.D2TAU_DVDV)
    for X in (D2DDQ_DQDQ, D2DDQ_DQDV, D2DDQ_DTAUDQ):
        set_minus_minverse_times_tensor(r, X, X)


@algorithm(
    sequence(solve_for_derivatives, differentiate_twice),
    inputs=(Q, V, TAU_IN, F_EXT),
    results=(D2DDQ_DQDQ, D2DDQ_DVDV, D2DDQ_DQDV, D2DDQ_DTAUDQ),
    optional=(F_EXT,),
    also_writes=(DDQ_DQ, DDQ_DV, minverse.MINV, *rnea_second_order.TENSORS, *ALSO_WRITES),
    mimic_kernel=sequence(solve_for_derivatives_with_mimic, differentiate_twice),
    needs_double=True,
)
def aba_second_order_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute second-order derivatives of ``aba`` by configuration, velocity and torque.

    In closed form, from both orders of ``rnea``: Singh, Russell and Wensing (2022); O(n^4).
    Derivatives with respect to torque and velocity, and twice with respect to torque, are zero.
    Includes ``model.armature``. External forces are constant in the joint frames. The results
    are as symmetric as the ones of ``rnea_second_order_derivatives``.

    Examples
    --------
    How the inverse of the inertia matrix changes along the second joint:

    >>> d2 = dyn_ros.aba_second_order_derivatives(model, data, q, v, tau)
    >>> step = 1e-5 * np.eye(7)[1]
    >>> after = dyn_ros.minverse(model, data, q + step).copy()
    >>> before = dyn_ros.minverse(model, data, q - step)
    >>> np.allclose(d2[3][:, :, 1], (after - before) / 2e-5, rtol=1e-4, atol=1e-4)
    True
    """
