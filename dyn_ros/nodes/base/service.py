# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Services of a node: every request gets a response, and no request can end the node."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dyn_ros import Model
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.coordinates import independent_joint_indices
from dyn_ros.msg import RobotState

from ...states import rules
from ...states.joint_states import STATE_HINT, Rejected, State, abbreviated, base_kind
from ..messages import conversions
from ..robot import RobotContext

Pending: TypeAlias = "Future[Callable[[Any], object]]"
"""A response to send later: what fills it, or a ValueError that becomes `success: false`."""


@dataclass(frozen=True)
class Service:
    """A service that a node provides while it is active.

    `answer(robot, request, response)` fills the response, which has the fields `success` and
    `message`, or returns a `Pending`; it raises a ValueError to reject the request. If the request
    has a field `state`, a dyn_ros/RobotState, there is a fourth argument, a `State`, and the
    response has a header, which is set, as are `name` and `velocity_valid` if it has them. If
    `needs_state(robot, request)` is false, a request without a state does not depend on the latest
    one: `state` is then the neutral configuration at rest.
    """

    name: str
    type: Any
    answer: Callable[..., Pending | None]
    needs_state: Callable[[RobotContext, Any], bool] = lambda robot, request: True


_AT_ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def service_callback(node: Any, service: Service) -> Callable[[Any, Any], Any]:
    with_state = hasattr(service.type.Request, "state")

    def respond(response: Any, fill: Callable[[Any], Any]) -> Any:
        try:
            pending = fill(response)
            if isinstance(pending, Future):
                return respond_later(response, pending)
            response.success = True
            return response
        except Exception as error:
            expected = isinstance(error, ValueError)
            if expected:
                node.reject(service.name, error)
            else:
                node.fail(service.name, traceback.format_exc())
            why = str(error) if expected else f"{type(error).__name__}: {error}"
            return service.type.Response(success=False, message=why)

    def respond_later(response: Any, pending: Future[Any]) -> Future[Any]:
        """Return a future response; the result of ``pending`` fills it."""
        later: Future[Any] = Future()

        def finish(done: Future[Any]) -> None:
            def fill(response: Any) -> Any:
                return done.result()(response)  # here, `respond` reports its errors

            later.set_result(respond(response, fill))

        pending.add_done_callback(finish)
        return later

    @functools.wraps(service.answer)
    def call(request: Any, response: Any) -> Any:
        def fill(response: Any) -> Pending | None:
            robot = _robot(node)
            if hasattr(response, "name"):
                response.name = robot.names
            if with_state:
                state = _state_of_request(
                    node, robot, request.state, service.needs_state(robot, request)
                )
                header = response.header
                header.frame_id = robot.frame_id
                header.stamp.sec, header.stamp.nanosec = divmod(state.stamp, 1_000_000_000)
                if hasattr(response, "velocity_valid"):
                    response.velocity_valid = not state.unknown
                return service.answer(robot, request, response, state)
            return service.answer(robot, request, response)

        return respond(response, fill)

    return call


def _robot(node: Any) -> RobotContext:
    if not node.active:
        raise Rejected(
            f"{node.get_fully_qualified_name()} is not active; run `ros2 lifecycle set "
            f"{node.get_fully_qualified_name()} activate`"
        )
    if node.robot is None:
        raise Rejected("there is no robot yet; waiting for robot_description")
    return node.robot


def _state_of_request(node: Any, robot: RobotContext, given: RobotState, needed: bool) -> State:
    """Return the state that a request specifies, or the latest one if a state is needed."""
    if len(given.name):
        return State(*requested_state(robot.model, given), 0, [])
    if (
        len(given.position)
        or len(given.velocity)
        or robot.moving_base
        and (
            conversions.pose_numbers(given.base_pose) != _AT_ORIGIN
            or any(conversions.twist_numbers(given.base_twist))
        )
    ):
        raise Rejected(
            "state: numbers, but no names; name all joints, or leave the state empty "
            "to use the latest one"
        )
    if needed:
        return _latest_state(node, robot)
    return State(np.array(robot.model.neutral(), float), np.zeros(robot.model.nv), 0, [])


def _latest_state(node: Any, robot: RobotContext) -> State:
    collector = robot.collector
    if collector.constant:
        return State(collector.q, collector.v, 0, [])
    if not collector.complete:
        raise Rejected(
            f"unknown or stale position of {abbreviated(collector.missing())}: {STATE_HINT}"
        )
    age = time.perf_counter() - robot.received
    clock = node.get_clock()
    if age > collector.staleness and clock.ros_time_is_active:  # a simulation may be paused
        age = 1e-9 * (clock.now().nanoseconds - collector.stamp)
        if age < -collector.staleness:
            raise Rejected(
                f"the latest state is {-age:.3f} s ahead of the clock, which was set "
                f"back: {STATE_HINT}"
            )
    if age > collector.staleness:
        raise Rejected(
            f"the latest state is {age:.3f} s old, more than the parameter staleness "
            f"({collector.staleness:g} s) allows: {STATE_HINT}"
        )
    return collector.latest()


def requested_state(model: Model, given: RobotState) -> tuple[Array, Array]:
    """Return q and v of a state that contains joint names, as new arrays in the order of the model.

    All joints with their own coordinate are required; mimic joints and names that are not in the
    model are ignored. Without velocities, the robot is at rest. The base may be floating or planar.
    """
    q, v = np.array(model.neutral(), float), np.zeros(model.nv)
    joints = independent_joint_indices(model)
    base = base_kind(model)
    if base is not None:
        del joints[model.joint_names[0]]
        pose, twist = (
            conversions.pose_numbers(given.base_pose),
            conversions.twist_numbers(given.base_twist),
        )
        rules.set_base(base, q, v, pose, twist)
    rules.check_names(given.name)
    size, positions, velocities = len(given.name), len(given.position), len(given.velocity)
    if not rules.lengths_match(size, positions, velocities, 0):
        raise Rejected(
            f"{size} names, but {positions} positions and {velocities} velocities; "
            "expected one position for each name, and one velocity for each name or "
            "none"
        )
    used = [k for k, name in enumerate(given.name) if name in joints]
    own = [joints[given.name[k]] for k in used]
    for not_finite, values, vector, index in (
        (rules.Reason.POSITION_NOT_FINITE, given.position, q, model.idx_q),
        (rules.Reason.VELOCITY_NOT_FINITE, given.velocity, v, model.idx_v),
    ):
        if len(values):
            chosen = [values[k] for k in used]
            rules.check_usable(not_finite, [given.name[k] for k in used], chosen)
            vector[[index[i] for i in own]] = chosen
    missing = sorted(joints.keys() - set(given.name), key=joints.__getitem__)
    if missing:
        others = [
            name for name in given.name if name not in joints and name not in model.joint_names
        ]
        raise Rejected(
            f"state: missing position of {abbreviated(missing)}"
            + (f"; not in the model: {abbreviated(others)}" if others else "")
        )
    return q, v
