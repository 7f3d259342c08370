# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Faults of measured efforts: found and named, and nothing else."""

import copy
import functools

import numpy as np
import pytest
from identification.recordings import perturbed
from identification.robots import load
from observer.simulated import Arm, Push, moves, waves, with_friction

import dyn_ros
from dyn_ros.observer.fault_checks import largest_efforts, largest_speeds, typical_efforts

TOOL, DT = {"panda": "panda_hand", "ur5": "tool0"}, 1e-3
WEAK = {"panda": 6, "ur5": 5}  # the last joint needs nearly no effort


@functools.cache
def description(name):
    model = load(name)
    return model.reduced({"panda_finger_joint1": 0.0}) if name == "panda" else model


@functools.cache
def arm(name, kind):
    true = with_friction(description(name))
    return Arm(true, kind(true))


@functools.cache
def free(name, kind):
    return arm(name, kind).record(60.0)


def faults(model, recording, tau=None):
    tau = recording.tau if tau is None else tau
    return [
        (fault.joint, fault.kind)
        for fault in dyn_ros.find_effort_faults(model, recording.q, recording.v, tau, DT)
    ]


every_motion = pytest.mark.parametrize(
    "name, kind",
    [
        pytest.param(name, kind, id=f"{name}-{kind.__name__}")
        for name in TOOL
        for kind in (waves, moves)
    ],
)


@every_motion
def test_errors_of_the_model_are_no_faults(name, kind):
    model = description(name)
    for one in (arm(name, kind).model, model, perturbed(model, seed=2)):
        assert faults(one, free(name, kind)) == []


@every_motion
@pytest.mark.parametrize("mass", [0.5, 8.0])
def test_a_payload_is_no_fault(name, kind, mass):
    for com in ([0.0, 0.0, 0.05], [0.15, 0.0, 0.05], [-0.15, -0.1, 0.0]):
        loaded = arm(name, kind).record(40.0, payload=(TOOL[name], mass, com))
        assert faults(description(name), loaded) == []


@every_motion
def test_pushes_are_no_faults(name, kind):
    rng = np.random.default_rng(0)
    pushes = [
        Push(TOOL[name], rng.uniform(-40.0, 40.0, 3), start, start + rng.uniform(0.3, 4.0))
        for start in np.arange(2.0, 55.0, 5.0)
    ]
    assert faults(description(name), arm(name, kind).record(60.0, pushes)) == []
    steady = [Push(TOOL[name], [0.0, 40.0, -20.0])]
    assert faults(description(name), arm(name, kind).record(60.0, steady)) == []


@pytest.mark.parametrize(
    "kind, factor, fault",
    [
        (waves, -1.0, "sign"),
        (moves, -1.0, "sign"),
        (waves, 0.02, "scale"),
        (moves, -0.05, "scale"),
        (moves, 500.0, "scale"),
    ],
)
@pytest.mark.parametrize("name", TOOL)
def test_a_wrong_sign_and_wrong_units_are_found(name, kind, factor, fault):
    model, recording = description(name), free(name, kind)
    for k in range(model.nv):
        tau = recording.tau.copy()
        tau[:, k] *= factor
        found = faults(model, recording, tau)
        assert found in ([(model.velocity_names[k], fault)], [])
        assert found or k == WEAK[name]


@every_motion
def test_a_wrong_sign_is_found_although_the_robot_is_pushed(name, kind):
    """A third of the time."""
    rng, model = np.random.default_rng(3), description(name)
    pushes = [
        Push(TOOL[name], rng.uniform(-30.0, 30.0, 3), start, start + 0.5)
        for start in np.arange(1.0, 58.0, 1.5)
    ]
    recording = arm(name, kind).record(60.0, pushes)
    assert faults(model, recording) == []
    for k in range(3):
        tau = recording.tau.copy()
        tau[:, k] *= -1.0
        assert faults(model, recording, tau) == [(model.velocity_names[k], "sign")]


def test_all_efforts_have_other_units():
    model, recording = description("ur5"), free("ur5", moves)
    found = dyn_ros.find_effort_faults(model, recording.q, recording.v, 0.05 * recording.tau, DT)
    assert {fault.joint for fault in found} == set(model.velocity_names[:5])
    for fault in found:
        assert fault.factor == pytest.approx(0.05, rel=0.1)
        assert "if they are currents, multiply effort_constant by" in fault.message


def test_a_message():
    model, recording = description("ur5"), free("ur5", waves)
    tau = recording.tau * [1.0, 1.0, -1.0, 1.0, 1.0, 1.0]
    (fault,) = dyn_ros.find_effort_faults(model, recording.q, recording.v, tau, DT)
    assert str(fault) == fault.message
    assert fault.message.startswith("efforts of elbow_joint have the opposite sign, -1.0")


