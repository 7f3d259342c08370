# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts of robots whose drives report something else than torques, and lose some."""

import copy
import pickle

import numpy as np
import pytest
from observer import motions
from observer.test_robot_observer import one_by_one, recorded, settings_of

import dyn_ros
from dyn_ros.observer import fault_checks
from dyn_ros.observer.robot_observer import RobotObserver
from dyn_ros.observer.thresholds import friction_at_rest

ROBOTS = pytest.mark.parametrize("robot, root_joint", [("panda", None), ("solo12", "floating")])


def frictionless(robot, root_joint=None):
    model = motions.lossy(robot, root_joint)
    model.damping, model.friction = np.zeros((2, model.nv))
    return model


def with_losses(model, coupled=False, **values):
    """The same robot with all kinds of friction; none of a floating base."""
    lossy, rng, nv = copy.copy(model), np.random.default_rng(8), model.nv
    base = model.nvs[0] if model.nvs[0] > 1 else 0
    on = (np.arange(nv) >= base).astype(float)
    lossy.damping, lossy.friction = on * rng.uniform(0.1, 0.5, (2, nv))
    coupling = np.eye(nv) + 0.6 * np.eye(nv, k=-1) * on if coupled else None
    lossy.drives = dyn_ros.Drives.of(
        nv,
        **{
            "load_friction": 0.1 * on,
            "root_friction": 0.2 * on,
            "stribeck": -0.1 * on,
            "stribeck_velocity": 0.3,
            "offset": on * rng.normal(size=nv),
            "friction_velocity": 0.02,
            "coupling": coupling,
            **values,
        },
    )
    return lossy


def applied(lossy, motion, v):
    """Torques of the motors of a robot with losses, from torques without."""
    return motion + dyn_ros.joint_friction(lossy, v, motion)


@ROBOTS
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("method", ["momentum", "direct", "kalman"])
def test_a_robot_with_losses_shows_the_efforts_of_one_without(robot, root_joint, coupled, method):
    model = frictionless(robot, root_joint)
    lossy, times = with_losses(model, coupled), np.linspace(0.0, 0.2, 101)
    motion = motions.motion(model, times)
    tau = applied(lossy, motion.tau, motion.v)
    assert np.abs(tau - motion.tau).max() > 0.5
    options = {
        "method": method,
        "torque_noise": 0.1,
        "velocity_noise": 1e-3,
        "disturbance_noise": 10.0,
    }
    expected = dyn_ros.momentum_observer(model, motion.q, motion.v, motion.tau, 0.002, **options)
    found = dyn_ros.momentum_observer(lossy, motion.q, motion.v, tau, 0.002, **options)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(found, expected, atol=1e-9)
    observer = pickle.loads(pickle.dumps(dyn_ros.MomentumObserver(lossy, **options)))
    for q, v, effort, row in zip(motion.q, motion.v, tau, expected):
        np.testing.assert_allclose(observer.update(q, v, effort, 0.002), row, atol=1e-9)


def test_one_step():
    model = frictionless("panda")
    lossy, rng = with_losses(model), np.random.default_rng(1)
    q, v, tau, *state = (rng.normal(size=(4, model.nv)) for _ in range(6))
    arguments = 0.001, 50.0, *state
    expected = dyn_ros.momentum_observer_step(model, dyn_ros.Data(model), q, v, tau, *arguments)
    found = dyn_ros.momentum_observer_step(
        lossy, dyn_ros.Data(lossy), q, v, applied(lossy, tau, v), *arguments
    )
    np.testing.assert_allclose(found.external, expected.external, atol=1e-10)
    none = dyn_ros.momentum_observer_step(
        lossy, dyn_ros.Data(lossy), q, v, tau, *arguments, friction=False
    )
    np.testing.assert_allclose(none.external, expected.external, atol=1e-10)


