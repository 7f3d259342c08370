# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Impulses of contacts: agreement with a dense solution and with Pinocchio, conservation."""

from dataclasses import replace

import dense_contacts as dense
import numpy as np
import pytest
from dense_contacts import ALIGNED, FEET, LOCAL, PINOCCHIOS, REFERENCES, Spec, in_axes, scenes

import dyn_ros
import peer

NAMES = ("dv_dq", "dv_dv", "dimpulse_dq", "dimpulse_dv")
RESTITUTION = 0.3


def hit(pair, contacts, q, v, restitution=0.0, damping=0.0, **options):
    return dyn_ros.impulse_dynamics(
        pair.model, pair.data, q, v, dense.ours(contacts), restitution, damping, **options
    )


def derivatives(pair, contacts, q, v, restitution=0.0, damping=0.0, **options):
    found = dyn_ros.impulse_dynamics_derivatives(
        pair.model, pair.data, q, v, dense.ours(contacts), restitution, damping, **options
    )
    return dict(zip(NAMES, map(np.array, found), strict=True))


def assert_hit(found, expected, rtol=1e-9):
    after, impulses = found
    peer.close(after, expected[0], rtol)
    peer.close(impulses.lambda_c, expected[1], rtol)


# --- the impact


@scenes()
@REFERENCES
@pytest.mark.parametrize("restitution, damping", [(0.0, 0.0), (RESTITUTION, 0.0), (1.0, 1e-2)])
def test_dense_solution(robot, root_joint, contacts, reference, restitution, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    for seed in range(2):
        q, v, _, _ = pair.state(seed)
        expected = dense.impulses(pair, contacts, q, v, restitution, damping)
        assert_hit(hit(pair, contacts, q, v, restitution, damping), expected)


@scenes(dense.WITH_THE_WORLD)
@PINOCCHIOS
@pytest.mark.parametrize("damping", [0.0, 1e-3])
def test_pinocchio(robot, root_joint, contacts, reference, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    q, v, _, _ = pair.state()
    expected = dense.pin_impulses(pair, contacts, q, v, RESTITUTION, damping)
    assert_hit(hit(pair, contacts, q, v, RESTITUTION, damping), expected)


@scenes()
@pytest.mark.parametrize("restitution", [0.0, RESTITUTION, 1.0])
def test_energy(robot, root_joint, contacts, restitution):
    """Lost in an impact, but not with a restitution of 1; the contacts rebound."""
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state()
    after = hit(pair, contacts, q, v, restitution)[0]
    before, left = pair.kinetic_energy(q, v), pair.kinetic_energy(q, after)
    J = dense.jacobian(pair, q, contacts)
    peer.close(J @ after, -restitution * J @ v, 1e-9, np.abs(J @ v).max())
    if restitution == 1.0:
        peer.close(left, before, 1e-9)
    else:
        lost = (
            (1.0 - restitution**2)
            / 2.0
            * (J @ v)
            @ np.linalg.solve(dense.delassus(pair, contacts, q), J @ v)
        )
        assert lost > 0.0
        peer.close(before - left, lost, 1e-8, before)


@pytest.mark.parametrize(
    "contact",
    [Spec("FL_FOOT", other="HR_FOOT"), Spec("FL_FOOT", reference_frame=ALIGNED, other="HR_FOOT")],
)
def test_bodies_that_collide_keep_the_momentum(contact):
    pair = peer.pair("solo12", "floating")
    q, v, _, _ = pair.state()
    after = hit(pair, [contact], q, v)[0].copy()
    assert np.abs(after - v).max() > 0.1
    momenta = [dyn_ros.ccrba(pair.model, pair.data, q, x)[1].copy() for x in (v, after)]
    peer.close(*momenta, 1e-10)


@REFERENCES
def test_far_from_the_origin_of_the_world(reference):
    robot, root_joint, contacts = dense.SCENES["talos"]
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state()
    q[:2] += 100.0
    expected = dense.impulses(pair, in_axes(contacts, LOCAL), q, v)
    after, impulses = hit(pair, in_axes(contacts, reference), q, v)
    peer.close(after, expected[0], 1e-9)
    assert impulses.rank == 15


@scenes({name: dense.EVERY_SCENE[name] for name in ("solo12", "panda", "every_joint, branches")})
def test_gains_do_not_matter(robot, root_joint, contacts):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state()
    expected = hit(pair, [replace(contact, kp=0.0, kd=0.0) for contact in contacts], q, v)[0].copy()
    assert np.array_equal(hit(pair, contacts, q, v)[0], expected)


def test_armature():
    pair = peer.new_pair("solo12", "floating")
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    q, v, _, _ = pair.state()
    assert_hit(hit(pair, FEET, q, v), dense.impulses(pair, FEET, q, v))


@pytest.mark.parametrize("which", dense.SINGULAR)
@REFERENCES
def test_repeated_rows(which, reference):
    pair, contacts, given, rank = dense.singular(which)
    contacts, q, v = in_axes(contacts, reference), given["q"], pair.state(3)[1]
    after, impulses = hit(pair, contacts, q, v, RESTITUTION)
    assert_hit((after, impulses), dense.least_norm_impulses(pair, contacts, q, v, RESTITUTION))
    assert impulses.rank == rank and impulses.residual < 1e-9
    many = hit(pair, contacts, np.tile(q, (9, 1)), np.tile(v, (9, 1)), RESTITUTION)
    peer.close(many[0][8], after, 1e-9)


def test_no_contacts_change_nothing():
    pair = peer.pair("solo12", "floating")
    q, v, _, _ = pair.state()
    after, impulses = hit(pair, (), q, v)
    assert np.array_equal(after, v) and len(impulses) == 0
    found = derivatives(pair, (), q, v)
    assert np.array_equal(found["dv_dv"], np.eye(18)) and not found["dv_dq"].any()
    assert found["dimpulse_dq"].shape == found["dimpulse_dv"].shape == (0, 18)


def test_results_are_in_data():
    pair = peer.new_pair("solo12", "floating")
    q, v, _, _ = pair.state()
    after, impulses = hit(pair, FEET, q, v)
    assert np.array_equal(pair.data.dq_after, after)
    assert np.array_equal(pair.data.impulse_c, impulses.lambda_c)
    assert np.array_equal(impulses["HL_FOOT"], impulses.lambda_c[6:9])


# --- derivatives


def differences(pair, contacts, q, v, restitution, damping):
    def solve(q, v):
        after, impulses = hit(pair, contacts, q, v, restitution, damping)
        return after, impulses.lambda_c

    given = {"q": q, "v": v}
    by = dense.by_configuration(pair, given, solve), dense.by_vector(given, "v", solve)
    return dict(zip(NAMES, (x for both in zip(*by) for x in both), strict=True))


def assert_derivatives(found, expected, names=NAMES, **tolerances):
    """Contacts may determine all velocities: then the scale of dv_dv is that of the free robot."""
    for name in names:
        scale = max(np.abs(expected[name]).max(), 1.0 if name.startswith("dv") else 0.0)
        peer.close(found[name], expected[name], tolerances.get(name, 1e-9), scale)


@scenes()
@REFERENCES
@pytest.mark.parametrize("restitution, damping", [(0.0, 0.0), (RESTITUTION, 1e-2)])
def test_differences(robot, root_joint, contacts, reference, restitution, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given = (*pair.state()[:2], restitution, damping)
    rtol = dense.DIFFERENCES[reference]
    assert_derivatives(
        derivatives(pair, contacts, *given),
        differences(pair, contacts, *given),
        dv_dq=rtol,
        dimpulse_dq=rtol,
    )


@scenes(dense.WITH_THE_WORLD)
@PINOCCHIOS
@pytest.mark.parametrize("damping", [0.0, 1e-3])
def test_derivatives_are_pinocchios(robot, root_joint, contacts, reference, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given = (*pair.state()[:2], RESTITUTION, damping)
    expected = dict(zip(NAMES, dense.pin_impulse_derivatives(pair, contacts, *given), strict=True))
    right = reference == LOCAL or damping == 0.0
    names = NAMES if right else ("dv_dv", "dimpulse_dv")
    assert_derivatives(derivatives(pair, contacts, *given), expected, names)


def test_derivatives_of_a_foot_that_hits_twice():
    pair = peer.pair("solo12", "floating")
    given = (*pair.state()[:2], RESTITUTION)
    once = derivatives(pair, FEET, *given)
    twice = derivatives(pair, (*FEET, replace(FEET[0], name="again")), *given)
    for name in NAMES[2:]:
        again = twice[name][12:]
        twice[name] = twice[name][:12]
        twice[name][:3] += again  # the foot bears the impulses of both contacts
    assert_derivatives(twice, once)


# --- batches, bad input


@scenes()
@pytest.mark.parametrize("count, threads", [(3, 1), (20, 2)])
def test_batch_is_state_after_state(robot, root_joint, contacts, count, threads):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.states(count)
    given = (RESTITUTION, 1e-3)
    after, impulses = hit(pair, contacts, q, v, *given, threads=threads)
    found = derivatives(pair, contacts, q, v, *given, threads=threads)
    for row in {0, count // 2, count - 1}:
        alone = hit(pair, contacts, q[row], v[row], *given)
        peer.close(after[row], alone[0], 1e-9)
        peer.close(impulses.lambda_c[row], alone[1].lambda_c, 1e-9)
        assert_derivatives(
            {name: x[row] for name, x in found.items()},
            derivatives(pair, contacts, q[row], v[row], *given),
        )


def test_batch_after_one_with_linked_bodies():
    """A contact of two links fills matrices that are otherwise as sparse as the tree."""
    pair, fresh = (peer.new_pair("talos_reduced", "floating") for _ in range(2))
    q, v, _, _ = pair.states(8)
    derivatives(pair, dense.EVERY_SCENE["talos, hands"][2], q, v)
    contacts = dense.EVERY_SCENE["talos"][2]
    assert_derivatives(derivatives(pair, contacts, q, v), derivatives(fresh, contacts, q, v))


BAD = {
    "q": ({"q": np.zeros(5)}, r"q: expected shape \(6,\)"),
    "v": ({"v": np.full(6, np.nan)}, "v: expected finite numbers, got nan"),
    "negative restitution": ({"restitution": -0.1}, r"restitution.*-0\.1"),
    "restitution of more than 1": ({"restitution": 1.5}, r"restitution.*1\.5"),
    "negative damping": ({"damping": -1.0}, "damping.*-1"),
    "frame": ({"contacts": [Spec("hand")]}, "no frame named 'hand'"),
}


@pytest.mark.parametrize("how", BAD)
@pytest.mark.parametrize("function", [hit, derivatives])
def test_bad_input(how, function):
    pair = peer.pair("ur5", None)
    q, v, _, _ = pair.state()
    changes, message = BAD[how]
    with pytest.raises(ValueError, match=message):
        function(pair, **({"contacts": [dense.ARM], "q": q, "v": v} | changes))
