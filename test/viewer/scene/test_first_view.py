# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The first view of RViz: the robot, and the legends in its corners."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.viewer.scene import first_view, legend_markers
from dyn_ros.viewer.scene.first_view import fit_first_view

ARM7 = (Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf").read_text()


def offsets_in_picture(view, points):
    """Return offsets to the right and up from the middle / half the height at their distance."""
    back = view.position - view.target
    back = back / np.linalg.norm(back)
    offsets = points - view.position
    half_heights = -(offsets @ back) * np.tan(0.5 * first_view.FIELD_OF_VIEW)
    return (
        np.stack([offsets @ first_view.RIGHT, offsets @ first_view.UP], -1) / half_heights[:, None]
    )


def test_limits_that_exclude_zero_bend_the_arm():
    """joint_state_publisher_gui starts in the middle of such limits."""
    model = dyn_ros.Model.from_urdf(ARM7)
    limits = 'lower="1.5" upper="2.5"'
    elbow = r'(<joint name="elbow_pitch".*?)lower="[^"]*" upper="[^"]*"'
    bent = dyn_ros.Model.from_urdf(re.sub(elbow, rf"\1{limits}", ARM7, count=1, flags=re.DOTALL))
    assert bent.lower[model.joint_index("elbow_pitch")] == 1.5
    view = fit_first_view(bent)
    q = bent.neutral()
    q[bent.idx_q[bent.joint_index("elbow_pitch")]] = 2.0
    points = dyn_ros.frame_placements(bent, dyn_ros.Data(bent), q)[:, :3, 3]
    middle = 0.5 * (
        offsets_in_picture(view, points).min(0) + offsets_in_picture(view, points).max(0)
    )
    assert (abs(middle) < 0.1).all()
    assert view.position[2] < fit_first_view(model).position[2]


@pytest.mark.filterwarnings("error")
def test_joints_without_limits():
    free = dyn_ros.Model.from_urdf(ARM7, root_joint="floating")
    fixed = dyn_ros.Model.from_urdf(ARM7)
    assert np.isinf(free.lower).any()
    assert np.array_equal(fit_first_view(free).position, fit_first_view(fixed).position)


@pytest.mark.parametrize("robot", ["arm7", "quadruped"])
def test_legends_are_in_the_corners_of_the_picture(robot):
    model = dyn_ros.Model.from_urdf_file(Path(dyn_ros.__file__).parent / "robots" / f"{robot}.urdf")
    view = fit_first_view(model)
    corners = {}
    for node, corner in legend_markers.CORNERS.items():
        height, point = legend_markers.first_line(node, model, 3)
        [offset] = offsets_in_picture(view, point[None])
        assert abs(offset[0]) < first_view.WINDOW_ASPECT and abs(offset[1]) < 1.0
        assert (np.sign(offset) == corner).all() and (abs(offset) > 0.6).all()
        assert 0.01 < height / view.half_height() < 0.1
        corners[node] = offset
    for first, second in itertools.combinations(corners.values(), 2):
        assert np.linalg.norm(first - second) > 1.0
