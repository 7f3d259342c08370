# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How markers look: the surfaces, segments and texts that a marker describes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...check.shapes import Shape
from ...engine.kernel import algebra as al
from ...engine.kernel.types import Array
from . import geometry, marker_arrays
from .marker_arrays import PlainMarker, plain_marker
from .scene import wxyz

SOLIDS = {
    marker_arrays.CUBE: "cube",
    marker_arrays.SPHERE: "sphere",
    marker_arrays.CYLINDER: "cylinder",
    marker_arrays.CUBE_LIST: "cube",
    marker_arrays.SPHERE_LIST: "sphere",
    marker_arrays.POINTS: "cube",
}
HEAD = 0.23  # length of the head / length of the arrow, if a marker does not specify it


class MarkerError(ValueError):
    """A marker that cannot be shown; the message states the reason."""


class Glyph:
    """The appearance of a marker in its frame; `alone`: it needs its own node.

    `style` is the kind, a key of `DRAWS`, and the values that the instances of one node have in
    common. `parts` are the arrays of this instance, and values common to all. `pose`: of its own
    node, position (3,) and quaternion (4,), scalar first; the parts are then expressed in it.
    """

    def __init__(self, kind: str, *style: str | float, alone: bool = False, **parts: Any) -> None:
        self.kind = kind
        self.style: tuple[str | float, ...] = (kind, *style)
        self.alone, self.parts = alone, parts
        self.pose: tuple[Array, Array] | None = None
        self.shown = all(len(part) for part in parts.values() if isinstance(part, np.ndarray))

    def in_own_frame(self) -> Glyph:
        """Return the same with a node of its own, whose pose contains the motion."""
        if self.alone or not self.shown:
            return self
        if "ends" in self.parts:
            ends = self.parts["ends"]
            position, R = segments_frame(ends)
            parts = {"ends": (ends - position) @ R}
        elif len(self.parts["centers"]) == 1:
            position, R = self.parts["centers"][0], self.parts["axes"][0]
            parts = {"centers": np.zeros((1, 3)), "axes": np.eye(3)[None]}
        else:
            return self
        own = Glyph(self.kind, *self.style[1:], alone=True, **{**self.parts, **parts})
        own.pose = position, wxyz(R)
        return own


def segments_frame(ends: Array) -> tuple[Array, Array]:
    """Return origin (3,) and axes (3, 3) of a frame that moves with line segments (n, 2, 3).

    The origin is the first point; z is along the first segment, and x in the plane of the first two
    that are not parallel.
    """
    along = ends[:, 1] - ends[:, 0]
    z = along[0] / max(float(np.linalg.norm(along[0])), 1e-12)
    across = along - np.outer(along @ z, z)
    sizes = np.linalg.norm(across, axis=1)
    bent = np.flatnonzero(sizes > 1e-3 * np.linalg.norm(along, axis=1) + 1e-9)
    x = (
        across[bent[0]] / sizes[bent[0]]
        if len(bent)
        else geometry.perpendicular_vectors(z[None])[0][0]
    )
    return ends[0, 0], np.array([x, al.cross(z, x), z]).T


def read(marker: Any) -> Glyph:
    """Return the `Glyph` of a marker; raise a `MarkerError` if it cannot be shown."""
    if marker.type not in READERS:
        raise MarkerError(f"unknown type {marker.type}")
    if not isinstance(marker, PlainMarker):
        marker = plain_marker(marker)
    numbers, points, colors = marker.numbers, marker.points, marker.colors
    R = _rotation(*numbers[3:7].tolist())
    for what, values in (("a number", numbers), ("a point", points), ("a color", colors)):
        if not np.isfinite(values).all():
            raise MarkerError(f"{what} is not finite")
    if len(colors) not in (0, len(points)):
        raise MarkerError(f"{len(points)} points, but {len(colors)} colors")
    if not len(colors):
        colors = np.broadcast_to(numbers[10:], (max(len(points), 1), 4))
    return READERS[marker.type](_Marker(marker, numbers[:3], R, numbers[7:10], points, colors))


def _rotation(x: float, y: float, z: float, w: float) -> Array:
    """Return the rotation, (3, 3); a quaternion of zeros, as in an unset field, is the identity."""
    norm = math.hypot(x, y, z, w)
    if not math.isfinite(norm):
        raise MarkerError("its orientation is not finite")
    if norm < 1e-9:
        return np.eye(3)
    return np.reshape(al.quaternion_rotation(x, y, z, w), (3, 3))


