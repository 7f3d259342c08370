# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""observer_node on a simulated arm: external efforts, wrenches, contacts, services, faults."""

import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
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

from .conftest import ARM7, Q

MODULE = "dyn_ros.nodes.observer_node"
DT = 1e-3
GAIN = 300.0
FORCE = np.array([3.0, -4.0, 12.0])


class Robot:
    """Publishes states of an arm that a controller holds still or moves, and forces act on."""

    topic, kind = "joint_states", JointState

    def __init__(self, client, node, model, seconds=100.0):
        self.client, self.node, self.model = client, node, model
        self.data = dyn_ros.Data(model)
        self.publisher = client.publisher(self.kind, node.topic(self.topic))
        self.time, self.swing = seconds, None
        self.names = [name for name, nv in zip(model.joint_names, model.nvs) if nv == 1]

    def message(self, q, v, tau, names=None):
        message = JointState(
            name=names or self.names,
            position=list(map(float, q)),
            velocity=list(map(float, v)),
            effort=list(map(float, tau)),
        )
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(round(self.time * 1e9), 1_000_000_000)
        return message

    def motion(self, swing):
        """Position, velocity, acceleration at the present time."""
        phase = 2.0 * np.arange(1, 8) ** 0.5
        return (
            Q + swing * np.sin(phase * self.time),
            swing * phase * np.cos(phase * self.time),
            -swing * phase**2 * np.sin(phase * self.time),
        )

    def efforts(self, q, v, a, force=None, frame="tool"):
        """Return the efforts of the motors while a force in world axes acts on a frame."""
        tau = dyn_ros.rnea(self.model, self.data, q, v, a).copy()
        tau += dyn_ros.joint_friction(self.model, v)
        return tau - self.external(q, force, frame)

    def external(self, q, force, frame="tool"):
        if force is None:
            return np.zeros(self.model.nv)
        J = dyn_ros.frame_jacobian(self.model, self.data, q, frame, 2)
        return J[:3].T @ force

    def say(
        self,
        count,
        swing=0.0,
        force=None,
        frame="tool",
        change=lambda q, v, tau: (q, v, tau),
        step=DT,
    ):
        """Publish states one after the other, each processed before the next."""
        if self.swing not in (None, swing):
            self.time += 1.0  # in which it moves there
        self.swing = swing
        for _ in range(count):
            self.time += step
            q, v, a = self.motion(swing)
            tau = self.efforts(q, v, a, force, frame)
            self.publisher.publish(self.message(*change(q, v, tau)))
            self.client.settle()
        return q, v


@pytest.fixture(scope="module")
def node(start):
    return start(module=MODULE, gain=GAIN, smoothing=GAIN)


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
    R = dyn_ros.frame_placements(robot.model, robot.data, q)[robot.model.frame_index("tool")][
        :3, :3
    ]
    assert wrenches[-1].header.frame_id == "tool"
    np.testing.assert_allclose(R @ numbers(wrenches[-1].wrench.force), FORCE, atol=0.2)
    np.testing.assert_allclose(numbers(wrenches[-1].wrench.torque), 0.0, atol=0.05)
    assert efforts[-1].header.stamp == contacts[-1].header.stamp


def test_a_contact_names_the_joints_and_how_long(robot, listen):
    contacts = listen("contacts", ExternalContact)
    robot.say(60, 0.2)
    robot.say(100, 0.2, 10.0 * FORCE)
    contact = contacts[-1]
    assert contact.collision
    assert set(contact.joint) <= set(robot.names)
    assert contact.joint
    assert contact.link in contact.possible_links
    assert contact.explained
    assert contact.header.frame_id == "base_link"
    assert 0.08 < contact.since.sec + 1e-9 * contact.since.nanosec < 0.1
    robot.say(100, 0.2)
    assert not contacts[-1].collision
    assert not contacts[-1].joint
    assert contacts[-1].link == ""
    assert math.isnan(contacts[-1].force)


