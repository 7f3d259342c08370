# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers for RViz: the kinds that nodes publish, their parameters and their messages.

A kind is one function and one entry at the end of this file. It keeps the numbers of its markers in
arrays, which are written into a serialized message for each state: rclpy's conversion of so many
fields would take most of the time. Another message is serialized only if markers are added.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point
from rclpy.parameter import Parameter
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

import dyn_ros
from dyn_ros import Model
from dyn_ros.model.types import Array

from ..rate_limiter import StampLimiter
from ..viewer import groups, shapes
from ..viewer.groups import Group, Screws, rows_of_joints
from .cdr import Template
from .dispatch import Compute, Terms
from .frames import rotation
from .parameters import Spec
from .robot import RobotContext
from .state import State
from .whole import WHOLE, whole_robot

if TYPE_CHECKING:
    from .base import RobotNode

LOCAL_WORLD_ALIGNED = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED

SHARED = (
    Spec("markers.rate", 30.0, "Publish ~/markers at most this often, by the stamps of the states "
         "[Hz]; 0: every state. Nodes with the same rate choose the same states.",
         limits=(0.0, 1e5)),
    Spec("markers.lifetime", 2.0, "Lifetime of the markers [s]; 0: unlimited.",
         limits=(0.0, 3600.0)),
    Spec("markers.width", 0.01, "Diameter of arrow shafts and width of lines [m].",
         limits=(1e-5, 10.0)),
)


@dataclass(frozen=True)
class Kind:
    """One kind of marker.

    `make(node, robot, look)` returns a function `(state, terms)` that returns the `Group`s that it
    has filled. It raises a ValueError if a parameter does not fit the robot. `reads(values)`
    returns what the function reads, as `Output.reads`; `kernels` are the public functions that it
    calls.
    """

    name: str
    make: Callable[[Any, RobotContext, Look], Draw]
    specs: tuple[Spec, ...]
    reads: Callable[[Mapping[str, Any]], tuple[str, ...]]
    kernels: tuple[str, ...] = ()


def kind(name: str, make: Callable[[Any, RobotContext, Look], Draw], what: str, scale: float,
         scaled: str, color: list[float], *more: Spec,
         reads: tuple[str, ...] | Callable[[Mapping[str, Any]], tuple[str, ...]],
         show: bool = True, kernels: tuple[str, ...] = ()) -> Kind:
    """Return a Kind with the parameters common to all kinds, and more."""
    prefix = f"markers.{name}."
    return Kind(name, make, (
        Spec(prefix + "show", show, f"Whether ~/markers shows {what}."),
        Spec(prefix + "scale", scale, scaled, limits=(0.0, 1e6)),
        Spec(prefix + "color", color, "Red, green, blue, alpha.", size=4, limits=(0.0, 1.0)),
        *(Spec(prefix + spec.name, spec.default, spec.description, **_constraints(spec))
          for spec in more)), reads if callable(reads) else lambda values: reads, kernels)


def _constraints(spec: Spec) -> dict[str, Any]:
    return {"limits": spec.limits, "choices": spec.choices, "size": spec.size}


Draw: TypeAlias = "Callable[[State, Terms], Iterable[Group]]"


class Look:
    """Appearance of one kind: its parameters `show`, `scale`, `color` .., and the common ones."""

    def __init__(self, kind: Kind, values: Mapping[str, Any], header: Header) -> None:
        self.name = kind.name
        self.header = header
        self.width = values["markers.width"]
        seconds, part = divmod(values["markers.lifetime"], 1.0)
        self.lifetime = Duration(sec=int(seconds), nanosec=int(1e9 * part))
        for spec in kind.specs:
            setattr(self, spec.name.split(".")[-1], values[spec.name])

    def marker(self, namespace: str, type: int, points: int) -> Marker:
        """Return what the markers of a namespace have in common, with a number of points."""
        return Marker(header=self.header, ns=namespace, type=type, lifetime=self.lifetime,
                      frame_locked=True, points=[Point() for _ in range(points)])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"markers of the kind {self.name!r} have no parameter {name!r}")


