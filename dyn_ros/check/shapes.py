# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The shapes of a robot's links in its description (URDF), and the space that they occupy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from xml.etree.ElementTree import Element

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import Tree, child, children, parse_elements, parse_numbers, placement
from .hulls import Hull, Solid, box, cylinder, sphere, union
from .meshes import Folders, Meshes, Progress, measure_meshes, turned_to_z

Color: TypeAlias = tuple[float, ...]
"""Red, green, blue, alpha from 0 to 1."""

_SIZES = {
    "box": (("size", 3),),
    "cylinder": (("radius", 1), ("length", 1)),
    "sphere": (("radius", 1),),
}
PRIMITIVES: dict[str, Callable[..., tuple[Array, Solid]]] = {
    "box": box,
    "cylinder": cylinder,
    "sphere": sphere,
}
_SMALLEST, _LARGEST_SHAPE = 1e-6, 1e6  # m: smaller links and larger shapes are not examined


@dataclass(frozen=True, eq=False)
class Shape:
    """One shape of a link: "box", "cylinder", "sphere" or "mesh", which has a `uri`.

    `placement` is homogeneous (4, 4), in the link's frame. `size` is the edge lengths of a box;
    radius and length of a cylinder, along z; radius of a sphere [m]; scale of a mesh [-]. `color`
    is red, green, blue, alpha from 0 to 1; None if the description specifies none.
    """

    kind: str
    placement: Array
    size: tuple[float, ...]
    color: Color | None = None
    uri: str = ""


def read_shapes(
    xml: str | bytes,
) -> tuple[dict[str, list[Shape]], dict[str, list[Shape]], list[str]]:
    """Read the visual and the collision shapes by the link's name, and lines about omitted ones."""
    robot = parse_elements(xml)
    problems: list[str] = []
    colors: dict[str, Color | None] = {}
    for material in children(robot, "material"):
        colors[material.get("name", "")] = _color(material, {}, problems)
    shapes: dict[str, dict[str, list[Shape]]] = {"visual": {}, "collision": {}}
    for link in children(robot, "link"):
        for kind, of_link in shapes.items():
            for element in children(link, kind):
                try:
                    shape = _shape(element, colors, problems)
                except ValueError as error:
                    problems.append(f"a {kind} of link '{link.get('name')}' is omitted: {error}")
                else:
                    of_link.setdefault(link.get("name", ""), []).append(shape)
    return shapes["visual"], shapes["collision"], problems


def _shape(element: Element, colors: Mapping[str, Color | None], problems: list[str]) -> Shape:
    origin, geometry = child(element, "origin"), child(element, "geometry")
    placed = np.eye(4)
    if origin is not None:
        placed = placement(*(_numbers(origin.get(name, "0 0 0"), 3) for name in ("xyz", "rpy")))
    material = child(element, "material")
    color = None if material is None else _color(material, colors, problems)
    form = next(iter(geometry), None) if geometry is not None else None
    if form is None:
        raise ValueError("it has no geometry")
    kind = form.tag.rpartition("}")[2]
    if kind == "mesh":
        scale = _numbers(form.get("scale", "1 1 1"), 3)
        return Shape(kind, placed, scale, color, form.get("filename", ""))
    if kind not in _SIZES:
        raise ValueError(f"{kind} is not supported; use box, cylinder, sphere or mesh")
    size = tuple(
        number
        for attribute, count in _SIZES[kind]
        for number in _numbers(form.get(attribute, ""), count)
    )
    if min(size) < 0.0:
        raise ValueError(f"the size of the {kind} is negative: {size}")
    return Shape(kind, placed, size, color)


def _color(
    material: Element, known: Mapping[str, Color | None], problems: list[str]
) -> Color | None:
    color = child(material, "color")
    if color is None:
        return known.get(material.get("name", ""))
    try:
        return tuple(min(max(x, 0.0), 1.0) for x in _numbers(color.get("rgba", ""), 4))
    except ValueError as error:
        problems.append(f"the color of material '{material.get('name')}' is ignored: {error}")
        return None


def _numbers(text: str, count: int) -> tuple[float, ...]:
    try:
        return tuple(parse_numbers(text, count))
    except ValueError:
        raise ValueError(f"expected {count} finite numbers, got '{text}'") from None


# --- the space that shapes occupy


