# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts from positions, velocities and efforts."""

import copy
import itertools
import os
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from observer import motions

import dyn_ros
import peer
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.observer import inputs

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))
METHODS = pytest.mark.parametrize("method", ["momentum", "direct", "kalman"])
NOISE = {"torque_noise": 0.5, "velocity_noise": 1e-3, "disturbance_noise": 30.0}


def observer(model, gain=50.0, **options):
    return dyn_ros.MomentumObserver(model, gain, **{**NOISE, **options})


def updates(estimate, samples, dt):
    """What the updates return, (N, nv)."""
    return np.array(
        [estimate.update(*sample) for sample in zip(*samples, np.broadcast_to(dt, len(samples[0])))]
    )


def arrays(motion):
    return motion.q, motion.v, motion.tau


# --- what it estimates


@EVERY
@pytest.mark.parametrize("method", ["momentum", "direct"])
def test_a_constant_effort_is_found_exactly(robot, root_joint, method):
    """A robot that the environment holds still, with steps of any length."""
    model = motions.lossy(robot, root_joint)
    q, zero = model.random_configuration(np.random.default_rng(1)), np.zeros(model.nv)
    g = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    gain, dt = np.linspace(10.0, 200.0, model.nv), [0.001, 0.03, 0.0004, 0.2, 0.00001]
    estimate = observer(model, gain, method=method)
    assert np.array_equal(estimate.update(q, zero, 0.25 * g, 0.001), zero)
    for n, h in enumerate(dt):
        found = estimate.update(q, zero, 0.25 * g, h)
        peer.close(found, 0.75 * g * -np.expm1(-gain * sum(dt[: n + 1])), 1e-13, np.abs(g).max())


@pytest.mark.parametrize("gain", [1e-3, 50.0, 1e6])
def test_a_constant_effort_that_accelerates_is_found_exactly(gain):
    """One joint in space, whose momentum is known in closed form."""
    model = peer.new_pair("double_pendulum").model
    model = model.reduced({model.joint_names[1]: 0.4})
    model.gravity, model.damping, model.friction = (0.0, 0.0, 0.0), [0.0], [0.0]
    M = dyn_ros.crba(model, dyn_ros.Data(model), [0.3])[0, 0]
    rng, estimate = np.random.default_rng(0), dyn_ros.MomentumObserver(model, gain)
    t, v, efforts, expected = 0.0, 0.5, rng.normal(size=30), 0.0
    estimate.update([0.3], [v], [efforts[0]], 1.0)
    for before, after in itertools.pairwise(efforts):
        h = rng.uniform(1e-4, 0.1)
        t, v = t + h, v + h * (0.5 * (before + after) - 0.7) / M
        found = estimate.update([0.3], [v], [after], h)
        expected = 0.7 * np.expm1(-gain * t)
        assert found == pytest.approx(expected, rel=1e-10)


@SOME
@pytest.mark.parametrize("method", ["momentum", "direct"])
def test_efforts_along_a_motion_are_found(robot, root_joint, method):
    """To the second order in the step; with the direct method to the first."""
    model, errors = motions.lossy(robot, root_joint), []
    gain = np.linspace(20.0, 60.0, model.nv)
    for count in (101, 201):
        times = np.linspace(0.0, 0.2, count)
        motion, h = motions.motion(model, times), times[1]
        found = observer(model, gain, method=method).run(*arrays(motion), h)
        error = np.abs(found - motions.filtered(motion.external, h, gain))
        errors.append(error.max())
    accuracy, order = {"momentum": (1e-5, 2), "direct": (2e-4, 1)}[method]
    assert errors[1] < accuracy * np.abs(motion.tau).max()
    assert errors[1] < 1.15 * 0.5**order * errors[0]


@SOME
def test_the_kalman_filter_finds_them_as_well(robot, root_joint):
    model = motions.lossy(robot, root_joint)
    times = np.linspace(0.0, 0.4, 401)
    motion = motions.motion(model, times)
    found = observer(
        model, method="kalman", torque_noise=1e-2, velocity_noise=1e-5, disturbance_noise=1e3
    ).run(*arrays(motion), times[1])
    error = np.abs(found - motion.external)[100:]
    assert error.max() < 0.02 * np.abs(motion.external).max()


