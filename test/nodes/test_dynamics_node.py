# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""dynamics_node in the test process and in a process of its own."""

import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import GetState
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String

import dyn_ros
from dyn_ros.msg import JointSpaceDynamics, JointSpaceInertia

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
POSITION = [0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2]
VELOCITY = [0.5, 0.4, -0.3, 0.2, -0.1, 0.6, 0.7]

TWO_JOINTS = """<robot name="two">
  <link name="base"/>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="cart"/>
    <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="50" velocity="1"/></joint>
  <link name="cart"><inertial><mass value="2"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="swing" type="continuous"><parent link="cart"/><child link="pole"/>
    <axis xyz="0 1 0"/></joint>
  <link name="pole"><inertial><origin xyz="0 0 0.5"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="follower" type="revolute"><parent link="pole"/><child link="tip"/>
    <origin xyz="0 0 1"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="5" velocity="1"/>
    <mimic joint="swing" multiplier="-0.5" offset="0.1"/></joint>
  <link name="tip"><inertial><origin xyz="0.2 0 0"/><mass value="0.5"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>"""


@pytest.fixture(scope="module")
def node(client, start):
    node = start()
    client.diagnostics(node, lambda _, values: values["lifecycle state"] == "active")
    return node


@pytest.fixture
def speak(client, node):
    yield client.speaker(node)
    client.stop_listening()


@pytest.fixture
def settings(client, node):
    """Set parameters of the node; restore them after the test."""
    back = {}
    was = {
        "max_rate": 0.0,
        "joints": (Parameter.Type.STRING_ARRAY, []),
        "root_joint": "fixed",
        "armature": (Parameter.Type.DOUBLE_ARRAY, []),
        "gravity": [0.0, 0.0, -9.81],
        "base_source": "odometry",
        "mimic": "project",
        "frame_id": "",
        "use_sim_time": False,
        "base_pose": [0.0] * 6 + [1.0],
        "base_twist": [0.0] * 6,
        "staleness": 0.5,
    }

    def settings(**values):
        back.update({name: was[name] for name in values})
        assert client.set_parameters(node, **values) == (True, "")

    yield settings
    assert client.set_parameters(node, **back) == (True, "")


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def matrix(message):
    return np.reshape(message.data, (message.rows, message.cols))


def state_of(model, names=None):
    """Positions and velocities of the arm, as dict by name and as the model orders them."""
    by_name = dict(zip(model.joint_names, zip(POSITION, VELOCITY)))
    position = [by_name[name][0] for name in names or model.joint_names]
    velocity = [by_name[name][1] for name in names or model.joint_names]
    return position, velocity


# What is published


def test_all_outputs_are_the_engines_whatever_the_order_of_names(client, node, speak, arm):
    names = [arm.joint_names[i] for i in (4, 2, 6, 0, 1, 5, 3)]
    position, velocity = state_of(arm, names)
    outputs = [
        client.listen(kind, node.name + topic)
        for kind, topic in (
            (JointState, "/gravity"),
            (JointState, "/nle"),
            (JointSpaceInertia, "/inertia"),
            (JointSpaceDynamics, "/state"),
        )
    ]
    message = speak.message(["other", *names], [math.nan, *position], [math.nan, *velocity])
    message.header.stamp.nanosec = 123456789
    gravity, nle, inertia, state = speak.ask(message, *outputs)

    data = dyn_ros.Data(arm)
    q, v = np.array(POSITION), np.array(VELOCITY)
    for each in (gravity, nle, inertia, state):
        assert list(each.name) == list(arm.velocity_names)
        assert each.header.frame_id == "base_link"
        assert each.header.stamp == message.header.stamp
    close(gravity.effort, dyn_ros.generalized_gravity(arm, data, q))
    close(nle.effort, dyn_ros.nonlinear_effects(arm, data, q, v))
    close(matrix(inertia.inertia), dyn_ros.crba(arm, data, q))
    assert list(state.position_name) == list(arm.joint_names)
    assert state.velocity_valid
    close(state.position, q)
    close(state.velocity, v)
    close(state.gravity, gravity.effort)
    close(state.nle, nle.effort)
    close(matrix(state.inertia), matrix(inertia.inertia))


