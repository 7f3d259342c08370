# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""dyn_ros_node: several nodes, one robot, each state processed once."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import GetState
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import DescribeParameters, ListParameters
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

import dyn_ros
from dyn_ros.msg import (
    CentroidalState,
    ConstrainedDynamics,
    JointSpaceDynamics,
    JointSpaceInertia,
)
from dyn_ros.nodes.robot.context import RobotContext
from dyn_ros.srv import GetJacobian, SetPayload

from .conftest import ARM7
from .conftest import Q as POSITION
from .conftest import V as VELOCITY

MODULE = "dyn_ros.nodes.dyn_ros_node"
NAMES = ("dyn_ros", "dynamics", "centroidal", "vereshchagin", "observer")
TOPICS = {"dynamics": JointSpaceDynamics, "centroidal": CentroidalState}


class Nodes:
    """All nodes of a process, and the communication with each."""

    def __init__(self, client, started):
        self.client = client
        self.output, self.topic, self.stop = started.output, started.topic, started.stop
        self.robot_owner, self.dynamics, self.centroidal, self.vereshchagin, _ = self.each = [
            SimpleNamespace(name=started.topic(name), output=started.output, topic=started.topic)
            for name in NAMES
        ]
        self.speak = client.speaker(self.robot_owner)
        self.states = {}

    def listen(self, *names):
        self.states = {
            name: self.client.listen(TOPICS[name], self.topic(name) + "/state")
            for name in names or TOPICS
        }

    def ask(self, names, position=POSITION, velocity=VELOCITY, effort=(), of=None):
        """The responses of all subscribed nodes to one joint state."""
        message = self.speak.message(names, position, velocity, effort)
        return self.speak.ask(message, *(self.states[name] for name in of or self.states))

    def change(self, node, *transitions):
        for transition in transitions:
            assert self.client.change_state(node, transition)

    def label(self, node):
        answer = self.client.call(GetState, node.name + "/get_state", GetState.Request())
        return answer.current_state.label

    def parameters(self, node):
        names = self.client.call(
            ListParameters, node.name + "/list_parameters", ListParameters.Request()
        ).result.names
        return [
            name
            for name in names
            if not name.startswith(("qos_overrides", "use_sim_time", "start_type_description"))
        ]


@pytest.fixture
def run(client, start):
    """Start the nodes; they end with the test."""
    nodes = []

    def run(*arguments, **parameters):
        nodes.append(Nodes(client, start(*arguments, module=MODULE, **parameters)))
        return nodes[-1]

    yield run
    client.stop_listening()
    for each in nodes:
        each.stop()


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def vector(message):
    return np.array([message.x, message.y, message.z])


def momentum(model, q, v):
    """Mass, com and momentum (6) about it, the base link of a fixed base too."""
    data = dyn_ros.Data(model)
    _, h, Ig = dyn_ros.ccrba(model, data, q, v)
    base = model.base_inertia
    mass = Ig[0, 0] + base.mass
    com = (Ig[0, 0] * data.com + base.mass * base.com) / mass
    return mass, com, np.concatenate([h[:3], h[3:] + np.cross(data.com - com, h[:3])])


def check(model, dynamics, centroidal, q=POSITION, v=VELOCITY):
    assert dynamics.header.stamp == centroidal.header.stamp
    close(dynamics.nle, dyn_ros.nonlinear_effects(model, dyn_ros.Data(model), q, v))
    mass, com, h = momentum(model, q, v)
    close(centroidal.mass, mass)
    close(vector(centroidal.com), com)
    close(vector(centroidal.linear_momentum), h[:3])
    close(vector(centroidal.angular_momentum), h[3:])


def test_every_node_answers_each_joint_state_and_the_process_hears_it_once(run, client, arm):
    nodes = run()
    nodes.listen()
    for step in range(5):
        answers = nodes.ask(arm.joint_names, POSITION + step, VELOCITY - step)
        check(arm, *answers, POSITION + step, VELOCITY - step)
    heard = {
        topic: client.node.count_subscribers(nodes.topic(topic))
        for topic in ("joint_states", "robot_description", "odom")
    }
    assert heard == {"joint_states": 1, "robot_description": 1, "odom": 1}
    for node in nodes.each:
        client.diagnostics(
            node,
            lambda status, values: (
                values["lifecycle state"] == "active" and values["robot"] == "arm7"
            ),
        )


