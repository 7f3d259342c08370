# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Markers as arrays of numbers, for RViz and for the browser; independent of ROS.

Nodes serialize them as messages, see ``nodes/base/markers.py``; `standalone.py` passes them to a
page without ROS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.lie import matrix_quaternion
from ...engine.kernel.types import Array, ArrayLike
from ...engine.model import Model
from ...engine.model.coordinates import single_joints
from . import shapes

# visualization_msgs/Marker
(
    ARROW,
    CUBE,
    SPHERE,
    CYLINDER,
    LINE_STRIP,
    LINE_LIST,
    CUBE_LIST,
    SPHERE_LIST,
    POINTS,
    TEXT_VIEW_FACING,
    MESH_RESOURCE,
    TRIANGLE_LIST,
) = range(12)
ADD, DELETE, DELETEALL = 0, 2, 3

THINNEST = 1e-3  # smallest width of a solid [m]: RViz warns about zero
SHORTEST = 1e-4  # shorter arrows are not shown [m]
LEAST_LOAD = 5e-3  # of a joint; smaller torques have no arrow

Draw: TypeAlias = "Callable[[Any, Any], Iterable[MarkerArrays]]"
"""Returns the markers for a state and the results of ``all_terms`` that it reads."""


class PlainMarker(NamedTuple):
    """A Marker whose numbers are arrays: points (n, 3), colors (n, 4) and `numbers` (14,).

    These are position, orientation x y z w, scale and color.
    """

    header: Any
    ns: str
    id: int
    type: int
    action: int
    lifetime: Any
    numbers: Array
    points: Array
    colors: Array
    text: str = ""
    mesh_resource: str = ""


def plain_marker(marker: Any) -> PlainMarker:
    p, turn = marker.pose.position, marker.pose.orientation
    scale, color = marker.scale, marker.color
    return PlainMarker(
        marker.header,
        marker.ns,
        marker.id,
        marker.type,
        marker.action,
        marker.lifetime,
        np.array(
            [
                p.x,
                p.y,
                p.z,
                turn.x,
                turn.y,
                turn.z,
                turn.w,
                scale.x,
                scale.y,
                scale.z,
                color.r,
                color.g,
                color.b,
                color.a,
            ]
        ),
        np.array([(p.x, p.y, p.z) for p in marker.points]).reshape(-1, 3),
        np.array([(c.r, c.g, c.b, c.a) for c in marker.colors]).reshape(-1, 4),
        marker.text,
        marker.mesh_resource,
    )


class Look(Protocol):
    """Appearance of one kind of marker, with more attributes that belong to the kind."""

    name: str
    width: float
    scale: float
    color: Sequence[float]

    def marker(self, namespace: str, type: int, points: int) -> Any:
        """Return what the markers of a namespace have in common, with a number of points."""


class MarkerArrays:
    """Markers of one namespace and type, whose numbers are filled for each state.

    Strips have a number of `points`. The namespace is the kind's name and, after a slash, `part`.
    `width` is that of lines and arrows [m], by default the look's. The markers have `prototype` in
    common. `numbers` are the other fields, a row for each marker shown so far: `action` is DELETE
    for those that are not shown now. `changed` are those that a serialized message has not yet.
    """

    def __init__(
        self, look: Look, type: int, part: str = "", points: int = 0, width: float | None = None
    ) -> None:
        if type == ARROW:
            points = 2
        self.prototype = look.marker(f"{look.name}/{part}" if part else look.name, type, points)
        self._new = {
            "id": np.zeros(1, np.int32),
            "action": np.zeros(1, np.int32),
            "pose": np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
            "scale": _scale(type, look.width if width is None else width),
            "color": np.array(look.color),
        }
        if points:
            self._new["points"] = np.zeros(3 * points)
        self.numbers = {
            name: values[:0].reshape(0, len(values)) for name, values in self._new.items()
        }
        self.changed: set[str] = set()
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
            self.numbers["action"][:] = DELETE
            self.numbers["action"][self._shown] = ADD
            self.changed.add("action")
        return self._shown

    def _add(self, ids: Sequence[int]) -> None:
        for name, values in self._new.items():
            self.numbers[name] = np.concatenate(
                [self.numbers[name], np.tile(values, (len(ids), 1))]
            )
        for id in ids:
            row = self._rows[id] = len(self._rows)
            self.numbers["id"][row] = id

    def solids(self, ids: Sequence[int], centers: ArrayLike, turns: Array, widths: Array) -> None:
        """Ellipsoids, boxes or cylinders: centers (n, 3), quaternions (n, 4), widths (n, 3).

        A single one also without the first axis.
        """
        rows = self.show(ids)
        pose = self.numbers["pose"]
        pose[rows, :3] = centers
        pose[rows, 3:] = turns
        self.numbers["scale"][rows] = np.maximum(widths, THINNEST)
        self.changed.update(("pose", "scale"))

    def balls(self, ids: Sequence[int], centers: ArrayLike, diameters: Array) -> None:
        """Spheres: centers (n, 3), diameters (n,)."""
        rows = self.show(ids)
        self.numbers["pose"][rows, :3] = centers
        self.numbers["scale"][rows] = np.maximum(diameters, THINNEST)[:, None]
        self.changed.update(("pose", "scale"))

    def arrows(self, ids: Sequence[int], starts: Array, vectors: Array) -> None:
        """Straight arrows, (n, 3) each; those that are too short are omitted."""
        long = np.sqrt((vectors * vectors).sum(-1)) > SHORTEST
        if not long.all():
            ids, starts, vectors = _chosen(ids, long), starts[long], vectors[long]
        self.lines(ids, np.concatenate((starts, starts + vectors), 1))

    def turns(
        self,
        ids: Sequence[int],
        centers: Array,
        first: Array,
        second: Array,
        radii: Array,
        angles: Array,
    ) -> None:
        """Curved arrows, see `shapes.curved_arrows`; those that are too short are omitted."""
        long = abs(radii * angles) > SHORTEST
        if not long.all():
            ids = _chosen(ids, long)
            centers, first, second = centers[long], first[long], second[long]
            radii, angles = radii[long], angles[long]
        self.lines(ids, shapes.curved_arrows(centers, first, second, radii, angles))

    def lines(self, ids: Sequence[int], points: Array) -> None:
        """Lines through points, (n, k, 3)."""
        rows, target = self.show(ids), self.numbers["points"]
        target[rows] = points.reshape(-1, target.shape[1])
        self.changed.add("points")

    def paint(self, ids: Sequence[int], colors: Array) -> None:
        """Set individual colors, (n, 4), of the markers that have been shown."""
        known = [i for i, id in enumerate(ids) if id in self._rows]
        self.numbers["color"][[self._rows[ids[i]] for i in known]] = colors[known]
        self.changed.add("color")


