# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""centroidal_node compared with Pinocchio."""

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

import pinocchio
from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from std_msgs.msg import String

import dyn_ros
import peer
from dyn_ros.msg import CentroidalState

from .conftest import ARM7
from .conftest import Q as POSITION
from .conftest import V as VELOCITY

MODULE = "dyn_ros.nodes.centroidal_node"
ACCELERATION = np.array([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0])
POSE = np.array([1.0, 2.0, 3.0, 0.1, -0.7, 0.5, 0.5])
TWIST = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
AT_REST = np.array([0.0] * 6 + [1.0]), np.zeros(6)
NO_INERTIA = """<robot name="wheel_without_inertia">
  <link name="base"><inertial><mass value="3"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="swing" type="continuous"><parent link="base"/><child link="arm"/></joint>
  <link name="arm"><inertial><origin xyz="0 0.5 0"/><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="wheel" type="continuous"><parent link="arm"/><child link="rim"/></joint>
  <link name="rim"/>
</robot>"""


@pytest.fixture(scope="module")
def node(start):
    return start(module=MODULE)


@pytest.fixture
def speak(client, node):
    yield client.speaker(node)
    client.stop_listening()


@pytest.fixture
def state(client, node, speak):
    return client.listen(CentroidalState, node.name + "/state")


@pytest.fixture
def settings(client, node):
    """Set parameters of the node; restore them after the test."""
    back = {}
    was = {
        "root_joint": "fixed",
        "base_source": "odometry",
        "base_pose": [0.0] * 6 + [1.0],
        "base_twist": [0.0] * 6,
        "acceleration_source": "none",
        "acceleration_cutoff": 10.0,
        "world_frame": "",
        "frame_id": "",
        "gravity": [0.0, 0.0, -9.81],
        "max_rate": 0.0,
        "armature": (Parameter.Type.DOUBLE_ARRAY, []),
    }

    def settings(**values):
        back.update({name: was[name] for name in values})
        assert client.set_parameters(node, **values) == (True, "")

    yield settings
    assert client.set_parameters(node, **back) == (True, "")


def base(pose, twist):
    """Parameters of a floating base with this pose and twist."""
    return {
        "root_joint": "floating",
        "base_source": "parameter",
        "base_pose": [float(x) for x in pose],
        "base_twist": [float(x) for x in twist],
    }


# Reference results of Pinocchio: with a floating base all links move, even if it is at rest


FLYING = peer.pinocchio_model(ARM7.read_text(), "floating")


def check(message, pose, twist, position=POSITION, velocity=VELOCITY, acceleration=None):
    """Compare with Pinocchio; the acceleration is of base (6) and joints."""
    data = FLYING.createData()
    q, v = np.concatenate([pose, position]), np.concatenate([twist, velocity])
    pinocchio.ccrba(FLYING, data, q, v)
    assert message.velocity_valid
    close([message.mass], [pinocchio.computeTotalMass(FLYING)])
    close(vector(message.com), data.com[0])
    close(tensor(message.locked_inertia), data.Ig.inertia)
    assert message.locked_inertia.m == message.mass
    close(vector(message.locked_inertia.com), vector(message.com))
    close(vector(message.linear_momentum), data.hg.linear)
    close(vector(message.angular_momentum), data.hg.angular)
    close(vector(message.com_velocity), data.hg.linear / message.mass)
    assert message.rates_valid == (acceleration is not None)
    if acceleration is not None:
        pinocchio.computeCentroidalMomentumTimeVariation(FLYING, data, q, v, acceleration)
        close(vector(message.linear_momentum_rate), data.dhg.linear)
        close(vector(message.angular_momentum_rate), data.dhg.angular)
        close(vector(message.com_acceleration), data.dhg.linear / message.mass)
    else:
        assert_unknown(message, "com_acceleration", "linear_momentum_rate", "angular_momentum_rate")


def tensor(body):
    """The rotational inertia of a geometry_msgs/Inertia."""
    return np.array(
        [
            [body.ixx, body.ixy, body.ixz],
            [body.ixy, body.iyy, body.iyz],
            [body.ixz, body.iyz, body.izz],
        ]
    )


