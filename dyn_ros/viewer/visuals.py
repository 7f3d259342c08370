# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The appearance of a robot: the shapes and meshes of its description (URDF)."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

import numpy as np

from ..model.urdf import parse_elements, parse_numbers, placement
from ..spatial.types import Array

if TYPE_CHECKING:
    import trimesh

LARGEST_MESH = 100_000_000
"""Larger files are not shown [bytes]: a browser would take minutes to load them."""

Color: TypeAlias = tuple[float, ...]
"""Red, green, blue, alpha from 0 to 1."""

Folders: TypeAlias = Sequence[str | os.PathLike[str]]
"""Folders to search for meshes."""


@dataclass(frozen=True, eq=False)
class Shape:
    """One shape of a link.

    Attributes
    ----------
    kind : {"box", "cylinder", "sphere", "mesh"}
    placement : (4, 4) ndarray
        Homogeneous, in the link's frame.
    size : tuple of float
        Edge lengths of a box; radius and length of a cylinder, along z; radius of a sphere [m];
        scale of a mesh [-].
    color : tuple of four float, or None
        Red, green, blue, alpha from 0 to 1; None if the description specifies none.
    uri : str
        URI of a mesh.
    """

    kind: str
    placement: Array
    size: tuple[float, ...]
    color: Color | None = None
    uri: str = ""


class MeshError(ValueError):
    """A mesh that cannot be shown; the message names it and a remedy."""


def read_shapes(
        xml: str | bytes) -> tuple[dict[str, list[Shape]], dict[str, list[Shape]], list[str]]:
    """Read the shapes of each link.

    Parameters
    ----------
    xml : str or bytes
        The URDF text.

    Returns
    -------
    visual, collision : dict of str to list of Shape
        By the link's name.
    problems : list of str
        What could not be read and is omitted.

    Raises
    ------
    dyn_ros.UrdfError
        The text is not a URDF.
    """
    robot = parse_elements(xml)
    problems: list[str] = []
    colors: dict[str, Color | None] = {}
    for material in _children(robot, "material"):
        colors[material.get("name", "")] = _color(material, {}, problems)
    shapes: dict[str, dict[str, list[Shape]]] = {"visual": {}, "collision": {}}
    for link in _children(robot, "link"):
        for kind, of_link in shapes.items():
            for element in _children(link, kind):
                try:
                    shape = _shape(element, colors, problems)
                except ValueError as error:
                    problems.append(f"a {kind} of link '{link.get('name')}' is not shown: {error}")
                else:
                    of_link.setdefault(link.get("name", ""), []).append(shape)
    return shapes["visual"], shapes["collision"], problems


def _children(element: Element, tag: str) -> list[Element]:
    return [child for child in element if child.tag.rpartition("}")[2] == tag]


def _child(element: Element, tag: str) -> Element | None:
    return next(iter(_children(element, tag)), None)


def _shape(element: Element, colors: Mapping[str, Color | None], problems: list[str]) -> Shape:
    origin, geometry = _child(element, "origin"), _child(element, "geometry")
    placed = np.eye(4)
    if origin is not None:
        placed = placement(*(_numbers(origin.get(each, "0 0 0"), 3) for each in ("xyz", "rpy")))
    material = _child(element, "material")
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
    size = tuple(number for attribute, count in _SIZES[kind]
                 for number in _numbers(form.get(attribute, ""), count))
    if min(size) < 0.0:
        raise ValueError(f"the size of the {kind} is negative: {size}")
    return Shape(kind, placed, size, color)


_SIZES = {"box": (("size", 3),), "cylinder": (("radius", 1), ("length", 1)),
          "sphere": (("radius", 1),)}


def _color(material: Element, known: Mapping[str, Color | None],
           problems: list[str]) -> Color | None:
    color = _child(material, "color")
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


def find_mesh(uri: str, folders: Folders = ()) -> Path:
    """Locate the file that a URI in a description refers to.

    Parameters
    ----------
    uri : str
        package://<package>/<path>, file://<path>, or a path.
    folders : sequence of path-like
        Folders to search, in addition to the ROS prefixes, for packages and for relative paths.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    MeshError
        The file does not exist, or the scheme of the URI is not supported.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme == "package":
        places = [place / path.lstrip("/") for place in _package(parts.netloc, folders)]
        advice = (f"source the workspace with the package '{parts.netloc}', or add the folder "
                  "that contains it to the parameter mesh_paths")
    elif parts.scheme in ("file", ""):
        places = [Path(path)] if path.startswith("/") else [Path(each) / path for each in folders]
        advice = "check the path"
    else:
        raise MeshError(f"mesh '{uri}': expected package://, file:// or a path")
    for place in places:
        if place.is_file():
            return place
    raise MeshError(f"mesh '{uri}' not found; {advice}")


def _package(name: str, folders: Folders) -> Iterator[Path]:
    """Yield the folders where a package may be."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    sources = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
    yield from (Path(prefix) / "share" / name for prefix in (*prefixes, sys.prefix) if prefix)
    yield from (Path(folder) / name for folder in (*sources, *folders) if folder)


@lru_cache(maxsize=256)
def load_mesh(path: Path, color: Color | None = None) -> bytes:
    """Convert a mesh file to glTF, in meters.

    Parameters
    ----------
    path : pathlib.Path
        STL, OBJ, PLY, glTF or COLLADA.
    color : tuple of four float, optional
        Color of the whole mesh if the file specifies none.

    Returns
    -------
    bytes

    Raises
    ------
    MeshError
        The file cannot be read.
    """
    import trimesh

    try:
        if path.stat().st_size > LARGEST_MESH:
            raise MeshError(f"it exceeds {LARGEST_MESH / 1e6:.0f} MB; use a coarser mesh")
        scene = trimesh.load_scene(path)
        if path.suffix.lower() == ".dae" and scene.units:
            scene = scene.convert_units("meters")
        for mesh in scene.geometry.values():
            if not mesh.visual.defined or path.suffix.lower() == ".stl":
                _paint(mesh, color or (0.7, 0.7, 0.7, 1.0))
        return scene.export(file_type="glb")
    except Exception as error:              # the library of each format raises its own errors
        raise MeshError(f"mesh '{path}' cannot be read: {error}") from error


def _paint(mesh: trimesh.Trimesh, color: Color) -> None:
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import PBRMaterial

    mesh.visual = TextureVisuals(material=PBRMaterial(
        baseColorFactor=color, metallicFactor=0.1, roughnessFactor=0.8,
        alphaMode="BLEND" if color[3] < 1.0 else None))
