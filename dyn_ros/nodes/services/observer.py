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

from ...states.joint_states import Rejected, abbreviated
from ..base.parameters import Spec
from ..base.service import Pending, Service
from ..messages import arrays, conversions
from ..robot import RobotContext, blamed_on
from ..robot.observation import Observation
from . import weighing
from .listening import Listening, Record, Recorder, Task
from .model import NAME_LENGTH

if TYPE_CHECKING:  # takes time to import and is used by few
    from dyn_ros import PayloadEstimate

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
MOST_POSES = 1000
LONGEST = 600.0  # that a request listens [s]
LONGEST_MOVE = 60.0  # of a motion between two requests that is recorded [s]


class Requests:
    """The services of a node that record states; at most one request does so at a time."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self.listening = Listening()
        self._poses: list[weighing.Measured] = []  # what ~/estimate_payload has measured
        self._poses_of: tuple[Any, str] = None, ""  # the robot and the frame for which
        self._requests = 0  # that have measured it
        self._moves: Recorder | None = None  # the motion since the last of these
        self.offers = (
            Service("~/calibrate", CalibrateThresholds, self.calibrate),
            Service("~/estimate_delay", EstimateEffortDelay, self.estimate_delay),
            Service("~/estimate_payload", EstimatePayload, self.estimate_payload),
            Service("~/tare", Tare, self.tare),
        )

    def _begin(
        self,
        service: str,
        request: Any,
        parameter: str,
        settled: bool,
        compute: Callable[[Record], Any],
        respond: Callable[[Any, Any], None],
        shortest: float = 0.0,
    ) -> Pending:
        """Record for the duration in the request or a parameter, at least the shortest time [s]."""
        values, duration = self._node.parameters.values, request.duration
        if not math.isfinite(duration) or not 0.0 <= duration <= LONGEST:
            raise Rejected(
                f"duration: expected 0 (the parameter), or up to {LONGEST:g} s, got {duration:g}"
            )
        duration = duration or values[parameter]
        if duration < shortest:
            raise Rejected(f"duration: expected at least {shortest:g} s, got {duration:g} s")
        return self.listening.begin(
            Task(service, duration, settled, compute, respond),
            self._node.steady_time(),
            values["max_gap"],
        )

    def _require_efforts(self) -> None:
        """Raise `Rejected` if the efforts of a joint have a fault."""
        faults = self._node.faults()
        if faults:
            raise Rejected("; ".join(faults) + "; correct this and call again")

    def _set(self, values: Mapping[str, Any]) -> None:
        """Set parameters."""
        result = self._node.set_parameters_atomically(
            [Parameter(name, value=value) for name, value in values.items()]
        )
        if not result.successful:
            raise Rejected(result.reason)

    def forget(self) -> None:
        """Forget what ~/estimate_payload has measured, with other efforts than from now on."""
        self._poses, self._moves, self._requests = [], None, 0

    @property
    def listens(self) -> bool:
        """Whether a request needs more states, now or later."""
        return self.listening.listens or self._moves is not None

    def add(self, stamp: int, observation: Observation) -> None:
        """Take a state with a stamp [ns] that has just been observed."""
        measured, sample = observation.measured, (observation.q, observation.v, observation.tau)
        if measured is None:
            return
        if self.listening.listens:
            external = observation.external if observation.valid else np.zeros_like(sample[2])
            self.listening.add(
                self._node.steady_time(),
                observation.valid,
                stamp,
                measured.q,
                measured.tau,
                *sample,
                external,
                observation.speed,
            )
        elif self._moves is not None:
            is_other = observation.robot is not self._poses_of[0]
            if is_other or self._moves.duration > LONGEST_MOVE:
                self._moves = None
            elif np.abs(observation.v).max(initial=0.0) > weighing.SLOW:
                self._moves.add(stamp, *sample)

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

        def compute(record: Record) -> Any:
            *_, tau, r, v = record.columns
            wrong = is_unexplained(robot.model, tau, r)[rows]
            v, r = v[:, rows], r[:, rows]
            dt = float(np.median(np.diff(record.time)))
            limits = dyn_ros.calibrate_thresholds(r, v, dt, rate, friction=friction)
            slow = np.sqrt(np.mean(v**2, axis=0)) < thresholds.REST_SPEED
            return limits, len(r), [list(compress(robot.names, some)) for some in (slow, wrong)]

        def respond(result: Any, response: Any) -> None:
            self._require_efforts()
            limits, response.states, (slow, wrong) = result
            response.joint = robot.names
            response.threshold = arrays.numbers(limits.fixed)
            response.threshold_per_speed = arrays.numbers(limits.per_speed)
            response.mean = arrays.numbers(limits.mean)
            response.deviation = arrays.numbers(limits.deviation)
            response.message = _caveats(limits, slow, wrong)
            if request.apply:
                self._set(thresholds.calibrated_parameters(limits))

        return self._begin(
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

        def compute(record: Record) -> Any:
            q, tau, *_ = record.columns
            return dyn_ros.estimate_effort_delay(model, record.time, q, tau)

        def respond(estimate: Any, response: Any) -> None:
            response.delay, response.deviation = estimate.delay, estimate.deviation
            response.states = estimate.states
            if request.apply:
                self._set({"effort_delay": response.delay - declared})

        return self._begin(
            "~/estimate_delay", request, "calibration.duration", False, compute, respond
        )

    # --- payload

    def estimate_payload(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Estimate the payload from this request and earlier ones."""
        name = request.name or "estimated"
        if len(name) > NAME_LENGTH:
            raise Rejected(f"name: expected at most {NAME_LENGTH} characters, got {len(name)}")
        frame = request.frame or self._node.tip(robot)
        with blamed_on("frame"):
            index = robot.model.frame_index(frame)
        if robot.model.tree.frames[index].parent < 0:
            raise Rejected(f"frame: {frame!r:.80} is fixed; name one that moves")
        model = copy.copy(robot.model)
        if name in model.payloads:
            model.clear_payload(name)
        earlier = self._earlier(robot, frame, request.restart)
        moves = self._moves.record() if earlier and self._moves else None
        offset = -self._node.tare

        def compute(
            record: Record,
        ) -> tuple[list[weighing.Measured], PayloadEstimate | ValueError, int]:
            _, _, q, v, tau, *_ = record.columns
            measured = [
                *earlier,
                *weighing.move_in(model, moves),
                weighing.measured_in(model, record.time, q, v, tau),
            ]
            try:
                return measured, weighing.weigh(model, measured, frame, offset), len(record)
            except ValueError as error:  # what has been measured counts in the next request
                return measured, error, len(record)

        def respond(result: Any, response: Any) -> None:
            self._require_efforts()
            measured, estimate, states = result
            if self._poses_of == (robot, frame):
                self._poses, self._requests = measured, self._requests + 1
                self._moves = Recorder(self._node.parameters.values["max_gap"])
            if isinstance(estimate, ValueError):
                raise Rejected(
                    f"{estimate}; {self._requests} requests have been measured so far; "
                    "the next one adds to them"
                ) from estimate
            _fill_payload(response, estimate)
            response.requests, response.states = self._requests, states
            response.message = weighing.advice(estimate, bool(offset.any()))
            if request.apply and estimate.lower[0] > 0.0:
                robot.set_payload(name, frame, estimate.mass, estimate.com, estimate.inertia)
                response.applied = True
                self._moves = None

        return self._begin(
            "~/estimate_payload", request, "payload.duration", False, compute, respond
        )

    def _earlier(self, robot: RobotContext, frame: str, restart: bool) -> list[weighing.Measured]:
        """Return what earlier requests have measured with this robot and frame."""
        if restart or self._poses_of != (robot, frame):
            self.forget()
            self._poses_of = robot, frame
        if self._requests >= MOST_POSES:
            raise Rejected(
                f"{self._requests} requests have been measured, the most that are used; "
                "set restart to begin again"
            )
        return list(self._poses)

    # --- tare

    def tare(self, robot: RobotContext, request: Any, response: Any) -> Pending | None:
        """Subtract the current external efforts from now on, or stop doing so."""
        node = self._node

        def respond(offset: Array, response: Any) -> None:
            if not request.clear:
                self._require_efforts()
            node.set_tare(robot, offset)
            response.joint, response.offset = robot.names, arrays.numbers(offset[robot.rows])

        if request.clear:
            respond(np.zeros(robot.model.nv), response)
            return None
        before = node.tare.copy()
        return self._begin(
            "~/tare",
            request,
            "tare.duration",
            True,
            lambda record: record.columns[5].mean(axis=0) + before,
            respond,
        )


