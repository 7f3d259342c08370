# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints that follow sliders, and the motion that resumes from there."""

import numpy as np
import pytest

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.motion import SPRING_FREQUENCY, ResumedMotion, SineMotion, SpringFollower


def test_it_rests_until_a_slider_moves():
    follower = SpringFollower([0.3, -0.2])
    follower.step(1.0)
    np.testing.assert_array_equal(follower.position, [0.3, -0.2])
    np.testing.assert_array_equal(follower.velocity, [0.0, 0.0])


def test_it_comes_to_the_slider_without_going_past():
    follower, before = SpringFollower([0.0]), 0.0
    follower.target[0] = 1.0
    for _ in range(200):
        follower.step(0.02)
        assert before <= follower.position[0] <= 1.0
        before = follower.position[0]
    assert follower.position[0] == pytest.approx(1.0, abs=1e-9)
    assert abs(follower.velocity[0]) < 1e-8


def test_steps_of_any_length_are_the_same_motion():
    coarse, fine = SpringFollower([0.0, 1.0]), SpringFollower([0.0, 1.0])
    for follower in (coarse, fine):
        follower.target[:] = 2.0, -1.0
    coarse.step(0.3)
    for _ in range(100):
        fine.step(0.003)
    np.testing.assert_allclose(fine.position, coarse.position, rtol=1e-12)
    np.testing.assert_allclose(fine.velocity, coarse.velocity, rtol=1e-12)


def test_its_velocity_is_the_derivative_and_the_spring_pulls():
    h = 1e-5
    follower = SpringFollower([0.2])
    follower.velocity[0], follower.target[0] = -0.7, 1.5
    states = []
    for _ in range(3):
        follower.step(h)
        states.append((follower.position[0], follower.velocity[0]))
    (x0, v0), (x1, v1), (x2, v2) = states
    assert (x2 - x0) / (2 * h) == pytest.approx(v1, rel=1e-7)
    spring = -(SPRING_FREQUENCY**2) * (x1 - 1.5) - 2 * SPRING_FREQUENCY * v1
    assert (v2 - v0) / (2 * h) == pytest.approx(spring, rel=1e-7)


def test_a_motion_goes_on_from_where_a_hand_left_it():
    motion = SineMotion(read_urdf(ARM.read_text()))
    start = motion.state_at(0.0)[0] + np.linspace(-0.5, 0.5, 7)
    resumed = ResumedMotion(motion, start)
    np.testing.assert_allclose(resumed.state_at(0.0)[0], start, atol=1e-15)
    np.testing.assert_array_equal(resumed.state_at(0.0)[1], 0.0)
    for time in (0.3, 2.0):
        before, after = resumed.state_at(time - 1e-5)[0], resumed.state_at(time + 1e-5)[0]
        _, velocity, _ = resumed.state_at(time)
        np.testing.assert_allclose((after - before) / 2e-5, velocity, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(resumed.state_at(30.0), motion.state_at(30.0), atol=1e-12)