def test_the_base_feels_the_net_wrench():
    """Forces on two feet of a robot that flies; the net wrench in the axes of the base."""
    model = motions.lossy("solo12", "floating")
    times = np.linspace(0.0, 0.1, 401)
    motion = motions.motion(model, times, external=lambda times: np.zeros(model.nv))
    feet = [name for name in model.frame_names if name.endswith("_FOOT")][:2]
    forces = {feet[0]: [1.0, 2.0, 30.0, 0.1, 0.2, 0.3], feet[1]: [-4.0, 5.0, 60.0, 0.0, 0.0, 1.0]}
    data = dyn_ros.Data(model)
    f_ext = np.array([model.external_forces(forces, q, "world") for q in motion.q])
    free = dyn_ros.rnea(model, data, motion.q, motion.v, motion.a)
    loaded = dyn_ros.rnea(model, data, motion.q, motion.v, motion.a, f_ext)
    found = dyn_ros.momentum_observer(
        model, motion.q, motion.v, motion.tau + loaded - free, times[1], 2000.0
    )
    R, p = dyn_ros.frame_placements(model, data, motion.q[-1])[0][:3, :3], motion.q[-1][:3]
    oMf = dyn_ros.frame_placements(model, data, motion.q[-1])
    at = [oMf[model.frame_names.index(foot)][:3, 3] - p for foot in feet]
    force = sum(np.array(forces[foot][:3]) for foot in feet)
    moment = sum(forces[foot][3:] + np.cross(r, forces[foot][:3]) for foot, r in zip(feet, at))
    peer.close(found[-1, :6], [*(R.T @ force), *(R.T @ moment)], 2e-3)


def test_a_mimicked_joint_is_projected():
    """Both fingers of a gripper, pressed apart."""
    model = motions.lossy("panda")
    q, zero = model.neutral(), np.zeros(model.nv)
    both = {
        "panda_leftfinger": [0.0, 7.0, 0.0, 0.0, 0.0, 0.0],
        "panda_rightfinger": [0.0, -7.0, 0.0, 0.0, 0.0, 0.0],
    }
    tau = dyn_ros.static_torque(model, dyn_ros.Data(model), q, model.external_forces(both))
    estimate = dyn_ros.MomentumObserver(model, 1e4)
    estimate.update(q, zero, tau, 1.0)
    g = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    peer.close(estimate.update(q, zero, tau, 1.0), g - tau, 1e-12, np.abs(g).max())
    assert abs(estimate.external[-1] - 14.0) < 1e-10


def test_friction_can_be_left_out_or_be_smooth_at_rest():
    model = motions.lossy("panda")
    q, v = model.neutral(), np.full(model.nv, 1e-3)
    data = dyn_ros.Data(model)
    tau = dyn_ros.nonlinear_effects(model, data, q, v).copy()
    found = {}
    for name, options in {
        "none": {"friction": False},
        "sign": {},
        "smooth": {"friction_velocity": 0.01},
    }.items():
        estimate = dyn_ros.MomentumObserver(model, 1e4, method="direct", **options)
        estimate.update(q, v, tau, 1.0)
        found[name] = estimate.update(q, v, tau, 1.0)
    peer.close(found["none"], np.zeros(model.nv), 1e-12, 1.0)
    peer.close(found["sign"], 1e-3 * model.damping + model.friction, 1e-10)
    peer.close(found["smooth"], 1e-3 * model.damping + 0.1 * model.friction, 1e-10)


def test_changed_friction_and_gravity_of_the_model_are_used():
    model = motions.lossy("panda")
    q, v, tau = model.neutral(), np.ones(model.nv), np.zeros(model.nv)
    estimate = dyn_ros.MomentumObserver(model)
    estimate.update(q, v, tau, 1.0)
    model.friction, model.damping, model.gravity = 0.0 * v, 2.0 * v, (0.0, 0.0, -1.6)
    fresh = dyn_ros.MomentumObserver(model)
    for each in (estimate, fresh):
        each.reset()
        each.update(q, v, tau, 1.0)
        each.update(q, v, tau, 1.0)
    assert np.array_equal(estimate.external, fresh.external)


# --- the disturbance filter


