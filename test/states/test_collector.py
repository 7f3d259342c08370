# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of a robot from messages: by their fields, by their bytes, and in blocks."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from states.feeding import SECOND, WAYS, Bytes, Fields, serialized

import dyn_ros
from dyn_ros.states import memory as mem
from dyn_ros.states.joint_states import MAX_MAGNITUDE, MAX_NAME_LISTS, Reception, Rejected
from dyn_ros.states.messages import MessageCollector

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
UPRIGHT = (1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
TWIST = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
PLACES = {name: k for k, name in enumerate(dyn_ros.Model.from_urdf_file(ARM7).joint_names)}


@pytest.fixture(params=WAYS)
def make(request):
    """Makes a collector that is fed in one of the three ways."""
    return WAYS[request.param]


@pytest.fixture
def collector(make, arm):
    return make(arm, 0.5)


def feed(collector, names, seconds, velocity=True):
    """Each joint's position is the seconds plus its place in the model; velocity ten times that."""
    position = [seconds + PLACES.get(name, 99) for name in names]
    velocities = [10.0 * each for each in position] if velocity else []
    return collector.receive_joint_states(names, position, velocities, [], round(seconds * SECOND))


def test_every_order_of_names_gives_the_models(collector, arm):
    rng = np.random.default_rng(1)
    for seconds in range(1, 30):
        names = list(rng.permutation([*arm.joint_names, "other", "another"]))
        assert feed(collector, names, seconds)
        np.testing.assert_array_equal(collector.q, seconds + np.arange(7.0))
        np.testing.assert_array_equal(collector.v, 10.0 * collector.q)
        assert collector.stamp == seconds * SECOND
        assert collector.velocity_known
    assert set(collector.unknown) == {"other", "another"}


def due(collector, events):
    """Of (names, seconds) in turn: which made a state due."""
    return [feed(collector, names, seconds) for names, seconds in events]


def test_parts_of_one_rate_are_due_when_each_round_ends(collector, arm):
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    rounds = [(part, 1.0 + 0.1 * i) for i in range(5) for part in (a, b)]
    assert due(collector, rounds) == [False, True] * 5


def test_a_slow_part_does_not_slow_the_fast_one(collector, arm):
    fast, slow = arm.joint_names[:3], arm.joint_names[3:]
    due(collector, [(fast, 1.0), (slow, 1.0)])
    events = [(slow if i % 10 == 9 else fast, 1.0 + 0.01 * i) for i in range(1, 100)]
    answers = due(collector, events)
    assert answers[0] is False  # it waits once for the slow publisher
    assert sum(answers) == sum(names == fast for names, _ in events)


def test_a_part_that_fell_silent_is_not_waited_for(collector, arm):
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    due(collector, [(arm.joint_names, 1.0)])
    assert due(collector, [(a, 2.0), (b, 2.0), (a, 2.1), (b, 2.1)]) == [False, True, False, True]


def test_a_whole_state_is_always_due(collector, arm):
    events = [
        (arm.joint_names, 1.0),
        (arm.joint_names[:2], 1.01),
        (arm.joint_names, 1.02),
        (arm.joint_names[:2], 1.03),
        (arm.joint_names, 1.04),
    ]
    assert due(collector, events) == [True, False, True, False, True]
    assert collector.q[0] == 1.04


def test_staleness_is_a_difference_of_stamps(collector, arm):
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    assert collector.missing_position() == list(arm.joint_names)
    due(collector, [(a, 1.0)])
    assert collector.missing_position() == list(b)
    assert due(collector, [(b, 1.6)]) == [False]
    assert collector.missing_position() == list(a)
    assert due(collector, [(a, 1.1)]) == [True]  # 0.5 s behind: within staleness
    assert collector.missing_position() == []
    assert collector.stamp == round(1.6 * SECOND)


@pytest.mark.parametrize("more, answers", [(0, [False, False]), (1, [False, True])])
def test_a_part_is_waited_for_until_it_is_more_than_staleness_behind(collector, arm, more, answers):
    """The whole state of 1.0 s is a part too; another publisher reports two halves later."""
    feed(collector, arm.joint_names, 1.0)
    later = 1.5 + more / SECOND
    assert due(collector, [(arm.joint_names[:3], later), (arm.joint_names[3:], later)]) == answers
    assert collector.stamp == 3 * SECOND // 2 + more


@pytest.mark.parametrize("more, behind", [(0, False), (1, True)])
def test_a_joint_is_missing_if_it_is_more_than_staleness_behind(collector, arm, more, behind):
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    assert due(collector, [(a, 1.0), (b, 1.5 + more / SECOND)]) == [False, not behind]
    assert collector.complete is not behind
    assert collector.missing_position() == (list(a) if behind else [])


def test_velocity_is_unknown_until_every_joint_reports_it(collector, arm):
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    feed(collector, a, 1.0)
    assert feed(collector, b, 1.0, velocity=False)
    assert not collector.velocity_known
    assert collector.missing_velocity() == list(b)
    feed(collector, a, 1.1)
    assert feed(collector, b, 1.1)
    assert collector.velocity_known
    feed(collector, a, 1.2, velocity=False)
    assert feed(collector, b, 1.2)
    assert collector.missing_velocity() == list(a)


def test_a_velocity_that_is_nan_is_unknown(collector, arm):
    nan, names = math.nan, list(arm.joint_names)
    collector.collect_quantities(["effort"])
    position, effort = [0.1 * k for k in range(7)], [1.0] * 7
    velocity = [nan, 0.2, *[0.3] * 5]
    assert collector.receive_joint_states(names, position, velocity, effort, SECOND)
    assert collector.complete and collector.q.tolist() == position
    assert not collector.velocity_known and collector.missing_velocity() == names[:1]
    assert collector.effort_known and collector.nan_positions() == []
    assert collector.receive_joint_states(names, position, [nan] * 7, [nan] * 7, 2 * SECOND)
    assert collector.missing_velocity() == names and not collector.effort_known
    assert collector.receive_joint_states(names, position, [0.0] * 7, effort, 3 * SECOND)
    assert collector.velocity_known and collector.effort_known


def test_a_joint_whose_position_is_nan_is_not_reported(collector, arm):
    """Another publisher may report it, as the driver of a gripper does."""
    nan, names = math.nan, list(arm.joint_names)
    others, last = [0.1] * 6, names[6:]
    assert not collector.receive_joint_states(names, [*others, nan], [0.0] * 7, [], SECOND)
    assert not collector.complete and collector.missing_position() == last
    assert collector.nan_positions() == last
    assert collector.receive_joint_states(last, [0.5], [0.6], [], SECOND + 1)
    assert collector.complete and collector.q.tolist() == [*others, 0.5]
    for k in range(1, 4):
        stamp = SECOND + 100 * k
        reports = [
            collector.receive_joint_states(names, [*others, nan], [0.0] * 6 + [9.0], [], stamp),
            collector.receive_joint_states(last, [0.1 * k], [0.6], [], stamp + 1),
        ]
        assert reports == [False, True]
        assert collector.q[6] == 0.1 * k and collector.v[6] == 0.6 and collector.velocity_known
    stamp = 3 * SECOND  # later than staleness allows
    assert not collector.receive_joint_states(names, [*others, nan], [], [], stamp)
    assert collector.missing_position() == last


def test_a_message_without_any_position_reports_nothing(collector, arm):
    feed(collector, arm.joint_names, 1.0)
    q, v = collector.q.copy(), collector.v.copy()
    assert not collector.receive_joint_states(
        arm.joint_names, [math.nan] * 7, [1.0] * 7, [], 2 * SECOND
    )
    assert collector.complete and collector.stamp == SECOND
    assert np.array_equal(collector.q, q) and np.array_equal(collector.v, v)
    assert collector.nan_positions() == list(arm.joint_names)


@pytest.mark.parametrize(
    "names, position, velocity, effort, why",
    [
        ([], [], [], [], "no joint names"),
        (["shoulder_yaw"] * 2, [0.0] * 2, [], [], "duplicate joint names: shoulder_yaw"),
        (["other", "other"], [0.0] * 2, [], [], "duplicate joint names: other"),
        (["shoulder_yaw"], [], [], [], "1 names, but 0 positions"),
        (["shoulder_yaw"], [0.0], [0.0, 1.0], [], "2 velocities"),
        (["shoulder_yaw"], [0.0], [], [0.0, 1.0], "2 efforts"),
        (["shoulder_yaw", "elbow_pitch"], [0.0, -math.inf], [], [], "elbow_pitch = -inf"),
        (["shoulder_yaw", "elbow_pitch"], [math.inf, -math.inf], [], [], "shoulder_yaw = inf"),
        (["shoulder_yaw"], [0.0], [math.inf], [], "velocity is not finite: shoulder_yaw = inf"),
        (
            ["shoulder_yaw", "elbow_pitch"],
            [0.0, -1e13],
            [],
            [],
            r"position is too large: elbow_pitch = -1e\+13",
        ),
        (
            ["shoulder_yaw"],
            [0.0],
            [1.7e308],
            [],
            r"velocity is too large: shoulder_yaw = 1.7e\+308",
        ),
        (
            ["shoulder_yaw", "elbow_pitch"],
            [math.inf, 1e300],
            [],
            [],
            r"position is not finite: shoulder_yaw = inf, elbow_pitch = 1e\+300",
        ),
    ],
)
def test_what_cannot_be_used_is_rejected_and_changes_nothing(
    collector, arm, names, position, velocity, effort, why
):
    feed(collector, arm.joint_names, 1.0)
    q, v = collector.q.copy(), collector.v.copy()
    with pytest.raises(Rejected, match=why):
        collector.receive_joint_states(names, position, velocity, effort, 2 * SECOND)
    np.testing.assert_array_equal(collector.q, q)
    np.testing.assert_array_equal(collector.v, v)
    assert collector.stamp == SECOND and collector.velocity_known
    assert feed(collector, arm.joint_names, 1.1)


def test_a_hundred_thousand_equal_names_do_not_stop_the_node(collector):
    with pytest.raises(Rejected, match="duplicate joint names: shoulder_yaw$"):
        collector.receive_joint_states(["shoulder_yaw"] * 100_000, [0.0] * 100_000, [], [], SECOND)


def test_a_base_by_parameter_alone_is_a_state():
    model = dyn_ros.Model.from_urdf('<robot name="r"><link name="a"/></robot>', "floating")
    base = [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0], [0.5] * 6
    alone = MessageCollector(model, 0.5, base)
    assert alone.constant and alone.complete and alone.velocity_known
    assert not alone.missing_position() and not alone.missing_velocity()
    waiting = MessageCollector(model, 0.5)
    assert not (waiting.constant or waiting.complete or waiting.velocity_known)


def test_values_of_unknown_joints_are_not_looked_at(collector, arm):
    names = [*arm.joint_names, "other"]
    assert collector.receive_joint_states(
        names, [0.0] * 7 + [math.nan], [0.0] * 7 + [math.inf], [], SECOND
    )
    assert not collector.receive_joint_states(["other"], [math.nan], [], [], 2 * SECOND)


def test_of_the_largest_numbers_that_are_taken_results_are_finite(collector, arm):
    largest = [MAX_MAGNITUDE] * 7
    assert collector.receive_joint_states(list(arm.joint_names), largest, largest, [], SECOND)
    data = dyn_ros.Data(arm)
    assert np.isfinite(dyn_ros.nonlinear_effects(arm, data, collector.q, collector.v)).all()
    assert np.isfinite(dyn_ros.crba(arm, data, collector.q)).all()


def test_stamps_that_run_backwards(make, arm):
    notices = []
    collector = make(arm, 0.5, notify=notices.append)
    feed(collector, arm.joint_names, 100.0)
    with pytest.raises(Rejected, match="its stamp is 0.4 s older"):
        feed(collector, arm.joint_names, 99.6)
    assert collector.q[0] == 100.0 and not notices
    assert not feed(collector, arm.joint_names[:3], 1.0) or pytest.fail("half a state")
    assert not notices  # the first message of another publisher is not out of order
    assert feed(collector, arm.joint_names, 2.0)
    assert notices == ["stamps jumped back by 98 s; discarding the collected state"]
    assert collector.stamp == 2 * SECOND


@pytest.mark.parametrize("velocity", [True, False])
def test_a_message_that_comes_too_late_changes_nothing(collector, arm, velocity):
    collector.collect_quantities(["effort"])
    names, numbers = list(arm.joint_names), np.arange(7.0)
    collector.receive_joint_states(names, numbers, 2.0 * numbers, 3.0 * numbers, SECOND)
    with pytest.raises(Rejected, match="its stamp is 0.1 s older"):
        collector.receive_joint_states(
            names, numbers + 9.0, numbers + 9.0 if velocity else [], numbers + 9.0, 9 * SECOND // 10
        )
    np.testing.assert_array_equal(collector.q, numbers)
    np.testing.assert_array_equal(collector.v, 2.0 * numbers)
    np.testing.assert_array_equal(collector.tau, 3.0 * numbers)
    assert collector.stamp == SECOND
    assert collector.complete and collector.velocity_known and not collector.missing_velocity()


def test_odometry_that_comes_too_late_changes_nothing(make, floating):
    collector = make(floating, 0.5)
    collector.receive_odometry(UPRIGHT, TWIST, SECOND)
    with pytest.raises(Rejected, match="its stamp is 0.1 s older"):
        collector.receive_odometry((9.0, 9.0, 9.0, 1.0, 0.0, 0.0, 0.0), [9.0] * 6, 9 * SECOND // 10)
    np.testing.assert_array_equal(collector.q[:7], UPRIGHT)
    np.testing.assert_array_equal(collector.v[:6], TWIST)
    assert collector.stamp == SECOND


def test_only_a_jump_back_by_more_than_staleness_discards_the_state(make, arm):
    notices = []
    collector = make(arm, 0.5, notify=notices.append)
    feed(collector, arm.joint_names, 1.5)
    with pytest.raises(Rejected, match="its stamp is 0.5 s older"):
        feed(collector, arm.joint_names, 1.0)
    assert not notices and collector.stamp == 3 * SECOND // 2
    assert feed(collector, arm.joint_names, 1.0 - 1.0 / SECOND)
    assert len(notices) == 1 and collector.stamp == SECOND - 1


def test_after_a_jump_back_a_state_is_due_when_each_round_ends(make, arm):
    notices = []
    collector = make(arm, 0.5, notify=notices.append)
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    assert due(collector, [(a, 100.0), (b, 100.0), (a, 100.1)]) == [False, True, False]
    assert due(collector, [(a, 1.0)]) == [False]
    assert collector.missing_position() == list(b) and not collector.complete
    assert due(collector, [(b, 1.0), (a, 1.1), (b, 1.1)]) == [True, False, True]
    assert len(notices) == 1
    assert collector.stamp == round(1.1 * SECOND)


def test_names_that_never_repeat_do_not_fill_the_memory(collector, arm):
    for i in range(3 * MAX_NAME_LISTS):
        assert feed(collector, [*arm.joint_names, f"other{i}"], 1.0 + i)
    assert len(collector._described_names) <= MAX_NAME_LISTS


def test_a_floating_base_waits_for_odometry(make, floating):
    collector = make(floating, 0.5)
    assert not feed(collector, floating.joint_names[1:], 1.0)
    assert collector.missing_position() == ["root_joint"]
    assert collector.receive_odometry(UPRIGHT, TWIST, SECOND)
    np.testing.assert_array_equal(collector.q[:7], UPRIGHT)
    np.testing.assert_array_equal(collector.v[:6], TWIST)
    assert not feed(collector, [*floating.joint_names[1:], "root_joint"], 1.1)
    assert "root_joint" in collector.unknown
    assert collector.receive_odometry(UPRIGHT, TWIST, round(1.1 * SECOND))


def test_a_base_by_parameter_needs_no_odometry(make, floating):
    collector = make(floating, 0.5, base=(UPRIGHT, TWIST))
    assert collector.missing_position() == list(floating.joint_names[1:])
    assert not collector.receive_odometry((9.0,) * 7, TWIST, SECOND)
    assert feed(collector, floating.joint_names[1:], 1.0)
    np.testing.assert_array_equal(collector.q[:7], UPRIGHT)
    np.testing.assert_array_equal(collector.v[:6], TWIST)
    assert collector.velocity_known and collector.stamp == SECOND


def test_a_quaternion_is_made_unit(make, floating):
    collector = make(floating, 0.5)
    collector.receive_odometry((0.0, 0.0, 0.0, 0.6001, 0.0, 0.0, 0.8), TWIST, SECOND)
    assert math.isclose(np.linalg.norm(collector.q[3:7]), 1.0, rel_tol=1e-15)


@pytest.mark.parametrize(
    "pose, twist, why",
    [
        ((math.nan, *UPRIGHT[1:]), TWIST, "the base's pose is not finite: x = nan$"),
        (UPRIGHT, (*TWIST[:5], math.inf), "the base's twist is not finite: angular_z = inf$"),
        ((1e300, *UPRIGHT[1:]), TWIST, r"the base's pose is too large: x = 1e\+300$"),
        (UPRIGHT, (*TWIST[:5], -1e300), r"the base's twist is too large: angular_z = -1e\+300$"),
        ((0.0,) * 7, TWIST, "norm of the base's quaternion is 0"),
    ],
)
def test_a_base_that_cannot_be_used_is_rejected(make, floating, pose, twist, why):
    collector = make(floating, 0.5)
    with pytest.raises(Rejected, match=why):
        collector.receive_odometry(pose, twist, SECOND)
    assert "root_joint" in collector.missing_position()
    with pytest.raises(Rejected, match=why):
        make(floating, 0.5, base=(pose, twist))


@pytest.mark.parametrize("root_joint, used", [("floating", range(6)), ("planar", [0, 1, 5])])
def test_a_twist_that_is_nan_is_an_unknown_velocity_of_the_base(make, root_joint, used):
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint=root_joint)
    collector, names = make(model, 0.5), model.joint_names[1:]
    for k in range(6):
        assert not feed(collector, names, 1.0 + 0.1 * k)
        twist = (*TWIST[:k], math.nan, *TWIST[k + 1 :])
        assert collector.receive_odometry(UPRIGHT, twist, SECOND + k * SECOND // 10)
        assert collector.complete and collector.velocity_known == (k not in used)
        assert collector.missing_velocity() == (["root_joint"] if k in used else [])
    with pytest.raises(Rejected, match="the base's twist is not finite: angular_z = nan$"):
        make(model, 0.5, base=(UPRIGHT, (*TWIST[:5], math.nan)))
    assert not feed(collector, names, 1.6)
    assert collector.receive_odometry(UPRIGHT, TWIST, SECOND + 6 * SECOND // 10)
    assert collector.velocity_known


def test_a_planar_base_takes_the_turn_about_z(make):
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="planar")
    yaw = -2.5
    pose = (1.0, 2.0, 9.0, 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
    collector = make(model, 0.5, base=(pose, TWIST))
    np.testing.assert_allclose(collector.q[:3], [1.0, 2.0, yaw], rtol=1e-15)
    np.testing.assert_array_equal(collector.v[:3], [0.1, 0.2, 0.6])


@pytest.mark.parametrize("tilt", [(0.3, -0.2), (-0.4, 0.5), (0.0, 1.0), (1.2, 0.0)])
def test_a_tilted_planar_base_takes_the_heading_of_its_x_axis(make, tilt):
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="planar")
    rotation = Rotation.from_euler("ZYX", [0.7, *tilt])
    collector = make(model, 0.5, base=((1.0, 2.0, 9.0, *rotation.as_quat()), TWIST))
    np.testing.assert_allclose(collector.q[2], 0.7, rtol=1e-14)
    x, y, _ = rotation.apply([1.0, 0.0, 0.0])
    np.testing.assert_allclose(collector.q[2], math.atan2(y, x), rtol=1e-14)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_norm_of_a_quaternion_may_be_off_by_a_thousandth(make, floating, sign):
    collector = make(floating, 0.5)
    collector.receive_odometry((*UPRIGHT[:6], 1.0 + sign * 0.99e-3), TWIST, SECOND)
    np.testing.assert_array_equal(collector.q[:7], UPRIGHT)
    with pytest.raises(Rejected, match="norm of the base's quaternion is (1.00101|0.99899)"):
        collector.receive_odometry((*UPRIGHT[:6], 1.0 + sign * 1.01e-3), TWIST, 2 * SECOND)
    assert collector.stamp == SECOND


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("huge", [1e13, 1e155, 1e308, -1.7e308])
@pytest.mark.parametrize("all_of_them", [False, True])
def test_numbers_near_the_largest_are_rejected_without_a_warning(
    make, arm, floating, huge, all_of_them
):
    names = list(arm.joint_names)
    bad = [huge] * len(names) if all_of_them else [huge, *[0.0] * (len(names) - 1)]
    zeros = [0.0] * len(names)
    collector = make(arm, 0.5)
    collector.collect_quantities(["effort", "acceleration"])
    for position, velocity in ((bad, zeros), (zeros, bad), (bad, [])):
        with pytest.raises(Rejected, match="too large|expected|at most"):
            collector.receive_joint_states(names, position, velocity, [], SECOND)
    assert collector.receive_joint_states(
        names, zeros, zeros, bad, SECOND
    )  # an effort is unknown then
    assert not collector.effort_known
    based = make(floating, 0.5)
    for pose, twist in (
        ((huge, *UPRIGHT[1:]), TWIST),
        ((*UPRIGHT[:3], huge, *UPRIGHT[4:]), TWIST),
        ((*UPRIGHT[:3], *[huge] * 4), TWIST),
        (UPRIGHT, (huge, *TWIST[1:])),
        (UPRIGHT, [huge] * 6),
    ):
        with pytest.raises(Rejected):
            based.receive_odometry(pose, twist, SECOND)


def test_stamps_may_be_negative(collector, arm):
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    assert due(collector, [(a, -0.2), (b, -0.2), (a, -0.1), (b, -0.1)]) == [False, True] * 2
    assert collector.stamp == -SECOND // 10 and collector.complete
    assert due(collector, [(a, 0.1), (b, 0.1)]) == [False, True]


def test_bytes_are_read_once_their_names_are_known(arm):
    collector = Bytes(arm, 0.5)
    names = list(arm.joint_names)
    for k in range(3):
        for some in (names, names[:3], names[::-1], [*names, "ä"]):
            collector.receive_joint_states(some, np.ones(len(some)), [], [], SECOND + k)
    assert collector.unread == 4


def test_bytes_of_names_that_never_repeat_are_forgotten(arm):
    collector = Bytes(arm, 0.5)
    for i in range(3 * MAX_NAME_LISTS):
        assert feed(collector, [*arm.joint_names, f"other{i}"], 1.0 + i)
        assert len(collector._decoder.name_lists) <= MAX_NAME_LISTS
        assert collector._scalars[mem.LATEST_LIST] < len(collector._decoder.string_lists)


def test_bytes_without_a_stamp_get_the_time_of_reception(arm):
    collector = Fields(arm, 0.5)
    feed(collector, arm.joint_names, -1.0)
    data = serialized(list(arm.joint_names), [1.0] * 7, [], [], 0)
    for now in (-5, 0, 7):
        assert collector.receive(data, lambda now=now: now) is Reception.NEW_STATE
        assert collector.stamp == now
