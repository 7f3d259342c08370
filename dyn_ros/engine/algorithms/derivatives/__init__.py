# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""First and second derivatives of inverse and forward dynamics."""
