# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The outputs of centroidal_node about the ground, compared with the engine and with statics."""

import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from geometry_msgs.msg import PointStamped
from rclpy.parameter import Parameter
from visualization_msgs.msg import Marker, MarkerArray

import dyn_ros
import peer
from dyn_ros.msg import CentroidalState, ContactForces, ContactStates
from dyn_ros.nodes.robot.ground import convex_hull

MODULE = "dyn_ros.nodes.centroidal_node"
LWA = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
FEET = ["FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"]
POSE = [0.3, -0.2, 0.25, 0.0, 0.0, math.sin(0.2), math.cos(0.2)]
STANCE = np.tile([0.0, 0.7, -1.4], 4)  # all feet at the same height
DEFAULTS = {
    "contact_frames": FEET,
    "contact_dimension": 3,
    "contact_source": "always",
    "input_timeout": 0.0,
    "ground_height": 0.0,
    "acceleration_source": "none",
    "acceleration_cutoff": 0.0,
    "base_twist": [0.0] * 6,
    "gravity": [0.0, 0.0, -9.81],
}


class Walker:
    """A quadruped with a base that parameters specify, and what its node publishes."""

    def __init__(self, client, node):
        self.client, self.node, self.speak = client, node, client.speaker(node)
        self.model = dyn_ros.Model.from_urdf(peer.urdf("solo12"), "floating")
        self.data = dyn_ros.Data(self.model)
        self.q = np.concatenate([POSE, STANCE])
        self.oMf = dyn_ros.frame_placements(self.model, self.data, self.q).copy()

    def set(self, **values):
        assert self.client.set_parameters(self.node, **values) == (True, "")

    def rejection(self, **values):
        done, reason = self.client.set_parameters(self.node, **values)
        assert not done
        return reason

    def listen(self, *topics):
        kinds = {
            "contact_forces": ContactForces,
            "zmp": PointStamped,
            "state": CentroidalState,
            "center_of_pressure": PointStamped,
            "markers": MarkerArray,
        }
        return [self.client.listen(kinds[topic], f"{self.node.name}/{topic}") for topic in topics]

    def message(self, velocity=(), effort=(), position=STANCE, later=1):
        return self.speak.message(self.model.joint_names[1:], position, velocity, effort, later)

    def ask(self, outputs, velocity=(), effort=(), position=STANCE, later=1):
        """Answers to a state; the first one makes the node collect what the outputs read."""
        for _ in range(2):
            self.speak.send(self.message(velocity, effort, position, later))
            self.client.settle()
        return self.speak.ask(self.message(velocity, effort, position, later), *outputs)

    def standing_efforts(self, frames=FEET):
        contacts = [dyn_ros.Contact(frame, 3, LWA) for frame in frames]
        zero = np.zeros(self.model.nv)
        tau, forces = dyn_ros.contact_inverse_dynamics(
            self.model, self.data, self.q, zero, zero, contacts
        )
        return tau[6:].copy(), {name: forces[name].copy() for name in frames}

    def foot(self, name):
        return self.oMf[self.model.frame_index(name), :3, 3]


@pytest.fixture(scope="module")
def node(start):
    return start(
        module=MODULE,
        robot_description_file=peer.EXAMPLE_ROBOTS / peer.FILES["solo12"],
        root_joint="floating",
        base_source="parameter",
        base_pose=POSE,
        contact_frames=FEET,
    )


@pytest.fixture
def walker(client, node):
    walker = Walker(client, node)
    walker.set(**DEFAULTS)
    yield walker
    client.stop_listening()


def vector(message):
    return np.array([message.x, message.y, message.z])


def force_of(message):
    return {each.name: vector(each.wrench.force) for each in message.forces}


def close(actual, expected, atol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=atol)


# Forces


def test_feet_that_stand_carry_the_weight(walker):
    effort, expected = walker.standing_efforts()
    forces, center = walker.listen("contact_forces", "center_of_pressure")
    [answer, point] = walker.ask([forces, center], np.zeros(12), effort)
    assert answer.header.frame_id == point.header.frame_id == "world"
    assert answer.velocity_valid and not answer.acceleration_valid
    assert [each.name for each in answer.forces] == FEET
    assert answer.rank == 12 and answer.residual < 1e-9
    for each in answer.forces:
        assert each.active and each.header == answer.header
        close(vector(each.wrench.force), expected[each.name])
        close(vector(each.point), walker.foot(each.name))
        assert not vector(each.wrench.torque).any()
    total = sum(force_of(answer).values())
    close(total, [0.0, 0.0, 9.81 * walker.model.total_mass])
    com = dyn_ros.center_of_mass(walker.model, walker.data, walker.q)[0]
    height = walker.foot(FEET[0])[2]
    walker.set(ground_height=float(height))
    [_, point] = walker.ask([forces, center], np.zeros(12), effort)
    close(vector(point.point), [*com[:2], height])
    weights = np.array([force[2] for force in force_of(answer).values()])
    feet = np.array([walker.foot(name) for name in FEET])
    close(vector(point.point), weights @ feet / weights.sum())


