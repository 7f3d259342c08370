# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What surrounds the scene: the page, its panels and plots."""
