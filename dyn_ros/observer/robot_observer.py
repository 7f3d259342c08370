# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Observer of one robot, for the states of a node one by one, or of a recording all at once.

Efforts and the states in which the motors exerted them are brought together, pass the observer and
a second low pass, and are valid once both have settled. The observer restarts after anything that
it cannot be continued over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import nonlinear_effects, torque_without_friction
from ..engine.algorithms.dynamics.friction import add_compensated_gravity
from ..engine.call.algorithm import load_function
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.coordinates import has_single_coordinate
from ..engine.model.model import Model
from . import runs_kernel
from .fault_checks import largest_efforts, largest_speeds
from .filters import DelayLine, LowPass, align_efforts
from .inputs import Sample, SampleSeries
from .momentum_observer import MomentumObserver
from .settings import KALMAN_NOISE, ObserverSettings, Rows

SETTLING_TIME_CONSTANTS = 4.0
"""Time constants after which an observer has settled: 98 %."""

Index = NDArray[np.int64]


class RobotObserver:
    """The observer of one robot, fed state by state with ``update``, or at once with ``run``.

    Settings with a number for each row are for velocities ``rows`` of the model. ``notify`` is
    called with the reason when it restarts. ``measured`` is the latest state with the torques at
    the joints, or None if it could not be used, for the reason in ``problem``; ``q``, ``v`` and
    ``tau`` are torques and the state in which the motors exerted them. ``external`` is what the
    environment exerts on the joints [N m, N]: of the latest state if ``valid``, otherwise
    meaningless. ``residual`` and ``frictionless`` are measured minus modeled efforts, with and
    without the friction of the model, through the same filter; of the latest state if
    ``residual_valid``. ``speed`` is ``abs(v)`` through the low passes of the external efforts:
    thresholds at this speed lag as these do. ``gains`` (nv,) are the bandwidths [1/s], and
    ``noise`` has the arguments (nv,) of ``MomentumObserver`` for "kalman", by name;
    ``settling_time`` passes from the start to the first result [s].
    """

    def __init__(
        self,
        model: Model,
        settings: ObserverSettings,
        notify: Callable[[str], object] = lambda reason: None,
        *,
        rows: Rows = slice(None),
    ) -> None:
        self.model, self.settings, self._notify = model, settings, notify
        self.gains = settings.velocity_values("joint_gains", model, rows, settings.gain)
        self.noise = {
            f"{name}_noise": settings.velocity_values(f"noise_{name}", model, rows)
            for name in (KALMAN_NOISE if settings.method == "kalman" else ())
        }
        self.settling_time = SETTLING_TIME_CONSTANTS * (
            1.0 / float(self.gains.min(initial=math.inf))
            + (1.0 / settings.second_bandwidth if settings.second_bandwidth else 0.0)
        )
        self._plausible_limits = {
            "effort": largest_efforts(model),
            "velocity": largest_speeds(model),
        }
        self.data = Data(model)
        self._filters: dict[str, _Filter] = {}
        self.result_filter("external")  # checks the settings
        self._lags = self._low_passes()
        constant = settings.velocity_values("effort_constant", model, rows)
        self._gain = constant * model.drives.gain
        self._is_simple = model.drives.reports_torque
        self._delay = round(1e9 * (settings.effort_delay + common_delay(model)))  # ns
        self._line = DelayLine(model, self._delay)
        self.measured: Sample | None = None
        self.q, self.v, self.tau = model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
        self.external, self.residual, self.frictionless, self.speed = np.zeros((4, model.nv))
        self.valid = self.residual_valid = False
        self.problem, self.restarts = "", 0
        self._running, self._stamp, self._period = False, 0, 0.0

    def result_filter(self, name: str) -> _Filter:
        """Return the filter of "external", "residual" or "frictionless"."""
        if name not in self._filters:
            self._filters[name] = _Filter(self, name)
        return self._filters[name]

    def _low_passes(self) -> list[LowPass]:
        """Return the low passes of external efforts; if gains differ, the slowest one."""
        if self.settings.method == "kalman" or not len(self.gains):
            return []
        bandwidths = float(self.gains.min()), self.settings.smoothing
        return [LowPass(bandwidth) for bandwidth in bandwidths if bandwidth]

    @property
    def is_settling(self) -> bool:
        """True if the observer runs but has not settled."""
        return self._running and not self.valid and not self.problem

    # --- efforts

    def to_torque(self, effort: Array) -> Array:
        """Return joint torques from measured efforts, without gravity that is compensated."""
        torque = self._gain * effort
        return torque if self._is_simple else self.model.drives.to_joints(torque)

    def _add_gravity(self, q: Array, torque: Array) -> Array:
        """Return torques plus compensated gravity, in the configuration that belongs to them."""
        return (
            torque if self._is_simple else add_compensated_gravity(self.model, self.data, q, torque)
        )

    # --- state by state

    def stop(self) -> None:
        """Stop until the next ``update``."""
        self._running = self.valid = self.residual_valid = False

    def begin(self) -> None:
        """Start at the next sample, with nothing known."""
        self._running, self._period = True, 0.0
        self._line.reset()
        for lag in self._lags:
            lag.reset()
        for filter_ in self._filters.values():
            filter_.started = None

    def update(
        self,
        stamp: int,
        q: Array,
        v: Array | None,
        tau: Array | None,
        missing: str = "",
        *,
        residual: bool = False,
    ) -> tuple[Array, float] | None:
        """Process a state with a stamp [ns] and efforts as from ``to_torque``.

        ``missing`` is the reason why it cannot be used, or empty. A state without velocities or
        efforts is left out; the observer continues after it unless the gap is too long. If
        ``residual``, ``residual`` and ``frictionless`` are computed, too. Returns the external
        efforts before the second low pass and the time since the sample before [s], or None.
        """
        self.valid = self.residual_valid = False
        self.measured = None
        if v is None or tau is None:
            if self._running and 1e-9 * (stamp - self._stamp) > self.settings.max_gap:
                self._restart(missing)
            self.problem = missing
            return None
        if reason := missing or self.interruption(stamp):
            self._restart(reason)
        if missing:
            return None
        if self._running and stamp == self._stamp:
            self.problem = "the stamps of joint_states do not advance"
            return None
        dt = 1e-9 * (stamp - self._stamp) if self._running else 1.0  # unused
        if not self._running:
            self.begin()
        self._stamp, self.problem = stamp, ""
        sample = self._line.push(stamp, q, v, tau)
        if sample is None:
            return None
        _, self.q, self.v, self.tau = sample
        if not self._is_simple:
            self.tau = self._add_gravity(self.q, self.tau)
            tau = self._add_gravity(q, tau) if self._delay else self.tau
        self.measured = Sample(stamp, q, v, tau)
        return self._process(stamp, dt, residual)

    def _process(self, stamp: int, dt: float, residual: bool) -> tuple[Array, float] | None:
        """Update the filters with the sample ``q``, ``v``, ``tau`` and what is valid; see
        ``update``.
        """
        sample = stamp, self.q, self.v, self.tau, dt
        try:
            observed, self.external, started = self.result_filter("external").update(*sample)
        except ValueError:
            self._restart("the state or the efforts are too large to compute with")
            return None
        self.valid = self._has_settled(stamp - started)
        self.speed = np.abs(self.v)
        for lag in self._lags:
            self.speed = lag.update(self.speed, dt)
        if residual:
            _, self.residual, started = self.result_filter("residual").update(*sample)
            _, self.frictionless, _ = self.result_filter("frictionless").update(*sample)
            self.residual_valid = self._has_settled(stamp - started)
        else:
            for name in self._filters.keys() - {"external"}:
                self._filters[name].started = None
        return observed, dt

    def _has_settled(self, duration: Any) -> Any:
        """Return True where a duration [ns] from the start is long enough for a result."""
        return 1e-9 * duration >= self.settling_time

    def interruption(self, stamp: int) -> str:
        """Return the reason why the observer cannot be continued at a stamp, or an empty string."""
        if not self._running:
            return ""
        dt, max_gap = 1e-9 * (stamp - self._stamp), self.settings.max_gap
        period = runs_kernel.period_after(dt, self._period, max_gap)
        if dt < 0.0:
            return f"stamps jumped back by {-dt:g} s"
        if dt > max_gap:
            return f"no states for {dt:g} s, longer than max_gap, {max_gap:g} s"
        if period < 0.0:
            return f"no states for {dt:g} s, {dt / (self._period or dt):.0f} usual periods"
        self._period = period
        return ""

    def _restart(self, reason: str) -> None:
        """Stop until the next state; notify unless the observer was not running."""
        if self._running:
            self.restarts += 1
            self._notify(f"the observer restarts: {reason}")
        self.stop()
        self.problem = reason

    # --- rules of states

    def is_plausible(self, v: Array, tau: Array) -> Any:
        """Return True if velocities and efforts can be measurements, for one or each state."""
        return (np.abs(tau) <= self._plausible_limits["effort"]).all(axis=-1) & (
            np.abs(v) <= self._plausible_limits["velocity"]
        ).all(axis=-1)

    def implausibility(self, v: Array, tau: Array) -> str:
        """Return a description of a value that cannot be a measurement, or an empty string."""
        if self.is_plausible(v, tau):
            return ""
        for quantity, values, hint in (
            ("effort", tau, ", and effort_constant"),
            ("velocity", v, ""),
        ):
            largest = self._plausible_limits[quantity]
            k = int(np.argmax(np.abs(values) / largest))
            if not abs(values[k]) <= largest[k]:
                return (
                    f"the {quantity} of {self.model.velocity_names[k]} is {values[k]:g}, but "
                    f"more than {largest[k]:g} is not plausible; check its unit and its sensor"
                    + hint
                )
        return ""

    # --- a recording

    def run(
        self,
        stamp: Index,
        q: Array,
        v: Array,
        tau: Array,
        is_usable: NDArray[np.bool_],
        result_names: Collection[str],
    ) -> dict[str, Array]:
        """Return results (n, nv) by name, as ``update`` computes them state by state.

        Names are "external", "speed", "residual" and "frictionless". Results are NaN where they are
        not valid. Efforts ``tau`` are as measured; ``is_usable`` (n,) is False for a state that
        cannot be used for a reason that its numbers do not show. States without all velocities and
        efforts are left out. A run that ends before the observer has settled is not computed. The
        state for ``update`` is not kept.
        """
        results = {name: np.full(v.shape, np.nan) for name in result_names}
        if not self.model.nv:
            return results
        torque = self.to_torque(tau)
        is_complete = np.asarray((np.isfinite(v) & np.isfinite(torque)).all(axis=1))
        is_usable = is_usable & (self.is_plausible(v, torque) | ~is_complete)
        for rows in split_runs(stamp, is_usable, self.settings.max_gap, is_complete):
            if not self._has_settled(float(stamp[rows[-1]] - stamp[rows[0]])):
                continue
            selection = _as_slice(rows)
            stamps, arrays = stamp[selection], (q[selection], v[selection], torque[selection])
            if self._delay:
                aligned_rows, arrays = align_efforts(self.model, stamps, *arrays, self._delay)
                rows, stamps = rows[aligned_rows], stamps[aligned_rows]
            valid = self._has_settled(stamps - stamps[:1])
            if not valid.any():
                continue
            dt = np.concatenate([[1.0], 1e-9 * np.diff(stamps)])  # the first: unused
            samples = SampleSeries(*arrays, dt)
            samples = samples._replace(tau=self._add_gravity(samples.q, samples.tau))
            for name, values in results.items():
                result = (
                    self._speeds(samples)
                    if name == "speed"
                    else self.result_filter(name).run(samples)
                )
                values[rows[valid]] = result[valid]
        return results

    def _speeds(self, samples: SampleSeries) -> Array:
        """Return the absolute velocities (n, nv) through the low passes, from their start."""
        speed = np.abs(samples.v)
        for lag in self._lags:
            lag.reset()
            speed = lag.run(speed, samples.dt)
        return speed


