# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Friction that turns over a distance: of each motor by hand, and of a recording in parts."""

import numpy as np
import pytest

from dyn_ros.engine.algorithms.filters.low_pass import motor_directions, presliding_directions
from dyn_ros.engine.model import Drives


def after(v, dt, distance, start):
    return presliding_directions(v[:, None], dt, np.array([distance]), np.array([start]))[:, 0]


def test_by_hand_after_a_reversal():
    found = after(
        np.array([2.0, 2.0, -0.5, -0.5, 0.0]), np.array([0.1, 0.3, 0.2, 0.2, 0.2]), 0.1, 1.0
    )
    np.testing.assert_allclose(
        found, [1.0, 1.0, 2 * np.exp(-1.0) - 1, 2 * np.exp(-2.0) - 1, 2 * np.exp(-2.0) - 1]
    )


@pytest.mark.parametrize("faster, parts", [(10.0, 1), (1.0, 7)])
def test_only_the_path_matters(faster, parts):
    v = np.array([1.0, -1.0, 0.3, 0.2, -2.0])
    expected = after(v, np.full(5, 0.1), 0.08, 0.0)
    found = after(np.repeat(faster * v, parts), np.full(5 * parts, 0.1 / parts / faster), 0.08, 0.0)
    np.testing.assert_allclose(found[parts - 1 :: parts], expected, rtol=1e-12)


def test_dahl_s_differential_equation():
    """ds/dx = (1 - s sign(v)) / distance, by small steps."""
    times, s, dt = np.arange(0.0, 2.2, 1e-5), 0.0, 1e-5
    v = np.sin(3.0 * times) * 0.2
    for speed in v:
        s += dt * (speed - abs(speed) * s) / 0.02
    assert after(v, np.full(len(v), dt), 0.02, 0.0)[-1] == pytest.approx(s, abs=1e-4)
    assert abs(s) < 0.9


@pytest.mark.parametrize("coupled", [False, True])
def test_parts_of_a_recording(coupled):
    rng = np.random.default_rng(0)
    drives = Drives.of(
        3,
        friction_distance=[0.02, 0.0, 0.3],
        friction_velocity=0.1,
        coupling=np.eye(3) + 0.5 * np.eye(3, k=1) if coupled else None,
    )
    v, dt = drives.motor_velocity(rng.normal(size=(50, 3))), rng.uniform(0.01, 0.1, 50)
    v[30:33] = 0.0
    every, _ = motor_directions(drives, v, dt)
    first, after = motor_directions(drives, v[:20], dt[:20])
    np.testing.assert_array_equal(
        every, np.concatenate([first, motor_directions(drives, v[20:], dt[20:], after)[0]])
    )
    assert (every[30:33] == 0.0).all()
    np.testing.assert_array_equal(every[0], np.clip(v[0] / 0.1, -1.0, 1.0))
    np.testing.assert_array_equal(every[:, 1], np.clip(v[:, 1] / 0.1, -1.0, 1.0))
    assert 0.1 < np.abs(every[:, 2]).mean() < 0.9


def test_noise_at_rest_does_not_turn_friction():
    """A ramp at low speed remains: whichever direction friction has had, it goes to zero."""
    v = np.random.default_rng(1).normal(scale=0.01, size=(2000, 1))
    drives = Drives.of(1, friction_distance=1e-4, friction_velocity=0.1)
    found, _ = motor_directions(drives, v, np.full(2000, 0.01), np.ones(1))
    assert np.abs(found[500:]).max() < 0.4 and np.abs(found[500:]).mean() < 0.1
