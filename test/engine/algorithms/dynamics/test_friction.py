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


@pytest.fixture
def robot():
    return dyn_ros.Model.from_urdf_file(dyn_ros.__path__[0] + "/robots/arm7.urdf")


def test_damping_grows_with_the_velocity_and_friction_has_its_sign(model):
    assert dyn_ros.joint_friction(model, [3.0, 1e-300]).tolist() == [6.5, 10.0]
    assert dyn_ros.joint_friction(model, [-3.0, -7.0]).tolist() == [-6.5, -10.0]
    assert dyn_ros.joint_friction(model, [0, 0]).tolist() == [0.0, 0.0]
    assert dyn_ros.joint_friction(model, [-0.0, -0.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "v, reversal, sign",
    [
        (0.3, 0.0, 1.0),
        (-0.3, 0.0, -1.0),
        (0.0, 0.0, 0.0),
        (0.05, 0.2, 0.25),
        (-0.1, 0.2, -0.5),
        (0.2, 0.2, 1.0),
        (-5.0, 0.2, -1.0),
    ],
)
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
        power += joint.damping * speed**2 + joint.friction * abs(speed)
    assert power > 0.0
    peer.close(v @ dyn_ros.joint_friction(model, v), power, 1e-13)


def test_invalid_arguments(model):
    with pytest.raises(ValueError, match=r"v: expected shape \(2,\), or \(B, 2\) .* got \(3,\)"):
        dyn_ros.joint_friction(model, np.zeros(3))
    with pytest.raises(ValueError, match=r"v: expected finite numbers, got nan in v\[1\]"):
        dyn_ros.joint_friction(model, [0.0, np.nan])
    with pytest.raises(TypeError, match="model: expected a dyn_ros.Model, got str"):
        dyn_ros.joint_friction("arm", [0.0])


@pytest.mark.parametrize("coupled", [False, True])
def test_motors_apply_what_reaches_the_links_and_friction(robot, coupled):
    rng = np.random.default_rng(2)
    robot.damping, robot.friction = rng.uniform(size=(2, robot.nv))
    coupling = np.eye(robot.nv) + 0.7 * np.eye(robot.nv, k=-1) if coupled else None
    robot.drives = robot.drives.with_values(
        load_friction=0.2,
        root_friction=rng.normal(size=robot.nv),
        stribeck_velocity=0.3,
        stribeck=rng.normal(size=robot.nv),
        friction_velocity=0.05,
        coupling=coupling,
        offset=rng.normal(size=robot.nv),
    )
    v, tau = 0.1 * rng.normal(size=(50, robot.nv)), rng.normal(size=(50, robot.nv))
    applied = tau + dyn_ros.joint_friction(robot, v, tau)
    assert abs(applied - tau).max() > 1.0
    np.testing.assert_allclose(
        dyn_ros.torque_without_friction(robot, v, applied), tau, rtol=1e-12, atol=1e-12
    )


def test_friction_of_one_joint_by_hand(robot):
    v = np.zeros(robot.nv)
    robot.damping, robot.friction = np.full(robot.nv, 2.0), np.full(robot.nv, 3.0)
    robot.drives = robot.drives.with_values(
        root_friction=0.5, stribeck=-1.0, stribeck_velocity=4.0, load_friction=0.1, offset=7.0
    )
    v[1], tau = -4.0, np.full(robot.nv, -20.0)
    expected = np.full(robot.nv, 7.0)
    expected[1] = -8.0 - (3.0 + 0.5 * 2.0 - np.exp(-1.0) + 0.1 * 20.0) + 7.0
    np.testing.assert_allclose(dyn_ros.joint_friction(robot, v, tau), expected, rtol=1e-14)


def test_power_of_coupled_motors_is_the_power_at_the_joints(robot):
    """Friction of motors that move several joints: G' f(G v)."""
    rng = np.random.default_rng(3)
    G, robot.friction = rng.normal(size=(robot.nv, robot.nv)), rng.uniform(size=robot.nv)
    robot.damping = np.zeros(robot.nv)
    v = rng.normal(size=robot.nv)
    robot.drives = robot.drives.with_values(coupling=G)
    assert v @ dyn_ros.joint_friction(robot, v) == pytest.approx(
        np.abs(G @ v) @ robot.friction, rel=1e-12
    )


def test_efforts_become_torques(robot):
    data, rng = dyn_ros.Data(robot), np.random.default_rng(4)
    q, effort = robot.random_configuration(rng), rng.normal(size=robot.nv)
    compensated = np.arange(robot.nv) == 2
    robot.drives = robot.drives.with_values(gain=-3.0, is_compensated=compensated)
    expected = -3.0 * effort + compensated * dyn_ros.generalized_gravity(robot, data, q)
    np.testing.assert_allclose(dyn_ros.measured_torque(robot, data, q, effort), expected)
