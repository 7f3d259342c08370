# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics without compiled functions, against the engine."""

import numpy as np
import pytest

import dyn_ros
from dyn_ros.viewer.scene.tree_kinematics import TreeKinematics
from peer import EXAMPLE_ROBOTS, FILES


@pytest.mark.parametrize("name", ["every_joint", "panda", "tiago"])
def test_places_are_those_of_the_engine(name):
    """Also of mimic joints, and of several states at once."""
    model = dyn_ros.Model.from_urdf_file(EXAMPLE_ROBOTS / FILES[name])
    robot, data = TreeKinematics(model.tree), dyn_ros.Data(model)
    q_independent = np.random.default_rng(0).uniform(-1.0, 1.0, (3, len(robot.names)))
    placements, heights = robot.placements(q_independent), robot.heights(q_independent)
    for k, positions in enumerate(q_independent):
        q = model.neutral()
        for joint, x in zip(robot.names, positions):
            q[model.idx_q[model.joint_index(joint)]] = x
        expected = dyn_ros.frame_placements(model, data, q)
        lowest = np.full(len(robot.tree_joints) + 1, np.inf)
        for frame, place in zip(model.tree.frames, expected):
            np.testing.assert_allclose(
                placements[frame.parent, k] @ frame.placement, place, atol=1e-12
            )
            lowest[frame.parent] = min(lowest[frame.parent], place[2, 3])
        origins = placements[:, k, 2, 3]  # origins of joints count as well
        np.testing.assert_allclose(heights[:, k], np.minimum(lowest, origins), atol=1e-12)


def test_added_points_count():
    model = dyn_ros.Model.from_urdf_file(EXAMPLE_ROBOTS / FILES["ur5"])
    robot = TreeKinematics(model.tree)
    q = np.zeros((1, len(robot.names)))
    before = robot.heights(q)
    robot.add_points(-1, np.array([[0.0, 0.0, -0.3]]))
    after = robot.heights(q)
    assert after[-1, 0] == pytest.approx(-0.3)
    np.testing.assert_array_equal(after[:-1], before[:-1])