def vector(message):
    return np.array([message.x, message.y, message.z])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)


def assert_unknown(message, *fields):
    for field in fields:
        assert np.isnan(vector(getattr(message, field))).all()


# What is published


def odometry(stamp, pose, twist):
    message = Odometry(child_frame_id="base_link")
    message.header.stamp, message.header.frame_id = stamp, "map"
    p, o = message.pose.pose.position, message.pose.pose.orientation
    v, w = message.twist.twist.linear, message.twist.twist.angular
    p.x, p.y, p.z, o.x, o.y, o.z, o.w = pose
    v.x, v.y, v.z, w.x, w.y, w.z = twist
    return message


def test_a_fixed_base_counts_and_stands_still(state, speak, arm):
    assert arm.base_inertia.mass > 0.0
    names = [arm.joint_names[i] for i in (4, 2, 6, 0, 1, 5, 3)]
    order = [arm.joint_names.index(name) for name in names]
    message = speak.message(names, POSITION[order], VELOCITY[order])
    message.header.stamp.nanosec = 123456789
    [answer] = speak.ask(message, state)
    assert answer.header.stamp == message.header.stamp
    assert answer.header.frame_id == "base_link"
    check(answer, *AT_REST)


def test_a_floating_base_takes_odometry_and_its_frame(client, node, state, speak, settings, arm):
    settings(root_joint="floating")
    publisher = client.publisher(Odometry, node.topic("odom"))
    message = speak.message(arm.joint_names, POSITION, VELOCITY)
    report = odometry(message.header.stamp, POSE, TWIST)

    def send():
        publisher.publish(report)
        speak.send(message)

    client.wait(lambda: state.at(message.header.stamp.sec), node.output(), again=send)
    answer = state.at(message.header.stamp.sec)
    assert answer.header.frame_id == "map"
    check(answer, POSE, TWIST)


@pytest.mark.parametrize("root_joint", ["floating", "planar"])
def test_a_moving_base_by_parameter_is_in_the_world(state, speak, settings, arm, root_joint):
    yaw = 0.7
    pose = [1.0, 2.0, 0.0, 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)]
    twist = [0.1, 0.2, 0.0, 0.0, 0.0, 0.3]
    settings(**{**base(pose, twist), "root_joint": root_joint})
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state)
    assert answer.header.frame_id == "world"
    check(answer, pose, twist)
    settings(world_frame="hall", frame_id="arm")
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state)
    assert answer.header.frame_id == "hall"
    settings(root_joint="fixed")
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state)
    assert answer.header.frame_id == "arm"


def test_without_velocity_the_rest_comes(client, node, state, speak, settings, arm):
    for source in ("none", "finite_difference", "forward_dynamics"):
        settings(acceleration_source=source)
        message = speak.message(arm.joint_names, POSITION, effort=[1.0] * 7)
        [answer] = speak.ask(message, state)
        assert not answer.velocity_valid and not answer.rates_valid
        assert_unknown(
            answer,
            "com_velocity",
            "linear_momentum",
            "angular_momentum",
            "com_acceleration",
            "linear_momentum_rate",
            "angular_momentum_rate",
        )
        [whole] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY), state)
        assert whole.velocity_valid
        assert answer.mass == whole.mass and answer.com == whole.com
        assert answer.locked_inertia == whole.locked_inertia
    speak.ask(speak.message(arm.joint_names, POSITION), state)
    client.diagnostics(node, lambda status, values: "unknown velocity" in status.message)


# Rates by finite differences


