# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One step of the momentum observer."""

import math

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.algorithms.filters.momentum_observer_step import decay

SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))


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
    momentum, rate = (x.copy() for x in dyn_ros.momentum_terms(model, pair.data, q, v))
    friction = dyn_ros.joint_friction(model, v)
    change, after, u = momentum - before, momentum, tau + rate - friction
    if direct:
        change, after = dyn_ros.crba(model, pair.data, q) @ (v - before), v
        u = tau - dyn_ros.nonlinear_effects(model, pair.data, q, v) - friction
    expected = e * r + (1.0 - e) * (change / dt - 0.5 * (known + u))
    found = dyn_ros.momentum_observer_step(
        model, pair.data, q, v, tau, dt, gain, r, before, known, direct=direct
    )
    peer.close(found.external, expected, 1e-12)
    peer.close(found.momentum, after, 1e-12)
    peer.close(found.known_effort, u, 1e-12, np.abs(rate).max())
    assert found.external is pair.data.external_effort


def test_the_first_step_takes_no_time():
    pair = peer.pair("panda")
    q, v, r, tau = pair.state(3)
    zero = np.zeros(pair.model.nv)
    found = dyn_ros.momentum_observer_step(
        pair.model, pair.data, q, v, tau, 0.0, 50.0, r, zero, zero
    )
    assert np.array_equal(found.external, r)
    peer.close(found.momentum, dyn_ros.momentum_terms(pair.model, pair.data, q, v)[0], 1e-14)


@SOME
def test_a_batch_is_one_step_of_many_robots(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, r, tau = pair.states(19, seed=2)
    dt = np.linspace(0.0, 0.1, 19)
    for direct in (False, True):
        each = [
            [
                x.copy()
                for x in dyn_ros.momentum_observer_step(
                    pair.model, pair.data, *state[:3], h, 40.0, *state[3:], direct=direct
                )
            ]
            for *state, h in zip(q, v, tau, r, v[::-1], tau[::-1], dt)
        ]
        found = dyn_ros.momentum_observer_step(
            pair.model,
            pair.data,
            q,
            v,
            tau,
            dt,
            40.0,
            r,
            v[::-1],
            tau[::-1],
            direct=direct,
            threads=2,
        )
        for n, part in enumerate(found):
            expected = np.array([parts[n] for parts in each])
            peer.close(part, expected, 1e-12)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"dt": -0.1}, "dt: expected a number of at least 0"),
        ({"dt": "1"}, "dt: expected a number"),
        ({"dt": [[0.1]]}, "dt: expected a number"),
        ({"dt": math.nan}, "dt: expected a number"),
        ({"dt": math.inf}, "dt: expected finite"),
        ({"gain": 0.0}, "gain: expected more than 0"),
        ({"gain": [1.0, 2.0]}, "gain: expected 8 finite numbers"),
        ({"friction_velocity": -1.0}, "friction_velocity: expected at least 0.*'panda_joint1'"),
        ({"external": [0.0]}, "external: expected shape"),
        ({"tau": [math.nan] * 8}, "tau: .*nan"),
    ],
)
def test_bad_arguments_of_a_step_are_rejected(change, words):
    pair = peer.pair("panda")
    q, v, r, tau = pair.state(1)
    right = {
        "q": q,
        "v": v,
        "tau": tau,
        "dt": 0.1,
        "gain": 50.0,
        "external": r,
        "momentum": v,
        "known_effort": tau,
    }
    with pytest.raises(ValueError, match=words):
        dyn_ros.momentum_observer_step(pair.model, pair.data, **{**right, **change})
