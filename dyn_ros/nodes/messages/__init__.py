# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Between messages and the engine's arrays."""
