# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""~/markers of the nodes compared with the results of the engine."""

import itertools
import math
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from geometry_msgs.msg import Point, WrenchStamped
from lifecycle_msgs.msg import Transition
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Header, String
from visualization_msgs.msg import Marker, MarkerArray

import dyn_ros
from dyn_ros.msg import CentroidalState, ConstrainedDynamics
from dyn_ros.nodes.base import marker_output as kinds_of
from dyn_ros.nodes.base.node_parameters import SPECS
from dyn_ros.nodes.markers import (
    centroidal_markers,
    dynamics_markers,
    observer_markers,
    vereshchagin_markers,
)
from dyn_ros.nodes.robot.context import DynamicsTerms, RobotContext
from dyn_ros.nodes.vereshchagin_node import VereshchaginNode
from dyn_ros.srv import SetPayload
from dyn_ros.states.joint_states import State
from dyn_ros.viewer.scene.camera import CAMERA_DIRECTION
from dyn_ros.viewer.scene.inertia_markers import MAX_OUTLINE_SIZE

from ..conftest import ARM7
from ..conftest import Q as POSITION
from ..conftest import V as VELOCITY

CENTROIDAL = "dyn_ros.nodes.centroidal_node"
VERESHCHAGIN = "dyn_ros.nodes.vereshchagin_node"
MODULES = ["dyn_ros.nodes.dynamics_node", CENTROIDAL, VERESHCHAGIN]
HOLD = {"constraints": "hold_pose", "tip_frame": "tool"}  # the vereshchagin node takes them
POSE = [1.0, 2.0, 3.0, 0.1, -0.7, 0.5, 0.5]
FLOATING = {"root_joint": "floating", "base_source": "parameter", "base_pose": POSE}
FULL = 1.5 * math.pi  # angle of an arrow at full load
SLIDER = """<robot name="lift">
  <link name="base"/>
  <joint name="lift" type="prismatic"><parent link="base"/><child link="fork"/>
    <origin xyz="0.1 0.2 0.3"/><axis xyz="0 0 2"/>
    <limit lower="-1" upper="1" velocity="1" effort="40"/></joint>
  <link name="fork"><inertial><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="spin" type="continuous"><parent link="fork"/><child link="rotor"/>
    <axis xyz="1 0 0"/></joint>
  <link name="rotor"><inertial><origin xyz="0 0.5 0"/><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>"""


class Shown:
    """A node with a subscriber to its markers."""

    def __init__(self, client, node):
        self.client, self.node = client, node
        self.speak = client.speaker(node)
        self.arrays = client.listen(MarkerArray, node.name + "/markers")

    def set(self, **values):
        """Parameters of markers, __ for each point in a name; others as they are."""
        return self.client.set_parameters(
            self.node,
            **{
                "markers." + name.replace("__", ".")
                if "__" in name or name in ("rate", "lifetime", "width", "legend")
                else name: value
                for name, value in values.items()
            },
        )

    def ask(self, names, position=POSITION, velocity=VELOCITY, effort=(), others=()):
        """The array, and other answers, to one joint state."""
        message = self.speak.message(names, position, velocity, effort)
        array, *more = self.speak.ask(message, self.arrays, *others)
        return (array, *more) if others else array

    def change(self, transition):
        assert self.client.change_state(self.node, transition)


@pytest.fixture
def run(client, start):
    """Start a node that shows each state; it ends with the test."""
    nodes = []

    def run(*arguments, **parameters):
        nodes.append(start(*arguments, "-p", "markers.rate:=0.0", **parameters))
        return Shown(client, nodes[-1])

    yield run
    client.stop_listening()
    for node in nodes:
        node.stop()


def shown(array, ns):
    """The markers of a namespace by id."""
    return {
        marker.id: marker
        for marker in array.markers
        if marker.ns == ns and marker.action == Marker.ADD
    }


def namespaces(array):
    return {marker.ns for marker in array.markers if marker.action == Marker.ADD}


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


def points(marker):
    return np.array([vector(point) for point in marker.points])


def arc(marker):
    """The points of a curved arrow without its head, from where it begins."""
    return points(marker)[:2:-1]


def color(marker):
    return [marker.color.r, marker.color.g, marker.color.b, marker.color.a]


def rotation(marker):
    q = marker.pose.orientation
    return dyn_ros.SE3.from_quaternion((q.x, q.y, q.z, q.w), (0.0, 0.0, 0.0)).rotation


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def inertia_of(marker, mass, factor=20.0):
    """Return the inertia of a marker's ellipsoid (a box: factor 12) about its center."""
    square = vector(marker.scale) ** 2 / factor
    R = rotation(marker)
    return mass * R @ np.diag(square.sum() - square) @ R.T


def model(root_joint=None, **parameters):
    return dyn_ros.Model.from_urdf_file(ARM7, root_joint=root_joint, **parameters)


# dynamics


