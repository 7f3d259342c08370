# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Coriolis matrix.

Echeandia and Wensing, "Numerical methods to compute the Coriolis matrix and Christoffel symbols
for rigid-body systems" (2021), algorithm 1. Expressed in the root frame, about the first joint's
origin: with the composite inertia Y and the Coriolis inertia B of the subtree of joint i, and j
an ancestor of i,

    C_ij = S_i (Y dS_j/dt + B/2 S_j),  C_ji = S_j (Y dS_i/dt + B/2 S_i)
"""
from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel.algebra import (
    coriolis_inertia,
    coriolis_times,
    coriolis_transpose_times,
    dot,
    force_add,
    force_scale,
    load_motion,
    momentum,
    power,
    scale,
    store_coriolis,
    store_inertia,
)
from ...kernel.compiler import kernel
from ...kernel.fields import Q, V, field
from ...kernel.layout import (
    accumulate,
    clear_matrix,
    idx_v,
    nallcolumns,
    ncolumns,
    njoints,
    nv,
    offset,
    parent,
)
from ...kernel.types import Array, ArrayLike
from ...model.model import Model
from ..kinematics.jacobians import DJ, J, move_columns
from ..kinematics.kinematics import OV
from .rnea_derivatives import (
    COMPOSITE_CORIOLIS,
    COMPOSITE_INERTIA,
    clear_composites,
    composite_coriolis,
    composite_inertia,
    load_column,
    motions_in_world,
    place_columns,
    set_relative,
)

C = field("C", ("nv", "nv"), "Coriolis matrix [kg m2 rad/s, kg m/s].", sparse=True)


@kernel
def coriolis_matrix_kernel(r):
    n, C_ = nv(r), offset(r, C)
    set_relative(r)
    for i in range(1, njoints(r) + 1):
        Y = place_columns(r, i)
        move_columns(r, i)
        v = load_motion(r.work, offset(r, OV) + 6 * i)
        store_inertia(r.work, offset(r, COMPOSITE_INERTIA) + 10 * i, Y)
        store_coriolis(r.work, offset(r, COMPOSITE_CORIOLIS) + 12 * i,
                       coriolis_inertia(Y, v, momentum(Y, v).linear))
    clear_composites(r)
    clear_matrix(r, C_)
    for i in range(njoints(r), 0, -1):
        Y, B = composite_inertia(r, i), composite_coriolis(r, i)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            S = load_column(r, J, i, c)
            F = momentum(Y, S)
            F_rate = force_add(momentum(Y, load_column(r, DJ, i, c)),
                               force_scale(0.5, coriolis_times(B, S)))
            u = scale(0.5, coriolis_transpose_times(B, S))
            for d in range(ncolumns(r, i)):
                accumulate(r, C_ + n * (idx_v(r, i) + d) + k,
                           power(F_rate, load_column(r, J, i, d)))
            j = parent(r, i)
            while j > 0:
                for d in range(ncolumns(r, j)):
                    S_d = load_column(r, J, j, d)
                    accumulate(r, C_ + n * (idx_v(r, j) + d) + k, power(F_rate, S_d))
                    accumulate(r, C_ + n * k + idx_v(r, j) + d,
                               power(F, load_column(r, DJ, j, d)) + dot(u, S_d.angular))
                j = parent(r, j)
    for columns in (J, DJ):
        motions_in_world(r, columns, nallcolumns(r))
    motions_in_world(r, OV, njoints(r) + 1)


_coriolis = Algorithm("coriolis_matrix", coriolis_matrix_kernel, (Q, V), (C,),
                      leaves=(J, DJ, OV)).caller()


def coriolis_matrix(model: Model, data: Data, q: ArrayLike, v: ArrayLike, *,
                    threads: int = 1) -> Array:
    """Coriolis matrix C: C v = nonlinear effects without gravity, and dM/dt = C + C'.

    C is not unique; for this one, dM/dt - 2 C is skew-symmetric. If all joints have one degree of
    freedom, it is the matrix of the Christoffel symbols. Echeandia and Wensing (2021), algorithm 1;
    O(n d) for a tree of depth d. Also computes ``data.J``, ``data.dJ`` and ``data.ov``.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model. Holds the result until the next call.
    q : (nq,) or (B, nq) array_like
        Configuration [rad, m].
    v : (nv,) or (B, nv) array_like
        Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame.
    threads : int
        Number of threads for a batch.

    Returns
    -------
    (nv, nv) ndarray
        Coriolis matrix [kg m2 rad/s, kg m/s]. For a single state, ``data.C``; for a batch, a new
        array with a leading batch axis.

    Raises
    ------
    ValueError
        Wrong shape or dtype, a number that is not finite, or a quaternion that is not unit; names
        the argument, the expected and the actual value.

    Examples
    --------
    >>> C = dyn_ros.coriolis_matrix(model, data, q, v).copy()
    >>> g = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> np.allclose(C @ v + g, dyn_ros.nonlinear_effects(model, data, q, v))
    True
    """
    return _coriolis(model, data, threads, q, v)
