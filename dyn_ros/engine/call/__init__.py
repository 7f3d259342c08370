# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a caller's arrays to a kernel, and back."""