class Reference:
    """The filter in plain matrices."""

    def __init__(self, model, torque_noise, velocity_noise, disturbance_noise):
        self.model, self.data, n = model, dyn_ros.Data(model), model.nv
        self.noise = [
            np.broadcast_to(x, n) ** 2 for x in (torque_noise, velocity_noise, disturbance_noise)
        ]
        self.x = None

    def update(self, q, v, tau, h):
        n = self.model.nv
        p, rate = dyn_ros.momentum_terms(self.model, self.data, q, v)
        u = tau + rate - dyn_ros.joint_friction(self.model, v)
        M = dyn_ros.crba(self.model, self.data, q)
        effort, velocity, drift = (np.diag(x) for x in self.noise)
        R, zero, one = M @ velocity @ M.T, np.zeros((n, n)), np.eye(n)
        if self.x is None:
            self.x, self.P = np.append(p, np.zeros(n)), np.block([[R, zero], [zero, drift]])
        else:
            F = np.block([[one, h * one], [zero, one]])
            Q = np.block(
                [
                    [h * h * effort + h**3 / 3 * drift, h * h / 2 * drift],
                    [h * h / 2 * drift, h * drift],
                ]
            )
            x = F @ self.x + np.append(0.5 * h * (self.u + u), np.zeros(n))
            P = F @ self.P @ F.T + Q
            H = np.hstack([one, zero])
            K = np.linalg.solve(H @ P @ H.T + R, H @ P).T
            I_KH = np.eye(2 * n) - K @ H
            self.x, self.P = x + K @ (p - H @ x), I_KH @ P @ I_KH.T + K @ R @ K.T
        self.u = u
        return self.x[n:]


@SOME
def test_the_kalman_filter_is_that_of_the_equations(robot, root_joint):
    model = motions.lossy(robot, root_joint)
    rng, nv = np.random.default_rng(0), model.nv
    noise = {name: value * np.linspace(0.5, 2.0, nv) for name, value in NOISE.items()}
    mine, reference = observer(model, method="kalman", **noise), Reference(model, **noise)
    motion = motions.motion(model, np.linspace(0.0, 0.5, 26))
    for q, v, tau in zip(*arrays(motion)):
        h = rng.uniform(1e-3, 0.03)
        expected = reference.update(q, v, tau, h)
        found = mine.update(q, v, tau, h)
        peer.close(found, expected, 1e-8, max(1.0, np.abs(expected).max()))
        peer.close(mine.covariance, reference.P[nv:, nv:], 1e-8)


def test_the_covariance_of_the_kalman_filter_remains_positive():
    model = motions.lossy("panda")
    q, zero = model.neutral(), np.zeros(model.nv)
    g = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    count = 200_000
    estimate = observer(model, method="kalman", velocity_noise=1e-7, torque_noise=3.0)
    estimate.run(np.tile(q, (count, 1)), np.zeros((count, model.nv)), np.tile(g, (count, 1)), 1e-3)
    values = np.linalg.eigvalsh(estimate.covariance)
    assert values[0] > 0.0
    assert np.array_equal(estimate.covariance, estimate.covariance.T)
    peer.close(estimate.external, zero, 1e-9, 1.0)


def test_the_covariance_of_the_kalman_filter_is_that_of_its_errors():
    """Normalized squared errors of many runs with the noise that it expects."""
    model = motions.lossy("ur5")
    rng, n, h, squares = np.random.default_rng(3), model.nv, 1e-3, []
    q, data, noise = (
        model.neutral(),
        dyn_ros.Data(model),
        {"torque_noise": 0.3, "velocity_noise": 2e-4, "disturbance_noise": 20.0},
    )
    g = dyn_ros.generalized_gravity(model, data, q).copy()
    model.friction, model.damping = 0.0 * g, 0.0 * g
    for _ in range(60):
        external = np.cumsum(
            noise["disturbance_noise"] * np.sqrt(h) * rng.normal(size=(150, n)), axis=0
        )
        tau = g - external + noise["torque_noise"] * rng.normal(size=external.shape)
        v = noise["velocity_noise"] * rng.normal(size=external.shape)
        estimate = observer(model, method="kalman", **noise)
        error = estimate.run(np.tile(q, (150, 1)), v, tau, h)[-1] - external[-1]
        squares.append(error @ np.linalg.solve(estimate.covariance, error))
    # the walk of one step is drawn as a jump: a little more than the filter expects
    assert np.mean(squares) == pytest.approx(n, abs=4.5 * np.sqrt(2.0 * n / 60))


# --- the covariance of the residual


