# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Services of a node: every request gets a response, and no request can end the node.

A service is one function and one table entry, as in services/dynamics.py. The function fills the
response; an exception is returned to the caller as `success: false` and `message`.
"""
from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dyn_ros.msg import RobotState

from ...states.joint_states import Rejected, abbreviated
from ...states.states import STATE_HINT, State
from ..messages import conversions
from ..messages.requested_state import requested_state
from ..robot import RobotContext


class ServiceNode(Protocol):
    """What a service uses of its node."""

    @property
    def active(self) -> bool: ...

    @property
    def robot(self) -> RobotContext | None: ...

    def reject(self, what: str, why: object) -> None: ...

    def fail(self, what: str, why: object) -> None: ...

    def get_clock(self) -> Any: ...

    def get_fully_qualified_name(self) -> str: ...


@dataclass(frozen=True)
class Service:
    """A service that a node provides while it is active.

    `answer(robot, request, response)` fills the response, which has the fields `success` and
    `message`, and raises a ValueError to reject the request. If the request has a field `state`,
    a dyn_ros/RobotState, the signature is `answer(robot, request, response, state)` with a
    `State`, and the response has a header. If `needs_state(robot, request)` is false, a request
    without a state does not depend on the latest one: `state` is then the neutral configuration
    at rest.

    If `answer` returns a `Pending`, the response is sent when that is finished.
    """

    name: str
    type: Any
    answer: Callable[..., Pending | None]
    needs_state: Callable[[RobotContext, Any], bool] = lambda robot, request: True


class Pending:
    """A response that is sent later, while other callbacks of the node run.

    rclpy sends what a service callback returns. A callback may return a `Pending` instead if
    `defer` has prepared the service: its response is sent by `finish`.
    """

    def __init__(self) -> None:
        self._send: Callable[[Any], object] | None = None
        self._respond: Callable[[Callable[[Any], None]], Any] | None = None
        self._response: Any = None

    def bind(self, respond: Callable[[Callable[[Any], None]], Any]) -> None:
        """Set the function that returns the response, given a function that fills it."""
        self._respond = respond

    def on_finish(self, send: Callable[[Any], object]) -> None:
        """Set the function that sends the response; it is called now if there is one."""
        self._send = send
        self._try_to_send()

    def finish(self, fill: Callable[[Any], None]) -> None:
        """Fill the response and send it; a ValueError becomes `success: false`."""
        assert self._respond is not None
        self._response = self._respond(fill)
        self._try_to_send()

    def reject(self, why: str) -> None:
        """Send `success: false` with a reason."""
        def fill(response: Any) -> None:
            raise Rejected(why)
        self.finish(fill)

    def _try_to_send(self) -> None:
        if self._send is not None and self._response is not None:
            send, self._send = self._send, None
            send(self._response)


def defer(server: Any) -> Any:
    """Prepare a service of rclpy for callbacks that return a `Pending`; return it.

    rclpy's executors pass what the callback returns, with the header of the request, to the
    method `send_response`. Its events executor cannot run coroutines.
    """
    send = server.send_response

    def send_response(response: Any, header: Any) -> None:
        if isinstance(response, Pending):
            response.on_finish(lambda finished: send(finished, header))
        else:
            send(response, header)
    server.send_response = send_response
    return server


_AT_ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def service_callback(node: ServiceNode, service: Service) -> Callable[[Any, Any], Any]:
    """Return the callback of a service."""
    with_state = hasattr(service.type.Request, "state")

    def respond(response: Any, fill: Callable[[Any], Any]) -> Any:
        try:
            pending = fill(response)
            if isinstance(pending, Pending):
                pending.bind(functools.partial(respond, response))
                return pending
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

    @functools.wraps(service.answer)
    def call(request: Any, response: Any) -> Any:
        def fill(response: Any) -> Pending | None:
            robot = _robot(node)
            if with_state:
                state = _state_of_request(node, robot, request.state,
                                          service.needs_state(robot, request))
                header = response.header
                header.frame_id = robot.frame_id
                header.stamp.sec, header.stamp.nanosec = divmod(state.stamp, 1_000_000_000)
                return service.answer(robot, request, response, state)
            return service.answer(robot, request, response)
        return respond(response, fill)
    return call


def _robot(node: ServiceNode) -> RobotContext:
    if not node.active:
        raise Rejected(f"{node.get_fully_qualified_name()} is not active: run `ros2 lifecycle set "
                       f"{node.get_fully_qualified_name()} activate`")
    if node.robot is None:
        raise Rejected("there is no robot yet: waiting for robot_description")
    return node.robot


def _state_of_request(node: ServiceNode, robot: RobotContext, given: RobotState,
                      needed: bool) -> State:
    """Return the state that a request specifies, or the latest one if a state is needed."""
    if len(given.name):
        return State(*requested_state(robot.model, given), 0, [])
    if len(given.position) or len(given.velocity) or robot.moving_base and (
            conversions.pose_numbers(given.base_pose) != _AT_ORIGIN
            or any(conversions.twist_numbers(given.base_twist))):
        raise Rejected("state: numbers, but no names; name all joints, or leave the state empty "
                       "to use the latest one")
    if needed:
        return _latest_state(node, robot)
    return State(np.array(robot.model.neutral(), float), np.zeros(robot.model.nv), 0, [])


def _latest_state(node: ServiceNode, robot: RobotContext) -> State:
    state = robot.state
    if state.constant:
        return State(state.q, state.v, 0, [])
    if not state.complete:
        raise Rejected(f"unknown or stale position of {abbreviated(state.missing())}: "
                       f"{STATE_HINT}")
    age = time.perf_counter() - robot.received
    clock = node.get_clock()
    if age > state.staleness and clock.ros_time_is_active:      # a simulation may be paused
        age = 1e-9 * (clock.now().nanoseconds - state.stamp)
        if age < -state.staleness:
            raise Rejected(f"the latest state is {-age:.3f} s ahead of the clock, which was set "
                           f"back: {STATE_HINT}")
    if age > state.staleness:
        raise Rejected(f"the latest state is {age:.3f} s old, more than the parameter staleness "
                       f"({state.staleness:g} s) allows: {STATE_HINT}")
    return state.latest()
