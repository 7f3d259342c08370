# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services that describe the robot and attach payloads to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dyn_ros import Model, srv
from dyn_ros.engine.model.urdf.tree import Joint
from dyn_ros.msg import FrameModel, JointModel, LinkModel, Payload

from ...states.joint_states import Rejected
from ..base.service import Service
from ..messages import message_fields
from ..messages.frame_ids import coinciding_link
from ..robot import RobotContext

MAX_NAME_LENGTH = 256  # characters; a payload's name is part of every diagnostics message


def get_model(robot: RobotContext, request: Any, response: Any) -> None:
    """Return the joints, limits, frames, masses and payloads of the robot."""
    model = robot.model
    root_kind = model.tree.joints[0].kind if model.njoints else ""
    response.header.frame_id = robot.world_frame
    response.robot_name = model.name
    response.root_link = robot.root_link
    response.root_joint = root_kind if root_kind in ("floating", "planar") else "fixed"
    message_fields.set_vector(response.gravity, *model.gravity.tolist())
    response.total_mass = model.total_mass
    response.position_name = robot.position_names
    links = model.tree.body_links
    response.joints = [
        _joint_message(model, joint, link) for joint, link in zip(model.tree.joints, links)
    ]
    response.frames = [_frame_message(model, index) for index in range(len(model.frame_names))]
    response.links = _link_messages(model, links)
    response.payloads = [
        _payload_message(name, name in model.payloads, *body)
        for name, body in robot.payloads.items()
    ]


def _joint_message(model: Model, joint: Joint, link: str) -> JointModel:
    """Return the JointModel of a joint, whose child is a link."""
    message = JointModel(
        name=joint.name,
        type=joint.kind,
        link=link,
        parent=_joint_name(model, joint.parent),
        multiplier=1.0,
    )
    message_fields.set_pose(message.origin, joint.placement)
    limits = math.inf, -math.inf, math.inf, math.inf
    if joint.kind in ("floating", "planar"):
        message.axis.z = 0.0 if joint.kind == "floating" else 1.0
    else:
        message_fields.set_vector(message.axis, *joint.axis.tolist())
        limits = joint.upper, joint.lower, joint.velocity, joint.effort
    message.upper, message.lower, message.velocity, message.effort = map(float, limits)
    message.damping, message.friction = float(joint.damping), float(joint.friction)
    if joint.mimic:
        message.mimic = model.joint_names[joint.mimic.joint]
        message.multiplier = float(joint.mimic.multiplier)
        message.offset = float(joint.mimic.offset)
    return message


def _frame_message(model: Model, index: int) -> FrameModel:
    """Return the FrameModel of a frame with an index."""
    frame = model.tree.frames[index]
    kind = "link" if frame.kind == "body" else frame.kind
    message = FrameModel(
        name=frame.name,
        kind=kind,
        parent=_joint_name(model, frame.parent),
        link=coinciding_link(model, index),
    )
    message_fields.set_pose(message.origin, frame.placement)
    return message


def _link_messages(model: Model, links: Sequence[str]) -> list[LinkModel]:
    """Return a LinkModel for the fixed base, if there is one, and for each joint."""
    bodies = [(name, joint, model.tree.joints[joint].inertia) for joint, name in enumerate(links)]
    if base := model.tree.links_of_joint.get(-1):
        bodies.insert(0, (base[0].name, -1, model.tree.base_inertia))
    messages = []
    for name, joint, inertia in bodies:
        fixed = [link.name for link in model.tree.links_of_joint[joint] if link.name != name]
        messages.append(
            LinkModel(
                name=name,
                joint=_joint_name(model, joint),
                inertia=message_fields.to_inertia(inertia),
                fixed=fixed,
            )
        )
    return messages


def _payload_message(
    name: str,
    applied: bool,
    frame: str,
    mass: float,
    com: Sequence[float],
    inertia: Sequence[Sequence[float]],
) -> Payload:
    """Return the Payload of a body at a frame; the inertia (3, 3) is about its com (3,)."""
    message = Payload(name=name, applied=applied)
    message.inertia.header.frame_id = frame
    body = message.inertia.inertia
    body.m = mass
    message_fields.set_vector(body.com, *com)
    (body.ixx, body.ixy, body.ixz), (_, body.iyy, body.iyz), (_, _, body.izz) = inertia
    return message


def _joint_name(model: Model, joint: int) -> str:
    """Return the name of the joint with an index; empty for the base, -1."""
    return model.joint_names[joint] if joint >= 0 else ""


def set_payload(robot: RobotContext, request: Any, response: Any) -> None:
    """Attach a body to a link."""
    if not 0 < len(request.name) <= MAX_NAME_LENGTH:
        raise Rejected(f"name: expected 1 to {MAX_NAME_LENGTH} characters, got {len(request.name)}")
    body, com = request.inertia.inertia, request.inertia.inertia.com
    robot.set_payload(
        request.name,
        request.inertia.header.frame_id,
        body.m,
        [com.x, com.y, com.z],
        [
            [body.ixx, body.ixy, body.ixz],
            [body.ixy, body.iyy, body.iyz],
            [body.ixz, body.iyz, body.izz],
        ],
    )
    _report_payloads(robot, response)


def clear_payload(robot: RobotContext, request: Any, response: Any) -> None:
    """Remove one payload, or all."""
    robot.clear_payload(request.name or None)
    _report_payloads(robot, response)


def _report_payloads(robot: RobotContext, response: Any) -> None:
    """Set the names of all payloads and the total mass in a response."""
    response.payloads = list(robot.payloads)
    response.total_mass = robot.model.total_mass


SERVICES = (
    Service("~/get_model", srv.GetModel, get_model),
    Service("~/set_payload", srv.SetPayload, set_payload),
    Service("~/clear_payload", srv.ClearPayload, clear_payload),
)
