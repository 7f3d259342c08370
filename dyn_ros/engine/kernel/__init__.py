# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What kernels are written in: numbers, spatial algebra, joints, fields."""
