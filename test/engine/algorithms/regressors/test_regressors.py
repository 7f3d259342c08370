# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors: agreement with the algorithms that they describe and with Pinocchio, batches."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "tiago", "solo12", "ball_joints"))
SIZES = (1, 7, 8, 9, 33)
OPTIONS = {"armature": True, "friction": True}


def body_parameters(model):
    return np.concatenate([Y.dynamic_parameters() for Y in model.inertias])


def regressor(pair, *state, **options):
    return dyn_ros.joint_torque_regressor(pair.model, pair.data, *state, **options)


def carried(model):
    """Whether the joint of each row carries the body of each column."""
    found = np.zeros((model.nv, model.njoints, 10), bool)
    for body, joints in enumerate(model.supports):
        for i in joints:
            columns = {"floating": 6, "planar": 3, "spherical": 3}.get(model.tree.joints[i].kind, 1)
            found[model.idx_v[i] : model.idx_v[i] + columns, body] = True
    return found.reshape(model.nv, -1)


# --- joint torques


@EVERY
def test_torques_are_linear_in_the_parameters(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    parameters = body_parameters(pair.model)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        expected = dyn_ros.rnea(pair.model, pair.data, q, v, a)
        peer.close(regressor(pair, q, v, a) @ parameters, expected, 1e-13)


@EVERY
def test_joint_torque_regressor_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        expected = pair.G.T @ pinocchio.computeJointTorqueRegressor(
            pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v, pair.G @ a
        )
        peer.close(regressor(pair, q, v, a), expected, 1e-12)


@SOME
def test_another_gravity_and_payloads(robot, root_joint):
    """The regressor depends on gravity, the parameters on payloads."""
    pair = peer.new_pair(robot, root_joint)
    q, v, a, _ = pair.state(1)
    before = regressor(pair, q, v, a).copy()
    pair.model.set_payload(
        "box", pair.model.frame_names[-1], 2.0, [0.1, 0.2, 0.3], np.diag([0.2, 0.3, 0.4])
    )
    assert np.array_equal(regressor(pair, q, v, a), before)
    pair.model.gravity = (1.5, -2.5, 9.0)
    peer.close(
        regressor(pair, q, v, a) @ body_parameters(pair.model),
        dyn_ros.rnea(pair.model, pair.data, q, v, a),
        1e-13,
    )


@SOME
def test_at_rest_without_gravity_all_entries_are_zero(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.model.gravity = (0.0, 0.0, 0.0)
    zero = np.zeros(pair.model.nv)
    assert not regressor(pair, pair.state(1)[0], zero, zero).any()


@peer.robots()
def test_entries_of_bodies_that_a_joint_does_not_carry_are_zero(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    outside = ~carried(pair.model)
    q, v, a, _ = pair.states(9)
    assert not regressor(pair, q, v, a)[:, outside].any()
    dyn_ros.joint_torque_regressor(pair.model, pair.data, q[0], v[0], a[0])[...] = 7.0
    assert not regressor(pair, q[1], v[1], a[1])[outside].any()


@SOME
def test_a_batch_contains_the_results_of_its_states(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.states(max(SIZES), seed=1)
    each = np.array([regressor(pair, *state).copy() for state in zip(q, v, a)])
    for size in SIZES:
        for threads in (1, 2):
            found = regressor(pair, q[:size], v[:size], a[:size], threads=threads)
            peer.close(found, each[:size], 1e-13)


@SOME
def test_a_single_vector_of_a_batch_counts_for_all_of_its_states(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.states(9)
    tiled = np.tile(v[0], (9, 1))
    assert np.array_equal(
        regressor(pair, q, v[0], a, **OPTIONS), regressor(pair, q, tiled, a, **OPTIONS)
    )


# --- columns for the joints


@SOME
def test_the_columns_of_joints_give_the_torques_of_rotors_and_friction(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    model, data, rng = pair.model, pair.data, np.random.default_rng(1)
    model.armature, model.damping[:], model.friction[:] = rng.uniform(0.1, 1.0, (3, model.nv))
    constant = rng.normal(size=model.nv)
    parameters = np.concatenate(
        [body_parameters(model), model.armature, model.damping, model.friction, constant]
    )
    q, v, a, _ = pair.states(9)
    v[:, 0] = 0.0
    expected = dyn_ros.rnea(model, data, q, v, a) + dyn_ros.joint_friction(model, v) + constant
    peer.close(regressor(pair, q, v, a, **OPTIONS) @ parameters, expected, 1e-13)
    peer.close(regressor(pair, q[3], v[3], a[3], **OPTIONS) @ parameters, expected[3], 1e-13)


def test_the_columns_of_joints_follow_those_of_bodies():
    pair = peer.pair("panda")
    q, v, a, _ = pair.state(1)
    bodies, n = regressor(pair, q, v, a).copy(), pair.model.nv
    both = regressor(pair, list(q), list(v), list(a), **OPTIONS)
    assert both.shape == (n, 10 * pair.model.njoints + 4 * n)
    parts = bodies, np.diag(a), np.diag(v), np.diag(np.sign(v)), np.eye(n)
    assert np.array_equal(both, np.hstack(parts))
    assert np.array_equal(regressor(pair, q, v, a, armature=True), np.hstack(parts[:2]))
    assert np.array_equal(regressor(pair, q, v, a, friction=True), np.hstack([bodies, *parts[2:]]))


# --- calls


def test_results_of_single_states_belong_to_data():
    pair = peer.pair("every_joint")
    q, v, a, _ = pair.state(1)
    assert regressor(pair, q, v, a) is pair.data.joint_torque_regressor
    assert regressor(pair, q, v, a, friction=True) is not pair.data.joint_torque_regressor


@pytest.mark.parametrize("argument", range(3), ids=["q", "v", "a"])
@pytest.mark.parametrize("states", [1, 9])
def test_bad_arguments_are_rejected(argument, states):
    pair = peer.pair("panda")
    name, given = "qva"[argument], list(pair.states(states)[:3])
    given[argument][-1, 2] = np.nan
    with pytest.raises(ValueError, match=rf"{name}: .*nan"):
        regressor(pair, *given)
    with pytest.raises(ValueError, match=rf"{name}: .*nan"):
        regressor(pair, *[array[-1] for array in given], **OPTIONS)
    given[argument] = np.zeros((states, 3))
    with pytest.raises(ValueError, match=rf"{name}: expected shape"):
        regressor(pair, *given, **OPTIONS)


def test_without_the_compiler_the_results_are_the_same():
    pair = peer.pair("every_joint", "floating")
    q, v, a, _ = pair.states(3)
    calls = [
        ("joint_torque_regressor", {"q": q[0], "v": v[0], "a": a[0], **OPTIONS}),
        ("joint_torque_regressor", {"q": q, "v": v, "a": a}),
    ]
    for (_, given), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        peer.close(found, regressor(pair, **given), 1e-12)


def test_a_large_batch_overwrites_all_of_an_earlier_result():
    """Its zeros as well, which are written past the caches."""
    pair = peer.pair("talos_reduced", "floating")
    q, v, a, _ = pair.states(105)
    for _ in range(2):  # the second in the memory of the first
        found = regressor(pair, q, v, a)
        for n in (0, 7, 103, 104):
            peer.close(found[n], regressor(pair, q[n], v[n], a[n]))
        found[...] = 1.0
        del found


# --- the product with joint torques


@EVERY
def test_the_product_is_that_of_the_transposed_regressor(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, tau = pair.states(9)
    expected = np.einsum("bki,bk->bi", regressor(pair, q, v, a), tau)
    found = dyn_ros.joint_torque_regressor_product(pair.model, pair.data, q, v, a, tau)
    peer.close(found, expected, 1e-12)
    for n in range(3):
        found = dyn_ros.joint_torque_regressor_product(
            pair.model, pair.data, q[n], v[n], a[n], tau[n]
        )
        assert found is pair.data.joint_torque_regressor_product
        peer.close(found, expected[n], 1e-12)
