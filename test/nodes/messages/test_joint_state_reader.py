# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states that are read without rclpy's conversion, compared with it; exchanged bytes."""

import array
import functools
import math
import time

import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
from cdr.reference import assert_read, cdr, joint_state, joint_states
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from dyn_ros.cdr.field_ranges import MAX_PATTERNS
from dyn_ros.cdr.template import Template
from dyn_ros.nodes.messages.serialized_messages import joint_state_reader


@pytest.fixture
def typed(monkeypatch):
    """A list that grows with each message that rclpy deserializes for a reader."""
    from dyn_ros.nodes.messages import serialized_messages

    calls = []

    def deserialize(data, kind):
        calls.append(data)
        return deserialize_message(data, kind)

    monkeypatch.setattr(serialized_messages, "deserialize_message", deserialize)
    return calls


@settings(deadline=None, max_examples=300)
@given(st.lists(joint_states(), min_size=1, max_size=4), st.binary(max_size=9))
def test_reads_what_rclpy_reads(messages, tail):
    reader = joint_state_reader()
    for _ in range(3):
        for message, padding in messages:
            for data in (
                serialize_message(message),
                cdr(message, padding=padding)[0],
                cdr(message)[0] + tail,
            ):
                assert_read(reader.read(data), data)


def test_known_patterns_are_read_without_rclpy(typed):
    """Messages of two publishers in turns are read, whatever stamp, numbers and padding are."""
    reader = joint_state_reader()
    for i in range(5):
        a = joint_state(stamp=(i, i), position=(i, i, math.nan), velocity=(1, 2, 3))
        b = joint_state(names=["ä", "b"], stamp=(-i, i), position=(), effort=(i, -i))
        for message in (a, b):
            data, _ = cdr(message, padding=i)
            assert_read(reader.read(data), data)
    assert len(typed) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.name.reverse(),
        lambda m: setattr(m, "name", [*m.name, "another"]),
        lambda m: setattr(m, "name", m.name[:-1]),
        lambda m: setattr(m, "name", [m.name[0], m.name[1], "wrist_2"]),
        lambda m: setattr(m.header, "frame_id", "bass"),
        lambda m: setattr(m.header, "frame_id", "base_link"),
        lambda m: setattr(m, "position", array.array("d", [1.0])),
        lambda m: setattr(m, "velocity", array.array("d", [1.0])),
        lambda m: setattr(m, "effort", array.array("d", [1.0])),
    ],
)
def test_a_changed_message_is_read_by_rclpy_once(change, typed):
    reader = joint_state_reader()
    reader.read(serialize_message(joint_state()))
    message = joint_state()
    change(message)
    data = serialize_message(message)
    for _ in range(3):
        assert_read(reader.read(data), data)
    assert len(typed) == 2


def test_big_endian_messages_are_read_by_rclpy(typed):
    reader = joint_state_reader()
    message = joint_state(velocity=(1.5, math.inf, -0.0), stamp=(-3, 7))
    data, _ = cdr(message, endian=">")
    for _ in range(2):
        fields = reader.read(data)
        assert_read(fields, data)
        assert fields.stamp == -3 * 10**9 + 7 and fields.velocity.tolist() == [1.5, math.inf, -0.0]
    assert len(typed) == 2


def test_corrupt_messages_are_read_as_rclpy_reads_them():
    """Every byte changed, every truncation: the same fields, or a ValueError; and no later harm."""
    good = cdr(joint_state(names=["a", "bé", ""], velocity=(1, 2, 3), effort=(4, 5)))[0]
    corrupt = [good[:i] for i in range(len(good))]
    corrupt += [
        good[:i] + bytes([byte]) + good[i + 1 :]
        for i in range(len(good))
        for byte in {0, 1, 2, 127, 128, 255, good[i] ^ 1}
    ]
    for learned in (True, False):
        reader, refused = joint_state_reader(), 0
        for data in corrupt:
            if learned:
                reader.read(good)
            try:
                fields = reader.read(data)
            except ValueError:
                refused += 1
                with pytest.raises(Exception, match="deserialize"):
                    deserialize_message(data, JointState)
            else:
                assert_read(fields, data)
        assert refused > len(good)
        assert_read(reader.read(good), good)


@settings(deadline=None, max_examples=300)
@given(
    joint_states(),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=5),
    st.integers(0),
    st.binary(max_size=9),
)
def test_several_changed_bytes(drawn, changes, cut, tail):
    message, padding = drawn
    good = cdr(message, padding=padding)[0]
    data = bytearray(good)
    for at, byte in changes:
        data[at % len(data)] = byte
    data = bytes(data[: len(data) - cut % 9] + tail)
    reader = joint_state_reader()
    reader.read(good)
    try:
        fields = reader.read(data)
    except ValueError:
        with pytest.raises(Exception, match="deserialize"):
            deserialize_message(data, JointState)
    else:
        assert_read(fields, data)