@pytest.mark.parametrize("source", ["none", "forward_dynamics"])
def test_forces_of_a_motion_are_the_engines(walker, source):
    rng = np.random.default_rng(1)
    v, effort, twist = rng.normal(size=12), rng.normal(size=12), rng.normal(size=6)
    walker.set(acceleration_source=source, base_twist=twist.tolist())
    outputs = walker.listen("contact_forces", "state")
    [answer, state] = walker.ask(outputs, v, effort)
    contacts = [dyn_ros.Contact(frame, 3, LWA) for frame in FEET]
    tau, dq = np.concatenate([np.zeros(6), effort]), np.concatenate([twist, v])
    model, data = walker.model, walker.data
    if source == "none":
        forces = dyn_ros.contact_forces(model, data, walker.q, dq, np.zeros(18), tau, contacts)
        close(answer.residual, forces.residual)
        assert not state.rates_valid
    else:
        a, forces = dyn_ros.contact_dynamics(model, data, walker.q, dq, tau, contacts)
        forces = {name: forces[name].copy() for name in FEET}
        rate = dyn_ros.centroidal_momentum_time_derivative(model, data, walker.q, dq, a)
        close(vector(state.linear_momentum_rate), rate[:3])
        close(vector(state.angular_momentum_rate), rate[3:])
        assert answer.residual == 0.0
    assert answer.acceleration_valid == state.rates_valid == (source == "forward_dynamics")
    for name, force in force_of(answer).items():
        close(force, forces[name])


def test_differences_of_velocities_are_accelerations(walker):
    walker.set(acceleration_source="finite_difference")
    effort, _ = walker.standing_efforts()
    outputs = walker.listen("contact_forces", "state", "zmp")
    h, v, a = 0.01, np.linspace(-0.1, 0.1, 12), np.linspace(0.5, -0.5, 12)
    stamps = []
    for k in range(4):
        message = walker.message(v + k * h * a, effort, later=0)
        message.header.stamp.nanosec = int(1e9 * k * h)
        message.header.stamp.sec += 100
        stamps.append((message.header.stamp.sec, message.header.stamp.nanosec))
        walker.speak.send(message)
        walker.client.settle()
    walker.speak.seconds += 200
    stamp = stamps[-1]

    def last(messages):
        return next(
            (m for m in messages if (m.header.stamp.sec, m.header.stamp.nanosec) == stamp), None
        )

    walker.client.wait(lambda: all(map(last, outputs)), walker.node.output)
    answer, state, point = map(last, outputs)
    assert answer.acceleration_valid and state.rates_valid
    contacts = [dyn_ros.Contact(frame, 3, LWA) for frame in FEET]
    dq = np.concatenate([np.zeros(6), v + 3 * h * a])
    forces = dyn_ros.contact_forces(
        walker.model,
        walker.data,
        walker.q,
        dq,
        np.concatenate([np.zeros(6), a]),
        np.concatenate([np.zeros(6), effort]),
        contacts,
    )
    for name, force in force_of(answer).items():
        close(force, forces[name], 1e-7)
    com, mass = vector(state.com), state.mass
    force = vector(state.linear_momentum_rate) + [0.0, 0.0, 9.81 * mass]
    moment = vector(state.angular_momentum_rate) + np.cross(com, force)
    close(vector(point.point), [-moment[1] / force[2], moment[0] / force[2], 0.0], 1e-7)


def test_unknown_velocities_are_zero(walker):
    effort, expected = walker.standing_efforts()
    [forces] = walker.listen("contact_forces")
    [answer] = walker.ask([forces], (), effort)
    assert not answer.velocity_valid and not answer.acceleration_valid
    for name, force in force_of(answer).items():
        close(force, expected[name])


