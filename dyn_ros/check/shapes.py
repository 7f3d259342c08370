# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shapes of a robot's links in its description (URDF), and the space that they occupy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from xml.etree.ElementTree import Element

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import (
    Tree,
    child,
    children,
    parse_elements,
    parse_numbers,
    placement,
    read_angles,
)
from .hulls import (
    Hull,
    Solid,
    measure_box,
    measure_capsule,
    measure_cylinder,
    measure_sphere,
    unite_solids,
)
from .meshes import Folders, Meshes, Progress, measure_meshes, turn_to_z_up

Color: TypeAlias = tuple[float, ...]
"""Red, green, blue, alpha from 0 to 1."""

_SIZES = {
    "box": (("size", 3),),
    "cylinder": (("radius", 1), ("length", 1)),
    "sphere": (("radius", 1),),
    "capsule": (("radius", 1), ("length", 1)),
}
PRIMITIVES: dict[str, Callable[..., tuple[Array, Solid]]] = {
    "box": measure_box,
    "cylinder": measure_cylinder,
    "sphere": measure_sphere,
    "capsule": measure_capsule,
}
_MIN_LINK_RADIUS = 1e-6  # m; smaller links are not examined
_MAX_SHAPE_SIZE = 1e6  # m; shapes that are larger, or farther away, are not examined


@dataclass(frozen=True, eq=False)
class Shape:
    """Shape of a link: "box", "cylinder", "sphere", "capsule" or "mesh", which has a `uri`.

    `placement` is homogeneous (4, 4), in the link's frame. `size` is the edge lengths of a box;
    radius and length of a cylinder, along z; radius of a sphere; radius and length of a capsule,
    along z, without its hemispheres [m]; scale of a mesh [-]. `color` is red, green, blue, alpha
    from 0 to 1; None if the description specifies none.
    """

    kind: str
    placement: Array
    size: tuple[float, ...]
    color: Color | None = None
    uri: str = ""


def read_shapes(
    xml: str | bytes,
) -> tuple[dict[str, list[Shape]], dict[str, list[Shape]], list[str]]:
    """Read the visual and the collision shapes by the link's name, and lines about omitted ones.

    Raise an UrdfError if the text is not the XML of a robot.
    """
    robot = parse_elements(xml)
    problems: list[str] = []
    colors: dict[str, Color | None] = {}
    for material in children(robot, "material"):
        colors[material.get("name", "")] = _read_color(material, {}, problems)
    shapes: dict[str, dict[str, list[Shape]]] = {"visual": {}, "collision": {}}
    for link in children(robot, "link"):
        for kind, shapes_by_link in shapes.items():
            for element in children(link, kind):
                try:
                    shape = _read_shape(element, colors, problems)
                except ValueError as error:
                    problems.append(f"a {kind} of link '{link.get('name')}' is omitted: {error}")
                else:
                    shapes_by_link.setdefault(link.get("name", ""), []).append(shape)
    return shapes["visual"], shapes["collision"], problems


def _read_shape(element: Element, colors: Mapping[str, Color | None], problems: list[str]) -> Shape:
    """Return the shape of a <visual> or <collision>; raise a ValueError if it cannot be used.

    Appends lines about its color to ``problems``.
    """
    origin, geometry = child(element, "origin"), child(element, "geometry")
    X = np.eye(4)
    if origin is not None:
        X = placement(_parse_numbers(origin.get("xyz", "0 0 0"), 3), _read_angles(origin))
    material = child(element, "material")
    color = None if material is None else _read_color(material, colors, problems)
    primitive = next(iter(geometry), None) if geometry is not None else None
    if primitive is None:
        raise ValueError("it has no geometry")
    kind = primitive.tag.rpartition("}")[2]
    if kind == "mesh":
        scale = _parse_numbers(primitive.get("scale", "1 1 1"), 3)
        return Shape(kind, X, scale, color, primitive.get("filename", ""))
    if kind not in _SIZES:
        raise ValueError(f"{kind} is not supported; use {', '.join(_SIZES)} or mesh")
    for attribute, _ in _SIZES[kind]:
        if attribute not in primitive.attrib:
            raise ValueError(f"its {kind} has no attribute {attribute}")
    size = tuple(
        number
        for attribute, count in _SIZES[kind]
        for number in _parse_numbers(primitive.attrib[attribute], count)
    )
    if min(size) < 0.0:
        raise ValueError(f"the size of the {kind} is negative: {size}")
    return Shape(kind, X, size, color)