def say_motion(speak, state, names, a, *times):
    """Publish states with a constant acceleration `a` at times [s] from now; return responses."""
    speak.seconds += 10
    answers = []
    for time in times:
        message = speak.message(names, POSITION, VELOCITY + time * a, later=0)
        nanosec = round(time * 1e9)
        stamp = Time(sec=speak.seconds + nanosec // 10**9, nanosec=nanosec % 10**9)
        message.header.stamp = stamp
        speak.client.wait(
            lambda stamp=stamp: any(m.header.stamp == stamp for m in state),
            f"an answer\n{speak.node.output()}",
            again=lambda m=message: speak.send(m),
        )
        answers.append(next(m for m in state if m.header.stamp == stamp))
    return answers


@pytest.mark.parametrize("cutoff", [0.0, 10.0])
def test_rates_by_finite_differences(state, speak, settings, arm, cutoff):
    settings(acceleration_source="finite_difference", acceleration_cutoff=cutoff)
    first, *later = say_motion(speak, state, arm.joint_names, ACCELERATION, 0.0, 0.125, 0.25, 0.75)
    check(first, *AT_REST)
    for answer, time in zip(later, (0.125, 0.25, 0.75)):
        check(
            answer,
            *AT_REST,
            velocity=VELOCITY + time * ACCELERATION,
            acceleration=np.concatenate([np.zeros(6), ACCELERATION]),
        )
    assert any(vector(later[0].angular_momentum_rate) > 0.1)


def test_the_cutoff_smooths(state, speak, settings, arm):
    settings(acceleration_source="finite_difference", acceleration_cutoff=2.0)
    a = np.zeros(7)
    say_motion(speak, state, arm.joint_names, a, 0.0, 0.125)
    speak.seconds -= 10
    [answer] = say_motion(speak, state, arm.joint_names, ACCELERATION, 0.25)
    share = -math.expm1(-2.0 * math.pi * 2.0 * 0.125)
    check(
        answer,
        *AT_REST,
        velocity=VELOCITY + 0.25 * ACCELERATION,
        acceleration=np.concatenate([np.zeros(6), share * 2.0 * ACCELERATION]),
    )


@pytest.mark.parametrize("jump", [0.625, -1000.0])
def test_a_gap_or_a_jump_back_starts_differences_anew(state, speak, settings, arm, jump):
    settings(acceleration_source="finite_difference")
    times = [0.0, 0.25, 0.25 + jump, 0.5 + jump]
    answers = say_motion(speak, state, arm.joint_names, ACCELERATION, *times)
    assert [answer.rates_valid for answer in answers[1:]] == [True, False, True]


def test_a_new_robot_starts_differences_anew(client, node, state, speak, settings, arm):
    settings(acceleration_source="finite_difference")
    descriptions = client.publisher(
        String,
        node.topic("robot_description"),
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        reliability=ReliabilityPolicy.RELIABLE,
    )
    answers = say_motion(speak, state, arm.joint_names, ACCELERATION, 0.0, 0.25)
    assert answers[1].rates_valid
    for name in ("another", "arm7"):
        speak.seconds -= 10
        descriptions.publish(String(data=ARM7.read_text().replace('"arm7"', f'"{name}"')))
        client.diagnostics(node, lambda _, values, name=name: values["robot"] == name)
        [answer] = say_motion(speak, state, arm.joint_names, ACCELERATION, 0.375)
        assert answer.velocity_valid and not answer.rates_valid


def test_differences_take_the_states_that_max_rate_leaves_out(
    client, node, state, speak, settings, arm
):
    """The last of many states is published, with the difference to the one before it."""
    settings(acceleration_source="finite_difference", acceleration_cutoff=0.0)
    say_motion(speak, state, arm.joint_names, ACCELERATION, 0.0, 0.25)
    settings(max_rate=0.5)
    speak.seconds += 1
    before = speak.seconds
    passed = []

    def one_more():
        """Each is 0.25 s after the one before; the velocity's square grows steadily."""
        time = 0.25 * len(passed)
        message = speak.message(arm.joint_names, POSITION, VELOCITY + time**2, later=0)
        message.header.stamp.sec = before + int(time)
        message.header.stamp.nanosec = round(time % 1.0 * 1e9)
        passed.append(message.header.stamp)
        speak.send(message)

    client.wait(
        lambda: any(m.header.stamp in passed[2:] and m.rates_valid for m in state),
        "a state with rates",
        again=one_more,
        every=0.02,
    )
    speak.seconds += 1000
    answer = next(m for m in state if m.header.stamp in passed[2:] and m.rates_valid)
    time = 0.25 * passed.index(answer.header.stamp)
    a = (time**2 - (time - 0.25) ** 2) / 0.25
    check(
        answer,
        *AT_REST,
        velocity=VELOCITY + time**2,
        acceleration=np.concatenate([np.zeros(6), np.full(7, a)]),
    )


class Flight:
    """The floating arm in flight: publishes its odometry and joint states."""

    def __init__(self, speak, state):
        self.client, self.speak, self.state = speak.client, speak, state
        self.model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating", gravity=GRAVITY)
        self.data = dyn_ros.Data(self.model)
        self.publisher = self.client.publisher(Odometry, speak.node.topic("odom"))

    def ask(self, q, v, nanosec=0, effort=()):
        """The answer to a state at a time after the speaker's second."""
        message = self.speak.message(self.model.joint_names[1:], q[7:], v[6:], effort, later=0)
        message.header.stamp.nanosec = nanosec
        report = odometry(message.header.stamp, q[:7], v[:6])

        def send():
            self.publisher.publish(report)
            self.speak.send(message)

        def answers():
            return [each for each in self.state if each.header.stamp == message.header.stamp]

        self.client.wait(answers, f"an answer\n{self.speak.node.output()}", again=send)
        return answers()[0]

    def check_weight(self, answer):
        """Only its weight acts on it: the momentum balance of free flight."""
        weight = answer.mass * np.array(GRAVITY)
        assert answer.rates_valid
        assert np.abs(vector(answer.linear_momentum)).max() > 1.0
        within = {"rtol": 0.0, "atol": 1e-9 * np.linalg.norm(weight)}
        np.testing.assert_allclose(vector(answer.linear_momentum_rate), weight, **within)
        np.testing.assert_allclose(vector(answer.angular_momentum_rate), 0.0, **within)
        np.testing.assert_allclose(vector(answer.com_acceleration), GRAVITY, rtol=0.0, atol=1e-8)


GRAVITY = [0.4, -0.3, -9.7]


@pytest.fixture
def flight(speak, state, settings):
    settings(root_joint="floating", gravity=GRAVITY)
    return Flight(speak, state)


def flying(flight, seed):
    rng = np.random.default_rng(seed)
    q = flight.model.random_configuration(rng)
    return q, rng.normal(size=flight.model.nv), rng.normal(size=7)


def test_differences_of_a_flight_give_its_weight(flight, settings):
    settings(acceleration_source="finite_difference", acceleration_cutoff=0.0)
    q, v, effort = flying(flight, 1)
    a = dyn_ros.aba(flight.model, flight.data, q, v, np.concatenate([np.zeros(6), effort]))
    flight.speak.seconds += 10
    flight.ask(q, v - 0.125 * a)
    flight.check_weight(flight.ask(q, v, nanosec=125_000_000))


# Rates by forward dynamics


def test_measured_effort_of_a_flight_gives_its_weight(flight, settings):
    settings(acceleration_source="forward_dynamics")
    for seed in range(3):
        q, v, effort = flying(flight, seed)
        for _ in range(2):  # the first one starts the collection of efforts
            flight.speak.seconds += 1
            answer = flight.ask(q, v, effort=effort)
        flight.check_weight(answer)


@pytest.mark.parametrize("armature", [(Parameter.Type.DOUBLE_ARRAY, []), [0.1] * 7])
def test_rates_by_measured_effort(state, speak, settings, arm, armature):
    settings(acceleration_source="forward_dynamics", armature=armature)
    model = dyn_ros.Model.from_urdf_file(ARM7)
    if isinstance(armature, list):
        model.armature = armature
    effort = dyn_ros.rnea(model, dyn_ros.Data(model), POSITION, VELOCITY, ACCELERATION)
    for _ in range(2):
        [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY, effort), state)
    check(answer, *AT_REST, acceleration=np.concatenate([np.zeros(6), ACCELERATION]))


