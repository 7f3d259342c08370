# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of a robot: read, computed and plotted, on one machine and on many."""
