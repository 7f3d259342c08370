# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From joint states and odometry to the state of a robot."""
