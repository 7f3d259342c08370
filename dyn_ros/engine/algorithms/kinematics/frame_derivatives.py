# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the velocity and acceleration of a frame, or of a point fixed to it.

Carpentier and Mansard (2018), section III, for the joints between the frame and the root
(frame_motion.py). If coordinate j moves its subtree along u, then in a frame that moves with the
subtree, the motion v_p, a_p of the parent of its joint changes by v_p x u, a_p x u, so

    dv = v_p x u,  da = a_p x u + (v_p x u) x (v - v_p)

and with respect to velocity, da = (v_p + v_j - v) x u, with v_j the velocity of joint j's body.
The classical acceleration, a + (w x v, 0), follows by the product rule.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import require_bool
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_selector
from ...model.model import Model
from . import frame_motion

V_DQ = field(
    "v_partial_dq",
    ("nv", 6),
    "Derivative of the velocity (linear, angular) of one frame with respect to "
    "configuration; each column is along one velocity, in the tangent space [m/s, rad/s "
    "per rad, m].",
    True,
)
V_DV = field(
    "v_partial_dv",
    ("nv", 6),
    "Derivative of the velocity of one frame with respect to "
    "velocity: its Jacobian [m, rad per rad, m].",
    True,
)
A_DQ = field(
    "a_partial_dq",
    ("nv", 6),
    "Derivative of the acceleration (linear, angular) of one frame with respect to "
    "configuration [m/s2, rad/s2 per rad, m].",
    True,
)
A_DV = field(
    "a_partial_dv",
    ("nv", 6),
    "Derivative of the acceleration of one frame with respect "
    "to velocity [m/s2, rad/s2 per rad/s, m/s].",
    True,
)
A_DA = field(
    "a_partial_da",
    ("nv", 6),
    "Derivative of the acceleration of one frame with respect "
    "to acceleration: its Jacobian [m, rad per rad, m].",
    True,
)


@kernel
def add_joint(r, j, T, v, a, v_j, v_p, a_p):
    """Add the columns of joint j to the derivatives; all motions are expressed in the frame.

        dv/dq = v_p x S + w x v,  dv/dqd = S
        da/dq = a_p x S + (v_p x S) x (v - v_p) + w x a
        da/dqd = (v_p + v_j - v) x S,  da/dqdd = S

    w is the motion of the reference frame's axes along S.

    Reads FRAME_COLUMNS; writes V_DQ, V_DV, A_DQ, A_DV, A_DA.
    """
    for c in range(ncolumns(r, j)):
        k = idx_v(r, j) + c
        u = motion_column(r, frame_motion.FRAME_COLUMNS, j, c)
        w = frame_motion.motion_of_axes(u, frame_motion.requested_reference_frame(r))
        dv = motion_cross(v_p, u)
        da = motion_add(motion_cross(a_p, u), motion_cross(dv, motion_sub(v, v_p)))
        da_dv = motion_cross(motion_add(v_p, motion_sub(v_j, v)), u)
        T_u = motion_to_parent(T, u)
        add_to_motion(r, V_DQ, k, motion_to_parent(T, motion_add(dv, motion_cross(w, v))))
        add_to_motion(r, V_DV, k, T_u)
        add_to_motion(r, A_DQ, k, motion_to_parent(T, motion_add(da, motion_cross(w, a))))
        add_to_motion(r, A_DV, k, motion_to_parent(T, da_dv))
        add_to_motion(r, A_DA, k, T_u)


@kernel
def spatial_derivatives(r):
    """Compute all derivatives of velocity and spatial acceleration; return the velocity.

    Velocities and accelerations of the joints follow from the frame's, from it to the root:

        v_p = v - S qd
        a_p = a - S qdd - v x S qd

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, V_DQ, V_DV, A_DQ, A_DV,
    A_DA.
    """
    X, v, a = frame_motion.traverse_to_root(r, True)
    T = frame_motion.to_reference_frame(X, frame_motion.requested_reference_frame(r))
    for columns in (V_DQ, V_DV, A_DQ, A_DV, A_DA):
        clear_entries(r, columns, 6 * nv(r))
    j, v_j, a_j = frame_motion.first_joint(r), v, a
    while j > 0:
        v_p, a_p = v_j, a_j
        for c in range(ncolumns(r, j)):
            u = motion_column(r, frame_motion.FRAME_COLUMNS, j, c)
            v_k = entry(r, V, idx_v(r, j) + c)
            a_k = entry(r, A, idx_v(r, j) + c)
            v_p = motion_sub(v_p, motion_scale(v_k, u))
            a_p = motion_sub(
                a_p,
                motion_add(motion_scale(a_k, u), motion_scale(v_k, motion_cross(v_j, u))),
            )
        add_joint(r, j, T, v, a, v_j, v_p, a_p)
        j, v_j, a_j = parent(r, j), v_p, a_p
    return motion_to_parent(T, v)


