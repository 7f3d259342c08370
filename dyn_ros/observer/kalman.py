# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The disturbance Kalman filter of one robot: its estimate, covariance and memory."""
from __future__ import annotations

import numpy as np

from ..engine.algorithms.dynamics.crba import crba
from ..engine.algorithms.filters import disturbance_filter
from ..engine.call.algorithm import compiled
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.model import Model


class DisturbanceFilter:
    """A Kalman filter of the generalized momentum and the external efforts.

    Its noise (nv,) is that of ``MomentumObserver``.
    """

    def __init__(self, model: Model, torque_noise: Array, velocity_noise: Array,
                 disturbance_noise: Array) -> None:
        n = model.nv
        self._model, self._data = model, Data(model)
        self._settings = np.array([torque_noise ** 2, disturbance_noise ** 2, velocity_noise ** 2])
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
            return np.diag(self._settings[1])
        return self._covariance[2].copy()

    def reset(self, external: Array) -> None:
        """Start again at the next sample, with external efforts that were known before."""
        self._memory[0] = external
        self._is_started = False

    def update(self, q: ArrayLike, momentum: Array, known: Array, dt: Array) -> Array:
        """The estimate after one more sample, (nv,), for its momentum and the known rate of it."""
        M = crba(self._model, self._data, q)
        external = np.empty(self._model.nv)
        self._filter(momentum, known, M[None], dt, 0, external)
        return external

    def run(self, q: Array, momentum: Array, known: Array, dt: Array, dt_stride: int, threads: int,
            external: Array) -> None:
        """Write the estimates after each sample to the rows of ``external``."""
        M = crba(self._model, self._data, q, threads=threads)
        self._filter(momentum.reshape(-1), known.reshape(-1), M, dt, dt_stride,
                     external.reshape(-1))

    def _filter(self, momentum: Array, known: Array, M: Array, dt: Array, dt_stride: int,
                external: Array) -> None:
        call = compiled(disturbance_filter.FILTER)
        call(momentum, known, M, dt, dt_stride, self._settings, self._memory, self._covariance,
             self._scratch, external, self._model.nv, len(M), int(not self._is_started))
        self._is_started = True
