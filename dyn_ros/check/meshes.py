# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Mesh files that a robot's description refers to, which trimesh reads, and their solids."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np

from ..engine.kernel.names import shorten
from ..engine.kernel.types import Array
from ..files.reading import open_regular_file
from .hulls import Hull, Solid, solid_of_triangles
from .mesh_sizes import MeshError, require_few_triangles, require_readable, require_regular

if TYPE_CHECKING:
    import trimesh

MESH_SUFFIXES = (".stl", ".obj", ".ply", ".off", ".gltf", ".glb", ".dae")
"""Formats that are read; an archive, which trimesh would unpack, may hold more than the memory."""

Folders: TypeAlias = Sequence[str | os.PathLike[str]]
"""Folders to search for meshes."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Callback with the number of meshes that have been read, of all meshes, and the next file."""

_MIN_SOLID_FRACTION = 0.05  # volume relative to the hull; a closed mesh with less is no solid
_COLLADA_HEADER_SIZE = 100_000  # bytes; the up axis is specified in these
_TO_Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def find_mesh(uri: str, folders: Folders = ()) -> Path:
    """Locate a file: package://<package>/<path>, file://<path>, or a path.

    Packages and relative paths are searched in ``folders``, and packages in the ROS prefixes.
    Raise a MeshError if the file does not exist, or if the URI is not valid or supported.
    """
    mesh = f"mesh '{shorten(uri)}'"
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise MeshError(f"{mesh}: {error}; expected package://, file:// or a path") from None
    path = unquote(parts.path)
    if parts.scheme == "package":
        candidates = [
            folder / path.lstrip("/") for folder in _package_folders(parts.netloc, folders)
        ]
        advice = (
            f"source the workspace with the package '{shorten(parts.netloc)}', or name the folder "
            "that contains it in mesh_paths="
        )
    elif parts.scheme == "file" and parts.netloc not in ("", "localhost"):
        relative_path = shorten(parts.netloc + path)
        raise MeshError(
            f"{mesh}: expected an absolute path after file://; for a relative one, write "
            f"'{relative_path}' alone, or package://PACKAGE/{relative_path}"
        )
    elif parts.scheme in ("file", ""):
        candidates = (
            [Path(path)] if path.startswith("/") else [Path(folder) / path for folder in folders]
        )
        advice = "check the path"
        if not path.startswith("/"):
            advice = (
                "name the folder that it is relative to in mesh_paths=, or write "
                f"package://PACKAGE/{shorten(path)}"
            )
    else:
        raise MeshError(f"{mesh}: expected package://, file:// or a path")
    for candidate in candidates:
        if os.path.isfile(candidate):
            return candidate
    if existing := list(filter(os.path.exists, candidates)):
        raise MeshError(f"{mesh} is not a regular file, see {existing[0]}; name another one")
    raise MeshError(f"{mesh} not found; {advice}")


