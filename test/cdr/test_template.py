# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages: what is read and written without rclpy's conversion, compared with it."""
import array
import functools
import math
import struct
import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
from geometry_msgs.msg import Inertia, Point
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from visualization_msgs.msg import Marker, MarkerArray

from dyn_ros.cdr.template import Template
from dyn_ros.msg import (
    CentroidalState,
    JointSpaceDynamics,
    JointSpaceInertia,
    Matrix,
)
from dyn_ros.nodes.cdr import MAX_LAYOUTS, JointStateReader
from dyn_ros.srv import GetForwardDynamics

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
    message.header.stamp.sec = draw(st.integers(-2**31, 2**31 - 1))
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
                put_field(kind[len("sequence<"):-1], each)
        elif "[" in kind:
            for each in value:
                put_field(kind[:kind.index("[")], each)
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
    for each in (data, serialize_message(message)):     # rclpy may append undefined bytes
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


@pytest.fixture
def typed(monkeypatch):
    """A list that grows with each message that rclpy deserializes for a reader."""
    from dyn_ros.nodes import cdr_parser
    calls = []

    def deserialize(data, kind):
        calls.append(data)
        return deserialize_message(data, kind)
    monkeypatch.setattr(cdr_parser, "deserialize_message", deserialize)
    return calls


# --- reading


@settings(deadline=None, max_examples=300)
@given(st.lists(joint_states(), min_size=1, max_size=4), st.binary(max_size=9))
def test_reads_what_rclpy_reads(messages, tail):
    reader = JointStateReader()
    for _ in range(3):
        for message, padding in messages:
            for data in (serialize_message(message), cdr(message, padding=padding)[0],
                         cdr(message)[0] + tail):
                assert_read(reader.read(data), data)


def test_known_layouts_are_read_without_rclpy(typed):
    """Those of two publishers in turns, whatever the stamp, the numbers and the padding are."""
    reader = JointStateReader()
    for i in range(5):
        a = joint_state(stamp=(i, i), position=(i, i, math.nan), velocity=(1, 2, 3))
        b = joint_state(names=["ä", "b"], stamp=(-i, i), position=(), effort=(i, -i))
        for message in (a, b):
            data, _ = cdr(message, padding=i)
            assert_read(reader.read(data), data)
    assert len(typed) == 2


def test_names_stay_the_same_object():
    reader = JointStateReader()
    first = reader.read(serialize_message(joint_state())).name
    other = reader.read(serialize_message(joint_state(names=["a", "b", "c"]))).name
    assert first == tuple(NAMES) and other == ("a", "b", "c")
    for message in (joint_state(), joint_state(velocity=(1, 2, 3))):
        for data in (serialize_message(message), cdr(message, endian=">")[0]):
            assert reader.read(data).name is first


@pytest.mark.parametrize("change", [
    lambda m: m.name.reverse(),
    lambda m: setattr(m, "name", [*m.name, "another"]),
    lambda m: setattr(m, "name", m.name[:-1]),
    lambda m: setattr(m, "name", [m.name[0], m.name[1], "wrist_2"]),
    lambda m: setattr(m.header, "frame_id", "bass"),
    lambda m: setattr(m.header, "frame_id", "base_link"),
    lambda m: setattr(m, "position", array.array("d", [1.0])),
    lambda m: setattr(m, "velocity", array.array("d", [1.0])),
    lambda m: setattr(m, "effort", array.array("d", [1.0])),
])
def test_a_changed_message_is_read_by_rclpy_once(change, typed):
    reader = JointStateReader()
    reader.read(serialize_message(joint_state()))
    message = joint_state()
    change(message)
    data = serialize_message(message)
    for _ in range(3):
        assert_read(reader.read(data), data)
    assert len(typed) == 2


def test_big_endian_messages_are_read_by_rclpy(typed):
    reader = JointStateReader()
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
    corrupt += [good[:i] + bytes([byte]) + good[i + 1:]
                for i in range(len(good)) for byte in {0, 1, 2, 127, 128, 255, good[i] ^ 1}]
    for learned in (True, False):
        reader, refused = JointStateReader(), 0
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
@given(joint_states(), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=5),
       st.integers(0), st.binary(max_size=9))
