# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Changes of friction and offsets, which differ from day to day, in the torques of a motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...drives.efforts import repeated_motors
from ...engine.algorithms.dynamics.friction import max_motor_friction_at_rest, subtract_friction
from ...engine.kernel.types import Array
from ...engine.model import Model
from ...engine.model.coordinates import has_single_coordinate
from .numerics import MIN_TRAVEL, ROUNDOFF

_REST_SPEED = 0.01  # rad/s or m/s; a joint that is never faster is at rest
_MIN_SPEED_RATIO = 0.15  # relative to the largest velocity; friction of slower motors is uncertain
_OFFSET_DEVIATION = 0.05  # standard deviation of the offset, relative to Coulomb friction


class FrictionChanges(NamedTuple):
    """Torques that friction and its changes may add to each motor.

    Attributes
    ----------
    columns : list of (B, n) ndarray
        For each motor, the torque of each change per factor; zeros in samples that do not count.
    deviations : list of (n,) ndarray
        For each motor, the standard deviations of the factors; infinite if they are unknown.
    is_used : (B, nv) ndarray of bool
        Torques that count.
    holds : (B, nv) ndarray of int
        Number of the hold to which a torque belongs, if the motor counts only at rest; -1 if not.
        Friction is one unknown torque in each hold.
    stiction : (nv,) ndarray
        Largest friction at rest of motors with holds; infinite if it is unknown [N m, N].
    """

    columns: list[Array]
    deviations: list[Array]
    is_used: np.ndarray
    holds: np.ndarray
    stiction: Array

    def inverses(self, variance: Array) -> list[Array]:
        """Return inverse normal equations of the factors, for variances (nv,) of the torques."""
        return [
            _pseudoinverse(C.T @ C + np.diag(variance[k] / deviation**2))
            for k, (C, deviation) in enumerate(zip(self.columns, self.deviations))
        ]


def possible_friction_changes(
    model: Model,
    q: Array,
    v: Array,
    tau: Array,
    weight: Array,
    direction: Array,
    friction: bool | None,
    repeats: NDArray[np.bool_] | None = None,
) -> FrictionChanges:
    """Return the possible changes of friction, and which torques count.

    Of a motor that moves, these are the torques while it does, unless it is slow. A motor with
    friction that never moves counts where all rest: what its friction withstands while others move
    changes with the motion. ``direction`` (B, nv) is the direction of the motors' friction,
    ``friction`` as for ``identify_payload``, ``repeats`` as of ``Samples``.
    """
    drives, root = model.drives, np.sqrt(weight)[:, None]
    torque = drives.to_motors(subtract_friction(model, drives, v, "tau", tau, direction))
    v = drives.motor_velocity(v)
    speed = np.abs(v)
    moves = speed > np.maximum(_REST_SPEED, _MIN_SPEED_RATIO * speed.max(axis=0))
    if repeats is not None:
        moves &= ~repeated_motors(drives, repeats)
    rests = np.flatnonzero((speed <= _REST_SPEED).all(axis=1))
    stiction = max_motor_friction_at_rest(model, torque).max(axis=0)
    is_known = (stiction > 0.0) | drives.is_link_side | (friction is False)
    changes = FrictionChanges(
        [np.zeros((len(v), 0))] * model.nv,
        [np.zeros(0)] * model.nv,
        np.ones(v.shape, bool),
        np.full(v.shape, -1),
        np.where(is_known, stiction, np.inf),
    )
    for k in np.flatnonzero(has_single_coordinate(model)).tolist():
        is_moved = [bool((moves[:, k] & (sign * v[:, k] > 0.0)).any()) for sign in (1.0, -1.0)]
        if any(is_moved):
            changes.is_used[:, k] = moves[:, k]
        elif changes.stiction[k] > 0.0 or not moves.any():
            changes.is_used[:, k] = False
            changes.is_used[rests, k] = True
            changes.holds[rests, k] = _number_holds(model, q[rests], k)
        if friction is not False and (any if friction or not is_known[k] else all)(is_moved):
            columns, changes.deviations[k] = _motor_changes(
                model, k, v[:, k], direction[:, k], torque[:, k]
            )
            changes.columns[k] = columns * moves[:, [k]] * root
    return changes


def _number_holds(model: Model, q: Array, k: int) -> np.ndarray:
    """Return numbers (B,) of the angles at which motor k rests, in poses q (B, nq)."""
    steps = model.drives.motor_velocity(model.difference(q[:-1], q[1:]))[:, k]
    return np.append(0, np.cumsum(np.abs(steps) > MIN_TRAVEL))


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
