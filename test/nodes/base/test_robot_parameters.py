# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters that change the robot of a node: locked joints, friction; wrenches of joints."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from hostile_paths import KINDS, make_path
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import dyn_ros
from dyn_ros.msg import JointSpaceDynamics, JointWrenches, RobotState
from dyn_ros.nodes.robot.context import RobotContext, SettingError, UnknownPosition
from dyn_ros.srv import GetInverseDynamics, GetModel, GetTrajectoryEfforts
from service_stub import VALUES

ARM7 = (Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf").read_text()
LOSSY = ARM7.replace("<limit ", '<dynamics damping="0.7" friction="0.3"/><limit ')
Q = np.array([0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2])
V = np.array([0.5, 0.4, -0.3, 0.2, -0.1, 0.6, 0.7])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.fixture
def node(start):
    return start()


@pytest.fixture
def lossy(start, tmp_path):
    (tmp_path / "lossy.urdf").write_text(LOSSY)
    return start(robot_description_file=tmp_path / "lossy.urdf")


def state_of(client, node):
    return client.listen(JointSpaceDynamics, node.name + "/state")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("null", "bytes")])
def test_a_path_that_cannot_be_read_is_refused(client, node, tmp_path, kind):
    """A request cannot contain the other kinds."""
    path = make_path(kind, tmp_path)
    for parameter in ("drives", "robot_description_file", "native_library"):
        done, reason = client.set_parameters(node, **{parameter: path})
        assert not done and reason.startswith(f"{parameter}: ")


# Locked joints


def test_a_locked_joint_has_no_row_and_its_mass_counts(client, node, arm):
    name = arm.joint_names[3]
    done = client.set_parameters(node, locked_joints=[f"{name} = {Q[3]}"])
    assert done == (True, "")
    speak = client.speaker(node)
    [answer] = speak.ask(speak.message(arm.joint_names, Q, V), state_of(client, node))
    others = [i for i in range(7) if i != 3]
    assert list(answer.name) == [arm.joint_names[i] for i in others]
    close(answer.gravity, dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), Q)[others])
    v = np.where(np.arange(7) == 3, 0.0, V)
    close(answer.nle, dyn_ros.nonlinear_effects(arm, dyn_ros.Data(arm), Q, v)[others])
    model = client.call(GetModel, node.name + "/get_model", GetModel.Request())
    assert name not in [joint.name for joint in model.joints]
    assert name in [frame.name for frame in model.frames if frame.kind == "fixed_joint"]


def test_a_joint_is_locked_where_it_stands(client, node, arm):
    speak, state = client.speaker(node), state_of(client, node)
    speak.ask(speak.message(arm.joint_names, Q, V), state)
    name = arm.joint_names[1]
    assert client.set_parameters(node, locked_joints=[name]) == (True, "")
    for moved in (Q, Q + 0.5 * (np.arange(7) == 1)):  # what it reports now does not count
        [answer] = speak.ask(speak.message(arm.joint_names, moved, V), state)
        close(answer.gravity, np.delete(dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), Q), 1))
    assert client.set_parameters(node, locked_joints=(Parameter.Type.STRING_ARRAY, [])) == (
        True,
        "",
    )
    [answer] = speak.ask(speak.message(arm.joint_names, Q, V), state)
    assert len(answer.name) == 7


def test_a_node_waits_for_the_position_of_a_joint_that_it_locks(client, start, arm):
    name = arm.joint_names[1]
    node = start(locked_joints=f"[{name}]")
    client.diagnostics(
        node,
        lambda status, values: (
            status.message == f"waiting for the position of {name}" and not values["robot"]
        ),
    )
    speak, state = client.speaker(node), state_of(client, node)
    speak.send(speak.message(arm.joint_names[2:], Q[2:], V[2:]))
    [answer] = speak.ask(speak.message(arm.joint_names, Q, V), state)
    close(answer.gravity, np.delete(dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), Q), 1))


@pytest.mark.parametrize(
    "entries, reason",
    [
        (["nobody=1"], "locked_joints: there is no joint 'nobody'; available: shoulder_yaw"),
        (["elbow_pitch=far"], "the position of elbow_pitch is 'far'; expected a finite number"),
        (["elbow_pitch=nan"], "the position of elbow_pitch is 'nan'; expected a finite number"),
        (["elbow_pitch=1", "elbow_pitch=1"], "duplicate name 'elbow_pitch'"),
        (["elbow_pitch"], "unknown position of elbow_pitch; publish it on joint_states"),
    ],
)
def test_locked_joints_that_cannot_be_used_are_rejected(client, node, entries, reason):
    done, why = client.set_parameters(node, locked_joints=entries)
    assert not done and reason in why