class _Marker(NamedTuple):
    """The numbers of a marker, with colors (n, 4) of points (n, 3); one if there are no points."""

    marker: PlainMarker
    position: Array
    R: Array
    scale: Array
    points: Array
    colors: Array

    def placed(self, points: Array) -> Array:
        return points @ self.R.T + self.position


def _solid(of: _Marker) -> Glyph:
    return Glyph(
        SOLIDS[of.marker.type],
        centers=of.position[None],
        axes=of.R[None],
        widths=of.scale[None],
        colors=of.colors[:1],
    )


def _solids(of: _Marker) -> Glyph:
    n, scale = len(of.points), of.scale
    if of.marker.type == marker_arrays.POINTS:
        scale = np.array([scale[0], scale[1], min(scale[:2])])
    return Glyph(
        SOLIDS[of.marker.type],
        centers=of.placed(of.points),
        axes=np.broadcast_to(of.R, (n, 3, 3)),
        widths=np.broadcast_to(scale, (n, 3)),
        colors=of.colors[:n],
    )


def _arrow(of: _Marker) -> Glyph:
    position, scale = of.position, of.scale
    if len(of.points):
        if len(of.points) != 2:
            raise MarkerError(f"an arrow has no points or two, but got {len(of.points)}")
        ends = of.placed(of.points)
        shaft, head, length = scale
    else:
        ends = np.array([position, position + scale[0] * of.R[:, 0]])
        shaft, head, length = scale[1], 2.0 * scale[1], 0.0
    length = length or HEAD * np.linalg.norm(ends[1] - ends[0])
    return Glyph(
        "arrow",
        *(round(float(x), 4) for x in (shaft, head, length)),
        ends=ends[None],
        colors=of.colors[:1],
        shaft=shaft,
        head=head,
        length=length,
    )


def _strip(of: _Marker) -> Glyph:
    points, colors = of.points, of.colors
    return _lines(
        of, np.stack([points[:-1], points[1:]], axis=1), np.stack([colors[:-1], colors[1:]], axis=1)
    )


def _list(of: _Marker) -> Glyph:
    n = len(of.points)
    if n % 2:
        raise MarkerError(f"a line list has an even number of points, but got {n}")
    return _lines(of, of.points.reshape(-1, 2, 3), of.colors[:n].reshape(-1, 2, 4))


def _lines(of: _Marker, ends: Array, colors: Array) -> Glyph:
    width = float(of.scale[0])
    return Glyph("line", width, ends=of.placed(ends), colors=colors[: len(ends)], width=width)


def _text(of: _Marker) -> Glyph:
    return Glyph(
        "text",
        alone=True,
        text=of.marker.text,
        position=of.position,
        font_scene_height=float(of.scale[2]),
    )


def _triangles(of: _Marker) -> Glyph:
    n = len(of.points)
    if n % 3:
        raise MarkerError(f"a triangle list has 3 points per triangle, but got {n}")
    return Glyph(
        "triangles", alone=True, vertices=of.placed(of.points * of.scale), colors=of.colors[:n]
    )


def _mesh(of: _Marker) -> Glyph:
    shape = Shape(
        "mesh",
        np.eye(4),
        tuple(of.scale.tolist()),
        tuple(of.colors[0].tolist()),
        of.marker.mesh_resource,
    )
    return Glyph("mesh", alone=True, shape=shape, wxyz=wxyz(of.R), position=of.position)


READERS = {
    marker_arrays.ARROW: _arrow,
    marker_arrays.CUBE: _solid,
    marker_arrays.SPHERE: _solid,
    marker_arrays.CYLINDER: _solid,
    marker_arrays.LINE_STRIP: _strip,
    marker_arrays.LINE_LIST: _list,
    marker_arrays.CUBE_LIST: _solids,
    marker_arrays.SPHERE_LIST: _solids,
    marker_arrays.POINTS: _solids,
    marker_arrays.TEXT_VIEW_FACING: _text,
    marker_arrays.MESH_RESOURCE: _mesh,
    marker_arrays.TRIANGLE_LIST: _triangles,
}