def test_the_force_of_a_contact_is_averaged(client, node, robot, listen):
    contacts, spreads = listen("contacts", ExternalContact), []
    for averaging in (0.0, 0.2):
        assert client.set_parameters(node, contact_averaging=averaging) == (True, "")
        rng = np.random.default_rng(0)
        robot.say(60)
        begin = len(contacts)
        robot.say(
            250,
            0.0,
            5.0 * FORCE,
            change=lambda q, v, tau, rng=rng: (q, v, tau + rng.normal(0.0, 1.0, 7)),
        )
        assert all(each.collision for each in contacts[begin + 50 :])
        settled = np.array([numbers(each.direction) for each in contacts[begin + 200 :]])
        direction = settled.mean(axis=0)
        assert np.allclose(direction, FORCE / np.linalg.norm(FORCE), atol=0.1)
        spreads.append(np.sqrt(np.mean(np.sum((settled - direction) ** 2, axis=1))))
    assert spreads[1] < 0.3 * spreads[0]


def test_axes_of_the_wrench(client, node, robot, listen):
    wrenches = listen("external_wrench", WrenchStamped)
    robot.say(50, 0.0)
    for axes, frame in (("world", "base_link"), ("elbow_link", "elbow_link"), ("", "tool")):
        done, why = client.set_parameters(node, wrench_axes=axes)
        assert done, why
        q, _ = robot.say(120, 0.0, FORCE)
        assert wrenches[-1].header.frame_id == frame
        R = dyn_ros.frame_placements(robot.model, robot.data, q)[robot.model.frame_index(frame)][
            :3, :3
        ]
        np.testing.assert_allclose(R @ numbers(wrenches[-1].wrench.force), FORCE, atol=0.05)
    assert client.set_parameters(node, wrench_axes="nowhere")[1].startswith("wrench_axes: no frame")
    assert client.set_parameters(node, tip_frame="nowhere")[1].startswith("tip_frame: ")


def test_the_residual_is_measured_minus_modeled(robot, listen):
    with_friction = listen("residual", JointState)
    without = listen("residual_without_friction", JointState)
    robot.say(1)
    q, _ = robot.say(150, 0.3, FORCE)
    np.testing.assert_allclose(with_friction[-1].effort, -robot.external(q, FORCE), atol=0.05)
    assert with_friction[-1].header.stamp == without[-1].header.stamp


@pytest.mark.parametrize(
    "trouble, text, restarts",
    [
        (
            lambda robot: robot.say(1, change=lambda q, v, tau: (q, v, [])),
            "unknown effort of elbow",
            False,
        ),
        (
            lambda robot: robot.say(
                1, change=lambda q, v, tau: (q, v, [*tau[:3], math.nan, *tau[4:]])
            ),
            "unknown effort of elbow_pitch",
            False,
        ),
        (
            lambda robot: robot.say(1, change=lambda q, v, tau: (q, [], tau)),
            "unknown velocity of",
            False,
        ),
        (
            lambda robot: robot.say(30, change=lambda q, v, tau: (q, v, [])),
            "unknown effort of elbow",
            True,
        ),
        (
            lambda robot: robot.say(
                1, change=lambda q, v, tau: (q, v, [*tau[:3], -1e11, *tau[4:]])
            ),
            "the effort of elbow_pitch is -1e+11, but more than 65000 is not plausible; check its "
            "unit and its sensor, and effort_constant",
            True,
        ),
        (
            lambda robot: robot.say(1, change=lambda q, v, tau: (q, [*v[:3], 1e8, *v[4:]], tau)),
            "the velocity of elbow_pitch is 1e+08, but more than 3100 is not plausible; check its "
            "unit and its sensor",
            True,
        ),
    ],
)
def test_missing_input_is_stated_and_nothing_is_published(
    client, node, robot, listen, trouble, text, restarts
):
    efforts = listen("external_efforts", JointState)
    robot.time += 1.0  # in which it moves there
    robot.say(60)
    count = len(efforts)
    assert count
    trouble(robot)
    status, _ = client.diagnostics(node)
    assert text.split(" of")[0] in status.message, status.message
    assert text.split(" ")[-1] in status.message
    assert len(efforts) == count
    robot.say(20)
    assert (len(efforts) == count) == restarts  # not settled
    robot.say(40)
    assert len(efforts) > count
    assert np.abs(efforts[-1].effort).max() < 1e-3
    client.diagnostics(node, lambda status, _: status.message == "running")


