# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Positions, velocities and accelerations of a recording, for identification.

`preparation` runs all steps: `measurements` checks the arrays and finds glitches, `stamps` corrects
time stamps, `cutoff` chooses the cutoff of the filter in `filtering`, and `lag` compares measured
velocities with positions. `reversals` and `friction_changes` serve the estimates.
"""
