# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""End a launch file that includes this one if a file is missing, before anything starts.

For the argument, run `ros2 launch dyn_ros require_files.launch.py --show-args`.
"""

from dyn_ros.nodes.base.launch_file import require_files_description
from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Declare the argument, then check the files."""
    return require_files_description()
