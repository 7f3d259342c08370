# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""vereshchagin_node compared with Pinocchio's matrices."""

import array
import math
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

import pinocchio
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.msg import Transition
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

import dyn_ros
import peer
from dyn_ros.msg import AccelerationConstraints, ConstrainedDynamics, RobotState
from dyn_ros.srv import SolveConstrainedDynamics

from .conftest import ARM7
from .conftest import Q as POSITION
from .conftest import V as VELOCITY

MODULE = "dyn_ros.nodes.vereshchagin_node"
POSE = np.array([1.0, 2.0, 3.0, 0.1, -0.7, 0.5, 0.5])
TWIST = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
PUSH, TWIST_OFF = np.array([5.0, -20.0, 10.0, 1.0, -2.0, 3.0]), np.array([0, 0, 1, 0, 4.0, 0])
DEFAULTS = {
    "constraints": "topic",
    "tip_frame": "",
    "axis": [0.0, 0.0, 1.0],
    "axis_frame": "",
    "feedforward": "none",
    "wrench_topics": (Parameter.Type.STRING_ARRAY, []),
    "wrench_frames": (Parameter.Type.STRING_ARRAY, []),
    "input_timeout": 0.0,
    "singularity": "relative",
    "singularity_tolerance": 0.0,
    "priority": "constraint",
    "gravity": [0.0, 0.0, -9.81],
    "root_joint": "fixed",
    "base_source": "odometry",
    "base_pose": [0.0] * 6 + [1.0],
    "base_twist": [0.0] * 6,
    "armature": (Parameter.Type.DOUBLE_ARRAY, []),
    "frame_id": "",
    "joints": (Parameter.Type.STRING_ARRAY, []),
}
LINKS = (
    "base_link, shoulder_link, upper_arm_link, elbow_link, forearm_link, wrist_link, "
    "hand_link, flange_link, tool"
)


# What the motion under constraints is, by Pinocchio's matrices


class Peer:
    """The arm in Pinocchio, at one state."""

    def __init__(self, position=POSITION, velocity=VELOCITY, gravity=(0.0, 0.0, -9.81), base=None):
        self.model = peer.pinocchio_model(ARM7.read_text(), "floating" if base else None).copy()
        self.model.gravity.linear = np.array(gravity)
        self.model.armature = np.zeros(self.model.nv)
        self.q, self.v = position, velocity
        if base:
            self.q, self.v = (np.concatenate(pair) for pair in zip(base, (position, velocity)))

    def rotation(self, frame):
        data = self.model.createData()
        pinocchio.framesForwardKinematics(self.model, data, self.q)
        return data.oMf[self.model.getFrameId(frame)].rotation

    def classical_acceleration(self, frame, ddq):
        """Return the acceleration of a frame in the axes of the world, (6,)."""
        data = self.model.createData()
        pinocchio.forwardKinematics(self.model, data, self.q, self.v, ddq)
        pinocchio.updateFramePlacements(self.model, data)
        return pinocchio.getFrameClassicalAcceleration(
            self.model, data, self.model.getFrameId(frame), pinocchio.LOCAL_WORLD_ALIGNED
        ).vector

    def pushed(self, wrenches):
        """J' w of wrenches, each in its frame's axes."""
        return sum(
            (
                pinocchio.computeFrameJacobian(
                    self.model,
                    self.model.createData(),
                    self.q,
                    self.model.getFrameId(frame),
                    pinocchio.LOCAL,
                ).T
                @ wrench
                for frame, wrench in wrenches
            ),
            np.zeros(self.model.nv),
        )

    def free(self, tau, wrenches=()):
        """The acceleration that torques and wrenches give the robot without constraints."""
        return pinocchio.aba(
            self.model, self.model.createData(), self.q, self.v, tau + self.pushed(wrenches)
        )

    def constrained(self, frames, directions, accelerations, tau=None, wrenches=()):
        """Acceleration and the constraints' torque, for directions in the axes of the world.

        Of all ddq with D (J ddq + drift) = accelerations the one nearest to the free one, by M.
        """
        tau = np.zeros(self.model.nv) if tau is None else tau
        still = np.zeros(self.model.nv)
        M = pinocchio.crba(self.model, self.model.createData(), self.q)
        A = np.array(
            [
                d
                @ pinocchio.computeFrameJacobian(
                    self.model,
                    self.model.createData(),
                    self.q,
                    self.model.getFrameId(frame),
                    pinocchio.LOCAL_WORLD_ALIGNED,
                )
                for frame, d in zip(frames, directions)
            ]
        )
        drift = np.array(
            [d @ self.classical_acceleration(frame, still) for frame, d in zip(frames, directions)]
        )
        free = self.free(tau, wrenches)
        excess = A @ free + drift - accelerations
        nu = np.linalg.pinv(A @ np.linalg.solve(M, A.T), rcond=1e-10, hermitian=True) @ excess
        forces = -A.T @ nu
        return free + np.linalg.solve(M, forces), forces


def close(actual, expected):
    expected = np.asarray(expected)
    np.testing.assert_allclose(
        actual, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max(initial=0.0))
    )


def matrix(message):
    return np.reshape(message.data, (message.rows, message.cols))