def test_the_configuration_of_the_covariance_is_that_of_the_sample():
    """Also if the caller moves its array on."""
    model, rng = motions.lossy("ur5"), np.random.default_rng(6)
    q, still = model.random_configuration(rng), np.zeros(model.nv)
    estimate = dyn_ros.MomentumObserver(model, torque_noise=0.1, velocity_noise=0.01)
    estimate.update(q, still, still, 0.01)
    before = estimate.covariance
    q += 0.5
    np.testing.assert_array_equal(estimate.covariance, before)


@pytest.mark.parametrize("method", ["momentum", "direct"])
def test_the_covariance_of_the_residual_is_that_of_the_filter(method):
    """From the responses to a single sample of noise of each effort and velocity."""
    model = motions.lossy("ur5")
    model.gravity, model.friction, model.damping = np.zeros(3), *np.zeros((2, model.nv))
    q, h, n, count = model.neutral(), 1e-3, model.nv, 400
    noise = {"torque_noise": np.linspace(0.1, 0.6, n), "velocity_noise": np.linspace(2e-4, 1e-3, n)}
    gain = np.linspace(40.0, 200.0, n)
    expected = np.zeros((n, n))
    for k in range(n):
        for name, small in (("tau", 1.0), ("v", 1e-7)):
            impulse = {"tau": np.zeros((count, n)), "v": np.zeros((count, n))}
            impulse[name][1, k] = small
            r = dyn_ros.momentum_observer(
                model, np.tile(q, (count, 1)), impulse["v"], impulse["tau"], h, gain, method=method
            )
            size = noise["torque_noise" if name == "tau" else "velocity_noise"][k] / small
            expected += size**2 * r.T @ r
    estimate = dyn_ros.MomentumObserver(model, gain, method=method, **noise)
    assert estimate.covariance is None
    estimate.update(q, np.zeros(n), np.zeros(n), h)
    peer.close(estimate.covariance, expected, 1e-5)
    assert dyn_ros.MomentumObserver(model, torque_noise=1.0).covariance is None


# --- a recording and its samples


@SOME
@METHODS
def test_a_recording_contains_the_results_of_its_samples(robot, root_joint, method):
    pair = peer.new_pair(robot, root_joint)
    model = motions.lossy(robot, root_joint)
    q, v, _, tau = pair.states(41, seed=2)
    gain = np.linspace(10.0, 100.0, model.nv)
    for dt in (1e-3, np.random.default_rng(0).uniform(5e-4, 0.1, 41)):
        one = observer(model, gain, method=method, friction_velocity=0.3)
        expected = updates(one, (q, v, tau), dt)
        assert not expected[0].any()
        found = dyn_ros.momentum_observer(
            model, q, v, tau, dt, gain, method=method, threads=2, friction_velocity=0.3, **NOISE
        )
        peer.close(found, expected, 1e-12)
        parts, each = (
            observer(model, gain, method=method, friction_velocity=0.3),
            np.broadcast_to(dt, 41),
        )
        found = [
            parts.run(q[:1], v[:1], tau[:1], each[:1]),
            parts.run(q[1:18], v[1:18], tau[1:18], each[1:18]),
            updates(parts, (q[18:20], v[18:20], tau[18:20]), each[18:20]),
            parts.run(q[20:], v[20:], tau[20:], dt if np.ndim(dt) == 0 else dt[20:]),
        ]
        peer.close(np.concatenate(found), expected, 1e-12)
        peer.close(parts.external, expected[-1], 1e-12, np.abs(expected).max())
        peer.close(parts.covariance, one.covariance, 1e-12)


@METHODS
def test_long_recordings_are_computed_in_parts(method, monkeypatch):
    model, pair = motions.lossy("panda"), peer.new_pair("panda")
    q, v, _, tau = pair.states(50)
    dt = np.linspace(0.001, 0.01, 50)
    expected = dyn_ros.momentum_observer(model, q, v, tau, dt, method=method, **NOISE)
    monkeypatch.setattr(inputs, "_BLOCK_SIZE", 16)
    found = dyn_ros.momentum_observer(model, q, v, tau, dt, method=method, **NOISE)
    peer.close(found, expected, 1e-13)


