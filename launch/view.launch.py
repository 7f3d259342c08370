# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Look at a robot and its dynamics; `ros2 launch dyn_ros view.launch.py --show-args` tells how."""
from dyn_ros.nodes.launch_file import view_description


def generate_launch_description():
    """Declare the arguments, then start RViz and what it shows."""
    return view_description()
