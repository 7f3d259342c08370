# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Efforts that lag behind positions: by how much, and how both come together."""

import functools

import numpy as np
import pytest
from identification.recordings import perturbed
from identification.robots import load
from observer.simulated import Arm, moves, with_friction

import dyn_ros


@functools.cache
def robots(name):
    """The description, and the robot."""
    model = load(name)
    return model, with_friction(model)


@pytest.mark.parametrize("delay", [0.0, 0.0034, 0.0125, -0.005])
def test_an_arm(delay):
    _, true = robots("ur5")
    recording = Arm(true, delay=delay).record(20.0)
    found = dyn_ros.estimate_effort_delay(true, recording.time, recording.q, recording.tau)
    assert abs(found.delay - delay) < 4.0 * found.deviation
    assert found.deviation < 5e-4
    assert found.shares.sum() == pytest.approx(1.0)
    assert (found.shares >= 0.0).all()


def test_errors_of_the_model_change_little():
    """No friction, other inertias, a payload; a current instead of the torque of a joint."""
    described, true = robots("ur5")
    recording = Arm(true, delay=0.008).record(30.0, payload=("tool0", 2.0, [0.0, 0.1, 0.05]))
    tau = recording.tau * [1.0, -0.02, 1.0, 1.0, 1.0, 0.0]
    for model in (described, perturbed(described, seed=1)):
        found = dyn_ros.estimate_effort_delay(model, recording.time, recording.q, tau)
        assert abs(found.delay - 0.008) < max(4.0 * found.deviation, 1e-3)
        assert found.shares[5] == 0.0


def test_the_deviation_includes_errors_of_the_model():
    """The intervals of 95 % contain the truth, with inertias that are wrong by 10 %."""
    inside = []
    for seed in range(8):
        true = with_friction(load("ur5"), seed=seed)
        recording = Arm(true, delay=0.005, seed=seed).record(20.0)
        found = dyn_ros.estimate_effort_delay(
            perturbed(load("ur5"), seed=seed + 100, size=0.1),
            recording.time,
            recording.q,
            recording.tau,
        )
        inside.append(abs(found.delay - 0.005) < 1.96 * found.deviation)
    assert sum(inside) >= 7


def test_motions_with_rests():
    _, true = robots("ur5")
    recording = Arm(true, moves(true), delay=0.006).record(20.0)
    found = dyn_ros.estimate_effort_delay(true, recording.time, recording.q, recording.tau)
    assert abs(found.delay - 0.006) < 5e-4


def test_joints_that_stick_when_they_reverse():
    """The friction of a joint that sticks turns around before its velocity."""
    _, true = robots("ur5")
    arm = Arm(true)
    recording = arm.record(30.0)
    later = arm.motion(recording.time + 0.02)[1]
    tau = recording.tau + true.friction * (np.sign(later) - np.sign(recording.exact_v))
    found = dyn_ros.estimate_effort_delay(true, recording.time, recording.q, tau)
    assert abs(found.delay) < 4.0 * found.deviation
    assert found.deviation < 5e-4


def test_slow_sampling_and_gaps():
    _, true = robots("ur5")
    recording = Arm(true, rate=100.0, delay=0.0234).record(60.0)
    keep = np.ones(len(recording.time), bool)
    keep[3000:3050] = False
    found = dyn_ros.estimate_effort_delay(
        true, recording.time[keep], recording.q[keep], recording.tau[keep]
    )
    assert abs(found.delay - 0.0234) < max(4.0 * found.deviation, 1e-3)