def constraints(frame_id, frame, directions, accelerations=()):
    """Constraints whose directions are given one after the other."""
    directions = np.asarray(directions, float).reshape(-1, 6).T
    message = AccelerationConstraints()
    message.header.frame_id, message.frame = frame_id, list(frame)
    message.directions.rows, message.directions.cols = directions.shape
    message.directions.data = array.array("d", directions.ravel())
    message.acceleration = array.array("d", accelerations)
    return message


def wrench(frame_id, numbers):
    message = WrenchStamped()
    message.header.frame_id = frame_id
    f, n = message.wrench.force, message.wrench.torque
    f.x, f.y, f.z, n.x, n.y, n.z = map(float, numbers)
    return message


@pytest.fixture(scope="module")
def node(start):
    return start(module=MODULE, input_timeout=0.0)


@pytest.fixture
def settings(client, node):
    """Set parameters of the node; restore them after the test."""
    back = {}

    def settings(**values):
        back.update({name: DEFAULTS[name] for name in values})
        assert client.set_parameters(node, **values) == (True, "")

    yield settings
    assert client.set_parameters(node, **back) == (True, "")


class Robot:
    """Communicates with the node as a robot and its controller do."""

    def __init__(self, client, node):
        self.client, self.node = client, node
        self.speak = client.speaker(node)
        self.names = dyn_ros.Model.from_urdf_file(ARM7).joint_names
        self.torques = client.listen(JointState, node.name + "/constraint_torques")
        self.solutions = client.listen(ConstrainedDynamics, node.name + "/solution")

    def message(self, position=POSITION, velocity=VELOCITY, **more):
        return self.speak.message(self.names, position, velocity, **more)

    def ask(self, *state, ready=lambda solution: True, again=lambda: None):
        """Torques and solution of a state, once the solution is `ready`; tries `again`."""
        stamps, results = [], []

        def send():
            again()
            stamps.append(self.speak.send(self.message(*state)))

        def look():
            for stamp in stamps:
                torques, solution = self.torques.at(stamp), self.solutions.at(stamp)
                if torques and solution and ready(solution):
                    results[:] = torques, solution
            return results

        self.client.wait(look, lambda: f"{self.solutions[-1:]}\n{self.node.output()}", send, 0.1)
        torques, solution = results
        assert list(torques.name) == list(solution.name)
        close(torques.effort, solution.effort)
        assert torques.header.stamp == solution.header.stamp
        return torques, solution

    def constrain(self, message):
        self.client.publisher(AccelerationConstraints, self.node.name + "/constraints").publish(
            message
        )

    def ask_under(self, message, *state):
        """Return torques and solution under the constraints of a message."""

        def ready(solution):
            constraints = solution.constraints
            return (
                constraints.directions == message.directions
                and list(constraints.acceleration) == list(message.acceleration)
                and constraints.header.frame_id == message.header.frame_id
            )

        self.wait_for_subscriber(AccelerationConstraints, "/constraints")
        return self.ask(*state, ready=ready, again=lambda: self.constrain(message))

    def wait_for_subscriber(self, kind, topic):
        publisher = self.client.publisher(kind, self.node.name + topic)
        self.client.wait(publisher.get_subscription_count, "a subscription of " + topic)

    def silent(self, *state):
        """Return True if the node takes a state and does not respond to it."""
        message = self.message(*state)
        self.client.diagnostics(
            self.node,
            lambda _, values: float(values["states [Hz]"]) > 0 or self.speak.send(message) is None,
        )
        self.speak.send(message)  # the next diagnostics are of this one
        self.client.settle()
        return (
            self.torques.at(message.header.stamp.sec),
            self.solutions.at(message.header.stamp.sec),
        ) == (None, None)


@pytest.fixture
def robot(client, node):
    yield Robot(client, node)
    client.stop_listening()


def check(solution, ddq, forces, feedforward=0.0):
    close(solution.acceleration, ddq)
    close(solution.constraint_generalized_forces, forces)
    close(solution.feedforward, np.zeros(len(forces)) + feedforward)
    close(solution.effort, np.add(solution.feedforward, forces))


# Constraints from parameters


X, Y, Z, RX, RY, RZ = np.eye(6)


@pytest.mark.parametrize(
    "preset, gravity, directions",
    [
        ("hold_pose", [0.0, 0.0, -9.81], [X, Y, Z, RX, RY, RZ]),
        ("hold_position", [0.0, 0.0, -9.81], [X, Y, Z]),
        ("keep_upright", [0.0, 0.0, -9.81], [RX, RY]),
        ("keep_upright", [0.0, 0.0, 3.7], [RX, RY]),
        ("keep_upright", [9.81, 0.0, 0.0], [RY, RZ]),
        ("free_along_axis", [0.0, 0.0, -9.81], [X, Y, RX, RY, RZ]),
    ],
)
def test_presets(robot, settings, preset, gravity, directions):
    settings(gravity=gravity)
    settings(constraints=preset, tip_frame="tool")
    torques, solution = robot.ask()
    expected = Peer(gravity=gravity)
    check(solution, *expected.constrained(["tool"] * len(directions), directions, 0.0))
    assert solution.rank == solution.constraints.directions.cols == len(directions)
    assert list(torques.name) == list(robot.names)
    assert not torques.position and not torques.velocity
    assert torques.header.frame_id == solution.header.frame_id == "base_link"
    assert solution.constraints.header.frame_id == "base_link"
    assert list(solution.constraints.frame) == ["tool"] * len(directions)
    assert not np.any(solution.constraints.acceleration)
    # the torques produce the desired acceleration in the robot without constraints
    a = expected.classical_acceleration("tool", expected.free(np.array(torques.effort)))
    close(np.array(directions) @ a, np.zeros(len(directions)))