class Extent(NamedTuple):
    """The space that shapes occupy, in a link's frame.

    `hull` is of all shapes, visual and collision. `solid` has uniform density: the visual shapes
    or, if there are none, those for collisions; a mesh that is not closed counts as its convex
    hull. `largest` is the volume of the hull, or the total of the visual or of the collision
    shapes, whichever is largest [m3].
    """

    hull: Hull
    solid: Solid
    largest: float


class LinkExtents(NamedTuple):
    """The space of a link: its own shapes, and where its mass can be.

    The latter, `allowed`, is that of its own shapes, and those of massless links that are fixed to
    it. If there are none, it is that of all links that are fixed to it. Both are None without
    shapes, or if not all are known. `mesh` is the radius of its largest mesh about its center [m];
    0 without meshes.
    """

    own: Extent | None = None
    allowed: Extent | None = None
    mesh: float = 0.0


class Extents(NamedTuple):
    """The space of the links of a robot.

    `unseen` has a line for each reason why shapes could not be examined. `placements` (4, 4) are
    those of the links in the root link's frame, with all joints at 0. `bodies` has the first of the
    links that each link is fixed to: the same for those of a rigid body. `y_up` are the meshes in
    COLLADA files whose up axis is y.
    """

    links: dict[str, LinkExtents]
    unseen: list[str]
    placements: dict[str, Array]
    bodies: dict[str, str]
    y_up: list[str]


def find_extents(
    xml: str | bytes, tree: Tree, folders: Folders = (), progress: Progress | None = None
) -> list[Extents]:
    """Find the space that the shapes of each link occupy, with meshes as RViz shows them.

    If there are COLLADA files whose up axis is y, which RViz and the viewer ignore, a second result
    has those turned to z up.
    """
    visual, collision, problems = read_shapes(xml)
    meshes, readings = _readings(visual, collision, folders, progress)
    omitted = [line for line in problems if not line.startswith("the color")]
    links = children(parse_elements(xml), "link")
    return [
        _extents(
            tree,
            [_link_shapes(link, visual, collision, measured) for link in links],
            meshes,
            omitted,
        )
        for measured in readings
    ]


def find_corners(xml: str | bytes, tree: Tree, folders: Folders = ()) -> dict[str, Array]:
    """The corners of the hull of all shapes of each link, (n, 3), in the link's frame [m].

    Links whose shapes are not all known are missing; n is 0 without shapes. Meshes in COLLADA files
    whose up axis is y occupy both spaces.
    """
    visual, collision, _ = read_shapes(xml)
    corners: dict[str, Array] = {}
    readings = _readings(visual, collision, folders, None)[1]
    for link in children(parse_elements(xml), "link"):
        shapes = [_link_shapes(link, visual, collision, measured) for measured in readings]
        if all(one.known for one in shapes):
            points = [points for one in shapes for use in one.uses for points, _ in use]
            corners[shapes[0].name] = Hull(np.vstack(points)).points if points else np.zeros((0, 3))
    return corners


def _readings(
    visual: Mapping[str, list[Shape]],
    collision: Mapping[str, list[Shape]],
    folders: Folders,
    progress: Progress | None,
) -> tuple[Meshes, list[dict[str, tuple[Array, Solid] | None]]]:
    """The meshes as they are; if some are y up, also with those turned to z up."""
    meshes = measure_meshes(
        [
            shape.uri
            for of_link in (visual, collision)
            for shapes in of_link.values()
            for shape in shapes
            if shape.kind == "mesh"
        ],
        folders,
        progress,
    )
    readings = [meshes.measured]
    if meshes.y_up:
        readings.append(
            meshes.measured
            | {
                uri: turned_to_z(*measures)
                for uri, measures in meshes.measured.items()
                if measures and uri in meshes.y_up
            }
        )
    return meshes, readings


@dataclass(frozen=True, eq=False)
class _LinkShapes:
    """The shapes of a link in its frame.

    ``uses`` are the points and the solids of the visual ones and of those for collisions; none if
    not all of them are known. ``mesh`` is the radius of the largest mesh. A link whose visual
    shapes are missing is ``known`` by meshes for collisions, but not by a coarse box around it.
    """

    name: str
    exist: bool
    known: bool
    uses: list[list[tuple[Array, Solid]]]
    mesh: float


