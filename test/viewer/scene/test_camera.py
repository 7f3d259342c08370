# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The camera sees what the robot can reach, in windows of any shape."""

import asyncio
import importlib.metadata
import math

import numpy as np
import pytest

import dyn_ros
from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf

pytest.importorskip("viser", reason="no viser: pip install viser")

from dyn_ros.viewer.motion import SineMotion
from dyn_ros.viewer.posture import MOTION_PERIOD, SAMPLE_TIMES
from dyn_ros.viewer.scene.camera import FIELD_OF_VIEW, MARGIN, Cameras, fit_camera, raise_to_ground
from dyn_ros.viewer.scene.handle import REST_LENGTH, rest_direction
from dyn_ros.viewer.scene.scene import RobotScene

ASPECTS = [342 / 600, 650 / 600, 622 / 800, 1.0, 1270 / 1080, 121 / 800, 3.0]
ROBOTS = {
    "panda": "panda_description/urdf/panda.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "tiago": "tiago_description/robots/tiago.urdf",
}


def pictured(points, camera, aspect):
    """Return positions of points in the picture, -1 to 1 between its borders, and their depths."""
    position, target = camera
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    offset = points - position
    depth = offset @ forward
    tangent = math.tan(0.5 * FIELD_OF_VIEW)
    return (
        np.stack([offset @ right / aspect, offset @ up], axis=1) / (tangent * depth[:, None]),
        depth,
    )


def read(name):
    if name == "arm7":
        return ARM.read_text()
    try:
        share = importlib.metadata.distribution("example-robot-data").locate_file(
            "cmeel.prefix/share/example-robot-data/robots"
        )
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no example-robot-data")
    return (share / ROBOTS[name]).read_text()


@pytest.mark.parametrize("name", ["arm7", *ROBOTS])
def test_the_motion_and_the_ball_stay_in_the_picture_and_above_the_floor(server, name):
    """In the pictures beside the panels, in windows of 1024 and 1440 px."""
    xml = read(name)
    tree = read_urdf(xml)
    robot, swing = RobotScene(server.scene, tree, xml), SineMotion(tree).swing
    robot.move(swing.center)
    link = robot.tip
    ball = (link, REST_LENGTH * max(robot.reach, 0.1) * rest_direction(robot, link))
    fitted = robot.points_at(swing.positions_at(SAMPLE_TIMES), [ball])
    ground = min(float(fitted[:, 2].min()), 0.0)
    points = robot.points_at(swing.positions_at(np.linspace(0.0, MOTION_PERIOD, 2000)), [ball])
    assert points[:, 2].min() > ground - 0.02 * robot.reach
    for width, height in ((1024 - 300, 768), (1440 - 300 - 360, 900)):
        camera = fit_camera(raise_to_ground(fitted, ground), width / height)
        places, depths = pictured(points, camera, width / height)
        assert abs(places).max() < 1.0 and depths.min() > 0.0


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("seed", range(3))
def test_all_points_are_in_the_picture_and_it_is_filled(aspect, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, 3)) * rng.uniform(0.1, 3.0, 3) + rng.normal(size=3)
    positions, depth = pictured(points, fit_camera(points, aspect), aspect)
    assert depth.min() > 0.0
    largest = abs(positions).max(axis=0)
    assert largest.max() == pytest.approx(1.0 - 2.0 * MARGIN, rel=1e-6)
    np.testing.assert_allclose(positions.max(axis=0) + positions.min(axis=0), 0.0, atol=0.01)


@pytest.mark.parametrize("points", [np.zeros((1, 3)), np.array([[1.0, 2.0, 3.0]] * 4)])
def test_a_single_point(points):
    position, target = fit_camera(points, 1.0)
    assert np.isfinite(position).all() and np.linalg.norm(position - target) > 1e-3


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("name", ["arm7", *ROBOTS])
def test_no_frame_of_a_robot_leaves_the_picture(server, name, aspect):
    xml = read(name)
    robot = RobotScene(server.scene, read_urdf(xml), xml)
    points = robot.envelope()
    camera = fit_camera(points, aspect)
    model = dyn_ros.Model.from_urdf(xml)
    data, rng = dyn_ros.Data(model), np.random.default_rng(7)
    for _ in range(50):
        q = model.random_configuration(rng)
        places = dyn_ros.frame_placements(model, data, q)[:, :3, 3]
        positions, _ = pictured(places, camera, aspect)
        assert abs(positions).max() < 1.0