def _read_angles(origin: Element) -> list[float]:
    """Return the angles of an <origin> [rad]; the ValueError says what cannot be read."""
    try:
        return read_angles(origin)
    except ValueError as error:
        raise ValueError(f"the orientation of its <origin> {error}") from None


def _read_color(
    material: Element, colors: Mapping[str, Color | None], problems: list[str]
) -> Color | None:
    """Return the color of a <material>, given directly or by its name; None without one.

    Appends a line to ``problems`` if the color cannot be read.
    """
    color = child(material, "color")
    if color is None:
        return colors.get(material.get("name", ""))
    try:
        return tuple(min(max(x, 0.0), 1.0) for x in _parse_numbers(color.get("rgba", ""), 4))
    except ValueError as error:
        problems.append(f"the color of material '{material.get('name')}' is ignored: {error}")
        return None


def _parse_numbers(text: str, count: int) -> tuple[float, ...]:
    """Return ``count`` numbers separated by spaces; raise a ValueError for anything else."""
    try:
        return tuple(parse_numbers(text, count))
    except ValueError:
        expectation = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ValueError(f"expected {expectation}, got '{text}'") from None


# --- the space that shapes occupy


class Extent(NamedTuple):
    """Space that shapes occupy, in a link's frame.

    `hull` is the hull of all shapes, visual and collision. `solid` has uniform density and consists
    of the visual shapes or, without these, of the collision shapes; a mesh that is not closed
    counts as its convex hull. `max_volume` is the largest of the volume of the hull, the total of
    the visual and the total of the collision shapes [m3].
    """

    hull: Hull
    solid: Solid
    max_volume: float


class LinkExtents(NamedTuple):
    """Space of a link's `own` shapes, and the space in which its mass is `allowed`.

    Mass is allowed in its own shapes and in the shapes of massless links fixed to it; if none
    of these has shapes, in the shapes of all links fixed to it. A space is None without shapes,
    or if not all of them could be measured. `mesh_radius` is the radius of its largest mesh about
    its center [m]; 0 without meshes. `is_coarse` if mass is allowed in simple collision shapes
    only, which may stand in for a part of the link.
    """

    own: Extent | None = None
    allowed: Extent | None = None
    mesh_radius: float = 0.0
    is_coarse: bool = False


class Extents(NamedTuple):
    """Space of the links of a robot.

    `unseen` has a line for each reason why shapes could not be examined. `placements` (4, 4) are in
    the root link's frame, with all joints at 0. `bodies` has for each link the first link of its
    rigid body, the links that are fixed to each other. `y_up` are the meshes in COLLADA files whose
    up axis is y.
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
    has these meshes turned to z up.
    """
    visual, collision, problems = read_shapes(xml)
    meshes, variants = _measure_mesh_variants(visual, collision, folders, progress)
    omitted = [line for line in problems if not line.startswith("the color")]
    links = children(parse_elements(xml), "link")
    return [
        _combine_extents(
            tree,
            [_link_shapes(link, visual, collision, measured) for link in links],
            meshes,
            omitted,
        )
        for measured in variants
    ]