def _package_folders(name: str, folders: Folders) -> Iterator[Path]:
    """Yield the folders where a package may be."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    sources = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
    yield from (Path(prefix) / "share" / name for prefix in (*prefixes, sys.prefix) if prefix)
    yield from (Path(folder) / name for folder in (*sources, *folders) if folder)


def read_mesh(path: Path) -> trimesh.Scene:
    """Read a mesh file in one of `MESH_SUFFIXES`, in meters.

    Raise an ImportError without trimesh, a MeshError if the file has another format or is too
    large, or an error of the library for the format.
    """
    import trimesh

    if path.suffix.lower() not in MESH_SUFFIXES:
        raise MeshError(
            f"meshes of type '{shorten(path.suffix)}' are not read; convert it to one of "
            f"{', '.join(MESH_SUFFIXES)}"
        )

    class RegularFiles(trimesh.resolvers.FilePathResolver):
        """Files that a mesh refers to, such as textures."""

        def get(self, name: str) -> bytes:
            for candidate in (name.strip(), os.path.basename(name.strip())):
                file = os.path.join(self.parent, candidate.lstrip("/"))
                if os.path.exists(file):
                    require_regular(file)
            return super().get(name)

    require_readable(path)
    scene = trimesh.load_scene(path, resolver=RegularFiles(str(path)))
    require_few_triangles(
        sum(len(getattr(surface, "faces", ())) for surface in scene.geometry.values())
    )
    if path.suffix.lower() == ".dae" and scene.units:
        scene = scene.convert_units("meters")
    return scene


class Meshes(NamedTuple):
    """Meshes of a description.

    `measured` has the points of the hull and the solid of each URI; None if it cannot be read.
    `y_up` are the URIs of COLLADA files whose up axis is y. `unseen` has a line for each reason why
    meshes could not be measured.
    """

    measured: dict[str, tuple[Array, Solid] | None]
    y_up: list[str]
    unseen: list[str]


def measure_meshes(
    uris: Sequence[str], folders: Folders = (), progress: Progress | None = None
) -> Meshes:
    """Measure the hulls and solids of meshes; each file is read once.

    Files that are missing or cannot be read raise no error; `unseen` says so.
    """
    uris = list(dict.fromkeys(uris))
    measured: dict[str, tuple[Array, Solid] | None] = dict.fromkeys(uris)
    missing: dict[str, str] = {}
    y_up, failures, missing_library = [], [], ""
    for n, uri in enumerate(uris):
        if progress is not None:
            progress(n, len(uris), shorten(uri.rpartition("/")[2]))
        try:
            path = find_mesh(uri, folders)
        except MeshError as error:
            missing[uri] = str(error)
            continue
        try:
            measured[uri] = measure_mesh(path)
            if _is_y_up(path):
                y_up.append(uri)
        except ImportError as error:
            missing_library = error.name or str(error)
        except Exception as error:
            # The libraries of the formats raise errors of many types.
            failures.append(f"{shorten(uri)}: {error}")
    if progress is not None and uris:
        progress(len(uris), len(uris), "")
    return Meshes(measured, sorted(y_up), _unseen_lines(missing_library, missing, failures))


def _unseen_lines(
    missing_library: str, missing: Mapping[str, str], failures: Sequence[str]
) -> list[str]:
    """Return lines for a library that is not installed, URIs without a file, and failures.

    ``missing`` has the error of each URI.
    """
    lines = []
    if missing_library:
        lines.append(
            f"meshes are not examined, because {missing_library} is not installed; "
            'pip install "dyn_ros[check]"'
        )
    packages = [uri for uri in missing if uri.startswith("package://")]
    relative = [uri for uri in missing if "://" not in uri and not uri.startswith("/")]
    other_uris = [uri for uri in missing if uri not in (*packages, *relative)]
    for uris, remedy in (
        (
            packages,
            "source the workspace that contains the package, or name the folder that contains it "
            "in mesh_paths=",
        ),
        (
            relative,
            "name the folder that they are relative to in mesh_paths=, or write "
            "package://PACKAGE/... in the description",
        ),
    ):
        if uris:
            lines.append(
                f"meshes are not found ({len(uris)}), such as '{shorten(uris[0])}'; {remedy}"
            )
    if other_uris:
        lines.append(f"meshes are not found ({len(other_uris)}): {missing[other_uris[0]]}")
    return lines + [
        f"a mesh cannot be read and is not examined: {' '.join(failure.split())}"
        for failure in failures
    ]


def measure_mesh(path: Path) -> tuple[Array, Solid]:
    """Return the corners of a mesh's hull [m] and its solid; of its hull unless it is closed.

    Raise the errors of `read_mesh`, or a MeshError if the file contains no surface.
    """
    mesh = read_mesh(path).to_mesh()
    if not len(mesh.vertices) or not np.isfinite(mesh.vertices).all():
        raise MeshError("it contains no surface, or numbers that are not finite")
    hull = Hull(mesh.vertices)
    if mesh.is_watertight and mesh.is_winding_consistent:
        solid = solid_of_triangles(mesh.triangles)
        if _MIN_SOLID_FRACTION * hull.solid.volume < abs(solid.volume) <= 1.001 * hull.solid.volume:
            return hull.points, solid._replace(volume=abs(solid.volume))
    return hull.points, hull.solid


def turn_to_z_up(points: Array, solid: Solid) -> tuple[Array, Solid]:
    """Return the points and the solid of a mesh whose up axis is y, turned to z up."""
    return points @ _TO_Z_UP.T, solid.transformed_by(_TO_Z_UP, np.zeros(3))


def _is_y_up(path: Path) -> bool:
    """Return True if the up axis of a file is y, which only COLLADA files specify."""
    if path.suffix.lower() != ".dae":
        return False
    with open_regular_file(path) as file:
        return b"<up_axis>Y_UP" in file.read(_COLLADA_HEADER_SIZE)