@pytest.mark.parametrize("jump, text", [(5.0, "no states for 5"), (-20.0, "jumped back by")])
def test_a_jump_of_time_starts_the_observer_anew(client, node, robot, listen, jump, text):
    efforts = listen("external_efforts", JointState)
    robot.say(60, 0.2)
    count, begin = len(efforts), len(node.output())
    robot.time += jump
    robot.say(20, 0.2)
    assert len(efforts) == count
    robot.say(40, 0.2)
    assert len(efforts) > count
    assert text in node.output()[begin:] or "observer" in node.output()


def test_lost_states_start_the_observer_anew(client, node, robot, listen):
    contacts = listen("contacts", ExternalContact)
    robot.say(100, 0.5)
    count = len(contacts)
    robot.time += 8e-3
    robot.say(1, 0.5)
    assert len(contacts) == count + 1  # a few lost states are no gap
    robot.time += 20e-3
    robot.say(20, 0.5)
    assert len(contacts) == count + 1  # settling
    robot.say(80, 0.5)
    assert len(contacts) > count + 30
    assert not any(each.collision for each in contacts[count:])


def test_repeated_stamps_are_stated(client, node, robot, listen):
    efforts = listen("external_efforts", JointState)
    robot.say(60)
    count = len(efforts)
    robot.say(5, step=0.0)
    assert len(efforts) == count
    status, _ = client.diagnostics(node)
    assert "do not advance" in status.message
    robot.say(2)
    assert len(efforts) == count + 2


def test_every_state_is_used_although_max_rate_limits_publishing(client, node, robot, listen):
    efforts = listen("external_efforts", JointState)
    assert client.set_parameters(node, max_rate=5.0) == (True, "")
    robot.say(300, 0.3, FORCE)
    assert client.set_parameters(node, max_rate=0.0) == (True, "")
    q, _ = robot.say(1, 0.3, FORCE)
    assert len(efforts) < 100
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)


def test_idle_without_subscribers_and_back(client, node, robot):
    def idle(status, values):
        robot.say(5)  # subscribers are counted at most every 5 ms
        return values["observer"] == "idle"

    client.diagnostics(node, idle)
    begin = len(node.output())
    efforts = client.listen(JointState, node.name + "/external_efforts")
    robot.time += 10.0
    robot.say(140)  # it begins when it sees the subscriber, at most 5 ms later
    assert np.abs(efforts[-1].effort).max() < 1e-3
    assert "restarts" not in node.output()[begin:]
    client.stop_listening()


def test_an_effort_with_the_wrong_sign_is_named_once(client, node, robot, listen):
    listen("external_efforts", JointState)
    begin = len(node.output())
    signs = np.where(np.array(robot.names) == "elbow_pitch", -1.0, 1.0)
    text = "efforts of elbow_pitch have the opposite sign"
    for _ in range(30):
        robot.say(100, 0.4, change=lambda q, v, tau: (q, v, signs * tau), step=0.01)
    status, values = client.diagnostics(node)
    assert text in status.message
    assert text in values["effort faults"]
    assert node.output()[begin:].count(text) == 1
    for kind, service, more in (
        (Tare, "tare", {}),
        (EstimatePayload, "estimate_payload", {"frame": "tool"}),
    ):
        answer = ask(
            client,
            robot,
            kind,
            service,
            kind.Request(duration=0.5, **more),
            20,
            swing=0.4,
            change=lambda q, v, tau: (q, v, signs * tau),
            step=0.01,
        )
        assert not answer.success
        assert text in answer.message
    assert client.set_parameters(node, effort_constant=signs.tolist()) == (True, "")
    for _ in range(10):
        robot.say(100, 0.4, change=lambda q, v, tau: (q, v, signs * tau), step=0.01)
    client.diagnostics(node)  # of the requests
    robot.say(1, 0.4, change=lambda q, v, tau: (q, v, signs * tau))
    assert client.diagnostics(node)[0].message == "running"
    assert client.set_parameters(node, effort_constant=(Parameter.Type.DOUBLE_ARRAY, [])) == (
        True,
        "",
    )


