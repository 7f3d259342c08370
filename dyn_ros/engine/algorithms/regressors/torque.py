# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors: the matrices by which the inertial parameters of the bodies are multiplied.

The equations of motion are linear in the parameters of each body: its mass m, first moment m c and
rotational inertia I, about the origin of its joint's frame and expressed in it. Atkeson, An and
Hollerbach (1986). With the angular velocity w and acceleration dw of a body, and the acceleration d
of its joint's origin relative to free fall, the force on the body is

    f = (m d + dw x m c + w x (w x m c),  m c x d + I dw + w x I w)

Each joint that carries the body transmits f. The entries in its rows are the derivatives of s . f,
with s a column of its motion subspace. These columns are transformed to the body: 6 numbers each
instead of the 60 derivatives of f, which would have to be transformed to the joint.
"""

from __future__ import annotations

import numpy as np

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import require_bool
from ...kernel.vocabulary import *
from ...model.model import Model
from ..kinematics import world_axes as wa

JOINT_TORQUE_REGRESSOR = field(
    "joint_torque_regressor",
    ("nv", "parameters"),
    "Derivatives of the joint torques with respect to the dynamic parameters of all bodies "
    "[N m, N per kg, kg m, kg m2].",
    sparse=True,
)
JOINT_TORQUE_REGRESSOR_PRODUCT = field(
    "joint_torque_regressor_product",
    ("parameters",),
    "Product of the transposed joint torque regressor and "
    "torques, in the order of its columns [N2 m2 per kg, kg m, "
    "kg m2].",
)
TORQUE_WEIGHTED_COLUMNS = field(
    "_torque_weighted_columns", ("rows", 6)
)  # sums of columns of S times torques


# --- one body, in its own axes


@kernel
def motion_in_body_axes(R, m):
    """Return R' m, a motion expressed in the axes of a body."""
    return Motion(rotate_inverse(R, m.linear), rotate_inverse(R, m.angular))


@kernel
def symmetric_product(a, b):
    """Return the derivatives of a . I b with respect to the numbers of a symmetric matrix I."""
    return Symmetric(
        a[0] * b[0],
        a[0] * b[1] + a[1] * b[0],
        a[1] * b[1],
        a[0] * b[2] + a[2] * b[0],
        a[1] * b[2] + a[2] * b[1],
        a[2] * b[2],
    )


@kernel
def power_derivatives(w, a, s):
    """Return the derivatives of s . f with respect to the parameters of a body, as an Inertia.

    The body has the angular velocity w and the acceleration a; a.linear is that of its joint's
    origin as a point of the body, relative to free fall.
    """
    angular_rate, linear_rate = cross(s.angular, w), cross(s.linear, w)
    moment = add(cross(s.linear, a.angular), add(cross(linear_rate, w), cross(a.linear, s.angular)))
    return Inertia(
        dot(s.linear, a.linear),
        moment,
        symmetric_add(symmetric_product(s.angular, a.angular), symmetric_product(angular_rate, w)),
    )


# --- joint torques


@kernel
def place_universe_with_gravity(r):
    """Set the universe to rest with an acceleration of minus gravity.

    Writes ROTATION, BODY_VELOCITY, BODY_ACCELERATION.
    """
    wa.place_universe_at_rest(r)
    wa.set_universe_acceleration(r, wa.BODY_ACCELERATION)


@kernel
def motion_of_body(r, i):
    """Place body i after its parent; return its motion in its axes, as in ``power_derivatives``.

    Reads Q, V, A; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION.
    """
    wa.place_body(r, i)
    v = wa.body_velocity(r, i)
    a = wa.body_acceleration(r, i, v)
    point = Motion(add(a.linear, cross(v.angular, v.linear)), a.angular)
    R = rotation(r, wa.ROTATION, i)
    return rotate_inverse(R, v.angular), motion_in_body_axes(R, point)


@kernel
def parameter_columns(r, i, regressor):
    """Store the columns of body i in a regressor, which has a row for each velocity.

        Y_ki = derivatives of S_k . f_i

    Reads Q, V, A; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION,
    regressor.
    """
    w, a = motion_of_body(r, i)
    R = rotation(r, wa.ROTATION, i)
    p, j = zero3(w[0]), i  # p: vector from joint j to joint i
    while j > 0:
        for c in range(ncolumns(r, j)):
            s = motion_in_body_axes(R, motion_moved(p, wa.subspace_column(r, j, c)))
            accumulate_inertia(
                r, regressor, idx_v(r, j) + c, 10 * (i - 1), power_derivatives(w, a, s)
            )
        p = add(p, wa.from_parent(r, j))
        j = parent(r, j)


