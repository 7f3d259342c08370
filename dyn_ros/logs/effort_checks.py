# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the recorded efforts of states can be torques."""

from __future__ import annotations

import numpy as np

from ..drives.units import unit_warnings
from ..engine.model.coordinates import has_single_coordinate
from ..engine.model.model import Model
from ..identification.motion.numerics import MIN_TRAVEL
from ..states.joint_states import States
from .quantities import QuantitySettings, effort_constants, measured_torques
from .velocities import compute_missing_velocities

_MAX_CHECKED_STATES = 5000
_MIN_STATES = 100  # fewer are not checked


def check_effort_units(model: Model, states: States, settings: QuantitySettings) -> list[str]:
    """Return messages on efforts that cannot be torques in N m or N."""
    states = compute_missing_velocities(model, states, settings)
    known_rows = np.flatnonzero(np.isfinite(states.v).all(axis=1) & np.isfinite(states.tau).any())
    if not has_single_coordinate(model).all() or len(known_rows) < _MIN_STATES:
        return []
    sample = states.take(known_rows[:: 1 + len(known_rows) // _MAX_CHECKED_STATES])
    constants = effort_constants(model, settings)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal stamps
        a = np.gradient(sample.v, 1e-9 * (sample.stamp - sample.stamp[0]), axis=0)
    row_mask = np.isfinite(a).all(axis=1)
    if row_mask.sum() < _MIN_STATES:
        return []
    return unit_warnings(
        model,
        sample.q[row_mask],
        sample.v[row_mask],
        a[row_mask],
        measured_torques(model, sample.q, sample.tau * constants)[row_mask],
    )


def check_constant_efforts(model: Model, states: States) -> list[str]:
    """Return messages on joints that move while their effort is constant, so not measured."""
    if model.nq != model.nv or not len(states.stamp):
        return []
    is_constant = (np.ptp(states.tau, axis=0) == 0.0) & (np.ptp(states.q, axis=0) > MIN_TRAVEL)
    return [
        f"{model.velocity_names[k]}: it moves, but its effort is {states.tau[0, k]:.3g} in all "
        "states; it is not measured, so record it, or fix this joint in the description"
        for k in np.flatnonzero(is_constant)
    ]
