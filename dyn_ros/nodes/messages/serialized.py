# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages: as rclpy reads them, or as arrays of numbers without its conversion."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from ...cdr.definition import DTYPES, definition_of
from ...cdr.field_ranges import PLAIN_ENCAPSULATION, STAMP, MessagePattern, PatternReader
from ...engine.kernel.types import Array
from ...viewer.scene.marker_arrays import PlainMarker

_NUMBERS = "position", "velocity", "effort"
_BODY, _stamp_of = len(PLAIN_ENCAPSULATION), STAMP.unpack_from
_STATE_VARYING = frozenset(("header.stamp", *_NUMBERS))
_MARKERS_VARYING = frozenset(
    ("header.stamp", "id", "action", "pose", "scale", "color", "points", "colors")
)
_INTEGERS, _FLOATS, _DOUBLES = (DTYPES[name] for name in ("int32", "float32", "float64"))


def deserialized(data: bytes, message_type: Any) -> Any:
    """Return the message that these bytes are; raise a ValueError if they are none."""
    try:
        return deserialize_message(data, message_type)
    except Exception as error:  # whatever an RMW implementation raises
        name = definition_of(message_type).name
        raise ValueError(
            f"cannot deserialize {len(data)} bytes ({data[:16].hex(' ')} ...) as "
            f"{name}: its publisher may use another version of this type "
            f"({error})"
        ) from error


class JointStateFields(NamedTuple):
    """What a JointState contains: the stamp [ns], and arrays of any length, as received."""

    stamp: int
    name: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


def joint_state_reader() -> PatternReader[JointStateFields]:
    """Reads serialized sensor_msgs/JointState; a ValueError if the bytes are not a JointState."""
    return PatternReader(_deserialized, _JointStatePattern)


class _JointStatePattern(MessagePattern[JointStateFields]):
    def __init__(self, data: bytes, fields: JointStateFields) -> None:
        super().__init__(definition_of(JointState), data, _STATE_VARYING)
        self._name = fields.name
        self._stamp = _BODY + self.ranges["header.stamp"].start
        self._slices = [self.ranges[name].elements for name in _NUMBERS]
        self._end = _BODY + 8 * max(numbers.stop for numbers in self._slices)

    def read(self, data: bytes) -> JointStateFields:
        sec, nanosec = _stamp_of(data, self._stamp)
        numbers = np.frombuffer(data[_BODY : self._end])  # a copy: doubles are aligned
        position, velocity, effort = self._slices
        return JointStateFields(
            sec * 1_000_000_000 + nanosec,
            self._name,
            numbers[position],
            numbers[velocity],
            numbers[effort],
        )


def _deserialized(data: bytes) -> JointStateFields:
    message = deserialized(data, JointState)
    stamp = message.header.stamp
    return JointStateFields(
        stamp.sec * 1_000_000_000 + stamp.nanosec,
        tuple(message.name),
        *(np.array(getattr(message, name)) for name in _NUMBERS),
    )


def marker_array_reader() -> PatternReader[Any]:
    """Reads serialized MarkerArrays of one topic, as objects with `markers`, or a ValueError."""
    return PatternReader(
        lambda data: deserialized(data, MarkerArray),
        lambda data, array: _MarkersPattern(data, array.markers),
    )


class _MarkersPattern(MessagePattern[Any]):
    """The messages whose markers differ only in stamps, ids, actions and numbers."""

    def __init__(self, data: bytes, markers: list[Any]) -> None:
        super().__init__(definition_of(MarkerArray), data, _MARKERS_VARYING)
        self._markers = markers
        prefixes = [f"markers.{i}." for i in range(len(markers))]
        stamps, ids, actions, poses, colors = (
            np.array([self.ranges[prefix + name].start for prefix in prefixes], np.intp)
            for name in ("header.stamp", "id", "action", "pose", "color")
        )
        self._integers = np.stack([stamps, stamps + 4, ids, actions], axis=1) // 4
        self._poses = poses[:, None] // 8 + np.arange(10)  # and scales
        self._colors = colors[:, None] // 4 + np.arange(4)
        self._points, self._point_colors = (
            [self.ranges[prefix + name].elements for prefix in prefixes]
            for name in ("points", "colors")
        )

    def read(self, data: bytes) -> SimpleNamespace:
        return SimpleNamespace(markers=list(self._read(data)))

    def _read(self, data: bytes) -> Iterator[PlainMarker]:
        body = data[len(PLAIN_ENCAPSULATION) :]  # a copy: doubles are aligned
        integers, floats = (
            np.frombuffer(body, dtype, len(body) // 4) for dtype in (_INTEGERS, _FLOATS)
        )
        doubles: Array = np.frombuffer(body, _DOUBLES, len(body) // 8)
        numbers = np.concatenate([doubles[self._poses], floats[self._colors]], axis=1)
        headers: dict[tuple[str, int, int], Any] = {}
        for marker, points, colors, own, (sec, nanosec, id, action) in zip(
            self._markers,
            self._points,
            self._point_colors,
            numbers,
            integers[self._integers].tolist(),
        ):
            key = marker.header.frame_id, sec, nanosec
            header = headers.get(key) or headers.setdefault(key, _header(*key))
            yield PlainMarker(
                header,
                marker.ns,
                id,
                marker.type,
                action,
                marker.lifetime,
                own,
                doubles[points].reshape(-1, 3),
                floats[colors].astype(float).reshape(-1, 4),
                marker.text,
                marker.mesh_resource,
            )


def _header(frame: str, sec: int, nanosec: int) -> SimpleNamespace:
    stamp = SimpleNamespace(sec=sec, nanosec=nanosec & 0xFFFFFFFF)  # it is unsigned
    return SimpleNamespace(frame_id=frame, stamp=stamp)
