# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Friction torques of the joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...call.algorithm import public
from ...call.data import Data
from ...kernel.types import Array, ArrayLike
from ...kernel.validation import require_model, valid_array
from ...kernel.vocabulary import *
from ...model.drives import Drives
from ...model.model import Model
from .rnea import generalized_gravity


@kernel
def friction_effort(v, damping, coulomb, reversal):
    """Return damping v + coulomb sign(v); the sign changes linearly from -reversal to reversal."""
    relative_speed = v / select_above(reversal, 0.0, reversal, 1.0)
    sign = select_above(v, reversal, 1.0, select_above(-reversal, v, -1.0, relative_speed))
    return damping * v + coulomb * sign


@public
def joint_friction(model: Model, v: ArrayLike, torque: ArrayLike | None = None) -> Array:
    """Compute the joint torques that overcome friction, plus constant offsets.

    From ``model.damping``, ``model.friction`` and ``model.drives``, whose documentation has the
    formula. The motors of a robot apply ``tau + joint_friction(model, v, tau)`` for
    ``tau = rnea(model, data, q, v, a)``. At rest, the state does not determine Coulomb friction,
    and the function returns zero for it. ``friction_distance`` is ignored: friction changes its
    sign with the velocity.

    Parameters
    ----------
    torque : (nv,) or (B, nv) array_like, optional
        Torques that move the links [N m, N], for friction that depends on them; zeros by default.

    Returns
    -------
    (nv,) or (B, nv) ndarray
        A new array [N m, N].

    Examples
    --------
    >>> robot = copy.copy(model)
    >>> robot.damping, robot.friction = np.full(7, 0.5), np.full(7, 1.0)
    >>> print(dyn_ros.joint_friction(robot, [2.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0])[:3])
    [ 2. -2.  0.]
    """
    speeds, drives = valid_array(require_model(model), "v", ("nv",), v), model.drives
    load = 0.0 * speeds if torque is None else valid_array(model, "torque", ("nv",), torque)
    return friction_along(
        model, speeds, load, friction_direction(drives, drives.motor_velocity(speeds))
    )


def friction_along(model: Model, v: Array, torque: Array, direction: Array) -> Array:
    """Return ``joint_friction`` with the direction (..., nv) of each motor's friction, -1 to 1."""
    drives = model.drives
    motors, load = drives.motor_velocity(v), np.abs(drives.to_motors(torque))
    friction = _unloaded_friction(model, drives, motors, direction)
    return drives.to_joints(friction + drives.load_friction * load * direction)


@public
def torque_without_friction(model: Model, v: ArrayLike, torque: ArrayLike) -> Array:
    """Compute the torques that move the links from the torques that the motors apply.

    The inverse of adding ``joint_friction``, in closed form.

    Parameters
    ----------
    torque : (nv,) or (B, nv) array_like
        Torques at the joints, with friction and offsets [N m, N].

    Returns
    -------
    (nv,) or (B, nv) ndarray
        A new array [N m, N].

    Examples
    --------
    >>> robot = copy.copy(model)
    >>> robot.drives = robot.drives.with_values(load_friction=0.1, offset=0.5)
    >>> v, tau = np.full(7, 0.3), np.linspace(-3.0, 3.0, 7)
    >>> applied = tau + dyn_ros.joint_friction(robot, v, tau)
    >>> np.allclose(dyn_ros.torque_without_friction(robot, v, applied), tau)
    True
    """
    return subtract_friction(model, model.drives, v, "torque", torque)


def subtract_friction(
    model: Model,
    drives: Drives,
    v: ArrayLike,
    name: str,
    torque: ArrayLike,
    direction: Array | None = None,
) -> Array:
    """Return ``torque_without_friction`` with other drives and another name of the argument.

    ``direction`` (..., nv) is that of each motor's friction, from -1 to 1; by default it depends
    on the velocity alone.
    """
    motors = drives.motor_velocity(valid_array(require_model(model), "v", ("nv",), v))
    if direction is None:
        direction = friction_direction(drives, motors)
    link_torque = drives.to_motors(valid_array(model, name, ("nv",), torque))
    link_torque = link_torque - _unloaded_friction(model, drives, motors, direction)
    sign = direction * np.sign(link_torque)
    link_torque = link_torque / (1.0 + drives.load_friction * sign)
    return drives.to_joints(link_torque)