def test_joints_picks_rows_and_their_order(client, node, speak, settings, arm):
    state = client.listen(JointSpaceDynamics, node.name + "/state")
    inertia = client.listen(JointSpaceInertia, node.name + "/inertia")
    rows = [5, 0, 3]
    names = [arm.joint_names[i] for i in rows]
    settings(joints=names, armature=[0.1, 0.2, 0.3], frame_id="somewhere")
    answer, alone = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state, inertia)
    data = dyn_ros.Data(arm)
    M = np.array(dyn_ros.crba(arm, data, np.array(POSITION)))
    assert list(answer.name) == names == list(answer.position_name)
    assert answer.header.frame_id == "somewhere"
    close(answer.position, np.array(POSITION)[rows])
    close(answer.velocity, np.array(VELOCITY)[rows])
    close(answer.gravity, dyn_ros.generalized_gravity(arm, data, np.array(POSITION))[rows])
    close(matrix(answer.inertia), M[np.ix_(rows, rows)] + np.diag([0.1, 0.2, 0.3]))
    close(matrix(alone.inertia), matrix(answer.inertia))


def test_gravity_is_the_parameters(client, node, speak, settings, arm):
    gravity = client.listen(JointState, node.name + "/gravity")
    settings(gravity=[1.0, 2.0, 3.0])
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    model = dyn_ros.Model.from_urdf_file(ARM7, gravity=(1.0, 2.0, 3.0))
    data = dyn_ros.Data(model)
    close(answer.effort, dyn_ros.generalized_gravity(model, data, np.array(POSITION)))


def test_several_publishers_give_one_output_for_each_round(client, node, speak, arm):
    gravity = client.listen(JointState, node.name + "/gravity")
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    parts = [(arm.joint_names[:3], POSITION[:3]), (arm.joint_names[3:], POSITION[3:])]
    before = len(gravity)
    for step in range(20):
        for later, (names, values) in zip((1, 0), parts):
            message = speak.message(names, np.array(values) + step, later=later)
            speak.send(message)
        client.wait(lambda stamp=message.header.stamp.sec: gravity.at(stamp), "the end of a round")
    client.diagnostics(node)
    assert len(gravity) == before + 20
    q = np.array(POSITION) + 19
    close(gravity[-1].effort, dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q))


def test_a_part_that_stays_behind_holds_the_output_back(client, node, speak, settings, arm):
    gravity = client.listen(JointState, node.name + "/gravity")
    settings(staleness=5.0)
    first, second = arm.joint_names[:3], arm.joint_names[3:]
    client.diagnostics(node, lambda status, values: float(values["states [Hz]"]) == 0.0)
    early = speak.send(speak.message(first, POSITION[:3], later=1))
    late = speak.send(speak.message(second, POSITION[3:], later=10))
    _, values = client.diagnostics(
        node, lambda status, values: "waiting" in status.message and first[0] in status.message
    )
    assert float(values["states [Hz]"]) == 0.0
    [answer] = speak.ask(speak.message(first, POSITION[:3], later=1), gravity)
    assert not gravity.at(early) and not gravity.at(late)
    close(answer.effort, dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), np.array(POSITION)))


def test_without_velocity_all_but_nle_comes(client, node, speak, arm):
    outputs = [
        client.listen(kind, node.name + topic)
        for kind, topic in (
            (JointState, "/gravity"),
            (JointSpaceInertia, "/inertia"),
            (JointSpaceDynamics, "/state"),
        )
    ]
    nle = client.listen(JointState, node.name + "/nle")
    message = speak.message(arm.joint_names, POSITION)
    gravity, inertia, state = speak.ask(message, *outputs)
    data = dyn_ros.Data(arm)
    close(gravity.effort, dyn_ros.generalized_gravity(arm, data, np.array(POSITION)))
    close(matrix(inertia.inertia), dyn_ros.crba(arm, data, np.array(POSITION)))
    close(state.gravity, gravity.effort)
    assert not state.velocity_valid
    assert len(state.velocity) == len(state.nle) == len(state.name)
    assert np.isnan([state.velocity, state.nle]).all()
    status, _ = client.diagnostics(node, lambda status, values: "velocity" in status.message)
    assert all(name in status.message for name in arm.joint_names)
    speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), nle)
    assert not nle.at(message.header.stamp.sec)


