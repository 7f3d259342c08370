# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Outputs as functions of a state and declared terms, without a process or DDS."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from rclpy.parameter import Parameter
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

import dyn_ros
from dyn_ros.cdr.template import Template
from dyn_ros.engine.algorithms.all_terms import Terms as AllTerms
from dyn_ros.msg import JointSpaceDynamics
from dyn_ros.nodes.base.command_output import CommandOutput
from dyn_ros.nodes.base.dispatch import Dispatch, Output, process_state
from dyn_ros.nodes.base.node_parameters import SPECS
from dyn_ros.nodes.dynamics_node import OUTPUTS, DynamicsNode
from dyn_ros.nodes.robot.context import DynamicsTerms, RobotContext
from dyn_ros.states.joint_states import Reception, State
from dyn_ros.states.rate_limiter import StampLimiter

ARM7 = (Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf").read_text()
VALUES = {
    spec.name: [] if isinstance(spec.default, Parameter.Type) else spec.default for spec in SPECS
}
Q = np.array([0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2])
V = np.array([0.5, 0.4, -0.3, 0.2, -0.1, 0.6, 0.7])
SECOND = 1_000_000_000
TERMS = AllTerms._fields


class Publisher:
    """Records what is published."""

    def __init__(self, kind):
        self.kind, self.messages, self.subscribers = kind, [], 1
        self.handle = self

    def get_subscription_count(self):
        return self.subscribers

    def publish(self, message):
        self.messages.append(message)

    def publish_raw(self, data):
        self.publish(deserialize_message(data, self.kind))


class Node:
    """The part of a node that its outputs use."""

    def __init__(self, outputs=OUTPUTS, **values):
        self.active, self.logged = True, []
        self.report = SimpleNamespace(
            count=SimpleNamespace(
                states=0, published=0, compute_time=0.0, max_compute_time=0.0, clipped=0
            ),
            log=lambda key, text, *more: self.logged.append(text),
        )
        self.parameters = SimpleNamespace(values=values, changes=1)
        self.publishers = {}
        self.dispatch = Dispatch(self, outputs)

    def create_lifecycle_publisher(self, kind, topic, depth, **more):
        return self.publishers.setdefault(topic, Publisher(kind))

    def guard(self, what, call, *given):
        call(*given)

    def required_state_reads(self, now):
        return None

    def use(self, robot):
        self.dispatch.open()
        self.dispatch.set_computes(self.dispatch.make_computes(robot))
        self.robot = robot

    def speak(self, q, v, seconds, effort=()):
        names = self.robot.model.joint_names
        stamp = round(seconds * SECOND)
        reception = self.robot.collector.receive_joint_states(names, q, v, effort, stamp)
        assert reception is Reception.NEW_STATE
        process_state([self], self.robot, seconds)
        return {
            topic: each.messages[-1] if each.messages else None
            for topic, each in self.publishers.items()
        }


@pytest.fixture
def robot():
    return RobotContext(ARM7, VALUES)


@pytest.fixture
def node(robot):
    node = Node()
    node.use(robot)
    return node


def test_a_term_that_is_not_declared_is_an_error_where_it_is_read(robot):
    terms = DynamicsTerms(robot.data, ("g", "M"))
    assert terms.M is robot.data.M and terms.g is robot.data.g
    with pytest.raises(AttributeError, match=r"'nle' is not declared; add it .* declares M, g"):
        assert terms.nle
    assert not hasattr(terms, "model")


def as_bytes(message):
    return message.to_bytes() if isinstance(message, Template) else serialize_message(message)


def test_an_output_can_declare_existing_quantities_only():
    with pytest.raises(ValueError, match="unknown 'inertia'; available: Ag, Ig, .*effort"):
        Output("~/a", JointState, OUTPUTS[0].make, ("g", "inertia"))


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda each: each.topic)
def test_an_output_reads_nothing_else(robot, output):
    """Only declared terms are computed; all others are NaN, and nothing reads the last state."""
    state = State(Q.copy(), V.copy(), 5)
    data = robot.data
    dyn_ros.all_terms(robot.model, data, -Q, -V)
    if output.reads:
        dyn_ros.all_terms(robot.model, data, Q, V, only=output.reads)
    before = {name: np.copy(getattr(data, name)) for name in TERMS}
    computed = as_bytes(output.make(robot)(state, DynamicsTerms(data, output.reads)))
    for name in set(TERMS) - set(output.reads):
        getattr(data, name)[...] = math.nan
    again = as_bytes(output.make(robot)(state, DynamicsTerms(data, output.reads)))
    messages = [deserialize_message(each, output.type) for each in (computed, again)]
    assert messages[0] == messages[1]  # NaN is not equal to itself
    for name in output.reads:
        np.testing.assert_array_equal(getattr(data, name), before[name])