def max_friction_at_rest(model: Model, torque: Array) -> Array:
    """Return the largest friction at rest, for torques (..., nv) at the joints."""
    drives = model.drives
    dry = max_motor_friction_at_rest(model, drives.to_motors(torque))
    return dry if drives.coupling is None else dry @ np.abs(drives.coupling)


def max_motor_friction_at_rest(model: Model, torque: Array) -> Array:
    """Return the largest friction of each motor at rest, for torques (..., nv) of the motors."""
    drives = model.drives
    load = np.abs(torque)
    return np.maximum(model.friction + drives.stribeck + drives.load_friction * load, 0.0)


@public
def measured_torque(model: Model, data: Data, q: ArrayLike, effort: ArrayLike) -> Array:
    """Convert measured efforts, as described by ``model.drives``, to torques at the joints.

    Parameters
    ----------
    effort : (nv,) or (B, nv) array_like
        As measured, in the units of the drives.

    Returns
    -------
    (nv,) or (B, nv) ndarray
        Torques with friction and offsets [N m, N].

    Examples
    --------
    Currents, with a torque constant of 12 N m/A at the joint:

    >>> robot = copy.copy(model)
    >>> robot.drives = robot.drives.with_values(gain=12.0)
    >>> print(dyn_ros.measured_torque(robot, data, q, np.full(7, 0.5)))
    [6. 6. 6. 6. 6. 6. 6.]
    """
    efforts = valid_array(require_model(model), "effort", ("nv",), effort)
    return add_compensated_gravity(model, data, q, model.drives.to_torque(efforts))


def add_compensated_gravity(model: Model, data: Data, q: ArrayLike, torque: Array) -> Array:
    """Return torques at the joints with the gravity torque that drives have subtracted."""
    compensated = model.drives.is_compensated
    if not compensated.any():
        return torque
    return torque + compensated * generalized_gravity(model, data, q)


def friction_direction(drives: Drives, v: Array) -> Array:
    """Return the direction of each motor's friction at velocities v (..., nv), from -1 to 1."""
    return smooth_sign(v, drives.friction_velocity, drives.has_smooth_friction)


def smooth_sign(v: Array, width: Array | float, is_smooth: NDArray[np.bool_] | bool) -> Array:
    """Return the sign of velocities, which changes over a width of them.

    It changes linearly between minus and plus the width, or smoothly, as tanh(v / width).
    """
    wide = np.asarray(width) > 0.0
    relative_speed = v / np.where(wide, width, 1.0)
    sign = np.where(wide, np.clip(relative_speed, -1.0, 1.0), np.sign(v))
    smooth = wide & is_smooth
    return np.where(smooth, np.tanh(relative_speed), sign) if smooth.any() else sign


def smooth_sign_change(
    v: Array, width: Array | float, is_smooth: NDArray[np.bool_] | bool
) -> Array:
    """Return the derivative of ``smooth_sign`` by the logarithm of the width."""
    wide = np.asarray(width) > 0.0
    relative_speed = v / np.where(wide, width, 1.0)
    inside = np.where(is_smooth, 1.0 - np.tanh(relative_speed) ** 2, np.abs(relative_speed) < 1.0)
    return np.where(wide, -relative_speed * inside, 0.0)


def _unloaded_friction(model: Model, drives: Drives, v: Array, direction: Array) -> Array:
    """Return friction and offsets that do not depend on torque, of motors with velocities v."""
    dry = model.friction
    if drives.has_own_friction:
        dry = (
            dry
            + drives.root_friction * np.sqrt(np.abs(v))
            + drives.stribeck * np.exp(-((v / drives.stribeck_velocity) ** 2))
        )
    friction: Array = model.damping * v + dry * direction + drives.offset
    return friction
