# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Positions that change faster than joints can move are found, and motions are not."""

import math

import numpy as np
import pytest
from states.feeding import SECOND, WAYS, Bytes, Fields

import dyn_ros
from dyn_ros.states import jumps
from dyn_ros.states.joint_states import Rejected
from dyn_ros.states.jump_kernel import STAMP_ERROR
from dyn_ros.states.jumps import PositionJumps, smallest_jumps, turning_joints

POSE = np.array([0.4, -0.6, 0.9, -1.2, 1.5, 0.8, -0.7])
START = 1000 * SECOND
TURN = 2.0 * math.pi


def robot_text(joints):
    """A chain of joints, each as attributes of `joint` and its further elements."""
    links = "".join(f'<link name="l{k}"/>' for k in range(len(joints) + 1))
    chain = "".join(
        f'<joint name="j{k}" {attributes}><parent link="l{k}"/><child link="l{k + 1}"/>{more}'
        "</joint>"
        for k, (attributes, more) in enumerate(joints)
    )
    return f'<robot name="chain">{links}{chain}</robot>'


class Listener:
    """A collector of the arm, and what its jumps log."""

    def __init__(self, model, way=Bytes):
        self.logged, self.names, self.notices = [], list(model.joint_names), []
        self.jumps = PositionJumps(
            lambda key, text: self.logged.append(text), lambda: "/a and /b publish it"
        )
        self.collector = way(model, 0.5, None, self.notices.append)
        self.collector.jumps = self.jumps

    def hear(self, seconds, position, velocity=(), names=None):
        stamp = START + round(seconds * SECOND)
        names = names or self.names
        return self.collector.receive_joint_states(
            names, list(map(float, position)), list(map(float, velocity)), [], stamp
        )

    def hear_all(self, times, positions):
        for seconds, position in zip(times, positions):
            self.hear(seconds, position)


@pytest.fixture(params=["fields", "bytes"])
def listener(request, arm):
    return Listener(arm, WAYS[request.param])


def moved(joint, step):
    """The pose after a step of one joint."""
    pose = POSE.copy()
    pose[joint] += step
    return pose


# Jumps


@pytest.mark.parametrize("rows", [1, 5])
def test_a_glitch_of_an_encoder_names_joint_stamp_and_positions(listener, rows):
    noise = 1e-4 * np.random.default_rng(0).normal(size=(60, 7))
    poses = POSE + noise
    poses[:, 3] = POSE[3]
    poses[20 : 20 + rows, 3] += 0.5
    listener.hear_all(0.005 * np.arange(60), poses)
    assert listener.jumps.count == 2  # and back
    assert len(listener.logged) == 1
    assert (
        "the position of elbow_pitch jumped from -1.2 to -0.7 at 1000.100000000 s, faster than it "
        "can move; check its encoder"
    ) in listener.logged[0]
    assert listener.jumps.fault() == listener.logged[0]
    assert not listener.jumps.alternates


def test_a_position_elsewhere_jumps_once(listener):
    listener.hear_all(0.01 * np.arange(20), [POSE] * 20)
    listener.hear_all(0.2 + 0.01 * np.arange(20), [moved(1, -0.8)] * 20)
    assert listener.jumps.count == 1


def test_after_a_gap_a_joint_may_be_anywhere_it_can_reach(listener, arm):
    reach = 0.2 * arm.velocity_limit[1]
    listener.hear(0.0, POSE)
    listener.hear(0.2, moved(1, 0.99 * reach))
    assert not listener.jumps.count
    listener.hear(0.4, POSE - [0, 0.3 * reach, 0, 0, 0, 0, 0])
    assert listener.jumps.count == 1


def test_the_fault_ends_after_a_while(listener, monkeypatch):
    now = 50.0
    monkeypatch.setattr(jumps.time, "perf_counter", lambda: now)
    listener.hear(0.0, POSE)
    listener.hear(0.01, moved(2, 1.0))
    now += 0.99 * jumps.HOLD
    assert listener.jumps.fault()
    now += 0.02 * jumps.HOLD
    assert not listener.jumps.fault()
    listener.hear(0.02, moved(4, 1.0))
    assert "wrist_pitch" not in listener.logged[0] and len(listener.logged) == 2


def test_without_jumps_there_is_no_fault(listener):
    listener.hear(0.0, POSE)
    assert listener.jumps.fault() == "" and listener.jumps.latest == ""


# Two publishers


@pytest.mark.parametrize("robot_rate, other_rate", [(200, 10), (100, 100), (50, 200), (500, 50)])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
@pytest.mark.parametrize("speed", [0.0, 0.4])
def test_two_publishers_of_the_same_joints_are_named(
    listener, robot_rate, other_rate, noise, speed
):
    rng = np.random.default_rng(1)
    events = [
        (t, POSE + speed * t + noise * rng.normal(size=7))
        for t in np.arange(0.0, 2.0, 1.0 / robot_rate)
    ] + [(t, np.zeros(7)) for t in np.arange(0.0123, 2.0, 1.0 / other_rate)]
    for t, position in sorted(events, key=lambda event: event[0]):
        listener.hear(t, position)
    assert listener.jumps.alternates
    assert "alternates between" in listener.jumps.fault()
    assert listener.jumps.fault().endswith(": /a and /b publish it")
    assert len(listener.logged) == 2


