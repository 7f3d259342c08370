# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forces and torques of a known motion in contact."""

import contacts as dense
import numpy as np
import pytest
from contacts import FEET, REFERENCES, in_axes, scenes

import dyn_ros
import peer


def forces_of(pair, contacts, given, a):
    return dyn_ros.contact_forces(pair.model, pair.data, given["q"], given["v"], a, given["tau"],
                                  dense.ours(contacts), given["f_ext"])


# --- contact_forces

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
    """Least squares of the torques that are left over."""
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair)
    a = pair.state(7)[2]
    J = dense.jacobian(pair, given["q"], contacts)
    wanted = pair.rnea(given["q"], given["v"], a, given["f_ext"]) - given["tau"]
    expected = np.linalg.lstsq(J.T, wanted)[0]
    peer.close(forces_of(pair, contacts, given, a).lambda_c, expected, 1e-8)


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


def test_forces_of_a_batch():
    pair = peer.pair("solo12", "floating")
    each = [dense.state(pair, seed) for seed in range(11)]
    together = {name: np.array([given[name] for given in each]) for name in each[0]}
    a = pair.states(11)[2]
    found = forces_of(pair, FEET, together, a)
    for row, given in enumerate(each):
        peer.close(found.lambda_c[row], forces_of(pair, FEET, given, a[row]).lambda_c, 1e-9)


@pytest.mark.parametrize("changes, message", [
    ({"q": np.zeros(5)}, r"q: expected shape \(6,\)"),
    ({"tau": np.full(6, np.nan)}, "tau: expected finite numbers, got nan"),
    ({"f_ext": np.zeros((5, 6))}, r"f_ext: expected shape \(6, 6\)"),
])
def test_bad_input_of_forces(changes, message):
    pair = peer.pair("ur5", None)
    with pytest.raises(ValueError, match=message):
        forces_of(pair, [dense.ARM], dense.state(pair) | changes, np.zeros(6))
