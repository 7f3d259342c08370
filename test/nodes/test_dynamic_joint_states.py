# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Nodes that read dynamic_joint_states, whose interfaces state the units of efforts."""

import math
import sys

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
pytest.importorskip("control_msgs.msg", reason="no control_msgs: run `make test`")

from control_msgs.msg import DynamicJointState, InterfaceValue
from nodes.test_observer_node import FORCE, GAIN, MODULE, Robot
from sensor_msgs.msg import JointState
from states.feeding import SECOND, serialized_interfaces

import dyn_ros
from dyn_ros.msg import JointSpaceDynamics

from .conftest import ARM7, Q, V

SOURCE = {"joint_state_source": "dynamic_joint_states"}
IMU = InterfaceValue(interface_names=["orientation.x"], values=[0.5])


class Broadcaster(Robot):
    """Publishes states of an arm, with an IMU, as joint_state_broadcaster does."""

    topic, kind = "dynamic_joint_states", DynamicJointState

    def __init__(self, client, node, model, effort="torque"):
        super().__init__(client, node, model)
        self.interfaces = ["acceleration", effort, "position", "velocity"]

    def message(self, q, v, tau, names=None):
        message = DynamicJointState(joint_names=["imu", *self.names], interface_values=[IMU])
        for numbers in zip(tau, q, v):
            values = [math.nan, *map(float, numbers)]
            entry = InterfaceValue(interface_names=self.interfaces, values=values)
            message.interface_values.append(entry)
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(round(self.time * 1e9), SECOND)
        return message


def drives_file(folder):
    """A drives file of currents."""
    joints = dyn_ros.Model.from_urdf_file(ARM7).velocity_names
    lines = [f"  {name}: {{unit: A, gain: 4.0}}" for name in joints]
    (folder / "drives.yaml").write_text("\n".join(["joints:", *lines]))
    return folder / "drives.yaml"


def test_outputs_are_those_of_the_state_in_the_interfaces(client, start, arm):
    node = start(**SOURCE)
    robot = Broadcaster(client, node, arm)
    state = client.listen(JointSpaceDynamics, node.name + "/state")
    gravity = client.listen(JointState, node.name + "/gravity")
    other = client.node.create_publisher(JointState, node.topic("joint_states"), 10)
    data, unknown = dyn_ros.Data(arm), [math.nan] * 7
    for velocity in (V, unknown, V):
        robot.time += 1.0
        message, second = robot.message(Q, velocity, unknown), round(robot.time)
        client.wait(
            lambda second=second: state.at(second) and gravity.at(second),
            node.output(),
            again=lambda message=message: robot.publisher.publish(message),
        )
        answer = state.at(second)
        expected = dyn_ros.generalized_gravity(arm, data, Q)
        np.testing.assert_allclose(gravity.at(second).effort, expected, atol=1e-12)
        nle = dyn_ros.nonlinear_effects(arm, data, Q, V)
        np.testing.assert_allclose(answer.nle, nle if velocity is V else unknown, atol=1e-12)
        assert answer.velocity_valid == (velocity is V)
    assert other.get_subscription_count() == 0
    client.node.destroy_publisher(other)
    status, values = client.diagnostics(node)
    assert status.message == "running" and values["dynamic_joint_states received [Hz]"]
    client.stop_listening()


@pytest.mark.parametrize("order", "<>")
def test_a_joint_is_locked_at_its_position_in_the_interfaces(client, start, arm, order):
    node = start(**SOURCE, locked_joints=f"[{arm.joint_names[0]}]")
    client.diagnostics(
        node,
        lambda status, values: (
            status.message == f"waiting for the position of {arm.joint_names[0]}"
        ),
    )
    interfaces, values = [["position"]] * 7, [[q] for q in Q]
    data = serialized_interfaces(arm.joint_names, interfaces, values, SECOND, order=order)
    for _ in range(2):
        node.node.on_joint_states(data)
    assert node.node.robot.locked_positions == {arm.joint_names[0]: Q[0]}
    np.testing.assert_array_equal(node.node.robot.collector.q, Q[1:])