def check_torques(markers, arm, q, tau, radius=0.1):
    """An arrow turns about its joint's axis, by the root of its part of the effort limit."""
    oMi = dyn_ros.forward_kinematics(arm, dyn_ros.Data(arm), q)[0]
    rows = [row for row, count in zip(arm.idx_v, arm.nvs) if count == 1]
    joints = [i for i, count in enumerate(arm.nvs) if count == 1]
    load = np.clip(tau[rows] / arm.effort_limit[rows], -1.0, 1.0)
    assert set(markers) == {i + 1 for i, part in zip(joints, load) if abs(part) >= 0.005}
    assert len(markers) > 3
    for i, part in zip(joints, load):
        if i + 1 in markers:
            marker = markers[i + 1]
            assert marker.type == Marker.LINE_STRIP
            R, p = oMi[i, :3, :3], oMi[i, :3, 3]
            spokes = arc(marker) - p
            axis = R @ arm.tree.joints[i].axis
            close(spokes @ axis, np.zeros(len(spokes)))
            close(np.linalg.norm(spokes, axis=-1), radius)
            steps = np.arctan2(
                np.cross(spokes[:-1], spokes[1:]) @ axis, np.sum(spokes[:-1] * spokes[1:], -1)
            )
            close(steps.sum(), FULL * math.copysign(math.sqrt(abs(part)), part))
            light, full = np.array([0.94, 0.55, 0.0, 1.0]), np.array([0.88, 0.04, 0.11, 1.0])
            close(color(marker), light + abs(part) * (full - light), 1e-6)


def test_torques_are_arrows_about_the_axes(run, arm):
    node = run()
    data = dyn_ros.Data(arm)
    array = node.ask(arm.joint_names)
    check_torques(
        shown(array, "torque"), arm, POSITION, dyn_ros.generalized_gravity(arm, data, POSITION)
    )
    assert node.set(torque__source="nle", torque__scale=0.25) == (True, "")
    check_torques(
        shown(node.ask(arm.joint_names, velocity=3.0 * VELOCITY), "torque"),
        arm,
        POSITION,
        dyn_ros.nonlinear_effects(arm, data, POSITION, 3.0 * VELOCITY),
        0.25,
    )
    assert shown(node.ask(arm.joint_names, velocity=()), "torque") == {}
    assert node.set(torque__source="effort", torque__scale=0.1) == (True, "")
    effort = np.array([70.0, -1000.0, 3.0, -4.0, 5.0, 0.0, 1e-9])
    node.ask(arm.joint_names, effort=effort)  # from the next message on
    check_torques(shown(node.ask(arm.joint_names, effort=effort), "torque"), arm, POSITION, effort)
    assert shown(node.ask(arm.joint_names), "torque") == {}


def test_a_slider_has_a_straight_arrow_and_a_joint_without_limit_its_own_full_load(run, tmp_path):
    path = tmp_path / "lift.urdf"
    path.write_text(SLIDER)
    node = run(robot_description_file=path)
    assert node.set(torque__unlimited=20.0) == (True, "")
    markers = shown(node.ask(["lift", "spin"], [0.5, 0.25], ()), "torque")
    assert markers[1].type == Marker.ARROW and markers[2].type == Marker.LINE_STRIP
    length = 0.1 * math.sqrt(3 * 9.81 / 40.0)
    close(points(markers[1]), [[0.1, 0.2, 0.8], [0.1, 0.2, 0.8 + length]])
    spokes = arc(markers[2]) - [0.1, 0.2, 0.8]
    load = 9.81 * 0.5 * math.cos(0.25) / 20.0
    close(np.cross(spokes[0], spokes[-1])[0] / 0.01, math.sin(FULL * math.sqrt(load)))


def check_inertias(array, arm, q, factor=20.0):
    markers = shown(array, "inertia")
    oMi = dyn_ros.forward_kinematics(arm, dyn_ros.Data(arm), q)[0]
    bodies = {i + 1: (oMi[i], body) for i, body in enumerate(arm.inertias)}
    if arm.base_inertia.mass:
        bodies[0] = np.eye(4), arm.base_inertia
    assert set(markers) == set(bodies)
    for id, (placement, body) in bodies.items():
        R = placement[:3, :3]
        close(vector(markers[id].pose.position), R @ body.com + placement[:3, 3])
        close(inertia_of(markers[id], body.mass, factor), R @ body.rotational @ R.T)


@pytest.fixture
def without_shapes(tmp_path):
    """The file of the arm without shapes, which limit the size of the bodies."""
    path = tmp_path / "arm.urdf"
    shapes = r"<(visual|collision)\b.*?</\1>"
    path.write_text(re.sub(shapes, "", ARM7.read_text(), flags=re.DOTALL))
    return path


def test_inertias_are_bodies_of_the_same_inertia(run, client, arm, without_shapes):
    node = run(robot_description_file=without_shapes)
    assert "inertia" not in namespaces(node.ask(arm.joint_names))
    assert node.set(inertia__show=True) == (True, "")
    array = node.ask(arm.joint_names)
    assert {marker.type for marker in shown(array, "inertia").values()} == {Marker.SPHERE}
    check_inertias(array, arm, POSITION)
    loaded = model()
    for name, frame in (("tool", "wrist_roll"), ("plate", "base_link")):
        request = SetPayload.Request(name=name)
        request.inertia.header.frame_id = frame
        body = request.inertia.inertia
        body.m, body.com.x, body.com.z, body.ixx, body.iyy, body.izz = (
            3.0,
            0.2,
            0.1,
            0.03,
            0.04,
            0.05,
        )
        assert client.call(SetPayload, node.node.name + "/set_payload", request).success
        loaded.set_payload(name, frame, 3.0, [0.2, 0.0, 0.1], np.diag([0.03, 0.04, 0.05]))
    assert node.set(inertia__shape="box") == (True, "")
    array = node.ask(arm.joint_names)
    assert {marker.type for marker in shown(array, "inertia").values()} == {Marker.CUBE}
    check_inertias(array, loaded, POSITION, 12.0)


