# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The arrow to pull: its force, its label, and that it springs back."""

import re

import numpy as np
import pytest

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf

pytest.importorskip("viser", reason="no viser: pip install viser")

from pulling import drag, pull

from dyn_ros.viewer.scene.camera import CAMERA_DIRECTION
from dyn_ros.viewer.scene.handle import REST_LENGTH, PushHandle
from dyn_ros.viewer.scene.scene import RobotScene

BENT = np.array([0.3, 0.6, 0.2, 1.2, 0.0, 0.5, 0.1])


@pytest.fixture
def robot(server):
    robot = RobotScene(server.scene, read_urdf(ARM.read_text()), ARM.read_text())
    robot.move(BENT)
    return robot


@pytest.fixture
def handle(robot, server):
    return PushHandle(robot, server.gui, "tool", 100.0)


def shown(handle):
    """The text of the label, at the grip."""
    node, text = re.fullmatch(
        r'<div class="dyn-pull" data-node="(.*?)" .* hidden>(.*)</div>', handle._label.content
    ).groups()
    assert node == handle._grip.name
    return text


def world(handle):
    return handle._grip_in_world()


def test_it_points_away_from_the_robot_and_asks_to_be_pulled(robot, handle):
    np.testing.assert_array_equal(handle.update(0.1), 0.0)
    tool = robot.placement("tool")[:3, 3]
    arrow = world(handle) - tool
    assert np.linalg.norm(arrow) == pytest.approx(REST_LENGTH * robot.reach)
    assert arrow @ (tool - robot.placement("forearm_roll")[:3, 3]) > 0.0
    assert arrow @ CAMERA_DIRECTION > 0.0
    assert shown(handle) == "pull me" and not handle.was_pulled and not handle.is_held


def test_it_appears_above_a_foot(server):
    """In the picture too, in which what is nearer to the camera is lower."""
    xml = ARM.with_name("quadruped.urdf").read_text()
    robot = RobotScene(server.scene, read_urdf(xml), xml)
    arrow = PushHandle(robot, server.gui, robot.tip, 100.0).rest_offset
    up = np.array([0.0, 0.0, 1.0]) - CAMERA_DIRECTION[2] * CAMERA_DIRECTION
    assert arrow @ up > 0.4 * np.linalg.norm(arrow)


def test_the_force_is_the_displacement_in_the_frame_of_the_link(robot, handle):
    grabbed = world(handle) + (0.01, 0.0, 0.02)  # not at its center
    drag(handle, "start", grabbed, grabbed)
    np.testing.assert_allclose(handle.update(0.03), 0.0, atol=1e-9)
    displacement = np.array([0.1, -0.2, 0.05])
    drag(handle, "update", grabbed + displacement, grabbed + displacement)
    force = handle.update(0.03)
    np.testing.assert_allclose(
        robot.rotate_to_world("tool", force), 100.0 * displacement, atol=1e-9
    )
    assert shown(handle) == "23 N" and handle.was_pulled and handle.is_held


def test_the_grip_stays_at_the_pointer_while_the_robot_gives_way(robot, handle):
    start = world(handle)
    drag(handle, "start", start, start)
    drag(handle, "update", start, start + (0.0, 0.0, 0.3))
    handle.update(0.03)
    robot.move(BENT - 0.05)
    force = handle.update(0.03)
    np.testing.assert_allclose(world(handle), start + (0.0, 0.0, 0.3), atol=1e-9)
    rest_position = world(handle) - robot.rotate_to_world("tool", force) / 100.0
    place = robot.placement("tool")
    np.testing.assert_allclose(rest_position, handle.rest_offset + place[:3, 3], atol=1e-9)


def test_it_springs_back_and_asks_no_more(handle):
    start = world(handle)
    drag(handle, "start", start, start)
    drag(handle, "update", start, start + (0.3, 0.0, 0.0))
    handle.update(0.03)
    drag(handle, "end", start, start)
    np.testing.assert_array_equal(handle.update(0.03), 0.0)
    assert 0.0 < np.linalg.norm(world(handle) - start) < 0.3
    for _ in range(60):
        handle.update(0.03)
    np.testing.assert_allclose(world(handle), start, atol=1e-9)
    assert shown(handle) == ""


def turned(node, vector):
    """A vector of a node, in its parent's axes."""
    w, *u = node.wxyz
    t = 2.0 * np.cross(u, vector)
    return vector + w * t + np.cross(u, t)


def test_the_arrow_ends_at_the_grip_until_it_is_the_force(robot, handle):
    """To scale, at the origin of the link; a line connects its head to the grip."""
    handle.update(0.03)
    np.testing.assert_allclose(
        turned(handle._arrow, handle._arrow.points[0, 1]), handle._grip.position, atol=1e-6
    )
    assert not handle._line.visible
    pull(handle, np.array([0.1, 0.2, 0.3]))
    for bend in (0.0, 0.1):
        robot.move(BENT + bend)
        force = handle.update(0.03)
        arrow = turned(handle._arrow, handle._arrow.points[0, 1])
        np.testing.assert_allclose(arrow, force / 100.0, atol=2e-3)
        np.testing.assert_allclose(np.cross(arrow, force) / np.linalg.norm(force), 0.0, atol=1e-6)
        line = turned(handle._line, handle._line.points[0, 1])
        np.testing.assert_allclose(handle._grip.position + line, force / 100.0, atol=1e-6)
        assert handle._line.visible
    handle.let_go()
    handle.update(0.03)
    assert not handle._line.visible


def test_the_grip_is_above_its_link_while_the_robot_moves(robot, handle):
    """At a foot as well: below it is the floor."""
    for bend in (0.0, 0.5, 1.5):
        robot.move(BENT + bend)
        handle.update(0.03)
        np.testing.assert_allclose(
            world(handle) - robot.placement("tool")[:3, 3], handle.rest_offset
        )
        place = robot.placement("tool")
        np.testing.assert_allclose(
            place[:3, :3] @ handle._grip.position, handle.rest_offset, atol=1e-4
        )
    assert handle.rest_offset[2] > 0.0


def test_it_is_draggable_and_goes_away(server, handle):
    names = server.scene._handle_from_node_name
    assert any(name.endswith("/grip") for name in names)
    assert handle._drag_area._impl.drag_cb
    handle.remove()
    assert not any("/grip" in name or name.endswith("/pull") for name in names)


def test_without_an_invitation(robot, server):
    handle = PushHandle(robot, server.gui, "tool", 100.0, invites=False)
    handle.update(0.03)
    assert shown(handle) == ""


def test_a_robot_of_one_link(server):
    xml = '<robot name="stone"><link name="stone"/></robot>'
    handle = PushHandle(RobotScene(server.scene, read_urdf(xml), xml), server.gui, "stone", 100.0)
    pull(handle, np.array([0.0, 0.1, 0.0]))
    np.testing.assert_allclose(handle.update(0.03), (0.0, 10.0, 0.0), atol=1e-9)
