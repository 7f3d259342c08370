# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Findings about a robot description."""
