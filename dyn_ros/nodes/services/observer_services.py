# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of observer_node that record states before they respond."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from rclpy.parameter import Parameter

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.drives import with_torque_efforts
from dyn_ros.observer import thresholds
from dyn_ros.observer.fault_checks import is_unexplained
from dyn_ros.observer.robot_observer import common_delay
from dyn_ros.observer.thresholds import CalibratedThresholds
from dyn_ros.srv import CalibrateThresholds, EstimateEffortDelay, EstimatePayload, Tare

from ...states.joint_states import Rejected, abbreviate_names
from ..base.node_parameters import Spec
from ..base.service import Pending, Service
from ..messages import arrays, message_fields
from ..robot import RobotContext, parameter_errors
from ..robot.observation import Observation
from . import payload_weighing
from .model_services import MAX_NAME_LENGTH
from .state_recording import RecordedStates, Recorder, StateRecording, Task

if TYPE_CHECKING:  # importing it takes long, and few requests need it
    from dyn_ros import PayloadEstimate, Samples

BATCH_KERNELS = ("rnea", "joint_torque_regressor")
SPECS = (
    Spec(
        "calibration.duration",
        60.0,
        "Default duration of ~/calibrate and ~/estimate_delay [s].",
        limits=(0.1, 600.0),
    ),
    Spec(
        "calibration.false_alarms",
        thresholds.FALSE_ALARMS,
        "Default rate of false alarms for ~/calibrate [1/h].",
        limits=(1e-6, 1e6),
    ),
    Spec(
        "payload.duration", 1.0, "Default duration of ~/estimate_payload [s].", limits=(0.01, 600.0)
    ),
    Spec("tare.duration", 1.0, "Default duration of ~/tare [s].", limits=(0.01, 600.0)),
)
MAX_PAYLOAD_REQUESTS = 1000
MAX_REQUEST_DURATION = 600.0  # s
MAX_MOTION_DURATION = 60.0  # s; a longer motion between two requests is discarded


