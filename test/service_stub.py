# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A node without a process, to call its services."""

import math
import time
from types import SimpleNamespace

import numpy as np
from rclpy.parameter import Parameter

from dyn_ros.msg import RobotState
from dyn_ros.nodes.base.node_parameters import SPECS
from dyn_ros.nodes.base.service import service_callback
from dyn_ros.nodes.robot.context import RobotContext
from dyn_ros.nodes.services import centroidal_services, contact_services, dynamics_services

NS = 1_000_000_000
SERVICES = {
    each.name.removeprefix("~/"): each
    for each in (
        *dynamics_services.SERVICES,
        *contact_services.SERVICES,
        *dynamics_services.DERIVATIVE_SERVICES,
        *centroidal_services.DERIVATIVE_SERVICES,
        *centroidal_services.SERVICES,
    )
}
VALUES = {
    spec.name: [] if isinstance(spec.default, Parameter.Type) else spec.default for spec in SPECS
}


class Node:
    """The part of a node that a service uses."""

    def __init__(self, robot):
        self.robot, self.active, self.rejected, self.failed = robot, True, [], []
        self.sim_time = None

    def get_fully_qualified_name(self):
        return "/dynamics"

    def get_clock(self):
        return SimpleNamespace(
            ros_time_is_active=self.sim_time is not None,
            now=lambda: SimpleNamespace(nanoseconds=self.sim_time),
        )

    def reject(self, what, why):
        self.rejected.append((what, str(why)))

    def fail(self, what, why):
        self.failed.append((what, why))

    def ask(self, name, expected=True, /, **fields):
        """The response of a service; its success must be as expected."""
        service = SERVICES[name]
        request = service.type.Request(**fields)
        response = service_callback(self, service)(request, service.type.Response())
        assert isinstance(response, service.type.Response)
        assert response.success == expected, response.message
        assert bool(response.message) != expected
        assert len(self.rejected) == (not expected)
        self.rejected.clear()
        return response

    def rejection(self, name, /, **fields):
        return self.ask(name, False, **fields).message


def node(xml, **values):
    return Node(RobotContext(xml, {**VALUES, **values}))


def feed(node, q, v=None, stamp=7 * NS + 5):
    """Set the latest state of the node, by name as in messages."""
    robot = node.robot
    if robot.collector.needs_odometry:
        base, twist = base_of(robot.model, q, np.zeros(robot.model.nv) if v is None else v)
        robot.collector.receive_odometry(pose_numbers(base), twist, stamp)
    names, position, velocity = joints_of(robot.model, q, v)
    robot.collector.receive_joint_states(names, position, velocity, (), stamp)
    robot.received = time.perf_counter()


def joints_of(model, q, v):
    """Names, positions and velocities of the joints with one coordinate of their own."""
    single = [i for i, nq in enumerate(model.nqs) if nq == 1]
    return (
        [model.joint_names[i] for i in single],
        [q[model.idx_q[i]] for i in single],
        [] if v is None else [v[model.idx_v[i]] for i in single],
    )


def base_of(model, q, v):
    """Pose (x y z qx qy qz qw) and twist of the base, and what the model says of both."""
    if model.nqs[0] == 7:
        return q[:7], v[:6]
    if model.nqs[0] == 3:
        half = 0.5 * q[2]
        return (
            np.array([*q[:2], 0.0, 0.0, 0.0, math.sin(half), math.cos(half)]),
            np.array([*v[:2], 0.0, 0.0, 0.0, v[2]]),
        )
    return np.array([0.0] * 6 + [1.0]), np.zeros(6)


def pose_numbers(pose):
    return tuple(map(float, pose))


def state_message(model, q, v=None, shuffle=0):
    """A RobotState with joints in another order, and with unknown names."""
    names, position, velocity = joints_of(model, q, v)
    order = np.random.default_rng(shuffle).permutation(len(names))
    message = RobotState()
    message.name = ["other", *(names[i] for i in order)]
    message.position = [math.nan, *(position[i] for i in order)]
    if v is not None:
        message.velocity = [math.nan, *(velocity[i] for i in order)]
    pose, twist = base_of(model, q, np.zeros(model.nv) if v is None else v)
    p, o = message.base_pose.position, message.base_pose.orientation
    p.x, p.y, p.z, o.x, o.y, o.z, o.w = map(float, pose)
    linear, angular = message.base_twist.linear, message.base_twist.angular
    linear.x, linear.y, linear.z, angular.x, angular.y, angular.z = map(float, twist)
    return message


def matrix(message):
    return np.reshape(message.data, (message.rows, message.cols))
