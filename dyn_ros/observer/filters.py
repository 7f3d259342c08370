# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters of an observer: delay lines of efforts, a low pass, and a Kalman filter."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import crba
from ..engine.algorithms.filters import disturbance_filter
from ..engine.algorithms.filters.low_pass import LOW_PASS
from ..engine.call.algorithm import load_function
from ..engine.call.data import Data
from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import finite_number, positive_number, require_model
from ..engine.model.model import Model
from .inputs import Sample

# --- delays: efforts, and the states in which the motors exerted them


class DelayLine:
    """Delays positions and velocities to match efforts that lag behind them.

    Positions and velocities are interpolated at the time at which the motors exerted a measured
    effort; if efforts lead, these are interpolated.

    Parameters
    ----------
    model : Model
    delay : float
        By how much the efforts lag, such as ``estimate_effort_delay(...).delay``; negative: they
        lead [s].

    Raises
    ------
    ValueError
        A delay that is not a finite number.

    Examples
    --------
    Efforts that arrive 5 ms late are paired with the positions of 5 ms ago:

    >>> line = dyn_ros.DelayLine(model, 0.005)
    >>> for k in range(20):
    ...     state = line.push(0.001 * k, q + 0.001 * k * v, v, tau)
    >>> round(float(state[0]), 4)
    0.014
    """

    def __init__(self, model: Model, delay: float) -> None:
        self.delay = finite_number("delay", delay)
        self._interpolate = ConfigurationInterpolator(model)
        self._samples: deque[Sample] = deque()

    def reset(self) -> None:
        """Forget all samples, after a gap or a jump of time."""
        self._samples.clear()

    def push(self, time: float, q: Array, v: Array, tau: Array) -> Sample | None:
        """Add a measured sample; return the newest state whose effort is known.

        Parameters
        ----------
        time : float
            Later than the previous sample [s].
        q : (nq,) ndarray
        v, tau : (nv,) ndarray

        Returns
        -------
        Sample or None
            None until samples have arrived for as long as the delay.

        Raises
        ------
        ValueError
            The time is not later.
        """
        samples, newest = self._samples, Sample(time, q, v, tau)
        if self.delay == 0.0:
            return newest
        if samples and not time > samples[-1].time:
            raise ValueError(
                f"time: expected more than {samples[-1].time:.9f} s, the time of the "
                f"sample before, got {time!r}; call reset after a jump"
            )
        samples.append(Sample(time, np.array(q), np.array(v), np.array(tau)))
        lag = abs(self.delay)  # differences of times only: exact for integers as well
        while len(samples) > 2 and time - samples[1].time >= lag:
            samples.popleft()
        if len(samples) < 2 or time - samples[0].time < lag:
            return None
        before, after = samples[0], samples[1]
        share = (time - before.time - lag) / (after.time - before.time)
        if self.delay < 0.0:
            return Sample(time, q, v, before.tau + share * (after.tau - before.tau))
        return Sample(
            time - lag,
            self._interpolate(before.q, after.q, share),
            before.v + share * (after.v - before.v),
            tau,
        )


def align_efforts(
    model: Model, stamp: NDArray[np.int64], q: Array, v: Array, tau: Array, delay: int
) -> tuple[slice, tuple[Array, Array, Array]]:
    """Return the rows for which a ``DelayLine`` has a result, and q, v and tau of these results.

    The first rows have none. ``stamp`` (n,) [ns] is in order of time, ``delay`` is in ns; q is (n,
    nq), v and tau are (n, nv).
    """
    lag = abs(delay)
    before = np.searchsorted(stamp, stamp - lag, side="right") - 1
    rows = slice(int(np.count_nonzero(before < 0)), None)
    before = before[rows]
    after = before + 1
    share = ((stamp[rows] - stamp[before] - lag) / (stamp[after] - stamp[before]))[:, None]
    if delay < 0:
        return rows, (q[rows], v[rows], tau[before] + share * (tau[after] - tau[before]))
    blended = ConfigurationInterpolator(model)(q[before], q[after], share[:, 0])
    return rows, (blended, v[before] + share * (v[after] - v[before]), tau[rows])


class ConfigurationInterpolator:
    """Interpolates configurations; angles may have jumped by a turn."""

    def __init__(self, model: Model) -> None:
        self._model = require_model(model)
        self._turns_per_unit = np.array(
            [
                0.5 / math.pi if joint.kind in ("revolute", "continuous") else 0.0
                for joint, nq in zip(model.tree.joints, model.nqs)
                for _ in range(nq)
            ]
        )
        self._is_flat = model.nq == model.nv and all(
            joint.kind != "planar" for joint in model.tree.joints
        )

    def __call__(self, q0: Array, q1: Array, share: float | Array) -> Array:
        """Return the configuration at a share of the way, (nq,), or (B, nq) with shares (B,)."""
        q1 = q1 - 2.0 * math.pi * np.round(self._turns_per_unit * (q1 - q0))
        if not self._is_flat:
            return self._model.interpolate(q0, q1, share)
        blended: Array = q0 + np.asarray(share)[..., None] * (q1 - q0)
        return blended


