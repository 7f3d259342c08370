# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of a robot from joint states and odometry: message by message, or in blocks."""
