# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Two publishers of the same joints, and positions that jump: named, and not followed."""

import math
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")

import rclpy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from dyn_ros.msg import ExternalContact
from dyn_ros.states import jumps

from .conftest import Q

PERIOD = 0.005  # s
TURN = 2.0 * math.pi


class Publishers:
    """Nodes that publish joint states, with stamps that advance."""

    def __init__(self, client, node, names, *node_names):
        self.client, self.names, self.time = client, names, 100.0
        self.nodes = [
            rclpy.create_node(name, namespace=node.namespace, context=client.context)
            for name in node_names
        ]
        self.full_names = [each.get_fully_qualified_name() for each in self.nodes]
        topic = node.topic("joint_states")
        self.publishers = [each.create_publisher(JointState, topic, 10) for each in self.nodes]
        for publisher in self.publishers:
            client.wait(publisher.get_subscription_count, topic)

    def say(self, position, number=0, names=None, effort=(), velocity=None):
        self.time += PERIOD
        message = JointState(
            name=names or self.names,
            position=list(map(float, position)),
            velocity=[0.0] * len(position) if velocity is None else list(map(float, velocity)),
            effort=list(map(float, effort)),
        )
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(round(self.time * 1e9), 1_000_000_000)
        self.publishers[number].publish(message)
        self.client.settle()

    def close(self):
        for each in self.nodes:
            each.destroy_node()


@pytest.fixture
def publish(client, arm):
    """Return a function that makes `Publishers` for a node."""
    made = []

    def make(node, *node_names):
        made.append(Publishers(client, node, list(arm.joint_names), *node_names))
        return made[-1]

    yield make
    client.stop_listening()
    for publishers in made:
        publishers.close()


@pytest.fixture
def dynamics(start):
    return start(command="gravity", command_scale="[1.0]")


@pytest.fixture
def forget(monkeypatch):
    """Return a function after which the jumps so far are long ago."""
    offset = 0.0
    clock = time.perf_counter
    monkeypatch.setattr(jumps.time, "perf_counter", lambda: clock() + offset)

    def later():
        nonlocal offset
        offset += 1.01 * jumps.HOLD

    return later


def test_two_publishers_of_the_same_joints_stop_the_command(client, dynamics, publish, forget):
    robot = publish(dynamics, "robot_driver", "joint_state_publisher")
    commands = client.listen(Float64MultiArray, dynamics.name + "/command")
    gravity = client.listen(JointState, dynamics.name + "/gravity")
    for _ in range(20):
        robot.say(Q)
    client.wait(lambda: len(commands) == 20, "commands")
    for k in range(60):
        robot.say(np.zeros(7) if k % 10 == 5 else Q, int(k % 10 == 5))
    client.wait(lambda: len(gravity) == 80, "gravity")
    assert len(commands) == 25
    assert len({tuple(each.data) for each in commands}) == 1

    status, values = client.diagnostics(dynamics)
    assert status.level == status.WARN
    assert "alternates between" in status.message
    for name in robot.full_names:
        assert name in status.message and name in dynamics.output()
    assert "stop one, or remap its topic" in status.message
    assert values["command"].startswith("gravity: the position of")
    assert "~/command stopped: the position of" in dynamics.output()

    forget()
    for _ in range(10):
        robot.say(Q)
    client.wait(lambda: len(commands) == 35, "commands")
    assert list(commands[-1].data) == list(commands[0].data)
    client.diagnostics(dynamics, lambda status, values: status.message == "running")


def test_rejected_messages_do_not_hide_the_publishers(client, dynamics, publish):
    """The clock of one publisher is ahead, so that messages of the others are late."""
    robot = publish(dynamics, "robot_driver", "joint_state_publisher", "wrist_driver")
    ahead = 0.1
    for k in range(60):
        is_ahead = k % 10 == 5
        robot.time += ahead * is_ahead
        robot.say(np.zeros(7) if is_ahead else Q, int(is_ahead))
        robot.time -= ahead * is_ahead
    status, values = client.diagnostics(dynamics)
    jump, _, rejection = status.message.partition("; joint_states rejected: its stamp is ")
    assert rejection and "older" in values["last rejection"]
    publisher, driver, wrist = sorted(robot.full_names)
    assert f"two publishers report it; of {publisher}, {driver} and {wrist}, which" in jump


def test_one_publisher_whose_positions_alternate_is_named(client, dynamics, publish):
    robot = publish(dynamics, "driver")
    for k in range(20):
        robot.say(Q + 0.5 * (k % 2))
    status, _ = client.diagnostics(dynamics)
    assert f"the only publisher on {dynamics.topic('joint_states')} is " in status.message
    assert f"{robot.full_names[0]}; check whether it combines two sources" in status.message


