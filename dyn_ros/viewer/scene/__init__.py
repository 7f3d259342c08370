# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is drawn: the robot, its markers, the floor."""
