# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The torques of a whole recording in intervals."""

import numpy as np
import pytest

from dyn_ros.viewer.overview import INTERVAL_COUNT, Overview, coarse_to_fine

START, SECOND = 10**18, 10**9


def states(first, stop, rate=100):
    """Log times [ns] and torques (k, 1, 2) of an interval [s] of a recording of 60 s."""
    seconds = np.arange(first * rate, stop * rate) / rate
    torques = np.stack([np.sin(seconds), 3.0 * np.cos(20.0 * seconds)], axis=1)[:, None]
    return START + np.round(1e9 * seconds).astype(np.int64), torques


def make_overview(part_count):
    return Overview(START, START + 60 * SECOND, part_count, (1, 2), 0.5)


def test_every_interval_has_its_lowest_and_highest_torques():
    overview = make_overview(6)
    while (number := overview.next_part()) is not None:
        overview.add(number, *states(10 * number, 10 * number + 10))
    times, torques = overview.curves()
    log_time, expected = states(0, 60)
    assert times.shape == (2 * INTERVAL_COUNT,) and overview.fraction == 1.0
    rows = len(log_time) // INTERVAL_COUNT
    intervals = expected.reshape(INTERVAL_COUNT, rows, 1, 2)
    np.testing.assert_array_equal(torques[::2], intervals.min(axis=1))
    np.testing.assert_array_equal(torques[1::2], intervals.max(axis=1))
    np.testing.assert_allclose(times[::2], 1e-9 * (log_time[::rows] - START), atol=1e-9)
    assert (np.diff(times) > 0.0).all()


def test_states_are_joined_unless_there_is_a_gap():
    overview = make_overview(1)
    (log_time, torques), (later, others) = states(0, 20, 4), states(50, 60, 4)
    overview.add(0, np.append(log_time, later), np.concatenate([torques, others]))
    times, torques = overview.curves()
    (gap,) = np.flatnonzero(np.isnan(torques[:, 0, 0]))
    assert times[gap] == pytest.approx(19.75) and times[gap + 1] == pytest.approx(50.0)


def test_parts_are_read_in_an_order_that_is_spread_evenly():
    assert list(coarse_to_fine(8)) == [0, 4, 2, 6, 1, 5, 3, 7]
    for count in (1, 2, 3, 7, 100):
        assert sorted(coarse_to_fine(count)) == list(range(count))
    overview = make_overview(6)
    first, second = (overview.part_numbers[k] for k in (0, 1))
    assert (first, second) == (0, 4)
    overview.add(4, *states(40, 50))
    overview.add(0, np.zeros(0, np.int64), np.zeros((0, 1, 2)))  # could not be read
    assert overview.next_part() == overview.part_numbers[2]
    assert overview.fraction == pytest.approx(2 / 6)
    times, _ = overview.curves()
    assert overview.curves()[0] is times and times[0] == pytest.approx(40.0)
    overview.add(4, *states(40, 50))  # again
    assert overview.curves()[0] is times


def test_the_parts_of_a_long_recording_are_a_selection():
    overview = make_overview(10_000)
    assert len(overview.part_numbers) == INTERVAL_COUNT
    assert min(overview.part_numbers) == 0 and max(overview.part_numbers) == 9_999