class Markers:
    """The output `~/markers` of a node.

    Parameters
    ----------
    node : RobotNode
    kinds : sequence of Kind
    """

    def __init__(self, node: RobotNode, kinds: Sequence[Kind]) -> None:
        self._node, self._kinds = node, kinds
        self.kernels = tuple(dict.fromkeys(name for each in kinds for name in each.kernels))
        self.specs = self.specs_of(kinds)
        self._limited: Any = None       # robot and parameters of the limiter
        self._limiter = StampLimiter(0.0)

    @staticmethod
    def specs_of(kinds: Sequence[Kind]) -> list[Spec]:
        """Return the parameters of kinds; none if there are no kinds."""
        return [*SHARED, *(spec for each in kinds for spec in each.specs)] if kinds else []

    def check(self, robot: RobotContext, values: Mapping[str, Any]) -> None:
        """Raise a ValueError if a parameter does not fit the robot."""
        for each in self._kinds:
            self._make_kind(each, robot, values, Header())

    def reads(self) -> Iterable[str] | None:
        """Return what is read for a state; None to skip it."""
        parameters = self._node.parameters
        limited = self._node.robot, parameters.changes
        if limited != self._limited:
            self._limited = limited
            self._limiter = StampLimiter(parameters.values["markers.rate"])
        robot = self._node.robot
        stamp = robot.state.stamp if robot else 0
        return self._reads() if self._limiter.due(stamp, time.perf_counter()) else None

    def _reads(self) -> Iterable[str]:
        values = self._node.parameters.values
        return {name for each in self._kinds if values[f"markers.{each.name}.show"]
                for name in each.reads(values)}

    def make(self, robot: RobotContext) -> Compute:
        """`~/markers`: markers for RViz; recreated after a change of parameters."""
        parameters, made_at, header = self._node.parameters, -1, Header()
        draws: list[Draw] = []
        array = _SerializedArray(header)

        def compute(state: State, terms: Terms) -> Template | None:
            nonlocal made_at, draws
            if parameters.changes != made_at:
                made_at = parameters.changes
                draws = list(self._draws(robot, parameters.values, header))
                array.clear()
            header.frame_id = robot.world_frame
            return array.filled([group for draw in draws for group in draw(state, terms)])
        return compute

    def _draws(self, robot: RobotContext, values: Mapping[str, Any],
               header: Header) -> Iterator[Draw]:
        for each in self._kinds:
            if values[f"markers.{each.name}.show"]:
                try:
                    yield self._make_kind(each, robot, values, header)
                except ValueError as error:
                    self._node.reject("markers", error)

    def _make_kind(self, each: Kind, robot: RobotContext, values: Mapping[str, Any],
                   header: Header) -> Draw:
        return each.make(self._node, robot, Look(each, values, header))

    @staticmethod
    def clear() -> MarkerArray:
        """Return the message that deletes all markers."""
        return MarkerArray(markers=[Marker(action=Marker.DELETEALL)])


class _SerializedArray:
    """A MarkerArray of groups, serialized again only if they contain other markers than before.

    Parameters
    ----------
    header : Header
        Of all markers.
    """

    def __init__(self, header: Header) -> None:
        self._header = header
        self._clears = False
        self._structure: Any = None     # frame, groups and their sizes that the template is for
        self._template: Template | None = None

    def clear(self) -> None:
        """Start the next array with DELETEALL."""
        self._clears = True

    def filled(self, groups: Iterable[Group]) -> Template | None:
        """Return the message with the numbers of these groups; None if it contains no markers."""
        groups = [group for group in groups if len(group)]
        clears, self._clears = self._clears, False
        structure = clears, self._header.frame_id, [(group, len(group)) for group in groups]
        if structure != self._structure:
            self._structure = structure
            self._template = self._serialized(groups, clears)
        if self._template:
            for i, group in enumerate(groups, clears):
                for name, values in group.numbers.items():
                    self._template.write(f"markers.{i}.{name}", values)
        return self._template

    def _serialized(self, groups: Sequence[Group], clears: bool) -> Template | None:
        markers = [group.prototype for group in groups]
        counts = [len(group) for group in groups]
        if clears:
            markers.insert(0, Marker(header=self._header, action=Marker.DELETEALL))
            counts.insert(0, 1)
        return Template(MarkerArray(markers=markers), counts) if markers else None


# --- dynamics: torques, inertias, manipulability


def torque(node: Any, robot: RobotContext, look: Look) -> Draw:
    """An arrow for the torque of each joint."""
    return groups.torque(robot.model, look)


def _torque_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    source = {"gravity": "g", "nle": "nle", "effort": "effort"}[values["markers.torque.source"]]
    return "oMi", source