def test_publishers_of_different_joints_are_legitimate(client, dynamics, publish):
    robot = publish(dynamics, "arm_driver", "wrist_driver")
    commands = client.listen(Float64MultiArray, dynamics.name + "/command")
    for k in range(100):
        position = Q + 0.3 * math.sin(0.02 * k)
        robot.say(position[:5], 0, robot.names[:5])
        if k % 10 == 0:
            robot.say(position[5:], 1, robot.names[5:])
    client.wait(lambda: len(commands) > 80, "commands")
    client.diagnostics(dynamics, lambda status, values: status.message == "running")
    assert "jumped" not in dynamics.output()


@pytest.mark.parametrize("rows", [1, 5])
def test_a_glitch_is_named_and_not_commanded(client, dynamics, publish, rows):
    robot = publish(dynamics, "driver")
    commands = client.listen(Float64MultiArray, dynamics.name + "/command")
    for k in range(40):
        robot.say(Q + [0, 0, 0.5 * (20 <= k < 20 + rows), 0, 0, 0, 0])
    client.wait(lambda: len(commands) >= 20, "commands")
    status, values = client.diagnostics(dynamics)
    assert len({tuple(each.data) for each in commands}) == 1
    text = f"the position of upper_arm_roll jumped from {Q[2]:.6g} to {Q[2] + 0.5:.6g} at 100.105"
    assert text in status.message and text in dynamics.output()
    assert "upper_arm_roll" in values["last position jump"]


def say_whole_turn(robot):
    """Publish 40 states, in which a position jumps by a turn, with the velocity of this step."""
    for k in range(40):
        turned = Q + [0, 0, 0, 0, 0, TURN * (k >= 20), 0]
        robot.say(turned, velocity=np.eye(7)[5] * TURN / PERIOD * (k == 20))


def test_whole_turns_stop_nothing(client, dynamics, publish):
    robot = publish(dynamics, "driver")
    commands = client.listen(Float64MultiArray, dynamics.name + "/command")
    say_whole_turn(robot)
    client.wait(lambda: len(commands) == 40, "commands")
    assert np.ptp([each.data for each in commands], axis=0).max() < 1e-9
    _, values = client.diagnostics(dynamics, lambda status, _: status.message == "running")
    assert "by whole turns, which change no torque" in values["last position jump"]
    assert "by whole turns" in dynamics.output()


def test_the_velocity_of_a_turn_is_not_commanded(client, start, publish, arm):
    node = start(command="nle", command_scale="[1.0]")
    robot = publish(node, "driver")
    commands = client.listen(Float64MultiArray, node.name + "/command")
    say_whole_turn(robot)
    client.wait(lambda: len(commands) == 39, "commands")
    assert np.ptp([each.data for each in commands], axis=0).max() < 1e-9


def test_constraint_torques_are_not_followed_either(client, start, publish, forget):
    node = start(
        module="dyn_ros.nodes.vereshchagin_node",
        constraints="hold_pose",
        tip_frame="tool",
        command="constraint_torques",
        command_scale="[1.0]",
    )
    robot = publish(node, "driver")
    torques = client.listen(JointState, node.name + "/constraint_torques")
    commands = client.listen(Float64MultiArray, node.name + "/command")
    for k in range(40):
        robot.say(Q + 0.6 * (k >= 20))
    client.wait(lambda: len(commands) == 20, "commands")
    assert len(torques) == 20
    forget()
    for _ in range(10):
        robot.say(Q + 0.6)
    client.wait(lambda: len(commands) == 30 and len(torques) == 30, "commands")


@pytest.mark.parametrize("step", [0.4, TURN])
@pytest.mark.parametrize("rows", [1, 5, 30])
def test_a_glitch_is_no_collision(client, start, publish, arm, forget, step, rows):
    """The driver differentiates the positions."""
    import dyn_ros

    node = start(module="dyn_ros.nodes.observer_node")
    robot = publish(node, "driver")
    contacts = client.listen(ExternalContact, node.name + "/contacts")
    tau = dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), Q).copy()
    positions = np.tile(Q, (150, 1))
    positions[80 : 80 + rows, 1] += step
    velocities = np.diff(positions, axis=0, prepend=positions[:1]) / PERIOD
    for position, velocity in zip(positions, velocities):
        robot.say(position, effort=tau, velocity=velocity)
    forget()
    for _ in range(80):
        robot.say(Q, effort=tau)
    client.wait(lambda: len(contacts) >= 80, "contacts")
    assert not any(each.collision for each in contacts)
    assert "the position of shoulder_pitch jumped from" in node.output()
    # over whole turns, it only leaves out the states whose velocities contain them
    assert ("the observer restarts: the position of" in node.output()) == (step != TURN)
