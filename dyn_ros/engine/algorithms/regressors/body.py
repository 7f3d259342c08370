# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors of the force on a single body, or on a body that is attached to a frame.

Atkeson, An and Hollerbach (1986): see torque.py. The force f on the body, expressed in a frame
that moves with it and at the origin of this frame, is the regressor times the body's parameters in
this frame. With a force sensor at the frame, these are the parameters of what is attached to it.
"""

from __future__ import annotations

import numpy as np

from ...call.algorithm import algorithm, public
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import valid_array
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_number, joint_selector
from ...model.model import Model
from ..kinematics.frame_motion import traverse_to_root

FRAME_BODY_REGRESSOR = field(
    "frame_body_regressor",
    (6, 10),
    "Derivatives of the force and moment on a body that is attached to "
    "one frame with respect to its dynamic parameters [N, N m per kg, kg "
    "m, kg m2].",
)


@kernel
def set_rotational(r, A, i, x):
    """Set the six numbers of row i for the moments of inertia. Writes A."""
    for k in range(6):
        set_element(r, A, i, 4 + k, x[k])


@kernel
def store_body_regressor(r, w, a):
    """Store the derivatives of the force on a body; w and a as for ``power_derivatives``.

        m: a.linear
        m c: ([a.angular] + [w][w],  -[a.linear])
        I: derivatives of I a.angular + w x I w

    Writes FRAME_BODY_REGRESSOR.
    """
    A = matrix_of_width(r, FRAME_BODY_REGRESSOR, 10)
    clear_entries(r, FRAME_BODY_REGRESSOR, 60)
    turning, W, D = skew(a.angular), skew(w), skew(a.linear)
    square = product(W, W)
    for k in range(3):
        set_element(r, A, k, 0, a.linear[k])
        for c in range(3):
            set_element(r, A, k, 1 + c, turning[3 * k + c] + square[3 * k + c])
            set_element(r, A, 3 + k, 1 + c, -D[3 * k + c])
    x, y, z = a.angular
    set_rotational(
        r,
        A,
        3,
        (x, y - w[0] * w[2], -w[1] * w[2], z + w[0] * w[1], w[1] * w[1] - w[2] * w[2], w[1] * w[2]),
    )
    set_rotational(
        r,
        A,
        4,
        (w[0] * w[2], x + w[1] * w[2], y, w[2] * w[2] - w[0] * w[0], z - w[0] * w[1], -w[0] * w[2]),
    )
    set_rotational(
        r,
        A,
        5,
        (-w[0] * w[1], w[0] * w[0] - w[1] * w[1], w[0] * w[1], x - w[1] * w[2], y + w[0] * w[2], z),
    )


@kernel
def frame_body_regressor_kernel(r):
    """Compute the regressor of a body that is attached to a frame.

        force = Y_b(v, a) theta

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_BODY_REGRESSOR.
    """
    X, v, a = traverse_to_root(r, True)
    g = rotate_inverse(X.rotation, gravity(r))
    point = sub(add(a.linear, cross(v.angular, v.linear)), g)
    store_body_regressor(r, v.angular, Motion(point, a.angular))


@public
def body_regressor(v: ArrayLike, a: ArrayLike) -> Array:
    """Compute the regressor Y of the force on a rigid body: f = Y x, the rate of its momentum.

    x contains the body's parameters, ``Inertia.dynamic_parameters()``, in a frame that moves with
    it: m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz. f = I a + v x* I v is expressed in this
    frame, at its origin, as are v and a. Atkeson, An and Hollerbach (1986).

    Parameters
    ----------
    v : (6,) or (B, 6) array_like
        Spatial velocity of the frame (linear, angular) [m/s, rad/s].
    a : (6,) or (B, 6) array_like
        Its spatial acceleration minus gravity (linear, angular) [m/s2, rad/s2].

    Returns
    -------
    (6, 10) or (B, 6, 10) ndarray
        A new array [N, N m per kg, kg m, kg m2].

    Examples
    --------
    The force that holds a mass of 2 kg still, less gravity:

    >>> Y = dyn_ros.body_regressor(np.zeros(6), [0.0, 0.0, 9.81, 0.0, 0.0, 0.0])
    >>> ball = dyn_ros.Inertia.from_sphere(2.0, 0.1)
    >>> print((Y @ ball.dynamic_parameters()).round(2))
    [ 0.    0.   19.62  0.    0.    0.  ]
    """
    twist, rate = valid_array(None, "v", (6,), v), valid_array(None, "a", (6,), a)
    if twist.ndim == rate.ndim == 2 and len(twist) != len(rate):
        raise ValueError(
            "batch: expected the same number of states in each argument, got "
            f"v: {len(twist)}, a: {len(rate)}"
        )
    twist, rate = np.broadcast_arrays(twist, rate)
    w, dw = twist[..., 3:], rate[..., 3:]
    W = _skew_matrices(w)
    point = rate[..., :3] + np.cross(w, twist[..., :3])
    regressor = np.zeros((*twist.shape, 10))
    regressor[..., :3, 0] = point
    regressor[..., :3, 1:4] = _skew_matrices(dw) + W @ W
    regressor[..., 3:, 1:4] = -_skew_matrices(point)
    regressor[..., 3:, 4:] = _rotational_columns(dw) + W @ _rotational_columns(w)
    return regressor


def _skew_matrices(x: Array) -> Array:
    """Return the cross-product matrices of vectors."""
    matrices: Array = np.cross(np.eye(3), x[..., None, :])
    return matrices


def _rotational_columns(w: Array) -> Array:
    """Return the derivatives of I w with respect to Ixx, Ixy, Iyy, Ixz, Iyz, Izz."""
    derivatives = np.zeros((*w.shape, 6))
    for row, columns in enumerate(((0, 1, 3), (1, 2, 4), (3, 4, 5))):
        derivatives[..., row, columns] = w
    return derivatives


@algorithm(
    frame_body_regressor_kernel,
    inputs=(Q, V, A),
    results=(FRAME_BODY_REGRESSOR,),
    options=(FRAME,),
    selector=frame_number,
)
def frame_body_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    frame: str | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the regressor Y of the force on a body that is attached to a frame: f = Y x.

    x contains the body's parameters in this frame: m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz,
    Izz. In Python, ``Inertia.dynamic_parameters()`` returns them. f is the force that moves and
    supports the body, expressed in the frame, at its origin. Atkeson, An and Hollerbach (1986);
    O(d) for a frame at depth d.

    Examples
    --------
    >>> Y = dyn_ros.frame_body_regressor(model, data, q, v, a, "tool")
    >>> box = dyn_ros.Inertia.from_box(0.5, [0.1, 0.1, 0.2])
    >>> (Y @ box.dynamic_parameters()).shape                  # the force that moves this box
    (6,)
    """


@public
def joint_body_regressor(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    joint: str | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the regressor Y of the force on the body of a joint: f = Y x.

    x contains ``Inertia.dynamic_parameters()`` of the joint's body, one of ``model.inertias``. f is
    the force that moves and supports this body alone, expressed in the joint's frame, at its
    origin. Atkeson, An and Hollerbach (1986); O(d) for a joint at depth d.

    Examples
    --------
    >>> last = model.joint_names[-1]
    >>> Y = dyn_ros.joint_body_regressor(model, data, q, v, a, last).copy()
    >>> f, of = dyn_ros.joint_forces(model, data, q, v, a)
    >>> np.allclose(Y @ model.inertias[-1].dynamic_parameters(), f[-1])
    True
    """
    number = joint_selector(model, joint, ReferenceFrame.WORLD) >> REFERENCE_FRAME.bits
    return frame_body_regressor.call(
        model, data, threads if out is None else BatchOptions(threads, out), number, q, v, a
    )
