# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forces and torques of a known motion in contact."""

import dense_contacts as dense
import numpy as np
import pytest
from dense_contacts import FEET, REFERENCES, in_axes, scenes

import dyn_ros
import peer

# --- contact_inverse_dynamics


def inverse(pair, contacts, given, a, weights=None, **options):
    return dyn_ros.contact_inverse_dynamics(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        a,
        dense.ours(contacts),
        given["f_ext"],
        weights,
        **options,
    )


def base_columns(pair, root_joint):
    return slice(0, 0 if root_joint is None else pair.model.nvs[0])


def least_forces(pair, root_joint, contacts, given, a, weights):
    """(tau, forces): the forces of least weighted norm that carry the base."""
    contacts, T = dense.at_frames(pair, given["q"], contacts)
    J = dense.jacobian(pair, given["q"], contacts)
    tau = pair.rnea(given["q"], given["v"], a, given["f_ext"])
    base = base_columns(pair, root_joint)
    root = np.sqrt(weights)
    forces = np.linalg.lstsq(J[:, base].T / root, tau[base], 1e-9)[0] / root
    return tau - J.T @ forces, T @ forces


@scenes()
@REFERENCES
@pytest.mark.parametrize("weighted", [False, True])
def test_least_forces_that_carry_the_base(robot, root_joint, contacts, reference, weighted):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given, a = dense.state(pair), pair.state(7)[2]
    m = sum(contact.dimension for contact in contacts)
    weights = np.random.default_rng(3).uniform(0.2, 3.0, m) if weighted else np.ones(m)
    expected = least_forces(pair, root_joint, contacts, given, a, weights)
    tau, forces = inverse(pair, contacts, given, a, weights if weighted else None)
    scale = np.abs(pair.rnea(given["q"], given["v"], a, given["f_ext"])).max()
    peer.close(tau, expected[0], 1e-9, scale)
    peer.close(forces.lambda_c, expected[1], 1e-8)
    left = np.abs(expected[0][base_columns(pair, root_joint)]).max(initial=0.0)
    peer.close(forces.residual, left, 1e-9, scale)


@scenes(dense.SCENES)
def test_the_torques_cause_the_motion(robot, root_joint, contacts):
    """Of a motion that contacts permit: forward dynamics returns it, and the forces."""
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair)
    a, _ = dense.dynamics(pair, contacts, **given)
    tau, forces = inverse(pair, contacts, given, a)
    again = dense.dynamics(pair, contacts, **given | {"tau": tau.copy()})
    peer.close(again[0], a, 1e-8)
    peer.close(again[1], forces.lambda_c, 1e-7, max(np.abs(tau).max(), np.abs(again[1]).max()))


def test_a_fixed_base_needs_no_contacts():
    pair = peer.pair("ur5", None)
    given, a = dense.state(pair), pair.state(7)[2]
    tau, forces = inverse(pair, [dense.ARM], given, a)
    assert not forces.lambda_c.any() and forces.rank == 0 and forces.residual == 0.0
    peer.close(tau, pair.rnea(given["q"], given["v"], a, given["f_ext"]), 1e-12)


def test_a_foot_of_much_weight_is_spared():
    pair = peer.pair("solo12", "floating")
    given, a = dense.state(pair), pair.state(7)[2]
    weights = np.ones(12)
    weights[:3] = 1e9
    tau, forces = inverse(pair, FEET, given, a, weights)
    largest = np.abs(forces.lambda_c).max()
    assert np.abs(forces["FL_FOOT"]).max() < 1e-6 * largest
    assert np.abs(tau[:6]).max() < 1e-9 * largest and forces.rank == 6


def test_one_foot_cannot_carry_a_base():
    pair = peer.pair("solo12", "floating")
    given, a = dense.state(pair), pair.state(7)[2]
    tau, forces = inverse(pair, FEET[:1], given, a)
    assert forces.rank == 3
    assert forces.residual == np.abs(tau[:6]).max() > 1.0


def test_inverse_dynamics_of_a_batch():
    pair = peer.pair("solo12", "floating")
    each = [dense.state(pair, seed) for seed in range(11)]
    together = {name: np.array([given[name] for given in each]) for name in each[0]}
    a, weights = pair.states(11)[2], np.random.default_rng(3).uniform(0.2, 3.0, (11, 12))
    tau, forces = inverse(pair, FEET, together, a, weights, threads=2)
    for row, given in enumerate(each):
        alone = inverse(pair, FEET, given, a[row], weights[row])
        peer.close(tau[row], alone[0], 1e-9)
        peer.close(forces.lambda_c[row], alone[1].lambda_c, 1e-9)


