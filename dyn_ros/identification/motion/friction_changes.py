# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Changes of friction and offsets, which differ from day to day, in the torques of a motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...engine.algorithms.dynamics.friction import subtract_friction
from ...engine.kernel.types import Array
from ...engine.model import Model
from ...engine.model.coordinates import has_single_coordinate
from .numerics import ROUNDOFF

_REST_SPEED = 0.01  # rad/s or m/s; a joint that is never faster is at rest
_MIN_SPEED_RATIO = 0.15  # relative to the largest velocity; friction of slower motors is uncertain
_OFFSET_DEVIATION = 0.05  # standard deviation of the offset, relative to Coulomb friction


class FrictionChanges(NamedTuple):
    """Torques that changes of friction and offset may add to each motor, as linear terms.

    Attributes
    ----------
    columns : list of (B, n) ndarray
        For each motor, the torque of each change per factor; zeros in samples that do not count.
    deviations : list of (n,) ndarray
        For each motor, the standard deviations of the factors; infinite if they are unknown.
    counts : (nv,) ndarray
        Number of samples that count.
    """

    columns: list[Array]
    deviations: list[Array]
    counts: Array

    def inverses(self, variance: Array) -> list[Array]:
        """Return inverse normal equations of the factors, for variances (nv,) of the torques."""
        return [
            _pseudoinverse(C.T @ C + np.diag(variance[k] / deviation**2))
            for k, (C, deviation) in enumerate(zip(self.columns, self.deviations))
        ]


def possible_friction_changes(
    model: Model, v: Array, tau: Array, weight: Array, direction: Array, friction: bool | None
) -> tuple[FrictionChanges, np.ndarray]:
    """Return the possible changes of friction, and a mask (B, nv) of the torques that count.

    Torques of slow motors that move do not, nor torques of motors with Coulomb friction that rest
    while others move: what friction withstands at rest changes with the motion. ``direction``
    (B, nv) is the direction of the motors' friction, ``friction`` as for ``identify_payload``.
    """
    drives, is_used, root = model.drives, np.ones(v.shape, bool), np.sqrt(weight)[:, None]
    torque = drives.to_motors(subtract_friction(model, drives, v, "tau", tau, direction))
    v = drives.motor_velocity(v)
    moves = np.abs(v) > np.maximum(_REST_SPEED, _MIN_SPEED_RATIO * np.abs(v).max(axis=0))
    changes = FrictionChanges(
        [np.zeros((len(v), 0))] * model.nv,
        [np.zeros(0)] * model.nv,
        np.full(model.nv, float(len(v))),
    )
    for k in np.flatnonzero(has_single_coordinate(model)).tolist() if friction is not False else ():
        direction_counts = [
            int((moves[:, k] & (sign * v[:, k] > 0.0)).sum()) for sign in (1.0, -1.0)
        ]
        if not any(direction_counts) and model.friction[k] > 0.0:
            is_used[:, k] = ~moves.any(axis=1)
        elif (any if friction else all)(direction_counts):
            is_used[:, k] = moves[:, k]
            columns, changes.deviations[k] = _motor_changes(
                model, k, v[:, k], direction[:, k], torque[:, k]
            )
            changes.columns[k] = columns * moves[:, [k]] * root
        changes.counts[k] = max(np.sum(is_used[:, k]), 1)
    return changes, is_used


def _motor_changes(
    model: Model, k: int, v: Array, sign: Array, torque: Array
) -> tuple[Array, Array]:
    """Return columns (B, n) of changes of motor k, and standard deviations (n,) of their factors.

    Friction changes by any amount, the offset by little. ``sign`` (B,) is the direction.
    """
    load = model.drives.load_friction[k]
    columns = np.stack([sign, v, np.ones_like(v), sign * np.abs(torque)], axis=1)
    columns /= (1.0 + load * sign * np.sign(torque))[:, None]  # motor torque from joint torque
    deviations = np.array(
        [np.inf, np.inf, _OFFSET_DEVIATION * model.friction[k], np.inf if load else 0.0]
    )
    return columns[:, deviations > 0.0], deviations[deviations > 0.0]


def remove_friction_changes(y: Array, changes: FrictionChanges, inverses: Sequence[Array]) -> Array:
    """Return torques or columns (B, nv, ...) without what changes of friction explain."""
    residual = y.copy()
    for k, (C, inverse) in enumerate(zip(changes.columns, inverses)):
        residual[:, k] -= C @ (inverse @ (C.T @ y[:, k]))
    return residual


def _pseudoinverse(H: Array) -> Array:
    """Return the inverse of a symmetric matrix, without combinations it does not determine."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    scaled = np.linalg.pinv(H * scale * scale[:, None], ROUNDOFF, hermitian=True)
    inverse: Array = scaled * scale * scale[:, None]
    return inverse