class _Filter:
    """The observer and the second low pass of one result, see ``RobotObserver.result_filter``."""

    started: int | None = None  # the stamp of its first sample [ns]

    def __init__(self, owner: RobotObserver, name: str) -> None:
        settings, self._model, self._data = owner.settings, owner.model, owner.data
        self._is_residual = name != "external"
        self._friction = name == "residual" or name == "external" and settings.friction
        method: Any = "direct" if self._is_residual else settings.method
        self.observer = MomentumObserver(
            owner.model,
            owner.gains,
            method=method,
            friction=self._friction,
            friction_velocity=settings.friction_velocity,
            **({} if self._is_residual else owner.noise),
        )
        second = settings.second_bandwidth
        self._low_pass = LowPass(second) if second else None

    def start(self, q: Array, v: Array, tau: Array) -> None:
        """Start with the external efforts of a robot that does not accelerate."""
        modeled = nonlinear_effects(self._model, self._data, q, v)
        with np.errstate(over="ignore"):
            if self._friction:
                tau = torque_without_friction(self._model, v, tau)
            external = modeled - tau
        self.observer.reset(external if np.isfinite(external).all() else None)
        if self._low_pass:
            self._low_pass.reset()

    def update(
        self, stamp: int, q: Array, v: Array, tau: Array, dt: float
    ) -> tuple[Array, Array, int]:
        """Return the result before and after the second low pass, (nv,), and its start [ns]."""
        if self.started is None:
            self.started = stamp
            self.start(q, v, tau)
        observed = self.observer.update(q, v, tau, dt)
        smooth = self._low_pass.update(observed, dt) if self._low_pass else observed
        return observed, -smooth if self._is_residual else smooth, self.started

    def run(self, samples: SampleSeries) -> Array:
        """Restart the observer, and return the result for each sample, (n, nv)."""
        self.start(samples.q[0], samples.v[0], samples.tau[0])
        external = self.observer.run(*samples)
        if self._low_pass:
            external = self._low_pass.run(external, samples.dt)
        return -external if self._is_residual else external


