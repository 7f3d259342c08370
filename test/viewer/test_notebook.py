# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of robots in notebooks."""

import re
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import dyn_ros
from dyn_ros.demo.run import ARM

EVERY_JOINT = Path(__file__).parents[1] / "robots" / "every_joint.urdf"
needs_viser = pytest.mark.skipif(not find_spec("viser"), reason="no viser: pip install viser")


def test_without_viser_the_error_names_the_extra():
    model = dyn_ros.Model.from_urdf_file(ARM)
    with (
        mock.patch("dyn_ros.viewer.notebook.find_spec", return_value=None),
        pytest.raises(ImportError, match=re.escape('pip install "dyn_ros[viewer]"')),
    ):
        dyn_ros.show(model)


@needs_viser
def test_a_notebook_shows_a_page_without_a_server(capsys):
    model = dyn_ros.Model.from_urdf_file(ARM)
    picture = dyn_ros.show(model, np.full(7, 0.3))
    assert picture.problems == () and capsys.readouterr().out == ""
    assert "__VISER_EMBED_DATA__" in picture.html
    inline = picture._repr_html_()
    assert inline.startswith('<iframe srcdoc="') and inline.count("<iframe") == 1
    assert len(repr(picture)) < 80


@needs_viser
@pytest.mark.parametrize("root_joint", [None, "floating", "planar"])
def test_all_joints_are_placed(root_joint):
    from dyn_ros.viewer.scene.scene import RobotScene

    model = dyn_ros.Model.from_urdf_file(EVERY_JOINT, root_joint)
    q = model.random_configuration(np.random.default_rng(0))
    scenes = []

    def keep(*arguments):
        scenes.append(RobotScene(*arguments))
        return scenes[-1]

    with mock.patch("dyn_ros.viewer.scene.scene.RobotScene", side_effect=keep):
        dyn_ros.show(model, q)
    placements = dyn_ros.frame_placements(model, dyn_ros.Data(model), q)
    for name in model.joint_names:
        shown = scenes[0].placement(name)
        np.testing.assert_allclose(shown, placements[model.frame_index(name)], atol=1e-9)


@needs_viser
def test_a_robot_without_a_file_has_bones(tmp_path):
    text = ARM.read_text()
    model = dyn_ros.Model.from_urdf(text)
    bones, shapes = dyn_ros.show(model), dyn_ros.show(model, urdf=ARM)
    assert model.urdf_file is None and len(shapes.html) > len(bones.html)
    path = tmp_path / "arm.urdf"
    path.write_text(text)
    model = dyn_ros.Model.from_urdf_file(path)
    assert model.reduced({"wrist_roll": 0.1}).urdf_file == path
    path.unlink()
    assert dyn_ros.show(model).problems == ()
    with pytest.raises(OSError):
        dyn_ros.show(model, urdf=path)
    with pytest.raises(ValueError, match="q: expected shape"):
        dyn_ros.show(model, np.zeros(3))
