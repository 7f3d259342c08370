# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rate limiters: average rate, pauses, no limit; the choice of states by their stamps."""

import numpy as np
import pytest

from dyn_ros.states.rate_limiter import RateLimiter, StampLimiter


def passed(rate, times):
    """The times of the events that pass."""
    limiter = RateLimiter(rate)
    return np.array([now for now in times if limiter.admit(now)])


@pytest.mark.parametrize("rate", [0.3, 7.0, 30.0, 60.0, 99.0])
@pytest.mark.parametrize("begin", [0.0, 1e6])
def test_the_average_rate_is_the_one_given(rate, begin):
    """Also if the time between events does not divide the period."""
    times = begin + np.arange(10_000) * 0.01
    assert abs(len(passed(rate, times)) - rate * 100.0) <= 1.0


def test_the_average_rate_does_not_depend_on_the_times_of_the_events():
    times = 5.0 + np.cumsum(np.random.default_rng(3).uniform(0.0, 0.02, 10_000))
    assert abs(len(passed(30.0, times)) - 30.0 * (times[-1] - times[0])) <= 1.0


def test_events_pass_a_period_apart():
    times = np.arange(1000) * 0.001
    assert np.abs(np.diff(passed(20.0, times)) - 0.05).max() < 1.001e-3


def test_slower_events_all_pass():
    times = 3.0 + np.arange(100) * 0.11
    assert list(passed(10.0, times)) == list(times)


def test_no_burst_makes_up_for_a_pause():
    times = np.concatenate([np.arange(100) * 0.01, 50.0 + np.arange(100) * 0.01])
    found = passed(10.0, times)
    assert np.diff(found).min() > 0.0899
    assert len(found) == 20


def test_without_a_rate_everything_passes():
    times = [0.0, 0.0, 1e-9, 5.0, 4.0]
    assert list(passed(0.0, sorted(times))) == sorted(times)


def chosen(rate, stamps, received=None):
    """The stamps [ns] that pass."""
    limiter = StampLimiter(rate)
    times = received if received is not None else 1e-9 * stamps
    return [stamp for stamp, now in zip(stamps.tolist(), times) if limiter.admit(stamp, now)]


START = 1_700_000_000_123_456_789


@pytest.mark.parametrize("rate", [7.0, 30.0, 60.0])
def test_nodes_choose_the_same_states_whenever_they_receive_them(rate):
    rng = np.random.default_rng(0)
    stamps = START + np.cumsum(rng.integers(1_000_000, 15_000_000, 2000))
    first = chosen(rate, stamps, 1e-9 * stamps)
    late = chosen(rate, stamps[100:], np.sort(1e-9 * stamps[100:] + rng.uniform(0.0, 0.5, 1900)))
    assert set(late[1:]) == set(first) & set(stamps[101:].tolist())
    seconds = 1e-9 * (stamps[-1] - stamps[0])
    assert abs(len(first) - rate * seconds) <= 0.02 * rate * seconds + 1.0


def test_states_are_the_first_ones_of_their_periods():
    stamps = START + 10_000_000 * np.arange(1000)
    periods = np.floor(stamps * 1e-9 * 30.0)
    assert chosen(30.0, stamps) == stamps[np.append(True, np.diff(periods) > 0)].tolist()


def test_a_state_of_each_slower_period_passes():
    stamps = START + 200_000_000 * np.arange(10)
    assert chosen(30.0, stamps) == stamps.tolist()


def test_stamps_that_jump_back_pass():
    stamps = START + np.array([0, 40, 80, -1000, -960]) * 1_000_000
    assert chosen(30.0, stamps) == stamps.tolist()


@pytest.mark.parametrize("stamp", [0, START])
def test_stamps_that_do_not_advance_are_limited_by_time(stamp):
    times = 5.0 + 0.001 * np.arange(2000)
    assert abs(len(chosen(30.0, np.full(2000, stamp), times)) - 60) <= 2


def test_no_limit_by_stamps():
    assert len(chosen(0.0, np.full(5, START))) == 5
