# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Values into geometry_msgs and back."""

import numpy as np
import pytest

pytest.importorskip("geometry_msgs", reason="no ROS: run `make test`")

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Inertia as InertiaMessage
from geometry_msgs.msg import Pose, Transform, Wrench
from rclpy.serialization import deserialize_message, serialize_message

from dyn_ros.engine.spatial import SE3, Force, Inertia, Motion
from dyn_ros.nodes.messages import message_fields

RNG = np.random.default_rng(6)
PLACEMENTS = [
    SE3.identity(),
    *map(SE3.exp, RNG.normal(size=(5, 6))),
    *(
        SE3.exp([1, 2, 3, *(angle * np.array([0.6, 0.0, 0.8]))])
        for angle in (1e-9, np.pi - 1e-9, np.pi)
    ),
]


def sent(message):
    """The message as received."""
    return deserialize_message(serialize_message(message), type(message))


@pytest.mark.parametrize("X", PLACEMENTS)
@pytest.mark.parametrize("name", ["pose", "transform"])
def test_placements(name, X):
    message = sent(getattr(message_fields, f"to_{name}")(X))
    back = getattr(message_fields, f"from_{name}")(message)
    assert np.abs(np.asarray(back) - np.asarray(X)).max() < 1e-15
    assert np.array_equal(back.translation, X.translation)


def test_where_a_placements_numbers_stand():
    X = SE3([[0, -1, 0], [1, 0, 0], [0, 0, 1]], [1, 2, 3])
    pose, transform = message_fields.to_pose(X), message_fields.to_transform(X)
    half = np.sqrt(0.5)
    for q in (pose.orientation, transform.rotation):
        assert np.allclose([q.x, q.y, q.z, q.w], [0, 0, half, half], rtol=0, atol=1e-15)
    for p in (pose.position, transform.translation):
        assert [p.x, p.y, p.z] == [1, 2, 3]


@pytest.mark.parametrize("to", [message_fields.to_twist, message_fields.to_accel])
def test_motions(to):
    m = Motion(RNG.normal(size=6))
    message = sent(to(m))
    assert message_fields.from_twist(message) == m
    assert [message.linear.x, message.angular.z] == [m.linear[0], m.angular[2]]


def test_forces():
    f = Force(RNG.normal(size=6))
    message = sent(message_fields.to_wrench(f))
    assert message_fields.from_wrench(message) == f
    assert [message.force.y, message.torque.x] == [f.linear[1], f.angular[0]]


def test_inertias():
    A = RNG.normal(size=(3, 3))
    body = Inertia(2.5, RNG.normal(size=3), A + A.T)
    message = sent(message_fields.to_inertia(body))
    assert message_fields.from_inertia(message) == body
    assert [message.ixx, message.ixy, message.ixz, message.iyy, message.iyz, message.izz] == [
        *body.rotational[0],
        *body.rotational[1, 1:],
        body.rotational[2, 2],
    ]
    assert [message.com.x, message.com.y, message.com.z] == list(body.com)


@pytest.mark.parametrize(
    "sec, nanosec, expected",
    [
        (1_795_334_401, 123_456_789, 1_795_334_401_123_456_789),
        (2_147_483_647, 999_999_999, 2_147_483_647_999_999_999),
        (0, 1, 1),
        (-1, 999_999_999, -1),
    ],
)
def test_a_stamp_is_exact_to_the_nanosecond(sec, nanosec, expected):
    found = message_fields.stamp_nanoseconds(sent(Time(sec=sec, nanosec=nanosec)))
    assert found == expected and isinstance(found, int)


def test_what_is_no_value_is_rejected():
    pose, transform = Pose(), Transform()
    pose.orientation.w = 0.0
    with pytest.raises(ValueError, match="unit quaternion .* length 0"):
        message_fields.from_pose(pose)
    transform.translation.y = float("nan")
    with pytest.raises(ValueError, match=r"nan in translation\[1\]"):
        message_fields.from_transform(transform)
    wrench = Wrench()
    wrench.torque.x = float("inf")
    with pytest.raises(ValueError, match=r"inf in vector\[3\]"):
        message_fields.from_wrench(wrench)
    with pytest.raises(ValueError, match="mass: expected a finite number"):
        message_fields.from_inertia(InertiaMessage(m=float("nan")))
