# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages, written and compared independently of dyn_ros."""

import array
import struct

import numpy as np
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

PRIMITIVES = {"double": "d", "boolean": "?", "int32": "i", "uint32": "I"}
NAMES = ["shoulder", "elbow", "wrist_1"]

doubles = st.floats(allow_nan=True, allow_infinity=True)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


def doubles_list(**sizes):
    return st.lists(doubles, **sizes).map(lambda values: array.array("d", values))


@st.composite
def joint_states(draw):
    """Of any lengths, and with padding of any content."""
    message = JointState(name=draw(st.lists(words, max_size=12)))
    message.header.frame_id = draw(st.text("ab/é", max_size=9))
    message.header.stamp.sec = draw(st.integers(-(2**31), 2**31 - 1))
    message.header.stamp.nanosec = draw(st.integers(0, 2**32 - 1))
    for field in ("position", "velocity", "effort"):
        size = draw(st.sampled_from([0, len(message.name), draw(st.integers(0, 12))]))
        setattr(message, field, draw(doubles_list(min_size=size, max_size=size)))
    return message, draw(st.integers(0, 255))


def cdr(message, endian="<", padding=0):
    """Plain CDR, written independently of rclpy; a mask, 0 where bytes are padding."""
    body, mask = bytearray(), bytearray()

    def put(code, value):
        fill = -len(body) % struct.calcsize(code)
        body.extend([padding] * fill)
        mask.extend(bytes(fill))
        data = struct.pack(endian + code, value)
        body.extend(data)
        mask.extend(b"\xff" * len(data))

    def put_string(text):
        data = text.encode() + b"\0"
        put("I", len(data))
        body.extend(data)
        mask.extend(b"\xff" * len(data))

    def put_field(kind, value):
        if kind.startswith("sequence<"):
            put("I", len(value))
            for each in value:
                put_field(kind[len("sequence<") : -1], each)
        elif "[" in kind:
            for each in value:
                put_field(kind[: kind.index("[")], each)
        elif kind == "string":
            put_string(value)
        elif kind in PRIMITIVES:
            put(PRIMITIVES[kind], value)
        else:
            put_message(value)

    def put_message(value):
        for field, kind in value.get_fields_and_field_types().items():
            put_field(kind, getattr(value, field))

    put_message(message)
    encapsulation = b"\0\1\0\0" if endian == "<" else b"\0\0\0\0"
    return encapsulation + body, b"\xff" * 4 + mask


def assert_written(data, message):
    """These bytes are a message, as rclpy serializes it."""
    expected, mask = cdr(message)
    assert type(data) is bytes and len(data) == len(expected)
    for each in (data, serialize_message(message)):  # rclpy may append undefined bytes
        assert bytes(a & b for a, b in zip(each, mask)) == expected


def assert_read(fields, data):
    """What was read is what rclpy reads."""
    message = deserialize_message(data, JointState)
    stamp = message.header.stamp
    assert fields.stamp == stamp.sec * 10**9 + stamp.nanosec
    assert fields.name == tuple(message.name)
    for field in ("position", "velocity", "effort"):
        numbers = getattr(fields, field)
        assert numbers.dtype == np.float64 and numbers.ndim == 1 and numbers.flags.aligned
        assert numbers.tobytes() == getattr(message, field).tobytes(), field


def joint_state(names=NAMES, position=(0.1, 0.2, 0.3), velocity=(), effort=(), stamp=(1, 2)):
    message = JointState(name=list(names))
    message.header.frame_id = "base"
    message.header.stamp.sec, message.header.stamp.nanosec = stamp
    message.position = array.array("d", position)
    message.velocity = array.array("d", velocity)
    message.effort = array.array("d", effort)
    return message
