# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The payload that explains what requests have measured, at rest and in motion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import dyn_ros
from dyn_ros.engine.algorithms.dynamics.friction import max_friction_at_rest
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.drives import with_torque_efforts

from .listening import Record

if TYPE_CHECKING:  # takes time to import and is used by few
    from dyn_ros import PayloadEstimate, Samples

AT_REST = 1e-3  # a pose: no coordinate moves by more [rad, m]
SLOW = 0.01  # and none is faster on average [rad/s, m/s]
MOST_OF_MOVE = 4000  # states that are kept of a motion between two requests
_UNCERTAIN = 0.2  # width of the interval of a mass, relative to it
_SYSTEMATIC = 1e-3  # error of a mean effort, relative to it


class Measured(NamedTuple):
    """What one request for a payload has measured."""

    samples: Samples  # of a robot at rest, a single one with the means
    variance: Array | None  # (nv,), of the errors of this one [N2 m2, N2]; None: it moved


def measured_in(model: dyn_ros.Model, time: Array, q: Array, v: Array, tau: Array) -> Measured:
    """Return what has been measured in N states: (N,), (N, nq), (N, nv), (N, nv)."""
    if np.ptp(q, axis=0).max(initial=0.0) > AT_REST or abs(v.mean(axis=0)).max(initial=0.0) > SLOW:
        return Measured(
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
    dry = max_friction_at_rest(model, tau.mean(axis=0))
    variance = tau.var(axis=0) / len(tau) + dry**2 / 3.0 + (_SYSTEMATIC * tau.mean(axis=0)) ** 2
    return Measured(sample, variance)


def move_in(model: dyn_ros.Model, record: Record | None) -> list[Measured]:
    """Return what a motion between two requests has measured; nothing if it is too short."""
    if not record:
        return []
    q, v, tau = record.columns
    try:
        samples = dyn_ros.Samples.from_arrays(with_torque_efforts(model), record.time, q, tau, v)
    except ValueError:
        return []
    return [Measured(samples.take(slice(None, None, 1 + len(samples) // MOST_OF_MOVE)), None)]


def weigh(
    model: dyn_ros.Model, measured: Sequence[Measured], frame: str, offset: Array
) -> PayloadEstimate:
    """Return the payload that explains what has been measured.

    A few poses do not show how the errors of the joints compare: the scatter of the samples in
    each pose does. How large they are follows from the differences between poses. With motions
    between requests, friction is estimated too. `offset` (nv,) are constant efforts to subtract.
    """
    samples = dyn_ros.Samples.concatenate([request.samples for request in measured])
    variances = [request.variance for request in measured if request.variance is not None]
    if len(variances) < len(measured):
        return dyn_ros.identify_payload(model, samples, frame, offset=offset)
    noise = np.sqrt(np.mean(variances, axis=0))
    noise = np.maximum(noise, max(1e-2 * noise.max(), 1e-9))
    estimate = dyn_ros.identify_payload(model, samples, frame, offset=offset, noise=noise)
    free = samples.tau.size - min(len(estimate.determined), 4)
    scale = float(np.sum((estimate.after / noise) ** 2)) * len(samples) / max(free, 1)
    return dyn_ros.identify_payload(
        model, samples, frame, offset=offset, noise=noise * math.sqrt(max(scale, 1.0))
    )


def advice(estimate: PayloadEstimate, tared: bool) -> str:
    lines = []
    if not estimate.lower[0] > 0.0:
        lines.append("the payload is not attached, because its mass may be zero")
    if not estimate.mass > 0.0:
        return "; ".join(lines)
    if not estimate.upper[0] - estimate.lower[0] < _UNCERTAIN * estimate.mass:
        lines.append(
            "the mass is uncertain, because the friction of joints at rest is unknown; "
            "move to another pose and call again, or call during a slow motion"
        )
    if not {"m cx", "m cy", "m cz"} <= set(estimate.determined):
        lines.append(
            "the center of mass is a guess; call again at poses in which gravity has "
            f"other directions in {estimate.frame}"
        )
    elif len(estimate.determined) < 10:
        lines.append(
            "the inertia is a guess, a sphere of water; call during rotations with "
            "acceleration to determine it"
        )
    if tared:
        lines.append("the efforts that ~/tare measured have been subtracted")
    return "; ".join(lines)
