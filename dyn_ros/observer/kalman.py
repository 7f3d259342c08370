# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The disturbance Kalman filter of one robot: its estimate, covariance and memory."""
from __future__ import annotations

import numpy as np

from ..algorithms import disturbance_filter
from ..algorithms.crba import crba
from ..algorithms.momentum_observer import losses
from ..algorithms.momentum_terms import momentum_terms
from ..model.data import Data
from ..model.inputs import as_array, require_valid
from ..model.model import Model
from ..model.types import ArrayLike
from ..spatial.types import Array
from .recording import Recording, compiled


class DisturbanceFilter:
    """A Kalman filter of the generalized momentum and the external efforts.

    Parameters
    ----------
    model : Model
    friction : bool
        Whether the joints have the damping and friction of the model.
    friction_velocity : (nv,) ndarray
        Velocity below which Coulomb friction is proportional to the velocity.
    torque_noise, velocity_noise : (nv,) ndarray
        Standard deviations of a sample [N m, N; rad/s, m/s].
    disturbance_noise : (nv,) ndarray
        Standard deviation of the change of external efforts in a second [N m, N].
    """

    def __init__(self, model: Model, friction: bool, friction_velocity: Array,
                 torque_noise: Array, velocity_noise: Array, disturbance_noise: Array) -> None:
        n = model.nv
        self._model, self._data, self._friction = model, Data(model), friction
        self._settings = np.array([*np.zeros((2, n)), friction_velocity, torque_noise ** 2,
                                   disturbance_noise ** 2, velocity_noise ** 2])
        self._memory = np.zeros((disturbance_filter.MEMORY, n))
        self._covariance = np.zeros((disturbance_filter.BLOCKS, n, n))
        self._scratch = np.empty((disturbance_filter.SCRATCH, n, n))
        self._is_started = False

    @property
    def external(self) -> Array:
        """The latest estimate, (nv,); not a copy."""
        return self._memory[0]

    @property
    def covariance(self) -> Array:
        """Covariance of the latest estimate, (nv, nv)."""
        if not self._is_started:
            return np.diag(self._settings[4])
        return self._covariance[2].copy()

    def reset(self, external: Array) -> None:
        """Start again at the next sample, with external efforts that were known before."""
        self._memory[0] = external
        self._is_started = False

    def update(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, dt: Array) -> Array:
        """The estimate after one more sample, (nv,)."""
        rates, efforts = self._one("v", v), self._one("tau", tau)
        momentum, rate = momentum_terms(self._model, self._data, q, rates)
        if momentum.ndim > 1:
            raise ValueError(f"q: expected one state, shape ({self._model.nq},), got "
                             f"{np.shape(q)}; momentum_observer computes a recording")
        M = crba(self._model, self._data, q)
        external = np.empty((1, self._model.nv))
        self._filter(rates, efforts, momentum, rate, M[None], dt, 0, external)
        return external[0]

    def _one(self, name: str, value: ArrayLike) -> Array:
        array: Array
        array, batched = as_array(self._model, name, ("nv",), value)
        if batched:
            raise ValueError(f"{name}: expected one state, shape ({self._model.nv},), got "
                             f"{array.shape}; momentum_observer computes a recording")
        require_valid(self._model, name, ("nv",), array)
        return array

    def run(self, samples: Recording, threads: int, external: Array) -> None:
        """Write the estimates after each sample to the rows of ``external``."""
        momentum, rate = momentum_terms(self._model, self._data, samples.q, samples.v,
                                        threads=threads)
        M = crba(self._model, self._data, samples.q, threads=threads)
        self._filter(samples.v, samples.tau, np.ascontiguousarray(momentum),
                     np.ascontiguousarray(rate), M, samples.dt, samples.dt_stride, external)

    def _filter(self, v: Array, tau: Array, momentum: Array, rate: Array, M: Array, dt: Array,
                dt_stride: int, external: Array) -> None:
        self._settings[:2] = losses(self._model, self._friction)
        where = [array.ctypes.data for array in (
            v, tau, momentum, rate, M, dt, self._settings, self._memory, self._covariance,
            self._scratch, external)]
        call = compiled(disturbance_filter.FILTER, disturbance_filter.filter_samples)
        call(*where[:5], M.strides[0] // 8, where[5], dt_stride, *where[6:], self._model.nv,
             len(external), int(not self._is_started))
        self._is_started = True
