# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes mass, center of mass, momentum, locked inertia, and the forces on the feet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped
from rclpy.parameter import Parameter

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.composite_bodies import move_reference_point
from dyn_ros.msg import CentroidalState, ContactForce, ContactForces, ContactStates

from ..cdr.template import Template
from ..states.joint_states import Rejected, abbreviate_names, find_duplicates
from ..viewer.scene import geometry
from .base.dispatch import Compute, point_writer
from .base.input_topics import SENSOR_QOS
from .base.node_parameters import DERIVATIVES, Spec
from .base.robot_node import Output, RobotNode, run_node
from .base.service import Service
from .markers.centroidal_markers import CENTROIDAL, CONTACT
from .messages import message_fields
from .robot import DynamicsTerms, RobotContext, State, ground, once_per_state
from .robot.ground import TOO_LARGE, CompositeBody, ContactFrames, GroundForces, composite_body
from .services import centroidal_services

CONTACTS_TOPIC = "~/contacts"
SPECS = (
    Spec(
        "acceleration_source",
        "none",
        "Source of accelerations. none: no rates. finite_difference: filtered differences of "
        "velocities. forward_dynamics: dynamics with the measured efforts.",
        choices=("none", "finite_difference", "forward_dynamics"),
    ),
    Spec(
        "acceleration_cutoff",
        10.0,
        "Cutoff frequency of the filter of finite_difference [Hz]. 0: no filter.",
        limits=(0.0, 1e5),
    ),
    Spec(
        "contact_frames",
        Parameter.Type.STRING_ARRAY,
        "Frames at whose origins the ground supports the robot, such as feet.",
    ),
    Spec(
        "contact_dimension",
        3,
        "3: a force acts on each frame (point foot). 6: a force and a moment (flat foot).",
        choices=(3, 6),
    ),
    Spec(
        "contact_source",
        "always",
        "Frames in contact. always: all contact_frames. topic: the active ones on ~/contacts.",
        choices=("always", "topic"),
    ),
    Spec(
        "input_timeout",
        0.5,
        "Maximum age of messages on ~/contacts [s]. 0: no limit.",
        limits=(0.0, 3600.0),
    ),
    Spec(
        "ground_height",
        0.0,
        "Height of the ground, against gravity, for ~/zmp and ~/center_of_pressure [m].",
        limits=(-1e6, 1e6),
    ),
    DERIVATIVES,
)


