# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Services of a node: each request is answered, or refused with the reason, and none ends the node.

A service is one function and one line, as in dynamics_services.py: it fills the response, and what
it raises goes to the caller as `success: false` and `message`.
"""
import array
import functools
import math
import time
import traceback
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from . import conversions
from .state import Refused, some, twice


@dataclass(frozen=True)
class Service:
    """A service that a node answers while it is active.

    `answer(robot, request, response)` fills the response (which has `success` and `message`), and
    raises a ValueError to refuse. Where the request has a field `state`, a dyn_ros/RobotState, it
    is `answer(robot, request, response, state)` with a `State`, and the response has a header.
    """

    name: str
    type: type
    answer: object


class State(NamedTuple):
    """A state that a request is about; q and v as the model orders them, not to be kept."""

    q: np.ndarray
    v: np.ndarray
    stamp: int              # [ns]; 0 where the request gave it
    unknown: list           # names of the joints whose velocity is unknown

    def velocity(self):
        """All velocities; Refused where one is unknown."""
        if self.unknown:
            raise Refused(f"the velocity is unknown of {some(self.unknown)}: {GIVE}")
        return self.v


GIVE = "have joint_states tell it, or give a state in the request"
_AT_ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def answers(node, service):
    """The callback of a service: what a request gets."""
    with_state = hasattr(service.type.Request, "state")

    @functools.wraps(service.answer)
    def call(request, response):
        try:
            robot = _robot(node)
            if with_state:
                state = _state(node, robot, request.state)
                header = response.header
                header.frame_id = robot.frame_id
                header.stamp.sec, header.stamp.nanosec = divmod(state.stamp, 1_000_000_000)
                service.answer(robot, request, response, state)
            else:
                service.answer(robot, request, response)
            response.success = True
            return response
        except Exception as error:
            expected = isinstance(error, ValueError)
            node.refuse(service.name, error if expected else traceback.format_exc())
            why = str(error) if expected else f"{type(error).__name__}: {error}"
            return service.type.Response(success=False, message=why)
    return call


def vector(robot, field, names, values):
    """Numbers for coordinates by name as a vector (nv,) of the model; what is left out is zero."""
    if len(values) != len(names):
        raise Refused(f"{field}: {len(names)} names, but {len(values)} numbers")
    there = {name: row for row, name in enumerate(robot.model.velocity_names)}
    rows = [there.get(name, -1) for name in names]
    if -1 in rows:
        raise Refused(f"{field}: there is no {names[rows.index(-1)]!r:.80}; there are: "
                      + ", ".join(there))
    if len(set(rows)) != len(rows):
        raise Refused(f"{field}: names occur twice: "
                      + some(twice(names)))
    for name, value in zip(names, values):
        if not math.isfinite(value):
            raise Refused(f"{field} is not finite: {name} = {value:g}")
    result = np.zeros(robot.model.nv)
    result[rows] = values
    return result


def external_forces(robot, wrenches):
    """geometry_msgs/WrenchStamped, each on the frame that its header names, as `f_ext`, or None."""
    totals = {}
    for each in wrenches:
        frame = each.header.frame_id
        robot.model.frame_index(frame)
        numbers = conversions.wrench_numbers(each.wrench)
        totals[frame] = [x + y for x, y in zip(totals.get(frame, (0.0,) * 6), numbers)]
    return robot.model.external_forces(totals) if totals else None


def numbers(values):
    """An ndarray as a float64[] field takes it, row by row; Refused where one is not finite."""
    result = array.array("d", values.tobytes())
    if not math.isfinite(sum(result)) and not all(map(math.isfinite, result)):
        raise Refused("the result is not finite: the numbers of the request or of the state are "
                      "too large to compute with")
    return result


def set_matrix(message, values):
    """Fill a dyn_ros/Matrix from an ndarray (rows, cols)."""
    message.rows, message.cols = values.shape
    message.data = numbers(values)


def _robot(node):
    if not node.active:
        raise Refused(f"{node.get_fully_qualified_name()} is not active: `ros2 lifecycle set "
                      f"{node.get_fully_qualified_name()} activate`")
    if node.robot is None:
        raise Refused("there is no robot yet: waiting for robot_description")
    return node.robot


def _state(node, robot, given):
    """The state of a request: what it gives, or the latest."""
    if len(given.name):
        return _given(robot, given)
    if len(given.position) or len(given.velocity) or robot.moving_base and (
            conversions.pose_numbers(given.base_pose) != _AT_ORIGIN
            or any(conversions.twist_numbers(given.base_twist))):
        raise Refused("state: numbers, but no names; name all joints, or leave the state empty "
                      "for the latest")
    return _latest(node, robot)


def _given(robot, given):
    told = robot.told
    stamp = max(told.stamp, 0) + 1
    if not len(given.velocity):
        told.v[:] = 0.0
    if robot.moving_base:
        told.odometry(conversions.pose_numbers(given.base_pose),
                      conversions.twist_numbers(given.base_twist), stamp)
    told.joint_states(given.name, given.position, given.velocity, (), stamp)
    if not told.complete or told.stamp != stamp:
        told.stamp = stamp
        missing = told.missing()
        if missing:
            others = f"; not in the model: {some(told.unknown)}" if told.unknown else ""
            raise Refused(f"state: the position is missing of {some(missing)}{others}")
    return State(told.q, told.v, 0, [])


def _latest(node, robot):
    state = robot.state
    if state.constant:
        return State(state.q, state.v, 0, [])
    if not state.complete:
        raise Refused(f"the latest position is unknown or stale of {some(state.missing())}: {GIVE}")
    age = time.perf_counter() - robot.received
    clock = node.get_clock()
    if age > state.staleness and clock.ros_time_is_active:      # a simulation may be paused
        age = 1e-9 * (clock.now().nanoseconds - state.stamp)
        if age < -state.staleness:
            raise Refused(f"the latest state is {-age:.3f} s ahead of the time, which was set "
                          f"back: {GIVE}")
    if age > state.staleness:
        raise Refused(f"the latest state is {age:.3f} s old, more than the parameter staleness "
                      f"({state.staleness:g} s) allows: {GIVE}")
    return State(state.q, state.v, state.stamp,
                 [] if state.velocity_known else state.missing_velocity())