@pytest.mark.parametrize(
    "effort, missing", [([], range(7)), ([1.0, math.nan, 1.0, 1.0, 1.0, math.inf, 1.0], (1, 5))]
)
def test_a_missing_effort_is_reported_and_the_rest_is_published(
    client, node, state, speak, settings, arm, effort, missing
):
    settings(acceleration_source="forward_dynamics")
    warning = "no rates: unknown effort of " + ", ".join(arm.joint_names[i] for i in missing)
    answers = []

    def reported(status, values):
        [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY, effort), state)
        answers.append(answer)
        return status.message == warning and node.output().count(warning + "\n") == 1

    client.diagnostics(node, reported)
    for answer in answers:
        check(answer, *AT_REST)
    [answer] = speak.ask(speak.message(arm.joint_names, POSITION, VELOCITY, [1.0] * 7), state)
    assert answer.rates_valid
    client.diagnostics(node, lambda status, values: "effort" not in status.message)


def test_numbers_that_are_too_large_are_reported(client, start):
    node = start(module=MODULE, robot_description_file=None, acceleration_source="forward_dynamics")
    wheel = """<link name="rim"><inertial><mass value="1e-300"/>
        <inertia ixx="1e-300" iyy="1e-300" izz="1e-300" ixy="0" ixz="0" iyz="0"/></inertial>
        </link>"""
    light = NO_INERTIA.replace('<link name="rim"/>', wheel).replace(
        '<mass value="2"/>', '<mass value="1e-300"/>'
    )
    is_set, why = client.set_parameters(
        node, robot_description=light.replace('"1e-300"', '"1e300"')
    )
    assert not is_set and "1e300" in why
    assert client.set_parameters(node, robot_description=light) == (True, "")
    state = client.listen(CentroidalState, node.name + "/state")
    speak = client.speaker(node)

    def reported(status, values):
        speak.send(speak.message(["swing", "wheel"], [0.1, 0.2], [1.0, 2.0], [1e11, 1e11]))
        return (
            "acceleration_source forward_dynamics: the numbers in the state are too large"
            in values["last rejection"]
        )

    client.diagnostics(node, reported)
    assert not any(answer.rates_valid for answer in state)
    assert "Traceback" not in node.output()


