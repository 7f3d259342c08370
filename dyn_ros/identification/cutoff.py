# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The cutoff of the filter of the motion, by how well torques are predicted that were held out."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from .filtering import is_actuated

LONGEST = 12000         # samples that candidates are compared on
_STEP = 2.0             # from one candidate to the next
_LOWEST = 6             # candidates, at most
_BETTER = 0.995         # of the error of the higher cutoff: less is noise
_STRETCHES = 8          # of consecutive samples, of which every second one is held out
_ROWS = 2400            # samples of the regression
_SINGULAR = 1e-6        # relative to the largest eigenvalue
_FEWEST = 200           # samples
_WEIGHTINGS = 2         # of the joints by their errors

Prepare = Callable[[float], Mapping[str, Any]]
"""Samples that were prepared with a cutoff."""


def best_cutoff(model: Model, first: float, prepare: Prepare) -> float:
    """The first cutoff [Hz], or a lower one that predicts torques better.

    Spectra of positions cannot show what is motion of the robot and what comes from stamps, gears
    and controllers. Torques can.
    """
    before, cutoff = _prepared(prepare, first), first
    for _ in range(_LOWEST):
        after = _prepared(prepare, cutoff / _STEP)
        if before is None or after is None:
            break
        common = np.isin(before["time"], after["time"])
        errors = [_errors(model, {name: one[name][rows] for name in ("q", "v", "a", "tau")})
                  for one, rows in ((before, common), (after, slice(None)))]
        if errors[0] is None or errors[1] is None or not (
                np.exp(np.mean(np.log(errors[1] / errors[0]))) < _BETTER):
            break
        before, cutoff = after, cutoff / _STEP
    return cutoff


def _prepared(prepare: Prepare, cutoff: float) -> Mapping[str, Any] | None:
    try:
        return prepare(cutoff)
    except ValueError:              # too short for this cutoff
        return None


def _errors(model: Model, samples: Mapping[str, Array]) -> Array | None:
    """RMS error of each joint's torque in stretches that were held out; least squares."""
    q, v, a, tau = (samples[name][::1 + len(samples["q"]) // _ROWS]
                    for name in ("q", "v", "a", "tau"))
    counted = np.flatnonzero(is_actuated(model) & (np.ptp(tau, axis=0) > 0.0)
                             & (np.ptp(v, axis=0) > 0.0))
    if not len(counted) or len(q) < _FEWEST:
        return None
    W = joint_torque_regressor(model, Data(model), q, v, a)
    rows = np.zeros((len(counted), len(q), W.shape[2] + 4 * len(counted)))
    for n, k in enumerate(counted):
        rows[n, :, :W.shape[2]] = W[:, k]
        rows[n, :, W.shape[2] + 4 * n:][:, :4] = np.column_stack(
            [a[:, k], v[:, k], np.sign(v[:, k]), np.ones(len(q))])
    torque = tau[:, counted].T
    held = np.arange(len(q)) * _STRETCHES // len(q) % 2 == 1
    size = np.std(torque, axis=1)
    for _ in range(_WEIGHTINGS):
        x = _least_squares(rows[:, ~held] / size[:, None, None], torque[:, ~held] / size[:, None])
        error = torque - rows @ x
        size = np.maximum(np.sqrt(np.mean(error[:, ~held] ** 2, axis=1)), 1e-9 * size)
    return np.maximum(np.sqrt(np.mean(error[:, held] ** 2, axis=1)), 1e-12)


def _least_squares(rows: Array, values: Array) -> Array:
    """The solution of the rows (..., p), without combinations that they do not determine."""
    A = rows.reshape(-1, rows.shape[-1])
    H = A.T @ A
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    squares, vectors = np.linalg.eigh(H * scale * scale[:, None])
    kept = squares > _SINGULAR * squares[-1]
    F = scale[:, None] * vectors[:, kept]
    return F @ ((F.T @ (A.T @ values.ravel())) / squares[kept])
