# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Random streams of messages give the same states message by message and in blocks."""

import math
from pathlib import Path

import numpy as np
import pytest
from states.feeding import SECOND, Bytes, Decoder, Fields, packed

import dyn_ros
from dyn_ros.states.blocks import BlockCollector
from dyn_ros.states.joint_states import MAX_NAME_LISTS, Rejected, States

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
MIMIC = """<robot name="hand"><link name="a"/>
  <joint name="m" type="continuous"><parent link="a"/><child link="b"/></joint>
  <joint name="f" type="continuous"><parent link="b"/><child link="c"/>
    <mimic joint="m" multiplier="2"/></joint>
  <joint name="g" type="prismatic"><parent link="b"/><child link="d"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <link name="b"/><link name="c"/><link name="d"/></robot>"""


def one_by_one(model, events, staleness=0.5, base=None, collector=Fields):
    """The states from each message on its own, what was rejected, and the notices."""
    notices, rejected, states = [], [], []
    node = collector(model, staleness, base, notices.append)
    node.collect_quantities(["effort"])
    for number, event in enumerate(events):
        try:
            due = (
                node.receive_odometry(*event)
                if len(event) == 3
                else node.receive_joint_states(*event)
            )
        except Rejected as error:
            rejected.append((number, str(error)))
            continue
        if due:
            v, tau = node.v.copy(), node.tau.copy()
            arrays = node._arrays
            v[arrays.has_velocity[arrays.slots] == 0] = math.nan
            tau[arrays.has_effort == 0] = math.nan
            behind = node.stamp - int(node._reported_stamps.min())
            states.append((number, node.stamp, node.q.copy(), v, tau, behind))
    columns = list(zip(*states)) if states else [[] for _ in range(6)]
    return States(*(np.array(each) for each in columns)), rejected, notices


def in_pieces(collector, events, rng):
    """The states of the compiled collector, from several calls."""
    decoder, found, done = Decoder(), [], 0
    while done < len(events):
        size = int(rng.integers(1, len(events)))
        found.append(collector.push(packed(events[done : done + size], decoder, done), decoder))
        done += size
    return States.concatenate(found, collector.nq, collector.nv)


def require_equal(found, expected):
    assert len(found.stamp) == len(expected.stamp)
    for name, one, other in zip(States._fields, found, expected):
        if len(other):
            np.testing.assert_array_equal(one, other, name)


def require_same(model, events, rng, staleness=0.5, base=None):
    expected, rejected, notices = one_by_one(model, events, staleness, base)
    require_equal(one_by_one(model, events, staleness, base, Bytes)[0], expected)
    collector = BlockCollector(model, staleness, base)
    found = in_pieces(collector, events, rng)
    require_equal(found, expected)
    assert sum(note.messages for note in collector.rejected.values()) == len(rejected)
    texts = {text: number for number, text in reversed(rejected)}
    assert {(note.first, note.example) for note in collector.rejected.values()} <= {
        (number, text) for text, number in texts.items()
    }
    assert (collector.resets.messages if collector.resets else 0) == len(notices)
    if notices:
        assert collector.resets.example == notices[0]
    return expected, rejected, notices


def numbers(rng, count):
    values = rng.normal(size=count)
    if rng.random() < 0.03:
        values[rng.integers(count)] = rng.choice([math.nan, math.inf, 1e13, -1e300])
    return values.tolist()


def publishers(rng, names):
    """Lists of names: all, a partition, overlapping subsets, and names of another robot."""
    names = list(rng.permutation(names))
    cut = int(rng.integers(1, len(names))) if len(names) > 1 else 1
    some = [names, names[:cut], names[cut:], [*names[:cut], "foreign"], ["foreign", "other"]]
    chosen = [each for each in some if each and rng.random() < 0.6] or [names]
    return [tuple(map(str, rng.permutation(each))) for each in chosen]


def joint_states(rng, names, stamp):
    count = max(len(names) - int(rng.random() < 0.01), 0)
    velocity = numbers(rng, count) if count and rng.random() < 0.95 else []
    effort = numbers(rng, count) if count and rng.random() < 0.9 else []
    if rng.random() < 0.01:
        velocity = [*velocity, 1.0]
    return names, numbers(rng, count) if count else [], velocity, effort, stamp


def odometry(rng, stamp):
    rotation = rng.normal(size=4)
    rotation /= np.linalg.norm(rotation) * (1.0 + 5e-4 * rng.normal())
    return [*numbers(rng, 3), *rotation.tolist()], numbers(rng, 6), stamp


def stream(rng, names, count, moving):
    """Messages of several publishers whose stamps are late, repeated, or jump."""
    sources = publishers(rng, names)
    now, events = int(rng.integers(1, 1 << 40)), []
    for _ in range(count):
        now += int(rng.choice([0, 1_000_000, 5_000_000, 400 * 1_000_000], p=[0.2, 0.6, 0.19, 0.01]))
        if rng.random() < 0.005:
            now += int(rng.choice([-20, -1, 1, 20])) * SECOND
        stamp = now - int(rng.random() < 0.05) * int(rng.integers(SECOND))
        if moving and rng.random() < 0.3:
            events.append(odometry(rng, stamp))
            continue
        chosen = sources[int(rng.integers(len(sources)))]
        if rng.random() < 0.01:
            chosen = () if rng.random() < 0.5 else (*chosen, chosen[0])
        events.append(joint_states(rng, chosen, stamp))
    return events


