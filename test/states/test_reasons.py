# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Each reason for which a message is rejected, and its words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from states.feeding import NOW, SECOND, WAYS, Decoder, packed, serialized

from dyn_ros.states.blocks import BlockCollector
from dyn_ros.states.collector import NO_JOINTS
from dyn_ros.states.joint_states import MAX_MAGNITUDE, Reception, Rejected
from dyn_ros.states.messages import MessageCollector
from dyn_ros.states.rules import Reason

UPRIGHT = (1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
STILL = (0.0,) * 6
NAMES = ["elbow_pitch", "other", "shoulder_yaw"]
HUGE = math.nextafter(MAX_MAGNITUDE, math.inf)
MESSAGES = {
    Reason.NO_NAMES: ([], [], [], [], SECOND),
    Reason.DUPLICATE_NAMES: (["b", "a", "b", "a", "c"], [0.0] * 5, [], [], SECOND),
    Reason.LENGTHS: (NAMES, [0.0] * 3, [0.0], [0.0] * 4, SECOND),
    Reason.POSITION_NOT_FINITE: (NAMES, [HUGE, math.nan, math.inf], [], [], SECOND),
    Reason.POSITION_TOO_LARGE: (NAMES, [1.0, math.nan, -HUGE], [], [], SECOND),
    Reason.VELOCITY_NOT_FINITE: (NAMES, [0.0] * 3, [-math.inf, 0.0, HUGE], [], SECOND),
    Reason.VELOCITY_TOO_LARGE: (NAMES, [0.0] * 3, [-1e300, 0.0, 0.0], [], SECOND),
    Reason.LATE_STAMP: (NAMES, [0.0] * 3, [], [], 9 * SECOND // 10),
    Reason.POSE_NOT_FINITE: ((1.0, math.nan, HUGE, *UPRIGHT[3:]), STILL, SECOND),
    Reason.POSE_TOO_LARGE: ((*UPRIGHT[:3], -HUGE, *UPRIGHT[4:]), (math.nan,) * 6, SECOND),
    Reason.QUATERNION_NORM: ((*UPRIGHT[:6], 1.1), (math.nan,) * 6, SECOND),
    Reason.TWIST_NOT_FINITE: (UPRIGHT, (*STILL[:5], math.inf), SECOND),
    Reason.TWIST_TOO_LARGE: (UPRIGHT, (2e12, *STILL[1:]), SECOND),
    Reason.CHILD_FRAME: ((math.nan,) * 7, STILL, SECOND, "{0}"),
    Reason.UNKNOWN_POSITION: (NAMES, [0.0, 1.0, math.nan], [], [], SECOND),
    Reason.STAMP_JUMP: (NAMES, [0.0] * 3, [], [], -SECOND),
}
WORDS = {
    Reason.NO_NAMES: "no joint names",
    Reason.DUPLICATE_NAMES: "duplicate joint names: a, b",
    Reason.LENGTHS: "3 names, but 3 positions, 1 velocities and 4 efforts; expected one position "
    "for each name, and one velocity and effort for each name or none",
    Reason.POSITION_NOT_FINITE: "position is not finite: elbow_pitch = 1e+12, shoulder_yaw = inf",
    Reason.POSITION_TOO_LARGE: "position is too large: shoulder_yaw = -1e+12",
    Reason.VELOCITY_NOT_FINITE: "velocity is not finite: elbow_pitch = -inf, shoulder_yaw = 1e+12",
    Reason.VELOCITY_TOO_LARGE: "velocity is too large: elbow_pitch = -1e+300",
    Reason.LATE_STAMP: "its stamp is 0.1 s older than the last one of these joints",
    Reason.POSE_NOT_FINITE: "the base's pose is not finite: y = nan, z = 1e+12",
    Reason.POSE_TOO_LARGE: "the base's pose is too large: qx = -1e+12",
    Reason.QUATERNION_NORM: "the norm of the base's quaternion is 1.1, expected 1",
    Reason.TWIST_NOT_FINITE: "the base's twist is not finite: angular_z = inf",
    Reason.TWIST_TOO_LARGE: "the base's twist is too large: linear_x = 2e+12",
    Reason.CHILD_FRAME: "child_frame_id is '{0}', expected the root link 'base_link', whose pose "
    "and twist are needed",
    Reason.UNKNOWN_POSITION: "its position is NaN: shoulder_yaw = nan",
    Reason.STAMP_JUMP: "stamps jumped back by 2 s; discarding the collected state",
}


def test_each_reason_has_a_message_and_words():
    assert set(MESSAGES) == set(WORDS) == set(Reason)
    assert [int(reason) for reason in Reason] == list(range(len(Reason)))


@pytest.mark.parametrize(
    "way, reason",
    [
        (way, reason)
        for way in WAYS
        for reason in Reason
        if (way, reason) != ("blocks", Reason.CHILD_FRAME)  # `Blocks` has one child frame
        if reason is not Reason.UNKNOWN_POSITION  # only counted, and only in blocks
    ],
)
def test_the_words_of_a_reason(floating, way, reason):
    notices = []
    collector = WAYS[way](floating, 0.5, notify=notices.append)
    collector.receive_joint_states(NAMES, [0.0] * 3, [], [], SECOND)
    message = MESSAGES[reason]
    take = collector.receive_joint_states if len(message) == 5 else collector.receive_odometry
    if reason is Reason.STAMP_JUMP:
        take(*message)
        assert notices == [WORDS[reason]]
        return
    with pytest.raises(Rejected) as error:
        take(*message)
    assert str(error.value) == WORDS[reason] and notices == []


@pytest.mark.parametrize("reason", Reason)
def test_a_block_keeps_the_words_of_the_first_message(floating, reason):
    collector, decoder = BlockCollector(floating), Decoder()
    good = (NAMES, [0.0] * 3, [], [], SECOND)
    later = {
        Reason.LATE_STAMP: (NAMES, [0.0] * 3, [], [], SECOND // 2),
        Reason.STAMP_JUMP: (NAMES, [0.0] * 3, [], [], -9 * SECOND),
        Reason.POSITION_NOT_FINITE: (NAMES, [0.0, 0.0, math.inf], [], [], SECOND),
        Reason.TWIST_TOO_LARGE: (UPRIGHT, (0.0, 9e12, *STILL[2:]), SECOND),
    }
    message = MESSAGES[reason]
    events = [good, message[:3] if len(message) < 5 else message]
    events.append(later.get(reason, events[1]))
    messages = packed(events, decoder, log_time=40)
    if reason is Reason.CHILD_FRAME:
        decoder.child_frames = ["", "{0}"]
        messages = messages._replace(name_list=np.array([messages.name_list[0], -2, -2], np.int32))
    collector.push(messages, decoder)
    if reason is Reason.STAMP_JUMP:
        assert collector.rejected == {} and collector.resets == (2, 41, WORDS[reason])
    elif reason is Reason.UNKNOWN_POSITION:
        assert collector.rejected == {} and collector.unreported == (2, 41, WORDS[reason])
    else:
        assert collector.rejected == {reason.label: (2, 41, WORDS[reason])}
        assert collector.resets is None


@given(
    st.lists(st.sampled_from([0.0, MAX_MAGNITUDE, HUGE, -1e300, math.nan, math.inf]), max_size=15)
)
def test_unusable_numbers_are_listed_up_to_ten(numbers):
    unusable = [x for x in numbers if abs(x) > MAX_MAGNITUDE]  # NaN is unknown
    names = [f"joint_{k}" for k in range(len(numbers))]
    text = ", ".join(
        f"{name} = {x:g}" for name, x in zip(names, numbers) if abs(x) > MAX_MAGNITUDE
    ).split(", ")[:10]
    kind = "too large" if all(map(math.isfinite, unusable)) else "not finite"
    collector = BlockCollector.of_names(names)
    decoder = Decoder()
    collector.push(packed([(names, numbers, numbers, numbers, SECOND)], decoder), decoder)
    found = [note.example for note in collector.rejected.values()]
    expected = [f"position is {kind}: {', '.join(text)}"] if unusable else []
    assert found == (expected if names else ["no joint names"])


def test_without_joints_only_names_and_lengths_are_checked():
    collector = MessageCollector(NO_JOINTS)
    numbers = [math.nan] * 3
    for stamp in (5, 3, 1):
        data = serialized(NAMES, numbers, numbers, numbers, stamp)
        if collector.receive(data, lambda: NOW) is Reception.UNREAD:
            assert (
                collector.receive_joint_states(NAMES, numbers, [], [], stamp) is Reception.NO_STATE
            )
    for reason in (Reason.NO_NAMES, Reason.DUPLICATE_NAMES, Reason.LENGTHS):
        with pytest.raises(Rejected) as error:
            collector.receive_joint_states(*MESSAGES[reason])
        assert str(error.value) == WORDS[reason]


def test_a_child_frame_is_not_remembered_with_forgotten_names(floating):
    collector = MessageCollector(floating)
    with pytest.raises(Rejected, match="child_frame_id"):
        collector.receive_odometry(UPRIGHT, STILL, SECOND, "other")
    collector._reset_names()
    assert collector.receive_odometry(UPRIGHT, STILL, SECOND) is Reception.NO_STATE
    for child in ("base_link", "robot/base_link"):
        assert collector.receive_odometry(UPRIGHT, STILL, SECOND, child) is Reception.NO_STATE
    for child in ("xbase_link", "base_link/", "other"):
        with pytest.raises(Rejected, match=f"child_frame_id is '{child}'"):
            collector.receive_odometry(UPRIGHT, STILL, SECOND, child)