def findings_of(robot):
    """Wait for the findings about the bodies of a RobotContext."""
    while robot.body_check.findings() is None:
        time.sleep(0.01)
    return robot.body_check.findings()


def test_inertias_with_findings_are_outlines(run, arm, tmp_path):
    """Others are no larger than their links."""
    path = tmp_path / "arm.urdf"
    wrong = re.sub(
        r'(<link name="elbow_link">.*?<inertia) .*?/>',
        r'\1 ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>',
        ARM7.read_text(),
        count=1,
        flags=re.DOTALL,
    )
    path.write_text(wrong)
    node = run(robot_description_file=path)
    assert node.set(inertia__show=True) == (True, "")
    findings = findings_of(node.node.node.robot)
    [(joint, label)] = findings.labels.items()
    array = node.ask(arm.joint_names)
    assert namespaces(array) >= {"inertia", "inertia/findings", "inertia/labels"}
    [(id, outline)] = shown(array, "inertia/findings").items()
    [(label_id, text)] = shown(array, "inertia/labels").items()
    assert id == label_id == joint + 1
    assert label == "elbow_link"
    assert color(outline) == color(text) == pytest.approx([0.88, 0.04, 0.11, 1.0])
    bodies = dyn_ros.Model.from_urdf(wrong).inertias
    oMi = dyn_ros.forward_kinematics(arm, dyn_ros.Data(arm), POSITION)[0]
    X, body = oMi[joint], bodies[joint]
    center = X[:3, :3] @ body.com + X[:3, 3]
    half_width = math.sqrt(5.0 * 0.5 / body.mass)  # of the ball with a moment of 1 kg m2
    largest = MAX_OUTLINE_SIZE * np.ptp(findings.corners[joint], axis=0).max()
    close(np.linalg.norm(points(outline) - center, axis=1), 0.5 * largest)
    assert text.text.strip() == f"elbow_link (1:{2.0 * half_width / largest:.2g})"
    close(vector(text.pose.position), center + 0.05 * (CAMERA_DIRECTION + [0.0, 0.0, 1.0]))
    solids = shown(array, "inertia")
    assert set(solids) == set(range(8)) - {id}
    is_limited = []
    for id, solid in solids.items():
        X = oMi[id - 1] if id else np.eye(4)
        spans = np.ptp(findings.corners[id - 1] @ X[:3, :3].T @ rotation(solid), axis=0)
        assert (vector(solid.scale) < spans * (1.0 + 1e-9)).all()
        is_limited += list(np.isclose(vector(solid.scale), spans))
    assert any(is_limited) and not all(is_limited)


def test_the_largest_torque_is_a_percentage_of_its_limit(run, arm):
    node = run()
    g = dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), POSITION)
    loads = abs(g) / arm.effort_limit
    array = node.ask(arm.joint_names)
    [number] = shown(array, "torque/numbers").values()
    assert number.text.rstrip() == f"{loads.max():.0%}"
    assert 0.0 < number.scale.x < 0.01  # the width of a space, a meter if it is zero
    assert number.type == Marker.TEXT_VIEW_FACING and number.scale.z == 0.05
    oMi = dyn_ros.forward_kinematics(arm, dyn_ros.Data(arm), POSITION)[0]
    close(vector(number.pose.position), oMi[loads.argmax(), :3, 3] + 0.12 * CAMERA_DIRECTION)
    assert node.set(torque__numbers="all") == (True, "")
    numbers = shown(node.ask(arm.joint_names), "torque/numbers")
    assert {id: number.text.rstrip() for id, number in numbers.items()} == {
        k + 1: f"{torque:.3g} N m" for k, torque in enumerate(g) if k not in (0, 6)
    }
    assert node.set(torque__numbers="none") == (True, "")
    assert "torque/numbers" not in namespaces(node.ask(arm.joint_names))
    done, why = node.set(torque__numbers="some")
    assert not done and "expected one of" in why


def is_legend(marker):
    return marker.ns == "legend" and marker.action == Marker.ADD


@pytest.mark.parametrize("module", MODULES)
def test_the_legend_names_what_is_shown_in_its_color(run, arm, module):
    node = run(module=module, **HOLD)
    assert not any("legend" in ns for ns in namespaces(node.ask(arm.joint_names)))
    assert node.set(legend=True) == (True, "")
    array = node.ask(arm.joint_names)
    texts = {marker.text.replace(" ", "_"): marker for marker in array.markers if is_legend(marker)}
    assert texts.keys() == {ns.split("/")[0] for ns in namespaces(array)} - {"legend"}
    for name, marker in texts.items():
        assert marker.type == Marker.TEXT_VIEW_FACING and marker.scale.z > 0.015
        kind = next(kind for kind in node.node.node.markers if kind.name == name)
        assert color(marker) == pytest.approx([*kind.specs[2].default[:3], 1.0])
    heights = [marker.pose.position.z for marker in texts.values()]
    assert heights == sorted(heights, reverse=True)
    assert node.set(legend=False) == (True, "")