@pytest.mark.parametrize("lag, rejected", [(0.1, True), (100.0, False)])
def test_a_second_publisher_whose_clock_differs_is_found(listener, lag, rejected):
    """Its messages are late and rejected, or stamps jump back with each of them."""
    rejections = 0
    for k in range(100):
        listener.hear(0.01 * k, POSE)
        try:
            listener.hear(0.01 * k - lag, np.zeros(7))
        except Rejected:
            rejections += 1
    assert bool(rejections) == rejected
    assert bool(listener.notices) != rejected
    assert listener.jumps.alternates


def test_a_bag_that_loops_is_legitimate(listener):
    for _ in range(3):
        listener.hear_all(0.01 * np.arange(60), POSE + 0.01 * np.arange(60)[:, None])
    assert len(listener.notices) == 2
    assert listener.jumps.fault() == "" and listener.jumps.count == 0


@pytest.mark.parametrize("may_restart", [True, False])
def test_commands_wait_if_a_position_jumps_with_its_stamp_unless_time_may_start_again(may_restart):
    jumps = PositionJumps(may_restart=lambda: may_restart)
    jumps.record("elbow", 1.0, 0.0, 5, stamp_jumped=True)
    assert jumps.fault() == ""
    assert ("the position of elbow jumped" in jumps.command_fault()) != may_restart


def test_the_zeros_of_a_publisher_beside_a_robot_at_zero_are_no_fault(listener):
    rng = np.random.default_rng(2)
    for k in range(100):
        listener.hear(0.01 * k, 1e-3 * rng.normal(size=7))
        listener.hear(0.01 * k + 0.003, np.zeros(7))
    assert not listener.jumps.count


# Motions


def require_no_jumps(listener, events):
    for t, names, position in events:
        listener.hear(t, position, names=names)
    assert listener.jumps.count == 0 and listener.logged == []


def test_parts_of_a_robot_at_different_rates_are_legitimate(listener):
    def motion(t, joints):
        return [0.8 * math.sin(2.0 * t + k) for k in joints]

    names = listener.names
    events = [(t, names[:5], motion(t, range(5))) for t in np.arange(0.0, 5.0, 0.005)]
    events += [(t, names[5:], motion(t, (5, 6))) for t in np.arange(0.001, 5.0, 0.05)]
    require_no_jumps(listener, sorted(events, key=lambda event: event[0]))


@pytest.mark.parametrize(
    "period, factor",
    [(0.002, 1.0), (0.01, 1.0), (0.1, 1.0), (0.002, 30.0), (0.01, 30.0), (0.1, 3.0)],
)
def test_a_fast_robot_is_legitimate(listener, arm, period, factor):
    """It accelerates to a multiple of its limits within 0.3 s, and reports no velocities."""
    t = np.arange(0.0, 3.0, period)
    ramp = np.where(t < 0.3, 0.5 * t**2 / 0.3, t - 0.15)
    positions = POSE + factor * arm.velocity_limit * ramp[:, None]
    require_no_jumps(listener, [(s, None, position) for s, position in zip(t, positions)])


@pytest.mark.parametrize("update_period", [0.02, 0.05, 0.1])
def test_a_publisher_that_repeats_positions_is_legitimate(listener, arm, update_period):
    """Its hardware is slower than the publisher, and starts at once with its full speed."""
    t = np.arange(0.0, 3.0, 0.005)
    updated = update_period * np.floor(t / update_period + 1e-9)
    motion = np.where(updated > 1.0, updated - 1.0, 0.0)
    positions = POSE + arm.velocity_limit * motion[:, None]
    require_no_jumps(listener, [(s, None, position) for s, position in zip(t, positions)])


@pytest.mark.parametrize("frequency, amplitude", [(5.0, 0.05), (20.0, 0.015), (100.0, 0.005)])
def test_a_robot_that_vibrates_is_legitimate(listener, frequency, amplitude):
    t = np.arange(0.0, 2.0, 0.005)
    positions = POSE + amplitude * np.sin(TURN * frequency * t + 0.3)[:, None]
    require_no_jumps(listener, [(s, None, position) for s, position in zip(t, positions)])


def test_stamps_that_jitter_or_repeat_are_legitimate(listener, arm):
    rng = np.random.default_rng(3)
    t = np.arange(0.0, 3.0, 0.005)
    positions = POSE + arm.velocity_limit * t[:, None]
    stamps = np.maximum.accumulate(0.01 * np.round((t + 0.005 * rng.random(len(t))) / 0.01))
    require_no_jumps(listener, [(s, None, position) for s, position in zip(stamps, positions)])


# Whole turns


