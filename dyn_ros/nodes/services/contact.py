# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node with contacts, and in the operational space."""
from __future__ import annotations

from typing import Any

import numpy as np

import dyn_ros
from dyn_ros import ContactForces
from dyn_ros.srv import GetContactDynamics, GetImpulse, GetOperationalSpace

from ..base.service import Service
from ..messages import arrays
from ..messages.contacts import contact_forces, requested_contacts
from ..messages.frames import reference_frame_id
from ..messages.wrenches import requested_forces
from ..robot import RobotContext, State


def get_contact_dynamics(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """The acceleration that efforts produce while contacts hold, and the contact forces."""
    contacts = requested_contacts(request.contacts)
    tau = arrays.vector(robot, "effort", request.name, request.effort)
    a, forces = dyn_ros.contact_dynamics(
        robot.model, robot.data, state.q, state.velocity(), tau, contacts,
        requested_forces(robot, request, state.q), request.damping)
    response.name = robot.names
    response.acceleration = arrays.numbers(a[robot.rows])
    response.forces = contact_forces(robot, contacts, forces, state.q, response.header)
    _set_quality(response, forces)


def get_impulse(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """The velocity after an impact at which contacts close, and the impulses."""
    contacts = requested_contacts(request.contacts)
    v, impulses = dyn_ros.impulse_dynamics(
        robot.model, robot.data, state.q, state.velocity(), contacts, request.restitution,
        request.damping)
    response.name = robot.names
    response.velocity = arrays.numbers(v[robot.rows])
    response.impulses = contact_forces(robot, contacts, impulses, state.q, response.header)
    _set_quality(response, impulses)


def _set_quality(response: Any, forces: ContactForces) -> None:
    response.rank = forces.rank
    [response.residual] = arrays.numbers(np.array([forces.residual]))


def get_operational_space(robot: RobotContext, request: Any, response: Any,
                          state: State) -> None:
    """The equations of motion of a frame: inertia, bias forces, the null space."""
    model, data = robot.model, robot.data
    where = request.frame, request.reference_frame, request.dimension, request.damping
    response.header.frame_id = reference_frame_id(robot, request.frame, request.reference_frame)
    response.name = robot.names
    response.velocity_valid = not state.unknown
    v = np.zeros(model.nv) if state.unknown else state.velocities
    mu, p = dyn_ros.operational_space_bias(model, data, state.q, v, *where)
    response.p = arrays.numbers(p)
    response.mu = arrays.numbers(mu) if response.velocity_valid else arrays.unknown_numbers(len(mu))
    N = dyn_ros.null_space_projector(model, data, state.q, *where)
    arrays.set_matrix(response.null_space_projector, N[robot.block])
    arrays.set_matrix(response.inertia, data.osim)
    arrays.set_matrix(response.dynamically_consistent_inverse,
               data.dynamically_consistent_inverse[robot.rows])


KERNELS = ("frame_placements", "contact_dynamics", "impulse_dynamics", "operational_space_bias",
           "null_space_projector")
SERVICES = (
    Service("~/get_contact_dynamics", GetContactDynamics, get_contact_dynamics),
    Service("~/get_impulse", GetImpulse, get_impulse),
    Service("~/get_operational_space", GetOperationalSpace, get_operational_space),
)
