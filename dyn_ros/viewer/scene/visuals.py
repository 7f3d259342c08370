# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The appearance of a robot: the shapes of its description, and meshes for a browser."""
from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...check.meshes import LARGEST_MESH, Folders, MeshError, find_mesh, read_mesh
from ...check.shapes import Color, Shape, read_shapes

if TYPE_CHECKING:
    import trimesh

__all__ = ["LARGEST_MESH", "Color", "Folders", "MeshError", "Shape", "find_mesh", "load_mesh",
           "read_shapes"]


@lru_cache(maxsize=256)
def load_mesh(path: Path, color: Color | None = None) -> bytes:
    """Convert a mesh file (STL, OBJ, PLY, glTF, COLLADA) to glTF, in meters.

    The color is that of the whole mesh if the file has none. A `MeshError` if it cannot be read.
    """
    try:
        scene = read_mesh(path)
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