@pytest.mark.parametrize(
    "encapsulation",
    [
        b"\0\0\0\0",
        b"\0\1\0\1",
        b"\0\1\0\3",
        b"\0\1\x80\0",
        b"\0\2\0\0",
        b"\0\3\0\0",
        b"\0\6\0\0",
        b"\0\7\0\0",
        b"\1\1\0\0",
    ],
)
def test_other_encapsulations_are_left_to_rclpy(encapsulation, typed):
    reader = joint_state_reader()
    good = cdr(joint_state())[0]
    reader.read(good)
    data = encapsulation + good[4:]
    for i in range(2):
        try:
            fields = reader.read(data)
        except ValueError:
            with pytest.raises(Exception, match="deserialize"):
                deserialize_message(data, JointState)
        else:
            assert_read(fields, data)
        assert len(typed) == 2 + i


@pytest.mark.parametrize("data", [b"", b"\0\1", b"\0\1\0\0", b"\0\1\0\0" + bytes(7), b"\xff" * 100])
def test_other_bytes_are_a_value_error(data):
    with pytest.raises(ValueError, match=f"cannot deserialize {len(data)} bytes"):
        joint_state_reader().read(data)


def test_memory_is_bounded(typed):
    """If a publisher never repeats its names; another one's messages remain fast in between."""
    reader = joint_state_reader()
    regular = serialize_message(joint_state())
    count = 10 * MAX_PATTERNS
    for i in range(count):
        data = serialize_message(joint_state(names=[f"joint_{i}"]))
        assert reader.read(data).name == (f"joint_{i}",)
        reader.read(regular)
        assert len(reader.patterns) <= MAX_PATTERNS
    assert len(typed) < 1.1 * count


def test_what_was_read_stays():
    """The arrays do not change with the next message."""
    reader = joint_state_reader()
    read = [reader.read(serialize_message(joint_state(position=(i, i, i)))) for i in range(4)]
    assert [fields.position.tolist() for fields in read] == [[i] * 3 for i in range(4)]


@pytest.fixture(params=["single-threaded", "events"])
def peer(request, client):
    """A node that exchanges bytes, and a function that spins it.

    It shares the client's context, and so its DDS participant: Fast DDS gives that of another
    context the identity of an earlier one of this process, and then may not find its topics.
    """
    import rclpy

    if request.param == "events":
        experimental = pytest.importorskip("rclpy.experimental")
        executor = experimental.EventsExecutor(context=client.context)
    else:
        executor = rclpy.executors.SingleThreadedExecutor(context=client.context)
    node = rclpy.create_node("bytes", context=client.context)
    executor.add_node(node)
    yield node, executor.spin_once
    executor.shutdown()
    node.destroy_node()


def test_bytes_reach_typed_peers_and_theirs_are_read(client, peer):
    """Bytes are published to, and received from, a node that uses typed messages."""
    node, spin = peer
    topic = f"/bytes_{time.monotonic_ns()}"
    received, answers = [], []
    answer = Template(joint_state(effort=(0, 0, 0)))
    publisher = node.create_publisher(JointState, topic + "/answer", 10)
    reader = joint_state_reader()

    def on_message(data):
        received.append(data)
        fields = reader.read(data)
        answer.set_stamp(fields.stamp)
        answer.array("effort")[:] = 2.0 * fields.position
        publisher.publish(answer.to_bytes())

    raw = node.create_subscription(JointState, topic, on_message, 10, raw=True)
    sender = client.node.create_publisher(JointState, topic, 10)
    listener = client.node.create_subscription(JointState, topic + "/answer", answers.append, 10)
    message = joint_state()

    def answered():
        spin(0.05)
        return any(each.header.stamp == message.header.stamp for each in answers)

    for i in range(5):
        message = joint_state(position=(i, 2 * i, -i), stamp=(i, 10 * i))
        client.wait(
            answered,
            lambda: f"an answer to {len(received)} messages",
            again=functools.partial(sender.publish, message),
        )
        data = received[-1]
        assert type(data) is bytes
        assert_read(reader.read(data), data)
        assert reader.read(data).position.tolist() == [i, 2 * i, -i]
        expected = joint_state(effort=(2 * i, 4 * i, -2 * i), stamp=(i, 10 * i))
        assert answers[-1] == expected
    client.node.destroy_publisher(sender)
    client.node.destroy_subscription(listener)
    node.destroy_subscription(raw)