def test_a_floating_base_takes_odometry(client, node, speak, settings, arm):
    settings(root_joint="floating")
    state = client.listen(JointSpaceDynamics, node.name + "/state")
    odometry = client.publisher(Odometry, node.topic("odom"))
    message = speak.message(arm.joint_names, POSITION, VELOCITY)
    base = Odometry(child_frame_id="base_link")
    base.header = message.header
    base.header.frame_id = "odom"
    pose, twist = base.pose.pose, base.twist.twist
    pose.position.x, pose.position.y, pose.position.z = 1.0, 2.0, 3.0
    orientation = np.array([0.1, -0.2, 0.3, 0.9]) / np.linalg.norm([0.1, -0.2, 0.3, 0.9])
    o = pose.orientation
    o.x, o.y, o.z, o.w = orientation
    twist.linear.x, twist.linear.y, twist.linear.z = 0.1, 0.2, 0.3
    twist.angular.x, twist.angular.y, twist.angular.z = 0.4, 0.5, 0.6

    def send():
        odometry.publish(base)
        speak.send(message)

    client.wait(lambda: state.at(message.header.stamp.sec), node.output(), again=send)
    answer = state.at(message.header.stamp.sec)

    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
    data = dyn_ros.Data(model)
    q = np.concatenate([[1.0, 2.0, 3.0], orientation, POSITION])
    v = np.concatenate([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], VELOCITY])
    assert list(answer.name) == list(model.velocity_names)
    assert list(answer.position_name)[:7] == [
        "root_joint/" + each for each in ("x", "y", "z", "qx", "qy", "qz", "qw")
    ]
    close(answer.position, q)
    close(answer.velocity, v)
    close(answer.nle, dyn_ros.nonlinear_effects(model, data, q, v))
    close(matrix(answer.inertia), dyn_ros.crba(model, data, q))
    transform = "if tf contains a transform from 'odom' to 'base_link'"
    assert node.output().count(transform) == 1
    settings(gravity=[0.0, 0.0, -9.8])  # computes the robot again, which looks the same
    settings(gravity=[0.0, 0.0, -9.81])
    assert node.output().count(transform) == node.output().count(" 13 coordinates, ") == 1

    twist.angular.z = math.nan
    base.header.stamp.sec += 1
    message.header.stamp.sec += 1
    gravity = client.listen(JointState, node.name + "/gravity")
    client.wait(lambda: gravity.at(message.header.stamp.sec), node.output(), again=send)
    answer = gravity.at(message.header.stamp.sec)
    close(answer.effort, dyn_ros.generalized_gravity(model, data, q))
    client.diagnostics(
        node, lambda status, values: status.message == "unknown velocity of root_joint"
    )

    refused = {
        "child_frame_id": lambda: setattr(base, "child_frame_id", "camera"),
        "the norm of the base's quaternion": lambda: setattr(o, "w", 3.0),
        "pose is not finite": lambda: setattr(pose.position, "x", math.nan),
    }
    for reason, spoil in refused.items():
        base.child_frame_id, o.w, pose.position.x = "", float(orientation[3]), 1.0
        base.header.stamp.sec += 1
        spoil()
        odometry.publish(base)
        client.diagnostics(
            node, lambda status, values, reason=reason: reason in values["last rejection"]
        )


def test_a_planar_base_takes_its_parameters(client, node, speak, settings, arm):
    yaw = 0.7
    settings(
        root_joint="planar",
        base_source="parameter",
        base_pose=[1.0, 2.0, 0.0, 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)],
        base_twist=[0.1, 0.2, 0.0, 0.0, 0.0, 0.3],
    )
    state = client.listen(JointSpaceDynamics, node.name + "/state")
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state)
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="planar")
    q, v = np.array([1.0, 2.0, yaw, *POSITION]), np.array([0.1, 0.2, 0.3, *VELOCITY])
    assert list(answer.position_name)[:3] == ["root_joint/x", "root_joint/y", "root_joint/theta"]
    close(answer.position, q)
    close(answer.nle, dyn_ros.nonlinear_effects(model, dyn_ros.Data(model), q, v))


