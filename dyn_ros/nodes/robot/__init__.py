# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot of a node and what is computed from its states, independent of ROS."""