def test_a_robot_without_accelerations_gives_the_rest(client, start):
    node = start(module=MODULE, robot_description_file=None, acceleration_source="forward_dynamics")
    assert client.set_parameters(node, robot_description=NO_INERTIA) == (True, "")
    state = client.listen(CentroidalState, node.name + "/state")
    speak = client.speaker(node)
    for _ in range(2):
        [answer] = speak.ask(
            speak.message(["swing", "wheel"], [0.1, 0.2], [1.0, 2.0], [3.0, 0.0]), state
        )
    assert answer.velocity_valid and not answer.rates_valid
    assert answer.mass == 5.0
    close(vector(answer.linear_momentum), [0.0, -math.sin(0.1), math.cos(0.1)])
    client.diagnostics(node, lambda status, values: "'wheel' moves no inertia" in status.message)


def test_a_robot_without_mass_has_no_com_velocity(client, start):
    node = start(module=MODULE, robot_description_file=None)
    nothing = NO_INERTIA.replace('<mass value="3"/>', '<mass value="0"/>').replace(
        '<mass value="2"/>', '<mass value="0"/>'
    )
    assert client.set_parameters(node, robot_description=nothing) == (True, "")
    state = client.listen(CentroidalState, node.name + "/state")
    speak = client.speaker(node)
    [answer] = speak.ask(speak.message(["swing", "wheel"], [0.1, 0.2], [1.0, 2.0]), state)
    assert answer.mass == 0.0 and answer.velocity_valid
    close(vector(answer.linear_momentum), [0.0, 0.0, 0.0])
    assert_unknown(answer, "com_velocity")


# Parameters


@pytest.mark.parametrize(
    "reason, values",
    [
        (
            "expected one of none, finite_difference, forward_dynamics",
            {"acceleration_source": "both"},
        ),
        ("acceleration_cutoff out of range", {"acceleration_cutoff": -1.0}),
        ("there is no joint 'nobody'", {"joints": ["nobody"]}),
    ],
)
def test_a_bad_parameter_is_rejected(client, node, reason, values):
    done, why = client.set_parameters(node, **values)
    assert not done and reason in why