@pytest.mark.parametrize("axis_frame", ["", "tool", "elbow_link"])
def test_free_along_an_axis_of_a_link(robot, settings, axis_frame):
    settings(axis=[0.0, 3.0, 4.0], axis_frame=axis_frame, tip_frame="tool_mount")
    settings(constraints="free_along_axis")
    _, solution = robot.ask()
    expected = Peer()
    R = expected.rotation(axis_frame) if axis_frame else np.eye(3)
    axis = R @ [0.0, 0.6, 0.8]
    across = np.linalg.svd(axis[np.newaxis])[2][1:]
    directions = np.zeros((5, 6))
    directions[:2, :3], directions[2:, 3:] = across, np.eye(3)
    check(solution, *expected.constrained(["tool_mount"] * 5, directions, 0.0))
    assert solution.constraints.header.frame_id == (axis_frame or "base_link")
    a = expected.classical_acceleration("tool_mount", np.array(solution.acceleration))
    assert abs(axis @ a[:3]) > 1.0  # it is free there


@pytest.mark.parametrize("length", [1e-320, 1e300])
def test_the_axis_may_have_any_length(robot, settings, length):
    settings(constraints="free_along_axis", tip_frame="tool", axis=[0.0, 0.0, 1.0])
    expected = robot.ask()[1].constraints.directions.data
    settings(axis=[0.0, 0.0, length])
    assert robot.ask()[1].constraints.directions.data == expected


@pytest.mark.parametrize(
    "reason, values",
    [
        ("expected one of topic, hold_pose", {"constraints": "hold"}),
        (
            "tip_frame: no moving frame is named ''; available: shoulder_yaw, ",
            {"constraints": "hold_pose"},
        ),
        (
            "tip_frame: no moving frame is named 'hand'",
            {"constraints": "hold_pose", "tip_frame": "hand"},
        ),
        (
            "tip_frame: no moving frame is named 'base_link'",
            {"constraints": "hold_pose", "tip_frame": "base_link"},
        ),
        (
            "axis is zero",
            {"constraints": "free_along_axis", "tip_frame": "tool", "axis": [0.0, 0.0, 0.0]},
        ),
        ("axis: expected finite numbers", {"axis": [0.0, 0.0, math.nan]}),
        (
            "axis_frame: no frame named 'map'; available: base_link, shoulder_yaw, ",
            {"constraints": "free_along_axis", "tip_frame": "tool", "axis_frame": "map"},
        ),
        (
            "gravity is zero",
            {"constraints": "keep_upright", "tip_frame": "tool", "gravity": [0.0, 0.0, 0.0]},
        ),
        ("expected one of none, gravity, topic", {"feedforward": "all"}),
        ("expected one of relative, absolute, damped", {"singularity": "ignore"}),
        ("out of range", {"singularity_tolerance": -1.0}),
        ("out of range", {"input_timeout": -1.0}),
        ("expected one of constraint, external_force", {"priority": "me"}),
        ("Invalid topic name: topic name must not contain", {"wrench_topics": ["no topic"]}),
        ("cannot subscribe to 'hand//wrench'", {"wrench_topics": ["wrench", "hand//wrench"]}),
        (
            "cannot subscribe to 'joint_states' as WrenchStamped",
            {"wrench_topics": ["joint_states"]},
        ),
        (
            "wrench_topics: ~/constraints is not a topic for wrenches",
            {"wrench_topics": ["~/constraints"]},
        ),
    ],
)
def test_a_bad_parameter_is_rejected(client, node, robot, settings, reason, values):
    settings(constraints="hold_position", tip_frame="tool")
    before = robot.ask()[1].effort
    if reason.startswith("tip_frame") and "tip_frame" not in values:
        values = {**values, "tip_frame": ""}
    done, why = client.set_parameters(node, **values)
    assert not done and reason in why
    assert robot.ask()[1].effort == before


def test_a_preset_that_does_not_fit_at_start_waits_and_says_why(client, start):
    node = start(module=MODULE, constraints="hold_pose", tip_frame="nose")
    robot = Robot(client, node)
    reason = "nothing is published: tip_frame: no moving frame is named 'nose'; available"
    client.diagnostics(
        node,
        lambda status, _: (
            status.message.startswith(reason)
            and status.level == b"\x01"
            and reason in node.output()
            or robot.speak.send(robot.message()) is None
        ),
    )
    assert not robot.torques and not robot.solutions
    assert client.set_parameters(node, tip_frame="tool") == (True, "")
    check(robot.ask()[1], *Peer().constrained(["tool"] * 6, np.eye(6), 0.0))
    # it never goes stale, unlike messages on a topic
    time.sleep(0.7)
    robot.ask()
    client.stop_listening()