def find_corners(xml: str | bytes, tree: Tree, folders: Folders = ()) -> dict[str, Array]:
    """Find the corners of the hull of all shapes of each link, (n, 3), in the link's frame [m].

    Links whose shapes could not all be measured are missing; n is 0 without shapes. Meshes in
    COLLADA files whose up axis is y occupy their space with y up and with z up.
    """
    visual, collision, _ = read_shapes(xml)
    corners: dict[str, Array] = {}
    variants = _measure_mesh_variants(visual, collision, folders, None)[1]
    for link in children(parse_elements(xml), "link"):
        shapes = [_link_shapes(link, visual, collision, measured) for measured in variants]
        if all(link_shapes.is_measured for link_shapes in shapes):
            points = [
                points for link_shapes in shapes for use in link_shapes.uses for points, _ in use
            ]
            corners[shapes[0].name] = Hull(np.vstack(points)).points if points else np.zeros((0, 3))
    return corners


def _measure_mesh_variants(
    visual: Mapping[str, list[Shape]],
    collision: Mapping[str, list[Shape]],
    folders: Folders,
    progress: Progress | None,
) -> tuple[Meshes, list[dict[str, tuple[Array, Solid] | None]]]:
    """Measure meshes as they are and, if some have the up axis y, with these turned to z up."""
    meshes = measure_meshes(
        [
            shape.uri
            for shapes_by_link in (visual, collision)
            for shapes in shapes_by_link.values()
            for shape in shapes
            if shape.kind == "mesh"
        ],
        folders,
        progress,
    )
    variants = [meshes.measured]
    if meshes.y_up:
        variants.append(
            meshes.measured
            | {
                uri: turn_to_z_up(*measures)
                for uri, measures in meshes.measured.items()
                if measures and uri in meshes.y_up
            }
        )
    return meshes, variants


@dataclass(frozen=True, eq=False)
class _LinkShapes:
    """Measured shapes of a link in its frame.

    ``uses`` are the points and the solids of the visual and of the collision shapes; none if not
    all of them could be measured. ``mesh_radius`` is the radius of the largest mesh. If visual
    shapes are missing, meshes for collisions measure a link, but not a coarse box around it.
    ``is_coarse`` if there are no shapes but boxes and the like for collisions.
    """

    name: str
    has_shapes: bool
    is_measured: bool
    uses: list[list[tuple[Array, Solid]]]
    mesh_radius: float
    is_coarse: bool


def _link_shapes(
    link: Element,
    visual: Mapping[str, list[Shape]],
    collision: Mapping[str, list[Shape]],
    meshes: Mapping[str, tuple[Array, Solid] | None],
) -> _LinkShapes:
    """Return the measured shapes of a <link>; ``meshes`` are the measures by URI."""
    name, has_shapes, mesh_radius = link.get("name", ""), False, 0.0
    uses = []
    for tag, shapes in (("visual", visual), ("collision", collision)):
        measurements = [
            (shape.kind, _measure_shape(shape, meshes)) for shape in shapes.get(name, [])
        ]
        measured = [measures for _, measures in measurements if measures is not None]
        count = len(children(link, tag))
        uses.append(measured if len(measured) == count else [])
        has_shapes |= count > 0
        spans = [
            np.ptp(measures[0], axis=0)
            for kind, measures in measurements
            if kind == "mesh" and measures is not None
        ]
        mesh_radius = max([mesh_radius, *(0.5 * float(np.linalg.norm(span)) for span in spans)])
    collision_suffices = not children(link, "visual") or all(
        shape.kind == "mesh" for shape in collision.get(name, [])
    )
    is_measured = not has_shapes or bool(uses[0]) or bool(uses[1]) and collision_suffices
    is_coarse = not children(link, "visual") and all(
        shape.kind != "mesh" for shape in collision.get(name, [])
    )
    return _LinkShapes(name, has_shapes, is_measured, uses, mesh_radius, is_coarse)


