# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mesh files that a robot's description refers to."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import trimesh

LARGEST_MESH = 100_000_000
"""Larger files are not read [bytes]: a browser would take minutes to load them."""

Folders: TypeAlias = Sequence[str | os.PathLike[str]]
"""Folders to search for meshes."""


class MeshError(ValueError):
    """A mesh that cannot be read; the message names it and a remedy."""


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
        The file does not exist, or the URI is not valid or has a scheme that is not supported.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise MeshError(f"mesh '{uri}': {error}; expected package://, file:// or a path") from None
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


def read_mesh(path: Path) -> trimesh.Scene:
    """Read a mesh file, in meters.

    Parameters
    ----------
    path : pathlib.Path
        STL, OBJ, PLY, glTF or COLLADA.

    Returns
    -------
    trimesh.Scene

    Raises
    ------
    ImportError
        trimesh is not installed.
    MeshError
        The file is too large. The library of each format raises its own errors if it cannot be
        read.
    """
    import trimesh

    if path.stat().st_size > LARGEST_MESH:
        raise MeshError(f"it exceeds {LARGEST_MESH / 1e6:.0f} MB; use a coarser mesh")
    scene = trimesh.load_scene(path)
    if path.suffix.lower() == ".dae" and scene.units:
        scene = scene.convert_units("meters")
    return scene
