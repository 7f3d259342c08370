# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Meshes of a robot with their images, for a page that is published.

Only files that are meshes, material libraries or images by their content are read: a description
can name any file of the user who exports it.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np

from ...check.mesh_sizes import (
    MAX_MESH_SIZE,
    MAX_TEXT_SIZE,
    MeshError,
    require_few_triangles,
    require_readable,
    require_regular,
)
from ...check.meshes import find_mesh
from ...engine.kernel.names import shorten
from ...engine.model.urdf.text import local_name
from ...files.reading import read_regular_file

MAX_IMAGE_SIZE = 30_000_000
"""Size of the largest images that the page reads [bytes]."""

MAX_LIBRARY_SIZE = 1_000_000
"""Size of the largest material libraries that the page reads [bytes]."""

_LIBRARY_SUFFIXES = (".mtl",)
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
# Images that the page reads. A header of BMP begins with its size, one of a few.
_IMAGE_START = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|RIFF.{4}WEBP"
    rb"|BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0",
    re.DOTALL,
)
# Files that meshes and material libraries refer to, by suffix.
_REFERENCES = {
    ".dae": re.compile(r"<init_from>(?:<ref>)?([^<]*)<"),
    ".obj": re.compile(r"^mtllib[ \t](.*)$", re.MULTILINE),
    ".mtl": re.compile(r"^[ \t]*map_Kd[ \t](.*)$", re.MULTILINE),
}
_MATERIAL = re.compile(rb"^[ \t]*newmtl[ \t]", re.MULTILINE)
_NUMBERS = rb"(?:[ \t]+[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?){3}"
_STL_VERTEX = re.compile(rb"^[ \t]*vertex" + _NUMBERS + rb"[ \t\r]*$", re.MULTILINE)
_OBJ_POINT = re.compile(rb"^[ \t]*v" + _NUMBERS, re.MULTILINE)
_OBJ_FACE = re.compile(rb"^[ \t]*f(?:[ \t]+-?\d+[\d/-]*){3}", re.MULTILINE)


class RobotMeshes(NamedTuple):
    """Files of a robot by their paths in the page.

    ``mesh_count`` is the number of meshes; ``omitted`` has a line for each file that is missing or
    left out.
    """

    files: dict[str, bytes]
    mesh_count: int
    omitted: list[str]


def collect_meshes(uris: Sequence[str], description: Path) -> RobotMeshes:
    """Return the meshes with these URIs, and the images that they refer to."""
    files: dict[str, bytes] = {}
    omitted = []
    count = 0
    for uri in uris:
        key = posixpath.normpath(re.sub(r"^\w+://", "", unquote(uri)))
        try:
            mesh = find_mesh(uri, [description.parent, *description.resolve().parents])
        except MeshError as error:
            omitted.append(str(error))
            continue
        try:
            files[key] = _read_mesh(mesh)
        except (LookupError, OSError, ValueError) as error:
            omitted.append(f"mesh '{shorten(uri)}' is left out: {_reason(error)}")
            continue
        count += 1
        lines = _add_references(files, key, mesh, _package_folder(mesh, description))
        omitted += [f"mesh '{shorten(uri)}': {line}" for line in lines]
    return RobotMeshes(files, count, [_printable(line) for line in omitted])


