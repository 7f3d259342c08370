# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Each node in a process of its own, over DDS: topics, services, parameters, and its end."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.msg import Transition
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

import dyn_ros
from dyn_ros.msg import (
    CentroidalState,
    ConstrainedDynamics,
    ExternalContact,
    JointSpaceDynamics,
    JointSpaceInertia,
)
from dyn_ros.srv import GetCentroidalDerivatives, GetJacobian, SolveConstrainedDynamics, Tare

from ..conftest import header

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
POSITION = [0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2]
VELOCITY = [0.5, 0.4, -0.3, 0.2, -0.1, 0.6, 0.7]
TOPICS = {
    "dynamics": {
        "gravity": JointState,
        "nle": JointState,
        "inertia": JointSpaceInertia,
        "state": JointSpaceDynamics,
        "markers": MarkerArray,
    },
    "centroidal": {"state": CentroidalState, "markers": MarkerArray},
    "vereshchagin": {
        "constraint_torques": JointState,
        "solution": ConstrainedDynamics,
        "markers": MarkerArray,
    },
}
SERVICES = {
    "dynamics": ("get_jacobian", GetJacobian, {"frame": "tool"}),
    "centroidal": ("get_centroidal_derivatives", GetCentroidalDerivatives, {}),
    "vereshchagin": ("solve", SolveConstrainedDynamics, {}),
}


@pytest.mark.parametrize(
    "name, how",
    [
        ("dynamics", signal.SIGINT),
        ("dynamics", signal.SIGTERM),
        ("centroidal", signal.SIGTERM),
        ("vereshchagin", signal.SIGINT),
        ("dyn_ros", signal.SIGINT),
        ("dyn_ros", signal.SIGTERM),
    ],
)
def test_a_node_works_over_dds_and_ends_cleanly(client, start_process, arm, name, how):
    process = start_process(
        module=f"dyn_ros.nodes.{name}_node", robot_description_file=None, staleness=600.0
    )
    nodes = [
        SimpleNamespace(name=process.topic(each), output=process.output)
        for each in (TOPICS if name == "dyn_ros" else [name])
    ]
    descriptions = client.publisher(
        String,
        process.topic("robot_description"),
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
    )
    descriptions.publish(String(data=ARM7.read_text()))
    for node in nodes:
        if node.name.endswith("vereshchagin"):
            client.diagnostics(process, lambda _, values: values["robot"] == "arm7")
            assert client.set_parameters(node, constraints="hold_pose", tip_frame="tool") == (
                True,
                "",
            )
    outputs = [
        client.listen(kind, f"{node.name}/{topic}")
        for node in nodes
        for topic, kind in TOPICS[node.name.split("/")[-1]].items()
    ]
    speak = client.speaker(process)
    for frame_id in ("base_link", "somewhere"):
        answers = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), *outputs)
        assert {header(answer).frame_id for answer in answers} == {frame_id}
        assert client.set_parameters(process, frame_id="somewhere") == (True, "")
    for node in nodes:
        node_name = node.name.split("/")[-1]
        if node_name not in SERVICES:
            continue
        service, kind, fields = SERVICES[node_name]
        speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), *outputs)
        answer = client.call(kind, f"{node.name}/{service}", kind.Request(**fields))
        assert answer.success, answer.message
    for node in (process, *nodes):
        client.diagnostics(node, lambda _, values: values["lifecycle state"] == "active")
    client.stop_listening()
    assert process.stop(how) == 0
    assert "Traceback" not in process.output()


def test_a_second_ctrl_c_changes_nothing(client, start_process):
    process = start_process()
    client.diagnostics(process)
    process.process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    assert process.stop() == 0
    assert "Traceback" not in process.output()


def test_a_node_runs_without_the_events_executor(client, start_process, arm, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['rclpy.experimental'] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    process = start_process(staleness=60.0)
    nle, speak = client.listen(JointState, process.topic("dynamics/nle")), client.speaker(process)
    (answer,) = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), nle)
    np.testing.assert_allclose(
        answer.effort,
        dyn_ros.nonlinear_effects(arm, dyn_ros.Data(arm), np.array(POSITION), np.array(VELOCITY)),
        rtol=1e-12,
    )
    answer = client.call(
        GetJacobian, process.topic("dynamics/get_jacobian"), GetJacobian.Request(frame="tool")
    )
    assert answer.success, answer.message
    assert process.stop() == 0


@pytest.mark.parametrize("name", ["observer", "dyn_ros"])
def test_the_observer_works_over_dds_and_responds_later(client, start_process, arm, name):
    process = start_process(module=f"dyn_ros.nodes.{name}_node")
    node = SimpleNamespace(name=process.topic("observer"), output=process.output)
    outputs = [
        client.listen(kind, f"{node.name}/{topic}")
        for topic, kind in {
            "external_efforts": JointState,
            "external_wrench": WrenchStamped,
            "contacts": ExternalContact,
            "residual": JointState,
            "markers": MarkerArray,
        }.items()
    ]
    speak = client.speaker(process)
    message = speak.message(arm.joint_names, POSITION, [0.0] * 7, [0.0] * 7)

    def say():
        stamp = client.node.get_clock().now().to_msg()
        message.header.stamp = stamp
        speak.send(message)

    client.wait(lambda: all(outputs), process.output, again=say, every=0.01, idle=0.005)
    assert outputs[1][-1].header.frame_id == "tool"
    torque = -dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), np.array(POSITION))
    client.wait(
        lambda: np.allclose(outputs[0][-1].effort, -torque, atol=1e-2),
        process.output,
        again=say,
        every=0.01,
        idle=0.005,
    )
    answer = client.send(Tare, node.name + "/tare", Tare.Request(duration=0.3))
    client.wait(answer.done, process.output, again=say, every=0.01, idle=0.005)
    assert answer.result().success, answer.result().message
    np.testing.assert_allclose(answer.result().offset, -torque, atol=1e-2)
    interrupted = client.send(Tare, node.name + "/tare", Tare.Request(duration=100.0))
    client.wait(lambda: client.diagnostics(node)[1]["service"], process.output, again=say)
    assert client.change_state(node, Transition.TRANSITION_DEACTIVATE)
    client.wait(interrupted.done, process.output)
    assert "the node stops" in interrupted.result().message
    client.stop_listening()
    assert process.stop() == 0
    assert "Traceback" not in process.output()
