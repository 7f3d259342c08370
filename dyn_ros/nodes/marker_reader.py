# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized MarkerArrays as arrays of numbers, without rclpy's conversion of each point."""
from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from visualization_msgs.msg import MarkerArray

from ..engine.kernel.types import Array
from ..viewer.scene.groups import PlainMarker, plain_marker
from .cdr_parser import HEADER, MAX_LAYOUTS, PLAIN, Parser, deserialized

_INTEGERS, _FLOATS, _DOUBLES = np.dtype("<i4"), np.dtype("<f4"), np.dtype("<f8")


class _Place:
    """Where the numbers of a marker are, in bytes after the encapsulation."""

    def __init__(self, parser: Parser) -> None:
        self.stamp = parser.variable(8, 4) - HEADER
        parser.constants()                              # frame_id
        parser.constants()                              # ns
        self.id = parser.variable(4, 4) - HEADER
        parser.constant(4)                              # type
        self.action = parser.variable(4, 4) - HEADER
        self.pose = parser.variable(80, 8) - HEADER     # and scale
        self.color = parser.variable(16, 4) - HEADER
        parser.constant(9)                              # lifetime, frame_locked
        self.points = _part(parser.variables(24, 8), _DOUBLES)
        self.colors = _part(parser.variables(16, 4), _FLOATS)
        parser.constants()                              # texture_resource
        parser.constant(8, 4)                           # texture: stamp,
        for _ in range(3):
            parser.constants()                          # frame_id, format, data
        parser.constants(8)                             # uv_coordinates
        for _ in range(4):
            parser.constants()                          # text, mesh_resource, mesh_file: name, data
        parser.constant(1)                              # mesh_use_embedded_materials


def _part(place: tuple[int, int], dtype: np.dtype[Any]) -> slice:
    start, stop = ((each - HEADER) // dtype.itemsize for each in place)
    return slice(start, max(start, stop))


class _Layout:
    """All messages whose markers differ in stamps, ids, actions and numbers only."""

    def __init__(self, data: bytes, markers: list[Any]) -> None:
        parser = Parser(data)
        parser.count()
        self._places = places = [_Place(parser) for _ in markers]
        self._markers = markers
        self._length = len(data)
        self._struct = parser.layout()
        self._constant = self._struct.unpack_from(data)
        self._integers = np.array(
            [(each.stamp, each.stamp + 4, each.id, each.action) for each in places]) // 4
        self._poses = np.array([each.pose for each in places])[:, None] // 8 + np.arange(10)
        self._colors = np.array([each.color for each in places])[:, None] // 4 + np.arange(4)

    def fits(self, data: bytes) -> bool:
        """Whether a message has this layout."""
        return len(data) == self._length and self._struct.unpack_from(data) == self._constant

    def read(self, data: bytes) -> Iterator[PlainMarker]:
        """The markers of a message of this layout."""
        body = data[HEADER:]                            # a copy: doubles are aligned
        integers, floats = (np.frombuffer(body, dtype, len(body) // 4)
                            for dtype in (_INTEGERS, _FLOATS))
        doubles: Array = np.frombuffer(body, _DOUBLES, len(body) // 8)
        numbers = np.concatenate([doubles[self._poses], floats[self._colors]], axis=1)
        headers: dict[tuple[str, int, int], Any] = {}
        for marker, place, own, (sec, nanosec, id, action) in zip(
                self._markers, self._places, numbers, integers[self._integers].tolist()):
            key = marker.header.frame_id, sec, nanosec
            header = headers.get(key) or headers.setdefault(key, _header(*key))
            yield PlainMarker(
                header, marker.ns, id, marker.type, action, marker.lifetime, own,
                doubles[place.points].reshape(-1, 3),
                floats[place.colors].astype(float).reshape(-1, 4),
                marker.text, marker.mesh_resource)


def _header(frame: str, sec: int, nanosec: int) -> SimpleNamespace:
    stamp = SimpleNamespace(sec=sec, nanosec=nanosec & 0xFFFFFFFF)      # it is unsigned
    return SimpleNamespace(frame_id=frame, stamp=stamp)


class MarkerArrayReader:
    """Reads serialized visualization_msgs/MarkerArray of one topic.

    A message whose layout is known is read from its bytes. rclpy reads every other one: the first
    of a layout, and those with an encapsulation other than plain little-endian CDR.
    """

    def __init__(self) -> None:
        self._layouts: list[_Layout] = []

    def read(self, data: bytes) -> Any:
        """The markers of a serialized message: an object with the attribute `markers`.

        Parameters
        ----------
        data : bytes
            The message, including its encapsulation.

        Raises
        ------
        ValueError
            The bytes are not a MarkerArray.
        """
        for layout in self._layouts:
            if layout.fits(data):
                return SimpleNamespace(markers=list(layout.read(data)))
        array = deserialized(data, MarkerArray, "visualization_msgs/MarkerArray")
        if data.startswith(PLAIN) and array.markers:
            self._remember(data, array.markers)
        return array

    def _remember(self, data: bytes, markers: list[Any]) -> None:
        """Keep the layout of a message, if the markers read in it are those that rclpy read."""
        try:
            layout = _Layout(data, markers)
            found = list(layout.read(data))
        except (struct.error, ValueError, IndexError):
            return
        if all(_identity(ours) == _identity(plain_marker(theirs))
               for ours, theirs in zip(found, markers)):
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts.append(layout)


def _identity(marker: PlainMarker) -> tuple[Any, ...]:
    """All that `_Layout` reads in the bytes of a message; NaN is equal to itself."""
    stamp = marker.header.stamp
    return (stamp.sec, stamp.nanosec, marker.id, marker.action,
            *((each.shape, each.tobytes())
              for each in (marker.numbers, marker.points, marker.colors)))
