# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A low pass of the first order, for samples at any times."""
from __future__ import annotations

import math

import numpy as np

from ..spatial.types import Array, ArrayLike
from .noise import positive


class LowPass:
    """Follows a signal with a bandwidth: dy/dt = bandwidth (x - y), exact for constant x.

    After ``MomentumObserver`` it makes a filter of the second order. With velocities from
    differences of encoder positions, most of the noise of an observer is fast. Two low passes of
    100/s have the lag of one of 50/s, and a fraction of its noise.

    Parameters
    ----------
    bandwidth : float
        [1/s], more than 0.

    Raises
    ------
    ValueError
        A bandwidth that is not positive.
    """

    def __init__(self, bandwidth: float) -> None:
        self._bandwidth = positive("bandwidth", bandwidth)
        self._value: Array | None = None

    def reset(self, value: ArrayLike | None = None) -> None:
        """Start again: at a value, or at the next sample.

        Parameters
        ----------
        value : (n,) array_like, optional
        """
        self._value = None if value is None else np.array(value, float)

    def update(self, x: ArrayLike, dt: float) -> Array:
        """The filtered signal after one more sample, a new array.

        Parameters
        ----------
        x : (n,) array_like
            The signal, constant since the previous sample.
        dt : float
            Time since the previous sample [s]; not used for the first one.

        Returns
        -------
        (n,) ndarray

        Raises
        ------
        ValueError
            A negative dt.
        """
        if not dt >= 0.0:
            raise ValueError(f"dt: expected at least 0 s, got {dt!r:.80}")
        value = self._value
        value = np.array(x, float) if value is None else (
            value - math.expm1(-self._bandwidth * dt) * (x - value))
        self._value = value
        return value.copy()

    def run(self, x: ArrayLike, dt: float | ArrayLike) -> Array:
        """The filtered signal after each of many samples, as from as many updates.

        Parameters
        ----------
        x : (N, n) array_like
        dt : float or (N,) array_like
            [s].

        Returns
        -------
        (N, n) ndarray
        """
        samples = np.asarray(x, float)
        steps = np.broadcast_to(np.asarray(dt, float), (len(samples),))
        return np.array([self.update(*each) for each in zip(samples, steps.tolist())],
                        float).reshape(samples.shape)