def _fill_payload(response: Any, estimate: PayloadEstimate) -> None:
    response.inertia.header.frame_id = estimate.frame
    conversions.set_inertia(
        response.inertia.inertia, dyn_ros.Inertia(estimate.mass, estimate.com, estimate.inertia)
    )
    response.mass_lower, response.mass_upper = float(estimate.lower[0]), float(estimate.upper[0])
    conversions.set_vector(response.com_lower, *estimate.com_lower.tolist())
    conversions.set_vector(response.com_upper, *estimate.com_upper.tolist())
    response.com_determined = {"m cx", "m cy", "m cz"} <= set(estimate.determined)
    response.inertia_determined = len(estimate.determined) == 10


def _caveats(limits: CalibratedThresholds, slow: Sequence[str], wrong: Sequence[str]) -> str:
    """Return what limits the calibration, given joints that are `slow` or badly explained."""
    text = []
    if wrong:
        text.append(
            f"the model explains less than half of the efforts of {abbreviated(wrong)}; "
            "check the model and its friction, whether the efforts of two joints are "
            "exchanged, and whether something touched the robot"
        )
    if slow:
        text.append(f"{abbreviated(slow)} moved slowly, so faster motions may cause false alarms")
    if limits.extrapolated:
        text.append(
            f"extrapolated from {limits.duration:.0f} s to one false alarm in "
            f"{1.0 / limits.false_alarms:g} h; a longer recording can give lower "
            "thresholds"
        )
    if np.any(limits.at_rest > 0.0):
        text.append(
            "at rest, the Coulomb friction of the joints is added, as in the parameter "
            "thresholds.at_rest"
        )
    return "; ".join(text)
