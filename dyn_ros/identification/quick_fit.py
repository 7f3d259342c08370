# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Least squares of a few samples, for decisions that come before an estimate."""
from __future__ import annotations

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from .motion.filtering import is_actuated

ROWS = 2400             # samples that suffice
OWN = 4                 # columns of a joint alone: armature, damping, Coulomb friction, offset
_WEIGHTINGS = 2         # of the joints by their errors
_SINGULAR = 1e-6        # relative to the largest eigenvalue


def measured_joints(model: Model, v: Array, tau: Array) -> np.ndarray:
    """Indices of velocities of joints that move and whose torque is measured."""
    return np.flatnonzero(is_actuated(model) & (np.ptp(tau, axis=0) > 0.0)
                          & (np.ptp(v, axis=0) > 0.0))


def torque_rows(model: Model, q: Array, v: Array, a: Array, joints: np.ndarray) -> Array:
    """Columns of the torques of some motors, (joints, B, 10 njoints + 4 joints)."""
    W = joint_torque_regressor(model, Data(model), q, v, a)
    drives, bodies = model.drives, W.shape[2]
    W = drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    v, a = drives.motor_velocity(v), drives.motor_velocity(a)
    rows = np.zeros((len(joints), len(q), bodies + OWN * len(joints)))
    for n, k in enumerate(joints):
        rows[n, :, :bodies] = W[:, k]
        rows[n, :, bodies + OWN * n:][:, :OWN] = np.column_stack(
            [a[:, k], v[:, k], np.sign(v[:, k]), np.ones(len(q))])
    return rows


def quick_fit(rows: Array, torque: Array, train: np.ndarray) -> Array:
    """Parameters from some of the samples, each joint weighted by its error.

    ``rows`` are (joints, B, p), ``torque`` (joints, B), ``train`` (B,) of bool.
    """
    size = np.std(torque, axis=1)
    for _ in range(_WEIGHTINGS):
        x = _least_squares(rows[:, train] / size[:, None, None], torque[:, train] / size[:, None])
        error = torque[:, train] - rows[:, train] @ x
        size = np.maximum(np.sqrt(np.mean(error ** 2, axis=1)), 1e-9 * size)
    return x


def _least_squares(rows: Array, values: Array) -> Array:
    """The solution of the rows (..., p), without combinations that they do not determine."""
    A = rows.reshape(-1, rows.shape[-1])
    H = A.T @ A
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    squares, vectors = np.linalg.eigh(H * scale * scale[:, None])
    kept = squares > _SINGULAR * squares[-1]
    F = scale[:, None] * vectors[:, kept]
    solution: Array = F @ ((F.T @ (A.T @ values.ravel())) / squares[kept])
    return solution
