# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""RViz's fixed frame and camera for a robot."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import dyn_ros

pytest.importorskip("rclpy", reason="no ROS: run `make test`")

from dyn_ros.files.yaml_text import flatten_ros_parameters, read_yaml
from dyn_ros.nodes.base.rviz_config import (
    choose_fixed_frame,
    write_fitted_config,
)

CONFIG = Path(__file__).parents[3] / "config"
ROBOTS = Path(dyn_ros.__file__).parent / "robots"
ARM7 = (ROBOTS / "arm7.urdf").read_text()


@pytest.mark.parametrize(
    ("parameters", "frame"),
    [
        ({}, "panda_link0"),
        ({"root_joint": "fixed", "frame_id": "left/panda_link0"}, "left/panda_link0"),
        ({"root_joint": "floating"}, "odom"),
        ({"root_joint": "planar", "world_frame": "map"}, "map"),
    ],
)
def test_the_fixed_frame_is_the_frame_of_the_markers(parameters, frame):
    robot = dyn_ros.Model.from_urdf(ARM7.replace("base_link", "panda_link0"))
    assert choose_fixed_frame(robot, parameters) == frame


def test_the_parameters_of_the_package():
    parameters = flatten_ros_parameters(read_yaml(CONFIG / "dyn_ros.yaml"))
    assert parameters["root_joint"] == "fixed" and not parameters["frame_id"]


def scaled(description, scale):
    """Return a description whose joints are at other distances."""

    def replace(match):
        return 'xyz="{} {} {}"'.format(*(scale * float(number) for number in match[1].split()))

    return re.sub(r'(?<=<origin )xyz="([^"]*)"', replace, description)


def fitted_view(output, model, parameters):
    """Return the settings of the camera in the configuration that is written."""
    write_fitted_config(CONFIG / "dyn_ros.rviz", output, model, parameters)
    return yaml.safe_load(output.read_text())["Visualization Manager"]["Views"]["Current"]


def test_the_camera_follows_a_moving_base(tmp_path):
    model = dyn_ros.Model.from_urdf((ROBOTS / "quadruped.urdf").read_text())
    view = fitted_view(tmp_path / "dyn_ros.rviz", model, {"root_joint": "floating"})
    assert view["Target Frame"] == model.tree.root_link


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_the_camera_sees_all_links(tmp_path, scale):
    output = tmp_path / "dyn_ros.rviz"
    model = dyn_ros.Model.from_urdf(scaled(ARM7, scale))
    view = fitted_view(output, model, {})
    assert view["Target Frame"] == "<Fixed Frame>"
    target = np.array([view["Focal Point"][axis] for axis in "XYZ"])
    pitch, yaw = view["Pitch"], view["Yaw"]
    direction = np.array([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)])
    camera = target + view["Distance"] * direction
    points = dyn_ros.frame_placements(model, dyn_ros.Data(model), model.neutral())[:, :3, 3]
    offsets = points - camera
    depth = -offsets @ direction
    across = np.linalg.norm(offsets + depth[:, None] * direction, axis=1)
    half_of_45_degrees = np.tan(np.radians(22.5))
    assert (depth > 0.0).all() and (across < half_of_45_degrees * depth).all()
    assert (across > 0.5 * half_of_45_degrees * depth).any()  # and is not far away