@pytest.mark.parametrize("method", ["momentum", "direct", "kalman"])
def test_friction_that_turns_over_a_distance(method):
    """Dahl's differential equation by small steps, in a motion with reversals."""
    model, times = frictionless("panda"), np.arange(0.0, 0.4, 1e-4)
    lossy, on = (
        with_losses(
            model,
            stribeck=0.0,
            load_friction=0.0,
            root_friction=0.0,
            friction_velocity=0.0,
            offset=0.0,
        ),
        np.arange(8) > 1,
    )
    lossy.drives = lossy.drives.with_values(friction_distance=0.01 * on)
    v = 0.4 * np.sin(np.multiply.outer(times, np.linspace(10.0, 40.0, 8)))
    q = model.neutral() + np.concatenate([np.zeros((1, 8)), np.cumsum(1e-4 * v, axis=0)[:-1]])
    rest = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, np.gradient(v, 1e-4, axis=0))
    s, friction = np.zeros(8), np.empty_like(v)
    for row, speed in zip(friction, v):
        s = np.where(on, s + 1e-4 * (speed - np.abs(speed) * s) / 0.01, np.sign(speed))
        row[:] = lossy.damping * speed + lossy.friction * s
    options = {
        "method": method,
        "torque_noise": 0.1,
        "velocity_noise": 1e-3,
        "disturbance_noise": 10.0,
    }
    expected = dyn_ros.momentum_observer(model, q, v, rest, 1e-4, **options)
    found = dyn_ros.momentum_observer(lossy, q, v, rest + friction, 1e-4, **options)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    at_once = copy.copy(lossy)
    at_once.drives = lossy.drives.with_values(friction_distance=0.0)
    assert (
        np.abs(
            dyn_ros.momentum_observer(at_once, q, v, rest + friction, 1e-4, **options) - expected
        )[:, on]
        .max(axis=0)
        .min()
        > 0.02
    )
    one_by_one = dyn_ros.MomentumObserver(lossy, **options)
    for k in range(len(times)):
        if k == 2000:  # what is wrong changes nothing, not even the path
            with pytest.raises(ValueError, match="q: expected"):
                one_by_one.update(np.full(8, np.nan), -v[k], rest[k], 1.0)
            one_by_one = copy.copy(one_by_one)
        row = one_by_one.update(q[k], v[k], rest[k] + friction[k], 1e-4)
        np.testing.assert_allclose(row, found[k], atol=1e-9)
    one_by_one.reset()
    one_by_one.update(q[0], -v[50], rest[0], 1e-4)
    again = dyn_ros.MomentumObserver(lossy, **options)
    again.update(q[0], -v[50], rest[0], 1e-4)
    np.testing.assert_array_equal(
        one_by_one.update(q[1], v[50], rest[1], 1e-4), again.update(q[1], v[50], rest[1], 1e-4)
    )


def test_an_observer_that_starts_again_at_rest_goes_on():
    """Friction at rest is zero, whatever the motion before, and whether it is known."""
    model = frictionless("panda")
    lossy = with_losses(model, friction_distance=0.01, friction_velocity=0.0)
    observer, q = dyn_ros.MomentumObserver(lossy, 100.0), model.neutral()
    moving, rest = np.full(8, 0.3), np.zeros(8)
    for v in [moving] * 50 + [rest] * 200:
        q = q + 0.002 * v
        expected = observer.update(q, v, rest, 0.002)
    observer.reset(expected)
    for _ in range(200):
        found = observer.update(q, rest, rest, 0.002)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_friction_turns_anew_after_drives_without_a_distance():
    model = frictionless("panda")
    lossy, q, v = with_losses(model, friction_velocity=0.0), model.neutral(), np.full(8, 0.3)
    with_distance = lossy.drives.with_values(friction_distance=1.0)
    observers = [dyn_ros.MomentumObserver(lossy, method="direct") for _ in range(2)]
    lossy.drives = with_distance
    observers[0].update(q, -v, v, 0.002)
    lossy.drives = with_distance.with_values(friction_distance=0.0)
    for observer in observers:
        observer.update(q, v, v, 0.002)
        observer.reset(np.zeros(8))
    lossy.drives = with_distance
    first, second = (observer.update(q, v, v, 0.002) for observer in observers)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("own, other", [(0.3, 0.1), (0.1, 0.3), (0.3, 0.0)])
def test_the_larger_velocity_of_friction_counts(own, other):
    model, both = motions.lossy("panda"), motions.lossy("panda")
    both.drives = dyn_ros.Drives.of(8, friction_velocity=own)
    times = np.linspace(0.0, 0.1, 51)
    motion = motions.motion(model, times)
    slow = 0.3 * motion.v
    expected = dyn_ros.momentum_observer(
        model, motion.q, slow, motion.tau, 0.002, friction_velocity=max(own, other)
    )
    found = dyn_ros.momentum_observer(
        both, motion.q, slow, motion.tau, 0.002, friction_velocity=other
    )
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert np.abs(slow).min() < 0.1 < 0.3 < np.abs(slow).max()


def test_drives_of_a_model_can_change_during_observation():
    model = frictionless("panda")
    lossy = with_losses(model)
    motion = motions.motion(model, np.linspace(0.0, 0.1, 51))
    tau = applied(lossy, motion.tau, motion.v)
    changing = copy.copy(model)
    changing.damping, changing.friction = lossy.damping, lossy.friction
    observer = dyn_ros.MomentumObserver(changing)
    expected = dyn_ros.MomentumObserver(model)
    changing.drives = lossy.drives
    for k in range(51):
        found = observer.update(motion.q[k], motion.v[k], tau[k], 0.002)
        np.testing.assert_allclose(
            found, expected.update(motion.q[k], motion.v[k], motion.tau[k], 0.002), atol=1e-9
        )


