# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Show a robot and its dynamics in a browser.

For the arguments, run `ros2 launch dyn_ros viewer.launch.py --show-args`.
"""

from dyn_ros.nodes.base.launch_file import require_file, require_module, viewer_description
from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments, then start the nodes and the page."""
    return LaunchDescription(
        [
            require_file("robot_description_file"),
            require_file("drives"),
            require_file("params_file"),
            require_module("viser", "pip install viser pycollada"),
            viewer_description(),
        ]
    )
