# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Base parameters: their number, and that torques depend on nothing else."""

import numpy as np
import pinocchio
import pytest
from identification.robots import load

import dyn_ros
import peer


@pytest.mark.parametrize(
    "robot, root_joint, count",
    [
        ("ur10", None, 36),  # six revolute joints, the first vertical (Khalil, Dombre 2002)
        ("solo12", "floating", 94),
        ("double_pendulum", None, None),
        ("panda", None, None),  # a mimic joint
        ("every_joint", None, None),
    ],
)
def test_torques_depend_on_base_parameters_alone(robot, root_joint, count):
    model = load(robot, root_joint)
    base = dyn_ros.base_parameters(model)
    assert count is None or len(base) == count
    p = 10 * model.njoints
    matrix = base.matrix[:, :p]
    assert not base.matrix[:, p:].any()
    data, rng = dyn_ros.Data(model), np.random.default_rng(7)
    for _ in range(5):
        q = model.random_configuration(rng)
        v, a = rng.normal(size=(2, model.nv))
        Y = dyn_ros.joint_torque_regressor(model, data, q, v, a)
        np.testing.assert_allclose(Y[:, base.independent] @ matrix, Y, atol=1e-9 * np.abs(Y).max())
    # parameters that differ, but not in the base parameters
    change = np.linalg.svd(matrix)[2][len(base) :]
    equivalent = model.inertial_parameters + (rng.normal(size=len(change)) @ change).reshape(-1, 10)
    before = dyn_ros.rnea(model, data, q, v, a).copy()
    model.inertial_parameters = equivalent
    after = dyn_ros.rnea(model, data, q, v, a)
    np.testing.assert_allclose(after, before, atol=1e-8 * (np.abs(before).max() + 1.0))


def test_the_number_is_pinocchios_rank():
    """Pinocchio's regressor of the same robot has the same rank."""
    pair = peer.new_pair("ur5")
    rows = [pinocchio_regressor(pair, seed) for seed in range(40)]
    singular = np.linalg.svd(np.concatenate(rows), compute_uv=False)
    rank = int((singular > 1e-9 * singular[0]).sum())
    assert len(dyn_ros.base_parameters(pair.model)) == rank == 36


def pinocchio_regressor(pair, seed):
    q, v, a, _ = pair.state(seed)
    return pinocchio.computeJointTorqueRegressor(
        pair.pin, pair.pin.createData(), pair.to_pin_q(q), v, a
    )


def test_friction_and_rotors():
    model = load("ur10")
    base = dyn_ros.base_parameters(model, armature=True, friction=True)
    names = np.array(base.parameter_names)
    leading = set(names[base.independent])
    for name in model.velocity_names:
        assert {f"damping({name})", f"friction({name})", f"offset({name})"} <= leading
    # a rotor on a vertical axis fixed to the world acts like inertia of its link
    assert "armature(shoulder_pan_joint)" not in leading
    row = [text for text in base.names if "armature(shoulder_pan_joint)" in text]
    assert len(row) == 1 and row[0].startswith("Izz(shoulder_pan_joint)")


def test_names_state_the_matrix():
    base = dyn_ros.base_parameters(load("ur10"))
    n = next(k for k, name in enumerate(base.names) if name.startswith("Ixx(wrist_3_joint)"))
    assert base.names[n] == "Ixx(wrist_3_joint) - Izz(wrist_3_joint)"
    assert base.units[n] == "kg m2"
    row = dict(zip(base.parameter_names, base.matrix[n]))
    assert row["Ixx(wrist_3_joint)"] == 1.0
    assert row["Izz(wrist_3_joint)"] == pytest.approx(-1.0, abs=1e-9)
    assert 1.0 < base.condition < 1e3


def test_a_robot_without_gravity_has_fewer():
    model = load("ur10")
    with_gravity = len(dyn_ros.base_parameters(model))
    model.gravity = np.zeros(3)
    assert len(dyn_ros.base_parameters(model)) < with_gravity
