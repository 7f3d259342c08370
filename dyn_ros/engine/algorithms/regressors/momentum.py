# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors of the generalized momentum, which need no accelerations.

Their entries are the derivatives of what a body and a joint that carries it contribute to p = M v
and to C' v - g; see momentum_terms.py.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import world_axes as wa
from .torque import motion_in_body_axes, symmetric_product

MOMENTUM_REGRESSOR = field(
    "momentum_regressor",
    ("nv", "parameters"),
    "Derivatives of the generalized momentum with respect to the dynamic parameters of all bodies "
    "[kg m2/s, kg m/s per kg, kg m, kg m2].",
    sparse=True,
)
MOMENTUM_OBSERVER_REGRESSOR = field(
    "momentum_observer_regressor",
    ("nv", "parameters"),
    "Derivatives of C' v - g with respect to the dynamic parameters of all bodies [N m, N per kg, "
    "kg m, kg m2].",
    sparse=True,
)


@kernel
def momentum_derivatives(v, s):
    """Return the derivatives of s . h with respect to the parameters of a body with velocity v."""
    return Inertia(
        dot(s.linear, v.linear),
        add(cross(s.linear, v.angular), cross(v.linear, s.angular)),
        symmetric_product(s.angular, v.angular),
    )


@kernel
def observer_derivatives(v, s, ds, g):
    """Return the derivatives of ds . h + s . (weight), with g the acceleration of gravity."""
    rate = momentum_derivatives(v, ds)
    return Inertia(
        rate.mass + dot(g, s.linear),
        add(rate.first_moment, cross(g, s.angular)),
        rate.rotational,
    )


@kernel
def store_regressors(r, with_rate):
    """Compute the regressor of the momentum; with ``with_rate``, also the regressor of its rate.

        dp_k/dtheta_i of S_k . Y_i v_i
        of (v x S_k) . Y_i v_i + S_k . w_i          w: weight

    Reads Q, V; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, MOMENTUM_REGRESSOR,
    MOMENTUM_OBSERVER_REGRESSOR.
    """
    clear_sparse(r, MOMENTUM_REGRESSOR)
    if with_rate:
        clear_sparse(r, MOMENTUM_OBSERVER_REGRESSOR)
    A = matrix_of_width(r, MOMENTUM_REGRESSOR, 10 * njoints(r))
    A_rate = matrix_of_width(r, MOMENTUM_OBSERVER_REGRESSOR, 10 * njoints(r))
    wa.place_universe_at_rest(r)
    for i in range(1, njoints(r) + 1):
        wa.place_body(r, i)
        R = rotation(r, wa.ROTATION, i)
        v = motion_in_body_axes(R, wa.body_velocity(r, i))
        g = rotate_inverse(R, gravity(r))
        p, j = zero3(R[0]), i  # p: vector from joint j to joint i
        while j > 0:
            v_j = motion(r, wa.BODY_VELOCITY, j)
            for c in range(ncolumns(r, j)):
                S = wa.subspace_column(r, j, c)
                s = motion_in_body_axes(R, motion_moved(p, S))
                k, n = idx_v(r, j) + c, 10 * (i - 1)
                accumulate_inertia(r, A, k, n, momentum_derivatives(v, s))
                if with_rate:
                    ds = motion_in_body_axes(R, motion_moved(p, motion_cross(v_j, S)))
                    accumulate_inertia(r, A_rate, k, n, observer_derivatives(v, s, ds, g))
            p = add(p, wa.from_parent(r, j))
            j = parent(r, j)


@kernel
def momentum_regressor_kernel(r):
    """Compute the regressor of the generalized momentum.

    Reads Q, V; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, MOMENTUM_REGRESSOR,
    MOMENTUM_OBSERVER_REGRESSOR.
    """
    store_regressors(r, False)


@kernel
def momentum_observer_regressor_kernel(r):
    """Compute the regressors of the generalized momentum and of its rate without joint efforts.

    Reads Q, V; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, MOMENTUM_REGRESSOR,
    MOMENTUM_OBSERVER_REGRESSOR.
    """
    store_regressors(r, True)


@algorithm(momentum_regressor_kernel, inputs=(Q, V), results=(MOMENTUM_REGRESSOR,))
def momentum_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the regressor Y of the generalized momentum without rotors, M v = Y theta.

    theta as for ``joint_torque_regressor``. The rotors have the momentum ``model.armature * v`` in
    addition. O(n d) for a tree of depth d. An entry is zero if the joint of its row does not carry
    the body of its column.

    Examples
    --------
    >>> Y = dyn_ros.momentum_regressor(model, data, q, v)
    >>> p = Y @ model.inertial_parameters.ravel() + model.armature * v
    >>> np.allclose(p, dyn_ros.momentum_terms(model, data, q, v)[0])
    True
    """


@algorithm(
    momentum_observer_regressor_kernel,
    inputs=(Q, V),
    results=(MOMENTUM_REGRESSOR, MOMENTUM_OBSERVER_REGRESSOR),
)
def momentum_observer_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute regressors of the generalized momentum p, and of its rate without torques.

    The torques of a motion are tau = dp/dt - (C' v - g). Integrated over time or filtered, the
    parameters are related to positions, velocities and torques, without accelerations. De Luca and
    Mattone (2005), with C of ``coriolis_matrix``; O(n d) for a tree of depth d. Rotors add
    ``model.armature * v`` to p. For floating, planar and spherical joints, dp/dt consists of the
    rates of the numbers in p.

    Examples
    --------
    >>> Y, Y_rate = dyn_ros.momentum_observer_regressor(model, data, q, v)
    >>> theta = model.inertial_parameters.ravel()
    >>> np.allclose(Y_rate @ theta, dyn_ros.momentum_terms(model, data, q, v)[1])
    True
    """
