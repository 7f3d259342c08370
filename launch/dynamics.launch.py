# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start dynamics_node.

For the arguments, run `ros2 launch dyn_ros dynamics.launch.py --show-args`.
"""
from dyn_ros.nodes.launch_file import launch_description


def generate_launch_description():
    """Declare the arguments, then start the node."""
    return launch_description("dynamics_node", "dynamics.yaml", name="dynamics")
