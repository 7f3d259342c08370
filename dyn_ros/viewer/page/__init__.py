# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page in the browser around the scene: its server, panels and plots."""
