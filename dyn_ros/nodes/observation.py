# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts from the states of a robot, as they arrive. Independent of ROS."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.observer.constants import ADAPTION, KALMAN_NOISE, LOST, SETTLED, SHORTEST_GAP
from dyn_ros.observer.delay import DelayLine, Sample
from dyn_ros.observer.fault_checks import Kind
from dyn_ros.observer.faults import EffortMonitor
from dyn_ros.observer.plausible import largest_efforts, largest_speeds

from ..states.joint_states import Rejected, abbreviated
from ..states.states import State
from .base.robot import RobotContext, SettingError

NONE = 1e12         # threshold of rows that have none
_LEAST = 1e-6       # threshold and standard deviation [N m, N]


def row_values(robot: RobotContext, parameter: str, numbers: Sequence[float],
               default: Array | float) -> Array:
    """Return a number for each row of the model, (nv,), from a parameter.

    Parameters
    ----------
    robot : RobotContext
    parameter : str
        Its name, for the error message.
    numbers : sequence of float
        For each published row, or one for all; empty: the default.
    default : float or ndarray (nv,)
        Also for the rows that are not published.

    Raises
    ------
    SettingError
        Another length.
    """
    result = np.broadcast_to(np.array(default, float), robot.model.nv).copy()
    if len(numbers) not in (0, 1, len(robot.names)):
        raise SettingError(parameter, f"expected one number, or {len(robot.names)}: one for each "
                           f"of {abbreviated(robot.names)}; got {len(numbers)}")
    if len(numbers):
        result[robot.rows] = numbers
    return result


def positive_rows(robot: RobotContext, parameter: str, numbers: Sequence[float],
                  default: Array | float) -> Array:
    """Return `row_values`; raise `SettingError` unless all are positive."""
    if any(number <= 0.0 for number in numbers):
        raise SettingError(parameter, f"expected numbers > 0, got {list(numbers)}")
    return row_values(robot, parameter, numbers, default)


class Measurement(NamedTuple):
    """What a state contains: positions and efforts as measured, and what belongs together.

    Attributes
    ----------
    q, tau : ndarray (nq,), (nv,)
        As measured; the effort times its constant.
    sample : Sample
        Efforts, and the state in which the motors exerted them.
    """

    q: Array
    tau: Array
    sample: Sample