def test_joints_that_stall_are_stated_and_nothing_is_published(client, node, robot, listen):
    efforts = listen("external_efforts", JointState)

    def say(count, parts):
        for _ in range(count):
            robot.time += DT
            q, v, a = robot.motion(0.4)
            tau = robot.efforts(q, v, a)
            for part in parts:
                robot.publisher.publish(
                    robot.message(q[part], v[part], tau[part], robot.names[part])
                )
            client.settle()

    say(100, (slice(0, 3), slice(3, 7)))
    assert efforts
    say(300, (slice(0, 3),))
    count = len(efforts)
    say(20, (slice(0, 3),))
    status, _ = client.diagnostics(node)
    assert "no states of elbow_pitch" in status.message
    assert "max_gap" in status.message
    assert len(efforts) == count
    robot.time += 1.0  # one publisher again
    robot.say(100)


# Services


def ask(client, robot, kind, service, request, count, **how):
    """Call a service that listens, while the robot moves; return its response."""
    future = client.send(kind, f"{robot.node.name}/{service}", request) if kind else request
    client.settle()
    end = time.monotonic() + 60.0
    while not future.done() and time.monotonic() < end:
        robot.say(count, **how)
        time.sleep(0.01)  # for the thread that computes
    assert future.done()
    return future.result()


def test_tare(client, node, robot, listen):
    efforts = listen("external_efforts", JointState)
    robot.say(150, force=FORCE)
    answer = ask(client, robot, Tare, "tare", Tare.Request(duration=0.05), 20, force=FORCE)
    assert answer.success, answer.message
    assert answer.joint == robot.names
    q, _ = robot.say(100, force=FORCE)
    np.testing.assert_allclose(efforts[-1].effort, 0.0, atol=0.05)
    np.testing.assert_allclose(answer.offset, robot.external(q, FORCE), atol=0.05)
    answer = client.call(Tare, node.name + "/tare", Tare.Request(clear=True))
    assert answer.success
    assert list(answer.offset) == [0.0] * 7
    robot.say(1, force=FORCE)
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)


def test_a_jump_of_stamps_does_not_shorten_listening(client, node, robot):
    future = client.send(Tare, node.name + "/tare", Tare.Request(duration=0.3))
    client.settle()
    robot.say(100)
    robot.time += 5.0
    robot.say(100)
    assert node.node.requests.recording.needs_states
    assert ask(client, robot, None, None, future, 50).success
    assert client.call(Tare, node.name + "/tare", Tare.Request(clear=True)).success


def test_requests_without_a_payload_are_measured(client, node, robot):
    """One pose does not show the friction at rest, which the description lacks."""
    for count in (1, 2):
        q = Q + 0.3 * (count - 1)
        robot.time += 1.0  # in which it moves there
        answer = ask(
            client,
            robot,
            EstimatePayload,
            "estimate_payload",
            EstimatePayload.Request(frame="tool", duration=0.05, restart=count == 1),
            20,
            change=lambda *_, q=q: (q, np.zeros(7), robot.efforts(q, np.zeros(7), np.zeros(7))),
        )
        assert answer.success == (count == 2)
        if count == 1:
            assert re.search(
                "the friction of .* at rest may hold it.*several poses", answer.message
            )
            assert "1 requests have been measured so far" in answer.message
    assert answer.requests == 2
    assert answer.mass_lower < 0.0 < answer.mass_upper
    assert "the payload is not attached, because its mass may be zero" in answer.message
    assert client.set_parameters(node, effort_constant=[2.0]) == (True, "")
    assert client.set_parameters(node, effort_constant=(Parameter.Type.DOUBLE_ARRAY, [])) == (
        True,
        "",
    )
    robot.time += 1.0
    answer = ask(
        client,
        robot,
        EstimatePayload,
        "estimate_payload",
        EstimatePayload.Request(frame="tool", duration=0.05),
        20,
    )
    assert "1 requests have been measured so far" in answer.message


def test_one_request_listens_at_a_time(client, node, robot):
    first = client.send(Tare, node.name + "/tare", Tare.Request(duration=0.1))
    client.settle()
    second = client.call(
        CalibrateThresholds, node.name + "/calibrate", CalibrateThresholds.Request()
    )
    assert not second.success
    assert "~/tare measures" in second.message
    ended = ask(client, robot, None, None, first, 20)
    assert ended.success, ended.message
    assert client.call(Tare, node.name + "/tare", Tare.Request(clear=True)).success


