# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Velocity and acceleration of one frame, and the pass to the root that they share.

All functions traverse the joints from the frame to the root, expressed in the frame: the columns
of the Jacobian are the motion subspaces expressed in the frame, and their rates follow from the
velocity of the frame relative to each joint. Other joints are not visited. A joint is treated as
its own frame.
"""

from __future__ import annotations

from ...call.algorithm import algorithm
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.vocabulary import *
from ...model.frames import ReferenceFrame, frame_selector
from ...model.model import Model

FRAME_COLUMNS = field("_frame_columns", ("ncolumns", 6))  # only for joints that move the frame
FRAME_COLUMN_RATES = field("_frame_column_rates", ("ncolumns", 6))
FRAME_VELOCITY = field(
    "frame_velocity", (6,), "Velocity (linear, angular) of one frame [m/s, rad/s]."
)
FRAME_ACCELERATION = field(
    "frame_acceleration",
    (6,),
    "Spatial acceleration (linear, angular) of one frame [m/s2, rad/s2].",
)
FRAME_CLASSICAL_ACCELERATION = field(
    "frame_classical_acceleration",
    (6,),
    "Classical acceleration (linear, angular) of one frame [m/s2, rad/s2].",
)
WORLD, LOCAL = 0, 1


@kernel
def first_joint(r):
    """Return the joint that moves the selected frame."""
    return frame_parent(r, option(r, FRAME))


@kernel
def requested_reference_frame(r):
    """Return the reference frame of the call."""
    return option(r, REFERENCE_FRAME)


@kernel
def frame_pose_in_joint(r):
    """Return the pose of the frame, or of the given point, in its joint's frame.

    Reads POINT, OMI.
    """
    like = entry(r, OMI, 0)
    X = frame_placement(r, option(r, FRAME))
    X = SE3(lift9(X.rotation, like), lift3(X.translation, like))
    if has_input(r, POINT):
        p = vector(r, POINT, 0)
        return SE3(X.rotation, add(X.translation, rotate(X.rotation, p)))
    return X


@kernel
def traverse_to_root(r, with_velocity):
    """Store the columns expressed in the frame; return its pose, velocity and acceleration.

    Velocity and acceleration are also expressed in the frame. The velocity relative to a joint
    includes the joints between it and the frame, with which the columns of the joint, constant in
    its own frame, change.

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES.
    """
    j, X = first_joint(r), frame_pose_in_joint(r)
    zero = Motion(zero3(X.translation[0]), zero3(X.translation[0]))
    v, a = zero, zero
    while j > 0:
        relative = v
        for c in range(ncolumns(r, j)):
            u = motion_to_child(X, motion_scale(ratio(r, j), column(r, j, c)))
            set_column(r, FRAME_COLUMNS, j, c, u)
            if with_velocity:
                du = motion_cross(u, relative)
                set_column(r, FRAME_COLUMN_RATES, j, c, du)
                v_k = entry(r, V, idx_v(r, j) + c)
                a_k = entry(r, A, idx_v(r, j) + c)
                v = motion_add(v, motion_scale(v_k, u))
                a = motion_add(a, motion_add(motion_scale(a_k, u), motion_scale(v_k, du)))
        X = compose(joint_placement(r, j), X)
        j = parent(r, j)
    return X, v, a


@kernel
def to_reference_frame(X, reference):
    """Return the transform of motions from the frame, with pose X, to a reference frame."""
    if reference == WORLD:
        return X
    if reference == LOCAL:
        return SE3(
            lift9((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), X.translation[0]),
            zero3(X.translation[0]),
        )
    return SE3(X.rotation, zero3(X.translation[0]))


@kernel
def motion_of_axes(v, reference):
    """Return the velocity v of the frame relative to a reference frame, expressed in the frame."""
    if reference == WORLD:
        return v
    if reference == LOCAL:
        return Motion(zero3(v.linear[0]), zero3(v.linear[0]))
    return Motion(zero3(v.linear[0]), v.angular)


@kernel
def velocity_kernel(r):
    """Compute the velocity of a frame, T v, with v expressed in the frame.

    Reads Q, V, POINT, OMI; writes A, FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_VELOCITY.
    """
    clear_entries(r, A, nv(r))
    X, v, _ = traverse_to_root(r, True)
    T = to_reference_frame(X, requested_reference_frame(r))
    set_motion(r, FRAME_VELOCITY, 0, motion_to_parent(T, v))


@kernel
def acceleration_kernel(r):
    """Compute the spatial and the classical acceleration of a frame.

        a = T a
        classical a = a.linear + v.angular x v.linear

    Reads Q, V, A, POINT, OMI; writes FRAME_COLUMNS, FRAME_COLUMN_RATES, FRAME_ACCELERATION,
    FRAME_CLASSICAL_ACCELERATION.
    """
    X, v, a = traverse_to_root(r, True)
    T = to_reference_frame(X, requested_reference_frame(r))
    v, a = motion_to_parent(T, v), motion_to_parent(T, a)
    set_motion(r, FRAME_ACCELERATION, 0, a)
    set_motion(
        r,
        FRAME_CLASSICAL_ACCELERATION,
        0,
        Motion(add(a.linear, cross(v.angular, v.linear)), a.angular),
    )


@algorithm(
    velocity_kernel,
    inputs=(Q, V),
    results=(FRAME_VELOCITY,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_velocity(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the velocity of a frame.

    Featherstone (2008), section 4.1; O(d) for a frame at depth d.

    Examples
    --------
    >>> twist = dyn_ros.frame_velocity(model, data, q, v, "tool", ReferenceFrame.LOCAL).copy()
    >>> np.allclose(twist, dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL) @ v)
    True
    """


@algorithm(
    acceleration_kernel,
    inputs=(Q, V, A),
    results=(FRAME_ACCELERATION,),
    also_writes=(FRAME_CLASSICAL_ACCELERATION,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_acceleration(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the spatial acceleration of a frame, the derivative of its spatial velocity.

    Featherstone (2008), section 2.10; O(d) for a frame at depth d. Gravity is not included.

    Examples
    --------
    >>> acceleration = dyn_ros.frame_acceleration(
    ...     model, data, q, v, a, "tool", ReferenceFrame.LOCAL).copy()
    >>> dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(acceleration, data.frame_jacobian @ a + dJ @ v)
    True
    """


@algorithm(
    acceleration_kernel,
    inputs=(Q, V, A),
    results=(FRAME_CLASSICAL_ACCELERATION,),
    also_writes=(FRAME_ACCELERATION,),
    options=(FRAME, REFERENCE_FRAME),
    selector=frame_selector,
)
def frame_classical_acceleration(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the acceleration of a frame's origin, and the frame's angular acceleration.

    The spatial acceleration plus (w x v, 0), Featherstone (2008), equation 2.48; O(d) for a frame
    at depth d. Gravity is not included. In WORLD, it is the acceleration of the point of the body
    that coincides with the world's origin.

    Examples
    --------
    It differs from the spatial acceleration by w x v:

    >>> classical = dyn_ros.frame_classical_acceleration(
    ...     model, data, q, v, a, "tool", ReferenceFrame.LOCAL).copy()
    >>> spatial = dyn_ros.frame_acceleration(
    ...     model, data, q, v, a, "tool", ReferenceFrame.LOCAL).copy()
    >>> twist = dyn_ros.frame_velocity(model, data, q, v, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(classical[:3] - spatial[:3], np.cross(twist[3:], twist[:3]))
    True
    """
