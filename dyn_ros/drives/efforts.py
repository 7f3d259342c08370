# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Torques at the joints from the efforts of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import (
    joint_torque_regressor,
    joint_torque_regressor_product,
    measured_torque,
)
from ..engine.algorithms.dynamics.friction import add_compensated_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.drives import Drives
from ..engine.model.model import Model
from .file import is_torque_unit

UNITS_BY_INTERFACE = {"torque": "N m", "force": "N", "current": "A"}
"""Units of the interfaces of ros2_control; the unit of "effort" depends on the driver."""

_BATCH_SIZE = 16384  # samples whose gravity torques are computed at a time


def effort_conflicts(model: Model, effort_interfaces: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a message for each joint whose drive declares another unit than its interface has.

    ``effort_interfaces`` are pairs (joint, interface).
    """
    units = dict(zip(model.velocity_names, model.drives.unit))
    conflicts = {}
    for joint, interface in effort_interfaces:
        unit = UNITS_BY_INTERFACE.get(interface)
        if (
            joint not in units
            or unit is None
            or is_torque_unit(unit) == is_torque_unit(units[joint])
        ):
            continue
        remedy = (
            "remove its unit and gain from the drives file"
            if is_torque_unit(unit)
            else f"declare unit: {unit}, and gain, in N m or N for 1 {unit}, in a drives file"
        )
        conflicts[joint] = (
            f"joint {joint!r}: its effort is the interface {interface}, in {unit}, but its drive "
            f"declares {units[joint]}: {remedy}"
        )
    return conflicts


def convert_to_torques(
    model: Model, arrays: dict[str, Any], segments: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Return the arrays of a recording with efforts "tau" replaced by torques at the joints.

    The array "tau" changes in place. Delays of efforts are removed; rows whose delayed efforts are
    not in the recording are left out of all arrays. ``segments`` are ranges (start, stop) of rows
    without gaps. Raises a ValueError if fewer than two rows remain.
    """
    drives = model.drives
    if drives.delay.any():
        arrays = _shift_efforts(drives.delay, arrays, segments)
    if not drives.reports_torque:
        effort = arrays["tau"]
        is_measured = np.ptp(effort, axis=0) > 0.0
        torque = measured_torque(model, Data(model), arrays["q"], effort)
        # gravity is not added to an effort that is not measured, which stays constant
        effort[:] = np.where(drives.is_compensated & ~is_measured, effort, torque)
    return arrays


def rescale_torques(model: Model, q: Array, torque: Array, constants: Array) -> Array:
    """Return torques at the joints (B, nv) for gains of the drives ``constants`` times as large.

    Gravity torques that the drives subtract remain.
    """
    drives = model.drives
    gravity = add_compensated_gravity(model, Data(model), q, np.zeros_like(torque))
    scaled = drives.to_joints(constants * drives.to_motors(torque - gravity)) + gravity
    return np.where(constants == 1.0, torque, scaled) if drives.coupling is None else scaled


def repeated_motors(drives: Drives, repeats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask (B, nv) of motors whose torque depends on a joint that repeats."""
    if drives.coupling is None:
        return repeats
    is_repeated: NDArray[np.bool_] = repeats @ (np.linalg.inv(drives.coupling) != 0.0)
    return is_repeated


def exclude_subtracted_gravity(model: Model, q: Array, torque: Array) -> Array:
    """Return torques at the joints (B, nv) minus the gravity torques that drives subtract.

    These are the torques that follow from reported efforts alone. Without such drives, return
    ``torque`` itself.
    """
    if not model.drives.is_compensated.any():
        return torque
    result, data = np.empty_like(torque), Data(model)
    for start in range(0, len(q), _BATCH_SIZE):
        rows = slice(start, start + _BATCH_SIZE)
        result[rows] = -add_compensated_gravity(model, data, q[rows], -torque[rows])
    return result


def torque_regressor(
    model: Model, data: Data, q: Array, v: Array, a: Array, threads: int = 1
) -> Array:
    """Return ``joint_torque_regressor`` (B, nv, p) without the gravity that drives subtract."""
    W = joint_torque_regressor(model, data, q, v, a, threads=threads)
    is_compensated, zero = model.drives.is_compensated, np.zeros_like(v)
    if not is_compensated.any():
        return W
    gravity = joint_torque_regressor(model, Data(model), q, zero, zero, threads=threads)
    return W - is_compensated[:, None] * gravity


def torque_regressor_product(
    model: Model, data: Data, q: Array, v: Array, a: Array, w: Array, threads: int = 1
) -> Array:
    """Return ``torque_regressor`` transposed times w (B, nv), without computing it, (B, p)."""
    product = joint_torque_regressor_product(model, data, q, v, a, w, threads=threads)
    is_compensated, zero = model.drives.is_compensated, np.zeros_like(v)
    if not is_compensated.any():
        return product
    return product - joint_torque_regressor_product(
        model, Data(model), q, zero, zero, is_compensated * w, threads=threads
    )


def _shift_efforts(
    delay: Array, arrays: dict[str, Any], segments: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Replace the efforts at each time t by those measured at t + delay, by interpolation.

    ``delay`` (nv,) [s] is how much efforts lag behind the positions. "tau" in ``arrays`` changes in
    place. Return all arrays without the rows whose efforts would be outside of their segment; raise
    a ValueError if fewer than two rows remain.
    """
    time, effort = arrays["time"], arrays["tau"]
    has_effort = np.zeros(len(time), bool)
    for segment in segments:
        rows = slice(*segment)
        stamps = time[rows].copy()
        for k in np.flatnonzero(delay):
            effort[rows, k] = np.interp(stamps + delay[k], stamps, effort[rows, k])
        has_effort[rows] = (stamps + min(delay.min(), 0.0) >= stamps[0]) & (
            stamps + max(delay.max(), 0.0) <= stamps[-1]
        )
    if has_effort.sum() < 2:
        raise ValueError(
            f"drives: efforts are delayed by up to {np.abs(delay).max():g} s, for "
            "which the recording is too short; check the unit, s"
        )
    return {name: None if array is None else array[has_effort] for name, array in arrays.items()}