def test_a_robot_with_many_joints():
    """The rows of a batch are padded; they are more than a vector."""
    pair = peer.new_pair("simple_humanoid", "floating")
    model = pair.model
    for k in range(2):
        other = peer.new_pair("simple_humanoid").model
        model = model.append(
            other,
            model.frame_names[0],
            dyn_ros.SE3(np.eye(3), [0, k + 1.0, 0]),
            "floating",
            prefix=f"{k}/",
        )
    assert model.nv > 64
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(20)])
    v, tau = rng.uniform(-1.0, 1.0, (2, 20, model.nv))
    for method in ("momentum", "direct", "kalman"):
        expected = updates(observer(model, method=method), (q, v, tau), 0.01)
        found = dyn_ros.momentum_observer(model, q, v, tau, 0.01, method=method, **NOISE)
        peer.close(found, expected, 1e-12)


def test_arrays_of_any_kind_are_accepted():
    model, pair = motions.lossy("panda"), peer.new_pair("panda")
    q, v, _, tau = pair.states(9)
    expected = dyn_ros.momentum_observer(model, q, v, tau, 0.01)
    found = dyn_ros.momentum_observer(
        model,
        q.tolist(),
        np.asfortranarray(v),
        tau[:, ::-1].copy()[:, ::-1],
        np.full(9, 0.01)[::-1],
    )
    peer.close(found, expected, 1e-13)
    listed = dyn_ros.MomentumObserver(model)
    peer.close(
        [listed.update(*map(list, state), 0.01) for state in zip(q, v, tau)], expected, 1e-12
    )
    assert dyn_ros.momentum_observer(model, q[:0], v[:0], tau[:0], 0.01).shape == (0, model.nv)


def test_a_recording_takes_little_memory():
    model = motions.lossy("panda")
    count = 100_000
    q = np.zeros((count, model.nq))
    dyn_ros.momentum_observer(model, q[:100], q[:100], q[:100], 0.01)
    tracemalloc.start()
    dyn_ros.momentum_observer(model, q, q, q, 0.01)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.5 * q.nbytes


# --- its state


@METHODS
def test_the_result_is_a_copy(method):
    model = motions.lossy("panda")
    estimate, q, v, _, tau = observer(model, method=method), *peer.new_pair("panda").states(3)
    first = [estimate.update(*state, 0.01) for state in zip(q, v, tau)]
    kept = [each.copy() for each in first]
    first[1][:] = 1e9
    estimate.external[:] = 1e9
    other = updates(observer(model, method=method), (q, v, tau), 0.01)
    assert np.array_equal(kept, other)
    assert np.array_equal(estimate.external, kept[2])


@METHODS
def test_after_reset_it_starts_again(method):
    model = motions.lossy("panda")
    q, v, _, tau = peer.new_pair("panda").states(6)
    estimate = observer(model, method=method)
    expected = updates(estimate, (q, v, tau), 0.01)
    estimate.reset()
    assert not estimate.external.any()
    assert np.array_equal(updates(estimate, (q, v, tau), 0.01), expected)
    estimate.reset(expected[2])
    assert np.array_equal(estimate.external, expected[2])
    assert np.array_equal(estimate.update(q[0], v[0], tau[0], 0.01), expected[2])
    with pytest.raises(ValueError, match="external: expected 8 finite numbers"):
        estimate.reset([0.0])


@METHODS
def test_an_error_leaves_the_estimate_unchanged(method):
    model = motions.lossy("solo12", "floating")
    q, v, _, tau = peer.new_pair("solo12", "floating").states(4)
    expected = updates(observer(model, method=method), (q, v, tau), 0.01)
    estimate, bad = observer(model, method=method), np.full(model.nv, np.nan)
    for n in range(4):
        for call in (
            lambda n=n: estimate.update(q[n], v[n], bad, 0.01),
            lambda n=n: estimate.update(q[n], bad, tau[n], 0.01),
            lambda n=n: estimate.update(1.1 * q[n], v[n], tau[n], 0.01),
            lambda n=n: estimate.update(q[n], v[n], tau[n], 0.0),
            lambda n=n: estimate.update(q, v, tau, 0.01),
            lambda: estimate.run(q, v, np.tile(bad, (4, 1)), 0.01),
        ):
            with pytest.raises(ValueError):
                call()
        assert np.array_equal(estimate.update(q[n], v[n], tau[n], 0.01), expected[n])