def measured(lossy, stamp, q, tau, delay):
    """Efforts as drives report them, ``delay`` samples late."""
    drives, data = lossy.drives, dyn_ros.Data(lossy)
    gravity = dyn_ros.generalized_gravity(lossy, data, q)
    if drives.coupling is not None:
        tau = tau @ np.linalg.inv(drives.coupling)
    effort = (tau - drives.is_compensated * gravity) / drives.gain
    return np.vstack([np.repeat(effort[:1], delay, axis=0), effort[: len(effort) - delay]])


@ROBOTS
@pytest.mark.parametrize(
    "coupled, constant, delay", [(False, 1.0, 0), (False, 0.5, 0), (True, 1.0, 0), (False, 1.0, 3)]
)
def test_currents_show_the_efforts_of_a_clean_robot(robot, root_joint, coupled, constant, delay):
    """Negative gains, compensated gravity, offsets, load friction: one by one, and all at once."""
    model = frictionless(robot, root_joint)
    nv, base = model.nv, int(model.nvs[0]) if model.nvs[0] > 1 else 0
    gain = np.where(np.arange(nv) < base, 1.0, np.where(np.arange(nv) % 2, -9.0, 12.0)) / constant
    compensated = (np.arange(nv) % 3 == 2) & (np.arange(nv) >= base) & (not coupled)
    # the torques of the base are zero, whatever efforts say
    lossy = with_losses(model, coupled, gain=gain, is_compensated=compensated, delay=delay * 0.005)
    stamp, q, v, tau = recorded(model)
    if delay:  # without gaps, over which nothing is late
        stamp = 7_000_000_000 + 5_000_000 * np.arange(len(stamp))
    effort = measured(lossy, stamp, q, applied(lossy, tau, v), delay) / constant
    settings = settings_of()
    known = np.ones(len(stamp), bool)
    wanted = "external", "residual"
    clean = RobotObserver(model, settings).run(stamp, q, v, tau, known, wanted)
    settings = settings_of(effort_constant=(constant,))
    found = RobotObserver(lossy, settings).run(stamp, q, v, effort, known, wanted)
    single = one_by_one(RobotObserver(lossy, settings), stamp, q, v, effort, known)
    for name in wanted:
        expected = np.roll(clean[name], delay, axis=0)
        expected[: 100 if delay else 0] = np.nan  # until the starts no longer matter
        compared = np.isfinite(expected) & np.isfinite(found[name])
        assert compared.sum() > 20 * nv
        np.testing.assert_allclose(
            found[name][compared], expected[compared], atol=1e-6 if delay else 1e-9
        )
        np.testing.assert_allclose(single[name], found[name], atol=1e-9)


def test_delays_that_differ_are_an_error():
    model = motions.lossy("panda")
    model.drives = dyn_ros.Drives.of(8, delay=[0.0] * 7 + [0.002])
    with pytest.raises(ValueError, match="one delay for all joints, got 0 s for .* 0.002 s for"):
        RobotObserver(model, settings_of())


def test_the_whole_delay_is_estimated_whatever_is_declared():
    model = motions.lossy("panda")
    times = np.arange(0.0, 4.0, 0.005)
    motion = motions.motion(model, times, external=lambda times: np.zeros(model.nv))
    late = np.vstack([motion.tau[:1]] * 4 + [motion.tau[:-4]])
    expected = dyn_ros.estimate_effort_delay(model, times, motion.q, late)
    model.drives = dyn_ros.Drives.of(model.nv, gain=-8.0, delay=0.01)
    found = dyn_ros.estimate_effort_delay(model, times, motion.q, late / -8.0)
    assert found.delay == pytest.approx(expected.delay, abs=1e-5) and found.delay > 0.01


def test_friction_at_rest_grows_with_the_load():
    model = motions.lossy("panda")
    np.testing.assert_array_equal(friction_at_rest(model), model.friction)
    typical = fault_checks.typical_efforts(model)
    model.drives = dyn_ros.Drives.of(8, load_friction=0.1, stribeck=0.2)
    expected = model.friction + 0.2 + 0.1 * typical
    np.testing.assert_allclose(friction_at_rest(model), expected)
    coupling = np.eye(8)
    coupling[7, 6] = -1.0  # the motor of the last joint moves both
    model.drives = dyn_ros.Drives.of(8, stribeck=0.2, coupling=coupling)
    expected = model.friction + 0.2
    expected[6] += expected[7]
    np.testing.assert_allclose(friction_at_rest(model), expected)