def test_the_source_has_the_robots_parameters_for_all(run, client):
    nodes = run()
    robots, dynamics, centroidal, vereshchagin, observer = parameters = [
        set(nodes.parameters(each)) for each in nodes.each
    ]
    dynamics_alone, centroidal_alone = (
        {name for name in names if not name.startswith("markers.")}
        for names in (dynamics, centroidal)
    )
    every = {"autostart", "max_rate"}
    assert dynamics_alone == every | {"derivatives", "command", "command_scale"}
    assert centroidal_alone == every | {
        "derivatives",
        "acceleration_source",
        "acceleration_cutoff",
        "contact_frames",
        "contact_dimension",
        "contact_source",
        "input_timeout",
        "ground_height",
    }
    assert {"root_joint", "gravity", "joints", "armature", "staleness", "world_frame"} < robots
    assert every | {"constraints", "tip_frame", "wrench_topics"} < vereshchagin
    assert every | {"gain", "tip_frame", "thresholds.fixed"} < observer
    assert not robots & (centroidal | vereshchagin | observer) - every
    config = (Path(__file__).parents[2] / "config" / "dyn_ros.yaml").read_text()
    blocks = config.split("\n/**/")[1:]
    assert [block.split(":")[0] for block in blocks] == list(NAMES)
    for block, names in zip(blocks, parameters):
        assert [name for name in names if f" {name}:" not in block] == []
    for node, names in zip(nodes.each, parameters):
        descriptors = client.call(
            DescribeParameters,
            node.name + "/describe_parameters",
            DescribeParameters.Request(names=sorted(names)),
        ).descriptors
        assert all(descriptor.description for descriptor in descriptors)

    nodes.listen()
    yaw = 0.7
    assert client.set_parameters(
        nodes.robot_owner,
        root_joint="planar",
        base_source="parameter",
        gravity=[1.0, 2.0, 3.0],
        base_pose=[1.0, 2.0, 0.0, 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)],
        base_twist=[0.1, 0.2, 0.0, 0.0, 0.0, 0.3],
    ) == (True, "")
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="planar", gravity=(1.0, 2.0, 3.0))
    q, v = np.array([1.0, 2.0, yaw, *POSITION]), np.array([0.1, 0.2, 0.3, *VELOCITY])
    answers = nodes.ask(model.joint_names[1:])
    check(model, *answers, q, v)
    assert [each.header.frame_id for each in answers] == ["base_link", "world"]
    done, why = client.set_parameters(nodes.robot_owner, joints=["nobody"])
    assert not done and "there is no joint 'nobody'" in why
    check(model, *nodes.ask(model.joint_names[1:]), q, v)


def test_odometry_and_a_new_robot_description_come_to_all(run, client, arm):
    nodes = run(robot_description_file=None, root_joint="floating")
    latched = {
        "durability": DurabilityPolicy.TRANSIENT_LOCAL,
        "reliability": ReliabilityPolicy.RELIABLE,
    }
    for node in nodes.each[1:]:
        client.diagnostics(node, lambda status, _: "robot_description" in status.message)
    client.publisher(String, nodes.topic("robot_description"), **latched).publish(
        String(data=ARM7.read_text())
    )
    nodes.listen()
    odometry = client.publisher(Odometry, nodes.topic("odom"))
    message = nodes.speak.message(arm.joint_names, POSITION, VELOCITY)
    report = Odometry(child_frame_id="base_link")
    report.header = message.header
    report.header.frame_id = "map"
    report.pose.pose.position.x, report.twist.twist.angular.z = 1.0, 0.5

    def send():
        odometry.publish(report)
        nodes.speak.send(message)

    stamp = message.header.stamp.sec
    client.wait(
        lambda: all(each.at(stamp) for each in nodes.states.values()), nodes.output(), again=send
    )
    dynamics, centroidal = (each.at(stamp) for each in nodes.states.values())
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
    check(
        model,
        dynamics,
        centroidal,
        np.array([1.0, 0, 0, 0, 0, 0, 1, *POSITION]),
        np.array([0, 0, 0, 0, 0, 0.5, *VELOCITY]),
    )
    assert (dynamics.header.frame_id, centroidal.header.frame_id) == ("base_link", "map")


