# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages of ROS 2 as bytes, many at a time: a template in which numbers are replaced.

Nothing of ROS is needed. The definitions are those of the packages, without comments.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array

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
"""The definition of each type, without comments."""

_LINE = "=" * 80
_HEADER = bytes((0, 1, 0, 0))       # little-endian CDR


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


class Template:
    """The bytes of a message, and where its numbers are.

    Fields are appended in the order of the definition.
    """

    def __init__(self) -> None:
        self._bytes = bytearray(_HEADER)
        self._places: dict[str, tuple[int, int]] = {}       # offset, number of bytes

    def _align(self, size: int) -> None:
        self._bytes += bytes(-(len(self._bytes) - len(_HEADER)) % size)

    def _reserve(self, name: str, size: int, count: int) -> None:
        self._align(size)
        self._places[name] = len(self._bytes), size * count
        self._bytes += bytes(size * count)

    def _count(self, number: int) -> None:
        self._align(4)
        self._bytes += number.to_bytes(4, "little")

    def header(self, frame: str) -> Template:
        """Append a std_msgs/Header, whose stamp is the field "stamp"."""
        self._reserve("stamp", 4, 2)
        return self.text(frame)

    def text(self, text: str) -> Template:
        """Append a string."""
        content = text.encode() + b"\0"
        self._count(len(content))
        self._bytes += content
        return self

    def texts(self, texts: Sequence[str]) -> Template:
        """Append a sequence of strings."""
        self._count(len(texts))
        for text in texts:
            self.text(text)
        return self

    def numbers(self, name: str, count: int = 1) -> Template:
        """Append so many float64."""
        self._reserve(name, 8, count)
        return self

    def sequence(self, name: str, count: int) -> Template:
        """Append a sequence of float64."""
        self._count(count)
        return self.numbers(name, count) if count else self

    def flag(self, name: str) -> Template:
        """Append a bool."""
        self._reserve(name, 1, 1)
        return self

    def fill(self, stamp: NDArray[np.int64], values: Mapping[str, Any]) -> list[bytes]:
        """The bytes of messages.

        Parameters
        ----------
        stamp : (n,) ndarray of int64
            [ns]; used if there is a header.
        values : mapping of str to array_like
            (n,) or (n, count) numbers for each field by name. Other numbers are zero.
        """
        if not len(stamp):
            return []
        messages = np.tile(np.frombuffer(bytes(self._bytes), np.uint8), (len(stamp), 1))
        if "stamp" in self._places:
            parts = np.stack(np.divmod(stamp, 1_000_000_000), axis=1)
            self._put(messages, "stamp", parts.astype("<u4"))
        for name, numbers in values.items():
            array = np.asarray(numbers)
            self._put(messages, name, array.astype("u1" if array.dtype == bool else "<f8"))
        return [message.tobytes() for message in messages]

    def _put(self, messages: NDArray[np.uint8], name: str, values: Any) -> None:
        offset, size = self._places[name]
        content = np.ascontiguousarray(values.reshape(len(messages), -1)).view(np.uint8)
        messages[:, offset:offset + size] = content


def joint_state(frame: str, names: Sequence[str], fields: Sequence[str]) -> Template:
    """A JointState in which these fields of "position", "velocity", "effort" are not empty."""
    made = Template().header(frame).texts(names)
    for name in ("position", "velocity", "effort"):
        made.sequence(name, len(names) if name in fields else 0)
    return made


def odometry(frame: str, child: str) -> Template:
    """An Odometry: fields "pose" (x y z qx qy qz qw) and "twist" (linear, angular)."""
    return (Template().header(frame).text(child).numbers("pose", 7).numbers("", 36)
            .numbers("twist", 6).numbers("", 36))


def centroidal_state(frame: str) -> Template:
    """A CentroidalState, whose vectors are fields of three numbers; without rates."""
    made = Template().header(frame).numbers("mass").numbers("com", 3).numbers("locked_inertia", 10)
    made.flag("velocity_valid")
    for name in ("com_velocity", "linear_momentum", "angular_momentum"):
        made.numbers(name, 3)
    made.flag("rates_valid")
    return made.numbers("rates", 9)


def number() -> Template:
    """A Float64: field "data"."""
    return Template().numbers("data")


def pose_of_plane(position: Array) -> Array:
    """Poses (x y z qx qy qz qw), (n, 7), from x, y and yaw, (n, 3)."""
    pose = np.zeros((len(position), 7))
    pose[:, :2] = position[:, :2]
    pose[:, 5], pose[:, 6] = np.sin(0.5 * position[:, 2]), np.cos(0.5 * position[:, 2])
    return pose


NO_RATES = (math.nan,) * 9
"""The rates of a CentroidalState if they are unknown."""