def test_a_joint_is_locked_again_where_it_stands_now(client, node, arm):
    speak, state, name = client.speaker(node), state_of(client, node), arm.joint_names[3]
    elbow = np.arange(7) == 3
    for position in (0.3, 1.5):
        q = np.where(elbow, position, Q)
        for locked in ((Parameter.Type.STRING_ARRAY, []), [name]):
            assert client.set_parameters(node, locked_joints=locked) == (True, "")
            [answer] = speak.ask(speak.message(arm.joint_names, q, V), state)
        close(answer.gravity, np.delete(dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q), 3))
        speak.ask(speak.message(arm.joint_names, q + 0.2 * elbow, V), state)


def test_rejected_joint_states_lock_nothing(client, start, arm):
    node = start(locked_joints="[elbow_pitch]")
    speak, state = client.speaker(node), state_of(client, node)
    for names, position in (
        (["elbow_pitch", "a", "a"], [9.9, 1.0, 1.0]),
        (["elbow_pitch", "a"], [9.9]),
        ([], []),
    ):
        speak.send(speak.message(names, position))
    client.diagnostics(
        node, lambda status, values: "elbow_pitch" in status.message or "rejected" in status.message
    )
    [answer] = speak.ask(speak.message(arm.joint_names, Q, V), state)
    close(answer.gravity, np.delete(dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), Q), 3))


def test_cleanup_forgets_where_joints_stood(client, start, arm):
    from lifecycle_msgs.msg import Transition

    node = start(locked_joints="[elbow_pitch]")
    speak = client.speaker(node)
    for position in (0.3, 2.0):
        q, state = np.where(np.arange(7) == 3, position, Q), state_of(client, node)
        [answer] = speak.ask(speak.message(arm.joint_names, q, V), state)
        close(answer.gravity, np.delete(dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q), 3))
        client.stop_listening(state)
        for transition in (
            Transition.TRANSITION_DEACTIVATE,
            Transition.TRANSITION_CLEANUP,
            Transition.TRANSITION_CONFIGURE,
            Transition.TRANSITION_ACTIVATE,
        ):
            assert client.change_state(node, transition)


def test_joints_are_locked_after_any_change_of_the_robot(client, node, arm):
    speak, state = client.speaker(node), state_of(client, node)
    speak.ask(speak.message(arm.joint_names, Q, V), state)
    for values in (
        {"gravity": [0.0, 0.0, -9.8]},
        {"locked_joints": ["elbow_pitch"]},
        {"locked_joints": ["elbow_pitch", "wrist_roll"]},
    ):
        assert client.set_parameters(node, **values) == (True, "")


MIMIC = """<robot name="two"><link name="a"/><link name="b"/><link name="c"/>
  <joint name="master" type="continuous"><parent link="a"/><child link="b"/></joint>
  <joint name="follower" type="continuous"><parent link="b"/><child link="c"/>
    <mimic joint="master"/></joint></robot>"""


@pytest.mark.parametrize(
    "description, root_joint, entry, reason",
    [
        (MIMIC, "fixed", "follower", "follower follows master; lock master"),
        (MIMIC, "fixed", "follower=1", "follower follows master; lock master"),
        (ARM7, "floating", "root_joint", "root_joint is floating and has several coordinates"),
        (ARM7, "fixed", "elbow_pitch=1_0", "the position of elbow_pitch is '1_0'"),
    ],
)
def test_joints_that_cannot_be_locked(description, root_joint, entry, reason):
    with pytest.raises(SettingError, match=reason):
        RobotContext(description, {**VALUES, "root_joint": root_joint, "locked_joints": [entry]})


def test_contexts_lock_joints():
    with pytest.raises(UnknownPosition) as caught:
        RobotContext(ARM7, {**VALUES, "locked_joints": ["elbow_pitch", "wrist_roll=1"]})
    assert caught.value.names == ["elbow_pitch"]
    robot = RobotContext(
        ARM7,
        {**VALUES, "locked_joints": ["elbow_pitch", "wrist_roll=1"]},
        positions={"elbow_pitch": 0.5, "wrist_roll": 9.0},
    )
    assert robot.locked_positions == {"elbow_pitch": 0.5} and robot.model.nv == 5
    with pytest.raises(SettingError, match="joints: there is no joint 'elbow_pitch'"):
        RobotContext(
            ARM7, {**VALUES, "locked_joints": ["elbow_pitch=0"], "joints": ["elbow_pitch"]}
        )


