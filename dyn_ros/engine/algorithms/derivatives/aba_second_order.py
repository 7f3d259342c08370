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
from ...kernel.types import Array, ArrayLike
from ...kernel.vocabulary import *
from ...model.model import Model
from ..dynamics import minverse
from . import rnea_second_order
from .aba_derivatives import ALSO_WRITES, DDQ_DQ, DDQ_DV, derivatives, projected_derivatives
from .rnea_derivatives import columns_in_world

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
def zeros(r):
    """Return four vectors of zeros. Reads MINV."""
    zero = 0.0 * load_simd(r.work, offset(r, minverse.MINV), nv(r))
    return zero, zero, zero, zero, zero, zero, zero, zero


@kernel
def add_accelerations(r):
    """The terms in parentheses above, without d2ddq_dvdv; M^-1 is still to be applied.

    Computes eight rows j and a few columns k at a time. Row i of dM/dq is nonzero only for
    ancestors and descendants of velocity i.

    Reads MINV, DDQ_DQ, DDQ_DV, D2TAU_DQDQ, D2TAU_DQDV, D2TAU_DADQ; writes D2DDQ_DQDQ, D2DDQ_DQDV,
    D2DDQ_DTAUDQ.
    """
    n = nv(r)
    qq, qv, tq = offset(r, D2DDQ_DQDQ), offset(r, D2DDQ_DQDV), offset(r, D2DDQ_DTAUDQ)
    for i in range(n):
        plane = offset(r, rnea_second_order.D2TAU_DADQ) + n * n * i
        for j in range(0, n, 8):
            for k in range(0, n, simd_width(r.work)):
                for_qq, for_qv, for_tq = zeros(r), zeros(r), zeros(r)
                l = velocity_end(r, i) - 1
                while l >= 0:
                    row = n * l
                    rates = minverse.load_eight(r.work, plane + row + j)
                    by_k = load_simd(r.work, plane + row + k, n - k)
                    for_qq = minverse.add_scaled(
                        minverse.add_scaled(
                            for_qq, rates, load_simd(r.work, offset(r, DDQ_DQ) + row + k, n - k)
                        ),
                        minverse.load_eight(r.work, offset(r, DDQ_DQ) + row + j),
                        by_k,
                    )
                    for_qv = minverse.add_scaled(
                        for_qv, rates, load_simd(r.work, offset(r, DDQ_DV) + row + k, n - k)
                    )
                    for_tq = minverse.add_scaled(
                        for_tq,
                        minverse.load_eight(r.work, offset(r, minverse.MINV) + row + j),
                        by_k,
                    )
                    l = l - 1 if l > i else velocity_parent(r, l)
                for t in range(min(8, n - j)):
                    at_k = (n * i + j + t) * n + k
                    store_simd(
                        r.work,
                        qq + at_k,
                        n - k,
                        for_qq[t]
                        + load_simd(r.work, offset(r, rnea_second_order.D2TAU_DQDQ) + at_k, n - k),
                    )
                    store_simd(
                        r.work,
                        qv + at_k,
                        n - k,
                        for_qv[t]
                        + load_simd(r.work, offset(r, rnea_second_order.D2TAU_DQDV) + at_k, n - k),
                    )
                    store_simd(r.work, tq + at_k, n - k, for_tq[t])


@kernel
def less_minverse_times_tensor(r, X, B):
    """X[:, j, k] = -M^-1 B[:, j, k] for tensors at offsets, which may be equal.

    Reads MINV, B; writes SLICE, X.
    """
    n, W, s = nv(r), offset(r, minverse.MINV), offset(r, SLICE)
    for jk in range(0, n * n, simd_width(r.work)):
        count = n * n - jk
        for l in range(n):
            store_simd(
                r.work, s + SIMD_WIDTH * l, count, load_simd(r.work, B + n * n * l + jk, count)
            )
        for i in range(0, n, 8):
            total = zeros(r)
            for l in range(n):
                total = minverse.add_scaled(
                    total,
                    minverse.load_eight(r.work, W + n * l + i),
                    load_simd(r.work, s + SIMD_WIDTH * l, SIMD_WIDTH),
                )
            for t in range(min(8, n - i)):
                store_simd(r.work, X + n * n * (i + t) + jk, count, -total[t])


@subroutine
def differentiate_twice(r):
    """The second-order derivatives, after the first ones.

    Writes D2DDQ_DVDV, SLICE; calls second_order, columns_in_world, add_accelerations.
    """
    rnea_second_order.second_order(r)
    columns_in_world(r)
    add_accelerations(r)
    qq, vv = offset(r, D2DDQ_DQDQ), offset(r, D2DDQ_DVDV)
    qv, tq = offset(r, D2DDQ_DQDV), offset(r, D2DDQ_DTAUDQ)
    for X, B in ((qq, qq), (vv, offset(r, rnea_second_order.D2TAU_DVDV)), (qv, qv), (tq, tq)):
        less_minverse_times_tensor(r, X, B)


@algorithm(
    sequence(derivatives, differentiate_twice),
    inputs=(Q, V, TAU_IN, F_EXT),
    results=(D2DDQ_DQDQ, D2DDQ_DVDV, D2DDQ_DQDV, D2DDQ_DTAUDQ),
    optional=(F_EXT,),
    also_writes=(DDQ_DQ, DDQ_DV, minverse.MINV, *rnea_second_order.TENSORS, *ALSO_WRITES),
    coupled=sequence(projected_derivatives, differentiate_twice),
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
