# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""observer_node on a simulated arm: external efforts, wrenches, contacts, services, faults."""
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from geometry_msgs.msg import WrenchStamped
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState

import dyn_ros
from dyn_ros.msg import ExternalContact
from dyn_ros.srv import (
    CalibrateThresholds,
    ClearPayload,
    EstimateEffortDelay,
    EstimatePayload,
    SetPayload,
    Tare,
)

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
MODULE = "dyn_ros.nodes.observer_node"
Q = np.array([0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2])
DT = 1e-3
FORCE = np.array([3.0, -4.0, 12.0])


class Robot:
    """Publishes states of an arm that a controller holds still or moves, and forces act on."""

    def __init__(self, client, node, model, seconds=100.0):
        self.client, self.node, self.model = client, node, model
        self.data = dyn_ros.Data(model)
        self.publisher = client.publisher(JointState, node.topic("joint_states"))
        self.time = seconds
        self.names = [name for name, nv in zip(model.joint_names, model.nvs) if nv == 1]
        self.heard = None

    def message(self, q, v, tau, names=None):
        message = JointState(name=names or self.names, position=list(map(float, q)),
                             velocity=list(map(float, v)), effort=list(map(float, tau)))
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(round(self.time * 1e9), 1_000_000_000)
        return message

    def motion(self, swing):
        """Position, velocity, acceleration at the present time."""
        phase = 2.0 * np.arange(1, 8) ** 0.5
        return (Q + swing * np.sin(phase * self.time),
                swing * phase * np.cos(phase * self.time),
                -swing * phase ** 2 * np.sin(phase * self.time))

    def efforts(self, q, v, a, force=None, frame="tool"):
        """What the motors apply while a force in world axes acts on a frame."""
        tau = dyn_ros.rnea(self.model, self.data, q, v, a).copy()
        tau += dyn_ros.joint_friction(self.model, v)
        return tau - self.external(q, force, frame)

    def external(self, q, force, frame="tool"):
        if force is None:
            return np.zeros(self.model.nv)
        J = dyn_ros.frame_jacobian(self.model, self.data, q, frame, 2)
        return J[:3].T @ force

    def say(self, count, swing=0.0, force=None, frame="tool", change=lambda q, v, tau: (q, v, tau),
            step=DT):
        """Publish states one after the other, each processed before the next."""
        for _ in range(count):
            self.time += step
            q, v, a = self.motion(swing)
            tau = self.efforts(q, v, a, force, frame)
            self.publisher.publish(self.message(*change(q, v, tau)))
            self.client.settle()
        return q, v


@pytest.fixture(scope="module")
def node(start):
    return start(module=MODULE, gain=100.0)


@pytest.fixture(scope="module")
def robot(client, node, arm):
    return Robot(client, node, arm)


@pytest.fixture
def listen(client, node):
    def listen(topic, kind):
        return client.listen(kind, f"{node.name}/{topic}")
    yield listen
    client.stop_listening()


def numbers(vector):
    return np.array([vector.x, vector.y, vector.z])


def test_a_push_at_the_tool_is_published_as_efforts_wrench_and_contact(robot, listen):
    efforts = listen("external_efforts", JointState)
    wrenches = listen("external_wrench", WrenchStamped)
    contacts = listen("contacts", ExternalContact)
    robot.say(100, 0.2)
    assert np.abs(efforts[-1].effort).max() < 1e-3
    assert not contacts[-1].collision
    q, _ = robot.say(150, 0.2, FORCE)
    assert list(efforts[-1].name) == robot.names
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)
    R = dyn_ros.frame_placements(robot.model, robot.data, q)[
        robot.model.frame_index("tool")][:3, :3]
    assert wrenches[-1].header.frame_id == "tool"
    np.testing.assert_allclose(R @ numbers(wrenches[-1].wrench.force), FORCE, atol=0.2)
    np.testing.assert_allclose(numbers(wrenches[-1].wrench.torque), 0.0, atol=0.05)
    assert efforts[-1].header.stamp == contacts[-1].header.stamp
