# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Normal equations of the inertial parameters: agreement with the rows that they sum up."""

import numpy as np
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating"))
SOME = peer.robots(("every_joint", "panda", "ball_joints"), root_joints=(None, "floating"))
SIZES = (1, 7, 8, 9, 1000)


def samples(pair, size, seed=0):
    """q, v, a, tau, features, weights of a batch; some weights are zero."""
    rng, model = np.random.default_rng(seed), pair.model
    weights = rng.uniform(0.0, 2.0, (size, model.nv)) * (rng.uniform(size=(size, model.nv)) > 0.2)
    states = pair.states(min(size, 50), seed)
    repeated = [np.resize(x, (size, x.shape[-1])) for x in states]
    return *repeated, rng.normal(size=(size, model.nv, 5)), weights


def of_rows(pair, q, v, a, tau, features, weights=None):
    """The same sums from all rows."""
    rows = dyn_ros.joint_torque_regressor(pair.model, pair.data, q, v, a)
    rows = np.concatenate([rows, features], axis=-1)
    weights = np.ones(tau.shape) if weights is None else weights
    weighted = (weights[..., None] * rows).transpose(1, 2, 0)
    return (
        weighted @ rows.swapaxes(0, 1),
        (weighted @ tau.T[..., None])[..., 0],
        np.einsum("bk,bk->k", weights * tau, tau),
    )


def sums(pair, *given, **options):
    return dyn_ros.normal_equations(pair.model, pair.data, *given, **options)


def all_close(found, expected, rtol=1e-12):
    for mine, theirs in zip(found, expected, strict=True):
        peer.close(mine, theirs, rtol)


@EVERY
def test_sums_are_those_of_the_rows(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)  # not kept, since it takes much memory
    given = samples(pair, 19)
    all_close(sums(pair, *given), of_rows(pair, *given))
    all_close(sums(pair, *given[:5]), of_rows(pair, *given[:5]))


@SOME
@pytest.mark.parametrize("threads", [1, 2])
def test_every_state_of_a_batch_counts_once(robot, root_joint, threads):
    pair = peer.pair(robot, root_joint)
    for size in SIZES:
        given = samples(pair, size, seed=1)
        all_close(sums(pair, *given, threads=threads), of_rows(pair, *given))


@EVERY
def test_one_state_is_a_batch_of_one(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    given = samples(pair, 3)
    for n in range(3):
        expected = sums(pair, *[x[n : n + 1] for x in given])
        all_close(sums(pair, *[x[n] for x in given]), expected, 1e-13)


@SOME
def test_matrices_are_symmetric_and_zero_for_other_bodies(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    given = samples(pair, 19)
    WW = sums(pair, *given).WW
    assert np.array_equal(WW, WW.swapaxes(-1, -2))
    carried = dyn_ros.joint_torque_regressor(pair.model, pair.data, *given[:3]).any(axis=0)
    assert not WW[:, : carried.shape[1], : carried.shape[1]][
        ~(carried[:, :, None] & carried[:, None, :])
    ].any()


def test_rounding_errors_do_not_grow_with_the_number_of_states():
    """Of equal states, whose rounding errors have the same sign."""
    pair, count = peer.pair("double_pendulum"), 300_000
    given = [np.resize(x, (count, *x.shape[1:])) for x in samples(pair, 40)]
    expected = sums(pair, *[x[:40] for x in given])
    all_close([x / (count / 40) for x in sums(pair, *given)], expected, 1e-13)


def test_weights_of_zero_leave_states_out():
    pair = peer.pair("panda")
    given = samples(pair, 21)
    given[-1][...] = np.arange(21)[:, None] % 3 == 0
    expected = sums(pair, *[x[::3] for x in given[:-1]])
    all_close(sums(pair, *given), expected, 1e-13)
    given[-1][...] = 0.0
    assert not any(x.any() for x in sums(pair, *given))


def test_an_earlier_call_does_not_count():
    pair = peer.pair("panda")
    given = samples(pair, 21)
    sums(pair, *samples(pair, 100, seed=3), threads=2)
    first = sums(pair, *given)
    with pytest.raises(ValueError, match="nan"):
        sums(
            pair,
            *[
                np.where(np.arange(21).reshape(-1, *[1] * (x.ndim - 1)) == 20, np.nan, x)
                for x in given
            ],
        )
    second = sums(pair, *given)
    for mine, theirs in zip(first, second, strict=True):
        assert np.array_equal(mine, theirs)


def test_an_empty_batch_has_sums_of_zero():
    pair = peer.pair("panda")
    for found in sums(pair, *[x[:0] for x in samples(pair, 2)]):
        assert not found.any()


def test_parameters_are_found():
    """Of a robot with friction; the equations of all velocities, solved together."""
    pair = peer.new_pair("panda")
    model, rng = pair.model, np.random.default_rng(2)
    model.armature, model.damping[:], model.friction[:] = rng.uniform(0.1, 1.0, (3, model.nv))
    q, v, a, _ = pair.states(400)
    tau = dyn_ros.rnea(model, pair.data, q, v, a) + dyn_ros.joint_friction(model, v)
    features = np.stack([a, v, np.sign(v), np.ones(v.shape), np.zeros(v.shape)], axis=-1)
    WW, Wy, yy = sums(pair, q, v, a, tau, features)
    n = 10 * model.njoints
    matrix, right = np.zeros((n + 5 * model.nv,) * 2), np.zeros(n + 5 * model.nv)
    for k in range(model.nv):
        columns = np.r_[:n, n + 5 * k : n + 5 * k + 5]
        matrix[np.ix_(columns, columns)] += WW[k]
        right[columns] += Wy[k]
    x = np.linalg.lstsq(matrix, right, rcond=1e-12)[0]
    peer.close(matrix @ x, right, 1e-9)
    assert abs(x @ matrix @ x - 2.0 * x @ right + yy.sum()) < 1e-9 * yy.sum()
    peer.close(x[n:].reshape(-1, 5)[:, 1:3], np.stack([model.damping, model.friction], -1), 1e-6)


@pytest.mark.parametrize("argument", range(6))
@pytest.mark.parametrize("states", [1, 9])
def test_bad_arguments_are_rejected(argument, states):
    pair = peer.pair("panda")
    name = ("q", "v", "a", "tau", "features", "weights")[argument]
    given = list(samples(pair, states))
    given[argument][-1, 2] = np.nan
    for each in (given, [x[-1] for x in given]):
        with pytest.raises(ValueError, match=rf"{name}: .*nan .*'panda_joint3'"):
            sums(pair, *each)
    given[argument] = np.zeros((states, 3))
    with pytest.raises(ValueError, match=rf"{name}: expected shape"):
        sums(pair, *given)


def test_negative_weights_are_rejected():
    pair = peer.pair("panda")
    given = samples(pair, 9)
    given[-1][4, 2] = -0.5
    with pytest.raises(ValueError, match="weights: expected numbers of at least 0, got -0.5"):
        sums(pair, *given)


def test_without_the_compiler_the_results_are_the_same():
    pair = peer.pair("every_joint", "floating")
    names = "q", "v", "a", "tau", "features", "weights"
    given = samples(pair, 3)
    calls = [
        ("normal_equations", dict(zip(names, given, strict=True))),
        ("normal_equations", {name: x[1] for name, x in zip(names, given, strict=True)}),
    ]
    for (_, each), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        all_close(found, sums(pair, **each))
