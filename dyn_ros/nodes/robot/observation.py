# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The observer of a robot's external efforts, fed with its states, and averages of a contact."""

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

from ...states.joint_states import Rejected, State, abbreviate_names
from .context import RobotContext, SettingError

NO_THRESHOLD = 1e12  # N m, N; for rows without a threshold
_MIN_THRESHOLD = 1e-6  # N m, N; keeps ratios to thresholds finite
_MIN_VARIANCE = 1e-18  # N2, m2; keeps weights finite


class Observation(RobotObserver):
    """The observer of one robot, fed with its states; compares the results with thresholds.

    It also restarts after a change of payloads. `notify(text)` is called with lines to log: why
    the observer restarts, and faults of efforts. `exceeded` (nv,) is True in rows whose external
    effort exceeds its threshold, and `collision` if there are any; `tare` (nv,) is subtracted from
    the external effort. `faults` has error messages by joint and kind of fault.
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
        self._change_stamp: int | None = None  # ns; last change of `collision`
        self._payload_changes = robot.payload_changes
        self.faults: dict[tuple[str, Kind], str] = {}
        self.adjust(values)

    def adjust(self, values: Mapping[str, Any]) -> None:
        """Set the thresholds and the noise from the parameters."""
        self.thresholds = read_thresholds(self.robot, values)
        self._noise = effort_deviations(self.robot, values)

    def covariance(self) -> Array:
        """Return the covariance of the errors of `external`, (nv, nv)."""
        if self._noise is not None:
            return np.diag(self._noise**2)
        if self.settings.method == "kalman":
            covariance = self.result_filter("external").observer.covariance
            assert covariance is not None
            return covariance
        return np.diag((self.positive_thresholds() / 3.0) ** 2)

    def positive_thresholds(self) -> Array:
        """Return the thresholds of the latest state, (nv,), all positive."""
        return np.maximum(self.thresholds.of(self.speed), _MIN_THRESHOLD)

    def time_since_change(self, stamp: int) -> int:
        """Return the time from the last change of `collision` to a stamp [ns]."""
        return max(stamp - self._change_stamp, 0) if self._change_stamp is not None else 0

    def collision_is_settling(self, stamp: int) -> bool:
        """Return True if the external efforts of a collision have not settled at a stamp [ns]."""
        return self.collision and 1e-9 * self.time_since_change(stamp) < self.settling_time

    def pause(self) -> None:
        """Stop, while nobody needs results, and forget problems."""
        self.stop()
        self.problem, self.faults = "", {}

    def stop(self) -> None:
        """Discard the current results."""
        super().stop()
        self.collision, self._change_stamp = False, None

    def begin(self) -> None:
        """Start with the current payloads."""
        super().begin()
        self._payload_changes = self.robot.payload_changes
        self._monitor.reset()

    def observe(self, state: State, with_residual: bool) -> None:
        """Process a state; compute also the residual if `with_residual`."""
        tau = None if state.effort is None else self.to_torque(state.effort)
        result = self.update(
            state.stamp,
            state.q,
            state.v,
            tau,
            self._missing_input(state, tau),
            residual=with_residual,
        )
        if result is None:
            return
        self.external = self.external - self.tare
        if self.valid:
            self._compare_with_thresholds(state.stamp)
        observed, dt = result
        if self._monitor.update(self.q, self.v, self.tau, observed, dt):
            self._report_faults()

    def _report_faults(self) -> None:
        """Update `faults`, and log the new ones."""
        faults = {(fault.joint, fault.kind): fault.message for fault in self._monitor.faults}
        for key in faults.keys() - self.faults.keys():
            self._notify(faults[key])
        self.faults = faults

    def _missing_input(self, state: State, tau: Array | None) -> str:
        """Return the reason why a state cannot be used, or an empty string."""
        if fault := self.robot.collector.jumps.fault():
            return fault
        if state.v is None:
            return "unknown velocity of " + abbreviate_names(state.unknown)
        for conflict in self.robot.effort_conflicts().values():
            return conflict
        if tau is None:
            missing = self.robot.collector.missing_effort()
            return "unknown effort of " + abbreviate_names(missing) if missing else "no effort yet"
        if implausibility := self.implausibility(state.v, tau):
            return implausibility
        max_gap = self.settings.max_gap
        if behind := self.robot.collector.joints_behind(max_gap):
            return f"no states of {abbreviate_names(behind)} for longer than max_gap, {max_gap:g} s"
        return ""

    def interruption(self, stamp: int) -> str:
        """Return why the observer must restart at a stamp [ns], or an empty string."""
        if self._running and self._payload_changes != self.robot.payload_changes:
            return "the payload has changed"
        return super().interruption(stamp)

    def _compare_with_thresholds(self, stamp: int) -> None:
        """Update `exceeded`, `collision` and the stamp of its last change."""
        self.exceeded = self.thresholds.exceeded(self.external, self.speed)
        collision = bool(self.exceeded.any())
        if collision != self.collision or self._change_stamp is None:
            self.collision, self._change_stamp = collision, stamp


def read_thresholds(robot: RobotContext, values: Mapping[str, Any]) -> dyn_ros.Thresholds:
    """Return the thresholds of the parameters: none for unpublished rows, nor for a moving base."""
    model = robot.model
    defaults = np.where(
        (model.effort_limit > 0.0) & np.isfinite(model.effort_limit),
        values["thresholds.relative"] * model.effort_limit,
        values["thresholds.unlimited"],
    )
    fixed = np.full(model.nv, NO_THRESHOLD)
    fixed[robot.rows] = defaults[robot.rows]
    settings = ObserverSettings(**ObserverSettings.arguments_in(values))
    fixed = settings.velocity_values("thresholds_fixed", model, robot.rows, fixed)
    base_nv = int(model.nvs[0]) if robot.has_moving_base else 0
    if len(settings.thresholds_fixed) < len(robot.names):
        fixed[:base_nv] = NO_THRESHOLD
    friction = friction_at_rest(model) if settings.friction else 0.0
    return dyn_ros.Thresholds(
        fixed,
        settings.velocity_values("thresholds_per_speed", model, robot.rows),
        settings.velocity_values("thresholds_at_rest", model, robot.rows, friction),
    )


def effort_deviations(robot: RobotContext, values: Mapping[str, Any]) -> Array | None:
    """Return the standard deviations of external efforts, (nv,), or None if not specified.

    Rows that are not published have `NO_THRESHOLD`.
    """
    numbers = values["noise.external"]
    if not numbers:
        return None
    return row_values("noise.external", numbers, robot.model, robot.rows, NO_THRESHOLD)


class ContactAverage:
    """Average of the force, in the world, and of the line of action of a contact.

    The noise of the efforts turns the force of a single state by several degrees; a low-pass filter
    of the efforts would distort it while the robot turns. Each contact is weighted by the inverse
    of its variance, since its force may have a large error while the link is uncertain. `duration`
    is a time constant [s], 0: no average. Until it has passed, the average covers all contacts.
    """

    def __init__(self, duration: float) -> None:
        self.duration = duration
        self._force, self._point = _WeightedMean(duration), _WeightedMean(duration)
        self._link = ""

    def update(self, contact: IsolatedContact, stamp: int) -> IsolatedContact:
        """Return a contact with the average force and line of action; unchanged if undetermined."""
        if not contact.determined or self.duration <= 0.0:
            return contact
        force = self._force.update(contact.force, float(contact.covariance.trace()), stamp)
        if not contact.line_valid or self._link != contact.link:
            self._point = _WeightedMean(self.duration)
        point = contact.point
        if contact.line_valid:
            point = self._point.update(point, contact.point_deviation**2, stamp)
            self._link = contact.link
        magnitude = math.sqrt(float(force @ force))
        if magnitude == 0.0:
            return contact
        return dataclasses.replace(
            contact, force=force, magnitude=magnitude, direction=force / magnitude, point=point
        )


class _WeightedMean:
    """Exponential average of vectors, weighted by the inverse of their variances."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._mean: Array | None = None
        self._weight = 0.0
        self._stamp = self._first_stamp = 0

    def update(self, value: Array, variance: float, stamp: int) -> Array:
        """Return the average including a value with a stamp [ns]."""
        weight = 1.0 / max(variance, _MIN_VARIANCE)
        if self._mean is None:
            self._mean, self._weight, self._first_stamp = value, weight, stamp
        else:
            dt, elapsed = 1e-9 * (stamp - self._stamp), 1e-9 * (stamp - self._first_stamp)
            if dt > 0.0:
                share = max(dt / (elapsed + dt), -math.expm1(-dt / self._duration))
                self._weight += share * (weight - self._weight)
                self._mean = self._mean + share * weight / self._weight * (value - self._mean)
        self._stamp = stamp
        return self._mean