def _measure_shape(
    shape: Shape, meshes: Mapping[str, tuple[Array, Solid] | None]
) -> tuple[Array, Solid] | None:
    """Return the points and the solid of a shape in its link's frame; None if not measured."""
    if max(np.abs(shape.size).max(), np.abs(shape.placement).max()) > _MAX_SHAPE_SIZE:
        return None
    if shape.kind != "mesh":
        return _transform_measures(PRIMITIVES[shape.kind](*shape.size), shape.placement)
    mesh = meshes[shape.uri]
    return (
        None
        if mesh is None
        else _transform_measures(mesh, shape.placement @ np.diag([*shape.size, 1.0]))
    )


def _transform_measures(measures: tuple[Array, Solid], X: Array) -> tuple[Array, Solid]:
    """Return points (n, 3) and a solid, transformed by X, (4, 4) affine."""
    points, solid = measures
    linear, offset = X[:3, :3], X[:3, 3]
    return points @ linear.T + offset, solid.transformed_by(linear, offset)


def _combine_extents(
    tree: Tree, links: Sequence[_LinkShapes], meshes: Meshes, omitted: Sequence[str]
) -> Extents:
    """Return the space of all links from their measured shapes.

    ``omitted`` are lines about shapes that were not read.
    """
    frames = {link.name: link for link in tree.links}
    placements = _link_placements(tree)
    groups: dict[int, list[_LinkShapes]] = {}
    shapes_by_name = {shapes.name: shapes for shapes in links}
    for name, frame in frames.items():
        groups.setdefault(frame.parent, []).append(shapes_by_name[name])
    bodies = {shapes.name: group[0].name for group in groups.values() for shapes in group}
    extents, empty = {}, []
    for shapes in links:
        body = groups[frames[shapes.name].parent]
        fixed_links = [neighbor for neighbor in body if neighbor is not shapes]
        massless_links = [link for link in fixed_links if frames[link.name].inertia.mass == 0.0]
        group = [shapes, *massless_links]
        if not any(member.has_shapes for member in group):
            group = [shapes, *fixed_links]
        to_link = np.linalg.inv(placements[shapes.name])
        neighbor_placements = [to_link @ placements[neighbor.name] for neighbor in group[1:]]
        link_extent = _unite_extent([shapes], [np.eye(4)])
        allowed = _unite_extent(group, [np.eye(4), *neighbor_placements])
        extents[shapes.name] = LinkExtents(
            link_extent, allowed, shapes.mesh_radius, all(member.is_coarse for member in group)
        )
        if shapes.has_shapes and shapes.is_measured and link_extent is None:
            empty.append(
                f"the shapes of link '{shapes.name}' enclose no volume and are not examined"
            )
    return Extents(extents, [*meshes.unseen, *empty, *omitted], placements, bodies, meshes.y_up)


def _link_placements(tree: Tree) -> dict[str, Array]:
    """Return the placement (4, 4) of each link in the root link's frame, with all joints at 0."""
    joints: list[Array] = []
    for joint in tree.joints:
        joints.append(
            joints[joint.parent] @ joint.placement if joint.parent >= 0 else joint.placement
        )
    return {
        frame.name: joints[frame.parent] @ frame.placement if frame.parent >= 0 else frame.placement
        for frame in tree.links
    }


def _unite_extent(links: Sequence[_LinkShapes], placements: Sequence[Array]) -> Extent | None:
    """Return the extent of the shapes of links, each moved by its placement.

    None if not all could be measured, or if they enclose no volume.
    """
    if not all(shapes.is_measured for shapes in links):
        return None
    uses: list[list[tuple[Array, Solid]]] = [[], []]
    for shapes, X in zip(links, placements, strict=True):
        for use, measures in zip(uses, shapes.uses):
            use += [_transform_measures(measured, X) for measured in measures]
    solids = [
        unite_solids([solid for _, solid in use])
        for use in uses
        if any(solid.volume > 0.0 for _, solid in use)
    ]
    if not solids:
        return None
    hull = Hull(np.vstack([points for use in uses for points, _ in use]))
    if hull.radius < _MIN_LINK_RADIUS:
        return None
    return Extent(hull, solids[0], max(hull.solid.volume, *(solid.volume for solid in solids)))
