# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The outputs of centroidal_node about the ground: forces on the feet, center of pressure."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from geometry_msgs.msg import PointStamped
from rclpy.parameter import Parameter

import dyn_ros
from dyn_ros import Contact, ReferenceFrame
from dyn_ros.engine.algorithms.contacts.contacts import Dimension, contact_table
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import ContactForce, ContactForces, ContactStates
from dyn_ros.states.joint_states import duplicates

from ..states.joint_states import Rejected, abbreviated
from ..states.states import State
from ..viewer.scene import shapes
from .base.dispatch import Compute, Output, Terms
from .base.inputs import SENSOR_QOS
from .base.parameters import Spec
from .base.robot import RobotContext
from .ground import moment_about_origin, zero_moment_point
from .messages import conversions
from .whole import TOO_LARGE, WHOLE

if TYPE_CHECKING:
    from .centroidal_node import CentroidalNode

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


class Support(NamedTuple):
    """The forces of the ground on a robot in one state, in the axes of the world.

    Attributes
    ----------
    active : ndarray (n,)
        Whether each frame is in contact; the forces on the others are zero.
    points : ndarray (n, 3)
        Where the forces act: the origins of the frames [m].
    forces : ndarray (n, 6)
        Force and moment [N, N m].
    acceleration : ndarray (nv,), optional
        Of the joints; None if it is unknown and the forces are those without acceleration.
    rank : int
    residual : float
        Largest generalized force that the forces do not explain [N m, N].
    """

    active: Array
    points: Array
    forces: Array
    acceleration: Array | None
    rank: int
    residual: float


class _Frames(NamedTuple):
    """The frames of the parameter contact_frames, for one robot and these parameters."""

    robot: RobotContext
    changes: int            # of the parameters
    indices: list[int]
    contacts: list[Contact]


class _Solved(NamedTuple):
    """What the efforts of one state result in; fields as in `Support`."""

    acceleration: Array | None
    forces: dyn_ros.ContactForces
    residual: float