def test_unknown_efforts_are_reported(walker):
    [forces] = walker.listen("contact_forces")
    walker.speak.send(walker.message(np.zeros(12)))
    walker.speak.send(walker.message(np.zeros(12)))
    walker.client.diagnostics(
        walker.node,
        lambda status, _: status.message.startswith(
            "no ~/contact_forces: unknown effort of FL_HAA, FL_HFE"
        ),
    )
    assert not forces


def test_a_flat_foot_has_a_moment(client, start):
    text = peer.urdf("simple_humanoid")
    model = dyn_ros.Model.from_urdf(text, "floating")
    frames = ["LLEG_LINK6", "RLEG_LINK6"]
    frames = frames if set(frames) <= set(model.frame_names) else _ankles(model)
    node = start(
        module=MODULE,
        root_joint="floating",
        base_source="parameter",
        robot_description_file=peer.EXAMPLE_ROBOTS / peer.FILES["simple_humanoid"],
        contact_frames=frames,
        contact_dimension=6,
    )
    data, q = dyn_ros.Data(model), model.neutral()
    zero = np.zeros(model.nv)
    tau, forces = dyn_ros.contact_inverse_dynamics(
        model, data, q, zero, zero, [dyn_ros.Contact(frame, 6, LWA) for frame in frames]
    )
    speak = client.speaker(node)
    outputs = [
        client.listen(ContactForces, node.name + "/contact_forces"),
        client.listen(PointStamped, node.name + "/center_of_pressure"),
    ]
    names = [name for name, nq in zip(model.joint_names, model.nqs) if nq == 1]
    for _ in range(2):
        speak.send(speak.message(names, q[7:], zero[6:], tau[6:]))
        client.settle()
    [answer, point] = speak.ask(speak.message(names, q[7:], zero[6:], tau[6:]), *outputs)
    for each in answer.forces:
        close(vector(each.wrench.force), forces[each.name][:3], 1e-7)
        close(vector(each.wrench.torque), forces[each.name][3:], 1e-7)
    com = dyn_ros.center_of_mass(model, data, q)[0]
    close(vector(point.point), [*com[:2], 0.0])
    client.stop_listening()


def _ankles(model):
    """The last links of two legs."""
    return [
        name
        for name in model.frame_names
        if "foot" in name.lower() or "sole" in name.lower() or "ankle" in name.lower()
    ][:2]


# Points on the ground


def test_both_points_are_one_if_accelerations_are_those_of_the_efforts(walker):
    """The contact forces are then all forces but the weight."""
    rng = np.random.default_rng(2)
    effort, _ = walker.standing_efforts()
    walker.set(
        acceleration_source="forward_dynamics",
        ground_height=-0.1,
        base_twist=(0.1 * rng.normal(size=6)).tolist(),
    )
    zmp, center = walker.listen("zmp", "center_of_pressure")
    answers = walker.ask(
        [zmp, center], 0.1 * rng.normal(size=12), effort + 0.1 * rng.normal(size=12)
    )
    close(vector(answers[0].point), vector(answers[1].point), 1e-8)
    assert answers[0].point.z == pytest.approx(-0.1, abs=1e-12)


def test_the_ground_is_perpendicular_to_gravity(walker):
    gravity = np.array([3.0, 0.0, -9.0])
    walker.set(gravity=gravity.tolist(), ground_height=0.05)
    effort, _ = Walker.standing_efforts(tilted(walker, gravity))
    [center] = walker.listen("center_of_pressure")
    [point] = walker.ask([center], np.zeros(12), effort)
    up = -gravity / np.linalg.norm(gravity)
    com = dyn_ros.center_of_mass(walker.model, walker.data, walker.q)[0]
    close(vector(point.point) @ up, 0.05)
    close(np.cross(vector(point.point) - com, up), 0.0, 1e-8)


def tilted(walker, gravity):
    walker.model.gravity = gravity
    return walker


def test_in_free_flight_there_is_no_point(walker):
    walker.set(
        contact_frames=(Parameter.Type.STRING_ARRAY, []), acceleration_source="forward_dynamics"
    )
    zmp, state = walker.listen("zmp", "state")
    walker.ask([state], np.zeros(12), np.ones(12))
    status, _ = walker.client.diagnostics(
        walker.node, lambda status, _: "no ~/zmp" in status.message
    )
    assert "the ground exerts a vertical force of" in status.message
    assert "expected more than 0.001 of the weight, 24." in status.message
    assert not zmp
    walker.set(contact_frames=FEET)
    effort, _ = walker.standing_efforts()
    walker.ask([zmp], np.zeros(12), effort)
    walker.client.diagnostics(walker.node, lambda status, _: status.message == "running")


