# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Readers of serialized messages, which avoid the conversion by rclpy where a pattern is known."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from ...cdr.definition import DTYPES, class_definition
from ...cdr.field_ranges import PLAIN_ENCAPSULATION, STAMP, MessagePattern, PatternReader
from ...engine.kernel.types import Array
from ...viewer.scene.marker_arrays import PlainMarker

_VECTOR_FIELDS = "position", "velocity", "effort"
_HEADER_SIZE, _unpack_stamp = len(PLAIN_ENCAPSULATION), STAMP.unpack_from
_VARYING_STATE_FIELDS = frozenset(("header.stamp", *_VECTOR_FIELDS))
_VARYING_MARKER_FIELDS = frozenset(
    ("header.stamp", "id", "action", "pose", "scale", "color", "points", "colors")
)
_INTEGERS, _FLOATS, _DOUBLES = (DTYPES[name] for name in ("int32", "float32", "float64"))


def deserialize(data: bytes, message_type: Any) -> Any:
    """Return the message in serialized data; raise a ValueError if there is none."""
    try:
        return deserialize_message(data, message_type)
    except Exception as error:  # depends on the RMW implementation
        name = class_definition(message_type).name
        raise ValueError(
            f"cannot deserialize {len(data)} bytes ({data[:16].hex(' ')} ...) as "
            f"{name}: its publisher may use another version of this type "
            f"({error})"
        ) from error


class JointStateFields(NamedTuple):
    """The fields of a JointState: stamp [ns], names, and arrays of any length, as received."""

    stamp: int
    name: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


def joint_state_reader() -> PatternReader[JointStateFields]:
    """Return a reader of serialized JointStates, which raises a ValueError for other data."""
    return PatternReader(_joint_state_fields, _JointStatePattern)


class _JointStatePattern(MessagePattern[JointStateFields]):
    """The pattern of JointStates that differ in stamps and numbers only."""

    def __init__(self, data: bytes, fields: JointStateFields) -> None:
        super().__init__(class_definition(JointState), data, _VARYING_STATE_FIELDS)
        self._name = fields.name
        self._stamp = _HEADER_SIZE + self.ranges["header.stamp"].start
        self._slices = [self.ranges[name].elements for name in _VECTOR_FIELDS]
        self._end = _HEADER_SIZE + 8 * max(numbers.stop for numbers in self._slices)

    def read(self, data: bytes) -> JointStateFields:
        sec, nanosec = _unpack_stamp(data, self._stamp)
        numbers = np.frombuffer(data[_HEADER_SIZE : self._end])  # a copy, to align the doubles
        position, velocity, effort = self._slices
        return JointStateFields(
            sec * 1_000_000_000 + nanosec,
            self._name,
            numbers[position],
            numbers[velocity],
            numbers[effort],
        )


def _joint_state_fields(data: bytes) -> JointStateFields:
    """Return the fields of a serialized JointState, deserialized by rclpy."""
    message = deserialize(data, JointState)
    stamp = message.header.stamp
    return JointStateFields(
        stamp.sec * 1_000_000_000 + stamp.nanosec,
        tuple(message.name),
        *(np.array(getattr(message, name)) for name in _VECTOR_FIELDS),
    )


def marker_array_reader() -> PatternReader[Any]:
    """Return a reader of the serialized MarkerArrays of one topic, as objects with `markers`."""
    return PatternReader(
        lambda data: deserialize(data, MarkerArray),
        lambda data, array: _MarkersPattern(data, array.markers),
    )


class _MarkersPattern(MessagePattern[Any]):
    """The pattern of MarkerArrays that differ in stamps, ids, actions and numbers only."""

    def __init__(self, data: bytes, markers: list[Any]) -> None:
        super().__init__(class_definition(MarkerArray), data, _VARYING_MARKER_FIELDS)
        self._markers = markers
        prefixes = [f"markers.{i}." for i in range(len(markers))]
        stamps, ids, actions, poses, colors = (
            np.array([self.ranges[prefix + name].start for prefix in prefixes], np.intp)
            for name in ("header.stamp", "id", "action", "pose", "color")
        )
        self._integers = np.stack([stamps, stamps + 4, ids, actions], axis=1) // 4
        self._poses = poses[:, None] // 8 + np.arange(10)  # pose (7,), scale (3,)
        self._colors = colors[:, None] // 4 + np.arange(4)
        self._points, self._point_colors = (
            [self.ranges[prefix + name].elements for prefix in prefixes]
            for name in ("points", "colors")
        )

    def read(self, data: bytes) -> SimpleNamespace:
        return SimpleNamespace(markers=list(self._read(data)))

    def _read(self, data: bytes) -> Iterator[PlainMarker]:
        """Yield the markers in data that have the pattern."""
        body = data[len(PLAIN_ENCAPSULATION) :]  # a copy, to align the doubles
        integers, floats = (
            np.frombuffer(body, dtype, len(body) // 4) for dtype in (_INTEGERS, _FLOATS)
        )
        doubles: Array = np.frombuffer(body, _DOUBLES, len(body) // 8)
        numbers = np.concatenate([doubles[self._poses], floats[self._colors]], axis=1)
        headers: dict[tuple[str, int, int], Any] = {}
        for marker, points, colors, marker_numbers, (sec, nanosec, id, action) in zip(
            self._markers,
            self._points,
            self._point_colors,
            numbers,
            integers[self._integers].tolist(),
        ):
            key = marker.header.frame_id, sec, nanosec
            header = headers.get(key) or headers.setdefault(key, _make_header(*key))
            yield PlainMarker(
                header,
                marker.ns,
                id,
                marker.type,
                action,
                marker.lifetime,
                marker_numbers,
                doubles[points].reshape(-1, 3),
                floats[colors].astype(float).reshape(-1, 4),
                marker.text,
                marker.mesh_resource,
            )


def _make_header(frame: str, sec: int, nanosec: int) -> SimpleNamespace:
    """Return a header as an object, from the numbers of its stamp."""
    stamp = SimpleNamespace(sec=sec, nanosec=nanosec & 0xFFFFFFFF)  # it is unsigned
    return SimpleNamespace(frame_id=frame, stamp=stamp)
