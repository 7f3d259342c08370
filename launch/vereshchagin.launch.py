# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Start vereshchagin_node.

For the arguments, run `ros2 launch dyn_ros vereshchagin.launch.py --show-args`.
"""
from dyn_ros.nodes.launch_file import launch_description


def generate_launch_description():
    """Declare the arguments, then start the node."""
    return launch_description("vereshchagin_node", "vereshchagin.yaml", name="vereshchagin")