def test_a_message_without_stamp_counts_from_now_in_simulated_time(
    client, node, speak, settings, arm
):
    settings(use_sim_time=True)
    clock = client.publisher(Clock, "/clock")
    time = Clock()
    time.clock.sec = 5000
    gravity = client.listen(JointState, node.name + "/gravity")
    message = speak.message(arm.joint_names, POSITION)
    message.header.stamp.sec = 0

    def send():
        clock.publish(time)
        speak.send(message)

    client.wait(lambda: gravity.at(5000), "an answer in simulated time", again=send)
    speak.seconds = 5000


def test_stamps_that_jump_back_are_a_new_start(client, node, speak, arm):
    gravity = client.listen(JointState, node.name + "/gravity")
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    speak.ask(speak.message(arm.joint_names, POSITION, later=-500), gravity)
    client.wait(lambda: "stamps jumped back by 500 s" in node.output(), "a warning in the log")


# When it is computed


def test_computes_only_what_someone_subscribes_to(client, node, speak, arm):
    def computing(*topics):
        """Wait for a second with states in which exactly these topics were computed."""

        def ready(status, values):
            speak.send(speak.message(arm.joint_names, POSITION, VELOCITY))
            return (
                values["computing"] == ", ".join(topics)
                and float(values["states [Hz]"]) > 0
                and (float(values["messages published [Hz]"]) > 0) == bool(topics)
            )

        client.diagnostics(node, ready)

    computing()
    nle = client.listen(JointState, node.name + "/nle")
    inertia = client.listen(JointSpaceInertia, node.name + "/inertia")
    computing("~/nle", "~/inertia")
    client.stop_listening(nle)
    computing("~/inertia")
    client.stop_listening(inertia)
    computing()


def test_max_rate_thins(client, node, speak, settings, arm):
    gravity = client.listen(JointState, node.name + "/gravity")
    settings(max_rate=0.5)
    messages = [speak.message(arm.joint_names, POSITION) for _ in range(40)]
    for message in messages:
        speak.send(message)
    last = messages[-1].header.stamp.sec
    client.diagnostics(node, lambda status, values: float(values["states [Hz]"]) > 0)
    assert len(gravity) <= 3 and not gravity.at(last)
    settings(max_rate=0.0)
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)


# Invalid input: each is rejected with a reason, and the node continues


BAD_MESSAGES = {
    "no joint names": ([], [], [], []),
    "duplicate joint names: shoulder_yaw": (["shoulder_yaw"] * 2, [0.0, 1.0], [], []),
    "2 names, but 1 positions": (["shoulder_yaw", "elbow_pitch"], [0.0], [], []),
    "1 names, but 0 positions": (["shoulder_yaw"], [], [], []),
    "1 names, but 1 positions, 2 velocities": (["shoulder_yaw"], [0.0], [1.0, 2.0], []),
    "0 velocities and 3 efforts": (["shoulder_yaw"], [0.0], [], [1.0, 2.0, 3.0]),
    "position is not finite: elbow_pitch = -inf": (
        ["shoulder_yaw", "elbow_pitch"],
        [0.0, -math.inf],
        [],
        [],
    ),
    "position is not finite: shoulder_yaw = inf": (
        ["shoulder_yaw", "elbow_pitch"],
        [math.inf, -math.inf],
        [],
        [],
    ),
    "velocity is not finite: shoulder_yaw = inf": (["shoulder_yaw"], [0.0], [math.inf], []),
    "velocity is too large: shoulder_yaw = 1e+300": (["shoulder_yaw"], [0.0], [1e300], []),
}


@pytest.mark.parametrize("reason", BAD_MESSAGES)
def test_a_bad_message_is_rejected(client, node, speak, arm, reason):
    gravity = client.listen(JointState, node.name + "/gravity")
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    bad = speak.send(speak.message(*BAD_MESSAGES[reason]))
    client.diagnostics(
        node,
        lambda status, values: reason in values["last rejection"] and "rejected" in status.message,
    )
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    assert not gravity.at(bad)


