# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The outputs of centroidal_node about the ground: forces on the feet, center of pressure."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped
from rclpy.parameter import Parameter

from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import ContactForce, ContactForces, ContactStates

from ..states.joint_states import Rejected, abbreviated, duplicates
from ..viewer.scene import shapes
from .base.dispatch import Compute, Output, point_output
from .base.inputs import SENSOR_QOS
from .base.parameters import Spec
from .base.robot_node import RobotNode
from .messages import conversions
from .robot import RobotContext, State, Terms, once_per_state
from .robot import support as ground_support
from .robot.support import Support, moment_about_origin, zero_moment_point

TOPIC = "~/contacts"
SPECS = (
    Spec("contact_frames", Parameter.Type.STRING_ARRAY,
         "Links, joints or fixed joints at whose origins the ground supports the robot, such as "
         "its feet; empty: none, and neither contact forces nor their markers are computed."),
    Spec("contact_dimension", 3,
         "What the ground exerts on each of contact_frames. 3: a force, as on a point foot. 6: a "
         "force and a moment, as on a flat foot.", choices=(3, 6)),
    Spec("contact_source", "always",
         "Which of contact_frames are in contact. always: all. topic: those that are active in the "
         "last message on ~/contacts.", choices=("always", "topic")),
    Spec("input_timeout", 0.5,
         "Maximum age of the last message on ~/contacts [s]; no contact forces are published if it "
         "is older. 0: no limit.", limits=(0.0, 3600.0)),
    Spec("ground_height", 0.0,
         "Height of the ground in the world, against gravity [m]: ~/zmp and ~/center_of_pressure "
         "are on this plane.", limits=(-1e6, 1e6)),
)


