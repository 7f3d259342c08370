# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages as arrays of numbers, and numbers as serialized messages."""
