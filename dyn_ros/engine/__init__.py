# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The engine: a URDF and arrays in, arrays out; neither ROS nor recordings."""