class CentroidalNode(RobotNode):
    """Publishes the state of the whole robot and what the ground exerts; provides services."""

    kernels: tuple[str, ...] = (
        "all_terms",
        "aba",
        "contact_dynamics",
        "contact_forces",
        *centroidal_services.KERNELS,
    )
    provided_services: tuple[Service, ...] = centroidal_services.SERVICES
    markers = (*CENTROIDAL, *CONTACT)
    specs = SPECS
    checks = ((("contact_frames", "contact_dimension"), ContactFrames.from_parameters),)

    def __init__(self, name: str, robot_owner: RobotNode | None = None, **kwargs: Any) -> None:
        # computed again only for another robot or after a change of parameters
        self._cached_feet = lru_cache(1)(lambda robot, changes: self._configured_feet(robot))
        self._undefined_reasons: dict[str, str] = {}  # topic: reason why it is not published
        self.outputs = (
            Output("~/state", CentroidalState, self._make_state, self._rate_reads),
            Output(
                "~/contact_forces",
                ContactForces,
                self._make_contact_forces,
                self._ground_force_reads,
            ),
            Output(
                "~/center_of_pressure",
                PointStamped,
                self._make_center_of_pressure,
                self._ground_force_reads,
            ),
            Output("~/zmp", PointStamped, self._make_zmp, self._rate_reads),
        )
        super().__init__(name, robot_owner, **kwargs)
        if self.parameters.values["derivatives"]:
            self.kernels += centroidal_services.DERIVATIVE_KERNELS
            self.provided_services += centroidal_services.DERIVATIVE_SERVICES

    # --- parameters and inputs

    def required_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return ~/contacts, if the parameters require it."""
        if values["contact_source"] == "topic":
            return {CONTACTS_TOPIC: (ContactStates, _read_contact_states, SENSOR_QOS)}
        return {}

    def parameters_changed(self, changed: Set[str]) -> None:
        """Apply changed parameters, also to the filter of accelerations."""
        super().parameters_changed(changed)
        if self.robot:
            self.robot.collector.cutoff = self.parameters.values["acceleration_cutoff"]

    def _ground_force_reads(self) -> Iterable[str]:
        """Return the names of what `ground_forces` reads, as in `Output.reads`."""
        return ground.ground_force_reads(self.parameters.values)

    # --- state and rates

    def _rate_reads(self) -> Iterable[str]:
        """Return the names of what momenta and their rates depend on, as in `Output.reads`."""
        return ground.rate_reads(self.parameters.values)

    def _make_state(self, robot: RobotContext) -> Compute:
        """Prepare `~/state`: mass, center of mass, locked inertia and, if known, momentum and
        rates.
        """
        robot.collector.cutoff = self.parameters.values["acceleration_cutoff"]
        writers: dict[tuple[str, bool, bool], _CentroidalStateWriter] = {}

        def compute(state: State, terms: DynamicsTerms) -> Template:
            body, rate = (
                composite_body(robot, state, terms),
                self._momentum_rate(robot, state, terms),
            )
            key = robot.world_frame, body.momentum is not None, rate is not None
            if key not in writers:
                writers.clear()
                writers[key] = _CentroidalStateWriter(*key)
            return writers[key].write(body, rate)

        return compute

    def _make_zmp(self, robot: RobotContext) -> Compute:
        """Prepare `~/zmp`: the zero moment point on the ground."""
        return point_writer(robot, partial(self.zero_moment_point, robot))

    def zero_moment_point(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> Array | None:
        """Return the zero moment point [m], (3,), or None; `waiting_reason` states the reason."""
        rate = self._momentum_rate(robot, state, terms)
        if rate is None:
            return None
        body = composite_body(robot, state, terms).body
        force = np.array(rate[:3]) - body.mass * robot.model.gravity
        moment = np.array(rate[3:]) + np.cross(body.com, force)
        return self.ground_point("~/zmp", robot, np.concatenate([force, moment]))

    @once_per_state
    def _momentum_rate(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> Sequence[float] | None:
        """Return the rate of the momentum about the center of mass, six numbers, or None."""
        a = self._acceleration(robot, state, terms)
        if a is None:
            return None
        lever = composite_body(robot, state, terms).lever
        return move_reference_point(lever, (terms.Ag @ a + terms.dhg_drift).tolist())

    def _acceleration(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> Array | None:
        """Return the joint accelerations, (nv,), or None if they are unknown."""
        values = self.parameters.values
        if values["acceleration_source"] == "finite_difference":
            return state.acceleration
        if values["acceleration_source"] != "forward_dynamics":
            return None
        if values["contact_frames"]:
            ground_forces = self.ground_forces(robot, state, terms)
            return None if ground_forces is None else ground_forces.acceleration
        return self._forward_dynamics(robot, state)

    def _forward_dynamics(self, robot: RobotContext, state: State) -> Array | None:
        """Return the joint accelerations under the efforts of a state, (nv,).

        Returns None if an input is missing or, after logging, if they cannot be computed.
        """
        try:
            torque = robot.joint_torque(state)
            if state.v is None or torque is None:
                return None
            a = dyn_ros.aba(robot.model, robot.data, state.q, state.v, torque)
            if np.isfinite(a).all():
                return a
            raise Rejected(TOO_LARGE)
        except (np.linalg.LinAlgError, Rejected) as error:
            self.reject("acceleration_source forward_dynamics", error)
            return None

    # --- contact forces

    def _configured_feet(self, robot: RobotContext) -> ContactFrames:
        """Return the feet; raise `Rejected` with the reason if there are none."""
        feet = ContactFrames.from_parameters(robot, self.parameters.values)
        if not feet.contacts:
            raise Rejected("contact_frames is empty; set it to the feet of the robot")
        return feet

    def _active_feet(self, robot: RobotContext, feet: ContactFrames) -> Array:
        """Return True for each foot in contact, (n,); raise `Rejected` if that is unknown."""
        values = self.parameters.values
        if values["contact_source"] == "always":
            return np.ones(len(feet.contacts), bool)
        active = self.inputs.latest_value(CONTACTS_TOPIC, robot, values["input_timeout"])
        names = [str(contact.frame) for contact in feet.contacts]
        missing = [name for name in names if name not in active]
        if missing:
            raise Rejected(
                f"the last message on {CONTACTS_TOPIC} does not contain {abbreviate_names(missing)}"
            )
        return np.array([active[name] for name in names])

    @once_per_state
    def ground_forces(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> GroundForces | None:
        """Return the forces of the ground, or None if an input is missing."""
        try:
            feet = self._cached_feet(robot, self.parameters.changes)
            active = self._active_feet(robot, feet)
        except ValueError:  # reported by waiting_reason
            return None
        try:
            return ground.compute_ground_forces(
                robot, state, terms, feet, active, self.parameters.values
            )
        except ValueError as error:
            self.reject("contact forces", error)
            return None

    def _make_contact_forces(self, robot: RobotContext) -> Compute:
        """Prepare `~/contact_forces`: the forces of the ground on `contact_frames`."""
        message = ContactForces()

        def compute(state: State, terms: DynamicsTerms) -> ContactForces | None:
            ground_forces = self.ground_forces(robot, state, terms)
            if ground_forces is None:
                return None
            names = self.parameters.values["contact_frames"]
            if [force.name for force in message.forces] != names:
                message.forces = [ContactForce(name=name) for name in names]
            message.header.frame_id = robot.world_frame
            _write_contact_forces(message, state, ground_forces)
            return message

        return compute

    def _make_center_of_pressure(self, robot: RobotContext) -> Compute:
        """Prepare `~/center_of_pressure`: the center of pressure on the ground."""
        return point_writer(robot, partial(self.center_of_pressure, robot))

    def center_of_pressure(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> Array | None:
        """Return the center of pressure [m], (3,), or None; `waiting_reason` states the reason."""
        ground_forces = self.ground_forces(robot, state, terms)
        if ground_forces is None:
            return None
        return self.ground_point(
            "~/center_of_pressure",
            robot,
            ground.moment_about_origin(ground_forces.forces, ground_forces.points),
        )

    def ground_point(self, topic: str, robot: RobotContext, wrench: Array) -> Array | None:
        """Return the zero moment point [m] of a wrench about the origin, (3,), or None.

        The reason for None is kept for `waiting_reason`.
        """
        gravity = robot.model.gravity
        mass = robot.model.total_mass + robot.base.mass
        height = self.parameters.values["ground_height"]
        try:
            point = ground.zero_moment_point(
                wrench[:3],
                wrench[3:],
                geometry.up_direction(gravity),
                height,
                mass * float(np.linalg.norm(gravity)),
            )
        except Rejected as error:
            self._undefined_reasons[topic] = str(error)
            return None
        self._undefined_reasons.pop(topic, None)
        return point

    # --- diagnostics

    def waiting_reason(self) -> str:
        """Return why all or some outputs are not published, or an empty string."""
        waiting = super().waiting_reason()
        if waiting or self.robot is None:
            return waiting
        subscribed_topics, reasons = self.dispatch.subscribed_topics(), []
        acceleration_source = self.parameters.values["acceleration_source"]
        if acceleration_source == "forward_dynamics":
            reasons.append(self._missing_effort_reason(self.robot, "rates"))
        reasons.append(
            self._missing_forces_reason(self.robot, subscribed_topics)
            or "; ".join(
                f"no {topic}: {reason}"
                for topic, reason in self._undefined_reasons.items()
                if topic in subscribed_topics
            )
        )
        if acceleration_source == "none" and "~/zmp" in subscribed_topics:
            reasons.append("no ~/zmp: the rates are unknown, because acceleration_source is none")
        return "; ".join(filter(None, reasons))

    def _missing_forces_reason(self, robot: RobotContext, subscribed_topics: Sequence[str]) -> str:
        """Return why subscribers get no contact forces, or an empty string."""
        topics = ", ".join(
            output.topic
            for output in self.outputs
            if output.reads == self._ground_force_reads and output.topic in subscribed_topics
        )
        if not topics:
            return ""
        try:
            self._active_feet(robot, self._cached_feet(robot, self.parameters.changes))
        except ValueError as error:
            return f"no {topics}: {error}"
        return self._missing_effort_reason(robot, topics)

    def _missing_effort_reason(self, robot: RobotContext, results: str) -> str:
        """Return why results that require efforts are missing, or an empty string."""
        if not robot.collector.collects_effort or robot.collector.effort_known:
            return ""
        return f"no {results}: unknown effort of " + abbreviate_names(
            robot.collector.missing_effort()
        )


class _CentroidalStateWriter:
    """Writer of CentroidalState messages that share a frame_id and flags."""

    def __init__(self, frame_id: str, velocity_valid: bool, rates_valid: bool) -> None:
        message = CentroidalState(velocity_valid=velocity_valid, rates_valid=rates_valid)
        message.header.frame_id = frame_id
        self._template = template = Template(message)
        self._mass, self._com, self._inertia = (
            template.array(name) for name in ("mass", "com", "locked_inertia")
        )
        self._momentum, self._rate = (
            [template.array(name) for name in names]
            for names in (
                ("com_velocity", "linear_momentum", "angular_momentum"),
                ("com_acceleration", "linear_momentum_rate", "angular_momentum_rate"),
            )
        )
        for field in (*self._momentum, *self._rate):
            field[:] = math.nan

    def write(self, composite: CompositeBody, rate: Sequence[float] | None) -> Template:
        """Write the mass properties and, if known, momentum and its rate; return the message."""
        body = composite.body
        self._mass[0], self._com[:] = body.mass, body.com
        self._inertia[:] = body.mass, *body.com, *body.rotational
        for fields, momentum in ((self._momentum, composite.momentum), (self._rate, rate)):
            if momentum is not None:
                velocity, linear, angular = fields
                linear[:], angular[:] = momentum[:3], momentum[3:]
                velocity[:] = linear / body.mass if body.mass else math.nan
        return self._template


def _read_contact_states(robot: RobotContext, message: ContactStates) -> dict[str, bool]:
    """Return the contact flag of each name in a dyn_ros/ContactStates."""
    names, active = message.name, message.active
    if len(names) != len(active):
        raise Rejected(
            f"{len(names)} names, but {len(active)} numbers in active; expected one for each name"
        )
    duplicate_names = find_duplicates(names)
    if duplicate_names:
        raise Rejected(f"duplicate names: {abbreviate_names(duplicate_names)}")
    return dict(zip(names, active))


def _write_contact_forces(
    message: ContactForces, state: State, ground_forces: GroundForces
) -> None:
    """Write contact forces to a message that has a ContactForce for each foot."""
    seconds, nanoseconds = divmod(state.stamp, 1_000_000_000)
    message.velocity_valid = state.v is not None
    message.acceleration_valid = ground_forces.acceleration is not None
    message.rank, message.residual = ground_forces.rank, ground_forces.residual
    for foot, active, point, force in zip(
        message.forces,
        ground_forces.active.tolist(),
        ground_forces.points.tolist(),
        ground_forces.forces.tolist(),
    ):
        foot.header.frame_id = message.header.frame_id
        foot.header.stamp.sec, foot.header.stamp.nanosec = seconds, nanoseconds
        foot.active = active
        message_fields.set_vector(foot.point, *point)
        message_fields.set_vector(foot.wrench.force, *force[:3])
        message_fields.set_vector(foot.wrench.torque, *force[3:])


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    return run_node(CentroidalNode, "centroidal", args)


if __name__ == "__main__":
    raise SystemExit(main())
