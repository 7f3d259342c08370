# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Jumps of positions: whole turns, glitches and joined recordings; and motions that have none."""

import math
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.recordings.jumps import find_jumps

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
MODEL = dyn_ros.Model.from_urdf_file(ARM7)
CONTINUOUS = dyn_ros.Model.from_urdf(
    ARM7.read_text().replace('type="revolute"', 'type="continuous"')
)
TURN = 2.0 * math.pi
RATES = [1000.0, 200.0, 30.0]


def with_velocity_limit(limit):
    """Return the robot with the same velocity limit for all joints."""
    model = dyn_ros.Model.from_urdf_file(ARM7)
    model.velocity_limit[:] = limit
    return model


def motion(rate, seconds=20.0, seed=0, amplitude=0.8):
    """Return times and the positions of a smooth motion with the noise of encoders."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(rate * seconds)) / rate
    q = 1e-5 * rng.normal(size=(len(time), MODEL.nq))
    for h in range(1, 6):
        phase = TURN * 0.1 * h * time[:, None] + rng.uniform(0.0, TURN, MODEL.nq)
        q += amplitude * rng.normal(size=MODEL.nq) / (1.5 * h) * np.sin(phase)
    return time, q


def described(jumps):
    """Return the joint, the row and the sign of each jump."""
    return [(jump.joint, jump.row, int(np.sign(jump.step))) for jump in jumps]


# --- motions without a jump


@pytest.mark.parametrize("limit", [0.0, 0.1, 3.0, 170.0, 1e3, math.inf])
@pytest.mark.parametrize("rate", RATES)
def test_motion_has_no_jumps_whatever_its_velocity_limit(rate, limit):
    time, q = motion(rate)
    assert not list(find_jumps(with_velocity_limit(limit), time, q).warnings())


def late(time):
    return np.sort(time + np.random.default_rng(0).exponential(0.01, len(time)))


def in_bursts(time):
    return np.ceil(10.0 * time) / 10.0 + 1e-5 * np.arange(len(time)) / len(time)


@pytest.mark.parametrize("change", [late, in_bursts, np.zeros_like])
@pytest.mark.parametrize("rate", RATES[:2])
def test_stamps_that_jitter_cause_no_jumps(rate, change):
    time, q = motion(rate)
    assert not list(find_jumps(MODEL, change(time), q).warnings())


@pytest.mark.parametrize("rate", RATES)
def test_positions_that_are_held_or_rounded_do_not_jump(rate):
    time, q = motion(rate)
    held = np.arange(len(time)) // 10 * 10
    assert not list(find_jumps(MODEL, time, q[held]).warnings())
    assert not list(find_jumps(MODEL, time, 0.005 * np.round(q / 0.005)).warnings())
    mixed = np.concatenate([q[:, :5], q[held, 5:]], axis=1)
    assert not list(find_jumps(MODEL, time, mixed).warnings())


def test_lost_samples_and_a_sudden_start_do_not_jump():
    time, q = motion(200.0)
    kept = np.random.default_rng(0).random(len(time)) > 0.3
    assert not list(find_jumps(MODEL, time[: kept.sum()], q[kept]).warnings())
    hiccup = np.delete(np.arange(len(time)), [*range(900, 903), *range(2000, 2003)])
    assert not list(find_jumps(MODEL, time[: len(hiccup)], q[hiccup]).warnings())
    ramp = np.clip((time - 10.0) * 2.0, 0.0, 0.5)[:, None] * np.ones(MODEL.nq)
    assert not list(find_jumps(MODEL, time, ramp).warnings())


def test_gaps_and_stamps_that_go_back_are_no_jumps():
    time, q = motion(200.0)
    kept = np.r_[0:1000, 1500:4000]
    assert not list(find_jumps(MODEL, time[kept], q[kept]).warnings())
    order = np.r_[2000:4000, 0:2000]
    assert not list(find_jumps(MODEL, time[order], q[order]).warnings())


@pytest.mark.parametrize("rate", RATES)
def test_continuous_joints_wrap_without_a_jump(rate):
    time, _ = motion(rate)
    q = TURN * time[:, None] * np.linspace(-1.0, 1.0, MODEL.nq)
    wrapped = (q + math.pi) % TURN - math.pi
    assert not list(find_jumps(CONTINUOUS, time, wrapped).warnings())


# --- turns


@pytest.mark.parametrize("rate", RATES)
def test_wrapped_angles_of_limited_joints_are_unwrapped(rate):
    time, q = motion(rate)
    wrapped = (q + 2.9 + math.pi) % TURN - math.pi
    jumps = find_jumps(MODEL, time, wrapped)
    assert len(jumps.turns) > 10 and not jumps.glitches and not jumps.breaks
    jumps.remove_turns(wrapped)
    assert np.allclose(np.diff(wrapped, axis=0), np.diff(q, axis=0), atol=1e-9)


def test_turns_are_named_with_joint_time_and_step():
    time, q = motion(200.0)
    q[1500:, 6] += TURN
    q[3000:, 2] -= 2.0 * TURN
    jumps = find_jumps(MODEL, time, q)
    assert described(jumps.turns) == [("wrist_roll", 1500, 1), ("upper_arm_roll", 3000, -1)]
    assert [jump.turns for jump in jumps.turns] == [1, -2]
    assert list(jumps.warnings()) == [
        "the position jumps by whole turns at 7.500000 s: 'wrist_roll' by 6.28 rad, and 1 more "
        "times; whole turns are ignored"
    ]
    assert not list(jumps.warnings(slice(0, 1500)))


# --- glitches


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("rate", RATES)
def test_rows_of_a_glitch_are_found(rate, count):
    time, q = motion(rate)
    place = round(8.0 * rate)
    q[place : place + count, 3] += 0.9
    jumps = find_jumps(MODEL, time, q)
    assert np.flatnonzero(jumps.glitch_mask()).tolist() == [*range(place, place + count)]
    assert not jumps.turns and not jumps.breaks
    (warning,) = jumps.warnings()
    assert f"at {time[place]:.6f} s: 'elbow_pitch' by 0.9" in warning
    assert f"left out {count} rows in between" in warning


@pytest.mark.parametrize("rate", RATES[:2])
def test_random_numbers_for_several_rows_are_a_glitch(rate):
    time, q = motion(rate)
    place = round(8.0 * rate)
    q[place : place + 20, 3] = 2.0 + np.random.default_rng(0).uniform(0.0, 30.0, 20)
    jumps = find_jumps(MODEL, time, q)
    assert jumps.glitch_mask()[place : place + 20].all()
    assert not jumps.breaks and jumps.glitch_mask().sum() == 20
    assert "publishers" not in "".join(jumps.warnings())


@pytest.mark.parametrize("lag", [0.5, 0.26])
def test_rows_of_a_second_publisher_are_glitches(lag):
    """Its rows alternate with the rows of the robot, later by a part of the period."""
    time, q = motion(200.0)
    time[1::2] = time[::2] + 2.0 * lag * (time[1] - time[0])
    q[1::2, 3] = q[::2, 3] + 0.9
    jumps = find_jumps(MODEL, time, q)
    assert {jump.joint for jump in jumps.glitches} == {"elbow_pitch"} and not jumps.turns
    assert np.array_equal(jumps.glitch_mask()[:-1], np.arange(len(time) - 1) % 2 == 1)
    assert "two publishers may report these joints" in "".join(jumps.warnings())


def test_positions_that_stay_away_are_no_glitch():
    time, q = motion(200.0)
    q[1000:1400, 3] += 0.9
    jumps = find_jumps(MODEL, time, q)
    assert described(jumps.breaks) == [("elbow_pitch", 1000, 1), ("elbow_pitch", 1400, -1)]
    assert not jumps.glitch_mask().any()


# --- breaks


@pytest.mark.parametrize("model", [MODEL, CONTINUOUS, *map(with_velocity_limit, (0.0, 3.0, 1e3))])
@pytest.mark.parametrize("rate", RATES)
def test_recordings_that_are_joined_without_a_gap_are_split(rate, model):
    time, q = motion(rate)
    other = motion(rate, seed=3)[1]
    place = round(10.0 * rate)
    joined = np.concatenate([q[:place], other[:place]])
    jumps = find_jumps(model, time, joined)
    assert np.flatnonzero(jumps.break_mask()).tolist() == [place]
    (warning,) = jumps.warnings()
    assert "more joints" in warning and "the recording is split there" in warning
    assert "if the joint has another zero afterwards" in warning


@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_poses_at_rest_that_are_joined_are_split(noise):
    rng = np.random.default_rng(0)
    q = np.repeat(rng.uniform(-1.0, 1.0, (2, MODEL.nq)), 400, axis=0)
    q += noise * rng.normal(size=q.shape)
    jumps = find_jumps(MODEL, np.arange(800) / 200.0, q)
    assert np.flatnonzero(jumps.break_mask()).tolist() == [400]


def test_prismatic_joints_jump_in_meters():
    urdf = ARM7.read_text().replace('type="revolute"', 'type="prismatic"')
    time, q = motion(200.0, amplitude=0.05)
    q[2000:, 0] += 0.2
    q[3000:, 1] += TURN
    jumps = find_jumps(dyn_ros.Model.from_urdf(urdf), time, q)
    assert [(jump.row, jump.unit, jump.turns) for jump in jumps.breaks] == [
        (2000, "m", 0),
        (3000, "m", 0),
    ]


def test_joints_with_several_coordinates_are_not_checked():
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
    time, q = motion(200.0)
    q = np.concatenate([np.tile(model.neutral()[:7], (len(time), 1)), q], axis=1)
    q[2000:, :3] += 5.0
    q[3000:, 7] += 1.0
    assert described(find_jumps(model, time, q).breaks) == [("shoulder_yaw", 3000, 1)]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_rows(count):
    q = np.zeros((count, MODEL.nq))
    q[count // 2 :] = 1.0
    jumps = find_jumps(MODEL, 0.01 * np.arange(count), q)
    assert len(jumps.breaks) == (MODEL.nq if count > 1 else 0)
