# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages whose numbers are written in place, compared with those that rclpy writes."""

import array

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
from cdr.reference import assert_written, doubles_list, joint_state, joint_states, words
from geometry_msgs.msg import Inertia, Point
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from visualization_msgs.msg import Marker, MarkerArray

from dyn_ros.cdr.template import Template
from dyn_ros.msg import CentroidalState, JointSpaceDynamics, JointSpaceInertia, Matrix
from dyn_ros.srv import GetForwardDynamics


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
        name=draw(st.lists(words, min_size=n, max_size=n)),
        velocity_valid=draw(st.booleans()),
        position_name=draw(st.lists(words, max_size=5)),
    )
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
        "mass",
        "com",
        "locked_inertia",
        "com_velocity",
        "linear_momentum",
        "angular_momentum",
        "com_acceleration",
        "linear_momentum_rate",
        "angular_momentum_rate",
    ),
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
        (
            value.m,
            value.com.x,
            value.com.y,
            value.com.z,
            value.ixx,
            value.ixy,
            value.ixz,
            value.iyy,
            value.iyz,
            value.izz,
        ) = values
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
        stamp = data.draw(st.integers(-(2**31) * 10**9, 2**31 * 10**9 - 1))
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
    read = deserialize_message(first, JointState)
    assert read.effort[0] == 1.0 and read.header.stamp.sec == 1
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


def test_the_numbers_of_a_string_are_its_bytes():
    """In all repetitions of a message."""
    template = Template(MarkerArray(markers=[Marker(), Marker(text="12345", id=7)]), [1, 2])
    template.write("markers.1.text", [list(b"first"), list(b"other")])
    read = deserialize_message(template.to_bytes(), MarkerArray)
    assert [marker.text for marker in read.markers] == ["", "first", "other"]
    assert [marker.id for marker in read.markers] == [0, 7, 7]
    with pytest.raises(ValueError, match="'markers.0.text' has no writable numbers"):
        template.write("markers.0.text", [[1]])
    with pytest.raises(ValueError, match=r"'markers.0.t' has no writable numbers"):
        template.array("markers.0.t")


@pytest.mark.parametrize("text", ["", "a", "abcd", "abcdefgh"])
def test_a_header_after_other_fields(text):
    response = GetForwardDynamics.Response(message=text, acceleration=array.array("d", [1.0]))
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
    for stamp in (2**31 * 10**9, -(2**31) * 10**9 - 1):
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
            "id": rng.integers(-(2**31), 2**31, (count, 1)),
            "action": rng.integers(4, size=(count, 1)),
            "pose": rng.normal(size=(count, 7)),
            "scale": rng.normal(size=(count, 3)),
            "color": rng.random((count, 4)).astype(np.float32),
        }
        if points:
            numbers["points"] = rng.normal(size=(count, points))
        for row in range(count):
            marker = deserialize_message(serialize_message(prototype), Marker)
            marker.id, marker.action = (int(numbers[name][row, 0]) for name in ("id", "action"))
            position, turn = marker.pose.position, marker.pose.orientation
            (position.x, position.y, position.z, turn.x, turn.y, turn.z, turn.w) = numbers["pose"][
                row
            ].tolist()
            marker.scale.x, marker.scale.y, marker.scale.z = numbers["scale"][row].tolist()
            color = marker.color
            color.r, color.g, color.b, color.a = numbers["color"][row].tolist()
            for j, point in enumerate(marker.points):
                point.x, point.y, point.z = numbers["points"][row, 3 * j : 3 * j + 3].tolist()
            array.markers.append(marker)
    return array, written


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(words, words, words, st.integers(0, 3), st.integers(0, 4)), max_size=4),
    st.integers(0, 2**32),
)
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
        marker for marker, count in zip(prototypes, counts) for _ in range(count)
    ]
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
    with pytest.raises(
        ValueError,
        match="MarkerArray: 'markers.0.pose' is in a message that is repeated 2 times; use `write`",
    ):
        template.array("markers.0.pose")
    for path in ("markers.0.points", "markers.2", "markers.0.ns"):
        with pytest.raises(ValueError, match=f"'{path}' has no writable numbers; expected one of"):
            template.write(path, 0.0)
    with pytest.raises(ValueError, match="numbers of 'markers' are not contiguous"):
        template.write("markers", 0.0)
    with pytest.raises(ValueError, match="shape"):
        template.write("markers.0.pose", np.zeros((3, 7)))
    with pytest.raises(
        ValueError, match="counts: expected 2 numbers, one for each message in markers, but got 1"
    ):
        Template(array, [2])
    with pytest.raises(ValueError, match="no header"):
        Template(MarkerArray(), []).set_stamp(1)
