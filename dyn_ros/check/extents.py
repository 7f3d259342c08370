# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The space that the shapes of each link occupy, with those of its meshes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from xml.etree.ElementTree import Element

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.inertia import LARGEST
from ..engine.model.urdf import children, parse_elements, parse_numbers, placement
from .hulls import Hull, Solid, box, cylinder, solid_of_triangles, sphere, union
from .meshes import Folders, MeshError, find_mesh, read_mesh
from .shapes import Shape, read_shapes

FULL = 0.05
"""A closed mesh is solid if it encloses at least this part of its convex hull."""

_SMALLEST, _LARGEST_SHAPE = 1e-6, 1e6    # m: smaller links and larger shapes are not examined

_HEADER = 100_000                    # characters, among which a COLLADA file specifies its axes
_TO_Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of meshes that have been read, of all, and the next one's file."""


@dataclass(frozen=True, eq=False)
class Extent:
    """The space that shapes occupy, in a link's frame.

    Attributes
    ----------
    hull : Hull
        Convex hull of all shapes, visual and collision.
    solid : Solid
        A solid of uniform density: the visual shapes or, if there are none, those for collisions.
        A mesh that is not closed counts as its convex hull.
    largest : float
        The volume of the hull, or the total of the visual or of the collision shapes, whichever is
        largest [m3].
    """

    hull: Hull
    solid: Solid
    largest: float


@dataclass
class LinkExtents:
    """The space of a link.

    Attributes
    ----------
    own : Extent, optional
        That of its own shapes; None if it has none, or if not all of them are known.
    allowed : Extent, optional
        That where the link's mass can be: its own shapes, and those of massless links that are
        fixed to it. If there are none, those of all links that are fixed to it. None if not all
        are known.
    mesh : float
        Radius of its largest mesh about its center [m]; 0 without meshes.
    """

    own: Extent | None = None
    allowed: Extent | None = None
    mesh: float = 0.0


@dataclass
class Extents:
    """The space of the links of a robot.

    Attributes
    ----------
    links : dict of str to LinkExtents
    unseen : list of str
        One line for each reason why shapes could not be examined.
    placements : dict of str to (4, 4) ndarray
        Of the links in the root link's frame, with all joints at 0.
    bodies : dict of str to str
        The first of the links that each link is fixed to: the same for those of a rigid body.
    y_up : list of str
        The meshes in COLLADA files whose up axis is y.
    """

    links: dict[str, LinkExtents] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    placements: dict[str, Array] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    y_up: list[str] = field(default_factory=list)


def find_extents(xml: str | bytes, folders: Folders = (),
                 progress: Progress | None = None) -> list[Extents]:
    """Find the space that the shapes of each link occupy.

    Parameters
    ----------
    xml : str or bytes
        A URDF that the reader accepts.
    folders : sequence of path-like
        Folders to search for meshes, see `find_mesh`.
    progress : callable, optional
        Called before each mesh is read, and at the end.

    Returns
    -------
    list of Extents
        With the meshes as RViz and the viewer show them. If there are COLLADA files whose up axis
        is y, which these programs ignore, a second one with those turned to z up.

    Raises
    ------
    UrdfError
        The text is not a URDF.
    """
    root = parse_elements(xml)
    visual, collision, problems = read_shapes(xml)
    meshes = _Meshes(folders, [shape.uri for of_link in (visual, collision)
                               for shapes in of_link.values() for shape in shapes
                               if shape.kind == "mesh"], progress)
    readings = [_extents(root, visual, collision, meshes)]
    if meshes.y_up:
        meshes.turn = True
        readings.append(_extents(root, visual, collision, meshes))
    for reading in readings:
        reading.unseen += [line for line in problems if not line.startswith("the color")]
    return readings


def _extents(root: Element, visual: dict[str, list[Shape]], collision: dict[str, list[Shape]],
             meshes: _Meshes) -> Extents:
    parts = {link.get("name", ""): _Parts(link, visual, collision, meshes)
             for link in children(root, "link")}
    placements, bodies = _placed_links(root)
    massless = {link.get("name", "") for link in children(root, "link") if not _mass(link)}
    result = Extents({}, meshes.unseen(), placements, bodies, sorted(meshes.y_up))
    for name, part in parts.items():
        fixed = [other for other in placements
                 if other != name and bodies.get(other) == bodies.get(name)]
        group = [name] + [other for other in fixed if other in massless]
        if not any(parts[other].exists for other in group):
            group = [name, *fixed]
        result.links[name] = LinkExtents(
            _extent([part], [np.eye(4)]),
            _extent([parts[other] for other in group],
                    [_relative(placements, name, other) for other in group]),
            part.mesh)
        if part.exists and part.known and result.links[name].own is None:
            result.unseen.append(f"the shapes of link '{name}' enclose no volume and are not "
                                 "examined")
    return result