def test_all_outputs_are_functions_of_the_state(node, robot):
    first = node.speak(Q, V, 1.0)
    second = node.speak(-Q, 2.0 * V, 2.0)
    data = dyn_ros.Data(robot.model)
    for q, v, sec, answer in ((Q, V, 1, first), (-Q, 2.0 * V, 2, second)):
        state = answer["~/state"]
        assert isinstance(state, JointSpaceDynamics) and state.header.stamp.sec == sec
        g, nle, M = dyn_ros.all_terms(robot.model, data, q, v, only=("g", "nle", "M"))
        np.testing.assert_array_equal(state.position, q)
        np.testing.assert_array_equal(state.velocity, v)
        for actual, expected in (
            (state.gravity, g),
            (answer["~/gravity"].effort, g),
            (state.nle, nle),
            (answer["~/nle"].effort, nle),
            (state.inertia.data, M.ravel()),
            (answer["~/inertia"].inertia.data, M.ravel()),
        ):
            np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def test_an_unknown_velocity_is_nan_and_comes_back(node):
    assert not np.isnan(node.speak(Q, V, 1.0)["~/state"].nle).any()
    still = node.speak(Q, (), 2.0)
    assert not still["~/state"].velocity_valid
    assert np.isnan(still["~/state"].velocity).all() and np.isnan(still["~/state"].nle).all()
    assert still["~/nle"].header.stamp.sec == 1  # of the state before
    moving = node.speak(Q, V, 3.0)["~/state"]
    assert moving.velocity_valid and list(moving.velocity) == V.tolist()


def test_only_what_outputs_with_subscribers_read_is_computed(node, monkeypatch):
    calls = []
    monkeypatch.setattr(
        dyn_ros,
        "all_terms",
        lambda *given, only, real=dyn_ros.all_terms: (calls.append(only), real(*given, only=only)),
    )
    for topic in ("~/inertia", "~/state"):
        node.publishers[topic].subscribers = 0
    node.speak(Q, V, 1.0)
    for publisher in node.publishers.values():
        publisher.subscribers = 0
    node.speak(Q, V, 2.0)
    assert calls == [("g", "nle")]


def test_reads_that_are_none_skip_a_state(robot):
    skips = iter((False, True, False))
    node = Node(
        (Output("~/a", JointState, OUTPUTS[0].make, lambda: None if next(skips) else ("g",)),)
    )
    node.use(robot)
    stamps = [node.speak(Q, V, seconds)["~/a"].header.stamp.sec for seconds in (1, 2, 3)]
    assert stamps == [1, 1, 3]


def test_an_inactive_node_publishes_nothing(node):
    node.active = False
    assert set(node.speak(Q, V, 1.0).values()) == {None}
    assert node.report.count.states == 1


def test_what_a_state_contains_on_request_is_collected(robot):
    seen = []

    def make(robot):
        return lambda state, terms: seen.append((state.effort, state.acceleration))

    node = Node((Output("~/a", JointState, make, ("effort", "acceleration")),))
    node.use(robot)
    for seconds in (1.0, 1.25):
        node.speak(Q, seconds * V, seconds, 3.0 * V)
    (effort, acceleration) = seen[-1]
    np.testing.assert_array_equal(effort, 3.0 * V)
    np.testing.assert_allclose(acceleration, V, rtol=1e-9)
    assert seen[0] == (None, None)


# Commands


def commanding(robot, **values):
    node = Node((), **{"command": "gravity", "command_scale": [1.0], **values})
    command = CommandOutput(
        node,
        {
            "gravity": (lambda: ("g",), lambda robot, state, terms: terms.g),
            "nle": (
                lambda: ("nle",),
                lambda robot, state, terms: None if state.v is None else terms.nle,
            ),
        },
    )
    node.dispatch = Dispatch(node, (command.output,))
    node.use(robot)
    return node, command


def commanded(node, *state):
    message = node.speak(*state)["~/command"]
    assert message is None or isinstance(message, Float64MultiArray)
    return None if message is None else list(message.data)


def test_nothing_is_commanded_by_default():
    values = {spec.name: spec.default for spec in DynamicsNode.specs}
    assert values["command"] == "none" and isinstance(values["command_scale"], Parameter.Type)


def test_a_command_is_scaled_and_in_the_order_of_joints():
    order = ["wrist_roll", "shoulder_pitch", "elbow_pitch"]
    robot = RobotContext(ARM7, {**VALUES, "joints": order})
    g = dyn_ros.generalized_gravity(robot.model, dyn_ros.Data(robot.model), Q)
    rows = [robot.model.velocity_names.index(name) for name in order]
    for scale, expected in (
        ([0.5], 0.5 * g[rows]),
        ([0.0, 0.5, 1.0], g[rows] * [0.0, 0.5, 1.0]),
        ([], 0.0 * g[rows]),
    ):
        node, _ = commanding(robot, command_scale=scale)
        np.testing.assert_allclose(commanded(node, Q, V, 1.0), expected, rtol=1e-12, atol=1e-12)


def test_a_command_follows_its_parameters(robot):
    node, _ = commanding(robot)
    g = commanded(node, Q, V, 1.0)
    node.parameters.values.update(command="nle", command_scale=[0.5])
    node.parameters.changes += 1
    nle = dyn_ros.nonlinear_effects(robot.model, dyn_ros.Data(robot.model), Q, V)
    np.testing.assert_allclose(commanded(node, Q, V, 2.0), 0.5 * nle, rtol=1e-12)
    node.parameters.values["command"] = "none"
    node.publishers["~/command"].messages.clear()
    assert commanded(node, Q, V, 3.0) is None and g != nle.tolist()