def test_services_answer_and_a_payload_counts_for_all(run, client, arm):
    nodes = run(staleness=600.0)
    nodes.listen()
    nodes.ask(arm.joint_names)
    jacobian = client.call(
        GetJacobian, nodes.dynamics.name + "/get_jacobian", GetJacobian.Request(frame="wrist_roll")
    )
    assert jacobian.success, jacobian.message
    J = dyn_ros.frame_jacobian(
        arm, dyn_ros.Data(arm), POSITION, "wrist_roll", dyn_ros.ReferenceFrame.WORLD
    )
    close(np.reshape(jacobian.jacobian.data, (6, 7)), J)

    loaded = dyn_ros.Model.from_urdf_file(ARM7)
    for name, frame, mass in (("box", "wrist_roll", 2.0), ("plate", "base_link", 7.0)):
        request = SetPayload.Request(name=name)
        request.inertia.header.frame_id = frame
        body = request.inertia.inertia
        body.m, body.com.z, body.ixx, body.iyy, body.izz = mass, 0.1, 0.02, 0.02, 0.02
        answer = client.call(SetPayload, nodes.dynamics.name + "/set_payload", request)
        assert answer.success, answer.message
        loaded.set_payload(name, frame, mass, [0.0, 0.0, 0.1], np.diag([0.02] * 3))
    dynamics, centroidal = nodes.ask(arm.joint_names)
    check(loaded, dynamics, centroidal)
    assert centroidal.mass == pytest.approx(momentum(arm, POSITION, VELOCITY)[0] + 9.0)

    assert client.set_parameters(nodes.robot_owner, gravity=[0.0, 0.0, -1.0]) == (True, "")
    loaded.gravity = [0.0, 0.0, -1.0]
    check(loaded, *nodes.ask(arm.joint_names))  # another robot, the same payloads


def test_constraints_hold_on_the_robot_of_all(run, client, arm):
    nodes = run(
        feedforward="gravity", constraints="hold_position", tip_frame="tool", input_timeout=600.0
    )
    nodes.listen()
    solutions = client.listen(ConstrainedDynamics, nodes.vereshchagin.name + "/solution")

    def ask():
        message = nodes.speak.message(arm.joint_names, POSITION, VELOCITY)
        return nodes.speak.ask(message, *nodes.states.values(), solutions)

    for gravity in ([0.0, 0.0, -9.81], [1.0, 2.0, 3.0]):
        assert client.set_parameters(nodes.robot_owner, gravity=gravity) == (True, "")
        model = dyn_ros.Model.from_urdf_file(ARM7, gravity=gravity)
        data = dyn_ros.Data(model)
        dynamics, centroidal, solution = ask()
        check(model, dynamics, centroidal)
        close(solution.feedforward, dynamics.gravity)
        expected = dyn_ros.constrained_dynamics(
            model,
            data,
            POSITION,
            VELOCITY,
            "tool",
            np.eye(6)[:, :3],
            tau=np.array(dynamics.gravity),
        )
        close(solution.acceleration, expected.ddq)
        close(solution.effort, dynamics.gravity + expected.constraint_generalized_forces)
    assert client.set_parameters(nodes.vereshchagin, constraints="topic") == (True, "")
    nodes.ask(arm.joint_names)  # the others go on without constraints
    client.diagnostics(
        nodes.vereshchagin,
        lambda status, _: (
            "no message received on ~/constraints" in status.message
            or not nodes.ask(arm.joint_names)
        ),
    )
    client.diagnostics(
        nodes.dynamics,
        lambda status, _: status.message == "running" or not nodes.ask(arm.joint_names),
    )


# Each node has its own lifecycle


