# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The scene: the robot, its markers, the floor, and the cameras that show them."""