@pytest.mark.parametrize("turns", [1, -1, 3])
def test_whole_turns_are_described_and_no_fault(listener, turns):
    listener.hear_all(0.005 * np.arange(20), [POSE] * 20)
    listener.hear_all(0.1 + 0.005 * np.arange(20), [moved(4, turns * TURN)] * 20)
    assert listener.jumps.fault() == "" and listener.jumps.count == 0
    [text] = listener.logged
    assert "by whole turns, which change no torque" in text and listener.jumps.latest == text
    np.testing.assert_array_equal(listener.collector.q, moved(4, turns * TURN))


def test_an_angle_that_wraps_in_motion_is_described_once(listener):
    t = np.arange(0.0, 20.0, 0.01)
    angle = (2.0 * t + math.pi) % TURN - math.pi
    positions = POSE + np.outer(angle, np.eye(7)[6])
    listener.hear_all(t, positions)
    assert listener.jumps.count == 0 and len(listener.logged) == 1


def test_a_velocity_that_contains_the_turn_is_unknown(listener):
    for k in range(20):
        listener.hear(0.01 * k, POSE, np.zeros(7))
    assert listener.collector.velocity_known
    listener.hear(0.2, moved(4, TURN), np.eye(7)[4] * TURN / 0.01)
    assert not listener.collector.velocity_known
    assert listener.collector.missing_velocity() == [listener.names[4]]
    listener.hear(0.21, moved(4, TURN), np.zeros(7))
    assert listener.collector.velocity_known
    listener.hear(0.22, POSE, np.full(7, 0.1))
    assert listener.collector.velocity_known  # it is a velocity of the motion


def test_joints_that_do_not_turn_freely():
    model = dyn_ros.Model.from_urdf(
        robot_text(
            [
                ('type="continuous"', ""),
                ('type="prismatic"', '<limit lower="0" upper="9" velocity="1" effort="1"/>'),
                ('type="continuous"', ""),
                ('type="continuous"', '<mimic joint="j2" multiplier="0.5"/>'),
                ('type="revolute"', '<limit lower="-3" upper="3" velocity="2" effort="1"/>'),
                ('type="continuous"', '<mimic joint="j4" multiplier="-2"/>'),
            ]
        )
    )
    assert turning_joints(model) & set(model.velocity_names) == {"j0", "j4"}
    listener = Listener(model, Fields)
    listener.names = ["j0", "j1", "j2", "j4"]
    listener.hear(0.0, [0.0] * 4)
    listener.hear(0.01, [TURN, 0.0, 0.0, -TURN])
    assert listener.jumps.count == 0
    listener.hear(0.02, [TURN, 0.0, TURN, -TURN])
    assert listener.jumps.count == 1 and "the position of j2 jumped" in listener.jumps.fault()
    listener.hear(0.03, [TURN, TURN, TURN, -TURN])
    assert listener.jumps.count == 2


# Limits


@pytest.mark.parametrize(
    "limit, expected",
    [("3", 3.0), ("0.1", 1.0), ("0", 10.0), ("-1", 10.0), ("1000", 10.0)],
)
def test_limits_that_are_applied(limit, expected):
    joint = 'type="revolute"', f'<limit lower="-9" upper="9" effort="9" velocity="{limit}"/>'
    model = dyn_ros.Model.from_urdf(robot_text([joint]))
    assert smallest_jumps(model) == {"j0": pytest.approx(STAMP_ERROR * expected)}


def test_a_joint_without_limits_jumps_too():
    model = dyn_ros.Model.from_urdf(robot_text([('type="continuous"', "")]))
    listener = Listener(model)
    for k in range(10):
        listener.hear(0.01 * k, [0.3 + 1e-4 * k])
    listener.hear(0.1, [1.5])
    assert listener.jumps.count == 1


# What follows


def test_accelerations_restart_after_a_jump(arm):
    """Velocities that the driver differentiates from positions do not blow them up."""
    listener = Listener(arm)
    collector = listener.collector
    t = 0.005 * np.arange(60)
    positions = POSE + 0.5 * 0.8 * t[:, None] ** 2
    positions[30, 2] += 1.0
    velocities = np.diff(positions, axis=0, prepend=positions[:1]) / 0.005
    accelerations = []
    for seconds, position, velocity in zip(t, positions, velocities):
        listener.hear(seconds, position, velocity)
        collector.collect_quantities(["acceleration"])
        accelerations.append(collector.latest_state().acceleration)
    known = [k for k, a in enumerate(accelerations) if a is not None]
    assert set(range(5, 60)) - set(known) == {30, 31, 32}
    assert all(np.abs(accelerations[k] - 0.8).max() < 1e-6 for k in known if k > 5)


def test_a_base_has_no_jumps():
    from dyn_ros.states.messages import MessageCollector

    model = dyn_ros.Model.from_urdf(robot_text([('type="continuous"', "")]), root_joint="floating")
    collector = MessageCollector(model)
    for k in range(5):
        pose = [9.0 * (-1) ** k, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        collector.receive_odometry(pose, [0.0] * 6, START + k)
    assert collector.jumps.count == 0