def test_a_floating_base_shows_in_the_world(run, without_shapes):
    node = run(robot_description_file=without_shapes)
    assert node.set(**FLOATING, inertia__show=True) == (True, "")
    arm = model("floating")
    q = np.concatenate([POSE, POSITION])
    array = node.ask(arm.joint_names[1:])
    assert {marker.header.frame_id for marker in array.markers} == {"world"}
    check_torques(
        shown(array, "torque"), arm, q, dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q)
    )
    check_inertias(array, arm, q)


@pytest.mark.parametrize("base", [{}, FLOATING], ids=["fixed", "floating"])
def test_manipulability_of_a_frame_by_its_joints(run, base):
    node = run()
    frames = {
        "velocity_ellipsoid__frame": "wrist_roll",
        "force_ellipsoid__frame": "wrist_roll",
        "velocity_ellipsoid__scale": 0.5,
        "force_ellipsoid__scale": 0.25,
    }
    assert node.set(**base, **frames) == (True, "")
    arm = model(base.get("root_joint"))
    q = np.concatenate([POSE, POSITION]) if base else POSITION
    array = node.ask(arm.joint_names[-7:])
    data = dyn_ros.Data(arm)
    J = dyn_ros.frame_jacobian(arm, data, q, "wrist_roll", dyn_ros.ReferenceFrame(2))[:3, -7:]
    place = dyn_ros.frame_placements(arm, data, q)[arm.frame_index("wrist_roll")]
    for ns, power, scale in (("velocity_ellipsoid", 1, 0.5), ("force_ellipsoid", -1, 0.25)):
        [marker] = shown(array, ns).values()
        assert marker.type == Marker.SPHERE
        close(vector(marker.pose.position), place[:3, 3])
        R, half = rotation(marker), 0.5 * vector(marker.scale) / scale
        close(R @ np.diag(half ** (2 * power)) @ R.T, J @ J.T)
    on_base = {name: "base_link" for name in frames if name.endswith("frame")}
    assert node.set(**on_base) == (True, "")
    array = node.ask(arm.joint_names[-7:])
    assert not namespaces(array) & {"velocity_ellipsoid", "force_ellipsoid"}


# centroidal


def test_center_of_mass_and_momentum_are_those_of_the_state(run, client):
    node = run(module=CENTROIDAL)
    assert node.set(
        subtree_com__show=True,
        locked_inertia__show=True,
        com__scale=0.3,
        com_projection__height=-0.5,
        linear_momentum__scale=2.0,
        angular_momentum__scale=3.0,
        gravity=[3.0, 0.0, -4.0],
    ) == (True, "")
    arm = model()
    states = client.listen(CentroidalState, node.node.name + "/state")
    array, state = node.ask(arm.joint_names, others=[states])
    assert namespaces(array) == {
        "com",
        "com_projection",
        "subtree_com",
        "linear_momentum",
        "angular_momentum",
        "locked_inertia",
    }
    com, up = vector(state.com), np.array([-0.6, 0.0, 0.8])
    assert math.isfinite(com.sum())
    [ball] = shown(array, "com").values()
    close(vector(ball.pose.position), com)
    close(vector(ball.scale), 0.3)
    ground = com + (-0.5 - com @ up) * up
    disc, line = shown(array, "com_projection").values()
    close(vector(disc.pose.position), ground)
    close(rotation(disc)[:, 2], up)
    close(points(line), [com, ground])
    for ns, momentum, scale in (
        ("linear_momentum", state.linear_momentum, 2.0),
        ("angular_momentum", state.angular_momentum, 3.0),
    ):
        [arrow] = shown(array, ns).values()
        close(points(arrow), [com, com + scale * vector(momentum)])
    [whole] = shown(array, "locked_inertia").values()
    close(inertia_of(whole, state.mass), tensor(state.locked_inertia))

    centers, _, _, masses = dyn_ros.subtree_centers_of_mass(arm, dyn_ros.Data(arm), POSITION)
    balls = shown(array, "subtree_com")
    assert set(balls) == set(range(1, 8))
    for id, marker in balls.items():
        close(vector(marker.pose.position), centers[id - 1])
        close(marker.scale.x**3 / 0.08**3, masses[id - 1] / arm.total_mass)
    assert node.set(subtree_com__joints=["forearm_roll"]) == (True, "")
    array = node.ask(arm.joint_names, velocity=())
    assert set(shown(array, "subtree_com")) == {arm.joint_index("forearm_roll") + 1}
    assert not namespaces(array) & {"linear_momentum", "angular_momentum"}


# wrenches and constraints


def check_arrow(marker, start, vector):
    assert marker.type == Marker.ARROW
    close(points(marker), [start, start + vector])


def check_turn(marker, center, moment):
    """Three quarters of a turn about the moment's axis, its size the radius."""
    assert marker.type == Marker.LINE_STRIP
    spokes = arc(marker) - center
    close(spokes @ moment, np.zeros(len(spokes)))
    close(np.linalg.norm(spokes, axis=-1), np.linalg.norm(moment))
    turned = np.cross(spokes[:-1], spokes[1:])
    assert (turned @ moment > 0.0).all()
    close(np.cross(spokes[0], spokes[-1]), -moment * np.linalg.norm(moment))


def check_screw(array, ns, id, center, vector, scale):
    for part, numbers, check in (
        ("linear", vector[:3], check_arrow),
        ("angular", vector[3:], check_turn),
    ):
        markers = shown(array, f"{ns}/{part}")
        if np.any(numbers):
            check(markers[id], center, scale * numbers)
        else:
            assert id not in markers