def _chosen(ids: Sequence[int], mask: NDArray[np.bool_]) -> list[int]:
    return [id for id, chosen in zip(ids, mask.tolist()) if chosen]


def _scale(type: int, width: float) -> Array:
    """Scale of a new marker: widths of lines and arrows; solids are filled in later."""
    if type == ARROW:
        return width * np.array([1.0, 2.0, 4.0])
    return np.array([width if type == LINE_STRIP else 0.0, 0.0, 0.0])


class _Arrows:
    """Straight and curved arrows, in arrays of their own."""

    arrays: tuple[MarkerArrays, MarkerArrays]

    def hide(self) -> tuple[MarkerArrays, ...]:
        for arrays in self.arrays:
            arrays.show([])
        return self.arrays


class Screws(_Arrows):
    """Linear parts as straight arrows, angular parts as curved ones, in separate namespaces."""

    def __init__(self, look: Look) -> None:
        self._scale = look.scale
        self.arrays = (
            MarkerArrays(look, ARROW, "linear"),
            MarkerArrays(look, LINE_STRIP, "angular", shapes.CURVED_POINTS),
        )

    def show(self, ids: Sequence[int], points: Any, vectors: Any) -> tuple[MarkerArrays, ...]:
        """Show vectors (n, 6) at points (n, 3), expressed in the same frame; return the arrays."""
        arrows, turns = self.arrays
        points, vectors = np.reshape(points, (-1, 3)), np.reshape(vectors, (-1, 6))
        arrows.arrows(ids, points, self._scale * vectors[:, :3])
        moments = vectors[:, 3:]
        sizes = np.sqrt((moments * moments).sum(-1))
        turning = sizes > 0.0
        if not turning.any():
            turns.show([])
            return self.arrays
        if not turning.all():
            ids, points = _chosen(ids, turning), points[turning]
            moments, sizes = moments[turning], sizes[turning]
        first, second = shapes.across(moments / sizes[:, None])
        turns.turns(
            ids, points, first, second, self._scale * sizes, np.full(len(sizes), shapes.FULL_ARC)
        )
        return self.arrays


def rows_of_joints(model: Model) -> tuple[list[int], list[int]]:
    """Return the joints with exactly one coordinate, and their rows; a base has several."""
    joints = list(single_joints(model).values())
    return joints, [model.idx_v[i] for i in joints]


# --- dynamics: torques, inertias, manipulability