def test_the_envelope_is_what_the_engine_reaches(server):
    robot = RobotScene(server.scene, read_urdf(ARM.read_text()), ARM.read_text())
    model = dyn_ros.Model.from_urdf_file(ARM)
    data, rng = dyn_ros.Data(model), np.random.default_rng(0)
    reached = np.array(
        [
            dyn_ros.frame_placements(model, data, model.random_configuration(rng))[
                model.frame_index("tool"), :3, 3
            ]
            for _ in range(300)
        ]
    )
    points = robot.envelope()
    assert (reached.min(axis=0) > points.min(axis=0) - 0.05).all()
    assert (reached.max(axis=0) < points.max(axis=0) + 0.05).all()
    assert robot.lowest == pytest.approx(0.0, abs=1e-9)


def test_above():
    np.testing.assert_array_equal(
        raise_to_ground(np.array([[1.0, 1.0, -2.0], [0.0, 0.0, 3.0]]), 0.0),
        [[1.0, 1.0, 0.0], [0.0, 0.0, 3.0]],
    )


class Camera:
    """As viser's, for a window of a size."""

    def __init__(self):
        self.image_width, self.image_height = 600, 600
        self.position, self.look_at = np.ones(3), np.zeros(3)
        self.changed = None

    @property
    def aspect(self):
        return self.image_width / self.image_height

    def on_update(self, callback):
        self.changed = callback


class Client:
    """A browser."""

    def __init__(self, client_id):
        self.client_id, self.camera = client_id, Camera()

    def atomic(self):
        import contextlib

        return contextlib.nullcontext()

    def resize(self, width, height):
        self.camera.image_width, self.camera.image_height = width, height
        asyncio.run(self.camera.changed(self.camera))


POINTS = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 2.0], [1.0, -1.0, 1.0]])


@pytest.fixture
def cameras(server):
    cameras = Cameras(server)
    cameras.show(POINTS)
    return cameras


def connected(cameras, number=1):
    client = Client(number)
    asyncio.run(cameras._connect(client))
    return client


def is_fitted(client, points=POINTS):
    camera = client.camera
    position, target = fit_camera(points, camera.aspect)
    return np.allclose(camera.position, position) and np.allclose(camera.look_at, target)


def test_it_is_fitted_to_each_window_and_stays_fitted(cameras):
    first, second = connected(cameras, 1), connected(cameras, 2)
    second.resize(300, 900)
    assert is_fitted(first) and is_fitted(second)
    assert not np.allclose(first.camera.position, second.camera.position)
    for size in ((1000, 600), (342, 600), (342, 601)):
        first.resize(*size)
        assert is_fitted(first)


def test_a_slow_browser_reports_its_first_cameras_late(cameras, server):
    """With the size that the window has when the panels are there: nobody has moved the camera."""
    initial = server.initial_camera
    client = Client(1)
    before = client.camera.position, client.camera.look_at
    asyncio.run(cameras._connect(client))
    now = client.camera.position, client.camera.look_at
    for late in (
        before,
        (initial.position, initial.look_at),
        ((3.0, 3.0, 3.0), now[1]),
        (now[0], initial.look_at),
        (initial.position, now[1]),
    ):
        client.camera.position, client.camera.look_at = map(np.array, late)
        client.resize(client.camera.image_width - 100, 600)
        assert is_fitted(client)


def test_a_robot_appears_while_a_browser_connects(cameras, server):
    client = connected(cameras)
    cameras.show(3.0 * POINTS)
    client.camera.position = np.array(server.initial_camera.position)
    client.camera.look_at = np.array(server.initial_camera.look_at)
    client.resize(500, 600)
    assert is_fitted(client, 3.0 * POINTS)


def test_a_camera_that_a_user_has_moved_stays_until_it_is_fitted(cameras):
    client, untouched = connected(cameras, 1), connected(cameras, 2)
    client.camera.position = client.camera.position + 0.5
    client.resize(1000, 600)
    assert not is_fitted(client)
    cameras.follow(POINTS + 1.0)
    assert not is_fitted(client, POINTS + 1.0) and is_fitted(untouched, POINTS + 1.0)
    cameras.fit(1)
    assert is_fitted(client, POINTS + 1.0)
    client.resize(700, 600)
    assert is_fitted(client, POINTS + 1.0)


def test_another_robot_is_fitted_for_everyone(cameras):
    client = connected(cameras)
    client.camera.look_at = client.camera.look_at + 0.5
    client.resize(601, 600)
    cameras.show(3.0 * POINTS)
    assert is_fitted(client, 3.0 * POINTS)


def test_a_window_without_a_size(cameras):
    client = Client(1)
    client.camera.image_width = 0
    asyncio.run(cameras._connect(client))
    client.resize(500, 500)
    assert is_fitted(client)
