# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Conversion between fields of ROS messages and NumPy arrays or spatial vectors."""

from __future__ import annotations

import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Accel, Point, Pose, Transform, Twist, Vector3, Wrench
from geometry_msgs.msg import Inertia as InertiaMessage

from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.spatial import SE3, Force, Inertia, Motion
from dyn_ros.msg import Matrix

from ..robot import RobotContext


def array_view(message: Any, field: str, size: int) -> Array:
    """Set a float64[] field to zeros, and return an ndarray (size,) that shares its memory.

    Filling the array takes much less time than assigning to the field, which checks or copies.
    """
    setattr(message, field, zero_field(size))
    return np.frombuffer(getattr(message, field))


def zero_field(size: int) -> array.array[float]:
    """Return a number of zeros as the value of a float64[] field."""
    return array.array("d", bytes(8 * size))


def resize_matrix(message: Matrix, rows: int, cols: int) -> None:
    """Resize a dyn_ros/Matrix and fill it with zeros."""
    message.rows, message.cols, message.data = rows, cols, zero_field(rows * cols)


def matrix_view(message: Matrix, rows: int, cols: int) -> Array:
    """Set a dyn_ros/Matrix to zeros, and return an ndarray (rows, cols) that shares its memory."""
    message.rows, message.cols = rows, cols
    return array_view(message, "data", rows * cols).reshape(rows, cols)


def create_message(message_type: Any, robot: RobotContext) -> Any:
    """Return a new message with the frame_id and the names of the rows that `robot` publishes."""
    message = message_type()
    message.header.frame_id = robot.frame_id
    message.name = robot.names
    return message


def stamp_nanoseconds(stamp: Time) -> int:
    """Convert a builtin_interfaces/Time to nanoseconds."""
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def set_vector(vector: Vector3 | Point, x: float, y: float, z: float) -> None:
    """Set the three numbers of a geometry_msgs/Vector3 or Point."""
    vector.x, vector.y, vector.z = x, y, z


def pose_numbers(pose: Pose) -> tuple[float, float, float, float, float, float, float]:
    """Return (x, y, z, qx, qy, qz, qw) of a geometry_msgs/Pose."""
    p, q = pose.position, pose.orientation
    return p.x, p.y, p.z, q.x, q.y, q.z, q.w


def set_pose(pose: Pose, placement: Array) -> None:
    """Fill a geometry_msgs/Pose from a homogeneous matrix (4, 4)."""
    p, q = pose.position, pose.orientation
    p.x, p.y, p.z = placement[:3, 3]
    q.x, q.y, q.z, q.w = matrix_quaternion(placement[:3, :3])


def set_twist(twist: Twist | Accel, motion: Iterable[float]) -> None:
    """Fill a geometry_msgs/Twist or Accel from (linear, angular), six numbers."""
    v, w = twist.linear, twist.angular
    v.x, v.y, v.z, w.x, w.y, w.z = motion


def twist_numbers(twist: Twist | Accel) -> tuple[float, float, float, float, float, float]:
    """Return the six numbers (linear, angular) of a geometry_msgs/Twist or Accel."""
    v, w = twist.linear, twist.angular
    return v.x, v.y, v.z, w.x, w.y, w.z


def wrench_numbers(wrench: Wrench) -> tuple[float, float, float, float, float, float]:
    """Return the six numbers (force, torque) of a geometry_msgs/Wrench."""
    f, n = wrench.force, wrench.torque
    return f.x, f.y, f.z, n.x, n.y, n.z


# --- conversion between dyn_ros.engine.spatial and geometry_msgs


def from_pose(pose: Pose) -> SE3:
    """Return the SE3 of a Pose; raise a ValueError unless it is finite with a unit quaternion."""
    *translation, qx, qy, qz, qw = pose_numbers(pose)
    return SE3.from_quaternion((qx, qy, qz, qw), translation)


def to_pose(X: SE3) -> Pose:
    """Return the Pose of an SE3."""
    pose = Pose()
    set_pose(pose, X.as_homogeneous())
    return pose


def from_transform(transform: Transform) -> SE3:
    """Return the SE3 of a Transform; raise a ValueError as `from_pose`."""
    p, q = transform.translation, transform.rotation
    return SE3.from_quaternion((q.x, q.y, q.z, q.w), (p.x, p.y, p.z))


def to_transform(X: SE3) -> Transform:
    """Return the Transform of an SE3."""
    transform = Transform()
    set_vector(transform.translation, *X.translation)
    q = transform.rotation
    q.x, q.y, q.z, q.w = X.as_quaternion()
    return transform


def from_twist(twist: Twist | Accel) -> Motion:
    """Return the Motion of a Twist or an Accel; raise a ValueError if a number is not finite."""
    return Motion(twist_numbers(twist))


def to_twist(motion: Motion) -> Twist:
    """Return the Twist of a Motion."""
    twist = Twist()
    set_twist(twist, np.asarray(motion))
    return twist


def to_accel(motion: Motion) -> Accel:
    """Return an Accel with the numbers of a Motion: a spatial acceleration stays spatial."""
    accel = Accel()
    set_twist(accel, np.asarray(motion))
    return accel


def from_wrench(wrench: Wrench) -> Force:
    """Return the Force of a Wrench; raise a ValueError if a number is not finite."""
    return Force(wrench_numbers(wrench))


def to_wrench(force: Force) -> Wrench:
    """Return the Wrench of a Force."""
    wrench = Wrench()
    set_vector(wrench.force, *force.linear)
    set_vector(wrench.torque, *force.angular)
    return wrench


def from_inertia(message: InertiaMessage) -> Inertia:
    """Return the spatial Inertia of an Inertia message; its tensor is about the center of mass."""
    m, c = message, message.com
    return Inertia(
        m.m, (c.x, c.y, c.z), [[m.ixx, m.ixy, m.ixz], [m.ixy, m.iyy, m.iyz], [m.ixz, m.iyz, m.izz]]
    )


def to_inertia(inertia: Inertia) -> InertiaMessage:
    """Return the Inertia message of a spatial Inertia; its tensor is about the center of mass."""
    message = InertiaMessage()
    set_inertia(message, inertia)
    return message


def set_inertia(message: InertiaMessage, inertia: Inertia) -> None:
    """Fill an Inertia message from a spatial Inertia."""
    message.m = inertia.mass
    set_vector(message.com, *inertia.com.tolist())
    (message.ixx, message.ixy, message.ixz), (_, message.iyy, message.iyz), (_, _, message.izz) = (
        inertia.rotational.tolist()
    )