class Feet:
    """The forces of the ground on the feet of a robot.

    Parameters
    ----------
    node : CentroidalNode
        Has the parameters `SPECS`, `acceleration_source`, and the inputs of `wanted_inputs`.
    """

    def __init__(self, node: CentroidalNode) -> None:
        self._node = node
        self._frames: _Frames | None = None
        self._undefined: dict[str, str] = {}        # by topic, why it was not published
        self.outputs = (
            Output("~/contact_forces", ContactForces, self._make_forces, self.reads),
            Output("~/center_of_pressure", PointStamped, self._make_center, self.reads))

    # Parameters and inputs

    def check(self, robot: RobotContext, values: Mapping[str, Any], changed: Set[str]) -> None:
        """Raise a ValueError if changed parameters do not fit the robot."""
        if {"contact_frames", "contact_dimension"} & changed:
            _contacts(robot, values)

    @staticmethod
    def wanted_inputs(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the subscription that the parameters require."""
        if values["contact_source"] == "topic":
            return {TOPIC: (ContactStates, _active, SENSOR_QOS)}
        return {}

    def reads(self) -> Iterable[str]:
        """Return what `support` reads; see `Output.reads`."""
        return reads(self._node.parameters.values)

    def waiting_for(self, robot: RobotContext, subscribed: Iterable[str]) -> str:
        """Return why outputs that have subscribers are not published, or an empty string."""
        topics = [each.topic for each in self.outputs if each.topic in subscribed]
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

    def _used(self, robot: RobotContext) -> _Frames:
        """Return the frames; a ValueError states why there are none."""
        parameters = self._node.parameters
        known = self._frames
        if known is None or known.robot is not robot or known.changes != parameters.changes:
            contacts = _contacts(robot, parameters.values)
            if not contacts:
                raise Rejected("contact_frames is empty; set it to the feet of the robot")
            self._frames = known = _Frames(
                robot, parameters.changes,
                [robot.model.frame_index(str(each.frame)) for each in contacts], contacts)
        return known

    def _states(self, robot: RobotContext, frames: _Frames) -> Array:
        """Return whether each frame is in contact; a ValueError if that is unknown."""
        values = self._node.parameters.values
        if values["contact_source"] == "always":
            return np.ones(len(frames.contacts), bool)
        active = self._node.inputs.numbers(TOPIC, robot, values["input_timeout"])
        names = [str(each.frame) for each in frames.contacts]
        missing = [name for name in names if name not in active]
        if missing:
            raise Rejected(f"the last message on {TOPIC} does not contain {abbreviated(missing)}")
        return np.array([active[name] for name in names])

    # Forces

    def support(self, robot: RobotContext, state: State, terms: Terms) -> Support | None:
        """Return the forces of the ground, or None if an input is missing; computed once.

        Parameters
        ----------
        robot : RobotContext
        state : State
        terms : Terms
            Contain what `reads` returns.
        """
        return robot.once(state, "support", lambda: self._support(robot, state, terms))

    def _support(self, robot: RobotContext, state: State, terms: Terms) -> Support | None:
        try:
            frames = self._used(robot)
            active = self._states(robot, frames)
        except ValueError:              # reported by waiting_for
            return None
        try:
            return self._solve(robot, state, terms, frames, active)
        except ValueError as error:
            self._node.reject("contact forces", error)
            return None

    def _solve(self, robot: RobotContext, state: State, terms: Terms, frames: _Frames,
               active: Array) -> Support | None:
        values = self._node.parameters.values
        contacts = [each for each, holds in zip(frames.contacts, active) if holds]
        solved = _solved(robot, state, values["acceleration_source"], contacts)
        if solved is None:
            return None
        a, lambda_c = solved.acceleration, solved.forces.lambda_c
        if not (np.isfinite(lambda_c).all() and (a is None or np.isfinite(a).all())):
            raise Rejected(TOO_LARGE)
        forces, dimension = np.zeros((len(active), 6)), values["contact_dimension"]
        forces[active, :dimension] = lambda_c.reshape(-1, dimension)
        return Support(active, terms.oMf[frames.indices, :3, 3], forces, a, solved.forces.rank,
                       solved.residual)

    # Outputs

    def _make_forces(self, robot: RobotContext) -> Compute:
        """`~/contact_forces`: the forces of the ground on contact_frames, from the efforts."""
        message = ContactForces()

        def compute(state: State, terms: Terms) -> ContactForces | None:
            support = self.support(robot, state, terms)
            if support is None:
                return None
            names = self._node.parameters.values["contact_frames"]
            if [each.name for each in message.forces] != names:
                message.forces = [ContactForce(name=name) for name in names]
            message.header.frame_id = robot.world_frame
            _write(message, state, support)
            return message
        return compute

    def _make_center(self, robot: RobotContext) -> Compute:
        """`~/center_of_pressure`: the point on the ground where the contact forces act."""
        message = PointStamped()

        def compute(state: State, terms: Terms) -> PointStamped | None:
            center = self.center_of_pressure(robot, state, terms)
            if center is None:
                return None
            message.header.frame_id = robot.world_frame
            conversions.set_vector(message.point, *center.tolist())
            return message
        return compute

    def center_of_pressure(self, robot: RobotContext, state: State,
                           terms: Terms) -> Array | None:
        """Return the center of pressure [m], (3,), or None; `waiting_for` states the reason."""
        support = self.support(robot, state, terms)
        if support is None:
            return None
        return self.ground_point("~/center_of_pressure", robot,
                                 moment_about_origin(support.forces, support.points))

    def ground_point(self, topic: str, robot: RobotContext, wrench: Array) -> Array | None:
        """Return the zero moment point of a wrench about the origin, (3,), or None.

        Parameters
        ----------
        topic : str
            For which `waiting_for` states why there is no such point.
        robot : RobotContext
        wrench : (6,) ndarray
            [N, N m]
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


def _solved(robot: RobotContext, state: State, source: str,
            contacts: Sequence[Contact]) -> _Solved | None:
    """Solve for the contact forces, given the acceleration_source; None if an input is missing."""
    model, data, q, v, tau = robot.model, robot.data, state.q, state.v, state.effort
    if tau is None:
        return None
    if source == "forward_dynamics":
        if v is None:
            return None
        a, forces = dyn_ros.contact_dynamics(model, data, q, v, tau, contacts)
        return _Solved(a.copy(), forces, 0.0)
    known, still = state.acceleration, np.zeros(model.nv)
    if source == "none":
        known = None
    forces = dyn_ros.contact_forces(model, data, q, still if v is None else v,
                                    still if known is None else known, tau, contacts)
    return _Solved(known, forces, forces.residual)


def reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what `Feet.support` reads with these parameters; see `Output.reads`."""
    if not values["contact_frames"]:
        return ()
    if values["acceleration_source"] == "finite_difference":
        return "oMf", "effort", "acceleration"
    return "oMf", "effort"


def rate_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the rates of the momentum are computed from; see `Output.reads`."""
    if values["acceleration_source"] == "none":
        return WHOLE
    if values["acceleration_source"] == "finite_difference":
        return *WHOLE, "Ag", "dhg_drift", "acceleration"
    return (*WHOLE, "Ag", "dhg_drift", "effort", *reads(values))


def _contacts(robot: RobotContext, values: Mapping[str, Any]) -> list[Contact]:
    """Return the contacts of the parameters; a ValueError names the parameter."""
    frames: Sequence[str] = values["contact_frames"]
    repeated = duplicates(frames)
    if repeated:
        raise Rejected(f"contact_frames: duplicate names: {abbreviated(repeated)}")
    dimension = cast(Dimension, values["contact_dimension"])
    contacts = [Contact(frame, dimension, ReferenceFrame.LOCAL_WORLD_ALIGNED) for frame in frames]
    try:
        contact_table(robot.model, robot.data, contacts)
    except ValueError as error:
        raise Rejected(f"contact_frames: {error}") from None
    return contacts


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
    for each, active, point, force in zip(message.forces, support.active.tolist(),
                                          support.points.tolist(), support.forces.tolist()):
        each.header.frame_id = message.header.frame_id
        each.header.stamp.sec, each.header.stamp.nanosec = seconds, nanoseconds
        each.active = active
        conversions.set_vector(each.point, *point)
        conversions.set_vector(each.wrench.force, *force[:3])
        conversions.set_vector(each.wrench.torque, *force[3:])
