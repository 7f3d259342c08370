# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of a robot from DynamicJointState: equal to joint states with the same numbers."""

import math

import numpy as np
import pytest
from states.feeding import NOW, SECOND, serialized, serialized_interfaces

from dyn_ros.cdr.decode import DYNAMIC_JOINT_STATE, JOINT_STATE, Decoder, Raw
from dyn_ros.states.blocks import BlockCollector
from dyn_ros.states.joint_states import MAX_NAME_LISTS, Reception, Rejected
from dyn_ros.states.messages import MessageCollector

SENSORS = {
    "imu": {"orientation.x": 0.1, "angular_velocity.z": 0.2},
    "wrench": {"force.x": 1.0, "torque.x": 2.0},
    "vacuum": {"current": 3.0},
    "empty": {},
}


def message(entries, stamp, **more):
    """A serialized DynamicJointState of {entry: {interface: value}}."""
    interface_names = [list(entry) for entry in entries.values()]
    values = [list(entry.values()) for entry in entries.values()]
    return serialized_interfaces(list(entries), interface_names, values, stamp, **more)


def receive_fields(collector, entries, stamp):
    """Pass {entry: {interface: value}} to a collector, as rclpy reads it."""
    interface_names = [list(entry) for entry in entries.values()]
    values = [list(entry.values()) for entry in entries.values()]
    return collector.receive_interfaces(list(entries), interface_names, values, stamp)


def decode(decoder, messages, kind=DYNAMIC_JOINT_STATE):
    """Decode serialized messages of one topic; log times count from 0."""
    code = decoder.channel_code("/topic", kind, "cdr")
    sizes = np.array([len(data) for data in messages])
    offsets = np.cumsum(sizes) - sizes
    index = np.column_stack([np.full(len(sizes), code), np.arange(len(sizes)), offsets, sizes])
    return decoder.decode(Raw(np.frombuffer(b"".join(messages), np.uint8), index))


def random_message(rng, names, stamp):
    """Random entries with sensors between them, and what joint states would say of them."""
    entries, joints = {}, []
    for name in rng.permutation([*names, *SENSORS]).tolist():
        if name in SENSORS:
            entries[name] = SENSORS[name]
            continue
        values = dict(zip(("position", "velocity", "effort", "torque"), rng.normal(size=4)))
        joint = [name, values["position"], values["velocity"], values["torque"]]
        for k, interface in enumerate(("position", "velocity"), 1):
            if rng.random() < 0.02:
                joint[k] = values[interface] = math.nan
        if rng.random() < 0.05:
            del values["velocity"]
            joint[2] = math.nan
        if rng.random() < 0.2:
            del values["torque"]
            joint[3] = values["effort"]
        order = rng.permutation(list(values)).tolist()
        entries[name] = {"temperature": 30.0} | {
            interface: values[interface] for interface in order
        }
        joints.append(joint)
    names, *numbers = (list(column) for column in zip(*joints))
    return entries, (names, *numbers, stamp)


def snapshot(collector):
    """The state, with NaN for unknown numbers."""
    arrays = collector._arrays
    v = np.where(arrays.has_velocity[arrays.slots], arrays.v, math.nan)
    tau = np.where(arrays.has_effort, arrays.tau, math.nan)
    return np.array([*arrays.q, *v, *tau, *arrays.stamps])


@pytest.mark.parametrize("order", "<>")
def test_messages_have_the_effect_of_joint_states(arm, order):
    rng = np.random.default_rng(3)
    layouts = [random_message(rng, arm.joint_names, 0) for _ in range(5)]
    dynamic = MessageCollector(arm, message_type=DYNAMIC_JOINT_STATE)
    usual = MessageCollector(arm)
    unread, messages, equivalent = 0, [], []
    for k in range(300):
        stamp = (k + 1) * SECOND // 100
        entries, joint_states = random_message(rng, arm.joint_names, stamp)
        if k % 3:  # the names of one of a few layouts
            entries, joint_states = layouts[k % 5]
            joint_states = (*joint_states[:-1], stamp)
        data = message(entries, stamp, order=order)
        reception = dynamic.receive(data, lambda: NOW)
        if reception is Reception.UNREAD:
            unread += 1
            reception = receive_fields(dynamic, entries, stamp)
        assert reception is usual.receive_joint_states(*joint_states)
        np.testing.assert_array_equal(snapshot(dynamic), snapshot(usual))
        messages.append(data)
        equivalent.append(serialized(*joint_states))
    assert unread == (105 if order == "<" else 300)

    blocks, others = BlockCollector(arm), BlockCollector(arm)
    states = blocks.push(decode(decoder := Decoder(), messages), decoder)
    expected = others.push(decode(decoder := Decoder(), equivalent, JOINT_STATE), decoder)
    for values, expected_values in zip(states, expected):
        np.testing.assert_array_equal(values, expected_values)
    assert len(states.stamp) > 200 and blocks.unknown == {}


@pytest.mark.parametrize(
    "interfaces, effort, name",
    [
        ("position velocity effort torque force current", 3.0, "torque"),
        ("current force effort position", 1.0, "force"),
        ("current effort position", 1.0, "effort"),
        ("acceleration current position", 1.0, "current"),
        ("position acceleration", math.nan, ""),
        ("position Torque torque.x", math.nan, ""),
    ],
)
def test_the_interface_that_is_the_effort(arm, interfaces, effort, name):
    values = {interface: float(k) for k, interface in enumerate(interfaces.split())}
    entries = dict.fromkeys(arm.joint_names, values)
    collector = MessageCollector(arm, message_type=DYNAMIC_JOINT_STATE)
    assert receive_fields(collector, entries, SECOND) is Reception.NEW_STATE
    assert collector.receive(message(entries, 2 * SECOND), lambda: NOW) is Reception.NEW_STATE
    tau = np.where(collector._arrays.has_effort, collector.tau, math.nan)
    np.testing.assert_array_equal(tau, [effort] * 7)
    expected = dict.fromkeys((joint, name) for joint in arm.joint_names) if name else {}
    assert collector.effort_interfaces == expected