def test_a_request_replaces_an_earlier_one_whose_client_may_have_died(client, node, robot):
    robot.say(100)
    first = client.send(Tare, node.name + "/tare", Tare.Request(duration=600.0))
    client.settle()
    robot.say(20)
    second = client.send(Tare, node.name + "/tare", Tare.Request(duration=0.05))
    client.settle()
    assert first.done()
    assert first.result().message == "~/tare ended early: a new request replaced it"
    assert ask(client, robot, None, None, second, 20).success
    assert client.call(Tare, node.name + "/tare", Tare.Request(clear=True)).success


@pytest.mark.parametrize(
    "how, text",
    [
        (lambda client, node, robot: setattr(robot, "time", robot.time - 20.0), "jumped back"),
        (lambda client, node, robot: client.set_parameters(node, gain=90.0), "parameters"),
        (lambda client, node, robot: client.change_state(node, 4), "stops"),
    ],
)
def test_listening_ends_with_a_reason(client, node, robot, how, text):
    robot.time += 100.0
    future = client.send(Tare, node.name + "/tare", Tare.Request(duration=10.0))
    client.settle()
    robot.say(100)
    how(client, node, robot)
    client.settle()
    robot.say(3)
    assert future.done()
    assert not future.result().success
    assert text in future.result().message
    client.change_state(node, 3)
    assert client.set_parameters(node, gain=GAIN) == (True, "")


def test_listening_ends_without_states(client, node, robot, monkeypatch):
    future = client.send(Tare, node.name + "/tare", Tare.Request(duration=10.0))
    client.settle()
    robot.say(50)
    later = node.node.steady_time() + 10.0
    monkeypatch.setattr(node.node, "steady_time", lambda: later)
    client.diagnostics(node)
    client.settle()
    assert future.done()
    assert "~/tare ended early" in future.result().message
    assert "no state" in future.result().message


def test_listening_ends_if_the_observer_does_not_settle(client, node, robot, monkeypatch):
    """A slow simulation, for example."""
    robot.say(50)
    robot.time += 5.0
    future = client.send(Tare, node.name + "/tare", Tare.Request(duration=10.0))
    client.settle()
    robot.say(3)
    later = node.node.steady_time() + 10.0
    monkeypatch.setattr(node.node, "steady_time", lambda: later)
    robot.say(1)
    assert future.done()
    assert future.result().message == "~/tare ended early: the observer has not settled"


def test_a_calibration_that_is_too_short_is_rejected_at_once(client, node):
    answer = client.call(
        CalibrateThresholds, node.name + "/calibrate", CalibrateThresholds.Request(duration=3.0)
    )
    assert not answer.success
    assert answer.message == "duration: expected at least 10 s, got 3 s"


def test_calibration_proposes_and_applies_thresholds(client, node, robot, listen):
    rng = np.random.default_rng(0)
    noise = [0.2] * 7
    listen("external_efforts", JointState)
    answer = ask(
        client,
        robot,
        CalibrateThresholds,
        "calibrate",
        CalibrateThresholds.Request(duration=12.0, apply=True),
        500,
        swing=0.3,
        change=lambda q, v, tau: (q, v, tau + noise * rng.normal(size=7)),
        step=5e-3,
    )
    assert answer.success, answer.message
    assert answer.joint == robot.names
    assert answer.states > 2000
    assert "the model explains" not in answer.message
    assert np.all(np.array(answer.threshold) > 3.0 * np.array(answer.deviation))
    fixed = node.node.get_parameter("thresholds.fixed").value
    assert list(fixed) == list(answer.threshold)
    assert client.set_parameters(
        node,
        **{
            "thresholds.fixed": (Parameter.Type.DOUBLE_ARRAY, []),
            "thresholds.per_speed": (Parameter.Type.DOUBLE_ARRAY, []),
            "noise.external": (Parameter.Type.DOUBLE_ARRAY, []),
        },
    ) == (True, "")


