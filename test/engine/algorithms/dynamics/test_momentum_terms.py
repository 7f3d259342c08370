# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Generalized momentum and its rate without efforts, and one step of the momentum observer."""
import math

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros.engine.algorithms.dynamics.friction import friction_effort
from dyn_ros.engine.algorithms.filters.momentum_observer import decay

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))


def terms(pair, q, v, **options):
    return dyn_ros.momentum_terms(pair.model, pair.data, q, v, **options)


@EVERY
def test_the_terms_are_those_of_the_matrices(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.model.gravity = (1.5, -2.5, 9.0)
    pair.model.armature = np.linspace(0.1, 0.5, pair.model.nv)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        momentum, rate = terms(pair, q, v)
        M = dyn_ros.crba(pair.model, pair.data, q)
        C = dyn_ros.coriolis_matrix(pair.model, pair.data, q, v)
        g = dyn_ros.generalized_gravity(pair.model, pair.data, q)
        peer.close(momentum, M @ v, 1e-12)
        scale = max(np.abs(np.outer(v, v) * M).max(), np.abs(g).max())
        peer.close(rate, C.T @ v - g, 1e-12, scale)


@EVERY
def test_the_terms_are_those_of_pinocchio(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(5)
    q_pin, v_pin = pair.to_pin_q(q), pair.G @ v
    C = pinocchio.computeCoriolisMatrix(pair.pin, pair.pin_data, q_pin, v_pin)
    expected = pair.G.T @ (C.T @ v_pin) - pair.generalized_gravity(q)
    momentum, rate = terms(pair, q, v)
    peer.close(momentum, pair.crba(q) @ v)
    peer.close(rate, expected, scale=max(np.abs(expected).max(), np.abs(C).max(initial=0.0), 1.0))


@EVERY
def test_the_rate_of_the_momentum_gives_the_torques(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.model.armature = np.linspace(0.1, 0.5, pair.model.nv)
    q, v, a, _ = pair.state(4)
    found = peer.in_time(pair, q, v, a, lambda q, v: terms(pair, q, v)[0]) - terms(pair, q, v)[1]
    peer.close(found, dyn_ros.rnea(pair.model, pair.data, q, v, a), 1e-8)


@SOME
def test_a_batch_contains_the_results_of_its_states(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.states(33, seed=1)
    each = [[x.copy() for x in terms(pair, *state)] for state in zip(q, v)]
    for size in (1, 7, 8, 9, 33):
        for n, found in enumerate(terms(pair, q[:size], v[:size], threads=2)):
            peer.close(found, [parts[n] for parts in each[:size]], 1e-13)


def test_results_of_single_states_belong_to_data():
    pair = peer.pair("every_joint")
    momentum, rate = terms(pair, *pair.state(1)[:2])
    assert momentum is pair.data.generalized_momentum
    assert rate is pair.data.momentum_rate


# --- one step

@pytest.mark.parametrize("x", [0.0, 1e-300, 1e-12, 1e-4, 0.05, 0.7, 3.0, 17.0, 39.9])
def test_the_decay_is_accurate_for_small_and_large_steps(x):
    e, rest = decay(x)
    assert abs(e - math.exp(-x)) < 2.5e-16
    assert rest == pytest.approx(-math.expm1(-x), rel=3e-15)


@pytest.mark.parametrize("x", [40.0, 750.0, 1e300])
def test_nothing_remains_after_a_long_step(x):
    e, rest = decay(x)
    assert 0.0 <= e < 1e-16
    assert rest == 1.0


@pytest.mark.parametrize("v, reversal, sign", [
    (0.3, 0.0, 1.0), (-0.3, 0.0, -1.0), (0.0, 0.0, 0.0), (0.05, 0.2, 0.25), (-0.1, 0.2, -0.5),
    (0.2, 0.2, 1.0), (-5.0, 0.2, -1.0)])
def test_friction_changes_its_sign_within_its_velocity(v, reversal, sign):
    assert friction_effort(v, 2.0, 3.0, reversal) == pytest.approx(2.0 * v + 3.0 * sign)


@SOME
@pytest.mark.parametrize("direct", [False, True])
def test_a_step_is_that_of_the_equations(robot, root_joint, direct):
    pair = peer.new_pair(robot, root_joint)
    model = pair.model
    model.damping, model.friction = np.linspace(0.1, 1.0, (2 * model.nv)).reshape(2, -1)
    model.armature = np.linspace(0.1, 0.5, model.nv)
    q, v, r, tau = pair.state(3)
    before, known, gain = r[::-1].copy(), tau[::-1].copy(), np.linspace(1.0, 300.0, model.nv)
    dt, e = 0.007, np.exp(-0.007 * gain)
    momentum, rate = (x.copy() for x in terms(pair, q, v))
    friction = dyn_ros.joint_friction(model, v)
    change, after, u = momentum - before, momentum, tau + rate - friction
    if direct:
        change, after = dyn_ros.crba(model, pair.data, q) @ (v - before), v
        u = tau - dyn_ros.nonlinear_effects(model, pair.data, q, v) - friction
    expected = e * r + (1.0 - e) * (change / dt - 0.5 * (known + u))
    found = dyn_ros.momentum_observer_step(model, pair.data, q, v, tau, dt, gain, r, before, known,
                                           direct=direct)
    peer.close(found.external, expected, 1e-12)
    peer.close(found.momentum, after, 1e-12)
    peer.close(found.known_effort, u, 1e-12, np.abs(rate).max())
    assert found.external is pair.data.external_effort


def test_the_first_step_takes_no_time():
    pair = peer.pair("panda")
    q, v, r, tau = pair.state(3)
    zero = np.zeros(pair.model.nv)
    found = dyn_ros.momentum_observer_step(pair.model, pair.data, q, v, tau, 0.0, 50.0, r, zero,
                                           zero)
    assert np.array_equal(found.external, r)
    peer.close(found.momentum, terms(pair, q, v)[0], 1e-14)


@SOME
def test_a_batch_is_one_step_of_many_robots(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, r, tau = pair.states(19, seed=2)
    dt = np.linspace(0.0, 0.1, 19)
    for direct in (False, True):
        each = [[x.copy() for x in dyn_ros.momentum_observer_step(
            pair.model, pair.data, *state[:3], h, 40.0, *state[3:], direct=direct)]
            for *state, h in zip(q, v, tau, r, v[::-1], tau[::-1], dt)]
        found = dyn_ros.momentum_observer_step(
            pair.model, pair.data, q, v, tau, dt, 40.0, r, v[::-1], tau[::-1], direct=direct,
            threads=2)
        for n, part in enumerate(found):
            expected = np.array([parts[n] for parts in each])
            peer.close(part, expected, 1e-12)


@pytest.mark.parametrize("change, words", [
    ({"dt": -0.1}, "dt: expected a number of at least 0"), ({"dt": "1"}, "dt: expected a number"),
    ({"dt": [[0.1]]}, "dt: expected a number"), ({"dt": math.nan}, "dt: expected a number"),
    ({"dt": math.inf}, "dt: expected finite"), ({"gain": 0.0}, "gain: expected more than 0"),
    ({"gain": [1.0, 2.0]}, "gain: expected 8 finite numbers"),
    ({"friction_velocity": -1.0}, "friction_velocity: expected at least 0.*'panda_joint1'"),
    ({"external": [0.0]}, "external: expected shape"), ({"tau": [math.nan] * 8}, "tau: .*nan")])
def test_bad_arguments_of_a_step_are_rejected(change, words):
    pair = peer.pair("panda")
    q, v, r, tau = pair.state(1)
    right = {"q": q, "v": v, "tau": tau, "dt": 0.1, "gain": 50.0, "external": r, "momentum": v,
             "known_effort": tau}
    with pytest.raises(ValueError, match=words):
        dyn_ros.momentum_observer_step(pair.model, pair.data, **{**right, **change})


def test_without_the_compiler_the_results_are_the_same():
    pair = peer.pair("every_joint", "floating")
    q, v, r, tau = pair.states(3)
    calls = [("momentum_terms", {"q": q, "v": v})] + [
        ("momentum_observer_step",
         {"q": q, "v": v, "tau": tau, "dt": 0.02, "gain": 50.0, "external": r, "momentum": v,
          "known_effort": tau, "direct": direct}) for direct in (False, True)]
    for (name, each), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        expected = getattr(dyn_ros, name)(pair.model, pair.data, **each)
        for mine, theirs in zip(found, expected, strict=True):
            peer.close(mine, theirs, 1e-12)
