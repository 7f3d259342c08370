# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node: no request ends the process."""

import math
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.srv", reason="the services are not built: run `make test`")

from geometry_msgs.msg import InertiaStamped, WrenchStamped
from lifecycle_msgs.msg import Transition
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

import dyn_ros
from dyn_ros.msg import CentroidalState, ReferenceFrame, RobotState
from dyn_ros.nodes.base.lifecycle import LOG_INTERVAL
from dyn_ros.srv import (
    ClearPayload,
    GetForwardDynamics,
    GetFrameState,
    GetInverseDynamics,
    GetJacobian,
    GetModel,
    SetPayload,
)

from ..conftest import ARM7, Q, V

ONE_JOINT = """<robot name="one"><link name="base"/><link name="pole"><inertial>
  <origin xyz="0 0 0.5"/><mass value="1"/>
  <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="swing" type="continuous"><parent link="base"/><child link="pole"/>
  <axis xyz="0 1 0"/></joint></robot>"""
LWA = ReferenceFrame.LOCAL_WORLD_ALIGNED
NAMES = {
    "get_jacobian": GetJacobian,
    "get_frame_state": GetFrameState,
    "get_inverse_dynamics": GetInverseDynamics,
    "get_forward_dynamics": GetForwardDynamics,
    "set_payload": SetPayload,
    "clear_payload": ClearPayload,
}


@pytest.fixture(scope="module")
def node(start):
    return start(staleness=60.0)


@pytest.fixture
def ask(client, node):
    return asking(client, node.name)


def asking(client, node_name):
    """Ask a service of a node; its success must be as expected."""

    def ask(name, expected=True, /, **fields):
        answer = client.call(NAMES[name], f"{node_name}/{name}", NAMES[name].Request(**fields))
        assert answer.success == expected, answer.message
        return answer

    return ask


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def matrix(message):
    return np.reshape(message.data, (message.rows, message.cols))


def box(frame, mass=2.0, moment=0.01):
    message = InertiaStamped()
    message.header.frame_id = frame
    body = message.inertia
    body.m, body.com.z = mass, 0.1
    body.ixx = body.iyy = body.izz = moment
    return message


def loaded(*boxes):
    """The arm with boxes."""
    model = dyn_ros.Model.from_urdf_file(ARM7)
    for number, (frame, mass) in enumerate(boxes):
        model.set_payload(str(number), frame, mass, [0.0, 0.0, 0.1], 0.01 * np.eye(3))
    return model


def gravity(model, q=Q):
    return dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)


def test_answers_are_the_engines_of_the_latest_state(client, node, ask, arm):
    data = dyn_ros.Data(arm)
    speak = client.speaker(node)
    output = client.listen(JointState, node.name + "/nle")
    [nle] = speak.ask(speak.message(arm.joint_names, Q, V), output)
    answer = ask("get_jacobian", frame="tool", reference_frame=LWA, time_variation=True)
    assert list(answer.name) == list(arm.velocity_names)
    assert answer.header == nle.header
    close(matrix(answer.jacobian), dyn_ros.frame_jacobian(arm, data, Q, "tool", LWA))
    close(
        matrix(answer.jacobian_time_variation),
        dyn_ros.frame_jacobian_time_variation(arm, data, Q, V, "tool", LWA),
    )

    wrench = WrenchStamped()
    wrench.header.frame_id, wrench.wrench.force.x = "tool", 5.0
    f_ext = arm.external_forces({"tool": [5.0, 0.0, 0.0, 0.0, 0.0, 0.0]})
    effort = ask(
        "get_inverse_dynamics", name=["elbow_pitch"], acceleration=[3.0], wrenches=[wrench]
    )
    a = np.zeros(7)
    a[arm.joint_index("elbow_pitch")] = 3.0
    close(effort.effort, dyn_ros.rnea(arm, data, Q, V, a, f_ext))
    back = ask(
        "get_forward_dynamics", name=list(effort.name), effort=effort.effort, wrenches=[wrench]
    )
    close(back.acceleration, a)

    frame = ask("get_frame_state", frame="tool", reference_frame=LWA)
    place = dyn_ros.frame_placements(arm, data, Q)[arm.frame_index("tool")]
    p, v, w = frame.pose.pose.position, frame.velocity.linear, frame.velocity.angular
    close([p.x, p.y, p.z], place[:3, 3])
    close([v.x, v.y, v.z, w.x, w.y, w.z], matrix(answer.jacobian) @ V)
    c, s = frame.classical_acceleration.linear, frame.acceleration.linear
    close([c.x, c.y, c.z], (matrix(answer.jacobian_time_variation) @ V)[:3])
    assert not math.isclose(c.x, s.x)
    client.stop_listening()


