# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized markers: what is read without rclpy's conversion, compared with it."""

import copy
import math

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
from geometry_msgs.msg import Point
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray, UVCoordinate

from dyn_ros.cdr.field_ranges import MAX_PATTERNS
from dyn_ros.nodes.messages.serialized_messages import marker_array_reader
from dyn_ros.viewer.scene.marker_arrays import PlainMarker, plain_marker

FIELDS = ("ns", "id", "type", "action", "lifetime", "text", "mesh_resource")
words = st.text("ab/é", max_size=9)
numbers = st.one_of(st.just(math.nan), st.floats(width=32))


@st.composite
def markers(draw):
    made = Marker(
        ns=draw(words),
        type=draw(st.integers(0, 11)),
        action=draw(st.integers(0, 3)),
        text=draw(words),
        mesh_resource=draw(words),
        texture_resource=draw(words),
        frame_locked=draw(st.booleans()),
    )
    made.header.frame_id = draw(words)
    made.texture.format, made.mesh_file.filename = draw(words), draw(words)
    made.texture.data = draw(st.binary(max_size=5))
    made.mesh_file.data = draw(st.binary(max_size=5))
    made.uv_coordinates = [UVCoordinate(u=1.0) for _ in range(draw(st.integers(0, 2)))]
    made.lifetime.sec = draw(st.integers(-(2**31), 2**31 - 1))
    made.points = [Point() for _ in range(draw(st.integers(0, 3)))]
    made.colors = [ColorRGBA() for _ in range(draw(st.integers(0, 3)))]
    return made


def change_numbers(message, draw):
    for each in message.markers:
        each.id, each.action = draw(st.integers(-(2**31), 2**31 - 1)), draw(st.integers(0, 3))
        each.header.stamp.sec = draw(st.integers(-(2**31), 2**31 - 1))
        each.header.stamp.nanosec = draw(st.integers(0, 2**32 - 1))
        for vector in (
            each.pose.position,
            each.pose.orientation,
            each.scale,
            each.color,
            *each.points,
            *each.colors,
        ):
            for name in vector.get_fields_and_field_types():
                setattr(vector, name, draw(numbers))


def same(found, message):
    """Return True if markers equal a message's, NaN included."""
    assert len(found.markers) == len(message.markers)
    for ours, theirs in zip(found.markers, message.markers):
        assert (ours.header.frame_id, ours.header.stamp.sec, ours.header.stamp.nanosec) == (
            theirs.header.frame_id,
            theirs.header.stamp.sec,
            theirs.header.stamp.nanosec,
        )
        for field in FIELDS:
            assert getattr(ours, field) == getattr(theirs, field), field
        for field in ("numbers", "points", "colors"):
            np.testing.assert_array_equal(
                getattr(ours if isinstance(ours, PlainMarker) else plain_marker(ours), field),
                getattr(plain_marker(theirs), field),
            )


def is_fast(found):
    return all(isinstance(each, PlainMarker) for each in found.markers)


@settings(deadline=None, max_examples=40)
@given(st.lists(markers(), min_size=1, max_size=4), st.data())
def test_a_message_of_a_known_pattern_is_read_without_rclpy(made, data):
    reader, message = marker_array_reader(), MarkerArray(markers=made)
    for known in (False, True, True):
        change_numbers(message, data.draw)
        found = reader.read(serialize_message(message))
        assert is_fast(found) is known
        same(found, message)


@settings(deadline=None)
@given(st.lists(markers(), min_size=1, max_size=3), st.data())
def test_other_bytes_are_read_as_by_rclpy(made, data):
    reader = marker_array_reader()
    known = serialize_message(MarkerArray(markers=made))
    reader.read(known)
    changed = bytearray(known)
    changed[data.draw(st.integers(4, len(known) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = deserialize_message(bytes(changed), MarkerArray)
    except Exception:
        with pytest.raises(ValueError, match="cannot deserialize"):
            reader.read(bytes(changed))
    else:
        same(reader.read(bytes(changed)), expected)


def test_padding_may_differ():
    reader, message = marker_array_reader(), MarkerArray(markers=[Marker(ns="ab")])
    data = serialize_message(message)
    reader.read(data)
    at = data.index(b"ab\0") + 3  # the id that follows is aligned to 4
    assert (at - 4) % 4 == 3
    found = reader.read(data[:at] + b"\x7f" + data[at + 1 :])
    assert is_fast(found)
    same(found, message)


def test_unknown_patterns():
    reader = marker_array_reader()
    first = MarkerArray(markers=[Marker(ns="torque", points=[Point(x=1.0)])])
    second = copy.deepcopy(first)
    second.markers[0].ns = "wrench"  # of the same length
    for known in (False, True):
        for message in (first, second):
            found = reader.read(serialize_message(message))
            assert is_fast(found) is known
            same(found, message)
    for k in range(2 * MAX_PATTERNS):
        message = MarkerArray(markers=[Marker(text="x" * k)])
        same(reader.read(serialize_message(message)), message)
    assert len(reader.patterns) <= MAX_PATTERNS


@pytest.mark.parametrize("message", [MarkerArray(), MarkerArray(markers=[Marker(action=3)])])
def test_arrays_without_markers_to_add(message):
    reader = marker_array_reader()
    for _ in range(2):
        same(reader.read(serialize_message(message)), message)


def test_bytes_that_are_no_markers():
    with pytest.raises(ValueError, match="cannot deserialize 9 bytes .*/MarkerArray"):
        marker_array_reader().read(b"\0\1\0\0\2\0\0\0a")