# Constraints from the topic


def test_constraints_of_several_frames_and_all_that_a_solution_holds(robot, settings):
    armature = [0.1, 0.2, 0.3, 0.05, 0.04, 0.03, 0.02]
    settings(armature=armature)
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(4, 6))
    directions /= np.linalg.norm(directions, axis=1)[:, np.newaxis]
    accelerations = rng.normal(size=4)
    frames = ["tool", "elbow_link", "tool", "forearm_roll"]
    message = constraints("wrist_link", frames, directions, accelerations)
    torques, solution = robot.ask_under(message)

    expected = Peer()
    expected.model.armature = np.array(armature)
    R = expected.rotation("wrist_link")
    in_world = np.hstack([directions[:, :3] @ R.T, directions[:, 3:] @ R.T])
    ddq, forces = expected.constrained(frames, in_world, accelerations)
    check(solution, ddq, forces)
    assert list(solution.constraints.frame) == frames
    assert solution.rank == 4
    A = np.array(
        [
            d
            @ pinocchio.computeFrameJacobian(
                expected.model,
                expected.model.createData(),
                expected.q,
                expected.model.getFrameId(frame),
                pinocchio.LOCAL_WORLD_ALIGNED,
            )
            for frame, d in zip(frames, in_world)
        ]
    )
    close(-A.T @ solution.nu, forces)
    # KDL's numbers: M = U D U'
    data = expected.model.createData()
    M = pinocchio.crba(expected.model, data, expected.q)
    L = np.linalg.cholesky(M[::-1, ::-1])[::-1, ::-1]  # M = L L', upper triangular
    U, D = L / np.diag(L), np.diag(L) ** 2
    close(solution.kdl_constraint_torques, np.linalg.solve(U, forces))
    close(solution.kdl_total_torque, D * ddq)
    # links
    pinocchio.forwardKinematics(expected.model, data, expected.q, expected.v, ddq)
    links = [link for link in LINKS.split(", ") if link not in ("base_link", "tool")]
    assert list(solution.link) == links
    for i, row in enumerate(matrix(solution.link_accelerations)):
        R, a = data.oMi[i + 1].rotation, data.a[i + 1].vector
        close(row, np.concatenate([R @ a[:3] + [0.0, 0.0, 9.81], R @ a[3:]]))
    # and the torques meet the constraints
    achieved = [
        d @ expected.classical_acceleration(frame, expected.free(np.array(torques.effort)))
        for frame, d in zip(frames, in_world)
    ]
    close(achieved, accelerations)
    close(solution.achieved_acceleration, accelerations)


def test_none_one_name_for_all_zero_columns_and_no_accelerations(robot):
    expected = Peer()
    _, solution = robot.ask_under(constraints("base_link", [], []))
    check(solution, expected.free(np.zeros(7)), np.zeros(7))
    assert solution.rank == 0 and not solution.nu

    linear = constraints("base_link", ["tool"], np.eye(6)[:3])
    _, solution = robot.ask(
        ready=lambda solution: solution.rank == 3, again=lambda: robot.constrain(linear)
    )
    check(solution, *expected.constrained(["tool"] * 3, np.eye(6)[:3], 0.0))
    assert list(solution.constraints.frame) == ["tool"] * 3
    assert list(solution.constraints.acceleration) == [0.0] * 3

    rows = np.eye(6)
    rows[[1, 4]] = 0.0
    _, solution = robot.ask_under(constraints("base_link", ["tool"], rows, [1.0, 0, 2, 0, 0, 3]))
    check(solution, *expected.constrained(["tool"] * 4, rows[[0, 2, 3, 5]], [1.0, 2, 0, 3]))
    assert solution.rank == 4 and solution.nu[1] == solution.nu[4] == 0.0


GOOD = constraints("tool", ["tool"], np.eye(6)[1:], [0.1, 0.2, 0.3, 0.4, 0.5])


def unlike(**changed):
    """GOOD, with other fields."""
    message = constraints("tool", ["tool"], np.eye(6)[1:], [0.1, 0.2, 0.3, 0.4, 0.5])
    for field, value in changed.items():
        if field in ("rows", "cols", "data"):
            setattr(message.directions, field, value)
        elif field == "frame_id":
            message.header.frame_id = value
        else:
            setattr(message, field, value)
    return message