def wrench(frame, numbers):
    message = WrenchStamped()
    message.header.frame_id = frame
    f, n = message.wrench.force, message.wrench.torque
    f.x, f.y, f.z, n.x, n.y, n.z = numbers
    return message


@pytest.mark.parametrize("acting", [["", ""], ["", "wrist_link"]])
@pytest.mark.parametrize(
    "module, parameter, frames",
    [
        ("dyn_ros.nodes.dynamics_node", "markers.wrench.topics", "markers.wrench.frames"),
        (VERESHCHAGIN, "wrench_topics", "wrench_frames"),
    ],
)
def test_wrenches_at_their_frames(run, client, arm, module, parameter, frames, acting):
    node = run("-p", "markers.lifetime:=0.0", "-p", "input_timeout:=0.0", module=module)
    done, why = client.set_parameters(node.node, **{parameter: ["a b"]})
    assert not done and "topic name" in why
    topics = ["push", "pull"]
    assert client.set_parameters(node.node, **{parameter: topics}) == (True, "")
    done, why = client.set_parameters(node.node, **{frames: ["tool"]})
    assert not done and "one name for each of the 2 topics" in why
    assert client.set_parameters(node.node, **{frames: acting}) == (True, "")
    wrenches = {
        "push": wrench("tool", [1.0, -2.0, 3.0, 0.5, 0.0, 2.0]),
        "pull": wrench("base_link", [0.0, 0.0, 0.0, 0.0, 4.0, 0.0]),
    }
    array = node.ask(arm.joint_names)
    assert not any(ns.startswith("wrench") for ns in namespaces(array))
    publishers = {
        topic: client.publisher(WrenchStamped, node.node.topic(topic)) for topic in topics
    }

    def all_shown():
        for topic, message in wrenches.items():
            publishers[topic].publish(message)
        latest = node.ask(arm.joint_names)
        return latest if len(shown(latest, "wrench/angular")) == 2 else None

    arrays = []
    client.wait(
        lambda: arrays and arrays[-1], "both wrenches", again=lambda: arrays.append(all_shown())
    )
    oMf = dyn_ros.frame_placements(arm, dyn_ros.Data(arm), POSITION)
    for id, (message, frame) in enumerate(zip(wrenches.values(), acting)):
        placement = oMf[arm.frame_index(frame or message.header.frame_id)]
        R, w = oMf[arm.frame_index(message.header.frame_id)][:3, :3], message.wrench
        check_screw(
            arrays[-1],
            "wrench",
            id,
            placement[:3, 3],
            np.concatenate([R @ vector(w.force), R @ vector(w.torque)]),
            0.01,
        )


@pytest.mark.parametrize("base", [{}, FLOATING], ids=["fixed", "floating"])
def test_constraints_and_what_they_do_to_the_tip(run, client, base):
    node = run(module=VERESHCHAGIN)
    assert node.set(
        **base,
        constraints="free_along_axis",
        tip_frame="tool",
        axis=[0.0, 0.6, 0.8],
        axis_frame="wrist_link",
    ) == (True, "")
    arm = model(base.get("root_joint"))
    q = np.concatenate([POSE, POSITION]) if base else POSITION
    solutions = client.listen(ConstrainedDynamics, node.node.name + "/solution")
    array, solution = node.ask(arm.joint_names[-7:], others=[solutions])
    assert {marker.header.frame_id for marker in array.markers} == {
        "world" if base else "base_link"
    }
    data = dyn_ros.Data(arm)
    oMf = dyn_ros.frame_placements(arm, data, q)
    R, center = oMf[arm.frame_index("wrist_link"), :3, :3], oMf[arm.frame_index("tool"), :3, 3]
    given = solution.constraints.directions
    directions = np.reshape(given.data, (given.rows, given.cols)).T.reshape(-1, 2, 3) @ R.T
    directions = directions.reshape(-1, 6)
    assert len(directions) == 5 and list(solution.constraints.frame) == ["tool"] * 5
    for id, direction in enumerate(directions):
        check_screw(array, "constraint", id, center, direction, 0.1)
    force = -np.array(solution.nu) @ directions
    check_screw(array, "constraint_force", 0, center, force, 0.01)
    J = dyn_ros.frame_jacobian(arm, data, q, "tool", dyn_ros.ReferenceFrame(2))
    close(J.T @ force, solution.constraint_generalized_forces)

    assert node.set(constraints="topic") == (True, "")  # and no message is published
    array = node.ask(arm.joint_names[-7:])
    assert namespaces(array) == set()


# What all kinds share


