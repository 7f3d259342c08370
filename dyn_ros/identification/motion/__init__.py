# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a recording to positions, velocities and accelerations."""
