# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Glyphs: the surfaces, segments and texts that a marker of visualization_msgs describes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...check.shapes import Shape
from ...engine.kernel import algebra as al
from ...engine.kernel.types import Array
from . import geometry, marker_arrays
from .marker_arrays import PlainMarker, plain_marker
from .scene import to_wxyz

SOLIDS = {
    marker_arrays.CUBE: "cube",
    marker_arrays.SPHERE: "sphere",
    marker_arrays.CYLINDER: "cylinder",
    marker_arrays.CUBE_LIST: "cube",
    marker_arrays.SPHERE_LIST: "sphere",
    marker_arrays.POINTS: "cube",
}
HEAD_RATIO = 0.23  # length of head / arrow, unless a marker specifies the head


class MarkerError(ValueError):
    """A marker that cannot be shown; the message states the reason."""


class Glyph:
    """The picture of a marker: primitives such as boxes, segments or a text.

    `kind` is a key of `marker_drawing.BUILDERS`. `style` is the kind and the values that glyphs
    must have in common to be instances of one scene node; a glyph that `needs_node` is never one
    of several instances. `values` are arrays with a row for each primitive, and values common to
    all primitives, by the names that the builder expects. `pose` is the pose of the glyph's own
    node, position (3,) and quaternion (4,), scalar first, in which `values` are expressed; None if
    they are expressed in the marker's frame. An empty glyph has no primitives.
    """

    def __init__(
        self, kind: str, *style: str | float, needs_node: bool = False, **values: Any
    ) -> None:
        self.kind = kind
        self.style: tuple[str | float, ...] = (kind, *style)
        self.needs_node, self.values = needs_node, values
        self.pose: tuple[Array, Array] | None = None
        self.is_empty = not all(
            len(value) for value in values.values() if isinstance(value, np.ndarray)
        )

    def with_pose(self) -> Glyph:
        """Return this glyph with a node of its own, whose pose contains the marker's motion.

        A glyph without a frame that moves with it is returned as it is.
        """
        if self.needs_node or self.is_empty:
            return self
        if "ends" in self.values:
            ends = self.values["ends"]
            position, R = segments_frame(ends)
            local_values = {"ends": (ends - position) @ R}
        elif len(self.values["centers"]) == 1:
            position, R = self.values["centers"][0], self.values["axes"][0]
            local_values = {"centers": np.zeros((1, 3)), "axes": np.eye(3)[None]}
        else:
            return self
        values = {**self.values, **local_values}
        glyph = Glyph(self.kind, *self.style[1:], needs_node=True, **values)
        glyph.pose = position, to_wxyz(R)
        return glyph


def segments_frame(ends: Array) -> tuple[Array, Array]:
    """Return origin (3,) and axes (3, 3) of a frame that moves with line segments (n, 2, 3).

    The origin is the first point; z is along the first segment, and x in the plane of the first two
    that are not parallel.
    """
    vectors = ends[:, 1] - ends[:, 0]
    z = vectors[0] / max(float(np.linalg.norm(vectors[0])), 1e-12)
    normals = vectors - np.outer(vectors @ z, z)
    norms = np.linalg.norm(normals, axis=1)
    nonparallel = np.flatnonzero(norms > 1e-3 * np.linalg.norm(vectors, axis=1) + 1e-9)
    if len(nonparallel):
        i = nonparallel[0]
        x = normals[i] / norms[i]
    else:
        x = geometry.perpendicular_vectors(z[None])[0][0]
    return ends[0, 0], np.array([x, al.cross(z, x), z]).T


def read_glyph(marker: Any) -> Glyph:
    """Return the `Glyph` of a marker; raise a `MarkerError` if it cannot be shown."""
    if marker.type not in READERS:
        raise MarkerError(f"unknown type {marker.type}")
    if not isinstance(marker, PlainMarker):
        marker = plain_marker(marker)
    numbers, points, colors = marker.numbers, marker.points, marker.colors
    R = _marker_rotation(*numbers[3:7].tolist())
    for name, values in (("a number", numbers), ("a point", points), ("a color", colors)):
        if not np.isfinite(values).all():
            raise MarkerError(f"{name} is not finite")
    if len(colors) not in (0, len(points)):
        raise MarkerError(f"{len(points)} points, but {len(colors)} colors")
    if not len(colors):
        colors = np.broadcast_to(numbers[10:], (max(len(points), 1), 4))
    return READERS[marker.type](
        _ParsedMarker(marker, numbers[:3], R, numbers[7:10], points, colors)
    )


def _marker_rotation(x: float, y: float, z: float, w: float) -> Array:
    """Return the rotation, (3, 3); a quaternion of zeros, as in an unset field, is the identity."""
    norm = math.hypot(x, y, z, w)
    if not math.isfinite(norm):
        raise MarkerError("its orientation is not finite")
    if norm < 1e-9:
        return np.eye(3)
    return np.reshape(al.quaternion_rotation(x, y, z, w), (3, 3))