def test_a_stamp_slightly_back_is_rejected(client, node, speak, arm):
    gravity = client.listen(JointState, node.name + "/gravity")
    message = speak.message(arm.joint_names, POSITION)
    message.header.stamp.nanosec = 300_000_000
    speak.ask(message, gravity)
    message.header.stamp.nanosec = 200_000_000
    speak.send(message)
    client.diagnostics(
        node, lambda status, values: "its stamp is 0.1 s older" in values["last rejection"]
    )
    assert len([m for m in gravity if m.header.stamp == message.header.stamp]) == 0
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)


def test_nan_velocities_are_unknown_and_gravity_is_published(client, node, speak, arm):
    """joint_state_broadcaster writes NaN for an interface that the hardware lacks."""
    gravity, nle = (client.listen(JointState, f"{node.name}/{each}") for each in ("gravity", "nle"))
    for velocity in ([math.nan] * 7, [math.nan, *VELOCITY[1:]]):
        message = speak.message(arm.joint_names, POSITION, velocity, [math.nan] * 7)
        [answer] = speak.ask(message, gravity)
        expected = dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), np.array(POSITION))
        np.testing.assert_allclose(answer.effort, expected, atol=1e-12)
        unknown = [name for name, v in zip(arm.joint_names, velocity) if math.isnan(v)]

        def reported(status, values, message=message, unknown=unknown):
            speak.send(message)
            return status.message == "unknown velocity of " + ", ".join(unknown)

        client.diagnostics(node, reported)
    assert not nle
    speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), gravity, nle)


def test_a_gripper_with_nan_is_named_and_may_be_locked(client, start, arm):
    node = start()
    speak, last = client.speaker(node), arm.joint_names[-1]
    gravity = client.listen(JointState, node.name + "/gravity")
    message = speak.message(arm.joint_names, [*POSITION[:-1], math.nan], VELOCITY)

    def reported(status, values):
        speak.send(message)
        return status.message.startswith(
            f"waiting for the position of {last}; joint_states has NaN for {last}"
        )

    client.diagnostics(node, reported)
    assert not gravity
    assert client.set_parameters(node, locked_joints=[f"{last}=0.1"]) == (True, "")
    [answer] = speak.ask(message, gravity)
    assert answer.name == list(arm.joint_names[:-1])


def test_diagnostics_stay_bad_after_a_description_that_is_rejected(client, start, arm):
    node = start()
    speak, gravity = client.speaker(node), client.listen(JointState, node.name + "/gravity")
    descriptions = client.publisher(
        String,
        node.topic("robot_description"),
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
    )

    def shows(text):
        """Wait for diagnostics with a text while outputs are published."""
        message = speak.message(arm.joint_names, POSITION, VELOCITY)
        speak.ask(message, gravity)
        client.diagnostics(node, lambda status, values: text in status.message)

    for text in ("<robot>", "<robot", ARM7.read_text()):
        descriptions.publish(String(data=text))
        expected = "running" if "joint" in text else "topic robot_description rejected: "
        for _ in range(3):  # rejected messages are counted for one second only
            shows(expected)


def test_a_silent_topic_is_named(client, start):
    node = start()
    text = f"no message on {node.topic('joint_states')} in the last second"
    client.diagnostics(node, lambda status, values: text in status.message)


def test_unknown_and_missing_names_are_reported(client, start):
    node = start()
    speak = client.speaker(node)
    speak.send(speak.message(["nobody", "shoulder_yaw"], [0.0, 0.0]))

    def reported(status, values):
        speak.send(speak.message(["nobody", "shoulder_yaw"], [0.0, 0.0]))
        return (
            "waiting for the position of shoulder_pitch" in status.message
            and "not in the model: nobody" in status.message
        )

    client.diagnostics(node, reported)
    client.diagnostics(node, lambda *_: "not in the model: nobody" in node.output())


def test_names_that_stop_matching_are_reported(client, start, arm):
    """As when a driver that has started again adds a prefix."""
    node = start()
    speak, gravity = client.speaker(node), client.listen(JointState, node.name + "/gravity")
    speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), gravity)
    names = [f"left_{name}" for name in arm.joint_names]

    def reported(status, values):
        speak.send(speak.message(names, POSITION, VELOCITY))
        return status.message.startswith(
            "no state received in the last second; not in the model: left_shoulder_yaw"
        )

    client.diagnostics(node, reported)
    speak.send(speak.message(["gripper", *names], [0.0, *POSITION], [0.0, *VELOCITY]))
    client.diagnostics(node, reported)
    speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), gravity)
    client.diagnostics(node, lambda status, values: status.message == "running")


