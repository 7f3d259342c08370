# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node with contacts, and in the operational space."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose
from std_msgs.msg import Header

import dyn_ros
from dyn_ros import Contact, ContactForces, ReferenceFrame
from dyn_ros.engine.algorithms.contacts.packed_contacts import MAX_CONTACTS
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.frames import frame_number
from dyn_ros.engine.spatial import SE3
from dyn_ros.msg import Contact as ContactMessage
from dyn_ros.msg import ContactForce
from dyn_ros.srv import GetContactDynamics, GetImpulse, GetOperationalSpace

from ...states.joint_states import QUATERNION_TOLERANCE, Rejected, find_duplicates
from ..base.service import Service
from ..messages import arrays, message_fields
from ..messages.frame_ids import reference_frame_id, requested_forces
from ..robot import RobotContext, State, parameter_errors


def requested_contacts(messages: Sequence[ContactMessage]) -> list[Contact]:
    """Return the contacts of a request; an error names the contact and its field."""
    if len(messages) > MAX_CONTACTS:
        raise Rejected(f"contacts: expected at most {MAX_CONTACTS}, got {len(messages)}")
    contacts = [_requested_contact(index, message) for index, message in enumerate(messages)]
    duplicate_names = find_duplicates(str(contact.name) for contact in contacts)
    if duplicate_names:
        raise Rejected(
            f"contacts: several are named {duplicate_names[0]!r:.80}; set the field name of each"
        )
    return contacts


def _requested_contact(index: int, message: ContactMessage) -> Contact:
    """Return the contact of a message, the one at an index of the request."""
    name = message.name or message.frame
    with parameter_errors(f"contacts[{index}] ({name!r:.80})"):
        return Contact(
            message.frame,
            message.dimension,
            message.reference_frame,
            message.other or None,
            _read_placement("placement", message.placement),
            _read_placement("other_placement", message.other_placement),
            message.kp,
            message.kd,
            name=name,
        )


def _read_placement(field: str, pose: Pose) -> SE3:
    """Return the SE3 of a pose; raise `Rejected` if it is not finite or not normalized."""
    *_, qx, qy, qz, qw = numbers = message_fields.pose_numbers(pose)
    norm = math.hypot(qx, qy, qz, qw)
    if not all(map(math.isfinite, numbers)):
        raise Rejected(f"{field}: expected finite numbers, got {numbers}")
    if abs(norm - 1.0) > QUATERNION_TOLERANCE:
        raise Rejected(f"{field}: the norm of its quaternion is {norm:g}, expected 1")
    return SE3.from_quaternion(np.array([qx, qy, qz, qw]) / norm, numbers[:3])


def contact_force_messages(
    robot: RobotContext,
    contacts: Iterable[Contact],
    forces: ContactForces,
    q: Array,
    header: Header,
) -> list[ContactForce]:
    """Return messages with the forces or impulses of contacts and the stamp of `header`."""
    oMf = dyn_ros.frame_placements(robot.model, robot.data, q)
    return [
        _contact_force_message(
            *_force_frame(robot, contact, oMf), contact, forces[str(contact.name)], header
        )
        for contact in contacts
    ]


def _force_frame(robot: RobotContext, contact: Contact, oMf: Array) -> tuple[str, Array, Array]:
    """Return frame_id, point (3,) [m] and rotation (3, 3) of a contact force.

    The point is in the axes of frame_id, and the rotation turns the force to these axes. A contact
    has no frame_id of its own, so a LOCAL force is expressed in the frame that the contact is on.
    """
    frame_id = reference_frame_id(robot, contact.frame, contact.reference_frame)
    X = contact.placement.as_homogeneous()
    if contact.reference_frame == ReferenceFrame.LOCAL:
        return frame_id, X[:3, 3], X[:3, :3]
    if contact.reference_frame == ReferenceFrame.WORLD and contact.dimension == 6:
        return frame_id, np.zeros(3), np.eye(3)
    frame = frame_number(robot.model, contact.frame)
    return frame_id, (oMf[frame] @ X)[:3, 3], np.eye(3)


def _contact_force_message(
    frame_id: str, point: Array, R: Array, contact: Contact, force: Array, header: Header
) -> ContactForce:
    """Return the message of a contact force (3,) or (6,), turned by R to the axes of `frame_id`."""
    message = ContactForce(name=str(contact.name), active=True)
    message.header.stamp, message.header.frame_id = header.stamp, frame_id
    vectors = R @ force.reshape(-1, 3, 1)
    if not (np.isfinite(vectors).all() and np.isfinite(point).all()):
        raise Rejected(
            f"the force of contact {contact.name!r:.80} is not finite, because numbers "
            "in the request or in the state are too large"
        )
    message_fields.set_vector(message.point, *point.tolist())
    for field, vector in zip((message.wrench.force, message.wrench.torque), vectors[..., 0]):
        message_fields.set_vector(field, *vector.tolist())
    return message


def get_contact_dynamics(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the acceleration under efforts and contacts, and the contact forces."""
    contacts = requested_contacts(request.contacts)
    tau = arrays.read_vector(robot, request, "effort")
    a, forces = dyn_ros.contact_dynamics(
        robot.model,
        robot.data,
        state.q,
        state.require_velocities(),
        tau,
        contacts,
        requested_forces(robot, request, state.q),
        request.damping,
    )
    response.acceleration = arrays.to_float64_field(a[robot.rows])
    response.forces = contact_force_messages(robot, contacts, forces, state.q, response.header)
    _set_rank_and_residual(response, forces)


def get_impulse(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the velocity after an impact, and the impulses of the contacts."""
    contacts = requested_contacts(request.contacts)
    v, impulses = dyn_ros.impulse_dynamics(
        robot.model,
        robot.data,
        state.q,
        state.require_velocities(),
        contacts,
        request.restitution,
        request.damping,
    )
    response.velocity = arrays.to_float64_field(v[robot.rows])
    response.impulses = contact_force_messages(robot, contacts, impulses, state.q, response.header)
    _set_rank_and_residual(response, impulses)


def _set_rank_and_residual(response: Any, forces: ContactForces) -> None:
    """Set the rank and the residual of contact forces in a response."""
    response.rank = forces.rank
    [response.residual] = arrays.to_float64_field(np.array([forces.residual]))


def get_operational_space(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the inertia, bias forces and null space of a frame."""
    model, data = robot.model, robot.data
    frame_arguments = request.frame, request.reference_frame, request.dimension, request.damping
    response.header.frame_id = reference_frame_id(robot, request.frame, request.reference_frame)
    mu, p = dyn_ros.operational_space_bias(
        model, data, state.q, arrays.velocity_or_zeros(state), *frame_arguments
    )
    response.p = arrays.to_float64_field(p)
    response.mu = arrays.to_float64_field(mu, response.velocity_valid)
    N = dyn_ros.null_space_projector(model, data, state.q, *frame_arguments)
    arrays.set_matrix(response.null_space_projector, N[robot.block])
    arrays.set_matrix(response.inertia, data.osim)
    arrays.set_matrix(
        response.dynamically_consistent_inverse, data.dynamically_consistent_inverse[robot.rows]
    )


KERNELS = (
    "frame_placements",
    "contact_dynamics",
    "impulse_dynamics",
    "operational_space_bias",
    "null_space_projector",
)
SERVICES = (
    Service("~/get_contact_dynamics", GetContactDynamics, get_contact_dynamics),
    Service("~/get_impulse", GetImpulse, get_impulse),
    Service("~/get_operational_space", GetOperationalSpace, get_operational_space),
)
