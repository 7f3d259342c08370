# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of `dyn_ros_node` in this process."""

import os

import rclpy

from dyn_ros.nodes.dyn_ros_node import DynRosNode

from .descriptions import ROOT


def start_nodes():
    """Return active nodes, the first of which owns the robot."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "OFF"
    os.environ["ROS_LOG_DIR"] = os.environ["TMPDIR"]
    rclpy.init(args=[])
    rclpy.logging.set_logger_level("dyn_ros", rclpy.logging.LoggingSeverity.FATAL)
    node = DynRosNode("dyn_ros")
    for member in (node, *node.members):
        member.get_logger().set_level(rclpy.logging.LoggingSeverity.FATAL)
    path = str(ROOT / "dyn_ros" / "robots" / "arm7.urdf")
    result = node.set_parameters([rclpy.Parameter("robot_description_file", value=path)])
    assert result[0].successful, result[0].reason
    node.start()
    assert node.active and node.robot is not None
    return [node, *node.members]
