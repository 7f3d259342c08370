# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The messages in recordings that are written, as templates; nothing of ROS is needed."""
from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...cdr.definition import parse
from ...cdr.template import Template
from ...engine.kernel.types import Array

JOINT_STATE, ODOMETRY, CENTROIDAL, NUMBER = (
    "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry", "dyn_ros/msg/CentroidalState",
    "std_msgs/msg/Float64")

FIELDS = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "dyn_ros/CentroidalState": """std_msgs/Header header
float64 mass
geometry_msgs/Point com
geometry_msgs/Inertia locked_inertia
bool velocity_valid
geometry_msgs/Vector3 com_velocity
geometry_msgs/Vector3 linear_momentum
geometry_msgs/Vector3 angular_momentum
bool rates_valid
geometry_msgs/Vector3 com_acceleration
geometry_msgs/Vector3 linear_momentum_rate
geometry_msgs/Vector3 angular_momentum_rate""",
    "geometry_msgs/Inertia": """float64 m
geometry_msgs/Vector3 com
float64 ixx
float64 ixy
float64 ixz
float64 iyy
float64 iyz
float64 izz""",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Pose": "Point position\nQuaternion orientation",
    "geometry_msgs/PoseWithCovariance": "Pose pose\nfloat64[36] covariance",
    "geometry_msgs/Quaternion": "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1",
    "geometry_msgs/Twist": "Vector3  linear\nVector3  angular",
    "geometry_msgs/TwistWithCovariance": "Twist twist\nfloat64[36] covariance",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "nav_msgs/Odometry": """std_msgs/Header header
string child_frame_id
geometry_msgs/PoseWithCovariance pose
geometry_msgs/TwistWithCovariance twist""",
    "sensor_msgs/JointState": """std_msgs/Header header
string[] name
float64[] position
float64[] velocity
float64[] effort""",
    "std_msgs/Float64": "float64 data",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
}
"""The definition of each type in its package, without comments."""

_LINE = "=" * 80


def definition(kind: str) -> str:
    """The definition of a type and of all types in it, as a recording contains it.

    Parameters
    ----------
    kind : str
        Such as "sensor_msgs/msg/JointState".
    """
    first = kind.replace("/msg/", "/")
    wanted = [first]
    for name in wanted:
        for line in FIELDS[name].splitlines():
            inner = line.split()[0].split("[")[0]
            full = inner if "/" in inner else f"{name.split('/')[0]}/{inner}"
            if full in FIELDS and full not in wanted:
                wanted.append(full)
    return f"\n{_LINE}\n".join([FIELDS[first], *(
        f"MSG: {name}\n{FIELDS[name]}" for name in wanted[1:])])


def _template(kind: str, **fields: Any) -> Template:
    """A message in which these fields are not zero or empty."""
    return Template(SimpleNamespace(**fields), definition=parse(kind, definition(kind)))


def joint_state(frame: str, names: Sequence[str], fields: Sequence[str]) -> Template:
    """A JointState in which these fields of "position", "velocity", "effort" are not empty."""
    return _template(JOINT_STATE, header=SimpleNamespace(frame_id=frame), name=names,
                     **{field: np.zeros(len(names)) for field in fields})


def odometry(frame: str, child: str) -> Template:
    """An Odometry."""
    return _template(ODOMETRY, header=SimpleNamespace(frame_id=frame), child_frame_id=child)


def centroidal_state(frame: str) -> Template:
    """A CentroidalState without rates."""
    template = _template(CENTROIDAL, header=SimpleNamespace(frame_id=frame))
    for name in ("com_acceleration", "linear_momentum_rate", "angular_momentum_rate"):
        template.array(name)[:] = math.nan
    return template


def number() -> Template:
    """A Float64."""
    return _template(NUMBER)


def pose_of_plane(position: Array) -> Array:
    """Poses (x y z qx qy qz qw), (n, 7), from x, y and yaw, (n, 3)."""
    pose = np.zeros((len(position), 7))
    pose[:, :2] = position[:, :2]
    pose[:, 5], pose[:, 6] = np.sin(0.5 * position[:, 2]), np.cos(0.5 * position[:, 2])
    return pose