@pytest.mark.parametrize(
    "weights, message",
    [
        (np.ones(2), r"weights: expected shape \(3,\), or \(B, 3\)"),
        (np.ones((2, 2)), r"weights: expected shape \(3,\), or \(B, 3\)"),
        ([1.0, 0.0, 1.0], "weights: expected positive numbers, got 0"),
        ([1.0, -2.0, 1.0], "weights: expected positive numbers, got -2"),
        ([1.0, np.nan, 1.0], "weights: expected .*, got nan"),
        ("heavy", "weights: expected .*'heavy'"),
    ],
)
def test_bad_weights(weights, message):
    pair = peer.pair("ur5", None)
    with pytest.raises(ValueError, match=message):
        inverse(pair, [dense.ARM], dense.state(pair), np.zeros(6), weights)


# --- contact_forces


def forces_of(pair, contacts, given, a, weights=None):
    return dyn_ros.contact_forces(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        a,
        given["tau"],
        dense.ours(contacts),
        given["f_ext"],
        weights,
    )


@scenes()
@REFERENCES
def test_forces_of_a_motion_are_those_that_caused_it(robot, root_joint, contacts, reference):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    for seed in range(2):
        given = dense.state(pair, seed)
        ddq, forces = dense.dynamics(pair, contacts, **given)
        found = forces_of(pair, contacts, given, ddq)
        peer.close(found.lambda_c, forces, 1e-8)
        assert tuple(found) == tuple(contact.name or contact.frame for contact in contacts)


@scenes()
def test_forces_of_an_impossible_motion_are_the_closest(robot, root_joint, contacts):
    """Least squares of the torques that are left over, with weights or without."""
    pair = peer.pair(robot, root_joint)
    given, a = dense.state(pair), pair.state(7)[2]
    J = dense.jacobian(pair, given["q"], contacts)
    wanted = pair.rnea(given["q"], given["v"], a, given["f_ext"]) - given["tau"]
    weights = np.random.default_rng(3).uniform(0.2, 3.0, len(wanted))
    for x in (None, weights):
        root = 1.0 if x is None else np.sqrt(x)
        expected = np.linalg.lstsq((root * J).T, root * wanted)[0]
        found = forces_of(pair, contacts, given, a, x)
        peer.close(found.lambda_c, expected, 1e-8)
        peer.close(
            found.residual, np.abs(J.T @ expected - wanted).max(), 1e-8, np.abs(wanted).max()
        )


@pytest.mark.parametrize("which", dense.SINGULAR)
def test_forces_of_repeated_contacts_are_of_least_norm(which):
    pair, contacts, given, rank = dense.singular(which)
    a = pair.state(7)[2]
    J = dense.jacobian(pair, given["q"], contacts)
    wanted = pair.rnea(given["q"], given["v"], a, given["f_ext"]) - given["tau"]
    found = forces_of(pair, contacts, given, a)
    peer.close(found.lambda_c, np.linalg.pinv(J.T, 1e-7) @ wanted, 1e-7)
    assert found.rank == rank


def test_a_standing_robot_is_carried_by_its_feet():
    """At rest and with the torques of the joints that stand so, the feet carry the weight."""
    pair = peer.pair("solo12", "floating")
    contacts = in_axes(FEET, dense.ALIGNED)
    q, v, _, _ = pair.state()
    v = 0.0 * v
    J = dense.jacobian(pair, q, contacts)
    g = pair.generalized_gravity(q)
    forces = np.linalg.lstsq(J[:, :6].T, g[:6])[0]
    given = {"q": q, "v": v, "tau": g - J.T @ forces, "f_ext": None}
    found = forces_of(pair, contacts, given, v)
    weight = pair.model.total_mass * 9.81
    peer.close(sum(found[name] for name in found), [0.0, 0.0, weight], 1e-9)


@REFERENCES
def test_far_from_the_origin_of_the_world(reference):
    robot, root_joint, contacts = dense.SCENES["solo12, shank"]
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair)
    given["q"][:2] += 1000.0
    contacts = in_axes(contacts, reference)
    ddq, expected = dense.dynamics(pair, contacts, **given)
    found = forces_of(pair, contacts, given, ddq)
    assert found.rank == 9
    peer.close(found.lambda_c, expected, 1e-8)


def test_forces_of_a_batch():
    pair = peer.pair("solo12", "floating")
    each = [dense.state(pair, seed) for seed in range(11)]
    together = {name: np.array([given[name] for given in each]) for name in each[0]}
    a = pair.states(11)[2]
    found = forces_of(pair, FEET, together, a)
    for row, given in enumerate(each):
        peer.close(found.lambda_c[row], forces_of(pair, FEET, given, a[row]).lambda_c, 1e-9)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"q": np.zeros(5)}, r"q: expected shape \(6,\)"),
        ({"tau": np.full(6, np.nan)}, "tau: expected finite numbers, got nan"),
        ({"f_ext": np.zeros((5, 6))}, r"f_ext: expected shape \(6, 6\)"),
    ],
)
def test_bad_input_of_forces(changes, message):
    pair = peer.pair("ur5", None)
    with pytest.raises(ValueError, match=message):
        forces_of(pair, [dense.ARM], dense.state(pair) | changes, np.zeros(6))
