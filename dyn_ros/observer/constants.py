# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constants of an observer that restarts by itself: of the node, and of recordings."""

SETTLED = 4.0
"""Time constants after which an observer has settled: 98 %."""

LOST = 5.0
"""Usual periods without a state after which the motion between is unknown."""

SHORTEST_GAP = 0.01
"""The shortest gap [s], however short the period is."""

ADAPTION = 0.05
"""Adaption of the usual period to the latest one."""

KALMAN_NOISE = {"torque": 0.5, "velocity": 1e-3, "disturbance": 1.0}
"""Standard deviations for "kalman": of efforts, velocities, external efforts in one second."""
