# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Friction torques of the joints."""
import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.algorithms.dynamics.friction import friction_effort


@pytest.fixture
def model():
    model = dyn_ros.Model.from_urdf(peer.urdf("double_pendulum"))
    model.damping, model.friction = [2.0, 0.0], [0.5, 10.0]
    return model


def test_damping_grows_with_the_velocity_and_friction_has_its_sign(model):
    assert dyn_ros.joint_friction(model, [3.0, 1e-300]).tolist() == [6.5, 10.0]
    assert dyn_ros.joint_friction(model, [-3.0, -7.0]).tolist() == [-6.5, -10.0]
    assert dyn_ros.joint_friction(model, [0, 0]).tolist() == [0.0, 0.0]
    assert dyn_ros.joint_friction(model, [-0.0, -0.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("v, reversal, sign", [
    (0.3, 0.0, 1.0), (-0.3, 0.0, -1.0), (0.0, 0.0, 0.0), (0.05, 0.2, 0.25), (-0.1, 0.2, -0.5),
    (0.2, 0.2, 1.0), (-5.0, 0.2, -1.0)])
def test_friction_changes_its_sign_within_its_velocity(v, reversal, sign):
    assert friction_effort(v, 2.0, 3.0, reversal) == pytest.approx(2.0 * v + 3.0 * sign)


def test_a_batch(model):
    v = np.random.default_rng(0).normal(size=(5, 2))
    found = dyn_ros.joint_friction(model, v)
    assert found.tolist() == [dyn_ros.joint_friction(model, row).tolist() for row in v]
    assert dyn_ros.joint_friction(model, v[:0]).shape == (0, 2)


def test_a_new_array_each_time(model):
    v = np.ones(2)
    first, second = dyn_ros.joint_friction(model, v), dyn_ros.joint_friction(model, v)
    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, model.damping) and v.tolist() == [1.0, 1.0]


@peer.robots(("every_joint", "panda", "tiago"))
def test_power_is_that_of_the_joints_of_the_mechanism(robot, root_joint):
    """Of every joint, mimic joints included, with the numbers of the description."""
    model = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint)
    v = peer.pair(robot, root_joint).state(4)[1]
    power = 0.0
    for joint, k in zip(model.tree.joints, model.idx_v):
        speed = (joint.mimic.multiplier if joint.mimic else 1.0) * v[k]
        power += joint.damping * speed ** 2 + joint.friction * abs(speed)
    assert power > 0.0
    peer.close(v @ dyn_ros.joint_friction(model, v), power, 1e-13)


def test_invalid_arguments(model):
    with pytest.raises(ValueError, match=r"v: expected shape \(2,\), or \(B, 2\) .* got \(3,\)"):
        dyn_ros.joint_friction(model, np.zeros(3))
    with pytest.raises(ValueError, match=r"v: expected finite numbers, got nan in v\[1\]"):
        dyn_ros.joint_friction(model, [0.0, np.nan])
    with pytest.raises(TypeError, match="model: expected a dyn_ros.Model, got str"):
        dyn_ros.joint_friction("arm", [0.0])
