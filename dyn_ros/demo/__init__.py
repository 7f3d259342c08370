# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: a moving arm, the dynamics node, and a live table of what the node publishes."""
