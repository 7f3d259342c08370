# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node."""
import math

import numpy as np

import dyn_ros
from dyn_ros.model.frames import frame_number
from dyn_ros.srv import (
    ClearPayload,
    GetForwardDynamics,
    GetFrameState,
    GetInverseDynamics,
    GetJacobian,
    SetPayload,
)

from . import conversions
from .services import Service, external_forces, numbers, set_matrix, vector
from .state import Rejected

NAME_LENGTH = 256       # a payload's name is part of every diagnostics message


def get_jacobian(robot, request, response, state):
    """The Jacobian of a frame or of a point on it; its time variation on request."""
    model, data, point = robot.model, robot.data, request.offset
    offset = point.x, point.y, point.z
    place = request.frame, request.reference_frame, np.array(offset) if any(offset) else None
    response.name = robot.names
    if request.time_variation:
        dJ = dyn_ros.frame_jacobian_time_variation(model, data, state.q, state.velocity(), *place)
        J = data.frame_jacobian
        set_matrix(response.jacobian_time_variation, dJ[:, robot.rows])
    else:
        J = dyn_ros.frame_jacobian(model, data, state.q, *place)
    set_matrix(response.jacobian, J[:, robot.rows])


def get_frame_state(robot, request, response, state):
    """The pose of a frame; its velocity and acceleration if all joint velocities are known."""
    model, data = robot.model, robot.data
    place = request.frame, request.reference_frame
    index = frame_number(model, request.frame)
    a = vector(robot, "acceleration", request.name, request.acceleration)
    placement = dyn_ros.frame_placements(model, data, state.q)[index]
    numbers(placement)
    conversions.set_pose(response.pose, placement)
    response.header.frame_id = robot.world_frame
    response.velocity_valid = not state.unknown
    velocity = acceleration = classical = (math.nan,) * 6
    if response.velocity_valid:
        velocity = numbers(dyn_ros.frame_velocity(model, data, state.q, state.v, *place))
        acceleration = numbers(
            dyn_ros.frame_acceleration(model, data, state.q, state.v, a, *place))
        classical = numbers(data.frame_classical_acceleration)
    conversions.set_twist(response.velocity, velocity)
    conversions.set_twist(response.acceleration, acceleration)
    conversions.set_twist(response.classical_acceleration, classical)


def get_inverse_dynamics(robot, request, response, state):
    """The torques that produce an acceleration."""
    a = vector(robot, "acceleration", request.name, request.acceleration)
    tau = dyn_ros.rnea(robot.model, robot.data, state.q, state.velocity(), a,
                       external_forces(robot, request.wrenches))
    response.name = robot.names
    response.effort = numbers(tau[robot.rows])


def get_forward_dynamics(robot, request, response, state):
    """The acceleration that torques produce."""
    tau = vector(robot, "effort", request.name, request.effort)
    a = dyn_ros.aba(robot.model, robot.data, state.q, state.velocity(), tau,
                    external_forces(robot, request.wrenches))
    response.name = robot.names
    response.acceleration = numbers(a[robot.rows])


def set_payload(robot, request, response):
    """Attach a body to a link until it is cleared or the node exits."""
    if not 0 < len(request.name) <= NAME_LENGTH:
        raise Rejected(f"name: expected 1 to {NAME_LENGTH} characters, got {len(request.name)}")
    body, com = request.inertia.inertia, request.inertia.inertia.com
    robot.set_payload(
        request.name, request.inertia.header.frame_id, body.m, [com.x, com.y, com.z],
        [[body.ixx, body.ixy, body.ixz], [body.ixy, body.iyy, body.iyz],
         [body.ixz, body.iyz, body.izz]])
    _report_payloads(robot, response)


def clear_payload(robot, request, response):
    """Remove one payload, or all."""
    robot.clear_payload(request.name or None)
    _report_payloads(robot, response)


def _report_payloads(robot, response):
    response.payloads = list(robot.payloads)
    response.total_mass = robot.model.total_mass


KERNELS = ("frame_jacobian", "frame_jacobian_time_variation", "frame_placements", "frame_velocity",
           "frame_acceleration", "rnea", "aba")
SERVICES = (
    Service("~/get_jacobian", GetJacobian, get_jacobian),
    Service("~/get_frame_state", GetFrameState, get_frame_state),
    Service("~/get_inverse_dynamics", GetInverseDynamics, get_inverse_dynamics),
    Service("~/get_forward_dynamics", GetForwardDynamics, get_forward_dynamics),
    Service("~/set_payload", SetPayload, set_payload),
    Service("~/clear_payload", ClearPayload, clear_payload),
)
