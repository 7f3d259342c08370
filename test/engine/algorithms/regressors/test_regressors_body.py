# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors of the force on a single body."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating"))
SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))


def of_frame(pair, q, v, a, frame, **options):
    return dyn_ros.frame_body_regressor(pair.model, pair.data, q, v, a, frame, **options)


def of_joint(pair, q, v, a, joint, **options):
    return dyn_ros.joint_body_regressor(pair.model, pair.data, q, v, a, joint, **options)


# --- of two vectors


@pytest.mark.parametrize("seed", range(5))
def test_the_force_is_linear_in_the_parameters(seed):
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, 6))
    A = rng.normal(size=(3, 3))
    Y = dyn_ros.Inertia(rng.uniform(0.1, 5.0), rng.normal(size=3), A @ A.T)
    twist = dyn_ros.Motion(v)
    expected = np.asarray(Y * dyn_ros.Motion(a) + twist.cross(Y * twist))
    found = dyn_ros.body_regressor(v, a)
    peer.close(found @ Y.dynamic_parameters(), expected, 1e-13)
    peer.close(found, pinocchio.bodyRegressor(pinocchio.Motion(v), pinocchio.Motion(a)), 1e-13)


def test_vectors_can_be_batches():
    v, a = np.random.default_rng(1).normal(size=(2, 7, 6))
    each = np.array([dyn_ros.body_regressor(*pair) for pair in zip(v, a)])
    assert np.array_equal(dyn_ros.body_regressor(v, a), each)
    assert np.array_equal(dyn_ros.body_regressor(v[0], a)[0], each[0])
    assert dyn_ros.body_regressor(v[:0], a[:0]).shape == (0, 6, 10)
    assert np.array_equal(dyn_ros.body_regressor(list(v[0]), list(a[0])), each[0])


def test_vectors_that_are_none_are_rejected():
    good = np.zeros(6)
    with pytest.raises(ValueError, match=r"v: expected shape \(6,\), or \(B, 6\) for a batch"):
        dyn_ros.body_regressor(np.zeros(5), good)
    with pytest.raises(ValueError, match=r"a: expected finite numbers, got nan in a\[3\]"):
        dyn_ros.body_regressor(good, [0, 0, 0, np.nan, 0, 0])
    with pytest.raises(ValueError, match=r"same number of states in each argument, got v: 2, a: 3"):
        dyn_ros.body_regressor(np.zeros((2, 6)), np.zeros((3, 6)))


# --- of frames and joints


@EVERY
def test_regressors_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(1)
    pinocchio.rnea(pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v, pair.G @ a)
    for number, theirs in peer.some_frames(pair):
        expected = pinocchio.frameBodyRegressor(pair.pin, pair.pin_data, theirs)
        peer.close(of_frame(pair, q, v, a, number), expected, 1e-12)
    for n, name in enumerate(pair.model.joint_names):
        expected = pinocchio.jointBodyRegressor(pair.pin, pair.pin_data, n + 1)
        peer.close(of_joint(pair, q, v, a, name), expected, 1e-12)


@SOME
def test_a_frame_of_the_base_feels_gravity_alone(robot, root_joint):
    pair = peer.pair(robot, None)
    expected = dyn_ros.body_regressor(np.zeros(6), [*-np.array(pair.model.gravity), 0, 0, 0])
    peer.close(of_frame(pair, *pair.state(1)[:3], 0), expected, 1e-13)


@SOME
def test_the_force_on_a_payload_is_what_its_sensor_measures(robot, root_joint):
    """The difference of the torques with and without it."""
    pair = peer.new_pair(robot, root_joint)
    model, q, v, a = pair.model, *pair.state(3)[:3]
    frame = model.frame_names[-1]
    before = dyn_ros.rnea(model, pair.data, q, v, a).copy()
    mass, center, about_com = 2.0, np.array([0.1, 0.2, 0.3]), np.diag([0.2, 0.3, 0.4])
    model.set_payload("box", frame, mass, center, about_com)
    change = dyn_ros.rnea(model, pair.data, q, v, a) - before
    c = center
    about_origin = about_com + mass * (c @ c * np.eye(3) - np.outer(c, c))
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = about_origin
    x = np.array([mass, *(mass * c), xx, xy, yy, xz, yz, zz])
    J = dyn_ros.frame_jacobian(model, pair.data, q, frame, dyn_ros.ReferenceFrame.LOCAL)
    peer.close(J.T @ (of_frame(pair, q, v, a, frame) @ x), change, 1e-10)


@SOME
def test_a_batch_contains_the_results_of_its_states(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.states(33, seed=1)
    frame, joint = pair.model.frame_names[-1], pair.model.joint_names[-1]
    for function, name in ((of_frame, frame), (of_joint, joint)):
        each = np.array([function(pair, *state, name).copy() for state in zip(q, v, a)])
        for size in (1, 7, 8, 9, 33):
            found = function(pair, q[:size], v[:size], a[:size], name, threads=2)
            peer.close(found, each[:size], 1e-13)
        assert function(pair, q[0], v[0], a[0], name) is pair.data.frame_body_regressor


@pytest.mark.parametrize("states", [1, 9])
def test_bad_arguments_are_rejected(states):
    pair = peer.pair("panda")
    q, v, a, _ = pair.states(states)
    with pytest.raises(ValueError, match=r"no frame named 'none'; available: "):
        of_frame(pair, q, v, a, "none")
    with pytest.raises(ValueError, match=r"no joint named 'none'; available: "):
        of_joint(pair, q, v, a, "none")
    a[-1, 2] = np.nan
    for each in ((q, v, a), (q[-1], v[-1], a[-1])):
        with pytest.raises(ValueError, match=r"a: .*nan"):
            of_frame(pair, *each, 1)
