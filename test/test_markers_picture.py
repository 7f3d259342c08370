# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The picture of the markers: it is drawn from what the nodes publish, and shows every kind."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
pytest.importorskip("PIL", reason="Pillow is not importable: run `make test`")

from dyn_ros.nodes.markers.centroidal_markers import CENTROIDAL
from dyn_ros.nodes.markers.dynamics_markers import DYNAMICS
from dyn_ros.nodes.markers.vereshchagin_markers import VERESHCHAGIN

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def script():
    """The script, which draws a coarse picture here."""
    spec = importlib.util.spec_from_file_location("draw_markers", ROOT / "docs/draw_markers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WIDTH, module.HEIGHT, module.FINE = 280, 275, 1
    return module


@pytest.fixture(scope="module")
def arrays(script):
    return script.marker_arrays()


def kinds(listed):
    return {kind.name for kind in listed}


def test_every_kind_is_drawn(script, arrays):
    image, drawn = script.picture(arrays)
    of_node = {name: {ns.split("/")[0] for ns in namespaces} for name, namespaces in drawn.items()}
    assert of_node == {
        "dynamics": kinds(DYNAMICS),
        "centroidal": kinds(CENTROIDAL),
        "vereshchagin": kinds(VERESHCHAGIN),
    }
    assert set().union(*of_node.values()) == set(script.WHAT)
    assert image.width >= 3 * script.WIDTH and image.height > script.HEIGHT


@pytest.mark.parametrize("name", ["dynamics", "centroidal", "vereshchagin"])
def test_each_namespace_is_seen(script, arrays, name):
    whole, drawn = script.view_of(arrays[name])
    for ns in dict.fromkeys(drawn):
        rest, _ = script.view_of(
            SimpleNamespace(markers=[each for each in arrays[name].markers if each.ns != ns])
        )
        changed = np.any(whole != rest, axis=-1)
        assert changed.sum() > 10, ns


@pytest.mark.parametrize(
    "kind, inside",
    [
        ("sphere", lambda u: np.linalg.norm(u, axis=1) - 1.0),
        ("cube", lambda u: abs(u).max(1) - 1.0),
        (
            "frustum",
            lambda u: (
                np.maximum(abs(u[:, 2]), 1.0 + np.hypot(u[:, 0], u[:, 1]) - (0.65 - 0.35 * u[:, 2]))
                - 1.0
            ),
        ),
    ],
)
def test_rays_end_on_solids(script, kind, inside):
    """Where a ray hits, the point is on the surface, and its normal looks back at the eye."""
    rng = np.random.default_rng(5)
    A, c = rng.normal(size=(3, 3)), rng.normal(size=3)
    solid = script.Solid(kind, A, c, [1.0, 1.0, 1.0, 1.0], top=0.3)
    eye = c + 20.0 * rng.normal(size=3)
    d = c + 2.0 * rng.normal(size=(2000, 3)) - eye
    t, normal = solid.hit(eye, d)
    hits = np.isfinite(t)
    assert 100 < hits.sum() < 2000
    u = (eye + t[hits, None] * d[hits] - c) @ np.linalg.inv(A).T
    np.testing.assert_allclose(inside(u), 0.0, atol=1e-9)
    assert (np.sum(normal[hits] * d[hits], axis=1) <= 1e-9).all()
    along = eye + np.linspace(0.0, 1.0, 200)[:, None, None] * (1.5 * d[~hits])
    assert all((inside((each - c) @ np.linalg.inv(A).T) > -1e-9).all() for each in along)
