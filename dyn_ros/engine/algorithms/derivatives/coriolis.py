# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Coriolis matrix.

Echeandia and Wensing (2021), algorithm 1. Expressed in world axes, about the first joint's
origin: with the composite inertia Y and the Coriolis inertia B of the subtree of joint i, and j an
ancestor of i,

    C_ij = S_i (Y dS_j/dt + B/2 S_j),  C_ji = S_j (Y dS_i/dt + B/2 S_i)

B is twice the matrix that the paper calls B.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics.jacobians import DJ, J, move_columns
from ..kinematics.kinematics import OV
from . import rnea_columns as rc
from . import rnea_derivatives as rd

C = field("C", ("nv", "nv"), "Coriolis matrix [kg m2 rad/s, kg m/s].", sparse=True)


@kernel
def coriolis_matrix_kernel(r):
    """Compute the Coriolis matrix, with B the Coriolis inertia of subtrees.

        C_jk = S_j . (Y dS_k + B S_k / 2)               j is an ancestor of k, or k itself
        C_kj = Y S_k . dS_j + (B' S_k / 2) . S_j        j is an ancestor of k

    Reads Q, V; writes OV, J, DJ, C; calls place_universe_for_columns, clear_subtree_sums,
    place_body_columns, move_columns.
    """
    A = matrix(r, C)
    rc.place_universe_for_columns(r)
    for i in range(1, njoints(r) + 1):
        Y = rc.place_body_columns(r, i)
        move_columns(r, i)
        v = motion(r, OV, i)
        set_inertia(r, rc.SUBTREE_INERTIA, i, Y)
        set_coriolis(r, rc.SUBTREE_CORIOLIS, i, coriolis_inertia(Y, v, inertia_times(Y, v).linear))
    rc.clear_subtree_sums(r)
    clear_sparse(r, C)
    for i in range(njoints(r), 0, -1):
        Y, B = rc.add_inertia_to_parent(r, i), rc.add_coriolis_to_parent(r, i)
        for c in range(ncolumns(r, i)):
            k = idx_v(r, i) + c
            S = motion_column(r, J, i, c)
            F = inertia_times(Y, S)
            F_rate = force_add(
                inertia_times(Y, motion_column(r, DJ, i, c)),
                force_scale(0.5, coriolis_times(B, S)),
            )
            u = scale(0.5, coriolis_transpose_times(B, S))
            for d in range(ncolumns(r, i)):
                accumulate_element(
                    r, A, idx_v(r, i) + d, k, power(F_rate, motion_column(r, J, i, d))
                )
            j = parent(r, i)
            while j > 0:
                for d in range(ncolumns(r, j)):
                    n, S_d = idx_v(r, j) + d, motion_column(r, J, j, d)
                    x = power(F, motion_column(r, DJ, j, d)) + dot(u, S_d.angular)
                    accumulate_element(r, A, n, k, power(F_rate, S_d))
                    accumulate_element(r, A, k, n, x)
                j = parent(r, j)
    for columns in (J, DJ):
        rd.shift_motions_to_world(r, columns, nallcolumns(r))
    rd.shift_motions_to_world(r, OV, njoints(r) + 1)


@algorithm(coriolis_matrix_kernel, inputs=(Q, V), results=(C,), also_writes=(J, DJ, OV))
def coriolis_matrix(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the Coriolis matrix C: C v + g = nonlinear effects, and dM/dt = C + C'.

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