def test_one_node_stops_and_the_other_goes_on(run, client, arm):
    nodes = run()
    nodes.listen()
    nodes.ask(arm.joint_names)
    for node, other in (("dynamics", "centroidal"), ("centroidal", "dynamics")):
        stopped = getattr(nodes, node)
        nodes.change(stopped, Transition.TRANSITION_DEACTIVATE)
        before = len(nodes.states[node])
        nodes.ask(arm.joint_names, of=[other])
        nodes.change(stopped, Transition.TRANSITION_CLEANUP)
        nodes.ask(arm.joint_names, of=[other])
        assert nodes.label(stopped) == "unconfigured"
        client.diagnostics(stopped, lambda _, values: values["lifecycle state"] == "unconfigured")
        assert len(nodes.states[node]) == before
        nodes.change(stopped, Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
        check(arm, *nodes.ask(arm.joint_names))


def test_without_the_source_all_wait(run, client, arm):
    nodes = run()
    nodes.listen()
    nodes.ask(arm.joint_names)
    for transitions, label in (
        ((Transition.TRANSITION_DEACTIVATE,), "inactive"),
        ((Transition.TRANSITION_CLEANUP,), "unconfigured"),
    ):
        nodes.change(nodes.robot_owner, *transitions)
        for node in nodes.each[1:]:
            assert nodes.label(node) == "active"
            client.diagnostics(
                node,
                lambda status, _, label=label: (
                    status.message == f"waiting for {nodes.robot_owner.name}, which is {label}"
                ),
            )
    nodes.change(nodes.robot_owner, Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
    check(arm, *nodes.ask(arm.joint_names))
    nodes.change(nodes.robot_owner, Transition.TRANSITION_ACTIVE_SHUTDOWN)
    assert nodes.label(nodes.robot_owner) == "finalized" and nodes.label(nodes.dynamics) == "active"


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
def test_they_start_in_any_order(run, arm, order):
    nodes = run(autostart="false")
    each = dict(zip(NAMES, nodes.each))
    for name in order:
        assert nodes.label(each[name]) == "unconfigured"
    for name in order:
        nodes.change(each[name], Transition.TRANSITION_CONFIGURE)
    for name in order:
        nodes.change(each[name], Transition.TRANSITION_ACTIVATE)
    nodes.listen()
    check(arm, *nodes.ask(arm.joint_names))


def test_one_may_be_left_out(run, client, tmp_path, arm):
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("/**/dynamics:\n  ros__parameters:\n    autostart: false\n")
    nodes = run("--params-file", str(parameters))
    nodes.listen("centroidal")
    nodes.ask(arm.joint_names)
    assert nodes.label(nodes.dynamics) == "unconfigured"
    assert client.node.count_publishers(nodes.topic("dynamics/state")) == 0


# Independence of the nodes


def test_each_may_be_thinned_or_all(run, client, arm):
    nodes = run()
    nodes.listen()
    nodes.ask(arm.joint_names)
    for node, silent in (
        (nodes.dynamics, ["dynamics"]),
        (nodes.centroidal, ["centroidal"]),
        (nodes.robot_owner, list(TOPICS)),
    ):
        assert client.set_parameters(node, max_rate=0.01) == (True, "")
        nodes.ask(arm.joint_names)  # the one in 100 s
        before = {name: len(nodes.states[name]) for name in silent}
        talking = [name for name in TOPICS if name not in silent]
        if talking:
            nodes.ask(arm.joint_names, of=talking)

        def taken(status, values):
            nodes.speak.send(nodes.speak.message(arm.joint_names, POSITION, VELOCITY))
            return float(values["states [Hz]"]) > 0

        client.diagnostics(nodes.robot_owner, taken)
        assert {name: len(nodes.states[name]) for name in silent} == before
        assert client.set_parameters(node, max_rate=0.0) == (True, "")
        check(arm, *nodes.ask(arm.joint_names))


NO_INERTIA = """<robot name="wheel_without_inertia">
  <link name="base"/>
  <joint name="wheel" type="continuous"><parent link="base"/><child link="rim"/></joint>
  <link name="rim"/></robot>"""


def test_what_one_cannot_compute_the_others_publish(run, client):
    nodes = run(robot_description_file=None)
    for node, values in (
        (nodes.centroidal, {"acceleration_source": "forward_dynamics"}),
        (nodes.robot_owner, {"robot_description": NO_INERTIA}),
    ):
        assert client.set_parameters(node, **values) == (True, "")
    nodes.listen()
    for _ in range(2):
        dynamics, centroidal = nodes.ask(["wheel"], [0.1], [1.0], [0.0])
    assert list(dynamics.nle) == [0.0] and not centroidal.rates_valid
    client.diagnostics(nodes.centroidal, lambda status, _: "moves no inertia" in status.message)
    client.diagnostics(
        nodes.dynamics,
        lambda status, _: status.message == "running" or nodes.ask(["wheel"], [0.1], [1.0]) is None,
    )


def test_a_bad_message_is_rejected_for_all(run, client, arm):
    nodes = run()
    nodes.listen()
    nodes.ask(arm.joint_names)
    bad = nodes.speak.send(nodes.speak.message(arm.joint_names, [np.inf] * 7, VELOCITY))
    client.diagnostics(
        nodes.robot_owner, lambda _, values: "position is not finite" in values["last rejection"]
    )
    check(arm, *nodes.ask(arm.joint_names))
    assert not any(each.at(bad) for each in nodes.states.values())


# Names


def test_each_may_have_another_name(run, client, arm):
    nodes = run("-r", "dynamics:__node:=torques")
    state = client.listen(JointState, nodes.topic("torques") + "/gravity")
    nodes.speak.ask(nodes.speak.message(arm.joint_names, POSITION), state)
    nodes.listen("centroidal")
    nodes.ask(arm.joint_names)


def test_one_name_for_all_is_rejected(start_process):
    node = start_process("-r", "__node:=robot", module=MODULE)
    assert node.process.wait(60) == 1
    assert "the nodes have duplicate names: robot, robot, robot, robot" in node.output()
    assert "Traceback" not in node.output()


def test_one_pass_over_the_kinematics_for_each_state(run, client, arm, monkeypatch):
    """For any subscriptions; the constraint solver and the check of its result have own sweeps."""
    nodes, events = run(), []

    def recorded(name, function):
        def call(*args, **kwargs):
            events.append(name)
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(RobotContext, "latest_state", recorded("state", RobotContext.latest_state))
    for name in dyn_ros.engine.algorithms.__all__:
        monkeypatch.setattr(dyn_ros, name, recorded(name, getattr(dyn_ros, name)))
    for node, values in (
        (
            nodes.centroidal,
            {"acceleration_source": "finite_difference", "markers.subtree_com.show": True},
        ),
        (
            nodes.vereshchagin,
            {"constraints": "hold_pose", "tip_frame": "tool", "feedforward": "gravity"},
        ),
    ):
        assert client.set_parameters(node, **values) == (True, "")
    outputs = [
        client.listen(kind, nodes.topic(topic))
        for topic, kind in (
            ("dynamics/gravity", JointState),
            ("dynamics/nle", JointState),
            ("dynamics/inertia", JointSpaceInertia),
            ("dynamics/state", JointSpaceDynamics),
            ("dynamics/markers", MarkerArray),
            ("centroidal/state", CentroidalState),
            ("centroidal/markers", MarkerArray),
            ("vereshchagin/solution", ConstrainedDynamics),
            ("vereshchagin/markers", MarkerArray),
        )
    ]
    for angle in (0.1, 0.2, 0.3):
        events.clear()  # of the first, the trial of new constraints
        nodes.speak.ask(nodes.speak.message(arm.joint_names, POSITION + angle, VELOCITY), *outputs)
    client.stop_listening()
    states = [calls.split() for calls in " ".join(events).split("state")]
    all_calls = ["all_terms", "constrained_dynamics", "frame_classical_acceleration"]
    assert all_calls in states
    for calls in states:
        assert set(calls) <= set(all_calls)
        assert len(set(calls)) == len(calls)


@pytest.mark.parametrize(
    "module, topic, velocity, text",
    [
        (
            "vereshchagin_node",
            "constraint_torques",
            VELOCITY,
            "no message received on ~/constraints",
        ),
        ("dynamics_node", "nle", (), "unknown velocity of shoulder_yaw"),
    ],
)
def test_what_a_robot_need_not_provide_is_logged_once_as_information(
    client, start, arm, module, topic, velocity, text
):
    node = start(module=f"dyn_ros.nodes.{module}")
    client.listen(JointState, f"{node.name}/{topic}")
    speak = client.speaker(node)

    def send(status):
        speak.send(speak.message(arm.joint_names, POSITION, velocity))
        return text in status.message

    for _ in range(5):
        client.diagnostics(node, lambda status, _: send(status))
    client.stop_listening()
    [line] = [line for line in node.output().splitlines() if text in line]
    assert line.startswith("[INFO]")