class _ParsedMarker(NamedTuple):
    """A marker whose numbers have been checked."""

    source: PlainMarker
    position: Array  # (3,), m
    R: Array  # (3, 3)
    scale: Array  # (3,)
    points: Array  # (n, 3), m
    colors: Array  # (max(n, 1), 4)

    def transform_to_frame(self, points: Array) -> Array:
        """Transform points (n, 3) from the marker's pose to its frame."""
        return points @ self.R.T + self.position


def _read_solid(marker: _ParsedMarker) -> Glyph:
    return Glyph(
        SOLIDS[marker.source.type],
        centers=marker.position[None],
        axes=marker.R[None],
        widths=marker.scale[None],
        colors=marker.colors[:1],
    )


def _read_solid_list(marker: _ParsedMarker) -> Glyph:
    n, scale = len(marker.points), marker.scale
    if marker.source.type == marker_arrays.POINTS:
        scale = np.array([scale[0], scale[1], min(scale[:2])])
    return Glyph(
        SOLIDS[marker.source.type],
        centers=marker.transform_to_frame(marker.points),
        axes=np.broadcast_to(marker.R, (n, 3, 3)),
        widths=np.broadcast_to(scale, (n, 3)),
        colors=marker.colors[:n],
    )


def _read_arrow(marker: _ParsedMarker) -> Glyph:
    position, scale = marker.position, marker.scale
    if len(marker.points):
        if len(marker.points) != 2:
            raise MarkerError(f"an arrow has no points or two, but got {len(marker.points)}")
        ends = marker.transform_to_frame(marker.points)
        shaft_width, head_width, head_length = scale
    else:
        ends = np.array([position, position + scale[0] * marker.R[:, 0]])
        shaft_width, head_width, head_length = scale[1], 2.0 * scale[1], 0.0
    head_length = head_length or HEAD_RATIO * np.linalg.norm(ends[1] - ends[0])
    return Glyph(
        "arrow",
        *(round(float(x), 4) for x in (shaft_width, head_width, head_length)),
        ends=ends[None],
        colors=marker.colors[:1],
        shaft_width=shaft_width,
        head_width=head_width,
        head_length=head_length,
    )


def _read_line_strip(marker: _ParsedMarker) -> Glyph:
    points, colors = marker.points, marker.colors
    return _line_glyph(
        marker,
        np.stack([points[:-1], points[1:]], axis=1),
        np.stack([colors[:-1], colors[1:]], axis=1),
    )


def _read_line_list(marker: _ParsedMarker) -> Glyph:
    n = len(marker.points)
    if n % 2:
        raise MarkerError(f"a line list has an even number of points, but got {n}")
    return _line_glyph(marker, marker.points.reshape(-1, 2, 3), marker.colors[:n].reshape(-1, 2, 4))


def _line_glyph(marker: _ParsedMarker, ends: Array, colors: Array) -> Glyph:
    width = float(marker.scale[0])
    return Glyph(
        "line", width, ends=marker.transform_to_frame(ends), colors=colors[: len(ends)], width=width
    )


def _read_text(marker: _ParsedMarker) -> Glyph:
    return Glyph(
        "text",
        needs_node=True,
        text=marker.source.text,
        position=marker.position,
        font_scene_height=float(marker.scale[2]),
    )


def _read_triangles(marker: _ParsedMarker) -> Glyph:
    n = len(marker.points)
    if n % 3:
        raise MarkerError(f"a triangle list has 3 points per triangle, but got {n}")
    return Glyph(
        "triangles",
        needs_node=True,
        vertices=marker.transform_to_frame(marker.points * marker.scale),
        colors=marker.colors[:n],
    )


def _read_mesh(marker: _ParsedMarker) -> Glyph:
    shape = Shape(
        "mesh",
        np.eye(4),
        tuple(marker.scale.tolist()),
        tuple(marker.colors[0].tolist()),
        marker.source.mesh_resource,
    )
    return Glyph(
        "mesh", needs_node=True, shape=shape, wxyz=to_wxyz(marker.R), position=marker.position
    )


READERS = {
    marker_arrays.ARROW: _read_arrow,
    marker_arrays.CUBE: _read_solid,
    marker_arrays.SPHERE: _read_solid,
    marker_arrays.CYLINDER: _read_solid,
    marker_arrays.LINE_STRIP: _read_line_strip,
    marker_arrays.LINE_LIST: _read_line_list,
    marker_arrays.CUBE_LIST: _read_solid_list,
    marker_arrays.SPHERE_LIST: _read_solid_list,
    marker_arrays.POINTS: _read_solid_list,
    marker_arrays.TEXT_VIEW_FACING: _read_text,
    marker_arrays.MESH_RESOURCE: _read_mesh,
    marker_arrays.TRIANGLE_LIST: _read_triangles,
}
