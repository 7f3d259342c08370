# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Show a robot and its dynamics in a browser.

For the arguments, run `ros2 launch dyn_ros viewer.launch.py --show-args`.
"""
from dyn_ros.nodes.launch_file import viewer_description


def generate_launch_description():
    """Declare the arguments, then start the nodes and the page."""
    return viewer_description()
