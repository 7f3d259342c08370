# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What kernels are written in: numbers, spatial algebra, fields; the compiler and its cache."""