class Observation:
    """The observer of one robot, fed with its states.

    It restarts after anything that it cannot be continued over: a gap longer than `max_gap`, or
    than five usual periods and 10 ms, a stamp that goes back, an effort or velocity that is missing
    or cannot be a measurement, a changed payload. Until it has settled, there is no result.

    Parameters
    ----------
    robot : RobotContext
    values : mapping
        The parameters of the node.
    notify : callable(str)
        Called with what to log: why the observer restarts, and what is wrong with efforts.

    Attributes
    ----------
    measured : Measurement, optional
        The latest state; None if it could not be used.
    q, v, tau : ndarray (nq,), (nv,), (nv,)
        The efforts in it, and the state in which the motors exerted them.
    external : ndarray (nv,)
        What the environment exerts on the joints [N m, N]; meaningless unless `valid`.
    residual, frictionless : ndarray (nv,)
        Measured minus modeled efforts, with and without the friction of the model, through the
        same filter; meaningless unless `residual_valid`.
    valid, residual_valid : bool
        Whether these belong to the latest state.
    exceeded : ndarray (nv,) of bool
        The rows whose external effort exceeds its threshold; updated with `external`.
    collision : bool
        Whether there are any.
    tare : ndarray (nv,)
        Subtracted from the external effort.
    faults : dict
        What is wrong with the efforts of a joint: joint and kind of fault, and a text.
    problem : str
        Why the latest state could not be used; empty if it could.

    Raises
    ------
    ValueError
        A parameter does not fit the robot, or it has no joints.
    """

    def __init__(self, robot: RobotContext, values: Mapping[str, Any],
                 notify: Callable[[str], object]) -> None:
        model = robot.model
        self.robot, self._notify = robot, notify
        if not model.nv:
            raise Rejected("the robot has no joints")
        self._constant = row_values(robot, "effort_constant", values["effort_constant"], 1.0)
        gains = positive_rows(robot, "joint_gains", values["joint_gains"], values["gain"])
        self._friction: bool = values["friction"]
        self._max_gap = values["max_gap"]
        self._is_kalman = values["method"] == "kalman"
        smoothing = 0.0 if self._is_kalman else values["smoothing"]
        self._low_passes = [dyn_ros.LowPass(smoothing) for _ in range(3)] if smoothing else []
        self._settling = SETTLED * (1.0 / float(gains.min(initial=math.inf))
                                    + (1.0 / smoothing if smoothing else 0.0))
        self._observer = _observer(robot, values, gains)
        self._direct = [dyn_ros.MomentumObserver(
            model, gains, method="direct", friction=friction,
            friction_velocity=values["friction_velocity"]) for friction in (True, False)]
        self._monitor = EffortMonitor(model, gains)
        self._largest_efforts = largest_efforts(model)
        self._largest_speeds = largest_speeds(model)
        self._line = DelayLine(model, round(1e9 * values["effort_delay"]))   # in ns
        self._usual_period = 0.0
        self.measured: Measurement | None = None
        self.q, self.v, self.tau = model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
        self.external = np.zeros(model.nv)
        self.residual, self.frictionless = np.zeros(model.nv), np.zeros(model.nv)
        self.tare = np.zeros(model.nv)
        self.exceeded = np.zeros(model.nv, bool)
        self.collision = False
        self.valid = self.residual_valid = False
        self.problem = ""
        self._since = self._started = self._residual_started = self._stamp = -1
        self._payload_changes = robot.payload_changes
        self._running = self._residual_running = False
        self.restarts = 0
        self.faults: dict[tuple[str, Kind], str] = {}
        self.adjust(values)

    def adjust(self, values: Mapping[str, Any]) -> None:
        """Use the thresholds and the noise of the parameters from now on."""
        self.thresholds = thresholds(self.robot, values)
        self._noise = deviations(self.robot, values)

    def covariance(self) -> Array:
        """Return the covariance of the errors of `external`, (nv, nv).

        That of the parameters or, without, of the Kalman filter; otherwise a third of each
        threshold is the standard deviation.
        """
        if self._noise is not None:
            return np.diag(self._noise ** 2)
        if self._is_kalman:
            covariance: Array = self._observer.covariance
            return covariance
        return np.diag((self.limits() / 3.0) ** 2)

    def limits(self) -> Array:
        """Return the thresholds of the latest state, (nv,), all positive."""
        return np.maximum(self.thresholds.of(self.v), _LEAST)

    @property
    def settling(self) -> bool:
        """Whether the observer runs but has not settled."""
        return self._running and not self.valid and not self.problem

    def since(self, stamp: int) -> int:
        """For how long `collision` has had its value [ns]."""
        return max(stamp - self._since, 0) if self._since >= 0 else 0

    def rising(self, stamp: int) -> bool:
        """Whether the external efforts of a collision have not yet settled."""
        return self.collision and 1e-9 * self.since(stamp) < self._settling

    def rest(self) -> None:
        """Stop until the next `update`."""
        self._stop()
        self.problem, self.faults = "", {}

    def _stop(self) -> None:
        self._running = self._residual_running = self.valid = self.residual_valid = False
        self.collision, self._since = False, -1

    def update(self, state: State, residual: bool) -> None:
        """Process a state; also compute the residual if it is wanted."""
        self.valid = self.residual_valid = False
        self.measured = None
        missing = self._missing(state)
        why = missing or self._interruption(state.stamp)
        if why:
            self._fail(why)
        if missing or state.v is None or state.effort is None:
            return
        if self._running and state.stamp == self._stamp:
            self.problem = "the stamps of joint_states do not advance"
            return
        if not self._running:
            self._begin(state.stamp)
        dt = 1e-9 * (state.stamp - self._stamp) if self._started >= 0 else 1.0  # the first: unused
        self._stamp, self.problem = state.stamp, ""
        tau = self._constant * state.effort
        sample = self._line.push(state.stamp, state.q, state.v, tau)
        if sample is not None:
            self.measured = Measurement(state.q, tau, sample)
            self._process(state.stamp, sample, dt, residual)

    def _begin(self, stamp: int) -> None:
        self._running, self._started = True, -1
        self._usual_period = 0.0
        self._payload_changes = self.robot.payload_changes
        self._line.reset()
        self._monitor.reset()

    def _process(self, stamp: int, sample: Sample, dt: float, residual: bool) -> None:
        """Process efforts and the state in which the motors exerted them."""
        _, self.q, self.v, self.tau = sample
        if self._started < 0:
            self._started = stamp
            self._observer.reset(self._without_acceleration(self._friction))
            self._reset_low_pass(0)
        try:
            external = self._observer.update(self.q, self.v, self.tau, dt)
        except ValueError:
            self._fail("the state or the efforts are too large to compute with")
            return
        np.subtract(self._smoothed(0, external, dt), self.tare, out=self.external)
        self.valid = 1e-9 * (stamp - self._started) >= self._settling
        if self.valid:
            self._compare(stamp)
        self._update_residual(stamp, residual, dt)
        if self._monitor.update(self.q, self.v, self.tau, external, dt):
            self._report_faults()

    def _report_faults(self) -> None:
        faults = {(each.joint, each.kind): each.message for each in self._monitor.faults}
        for fault in faults.keys() - self.faults.keys():
            self._notify(faults[fault])
        self.faults = faults

    def _missing(self, state: State) -> str:
        """Return which input is missing, or an empty string."""
        if state.v is None:
            return "unknown velocity of " + abbreviated(state.unknown)
        if state.effort is None:
            missing = self.robot.state.missing_effort()
            return "unknown effort of " + abbreviated(missing) if missing else "no effort yet"
        tau = self._constant * state.effort
        if (np.abs(tau) > self._largest_efforts).any():
            return (self._implausible("effort", tau, self._largest_efforts)
                    + ", and effort_constant")
        if (np.abs(state.v) > self._largest_speeds).any():
            return self._implausible("velocity", state.v, self._largest_speeds)
        behind = self.robot.state.behind(self._max_gap)
        if behind:
            return (f"no states of {abbreviated(behind)} for longer than max_gap, "
                    f"{self._max_gap:g} s")
        return ""

    def _implausible(self, quantity: str, values: Array, largest: Array) -> str:
        """Return which value cannot be a measurement."""
        k = int(np.argmax(np.abs(values) / largest))
        return (f"the {quantity} of {self.robot.model.velocity_names[k]} is {values[k]:g}, and "
                f"more than {largest[k]:g} is not plausible: check its unit and its sensor")

    def _interruption(self, stamp: int) -> str:
        """Return why the observer cannot be continued at a stamp, or an empty string."""
        if not self._running:
            return ""
        if self._payload_changes != self.robot.payload_changes:
            return "the payload has changed"
        dt = 1e-9 * (stamp - self._stamp)
        if dt < 0.0:
            return f"stamps jumped back by {-dt:g} s"
        if dt > self._max_gap:
            return f"no states for {dt:g} s, longer than max_gap, {self._max_gap:g} s"
        usual = self._usual_period or dt
        if dt > max(LOST * usual, SHORTEST_GAP):
            return f"no states for {dt:g} s, {dt / usual:.0f} usual periods"
        self._usual_period = usual + ADAPTION * (dt - usual)
        return ""

    def _fail(self, why: str) -> None:
        if self._running:
            self.restarts += 1
            self._notify(f"the observer restarts: {why}")
        self._stop()
        self.problem = why

    def _compare(self, stamp: int) -> None:
        """Compare the external efforts with their thresholds."""
        self.exceeded = self.thresholds.exceeded(self.external, self.v)
        collision = bool(self.exceeded.any())
        if collision != self.collision or self._since < 0:
            self.collision, self._since = collision, stamp

    def _without_acceleration(self, friction: bool) -> Array:
        """Return the external efforts of a robot that does not accelerate, to start with."""
        model = self.robot.model
        modeled = dyn_ros.nonlinear_effects(model, self.robot.data, self.q, self.v)
        if friction:
            modeled = modeled + dyn_ros.joint_friction(model, self.v)
        with np.errstate(over="ignore"):
            external: Array = modeled - self.tau
        return external if np.isfinite(external).all() else np.zeros(model.nv)

    def _smoothed(self, number: int, efforts: Array, dt: float) -> Array:
        """Return efforts after the second low pass, if there is one."""
        return self._low_passes[number].update(efforts, dt) if self._low_passes else efforts

    def _reset_low_pass(self, number: int) -> None:
        if self._low_passes:
            self._low_passes[number].reset()

    def _update_residual(self, stamp: int, wanted: bool, dt: float) -> None:
        if not wanted:
            self._residual_running = False
            return
        if not self._residual_running:
            for number, friction in enumerate((True, False)):
                self._direct[number].reset(self._without_acceleration(friction))
                self._reset_low_pass(1 + number)
            self._residual_running, self._residual_started = True, stamp
        for number, result in enumerate((self.residual, self.frictionless)):
            found = self._direct[number].update(self.q, self.v, self.tau, dt)
            np.negative(self._smoothed(1 + number, found, dt), out=result)
        self.residual_valid = 1e-9 * (stamp - self._residual_started) >= self._settling