@dataclass(frozen=True, eq=False)
class _Part:
    """One shape in a link's frame: its points, its solid, and the radius of a mesh."""

    points: Array
    solid: Solid


class _Parts:
    """The shapes of a link: visual and collision ones, each None if not all of them are known."""

    def __init__(self, link: Element, visual: dict[str, list[Shape]],
                 collision: dict[str, list[Shape]], meshes: _Meshes):
        name = link.get("name", "")
        self.uses: list[list[_Part]] = []
        self.exists = False
        self.known = True
        self.mesh = 0.0
        for tag, shapes in (("visual", visual), ("collision", collision)):
            count = len(children(link, tag))
            self.exists |= count > 0
            parts = [self._part(shape, meshes) for shape in shapes.get(name, [])]
            known = [part for part in parts if part is not None]
            self.uses.append(known if len(known) == count else [])
        self.known = not self.exists or any(self.uses)

    def _part(self, shape: Shape, meshes: _Meshes) -> _Part | None:
        part = _part_of(shape, meshes)
        if part is not None and shape.kind == "mesh":
            span = part.points.max(axis=0) - part.points.min(axis=0)
            self.mesh = max(self.mesh, 0.5 * float(np.linalg.norm(span)))
        return part


def _part_of(shape: Shape, meshes: _Meshes) -> _Part | None:
    if max(np.abs(shape.size).max(), np.abs(shape.placement).max()) > _LARGEST_SHAPE:
        return None
    linear, offset = shape.placement[:3, :3], shape.placement[:3, 3]
    if shape.kind == "mesh":
        measured = meshes.measured(shape.uri)
        if measured is None:
            return None
        points, solid = measured
        linear = linear @ np.diag(shape.size)
    else:
        points, solid = _primitive(shape)
    return _Part(points @ linear.T + offset, solid.moved(linear, offset))


def _primitive(shape: Shape) -> tuple[Array, Solid]:
    if shape.kind == "box":
        return box(*shape.size)
    return cylinder(*shape.size) if shape.kind == "cylinder" else sphere(*shape.size)


def _extent(parts: Sequence[_Parts], placements: Sequence[Array]) -> Extent | None:
    """The extent of the shapes of links, placed; None if one of the links is not known."""
    uses: list[list[_Part]] = [[], []]
    for part, X in zip(parts, placements, strict=True):
        if not part.known:
            return None
        R, p = X[:3, :3], X[:3, 3]
        for use, shapes in zip(uses, part.uses):
            use += [_Part(each.points @ R.T + p, each.solid.moved(R, p)) for each in shapes]
    points = [each.points for use in uses for each in use]
    solids = [union([each.solid for each in use]) for use in uses
              if any(each.solid.volume > 0.0 for each in use)]
    if not solids:
        return None
    hull = Hull(np.vstack(points))
    if hull.radius < _SMALLEST:
        return None
    largest = max(hull.solid.volume, *(solid.volume for solid in solids))
    return Extent(hull, solids[0], largest)


class _Meshes:
    """The meshes of a description, each of which is read once.

    Attributes
    ----------
    y_up : set of str
        Those in COLLADA files whose up axis is y.
    turn : bool
        Whether these are turned to z up.
    """

    def __init__(self, folders: Folders, uris: Sequence[str], progress: Progress | None):
        self.y_up: set[str] = set()
        self.turn = False
        self._folders = folders
        self._measured: dict[str, tuple[Array, Solid] | None] = {}
        self._missing: list[str] = []
        self._broken: list[str] = []
        self._no_library = ""
        names = list(dict.fromkeys(uris))
        for done, uri in enumerate(names):
            if progress is not None:
                progress(done, len(names), uri.rpartition("/")[2])
            self._measured[uri] = self._read(uri)
        if progress is not None and names:
            progress(len(names), len(names), "")

    def measured(self, uri: str) -> tuple[Array, Solid] | None:
        """The points of a mesh's hull, and its solid; None if it cannot be read."""
        measured = self._measured[uri]
        if measured is None or not (self.turn and uri in self.y_up):
            return measured
        points, solid = measured
        return points @ _TO_Z_UP.T, solid.moved(_TO_Z_UP, np.zeros(3))

    def _read(self, uri: str) -> tuple[Array, Solid] | None:
        try:
            path = find_mesh(uri, self._folders)
        except MeshError:
            self._missing.append(uri)
            return None
        try:
            measured = measure_mesh(path)
            if _is_y_up(path):
                self.y_up.add(uri)
            return measured
        except ImportError as error:
            self._no_library = error.name or str(error)
        except Exception as error:          # the library of each format raises its own errors
            self._broken.append(f"{uri}: {error}")
        return None

    def unseen(self) -> list[str]:
        """One line for each reason why meshes are not known."""
        lines = []
        if self._no_library:
            lines.append(f"meshes are not examined: {self._no_library} is not installed; "
                         'pip install "dyn_ros[viewer]"')
        if self._missing:
            lines.append(f"meshes that are not found are not examined ({len(self._missing)}), such "
                         f"as '{self._missing[0]}': source the workspace that contains the "
                         "package, or pass the folder that contains it with --mesh-path")
        lines += [f"a mesh cannot be read and is not examined: {' '.join(each.split())}"
                  for each in self._broken]
        return lines


