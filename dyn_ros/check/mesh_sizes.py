# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Limits of mesh files, examined before trimesh reads them.

Small glTF and COLLADA files can refer to one surface many times. Their sizes are computed as if
each reference were a copy.
"""

from __future__ import annotations

import math
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..files.json_text import load_json
from ..files.reading import open_regular_file

MAX_MESH_SIZE = 60_000_000
"""Size of the largest files that are read [bytes]; STL of this size takes 0.9 GB and 7 s."""

MAX_TEXT_SIZE = 20_000_000
"""Size of the largest OBJ, OFF and glTF texts and PLY files [bytes].

The largest one of example-robot-data has 5 MB.
"""

MAX_NUMBER_COUNT = 4_000_000
"""Largest number of numbers in OBJ, OFF, PLY and COLLADA files.

Each may be the corner of a polygon, and take 200 bytes. The largest file of example-robot-data has
3.7 million.
"""

MAX_TRIANGLE_COUNT = 1_500_000
"""Largest number of triangles; `measure_mesh` takes 0.8 GB for as many."""

MAX_EXPANDED_SIZE = 150_000_000
"""Size of glTF and COLLADA files with a copy for each reference to a surface [bytes].

COLLADA files without references have three times their own size. The largest one of
example-robot-data, 29 MB, has 86 MB and takes 0.4 GB.
"""

INSTANCE_SIZE = 30_000
"""Size that each instance of a surface counts [bytes]; 5000 of them take 8 s."""

CORNER_SIZE = 48
"""Size that each corner of a glTF triangle counts [bytes]; 3 million take 0.6 GB and 8 s."""

_TEXT_SUFFIXES = (".obj", ".off", ".ply", ".gltf")
_PLY_LIST = re.compile(rb"^property\s+list\s+\w+\s+(\w+)", re.MULTILINE)
_PLY_HEADER_SIZE = 100_000  # bytes; lists are declared in these
_PLY_SIZES = {b"char": 1, b"uchar": 1, b"short": 2, b"ushort": 2}
_PLY_SIZES |= {b"int8": 1, b"uint8": 1, b"int16": 2, b"uint16": 2}  # bytes, by type; others: 4
_GLB_HEADER_SIZE = 20  # bytes; the last 8 are the length and the type of the JSON that follows
_COMPONENT_SIZES = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}  # bytes, by type in glTF
_COMPONENTS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


class MeshError(ValueError):
    """Error of a mesh that cannot be read; the message names it and a remedy."""


def require_regular(path: str | os.PathLike[str], limit: int = MAX_MESH_SIZE) -> None:
    """Raise an OSError unless a file is regular, and a MeshError if it is too large."""
    with open_regular_file(path) as file:
        _require_size(os.fstat(file.fileno()).st_size, limit)


def require_readable(path: Path) -> None:
    """Raise an OSError unless a mesh is a regular file, and a MeshError if it is too large.

    Instances of a surface count as copies. Raise a ValueError or a KeyError if glTF or COLLADA is
    not valid.
    """
    suffix = path.suffix.lower()
    require_regular(path, MAX_TEXT_SIZE if suffix in _TEXT_SUFFIXES else MAX_MESH_SIZE)
    if suffix in (".obj", ".off", ".ply", ".dae"):
        _require_few_numbers(path)
    if suffix in (".gltf", ".glb"):
        size = _gltf_size(_gltf_header(path))
    elif suffix == ".dae":
        size = _collada_size(path)
    else:
        return
    if size > MAX_EXPANDED_SIZE:
        raise MeshError(
            f"its surfaces and instances would take {size:.3g} bytes, more than the limit of "
            f"{MAX_EXPANDED_SIZE:,}; use a coarser mesh with fewer instances"
        )


def require_few_triangles(count: int) -> None:
    """Raise a MeshError if a mesh has too many triangles."""
    if count > MAX_TRIANGLE_COUNT:
        raise MeshError(
            f"it has {count:,} triangles, more than the limit of {MAX_TRIANGLE_COUNT:,}; use a "
            "coarser mesh"
        )


def _require_few_numbers(path: Path) -> None:
    """Raise a MeshError if a file may contain too many numbers."""
    with open_regular_file(path) as file:
        content = file.read()
    index_types = _PLY_LIST.findall(content[:_PLY_HEADER_SIZE])
    if path.suffix.lower() == ".ply" and b"format ascii" not in content[:_PLY_HEADER_SIZE]:
        count = len(content) // min((_PLY_SIZES.get(kind, 4) for kind in index_types), default=4)
    else:
        is_printed = np.frombuffer(content, np.uint8) > ord(" ")
        count = np.count_nonzero(is_printed[1:] > is_printed[:-1]) + is_printed[:1].sum()
    if count > MAX_NUMBER_COUNT:
        raise MeshError(
            f"it may contain {count:,} numbers, more than the limit of {MAX_NUMBER_COUNT:,}; use a "
            "coarser mesh"
        )


def _require_size(size: int, limit: int) -> None:
    """Raise a MeshError if a file is too large."""
    if size > limit:
        raise MeshError(f"it exceeds {limit / 1e6:.0f} MB; use a coarser mesh")


def _gltf_header(path: Path) -> Any:
    """Return the JSON of a glTF or GLB file."""
    with open_regular_file(path) as file:
        if path.suffix.lower() == ".gltf":
            return load_json(file.read())
        length = int.from_bytes(file.read(_GLB_HEADER_SIZE)[12:16], "little")
        _require_size(length, MAX_TEXT_SIZE)
        return load_json(file.read(length))


def _gltf_size(header: Mapping[str, Any]) -> float:
    """Return the size of all numbers and surfaces of a glTF file [bytes]."""
    accessors = header.get("accessors", ())
    size = sum(
        abs(accessor["count"])
        * _COMPONENT_SIZES[accessor["componentType"]]
        * _COMPONENTS[accessor["type"]]
        for accessor in accessors
    )
    surfaces = [
        sum(
            INSTANCE_SIZE + CORNER_SIZE * _corner_count(primitive, accessors)
            for primitive in mesh["primitives"]
        )
        for mesh in header.get("meshes", ())
    ]
    nodes = header.get("nodes", ())
    instances = [0] * len(nodes)
    for parent in (*header.get("scenes", ()), *nodes):
        for child in parent.get("nodes", ()) or parent.get("children", ()):
            instances[child] += 1
    return (
        size
        + sum(surfaces)
        + sum(
            count * (INSTANCE_SIZE + (surfaces[node["mesh"]] if "mesh" in node else 0))
            for node, count in zip(nodes, instances, strict=True)
        )
    )


def _corner_count(primitive: Mapping[str, Any], accessors: Any) -> int:
    """Return the number of corners and points of a surface in a glTF file."""
    used_accessors = primitive.get("indices"), primitive["attributes"].get("POSITION")
    return sum(abs(accessors[k]["count"]) for k in used_accessors if k is not None)


def _collada_size(path: Path) -> float:
    """Return the size of a COLLADA file if each instance were a copy [bytes]."""
    with open_regular_file(path) as file:
        try:
            root = ElementTree.parse(file).getroot()
        except ElementTree.ParseError as error:
            raise MeshError(f"not well-formed XML: {error}") from None
    elements = {element.get("id"): element for element in root.iter() if element.get("id")}
    sizes: dict[str, float] = {}

    def size_of(element: ElementTree.Element) -> float:
        """Return the size of an element; infinite if it contains an instance of itself."""
        size = float(len(element.text or ""))
        for child in element:
            size += size_of(child)
        if element.tag.rpartition("}")[2].startswith("instance_"):
            target = element.get("url", "").removeprefix("#")
            size += INSTANCE_SIZE
            if target in elements and target not in sizes:
                sizes[target] = math.inf
                sizes[target] = size_of(elements[target])
            size += sizes.get(target, 0.0)
        return size

    try:
        return size_of(root)
    except RecursionError:
        raise MeshError("it has too many elements inside each other") from None