@METHODS
def test_after_numbers_that_are_too_large_it_starts_again(method):
    model = motions.lossy("panda")
    q, v, _, tau = peer.new_pair("panda").states(6)
    expected = updates(observer(model, method=method), (q, v, tau), 0.01)
    estimate = observer(model, method=method)
    for wrong in ((1e200 * q[0], v[0], tau[0], 0.01), (q[0], 1e200 * v[0], tau[0], 0.01)):
        updates(estimate, (q[:2], v[:2], tau[:2]), 0.01)
        with pytest.raises(ValueError, match="the external efforts overflow"):
            estimate.update(*wrong)
        assert not estimate.external.any()
        assert np.array_equal(updates(estimate, (q, v, tau), 0.01), expected)
    v[3] *= 1e200
    with pytest.raises(ValueError, match="in sample 3 with which the external efforts overflow"):
        estimate.run(q, v, tau, 0.01)
    assert not estimate.external.any()


@METHODS
def test_a_shallow_copy_shares_the_model_alone(method):
    model = motions.lossy("panda")
    q, v, _, tau = peer.new_pair("panda").states(6)
    estimate = observer(model, method=method)
    updates(estimate, (q[:3], v[:3], tau[:3]), 0.01)
    other, kept = copy.copy(estimate), estimate.external
    assert other.model is model
    expected = updates(other, (q[3:], v[3:], tau[3:]), 0.01)
    assert np.array_equal(estimate.external, kept)
    assert np.array_equal(updates(estimate, (q[3:], v[3:], tau[3:]), 0.01), expected)


@METHODS
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_goes_on_by_itself(method, copied):
    model = motions.lossy("panda")
    q, v, _, tau = peer.new_pair("panda").states(6)
    estimate = observer(model, method=method)
    updates(estimate, (q[:3], v[:3], tau[:3]), 0.01)
    other = copied(estimate)
    other.model.damping[:] = 0.0
    other.model.damping = model.damping
    expected = updates(estimate, (q[3:], v[3:], tau[3:]), 0.01)
    assert np.array_equal(updates(other, (q[3:], v[3:], tau[3:]), 0.01), expected)
    other.model.damping = 2.0 * model.damping
    assert not np.array_equal(
        other.update(q[0], v[0], tau[0], 0.01), estimate.update(q[0], v[0], tau[0], 0.01)
    )


def test_the_gain_can_change():
    model = motions.lossy("panda")
    q, v, _, tau = peer.new_pair("panda").states(3)
    estimate = dyn_ros.MomentumObserver(model, 10.0)
    estimate.gain[:] = 5.0
    assert np.array_equal(estimate.gain, np.full(model.nv, 10.0))
    found = updates(estimate, (q, v, tau), 0.01)
    estimate.gain = np.full(model.nv, 1e9)
    assert not np.allclose(estimate.update(q[2], v[2], tau[2], 0.01), found[2])
    with pytest.raises(ValueError, match="gain: expected more than 0"):
        estimate.gain = -1.0


# --- wrong arguments


@pytest.mark.parametrize(
    "options, words",
    [
        ({"method": "median"}, "method: expected one of momentum, direct, kalman, got 'median'"),
        ({"gain": 0.0}, "gain: expected more than 0 .*, got 0.0 for 'panda_joint1'"),
        ({"gain": np.nan}, "gain: expected 8 finite numbers"),
        ({"gain": "fast"}, "gain: expected 8 finite numbers"),
        ({"gain": [1.0, 2.0]}, "gain: expected 8 finite numbers, got shape"),
        ({"gain": [1.0, [2.0]]}, r"gain: expected 8 finite numbers, got \[1.0, \[2.0\]\]"),
        ({"method": np.array(["direct", "kalman"])}, "method: expected one of momentum, direct"),
        ({"friction_velocity": -1.0}, "friction_velocity: expected at least 0"),
        ({"torque_noise": 0.0}, "torque_noise: expected more than 0"),
        (
            {"method": "kalman", "velocity_noise": 1.0},
            "torque_noise: expected a number of more than 0 for the method 'kalman', got None",
        ),
    ],
)
def test_wrong_settings_are_rejected(options, words):
    with pytest.raises(ValueError, match=words):
        dyn_ros.MomentumObserver(peer.pair("panda").model, **options)


def test_a_model_is_required():
    with pytest.raises(TypeError, match=r"model: expected a dyn_ros\.Model"):
        dyn_ros.MomentumObserver("panda")


