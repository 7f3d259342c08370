# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Coriolis matrix.

Echeandia and Wensing (2021), algorithm 1. Expressed in the root frame, about the first joint's
origin: with the composite inertia Y and the Coriolis inertia B of the subtree of joint i, and j an
ancestor of i,

    C_ij = S_i (Y dS_j/dt + B/2 S_j),  C_ji = S_j (Y dS_i/dt + B/2 S_i)
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import Q, V, field
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.model import Model
from ..kinematics.jacobians import DJ, J, load_column, move_columns
from ..kinematics.kinematics import OV
from . import rnea_columns as rc
from . import rnea_derivatives as rd

C = field("C", ("nv", "nv"), "Coriolis matrix [kg m2 rad/s, kg m/s].", sparse=True)


@kernel
def coriolis_matrix_kernel(r):
    n, C_ = ly.nv(r), ly.offset(r, C)
    rc.set_relative(r)
    for i in range(1, ly.njoints(r) + 1):
        Y = rc.place_columns(r, i)
        move_columns(r, i)
        v = al.load_motion(r.work, ly.offset(r, OV) + 6 * i)
        al.store_inertia(r.work, ly.offset(r, rc.COMPOSITE_INERTIA) + 10 * i, Y)
        al.store_coriolis(
            r.work,
            ly.offset(r, rc.COMPOSITE_CORIOLIS) + 12 * i,
            al.coriolis_inertia(Y, v, al.momentum(Y, v).linear),
        )
    rc.clear_composites(r)
    ly.clear_matrix(r, C_)
    for i in range(ly.njoints(r), 0, -1):
        Y, B = rc.composite_inertia(r, i), rc.composite_coriolis(r, i)
        for c in range(ly.ncolumns(r, i)):
            k = ly.idx_v(r, i) + c
            S = load_column(r, J, i, c)
            F = al.momentum(Y, S)
            F_rate = al.force_add(
                al.momentum(Y, load_column(r, DJ, i, c)),
                al.force_scale(0.5, al.coriolis_times(B, S)),
            )
            u = al.scale(0.5, al.coriolis_transpose_times(B, S))
            for d in range(ly.ncolumns(r, i)):
                ly.accumulate(
                    r, C_ + n * (ly.idx_v(r, i) + d) + k, al.power(F_rate, load_column(r, J, i, d))
                )
            j = ly.parent(r, i)
            while j > 0:
                for d in range(ly.ncolumns(r, j)):
                    S_d = load_column(r, J, j, d)
                    ly.accumulate(r, C_ + n * (ly.idx_v(r, j) + d) + k, al.power(F_rate, S_d))
                    ly.accumulate(
                        r,
                        C_ + n * k + ly.idx_v(r, j) + d,
                        al.power(F, load_column(r, DJ, j, d)) + al.dot(u, S_d.angular),
                    )
                j = ly.parent(r, j)
    for columns in (J, DJ):
        rd.motions_in_world(r, columns, ly.nallcolumns(r))
    rd.motions_in_world(r, OV, ly.njoints(r) + 1)


_coriolis = Algorithm(
    "coriolis_matrix", coriolis_matrix_kernel, (Q, V), (C,), also_writes=(J, DJ, OV)
).caller()


def coriolis_matrix(
    model: Model, data: Data, q: ArrayLike, v: ArrayLike, *, threads: int = 1
) -> Array:
    """Coriolis matrix C: C v = nonlinear effects without gravity, and dM/dt = C + C'.

    C is not unique; for this one, dM/dt - 2 C is skew-symmetric. If all joints have one degree of
    freedom, it is the matrix of the Christoffel symbols. Echeandia and Wensing (2021), algorithm 1;
    O(n d) for a tree of depth d.

    Examples
    --------
    >>> C = dyn_ros.coriolis_matrix(model, data, q, v).copy()
    >>> g = dyn_ros.generalized_gravity(model, data, q).copy()
    >>> np.allclose(C @ v + g, dyn_ros.nonlinear_effects(model, data, q, v))
    True
    """
    return _coriolis(model, data, threads, q, v)
