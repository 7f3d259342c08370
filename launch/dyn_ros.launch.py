# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start dyn_ros_node.

For the arguments, run `ros2 launch dyn_ros dyn_ros.launch.py --show-args`.
"""
from dyn_ros.nodes.launch_file import launch_description


def generate_launch_description():
    """Declare the arguments, then start the nodes."""
    return launch_description("dyn_ros_node", "dyn_ros.yaml")