def test_several_changed_bytes(drawn, changes, cut, tail):
    message, padding = drawn
    good = cdr(message, padding=padding)[0]
    data = bytearray(good)
    for at, byte in changes:
        data[at % len(data)] = byte
    data = bytes(data[:len(data) - cut % 9] + tail)
    reader = JointStateReader()
    reader.read(good)
    try:
        fields = reader.read(data)
    except ValueError:
        with pytest.raises(Exception, match="deserialize"):
            deserialize_message(data, JointState)
    else:
        assert_read(fields, data)


@pytest.mark.parametrize("encapsulation", [
    b"\0\0\0\0", b"\0\1\0\1", b"\0\1\0\3", b"\0\1\x80\0", b"\0\2\0\0", b"\0\3\0\0",
    b"\0\6\0\0", b"\0\7\0\0", b"\1\1\0\0"])
def test_other_encapsulations_are_left_to_rclpy(encapsulation, typed):
    reader = JointStateReader()
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
        JointStateReader().read(data)


def test_memory_is_bounded(typed):
    """If a publisher never repeats its names; another one's messages remain fast in between."""
    reader = JointStateReader()
    regular = serialize_message(joint_state())
    count = 10 * MAX_LAYOUTS
    for i in range(count):
        data = serialize_message(joint_state(names=[f"joint_{i}"]))
        assert reader.read(data).name == (f"joint_{i}",)
        reader.read(regular)
        assert len(reader._layouts) <= MAX_LAYOUTS and len(reader._names) <= MAX_LAYOUTS
    assert len(typed) < 1.1 * count


def test_what_was_read_stays():
    """The arrays do not change with the next message."""
    reader = JointStateReader()
    read = [reader.read(serialize_message(joint_state(position=(i, i, i)))) for i in range(4)]
    assert [fields.position.tolist() for fields in read] == [[i] * 3 for i in range(4)]


# --- writing


def joint_state_template(draw):
    message, _ = draw(joint_states())
    return message


def inertia_template(draw):
    message = JointSpaceInertia(name=draw(st.lists(words, max_size=5)))
    message.inertia.rows = message.inertia.cols = n = len(message.name)
    message.inertia.data = array.array("d", bytes(8 * n * n))
    return message


def dynamics_template(draw):
    n = draw(st.integers(0, 5))
    message = JointSpaceDynamics(
        name=draw(st.lists(words, min_size=n, max_size=n)), velocity_valid=draw(st.booleans()),
        position_name=draw(st.lists(words, max_size=5)))
    message.position = array.array("d", bytes(8 * len(message.position_name)))
    for field in ("velocity", "gravity", "nle"):
        setattr(message, field, array.array("d", bytes(8 * draw(st.sampled_from([0, n])))))
    message.inertia.rows = message.inertia.cols = n
    message.inertia.data = array.array("d", bytes(8 * n * n))
    return message


def centroidal_template(draw):
    return CentroidalState(velocity_valid=draw(st.booleans()), rates_valid=draw(st.booleans()))


FIELDS = {
    joint_state_template: ("position", "velocity", "effort"),
    inertia_template: ("inertia.data",),
    dynamics_template: ("position", "velocity", "gravity", "nle", "inertia.data"),
    centroidal_template: (
        "mass", "com", "locked_inertia", "com_velocity", "linear_momentum",
        "angular_momentum", "com_acceleration", "linear_momentum_rate", "angular_momentum_rate"),
}


def write(message, path, values):
    """Set a field of a typed message."""
    *owners, field = path.split(".")
    for owner in owners:
        message = getattr(message, owner)
    value = getattr(message, field)
    if isinstance(value, float):
        setattr(message, field, values[0])
    elif isinstance(value, Inertia):
        (value.m, value.com.x, value.com.y, value.com.z, value.ixx, value.ixy, value.ixz, value.iyy,
         value.iyz, value.izz) = values
    elif hasattr(value, "x"):
        value.x, value.y, value.z = values
    else:
        setattr(message, field, array.array("d", values))


@pytest.mark.parametrize("make", FIELDS, ids=lambda make: make.__name__)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_writes_what_rclpy_writes(make, data):
    message = make(data.draw)
    message.header.frame_id = data.draw(st.text("ab/é", max_size=9))
    template = Template(message)
    assert_written(template.to_bytes(), message)
    for _ in range(2):
        for path in FIELDS[make]:
            numbers = template.array(path)
            assert numbers.dtype == np.float64 and numbers.ndim == 1 and numbers.flags.aligned
            values = data.draw(doubles_list(min_size=len(numbers), max_size=len(numbers)))
            numbers[:] = values
            write(message, path, values)
        stamp = data.draw(st.integers(-2**31 * 10**9, 2**31 * 10**9 - 1))
        template.set_stamp(stamp)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
        assert_written(template.to_bytes(), message)