@kernel
def joint_torque_regressor_kernel(r):
    """Compute the regressor of the joint torques, Y(q, v, a) theta = tau.

    Reads Q, V, A; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION,
    JOINT_TORQUE_REGRESSOR.
    """
    clear_sparse(r, JOINT_TORQUE_REGRESSOR)
    place_universe_with_gravity(r)
    A = matrix_of_width(r, JOINT_TORQUE_REGRESSOR, 10 * njoints(r))
    for i in range(1, njoints(r) + 1):
        parameter_columns(r, i, A)


# --- the product with joint torques


@kernel
def joint_torque_regressor_product_kernel(r):
    """Compute Y' tau without Y.

        Y_i' tau = derivatives of s . f_i

    s is the sum of S_k tau_k over the joints that carry body i.

    Reads Q, V, A, TAU_IN; writes ROTATION, FROM_PARENT, COLUMNS, BODY_VELOCITY, BODY_ACCELERATION,
    JOINT_TORQUE_REGRESSOR_PRODUCT, TORQUE_WEIGHTED_COLUMNS.
    """
    place_universe_with_gravity(r)
    clear_motion(r, TORQUE_WEIGHTED_COLUMNS, 0)
    for i in range(1, njoints(r) + 1):
        w, a = motion_of_body(r, i)
        s = motion_in_body_axes(
            rotation(r, wa.ROTATION, i),
            wa.store_velocity(r, i, TORQUE_WEIGHTED_COLUMNS, TAU_IN),
        )
        set_inertia(r, JOINT_TORQUE_REGRESSOR_PRODUCT, i - 1, power_derivatives(w, a, s))


@algorithm(joint_torque_regressor_kernel, inputs=(Q, V, A), results=(JOINT_TORQUE_REGRESSOR,))
def joint_torque_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    armature: bool = False,
    friction: bool = False,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the regressor Y of the joint torques, with ``rnea`` = Y theta.

    theta contains m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz of each joint's body with its
    payloads, about the origin of the joint's frame, one body after the other. In Python, it is
    ``model.inertial_parameters.ravel()``. Y does not depend on theta. Atkeson, An and Hollerbach
    (1986); O(n d) for a tree of depth d. An entry is zero if the joint of its row does not carry
    the body of its column. With additional columns, the result is a new array.

    Parameters
    ----------
    armature : bool
        Append nv columns, for ``model.armature``: a on the diagonal.
    friction : bool
        Append 3 nv columns, after those for armature: v, sign(v) and 1 on the diagonals, for
        ``model.damping``, ``model.friction`` and constant torques. These are the torques of
        ``joint_friction``, plus the constant ones.

    Examples
    --------
    >>> Y = dyn_ros.joint_torque_regressor(model, data, q, v, a)
    >>> theta = model.inertial_parameters.ravel()
    >>> Y.shape, np.allclose(Y @ theta + model.armature * a, dyn_ros.rnea(model, data, q, v, a))
    ((7, 70), True)
    """
    bodies: Array = joint_torque_regressor.call(
        model, data, threads if out is None else BatchOptions(threads, out), q, v, a
    )
    parts = [bodies]
    if require_bool("armature", armature):
        parts.append(_diagonal_matrices(np.asarray(a, float), bodies))
    if require_bool("friction", friction):
        rates = np.asarray(v, float)
        parts += [
            _diagonal_matrices(rates, bodies),
            _diagonal_matrices(np.sign(rates), bodies),
            _diagonal_matrices(np.ones(model.nv), bodies),
        ]
    return np.concatenate(parts, axis=-1) if len(parts) > 1 else bodies


@algorithm(
    joint_torque_regressor_product_kernel,
    inputs=(Q, V, A, TAU_IN),
    results=(JOINT_TORQUE_REGRESSOR_PRODUCT,),
)
def joint_torque_regressor_product(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    tau: ArrayLike,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the product Y' tau of the transposed ``joint_torque_regressor`` and torques.

    It is the derivative of tau . rnea(q, v, a) with respect to the inertial parameters: with the
    weighted residuals of a state as torques, half of the negative gradient of its sum of squares.
    Y is not computed: with the torques as rates of the joints, each body has a motion s, and its
    part consists of the derivatives of s . f; O(n).

    Examples
    --------
    >>> product = dyn_ros.joint_torque_regressor_product(model, data, q, v, a, tau).copy()
    >>> np.allclose(product, dyn_ros.joint_torque_regressor(model, data, q, v, a).T @ tau)
    True
    """


def _diagonal_matrices(values: Array, rows: Array) -> Array:
    """Return the diagonal matrices, one for each state of ``rows``."""
    shape = (*rows.shape[:-1], rows.shape[-2])
    return np.broadcast_to(values[..., None] * np.eye(shape[-1]), shape)
