# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Torques at the joints from the efforts of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.algorithms import (
    joint_torque_regressor,
    joint_torque_regressor_product,
    measured_torque,
)
from ..engine.algorithms.dynamics.friction import with_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.model import Model

_BLOCK = 16384  # samples whose gravity torques are computed at a time


def to_torques(
    model: Model, arrays: dict[str, Any], segments: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """The arrays of a recording with torques at the joints as "tau", at the time of the positions.

    Changes them in place. Rows of which an effort is not in the recording are left out.
    """
    drives = model.drives
    if drives.delay.any():
        arrays = _without_delay(drives.delay, arrays, segments)
    if not drives.reports_torque:
        effort = arrays["tau"]
        is_measured = np.ptp(effort, axis=0) > 0.0
        torque = measured_torque(model, Data(model), arrays["q"], effort)
        # one that is never measured stays constant
        effort[:] = np.where(drives.is_compensated & ~is_measured, effort, torque)
    return arrays


def rescaled(model: Model, q: Array, torque: Array, constants: Array) -> Array:
    """Torques at the joints (B, nv), if the gains of the drives are ``constants`` times as large.

    Gravity torques that the drives subtract remain.
    """
    drives = model.drives
    gravity = with_gravity(model, Data(model), q, np.zeros_like(torque))
    scaled = drives.to_joints(constants * drives.to_motors(torque - gravity)) + gravity
    return np.where(constants == 1.0, torque, scaled) if drives.coupling is None else scaled


def without_gravity(model: Model, q: Array, torque: Array) -> Array:
    """Torques at the joints (B, nv) without the gravity torque that drives subtract."""
    if not model.drives.is_compensated.any():
        return torque
    left, data = np.empty_like(torque), Data(model)
    for first in range(0, len(q), _BLOCK):
        rows = slice(first, first + _BLOCK)
        left[rows] = -with_gravity(model, data, q[rows], -torque[rows])
    return left


def torque_regressor(
    model: Model, data: Data, q: Array, v: Array, a: Array, threads: int = 1
) -> Array:
    """``joint_torque_regressor`` (B, nv, p) without the gravity that drives subtract."""
    W = joint_torque_regressor(model, data, q, v, a, threads=threads)
    compensated, still = model.drives.is_compensated, np.zeros_like(v)
    if not compensated.any():
        return W
    gravity = joint_torque_regressor(model, Data(model), q, still, still, threads=threads)
    return W - compensated[:, None] * gravity


def torque_regressor_product(
    model: Model, data: Data, q: Array, v: Array, a: Array, w: Array, threads: int = 1
) -> Array:
    """``torque_regressor`` transposed times w (B, nv), without computing it, (B, p)."""
    product = joint_torque_regressor_product(model, data, q, v, a, w, threads=threads)
    compensated, still = model.drives.is_compensated, np.zeros_like(v)
    if not compensated.any():
        return product
    return product - joint_torque_regressor_product(
        model, Data(model), q, still, still, compensated * w, threads=threads
    )


def _without_delay(
    delay: Array, arrays: dict[str, Any], segments: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Interpolate efforts within segments."""
    time, effort = arrays["time"], arrays["tau"]
    known = np.zeros(len(time), bool)
    for segment in segments:
        rows = slice(*segment)
        stamps = time[rows].copy()
        for k in np.flatnonzero(delay):
            effort[rows, k] = np.interp(stamps + delay[k], stamps, effort[rows, k])
        known[rows] = (stamps + min(delay.min(), 0.0) >= stamps[0]) & (
            stamps + max(delay.max(), 0.0) <= stamps[-1]
        )
    if known.sum() < 2:
        raise ValueError(
            f"drives: efforts are delayed by up to {np.abs(delay).max():g} s, for "
            "which the recording is too short; check the unit, s"
        )
    return {name: None if array is None else array[known] for name, array in arrays.items()}
