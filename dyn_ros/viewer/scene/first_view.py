# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The first view of a robot in RViz, for its camera and for texts beside the robot."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

import dyn_ros

from ...engine.kernel.types import Array
from ...engine.model import Model
from .camera import CAMERA_DIRECTION, fit_camera

FIELD_OF_VIEW = math.radians(45.0)  # rad, vertical; of RViz's orbit view
WINDOW_ASPECT = 1.2  # width / height of the 3D view in a window of config/dyn_ros.rviz
LINK_SIZE = 0.1  # relative to the robot: space around the frames of links in the picture
MIN_LINK_SIZE = 0.1  # m; of a robot whose frames coincide

RIGHT = np.cross((0.0, 0.0, 1.0), CAMERA_DIRECTION)  # unit vectors along the picture
RIGHT /= np.linalg.norm(RIGHT)
UP = np.cross(CAMERA_DIRECTION, RIGHT)


class FirstView(NamedTuple):
    """Position and target (3,) of the camera [m], relative to the root link, in axes with z up."""

    position: Array
    target: Array

    def half_height(self) -> float:
        """Return half the height of the picture at the distance of the target [m]."""
        distance = float(np.linalg.norm(self.position - self.target))
        return distance * math.tan(0.5 * FIELD_OF_VIEW)


def fit_first_view(robot: Model) -> FirstView:
    """Return the nearest view of the whole robot in its first posture."""
    points = _link_origins(robot)
    size = float(np.ptp(points, axis=0).max())
    margin = max(LINK_SIZE * size, MIN_LINK_SIZE)
    surroundings = np.concatenate([points - margin, points + margin])
    return FirstView(*fit_camera(surroundings, WINDOW_ASPECT))


def _link_origins(robot: Model) -> Array:
    """Return the origins (n, 3) of all frames in the first posture, relative to the root link.

    joint_state_publisher_gui starts at zero, or in the middle of limits that exclude zero.
    """
    q, lower, upper = robot.neutral(), robot.lower, robot.upper
    is_excluded = (q < lower) | (q > upper)
    q[is_excluded] = 0.5 * (lower[is_excluded] + upper[is_excluded])
    points = dyn_ros.frame_placements(robot, dyn_ros.Data(robot), q)[:, :3, 3]
    return np.asarray(points - points[robot.frame_index(robot.tree.root_link)])
