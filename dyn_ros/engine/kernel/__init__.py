# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Building blocks of kernels: numbers, spatial algebra, joints, fields."""
