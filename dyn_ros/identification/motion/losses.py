# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What friction and offsets, which change from day to day, may add to torques of a motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...engine.algorithms.dynamics.friction import without_friction
from ...engine.kernel.types import Array
from ...engine.model import Model
from ...engine.model.coordinates import is_actuated
from .numerics import ROUNDOFF

_MOVES = 0.01  # rad/s, m/s: a joint that is never faster is at rest
_SLOW = 0.15  # of its largest velocity: friction lags behind its sign below
_OFFSET = 0.05  # of Coulomb friction: standard deviation of the offset between both directions


class Losses(NamedTuple):
    """What friction and offsets may add to the torque of each motor."""

    columns: list[Array]  # of each motor, (B, n); zeros in samples that do not count
    sizes: list[Array]  # (n,), standard deviations of their factors; infinite: unknown
    rows: Array  # (nv,), how many samples count

    def inverses(self, variance: Array) -> list[Array]:
        """Inverse normal equations of the factors, given the variance of each motor's torque."""
        return [
            _inverse(C.T @ C + np.diag(variance[k] / size**2))
            for k, (C, size) in enumerate(zip(self.columns, self.sizes))
        ]


def losses(
    model: Model, v: Array, tau: Array, weight: Array, direction: Array, friction: bool | None
) -> tuple[Losses, np.ndarray]:
    """How friction may differ from the model, and which torques count, (B, nv) of bool.

    Torques of slow motors that move do not, nor torques of motors with Coulomb friction that rest
    while others move: what friction withstands at rest changes with the motion. ``direction``
    (B, nv) is that of the friction of the motors, ``friction`` as for ``identify_payload``.
    """
    drives, used, root = model.drives, np.ones(v.shape, bool), np.sqrt(weight)[:, None]
    torque = drives.to_motors(without_friction(model, drives, v, "tau", tau, direction))
    v = drives.motor_velocity(v)
    moves = np.abs(v) > np.maximum(_MOVES, _SLOW * np.abs(v).max(axis=0))
    lost = Losses(
        [np.zeros((len(v), 0))] * model.nv,
        [np.zeros(0)] * model.nv,
        np.full(model.nv, float(len(v))),
    )
    for k in np.flatnonzero(is_actuated(model)).tolist() if friction is not False else ():
        directions = [int((moves[:, k] & (sign * v[:, k] > 0.0)).sum()) for sign in (1.0, -1.0)]
        if not any(directions) and model.friction[k] > 0.0:
            used[:, k] = ~moves.any(axis=1)
        elif (any if friction else all)(directions):
            used[:, k] = moves[:, k]
            columns, lost.sizes[k] = _changes(model, k, v[:, k], direction[:, k], torque[:, k])
            lost.columns[k] = columns * moves[:, [k]] * root
        lost.rows[k] = max(np.sum(used[:, k]), 1)
    return lost, used


def _changes(model: Model, k: int, v: Array, sign: Array, torque: Array) -> tuple[Array, Array]:
    """Columns of friction and offset of a motor, (B, n), and how much their factors change, (n,).

    Friction changes by any amount, the offset by little. ``sign`` (B,) is the direction.
    """
    load = model.drives.load_friction[k]
    columns = np.stack([sign, v, np.ones_like(v), sign * np.abs(torque)], axis=1)
    columns /= (1.0 + load * sign * np.sign(torque))[:, None]  # as the torque without friction
    sizes = np.array([np.inf, np.inf, _OFFSET * model.friction[k], np.inf if load else 0.0])
    return columns[:, sizes > 0.0], sizes[sizes > 0.0]


def rest_of(y: Array, lost: Losses, inverses: Sequence[Array]) -> Array:
    """Torques or columns (B, nv, ...) without what friction and offsets explain."""
    rest = y.copy()
    for k, (C, inverse) in enumerate(zip(lost.columns, inverses)):
        rest[:, k] -= C @ (inverse @ (C.T @ y[:, k]))
    return rest


def _inverse(H: Array) -> Array:
    """Inverse of a symmetric matrix, without combinations that it does not determine."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    scaled = np.linalg.pinv(H * scale * scale[:, None], ROUNDOFF, hermitian=True)
    inverse: Array = scaled * scale * scale[:, None]
    return inverse