BAD = [
    ("directions: expected 6 rows (linear, angular), got 5 x 5", unlike(rows=5)),
    ("directions: expected 6 rows (linear, angular), got 1 x 30", unlike(rows=1, cols=30)),
    ("directions: 6 x 4, but 30 numbers", unlike(cols=4)),
    ("directions: 6 x 4294967295, but 30 numbers", unlike(cols=2**32 - 1)),
    (
        "directions: expected at most 36 columns, got 37",
        constraints("tool", ["tool"], np.tile(X, (37, 1))),
    ),
    (
        "directions: expected finite numbers, got nan",
        unlike(data=array.array("d", [math.nan] * 30)),
    ),
    (
        "acceleration: expected one number for each of the 5 columns of directions, or none, got 2",
        unlike(acceleration=[1.0, 2.0]),
    ),
    ("acceleration: expected finite numbers, got [inf", unlike(acceleration=[math.inf] * 5)),
    (
        "frame: expected at most 6 constraints on a tip, got 7 on 'tool'",
        constraints("tool", ["tool"], np.eye(6)[[0, 1, 2, 3, 4, 5, 0]]),
    ),
    ("no frame named 'nose'; available: base_link, shoulder_yaw, ", unlike(frame=["nose"])),
    ("frame: no joint moves 'base_link'; available: shoulder_yaw, ", unlike(frame=["base_link"])),
    (
        "frame: expected one frame, or one for each of the 5 constraints, got 2",
        unlike(frame=["tool"] * 2),
    ),
    ("frame: expected one frame, or one for each of the 5 constraints, got 0", unlike(frame=[])),
    (
        "header.frame_id: no frame named 'map'; available: base_link, shoulder_yaw, ",
        unlike(frame_id="map"),
    ),
    ("header.frame_id: no frame named ''; available: base_link, ", unlike(frame_id="")),
]


def test_bad_constraints_are_rejected_and_the_last_good_ones_stay(client, node, robot):
    before = robot.ask_under(GOOD)[1].effort
    for reason, bad in BAD:

        def refused(_, values, reason=reason):
            return values["last rejection"].startswith("~/constraints: ") and (
                reason in values["last rejection"]
            )

        robot.constrain(bad)
        client.diagnostics(node, refused)
        assert robot.ask()[1].effort == before


def test_constraints_that_go_stale_stop_the_torques(client, node, robot, settings):
    settings(input_timeout=0.2)
    reason = "nothing is published: the last message on ~/constraints is older than input_timeout"
    for _ in range(2):
        robot.ask_under(GOOD)
        time.sleep(0.4)
        assert robot.silent()
        status, _ = client.diagnostics(
            node, lambda status, _: status.message.startswith(reason) or robot.silent() is None
        )
        assert status.level == b"\x01"
    robot.constrain(BAD[0][1])  # a rejected message does not reset the timeout
    assert robot.silent()
    client.wait(lambda: reason in node.output(), node.output, again=robot.silent)
    settings(input_timeout=0.0)  # no limit
    robot.ask()


def test_a_state_that_goes_stale_is_reported(client, node, robot):
    robot.ask_under(GOOD)
    reason = "no state received in the last second"
    client.diagnostics(node, lambda status, _: status.message == reason)
    client.diagnostics(node, lambda *_: reason in node.output())
    before = len(robot.torques), len(robot.solutions)
    part = robot.speak.message(robot.names[:3], POSITION[:3], VELOCITY[:3])
    client.diagnostics(
        node,
        lambda status, _: (
            status.message.startswith("waiting for the position of elbow_pitch")
            or robot.speak.send(part) is None
        ),
    )
    assert (len(robot.torques), len(robot.solutions)) == before
    message = robot.speak.message(robot.names, POSITION, later=100)
    client.diagnostics(
        node,
        lambda status, _: (
            status.message.startswith("unknown velocity of") or robot.speak.send(message) is None
        ),
    )
    assert (len(robot.torques), len(robot.solutions)) == before
    robot.ask()


def test_without_the_topic_there_is_no_subscription(client, node, robot, settings):
    robot.ask_under(GOOD)
    settings(constraints="hold_pose", tip_frame="tool")
    publisher = client.publisher(AccelerationConstraints, node.name + "/constraints")
    client.wait(lambda: not publisher.get_subscription_count(), "no subscription")
    settings(constraints="topic")
    client.diagnostics(
        node,
        lambda status, _: (
            status.message == ("nothing is published: no message received on ~/constraints")
            or robot.silent() is None
        ),
    )
    robot.ask_under(GOOD)


# Feed-forward and measured wrenches


def test_gravity_as_feedforward(robot, settings):
    settings(constraints="hold_position", tip_frame="tool", feedforward="gravity")
    expected = Peer()
    g = pinocchio.computeGeneralizedGravity(expected.model, expected.model.createData(), expected.q)
    _, solution = robot.ask()
    check(solution, *expected.constrained(["tool"] * 3, [X, Y, Z], 0.0, g), feedforward=g)
    _, solution = robot.ask(POSITION, np.zeros(7))
    close(solution.acceleration, np.zeros(7))
    close(solution.effort, g)


def test_feedforward_of_the_topic(client, node, robot, settings):
    settings(
        constraints="hold_position", tip_frame="tool", feedforward="topic", input_timeout=600.0
    )
    client.diagnostics(
        node,
        lambda status, _: (
            status.message == ("nothing is published: no message received on ~/feedforward")
            or robot.silent() is None
        ),
    )
    robot.wait_for_subscriber(JointState, "/feedforward")
    publisher = client.publisher(JointState, node.name + "/feedforward")
    tau = np.zeros(7)
    tau[list(robot.names).index("elbow_pitch")], tau[6] = 3.0, -2.0
    _, solution = robot.ask(
        again=lambda: publisher.publish(
            JointState(name=["elbow_pitch", "wrist_roll"], effort=[3.0, -2.0])
        )
    )
    check(solution, *Peer().constrained(["tool"] * 3, [X, Y, Z], 0.0, tau), feedforward=tau)
    for reason, bad in (
        ("there is no 'nose'; available: shoulder_yaw", JointState(name=["nose"], effort=[1.0])),
        ("effort: 1 names, but 2 numbers", JointState(name=["wrist_roll"], effort=[1.0, 2.0])),
        (
            "effort is not finite: wrist_roll = nan",
            JointState(name=["wrist_roll"], effort=[math.nan]),
        ),
    ):
        client.diagnostics(
            node,
            lambda _, values, reason=reason, bad=bad: (
                reason in values["last rejection"] or publisher.publish(bad)
            ),
        )
    close(robot.ask()[1].feedforward, tau)
    settings(input_timeout=0.1)
    client.diagnostics(
        node, lambda status, _: "~/feedforward is older" in status.message or robot.silent() is None
    )
    assert robot.silent()