def test_a_second_publisher_does_not_hide_names(client, start, arm):
    node = start()
    speak = client.speaker(node)
    first, *others = arm.joint_names

    def reported(status, values):
        for name, rest in (("nobody", others[:-1]), (first, [])):
            speak.send(speak.message([name, *rest], [0.0] * (1 + len(rest))))
        return (
            status.message.startswith("waiting for the position of")
            and "not in the model: nobody" in status.message
        )

    for _ in range(3):
        client.diagnostics(node, reported)


def test_a_flood_neither_stops_nor_grows_the_node(client, start_process, arm):
    node = start_process()
    speak = client.speaker(node)
    gravity = client.listen(JointState, node.name + "/gravity")
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)

    def flood(count):
        good = speak.message(arm.joint_names, POSITION, VELOCITY)
        bad = speak.message(arm.joint_names, [math.inf] * 7, VELOCITY)
        for i in range(count):
            good.header.stamp.nanosec = bad.header.stamp.nanosec = i
            speak.send(bad if i % 10 == 0 else good)
            if i % 100 == 0:
                client.spin(0.0)

    flood(5000)
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    before = node.resident()
    flood(20000)
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    assert node.resident() < before + 10.0
    assert node.output().count("is not finite") < 50
    client.stop_listening()


BAD_PARAMETERS = {
    "max_rate out of range": {"max_rate": -1.0},
    "Wrong parameter type": {"max_rate": "fast"},
    "staleness out of range": {"staleness": 0.0},
    "expected one of fixed, floating, planar, but got 'flying'": {"root_joint": "flying"},
    "gravity: expected 3 numbers, but got 2": {"gravity": [0.0, 0.0]},
    "gravity: expected finite numbers": {"gravity": [0.0, 0.0, math.nan]},
    "gravity: expected numbers from -1e+06 to 1e+06": {"gravity": [0.0, 0.0, -1e300]},
    "there is no joint 'nobody'; available: shoulder_yaw": {"joints": ["nobody"]},
    "duplicate names in": {"joints": ["shoulder_yaw", "shoulder_yaw"]},
    "armature: expected 7 numbers": {"armature": [1.0]},
    "armature: expected numbers >= 0": {"armature": [-1.0] * 7},
    "base_pose: expected 7 numbers": {"base_pose": [1.0]},
    "base_pose, base_twist: the norm": {
        "base_pose": [0.0] * 6 + [2.0],
        "base_source": "parameter",
        "root_joint": "planar",
    },
    "read-only": {"autostart": False},
    "No such file": {"robot_description_file": "/nowhere/robot.urdf"},
    "not well-formed XML": {"robot_description": "<robot"},
}


@pytest.mark.parametrize("reason", BAD_PARAMETERS)
def test_a_bad_parameter_is_rejected(client, node, speak, arm, reason):
    done, why = client.set_parameters(node, **BAD_PARAMETERS[reason])
    assert not done
    assert reason in why
    gravity = client.listen(JointState, node.name + "/gravity")
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    close(answer.effort, dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), np.array(POSITION)))


def test_bad_parameters_at_start_are_reported_and_can_be_corrected(client, start, arm):
    node = start(max_rate="fast", joints="[nobody]", staleness=-1.0)
    status, values = client.diagnostics(node, lambda status, values: status.level == status.ERROR)
    assert "max_rate" in status.message and "staleness" in status.message
    assert values["lifecycle state"] == "unconfigured"
    assert client.set_parameters(node, max_rate=0.0, staleness=0.5) == (True, "")
    assert client.change_state(node, Transition.TRANSITION_CONFIGURE)
    assert client.change_state(node, Transition.TRANSITION_ACTIVATE)
    status, values = client.diagnostics(node, lambda status, values: values["last rejection"])
    assert "there is no joint 'nobody'" in values["last rejection"]
    done, why = client.set_parameters(node, joints=["nobody_else"])
    assert not done and "there is no joint 'nobody_else'" in why
    assert client.set_parameters(node, joints=["elbow_pitch"]) == (True, "")
    speak = client.speaker(node)
    gravity = client.listen(JointState, node.name + "/gravity")
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    assert list(answer.name) == ["elbow_pitch"]