def test_a_given_state_needs_no_joint_states(client, start, arm):
    ask = asking(client, start().name)
    reason = ask("get_jacobian", False, frame="tool").message
    assert "shoulder_yaw" in reason and "specify a state in the request" in reason
    state = RobotState(name=list(arm.joint_names)[::-1], position=Q[::-1].tolist())
    answer = ask("get_jacobian", frame="tool", state=state)
    close(matrix(answer.jacobian), dyn_ros.frame_jacobian(arm, dyn_ros.Data(arm), Q, "tool", 0))


def test_each_request_of_a_burst_gets_a_response(client, start):
    """Also those that wait while the node is busy."""
    node = start()
    name = node.name + "/get_model"
    service = client.node.create_client(GetModel, name, qos_profile=QoSProfile(depth=1000))
    client.wait(service.service_is_ready, name)
    client.call(GetModel, name, GetModel.Request())
    futures = [service.call_async(GetModel.Request()) for _ in range(300)]
    client.wait(lambda: all(future.done() for future in futures), node.output)
    assert all(future.result().success for future in futures)


def test_a_payload_is_felt_at_once_and_outlives_the_robot_description(client, start, arm):
    node = start(robot_description_file=None)
    ask, speak = asking(client, node.name), client.speaker(node)
    assert "waiting for robot_description" in ask("clear_payload", False).message
    latched = {
        "durability": DurabilityPolicy.TRANSIENT_LOCAL,
        "reliability": ReliabilityPolicy.RELIABLE,
    }
    descriptions = client.publisher(String, node.topic("robot_description"), **latched)
    output = client.listen(JointState, node.name + "/gravity")

    def describe(xml, name):
        descriptions.publish(String(data=xml))
        client.diagnostics(node, lambda status, values: values["robot"] == name)

    def held():
        [answer] = speak.ask(speak.message(arm.joint_names, Q), output)
        return answer.effort

    describe(ARM7.read_text(), "arm7")
    close(held(), gravity(arm))
    answer = ask("set_payload", name="gripper", inertia=box("tool_mount", 1.0))
    answer = ask("set_payload", name="part", inertia=box("tool"))
    assert list(answer.payloads) == ["gripper", "part"]
    assert answer.total_mass == pytest.approx(arm.total_mass + 3.0)
    both = gravity(loaded(("tool_mount", 1.0), ("tool", 2.0)))
    close(held(), both)
    client.diagnostics(node, lambda status, values: values["payloads"] == "gripper, part")

    describe(ARM7.read_text().replace('name="arm7"', 'name="arm7_again"'), "arm7_again")
    close(held(), both)
    assert client.set_parameters(node, gravity=[0.0, 0.0, 9.81]) == (True, "")
    close(held(), -both)
    assert client.set_parameters(node, gravity=[0.0, 0.0, -9.81]) == (True, "")

    describe(ONE_JOINT, "one")
    client.wait(lambda: "payload 'part' is not applied" in node.output(), "a warning in the log")
    reason = ask("set_payload", False, name="more", inertia=box("tool")).message
    assert reason == "no frame named 'tool'; available: base, swing, pole"
    describe(ARM7.read_text(), "arm7")
    close(held(), both)

    assert list(ask("clear_payload", name="gripper").payloads) == ["part"]
    close(held(), gravity(loaded(("tool", 2.0))))
    assert "available: part" in ask("clear_payload", False, name="gripper").message
    ask("set_payload", False, name="part", inertia=box("tool", mass=-1.0))
    close(held(), gravity(loaded(("tool", 2.0))))
    assert ask("clear_payload").total_mass == arm.total_mass
    unloaded = dyn_ros.all_terms(arm, dyn_ros.Data(arm), Q, only=("g",))
    assert held() == output[-1].effort and np.array_equal(held(), unloaded)
    client.stop_listening()


