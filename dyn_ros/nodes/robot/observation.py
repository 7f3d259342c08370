# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The observer of a robot whose states arrive, with the parameters of its node; its contacts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.observer import IsolatedContact
from dyn_ros.observer.fault_checks import Kind
from dyn_ros.observer.faults import EffortMonitor
from dyn_ros.observer.robot_observer import RobotObserver
from dyn_ros.observer.settings import ObserverSettings, row_values
from dyn_ros.observer.thresholds import friction_at_rest

from ...states.joint_states import Rejected, State, abbreviated
from .context import RobotContext, SettingError

NONE = 1e12  # threshold of rows that have none
_LEAST = 1e-6  # threshold and standard deviation [N m, N]
_LEAST_VARIANCE = 1e-18  # N2, m2


class Observation(RobotObserver):
    """The observer of one robot, fed with its states; compares the results with thresholds.

    It also restarts after a changed payload. `notify(text)` is called with what to log: why the
    observer restarts, and what is wrong with efforts. `exceeded` (nv,) are the rows whose external
    effort exceeds its threshold, and `collision` whether there are any; `tare` (nv,) is subtracted
    from the external effort. `faults` has texts by joint and kind of fault.
    """

    def __init__(
        self, robot: RobotContext, values: Mapping[str, Any], notify: Callable[[str], object]
    ) -> None:
        model = robot.model
        if not model.nv:
            raise Rejected("the robot has no joints")
        for name, text in robot.missing_gains.items():
            if name in model.velocity_names and not values["effort_constant"]:
                raise SettingError("drives", text)
        settings = ObserverSettings(**ObserverSettings.arguments_in(values))
        super().__init__(model, settings, notify, rows=robot.rows)
        self.robot = robot
        self._monitor = EffortMonitor(model, self.gains)
        self.tare = np.zeros(model.nv)
        self.exceeded = np.zeros(model.nv, bool)
        self.collision = False
        self._since: int | None = None  # when it got this value [ns]
        self._payload_changes = robot.payload_changes
        self.faults: dict[tuple[str, Kind], str] = {}
        self.adjust(values)

    def adjust(self, values: Mapping[str, Any]) -> None:
        """Use the thresholds and the noise of the parameters from now on."""
        self.thresholds = thresholds(self.robot, values)
        self._noise = deviations(self.robot, values)

    def covariance(self) -> Array:
        """Return the covariance of the errors of `external`, (nv, nv)."""
        if self._noise is not None:
            return np.diag(self._noise**2)
        if self.settings.method == "kalman":
            covariance = self.filter("external").observer.covariance
            assert covariance is not None
            return covariance
        return np.diag((self.limits() / 3.0) ** 2)

    def limits(self) -> Array:
        """Return the thresholds of the latest state, (nv,), all positive."""
        return np.maximum(self.thresholds.of(self.speed), _LEAST)

    def since(self, stamp: int) -> int:
        """For how long `collision` has had its value [ns]."""
        return max(stamp - self._since, 0) if self._since is not None else 0

    def rising(self, stamp: int) -> bool:
        """Whether the external efforts of a collision have not yet settled."""
        return self.collision and 1e-9 * self.since(stamp) < self.settling_time

    def rest(self) -> None:
        self.stop()
        self.problem, self.faults = "", {}

    def stop(self) -> None:
        super().stop()
        self.collision, self._since = False, None

    def begin(self) -> None:
        super().begin()
        self._payload_changes = self.robot.payload_changes
        self._monitor.reset()

    def take(self, state: State, residual: bool) -> None:
        """Process a state; also compute the residual if it is wanted."""
        tau = None if state.effort is None else self.to_torque(state.effort)
        result = self.update(
            state.stamp, state.q, state.v, tau, self._missing(state, tau), residual=residual
        )
        if result is None:
            return
        self.external = self.external - self.tare
        if self.valid:
            self._compare(state.stamp)
        observed, dt = result
        if self._monitor.update(self.q, self.v, self.tau, observed, dt):
            self._report_faults()

    def _report_faults(self) -> None:
        faults = {(fault.joint, fault.kind): fault.message for fault in self._monitor.faults}
        for fault in faults.keys() - self.faults.keys():
            self._notify(faults[fault])
        self.faults = faults

    def _missing(self, state: State, tau: Array | None) -> str:
        """Return which input is missing, or an empty string."""
        if state.v is None:
            return "unknown velocity of " + abbreviated(state.unknown)
        if tau is None:
            missing = self.robot.collector.missing_effort()
            return "unknown effort of " + abbreviated(missing) if missing else "no effort yet"
        if implausibility := self.implausibility(state.v, tau):
            return implausibility
        max_gap = self.settings.max_gap
        if behind := self.robot.collector.joints_behind(max_gap):
            return f"no states of {abbreviated(behind)} for longer than max_gap, {max_gap:g} s"
        return ""

    def interruption(self, stamp: int) -> str:
        if self._running and self._payload_changes != self.robot.payload_changes:
            return "the payload has changed"
        return super().interruption(stamp)

    def _compare(self, stamp: int) -> None:
        self.exceeded = self.thresholds.exceeded(self.external, self.speed)
        collision = bool(self.exceeded.any())
        if collision != self.collision or self._since is None:
            self.collision, self._since = collision, stamp