@kernel
def rate_of_turning(v, dv):
    """Return the derivative of (w x v, 0), with v and its derivative dv.

    dw x v + w x dv
    """
    return Motion(
        add(cross(dv.angular, v.linear), cross(v.angular, dv.linear)),
        zero3(v.linear[0]),
    )


@kernel
def add_turning(r, v):
    """Add the derivatives of (w x v, 0) to the derivatives of the spatial acceleration.

    Reads V_DQ, V_DV; writes A_DQ, A_DV.
    """
    for k in range(nv(r)):
        v_dq = motion(r, V_DQ, k)
        v_dv = motion(r, V_DV, k)
        add_to_motion(r, A_DQ, k, rate_of_turning(v, v_dq))
        add_to_motion(r, A_DV, k, rate_of_turning(v, v_dv))


@kernel
def acceleration_derivatives_kernel(r):
    """Compute the derivatives of velocity and acceleration, spatial or classical, of a frame.

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, V_DQ, V_DV, A_DQ, A_DV,
    A_DA.
    """
    v = spatial_derivatives(r)
    if option(r, CLASSICAL):
        add_turning(r, v)


@kernel
def velocity_derivatives_kernel(r):
    """Compute the derivatives of the velocity of a frame.

    Reads Q, V, POINT, OMI; writes A, FRAME_COLUMNS, FRAME_COLUMN_RATES, V_DQ, V_DV, A_DQ, A_DV,
    A_DA.
    """
    clear_entries(r, A, nv(r))
    spatial_derivatives(r)


@algorithm(
    velocity_derivatives_kernel,
    inputs=(Q, V, POINT),
    results=(V_DQ, V_DV),
    optional=(POINT,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_velocity_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    offset: ArrayLike | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array]:
    """Compute derivatives of ``frame_velocity`` with respect to configuration and velocity.

    Carpentier and Mansard (2018), section III; O(d) for a frame at depth d. In LOCAL_WORLD_ALIGNED,
    they are the exact derivatives of the result of ``frame_velocity``. Pinocchio's are the ones of
    WORLD, shifted to the frame's origin as if it were fixed. The derivatives with respect to
    configuration are Pinocchio's plus (w x u, 0) in each column, with the angular velocity w of the
    frame and the velocity u of its origin along the column.

    Examples
    --------
    >>> dv_dq, dv_dv = dyn_ros.frame_velocity_derivatives(
    ...     model, data, q, v, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(dv_dv, dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL))
    True
    """


@algorithm(
    acceleration_derivatives_kernel,
    inputs=(Q, V, A, POINT),
    results=(V_DQ, A_DQ, A_DV, A_DA),
    optional=(POINT,),
    also_writes=(V_DV,),
    options=(FRAME, REFERENCE_FRAME, CLASSICAL),
)
def frame_acceleration_derivatives(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    offset: ArrayLike | None = None,
    *,
    classical: bool = False,
    threads: int = 1,
    out: OutArrays | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Compute derivatives of ``frame_acceleration`` by configuration, velocity and acceleration.

    Method, complexity and differences from Pinocchio are as for
    ``frame_velocity_derivatives``; in a_partial_dq, w is the angular acceleration of the frame.
    Gravity is not included. Pinocchio's a_partial_dq in WORLD lacks a term in the columns of a
    floating or planar joint whose parent moves.

    Parameters
    ----------
    classical : bool
        Differentiate the classical acceleration, the one that ``frame_classical_acceleration``
        returns, instead of the spatial one.

    Examples
    --------
    >>> dv_dq, da_dq, da_dv, da_da = dyn_ros.frame_acceleration_derivatives(
    ...     model, data, q, v, a, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(da_da, dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL))
    True
    """
    selector = frame_selector(model, frame, reference_frame) << CLASSICAL.bits | require_bool(
        "classical", classical
    )
    return frame_acceleration_derivatives.call(
        model,
        data,
        threads if out is None else BatchOptions(threads, out),
        selector,
        q,
        v,
        a,
        offset,
    )