@METHODS
@pytest.mark.parametrize("dt", [0.0, -1e-3, np.nan, np.inf, None, "0.1", [0.1, 0.1], [0.1]])
def test_a_wrong_step_is_rejected(method, dt):
    pair = peer.pair("panda")
    q, v, _, tau = pair.state(1)
    estimate = observer(pair.model, method=method)
    for _ in range(2):
        with pytest.raises(ValueError, match="dt: expected a finite number of more than 0 s, got"):
            estimate.update(q, v, tau, dt)
        estimate.update(q, v, tau, 0.01)


@METHODS
@pytest.mark.parametrize(
    "name, value, words",
    [
        ("q", np.zeros((2, 8)), r"q: expected one state, shape \(8,\), got \(2, 8\)"),
        ("v", np.zeros((1, 8)), r"v: expected one state, shape \(8,\), got \(1, 8\)"),
        ("tau", np.zeros((3, 8)), r"tau: expected one state, shape \(8,\), got \(3, 8\)"),
        ("tau", np.zeros(7), r"tau: expected shape \(8,\)"),
        ("v", "v", "v: expected shape"),
        ("v", np.full(8, np.inf), r"v: expected finite numbers, got inf .*'panda_joint1'"),
        ("tau", np.full(8, np.nan), r"tau: expected finite numbers, got nan .*'panda_joint1'"),
    ],
)
def test_a_wrong_sample_is_rejected(method, name, value, words):
    pair = peer.pair("panda")
    q, v, _, tau = pair.state(1)
    estimate = observer(pair.model, method=method)
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            estimate.update(**{"q": q, "v": v, "tau": tau, "dt": 0.01, name: value})
        estimate.update(q, v, tau, 0.01)


@METHODS
@pytest.mark.parametrize(
    "name, value, words",
    [
        ("q", np.zeros(8), r"q: expected shape \(N, 8\), one row for each sample, got \(8,\)"),
        ("v", np.zeros((4, 8)), "v: expected 5 samples as in q, got 4"),
        ("tau", np.zeros((6, 8)), "tau: expected 5 samples as in q, got 6"),
        ("tau", np.vstack([np.zeros((4, 8)), np.full(8, np.nan)]), r"tau: .* nan in tau\[4, 0\]"),
        ("dt", 0.0, "dt: expected finite numbers of more than 0 s, got 0.0"),
        ("dt", [0.1, 0.1, -0.2, 0.1, 0.1], r"dt: .* got -0.2 in dt\[2\]"),
        ("dt", [0.1, 0.1], "dt: expected a number or 5 of them"),
        ("dt", None, "dt: expected a number"),
        ("dt", "0.1", "dt: expected a number"),
        ("threads", 0, "threads: expected a whole number"),
    ],
)
def test_a_wrong_recording_is_rejected(method, name, value, words):
    q, v, _, tau = peer.pair("panda").states(5)
    right = {"q": q, "v": v, "tau": tau, "dt": 0.01}
    with pytest.raises(ValueError, match=words):
        observer(peer.pair("panda").model, method=method).run(**{**right, name: value})


# --- compilation


def test_the_filters_of_recordings_are_compiled_in_advance():
    names = {entry.name for entry in ALGORITHMS["momentum_observer_step"].entries(True, True)}
    assert {"momentum_observer-filter", "momentum_observer-kalman"} < names


UNCOMPILED = """
import pickle, sys
import dyn_ros
xml, calls = pickle.load(sys.stdin.buffer)
model = dyn_ros.Model.from_urdf(xml, "floating")
pickle.dump([dyn_ros.momentum_observer(model, **each) for each in calls], sys.stdout.buffer)
"""


def test_without_the_compiler_the_results_are_the_same():
    pair = peer.pair("every_joint", "floating")
    q, v, _, tau = pair.states(4)
    calls = [
        {"q": q, "v": v, "tau": tau, "dt": 0.01, "method": method, **NOISE}
        for method in ("momentum", "direct", "kalman")
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNCOMPILED],
        check=True,
        input=pickle.dumps((peer.urdf("every_joint"), calls)),
        stdout=subprocess.PIPE,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    for each, found in zip(calls, pickle.loads(done.stdout), strict=True):
        peer.close(found, dyn_ros.momentum_observer(pair.model, **each), 1e-11)