def _link_shapes(
    link: Element,
    visual: Mapping[str, list[Shape]],
    collision: Mapping[str, list[Shape]],
    meshes: Mapping[str, tuple[Array, Solid] | None],
) -> _LinkShapes:
    name, exist, mesh = link.get("name", ""), False, 0.0
    uses = []
    for tag, shapes in (("visual", visual), ("collision", collision)):
        measured = [(shape.kind, _measured(shape, meshes)) for shape in shapes.get(name, [])]
        known = [measures for _, measures in measured if measures is not None]
        count = len(children(link, tag))
        uses.append(known if len(known) == count else [])
        exist |= count > 0
        spans = [
            np.ptp(measures[0], axis=0)
            for kind, measures in measured
            if kind == "mesh" and measures is not None
        ]
        mesh = max([mesh, *(0.5 * float(np.linalg.norm(span)) for span in spans)])
    substitutes = not children(link, "visual") or all(
        shape.kind == "mesh" for shape in collision.get(name, [])
    )
    is_known = not exist or bool(uses[0]) or bool(uses[1]) and substitutes
    return _LinkShapes(name, exist, is_known, uses, mesh)


def _measured(
    shape: Shape, meshes: Mapping[str, tuple[Array, Solid] | None]
) -> tuple[Array, Solid] | None:
    """The points and the solid of a shape in its link's frame; None if they are not known."""
    if max(np.abs(shape.size).max(), np.abs(shape.placement).max()) > _LARGEST_SHAPE:
        return None
    if shape.kind != "mesh":
        return _moved(PRIMITIVES[shape.kind](*shape.size), shape.placement)
    mesh = meshes[shape.uri]
    return None if mesh is None else _moved(mesh, shape.placement @ np.diag([*shape.size, 1.0]))


def _moved(measures: tuple[Array, Solid], X: Array) -> tuple[Array, Solid]:
    points, solid = measures
    linear, offset = X[:3, :3], X[:3, 3]
    return points @ linear.T + offset, solid.moved(linear, offset)


def _extents(
    tree: Tree, links: Sequence[_LinkShapes], meshes: Meshes, omitted: Sequence[str]
) -> Extents:
    frames = {link.name: link for link in tree.links}
    placements = _placements(tree)
    groups: dict[int, list[_LinkShapes]] = {}
    shapes_of = {shapes.name: shapes for shapes in links}
    for name, frame in frames.items():
        groups.setdefault(frame.parent, []).append(shapes_of[name])
    bodies = {shapes.name: group[0].name for group in groups.values() for shapes in group}
    extents, empty = {}, []
    for shapes in links:
        fixed = [other for other in groups[frames[shapes.name].parent] if other is not shapes]
        group = [shapes, *(other for other in fixed if frames[other.name].inertia.mass == 0.0)]
        if not any(other.exist for other in group):
            group = [shapes, *fixed]
        own = _extent([shapes], [np.eye(4)])
        to_link = np.linalg.inv(placements[shapes.name])
        allowed = _extent(
            group, [np.eye(4), *(to_link @ placements[other.name] for other in group[1:])]
        )
        extents[shapes.name] = LinkExtents(own, allowed, shapes.mesh)
        if shapes.exist and shapes.known and own is None:
            empty.append(
                f"the shapes of link '{shapes.name}' enclose no volume and are not examined"
            )
    return Extents(extents, [*meshes.unseen, *empty, *omitted], placements, bodies, meshes.y_up)


def _placements(tree: Tree) -> dict[str, Array]:
    """The placement of each link with all joints at 0."""
    joints: list[Array] = []
    for joint in tree.joints:
        joints.append(
            joints[joint.parent] @ joint.placement if joint.parent >= 0 else joint.placement
        )
    return {
        frame.name: joints[frame.parent] @ frame.placement if frame.parent >= 0 else frame.placement
        for frame in tree.links
    }


def _extent(links: Sequence[_LinkShapes], placements: Sequence[Array]) -> Extent | None:
    """The extent of the shapes of links, placed; None if one of the links is not known."""
    if not all(shapes.known for shapes in links):
        return None
    uses: list[list[tuple[Array, Solid]]] = [[], []]
    for shapes, X in zip(links, placements, strict=True):
        for use, measures in zip(uses, shapes.uses):
            use += [_moved(measured, X) for measured in measures]
    solids = [
        union([solid for _, solid in use])
        for use in uses
        if any(solid.volume > 0.0 for _, solid in use)
    ]
    if not solids:
        return None
    hull = Hull(np.vstack([points for use in uses for points, _ in use]))
    if hull.radius < _SMALLEST:
        return None
    return Extent(hull, solids[0], max(hull.solid.volume, *(solid.volume for solid in solids)))
