# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts of the joints from positions, velocities and measured efforts."""

from __future__ import annotations

import copy
import math
from typing import Literal

import numpy as np

from ..engine.algorithms import crba, momentum_terms, nonlinear_effects
from ..engine.algorithms.filters import momentum_observer_step as algorithm
from ..engine.algorithms.filters.losses import Losses
from ..engine.call.algorithm import load_function
from ..engine.call.data import Data
from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import finite_array, require_model
from ..engine.model.model import Model
from .filters import DisturbanceFilter
from .inputs import SampleSeries, make_sample_series

METHODS = ("momentum", "direct", "kalman")
_MAX_SQUARED_EFFORT = 1e300  # sum over all joints; a larger one counts as an overflow
_NOISE = ("torque_noise", "velocity_noise", "disturbance_noise")
_compute_step = algorithm.momentum_observer_step.call  # looking it up takes 2 % of an update


class MomentumObserver:
    """Estimates the external efforts on the joints of a moving robot, sample by sample.

    External efforts are the efforts that the environment exerts on the joints; forces f on the
    links contribute J' f:

        M a + C v + g + friction = tau + external

    The residual of the generalized momentum p = M v follows them like a filter of the first order,
    without accelerations or the inverse of M (De Luca and Mattone 2005; Haddadin, De Luca and
    Albu-Schaeffer 2017): after a step of external efforts, a part 1 - exp(-gain t) of it. The
    discrete update is exact for external efforts that are constant between two samples, for steps
    of any length. For a floating base, the first six rows are the net external wrench (force,
    moment) on the robot, at the origin of the base and expressed in its axes; tau is zero there.

    Parameters
    ----------
    model : Model
        Its payloads, gravity, rotors, damping, friction and drives can change later; call ``reset``
        after a change of inertias.
    gain : float or (nv,) array_like
        Bandwidth of the estimate [1/s], more than 0. Not used by "kalman".
    method : str
        "momentum": the residual of the momentum. "direct": the inverse dynamics of the filtered
        acceleration minus the efforts, ``M a + nonlinear effects + friction - tau``; both through
        the filter above. "kalman": a Kalman filter of the momentum and of external efforts that
        walk at random, with a covariance (Wahrburg et al. 2018).
    friction : bool
        Whether to subtract the friction of the model, as by ``joint_friction``, but with the
        ``friction_distance`` of the drives.
    friction_velocity : float or (nv,) array_like
        Coulomb friction changes its sign linearly between minus and plus this velocity [rad/s,
        m/s]; choose about the noise of the velocity. Where ``model.drives.friction_velocity`` is
        larger, it counts. With 0 it is the friction of ``joint_friction``.
    torque_noise, velocity_noise : float or (nv,) array_like, optional
        Standard deviations of the noise of a sample of tau and v [N m, N; rad/s, m/s], more than
        0. With both, ``covariance`` is known. "kalman" requires them.
    disturbance_noise : float or (nv,) array_like, optional
        Standard deviation of the change of external efforts in one second [N m, N], more than 0.
        Only "kalman", which requires it. For a noise of tau that dominates, its bandwidth is about
        ``disturbance_noise / (torque_noise * sqrt(dt))`` [1/s].

    Raises
    ------
    TypeError
        ``model`` is not a Model.
    ValueError
        A wrong number or an unknown method; names the argument, the expected and the actual value.

    Examples
    --------
    Somebody exerts 2 N m on each joint of an arm that holds still:

    >>> observer = dyn_ros.MomentumObserver(model, gain=50.0)
    >>> measured = dyn_ros.generalized_gravity(model, data, q) - 2.0
    >>> for _ in range(200):
    ...     external = observer.update(q, np.zeros(7), measured, 0.001)
    >>> print(external.round(3))
    [2. 2. 2. 2. 2. 2. 2.]
    """

    def __init__(
        self,
        model: Model,
        gain: float | ArrayLike = 50.0,
        *,
        method: Literal["momentum", "direct", "kalman"] = "momentum",
        friction: bool = True,
        friction_velocity: float | ArrayLike = 0.0,
        torque_noise: float | ArrayLike | None = None,
        velocity_noise: float | ArrayLike | None = None,
        disturbance_noise: float | ArrayLike | None = None,
    ) -> None:
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(
                f"method: expected one of {', '.join(METHODS)}, got {short_repr(method)}"
            )
        self._model, self._data = require_model(model), Data(model)
        self._method = method
        self._gain = algorithm.positive(model, "gain", gain)
        self._losses = Losses(
            model, friction, algorithm.not_negative(model, "friction_velocity", friction_velocity)
        )
        noise_arguments = zip(_NOISE, (torque_noise, velocity_noise, disturbance_noise))
        self._noise = {
            name: algorithm.positive(model, name, value)
            for name, value in noise_arguments
            if value is not None
        }
        self._kalman = None
        if method == "kalman":
            if missing := [name for name in _NOISE if name not in self._noise]:
                raise ValueError(
                    f"{missing[0]}: expected a number of more than 0 for the method "
                    "'kalman', got None"
                )
            self._kalman = DisturbanceFilter(model, **self._noise)
        self._direct = int(method == "direct")
        self._step = np.zeros(1)
        self._q = model.neutral()  # latest sample
        self._dt = 0.0
        zero = np.zeros(model.nv)
        self._state = zero, zero, zero  # external, momentum, known effort
        self._is_started = False

    def __copy__(self) -> MomentumObserver:
        """Return an independent observer in the same state, of the same model."""
        return copy.deepcopy(self, {id(self._model): self._model})

    # --- settings

    @property
    def model(self) -> Model:
        """The model of the robot."""
        return self._model

    @property
    def method(self) -> str:
        """The method, "momentum", "direct" or "kalman"."""
        return self._method

    @property
    def gain(self) -> Array:
        """Bandwidth of the estimate of each velocity, (nv,), a copy [1/s]."""
        return self._gain.copy()

    @gain.setter
    def gain(self, value: float | ArrayLike) -> None:
        self._gain = algorithm.positive(self._model, "gain", value)

    # --- one sample after the other

    def update(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, dt: float) -> Array:
        """Return the external efforts after one more sample.

        The first call, and the first one after ``reset``, only starts the observer: it returns
        zeros, or the efforts passed to ``reset``. An error leaves the estimate unchanged, unless
        numbers are too large to compute with: then the observer is reset.

        Parameters
        ----------
        q : (nq,) array_like
            Configuration [rad, m].
        v : (nv,) array_like
            Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame.
        tau : (nv,) array_like
            Torques that the drives exert, measured with q and v [N m, N]; see
            ``measured_torque`` for efforts in other units. Zero for a floating base.
        dt : float
            Time since the previous sample [s], more than 0.

        Returns
        -------
        (nv,) ndarray
            A new array [N m, N].

        Raises
        ------
        ValueError
            Wrong shape or dtype, a number that is not finite or too large, a dt that is not
            positive, or a quaternion that is not unit; names the argument, the expected and the
            actual value.
        """
        step = self._step
        try:
            step[0] = dt
            is_valid = 0.0 < dt < math.inf
        except (TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise ValueError(f"dt: expected a finite number of more than 0 s, got {short_repr(dt)}")
        if not self._is_started:
            step[0] = 0.0
        tau = self._losses.removed(v, tau, dt)
        state = _compute_step(
            self._model,
            self._data,
            1,
            self._direct,
            q,
            v,
            tau,
            step,
            self._gain,
            *self._losses.kernel,
            *self._state,
        )
        external: Array = state[0].copy()
        if external.ndim > 1:
            raise ValueError(_batch_error_text(self._model, q, v, tau))
        if self._kalman is not None:
            step[0] = dt
            external = self._kalman.update(q, state[1], state[2], step)
        if not external.dot(external) < _MAX_SQUARED_EFFORT:
            raise self._overflow_error("")
        self._state, self._q, self._dt, self._is_started = state, np.array(q, float), dt, True
        self._losses.keep()
        return external

    def _overflow_error(self, sample_text: str) -> ValueError:
        """Reset the observer, and return the error for numbers whose result is not finite."""
        self.reset()
        return ValueError(
            f"q, v, tau, dt: expected smaller numbers, got large ones{sample_text} with "
            "which the external efforts overflow; the observer starts again at the "
            "next sample"
        )

    def reset(self, external: ArrayLike | None = None) -> None:
        """Start again at the next sample, such as after a gap or a change of the inertias.

        Parameters
        ----------
        external : (nv,) array_like, optional
            External efforts to start with, such as those estimated so far. Default: zeros.

        Raises
        ------
        ValueError
            Wrong shape, or a number that is not finite.
        """
        zero = np.zeros(self._model.nv)
        start = zero if external is None else finite_array("external", external, zero.shape)
        self._state, self._is_started = (start, zero, zero), False
        self._losses.reset()
        if self._kalman is not None:
            self._kalman.reset(start)

    @property
    def external(self) -> Array:
        """The latest external efforts, (nv,), a copy [N m, N]; zeros before the first sample."""
        return (self._kalman.external if self._kalman else self._state[0]).copy()

    @property
    def covariance(self) -> Array | None:
        """Covariance of the latest external efforts due to noise, (nv, nv) [N2 m2, N2].

        For "kalman", it is the filter's. For the other methods, it is the stationary filter's, for
        the latest configuration and step; None before the first sample, and without
        ``torque_noise`` and ``velocity_noise``. Errors of the model are not included.
        """
        if self._kalman is not None:
            return self._kalman.covariance
        if self._dt == 0.0 or not {"torque_noise", "velocity_noise"} <= set(self._noise):
            return None
        return self._stationary_covariance(self._dt)

    def _stationary_covariance(self, dt: float) -> Array:
        """Return the covariance (nv, nv) of the stationary filter for samples dt [s] apart."""
        step_response = -np.expm1(-self._gain * dt)
        product_sum = np.multiply.outer(step_response, step_response) / -np.expm1(
            -dt * np.add.outer(self._gain, self._gain)
        )
        torque_variance = np.diag(0.5 * step_response * self._noise["torque_noise"] ** 2)
        M = crba(self._model, self._data, self._q)
        R = M @ np.diag(self._noise["velocity_noise"] ** 2) @ M.T
        scale = np.multiply.outer(step_response, step_response) / dt**2
        return torque_variance + scale * (1.0 + product_sum) * R

    # --- a whole recording

    def run(
        self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, dt: float | ArrayLike, *, threads: int = 1
    ) -> Array:
        """Return the external efforts after each sample of a recording, as ``update`` would.

        It continues from the last sample of ``update``, and leaves the observer at the last sample
        of the recording; call ``reset`` before another recording.

        Parameters
        ----------
        q, v, tau : (N, nq), (N, nv), (N, nv) array_like
            As for ``update``, in order of time.
        dt : float or (N,) array_like
            Time since the previous sample [s], more than 0.
        threads : int
            Number of threads.

        Returns
        -------
        (N, nv) ndarray
            Row k is what ``update`` would have returned for sample k [N m, N].

        Raises
        ------
        ValueError
            As ``update``, with the same effect on the estimate.
        """
        samples = make_sample_series(self._model, q, v, tau, dt)
        external = np.empty(samples.v.shape)
        for rows, block in samples.blocks():
            block = block._replace(tau=self._losses.removed(block.v, block.tau, block.dt))
            self._losses.keep()
            if self._kalman is not None:
                self._filter_disturbances(self._kalman, block, threads, external[rows])
            else:
                self._filter_residual(block, threads, external[rows])
            self._is_started = True
            overflow_rows = np.flatnonzero(
                ~(np.einsum("ki,ki->k", external[rows], external[rows]) < _MAX_SQUARED_EFFORT)
            )
            if overflow_rows.size:
                raise self._overflow_error(f" in sample {rows.start + int(overflow_rows[0])}")
        if len(external):
            self._q, self._dt = samples.q[-1].copy(), float(samples.dt[-1])
        return external

    def _filter_residual(self, samples: SampleSeries, threads: int, external: Array) -> None:
        """Write the residual after each sample to the rows of ``external``; advance the state."""
        momenta, rates = self._momenta_and_rates(samples, threads)
        settings = np.array([self._gain, *self._losses.kernel])
        memory = np.array(self._state)
        compiled_filter = load_function(algorithm.FILTER)

        def filter_rows(start: int, stop: int, dt: Array, stride: int) -> None:
            inputs = samples.v, samples.tau, momenta, rates
            compiled_filter(
                *[array[start:].ctypes.data for array in inputs],
                dt.ctypes.data,
                stride,
                *[array.ctypes.data for array in (settings, memory, external[start:])],
                self._model.nv,
                stop - start,
                self._direct,
            )

        first = 0
        if not self._is_started:
            first = 1
            filter_rows(0, 1, np.zeros(1), 0)
        filter_rows(
            first, len(external), samples.dt[first * samples.dt_stride :], samples.dt_stride
        )
        self._state = memory[0], samples.v[-1].copy() if self._direct else memory[1], memory[2]

    def _filter_disturbances(
        self, kalman: DisturbanceFilter, samples: SampleSeries, threads: int, external: Array
    ) -> None:
        """Write the estimates of the Kalman filter, which advances, to the rows of ``external``."""
        zero = np.zeros(self._model.nv)
        _, momentum, known_rate = (
            np.ascontiguousarray(array)
            for array in _compute_step(
                self._model,
                self._data,
                threads,
                0,
                samples.q,
                samples.v,
                samples.tau,
                np.zeros(1),
                self._gain,
                *self._losses.kernel,
                zero,
                zero,
                zero,
            )
        )
        kalman.run(
            samples.q, momentum, known_rate, samples.dt, samples.dt_stride, threads, external
        )

    def _momenta_and_rates(self, samples: SampleSeries, threads: int) -> tuple[Array, Array]:
        """Return the momenta and their known rates, (N, nv) each.

        For "direct", these are M times the changes of velocity, and minus the nonlinear effects.
        """
        model, data = self._model, self._data
        if not self._direct:
            momenta, rates = momentum_terms(model, data, samples.q, samples.v, threads=threads)
        else:
            before = self._state[1] if self._is_started else samples.v[0]
            change = np.diff(samples.v, axis=0, prepend=before[None])
            momenta, _ = momentum_terms(model, data, samples.q, change, threads=threads)
            rates = -nonlinear_effects(model, data, samples.q, samples.v, threads=threads)
        return np.ascontiguousarray(momenta), np.ascontiguousarray(rates)


def _batch_error_text(model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike) -> str:
    """Return the error message for arrays of several states."""
    name, axis, value = next(
        argument
        for argument in (("q", model.nq, q), ("v", model.nv, v), ("tau", model.nv, tau))
        if np.ndim(argument[2]) > 1
    )
    return (
        f"{name}: expected one state, shape ({axis},), got {np.shape(value)}; "
        "momentum_observer computes a recording"
    )


def momentum_observer(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: float | ArrayLike,
    gain: float | ArrayLike = 50.0,
    *,
    method: Literal["momentum", "direct", "kalman"] = "momentum",
    friction: bool = True,
    friction_velocity: float | ArrayLike = 0.0,
    torque_noise: float | ArrayLike | None = None,
    velocity_noise: float | ArrayLike | None = None,
    disturbance_noise: float | ArrayLike | None = None,
    threads: int = 1,
) -> Array:
    """Compute the external efforts on the joints in a recording, as from ``MomentumObserver``.

    Row k is what ``MomentumObserver.update`` returns for sample k; the first row is zero.

    Parameters
    ----------
    model : Model
    q, v, tau, dt, threads
        As for ``MomentumObserver.run``: a recording in order of time.
    gain, method, friction, friction_velocity, torque_noise, velocity_noise, disturbance_noise
        As for ``MomentumObserver``.

    Returns
    -------
    (N, nv) ndarray
        Efforts that the environment exerts on the joints [N m, N].

    Raises
    ------
    ValueError
        As ``MomentumObserver`` and ``MomentumObserver.run``.

    Examples
    --------
    A recording of one second, in which 2 N m act on each joint:

    >>> measured = dyn_ros.generalized_gravity(model, data, q) - 2.0
    >>> positions, efforts = np.tile(q, (1000, 1)), np.tile(measured, (1000, 1))
    >>> external = dyn_ros.momentum_observer(model, positions, 0.0 * positions, efforts, 0.001)
    >>> external.shape, np.allclose(external[-1], 2.0)
    ((1000, 7), True)
    """
    observer = MomentumObserver(
        model,
        gain,
        method=method,
        friction=friction,
        friction_velocity=friction_velocity,
        torque_noise=torque_noise,
        velocity_noise=velocity_noise,
        disturbance_noise=disturbance_noise,
    )
    return observer.run(q, v, tau, dt, threads=threads)