def test_without_accelerations_there_is_no_zmp(walker):
    zmp, state = walker.listen("zmp", "state")
    walker.ask([state], np.zeros(12), np.ones(12))
    walker.client.diagnostics(
        walker.node,
        lambda status, _: (
            status.message
            == ("no ~/zmp: the rates are unknown, because acceleration_source is none")
        ),
    )
    assert not zmp


# Which feet are in contact


def test_feet_in_contact_are_those_of_the_topic(walker):
    walker.set(contact_source="topic")
    effort, expected = walker.standing_efforts(FEET[:3])
    [forces] = walker.listen("contact_forces")
    walker.speak.send(walker.message(np.zeros(12), effort))
    walker.client.diagnostics(
        walker.node,
        lambda status, _: (
            status.message == ("no ~/contact_forces: no message received on ~/contacts")
        ),
    )
    publisher = walker.client.publisher(ContactStates, walker.node.name + "/contacts")

    def send(names, active):
        publisher.publish(ContactStates(name=names, active=active))
        walker.client.settle()

    send(["tail", *FEET[::-1]], [True, False, True, True, True])
    [answer] = walker.ask([forces], np.zeros(12), effort)
    assert [each.active for each in answer.forces] == [True, True, True, False]
    assert answer.rank == 9 and answer.residual < 1e-9
    forces_by_foot = force_of(answer)
    for name in FEET[:3]:
        close(forces_by_foot[name], expected[name])
    assert not forces_by_foot["HR_FOOT"].any()

    send(FEET[:2], [True, True])
    walker.speak.send(walker.message(np.zeros(12), effort))
    walker.client.diagnostics(
        walker.node,
        lambda status, _: (
            status.message
            == (
                "no ~/contact_forces: the last message on ~/contacts does not contain HL_FOOT, "
                "HR_FOOT"
            )
        ),
    )
    send(FEET, [False] * 4)
    [answer] = walker.ask([forces], np.zeros(12), effort)
    assert not any(each.active for each in answer.forces) and answer.rank == 0
    for names, active, why in (
        (FEET, [True], "4 names, but 1 numbers in active; expected one for each name"),
        (["FL_FOOT"] * 2, [True] * 2, "duplicate names: FL_FOOT"),
    ):
        send(names, active)
        walker.client.diagnostics(
            walker.node, lambda _, values, why=why: values["last rejection"].endswith(why)
        )
    walker.set(input_timeout=0.001)
    walker.speak.send(walker.message(np.zeros(12), effort))
    walker.client.diagnostics(
        walker.node, lambda status, _: "older than input_timeout" in status.message
    )
    assert "Traceback" not in walker.node.output()


def test_without_the_parameter_there_is_no_subscription(client, walker):
    topic = walker.node.name + "/contacts"
    assert client.node.count_subscribers(topic) == 0
    walker.set(contact_source="topic")
    client.wait(lambda: client.node.count_subscribers(topic) == 1, topic)
    walker.set(contact_source="always")
    client.wait(lambda: client.node.count_subscribers(topic) == 0, topic)


# Parameters


@pytest.mark.parametrize(
    "values, why",
    [
        ({"contact_frames": ["nose"]}, "contact_frames: no frame named 'nose'; available: "),
        ({"contact_frames": ["FL_FOOT"] * 2}, "contact_frames: duplicate names: FL_FOOT"),
        (
            {
                "contact_frames": [
                    f"{leg}_{part}"
                    for leg in ("FL", "FR", "HL", "HR")
                    for part in ("FOOT", "LOWER_LEG")
                ],
                "contact_dimension": 6,
            },
            "contact_frames: contacts: expected at most 36 rows",
        ),
        ({"contact_dimension": 4}, "contact_dimension: expected one of 3, 6, but got 4"),
        ({"contact_source": "nobody"}, "contact_source: expected one of always, topic"),
        ({"ground_height": math.nan}, "ground_height"),
        ({"markers.friction_cone.coefficient": -1.0}, "coefficient"),
    ],
)
def test_a_bad_parameter_is_rejected(walker, values, why):
    assert why in walker.rejection(**values)
    effort, _ = walker.standing_efforts()
    [forces] = walker.listen("contact_forces")
    [answer] = walker.ask([forces], np.zeros(12), effort)
    assert len(answer.forces) == 4


