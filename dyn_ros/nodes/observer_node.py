# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimates from measured efforts what the environment exerts on a robot."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import ExternalContact

from . import observer_parameters
from .base.dispatch import Compute, effort_writer
from .base.robot_node import Output, RobotNode, run_node
from .markers.observer_markers import OBSERVER
from .messages import message_fields
from .messages.frame_ids import axes_rotation
from .observer_parameters import RESTARTING_PARAMETERS, SPECS
from .robot import DynamicsTerms, RobotContext, State, once_per_state
from .robot.observation import ContactAverage, Observation, effort_deviations, read_thresholds
from .services import model_services, observer_services

RESIDUALS = frozenset({"~/residual", "~/residual_without_friction"})


class ObserverNode(RobotNode):
    """Publishes external efforts, wrenches and contacts; calibrates, and weighs payloads."""

    kernels: tuple[str, ...] = (
        "momentum_observer_step",
        "momentum_terms",
        "crba",
        "nonlinear_effects",
        "generalized_gravity",
        "joint_jacobians",
        "frame_jacobian",
        "all_terms",
    )
    batch_kernels = observer_services.BATCH_KERNELS
    markers = OBSERVER
    specs = SPECS
    checks = (
        (
            RESTARTING_PARAMETERS | {"drives"},
            lambda robot, values: Observation(robot, values, lambda text: None),
        ),
        ([spec.name for spec in SPECS if spec.name.startswith("thresholds.")], read_thresholds),
        (("noise.external",), effort_deviations),
        (("tip_frame", "wrench_axes"), observer_parameters.wrench_frames),
    )

    def __init__(self, name: str, robot_owner: RobotNode | None = None, **kwargs: Any) -> None:
        self.requests = observer_services.Requests(self)
        self.outputs = (
            Output("~/external_efforts", JointState, self._make_external_efforts),
            Output("~/external_wrench", WrenchStamped, self._make_external_wrench, ("oMf",)),
            Output("~/contacts", ExternalContact, self._make_contacts, ("oMf",)),
            Output("~/residual", JointState, self._make_residual),
            Output("~/residual_without_friction", JointState, self._make_residual_without_friction),
        )
        self.provided_services = (*self.requests.provided_services, *model_services.SERVICES)
        self._observation: Observation | None = None
        self._average = ContactAverage(0.0)
        self._subscribed_topics: frozenset[str] = frozenset()  # topics that have subscribers
        self._setting_error = ""  # error of a parameter that does not fit the robot
        self._setting_error_source: tuple[Any, int] = None, -1  # robot, parameters.changes
        self._tare: tuple[Any, Array] = None, np.zeros(0)
        super().__init__(name, robot_owner, **kwargs)

    # --- lifecycle and parameters

    def on_stop(self) -> None:
        """End a request that records states, and discard the observer's results."""
        super().on_stop()
        self.requests.recording.abort("the node stops")
        self._observation = None

    def end(self) -> None:
        """End the thread that computes results of requests."""
        super().end()
        self.requests.recording.close()

    def parameters_changed(self, changed: Set[str]) -> None:
        """Apply changed parameters; restart the observer if they require it."""
        super().parameters_changed(changed)
        if RESTARTING_PARAMETERS & changed:
            self.requests.recording.abort("parameters of the observer have changed")
            if {"effort_constant", "effort_delay"} & changed:
                self.requests.forget_measurements()
            self._observation = None
        elif self._observation:
            self._observation.adjust(self.parameters.values)

    def tip_frame(self, robot: RobotContext) -> str:
        """Return the frame where the external wrench acts; raise a ValueError if there is none."""
        return observer_parameters.tip_frame(robot, self.parameters.values["tip_frame"])

    @property
    def tare(self) -> Array:
        """Offsets that are subtracted from the external efforts, (nv,)."""
        robot, offset = self._tare
        if robot is self.robot:
            return offset
        return np.zeros(self.robot.model.nv if self.robot else 0)

    def set_tare(self, robot: RobotContext, offset: Array) -> None:
        """Subtract these offsets, (nv,), from now on."""
        self._tare = robot, offset
        if self._observation and self._observation.robot is robot:
            self._observation.tare = offset

    # --- states

    def steady_time(self) -> float:
        """Return the time [s] of a clock that never jumps."""
        return time.monotonic()

    def required_state_reads(self, now: float) -> Iterable[str] | None:
        """Return "effort" if a topic or a request needs states; otherwise pause the observer."""
        recording = self.requests.recording
        if recording.active:
            recording.poll(self.steady_time(), self._unusable_reason())
        self._subscribed_topics = self.dispatch.recently_subscribed_topics(now)
        if self.requests.needs_states or self._subscribed_topics:
            return ("effort",)
        if self._observation:
            self._observation.pause()
        return None

    def on_state(self, robot: RobotContext, state: State) -> None:
        """Feed the observer with a state, and pass the result to requests."""
        observation = self._observation_for(robot)
        if observation is None:
            return
        observation.observe(state, not RESIDUALS.isdisjoint(self._subscribed_topics))
        if self.requests.needs_states:
            self.requests.add(state.stamp, observation)

    def _observation_for(self, robot: RobotContext) -> Observation | None:
        """Return the observation of a robot, or None if a parameter does not fit it."""
        if self._observation and self._observation.robot is robot:
            return self._observation
        if self._setting_error_source == (robot, self.parameters.changes):
            return None
        if self._observation:
            self.requests.recording.abort("there is a new robot")
        self._observation = None
        try:
            self._observation = Observation(robot, self.parameters.values, self._log)
            self._observation.tare = self.tare
            self._setting_error, self._setting_error_source = "", (None, -1)
        except ValueError as error:
            self._setting_error, self._setting_error_source = (
                str(error),
                (robot, self.parameters.changes),
            )
        return self._observation

    def _log(self, text: str) -> None:
        """Log a line of the observer; a jump also ends a request that records states."""
        self.report.log(text.split(":")[0], text)
        if "jumped" in text or "alternates" in text:
            self.requests.recording.abort(text)

    def input_faults(self) -> Sequence[str]:
        """Return the faults of measured efforts."""
        return list(self._observation.faults.values()) if self._observation else []

    def _missing_efforts_reason(self) -> str:
        """Return why there are no external efforts, or an empty string."""
        if self._observation is None:
            return self._setting_error
        return self._observation.problem

    def _unusable_reason(self) -> str:
        """Return why a request cannot use the states, or an empty string."""
        if self._observation and self._observation.is_settling:
            return "the observer has not settled"
        return self._missing_efforts_reason()

    def waiting_reason(self) -> str:
        """Return why outputs are not published, also missing efforts, or an empty string."""
        waiting = super().waiting_reason()
        if waiting or not (
            self.dispatch.subscribed_topics() or self.requests.recording.needs_states
        ):
            return waiting
        reason = self._missing_efforts_reason()
        if reason:
            return f"nothing is published: {reason}"
        if "~/external_wrench" in self.dispatch.subscribed_topics():
            assert self.robot is not None
            try:
                observer_parameters.wrench_frames(self.robot, self.parameters.values)
            except ValueError as error:
                return f"no ~/external_wrench: {error}"
        return ""

    def diagnose(self, busy: str = "") -> None:
        """End a request that waits for states in vain; publish diagnostics."""
        if self.requests.recording.active:
            self.guard(
                "diagnose",
                self.requests.recording.poll,
                self.steady_time(),
                self.waiting_reason() or self._unusable_reason() or "no states",
            )
        super().diagnose(busy)

    def diagnostic_values(self) -> dict[str, str]:
        """Return the state of the observer and of a request that records states."""
        observation = self._observation
        label = self._missing_efforts_reason() or "idle"
        if observation and observation.valid:
            label = "running"
        elif observation and observation.is_settling:
            label = "settling"
        return {
            "observer": label,
            "observer starts": str(observation.restarts if observation else 0),
            "effort faults": "; ".join(self.input_faults()),
            "collision": ""
            if super().waiting_reason()
            else str(bool(observation and observation.collision)).lower(),
            "service": self.requests.recording.status,
        }

    # --- outputs

    def valid_observation(self, robot: RobotContext, flag: str = "valid") -> Observation | None:
        """Return the observation of the latest state of a robot if its flag is set, or None."""
        observation = self._observation
        if observation and observation.robot is robot and getattr(observation, flag):
            return observation
        return None

    def _make_external_efforts(self, robot: RobotContext) -> Compute:
        """Prepare `~/external_efforts`: efforts that the environment exerts on the joints."""
        return self._make_effort_writer(robot, "external", "valid")

    def _make_residual(self, robot: RobotContext) -> Compute:
        """Prepare `~/residual`: measured minus modeled effort, through the same filters."""
        return self._make_effort_writer(robot, "residual", "residual_valid")

    def _make_residual_without_friction(self, robot: RobotContext) -> Compute:
        """Prepare `~/residual_without_friction`: the residual of a model without friction."""
        return self._make_effort_writer(robot, "frictionless", "residual_valid")

    def _make_effort_writer(self, robot: RobotContext, attribute: str, flag: str) -> Compute:
        """Prepare a topic with an attribute of the observation, if its flag is set."""

        def efforts(state: State, terms: DynamicsTerms) -> Array | None:
            observation = self.valid_observation(robot, flag)
            return None if observation is None else getattr(observation, attribute)

        return effort_writer(robot, efforts)

    @once_per_state
    def external_wrench(self, robot: RobotContext, state: State) -> Any:
        """Return the wrench at the tip, a `dyn_ros.ExternalWrench` in its axes, or None."""
        observation = self.valid_observation(robot)
        if observation is None:
            return None
        try:
            frame = self.tip_frame(robot)
        except ValueError:  # reported by waiting_reason
            return None
        covariance = observation.covariance()
        # lever arm in the units of efforts weighted by their covariance
        damping = self.parameters.values["damping"] * math.sqrt(
            len(covariance) / covariance.trace()
        )
        try:
            estimate = dyn_ros.external_wrench(
                robot.model,
                robot.data,
                observation.q,
                observation.external,
                frame,
                covariance=covariance,
                damping=damping,
            )
            return estimate if np.isfinite(estimate.wrench).all() else None
        except ValueError as error:
            self.reject("external_wrench", error)
            return None

    def _make_external_wrench(self, robot: RobotContext) -> Compute:
        """Prepare `~/external_wrench`: the wrench at the tip that explains the external efforts."""
        message = WrenchStamped()
        wrench_frames = lru_cache(1)(
            lambda changes: observer_parameters.wrench_frames(robot, self.parameters.values)
        )

        def compute(state: State, terms: DynamicsTerms) -> WrenchStamped | None:
            estimate = self.external_wrench(robot, state)
            if estimate is None:
                return None
            try:
                frame, axes = wrench_frames(self.parameters.changes)
            except ValueError:  # reported by waiting_reason
                return None
            message.header.frame_id = (
                robot.world_frame if axes is None else robot.model.frame_names[axes]
            )
            R = axes_rotation(axes, terms.oMf).T @ terms.oMf[frame, :3, :3]
            force, torque = (R @ estimate.wrench[:3]).tolist(), (R @ estimate.wrench[3:]).tolist()
            message_fields.set_vector(message.wrench.force, *force)
            message_fields.set_vector(message.wrench.torque, *torque)
            return message

        return compute

    @once_per_state
    def contact(self, robot: RobotContext, state: State) -> Any:
        """Return the isolated contact, a `dyn_ros.IsolatedContact`, or None without collision."""
        observation = self.valid_observation(robot)
        if observation is None or not observation.collision:
            return None
        try:
            contact = dyn_ros.isolate_contact(
                robot.model,
                robot.data,
                observation.q,
                observation.external,
                observation.positive_thresholds(),
                covariance=observation.covariance(),
            )
        except ValueError as error:
            self.reject("contacts", error)
            return None
        if observation.collision_is_settling(state.stamp):
            self._average = ContactAverage(self.parameters.values["contact_averaging"])
            return contact
        return self._average.update(contact, state.stamp)

    def _make_contacts(self, robot: RobotContext) -> Compute:
        """Prepare `~/contacts`: whether something touches the robot, and where."""
        message = ExternalContact()
        names = np.array(robot.model.velocity_names)

        def compute(state: State, terms: DynamicsTerms) -> ExternalContact | None:
            observation = self.valid_observation(robot)
            if observation is None:
                return None
            message.header.frame_id = robot.world_frame
            message.collision = observation.collision
            message.since.sec, message.since.nanosec = divmod(
                observation.time_since_change(state.stamp), 1_000_000_000
            )
            message.joint = names[observation.exceeded].tolist()
            _fill_contact(message, self.contact(robot, state))
            return message

        return compute


def _fill_contact(message: ExternalContact, contact: Any) -> None:
    """Fill a message from an isolated contact; without one (None), with NaN and empty fields."""
    nan_vector = (math.nan,) * 3
    message.link = contact.link or "" if contact else ""
    message.explained = bool(contact and contact.explained)
    message.possible_links = list(contact.possible_links) if contact else []
    message.force = float(contact.magnitude) if contact else math.nan
    message.force_deviation = float(contact.deviation) if contact else math.nan
    message.line_valid = bool(contact and contact.line_valid)
    message_fields.set_vector(
        message.direction, *(contact.direction.tolist() if contact else nan_vector)
    )
    message_fields.set_vector(message.point, *(contact.point.tolist() if contact else nan_vector))


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    return run_node(ObserverNode, "observer", args)


if __name__ == "__main__":
    raise SystemExit(main())