def test_a_broken_description_file_is_named(client, start, tmp_path):
    path = tmp_path / "broken.urdf"
    path.write_text("<robot")
    node = start(robot_description_file=path)
    text = f"robot_description_file {str(path)!r} rejected: not well-formed XML"
    client.diagnostics(node, lambda status, values: text in status.message)
    topic = node.topic("robot_description")
    waiting = f"waiting for robot_description: the topic {topic} has no publishers"
    client.diagnostics(node, lambda status, values: waiting in status.message)
    assert text in node.output() and waiting in node.output()


@pytest.mark.parametrize("path", ["~/arm.urdf", "~/../{home}/arm.urdf"])
def test_a_path_in_the_home_folder(client, start, tmp_path, monkeypatch, path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "arm.urdf").write_text(ARM7.read_text())
    node = start(robot_description_file=path.format(home=tmp_path.name))
    client.diagnostics(node, lambda status, values: values["robot"] == "arm7")


@pytest.mark.parametrize(
    "arguments", [("-p", "max_rate:="), ("-p", "use_sim_time:=3"), ("-r", "__node:=no name")]
)
def test_arguments_that_ros_rejects_end_it_with_one_line(start_process, arguments):
    node = start_process(*arguments)
    assert node.process.wait(60) == 1
    assert "dynamics: " in node.output() and "Traceback" not in node.output()


# The robot changes


def test_a_new_robot_description_replaces_the_robot_and_a_bad_one_does_not(client, start):
    node = start(robot_description_file=None)
    speak = client.speaker(node)
    latched = {
        "durability": DurabilityPolicy.TRANSIENT_LOCAL,
        "reliability": ReliabilityPolicy.RELIABLE,
    }
    descriptions = client.publisher(String, node.topic("robot_description"), **latched)
    state = client.listen(JointSpaceDynamics, node.name + "/state")
    client.diagnostics(node, lambda status, values: "robot_description" in status.message)

    descriptions.publish(String(data=TWO_JOINTS))
    names, position, velocity = ["swing", "follower", "slide"], [0.3, 9.0, 0.1], [2.0, 9.0, 0.4]
    [answer] = speak.ask(speak.message(names, position, velocity), state)
    model = dyn_ros.Model.from_urdf(TWO_JOINTS)
    q, v = np.array([0.1, 0.3]), np.array([0.4, 2.0])
    assert list(answer.name) == ["slide", "swing"] == list(model.velocity_names)
    close(answer.nle, dyn_ros.nonlinear_effects(model, dyn_ros.Data(model), q, v))

    for bad in ("", "no XML", TWO_JOINTS.replace('parent link="cart"', 'parent link="nobody"')):
        descriptions.publish(String(data=bad))
        client.diagnostics(node, lambda status, values: "topic robot_description" in status.message)
        [again] = speak.ask(speak.message(names, position, velocity), state)
        close(again.nle, answer.nle)
    assert "nobody" in node.output()
    done, why = client.set_parameters(node, joints=["follower"])
    assert not done and "mimic" in why

    descriptions.publish(String(data=ARM7.read_text()))
    client.diagnostics(node, lambda status, values: values["robot"] == "arm7")
    arm = dyn_ros.Model.from_urdf_file(ARM7)
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state)
    assert list(answer.name) == list(arm.velocity_names)
    assert client.set_parameters(node, robot_description=TWO_JOINTS) == (True, "")
    [answer] = speak.ask(speak.message(names, position, velocity), state)
    assert list(answer.name) == ["slide", "swing"]


