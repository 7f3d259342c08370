# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The low pass after an observer."""

import numpy as np
import pytest
from scipy.signal import lfilter

from dyn_ros import LowPass


def test_follows_a_step_exactly():
    low_pass = LowPass(30.0)
    low_pass.reset([0.0, 0.0])
    rng, time = np.random.default_rng(0), 0.0
    for _ in range(20):
        dt = rng.uniform(1e-4, 0.02)
        time += dt
        found = low_pass.update([2.0, -1.0], dt)
        assert np.allclose(found, (1.0 - np.exp(-30.0 * time)) * np.array([2.0, -1.0]), rtol=1e-13)


def test_starts_with_the_first_sample():
    assert LowPass(30.0).update([3.0], 0.1) == [3.0]


def test_a_recording_is_as_many_updates_and_a_linear_filter():
    x = np.random.default_rng(0).normal(size=(200, 3))
    low_pass, e = LowPass(80.0), np.exp(-0.08)
    found = LowPass(80.0).run(x, 1e-3)
    assert (found == [low_pass.update(row, 1e-3) for row in x]).all()
    expected = lfilter([1.0 - e], [1.0, -e], x, axis=0, zi=e * x[:1])[0]
    assert np.allclose(found, expected, rtol=1e-12)
    steps = np.full(200, 1e-3)
    assert (LowPass(80.0).run(x, steps) == found).all()
    assert LowPass(80.0).run(np.zeros((0, 3)), 1e-3).shape == (0, 3)


def test_results_belong_to_the_caller():
    low_pass = LowPass(10.0)
    low_pass.update([1.0], 0.1)[:] = 7.0
    assert low_pass.update([1.0], 0.1) == [1.0]


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf])
def test_bandwidth_is_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth: expected"):
        LowPass(bandwidth)


@pytest.mark.parametrize("dt", [-1.0, np.nan])
def test_time_does_not_go_back(dt):
    with pytest.raises(ValueError, match="dt: expected at least 0 s"):
        LowPass(1.0).update([0.0], dt)