def test_frames_that_a_robot_lacks_are_reported(client, start, arm):
    node = start(module=MODULE, contact_frames=["left_foot"])
    speak = client.speaker(node)
    forces, state = (
        client.listen(kind, f"{node.name}/{topic}")
        for kind, topic in ((ContactForces, "contact_forces"), (CentroidalState, "state"))
    )
    speak.ask(speak.message(arm.joint_names, [0.1] * 7, [0.0] * 7, [0.0] * 7), state)
    client.diagnostics(
        node,
        lambda status, _: status.message.startswith(
            "no ~/contact_forces: contact_frames: no frame named 'left_foot'; available: base_link"
        ),
    )
    assert not forces
    client.stop_listening()


# Markers


def shown(array, ns):
    return {
        marker.id: marker
        for marker in array.markers
        if marker.ns == ns and marker.action == Marker.ADD
    }


def points(marker):
    return np.array([vector(point) for point in marker.points])


def test_arrows_are_relative_to_the_weight_with_payloads(walker):
    walker.set(**{"acceleration_source": "forward_dynamics", "markers.rate": 0.0})
    [arrays] = walker.listen("markers")
    payload = "load", "base_link", 2.0, [0.0, 0.0, 0.1], 0.01 * np.eye(3)
    robot = walker.node.node.robot
    for carries in (False, True, False):
        if carries:
            robot.set_payload(*payload)
            walker.model.set_payload(*payload)
        elif robot.payloads:
            robot.clear_payload("load")
            walker.model.clear_payload("load")
        effort, expected = walker.standing_efforts()
        [array] = walker.ask([arrays], np.zeros(12), effort)
        arrows = shown(array, "contact_force/linear")
        assert len(arrows) == 4
        for id, name in enumerate(FEET):
            start, end = points(arrows[id])
            close(end - start, 0.4 * expected[name] / (9.81 * walker.model.total_mass))


def test_markers_show_the_feet(walker):
    walker.set(**{"acceleration_source": "forward_dynamics", "markers.rate": 0.0})
    effort, expected = walker.standing_efforts()
    [arrays] = walker.listen("markers")
    [array] = walker.ask([arrays], np.zeros(12), effort)
    arrows, cones = shown(array, "contact_force/linear"), shown(array, "friction_cone")
    assert set(arrows) == set(cones) == set(range(4))
    weight = 9.81 * walker.model.total_mass
    for id, name in enumerate(FEET):
        start, end = points(arrows[id])
        close(start, walker.foot(name))
        close(end - start, 0.4 * expected[name] / weight)
        line = points(cones[id]) - walker.foot(name)
        rim = line[line[:, 2] > 0.05]
        close(rim[:, 2], 0.1)
        close(np.hypot(rim[:, 0], rim[:, 1]), 0.07)
        close(line[line[:, 2] <= 0.05], 0.0)
        assert cones[id].color.r == pytest.approx(0.52)
    [polygon] = shown(array, "support_polygon").values()
    corners = points(polygon)
    assert len(corners) == 5 and (corners[0] == corners[-1]).all()
    close(np.sort(corners[:4, 0]), np.sort([walker.foot(name)[0] for name in FEET]))
    close(corners[:, 2], 0.0)
    com = dyn_ros.center_of_mass(walker.model, walker.data, walker.q)[0]
    for ns in ("zmp", "center_of_pressure"):
        [marker] = shown(array, ns).values()
        close(vector(marker.pose.position), [*com[:2], 0.0])


def test_a_foot_that_slips_has_another_color_and_a_lifted_one_none(walker):
    walker.set(
        **{"contact_source": "topic", "markers.rate": 0.0, "markers.friction_cone.coefficient": 0.0}
    )
    effort, _ = walker.standing_efforts(FEET[:3])
    publisher = walker.client.publisher(ContactStates, walker.node.name + "/contacts")
    publisher.publish(ContactStates(name=FEET, active=[True, True, True, False]))
    walker.client.settle()
    [arrays] = walker.listen("markers")
    [array] = walker.ask([arrays], np.zeros(12), effort + 0.01)
    cones = shown(array, "friction_cone")
    assert set(cones) == {0, 1, 2}
    assert all(cone.color.g == pytest.approx(0.04) for cone in cones.values())
    [polygon] = shown(array, "support_polygon").values()
    corners = convex_hull(points(polygon)[:, :2])
    close(np.sort(corners, axis=0), np.sort([walker.foot(name)[:2] for name in FEET[:3]], axis=0))
    assert not shown(array, "zmp")
    walker.set(**{"markers.friction_cone.coefficient": 0.7, "markers.rate": 30.0})
