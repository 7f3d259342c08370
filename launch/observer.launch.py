# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start observer_node.

For the arguments, run `ros2 launch dyn_ros observer.launch.py --show-args`.
"""

from dyn_ros.nodes.base.launch_file import launch_description, require_file
from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments, then start the node."""
    return LaunchDescription(
        [
            require_file("robot_description_file"),
            require_file("drives"),
            require_file("params_file"),
            launch_description("observer_node", "observer.yaml", name="observer"),
        ]
    )
