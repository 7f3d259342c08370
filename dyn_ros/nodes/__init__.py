# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 nodes, on a common base. Only this package and the demo use rclpy."""

import gc

gc.freeze()  # the engine stays; each full collection would take 0.1 s to visit it