def test_a_torque_beyond_the_limit_is_clipped_and_counted(robot):
    robot.model.gravity = [0.0, 0.0, -300.0]
    node, command = commanding(robot)
    limits = robot.model.effort_limit
    torque = dyn_ros.generalized_gravity(robot.model, dyn_ros.Data(robot.model), Q)
    assert (abs(torque) > limits).any() and (abs(torque) < limits).any()
    np.testing.assert_allclose(
        commanded(node, Q, V, 1.0), np.clip(torque, -limits, limits), rtol=1e-12, atol=1e-12
    )
    assert "its effort limit is" in node.logged[0]
    assert command.diagnostic_values("")["commands clipped"] == "1"


def test_a_command_stops_with_a_reason(robot):
    node, command = commanding(robot, command="nle")
    commanded(node, Q, V, 1.0)
    assert command.diagnostic_values("")["command"] == "nle: published"
    node.publishers["~/command"].messages.clear()
    assert commanded(node, Q, (), 2.0) is None
    assert (
        command.diagnostic_values("unknown velocity of a")["command"]
        == "nle: unknown velocity of a"
    )
    assert node.logged[-1] == "~/command stopped: unknown velocity of a"
    commanded(node, Q, V, 3.0)
    command.stop("the node is not active")
    assert node.logged[-1] == "~/command stopped: the node is not active"
    command.stop("again")
    assert node.logged[-1] == "~/command stopped: the node is not active"


def test_a_negative_limit_permits_no_torque():
    robot = RobotContext(ARM7.replace('effort="', 'effort="-'), VALUES)
    assert (robot.model.effort_limit < 0.0).all()
    node, _ = commanding(robot)
    assert commanded(node, Q, V, 1.0) == [0.0] * 7


def test_nothing_has_stopped_that_was_never_published(robot):
    node, command = commanding(robot)
    assert command.diagnostic_values("configuring")["command"] == "gravity: configuring"
    assert not node.logged
    commanded(node, Q, V, 1.0)
    assert command.diagnostic_values("")["command"] == "gravity: published"
    assert command.diagnostic_values("no state")["command"] == "gravity: no state"
    assert node.logged == ["~/command stopped: no state"]


def thinned(max_rate, late):
    """Stamps of the markers at 30 Hz of half a second, and how many other messages there are."""
    limiter, chosen = StampLimiter(30.0), []
    node = Node(
        (
            Output(
                "~/markers",
                JointState,
                lambda robot: lambda state, terms: chosen.append(state.stamp),
                lambda: () if limiter.admit(node.robot.collector.stamp, 0.0) else None,
                stamped=False,
                has_rate=True,
            ),
            Output("~/all", JointState, lambda robot: lambda state, terms: JointState()),
        )
    )
    node.use(RobotContext(ARM7, VALUES))
    node.dispatch.set_max_rate(max_rate)
    for k in range(250):
        now = 5.0 + 0.002 * k
        reception = node.robot.collector.receive_joint_states(
            node.robot.model.joint_names, Q, V, (), round(now * SECOND)
        )
        assert reception is Reception.NEW_STATE
        process_state([node], node.robot, now + late)
    return chosen, len(node.publishers["~/all"].messages)


@pytest.mark.parametrize("max_rate, late", [(60.0, 0.0), (60.0, 0.006), (45.0, 0.011)])
def test_markers_of_all_nodes_are_of_the_same_states_whatever_max_rate(max_rate, late):
    every, count = thinned(0.0, 0.0)
    assert len(every) == 15 and count == 250
    chosen, count = thinned(max_rate, late)
    assert chosen == every and abs(count - 0.5 * max_rate) <= 2


def test_a_base_has_no_motors(robot):
    base = RobotContext(ARM7, {**VALUES, "root_joint": "planar", "base_source": "parameter"})
    node, _ = commanding(base)
    assert len(commanded_floating(node)) == 7


def commanded_floating(node):
    names = node.robot.model.joint_names[1:]
    reception = node.robot.collector.receive_joint_states(names, Q, V, (), SECOND)
    assert reception is Reception.NEW_STATE
    process_state([node], node.robot, 1.0)
    return node.publishers["~/command"].messages[-1].data


def test_scales_that_do_not_fit_are_rejected(robot):
    node, command = commanding(robot, command_scale=[1.0, 1.0])
    with pytest.raises(ValueError, match="command_scale: expected one number, or 7 for"):
        command.scale_factors(robot, node.parameters.values)
    assert commanded(node, Q, V, 1.0) is None
    assert "command_scale" in node.logged[-1]
    spec = next(each for each in DynamicsNode.specs if each.name == "command_scale")
    assert spec.fault([0.0, 1.0]) == ""
    assert "expected numbers from 0 to 1" in spec.fault([0.5, 1.5])
    assert "expected finite" in spec.fault([math.nan])
