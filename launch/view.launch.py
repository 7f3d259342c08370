# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start RViz with a robot and its dynamics.

For the arguments, run `ros2 launch dyn_ros view.launch.py --show-args`.
"""

from dyn_ros.nodes.base.launch_file import require_file, require_package, view_description
from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments, then start RViz, the frame publishers and the nodes."""
    return LaunchDescription(
        [
            require_file("robot_description_file"),
            require_file("drives"),
            require_file("params_file"),
            require_file("rviz_config"),
            require_package("rviz2"),
            require_package("robot_state_publisher", argument="robot_description_file"),
            require_package("joint_state_publisher_gui", argument="gui"),
            view_description(),
        ]
    )
