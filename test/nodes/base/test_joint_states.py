# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states that a node takes from their bytes have the effect of those that rclpy reads."""

import array
import functools
import struct

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")

from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from states.feeding import serialized

from dyn_ros.nodes.base import robot_node as base
from dyn_ros.states.joint_states import Reception
from dyn_ros.states.messages import MessageCollector

SECOND = 1_000_000_000


def message(names, stamp, rng, **more):
    """A serialized message with random numbers."""
    result = JointState(name=list(names))
    result.header.frame_id = more.get("frame_id", "")
    result.header.stamp.sec, result.header.stamp.nanosec = divmod(stamp, SECOND)
    for field in ("position", "velocity", "effort"):
        size = len(names) if more.get(field, field != "effort") else 0
        setattr(result, field, array.array("d", rng.normal(size=size)))
    return serialize_message(result)


def broken(data, rng):
    """A number that cannot be used, a bit that differs, the end missing, or more bytes."""
    data = bytearray(data)
    kind = rng.integers(4)
    at = int(rng.integers(8, len(data) - 8))
    if kind == 0:  # in the last velocity, if there are no efforts
        value = rng.choice([np.nan, np.inf, -np.inf, 1.1e12, -1e12, 1e12])
        data[-16:-8] = struct.pack("<d", value)
    elif kind == 1:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        return bytes(data[: -int(rng.integers(1, 80))])
    return bytes(data) + bytes(int(rng.integers(1, 9)))


def stream(joints, seed, count=400):
    """Messages of one publisher, most of them regular."""
    rng = np.random.default_rng(seed)
    stamp = 10 * SECOND
    shuffled = list(rng.permutation(joints))
    odd = {
        "again": lambda: message(joints, stamp, rng),
        "late": lambda: message(joints, stamp - 1, rng),
        "reset": lambda: message(joints, stamp - 2 * SECOND, rng),
        "unstamped": lambda: message(joints, 0, rng),
        "negative": lambda: message(joints, -5 * SECOND, rng),
        "shuffled": lambda: message(shuffled, stamp, rng),
        "part": lambda: message(joints[:3], stamp, rng),
        "more": lambda: message([*joints[1:], "other", joints[0]], stamp, rng),
        "none": lambda: message(["other"], stamp, rng),
        "frame": lambda: message(joints, stamp, rng, frame_id="world"),
        "efforts": lambda: message(joints, stamp, rng, effort=True),
        "still": lambda: message(joints, stamp, rng, velocity=False),
        "broken": lambda: broken(message(joints, stamp, rng), rng),
    }
    names = ["regular"]
    while len(names) < count:
        if rng.random() < 0.1:  # for a while; some streams have no parts, others few
            kind = rng.choice([k for k in odd if seed % 2 or k not in ("part", "none")])
            names += [kind] * int(rng.integers(1, 9))
        else:
            names += ["regular"] * int(rng.integers(1, 12))
    for name in names:
        if name not in ("late", "reset", "again"):
            stamp += int(rng.integers(0, SECOND // 100))
        if name == "reset":
            stamp -= 2 * SECOND
        yield odd[name]() if name in odd else message(joints, stamp, rng)


class Recorder:
    """Reactions of a node to messages: states, rejections, and known positions."""

    def __init__(self, node, monkeypatch):
        self.node, self.events = node, []
        monkeypatch.setattr(base, "process_state", self.process)
        monkeypatch.setattr(node, "reject", lambda what, why: self.events.append(str(why)))
        monkeypatch.setattr(type(node), "get_clock", lambda node: self)
        self.nanoseconds = 100 * SECOND  # now, for messages without a stamp

    def now(self):
        return self

    def process(self, nodes, robot, received):
        state = robot.collector.latest_state()
        self.events.append(
            (
                state.q.tolist(),
                state.raw_velocities.tolist(),
                state.stamp,
                tuple(state.unknown),
                None if state.effort is None else state.effort.tolist(),
                robot.collector.missing_position(),
            )
        )

    def receive(self, data):
        self.node.guard("joint_states", self.node.on_joint_states, data)
        known = self.node._collect_positions()
        self.events.append((self.node.report.count.messages, list(known), list(known.values())))


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("base_joint", ["fixed", "floating"])
def test_a_stream_has_the_same_effect_as_when_rclpy_reads_each_message(
    start, monkeypatch, arm, seed, base_joint
):
    taken = []
    receive = MessageCollector.receive

    def count(collector, data, now):
        reception = receive(collector, data, now)
        taken.append(reception is not Reception.UNREAD)
        return reception

    messages = list(stream(arm.joint_names, seed))  # rclpy leaves padding undefined

    def events(instead):
        node = start(root_joint=base_joint, base_source="parameter")
        with monkeypatch.context() as patch:
            patch.setattr(MessageCollector, "receive", instead)
            recorder = Recorder(node.node, patch)
            for k, data in enumerate(messages):
                if k == 40 and seed % 3 == 0:  # an output reads efforts from now on
                    node.node.robot.latest_state(0.0, {"effort"})
                recorder.receive(data)
        node.stop()
        return recorder.events

    expected = events(lambda collector, data, now: Reception.UNREAD)
    assert events(count) == expected
    assert sum(taken) > 200 and not all(taken)


@pytest.mark.parametrize(
    "before",
    [
        b"\0\0\0\0",
        b"\0\1\0\1",
        b"\0\1\0\3",
        b"\0\1\x80\0",
        b"\0\2\0\0",
        b"\0\3\0\0",
        b"\0\6\0\0",
        b"\1\1\0\0",
    ],
)
def test_other_encapsulations_are_left_to_rclpy(start, arm, before):
    node = start().node
    data = message(arm.joint_names, SECOND, np.random.default_rng(0))
    node.on_joint_states(data)
    assert node.robot.collector.receive(before + data[4:], lambda: 0) is Reception.UNREAD
    assert node.robot.collector.receive(data, lambda: 0) is Reception.NEW_STATE


def test_big_endian_messages_are_taken(start, arm):
    node = start().node
    names = list(arm.joint_names)
    data = serialized(names, range(7), range(7), [], SECOND, order=">")
    for _ in range(3):
        node.on_joint_states(data)
        assert node.robot.collector.q.tolist() == list(range(7))
        assert node._collect_positions() == dict(zip(names, range(7)))


@pytest.mark.parametrize("data", [b"", b"\0\1", b"\0\1\0\0", b"\0\1\0\0" + bytes(7), b"\xff" * 100])
def test_other_bytes_are_a_value_error(start, data):
    node = start().node
    with pytest.raises(ValueError, match=f"cannot deserialize {len(data)} bytes"):
        node.on_joint_states(data)


def test_a_new_robot_takes_its_own_joint_states(start, arm):
    node = start().node
    rng = np.random.default_rng(0)
    make = functools.partial(message, arm.joint_names, rng=rng)
    for k in range(5):
        node.on_joint_states(make(k + SECOND))
    before, positions = node.robot, node._collect_positions()
    node.receive_description(before.description.replace("arm7", "arm8"), "test")
    assert node.robot is not before and node._collect_positions() == positions
    old = before.collector.q.copy()
    for k in range(5):
        node.on_joint_states(make(k + 2 * SECOND))
    np.testing.assert_array_equal(before.collector.q, old)
    assert node.robot.collector.stamp == 2 * SECOND + 4
    assert list(node._collect_positions().values()) == node.robot.collector.q.tolist()
