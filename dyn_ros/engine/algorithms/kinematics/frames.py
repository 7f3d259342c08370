# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Velocity and acceleration of one frame, and the sweep to the root that they share.

All functions traverse the joints from the frame to the root, expressed in the frame: the columns
of the Jacobian are the motion subspaces expressed in the frame, and their rates follow from the
velocity of the frame relative to each joint. Other joints are not visited. A joint is treated as
its own frame.
"""

from __future__ import annotations

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import FRAME, OMI, POINT, REFERENCE_FRAME, A, Q, V, field
from ...kernel.joints import column, joint_placement
from ...kernel.lanes import load
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.frames import ReferenceFrame, frame_selector
from ...model.model import Model
from .jacobians import store_column

IN_FRAME = field("_in_frame", ("ncolumns", 6))  # columns of the joints that move the frame
THEIR_RATE = field("_their_rate", ("ncolumns", 6))
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
    """The joint that moves the selected frame."""
    return ly.frame_parent(r, ly.option(r, FRAME))


@kernel
def reference_frame(r):
    return ly.option(r, REFERENCE_FRAME)


@kernel
def start(r):
    """Pose of the frame, or of the given point, in the frame of its joint."""
    like = load(r.work, ly.offset(r, OMI))
    X = ly.frame_placement(r, ly.option(r, FRAME))
    X = al.SE3(al.lift9(X.rotation, like), al.lift3(X.translation, like))
    if ly.has_input(r, POINT):
        p = al.load3(r.work, ly.offset(r, POINT))
        return al.SE3(X.rotation, al.add(X.translation, al.rotate(X.rotation, p)))
    return X


@kernel
def traverse_to_root(r, moving):
    """Store the columns expressed in the frame; return its pose, velocity and acceleration.

    Velocity and acceleration are also expressed in the frame. The velocity relative to a joint
    includes the joints between it and the frame, with which the columns of the joint, constant in
    its own frame, change.
    """
    j, X = first_joint(r), start(r)
    zero = al.Motion(al.zero3(X.translation[0]), al.zero3(X.translation[0]))
    v, a = zero, zero
    while j > 0:
        relative = v
        for c in range(ly.ncolumns(r, j)):
            u = al.to_child(X, al.motion_scale(ly.ratio(r, j), column(r, j, c)))
            store_column(r, IN_FRAME, j, c, u)
            if moving:
                du = al.motion_cross(u, relative)
                store_column(r, THEIR_RATE, j, c, du)
                v_k = load(r.work, ly.offset(r, V) + ly.idx_v(r, j) + c)
                a_k = load(r.work, ly.offset(r, A) + ly.idx_v(r, j) + c)
                v = al.motion_add(v, al.motion_scale(v_k, u))
                a = al.motion_add(
                    a, al.motion_add(al.motion_scale(a_k, u), al.motion_scale(v_k, du))
                )
        X = al.compose(joint_placement(r, j), X)
        j = ly.parent(r, j)
    return X, v, a


@kernel
def to_reference_frame(X, reference):
    """Transformation of motions from the frame to a reference frame, with X the frame's pose."""
    if reference == WORLD:
        return X
    if reference == LOCAL:
        return al.SE3(
            al.lift9((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), X.translation[0]),
            al.zero3(X.translation[0]),
        )
    return al.SE3(X.rotation, al.zero3(X.translation[0]))


@kernel
def motion_of_axes(v, reference):
    """Velocity of the frame, v, relative to a reference frame; both expressed in the frame."""
    if reference == WORLD:
        return v
    if reference == LOCAL:
        return al.Motion(al.zero3(v.linear[0]), al.zero3(v.linear[0]))
    return al.Motion(al.zero3(v.linear[0]), v.angular)


@kernel
def velocity_kernel(r):
    ly.clear(r.work, ly.offset(r, A), ly.nv(r))
    X, v, _ = traverse_to_root(r, True)
    T = to_reference_frame(X, reference_frame(r))
    al.store_spatial(r.work, ly.offset(r, FRAME_VELOCITY), al.motion_to_parent(T, v))


@kernel
def acceleration_kernel(r):
    X, v, a = traverse_to_root(r, True)
    T = to_reference_frame(X, reference_frame(r))
    v, a = al.motion_to_parent(T, v), al.motion_to_parent(T, a)
    al.store_spatial(r.work, ly.offset(r, FRAME_ACCELERATION), a)
    al.store_spatial(
        r.work,
        ly.offset(r, FRAME_CLASSICAL_ACCELERATION),
        al.Motion(al.add(a.linear, al.cross(v.angular, v.linear)), a.angular),
    )


_velocity = Algorithm(
    "frame_velocity", velocity_kernel, (Q, V), (FRAME_VELOCITY,), options=(FRAME, REFERENCE_FRAME)
).caller()
_acceleration = Algorithm(
    "frame_acceleration",
    acceleration_kernel,
    (Q, V, A),
    (FRAME_ACCELERATION,),
    also_writes=(FRAME_CLASSICAL_ACCELERATION,),
    options=(FRAME, REFERENCE_FRAME),
).caller()
_classical = Algorithm(
    "frame_classical_acceleration",
    acceleration_kernel,
    (Q, V, A),
    (FRAME_CLASSICAL_ACCELERATION,),
    also_writes=(FRAME_ACCELERATION,),
    options=(FRAME, REFERENCE_FRAME),
).caller()


def frame_velocity(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    threads: int = 1,
) -> Array:
    """Velocity of a frame.

    Featherstone (2008), section 4.1; O(d) for a frame at depth d.

    Examples
    --------
    >>> twist = dyn_ros.frame_velocity(model, data, q, v, "tool", ReferenceFrame.LOCAL).copy()
    >>> np.allclose(twist, dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL) @ v)
    True
    """
    return _velocity(model, data, threads, frame_selector(model, frame, reference_frame), q, v)


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
) -> Array:
    """Spatial acceleration of a frame, the derivative of its spatial velocity.

    Featherstone (2008), section 2.10; O(d) for a frame at depth d. Gravity is not included.

    Examples
    --------
    >>> acceleration = dyn_ros.frame_acceleration(
    ...     model, data, q, v, a, "tool", ReferenceFrame.LOCAL).copy()
    >>> dJ = dyn_ros.frame_jacobian_time_variation(model, data, q, v, "tool", ReferenceFrame.LOCAL)
    >>> np.allclose(acceleration, data.frame_jacobian @ a + dJ @ v)
    True
    """
    return _acceleration(
        model, data, threads, frame_selector(model, frame, reference_frame), q, v, a
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
) -> Array:
    """Acceleration of the frame's origin, and its angular acceleration.

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
    return _classical(model, data, threads, frame_selector(model, frame, reference_frame), q, v, a)
