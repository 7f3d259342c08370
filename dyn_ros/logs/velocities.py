# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Velocities of states: those that were measured, or rates of the positions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.coordinates import is_actuated, joint_slices
from ..engine.model.model import Model
from ..identification.motion import filtering
from ..identification.motion.lag import late_velocities
from ..observer.session import runs
from ..states.joint_states import States, abbreviated
from .quantity_settings import QuantitySettings

FEWEST = 4  # samples of a run that is differentiated
_CHECKED = 20000  # states that show whether velocities are late


def from_positions(model: Model, states: States, settings: QuantitySettings) -> States:
    """The states with the rates of the positions as velocities, where the settings want these.

    They are NaN near the ends of a run, where the filter has not settled. Joints with several
    coordinates keep their velocities.
    """
    rates = are_rates(model, states, settings)
    if not rates.any():
        return states
    v = np.where(rates, np.nan, states.v)
    for rows, time, cutoff, inner in _filtered(states, settings):
        for joint in joint_slices(model):
            if rates[joint.v.start]:
                q = np.unwrap(states.q[rows, joint.q.start])
                v[rows[inner], joint.v.start] = filtering.derivatives(time, q, cutoff, 1)[1][inner]
    return states._replace(v=v)


def _filtered(
    states: States, settings: QuantitySettings
) -> Iterator[tuple[np.ndarray, Array, float, slice]]:
    """Runs that are longer than the filter settles: rows, times, cutoff, and what remains."""
    for rows in runs(
        states.stamp, states.behind <= round(settings.max_gap * 1e9), settings.max_gap
    ):
        if len(rows) < FEWEST:
            continue
        time = 1e-9 * (states.stamp[rows] - states.stamp[rows[0]])
        rate = (len(rows) - 1) / time[-1]
        cutoff = min(settings.cutoff, filtering.MAX_CUTOFF_RATIO * rate)
        margin = filtering.settling_samples(rate, cutoff)
        if len(rows) > 2 * margin:
            yield rows, time, cutoff, slice(margin, len(rows) - margin)


def are_rates(model: Model, states: States, settings: QuantitySettings) -> np.ndarray:
    """Whether the velocities of each joint are the rates of its positions, (nv,)."""
    absent = np.isnan(states.v).all(axis=0)
    if settings.velocity is not None or not len(states.v):
        absent = np.full(model.nv, settings.velocity is False)
    wanted: np.ndarray = absent & is_actuated(model)
    return wanted


def velocity_notes(model: Model, states: States, settings: QuantitySettings) -> list[str]:
    """What is unusual about the velocities of states."""
    rates = are_rates(model, states, settings)
    if rates.any():
        names = abbreviated([model.velocity_names[k] for k in np.flatnonzero(rates)])
        if any(_filtered(states, settings)):
            return [
                f"the velocities of {names} are computed from the positions, with a filter of "
                f"{settings.cutoff:g} Hz"
            ]
        period = 1e-9 * np.median(np.diff(states.stamp)) if len(states.stamp) > 1 else math.nan
        return [
            f"the velocities of {names} cannot be computed from the positions: expected stamps "
            "in s and a motion without gaps that is longer than a filter of "
            f"{settings.cutoff:g} Hz takes to settle, got {len(states.stamp)} states with a "
            f"sampling period of {period:.6g} s; convert other units, or record for longer"
        ]
    known = np.asarray(np.isfinite(states.v).all(axis=1))
    moving = runs(states.stamp, known, settings.max_gap)
    if not moving:
        return []
    some = states.take(max(moving, key=len)[:_CHECKED])
    late = late_velocities(model, 1e-9 * (some.stamp - some.stamp[0]), some.q, some.v)
    return (
        [f"{late}, as a filter delays them; compute them from the positions (--no-velocity)"]
        if late
        else []
    )