@pytest.fixture(scope="module")
def planar():
    return dyn_ros.Model.from_urdf_file(ARM7, root_joint="planar")


@pytest.mark.parametrize("seed", range(40))
def test_random_streams_of_an_arm(arm, seed):
    rng = np.random.default_rng(seed)
    require_same(
        arm, stream(rng, arm.joint_names, 400, False), rng, float(rng.choice([0.5, 0.004, 5.0]))
    )


@pytest.mark.parametrize("root_joint", ["floating", "planar"])
@pytest.mark.parametrize("seed", range(20))
def test_random_streams_of_a_moving_base(floating, planar, root_joint, seed):
    model = floating if root_joint == "floating" else planar
    rng = np.random.default_rng(seed)
    names = [*model.joint_names[1:], *(["root_joint"] if seed % 2 else [])]
    require_same(model, stream(rng, names, 400, True), rng)


@pytest.mark.parametrize("seed", range(5))
def test_random_streams_with_a_constant_base(floating, seed):
    rng = np.random.default_rng(seed)
    base = [1.0, 2.0, 3.0, 0.6001, 0.0, 0.0, 0.8], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    require_same(floating, stream(rng, floating.joint_names[1:], 300, True), rng, 0.5, base)


@pytest.mark.parametrize("seed", range(10))
def test_random_streams_with_mimic_joints(seed):
    rng = np.random.default_rng(seed)
    model = dyn_ros.Model.from_urdf(MIMIC)
    require_same(model, stream(rng, ["m", "f", "g"], 300, False), rng)


def test_the_random_streams_contain_everything(arm, floating):
    """Every reason occurs, states are due, and stamps jump back."""
    reasons, resets, states = set(), 0, 0
    for model, moving in ((arm, False), (floating, True)):
        for seed in range(15):
            rng = np.random.default_rng(seed)
            names = model.joint_names[1:] if moving else model.joint_names
            collector = BlockCollector(model)
            states += len(in_pieces(collector, stream(rng, names, 400, moving), rng).stamp)
            reasons |= collector.rejected.keys()
            resets += collector.resets.messages if collector.resets else 0
    assert len(reasons) == 11  # all but a wrong child_frame_id
    assert resets > 10 and states > 1000


def test_names_that_never_repeat_are_forgotten_as_in_a_node(arm):
    rng = np.random.default_rng(0)
    events = [
        joint_states(rng, (*arm.joint_names[: 4 + k % 4], f"other{k}"), k * 1_000_000)
        for k in range(2 * MAX_NAME_LISTS + 300)
    ]
    events += [joint_states(rng, events[k][0], (9000 + k) * 1_000_000) for k in range(300)]
    require_same(arm, events, rng)


def test_another_decoder_is_another_order_of_name_lists(arm):
    rng = np.random.default_rng(3)
    events = stream(rng, arm.joint_names, 400, False)
    expected, _, _ = one_by_one(arm, events)
    collector = BlockCollector(arm)
    found = []
    for start in range(0, 400, 50):
        decoder = Decoder()
        found.append(collector.push(packed(events[start : start + 50], decoder, start), decoder))
    found = States.concatenate(found, arm.nq, arm.nv)
    np.testing.assert_array_equal(found.q, expected.q)
    np.testing.assert_array_equal(found.log_time, expected.log_time)


def test_odometry_of_another_link_is_rejected(floating):
    collector, decoder = BlockCollector(floating), Decoder()
    decoder.child_frames = [
        "",
        "other",
        "robot/base_link",
        next(f.name for f in floating.tree.frames if f.kind == "body"),
    ]
    event = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0] * 6, SECOND
    messages = packed([event] * 3, decoder)
    messages = messages._replace(name_list=np.array([-1, -2, -4], np.int32))
    collector.push(messages, decoder)
    (note,) = collector.rejected.values()
    assert (note.messages, note.first) == (1, 1)
    assert note.example.startswith("child_frame_id is 'other', expected the root link")


def test_names_without_a_model():
    collector, decoder = BlockCollector.of_names(["b", "a"]), Decoder()
    found = collector.push(
        packed([(["a", "b", "c"], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [], 7)], decoder), decoder
    )
    assert found.q.tolist() == [[2.0, 1.0]]
    assert found.v.tolist() == [[5.0, 4.0]]
    assert np.isnan(found.tau).all()
    assert list(collector.unknown) == ["c"]


@pytest.mark.parametrize(
    "field, value",
    [
        ("start", [-1]),
        ("start", [15]),
        ("name_list", [1]),
        ("counts", [[7, 7, 8]]),
        ("counts", [[-1, 7, 7]]),
    ],
)
def test_messages_outside_of_their_numbers_are_an_error(arm, field, value):
    decoder = Decoder()
    messages = packed([(arm.joint_names, [0.0] * 7, [0.0] * 7, [0.0] * 7, 1)], decoder)
    array = np.array(value, getattr(messages, field).dtype)
    with pytest.raises(ValueError, match="within the numbers"):
        BlockCollector(arm).push(messages._replace(**{field: array}), decoder)
