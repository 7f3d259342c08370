# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of observer_node that listen to the robot before they respond."""
from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rclpy.parameter import Parameter

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.observer import thresholds
from dyn_ros.observer.fault_checks import is_unexplained
from dyn_ros.observer.session import Measurement
from dyn_ros.srv import CalibrateThresholds, EstimateEffortDelay, EstimatePayload, Tare

from ...states.joint_states import Rejected, abbreviated
from ..base.parameters import Spec
from ..base.robot import RobotContext
from ..messages import conversions
from .dynamics import NAME_LENGTH
from .listening import Listening, Record, Recorder, Task, listening_time
from .service import Pending, Service, numbers

if TYPE_CHECKING:
    from dyn_ros import PayloadEstimate, Samples
    from dyn_ros.observer.thresholds import CalibratedThresholds

    from ..observer_node import ObserverNode

BATCH_KERNELS = ("rnea", "joint_torque_regressor")
SPECS = (
    Spec("calibration.duration", 60.0,
         "How long ~/calibrate and ~/estimate_delay listen, unless the request specifies it [s].",
         limits=(0.1, 600.0)),
    Spec("calibration.false_alarms", 0.1,
         "Rate of false alarms that ~/calibrate aims at, unless the request specifies it [1/h].",
         limits=(1e-6, 1e6)),
    Spec("payload.duration", 1.0,
         "How long ~/estimate_payload listens, unless the request specifies it [s].",
         limits=(0.01, 600.0)),
    Spec("tare.duration", 1.0, "How long ~/tare listens, unless the request specifies it [s].",
         limits=(0.01, 600.0)),
)
AT_REST = 1e-3      # a pose: no coordinate moves by more [rad, m]
SLOW = 0.01         # and none is faster on average [rad/s, m/s]
MOST_POSES = 1000
LONGEST_MOVE = 60.0     # of a motion between two requests that is recorded [s]
MOST_OF_MOVE = 4000     # states that are kept of it
_UNCERTAIN = 0.2    # width of the interval of a mass, relative to it
_LEAST_NOISE = 1e-6     # N m, N
_SYSTEMATIC = 1e-3  # error of a mean effort, relative to it


