# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The markers of the nodes."""
