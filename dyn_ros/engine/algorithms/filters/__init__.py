# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Observers and filters of external efforts."""
