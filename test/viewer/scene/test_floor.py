# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The floor and the fog, in the colors of each browser, and the light."""

import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

from dyn_ros.viewer.actor import PageSettings
from dyn_ros.viewer.page import page
from dyn_ros.viewer.page.page import DynRosWindow
from dyn_ros.viewer.scene.camera import fit_camera
from dyn_ros.viewer.scene.floor import DARK_COLORS, LIGHT_COLORS, Floor
from dyn_ros.viewer.session import Session


class Scene:
    """Records what it is asked to show."""

    def __init__(self):
        self.shown = {}

    def __getattr__(self, name):
        def record(*args, **kwargs):
            self.shown[name] = args, kwargs
            return self

        return record


class Client:
    """A browser."""

    def __init__(self, client_id):
        self.client_id, self.scene = client_id, Scene()


@pytest.fixture
def floor(server):
    return Floor(server)


def test_the_fog_has_the_color_of_the_background_at_the_horizon():
    css = Path(page.__file__).with_name("page.css").read_text()
    horizons = re.findall("--dyn-horizon: #(.*?);", css)
    assert [tuple(bytes.fromhex(horizon)) for horizon in horizons] == [
        LIGHT_COLORS.horizon,
        DARK_COLORS.horizon,
    ]


@pytest.mark.parametrize("dark, colors", [(False, LIGHT_COLORS), (True, DARK_COLORS)])
def test_each_browser_has_its_colors(floor, dark, colors):
    neighbor, client = Client(1), Client(2)
    floor.show(neighbor, not dark)
    floor.show(client, dark)
    assert client.scene.shown["add_grid"][1]["plane_color"] == colors.floor
    assert client.scene.shown["configure_fog"][1]["color"] == colors.horizon
    assert neighbor.scene.shown["add_grid"][1]["plane_color"] != colors.floor


def test_it_is_below_the_robot_and_its_lines_stay(floor):
    client = Client(1)
    floor.show(client, False)
    points = np.array([[-0.5, -0.5, 0.0], [0.5, 0.5, 1.0]])
    floor.place(points, -0.3)
    assert client.scene.position == (0.0, 0.0, -0.3)
    floor.place(points + (12.34, -7.6, 0.0), 0.0)
    assert np.all(np.mod(client.scene.position, floor._section_size) == 0.0)
    assert abs(client.scene.position[0] - 12.34) <= floor._section_size


def test_it_is_lowered_to_a_robot_that_reaches_below_it(floor):
    client = Client(1)
    floor.show(client, False)
    floor.place(np.array([[-0.5, -0.5, 0.0], [0.5, 0.5, 1.0]]), 0.0)
    floor.lower(-0.005, 0.01)
    assert floor._position == (0.0, 0.0, 0.0)
    floor.lower(-0.2, 0.01)
    assert client.scene.position == (0.0, 0.0, -0.2)
    floor.lower(0.5, 0.01)
    assert client.scene.position == (0.0, 0.0, -0.2)


@pytest.mark.parametrize("size", [1e-9, 0.05, 1.0, 30.0, 1e4])
def test_robots_of_any_size(floor, size):
    floor.place(size * np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), 0.0)
    assert np.isfinite(floor._position).all() and floor._section_size > 0.0


@pytest.mark.parametrize("size", [0.05, 0.3, 0.5, 1.0, 2.0, 6.0, 30.0])
def test_the_robot_is_not_in_the_fog(floor, size):
    """Also in a window that is half as wide as high."""
    client = Client(1)
    floor.show(client, False)
    points = size * np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0, 1)])
    floor._server.get_clients = lambda: {1: client}
    floor.place(points, 0.0)
    position, _ = fit_camera(points, 0.5)
    fog_start = client.scene.shown["configure_fog"][0][0]
    assert np.linalg.norm(points - position, axis=1).max() < fog_start


@pytest.mark.parametrize("software", [False, True])
def test_a_processor_draws_neither_shadows_nor_the_picture_of_a_hall(software):
    session, client = Session("127.0.0.1", 0, Mock(), PageSettings()), Client(1)
    session._arrange(client, DynRosWindow(800, 600, False, software))
    session.close()
    lights = {
        name: arguments
        for name, arguments in client.scene.shown.items()
        if name not in ("add_grid", "configure_fog")
    }
    if not software:
        assert lights == {}
        return
    assert lights["configure_default_lights"] == ((), {"cast_shadow": False})
    assert lights["configure_environment_map"] == ((None,), {})
    assert lights["add_light_hemisphere"][1]["intensity"] > 0.0
