# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The factors of the inertia matrix and products with them, against Pinocchio and identities."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from peer import as_tuple

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "tiago", "solo12", "talos_reduced"))
PRODUCTS = {  # name -> the same with dense matrices
    "cholesky_solve": lambda M, U, b: np.linalg.solve(M, b),
    "cholesky_M_times": lambda M, U, b: M @ b,
    "cholesky_U_times": lambda M, U, b: U @ b,
    "cholesky_Ut_times": lambda M, U, b: U.T @ b,
    "cholesky_U_solve": lambda M, U, b: np.linalg.solve(U, b),
    "cholesky_Ut_solve": lambda M, U, b: np.linalg.solve(U.T, b),
}
products = pytest.mark.parametrize("name", PRODUCTS)
FUNCTIONS = {"cholesky": ("U", "D", "Dinv"), **dict.fromkeys(PRODUCTS, ())}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def copies(results):
    return [np.array(x) for x in results]


def with_armature(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    return pair


def results(name, model, data, q, b, **options):
    inputs = (q,) if name == "cholesky" else (q, b)
    return as_tuple(getattr(dyn_ros, name)(model, data, *inputs, **options))


# --- factors


@EVERY
@pytest.mark.parametrize("armature", [False, True], ids=["bare", "armature"])
def test_the_product_of_the_factors_is_the_inertia_matrix(robot, root_joint, armature):
    pair = (with_armature if armature else peer.pair)(robot, root_joint)
    for seed in range(3):
        q = pair.state(seed)[0]
        U, D, Dinv = dyn_ros.cholesky(pair.model, pair.data, q)
        peer.close(U @ np.diag(D) @ U.T, pair.crba(q), 1e-12)
        peer.close(Dinv, 1.0 / D, 1e-15)
        assert np.array_equal(U, np.triu(U)) and (np.diag(U) == 1.0).all() and (D > 0.0).all()


@EVERY
def test_factors_are_pinocchios(robot, root_joint):
    pair = with_armature(robot, root_joint)
    if pair.has_mimics:  # as free joints
        pair = peer.new_pair(robot, root_joint, mimic="ignore")
    q = pair.state(4)[0]
    pinocchio.crba(pair.pin, pair.pin_data, pair.to_pin_q(q))
    pinocchio.cholesky.decompose(pair.pin, pair.pin_data)
    U, D, Dinv = dyn_ros.cholesky(pair.model, pair.data, q)
    peer.close(U, pair.pin_data.U, 1e-10)
    peer.close(D, pair.pin_data.D, 1e-12)
    peer.close(Dinv, 1.0 / pair.pin_data.D, 1e-10)


@EVERY
def test_factors_have_the_zeros_of_the_tree(robot, root_joint):
    pair = peer.new_pair(robot, root_joint, mimic="ignore")
    U = dyn_ros.cholesky(pair.model, pair.data, pair.state(5)[0])[0]
    starts, sizes = pair.pin.idx_vs, pair.pin.nvs
    for j in range(1, pair.pin.njoints):
        columns = U[:, starts[j] : starts[j] + sizes[j]].copy()
        for i in pair.pin.supports[j]:
            columns[starts[i] : starts[i] + sizes[i]] = 0.0
        assert not columns.any()


@SOME
def test_the_diagonal_is_what_minverse_inverts(robot, root_joint):
    """M^-1 = U'^-1 D^-1 U^-1."""
    pair = peer.pair(robot, root_joint)
    q = pair.state(7)[0]
    U, _, Dinv = copies(dyn_ros.cholesky(pair.model, pair.data, q))
    V = np.linalg.inv(U)
    peer.close(V.T @ np.diag(Dinv) @ V, dyn_ros.minverse(pair.model, pair.data, q), 1e-11)


# --- products


@EVERY
@products
def test_products_are_those_of_the_matrices(robot, root_joint, name):
    pair = with_armature(robot, root_joint)
    for seed in range(2):
        q, b, _, _ = pair.state(seed)
        M, U = pair.crba(q), dyn_ros.cholesky(pair.model, pair.data, q)[0]
        found = getattr(dyn_ros, name)(pair.model, pair.data, q, b)
        peer.close(found, PRODUCTS[name](M, U, b), 1e-11)


@SOME
def test_what_a_product_does_another_one_undoes(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, b, _, _ = pair.state(8)
    for one, other in (
        ("cholesky_M_times", "cholesky_solve"),
        ("cholesky_U_times", "cholesky_U_solve"),
        ("cholesky_Ut_times", "cholesky_Ut_solve"),
    ):
        x = getattr(dyn_ros, one)(pair.model, pair.data, q, b)
        peer.close(getattr(dyn_ros, other)(pair.model, pair.data, q, x), b, 1e-10)


@EVERY
def test_solve_is_forward_dynamics_without_bias(robot, root_joint):
    pair = with_armature(robot, root_joint)
    q, v, _, tau = pair.state(9)
    rest = tau - dyn_ros.nonlinear_effects(pair.model, pair.data, q, v)
    ddq = dyn_ros.cholesky_solve(pair.model, pair.data, q, rest)
    peer.close(ddq, dyn_ros.aba(pair.model, pair.data, q, v, tau), 1e-10)


@EVERY
def test_solve_is_pinocchios(robot, root_joint):
    pair = peer.new_pair(robot, root_joint, mimic="ignore")
    q, b, _, _ = pair.state(10)
    pinocchio.crba(pair.pin, pair.pin_data, pair.to_pin_q(q))
    pinocchio.cholesky.decompose(pair.pin, pair.pin_data)
    expected = pinocchio.cholesky.solve(pair.pin, pair.pin_data, b)
    peer.close(dyn_ros.cholesky_solve(pair.model, pair.data, q, b), expected, 1e-10)


# --- calls


@functions
def test_results_are_datas_own(name):
    pair = peer.pair("every_joint", "floating")
    q, b, _, _ = pair.state(11)
    found = results(name, pair.model, pair.data, q, b)
    for x, field in zip(found, FUNCTIONS[name]):
        assert x is getattr(pair.data, field)
    again = results(name, pair.model, pair.data, q, b)
    assert all(x is y for x, y in zip(found, again, strict=True))


def test_products_do_not_overwrite_each_other():
    pair = peer.pair("talos_reduced", "floating")
    q, b, _, _ = pair.state(12)
    found = {name: getattr(dyn_ros, name)(pair.model, pair.data, q, b) for name in PRODUCTS}
    for name, x in found.items():
        assert np.array_equal(x, getattr(dyn_ros, name)(pair.model, dyn_ros.Data(pair.model), q, b))


@functions
def test_results_that_were_written_over_are_right_again(name):
    pair = peer.pair("tiago", "floating")
    q, b, _, _ = pair.state(13)
    fresh = copies(results(name, pair.model, pair.data, q, b))
    for x in results(name, pair.model, pair.data, q, b):
        x[...] = 7.0
    for x, y in zip(results(name, pair.model, pair.data, q, b), fresh, strict=True):
        assert np.array_equal(x, y)


@functions
@pytest.mark.parametrize("threads", [1, 2])
@peer.robots(("every_joint", "panda", "talos_reduced"))
def test_a_batch_is_its_states(robot, root_joint, name, threads):
    pair = peer.pair(robot, root_joint)
    for count in (1, 19):
        q, b, _, _ = pair.states(count)
        found = results(name, pair.model, pair.data, q, b, threads=threads)
        for n in range(count):
            for x, y in zip(found, results(name, pair.model, pair.data, q[n], b[n]), strict=True):
                peer.close(x[n], y, 1e-11)


@products
def test_many_vectors_in_one_configuration(name):
    pair = peer.pair("solo12", "floating")
    q, B = pair.state(14)[0], np.eye(pair.model.nv)
    M, U = pair.crba(q), dyn_ros.cholesky(pair.model, pair.data, q)[0]
    found = getattr(dyn_ros, name)(pair.model, pair.data, q, B)
    peer.close(found.T, PRODUCTS[name](M, U, B), 1e-11)


@products
def test_a_wrong_vector(name):
    pair = peer.pair("panda")
    q, b, _, _ = pair.state(15)
    with pytest.raises(ValueError, match=r"b: expected shape \(8,\)"):
        getattr(dyn_ros, name)(pair.model, pair.data, q, b[1:])
    b[2] = np.inf
    with pytest.raises(ValueError, match="b: .*inf"):
        getattr(dyn_ros, name)(pair.model, pair.data, q, b)


@functions
@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_a_singular_inertia_matrix_names_the_joint(name, count):
    model = dyn_ros.Model.from_urdf("""<robot name="massless"><link name="base"/>
      <link name="hand"/><joint name="loose" type="revolute"><parent link="base"/>
        <child link="hand"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
      </robot>""")
    zero = np.zeros((1,) if count is None else (count, 1))
    data = dyn_ros.Data(model)
    if name == "cholesky_M_times":  # which factors nothing
        assert not dyn_ros.cholesky_M_times(model, data, zero, zero + 1.0).any()
        return
    with pytest.raises(np.linalg.LinAlgError, match="cholesky.*loose"):
        results(name, model, data, zero, zero)


def test_a_robot_that_does_not_move():
    model = dyn_ros.Model.from_urdf('<robot name="stone"><link name="base"/></robot>')
    for name in FUNCTIONS:
        for x in results(name, model, dyn_ros.Data(model), [], []):
            assert x.size == 0


def test_without_compiled_code():
    pair = peer.pair("every_joint", "floating")
    q, b, _, _ = pair.state(16)
    calls = [("cholesky", {"q": q}), ("cholesky_solve", {"q": q, "b": b})]
    for (name, given), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        expected = as_tuple(getattr(dyn_ros, name)(pair.model, pair.data, **given))
        for x, y in zip(as_tuple(found), expected, strict=True):
            peer.close(x, y, 1e-12)