def test_a_calibration_with_exchanged_efforts_names_the_joints(client, node, robot):
    exchanged = [0, 3, 2, 1, 4, 5, 6]
    answer = ask(
        client,
        robot,
        CalibrateThresholds,
        "calibrate",
        CalibrateThresholds.Request(duration=12.0),
        500,
        swing=0.3,
        change=lambda q, v, tau: (q, v, tau[exchanged]),
        step=5e-3,
    )
    assert answer.success, answer.message
    assert (
        "the model explains less than half of the efforts of shoulder_pitch, elbow_pitch; "
        in answer.message
    )


def test_a_payload_is_weighed_from_six_poses_and_attached(client, node, robot, arm, listen):
    mass, com = 0.5, np.array([0.02, -0.03, 0.05])
    loaded = dyn_ros.Model.from_urdf_file(ARM7)
    loaded.set_payload("load", "tool", mass, com, 1e-3 * np.eye(3))
    data, rng = dyn_ros.Data(loaded), np.random.default_rng(1)
    answers = []
    for pose in range(6):
        q = rng.uniform(-1.0, 1.0, 7)
        tau = dyn_ros.generalized_gravity(loaded, data, q).copy()
        robot.time += 1.0  # in which it moves there
        answers.append(
            ask(
                client,
                robot,
                EstimatePayload,
                "estimate_payload",
                EstimatePayload.Request(duration=0.2, restart=pose == 0, apply=pose == 5),
                50,
                change=lambda *_, q=q, tau=tau: (q, np.zeros(7), tau + 0.05 * rng.normal(size=7)),
            )
        )
    answer = answers[-1]
    assert answer.success, answer.message
    assert answer.requests == 6
    assert answer.applied
    body = answer.inertia.inertia
    assert abs(body.m - mass) < 0.01
    assert np.abs(numbers(body.com) - com).max() < 5e-3
    middle, width = (
        0.5 * (answer.mass_lower + answer.mass_upper),
        answer.mass_upper - answer.mass_lower,
    )
    assert abs(mass - middle) < width
    assert answer.com_determined
    assert not answer.inertia_determined
    lower, upper = numbers(answer.com_lower), numbers(answer.com_upper)
    # of intervals of 95 %, twice their width contains all but one in 10,000
    assert (np.abs(com - 0.5 * (lower + upper)) < upper - lower).all()
    efforts = listen("external_efforts", JointState)
    robot.say(60, change=lambda *_: (q, np.zeros(7), tau))
    assert np.abs(efforts[-1].effort).max() < 0.1
    assert client.call(ClearPayload, node.name + "/clear_payload", ClearPayload.Request()).success


def test_motions_between_the_poses_reveal_friction_that_is_unknown_at_rest(
    client, node, robot, arm
):
    """The description has no friction; at rest, it holds a part of the load in any direction."""
    mass, com = 0.5, np.array([0.02, -0.03, 0.06])
    loaded = dyn_ros.Model.from_urdf_file(ARM7)
    loaded.set_payload("load", "tool", mass, com, 1e-3 * np.eye(3))
    data, rng = dyn_ros.Data(loaded), np.random.default_rng(3)
    friction = np.array([2.0, 2.0, 1.2, 1.2, 0.5, 0.5, 0.2])

    def measured(q, v, a, stuck):
        tau = dyn_ros.rnea(loaded, data, q, v, a) + 0.02 * rng.normal(size=7)
        return q, v, tau + friction * np.where(v == 0.0, stuck, np.sign(v))

    def move(start, step):
        for s in np.arange(1.0, 301.0) / 300.0:
            q = start + step * s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
            v = step * 30.0 * (s * (1.0 - s)) ** 2 / 1.5
            a = step * 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / 1.5**2
            robot.say(1, change=lambda *_, q=q, v=v, a=a: measured(q, v, a, 0.0), step=5e-3)
        return start + step

    q = rng.uniform(-1.0, 1.0, 7)
    robot.time += 1.0  # in which it moves there
    for pose in range(6):
        stuck = rng.uniform(-1.0, 1.0, 7)
        answer = ask(
            client,
            robot,
            EstimatePayload,
            "estimate_payload",
            EstimatePayload.Request(duration=0.2, restart=pose == 0),
            50,
            step=5e-3,
            change=lambda *_, q=q, stuck=stuck: measured(q, np.zeros(7), np.zeros(7), stuck),
        )
        if pose < 5:
            q = move(q, rng.uniform(-1.0, 1.0, 7) - q)
    assert answer.success, answer.message
    assert answer.requests == 6
    assert abs(answer.inertia.inertia.m - mass) < 0.01
    assert np.abs(numbers(answer.inertia.inertia.com) - com).max() < 5e-3
    assert answer.mass_upper - answer.mass_lower < 0.02