def measure_mesh(path: Path) -> tuple[Array, Solid]:
    """Measure a mesh file.

    Parameters
    ----------
    path : pathlib.Path

    Returns
    -------
    points : (n, 3) ndarray
        Corners of its convex hull [m].
    solid : Solid
        What it encloses if it is closed, or its convex hull.

    Raises
    ------
    ImportError
        trimesh is not installed.
    MeshError
        The file contains no surface, or is too large. The library of each format raises its own
        errors if it cannot be read.
    """
    mesh = read_mesh(path).to_mesh()
    if not len(mesh.vertices) or not np.isfinite(mesh.vertices).all():
        raise MeshError("it contains no surface, or numbers that are not finite")
    hull = Hull(mesh.vertices)
    solid = hull.solid
    if mesh.is_watertight and mesh.is_winding_consistent:
        inside = solid_of_triangles(mesh.triangles)
        if FULL * solid.volume < abs(inside.volume) <= 1.001 * solid.volume:
            solid = Solid(abs(inside.volume), inside.com, inside.covariance)
    return hull.points, solid


def _is_y_up(path: Path) -> bool:
    """Whether the up axis of a file is y, which only COLLADA files specify."""
    if path.suffix.lower() != ".dae":
        return False
    with open(path, "rb") as file:
        return b"<up_axis>Y_UP" in file.read(_HEADER)


def _mass(link: Element) -> float:
    for inertial in children(link, "inertial"):
        for mass in children(inertial, "mass"):
            return float(mass.get("value", "0"))
    return 0.0


def _placed_links(root: Element) -> tuple[dict[str, Array], dict[str, str]]:
    """The placement of each link with all joints at 0, and the first link of its rigid body."""
    below: dict[str, list[Element]] = {}
    inner = set()
    for joint in children(root, "joint"):
        below.setdefault(children(joint, "parent")[0].get("link", ""), []).append(joint)
        inner.add(children(joint, "child")[0].get("link", ""))
    placed, bodies = {}, {}
    ends = [link.get("name", "") for link in children(root, "link")]
    ends = [name for name in ends if name not in inner]
    for name in ends:
        placed[name], bodies[name] = np.eye(4), name
    while ends:
        parent = ends.pop()
        for joint in below.get(parent, []):
            child = children(joint, "child")[0].get("link", "")
            placed[child] = placed[parent] @ origin_of(joint)
            bodies[child] = bodies[parent] if joint.get("type") == "fixed" else child
            ends.append(child)
    return placed, bodies


def _relative(placements: dict[str, Array], base: str, other: str) -> Array:
    """The placement of a link in the frame of another one."""
    if base == other:
        return np.eye(4)
    R, p = placements[base][:3, :3], placements[base][:3, 3]
    X = placements[other].copy()
    X[:3, 3] = R.T @ (X[:3, 3] - p)
    X[:3, :3] = R.T @ X[:3, :3]
    return X


def origin_of(element: Element) -> Array:
    """The placement specified by an element's <origin>.

    Parameters
    ----------
    element : xml.etree.ElementTree.Element
        A joint or an <inertial> of a description that the reader accepts.

    Returns
    -------
    (4, 4) ndarray
        Homogeneous.
    """
    for origin in children(element, "origin"):
        return placement(*(parse_numbers(origin.get(key, "0 0 0"), 3, LARGEST)
                           for key in ("xyz", "rpy")))
    return np.eye(4)
