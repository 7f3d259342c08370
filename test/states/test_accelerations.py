# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Accelerations by smoothed differences, and efforts."""

import math

import numpy as np
import pytest
from states.feeding import Fields

import dyn_ros

MILLISECOND = 1_000_000
GAP = 0.5


def model_of(nv):
    """A robot of so many sliders, joint_0 and so on."""
    joints = "".join(
        f'<joint name="joint_{k}" type="prismatic"><parent link="base"/><child link="link_{k}"/>'
        f'<limit effort="1" velocity="1" lower="0" upper="1"/></joint><link name="link_{k}"/>'
        for k in range(nv)
    )
    return dyn_ros.Model.from_urdf(f'<robot name="sliders"><link name="base"/>{joints}</robot>')


@pytest.fixture
def differences():
    """Makes a collector of accelerations for a number of joints and a cutoff frequency."""

    def make(nv, cutoff):
        collector = Fields(model_of(nv), GAP)
        collector.collect_quantities(["acceleration"])
        collector.cutoff = cutoff
        return collector

    return make


def feed(collector, times, velocities):
    """Feed velocities at times [s]; return the accelerations, None while they are unknown."""
    names = [f"joint_{k}" for k in range(len(collector.v))]
    answers = []
    for time, v in zip(times, velocities):
        v = np.broadcast_to(np.asarray(v, float), len(names))
        assert collector.receive_joint_states(names, [0.0] * len(names), v, [], round(time * 1e9))
        acceleration = collector.latest_state().acceleration
        answers.append(None if acceleration is None else acceleration.copy())
    return answers


def test_a_steady_acceleration_is_found_at_once_whatever_the_times_and_the_cutoff(differences):
    times = np.cumsum([1.0, 0.001, 0.01, 0.002, 0.3, 0.0005])
    slope = np.array([3.0, -0.25, 0.0])
    for cutoff in (0.0, 0.1, 30.0):
        first, *others = feed(differences(3, cutoff), times, np.outer(times, slope) + 7.0)
        assert first is None
        for acceleration in others:
            np.testing.assert_allclose(acceleration, slope, rtol=1e-9, atol=1e-9)


def test_without_low_pass_it_is_the_difference(differences):
    rng = np.random.default_rng(5)
    times = np.round(np.cumsum(rng.uniform(0.001, 0.1, 20)), 9)
    v = rng.normal(size=(20, 4))
    answers = feed(differences(4, 0.0), times, v)
    for i in range(1, 20):
        expected = (v[i] - v[i - 1]) / (times[i] - times[i - 1])
        np.testing.assert_allclose(answers[i], expected, rtol=1e-9, atol=1e-9)


def test_the_low_pass_answers_a_step_as_an_exponential_whatever_the_times(differences):
    """From rest to a steady acceleration at t = 0: 1 - exp(-2 pi cutoff t)."""
    rng = np.random.default_rng(6)
    after = np.cumsum(rng.uniform(0.001, 0.01, 30))
    times = 100.0 + np.concatenate([[-0.01, 0.0], after])
    v = np.concatenate([[0.0, 0.0], 2.0 * after])
    answers = feed(differences(1, 5.0), times, v)
    expected = 2.0 * -np.expm1(-2.0 * math.pi * 5.0 * after)
    np.testing.assert_allclose(np.ravel(answers[2:]), expected, rtol=1e-5)


