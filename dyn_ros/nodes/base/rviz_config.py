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
from ...viewer.scene.first_view import fit_first_view

ODOMETRY_FRAME = "odom"  # REP 105


def choose_fixed_frame(robot: dyn_ros.Model, parameters: Mapping[str, Any]) -> str:
    """Return the frame in which nodes publish markers of a robot, whose model has a fixed base.

    It is the root link; for a moving base the frame of the odometry. `parameters` of the nodes may
    specify others.
    """
    if _has_moving_base(parameters):
        return str(parameters.get("world_frame") or ODOMETRY_FRAME)
    return str(parameters.get("frame_id") or robot.frame_names[0])


def write_fitted_config(
    config: str | Path, output: Path, robot: dyn_ros.Model, parameters: Mapping[str, Any]
) -> None:
    """Write a configuration of RViz with a camera that sees the whole robot.

    The root of a robot with a fixed base is at the origin of the fixed frame; the camera follows
    a moving base, as `parameters` of the nodes specify.
    """
    settings = read_yaml(config)
    camera = settings["Visualization Manager"]["Views"]["Current"]
    view = fit_first_view(robot)
    camera["Focal Point"] = dict(zip("XYZ", view.target.tolist()))
    camera |= _spherical(view.position - view.target)
    if _has_moving_base(parameters):
        camera["Target Frame"] = robot.tree.root_link
    output.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def _has_moving_base(parameters: Mapping[str, Any]) -> bool:
    """Return True if parameters of the nodes specify a moving base."""
    return bool(parameters.get("root_joint", "fixed") != "fixed")


def _spherical(vector: Array) -> dict[str, float]:
    """Return the offset of a camera from its target as RViz's orbit view has it."""
    distance = float(np.linalg.norm(vector))
    return {
        "Distance": distance,
        "Pitch": math.asin(vector[2] / distance),
        "Yaw": math.atan2(vector[1], vector[0]),
    }
