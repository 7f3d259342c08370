# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mesh files that a robot's description refers to, which trimesh reads, and their solids."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np

from ..engine.kernel.types import Array
from .hulls import Hull, Solid, solid_of_triangles

if TYPE_CHECKING:
    import trimesh

LARGEST_MESH = 100_000_000
"""Larger files are not read [bytes]: a browser would take minutes to load them."""

Folders: TypeAlias = Sequence[str | os.PathLike[str]]
"""Folders to search for meshes."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of meshes that have been read, of all, and the next one's file."""

_FULL = 0.05  # of its hull: a closed mesh that encloses less is no solid
_HEADER = 100_000  # characters, among which a COLLADA file specifies its axes
_TO_Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


class MeshError(ValueError):
    """A mesh that cannot be read; the message names it and a remedy."""


def find_mesh(uri: str, folders: Folders = ()) -> Path:
    """Locate a file: package://<package>/<path>, file://<path>, or a path.

    Packages and relative paths are searched in ``folders``, and packages in the ROS prefixes.
    Raises a MeshError if the file does not exist, or if the URI is not valid or supported.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise MeshError(f"mesh '{uri}': {error}; expected package://, file:// or a path") from None
    path = unquote(parts.path)
    if parts.scheme == "package":
        places = [place / path.lstrip("/") for place in _package(parts.netloc, folders)]
        advice = (
            f"source the workspace with the package '{parts.netloc}', or add the folder "
            "that contains it to the parameter mesh_paths"
        )
    elif parts.scheme in ("file", ""):
        places = (
            [Path(path)] if path.startswith("/") else [Path(folder) / path for folder in folders]
        )
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


def read_mesh(path: Path) -> trimesh.Scene:
    """Read a mesh file (STL, OBJ, PLY, glTF, COLLADA), in meters.

    Raises an ImportError without trimesh, a MeshError if the file is too large, and the errors of
    the library of each format.
    """
    import trimesh

    if path.stat().st_size > LARGEST_MESH:
        raise MeshError(f"it exceeds {LARGEST_MESH / 1e6:.0f} MB; use a coarser mesh")
    scene = trimesh.load_scene(path)
    if path.suffix.lower() == ".dae" and scene.units:
        scene = scene.convert_units("meters")
    return scene


class Meshes(NamedTuple):
    """The meshes of a description.

    `measured` are the points of the hull of each, and its solid; None if it cannot be read. `y_up`
    are those in COLLADA files whose up axis is y; `unseen` has a line for each reason why one is
    unknown.
    """

    measured: dict[str, tuple[Array, Solid] | None]
    y_up: list[str]
    unseen: list[str]


def measure_meshes(
    uris: Sequence[str], folders: Folders = (), progress: Progress | None = None
) -> Meshes:
    """Measure meshes, each of them once."""
    names = list(dict.fromkeys(uris))
    measured: dict[str, tuple[Array, Solid] | None] = dict.fromkeys(names)
    y_up, missing, broken, library = [], [], [], ""
    for done, uri in enumerate(names):
        if progress is not None:
            progress(done, len(names), uri.rpartition("/")[2])
        try:
            path = find_mesh(uri, folders)
        except MeshError:
            missing.append(uri)
            continue
        try:
            measured[uri] = measure_mesh(path)
            if _is_y_up(path):
                y_up.append(uri)
        except ImportError as error:
            library = error.name or str(error)
        except Exception as error:  # the library of each format raises its own errors
            broken.append(f"{uri}: {error}")
    if progress is not None and names:
        progress(len(names), len(names), "")
    return Meshes(measured, sorted(y_up), _unseen(library, missing, broken))


def _unseen(library: str, missing: Sequence[str], broken: Sequence[str]) -> list[str]:
    lines = []
    if library:
        lines.append(
            f"meshes are not examined, because {library} is not installed; "
            'pip install "dyn_ros[check]"'
        )
    if missing:
        lines.append(
            f"meshes are not found ({len(missing)}), such as '{missing[0]}'; source the "
            "workspace that contains the package, or pass the folder that contains it "
            "with --mesh-path"
        )
    return lines + [
        f"a mesh cannot be read and is not examined: {' '.join(line.split())}" for line in broken
    ]


def measure_mesh(path: Path) -> tuple[Array, Solid]:
    """The corners of a mesh's hull [m], and what it encloses if it is closed, or else its hull.

    Raises what `read_mesh` does, and a MeshError if the file contains no surface.
    """
    mesh = read_mesh(path).to_mesh()
    if not len(mesh.vertices) or not np.isfinite(mesh.vertices).all():
        raise MeshError("it contains no surface, or numbers that are not finite")
    hull = Hull(mesh.vertices)
    if mesh.is_watertight and mesh.is_winding_consistent:
        inside = solid_of_triangles(mesh.triangles)
        if _FULL * hull.solid.volume < abs(inside.volume) <= 1.001 * hull.solid.volume:
            return hull.points, inside._replace(volume=abs(inside.volume))
    return hull.points, hull.solid


def turned_to_z(points: Array, solid: Solid) -> tuple[Array, Solid]:
    """A mesh whose y axis points up, with z up."""
    return points @ _TO_Z_UP.T, solid.moved(_TO_Z_UP, np.zeros(3))


def _is_y_up(path: Path) -> bool:
    """Whether the up axis of a file is y, which only COLLADA files specify."""
    if path.suffix.lower() != ".dae":
        return False
    with open(path, "rb") as file:
        return b"<up_axis>Y_UP" in file.read(_HEADER)
