# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots of the tests of identification."""

import numpy as np

import dyn_ros
import peer

UR10 = peer.EXAMPLE_ROBOTS / "ur_description/urdf/ur10_robot.urdf"


def description(robot):
    """The text of a robot's URDF."""
    return UR10.read_text() if robot == "ur10" else peer.urdf(robot)


def load(robot, root_joint=None):
    """A model that the test may change."""
    return dyn_ros.Model.from_urdf(description(robot), root_joint=root_joint)


def truth(recording):
    """All parameters of the robot of a recording, in the order of BaseParameters."""
    true = recording.true
    return np.concatenate(
        [
            true.inertial_parameters.ravel(),
            true.armature,
            true.damping,
            true.friction,
            recording.offset,
            true.drives.stribeck,
        ]
    )