def test_the_fixed_base_has_its_payloads():
    robot = RobotContext(ARM7, VALUES)
    link, before = robot.model.base_inertia, robot.base
    robot.set_payload("box", "base_link", 2.0, (0.3, -0.2, 0.5), np.diag([0.01, 0.02, 0.03]))
    assert robot.base.mass == before.mass + 2.0
    close(robot.base.com, (before.mass * np.array(before.com) + [0.6, -0.4, 1.0]) / robot.base.mass)
    close(robot.base.matrix(), robot.model.base_inertia.rotational)
    robot.clear_payload("box")
    assert robot.base == before
    close(before.matrix(), link.rotational)


# Friction


def test_friction_is_included_on_request_only(client, lossy):
    model = dyn_ros.Model.from_urdf(LOSSY)
    data, friction = dyn_ros.Data(model), 0.7 * V + 0.3 * np.sign(V)
    close(dyn_ros.joint_friction(model, V), friction)
    speak, state = client.speaker(lossy), state_of(client, lossy)
    request = GetInverseDynamics.Request(
        state=RobotState(name=list(model.joint_names), position=Q.tolist(), velocity=V.tolist())
    )
    trajectory = GetTrajectoryEfforts.Request(
        trajectory=JointTrajectory(
            joint_names=model.joint_names,
            points=[
                JointTrajectoryPoint(positions=Q.tolist(), velocities=V.tolist()),
                JointTrajectoryPoint(positions=Q.tolist(), velocities=(-V).tolist()),
            ],
        )
    )
    nle = dyn_ros.nonlinear_effects(model, data, Q, V).copy()
    back = dyn_ros.nonlinear_effects(model, data, Q, -V).copy()
    for included, expected in ((False, 0.0 * V), (True, friction), (False, 0.0 * V)):
        assert client.set_parameters(lossy, include_friction=included) == (True, "")
        [answer] = speak.ask(speak.message(model.joint_names, Q, V), state)
        assert answer.friction_included == included
        close(answer.nle, nle + expected)
        effort = client.call(GetInverseDynamics, lossy.name + "/get_inverse_dynamics", request)
        assert effort.friction_included == included
        close(effort.effort, nle + expected)
        efforts = client.call(
            GetTrajectoryEfforts, lossy.name + "/get_trajectory_efforts", trajectory
        )
        assert efforts.success and efforts.friction_included == included
        close(efforts.effort.data, np.concatenate([nle + expected, back - expected]))
    joints = client.call(GetModel, lossy.name + "/get_model", GetModel.Request()).joints
    assert {(joint.damping, joint.friction) for joint in joints} == {(0.7, 0.3)}


# Wrenches of joints


def test_each_joint_transmits_what_it_carries(client, node, arm):
    wrenches = client.listen(JointWrenches, node.name + "/joint_wrenches")
    speak = client.speaker(node)
    for velocity in (V, ()):
        [answer] = speak.ask(speak.message(arm.joint_names, Q, velocity), wrenches)
        v = V if len(velocity) else 0.0 * V
        data = dyn_ros.Data(arm)
        forces = dyn_ros.frame_forces(arm, data, Q, v, 0.0 * V)
        assert answer.velocity_valid == bool(len(velocity))
        kinds = {frame.name: frame.kind for frame in arm.tree.frames}
        assert list(answer.name) == [name for name in arm.frame_names if kinds[name] != "body"]
        assert {kinds[name] for name in answer.name} == {"joint", "fixed_joint"}
        for name, frame, each in zip(answer.name, answer.frame, answer.wrench):
            f, n = each.force, each.torque
            close([f.x, f.y, f.z, n.x, n.y, n.z], forces[arm.frame_index(name)])
            assert kinds[frame] == "body"
            close(forces[arm.frame_index(frame)], forces[arm.frame_index(name)])
        torques = [
            (each.torque.x, each.torque.y, each.torque.z)
            for each in (answer.wrench[list(answer.name).index(name)] for name in arm.joint_names)
        ]
        axes = [joint.axis for joint in arm.tree.joints]
        close(
            np.sum(np.multiply(torques, axes), axis=1), dyn_ros.nonlinear_effects(arm, data, Q, v)
        )


# Commands


def test_a_command_in_a_node(client, node, arm):
    from std_msgs.msg import Float64MultiArray

    speak = client.speaker(node)
    commands = client.listen(Float64MultiArray, node.name + "/command")
    gravity = client.listen(JointState, node.name + "/gravity")
    speak.ask(speak.message(arm.joint_names, Q, V), gravity)
    assert not commands
    assert client.set_parameters(node, command="gravity") == (True, "")
    [answer] = speak.ask(speak.message(arm.joint_names, Q, V), gravity)
    client.wait(lambda: commands, "a command")
    assert list(commands[-1].data) == [0.0] * 7
    assert client.set_parameters(node, command_scale=[0.5]) == (True, "")
    speak.ask(speak.message(arm.joint_names, Q, V), gravity)
    client.wait(lambda: any(commands[-1].data), "a command that is not zero")
    close(commands[-1].data, 0.5 * np.array(answer.effort))
    done, why = client.set_parameters(node, command_scale=[0.5, 0.5])
    assert not done and "command_scale: expected one number, or 7" in why
    done, why = client.set_parameters(node, command_scale=[1.5])
    assert not done and "expected numbers from 0 to 1" in why
    client.diagnostics(node, lambda status, values: values["command"].startswith("gravity: "))


