# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Gravity from the efforts of a robot whose mounting is not known."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..engine.algorithms import generalized_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import has_single_coordinate

_BLOCK_COUNT = 20  # blocks of samples; their scatter shows standard deviations
_RANK_TOLERANCE = 1e-4  # smallest eigenvalue of the normal equations, relative to the largest


class GravityFit(NamedTuple):
    """Gravity that explains efforts, see ``fit_gravity``."""

    gravity: Array  # (3,), m/s2
    deviation: Array  # (3,), its standard deviations
    friction_power: float  # relative to the power of the efforts
    regressors: Array  # (B, n, 3), gravity torques without what friction explains
    residuals: Array  # (B, n), efforts likewise

    @property
    def half_widths(self) -> Array:
        """Half widths of the 95 % confidence intervals of gravity, (3,) [m/s2]."""
        quantile: float = stdtrit(_BLOCK_COUNT - 1, 0.975)
        return quantile * self.deviation

    def unexplained_variance(self, gravity: Array) -> float:
        """Return the fraction of the variance of the efforts that gravity does not explain."""
        errors = self.residuals - self.regressors @ gravity
        return float((errors**2).sum() / max((self.residuals**2).sum(), 1e-300))


def fit_gravity(
    model: Model, q: Array, v: Array, inertial: Array, effort: Array
) -> GravityFit | None:
    """Fit gravity g (3,) to the efforts (B, nv), by least squares over all measured joints.

        effort - inertial torque = offset + viscous and Coulomb friction + G g

    Joints whose drives subtract gravity are left out. Returns None if this motion does not
    determine g. ``inertial`` (B, nv) are the torques of the motion without gravity [N m, N].
    """
    is_measured = effort.std(axis=0) > 0.0  # False if NaN
    G = _unit_gravity_torques(model, q)
    regressors, residuals, friction_power, power = [], [], 0.0, 1e-300
    for k in np.flatnonzero(
        is_measured & has_single_coordinate(model) & ~model.drives.is_compensated
    ):
        friction = np.column_stack([np.ones(len(v)), v[:, k], np.sign(v[:, k])])
        X, y = G[:, k], effort[:, k] - inertial[:, k]
        Q = np.linalg.qr(friction)[0]
        regressors.append(X - Q @ (Q.T @ X))
        residuals.append(y - Q @ (Q.T @ y))
        x = np.linalg.lstsq(np.column_stack([friction, X]), y, rcond=None)[0]
        friction_power += float(v[:, k] @ (friction[:, 1:] @ x[1:3]))
        power += float(np.abs(v[:, k] * effort[:, k]).sum())
    if not regressors:
        return None
    X, y = np.stack(regressors, axis=1), np.stack(residuals, axis=1)  # (B, n, 3), (B, n)
    H = np.einsum("bnk,bnl->kl", X, X)
    squares = np.linalg.eigvalsh(H)
    if squares[0] <= _RANK_TOLERANCE * squares[-1]:
        return None
    g = np.linalg.solve(H, np.einsum("bnk,bn->k", X, y))
    scores = np.einsum("bnk,bn->bk", X, y - X @ g)
    sums = np.add.reduceat(scores, np.arange(0, len(scores), 1 + len(scores) // _BLOCK_COUNT))
    covariance = np.linalg.solve(H, np.linalg.solve(H, sums.T @ sums).T)
    return GravityFit(g, np.sqrt(np.diag(covariance)), friction_power / power, X, y)


def _unit_gravity_torques(model: Model, q: Array) -> Array:
    """Return the gravity torques of unit gravity along each axis of the world, (B, nv, 3)."""
    turned = copy.copy(model)
    torques = []
    for axis in np.eye(3):
        turned.gravity = axis
        torques.append(np.array(generalized_gravity(turned, Data(turned), q)))
    return np.stack(torques, axis=-1)
