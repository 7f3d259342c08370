# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Generalized momentum and its rate without efforts."""

import numpy as np
import pinocchio

import dyn_ros
import peer

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


def test_without_the_compiler_the_results_are_the_same():
    pair = peer.pair("every_joint", "floating")
    q, v, r, tau = pair.states(3)
    calls = [("momentum_terms", {"q": q, "v": v})] + [
        (
            "momentum_observer_step",
            {
                "q": q,
                "v": v,
                "tau": tau,
                "dt": 0.02,
                "gain": 50.0,
                "external": r,
                "momentum": v,
                "known_effort": tau,
                "direct": direct,
            },
        )
        for direct in (False, True)
    ]
    for (name, each), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        expected = getattr(dyn_ros, name)(pair.model, pair.data, **each)
        for mine, theirs in zip(found, expected, strict=True):
            peer.close(mine, theirs, 1e-12)
