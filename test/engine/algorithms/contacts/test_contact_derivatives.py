# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of contact dynamics: differences, Pinocchio where it is right, identities."""

from dataclasses import replace

import dense_contacts as dense
import numpy as np
import pytest
from dense_contacts import FEET, PINOCCHIOS, REFERENCES, in_axes, scenes

import dyn_ros
import peer

NAMES = ("ddq_dq", "ddq_dv", "ddq_dtau", "dlambda_dq", "dlambda_dv", "dlambda_dtau")


def derivatives(pair, contacts, given, **options):
    """The six derivatives by name."""
    found = dyn_ros.contact_dynamics_derivatives(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        given["tau"],
        dense.ours(contacts),
        given["f_ext"],
        **options,
    )
    return dict(zip(NAMES, map(np.array, found), strict=True))


def differences(pair, contacts, given, damping):
    """The same by differences of contact_dynamics."""
    found = dense.ours(contacts)

    def solve(q, v, tau, f_ext):
        ddq, forces = dyn_ros.contact_dynamics(
            pair.model, pair.data, q, v, tau, found, f_ext, damping
        )
        return ddq, forces.lambda_c

    by = (
        dense.by_configuration(pair, given, solve),
        dense.by_vector(given, "v", solve),
        dense.by_vector(given, "tau", solve),
    )
    return dict(zip(NAMES, (x for both in zip(*by) for x in both), strict=True))


def assert_derivatives(pair, given, found, expected, names=NAMES, **tolerances):
    """Contacts that determine the motion leave no ddq_dtau: the scale is that of the free robot."""
    free = np.abs(pair.minverse(given["q"])).max()
    for name in names:
        scale = max(np.abs(expected[name]).max(), free if name == "ddq_dtau" else 0.0)
        peer.close(found[name], expected[name], tolerances.get(name, 1e-9), scale)