def test_a_payload_that_may_be_none_is_not_attached(client, node, robot, arm):
    rng, tau = np.random.default_rng(0), robot.efforts(Q, np.zeros(7), np.zeros(7))
    robot.time += 1.0  # in which it moves there
    answer = ask(
        client,
        robot,
        EstimatePayload,
        "estimate_payload",
        EstimatePayload.Request(duration=0.2, restart=True, apply=True),
        50,
        change=lambda q, v, _: (q, v, tau + 1e-3 * (1.0 + rng.normal(size=7))),
    )
    assert not answer.applied
    assert re.search("may be zero|no payload|do not determine the mass", answer.message)
    assert "samples" not in answer.message


def test_a_payload_set_by_request_starts_the_observer_anew(client, node, robot, listen):
    efforts = listen("external_efforts", JointState)
    robot.say(60)
    request = SetPayload.Request(name="cup")
    request.inertia.header.frame_id = "tool"
    body = request.inertia.inertia
    body.m, body.ixx, body.iyy, body.izz = 1.0, 0.01, 0.01, 0.01
    assert client.call(SetPayload, node.name + "/set_payload", request).success
    count = len(efforts)
    robot.say(1)
    assert len(efforts) == count
    robot.say(150)
    q = robot.motion(0.0)[0]
    np.testing.assert_allclose(efforts[-1].effort, -robot.external(q, [0.0, 0.0, -9.81]), atol=0.01)
    assert client.call(ClearPayload, node.name + "/clear_payload", ClearPayload.Request()).success


def test_a_delay_of_the_efforts_is_estimated_and_set(client, node, robot, listen):
    lag, waiting = 0.012, []

    def late(q, v, tau):
        waiting.append(tau)
        return q, v, waiting.pop(0) if len(waiting) > 12 else waiting[0]

    robot.time += 1.0  # in which it moves there
    answer = ask(
        client,
        robot,
        EstimateEffortDelay,
        "estimate_delay",
        EstimateEffortDelay.Request(duration=8.0, apply=True),
        1000,
        swing=0.4,
        change=late,
    )
    assert answer.success, answer.message
    assert abs(answer.delay - lag) < 1e-3
    assert answer.states > 1000
    assert node.node.get_parameter("effort_delay").value == answer.delay
    efforts = listen("external_efforts", JointState)
    robot.say(300, swing=0.4, change=late)
    assert np.abs(efforts[-1].effort).max() < 0.2
    assert client.set_parameters(node, effort_delay=0.0) == (True, "")


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("gain", -1.0, "gain"),
        ("joint_gains", [1.0, 2.0], "joint_gains: expected one number, or 7"),
        ("joint_gains", [1.0] * 6 + [-2.0], "-2"),
        ("method", "magic", "method: expected one of"),
        ("thresholds.fixed", [1.0] * 3, "thresholds.fixed: expected one number, or 7"),
        ("thresholds.fixed", [math.nan], "thresholds.fixed"),
        ("effort_constant", [math.inf], "effort_constant"),
        ("noise.external", [0.0], "noise.external"),
    ],
)
def test_parameters_that_do_not_fit_are_rejected(client, node, name, value, text):
    done, why = client.set_parameters(node, **{name: value})
    assert not done
    assert text in why


# Other robots

LEGS = Path(dyn_ros.__file__).parent / "robots" / "quadruped.urdf"


