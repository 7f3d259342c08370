# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the recorded efforts of states can be torques."""

from __future__ import annotations

import numpy as np

from ..drives.units import unit_warnings
from ..engine.model.coordinates import is_actuated
from ..engine.model.model import Model
from ..identification.motion.numerics import MIN_TRAVEL
from ..states.joint_states import States
from .quantities import QuantitySettings, effort_constant, measured
from .velocities import from_positions

_CHECKED, _FEWEST = 5000, 100  # states that show it


def wrong_units(model: Model, states: States, settings: QuantitySettings) -> list[str]:
    """What contradicts efforts that are torques; empty if nothing does."""
    states = from_positions(model, states, settings)
    known = np.flatnonzero(np.isfinite(states.v).all(axis=1) & np.isfinite(states.tau).any())
    if not is_actuated(model).all() or len(known) < _FEWEST:
        return []
    some = states.take(known[:: 1 + len(known) // _CHECKED])
    constant = effort_constant(model, settings)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal stamps
        a = np.gradient(some.v, 1e-9 * (some.stamp - some.stamp[0]), axis=0)
    rows = np.isfinite(a).all(axis=1)
    if rows.sum() < _FEWEST:
        return []
    return unit_warnings(
        model,
        some.q[rows],
        some.v[rows],
        a[rows],
        measured(model, some.q, some.tau * constant)[rows],
    )


def constant_efforts(model: Model, states: States) -> list[str]:
    """The joints that move while their effort remains the same, so that it is not measured."""
    if model.nq != model.nv or not len(states.stamp):
        return []
    same = (np.ptp(states.tau, axis=0) == 0.0) & (np.ptp(states.q, axis=0) > MIN_TRAVEL)
    return [
        f"{model.velocity_names[k]}: it moves, but its effort is {states.tau[0, k]:.3g} in all "
        "states; it is not measured, so record it, or fix this joint in the description"
        for k in np.flatnonzero(same)
    ]
