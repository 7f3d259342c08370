# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Services of a node: each request gets a response, and exceptions do not end the node."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from rclpy.qos import QoSProfile

from dyn_ros import Model
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.coordinates import independent_joint_indices
from dyn_ros.msg import RobotState

from ...states import rules
from ...states.joint_states import STATE_HINT, Rejected, State, abbreviate_names, base_kind
from ..messages import message_fields
from ..robot import RobotContext

Pending: TypeAlias = "Future[Callable[[Any], object]]"
"""A response to send later: a function that fills it, or a ValueError that rejects the request."""


SERVICE_QOS = QoSProfile(depth=1000)
"""Requests that wait; of a burst, those that exceed the default depth of 10 get no response."""


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


_IDENTITY_POSE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def service_callback(node: Any, service: Service) -> Callable[[Any, Any], Any]:
    """Return the callback of a service for rclpy, with a response to all exceptions."""
    has_state = hasattr(service.type.Request, "state")

    def respond(response: Any, fill: Callable[[Any], Any]) -> Any:
        """Call `fill(response)`; return the filled response, its future, or one with the error."""
        try:
            pending = fill(response)
            if isinstance(pending, Future):
                return respond_later(response, pending)
            response.success = True
            return response
        except Exception as error:
            is_rejection = isinstance(error, ValueError)
            if is_rejection:
                node.reject(service.name, error)
            else:
                node.fail(service.name, traceback.format_exc())
            reason = str(error) if is_rejection else f"{type(error).__name__}: {error}"
            return service.type.Response(success=False, message=reason)

    def respond_later(response: Any, pending: Future[Any]) -> Future[Any]:
        """Return a future response, which the result of `pending` fills."""
        later: Future[Any] = Future()

        def send_response(done: Future[Any]) -> None:
            def fill_from_result(response: Any) -> Any:
                return done.result()(response)  # here, so that `respond` reports its errors

            later.set_result(respond(response, fill_from_result))

        pending.add_done_callback(send_response)
        return later

    @functools.wraps(service.answer)
    def call(request: Any, response: Any) -> Any:
        """Answer a request of rclpy: fill the common fields, then call `service.answer`."""

        def fill_response(response: Any) -> Pending | None:
            robot = _active_robot(node)
            if hasattr(response, "name"):
                response.name = robot.names
            if has_state:
                state = _request_state(
                    node, robot, request.state, service.needs_state(robot, request)
                )
                header = response.header
                header.frame_id = robot.frame_id
                header.stamp.sec, header.stamp.nanosec = divmod(state.stamp, 1_000_000_000)
                if hasattr(response, "velocity_valid"):
                    response.velocity_valid = not state.unknown
                return service.answer(robot, request, response, state)
            return service.answer(robot, request, response)

        return respond(response, fill_response)

    return call


def _active_robot(node: Any) -> RobotContext:
    """Return the robot of a node; raise `Rejected` if the node is not active or has none."""
    if not node.active:
        raise Rejected(
            f"{node.get_fully_qualified_name()} is not active; run `ros2 lifecycle set "
            f"{node.get_fully_qualified_name()} activate`"
        )
    if node.robot is None:
        raise Rejected("there is no robot yet; waiting for robot_description")
    return node.robot


def _request_state(
    node: Any, robot: RobotContext, request_state: RobotState, is_needed: bool
) -> State:
    """Return the state in a request, or else the latest one, if it is needed."""
    if len(request_state.name):
        return State(*requested_state(robot.model, request_state), 0, [])
    if (
        len(request_state.position)
        or len(request_state.velocity)
        or robot.has_moving_base
        and (
            message_fields.pose_numbers(request_state.base_pose) != _IDENTITY_POSE
            or any(message_fields.twist_numbers(request_state.base_twist))
        )
    ):
        raise Rejected(
            "state: numbers, but no names; name all joints, or leave the state empty "
            "to use the latest one"
        )
    if is_needed:
        return _latest_state(node, robot)
    return State(np.array(robot.model.neutral(), float), np.zeros(robot.model.nv), 0, [])


def _latest_state(node: Any, robot: RobotContext) -> State:
    """Return the latest state of a robot; raise `Rejected` if it is incomplete or too old."""
    collector = robot.collector
    if collector.constant:
        return State(collector.q, collector.v, 0, [])
    if not collector.complete:
        raise Rejected(
            "unknown or stale position of "
            f"{abbreviate_names(collector.missing_position())}: {STATE_HINT}"
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
    return collector.latest_state()


def requested_state(model: Model, request_state: RobotState) -> tuple[Array, Array]:
    """Return q and v of a requested state with joint names, as new arrays in the model's order.

    All joints with their own coordinate are required; mimic joints and names that are not in the
    model are ignored. Without velocities, the robot is at rest. The base may be floating or planar.
    """
    q, v = np.array(model.neutral(), float), np.zeros(model.nv)
    joints = independent_joint_indices(model)
    base = base_kind(model)
    if base is not None:
        del joints[model.joint_names[0]]
        pose, twist = (
            message_fields.pose_numbers(request_state.base_pose),
            message_fields.twist_numbers(request_state.base_twist),
        )
        rules.set_base(base, q, v, pose, twist)
    rules.check_names(request_state.name)
    size, positions, velocities = (
        len(request_state.name),
        len(request_state.position),
        len(request_state.velocity),
    )
    if not rules.lengths_match(size, positions, velocities, 0):
        raise Rejected(
            f"{size} names, but {positions} positions and {velocities} velocities; "
            "expected one position for each name, and one velocity for each name or "
            "none"
        )
    known_indices = [k for k, name in enumerate(request_state.name) if name in joints]
    joint_indices = [joints[request_state.name[k]] for k in known_indices]
    for not_finite, values, vector, first_entry in (
        (rules.Reason.POSITION_NOT_FINITE, request_state.position, q, model.idx_q),
        (rules.Reason.VELOCITY_NOT_FINITE, request_state.velocity, v, model.idx_v),
    ):
        if len(values):
            known_values = [values[k] for k in known_indices]
            rules.check_usable(
                not_finite, [request_state.name[k] for k in known_indices], known_values
            )
            vector[[first_entry[i] for i in joint_indices]] = known_values
    missing = sorted(joints.keys() - set(request_state.name), key=joints.__getitem__)
    if missing:
        unknown = [
            name
            for name in request_state.name
            if name not in joints and name not in model.joint_names
        ]
        raise Rejected(
            f"state: missing position of {abbreviate_names(missing)}"
            + (f"; not in the model: {abbreviate_names(unknown)}" if unknown else "")
        )
    return q, v