def test_an_inactive_node_rejects_and_answers_again(client, start, arm):
    node = start(autostart="false")
    ask = asking(client, node.name)
    state = RobotState(name=list(arm.joint_names), position=Q.tolist())
    assert client.change_state(node, Transition.TRANSITION_CONFIGURE)
    for name in NAMES:
        assert f"{node.name} is not active" in ask(name, False).message
    assert client.change_state(node, Transition.TRANSITION_ACTIVATE)
    ask("set_payload", name="part", inertia=box("tool"))
    assert client.change_state(node, Transition.TRANSITION_DEACTIVATE)
    assert "not active" in ask("get_jacobian", False, frame="tool", state=state).message
    assert client.change_state(node, Transition.TRANSITION_CLEANUP)
    assert client.change_state(node, Transition.TRANSITION_CONFIGURE)
    assert client.change_state(node, Transition.TRANSITION_ACTIVATE)
    close(ask("get_inverse_dynamics", state=state).effort, gravity(loaded(("tool", 2.0))))
    assert "Traceback" not in node.output()


def test_bad_requests_without_end_neither_stop_nor_grow_the_node(new_client, start_process, arm):
    node, client = start_process(), new_client
    ask = asking(client, node.name)
    state = RobotState(name=list(arm.joint_names), position=Q.tolist())
    good = ask("get_jacobian", frame="tool", state=state)
    nan = RobotState(name=list(arm.joint_names), position=[math.nan] * 7)
    short = RobotState(name=list(arm.joint_names), position=[0.0])
    bad = [
        ("get_jacobian", dict(frame="x" * 100_000, state=state), "no frame named 'xxx"),
        ("get_jacobian", dict(frame="tool", reference_frame=9, state=state), "reference_frame"),
        ("get_frame_state", dict(frame="tool", state=nan), "position is not finite"),
        ("get_inverse_dynamics", dict(state=short), "7 names, but 1 positions"),
        ("get_forward_dynamics", dict(state=state, effort=[0.0] * 100_000), "0 names, but 100000"),
        ("set_payload", dict(name="y" * 100_000, inertia=box("tool")), "got 100000"),
        ("set_payload", dict(name="part", inertia=box("tool", mass=math.nan)), "mass: expected"),
        ("clear_payload", dict(name="z" * 100_000), "no payload named 'zzz"),
    ]

    def rounds(count):
        for _ in range(count):
            for name, fields, why in bad:
                reason = ask(name, False, **fields).message
                assert why in reason and len(reason) < 1000

    began = time.monotonic()
    rounds(20)
    before = node.resident()
    rounds(60)
    assert node.resident() < before + 10.0
    assert ask("get_jacobian", frame="tool", state=state).jacobian == good.jacobian
    client.diagnostics(node, lambda status, values: "no payload named" in values["last rejection"])
    throttled = (time.monotonic() - began) / LOG_INTERVAL + 1.0
    assert node.output().count("no payload named") <= min(throttled, 79)
    assert "Traceback" not in node.output()


def test_in_one_process_with_the_other_nodes_all_feel_a_payload(client, start, arm):
    node = start(module="dyn_ros.nodes.dyn_ros_node", staleness=60.0)
    ask, speak = asking(client, node.topic("dynamics")), client.speaker(node)
    state = client.listen(CentroidalState, node.topic("centroidal/state"))
    held = client.listen(JointState, node.topic("dynamics/gravity"))
    before, _ = speak.ask(speak.message(arm.joint_names, Q), state, held)
    ask("set_payload", name="part", inertia=box("tool"))
    ask("set_payload", name="cabinet", inertia=box("base_link", mass=30.0))
    after, effort = speak.ask(speak.message(arm.joint_names, Q), state, held)
    assert after.mass == pytest.approx(before.mass + 32.0)
    close(effort.effort, gravity(loaded(("tool", 2.0))))
    assert ask("get_jacobian", frame="tool").jacobian.cols == 7
    client.stop_listening()