def test_a_command_can_be_ended_whatever_its_scale_is(client, node, arm):
    values = {"command": "gravity", "command_scale": [1.0] * 7}
    assert client.set_parameters(node, **values) == (True, "")
    assert client.set_parameters(node, locked_joints=["elbow_pitch=0"]) == (True, "")
    for values in (
        {"max_rate": 5.0},
        {"max_rate": 0.0},
        {"command": "none"},
        {"command_scale": [1.0] * 6},
    ):
        assert client.set_parameters(node, **values) == (True, "")


def test_help_describes_every_parameter(capsys):
    from dyn_ros.nodes import dyn_ros_node, dynamics_node

    assert dynamics_node.main(["--help"]) == 0
    text = capsys.readouterr().out
    for spec in dynamics_node.DynamicsNode.all_specs():
        assert f"  {spec.name} " in text and spec.description in text
    assert "[default: 'none'; one of: none, gravity, nle]" in text
    assert "[default: 0.5; 0.001 to 3600]" in text
    assert dyn_ros_node.main(["-h"]) == 0
    assert "dynamics_node --help" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, reason",
    [(None, "specify the path of a URDF file"), ("  \n", "is empty; expected a URDF")],
)
def test_a_description_file_that_cannot_be_used_ends_the_start(start, tmp_path, content, reason):
    path = tmp_path / "robot.urdf"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Exception, match=reason):
        start(robot_description_file=path)


def test_the_frame_of_odometry_outlives_a_change_of_the_robot(client, start):
    from nav_msgs.msg import Odometry

    node = start(root_joint="floating")

    def world():
        return client.call(GetModel, node.name + "/get_model", GetModel.Request()).header.frame_id

    assert world() == "world"
    message = Odometry()
    message.header.frame_id, message.header.stamp.sec = "hall", 7
    message.pose.pose.orientation.w = 1.0
    publisher = client.publisher(Odometry, node.topic("odom"))
    client.wait(lambda: world() == "hall", "odometry", again=lambda: publisher.publish(message))
    assert client.set_parameters(node, gravity=[0.0, 0.0, -9.8]) == (True, "")
    assert world() == "hall"
    assert client.set_parameters(node, base_source="parameter") == (True, "")
    assert world() == "world"


@pytest.mark.parametrize(
    "name, some",
    [
        ("dynamics", {"max_rate", "command", "markers.torque.source"}),
        ("centroidal", {"acceleration_source", "acceleration_cutoff", "world_frame"}),
        ("vereshchagin", {"constraints", "tip_frame", "wrench_topics", "input_timeout"}),
        ("observer", {"gain", "tip_frame", "thresholds.fixed"}),
    ],
)
def test_every_parameter_is_described_and_has_a_value(client, start, name, some):
    node = start(module=f"dyn_ros.nodes.{name}_node")
    described = client.descriptions(node)
    assert some < set(described) and len(described) >= 15
    assert all(described.values())
    answer = client.call(
        GetParameters, node.name + "/get_parameters", GetParameters.Request(names=list(described))
    )
    assert [value.type for value in answer.values].count(ParameterType.PARAMETER_NOT_SET) == 0
    assert len(answer.values) == len(described)
    config = (Path(__file__).parents[3] / "config" / f"{name}.yaml").read_text()
    assert [name for name in described if f" {name}:" not in config] == []


def test_empty_arrays_of_a_dump_have_the_declared_type(client, start):
    """`ros2 param load` reads the `[]` that `ros2 param dump` writes as truth values."""
    node = start(module="dyn_ros.nodes.observer_node")
    values = {"thresholds.fixed": [1.0], "joints": ["elbow_pitch"]}
    assert client.set_parameters(node, **values) == (True, "")
    for name in values:
        empty = (Parameter.Type.BOOL_ARRAY, [])
        assert client.set_parameters(node, **{name: empty}) == (True, "")
        assert node.node.parameters.values[name] == []
    done, reason = client.set_parameters(node, joints=(Parameter.Type.BOOL_ARRAY, [True]))
    assert not done and "Wrong parameter type" in reason