class Requests:
    """The services of a node that listen; at most one request listens at a time.

    Parameters
    ----------
    node : ObserverNode
    """

    def __init__(self, node: ObserverNode) -> None:
        self._node = node
        self.listening = Listening()
        self._poses: list[Measured] = []               # what ~/estimate_payload has measured
        self._poses_of: tuple[Any, str] = None, ""  # the robot and the frame for which
        self._requests = 0                              # that have measured it
        self._moves: Recorder | None = None             # the motion since the last of these
        self.offers = (
            Service("~/calibrate", CalibrateThresholds, self.calibrate),
            Service("~/estimate_delay", EstimateEffortDelay, self.estimate_delay),
            Service("~/estimate_payload", EstimatePayload, self.estimate_payload),
            Service("~/tare", Tare, self.tare))

    def _duration(self, requested: float, parameter: str) -> float:
        return listening_time(requested, self._node.parameters.values[parameter])

    def _begin(self, *task: Any) -> Pending:
        return self.listening.begin(Task(*task), self._node.steady_time(),
                                    self._node.parameters.values["max_gap"])

    def _require_efforts(self) -> None:
        """Raise `Rejected` if the efforts of a joint are known to be wrong."""
        faults = self._node.faults()
        if faults:
            raise Rejected("; ".join(faults) + "; correct it and call again")

    def _set(self, **values: Any) -> None:
        """Set parameters, whose dots are written as two underscores."""
        result = self._node.set_parameters_atomically([
            Parameter(name.replace("__", "."), value=value) for name, value in values.items()])
        if not result.successful:
            raise Rejected(result.reason)

    def forget(self) -> None:
        """Forget what ~/estimate_payload has measured, with other efforts than from now on."""
        self._poses, self._moves, self._requests = [], None, 0

    @property
    def listens(self) -> bool:
        """Whether a request needs more states, now or later."""
        return self.listening.listens or self._moves is not None

    def add(self, robot: RobotContext, stamp: int, measurement: Measurement,
            external: Array | None) -> None:
        """Take a state: the external efforts are None if they are unknown."""
        q, tau, sample = measurement
        if self.listening.listens:
            self.listening.add(self._node.steady_time(), external is not None, stamp, q, tau,
                               *sample[1:], np.zeros_like(tau) if external is None else external)
        elif self._moves is not None:
            if robot is not self._poses_of[0] or self._moves.duration > LONGEST_MOVE:
                self._moves = None
            elif np.abs(sample.v).max(initial=0.0) > SLOW:
                self._moves.add(stamp, sample.q, sample.v, sample.tau)

    # Thresholds

    def calibrate(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Propose thresholds from a motion in which nothing touches the robot."""
        rate = request.false_alarms or self._node.parameters.values["calibration.false_alarms"]
        if not math.isfinite(rate) or rate < 0.0:
            raise Rejected(f"false_alarms: expected 0 (the parameter) or more, got {rate:g} [1/h]")
        duration = self._duration(request.duration, "calibration.duration")
        if duration < thresholds.SHORTEST:
            raise Rejected(f"duration: expected at least {thresholds.SHORTEST:g} s, got "
                           f"{duration:g} s")
        rows = robot.rows
        friction = robot.model.friction[rows] * self._node.parameters.values["friction"]

        def compute(record: Record) -> Any:
            _, _, _, v, tau, r = record.columns
            wrong = is_unexplained(robot.model, tau, r)[rows]
            v, r = v[:, rows], r[:, rows]
            dt = float(np.median(np.diff(record.time)))
            found = dyn_ros.calibrate_thresholds(r, v, dt, rate, friction=friction)
            slow = np.sqrt(np.mean(v ** 2, axis=0)) < thresholds.SLOW
            return found, len(r), _picked(robot.names, slow), _picked(robot.names, wrong)

        def respond(result: Any, response: Any) -> None:
            self._require_efforts()
            found, response.states, slow, wrong = result
            response.joint = robot.names
            response.threshold = numbers(found.fixed)
            response.threshold_per_speed = numbers(found.per_speed)
            response.mean, response.deviation = numbers(found.mean), numbers(found.deviation)
            response.message = _limits(found, slow, wrong)
            if request.apply:
                noise = np.hypot(found.mean, found.deviation)
                self._set(thresholds__fixed=found.fixed.tolist(),
                          thresholds__per_speed=found.per_speed.tolist(),
                          thresholds__at_rest=found.at_rest.tolist(),
                          noise__external=np.maximum(noise, _LEAST_NOISE).tolist())
        return self._begin("~/calibrate", duration, True, compute, respond)

    # Delay of the efforts

    def estimate_delay(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Estimate by how much the efforts lag behind the positions and velocities."""
        model = copy.copy(robot.model)

        def compute(record: Record) -> Any:
            q, tau, *_ = record.columns
            return dyn_ros.estimate_effort_delay(model, record.time, q, tau)

        def respond(found: Any, response: Any) -> None:
            response.delay, response.deviation = found.delay, found.deviation
            response.states = found.states
            if request.apply:
                self._set(effort_delay=response.delay)
        return self._begin("~/estimate_delay",
                           self._duration(request.duration, "calibration.duration"),
                           False, compute, respond)

    # Payload

    def estimate_payload(self, robot: RobotContext, request: Any, response: Any) -> Pending:
        """Estimate the payload from what is measured now and at earlier requests."""
        name = request.name or "estimated"
        if len(name) > NAME_LENGTH:
            raise Rejected(f"name: expected at most {NAME_LENGTH} characters, got {len(name)}")
        frame = request.frame or self._node.tip(robot)
        try:
            index = robot.model.frame_index(frame)
        except ValueError as error:
            raise Rejected(f"frame: {error}") from None
        if robot.model.tree.frames[index].parent < 0:
            raise Rejected(f"frame: {frame!r:.80} is fixed; name one that moves")
        model = copy.copy(robot.model)
        if name in model.payloads:
            model.clear_payload(name)
        earlier = self._earlier(robot, frame, request.restart)
        moves = self._moves.record() if earlier and self._moves else None
        offset = -self._node.tare

        def compute(record: Record) -> tuple[list[Measured], PayloadEstimate | ValueError, int]:
            _, _, q, v, tau, _ = record.columns
            measured = [*earlier, *move_in(model, moves),
                        measured_in(model, record.time, q, v, tau)]
            try:
                return measured, weigh(model, measured, frame, offset), len(record)
            except ValueError as error:     # what has been measured counts in the next request
                return measured, error, len(record)

        def respond(result: Any, response: Any) -> None:
            self._require_efforts()
            measured, found, states = result
            if self._poses_of == (robot, frame):
                self._poses, self._requests = measured, self._requests + 1
                self._moves = Recorder(self._node.parameters.values["max_gap"])
            if isinstance(found, ValueError):
                raise Rejected(f"{found}; {self._requests} requests have been measured, and the "
                               "next one adds to them") from found
            self._fill_payload(robot, response, found)
            response.requests, response.states = self._requests, states
            response.message = _advice(found, bool(offset.any()))
            if request.apply and found.lower[0] > 0.0:
                robot.set_payload(name, frame, found.mass, found.com, found.inertia)
                response.applied = True
                self._moves = None
        return self._begin("~/estimate_payload",
                           self._duration(request.duration, "payload.duration"),
                           False, compute, respond)

    def _earlier(self, robot: RobotContext, frame: str, restart: bool) -> list[Measured]:
        """Return what earlier requests have measured with this robot and frame."""
        if restart or self._poses_of != (robot, frame):
            self.forget()
            self._poses_of = robot, frame
        if self._requests >= MOST_POSES:
            raise Rejected(f"{self._requests} requests have been measured; set restart")
        return list(self._poses)

    @staticmethod
    def _fill_payload(robot: RobotContext, response: Any, found: PayloadEstimate) -> None:
        response.inertia.header.frame_id = found.frame
        conversions.set_inertia(
            response.inertia.inertia, dyn_ros.Inertia(found.mass, found.com, found.inertia))
        response.mass_lower, response.mass_upper = float(found.lower[0]), float(found.upper[0])
        lower, upper = com_interval(found)
        conversions.set_vector(response.com_lower, *lower.tolist())
        conversions.set_vector(response.com_upper, *upper.tolist())
        response.com_determined = {"m cx", "m cy", "m cz"} <= set(found.determined)
        response.inertia_determined = len(found.determined) == 10

    # Tare

    def tare(self, robot: RobotContext, request: Any, response: Any) -> Pending | None:
        """Regard the present external efforts as zero, or use them as measured again."""
        node = self._node

        def respond(offset: Array, response: Any) -> None:
            if not request.clear:
                self._require_efforts()
            node.set_tare(robot, offset)
            response.joint, response.offset = robot.names, numbers(offset[robot.rows])
        if request.clear:
            respond(np.zeros(robot.model.nv), response)
            return None
        before = node.tare.copy()
        return self._begin(
            "~/tare", self._duration(request.duration, "tare.duration"), True,
            lambda record: record.columns[5].mean(axis=0) + before, respond)


class Measured(NamedTuple):
    """What one request for a payload has measured.

    Attributes
    ----------
    samples : Samples
        Of a robot at rest, a single one with the means.
    variance : ndarray (nv,), optional
        Of the errors of this single sample [N2 m2, N2]; None if the robot moved.
    """

    samples: Samples
    variance: Array | None


def measured_in(model: dyn_ros.Model, time: Array, q: Array, v: Array, tau: Array) -> Measured:
    """Return what has been measured during some time.

    Parameters
    ----------
    model : dyn_ros.Model
    time : ndarray (N,)
    q, v, tau : ndarray (N, nq), (N, nv), (N, nv)
    """
    if np.ptp(q, axis=0).max(initial=0.0) > AT_REST or abs(v.mean(axis=0)).max(initial=0.0) > SLOW:
        return Measured(dyn_ros.Samples.from_arrays(model, time, q, tau, v), None)
    zero = np.zeros((1, model.nv))
    sample = dyn_ros.Samples(
        time[:1], q[len(q) // 2:len(q) // 2 + 1], zero, zero, tau.mean(axis=0)[None],
        np.ones(1), np.zeros(1, np.int32))
    # at rest, Coulomb friction is between its two signs
    variance = tau.var(axis=0) / len(tau) + model.friction ** 2 / 3.0 + (
        _SYSTEMATIC * tau.mean(axis=0)) ** 2
    return Measured(sample, variance)


def move_in(model: dyn_ros.Model, record: Record | None) -> list[Measured]:
    """Return what a motion between two requests has measured; nothing if it is too short."""
    if not record:
        return []
    q, v, tau = record.columns
    try:
        samples = dyn_ros.Samples.from_arrays(model, record.time, q, tau, v)
    except ValueError:
        return []
    return [Measured(samples.take(slice(None, None, 1 + len(samples) // MOST_OF_MOVE)), None)]


def weigh(model: dyn_ros.Model, measured: Sequence[Measured], frame: str,
          offset: Array) -> PayloadEstimate:
    """Return the payload that explains what has been measured.

    A few poses do not show how the errors of the joints compare: the scatter of the samples in
    each pose does. How large they are follows from the differences between poses. With motions
    between requests, friction is estimated too.

    Parameters
    ----------
    model : dyn_ros.Model
    measured : sequence of Measured
    frame : str
    offset : ndarray (nv,)
        Constant efforts to subtract.
    """
    samples = dyn_ros.Samples.concatenate([each.samples for each in measured])
    variances = [each.variance for each in measured if each.variance is not None]
    if len(variances) < len(measured):
        return dyn_ros.identify_payload(model, samples, frame, offset=offset,
                                        friction=len(measured) > 1)
    noise = np.sqrt(np.mean(variances, axis=0))
    noise = np.maximum(noise, max(1e-2 * noise.max(), 1e-9))
    found = dyn_ros.identify_payload(model, samples, frame, offset=offset, noise=noise)
    free = samples.tau.size - min(len(found.determined), 4)
    scale = float(np.sum((found.after / noise) ** 2)) * len(samples) / max(free, 1)
    return dyn_ros.identify_payload(
        model, samples, frame, offset=offset, noise=noise * math.sqrt(max(scale, 1.0)))


def com_interval(found: PayloadEstimate) -> tuple[Array, Array]:
    """Return the bounds of the center of mass [m] at 95 %, (3,) each; infinite if unknown."""
    lower, upper = found.lower, found.upper
    if not lower[0] > 0.0:
        return np.full(3, -math.inf), np.full(3, math.inf)
    half = 0.5 * (upper[1:4] - lower[1:4])          # infinite: not determined
    relative = 0.5 * (upper[0] - lower[0]) / found.mass
    # as of a quotient, whose parts are regarded as independent
    spread = np.hypot(half / found.mass, found.com * relative)
    return found.com - spread, found.com + spread


def _picked(names: Sequence[str], which: Array) -> list[str]:
    return list(itertools.compress(names, which))


def _limits(found: CalibratedThresholds, slow: Sequence[str], wrong: Sequence[str]) -> str:
    """Return what limits calibrated thresholds.

    Parameters
    ----------
    found : CalibratedThresholds
    slow, wrong : sequence of str
        The joints that hardly moved, and those whose efforts the model does not explain.
    """
    text = []
    if wrong:
        text.append(f"the model explains less than half of the efforts of {abbreviated(wrong)}: "
                    "check the model and its friction, whether the efforts of two joints are "
                    "exchanged, and whether something touched the robot")
    if slow:
        text.append(f"{abbreviated(slow)} hardly moved: faster motions may cause false alarms")
    if found.extrapolated:
        text.append(f"extrapolated from {found.duration:.0f} s to one false alarm in "
                    f"{1.0 / found.false_alarms:g} h; a longer recording can give lower thresholds")
    if np.any(found.at_rest > 0.0):
        text.append("at rest, the Coulomb friction of the joints is added, as in the parameter "
                    "thresholds.at_rest")
    return "; ".join(text)


def _advice(found: PayloadEstimate, tared: bool) -> str:
    """Return what else would help."""
    advice = []
    if not found.lower[0] > 0.0:
        advice.append("the payload is not attached, as its mass may be zero")
    if not found.upper[0] - found.lower[0] < _UNCERTAIN * found.mass:
        advice.append("the mass is uncertain: move to another pose and call again, or call during "
                      "a slow motion, as the friction of joints at rest is unknown")
    if not {"m cx", "m cy", "m cz"} <= set(found.determined):
        advice.append("the center of mass is a guess: call again at poses in which gravity has "
                      f"other directions in {found.frame}")
    elif len(found.determined) < 10:
        advice.append("the inertia is that of a sphere of water: call during rotations with "
                      "acceleration to determine it")
    if tared:
        advice.append("the efforts that ~/tare measured have been subtracted")
    return "; ".join(advice)