@pytest.mark.parametrize("priority", ["constraint", "external_force"])
def test_measured_wrenches(client, node, robot, settings, priority):
    topics = [node.topic("left"), node.topic("right")]
    settings(constraints="hold_pose", tip_frame="tool", wrench_topics=topics, priority=priority)
    best_effort = {"reliability": ReliabilityPolicy.BEST_EFFORT}
    left, right = (client.publisher(WrenchStamped, topic, **best_effort) for topic in topics)
    for publisher in (left, right):
        client.wait(publisher.get_subscription_count, "a subscription")
    expected = Peer()
    pushes = [("forearm_link", PUSH), ("tool", TWIST_OFF)]
    client.diagnostics(
        node,
        lambda status, _: (
            status.message == (f"nothing is published: no message received on {topics[1]}")
            or left.publish(wrench("forearm_link", PUSH))
            or robot.silent() is None
        ),
    )

    def push():
        right.publish(wrench("tool", TWIST_OFF))

    def close_to_expected(solution, pushes=pushes):
        if priority == "constraint":
            ddq, forces = expected.constrained(["tool"] * 6, np.eye(6), 0.0, wrenches=pushes)
        else:
            _, forces = expected.constrained(["tool"] * 6, np.eye(6), 0.0)
            ddq = expected.free(forces, pushes)
        return np.allclose(solution.acceleration, ddq, rtol=1e-9, atol=1e-8) and np.allclose(
            solution.effort, forces, rtol=1e-9, atol=1e-8
        )

    robot.ask(ready=close_to_expected, again=push)
    for reason, bad in (
        ("no frame named 'sensor'; available: base_link, ", wrench("sensor", PUSH)),
        ("no frame named ''; available: base_link, ", wrench("", PUSH)),
        ("expected 6 finite numbers", wrench("tool", [math.nan] * 6)),
    ):
        client.diagnostics(
            node,
            lambda _, values, reason=reason, bad=bad: (
                values["last rejection"].startswith(topics[0] + ": ")
                and reason in values["last rejection"]
                or left.publish(bad)
            ),
        )
    robot.ask(ready=close_to_expected)  # the last good one stays
    settings(wrench_topics=topics[1:])
    robot.ask(ready=lambda solution: close_to_expected(solution, pushes[1:]))
    settings(input_timeout=0.1)
    client.diagnostics(
        node, lambda status, _: f"{topics[1]} is older" in status.message or robot.silent() is None
    )
    assert robot.silent()
    settings(wrench_topics=DEFAULTS["wrench_topics"])
    check(robot.ask()[1], *expected.constrained(["tool"] * 6, np.eye(6), 0.0))


def test_a_measured_wrench_acts_at_the_frame_of_its_topic(client, node, robot, settings):
    topic = node.topic("sensor")
    settings(
        constraints="hold_pose",
        tip_frame="tool",
        wrench_topics=[topic],
        wrench_frames=["forearm_roll"],
    )
    publisher = client.publisher(WrenchStamped, topic, reliability=ReliabilityPolicy.BEST_EFFORT)
    client.wait(publisher.get_subscription_count, "a subscription")
    expected = Peer()  # the joint forearm_roll moves wrist_link
    for axes in ("world", "tool"):
        R = expected.rotation("wrist_link").T
        if axes == "tool":
            R = R @ expected.rotation("tool")
        push = np.ravel(PUSH.reshape(2, 3) @ R.T)
        _, forces = expected.constrained(
            ["tool"] * 6, np.eye(6), 0.0, wrenches=[("wrist_link", push)]
        )
        robot.ask(
            ready=lambda solution, forces=forces: np.allclose(
                solution.effort, forces, rtol=1e-9, atol=1e-8
            ),
            again=lambda axes=axes: publisher.publish(wrench(axes, PUSH)),
        )
    done, why = client.set_parameters(node, wrench_frames=["nose"])
    assert not done and "wrench_frames: no frame named 'nose'; available: base_link" in why
    done, why = client.set_parameters(node, wrench_frames=["tool", "tool"])
    assert not done and "wrench_frames: expected one name for each of the 1 topics" in why


# Singularities, moving bases, rows


