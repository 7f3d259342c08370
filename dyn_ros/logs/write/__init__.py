# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Results as tables, bags and plots."""
