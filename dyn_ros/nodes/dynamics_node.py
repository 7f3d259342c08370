# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes gravity, nonlinear effects and the inertia matrix of a moving robot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Wrench
from sensor_msgs.msg import JointState

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import JointSpaceDynamics, JointSpaceInertia, JointWrenches

from ..cdr.template import Template
from .base.command_output import CommandOutput, command_parameters
from .base.dispatch import Compute, effort_writer
from .base.input_topics import wrench_subscriptions
from .base.node_parameters import DERIVATIVES
from .base.robot_node import Output, RobotNode, run_node
from .base.service import Service
from .markers.dynamics_markers import DYNAMICS
from .messages import message_fields
from .messages.frame_ids import coinciding_link
from .robot import DynamicsTerms, RobotContext, State
from .services import contact_services, dynamics_services


def make_gravity(robot: RobotContext) -> Compute:
    """Prepare `~/gravity`: the torques that hold the robot still."""
    return effort_writer(robot, lambda state, terms: terms.g)


def make_nle(robot: RobotContext) -> Compute:
    """Prepare `~/nle`: gravity, Coriolis and centrifugal torques."""
    return effort_writer(robot, _nle_or_none)


def _nle_or_none(state: State, terms: DynamicsTerms) -> Array | None:
    """Return nonlinear effects (nv,); None if velocities are unknown."""
    return None if state.v is None else terms.nle


def _gravity_command(robot: RobotContext, state: State, terms: DynamicsTerms) -> Array:
    """Return gravity torques and the offsets that friction has at rest, (nv,)."""
    if not robot.includes_friction:
        return terms.g
    return terms.g + robot.friction(np.zeros(robot.model.nv), terms.g)


def _nle_command(robot: RobotContext, state: State, terms: DynamicsTerms) -> Array | None:
    """Return nonlinear effects and friction, (nv,); None if velocities are unknown."""
    if state.v is None or not robot.includes_friction:
        return _nle_or_none(state, terms)
    return terms.nle + robot.friction(state.v, terms.nle)


def make_inertia(robot: RobotContext) -> Compute:
    """Prepare `~/inertia`: the joint-space inertia matrix."""
    size = len(robot.names)
    message = message_fields.create_message(JointSpaceInertia, robot)
    message_fields.resize_matrix(message.inertia, size, size)
    template = Template(message)
    M, block = template.array("inertia.data").reshape(size, size), robot.block

    def compute(state: State, terms: DynamicsTerms) -> Template:
        M[:] = terms.M[block]
        return template

    return compute


def make_state(robot: RobotContext) -> Compute:
    """Prepare `~/state`: all of these at one instant; velocity and nle are NaN if unknown."""
    size = len(robot.names)
    message = message_fields.create_message(JointSpaceDynamics, robot)
    message.position_name = robot.position_names
    message.friction_included = robot.includes_friction
    message.position = message_fields.zero_field(len(robot.position_names))
    message.velocity = message.nle = message_fields.zero_field(size)
    message.gravity = message_fields.zero_field(size)
    message_fields.resize_matrix(message.inertia, size, size)
    template = Template(message)
    velocity_valid, q, v, g, h = (
        template.array(name)
        for name in ("velocity_valid", "position", "velocity", "gravity", "nle")
    )
    M = template.array("inertia.data").reshape(size, size)
    rows, position_rows, block = robot.rows, robot.position_rows, robot.block
    friction = robot.friction if robot.includes_friction else None

    def compute(state: State, terms: DynamicsTerms) -> Template:
        q[:] = state.q[position_rows]
        g[:] = terms.g[rows]
        M[:] = terms.M[block]
        velocity_valid[0] = state.v is not None
        if state.v is None:
            v[:] = h[:] = math.nan
        else:
            v[:] = state.v[rows]
            h[:] = terms.nle[rows]
            if friction:
                h[:] += friction(state.v, terms.nle)[rows]
        return template

    return compute


def make_joint_wrenches(robot: RobotContext) -> Compute:
    """Prepare `~/joint_wrenches`: the wrench that each joint and fixed joint transmits.

    All accelerations are zero; if a velocity is unknown (`velocity_valid` is false), all velocities
    are, too.
    """
    model, data = robot.model, robot.data
    root_joint = model.joint_names[0] if robot.has_moving_base else None  # no link carries the base
    frame_indices = [
        i
        for i, frame in enumerate(model.tree.frames)
        if frame.kind != "body" and frame.name != root_joint
    ]
    zeros = np.zeros(model.nv)
    message = JointWrenches(
        name=[model.frame_names[i] for i in frame_indices],
        frame=[coinciding_link(model, i) for i in frame_indices],
        wrench=[Wrench() for _ in frame_indices],
    )

    def compute(state: State, terms: DynamicsTerms) -> JointWrenches:
        v = state.v
        message.velocity_valid = v is not None
        forces = dyn_ros.frame_forces(model, data, state.q, zeros if v is None else v, zeros)
        for wrench, force in zip(message.wrench, forces[frame_indices].tolist()):
            message_fields.set_vector(wrench.force, *force[:3])
            message_fields.set_vector(wrench.torque, *force[3:])
        return message

    return compute


OUTPUTS = (
    Output("~/gravity", JointState, make_gravity, ("g",)),
    Output("~/nle", JointState, make_nle, ("nle",)),
    Output("~/inertia", JointSpaceInertia, make_inertia, ("M",)),
    Output("~/state", JointSpaceDynamics, make_state, ("g", "M", "nle")),
    Output("~/joint_wrenches", JointWrenches, make_joint_wrenches),
)


class DynamicsNode(RobotNode):
    """Publishes gravity, nonlinear effects, inertia, all of them at once, and commands."""

    kernels: tuple[str, ...] = (
        "all_terms",
        "frame_forces",
        *dynamics_services.KERNELS,
        *contact_services.KERNELS,
    )
    batch_kernels = dynamics_services.BATCH_KERNELS
    provided_services: tuple[Service, ...] = (
        *dynamics_services.SERVICES,
        *contact_services.SERVICES,
    )
    markers = DYNAMICS
    specs = (*command_parameters("gravity", "nle"), DERIVATIVES)

    def __init__(self, name: str, robot_owner: RobotNode | None = None, **kwargs: Any) -> None:
        self.command = CommandOutput(
            self,
            {
                "gravity": (lambda: ("g",), _gravity_command),
                "nle": (lambda: ("nle",), _nle_command),
            },
        )
        self.outputs = (*OUTPUTS, self.command.output)
        super().__init__(name, robot_owner, **kwargs)
        if self.parameters.values["derivatives"]:
            self.kernels += dynamics_services.DERIVATIVE_KERNELS
            self.provided_services += dynamics_services.DERIVATIVE_SERVICES

    def required_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return wrench_subscriptions(
            values["markers.wrench.topics"],
            values["markers.wrench.frames"],
            "the parameter markers.wrench.frames",
        )


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    return run_node(DynamicsNode, "dynamics", args)


if __name__ == "__main__":
    raise SystemExit(main())