def test_a_template_is_a_copy():
    """Of the message; and what it returned does not change."""
    message = joint_state(effort=(1.0, 2.0, 3.0))
    template = Template(message)
    first = template.to_bytes()
    assert_written(first, message)
    message.effort[0] = message.header.stamp.sec = 9
    assert template.array("effort")[0] == 1.0
    template.array("effort")[0] = 5.0
    template.set_stamp(0)
    assert_read(JointStateReader().read(first), first)
    assert deserialize_message(first, JointState).effort[0] == 1.0
    assert deserialize_message(template.to_bytes(), JointState).effort[0] == 5.0


def test_messages_within_messages():
    """Their numbers by field, or all if nothing is between them."""
    from geometry_msgs.msg import PoseWithCovarianceStamped
    message = PoseWithCovarianceStamped()
    template = Template(message)
    template.array("pose.pose")[:] = [1, 2, 3, 4, 5, 6, 7]
    template.array("pose.pose.position.y")[:] = 8
    template.array("pose.covariance")[35] = 9
    read = deserialize_message(template.to_bytes(), PoseWithCovarianceStamped)
    assert read.pose.pose.position.y == 8 and read.pose.pose.orientation.w == 7
    assert read.pose.covariance[35] == 9 and len(template.array("pose")) == 43
    assert len(Template(CentroidalState()).array("locked_inertia")) == 10


@pytest.mark.parametrize("text", ["", "a", "abcd", "abcdefgh"])
def test_a_header_after_other_fields(text):
    response = GetForwardDynamics.Response(
        message=text, acceleration=array.array("d", [1.0]))
    template = Template(response)
    template.set_stamp(-1)
    template.array("acceleration")[:] = 2.0
    response.header.stamp.sec, response.header.stamp.nanosec = -1, 10**9 - 1
    response.acceleration[0] = 2.0
    assert_written(template.to_bytes(), response)


@pytest.mark.parametrize("path", ["", "efforts", "header", "name", "effort.data", "eff"])
def test_unknown_fields_are_named(path):
    with pytest.raises(ValueError, match="sensor_msgs/JointState.*expected one of position, velo"):
        Template(joint_state()).array(path)


def test_numbers_that_are_not_contiguous():
    request = GetForwardDynamics.Request()
    request.state.position = array.array("d", [1.0])
    template = Template(request)
    assert template.array("state.position").tolist() == [1.0]
    with pytest.raises(ValueError, match="the numbers of 'state' are not contiguous; request"):
        template.array("state")


def test_stamps_that_do_not_fit():
    template = Template(joint_state())
    before = template.to_bytes()
    for stamp in (2**31 * 10**9, -2**31 * 10**9 - 1):
        with pytest.raises(ValueError, match=f"stamp of {stamp // 10**9} s; expected -2"):
            template.set_stamp(stamp)
    assert template.to_bytes() == before
    with pytest.raises(ValueError, match="dyn_ros/Matrix: no header"):
        Template(Matrix()).set_stamp(1)


def typed_array(messages, counts, rng):
    """An array with random numbers in repeated messages, and these numbers."""
    array, written = MarkerArray(), {}
    for i, (prototype, count) in enumerate(zip(messages, counts)):
        points = 3 * len(prototype.points)
        written[f"markers.{i}"] = numbers = {
            "id": rng.integers(-2**31, 2**31, (count, 1)),
            "action": rng.integers(4, size=(count, 1)),
            "pose": rng.normal(size=(count, 7)), "scale": rng.normal(size=(count, 3)),
            "color": rng.random((count, 4)).astype(np.float32)}
        if points:
            numbers["points"] = rng.normal(size=(count, points))
        for row in range(count):
            marker = deserialize_message(serialize_message(prototype), Marker)
            marker.id, marker.action = (int(numbers[name][row, 0]) for name in ("id", "action"))
            position, turn = marker.pose.position, marker.pose.orientation
            (position.x, position.y, position.z, turn.x, turn.y, turn.z,
             turn.w) = numbers["pose"][row].tolist()
            marker.scale.x, marker.scale.y, marker.scale.z = numbers["scale"][row].tolist()
            color = marker.color
            color.r, color.g, color.b, color.a = numbers["color"][row].tolist()
            for j, point in enumerate(marker.points):
                point.x, point.y, point.z = numbers["points"][row, 3 * j:3 * j + 3].tolist()
            array.markers.append(marker)
    return array, written


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(words, words, words, st.integers(0, 3), st.integers(0, 4)), max_size=4),
       st.integers(0, 2**32))
