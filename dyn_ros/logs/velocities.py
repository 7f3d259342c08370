# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Velocities of states: measured, or computed as the rates of the positions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.coordinates import has_single_coordinate, joint_slices
from ..engine.model.model import Model
from ..identification.motion import filtering
from ..identification.motion.lag import describe_velocity_lag
from ..observer.robot_observer import split_runs
from ..states.joint_states import States, abbreviate_names
from .quantity_settings import QuantitySettings

MIN_RUN_LENGTH = 4  # states; shorter runs are not differentiated
_MAX_CHECKED_STATES = 20000


def compute_missing_velocities(model: Model, states: States, settings: QuantitySettings) -> States:
    """Return states with velocities computed from the positions, where the settings require it.

    Computed velocities are NaN near the ends of a run, where the filter has not settled. Joints
    with several coordinates keep their velocities.
    """
    is_computed = computed_velocity_mask(model, states, settings)
    if not is_computed.any():
        return states
    v = np.where(is_computed, np.nan, states.v)
    for rows, time, cutoff, inner in _filter_runs(states, settings):
        for joint in joint_slices(model):
            if is_computed[joint.v.start]:
                q = np.unwrap(states.q[rows, joint.q.start])
                v[rows[inner], joint.v.start] = filtering.filter_derivatives(time, q, cutoff, 1)[1][
                    inner
                ]
    return states._replace(v=v)


def _filter_runs(
    states: States, settings: QuantitySettings
) -> Iterator[tuple[np.ndarray, Array, float, slice]]:
    """Yield runs that are long enough for the filter to settle.

    Each has rows of the states, times [s], the cutoff [Hz], and the slice of settled samples.
    """
    for rows in split_runs(
        states.stamp, states.behind <= round(settings.max_gap * 1e9), settings.max_gap
    ):
        if len(rows) < MIN_RUN_LENGTH:
            continue
        time = 1e-9 * (states.stamp[rows] - states.stamp[rows[0]])
        rate = (len(rows) - 1) / time[-1]
        cutoff = min(settings.cutoff, filtering.MAX_CUTOFF_RATIO * rate)
        margin = filtering.settling_samples(rate, cutoff)
        if len(rows) > 2 * margin:
            yield rows, time, cutoff, slice(margin, len(rows) - margin)


def computed_velocity_mask(model: Model, states: States, settings: QuantitySettings) -> np.ndarray:
    """Return True for each velocity to compute from the positions of its joint, (nv,)."""
    is_required = np.isnan(states.v).all(axis=0)
    if settings.velocity is not None or not len(states.v):
        is_required = np.full(model.nv, settings.velocity is False)
    is_computed: np.ndarray = is_required & has_single_coordinate(model)
    return is_computed


def velocity_notes(model: Model, states: States, settings: QuantitySettings) -> list[str]:
    """Return notes on velocities that are computed, cannot be computed, or are late."""
    is_computed = computed_velocity_mask(model, states, settings)
    if is_computed.any():
        names = abbreviate_names([model.velocity_names[k] for k in np.flatnonzero(is_computed)])
        if any(_filter_runs(states, settings)):
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
    is_known = np.asarray(np.isfinite(states.v).all(axis=1))
    known_runs = split_runs(states.stamp, np.ones_like(is_known), settings.max_gap, is_known)
    if not known_runs:
        return []
    sample = states.take(max(known_runs, key=len)[:_MAX_CHECKED_STATES])
    late = describe_velocity_lag(model, 1e-9 * (sample.stamp - sample.stamp[0]), sample.q, sample.v)
    return (
        [f"{late}, as a filter delays them; compute them from the positions with velocity=False"]
        if late
        else []
    )
