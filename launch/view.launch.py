# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start RViz with a robot and its dynamics.

For the arguments, run `ros2 launch dyn_ros view.launch.py --show-args`.
"""
from dyn_ros.nodes.launch_file import view_description


def generate_launch_description():
    """Declare the arguments, then start RViz, the frame publishers and the nodes."""
    return view_description()