def test_missing_efforts():
    model, recording = description("ur5"), free("ur5", waves)
    tau = recording.tau * [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert set(faults(model, recording, tau)) == {("shoulder_lift_joint", "missing")}


def test_a_joint_that_needs_nothing_may_have_no_effort():
    """Around a vertical axis, at a constant speed."""
    model = description("ur5")
    q = np.tile([0.0, -1.0, 1.0, 0.5, 0.3, 0.0], (20_000, 1))
    v = np.zeros_like(q)
    tau = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    assert np.abs(tau[:, 0]).max() < 1e-12
    tau[:, 0] = 0.0
    assert dyn_ros.find_effort_faults(model, q, v, tau, DT) == ()


@every_motion
def test_a_stuck_effort(name, kind):
    model, recording = description(name), free(name, kind)
    tau = recording.tau.copy()
    tau[20_000:, 1] = tau[20_000, 1]
    assert set(faults(model, recording, tau)) == {(model.velocity_names[1], "stuck")}


@every_motion
def test_saturated_efforts(name, kind):
    model, recording = description(name), free(name, kind)
    most = 0.7 * np.abs(recording.tau[:, 1]).max()
    tau = recording.tau.copy()
    tau[:, 1] = np.clip(tau[:, 1], -most, most)
    assert set(faults(model, recording, tau)) == {(model.velocity_names[1], "saturated")}


def test_efforts_at_the_limit_of_the_description():
    model, recording = with_friction(description("ur5")), free("ur5", waves)
    tau = recording.tau.copy()
    tau[30_000:30_200, 2] = model.effort_limit[2]
    (fault,) = dyn_ros.find_effort_faults(model, recording.q, recording.v, tau, DT)
    assert fault.message.startswith("efforts of elbow_joint are saturated at their limit, 150,")


def test_a_robot_at_rest_says_nothing():
    model = description("panda")
    q = np.tile(arm("panda", waves).motion(np.zeros(1))[0], (30_000, 1))
    v = np.zeros_like(q)
    tau = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    noise = 0.1 * np.random.default_rng(0).standard_normal(tau.shape)
    for factor in (1.0, -1.0, 0.02):
        assert dyn_ros.find_effort_faults(model, q, v, factor * tau + noise, DT) == ()
    constant = dyn_ros.find_effort_faults(model, q, v, tau, DT)  # without noise
    assert constant == ()


def test_a_standing_robot_says_nothing():
    model = load("solo12", "floating")
    rng = np.random.default_rng(0)
    time = np.arange(30_000) * DT
    q = np.tile(model.neutral(), (len(time), 1))
    v = np.zeros((len(time), model.nv))
    swing = 0.3 * np.sin(2.0 * np.pi * 0.4 * time)[:, None]
    q[:, 7:] += swing
    v[:, 6:] = 0.3 * 2.0 * np.pi * 0.4 * np.cos(2.0 * np.pi * 0.4 * time)[:, None]
    tau = -dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    tau[:, :6] = 0.0
    tau[:, 6:] += 1e-3 * rng.standard_normal((len(time), 12))
    assert dyn_ros.find_effort_faults(model, q, v, tau, DT) == ()


def test_a_monitor_finds_a_wrong_sign_soon_and_forgets():
    model, recording = description("ur5"), free("ur5", moves)
    observer, monitor = dyn_ros.MomentumObserver(model), dyn_ros.EffortMonitor(model)
    found = None
    tau = recording.tau.copy()
    tau[:, 1] *= -1.0
    for k, sample in enumerate(zip(recording.q, recording.v, tau)):
        external = observer.update(*sample, DT)
        if monitor.update(*sample, external, DT) and monitor.faults:
            found = k
            break
    assert found is not None
    assert found < 40_000
    assert [fault.kind for fault in monitor.faults] == ["sign"]
    monitor.reset()
    assert monitor.faults == ()


def test_a_monitor_keeps_what_it_is_passed():
    """The arrays can be used again for the next sample."""
    model, recording = description("ur5"), free("ur5", moves)
    tau = recording.tau.copy()
    tau[:, 1] *= -1.0
    external = dyn_ros.momentum_observer(model, recording.q, recording.v, tau, DT, 50.0)
    external += 10.0 * np.random.default_rng(0).standard_normal(external.shape)  # mean: small
    monitor, other = dyn_ros.EffortMonitor(model), dyn_ros.EffortMonitor(model)
    buffers = [np.empty(model.nv) for _ in range(4)]
    for sample in zip(recording.q, recording.v, tau, external):
        for buffer, numbers in zip(buffers, sample):
            buffer[:] = numbers
        other.update(*buffers, DT)
        if monitor.update(*sample, DT):
            assert other.faults == monitor.faults
            if monitor.faults:
                break
    assert [fault.kind for fault in monitor.faults] == ["sign"]


def test_what_cannot_be_a_measurement():
    """A thousand times the limit; what the robot needs is plausible whatever the limit says."""
    model = description("panda")
    np.testing.assert_allclose(largest_efforts(model), 1e3 * model.effort_limit)
    np.testing.assert_allclose(largest_speeds(model), 1e3 * model.velocity_limit)
    wrong = copy.copy(model)
    wrong.effort_limit[:], wrong.velocity_limit[:] = 1e-6, 1e-6
    assert (largest_efforts(wrong) >= 1e2 * typical_efforts(model)).all()
    assert (largest_speeds(wrong) == 1e3).all()
    wrong.effort_limit[:], wrong.velocity_limit[:] = np.inf, 0.0
    assert (largest_efforts(wrong) == 1e6).all()
    assert (largest_speeds(wrong) == 1e6).all()


@pytest.mark.parametrize(
    "gain, words",
    [
        (0.0, "positive numbers, got 0"),
        (np.nan, "6 finite numbers, got .*nan"),
        ("x", "6 finite numbers, got .*x"),
        (np.float32(np.inf), "6 finite numbers, got .*inf"),
        ([1.0, [2.0]], "6 finite numbers, got "),
    ],
    ids=str,
)
def test_invalid_gain(gain, words):
    with pytest.raises(ValueError, match=f"gain: expected {words}"):
        dyn_ros.EffortMonitor(description("ur5"), gain)


def test_a_robot_without_joints_has_no_faults():
    model = dyn_ros.Model.from_urdf("<robot name='post'><link name='base'/></robot>")
    none = np.zeros((3000, 0))
    assert dyn_ros.find_effort_faults(model, none, none, none, DT) == ()
