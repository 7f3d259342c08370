# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The picture of contacts: it is drawn from what a node publishes, and shows every kind."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
pytest.importorskip("PIL", reason="Pillow is not importable: run `make test`")

from dyn_ros.nodes.markers.centroidal_markers import CONTACT

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def script():
    """The script, which draws a coarse picture here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(DOCS), *sys.path])
        draw_contacts = importlib.import_module("draw_contacts")
        for name, value in (("WIDTH", 280), ("HEIGHT", 275), ("FINE", 1)):
            patch.setattr(draw_contacts.draw_markers, name, value)
        yield draw_contacts
    for name in ("draw_contacts", "draw_markers"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def array(script):
    return script.marker_array()


def test_every_kind_is_drawn(script, array):
    image, drawn = script.picture(array)
    assert {kind.name for kind in CONTACT} <= {ns.split("/")[0] for ns in drawn}
    assert {ns.split("/")[0] for ns in drawn} == set(script.WHAT)
    assert (image.width, image.height > 275) == (280, True)


def test_each_namespace_is_seen(script, array):
    robot, view = script.solids(), (script.EYE, script.AIM, script.ZOOM)
    whole, drawn = script.view_of(array, robot, script.View(*view))
    for ns in dict.fromkeys(drawn):
        rest, _ = script.view_of(
            SimpleNamespace(markers=[each for each in array.markers if each.ns != ns]),
            robot,
            script.View(*view),
        )
        assert np.any(whole != rest, axis=-1).sum() > 10, ns
