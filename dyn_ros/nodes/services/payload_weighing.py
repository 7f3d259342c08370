# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimation of a payload from measurements at rest and in motion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.drives import with_torque_efforts

from .state_recording import RecordedStates

if TYPE_CHECKING:  # importing it takes long, and few requests need it
    from dyn_ros import PayloadEstimate, Samples

MAX_POSE_CHANGE = 1e-3  # rad, m; range of a coordinate at rest
MAX_MEAN_SPEED = 0.01  # rad/s, m/s; mean velocity of a coordinate at rest
MAX_SAMPLES = 4000  # number of samples of a request at rest, or of a motion between two requests
_MAX_MASS_INTERVAL = 0.2  # width relative to the mass; beyond it, the mass is called uncertain


def measure_payload(model: dyn_ros.Model, time: Array, q: Array, v: Array, tau: Array) -> Samples:
    """Return samples from N states, at rest or in motion: (N,), (N, nq), (N, nv), (N, nv)."""
    if (
        np.ptp(q, axis=0).max(initial=0.0) > MAX_POSE_CHANGE
        or abs(v.mean(axis=0)).max(initial=0.0) > MAX_MEAN_SPEED
    ):
        return dyn_ros.Samples.from_arrays(with_torque_efforts(model), time, q, tau, v)
    zero = np.zeros_like(v)
    return _limit_count(
        dyn_ros.Samples(time, q, zero, zero, tau, np.ones(len(time)), np.zeros(len(time), np.int32))
    )


def measure_motion(model: dyn_ros.Model, recorded_states: RecordedStates | None) -> list[Samples]:
    """Return samples of a motion between two requests; an empty list if it is too short."""
    if not recorded_states:
        return []
    q, v, tau = recorded_states.columns
    try:
        samples = dyn_ros.Samples.from_arrays(
            with_torque_efforts(model), recorded_states.time, q, tau, v
        )
    except ValueError:
        return []
    return [_limit_count(samples)]


def _limit_count(samples: Samples) -> Samples:
    """Return evenly spaced samples, at most ``MAX_SAMPLES``."""
    return samples.take(slice(None, None, 1 + len(samples) // MAX_SAMPLES))


def payload_warnings(estimate: PayloadEstimate, is_tared: bool) -> str:
    """Return what is uncertain about an estimate, and how to improve it.

    If `is_tared`, the text also states that offsets were subtracted.
    """
    warnings = []
    if not estimate.lower[0] > 0.0:
        warnings.append("the payload is not attached, because its mass may be zero")
    if not estimate.mass > 0.0:
        return "; ".join(warnings)
    if not estimate.upper[0] - estimate.lower[0] < _MAX_MASS_INTERVAL * estimate.mass:
        warnings.append(
            "the mass is uncertain, because the friction of joints at rest is unknown; "
            "move to another pose and call again, or call during a slow motion"
        )
    if not {"m cx", "m cy", "m cz"} <= set(estimate.determined):
        warnings.append(
            "the center of mass is a guess; call again at poses in which gravity has "
            f"other directions in {estimate.frame}"
        )
    elif len(estimate.determined) < 10:
        warnings.append(
            "the inertia is a guess, a sphere of water; call during rotations with "
            "acceleration to determine it"
        )
    if is_tared:
        warnings.append("the efforts that ~/tare measured have been subtracted")
    return "; ".join(warnings)
