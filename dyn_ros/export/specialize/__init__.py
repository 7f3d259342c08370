# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From the kernel of an algorithm to straight-line code for one robot."""
