# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Friction that the momentum observer subtracts, in its kernels or with NumPy before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernel.types import Array, ArrayLike
from ...kernel.validation import require_bool, valid_array
from ...model.drives import Drives
from ...model.model import Model
from ..dynamics.friction import subtract_friction
from .low_pass import motor_directions


class Losses:
    """Friction of a model, as it is at each call.

    The kernels know damping, and Coulomb friction that changes its sign up to a ``velocity``,
    (nv,). If drives have more friction, all of it is removed from the efforts before; where it
    depends on the motion before, ``keep`` and ``reset`` state how that goes on.
    """

    def __init__(self, model: Model, friction: bool, velocity: Array) -> None:
        self._model, self._velocity = model, velocity
        self._is_on = require_bool("friction", friction)
        self.reset()
        self._read_friction()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, which reads the friction of its own model."""
        self.__dict__.update(state)
        self._read_friction()

    def _read_friction(self) -> None:
        """Read the friction of the model: the part that kernels compute, and the drives' part."""
        model, zero = self._model, np.zeros(self._model.nv)
        self._drives = model.drives
        self._own: Drives | None = None
        self.kernel: tuple[Array, Array, Array] = zero, zero, self._velocity
        if self._is_on and model.drives.has_own_friction:
            wide = np.maximum(self._velocity, model.drives.friction_velocity)
            self._own = model.drives.with_values(friction_velocity=wide)
        elif self._is_on:
            self.kernel = model.damping, model.friction, self._velocity

    def reset(self) -> None:
        """Forget the motion so far."""
        self._before: Array | None = None
        self._after: Array | None = None

    def keep(self) -> None:
        """Continue after the latest samples of ``removed``."""
        self._before = self._after

    def removed(self, v: ArrayLike, tau: Any, dt: Array | float | None = None) -> Any:
        """Return efforts (..., nv) without losses that kernels do not model.

        ``dt`` are the times since the samples before, of samples in order of time; without it,
        friction turns at once.
        """
        self._after = None
        if self._model._drives is not self._drives:
            self._read_friction()
        if self._own is None:
            return tau
        direction = None
        if dt is not None and self._own.friction_distance.any():
            motors = self._own.motor_velocity(valid_array(self._model, "v", ("nv",), v))
            rows = motors.reshape(-1, self._model.nv)
            direction, self._after = motor_directions(
                self._own, rows, np.broadcast_to(dt, len(rows)), self._before
            )
            direction = direction.reshape(motors.shape)
        return subtract_friction(self._model, self._own, v, "tau", tau, direction)