# --- filters


class LowPass:
    """First-order low-pass filter: dy/dt = bandwidth (x - y), exact for constant x.

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

    Examples
    --------
    >>> smooth = dyn_ros.LowPass(100.0)
    >>> smooth.reset(np.zeros(7))
    >>> for _ in range(100):
    ...     y = smooth.update(np.ones(7), 0.001)
    >>> bool(y[0] > 0.99)
    True
    """

    def __init__(self, bandwidth: float) -> None:
        self._bandwidth = positive_number("bandwidth", bandwidth)
        self._value: Array | None = None

    def reset(self, value: ArrayLike | None = None) -> None:
        """Start again: at a value, (n,), or at the next sample."""
        self._value = None if value is None else np.array(value, float).reshape(-1)

    def update(self, x: ArrayLike, dt: float) -> Array:
        """Return the filtered signal after one more sample, a new array.

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
            A negative dt, or another number of values than before.
        """
        if not dt >= 0.0:
            raise ValueError(f"dt: expected at least 0 s, got {short_repr(dt)}")
        sample = np.array(x, float)
        return self._filter_all(sample.reshape(1, -1), np.array([dt], float)).reshape(sample.shape)

    def run(self, x: ArrayLike, dt: float | ArrayLike) -> Array:
        """Return the filtered signal after each sample of a recording, as ``update`` would.

        Parameters
        ----------
        x : (N, n) array_like
        dt : float or (N,) array_like
            [s].

        Returns
        -------
        (N, n) ndarray

        Raises
        ------
        ValueError
            As ``update``; then the filter is unchanged.
        """
        samples, steps = np.array(x, float), np.array(dt, float).reshape(-1)
        wrong = np.flatnonzero(~(steps >= 0.0))
        if wrong.size:
            raise ValueError(f"dt: expected at least 0 s, got {steps[wrong[0]]}")
        if len(steps) not in (1, len(samples)):
            raise ValueError(
                f"dt: expected one number, or {len(samples)}: one for each sample; got {len(steps)}"
            )
        if not len(samples):
            return samples
        filtered = self._filter_all(samples.reshape(len(samples), -1), steps)
        return filtered.reshape(samples.shape)

    def _filter_all(self, x: Array, dt: Array) -> Array:
        """Return the filtered signal after each of at least one sample, (N, n)."""
        if self._value is None:
            self._value = x[0].copy()
        value = self._value
        if len(value) != x.shape[1]:
            raise ValueError(
                f"x: expected {len(value)} numbers as before, got {x.shape[1]}; call "
                "reset before another signal"
            )
        filtered = np.empty(x.shape)
        call = load_function(LOW_PASS)
        share = -np.expm1(-self._bandwidth * dt)
        call(np.ascontiguousarray(x), *x.shape, share, int(len(dt) > 1), 0, value, filtered)
        return filtered


class DisturbanceFilter:
    """A Kalman filter of the generalized momentum and the external efforts.

    Its noise (nv,) is that of ``MomentumObserver``.
    """

    def __init__(
        self, model: Model, torque_noise: Array, velocity_noise: Array, disturbance_noise: Array
    ) -> None:
        n = model.nv
        self._model, self._data = model, Data(model)
        self._settings = np.array([torque_noise**2, disturbance_noise**2, velocity_noise**2])
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

    def update(self, q: ArrayLike, momentum: Array, known_rate: Array, dt: Array) -> Array:
        """Return the estimate after a sample, (nv,), from its momentum and the known rate."""
        M = crba(self._model, self._data, q)
        external = np.empty(self._model.nv)
        self._filter_all(momentum, known_rate, M[None], dt, 0, external)
        return external

    def run(
        self,
        q: Array,
        momentum: Array,
        known_rate: Array,
        dt: Array,
        dt_stride: int,
        threads: int,
        external: Array,
    ) -> None:
        """Write the estimates after each of N samples to ``external`` (N, nv); advance the filter.

        q is (N, nq); momenta and their known rates are (N, nv). ``dt`` is [s], with one number for
        all samples if ``dt_stride`` is 0.
        """
        M = crba(self._model, self._data, q, threads=threads)
        self._filter_all(
            momentum.reshape(-1), known_rate.reshape(-1), M, dt, dt_stride, external.reshape(-1)
        )

    def _filter_all(
        self,
        momentum: Array,
        known_rate: Array,
        M: Array,
        dt: Array,
        dt_stride: int,
        external: Array,
    ) -> None:
        """Process len(M) samples: write the estimates to ``external``, and update the memory."""
        call = load_function(disturbance_filter.FILTER)
        address = M.__array_interface__["data"][0]
        call(
            momentum,
            known_rate,
            address,
            M.strides[0],
            dt,
            dt_stride,
            self._settings,
            self._memory,
            self._covariance,
            self._scratch,
            external,
            self._model.nv,
            len(M),
            int(not self._is_started),
        )
        self._is_started = True