@pytest.mark.parametrize("policy", ["relative", "absolute", "damped"])
def test_a_stretched_arm(robot, settings, policy):
    tolerance = {"relative": 0.0, "absolute": 1e-9, "damped": 0.0}[policy]
    settings(
        constraints="hold_pose",
        tip_frame="tool",
        singularity=policy,
        singularity_tolerance=tolerance,
    )
    _, solution = robot.ask(np.zeros(7), np.zeros(7))
    expected = Peer(np.zeros(7), np.zeros(7))
    A = pinocchio.computeFrameJacobian(
        expected.model, expected.model.createData(), expected.q, expected.model.getFrameId("tool")
    )
    assert solution.rank == np.linalg.matrix_rank(A) < 6
    assert np.isfinite(solution.effort).all()
    achieved = expected.classical_acceleration("tool", np.array(solution.acceleration))
    close(solution.achieved_acceleration, achieved)
    if policy != "damped":
        check(solution, *expected.constrained(["tool"] * 6, np.eye(6), 0.0))


def test_a_floating_base(client, node, robot, settings):
    settings(
        root_joint="floating",
        base_source="parameter",
        base_pose=POSE.tolist(),
        base_twist=TWIST.tolist(),
    )
    directions, desired = np.eye(6)[[0, 2, 4]], [1.0, 2.0, 3.0]
    expected = Peer(base=(POSE, TWIST))
    for frame_id in ("world", "base_link", "tool"):
        _, solution = robot.ask_under(constraints(frame_id, ["tool"], directions, desired))
        R = np.eye(3) if frame_id == "world" else expected.rotation(frame_id)
        in_world = np.hstack([directions[:, :3] @ R.T, directions[:, 3:] @ R.T])
        check(solution, *expected.constrained(["tool"] * 3, in_world, desired))
        assert solution.header.frame_id == "world"
        assert solution.name[0] == "root_joint/linear_x" and len(solution.name) == 13
        assert solution.link[0] == "base_link"
        # a body's acceleration is given in the axes of the world, less gravity
        data = expected.model.createData()
        pinocchio.forwardKinematics(
            expected.model, data, expected.q, expected.v, np.array(solution.acceleration)
        )
        R, a = data.oMi[1].rotation, data.a[1].vector
        close(
            matrix(solution.link_accelerations)[0],
            np.concatenate([R @ a[:3] + [0.0, 0.0, 9.81], R @ a[3:]]),
        )
    reasons = "no frame named 'map'; available: root_joint, base_link, ", "world (the world)"
    client.diagnostics(
        node,
        lambda _, values: (
            all(reason in values["last rejection"] for reason in reasons)
            or robot.constrain(unlike(frame_id="map"))
        ),
    )


def test_some_joints_in_another_order(robot, settings):
    settings(constraints="hold_pose", tip_frame="tool", frame_id="arm")
    _, whole = robot.ask()
    settings(joints=["wrist_roll", "elbow_pitch"])
    torques, solution = robot.ask()
    assert list(torques.name) == ["wrist_roll", "elbow_pitch"]
    assert torques.header.frame_id == solution.header.frame_id == "arm"
    for field in (
        "acceleration",
        "effort",
        "feedforward",
        "constraint_generalized_forces",
        "kdl_constraint_torques",
        "kdl_total_torque",
    ):
        rows = dict(zip(whole.name, getattr(whole, field)))
        assert list(getattr(solution, field)) == [rows[name] for name in torques.name]


def test_nothing_is_computed_without_a_subscriber(client, node, robot, settings):
    settings(constraints="hold_pose", tip_frame="tool")
    robot.ask()
    client.diagnostics(
        node, lambda _, values: values["computing"] == ("~/constraint_torques, ~/solution")
    )
    client.stop_listening()

    def silent(_, values):
        robot.speak.send(robot.message())
        return (
            values["computing"] == ""
            and values["messages published [Hz]"] == "0.0"
            and float(values["states [Hz]"]) > 0
        )

    client.diagnostics(node, silent)
    settings(constraints="topic")  # missing constraints are not reported either
    client.diagnostics(
        node, lambda status, values: silent(status, values) and status.message == "running"
    )


# Another robot


def test_a_robot_without_the_frame_stops_until_one_has_it(client, start):
    node = start(
        module=MODULE, robot_description_file=None, constraints="hold_pose", tip_frame="tool"
    )
    robot = Robot(client, node)
    latched = {
        "durability": DurabilityPolicy.TRANSIENT_LOCAL,
        "reliability": ReliabilityPolicy.RELIABLE,
    }
    publisher = client.publisher(String, node.topic("robot_description"), **latched)
    publisher.publish(String(data=ARM7.read_text()))
    expected = Peer().constrained(["tool"] * 6, np.eye(6), 0.0)
    check(robot.ask()[1], *expected)
    publisher.publish(String(data=ARM7.read_text().replace('"tool"', '"gripper"')))
    client.diagnostics(
        node,
        lambda status, _: (
            "no moving frame is named 'tool'" in status.message or robot.silent() is None
        ),
    )
    assert robot.silent()
    publisher.publish(String(data=ARM7.read_text()))
    check(robot.ask()[1], *expected)
    client.stop_listening()


MASSLESS = """<robot name="massless"><link name="base"/>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="rim"/></joint>
  <link name="rim"/></robot>"""