class Feet:
    """The forces of the ground on the feet of a robot.

    The node has the parameters `SPECS`, `acceleration_source`, and the inputs of `wanted_inputs`.
    """

    def __init__(self, node: RobotNode) -> None:
        self._node = node
        self._feet: ground_support.ContactFrames | None = None
        self._feet_of: tuple[Any, int] = None, -1   # robot and parameters
        self._undefined: dict[str, str] = {}        # by topic, why it was not published
        self.outputs = (
            Output("~/contact_forces", ContactForces, self._make_forces, self.reads),
            Output("~/center_of_pressure", PointStamped, self._make_center, self.reads))

    # Parameters and inputs

    def check(self, robot: RobotContext, values: Mapping[str, Any], changed: Set[str]) -> None:
        """Raise a ValueError if changed parameters do not fit the robot."""
        if {"contact_frames", "contact_dimension"} & changed:
            ground_support.ContactFrames.of(robot, values)

    @staticmethod
    def wanted_inputs(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the subscription that the parameters require."""
        if values["contact_source"] == "topic":
            return {TOPIC: (ContactStates, _active, SENSOR_QOS)}
        return {}

    def reads(self) -> Iterable[str]:
        """Return what `support` reads; see `Output.reads`."""
        return ground_support.reads(self._node.parameters.values)

    def waiting_for(self, robot: RobotContext, subscribed: Iterable[str]) -> str:
        """Return why outputs that have subscribers are not published, or an empty string."""
        topics = [output.topic for output in self.outputs if output.topic in subscribed]
        if topics:
            try:
                self._states(robot, self._used(robot))
            except ValueError as error:
                return f"no {', '.join(topics)}: {error}"
            if robot.state.collects_effort and not robot.state.effort_known:
                return (f"no {', '.join(topics)}: unknown effort of "
                        + abbreviated(robot.state.missing_effort()))
        undefined = [f"no {topic}: {why}" for topic, why in self._undefined.items()
                     if topic in subscribed]
        return "; ".join(undefined)

    def _used(self, robot: RobotContext) -> ground_support.ContactFrames:
        """Return the feet; a ValueError states why there are none."""
        parameters = self._node.parameters
        if self._feet is None or self._feet_of != (robot, parameters.changes):
            feet = ground_support.ContactFrames.of(robot, parameters.values)
            if not feet.contacts:
                raise Rejected("contact_frames is empty; set it to the feet of the robot")
            self._feet, self._feet_of = feet, (robot, parameters.changes)
        return self._feet

    def _states(self, robot: RobotContext, feet: ground_support.ContactFrames) -> Array:
        """Return whether each foot is in contact; a ValueError if that is unknown."""
        values = self._node.parameters.values
        if values["contact_source"] == "always":
            return np.ones(len(feet.contacts), bool)
        active = self._node.inputs.numbers(TOPIC, robot, values["input_timeout"])
        names = [str(contact.frame) for contact in feet.contacts]
        missing = [name for name in names if name not in active]
        if missing:
            raise Rejected(f"the last message on {TOPIC} does not contain {abbreviated(missing)}")
        return np.array([active[name] for name in names])

    # Forces

    @once_per_state
    def support(self, robot: RobotContext, state: State, terms: Terms) -> Support | None:
        """Return the forces of the ground, or None if an input is missing."""
        try:
            feet = self._used(robot)
            active = self._states(robot, feet)
        except ValueError:              # reported by waiting_for
            return None
        try:
            return ground_support.support(robot, state, terms, feet, active,
                                          self._node.parameters.values)
        except ValueError as error:
            self._node.reject("contact forces", error)
            return None

    # Outputs

    def _make_forces(self, robot: RobotContext) -> Compute:
        """`~/contact_forces`: the forces of the ground on contact_frames, from the efforts."""
        message = ContactForces()

        def compute(state: State, terms: Terms) -> ContactForces | None:
            support = self.support(robot, state, terms)
            if support is None:
                return None
            names = self._node.parameters.values["contact_frames"]
            if [force.name for force in message.forces] != names:
                message.forces = [ContactForce(name=name) for name in names]
            message.header.frame_id = robot.world_frame
            _write(message, state, support)
            return message
        return compute

    def _make_center(self, robot: RobotContext) -> Compute:
        """`~/center_of_pressure`: the point on the ground where the contact forces act."""
        return point_output(robot, partial(self.center_of_pressure, robot))

    def center_of_pressure(self, robot: RobotContext, state: State,
                           terms: Terms) -> Array | None:
        """Return the center of pressure [m], (3,), or None; `waiting_for` states the reason."""
        support = self.support(robot, state, terms)
        if support is None:
            return None
        return self.ground_point("~/center_of_pressure", robot,
                                 moment_about_origin(support.forces, support.points))

    def ground_point(self, topic: str, robot: RobotContext, wrench: Array) -> Array | None:
        """Return the zero moment point of a wrench about the origin [N, N m], (3,), or None.

        `waiting_for` states why there is no such point for a topic.
        """
        gravity = robot.model.gravity
        mass = robot.model.total_mass + robot.base.mass
        height = self._node.parameters.values["ground_height"]
        try:
            point = zero_moment_point(wrench[:3], wrench[3:], shapes.upward(gravity), height,
                                      mass * float(np.linalg.norm(gravity)))
        except Rejected as error:
            self._undefined[topic] = str(error)
            return None
        self._undefined.pop(topic, None)
        return point


def _active(robot: RobotContext, message: ContactStates) -> dict[str, bool]:
    """Return whether each name of a dyn_ros/ContactStates is in contact."""
    names, active = message.name, message.active
    if len(names) != len(active):
        raise Rejected(f"{len(names)} names, but {len(active)} numbers in active; expected one for "
                       "each name")
    repeated = duplicates(names)
    if repeated:
        raise Rejected(f"duplicate names: {abbreviated(repeated)}")
    return dict(zip(names, active))


def _write(message: ContactForces, state: State, support: Support) -> None:
    """Write the forces of a state to a message that has one for each frame."""
    seconds, nanoseconds = divmod(state.stamp, 1_000_000_000)
    message.velocity_valid = state.v is not None
    message.acceleration_valid = support.acceleration is not None
    message.rank, message.residual = support.rank, support.residual
    for foot, active, point, force in zip(message.forces, support.active.tolist(),
                                          support.points.tolist(), support.forces.tolist()):
        foot.header.frame_id = message.header.frame_id
        foot.header.stamp.sec, foot.header.stamp.nanosec = seconds, nanoseconds
        foot.active = active
        conversions.set_vector(foot.point, *point)
        conversions.set_vector(foot.wrench.force, *force[:3])
        conversions.set_vector(foot.wrench.torque, *force[3:])