def _printable(text: str) -> str:
    """Return a text without line breaks and control characters, which a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, without its path."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _package_folder(mesh: Path, description: Path) -> Path:
    """Return the folder where the images of a mesh may be.

    It is the package of the mesh, or else the folder of the description if the mesh is below it, or
    else the folder above the mesh's own.
    """
    folders = mesh.resolve().parents
    packages = [folder for folder in folders if (folder / "package.xml").is_file()]
    beside = [folder for folder in folders if folder == description.resolve().parent]
    return next(iter((*packages, *beside, *folders[1:2], *folders)))


def _add_references(files: dict[str, bytes], key: str, path: Path, package: Path) -> list[str]:
    """Add the images and material libraries of a mesh; return a line for each one left out."""
    suffix = path.suffix.lower()
    pattern = _REFERENCES.get(suffix)
    if pattern is None:
        return []
    omitted = []
    for text in dict.fromkeys(pattern.findall(files[key].decode("utf-8", "replace"))):
        reference = _reference_path(suffix, text)
        referenced_path = path.parent / reference
        referenced_key = posixpath.normpath(posixpath.join(posixpath.dirname(key), reference))
        kinds = _LIBRARY_SUFFIXES if suffix == ".obj" else _IMAGE_SUFFIXES
        if referenced_key in files or not reference:
            continue
        if not os.path.isfile(referenced_path):
            if (
                referenced_path.suffix.lower() in kinds
            ):  # otherwise, it may be the name of an element
                omitted.append(f"'{shorten(reference)}' not found")
            continue
        try:
            files[referenced_key] = _read_reference(referenced_path, kinds, package)
        except (OSError, ValueError) as error:
            omitted.append(f"'{shorten(reference)}' is left out: {_reason(error)}")
            continue
        if suffix == ".obj":
            omitted += _add_references(files, referenced_key, referenced_path, package)
    return omitted


def _reference_path(suffix: str, text: str) -> str:
    """Return the path in a reference of a mesh or a material library."""
    if suffix == ".mtl":  # options come before the path
        return unquote((text.split() or [""])[-1])
    path = html.unescape(text) if suffix == ".dae" else text
    return unquote(path.strip().removeprefix("file://"))


def _read_reference(path: Path, suffixes: Collection[str], package: Path) -> bytes:
    """Return the content of an image or a material library of a package.

    Raise a MeshError if it is neither, or elsewhere.
    """
    if path.suffix.lower() not in suffixes:
        raise MeshError(f"the page only reads {', '.join(suffixes)}; convert it")
    if not path.resolve().is_relative_to(package):
        raise MeshError(f"it is outside of {package}; copy it there")
    is_library = path.suffix.lower() in _LIBRARY_SUFFIXES
    content = read_regular_file(path, MAX_LIBRARY_SIZE if is_library else MAX_IMAGE_SIZE)
    if is_library and (b"\0" in content or not _MATERIAL.search(content)):
        raise MeshError("it contains no materials; export it again")
    if not is_library and not _IMAGE_START.match(content):
        raise MeshError("it is not an image; export it again")
    return content


def _read_mesh(path: Path) -> bytes:
    """Return the content of a mesh that the page can show.

    Raise a MeshError if it is too large or something else, or an error of `require_readable`.
    """
    suffix = path.suffix.lower()
    if suffix not in _MESH_CHECKS:
        raise MeshError("the page reads STL, OBJ and COLLADA (.dae); convert it")
    require_regular(path, MAX_MESH_SIZE if suffix == ".stl" else MAX_TEXT_SIZE)
    require_readable(path)
    content = read_regular_file(path, MAX_MESH_SIZE)
    _MESH_CHECKS[suffix](content)
    return content


def _require_stl(content: bytes) -> None:
    """Raise a MeshError unless a content is STL with triangles that are finite."""
    count = int.from_bytes(content[80:84], "little")
    size = 84 + 50 * count
    start = content[:1000].lstrip()
    if start.startswith(b"solid") and b"\n" in start and len(content) != size:
        if not _STL_VERTEX.search(content):
            raise MeshError("it is not an STL file; export it again")
        require_few_triangles(content.count(b"vertex") // 3)
        return
    if not 84 < size <= len(content):
        raise MeshError("it is not an STL file; export it again")
    require_few_triangles(count)
    triangles = np.frombuffer(content, [("numbers", "<f4", 12), ("color", "<u2")], count, 84)
    if not np.isfinite(triangles["numbers"][:, 3:]).all():
        raise MeshError("it has numbers that are not finite; export it again")


def _require_obj(content: bytes) -> None:
    """Raise a MeshError unless a content is OBJ with points and faces."""
    if b"\0" in content or not (_OBJ_POINT.search(content) and _OBJ_FACE.search(content)):
        raise MeshError("it is not an OBJ file with faces; export it again")


def _require_collada(content: bytes) -> None:
    """Raise a MeshError unless a content is COLLADA with a geometry."""
    root = ElementTree.fromstring(content)
    if local_name(root) != "COLLADA" or "geometry" not in map(local_name, root.iter()):
        raise MeshError("it is not COLLADA with a geometry; export it again")


_MESH_CHECKS: Mapping[str, Callable[[bytes], None]] = {
    ".stl": _require_stl,
    ".obj": _require_obj,
    ".dae": _require_collada,
}