@pytest.mark.parametrize("module", MODULES)
def test_markers_keep_their_names_and_a_change_takes_away_the_old_ones(run, arm, module):
    node = run(module=module, **HOLD)
    if module == MODULES[0]:
        assert node.set(inertia__show=True) == (True, "")
    first = node.ask(arm.joint_names)
    assert [first.markers[0].ns, first.markers[0].action] == ["", Marker.DELETEALL]
    assert all(marker.action == Marker.ADD for marker in first.markers[1:])
    second = node.ask(arm.joint_names, POSITION + 0.1)
    names = [[(marker.ns, marker.id) for marker in array.markers] for array in (first, second)]
    assert names[0][1:] == names[1] and len(set(names[1])) == len(names[1]) > 0
    for marker in second.markers:
        assert marker.header == second.markers[0].header
        assert marker.header.frame_id == "base_link" and marker.header.stamp.sec > 0
        assert marker.lifetime.sec == 2 and marker.frame_locked
        assert marker.action in (Marker.ADD, Marker.DELETE)
        if marker.type in (Marker.LINE_STRIP, Marker.TEXT_VIEW_FACING):
            assert max(vector(marker.scale)) > 0.0
        else:
            assert min(vector(marker.scale)) > 0.0
        assert len(color(marker)) == 4

    kinds = {ns.split("/")[0] for ns in namespaces(second)}
    gone = sorted(kinds)[0]
    assert node.set(**{f"{gone}__show": False}, lifetime=0.5) == (True, "")
    array = node.ask(arm.joint_names)
    assert array.markers[0].action == Marker.DELETEALL
    assert {ns.split("/")[0] for ns in namespaces(array)} == kinds - {gone}
    assert array.markers[1].lifetime.nanosec == 500_000_000
    assert node.set(**{f"{kind}__show": False for kind in kinds}) == (True, "")
    array = node.ask(arm.joint_names)
    assert [marker.action for marker in array.markers] == [Marker.DELETEALL]
    assert node.set(**{f"{gone}__show": True}) == (True, "")
    array = node.ask(arm.joint_names)
    assert array.markers[0].action == Marker.DELETEALL
    assert {ns.split("/")[0] for ns in namespaces(array)} == {gone}


@pytest.mark.parametrize("module", MODULES)
def test_deactivation_takes_all_markers_away(run, client, arm, module):
    node = run(module=module, **HOLD)
    kinds = namespaces(node.ask(arm.joint_names))
    assert kinds
    for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVE_SHUTDOWN):
        node.change(transition)
        client.wait(
            lambda: [marker.action for marker in node.arrays[-1].markers] == [Marker.DELETEALL],
            "the last markers",
        )
        if transition == Transition.TRANSITION_DEACTIVATE:
            node.change(Transition.TRANSITION_ACTIVATE)
            assert namespaces(node.ask(arm.joint_names)) == kinds


def test_computed_only_for_subscribers_and_not_too_often(run, client, arm):
    node = run()
    node.ask(arm.joint_names)
    client.diagnostics(node.node, lambda _, values: values["computing"] == "~/markers")
    assert node.set(rate=0.01) == (True, "")
    node.ask(arm.joint_names)  # the one in 100 s
    count = len(node.arrays)

    def taken(status, values):
        node.speak.send(node.speak.message(arm.joint_names, POSITION))
        return float(values["states [Hz]"]) > 1.0

    client.diagnostics(node.node, taken)
    assert len(node.arrays) == count
    client.stop_listening()
    client.diagnostics(node.node, lambda _, values: values["computing"] == "")