def common_delay(model: Model) -> float:
    """Return the delay of all drives [s]; raise a ValueError if they differ."""
    coordinates = np.flatnonzero(has_single_coordinate(model)).tolist()
    delays = model.drives.delay[coordinates]
    differing = np.flatnonzero(delays != delays[:1])
    if differing.size:
        names = [model.velocity_names[coordinates[k]] for k in (0, differing[0])]
        raise ValueError(
            f"drives: expected one delay for all joints, got {delays[0]:g} s for {names[0]} and "
            f"{delays[differing[0]]:g} s for {names[1]}"
        )
    return float(delays[0]) if coordinates else 0.0


def split_runs(
    stamp: Index,
    is_usable: NDArray[np.bool_],
    max_gap: float,
    is_complete: NDArray[np.bool_] | bool = True,
) -> list[Index]:
    """Return the rows of each run of states that an observer can process without a restart.

    ``stamp`` [ns], ``is_usable`` and ``is_complete`` are (n,); ``max_gap`` is in s. A state that is
    not usable ends a run; an incomplete one, whose velocity or effort is unknown, is left out.
    """
    kind = np.empty(len(stamp), np.uint8)
    usable = np.where(is_complete, runs_kernel.USABLE, runs_kernel.INCOMPLETE)
    usable = np.where(is_usable, usable, runs_kernel.UNUSABLE).astype(np.uint8)
    find = load_function(runs_kernel.RUNS)
    find(np.ascontiguousarray(stamp), usable, len(stamp), max_gap, kind)
    rows = np.flatnonzero(kind)
    starts = np.flatnonzero(kind[rows] == runs_kernel.BEGINS)
    return np.split(rows, starts[1:]) if len(rows) else []


def _as_slice(rows: Index) -> Any:
    """Return a slice in place of consecutive rows, as it copies nothing."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