def test_what_cannot_be_computed_is_reported(client, node, robot, settings):
    huge = constraints("base_link", ["tool"], Z, [1e308])
    client.diagnostics(
        node,
        lambda _, values: (
            "~/constraints: directions, acceleration: numbers up to 1e+308 are too large"
            in values["last rejection"]
            or robot.constrain(huge)
            or robot.silent() is None
        ),
    )
    settings(constraints="hold_position", tip_frame="tool")
    robot.ask()
    assert client.set_parameters(node, robot_description=MASSLESS) == (True, "")
    done, why = client.set_parameters(node, tip_frame="rim")
    assert not done and "'hinge' moves no inertia" in why
    assert client.set_parameters(node, robot_description=ARM7.read_text()) == (True, "")
    robot.ask()


# The service


@pytest.fixture
def solve(client, node):
    def solve(success=True, of=node, **fields):
        answer = client.call(
            SolveConstrainedDynamics, of.name + "/solve", SolveConstrainedDynamics.Request(**fields)
        )
        assert answer.success == success, answer.message
        return answer

    return solve


def state(position=POSITION, velocity=VELOCITY):
    names = list(dyn_ros.Model.from_urdf_file(ARM7).joint_names)
    return RobotState(
        name=names[::-1], position=position[::-1].tolist(), velocity=velocity[::-1].tolist()
    )


def test_the_service_answers_for_a_given_state(solve):
    q, v = POSITION + 0.2, VELOCITY - 0.3
    expected = Peer(q, v)
    tau = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -2.0])
    answer = solve(
        state=state(q, v),
        constraints=constraints("base_link", ["tool"], np.eye(6), [0.5] * 6),
        name=["wrist_roll", "shoulder_yaw"],
        effort=[-2.0, 1.0],
        wrenches=[wrench("forearm_link", PUSH), wrench("tool", TWIST_OFF), wrench("tool", PUSH)],
    )
    check(
        answer.solution,
        *expected.constrained(
            ["tool"] * 6,
            np.eye(6),
            0.5,
            tau,
            [("forearm_link", PUSH), ("tool", TWIST_OFF), ("tool", PUSH)],
        ),
        feedforward=tau,
    )
    assert answer.header == answer.solution.header
    assert answer.header.frame_id == "base_link"
    assert answer.header.stamp.sec == 0 and answer.message == ""
    assert answer.solution.rank == 6
    assert list(answer.solution.constraints.acceleration) == [0.5] * 6


def assert_same_state(answered, published):
    """Assert that an answer is for the published state, which may have been sent again since."""
    assert answered.header.stamp.sec >= published.header.stamp.sec > 0
    published.header.stamp = answered.header.stamp
    assert answered == published


def test_the_service_takes_the_latest_state_and_the_constraints_of_now(client, start, solve):
    node = start(module=MODULE, constraints="hold_pose", tip_frame="tool", staleness=600.0)
    robot = Robot(client, node)
    _, published = robot.ask()
    assert_same_state(solve(of=node).solution, published)
    _, published = robot.ask(POSITION + 0.1)
    assert client.set_parameters(node, constraints="topic") == (True, "")
    assert "no message received on ~/constraints" in solve(False, of=node).message
    assert_same_state(
        solve(of=node, constraints=constraints("base_link", ["tool"], np.eye(6))).solution,
        published,
    )
    client.stop_listening()


@pytest.mark.parametrize(
    "reason, fields",
    [(reason, {"constraints": bad}) for reason, bad in BAD]
    + [
        ("effort: there is no 'nose'", {"name": ["nose"], "effort": [1.0]}),
        ("no frame named 'map'; available: base_link", {"wrenches": [wrench("map", PUSH)]}),
        ("expected 6 finite numbers", {"wrenches": [wrench("tool", [math.inf] * 6)]}),
        (
            "missing position of shoulder_pitch",
            {"state": RobotState(name=["shoulder_yaw"], position=[1.0])},
        ),
        ("velocity is too large", {"state": state(velocity=np.full(7, 1e200))}),
        (
            "directions, acceleration: numbers up to 1e+308",
            {"constraints": constraints("base_link", ["tool"], Z, [1e308])},
        ),
        ("the result is not finite", {"name": ["wrist_roll"], "effort": [1e308]}),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_the_service_rejects(solve, reason, fields):
    assert reason in solve(False, **{"state": state(), "constraints": GOOD, **fields}).message


def test_the_service_needs_an_active_node(client, node, solve):
    for transition, success in (
        (Transition.TRANSITION_DEACTIVATE, False),
        (Transition.TRANSITION_ACTIVATE, True),
    ):
        assert client.change_state(node, transition)
        answer = solve(success, state=state(), constraints=GOOD)
        assert ("is not active" in answer.message) is not success


# Parameters


def test_constraints_too_large_to_compute_with_are_rejected():
    from dyn_ros.nodes.messages.acceleration_constraints import constraints_from_message
    from dyn_ros.nodes.robot.context import RobotContext
    from service_stub import VALUES

    robot = RobotContext(ARM7.read_text(), VALUES)
    message = AccelerationConstraints(frame=["tool"])
    message.header.frame_id = "tool"
    message.directions.rows, message.directions.cols = 6, 1
    message.directions.data = array.array("d", [1e300, 0.0, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"acceleration: .* up to 1e\+300 are too large; scale"):
        constraints_from_message(robot, message)