@pytest.mark.parametrize(
    "module, values, reason",
    [
        (None, {"torque__color": [1.0, 0.0, 0.0]}, "expected 4 numbers, but got 3"),
        (None, {"inertia__color": [1.0, 0.0, 0.0, 1.5]}, "expected numbers from 0 to 1"),
        (None, {"torque__scale": -1.0}, ""),
        (None, {"torque__source": "guess"}, "one of gravity, nle, effort"),
        (None, {"force_ellipsoid__frame": "nose"}, "wrist_roll"),
        (CENTROIDAL, {"subtree_com__joints": ["nobody"]}, "elbow_pitch"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_parameters_that_do_not_fit_are_rejected(run, client, arm, module, values, reason):
    node = run(**({"module": module} if module else {}))
    before = node.ask(arm.joint_names)
    done, why = node.set(**values)
    assert not done and reason in why
    assert next(iter(values)).replace("__", ".") in why
    array = node.ask(arm.joint_names)
    assert namespaces(array) == namespaces(before)
    assert array.markers[0].action == Marker.ADD  # nothing was changed


def test_a_robot_without_the_frame_shows_the_rest_and_says_why(run, client, arm):
    node = run()
    assert node.set(velocity_ellipsoid__frame="wrist_roll") == (True, "")
    assert "velocity_ellipsoid" in namespaces(node.ask(arm.joint_names))
    client.publisher(
        String,
        node.node.topic("robot_description"),
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        reliability=ReliabilityPolicy.RELIABLE,
    ).publish(String(data=SLIDER))
    array = node.ask(["lift", "spin"], [0.5, 0.25], ())
    assert array.markers[0].action == Marker.DELETEALL
    assert namespaces(array) == {"torque", "torque/numbers"}
    client.diagnostics(
        node.node, lambda _, values: "markers.velocity_ellipsoid.frame" in values["last rejection"]
    )


# Serialized arrays, without a process or DDS


class Source:
    """The part of a node that markers use, with inputs that come and go."""

    WRENCHES = ("push", "pull", "turn")

    def __init__(self, kinds, urdf, **values):
        specs = [*SPECS, *VereshchaginNode.specs, *kinds_of.MarkerOutput.marker_parameters(kinds)]
        defaults = {
            spec.name: [] if isinstance(spec.default, Parameter.Type) else spec.default
            for spec in specs
        }
        self.parameters = SimpleNamespace(
            changes=1,
            values={
                **defaults,
                "wrench_topics": self.WRENCHES,
                "markers.wrench.topics": self.WRENCHES,
                **values,
            },
        )
        self.robot = RobotContext(urdf, self.parameters.values)
        self.inputs, self.wrenches, self.found = self, {}, None
        self.markers = kinds_of.MarkerOutput(self, kinds)
        self.compute = self.markers.make(self.robot)

    def latest_value(self, topic, robot, timeout):
        if topic not in self.wrenches:
            raise ValueError("missing")
        return self.wrenches[topic]

    def solution(self, robot, state, terms):
        return self.found

    def change(self, **values):
        self.parameters.changes += 1
        self.parameters.values.update(values)

    def terms(self, state):
        names = set(self.markers._marker_reads()) - {"effort"}
        self.robot.compute_terms(state, names)
        return DynamicsTerms(self.robot.data, names)

    def array(self, state):
        """The array for a state; None if there is none."""
        template = self.compute(state, self.terms(state))
        if template is None:
            return None
        template.set_stamp(state.stamp)
        return deserialize_message(template.to_bytes(), MarkerArray)


def typed_markers(group, header):
    """The markers of a group, field by field."""
    common, numbers = group.prototype, group.numbers
    for row in range(len(group)):
        marker = Marker(
            header=header,
            ns=common.ns,
            id=int(numbers["id"][row, 0]),
            type=common.type,
            action=int(numbers["action"][row, 0]),
            lifetime=common.lifetime,
            frame_locked=common.frame_locked,
        )
        place, turn, size = marker.pose.position, marker.pose.orientation, marker.scale
        place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = numbers["pose"][row].tolist()
        size.x, size.y, size.z = numbers["scale"][row].tolist()
        (marker.color.r, marker.color.g, marker.color.b, marker.color.a) = numbers["color"][
            row
        ].tolist()
        if "points" in numbers:
            marker.points = [
                Point(x=x, y=y, z=z) for x, y, z in numbers["points"][row].reshape(-1, 3).tolist()
            ]
        if "text" in numbers:
            marker.text = bytes(numbers["text"][row]).decode()
        yield marker


def at_random(source, rng):
    """A state; inputs and parameters that change at times."""
    arm, values = source.robot.model, source.parameters.values
    frames = len(arm.frame_names)
    source.wrenches = {
        topic: SimpleNamespace(
            frame=int(rng.integers(frames)),
            components=rng.normal(size=6) * np.repeat(rng.integers(2, size=2), 3),
            axes=None if rng.random() < 0.3 else int(rng.integers(frames)),
        )
        for topic in source.WRENCHES
        if rng.random() < 0.7
    }
    m = int(rng.integers(7))
    source.found = (
        None
        if rng.random() < 0.2
        else SimpleNamespace(
            constraints=SimpleNamespace(
                axes=None,
                directions=rng.normal(size=(6, m)) * rng.integers(2, size=(6, m)),
                frame=(arm.frame_names[-1],) * m,
            ),
            motion=SimpleNamespace(nu=rng.normal(size=m)),
        )
    )
    if rng.random() < 0.2:
        shows = [name for name in values if name.endswith(".show")]
        name = shows[rng.integers(len(shows))]
        source.change(**{name: not values[name], "markers.width": rng.random()})
    if rng.random() < 0.2:
        source.robot.odometry_frame = ["odom", "a_longer_name"][rng.integers(2)]
    v, effort = (rng.normal(size=arm.nv) * rng.integers(2, size=arm.nv) for _ in range(2))
    return State(
        arm.random_configuration(rng),
        None if rng.random() < 0.2 else v,
        int(rng.integers(2**60)),
        effort=None if rng.random() < 0.2 else effort,
    )


SOURCES = {
    "dynamics": (
        dynamics_markers.DYNAMICS,
        {
            "markers.velocity_ellipsoid.frame": "tool",
            "markers.force_ellipsoid.frame": "wrist_roll",
            "markers.torque.source": "effort",
            "markers.torque.numbers": "all",
            "markers.inertia.show": True,
        },
    ),
    "centroidal": (
        centroidal_markers.CENTROIDAL,
        {"markers.subtree_com.show": True, "markers.locked_inertia.show": True},
    ),
    "vereshchagin": (vereshchagin_markers.VERESHCHAGIN, {}),
    "slider": (dynamics_markers.DYNAMICS, {"markers.velocity_ellipsoid.frame": "fork"}),
}


@pytest.mark.parametrize("base", [{}, FLOATING], ids=["fixed", "floating"])
@pytest.mark.parametrize("which", SOURCES)
def test_serialized_arrays_are_the_typed_ones(which, base):
    """Whatever appears, disappears and changes: every field of every marker, in order."""
    kinds, values = SOURCES[which]
    source = Source(kinds, SLIDER if which == "slider" else ARM7.read_text(), **values, **base)
    rng, changes, cleared, deleted = np.random.default_rng(1), 0, 0, 0
    findings_of(source.robot)
    for _ in range(240):
        state = at_random(source, rng)
        header = Header(frame_id=source.robot.world_frame)
        header.stamp.sec, header.stamp.nanosec = divmod(state.stamp, 10**9)
        expected = MarkerArray()
        if changes != source.parameters.changes:
            changes = source.parameters.changes
            cleared += 1
            draws = list(
                source.markers._make_draws(source.robot, source.parameters.values, Header())
            )
            expected.markers.append(Marker(header=header, action=Marker.DELETEALL))
        terms = source.terms(state)
        expected.markers += itertools.chain.from_iterable(
            typed_markers(group, header) for draw in draws for group in draw(state, terms)
        )
        array = source.array(state)
        if expected.markers:
            assert array == deserialize_message(serialize_message(expected), MarkerArray)
            deleted += sum(marker.action == Marker.DELETE for marker in array.markers)
        else:
            assert array is None
    assert cleared > 10 and deleted > 10


@pytest.mark.parametrize("axes", [None, "wrist_link"])
def test_constraints_on_several_frames_in_any_order(axes):
    """Constraints on one frame follow each other, and have one force."""
    source = Source(vereshchagin_markers.VERESHCHAGIN, ARM7.read_text())
    arm, rng = source.robot.model, np.random.default_rng(2)
    for frames in (("tool", "wrist_link", "tool", "elbow_pitch", "wrist_link"), ("tool",) * 2, ()):
        m = len(frames)
        source.found = SimpleNamespace(
            constraints=SimpleNamespace(
                axes=axes, directions=rng.normal(size=(6, m)), frame=frames
            ),
            motion=SimpleNamespace(nu=rng.normal(size=m)),
        )
        state = State(POSITION, VELOCITY, 1)
        array = source.array(state)
        oMf = dyn_ros.frame_placements(arm, dyn_ros.Data(arm), state.q)
        R = oMf[arm.frame_index(axes), :3, :3] if axes else np.eye(3)
        directions = source.found.constraints.directions.reshape(2, 3, m)
        directions = np.einsum("ij,ajm->mai", R, directions).reshape(m, 6)
        order = [i for name in dict.fromkeys(frames) for i in range(m) if frames[i] == name]
        for id, i in enumerate(order):
            check_screw(
                array,
                "constraint",
                id,
                oMf[arm.frame_index(frames[i]), :3, 3],
                directions[i] / np.linalg.norm(directions[i]),
                0.1,
            )
        for id, name in enumerate(dict.fromkeys(frames)):
            own = [i for i in range(m) if frames[i] == name]
            check_screw(
                array,
                "constraint_force",
                id,
                oMf[arm.frame_index(name), :3, 3],
                -source.found.motion.nu[own] @ directions[own],
                0.01,
            )
        assert len(shown(array, "constraint/linear")) == m
        assert len(shown(array, "constraint_force/linear")) == len(set(frames))


def test_markers_that_disappear_are_deleted_and_come_back(monkeypatch):
    """In their place, without another serialization."""
    source = Source(
        dynamics_markers.DYNAMICS,
        ARM7.read_text(),
        **{"markers.torque.source": "effort", "markers.torque.numbers": "none"},
    )
    serialized = []

    def template(*arguments):
        serialized.append(arguments)
        return original(*arguments)

    original = kinds_of.Template
    monkeypatch.setattr(kinds_of, "Template", template)

    def actions(*effort):
        array = source.array(State(POSITION, None, 1, effort=np.array(effort + (0.0,) * 5)))
        return [(marker.id, marker.action) for marker in array.markers]

    ADD, DELETE = Marker.ADD, Marker.DELETE
    assert actions(0.0, 5.0) == [(0, Marker.DELETEALL), (2, ADD)]
    assert actions(0.0, 5.0) == [(2, ADD)]
    assert actions(9.0, 5.0) == [(2, ADD), (1, ADD)]
    assert len(serialized) == 3
    for _ in range(2):
        assert actions(9.0, 0.0) == [(2, DELETE), (1, ADD)]
    for _ in range(2):
        assert actions(0.0, 0.0) == [(2, DELETE), (1, DELETE)]
    assert actions(0.0, -5.0) == [(2, ADD), (1, DELETE)]
    assert len(serialized) == 3
    source.change(**{"markers.width": 0.5})
    assert actions(9.0, 0.0) == [(0, Marker.DELETEALL), (1, ADD)]


def test_all_markers_are_deleted_even_if_the_first_state_fails():
    source = Source(centroidal_markers.CENTROIDAL, ARM7.read_text())
    with pytest.raises(ValueError, match="too large"):
        source.array(State(np.full(7, 1e300), None, 1))
    array = source.array(State(POSITION, None, 2))
    assert array.markers[0].action == Marker.DELETEALL and len(array.markers) > 1


@pytest.mark.parametrize("base", [{}, FLOATING], ids=["fixed", "floating"])
def test_efforts_beyond_the_threshold_are_collisions_if_the_base_is_fixed(base):
    source = Source(observer_markers.OBSERVER[:1], ARM7.read_text(), **base)
    model = source.robot.model
    external = np.zeros(model.nv)
    external[[-7, -6]] = 5.0, 20.0
    source.valid_observation = lambda robot: SimpleNamespace(
        external=external,
        exceeded=abs(external) > 10.0,
        positive_thresholds=lambda: np.full(model.nv, 10.0),
    )
    state = State(model.neutral(), np.zeros(model.nv), 1)
    arcs = shown(source.array(state), "external_effort")
    within, beyond = ([0.11, 0.63, 1.0, 1.0], [0.88, 0.04, 0.11, 1.0])
    first = model.njoints - 6
    close(color(arcs[first]), within, 1e-6)
    close(color(arcs[first + 1]), within if base else beyond, 1e-6)
