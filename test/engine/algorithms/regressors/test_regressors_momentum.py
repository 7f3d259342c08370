# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors of the generalized momentum and of its rate."""

import numpy as np
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))


def body_parameters(model):
    return np.concatenate([Y.dynamic_parameters() for Y in model.inertias])


def momentum(pair, q, v, **options):
    return dyn_ros.momentum_regressor(pair.model, pair.data, q, v, **options)


def observer(pair, q, v, **options):
    return dyn_ros.momentum_observer_regressor(pair.model, pair.data, q, v, **options)


@EVERY
def test_the_momentum_is_linear_in_the_parameters(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    parameters = body_parameters(pair.model)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        expected = dyn_ros.crba(pair.model, pair.data, q) @ v
        found = momentum(pair, q, v) @ parameters + pair.model.armature * v
        peer.close(found, expected, 1e-12)


@EVERY
def test_the_other_part_of_its_rate_is_linear_in_the_parameters(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    parameters = body_parameters(pair.model)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        C = dyn_ros.coriolis_matrix(pair.model, pair.data, q, v)
        g = dyn_ros.generalized_gravity(pair.model, pair.data, q)
        found = observer(pair, q, v)
        M = dyn_ros.crba(pair.model, pair.data, q)
        scale = max(np.abs(np.outer(v, v) * M).max(), np.abs(g).max())
        peer.close(found[1] @ parameters, C.T @ v - g, 1e-12, scale)
        assert np.array_equal(found[0], momentum(pair, q, v))


@SOME
def test_the_rate_of_the_momentum_gives_the_torques(robot, root_joint):
    """For each parameter; without accelerations but those of the difference."""
    pair = peer.new_pair(robot, root_joint)
    pair.model.gravity = (1.5, -2.5, 9.0)
    q, v, a, _ = pair.state(4)
    rate = peer.in_time(pair, q, v, a, lambda q, v: momentum(pair, q, v))
    torques = dyn_ros.joint_torque_regressor(pair.model, pair.data, q, v, a)
    peer.close(rate - observer(pair, q, v)[1], torques, 1e-8)


@SOME
def test_the_kinetic_energy_is_half_of_velocity_times_momentum(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(1)
    expected = dyn_ros.kinetic_energy_regressor(pair.model, pair.data, q, v)
    peer.close(0.5 * v @ momentum(pair, q, v), expected, 1e-12)


@SOME
def test_a_batch_contains_the_results_of_its_states(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.states(33, seed=1)
    each = [[x.copy() for x in observer(pair, *state)] for state in zip(q, v)]
    for size in (1, 7, 8, 9, 33):
        for n, found in enumerate(observer(pair, q[:size], v[:size], threads=2)):
            peer.close(found, [parts[n] for parts in each[:size]], 1e-13)
        peer.close(momentum(pair, q[:size], v[:size]), [p for p, _ in each[:size]], 1e-13)


def test_results_of_single_states_belong_to_data():
    pair = peer.pair("every_joint")
    q, v, _, _ = pair.state(1)
    assert momentum(pair, q, v) is pair.data.momentum_regressor
    found = observer(pair, q, v)
    assert found[0] is pair.data.momentum_regressor
    assert found[1] is pair.data.momentum_observer_regressor


@pytest.mark.parametrize("function", [momentum, observer])
@pytest.mark.parametrize("states", [1, 9])
def test_bad_arguments_are_rejected(function, states):
    pair = peer.pair("panda")
    q, v, _, _ = pair.states(states)
    v[-1, 2] = np.nan
    for each in ((q, v), (q[-1], v[-1])):
        with pytest.raises(ValueError, match=r"v: .*nan .*'panda_joint3'"):
            function(pair, *each)
    with pytest.raises(ValueError, match=r"v: expected shape"):
        function(pair, q, v[:, :3])


def test_without_the_compiler_the_results_are_the_same():
    """All regressors that are not in test_regressors.py."""
    pair = peer.pair("every_joint", "floating")
    q, v, a, _ = pair.states(3)
    frame = pair.model.frame_names[-1]
    given = {
        "q": q,
        "v": v,
        "a": a,
        "frame": frame,
        "reference_frame": dyn_ros.ReferenceFrame.WORLD,
    }
    wanted = {
        "momentum_observer_regressor": "qv",
        "kinetic_energy_regressor": "qv",
        "potential_energy_regressor": "q",
        "static_regressor": "q",
        "frame_body_regressor": ("q", "v", "a", "frame"),
        "frame_kinematic_regressor": ("q", "frame", "reference_frame"),
    }
    calls = [(name, {key: given[key] for key in keys}) for name, keys in wanted.items()]
    for (name, each), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        expected = getattr(dyn_ros, name)(pair.model, pair.data, **each)
        for mine, theirs in zip(peer.as_tuple(found), peer.as_tuple(expected), strict=True):
            peer.close(mine, theirs, 1e-12)
