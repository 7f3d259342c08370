# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The product of the inverse of the inertia matrix with a vector, without the matrix.

The articulated-body algorithm without velocities and gravity, Featherstone (2008), table 7.1.
"""

from __future__ import annotations

from ...kernel.vocabulary import *
from ..kinematics import world_axes as wa
from . import aba
from .cholesky import factor_inertia_matrix, multiply_by_inverse
from .crba import INERTIA, crba_kernel


@kernel
def inertia_solve_kernel(r):
    """Compute the accelerations from rest without gravity.

        qdd = M^-1 tau

    Reads Q, TAU_IN; writes ROTATION, FROM_PARENT, COLUMNS, INERTIA, BIAS_ACCELERATION, BIAS_FORCE,
    DDQ, LINK_ACCELERATION; calls inward_pass, outward_accelerations.
    """
    wa.place_universe_at_rest(r)
    clear_force(r, aba.BIAS_FORCE, 0)
    for i in range(1, njoints(r) + 1):
        set_inertia(r, INERTIA, i, wa.place_body(r, i))
        clear_motion(r, aba.BIAS_ACCELERATION, i)
        clear_force(r, aba.BIAS_FORCE, i)
    aba.inward_pass(r)
    clear_motion(r, aba.LINK_ACCELERATION, 0)
    aba.outward_accelerations(r)


@kernel
def mimic_inertia_solve_kernel(r):
    """Compute the same from the factor of M, if there are mimic joints.

        qdd = M^-1 tau

    Reads Q, TAU_IN; writes M, DDQ; calls crba_kernel, factor_inertia_matrix.
    """
    crba_kernel(r)
    factor_inertia_matrix(r)
    for k in range(nv(r)):
        set_entry(r, aba.DDQ, k, entry(r, TAU_IN, k))
    multiply_by_inverse(r, aba.DDQ)