def test_mimic_joints_can_be_ignored(client, start):
    node = start(robot_description_file=None, mimic="ignore")
    assert client.set_parameters(node, robot_description=TWO_JOINTS) == (True, "")
    speak = client.speaker(node)
    state = client.listen(JointSpaceDynamics, node.name + "/state")
    message = speak.message(["swing", "follower", "slide"], [0.3, 0.9, 0.1], [2.0, 0.8, 0.4])
    [answer] = speak.ask(message, state)
    model = dyn_ros.Model.from_urdf(TWO_JOINTS, mimic="ignore")
    assert list(answer.name) == list(model.velocity_names)
    q, v = np.array([0.1, 0.3, 0.9]), np.array([0.4, 2.0, 0.8])
    close(answer.nle, dyn_ros.nonlinear_effects(model, dyn_ros.Data(model), q, v))


# Lifecycle and end


def test_lifecycle(client, start, arm):
    node = start(autostart="false")

    def state():
        answer = client.call(GetState, node.name + "/get_state", GetState.Request())
        return answer.current_state.label

    speak = client.speaker(node)
    assert state() == "unconfigured"
    assert client.change_state(node, Transition.TRANSITION_CONFIGURE)
    assert state() == "inactive"
    gravity = client.listen(JointState, node.name + "/gravity")
    silent = []

    def collect():
        """Send states until the node says that it has taken one."""

        def taken(status, values):
            if float(values["states [Hz]"]) > 0:
                return True
            silent.append(speak.send(speak.message(arm.joint_names, POSITION)))
            return False

        client.diagnostics(node, taken)

    collect()
    assert client.change_state(node, Transition.TRANSITION_ACTIVATE)
    assert state() == "active"
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    assert not any(map(gravity.at, silent))
    assert client.change_state(node, Transition.TRANSITION_DEACTIVATE)
    collect()
    assert client.change_state(node, Transition.TRANSITION_CLEANUP)
    assert state() == "unconfigured"
    assert client.change_state(node, Transition.TRANSITION_CONFIGURE)
    assert client.change_state(node, Transition.TRANSITION_ACTIVATE)
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    assert not any(map(gravity.at, silent))
    for impossible in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_CLEANUP, 77):
        assert not client.change_state(node, impossible)
        assert state() == "active"
    assert "Traceback" not in node.output() and "FATAL" not in node.output()
    speak.ask(speak.message(arm.joint_names, POSITION), gravity)
    assert client.change_state(node, Transition.TRANSITION_ACTIVE_SHUTDOWN)
    assert state() == "finalized"


def test_ends_cleanly_while_it_compiles(client, start_process, monkeypatch, tmp_path):
    """In four processes at the same time, each in another stage of compiling."""
    pytest.importorskip("numba", reason="nothing can be compiled")
    nodes = []
    for number in range(4):
        monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / str(number)))
        nodes.append(start_process())
    for node, later in zip(nodes, (0.0, 0.7, 1.2, 1.2)):
        client.wait(lambda node=node: "compiling" in node.output(), "the line about compiling")
        time.sleep(later)
        assert node.stop() == 0
        assert "Traceback" not in node.output()
        assert "active" not in node.output()


ENDED_IN = """
import os, signal, sys, time
from dyn_ros.nodes.base.robot_node import RobotNode, run_node
from dyn_ros.nodes.base.stop_signals import stop_signals

def end():
    os.kill(os.getpid(), signal.Signals[sys.argv[2]])
    while not stop_signals.received:
        time.sleep(0.01)

class Node(RobotNode):
    def __init__(self, *args):
        super().__init__(*args)
        if sys.argv[1] == "construction":
            end()

    def on_activate(self, state):
        if sys.argv[1] == "activation":
            end()
        while sys.argv[1] == "deaf":
            end()
        return super().on_activate(state)

    def waiting_reason(self):
        if sys.argv[1] == "timer":
            end()
        return super().waiting_reason()

raise SystemExit(run_node(Node, "ended", []))
"""


@pytest.mark.parametrize("stage", ["construction", "activation", "deaf", "timer"])
def test_ends_cleanly_whatever_it_is_doing(stage):
    """By both signals at the same time, as the processes take long to import."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ENDED_IN, stage, how],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for how in ("SIGINT", "SIGTERM")
    ]
    try:
        errors = [process.communicate(timeout=60.0)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], errors
    for error in errors:
        assert "Traceback" not in error and "Exception" not in error
