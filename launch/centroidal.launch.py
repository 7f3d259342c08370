# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start centroidal_node.

For the arguments, run `ros2 launch dyn_ros centroidal.launch.py --show-args`.
"""
from dyn_ros.nodes.launch_file import launch_description


def generate_launch_description():
    """Declare the arguments, then start the node."""
    return launch_description("centroidal_node", "centroidal.yaml", name="centroidal")