def thresholds(robot: RobotContext, values: Mapping[str, Any]) -> dyn_ros.Thresholds:
    """Return the specified thresholds; rows that are not published have none, nor has a base."""
    model = robot.model
    limit = np.where(
        (model.effort_limit > 0.0) & np.isfinite(model.effort_limit),
        values["thresholds.relative"] * model.effort_limit,
        values["thresholds.unlimited"],
    )
    fixed = np.full(model.nv, NONE)
    fixed[robot.rows] = limit[robot.rows]
    settings = ObserverSettings(**ObserverSettings.arguments_in(values))
    fixed = settings.of_velocities("thresholds_fixed", model, robot.rows, fixed)
    base = int(model.nvs[0]) if robot.moving_base else 0
    if len(settings.thresholds_fixed) < len(robot.names):
        fixed[:base] = NONE
    friction = friction_at_rest(model) if settings.friction else 0.0
    return dyn_ros.Thresholds(
        fixed,
        settings.of_velocities("thresholds_per_speed", model, robot.rows),
        settings.of_velocities("thresholds_at_rest", model, robot.rows, friction),
    )


def deviations(robot: RobotContext, values: Mapping[str, Any]) -> Array | None:
    """Return the deviations of external efforts, (nv,), `NONE` if not published; or None."""
    numbers = values["noise.external"]
    if not numbers:
        return None
    return row_values("noise.external", numbers, robot.model, robot.rows, NONE)


class ContactAverage:
    """Averages the force, in the world, and the line of action of a contact over a `duration` [s].

    The noise of the efforts turns the force of a single state by several degrees; a low pass of
    the efforts would distort it while the robot turns. Each contact counts by the inverse of its
    variance: while the link is uncertain, its force may be far off. The duration is a time
    constant; until it has passed, all contacts count. 0: none.
    """

    def __init__(self, duration: float) -> None:
        self.duration = duration
        self._force, self._point = _Mean(duration), _Mean(duration)
        self._link = ""

    def update(self, contact: IsolatedContact, stamp: int) -> IsolatedContact:
        """Return a contact with mean force and line of action; an undetermined one as it is."""
        if not contact.determined or self.duration <= 0.0:
            return contact
        force = self._force.update(contact.force, float(contact.covariance.trace()), stamp)
        if not contact.line_valid or self._link != contact.link:
            self._point = _Mean(self.duration)
        point = contact.point
        if contact.line_valid:
            point = self._point.update(point, contact.point_deviation**2, stamp)
            self._link = contact.link
        size = math.sqrt(float(force @ force))
        if size == 0.0:
            return contact
        return dataclasses.replace(
            contact, force=force, magnitude=size, direction=force / size, point=point
        )


class _Mean:
    """The mean of vectors, each weighted by the inverse of its variance."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._mean: Array | None = None
        self._weight = 0.0
        self._stamp = self._first = 0

    def update(self, value: Array, variance: float, stamp: int) -> Array:
        weight = 1.0 / max(variance, _LEAST_VARIANCE)
        if self._mean is None:
            self._mean, self._weight, self._first = value, weight, stamp
        else:
            dt, elapsed = 1e-9 * (stamp - self._stamp), 1e-9 * (stamp - self._first)
            if dt > 0.0:
                share = max(dt / (elapsed + dt), -math.expm1(-dt / self._duration))
                self._weight += share * (weight - self._weight)
                self._mean = self._mean + share * weight / self._weight * (value - self._mean)
        self._stamp = stamp
        return self._mean