def test_repeated_messages(drawn, seed):
    """Of any alignment: markers with texts of any lengths."""
    rng = np.random.default_rng(seed)
    prototypes, counts = [], []
    for frame, ns, text, points, count in drawn:
        marker = Marker(ns=ns, text=text, type=4, points=[Point() for _ in range(points)])
        marker.header.frame_id = marker.texture.header.frame_id = frame
        marker.texture.header.stamp.sec, marker.lifetime.sec = 7, 8
        marker.frame_locked, marker.pose.position.z = True, 9.0
        prototypes.append(marker)
        counts.append(count)
    template = Template(MarkerArray(markers=prototypes), counts)
    assert deserialize_message(template.to_bytes(), MarkerArray).markers == [
        marker for marker, count in zip(prototypes, counts) for _ in range(count)]
    for _ in range(2):
        array, written = typed_array(prototypes, counts, rng)
        for path, numbers in written.items():
            for name, values in numbers.items():
                template.write(f"{path}.{name}", values)
        stamp = int(rng.integers(2**60))
        if array.markers:
            template.set_stamp(stamp)
        for marker in array.markers:
            marker.header.stamp.sec, marker.header.stamp.nanosec = divmod(stamp, 10**9)
        assert deserialize_message(template.to_bytes(), MarkerArray) == array
        assert len(template.to_bytes()) == len(serialize_message(array))


def test_wrong_writes_to_repeated_messages():
    array = MarkerArray(markers=[Marker(), Marker()])
    template = Template(array, [2, 1])
    assert template.array("markers.1.color").dtype == np.float32
    with pytest.raises(ValueError, match="MarkerArray: 'markers.0.pose' is in a message that is "
                                         "repeated 2 times; use `write`"):
        template.array("markers.0.pose")
    for path in ("markers.0.points", "markers.2", "markers.0.ns"):
        with pytest.raises(ValueError, match=f"'{path}' has no writable numbers; expected one of"):
            template.write(path, 0.0)
    with pytest.raises(ValueError, match="numbers of 'markers' are not contiguous"):
        template.write("markers", 0.0)
    with pytest.raises(ValueError, match="shape"):
        template.write("markers.0.pose", np.zeros((3, 7)))
    with pytest.raises(ValueError, match="counts: expected 2 numbers, one for each message in "
                                         "markers, but got 1"):
        Template(array, [2])
    with pytest.raises(ValueError, match="no header"):
        Template(MarkerArray(), []).set_stamp(1)


# --- over DDS


@pytest.fixture(params=["single-threaded", "events"])
def peer(request):
    """A node that exchanges bytes, and a function that spins it."""
    import rclpy
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("bytes", context=context)
    if request.param == "events":
        experimental = pytest.importorskip("rclpy.experimental")
        executor = experimental.EventsExecutor(context=context)
    else:
        executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield node, executor.spin_once
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown(context=context)


def test_bytes_reach_typed_peers_and_theirs_are_read(client, peer):
    """Bytes are published to, and received from, a node that uses typed messages."""
    node, spin = peer
    topic = f"/bytes_{time.monotonic_ns()}"
    received, answers = [], []
    answer = Template(joint_state(effort=(0, 0, 0)))
    publisher = node.create_publisher(JointState, topic + "/answer", 10)
    reader = JointStateReader()

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
        client.wait(answered, "an answer", again=functools.partial(sender.publish, message))
        data = received[-1]
        assert type(data) is bytes
        assert_read(reader.read(data), data)
        assert reader.read(data).position.tolist() == [i, 2 * i, -i]
        expected = joint_state(effort=(2 * i, 4 * i, -2 * i), stamp=(i, 10 * i))
        assert answers[-1] == expected
    client.node.destroy_publisher(sender)
    client.node.destroy_subscription(listener)
    node.destroy_subscription(raw)