def _observer(robot: RobotContext, values: Mapping[str, Any], gains: Array) -> Any:
    """Return the observer that the parameters specify."""
    method, more = values["method"], {}
    if method == "kalman":
        more = {f"{name}_noise": positive_rows(
            robot, f"noise.{name}", values[f"noise.{name}"], default)
            for name, default in KALMAN_NOISE.items()}
    return dyn_ros.MomentumObserver(
        robot.model, gains, method=method, friction=values["friction"],
        friction_velocity=values["friction_velocity"], **more)


def thresholds(robot: RobotContext, values: Mapping[str, Any]) -> dyn_ros.Thresholds:
    """Return the thresholds that the parameters specify.

    Rows that are not published have none, and neither has a base, unless it is specified.

    Raises
    ------
    SettingError
        A parameter does not fit the robot.
    """
    model = robot.model
    listed, per_speed = values["thresholds.fixed"], values["thresholds.per_speed"]
    limit = np.where((model.effort_limit > 0.0) & np.isfinite(model.effort_limit),
                     values["thresholds.relative"] * model.effort_limit,
                     values["thresholds.unlimited"])
    fixed = np.full(model.nv, NONE)
    fixed[robot.rows] = limit[robot.rows]
    fixed = row_values(robot, "thresholds.fixed", listed, fixed)
    base = int(model.nvs[0]) if robot.moving_base else 0
    if len(listed) < len(robot.names):
        fixed[:base] = NONE
    friction = model.friction if values["friction"] else 0.0
    return dyn_ros.Thresholds(
        fixed, row_values(robot, "thresholds.per_speed", per_speed, 0.0),
        row_values(robot, "thresholds.at_rest", values["thresholds.at_rest"], friction))


def deviations(robot: RobotContext, values: Mapping[str, Any]) -> Array | None:
    """Return the standard deviations of external efforts, (nv,); None if they are not specified.

    Rows that are not published say nothing: their deviation is `NONE`.

    Raises
    ------
    SettingError
        A parameter does not fit the robot.
    """
    listed = values["noise.external"]
    return positive_rows(robot, "noise.external", listed, NONE) if listed else None