@scenes()
@REFERENCES
@pytest.mark.parametrize("damping", [0.0, 1e-2])
def test_differences(robot, root_joint, contacts, reference, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given = dense.state(pair)
    found = derivatives(pair, contacts, given, damping=damping)
    expected = differences(pair, contacts, given, damping)
    rtol = dense.DIFFERENCES[reference]
    assert_derivatives(pair, given, found, expected, ddq_dq=rtol, dlambda_dq=rtol)


@scenes(dense.WITHOUT_MIMICS)
@PINOCCHIOS
@pytest.mark.parametrize("damping", [0.0, 1e-2])
def test_pinocchio(robot, root_joint, contacts, reference, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given = dense.state(pair) | {"f_ext": None}
    found = derivatives(pair, contacts, given, damping=damping)
    expected = dict(
        zip(
            NAMES,
            dense.pin_derivatives(pair, contacts, given["q"], given["v"], given["tau"], damping),
            strict=True,
        )
    )
    names = NAMES
    if not dense.derivatives_are_right(contacts, root_joint, damping):
        names = [name for name in NAMES if not name.endswith("_dq")]
    assert_derivatives(pair, given, found, expected, names)


@pytest.mark.parametrize("frame", ["arm/claw", "hand/claw", "leg/claw"])
@PINOCCHIOS
def test_a_contact_behind_spherical_joints(frame, reference):
    """In LOCAL as Pinocchio; in LOCAL_WORLD_ALIGNED, where its are off, as differences."""
    pair = peer.pair("ball_joints", "floating")
    contacts = (dense.Spec(frame, 6, reference, placement=dense.placed(1)),)
    given = dense.state(pair)
    found = derivatives(pair, contacts, given)
    assert_derivatives(pair, given, found, differences(pair, contacts, given, 0.0))
    if reference == dense.LOCAL:
        given = given | {"f_ext": None}
        expected = dense.pin_derivatives(pair, contacts, given["q"], given["v"], given["tau"], 0.0)
        assert_derivatives(
            pair, given, derivatives(pair, contacts, given), dict(zip(NAMES, expected, strict=True))
        )


@scenes({name: dense.EVERY_SCENE[name] for name in ("solo12", "panda", "every_joint")})
def test_armature_and_another_gravity(robot, root_joint, contacts):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity((1.5, -2.5, 9.0))
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    given = dense.state(pair)
    found, expected = derivatives(pair, contacts, given), differences(pair, contacts, given, 0.0)
    assert_derivatives(pair, given, found, expected, ddq_dq=1e-9, dlambda_dq=1e-9)


@scenes()
@pytest.mark.parametrize("damping", [0.0, 1e-2])
def test_by_the_torques(robot, root_joint, contacts, damping):
    """The inverse of the matrix of the dense solution has these blocks."""
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair)
    found = derivatives(pair, contacts, given, damping=damping)
    M, J = pair.crba(given["q"]), dense.jacobian(pair, given["q"], contacts)
    ddq_dtau, dlambda_dtau = found["ddq_dtau"], found["dlambda_dtau"]
    free = np.abs(np.linalg.inv(M)).max()
    peer.close(ddq_dtau, ddq_dtau.T, 1e-11, free)
    peer.close(M @ ddq_dtau - J.T @ dlambda_dtau, np.eye(pair.model.nv), 1e-9)
    peer.close(
        J @ ddq_dtau + damping * dlambda_dtau,
        np.zeros_like(dlambda_dtau),
        1e-9,
        np.abs(J).max() * free,
    )


def test_repeated_rows():
    """A foot that is in contact twice: the motion has the derivatives of one contact."""
    pair = peer.pair("solo12", "floating")
    given = dense.state(pair)
    once = derivatives(pair, FEET, given)
    twice = derivatives(pair, (*FEET, replace(FEET[0], name="again")), given)
    for name in NAMES:
        assert np.isfinite(twice[name]).all()
    assert_derivatives(pair, given, twice, once, NAMES[:3])
    sums = {name: twice[name][:12] for name in NAMES[3:]}
    for name, x in sums.items():
        x[:3] += twice[name][12:]  # the foot bears what both contacts do
    assert_derivatives(pair, given, sums, once, NAMES[3:])


@pytest.mark.parametrize("which", dense.SINGULAR)
@REFERENCES
def test_motion_under_repeated_rows(which, reference):
    """The motion is differentiable; the forces of least norm are not those of the derivatives."""
    pair, contacts, given, _ = dense.singular(which)
    contacts = in_axes(contacts, reference)
    found, expected = derivatives(pair, contacts, given), differences(pair, contacts, given, 0.0)
    assert not expected["ddq_dv"].any() and np.abs(found["ddq_dv"]).max() < 1e-9
    assert_derivatives(
        pair, given, found, expected, ("ddq_dq", "ddq_dtau"), ddq_dq=dense.DIFFERENCES[reference]
    )
    q, v, tau, f_ext = (np.repeat(given[name][None], 9, 0) for name in ("q", "v", "tau", "f_ext"))
    batch = derivatives(pair, contacts, {"q": q, "v": v, "tau": tau, "f_ext": f_ext})
    for name in NAMES:
        assert np.isfinite(batch[name]).all()
        torque = found[name[: name.index("_d")] + "_dtau"]  # of which none is zero
        peer.close(batch[name][8], found[name], 1e-8, np.abs([*found[name], *torque]).max())


def test_no_contacts_is_aba_derivatives():
    for robot, root_joint in (("solo12", "floating"), ("panda", None)):
        pair = peer.pair(robot, root_joint)
        given = dense.state(pair)
        found = derivatives(pair, (), given)
        expected = dyn_ros.aba_derivatives(pair.model, dyn_ros.Data(pair.model), **given)
        for name, x in zip(NAMES, expected):
            peer.close(found[name], x, 1e-12)
        for name in NAMES[3:]:
            assert found[name].shape == (0, pair.model.nv)


@scenes()
@pytest.mark.parametrize("damping", [0.0, 1e-3])
@pytest.mark.parametrize("count, threads", [(3, 1), (20, 2)])
def test_batch_is_state_after_state(robot, root_joint, contacts, damping, count, threads):
    pair = peer.pair(robot, root_joint)
    each = [dense.state(pair, seed) for seed in range(count)]
    together = {name: np.array([given[name] for given in each]) for name in each[0]}
    found = derivatives(pair, contacts, together, damping=damping, threads=threads)
    for row in {0, count // 2, count - 1}:
        alone = derivatives(pair, contacts, each[row], damping=damping)
        one = {name: x[row] for name, x in found.items()}
        assert_derivatives(pair, each[row], one, alone)


def test_batch_after_one_with_linked_bodies():
    """A contact of two links fills matrices that are otherwise as sparse as the tree."""
    pair, fresh = (peer.new_pair("talos_reduced", "floating") for _ in range(2))
    given = dict(zip(("q", "v", "tau", "f_ext"), pair.states(8)[:3] + (None,)))
    derivatives(pair, dense.EVERY_SCENE["talos, hands"][2], given)
    contacts = dense.EVERY_SCENE["talos"][2]
    found, expected = derivatives(pair, contacts, given), derivatives(fresh, contacts, given)
    for name in NAMES:
        peer.close(found[name], expected[name], 1e-12)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"q": np.zeros(5)}, r"q: expected shape \(6,\)"),
        ({"tau": np.full(6, np.inf)}, "tau: expected finite numbers, got inf"),
        ({"f_ext": np.zeros((5, 6))}, r"f_ext: expected shape \(6, 6\)"),
        ({"damping": -1.0}, "damping.*-1"),
    ],
)
def test_bad_input(changes, message):
    pair = peer.pair("ur5", None)
    given = dense.state(pair)
    options = {"damping": changes["damping"]} if "damping" in changes else {}
    with pytest.raises(ValueError, match=message):
        derivatives(pair, [dense.ARM], given | changes, **options)