def test_an_entry_without_a_position_is_no_joint(arm):
    collector = MessageCollector(arm, message_type=DYNAMIC_JOINT_STATE)
    *others, last = arm.joint_names
    entries = {name: {"position": 0.5} for name in others} | {last: {"velocity": 1.0}} | SENSORS
    assert receive_fields(collector, entries, SECOND) is Reception.NO_STATE
    assert collector.missing_position() == [last] and collector.unknown == ()
    entries[last] = {"velocity": 1.0, "position": 2.0}
    assert receive_fields(collector, entries, SECOND) is Reception.NEW_STATE
    entries = {last: {"velocity": 1.0, "effort": 2.0}, "imu": {"effort": 1.0}}
    words = "no joint has the interface position; the interfaces are velocity, effort$"
    with pytest.raises(Rejected, match=words):
        receive_fields(collector, entries, SECOND)
    with pytest.raises(Rejected, match="no joint names$"):
        receive_fields(collector, {}, SECOND)


@pytest.mark.parametrize(
    "names, interface_names, values, words",
    [
        (["a", "b"], [["position"]], [[0.0]], "2 joint_names, but 1 interface_values"),
        (["a"], [["position", "effort"]], [[0.0]], "a: 2 interface_names, but 1 values"),
        (["a"], [["position"]], [[0.0, 1.0]], "a: 1 interface_names, but 2 values"),
        (["a", "a"], [["position"]] * 2, [[0.0]] * 2, "duplicate joint names: a"),
        (
            ["elbow_pitch"],
            [["position"]],
            [[math.inf]],
            "position is not finite: elbow_pitch = inf",
        ),
    ],
)
def test_what_cannot_be_used_is_rejected_and_changes_nothing(
    arm, names, interface_names, values, words
):
    collector = MessageCollector(arm, message_type=DYNAMIC_JOINT_STATE)
    receive_fields(collector, {name: {"position": 0.5} for name in arm.joint_names}, SECOND)
    before = snapshot(collector)
    data = serialized_interfaces(names, interface_names, values, 2 * SECOND)
    assert collector.receive(data, lambda: NOW) is Reception.UNREAD
    with pytest.raises(Rejected, match=words):
        collector.receive_interfaces(names, interface_names, values, 2 * SECOND)
    np.testing.assert_array_equal(snapshot(collector), before)
    decoder = Decoder()
    messages = decode(decoder, [data])
    if len(messages):
        blocks = BlockCollector(arm)
        blocks.push(messages, decoder)
        assert [note.example for note in blocks.rejected.values()] == [words]
    else:
        assert decoder.problems == {"/topic: the numbers of its names and values differ": 1}


def test_layouts_that_never_repeat_do_not_fill_the_memory(arm):
    collector = MessageCollector(arm, message_type=DYNAMIC_JOINT_STATE)
    entries = {name: {"position": 0.5} for name in arm.joint_names}
    for k in range(3 * MAX_NAME_LISTS):
        more = entries | {f"sensor{k}": {"value": 1.0}}
        assert receive_fields(collector, more, SECOND + k) is Reception.NEW_STATE
        assert len(collector._decoder.name_lists) <= MAX_NAME_LISTS
    assert collector.receive(message(more, 2 * SECOND), lambda: NOW) is Reception.NEW_STATE
    decoder = Decoder()
    messages = [message(entries | {f"sensor{k}": {}}, SECOND + k) for k in range(1100)]
    assert len(decode(decoder, messages)) == 1000
    assert decoder.problems == {"/topic: more than 1000 different lists of names": 100}


def test_no_byte_outside_a_message_is_read():
    """Every prefix of a message, and random contents, at the end of their memory."""
    rng = np.random.default_rng(4)
    entries = {name: {"position": 1.0, "torque": 2.0} for name in ("shoulder", "elbow")} | SENSORS
    whole = message(entries, SECOND)
    cases = [whole[:size] for size in range(len(whole))]
    for _ in range(1000):
        changed = bytearray(whole)
        for _ in range(3):
            changed[int(rng.integers(4, len(whole)))] = int(rng.integers(256))
        cases.append(bytes(changed))
    for is_known in (False, True):
        for case in cases:
            decoder = Decoder()
            if is_known:
                decode(decoder, [whole])
            messages = decode(decoder, [case])
            assert len(messages) + messages.failures == 1
            assert len(messages.numbers) * 8 <= len(case)
    decoder = Decoder()
    assert decode(decoder, [whole[:-1]]).failures == 1
    assert decoder.problems == {"/topic: the message is shorter than its contents": 1}


def test_bytes_between_the_strings_do_not_matter():
    decoder = Decoder()
    whole = message({"ab": {"position": 1.0, "ef": 2.0}}, SECOND)
    for string in (b"ab\0", b"position\0", b"ef\0"):
        place = whole.index(string) + len(string)
        assert whole[place] == 0
        for filler in range(256):
            changed = bytearray(whole)
            changed[place] = filler
            messages = decode(decoder, [bytes(changed)])
            assert len(messages) == 1
            np.testing.assert_array_equal(messages.numbers, [1.0, math.nan, math.nan])
    assert decoder.name_lists == [("ab",)]
