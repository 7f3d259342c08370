# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Regressors of the energies and of the center of mass."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))
NAMES = "kinetic_energy_regressor", "potential_energy_regressor", "static_regressor"
MASSLESS = """<robot name="ghost"><link name="a"/><link name="b"/>
  <joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>
</robot>"""


def body_parameters(model):
    return np.concatenate([Y.dynamic_parameters() for Y in model.inertias])


def call(pair, name, q, v, **options):
    state = (q, v) if name.startswith("kinetic") else (q,)
    return getattr(dyn_ros, name)(pair.model, pair.data, *state, **options)


@EVERY
def test_energies_are_linear_in_the_parameters(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data, parameters = pair.model, pair.data, body_parameters(pair.model)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        rotors = 0.5 * (model.armature * v * v).sum()
        peer.close(
            call(pair, NAMES[0], q, v) @ parameters + rotors,
            dyn_ros.kinetic_energy(model, data, q, v),
            1e-13,
        )
        terms = np.abs(call(pair, NAMES[1], q, v) * parameters).sum()
        peer.close(
            call(pair, NAMES[1], q, v) @ parameters,
            dyn_ros.potential_energy(model, data, q),
            1e-13,
            scale=terms,
        )


@EVERY
def test_the_center_of_mass_is_linear_in_masses_and_moments(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    moments = body_parameters(pair.model).reshape(-1, 10)[:, :4].ravel()
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        expected = dyn_ros.center_of_mass(pair.model, pair.data, q)[0]
        peer.close(call(pair, NAMES[2], q, v) @ moments, expected, 1e-13)


@EVERY
def test_regressors_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        state = pair.pin, pair.pin_data, pair.to_pin_q(q)
        peer.close(
            call(pair, NAMES[0], q, v),
            pinocchio.computeKineticEnergyRegressor(*state, pair.G @ v),
            1e-12,
        )
        peer.close(
            call(pair, NAMES[1], q, v), pinocchio.computePotentialEnergyRegressor(*state), 1e-12
        )
        peer.close(call(pair, NAMES[2], q, v), pinocchio.computeStaticRegressor(*state), 1e-12)


@SOME
def test_gravity_torques_are_the_slope_of_the_potential_energy(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.model.gravity = (1.5, -2.5, 9.0)
    q, v, a, _ = pair.state(2)
    zero = np.zeros(pair.model.nv)
    torques = dyn_ros.joint_torque_regressor(pair.model, pair.data, q, zero, zero)
    slope = peer.along(pair, q, a, lambda q: call(pair, NAMES[1], q, v))
    peer.close(a @ torques, slope, 1e-8)


@SOME
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_contains_the_results_of_its_states(robot, root_joint, name):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.states(33, seed=1)
    each = np.array([call(pair, name, *state).copy() for state in zip(q, v)])
    for size in (1, 7, 8, 9, 33):
        peer.close(call(pair, name, q[:size], v[:size], threads=2), each[:size], 1e-13)
    assert call(pair, name, q[0], v[0]) is getattr(pair.data, name)


def test_without_mass_the_static_regressor_is_zero():
    model = dyn_ros.Model.from_urdf(MASSLESS)
    found = dyn_ros.static_regressor(model, dyn_ros.Data(model), [0.3])
    assert found.shape == (3, 4)
    assert not found.any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("states", [1, 9])
def test_bad_arguments_are_rejected(name, states):
    pair = peer.pair("panda")
    q, v, _, _ = pair.states(states)
    q[-1, 2] = np.nan
    for each in ((q, v), (q[-1], v[-1])):
        with pytest.raises(ValueError, match=r"q: .*nan"):
            call(pair, name, *each)
    with pytest.raises(ValueError, match=r"q: expected shape"):
        call(pair, name, q[:, :3], v)
