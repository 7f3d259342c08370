# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated arms: their equations of motion, noise, pushes and payloads."""

import numpy as np
import pytest
from identification.robots import load
from observer.simulated import Arm, Push, moves, with_friction

import dyn_ros


def arm(**arguments):
    return Arm(with_friction(load("panda").reduced({"panda_finger_joint1": 0.0})), **arguments)


@pytest.mark.parametrize("velocity", ["differences", "rounded", "exact"])
def test_a_recording_obeys_the_equations_of_motion(velocity):
    push = Push("panda_hand", [1.0, -5.0, 2.0], start=1.0, stop=2.0, point=(0.0, 0.0, 0.1))
    robot = arm(velocity=velocity)
    found = robot.record(3.0, [push], payload=("panda_hand", 0.5, [0.0, 0.0, 0.05]))
    loaded = robot._loaded(("panda_hand", 0.5, [0.0, 0.0, 0.05]))
    data = dyn_ros.Data(loaded)
    state = found.exact_q, found.exact_v, found.exact_a
    wrench = np.zeros((len(found.time), 6))
    wrench[1000:2000, :3] = 1.0, -5.0, 2.0
    J = dyn_ros.frame_jacobian(
        loaded,
        data,
        found.exact_q,
        "panda_hand",
        dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED,
        offset=[0, 0, 0.1],
    )
    external = np.einsum("kij,ki->kj", J, wrench)
    np.testing.assert_allclose(found.external, external, atol=1e-12)
    expected = dyn_ros.rnea(loaded, data, *state) + dyn_ros.joint_friction(loaded, state[1])
    np.testing.assert_allclose(found.exact_tau, expected - external, atol=1e-10)
    assert np.abs(found.q - found.exact_q).max() <= np.pi / 2**20
    np.testing.assert_allclose((found.tau - found.exact_tau).std(axis=0), robot.sigma, rtol=0.05)
    assert np.abs(found.v - found.exact_v).max() < 0.01


def test_derivatives_of_the_motions():
    model = load("panda").reduced({"panda_finger_joint1": 0.0})
    for motion in (arm().motion, moves(model)):
        time, h = np.arange(0.0, 7.0, 0.013), 1e-4
        before, here, after = (motion(time + step) for step in (-h, 0.0, h))
        np.testing.assert_allclose((after[0] - before[0]) / (2 * h), here[1], atol=1e-5)
        np.testing.assert_allclose((after[1] - before[1]) / (2 * h), here[2], atol=2e-2)
        assert (here[0] > model.lower).all()
        assert (here[0] < model.upper).all()


def test_parts_continue_each_other():
    robot = arm()
    whole = robot.record(4.0)
    parts = list(robot.parts(4.0, 2.0))
    np.testing.assert_allclose(np.concatenate([part.v for part in parts]), whole.v, atol=1e-9)
    np.testing.assert_allclose(
        np.concatenate([part.exact_tau for part in parts]), whole.exact_tau, atol=1e-9
    )


def test_measured_efforts_lag():
    late, exact = arm(delay=0.0125, noise=0.0).record(2.0), arm(noise=0.0).record(2.0)
    expected = (exact.tau[1000 - 12] + exact.tau[1000 - 13]) / 2.0
    np.testing.assert_allclose(late.tau[1000], expected, rtol=1e-4)


def test_a_simulated_arm_yields_to_a_push():
    robot = arm(noise=0.0, velocity="exact", counts=None)
    found = robot.simulate(1.5, [Push("panda_hand", [0.0, 20.0, 0.0], start=0.5)])
    model, data = robot.model, dyn_ros.Data(robot.model)
    v = found.exact_v
    friction = model.damping * v + model.friction * np.tanh(v / 0.01)
    expected = dyn_ros.rnea(model, data, found.exact_q, v, found.exact_a) + friction
    np.testing.assert_allclose(found.exact_tau + found.external, expected, atol=1e-9)
    moved = np.diff(found.exact_q, axis=0) * 1000.0 - (v[1:] + v[:-1]) / 2.0
    assert np.abs(moved).max() < 0.05 * np.abs(v).max()
    calm = robot.simulate(1.5)
    assert np.abs(calm.exact_q - found.exact_q)[:500].max() == 0.0
    assert 0.001 < np.abs(calm.exact_q - found.exact_q)[-1].max() < 0.3
