# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 nodes: one file for each, one base for what they share; nothing else uses rclpy."""