class JointArrows(_Arrows):
    """An arrow at each joint: a curved one about the axis of revolute joints, or a straight one.

    The look's scale is the radius, and the length of a straight arrow. `rows` are those of the
    joints in vectors of the model.
    """

    def __init__(self, model: Model, look: Look) -> None:
        joints, self.rows = rows_of_joints(model)
        self._scale = look.scale
        slides = [model.tree.joints[i].kind == "prismatic" for i in joints]
        self._turning, self._sliding = (
            _Axes(model, joints, [k for k, is_sliding in enumerate(slides) if is_sliding is kind])
            for kind in (False, True)
        )
        self._radii = np.full(len(self._turning.rows), self._scale)
        self.arrays = (
            MarkerArrays(look, LINE_STRIP, points=shapes.CURVED_POINTS),
            MarkerArrays(look, ARROW),
        )

    def show(self, oMi: Array, load: Array, colors: Array) -> tuple[MarkerArrays, ...]:
        """Show arrows with sizes from -1 to 1, (n,), and colors, (n, 4); return the arrays."""
        turns, arrows = self.arrays
        own = self._turning
        if own.ids:
            p, axes = own.placed(oMi)
            turns.turns(
                own.ids,
                p,
                axes[..., 1],
                axes[..., 2],
                self._radii,
                shapes.FULL_ARC * load[own.rows],
            )
            turns.paint(own.ids, colors[own.rows])
        own = self._sliding
        if own.ids:
            p, axes = own.placed(oMi)
            arrows.arrows(own.ids, p, self._scale * load[own.rows, None] * axes[..., 0])
            arrows.paint(own.ids, colors[own.rows])
        return self.arrays


class _Axes:
    """The axes of some joints, each with two vectors across it.

    `rows` (n,) are the places of these joints among all that have arrows.
    """

    def __init__(self, model: Model, joints: Sequence[int], rows: Sequence[int]) -> None:
        self.rows = np.array(rows, np.intp)
        self._joints = np.array([joints[row] for row in rows], np.intp)
        self.ids = (self._joints + 1).tolist()
        axes = np.array([model.tree.joints[i].axis for i in self._joints]).reshape(-1, 3)
        self._bases = np.stack([axes, *shapes.across(axes)], axis=-1)

    def placed(self, oMi: Array) -> tuple[Array, Array]:
        X = oMi[self._joints]
        return X[:, :3, 3], X[:, :3, :3] @ self._bases


def torque(model: Model, look: Any) -> Draw:
    """A curved arrow about the axis of each revolute joint, a straight one for prismatic ones.

    Its size is the square root of the load, so that those of small torques can be read.
    `look` also has `source`, `unlimited` and `full_color`, see ``config/dynamics.yaml``.
    """
    arrows = JointArrows(model, look)
    limits = model.effort_limit[arrows.rows]
    limits = np.where(np.isfinite(limits) & (limits > 0.0), limits, look.unlimited)
    color = np.array(look.color)
    change = np.array(look.full_color) - color

    def draw(state: Any, terms: Any) -> Iterable[MarkerArrays]:
        tau = _torques(look.source, state, terms)
        if tau is None:
            return arrows.hide()
        load = tau[arrows.rows] / limits
        share = np.minimum(abs(load), 1.0)
        size = np.where(share < LEAST_LOAD, 0.0, np.copysign(np.sqrt(share), load))
        return arrows.show(terms.oMi, size, color + share[:, None] * change)

    return draw


def _torques(source: str, state: Any, terms: Any) -> Array | None:
    """Return the torques, (nv,), or None if they are unknown."""
    if source == "effort":
        return state.effort
    if source == "gravity":
        return terms.g
    return None if state.v is None else terms.nle


def inertia(model: Model, look: Any, payloads: Mapping[str, Any]) -> Draw:
    """The body of each joint, and the base link of a fixed base, as homogeneous bodies.

    Each is the ellipsoid or box with the same mass and inertia; `look` also has the attribute
    `shape`. `payloads` is a dict that changes when a payload is set or cleared.
    """
    ellipsoid = look.shape == "ellipsoid"
    solids = MarkerArrays(look, SPHERE if ellipsoid else CUBE)
    scale = look.scale * (shapes.ELLIPSOID if ellipsoid else shapes.BOX)
    included: list[Any] | None = None
    made: Any = None
    placements = np.empty((model.njoints + 1, 4, 4))
    placements[0] = np.eye(4)

    def draw(state: Any, terms: Any) -> Iterable[MarkerArrays]:
        nonlocal included, made
        carried = list(payloads.values())
        if included is None or list(map(id, carried)) != list(map(id, included)):
            included, made = carried, _bodies(model, scale)
        ids, rows, com, axes, widths = made
        placements[1:] = terms.oMi
        own = placements[rows]
        R = own[:, :3, :3]
        centers = (R @ com[..., None])[..., 0] + own[:, :3, 3]
        solids.solids(ids, centers, matrix_quaternion(R @ axes), widths)
        return [solids]

    return draw


def _bodies(model: Model, scale: float) -> tuple[list[int], Array, Array, Array, Array]:
    """Return ids, rows, centers of mass, principal axes and widths of bodies that have mass."""
    bodies = [model.base_inertia, *model.inertias]
    ids = [i for i, body in enumerate(bodies) if body.mass > 0.0]
    mass, com, rotational = (
        np.array([getattr(bodies[i], attribute) for i in ids]).reshape(-1, *shape)
        for attribute, shape in (("mass", ()), ("com", (3,)), ("rotational", (3, 3)))
    )
    spread, axes = shapes.principal_spread(mass, rotational)
    return ids, np.array(ids, np.intp), com, axes, scale * spread