class Requests:
    """The services of a node that record states; at most one request does so at a time."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self.recording = StateRecording()
        # for ~/estimate_payload, since it was restarted
        self._measurements: list[Samples] = []
        self._measured_frame: tuple[Any, str] = None, ""  # robot and frame of the measurements
        self._request_count = 0  # requests with measurements
        self._motion_recorder: Recorder | None = None  # records the motion between two requests
        self.provided_services = (
            Service("~/calibrate", CalibrateThresholds, self.calibrate),
            Service("~/estimate_delay", EstimateEffortDelay, self.estimate_delay),
            Service("~/estimate_payload", EstimatePayload, self.estimate_payload),
            Service("~/tare", Tare, self.tare),
        )

    def _begin_recording(
        self,
        service: str,
        request: Any,
        parameter: str,
        only_settled: bool,
        compute: Callable[[RecordedStates], Any],
        respond: Callable[[Any, Any], None],
        min_duration: float = 0.0,
    ) -> Pending:
        """Record for the duration in the request or a parameter, at least `min_duration` [s]."""
        values, duration = self._node.parameters.values, request.duration
        if not math.isfinite(duration) or not 0.0 <= duration <= MAX_REQUEST_DURATION:
            raise Rejected(
                f"duration: expected 0 (the parameter), or up to {MAX_REQUEST_DURATION:g} s, "
                f"got {duration:g}"
            )
        duration = duration or values[parameter]
        if duration < min_duration:
            raise Rejected(f"duration: expected at least {min_duration:g} s, got {duration:g} s")
        return self.recording.begin(
            Task(service, duration, only_settled, compute, respond),
            self._node.steady_time(),
            values["max_gap"],
        )

    def _require_efforts(self) -> None:
        """Raise `Rejected` if the efforts of a joint have a fault."""
        faults = self._node.input_faults()
        if faults:
            raise Rejected("; ".join(faults) + "; correct this and call again")

    def _set_parameters(self, values: Mapping[str, Any]) -> None:
        """Set parameters of the node; raise `Rejected` if they are invalid."""
        result = self._node.set_parameters_atomically(
            [Parameter(name, value=value) for name, value in values.items()]
        )
        if not result.successful:
            raise Rejected(result.reason)

    def forget_measurements(self) -> None:
        """Discard the measurements of ~/estimate_payload, since the meaning of efforts changes."""
        self._measurements, self._motion_recorder, self._request_count = [], None, 0

    @property
    def needs_states(self) -> bool:
        """True if a request needs more states, now or later."""
        return self.recording.needs_states or self._motion_recorder is not None

    def add(self, stamp: int, observation: Observation) -> None:
        """Record a state with a stamp [ns] that has just been observed."""
        measured, sample = observation.measured, (observation.q, observation.v, observation.tau)
        if measured is None:
            return
        if self.recording.needs_states:
            external = observation.external if observation.valid else np.zeros_like(sample[2])
            self.recording.add(
                self._node.steady_time(),
                observation.valid,
                stamp,
                measured.q,
                measured.tau,
                *sample,
                external,
                observation.speed,
            )
        elif self._motion_recorder is not None:
            is_other_robot = observation.robot is not self._measured_frame[0]
            if is_other_robot or self._motion_recorder.duration > MAX_MOTION_DURATION:
                self._motion_recorder = None
            elif np.abs(observation.v).max(initial=0.0) > payload_weighing.MAX_MEAN_SPEED:
                self._motion_recorder.add(stamp, *sample)

    # --- thresholds

    def calibrate(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Propose thresholds from a motion without contact."""
        rate = request.false_alarms or self._node.parameters.values["calibration.false_alarms"]
        if not math.isfinite(rate) or rate < 0.0:
            raise Rejected(f"false_alarms: expected 0 (the parameter) or more, got {rate:g} [1/h]")
        rows = robot.rows
        friction = (
            thresholds.friction_at_rest(robot.model)[rows]
            * self._node.parameters.values["friction"]
        )

        def compute(recorded_states: RecordedStates) -> Any:
            *_, tau, r, v = recorded_states.columns
            unexplained = is_unexplained(robot.model, tau, r)[rows]
            v, r = v[:, rows], r[:, rows]
            dt = float(np.median(np.diff(recorded_states.time)))
            limits = dyn_ros.calibrate_thresholds(r, v, dt, rate, friction=friction)
            slow = np.sqrt(np.mean(v**2, axis=0)) < thresholds.REST_SPEED
            return (
                limits,
                len(r),
                [list(compress(robot.names, mask)) for mask in (slow, unexplained)],
            )

        def respond(result: Any, response: Any) -> None:
            self._require_efforts()
            limits, response.states, (slow, unexplained) = result
            response.joint = robot.names
            response.threshold = arrays.to_float64_field(limits.fixed)
            response.threshold_per_speed = arrays.to_float64_field(limits.per_speed)
            response.mean = arrays.to_float64_field(limits.mean)
            response.deviation = arrays.to_float64_field(limits.deviation)
            response.message = _calibration_warnings(limits, slow, unexplained)
            if request.apply:
                self._set_parameters(thresholds.calibrated_parameters(limits))

        return self._begin_recording(
            "~/calibrate",
            request,
            "calibration.duration",
            True,
            compute,
            respond,
            thresholds.MIN_DURATION,
        )

    # --- delay of the efforts

    def estimate_delay(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Estimate the delay of efforts behind positions and velocities."""
        model, declared = with_torque_efforts(robot.model), common_delay(robot.model)

        def compute(recorded_states: RecordedStates) -> Any:
            q, tau, *_ = recorded_states.columns
            return dyn_ros.estimate_effort_delay(model, recorded_states.time, q, tau)

        def respond(estimate: Any, response: Any) -> None:
            response.delay, response.deviation = estimate.delay, estimate.deviation
            response.states = estimate.states
            if request.apply:
                self._set_parameters({"effort_delay": response.delay - declared})

        return self._begin_recording(
            "~/estimate_delay", request, "calibration.duration", False, compute, respond
        )

    # --- payload

    def estimate_payload(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Estimate the payload from this request and earlier ones."""
        name = request.name or "estimated"
        if len(name) > MAX_NAME_LENGTH:
            raise Rejected(f"name: expected at most {MAX_NAME_LENGTH} characters, got {len(name)}")
        frame = request.frame or self._node.tip_frame(robot)
        with parameter_errors("frame"):
            index = robot.model.frame_index(frame)
        if robot.model.tree.frames[index].parent < 0:
            raise Rejected(f"frame: {frame!r:.80} is fixed; name one that moves")
        model = copy.copy(robot.model)
        if name in model.payloads:
            model.clear_payload(name)
        earlier = self._earlier_measurements(robot, frame, request.restart)
        motion = (
            self._motion_recorder.recorded_states() if earlier and self._motion_recorder else None
        )
        offset = -self._node.tare

        def compute(
            recorded_states: RecordedStates,
        ) -> tuple[list[Samples], PayloadEstimate | ValueError, int]:
            _, _, q, v, tau, *_ = recorded_states.columns
            measured = [
                *earlier,
                *payload_weighing.measure_motion(model, motion),
                payload_weighing.measure_payload(model, recorded_states.time, q, v, tau),
            ]
            try:
                return (
                    measured,
                    dyn_ros.identify_payload(
                        model, dyn_ros.Samples.concatenate(measured), frame, offset=offset
                    ),
                    len(recorded_states),
                )
            except ValueError as error:  # the next request uses these measurements
                return measured, error, len(recorded_states)

        def respond(result: Any, response: Any) -> None:
            self._require_efforts()
            measured, estimate, states = result
            if self._measured_frame == (robot, frame):
                self._measurements, self._request_count = measured, self._request_count + 1
                self._motion_recorder = Recorder(self._node.parameters.values["max_gap"])
            if isinstance(estimate, ValueError):
                # the message names an argument of the Python function
                reason = str(estimate).replace("samples: they", "the measurements")
                raise Rejected(
                    f"{reason.removeprefix('samples: ')}; {self._request_count} requests have been "
                    "measured so far; the next one adds to them"
                ) from estimate
            _fill_payload(response, estimate)
            response.requests, response.states = self._request_count, states
            response.message = payload_weighing.payload_warnings(estimate, bool(offset.any()))
            if request.apply and estimate.lower[0] > 0.0:
                robot.set_payload(name, frame, estimate.mass, estimate.com, estimate.inertia)
                response.applied = True
                self._motion_recorder = None

        return self._begin_recording(
            "~/estimate_payload", request, "payload.duration", False, compute, respond
        )

    def _earlier_measurements(
        self, robot: RobotContext, frame: str, restart: bool
    ) -> list[Samples]:
        """Return the measurements of earlier requests with the same robot and frame."""
        if restart or self._measured_frame != (robot, frame):
            self.forget_measurements()
            self._measured_frame = robot, frame
        if self._request_count >= MAX_PAYLOAD_REQUESTS:
            raise Rejected(
                f"{self._request_count} requests have been measured, the most that are used; "
                "set restart to begin again"
            )
        return list(self._measurements)

    # --- tare

    def tare(self, robot: RobotContext, request: Any, response: Any) -> Pending | None:
        """Subtract the current external efforts from later ones, or stop subtracting them."""
        node = self._node

        def respond(offset: Array, response: Any) -> None:
            if not request.clear:
                self._require_efforts()
            node.set_tare(robot, offset)
            response.joint, response.offset = (
                robot.names,
                arrays.to_float64_field(offset[robot.rows]),
            )

        if request.clear:
            respond(np.zeros(robot.model.nv), response)
            return None
        current_tare = node.tare.copy()
        return self._begin_recording(
            "~/tare",
            request,
            "tare.duration",
            True,
            lambda recorded_states: recorded_states.columns[5].mean(axis=0) + current_tare,
            respond,
        )


def _fill_payload(response: Any, estimate: PayloadEstimate) -> None:
    """Fill the fields of a response with a payload and its intervals."""
    response.inertia.header.frame_id = estimate.frame
    message_fields.set_inertia(
        response.inertia.inertia, dyn_ros.Inertia(estimate.mass, estimate.com, estimate.inertia)
    )
    response.mass_lower, response.mass_upper = float(estimate.lower[0]), float(estimate.upper[0])
    message_fields.set_vector(response.com_lower, *estimate.com_lower.tolist())
    message_fields.set_vector(response.com_upper, *estimate.com_upper.tolist())
    response.com_determined = {"m cx", "m cy", "m cz"} <= set(estimate.determined)
    response.inertia_determined = len(estimate.determined) == 10


def _calibration_warnings(
    limits: CalibratedThresholds, slow: Sequence[str], unexplained: Sequence[str]
) -> str:
    """Return warnings, given the names of joints that were `slow` or are `unexplained`."""
    warnings = []
    if unexplained:
        warnings.append(
            f"the model explains less than half of the efforts of {abbreviate_names(unexplained)}; "
            "check the model and its friction, whether the efforts of two joints are "
            "exchanged, and whether something touched the robot"
        )
    if slow:
        warnings.append(
            f"{abbreviate_names(slow)} moved slowly, so faster motions may cause false alarms"
        )
    if limits.extrapolated:
        warnings.append(
            f"extrapolated from {limits.duration:.0f} s to one false alarm in "
            f"{1.0 / limits.false_alarms:g} h; a longer recording can give lower "
            "thresholds"
        )
    if np.any(limits.at_rest > 0.0):
        warnings.append(
            "at rest, the Coulomb friction of the joints is added, as in the parameter "
            "thresholds.at_rest"
        )
    return "; ".join(warnings)