def test_what_says_nothing():
    _, true = robots("ur5")
    recording = Arm(true).record(20.0)
    still = np.tile(recording.q[0], (len(recording.q), 1))
    with pytest.raises(ValueError, match="expected joints in motion whose efforts are measured"):
        dyn_ros.estimate_effort_delay(true, recording.time, still, recording.tau)
    with pytest.raises(ValueError, match="got 0 measured joints"):
        dyn_ros.estimate_effort_delay(true, recording.time, recording.q, 0.0 * recording.tau)
    with pytest.raises(ValueError, match="longest: expected a positive time, got -1 s"):
        dyn_ros.estimate_effort_delay(true, recording.time, recording.q, recording.tau, longest=-1)
    late = Arm(true, delay=0.05).record(20.0)
    with pytest.raises(ValueError, match="the efforts lag or lead by 0.02 s or more"):
        dyn_ros.estimate_effort_delay(true, late.time, late.q, late.tau, longest=0.02)


# --- the delay line


@pytest.mark.parametrize("delay", [0.0, 0.0034, 0.0125, -0.0071])
def test_a_delay_line_brings_efforts_and_motion_together(delay):
    _, true = robots("ur5")
    arm = Arm(true, delay=delay, noise=0.0, counts=None, velocity="exact")
    recording, line = arm.record(2.0), dyn_ros.DelayLine(true, delay)
    found = [
        line.push(*sample)
        for sample in zip(recording.time, recording.q, recording.v, recording.tau)
    ]
    ready = [sample for sample in found if sample is not None]
    assert len(found) - len(ready) == int(np.ceil(abs(delay) * 1000.0 - 1e-6))
    time, q, v, tau = (np.array(column) for column in zip(*ready))
    np.testing.assert_allclose(
        time, recording.time[len(found) - len(ready) :] - max(delay, 0.0), atol=1e-12
    )
    exact_q, exact_v, exact_a = arm.motion(time)
    np.testing.assert_allclose(q, exact_q, atol=1e-6)
    np.testing.assert_allclose(v, exact_v, atol=1e-5)
    expected = dyn_ros.rnea(true, dyn_ros.Data(true), exact_q, exact_v, exact_a)
    expected += dyn_ros.joint_friction(true, exact_v)
    moving = np.abs(exact_v) > 0.01
    np.testing.assert_allclose(tau[moving], expected[moving], atol=2e-3)


def test_angles_of_continuous_joints_jump():
    model = dyn_ros.Model.from_urdf("""<robot name="r"><link name="a"/><link name="b"><inertial>
        <mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
        </link><joint name="j" type="continuous"><parent link="a"/><child link="b"/>
        <axis xyz="0 0 1"/></joint></robot>""")
    line = dyn_ros.DelayLine(model, 0.05)
    one = np.ones(1)
    assert line.push(0.0, 3.1 * one, one, one) is None
    found = line.push(0.1, (3.2 - 2.0 * np.pi) * one, 3.0 * one, 5.0 * one)
    assert found.time == pytest.approx(0.05)
    assert found.q[0] == pytest.approx(3.15)
    assert (found.v[0], found.tau[0]) == (pytest.approx(2.0), 5.0)


def test_a_floating_base_is_interpolated_along_its_motion():
    model = load("solo12", "floating")
    line, rng = dyn_ros.DelayLine(model, 0.004), np.random.default_rng(0)
    q0, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    line.push(0.0, q0, v, v)
    found = line.push(0.01, model.integrate(q0, 0.01 * v), v, v)
    np.testing.assert_allclose(found.q, model.integrate(q0, 0.006 * v), atol=1e-12)


def test_times_must_ascend():
    _, true = robots("ur5")
    line = dyn_ros.DelayLine(true, 0.01)
    zero = np.zeros(6)
    line.push(1.0, zero, zero, zero)
    with pytest.raises(ValueError, match="time: expected more than 1.0+ s"):
        line.push(1.0, zero, zero, zero)
    line.reset()
    assert line.push(0.5, zero, zero, zero) is None


def test_arrays_may_be_reused_by_the_caller():
    _, true = robots("ur5")
    line, q = dyn_ros.DelayLine(true, 0.1), np.zeros(6)
    line.push(0.0, q, q, q)
    q[:] = 1.0
    assert line.push(0.2, q, q, q).q == pytest.approx(np.full(6, 0.5))