def test_a_base_feels_the_ground_and_its_joints_the_feet(client, start):
    node = start(
        module=MODULE,
        robot_description_file=LEGS,
        root_joint="floating",
        gain=100.0,
        tip_frame=None,
    )
    model = dyn_ros.Model.from_urdf_file(LEGS, root_joint="floating")
    efforts = client.listen(JointState, node.name + "/external_efforts")
    contacts = client.listen(ExternalContact, node.name + "/contacts")
    robot = Robot(client, node, model)
    odometry = client.publisher(Odometry, node.topic("odom"))
    joints = np.zeros(model.nq - 7)
    for _ in range(100):
        robot.time += 1e-3
        message = Odometry()
        message.header.stamp = robot.message([], [], []).header.stamp
        message.pose.pose.orientation.w = 1.0
        odometry.publish(message)
        robot.publisher.publish(robot.message(joints, joints, joints))
        client.settle()
    q = np.concatenate([[0.0] * 6, [1.0], joints])
    weight = dyn_ros.generalized_gravity(model, robot.data, q)
    assert list(efforts[-1].name) == list(model.velocity_names)
    np.testing.assert_allclose(efforts[-1].effort, weight, atol=1e-6)
    base = set(model.velocity_names[:6])
    assert not base & set(contacts[-1].joint)
    client.stop_listening()
    node.stop()


def test_parts_of_the_robot_from_two_publishers(client, node, robot, listen):
    efforts = listen("external_efforts", JointState)
    robot.time += 1.0  # in which it moves there
    for _ in range(100):
        robot.time += DT
        q, v, a = robot.motion(0.2)
        tau = robot.efforts(q, v, a, FORCE)
        for part in (slice(0, 3), slice(3, 7)):
            robot.publisher.publish(robot.message(q[part], v[part], tau[part], robot.names[part]))
        client.settle()
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE), atol=0.05)
    assert len(efforts) < 101


def test_a_locked_joint_needs_no_effort(client, start, arm):
    node = start(module=MODULE, gain=100.0, locked_joints="[wrist_roll=0.3]")
    efforts = client.listen(JointState, node.name + "/external_efforts")
    robot = Robot(client, node, arm)
    for _ in range(100):
        robot.time += DT
        q = np.append(Q[:6], 0.3)
        tau = robot.efforts(q, np.zeros(7), np.zeros(7), FORCE)
        tau[6] = math.nan
        robot.publisher.publish(robot.message(q, np.zeros(7), tau))
        client.settle()
    np.testing.assert_allclose(efforts[-1].effort, robot.external(q, FORCE)[:6], atol=0.02)
    client.stop_listening()
    node.stop()


MIMIC = """<robot name="gripper"><link name="base"/>
  <joint name="left" type="prismatic"><parent link="base"/><child link="left_finger"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="1" effort="10" velocity="1"/></joint>
  <link name="left_finger"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="right" type="prismatic"><parent link="base"/><child link="right_finger"/>
    <axis xyz="0 0 1"/><mimic joint="left" multiplier="2"/>
    <limit lower="0" upper="1" effort="10" velocity="1"/></joint>
  <link name="right_finger"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>"""


def test_mimic_joints_are_part_of_their_masters(client, start, tmp_path):
    path = tmp_path / "gripper.urdf"
    path.write_text(MIMIC)
    node = start(module=MODULE, gain=100.0, robot_description_file=path)
    efforts = client.listen(JointState, node.name + "/external_efforts")
    robot = Robot(client, node, dyn_ros.Model.from_urdf_file(path))
    for _ in range(100):
        robot.time += DT
        robot.publisher.publish(
            robot.message([0.1, 0.2], [0.0, 0.0], [20.0, math.nan], ["left", "right"])
        )
        client.settle()
    assert efforts[-1].name == ["left"]
    np.testing.assert_allclose(efforts[-1].effort, 3.0 * 9.81 - 20.0, atol=1e-6)
    client.stop_listening()
    node.stop()


def test_a_robot_without_joints_is_stated(client, start, tmp_path):
    path = tmp_path / "block.urdf"
    path.write_text('<robot name="block"><link name="block"/></robot>')
    node = start(module=MODULE, robot_description_file=path)
    client.listen(JointState, node.name + "/external_efforts")
    assert client.diagnostics(node)[0].message
    client.stop_listening()
    node.stop()
