# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Fixed frame and camera of RViz for a robot; independent of ROS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import dyn_ros

from ...engine.kernel.types import Array
from ...files.yaml_text import read_yaml
from ...viewer.scene.camera import fit_camera

ODOMETRY_FRAME = "odom"  # REP 105
LINK_SIZE = 0.1  # relative to the robot: space around the frames of links in the picture
MIN_LINK_SIZE = 0.1  # m; of a robot whose frames coincide
WINDOW_ASPECT = 1.2  # width / height of the 3D view in a window of config/dyn_ros.rviz


def choose_fixed_frame(robot: dyn_ros.Model, parameters: Mapping[str, Any]) -> str:
    """Return the frame in which nodes publish markers of a robot, whose model has a fixed base.

    It is the root link; for a moving base the frame of the odometry. `parameters` of the nodes may
    specify others.
    """
    if parameters.get("root_joint", "fixed") != "fixed":
        return str(parameters.get("world_frame") or ODOMETRY_FRAME)
    return str(parameters.get("frame_id") or robot.frame_names[0])


def write_fitted_config(config: str | Path, output: Path, robot: dyn_ros.Model) -> None:
    """Write a configuration of RViz with a camera that sees the whole robot.

    The robot is in its neutral configuration, with its root at the origin of the fixed frame.
    """
    settings = read_yaml(config)
    settings["Visualization Manager"]["Views"]["Current"] |= _orbit_view(robot)
    output.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def _orbit_view(robot: dyn_ros.Model) -> dict[str, Any]:
    """Return the settings of RViz's orbit view that fit a camera to a robot."""
    points = dyn_ros.frame_placements(robot, dyn_ros.Data(robot), robot.neutral())[:, :3, 3]
    size = float(np.ptp(points, axis=0).max())
    margin = max(LINK_SIZE * size, MIN_LINK_SIZE)
    position, target = fit_camera(np.concatenate([points - margin, points + margin]), WINDOW_ASPECT)
    return {"Focal Point": dict(zip("XYZ", target.tolist())), **_spherical(position - target)}


def _spherical(vector: Array) -> dict[str, float]:
    """Return the offset of a camera from its target as RViz's orbit view has it."""
    distance = float(np.linalg.norm(vector))
    return {
        "Distance": distance,
        "Pitch": math.asin(vector[2] / distance),
        "Yaw": math.atan2(vector[1], vector[0]),
    }
