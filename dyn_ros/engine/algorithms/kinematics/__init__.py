# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Placements, velocities, accelerations and Jacobians."""
