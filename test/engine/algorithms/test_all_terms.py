# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""all_terms: compared with Pinocchio, and with the functions that return single terms."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros.engine.algorithms.all_terms import Terms

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
TIGHT = 1e-12
ENERGIES = "potential_energy", "kinetic_energy"


def apart(model, q, v):
    """The same terms, each from its own function."""
    data = dyn_ros.Data(model)
    dyn_ros.ccrba(model, data, q, v)
    dyn_ros.center_of_mass(model, data, q, v)
    dyn_ros.subtree_centers_of_mass(model, data, q)
    dyn_ros.frame_placements(model, data, q)
    return Terms(
        dyn_ros.crba(model, data, q),
        dyn_ros.nonlinear_effects(model, data, q, v),
        dyn_ros.generalized_gravity(model, data, q),
        dyn_ros.joint_jacobians(model, data, q),
        data.Ag,
        data.hg,
        data.Ig,
        dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, np.zeros(model.nv)),
        data.com,
        data.vcom,
        float(data.mass),
        dyn_ros.com_jacobian(model, data, q),
        data.subtree_com,
        data.subtree_mass,
        dyn_ros.kinetic_energy(model, data, q, v),
        dyn_ros.potential_energy(model, data, q),
        data.oMi,
        data.oMf,
    )


def close(terms, expected, tolerance=TIGHT):
    for name, x, y in zip(Terms._fields, terms, expected, strict=True):
        # the potential is a difference of large numbers where the robot is above and below
        scale = np.abs(expected.g).sum() + np.abs(y).max() if name in ENERGIES else None
        peer.close(x, y, tolerance, scale)


def own(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity((1.5, -2.5, 9.0))
    return pair


@EVERY
def test_terms_are_those_of_the_functions_that_give_one_each(robot, root_joint):
    pair = own(robot, root_joint)
    pair.model.armature = np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv)
    for seed in range(3):
        q, v, _, _ = pair.state(seed)
        close(dyn_ros.all_terms(pair.model, pair.data, q, v), apart(pair.model, q, v))
    assert isinstance(pair.data.M, np.ndarray)


@EVERY
def test_terms_are_pinocchios(robot, root_joint):
    pair = own(robot, root_joint)
    q, v, _, _ = pair.state(3)
    terms, G, d = dyn_ros.all_terms(pair.model, pair.data, q, v), pair.G, pair.pin_data
    pinocchio.computeAllTerms(pair.pin, d, pair.to_pin_q(q), G @ v)
    M = np.triu(d.M) + np.triu(d.M, 1).T
    peer.close(terms.M, G.T @ M @ G)
    peer.close(terms.nle, G.T @ d.nle)
    peer.close(terms.g, G.T @ d.g)
    peer.close(terms.Jcom, d.Jcom @ G)
    peer.close(terms.Ag, d.Ag @ G)
    for x, y in (
        (terms.hg, d.hg.vector),
        (terms.Ig, d.Ig.matrix()),
        (terms.com, d.com[0]),
        (terms.vcom, d.vcom[0]),
        (terms.mass, d.mass[0]),
        (terms.kinetic_energy, d.kinetic_energy),
        (terms.oMi, [X.homogeneous for X in d.oMi][1:]),
    ):
        peer.close(x, y)
    peer.close(
        terms.potential_energy,
        d.potential_energy,
        scale=np.abs(terms.g).sum() + abs(d.potential_energy),
    )
    if not pair.has_mimics:
        peer.close(terms.J, d.J)


