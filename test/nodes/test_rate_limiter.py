# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rate limiter: its average rate, pauses, and no limit."""
import numpy as np
import pytest

from dyn_ros.nodes.rate_limiter import RateLimiter


def passed(rate, times):
    """The times of the events that pass."""
    limiter = RateLimiter(rate)
    return np.array([now for now in times if limiter.due(now)])


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
