# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized MarkerArrays as arrays of numbers, without rclpy's conversion of each point."""
from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from visualization_msgs.msg import MarkerArray

from ..cdr.definition import DTYPES, definition_of
from ..cdr.layout import PLAIN
from ..cdr.reader import Layout, Reader
from ..engine.kernel.types import Array
from ..viewer.scene.plain_markers import PlainMarker
from .messages.serialized import deserialized

_VARYING = frozenset(("header.stamp", "id", "action", "pose", "scale", "color", "points", "colors"))
_INTEGERS, _FLOATS, _DOUBLES = (DTYPES[name] for name in ("int32", "float32", "float64"))


def marker_array_reader() -> Reader[Any]:
    """Reads serialized visualization_msgs/MarkerArray of one topic.

    Its results have the attribute `markers`; a ValueError if the bytes are not a MarkerArray.
    """
    return Reader(lambda data: deserialized(data, MarkerArray),
                  lambda data, array: _Layout(data, array.markers))


class _Layout(Layout[Any]):
    """Of messages whose markers differ in stamps, ids, actions and numbers only."""

    def __init__(self, data: bytes, markers: list[Any]) -> None:
        super().__init__(definition_of(MarkerArray), data, _VARYING)
        self._markers = markers
        prefixes = [f"markers.{i}." for i in range(len(markers))]
        stamps, ids, actions, poses, colors = (
            np.array([self.items[prefix + name].start for prefix in prefixes], np.intp)
            for name in ("header.stamp", "id", "action", "pose", "color"))
        self._integers = np.stack([stamps, stamps + 4, ids, actions], axis=1) // 4
        self._poses = poses[:, None] // 8 + np.arange(10)           # and scales
        self._colors = colors[:, None] // 4 + np.arange(4)
        self._points, self._point_colors = (
            [self.items[prefix + name].part for prefix in prefixes]
            for name in ("points", "colors"))

    def read(self, data: bytes) -> SimpleNamespace:
        """Return the markers."""
        return SimpleNamespace(markers=list(self._read(data)))

    def _read(self, data: bytes) -> Iterator[PlainMarker]:
        body = data[len(PLAIN):]                        # a copy: doubles are aligned
        integers, floats = (np.frombuffer(body, dtype, len(body) // 4)
                            for dtype in (_INTEGERS, _FLOATS))
        doubles: Array = np.frombuffer(body, _DOUBLES, len(body) // 8)
        numbers = np.concatenate([doubles[self._poses], floats[self._colors]], axis=1)
        headers: dict[tuple[str, int, int], Any] = {}
        for marker, points, colors, own, (sec, nanosec, id, action) in zip(
                self._markers, self._points, self._point_colors, numbers,
                integers[self._integers].tolist()):
            key = marker.header.frame_id, sec, nanosec
            header = headers.get(key) or headers.setdefault(key, _header(*key))
            yield PlainMarker(
                header, marker.ns, id, marker.type, action, marker.lifetime, own,
                doubles[points].reshape(-1, 3), floats[colors].astype(float).reshape(-1, 4),
                marker.text, marker.mesh_resource)


def _header(frame: str, sec: int, nanosec: int) -> SimpleNamespace:
    stamp = SimpleNamespace(sec=sec, nanosec=nanosec & 0xFFFFFFFF)      # it is unsigned
    return SimpleNamespace(frame_id=frame, stamp=stamp)
