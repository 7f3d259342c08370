# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Dynamics in contact, impacts, and the operational space."""