def test_what_cannot_be_used_is_named(client, start, arm):
    node = start(**SOURCE)
    last = arm.joint_names[-1]
    robot = Broadcaster(client, node, arm)
    incomplete = robot.message(Q, V, V)
    incomplete.interface_values.pop()
    robot.publisher.publish(incomplete)
    client.diagnostics(
        node,
        lambda _, values: (
            values["last rejection"] == "dynamic_joint_states: 8 joint_names, but 7 "
            "interface_values; expected one for each name"
        ),
    )
    robot.publisher.publish(robot.message([*Q[:-1], math.nan], V, V))
    client.diagnostics(
        node,
        lambda status, _: status.message.startswith(
            f"waiting for the position of {last}; dynamic_joint_states has NaN for {last}"
        ),
    )


@pytest.mark.parametrize("interface", ["torque", "force", "effort"])
def test_torques_show_a_push_without_a_drives_file(client, start, arm, interface):
    node = start(module=MODULE, gain=GAIN, smoothing=GAIN, **SOURCE)
    robot = Broadcaster(client, node, arm, interface)
    efforts = client.listen(JointState, f"{node.name}/external_efforts")
    robot.say(100, 0.2)
    q, _ = robot.say(150, 0.2, FORCE)
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)
    client.stop_listening()


@pytest.mark.parametrize("interface", ["current", "effort"])
def test_currents_need_the_gains_of_the_drives_file(client, start, arm, tmp_path, interface):
    drives = drives_file(tmp_path)
    node = start(module=MODULE, gain=GAIN, smoothing=GAIN, drives=drives, **SOURCE)
    robot = Broadcaster(client, node, arm, interface)
    efforts = client.listen(JointState, f"{node.name}/external_efforts")

    def currents(q, v, tau):
        return q, v, tau / 4.0

    robot.say(100, 0.2, change=currents)
    q, _ = robot.say(150, 0.2, FORCE, change=currents)
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)
    client.stop_listening()


@pytest.mark.parametrize(
    "interface, has_drives, words",
    [
        (
            "torque",
            True,
            "its effort is the interface torque, in N m, but its drive declares A: remove its "
            "unit and gain from the drives file",
        ),
        (
            "current",
            False,
            "its effort is the interface current, in A, but its drive declares N m: declare "
            "unit: A, and gain, in N m or N for 1 A, in a drives file",
        ),
    ],
)
def test_a_drives_file_that_contradicts_the_interface_is_named(
    client, start, arm, tmp_path, interface, has_drives, words
):
    drives = drives_file(tmp_path) if has_drives else None
    node = start(module="dyn_ros.nodes.dyn_ros_node", drives=drives, **SOURCE)
    robot = Broadcaster(client, node, arm, interface)
    efforts = client.listen(JointState, f"{node.namespace}/observer/external_efforts")
    gravity = client.listen(JointState, f"{node.namespace}/dynamics/gravity")
    robot.say(100, 0.2)
    assert len(gravity) == 100 and not efforts
    observer = next(each for each in node.nodes() if each.get_name() == "observer")
    expected = f"nothing is published: joint '{arm.joint_names[0]}': {words}"
    assert observer.waiting_reason() == expected
    client.stop_listening()


def test_a_missing_package_is_named_with_the_command_that_installs_it(start, monkeypatch):
    monkeypatch.setitem(sys.modules, "control_msgs.msg", None)
    node = start(**SOURCE)
    assert "joint_state_source dynamic_joint_states requires control_msgs" in node.output()
    assert "sudo apt install ros-$ROS_DISTRO-control-msgs" in node.output()
    assert node.node.state_label == "unconfigured"


def test_another_source_is_refused(client, start):
    node = start()
    done, reason = client.set_parameters(node, **SOURCE)
    assert not done and "read-only" in reason
