# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""See a robot in a browser; `ros2 launch dyn_ros viewer.launch.py --show-args` tells how."""
from dyn_ros.nodes.launch_file import viewer_description


def generate_launch_description():
    """Declare the arguments, then start the nodes and the page."""
    return viewer_description()