def inertia(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The body of each joint, and the base link of a fixed base, as homogeneous bodies."""
    return groups.inertia(robot.model, look, robot.payloads)


def velocity_ellipsoid(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The velocities that the joints can give the origin of a frame, with the base at rest."""
    return _manipulability(robot, look, lambda half: half)


def force_ellipsoid(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The forces that the joints can exert at the origin of a frame."""
    return _manipulability(robot, look, shapes.force_half_axes)


def _manipulability(robot: RobotContext, look: Look,
                    half_axes: Callable[[Array], Array]) -> Draw:
    model, data = robot.model, robot.data
    if not look.frame:
        return lambda state, terms: ()
    frame, (_, rows) = _frame(model, look), rows_of_joints(model)
    solids = Group(look, Marker.SPHERE)

    def ellipsoid(state: State) -> tuple[Array, Array]:
        J = dyn_ros.frame_jacobian(model, data, state.q, look.frame, LOCAL_WORLD_ALIGNED)
        return shapes.velocity_ellipsoid(J[:3, rows])

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        center = terms.oMf[frame, :3, 3]
        half, axes = robot.once(state, f"ellipsoid of {look.frame}", lambda: ellipsoid(state))
        if half[0] > 0.0:
            solids.solids([0], center[None], axes[None], 2.0 * look.scale * half_axes(half)[None])
        else:
            solids.show([])             # a frame on the base
        return [solids]
    return draw


def _frame(model: Model, look: Look) -> int:
    try:
        return model.frame_index(look.frame)
    except ValueError as error:
        raise ValueError(f"markers.{look.name}.frame: {error}") from None


# --- centroidal: centers of mass, momentum


def com(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The center of mass of the whole robot, including the base link of a fixed base."""
    balls = Group(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        whole = whole_robot(robot, state, terms).body
        balls.balls([0], np.array([whole.com]), np.array([look.scale]))
        return [balls]
    return draw


def com_projection(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The projection of the center of mass onto the ground, and a line to it."""
    discs, lines = Group(look, Marker.CYLINDER), Group(look, Marker.LINE_STRIP, "line", 2)
    up = shapes.upward(robot.model.gravity)
    axes = np.array([*(each[0] for each in shapes.across(up[None])), up]).T

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        center = np.array(whole_robot(robot, state, terms).body.com)
        ground = shapes.on_ground(center, up, look.height)
        discs.solids([0], ground[None], axes[None], np.array([[look.scale, look.scale, 0.0]]))
        lines.lines([0], np.array([[center, ground]]))
        return discs, lines
    return draw


def subtree_com(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The center of mass of each joint's subtree, as a ball with a volume according to its mass."""
    model = robot.model
    try:
        chosen = [model.joint_index(name) for name in look.joints]
    except ValueError as error:
        raise ValueError(f"markers.{look.name}.joints: {error}") from None
    joints = np.array(chosen or range(model.njoints), int)
    balls = Group(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        centers, mass = terms.subtree_com, terms.subtree_mass
        heavy = joints[mass[joints] > 0.0]
        share = mass[heavy] / model.total_mass
        balls.balls((heavy + 1).tolist(), centers[heavy], look.scale * np.cbrt(share))
        return [balls]
    return draw


def linear_momentum(node: Any, robot: RobotContext, look: Look) -> Draw:
    """An arrow from the center of mass, if all velocities are known."""
    return _momentum(robot, look, slice(3))


def angular_momentum(node: Any, robot: RobotContext, look: Look) -> Draw:
    """An arrow from the center of mass along the angular momentum."""
    return _momentum(robot, look, slice(3, 6))


def _momentum(robot: RobotContext, look: Look, part: slice) -> Draw:
    arrows = Group(look, Marker.ARROW)

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        whole, h, _ = whole_robot(robot, state, terms)
        if h is None:
            arrows.show([])
        else:
            arrows.arrows([0], np.array([whole.com]), look.scale * np.array([h[part]]))
        return [arrows]
    return draw


def locked_inertia(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The homogeneous ellipsoid with the inertia of the robot with its joints locked."""
    solids = Group(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        whole = whole_robot(robot, state, terms).body
        if whole.mass > 0.0:
            spread, axes = shapes.principal_spread(whole.mass, whole.matrix())
            solids.solids([0], np.array([whole.com]), axes[None],
                          look.scale * shapes.ELLIPSOID * spread[None])
        return [solids]
    return draw


# --- wrenches and constraints


def wrench_of(topics: str, timeout: str) -> Callable[[Any, RobotContext, Look], Draw]:
    """Return a `make` for the wrenches on the topics in a parameter, with a maximum age."""
    def make(node: RobotNode, robot: RobotContext, look: Look) -> Draw:
        screws = Screws(look)

        def draw(state: State, terms: Terms) -> Iterable[Group]:
            values, latest = node.parameters.values, {}
            for id, topic in enumerate(values[topics]):
                with suppress(ValueError):              # missing or too old
                    latest[id] = node.inputs.numbers(topic, robot, values[timeout])
            if not latest:
                return screws.show([], [], [])
            oMf = terms.oMf[[each.frame for each in latest.values()]]
            numbers = np.array([each.numbers for each in latest.values()])
            axes = np.array([rotation(each.axes, terms.oMf) for each in latest.values()])
            return screws.show(list(latest), oMf[:, :3, 3], _rotated(axes, numbers))
        return draw
    return make


def _rotated(R: Array, vectors: Array) -> Array:
    """Rotate both parts of vectors (n, 6) by rotations (n, 3, 3)."""
    return (R[:, None] @ vectors.reshape(-1, 2, 3, 1)).reshape(-1, 6)


def constraint(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The directions along and about which frames are constrained."""
    return _constrained(node, robot, look, lambda directions, nu: _normalized(directions))


def constraint_force(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The wrench that the constraints exert on each frame."""
    return _constrained(node, robot, look, lambda directions, nu: [-nu @ directions])


def _normalized(vectors: Array) -> Array:
    """Scale vectors (n, 6) to norm 1, except zeros."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    vectors = vectors / np.where(largest > 0.0, largest, 1.0)   # keeps the squares in range
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0.0, norms, 1.0)


def _constrained(node: Any, robot: RobotContext, look: Look,
                 shown: Callable[[Array, Array], Iterable[Array]]) -> Draw:
    """Show `shown(directions (m, 6), nu (m,))` for the constraints of each frame."""
    screws, model = Screws(look), robot.model

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        solution = node.solution(robot, state, terms)
        if solution is None:
            return screws.show([], [], [])
        constraints, nu = solution.constraints, solution.motion.nu
        oMf = terms.oMf
        axes = oMf[model.frame_index(constraints.axes), :3, :3] if constraints.axes else np.eye(3)
        directions = _rotated(np.broadcast_to(axes, (len(nu), 3, 3)),
                              np.ascontiguousarray(constraints.directions.T))
        names = np.array(constraints.frame)
        points, vectors = [], []
        for name in dict.fromkeys(constraints.frame):
            own = names == name
            for vector in shown(directions[own], nu[own]):
                points.append(oMf[model.frame_index(name), :3, 3])
                vectors.append(vector)
        return screws.show(range(len(points)), points, vectors)
    return draw


def solution_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what `VereshchaginNode.solution` reads."""
    return ("g",) if values["feedforward"] == "gravity" else ()


def _constraint_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    return ("oMf", *solution_reads(values))


def _placements_if(parameter: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    return lambda values: ("oMf",) if values[parameter] else ()


_FRAME = Spec("frame", "", "Link, joint or fixed joint at whose origin to show it; empty: hidden.")

_WRENCH = ("the wrenches that act on the robot: a straight arrow for a force, a curved one for a "
           "moment")
_NEWTON = (0.01, "Length of 1 N, radius of 1 N m [m].", [0.84, 0.09, 0.6, 1.0])

DYNAMICS = (
    kind("torque", torque,
         "the torque of each joint: a curved arrow about its axis, straight for a prismatic joint",
         0.1, "Radius of a curved arrow; length of a straight one at full load [m].",
         [0.94, 0.55, 0.0, 1.0],
         Spec("full_color", [0.88, 0.04, 0.11, 1.0],
              "Color at full load, when the torque is at the joint's effort limit and the arrow "
              "spans three quarters of a turn; color applies without load.", size=4,
              limits=(0.0, 1.0)),
         Spec("unlimited", 100.0, "Full load of a joint without an effort limit [N m, N].",
              limits=(1e-6, 1e9)),
         Spec("source", "gravity", "Which torque to show: that of ~/gravity, that of ~/nle, or the "
              "measured effort in joint_states.", choices=("gravity", "nle", "effort")),
         reads=_torque_reads),
    kind("inertia", inertia,
         "the body of each joint, and the base link of a fixed base, as the homogeneous body with "
         "the same mass and inertia",
         1.0, "Scale factor; 1 is the true size.", [0.61, 0.18, 1.0, 0.4],
         Spec("shape", "ellipsoid", "Shape of the homogeneous body.", choices=("ellipsoid", "box")),
         reads=("oMi",)),
    kind("velocity_ellipsoid", velocity_ellipsoid,
         "the velocities of a frame's origin for joint velocities of norm 1",
         0.2, "Length of 1 m/s for 1 rad/s [m].", [0.0, 0.68, 0.61, 0.4], _FRAME,
         reads=_placements_if("markers.velocity_ellipsoid.frame"), kernels=("frame_jacobian",)),
    kind("force_ellipsoid", force_ellipsoid,
         "the forces at a frame's origin for joint torques of norm 1",
         0.05, "Length of 1 N for 1 N m [m].", [1.0, 0.38, 0.0, 0.4], _FRAME,
         reads=_placements_if("markers.force_ellipsoid.frame"), kernels=("frame_jacobian",)),
    kind("wrench", wrench_of("markers.wrench.topics", "markers.lifetime"), _WRENCH, *_NEWTON,
         Spec("topics", Parameter.Type.STRING_ARRAY,
              "Topics (geometry_msgs/WrenchStamped) with those wrenches, expressed in the axes of "
              "header.frame_id."),
         Spec("frames", Parameter.Type.STRING_ARRAY,
              "For each of the topics, the link, joint or fixed joint at whose origin its wrenches "
              "act; header.frame_id may then be any frame or the world. An empty string, or empty: "
              "at the origin of header.frame_id."),
         reads=_placements_if("markers.wrench.topics")),
)
CENTROIDAL = (
    kind("com", com, "the robot's center of mass", 0.08, "Diameter [m].", [0.12, 0.36, 1.0, 1.0],
         reads=WHOLE),
    kind("com_projection", com_projection,
         "the center of mass projected along gravity onto the ground",
         0.1, "Diameter [m].", [0.0, 0.63, 0.78, 1.0],
         Spec("height", 0.0,
              "Height of the ground in the frame of the markers, against gravity [m].",
              limits=(-1e6, 1e6)),
         reads=WHOLE),
    kind("subtree_com", subtree_com,
         "the center of mass of each joint's subtree",
         0.08, "Diameter for a subtree with the total mass [m].", [0.76, 0.53, 0.95, 1.0],
         Spec("joints", Parameter.Type.STRING_ARRAY,
              "Joints whose subtrees to show; empty: all."),
         show=False, reads=("subtree_com", "subtree_mass")),
    kind("linear_momentum", linear_momentum, "the linear momentum, from the center of mass",
         0.05, "Length of 1 kg m/s [m].", [0.07, 0.64, 0.23, 1.0], reads=WHOLE),
    kind("angular_momentum", angular_momentum,
         "the angular momentum about the center of mass, along its axis",
         0.2, "Length of 1 kg m2/s [m].", [0.64, 0.13, 0.27, 1.0], reads=WHOLE),
    kind("locked_inertia", locked_inertia,
         "the homogeneous ellipsoid with the mass and inertia of the robot with its joints locked",
         1.0, "Scale factor; 1 is the true size.", [0.16, 0.33, 0.74, 0.25], show=False,
         reads=WHOLE),
)
VERESHCHAGIN = (
    kind("constraint", constraint,
         "the directions of constraints: a straight arrow for a linear direction, a curved one for "
         "an angular one",
         0.1, "Length and radius, for a direction of any norm [m].", [0.51, 0.24, 0.49, 1.0],
         reads=_constraint_reads),
    kind("constraint_force", constraint_force,
         "the wrench of the constraints on each frame: a straight arrow for the force, a curved "
         "one for the moment", 0.01, "Length of 1 N, radius of 1 N m [m].", [0.6, 0.23, 0.0, 1.0],
         reads=_constraint_reads),
    kind("wrench", wrench_of("wrench_topics", "input_timeout"), _WRENCH, *_NEWTON,
         reads=_placements_if("wrench_topics")),
)
