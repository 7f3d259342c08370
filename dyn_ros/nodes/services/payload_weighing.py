# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimation of a payload from measurements at rest and in motion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import dyn_ros
from dyn_ros.engine.algorithms.dynamics.friction import max_friction_at_rest
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.drives import with_torque_efforts

from .state_recording import RecordedStates

if TYPE_CHECKING:  # importing it takes long, and few requests need it
    from dyn_ros import PayloadEstimate, Samples

MAX_POSE_CHANGE = 1e-3  # rad, m; range of a coordinate at rest
MAX_MEAN_SPEED = 0.01  # rad/s, m/s; mean velocity of a coordinate at rest
MAX_MOTION_SAMPLES = 4000  # number of samples of a motion between two requests
_MAX_MASS_INTERVAL = 0.2  # width relative to the mass; beyond it, the mass is called uncertain
_SYSTEMATIC_ERROR = 1e-3  # relative error of a mean effort


class PayloadMeasurement(NamedTuple):
    """The measurement of one request for a payload, at rest or in motion."""

    samples: Samples  # one sample with the mean values if the robot was at rest
    variance: (
        Array | None
    )  # (nv,), N2 m2 or N2; variance of the mean efforts at rest; None: in motion


def measure_payload(
    model: dyn_ros.Model, time: Array, q: Array, v: Array, tau: Array
) -> PayloadMeasurement:
    """Return the measurement from N states: (N,), (N, nq), (N, nv), (N, nv)."""
    if (
        np.ptp(q, axis=0).max(initial=0.0) > MAX_POSE_CHANGE
        or abs(v.mean(axis=0)).max(initial=0.0) > MAX_MEAN_SPEED
    ):
        return PayloadMeasurement(
            dyn_ros.Samples.from_arrays(with_torque_efforts(model), time, q, tau, v), None
        )
    zero = np.zeros((1, model.nv))
    sample = dyn_ros.Samples(
        time[:1],
        q[len(q) // 2 : len(q) // 2 + 1],
        zero,
        zero,
        tau.mean(axis=0)[None],
        np.ones(1),
        np.zeros(1, np.int32),
    )
    # at rest, Coulomb friction is between its two signs
    coulomb = max_friction_at_rest(model, tau.mean(axis=0))
    variance = (
        tau.var(axis=0) / len(tau) + coulomb**2 / 3.0 + (_SYSTEMATIC_ERROR * tau.mean(axis=0)) ** 2
    )
    return PayloadMeasurement(sample, variance)


def measure_motion(
    model: dyn_ros.Model, recorded_states: RecordedStates | None
) -> list[PayloadMeasurement]:
    """Return the measurement from a motion between two requests; none if it is too short."""
    if not recorded_states:
        return []
    q, v, tau = recorded_states.columns
    try:
        samples = dyn_ros.Samples.from_arrays(
            with_torque_efforts(model), recorded_states.time, q, tau, v
        )
    except ValueError:
        return []
    return [
        PayloadMeasurement(
            samples.take(slice(None, None, 1 + len(samples) // MAX_MOTION_SAMPLES)), None
        )
    ]


def estimate_payload(
    model: dyn_ros.Model, measurements: Sequence[PayloadMeasurement], frame: str, offset: Array
) -> PayloadEstimate:
    """Return the payload that explains the measurements.

    If all are at rest, a few poses do not determine the noise of each joint. Its ratios between
    joints are taken from the scatter of samples within each pose, and its scale from the residuals
    of all poses. With motions between requests, friction is also estimated. `offset` (nv,) is
    subtracted from the efforts.
    """
    samples = dyn_ros.Samples.concatenate([measurement.samples for measurement in measurements])
    variances = [
        measurement.variance for measurement in measurements if measurement.variance is not None
    ]
    if len(variances) < len(measurements):
        return dyn_ros.identify_payload(model, samples, frame, offset=offset)
    noise = np.sqrt(np.mean(variances, axis=0))
    noise = np.maximum(noise, max(1e-2 * noise.max(), 1e-9))
    estimate = dyn_ros.identify_payload(model, samples, frame, offset=offset, noise=noise)
    degrees_of_freedom = samples.tau.size - min(len(estimate.determined), 4)
    scale = float(np.sum((estimate.after / noise) ** 2)) * len(samples) / max(degrees_of_freedom, 1)
    return dyn_ros.identify_payload(
        model, samples, frame, offset=offset, noise=noise * math.sqrt(max(scale, 1.0))
    )


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