@peer.robots(("every_joint", "panda", "solo12"))
def test_momentum_rate(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(4)
    terms = dyn_ros.all_terms(pair.model, pair.data, q, v)
    rate = terms.Ag @ a + terms.dhg_drift
    peer.close(
        rate,
        dyn_ros.centroidal_momentum_time_derivative(pair.model, dyn_ros.Data(pair.model), q, v, a),
        TIGHT,
    )
    rate = peer.in_time(
        pair, q, v, a, lambda q, v: dyn_ros.all_terms(pair.model, pair.data, q, v, only=["hg"])
    )
    peer.close(terms.Ag @ a + terms.dhg_drift, rate, 1e-9, scale=np.abs(rate).max())


@peer.robots(("every_joint", "baxter"))
def test_without_velocity_it_is_zero(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(5)
    dyn_ros.all_terms(pair.model, pair.data, q, v)  # which leaves numbers behind
    terms = dyn_ros.all_terms(pair.model, pair.data, q)
    peer.close(terms.nle, terms.g, TIGHT)
    assert not terms.hg.any() and not terms.vcom.any() and not terms.dhg_drift.any()
    assert terms.kinetic_energy == 0.0


@pytest.mark.parametrize("name", Terms._fields)
@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_a_term_alone_is_the_same(name, count):
    """Whatever an earlier call has left."""
    pair = own("every_joint", "floating")
    q, v = pair.state(6)[:2] if count is None else pair.states(count)[:2]
    every = dyn_ros.all_terms(pair.model, dyn_ros.Data(pair.model), q, v)
    dyn_ros.all_terms(pair.model, pair.data, *pair.state(7)[:2])
    expected = np.array(getattr(every, name))
    found = dyn_ros.all_terms(pair.model, pair.data, q, v, only=[name])
    assert np.shape(found) == np.shape(expected)
    peer.close(found, expected, 1e-14)
    g, again = dyn_ros.all_terms(pair.model, pair.data, q, v, only=("g", name))
    peer.close(g, every.g, 1e-14)
    peer.close(again, expected, 1e-14)
    if count is None:
        data = getattr(pair.data, name)
        assert found == data if isinstance(found, float) else found is data


def test_what_is_no_term_is_named():
    pair = peer.pair("panda")
    for only, named in ((["M", "tau"], "'tau'"), ("nle", "'nle'"), ([], r"\[\]")):
        with pytest.raises(ValueError, match=rf"only: .*got.*{named}.*available: M, nle, g, "):
            dyn_ros.all_terms(pair.model, pair.data, *pair.state()[:2], only=only)


@peer.robots(("solo12", "talos_reduced"), ("floating",))
def test_far_from_the_root_no_digit_is_lost(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(8)
    names = ("M", "nle", "g", "Ag", "hg", "Ig", "dhg_drift", "vcom", "Jcom")
    q[:3] = 0.0
    near = [x.copy() for x in dyn_ros.all_terms(pair.model, pair.data, q, v, only=names)]
    q[:3] = 4e6, -3e6, 1e5
    for x, y in zip(dyn_ros.all_terms(pair.model, pair.data, q, v, only=names), near):
        assert np.array_equal(x, y)


def test_a_robot_that_does_not_move():
    model = dyn_ros.Model.from_urdf('<robot name="stone"><link name="base"/></robot>')
    data = dyn_ros.Data(model)
    for shape in ((0,), (9, 0)):
        terms = dyn_ros.all_terms(model, data, np.zeros(shape), np.zeros(shape))
        assert not np.any(terms.hg) and not np.any(terms.com) and not np.any(terms.mass)
        assert terms.M.shape == (*shape[:-1], 0, 0)


@pytest.mark.parametrize("threads", [1, 2])
@peer.robots(("every_joint", "talos_reduced"), (None, "floating"))
def test_a_batch_is_its_states(robot, root_joint, threads):
    pair = peer.pair(robot, root_joint)
    for count in (1, 19):
        q, v = pair.states(count)[:2]
        batch = dyn_ros.all_terms(pair.model, pair.data, q, v, threads=threads)
        for n in range(count):
            one = dyn_ros.all_terms(pair.model, pair.data, q[n], v[n])
            for x, y in zip(batch, one, strict=True):
                assert len(x) == count
                peer.close(x[n], y, 1e-13, scale=max(1.0, np.abs(y).max()))


@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_bad_arrays_are_named(batched):
    pair = peer.pair("every_joint", "floating")
    q, v = (pair.states(9) if batched else pair.state(9))[:2]
    for name, arguments in (("q", lambda bad: (bad(q), v)), ("v", lambda bad: (q, bad(v)))):
        for bad in (lambda x: x[..., :-1], lambda x: np.full_like(x, np.nan), lambda x: "words"):
            with pytest.raises(ValueError, match=rf"\b{name}\b.*expected.*got"):
                dyn_ros.all_terms(pair.model, pair.data, *arguments(bad))


def test_without_compiled_code():
    pair = peer.pair("every_joint", "floating")
    calls = [("all_terms", dict(zip("qv", state))) for state in (pair.state(0), pair.states(2))]
    for (_, given), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        for x, y in zip(found, dyn_ros.all_terms(pair.model, pair.data, **given), strict=True):
            peer.close(x, y, TIGHT, scale=max(1.0, np.abs(y).max()))
