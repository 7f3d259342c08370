# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse and forward dynamics, the inertia matrix and its factors."""