def test_the_low_pass_weakens_the_cutoff_frequency_to_71_percent(differences):
    cutoff, h = 4.0, 1e-4
    times = np.arange(1.0, 4.0, h)
    answers = np.ravel(
        feed(differences(1, cutoff), times, np.sin(2.0 * math.pi * cutoff * times))[1:]
    )
    settled = answers[len(answers) // 2 :] / (2.0 * math.pi * cutoff)
    assert settled.max() == pytest.approx(math.sqrt(0.5), rel=2e-3)


@pytest.mark.parametrize("cutoff, delay", [(4.0, 0.01 / math.expm1(0.08 * math.pi)), (0.0, 0.0)])
def test_it_is_as_late_as_documented(differences, cutoff, delay):
    w, h = 2.0 * math.pi * 0.02, 0.01
    times = np.arange(1.0, 51.0, h)
    answers = np.ravel(feed(differences(1, cutoff), times, np.sin(w * times))[200:])
    late = times[200:] - h / 2 - delay
    np.testing.assert_allclose(answers, w * np.cos(w * late), atol=5e-5 * w)


@pytest.mark.parametrize("jump", [-100.0, -0.6, 0.6, 1e4])
def test_it_restarts_where_time_goes_back_or_makes_a_gap(differences, jump):
    collector = differences(2, 1.0)
    feed(collector, [10.0, 10.1], [0.0, 1.0])
    assert collector.latest_state().acceleration is not None
    later = 10.1 + jump
    answers = feed(collector, [later, later + 0.2, later + 0.4], [50.0, 51.0, 52.0])
    assert answers[0] is None
    np.testing.assert_allclose(answers[1], 5.0, rtol=1e-9)  # independent of earlier velocities
    np.testing.assert_allclose(answers[2], 5.0, rtol=1e-9)


def test_a_gap_as_long_as_allowed_is_none(differences):
    answers = feed(differences(1, 1.0), [1.0, 1.5], [0.0, 1.0])
    assert answers[1] == pytest.approx(2.0)


def test_a_stamp_that_stays_keeps_the_acceleration(differences):
    collector = differences(1, 1.0)
    feed(collector, [1.0, 1.1], [0.0, 1.0])
    [acceleration] = feed(collector, [1.1], [1.0])
    assert acceleration == pytest.approx(10.0)


def test_each_coordinate_goes_by_its_own_stamps(differences):
    """One publisher is ten times as slow as the other; both report a constant acceleration."""
    collector = differences(2, 2.0)
    known = []
    for i in range(50):
        if i % 10 == 0:
            collector.receive_joint_states(
                ["joint_1"], [0.0], [-4.0 * i * 0.01], [], i * 10 * MILLISECOND
            )
        collector.receive_joint_states(["joint_0"], [0.0], [i * 0.01], [], i * 10 * MILLISECOND)
        acceleration = collector.latest_state().acceleration
        known.append(acceleration is not None)
        if known[-1]:
            np.testing.assert_allclose(acceleration, [1.0, -4.0], rtol=1e-9)
    assert known == [False] * 10 + [True] * 40


def test_it_begins_with_the_state_before_it_is_requested(differences):
    collector = Fields(model_of(1), GAP)
    feed(collector, [1.0], [0.0])
    collector.collect_quantities(["acceleration"])
    assert feed(collector, [1.1], [1.0])[0] == pytest.approx(10.0)


# With publishers, a base, and efforts


def say(collector, names, seconds, velocity=None, effort=()):
    n = len(names)
    return collector.receive_joint_states(
        names, [0.0] * n, [] if velocity is None else [velocity] * n, effort, round(seconds * 1e9)
    )


def test_the_collector_passes_on_each_state_with_the_stamps_of_its_parts(arm):
    collector = Fields(arm, GAP)
    collector.collect_quantities(["acceleration"])
    a, b = arm.joint_names[:3], arm.joint_names[3:]
    for seconds in (1.0, 1.1, 1.2):
        say(collector, a, seconds, velocity=seconds)
        say(collector, b, seconds + 0.05, velocity=-3.0 * seconds)
    rows = [arm.idx_v[arm.joint_index(name)] for name in a]
    expected = np.full(arm.nv, -3.0)
    expected[rows] = 1.0
    np.testing.assert_allclose(collector.latest_state().acceleration, expected, rtol=1e-9)


def test_an_unknown_velocity_restarts_it(arm):
    collector = Fields(arm, GAP)
    collector.collect_quantities(["acceleration"])
    known = []
    for seconds, velocity in ((1.0, 1.0), (1.1, 1.1), (1.2, None), (1.3, 5.3), (1.4, 5.4)):
        assert say(collector, arm.joint_names, seconds, velocity)
        known.append(collector.latest_state().acceleration is not None)
    assert known == [False, True, False, False, True]
    np.testing.assert_allclose(collector.latest_state().acceleration, 1.0, rtol=1e-9)


def test_a_moving_base_differs_too_and_one_by_parameter_stands_still():
    floating = dyn_ros.Model.from_urdf(XML, root_joint="floating")
    pose, twist = (0.0,) * 6 + (1.0,), np.arange(1.0, 7.0)
    for base, expected in ((None, 2.0 * twist), ((pose, twist), np.zeros(6))):
        collector = Fields(floating, GAP, base)
        collector.collect_quantities(["acceleration"])
        for seconds in (1.0, 1.1):
            collector.receive_odometry(pose, 2.0 * seconds * twist, round(seconds * 1e9))
            assert say(collector, ["turn", "slide"], seconds, velocity=seconds)
        acceleration = collector.latest_state().acceleration
        np.testing.assert_allclose(acceleration, [*expected, 1.0, 1.0], rtol=1e-9)


XML = """<robot name="two"><link name="base"><inertial><mass value="1"/></inertial></link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="arm"/></joint>
  <link name="arm"><inertial><mass value="1"/></inertial></link>
  <joint name="slide" type="prismatic"><parent link="arm"/><child link="ball"/>
    <limit effort="1" velocity="1" lower="0" upper="1"/></joint>
  <link name="ball"><inertial><mass value="1"/></inertial></link></robot>"""


@pytest.fixture
def collector():
    collector = Fields(
        dyn_ros.Model.from_urdf(XML, root_joint="floating"), GAP, ((0.0,) * 6 + (1.0,), (0.0,) * 6)
    )
    assert not collector.collects_effort
    collector.collect_quantities(["effort"])
    return collector


def test_efforts_are_collected_by_name(collector):
    assert not collector.effort_known and collector.missing_effort() == ["turn", "slide"]
    assert say(collector, ["slide", "other", "turn"], 1.0, effort=[3.0, math.nan, 2.0])
    assert collector.effort_known and collector.missing_effort() == []
    np.testing.assert_array_equal(collector.tau, [0.0] * 6 + [2.0, 3.0])


@pytest.mark.parametrize(
    "effort, missing",
    [([], ["turn", "slide"]), ([math.nan, 1.0], ["turn"]), ([1.0, math.inf], ["slide"])],
)
def test_an_effort_that_is_not_reported_is_unknown_and_the_message_is_taken(
    collector, effort, missing
):
    assert say(collector, ["turn", "slide"], 1.0, effort=[1.0, 1.0])
    assert say(collector, ["turn", "slide"], 1.1, velocity=5.0, effort=effort)
    assert not collector.effort_known and collector.missing_effort() == missing
    assert collector.v[-1] == 5.0
    assert say(collector, ["turn", "slide"], 1.2, effort=[4.0, 5.0])
    assert collector.effort_known
    np.testing.assert_array_equal(collector.tau[6:], [4.0, 5.0])
