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
from dyn_ros.spatial.lie import matrix_quaternion

from . import shapes
from .cdr import Template
from .dispatch import Compute, Terms
from .frames import rotation
from .parameters import Spec
from .rate_limiter import RateLimiter
from .robot import RobotContext
from .state import State
from .whole import WHOLE, whole_robot

if TYPE_CHECKING:
    from .base import RobotNode

THINNEST = 1e-3     # smallest width of a solid [m]: RViz warns about zero
SHORTEST = 1e-4     # shorter arrows are not shown [m]
LOCAL_WORLD_ALIGNED = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED

SHARED = (
    Spec("markers.rate", 30.0, "Publish ~/markers at most this often [Hz]; 0: every state.",
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

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"markers of the kind {self.name!r} have no parameter {name!r}")


class Group:
    """Markers of one namespace and type, whose numbers are filled for each state.

    Parameters
    ----------
    look : Look
    type : int
        Constant of `Marker`: SPHERE, CUBE, CYLINDER, ARROW or LINE_STRIP.
    part : str, optional
        Appended to the kind's name, after a slash, to form the namespace.
    points : int, optional
        Number of points of each marker of the type LINE_STRIP.
    width : float, optional
        Of lines and arrows [m]; default: that of `look`.

    Attributes
    ----------
    prototype : Marker
        All that the markers have in common; everything but `numbers`.
    numbers : dict of str to ndarray
        The fields of all markers shown so far, a row for each: `action` is DELETE for those that
        are not shown now.
    """

    def __init__(self, look: Look, type: int, part: str = "", points: int = 0,
                 width: float | None = None) -> None:
        if type == Marker.ARROW:
            points = 2
        self.prototype = Marker(
            header=look.header, ns=f"{look.name}/{part}" if part else look.name, type=type,
            lifetime=look.lifetime, frame_locked=True, points=[Point() for _ in range(points)])
        self._new = {
            "id": np.zeros(1, np.int32), "action": np.zeros(1, np.int32),
            "pose": np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            "scale": _scale(type, look.width if width is None else width),
            "color": np.array(look.color)}
        if points:
            self._new["points"] = np.zeros(3 * points)
        self.numbers = {name: values[:0].reshape(0, len(values))
                        for name, values in self._new.items()}
        self._rows: dict[int, int] = {}
        self._ids: list[int] = []
        self._shown: Array = np.zeros(0, np.intp)

    def __len__(self) -> int:
        return len(self._rows)

    def show(self, ids: Iterable[int]) -> Array:
        """Return the rows of the markers with these ids; mark all others for deletion."""
        ids = list(ids)
        if ids != self._ids:
            self._ids = ids
            self._add([id for id in ids if id not in self._rows])
            self._shown = np.array([self._rows[id] for id in ids], np.intp)
            self.numbers["action"][:] = Marker.DELETE
            self.numbers["action"][self._shown] = Marker.ADD
        return self._shown

    def _add(self, ids: Sequence[int]) -> None:
        for name, values in self._new.items():
            self.numbers[name] = np.concatenate(
                [self.numbers[name], np.tile(values, (len(ids), 1))])
        for id in ids:
            row = self._rows[id] = len(self._rows)
            self.numbers["id"][row] = id

    def solids(self, ids: Sequence[int], centers: Array, axes: Array, widths: Array) -> None:
        """Ellipsoids, boxes or cylinders: centers (n, 3), axes (n, 3, 3), widths (n, 3)."""
        rows = self.show(ids)
        self.numbers["pose"][rows, :3] = centers
        self.numbers["pose"][rows, 3:] = matrix_quaternion(axes)
        self.numbers["scale"][rows] = np.maximum(widths, THINNEST)

    def balls(self, ids: Sequence[int], centers: Array, diameters: Array) -> None:
        """Spheres: centers (n, 3), diameters (n,)."""
        rows = self.show(ids)
        self.numbers["pose"][rows, :3] = centers
        self.numbers["scale"][rows] = np.maximum(diameters, THINNEST)[:, None]

    def arrows(self, ids: Sequence[int], starts: Array, vectors: Array) -> None:
        """Straight arrows, (n, 3) each; those that are too short are omitted."""
        long = np.flatnonzero(np.linalg.norm(vectors, axis=-1) > SHORTEST)
        starts = starts[long]
        self.lines([ids[i] for i in long.tolist()],
                   np.stack([starts, starts + vectors[long]], axis=1))

    def turns(self, ids: Sequence[int], centers: Array, first: Array, second: Array,
              radii: Array, angles: Array) -> None:
        """Curved arrows, see `shapes.curved_arrows`; those that are too short are omitted."""
        long = np.flatnonzero(abs(radii * angles) > SHORTEST)
        self.lines([ids[i] for i in long.tolist()], shapes.curved_arrows(
            centers[long], first[long], second[long], radii[long], angles[long]))

    def lines(self, ids: Sequence[int], points: Array) -> None:
        """Lines through points, (n, k, 3)."""
        rows = self.show(ids)
        self.numbers["points"][rows] = points.reshape(-1, 3 * points.shape[1])

    def paint(self, ids: Sequence[int], colors: Array) -> None:
        """Set individual colors, (n, 4), of the markers that have been shown."""
        known = [i for i, id in enumerate(ids) if id in self._rows]
        self.numbers["color"][[self._rows[ids[i]] for i in known]] = colors[known]


def _scale(type: int, width: float) -> Array:
    """Scale of a new marker: widths of lines and arrows; those of solids are filled in later."""
    if type == Marker.ARROW:
        return width * np.array([1.0, 2.0, 4.0])
    return np.array([width if type == Marker.LINE_STRIP else 0.0, 0.0, 0.0])


class Screws:
    """Linear parts as straight arrows, angular parts as curved ones, in separate namespaces."""

    def __init__(self, look: Look) -> None:
        self._scale = look.scale
        self.groups = (Group(look, Marker.ARROW, "linear"),
                       Group(look, Marker.LINE_STRIP, "angular", shapes.CURVED_POINTS))

    def show(self, ids: Sequence[int], points: Any, vectors: Any) -> tuple[Group, ...]:
        """Show vectors (n, 6) at points (n, 3), expressed in the same frame; return the groups."""
        arrows, turns = self.groups
        if not len(ids):
            arrows.show([])
            turns.show([])
            return self.groups
        points, vectors = np.reshape(points, (-1, 3)), np.reshape(vectors, (-1, 6))
        arrows.arrows(ids, points, self._scale * vectors[:, :3])
        sizes = np.linalg.norm(vectors[:, 3:], axis=-1)
        turning = np.flatnonzero(sizes > 0.0).tolist()
        first, second = shapes.across(vectors[turning, 3:] / sizes[turning, None])
        turns.turns([ids[i] for i in turning], points[turning], first, second,
                    self._scale * sizes[turning], np.full(len(turning), shapes.FULL_ARC))
        return self.groups


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
        self._limiter = RateLimiter(0.0)

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
            self._limiter = RateLimiter(parameters.values["markers.rate"])
        return self._reads() if self._limiter.due(time.perf_counter()) else None

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


def _rows_of_joints(model: Model) -> tuple[list[int], list[int]]:
    """Return the joints with exactly one coordinate, and their rows; a base has several."""
    joints = [i for i, count in enumerate(model.nvs) if count == 1]
    return joints, [model.idx_v[i] for i in joints]


# --- dynamics: torques, inertias, manipulability


class JointArrows:
    """An arrow at each joint: a curved one about the axis of revolute joints, or a straight one.

    Parameters
    ----------
    robot : RobotContext
    look : Look
        Its scale is the radius, and the length of a straight arrow.

    Attributes
    ----------
    rows : list of int
        The rows of the joints in vectors of the model.
    """

    def __init__(self, robot: RobotContext, look: Look) -> None:
        model = robot.model
        self._joints, self.rows = _rows_of_joints(model)
        self._scale = look.scale
        self._slides = np.array(
            [model.tree.joints[i].kind == "prismatic" for i in self._joints], bool)
        axes = np.array([model.tree.joints[i].axis for i in self._joints]).reshape(-1, 3)
        self._bases = np.stack([axes, *shapes.across(axes)], axis=-1)
        self._ids = np.array(self._joints, int) + 1
        self._groups = (Group(look, Marker.LINE_STRIP, points=shapes.CURVED_POINTS),
                        Group(look, Marker.ARROW))

    def hide(self) -> tuple[Group, ...]:
        """Show no arrows."""
        for group in self._groups:
            group.show([])
        return self._groups

    def show(self, oMi: Array, load: Array, colors: Array) -> tuple[Group, ...]:
        """Show arrows with sizes from -1 to 1, (n,), and colors, (n, 4); return the groups."""
        turns, arrows = self._groups
        R, p = oMi[self._joints, :3, :3], oMi[self._joints, :3, 3]
        axis, first, second = np.moveaxis(R @ self._bases, -1, 0)
        radii, slides = np.full(len(self._joints), self._scale), self._slides
        turns.turns(self._ids[~slides].tolist(), p[~slides], first[~slides], second[~slides],
                    radii[~slides], shapes.FULL_ARC * load[~slides])
        arrows.arrows(self._ids[slides].tolist(), p[slides],
                      self._scale * load[slides, None] * axis[slides])
        for group in self._groups:
            group.paint(self._ids.tolist(), colors)
        return self._groups


def torque(node: Any, robot: RobotContext, look: Look) -> Draw:
    """A curved arrow about the axis of each revolute joint, a straight one for prismatic ones."""
    arrows = JointArrows(robot, look)
    limits = robot.model.effort_limit[arrows.rows]
    limits = np.where(np.isfinite(limits) & (limits > 0.0), limits, look.unlimited)
    colors = np.array(look.color), np.array(look.full_color)

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        tau = _torques(look.source, state, terms)
        if tau is None:
            return arrows.hide()
        load = np.clip(tau[arrows.rows] / limits, -1.0, 1.0)
        shade = colors[0] + abs(load)[:, None] * (colors[1] - colors[0])
        return arrows.show(terms.oMi, load, shade)
    return draw


def _torques(source: str, state: State, terms: Terms) -> Array | None:
    """Return the torques, (nv,), or None if they are unknown."""
    if source == "gravity":
        return terms.g
    if source == "nle":
        return None if state.v is None else terms.nle
    return state.effort


def _torque_reads(values: Mapping[str, Any]) -> tuple[str, ...]:
    source = {"gravity": "g", "nle": "nle", "effort": "effort"}[values["markers.torque.source"]]
    return "oMi", source


def inertia(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The body of each joint, and the base link of a fixed base, as homogeneous bodies.

    Each is the ellipsoid or box with the same mass and inertia.
    """
    model = robot.model
    ellipsoid = look.shape == "ellipsoid"
    solids = Group(look, Marker.SPHERE if ellipsoid else Marker.CUBE)
    scale = look.scale * (shapes.ELLIPSOID if ellipsoid else shapes.BOX)
    payloads: list[tuple] | None = None
    made: Any = None

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        nonlocal payloads, made
        carried = list(robot.payloads.values())
        if payloads is None or list(map(id, carried)) != list(map(id, payloads)):
            payloads, made = carried, _bodies(model)
        ids, com, axes, spread = made
        placements = np.concatenate([np.eye(4)[None], terms.oMi])[ids]
        R = placements[:, :3, :3]
        centers = (R @ com[..., None])[..., 0] + placements[:, :3, 3]
        solids.solids(ids, centers, R @ axes, scale * spread)
        return [solids]
    return draw


def _bodies(model: Model) -> tuple[list[int], Array, Array, Array]:
    """Return ids, centers of mass, principal axes and spreads of the bodies that have mass."""
    bodies = [model.base_inertia, *model.inertias]
    ids = [i for i, body in enumerate(bodies) if body.mass > 0.0]
    mass, com, rotational = (
        np.array([getattr(bodies[i], each) for i in ids]).reshape(-1, *shape)
        for each, shape in (("mass", ()), ("com", (3,)), ("rotational", (3, 3))))
    spread, axes = shapes.principal_spread(mass, rotational)
    return ids, com, axes, spread


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
    frame, (_, rows) = _frame(model, look), _rows_of_joints(model)
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
        balls.balls([0], whole.com[None], np.array([look.scale]))
        return [balls]
    return draw


def com_projection(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The projection of the center of mass onto the ground, and a line to it."""
    discs, lines = Group(look, Marker.CYLINDER), Group(look, Marker.LINE_STRIP, "line", 2)
    up = shapes.upward(robot.model.gravity)
    axes = np.array([*(each[0] for each in shapes.across(up[None])), up]).T

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        whole = whole_robot(robot, state, terms).body
        ground = shapes.on_ground(whole.com, up, look.height)
        discs.solids([0], ground[None], axes[None], np.array([[look.scale, look.scale, 0.0]]))
        lines.lines([0], np.array([[whole.com, ground]]))
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
            arrows.arrows([0], whole.com[None], look.scale * np.array([h[part]]))
        return [arrows]
    return draw


def locked_inertia(node: Any, robot: RobotContext, look: Look) -> Draw:
    """The homogeneous ellipsoid with the inertia of the robot with its joints locked."""
    solids = Group(look, Marker.SPHERE)

    def draw(state: State, terms: Terms) -> Iterable[Group]:
        whole = whole_robot(robot, state, terms).body
        if whole.mass > 0.0:
            spread, axes = shapes.principal_spread(whole.mass, whole.rotational)
            solids.solids([0], whole.com[None], axes[None],
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
_NEWTON = (0.01, "Length of 1 N, radius of 1 N m [m].", [0.9, 0.2, 0.7, 1.0])

DYNAMICS = (
    kind("torque", torque,
         "the torque of each joint: a curved arrow about its axis, straight for a prismatic joint",
         0.1, "Radius of a curved arrow; length of a straight one at full load [m].",
         [0.1, 0.8, 0.2, 1.0],
         Spec("full_color", [1.0, 0.1, 0.1, 1.0],
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
         1.0, "Scale factor; 1 is the true size.", [0.4, 0.5, 0.9, 0.4],
         Spec("shape", "ellipsoid", "Shape of the homogeneous body.", choices=("ellipsoid", "box")),
         reads=("oMi",)),
    kind("velocity_ellipsoid", velocity_ellipsoid,
         "the velocities of a frame's origin for joint velocities of norm 1",
         0.2, "Length of 1 m/s for 1 rad/s [m].", [0.2, 0.7, 0.9, 0.4], _FRAME,
         reads=_placements_if("markers.velocity_ellipsoid.frame"), kernels=("frame_jacobian",)),
    kind("force_ellipsoid", force_ellipsoid,
         "the forces at a frame's origin for joint torques of norm 1",
         0.05, "Length of 1 N for 1 N m [m].", [0.9, 0.5, 0.2, 0.4], _FRAME,
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
    kind("com", com, "the robot's center of mass", 0.08, "Diameter [m].", [1.0, 0.8, 0.1, 1.0],
         reads=WHOLE),
    kind("com_projection", com_projection,
         "the center of mass projected along gravity onto the ground",
         0.1, "Diameter [m].", [1.0, 0.8, 0.1, 0.6],
         Spec("height", 0.0,
              "Height of the ground in the frame of the markers, against gravity [m].",
              limits=(-1e6, 1e6)),
         reads=WHOLE),
    kind("subtree_com", subtree_com,
         "the center of mass of each joint's subtree",
         0.08, "Diameter for a subtree with the total mass [m].", [0.9, 0.4, 0.8, 0.8],
         Spec("joints", Parameter.Type.STRING_ARRAY,
              "Joints whose subtrees to show; empty: all."),
         show=False, reads=("subtree_com", "subtree_mass")),
    kind("linear_momentum", linear_momentum, "the linear momentum, from the center of mass",
         0.05, "Length of 1 kg m/s [m].", [0.2, 0.8, 0.3, 1.0], reads=WHOLE),
    kind("angular_momentum", angular_momentum,
         "the angular momentum about the center of mass, along its axis",
         0.2, "Length of 1 kg m2/s [m].", [0.3, 0.4, 1.0, 1.0], reads=WHOLE),
    kind("locked_inertia", locked_inertia,
         "the homogeneous ellipsoid with the mass and inertia of the robot with its joints locked",
         1.0, "Scale factor; 1 is the true size.", [0.4, 0.5, 0.9, 0.25], show=False,
         reads=WHOLE),
)
VERESHCHAGIN = (
    kind("constraint", constraint,
         "the directions of constraints: a straight arrow for a linear direction, a curved one for "
         "an angular one",
         0.1, "Length and radius, for a direction of any norm [m].", [0.9, 0.9, 0.9, 1.0],
         reads=_constraint_reads),
    kind("constraint_force", constraint_force,
         "the wrench of the constraints on each frame: a straight arrow for the force, a curved "
         "one for the moment", 0.01, "Length of 1 N, radius of 1 N m [m].", [1.0, 0.5, 0.0, 1.0],
         reads=_constraint_reads),
    kind("wrench", wrench_of("wrench_topics", "input_timeout"), _WRENCH, *_NEWTON,
         reads=_placements_if("wrench_topics")),
)
