# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters: pseudo-inertia, log-Cholesky coordinates, distances; those of a model."""

import copy
import re

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

BALL = 0.01 * np.eye(3)
PLATE = [
    1.0,
    0.1,
    0.2,
    0.3,
    *dyn_ros.Inertia(1.0, [0.1, 0.2, 0.3], np.diag([1.0, 2.0, 3.0])).dynamic_parameters()[4:],
]
POINT = dyn_ros.Inertia(2.0, [0.5, -3.0, 0.7], np.zeros((3, 3))).dynamic_parameters()


def bodies(count=20, seed=0, thin=3.0):
    """Physical parameters, some of them of thin, light or distant bodies."""
    rng = np.random.default_rng(seed)
    coordinates = rng.normal(size=(count, 10))
    coordinates[:, 1:4] -= rng.uniform(0.0, 1.0, (count, 1)) * thin
    return dyn_ros.from_log_cholesky(coordinates), coordinates


# --- functions


def test_pseudo_inertias_are_those_of_inertia_and_pinocchio():
    parameters, _ = bodies()
    P = dyn_ros.pseudo_inertia(parameters)
    for row, matrix in zip(parameters, P):
        peer.close(matrix, dyn_ros.Inertia.from_dynamic_parameters(row).pseudo_inertia(), 1e-12)
        peer.close(matrix, pinocchio.PseudoInertia.FromDynamicParameters(row).toMatrix(), 1e-14)
    peer.close(dyn_ros.from_pseudo_inertia(P), parameters, 1e-14)
    peer.close(dyn_ros.pseudo_inertia(parameters.reshape(4, 5, 10)).reshape(-1, 4, 4), P, 0.0)
    assert dyn_ros.pseudo_inertia(parameters[0]).shape == (4, 4)


def test_log_cholesky_coordinates_are_those_of_pinocchio():
    parameters, coordinates = bodies()
    jacobian = dyn_ros.d_from_log_cholesky(coordinates)
    assert jacobian.shape == (20, 10, 10)
    for row, x, J in zip(parameters, coordinates, jacobian):
        theirs = pinocchio.LogCholeskyParameters(x)
        peer.close(row, theirs.toDynamicParameters(), 1e-13)
        peer.close(J, theirs.calculateJacobian(), 1e-13)
        peer.close(dyn_ros.from_log_cholesky(x), row, 1e-15)
    peer.close(dyn_ros.log_cholesky(parameters), coordinates, 1e-9)
    peer.close(
        dyn_ros.log_cholesky(parameters.reshape(5, 4, 10)).reshape(-1, 10), coordinates, 1e-9
    )


def test_log_cholesky_derivative_is_a_difference():
    _, coordinates = bodies(3, 1)
    J, step = dyn_ros.d_from_log_cholesky(coordinates), 1e-5
    for k in range(10):
        change = step * np.eye(10)[k]
        central = (
            dyn_ros.from_log_cholesky(coordinates + change)
            - dyn_ros.from_log_cholesky(coordinates - change)
        ) / (2.0 * step)
        peer.close(J[..., k], central, 1e-9)


def test_factor_is_that_of_the_paper():
    x = np.array([0.3, -1.0, -0.5, 0.2, 0.1, -0.2, 0.3, 0.4, -0.5, 0.6])
    alpha, d1, d2, d3, s12, s23, s13, *t = x
    U = np.exp(alpha) * np.array(
        [
            [np.exp(d1), s12, s13, t[0]],
            [0.0, np.exp(d2), s23, t[1]],
            [0.0, 0.0, np.exp(d3), t[2]],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    parameters = dyn_ros.from_log_cholesky(x)
    peer.close(dyn_ros.pseudo_inertia(parameters), U @ U.T, 1e-15)
    peer.close(parameters[0], np.exp(2.0 * alpha), 1e-15)
    peer.close(parameters[1:4] / parameters[0], t, 1e-15)


def test_physical_bodies_and_those_on_the_boundary():
    good = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    heavy_moment = dyn_ros.Inertia(1.0, np.ones(3), np.diag([1.0, 1.0, 2.1])).dynamic_parameters()
    rows = np.array(
        [
            good,
            PLATE,
            POINT,
            np.zeros(10),
            -good,
            heavy_moment,
            [0.0, 1.0, *np.zeros(8)],
            [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0],
            [1e-200, *1e200 * np.ones(9)],
        ]
    )
    inside = [True] + [False] * 8
    assert dyn_ros.is_physical(rows).tolist() == inside
    assert dyn_ros.is_physical(rows, boundary=True).tolist() == [True] * 4 + [False] * 3 + [
        True,
        False,
    ]
    assert dyn_ros.is_physical(good) is True and dyn_ros.is_physical(-good) is False
    assert dyn_ros.is_physical(bodies()[0].reshape(2, 10, 10)).all()


def test_agrees_with_the_inconsistencies_of_inertias():
    rng = np.random.default_rng(3)
    for _ in range(200):
        moments = rng.uniform(0.1, 2.0, 3)
        Y = dyn_ros.Inertia(1.0, rng.normal(size=3), np.diag(moments))
        assert dyn_ros.is_physical(Y.dynamic_parameters()) == (not Y.inconsistencies())


def placed(X, parameters):
    return np.array(
        [
            X.act(dyn_ros.Inertia.from_dynamic_parameters(row)).dynamic_parameters()
            for row in parameters
        ]
    )


@pytest.mark.parametrize("distance", [dyn_ros.entropic_divergence, dyn_ros.riemannian_distance])
def test_distances_do_not_depend_on_the_frame(distance):
    (a, _), (b, _) = bodies(8, 4), bodies(8, 5)
    X = dyn_ros.SE3.exp(dyn_ros.Motion([0.3, -0.4, 0.2], [1.0, 0.5, -0.3]))
    expected = distance(a, b)
    assert expected.shape == (8,) and (expected > 0.0).all()
    peer.close(distance(placed(X, a), placed(X, b)), expected, 1e-8)
    peer.close(distance(7.0 * a, 7.0 * b), expected, 1e-8)
    peer.close(distance(a[0], b), [distance(a[0], row) for row in b], 1e-12)
    assert isinstance(distance(a[0], b[0]), float)
    assert np.abs(distance(a, a)).max() < 1e-9


def test_distances_are_those_of_the_papers():
    (a, _), (b, _) = bodies(8, 6, 0.0), bodies(8, 7, 0.0)
    P, P0 = dyn_ros.pseudo_inertia(a), dyn_ros.pseudo_inertia(b)
    ratios = np.linalg.eigvals(np.linalg.solve(P0, P)).real
    peer.close(
        dyn_ros.entropic_divergence(a, b), [r.sum() - np.log(r).sum() - 4.0 for r in ratios], 1e-7
    )
    peer.close(dyn_ros.riemannian_distance(a, b), [np.linalg.norm(np.log(r)) for r in ratios], 1e-7)
    peer.close(dyn_ros.riemannian_distance(a, b), dyn_ros.riemannian_distance(b, a), 1e-8)
    peer.close(dyn_ros.riemannian_distance(2.0 * a, a), np.full(8, 2.0 * np.log(2.0)), 1e-9)


@pytest.mark.parametrize(
    "call, why",
    [
        (
            lambda: dyn_ros.pseudo_inertia(np.zeros(9)),
            "parameters: expected shape (..., 10), got (9,)",
        ),
        (lambda: dyn_ros.pseudo_inertia(["a"] * 10), "of real numbers, got dtype <U1"),
        (
            lambda: dyn_ros.pseudo_inertia([[1.0], [1.0, 2.0]]),
            "expected shape (..., 10), got a list",
        ),
        (lambda: dyn_ros.is_physical([[np.nan] * 10]), "got nan in parameters[0, 0]"),
        (lambda: dyn_ros.from_pseudo_inertia(np.eye(3)), "expected shape (..., 4, 4), got (3, 3)"),
        (
            lambda: dyn_ros.from_pseudo_inertia(np.triu(np.ones((4, 4)))),
            "expected a symmetric matrix",
        ),
        (
            lambda: dyn_ros.log_cholesky([PLATE]),
            "parameters[0]: expected a positive definite pseudo-",
        ),
        (lambda: dyn_ros.log_cholesky(np.zeros(10)), "parameters: expected a positive definite"),
        (lambda: dyn_ros.from_log_cholesky(np.full(10, np.inf)), "got inf in coordinates[0]"),
        (lambda: dyn_ros.entropic_divergence(POINT, POINT), "expected a positive definite"),
    ],
)
def test_errors_name_the_value(call, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        call()


# --- of a model


def links(model):
    """Inertias of links, summed over each joint's body, as stored for the algorithms."""
    packed = model._floats[-10 * model.nframes :].reshape(-1, 10)
    return np.array(
        [
            sum(
                (packed[i] for i, frame in enumerate(model.tree.frames) if frame.parent == joint),
                np.zeros(10),
            )
            for joint in range(model.njoints)
        ]
    )


def check(model):
    """Whether all that depends on the parameters agrees with them."""
    p = model.inertial_parameters
    scale = np.abs(p).max()
    peer.close(links(model), p, 1e-13, scale)
    peer.close(model.total_mass, p[:, 0].sum(), 1e-13, np.abs(p[:, 0]).sum())
    for Y, row in zip(model.inertias, p):
        assert type(Y) is dyn_ros.Inertia
        peer.close(Y.dynamic_parameters(), row, 1e-9, max(np.abs(row).max(), 1e-300))


@peer.robots(("every_joint", "panda", "talos_reduced", "every_joint_on_balls"))
def test_are_those_of_pinocchio(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    model, pin = pair.model, pair.pin
    peer.close(
        model.inertial_parameters, [Y.toDynamicParameters() for Y in list(pin.inertias)[1:]], 1e-13
    )
    p = bodies(model.njoints, 8)[0]
    model.inertial_parameters = p
    np.testing.assert_array_equal(model.inertial_parameters, p)
    check(model)
    assert model.is_physical.all()
    for i, row in enumerate(p):
        pin.inertias[i + 1] = pinocchio.Inertia.FromDynamicParameters(row)
    pair.pin_data = pin.createData()
    q, v, a, _ = pair.state(2)
    peer.close(dyn_ros.rnea(model, pair.data, q, v, a), pair.rnea(q, v, a))
    peer.close(dyn_ros.crba(model, pair.data, q), pair.crba(q))
    com = pinocchio.centerOfMass(pin, pair.pin_data, pair.to_pin_q(q))
    peer.close(dyn_ros.center_of_mass(model, pair.data, q)[0], com)


def test_are_read_only_and_a_copy():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    p = model.inertial_parameters
    assert p.shape == (model.njoints, 10)
    with pytest.raises(ValueError, match="read-only"):
        p[0, 0] = 3.0
    was, floats = p.copy(), model._floats.copy()
    model.inertial_parameters = p  # changes nothing at all
    np.testing.assert_array_equal(model._floats, floats)
    assert type(model.tree.joints[0].inertia) is dyn_ros.Inertia
    model.inertial_parameters = 2.0 * p
    np.testing.assert_array_equal(p, was)
    model.inertial_parameters = was
    np.testing.assert_array_equal(
        model._floats[: -10 * model.nframes], floats[: -10 * model.nframes]
    )


def test_fixed_links_keep_theirs():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    joint = model.joint_index("panda_joint7")
    on_it = [
        i
        for i, frame in enumerate(model.tree.frames)
        if frame.kind == "body" and frame.parent == joint
    ]
    assert len(on_it) > 2
    before = [model.tree.frames[i].inertia for i in on_it]
    p = model.inertial_parameters.copy()
    p[joint] *= 1.5
    model.inertial_parameters = p
    after = [model.tree.frames[i].inertia for i in on_it]
    assert all(a is b for a, b in zip(after[1:], before[1:]))
    assert after[0].mass > before[0].mass
    check(model)


def test_may_be_of_no_body():
    """Parameters of an unconstrained estimate: negative masses, first moments without mass."""
    pair = peer.new_pair("panda")
    model = pair.model
    p = np.random.default_rng(1).normal(size=(model.njoints, 10))
    p[1, 0], p[2] = 0.0, 0.0
    q, v, a, _ = pair.state(3)

    def torque(parameters):
        model.inertial_parameters = parameters
        np.testing.assert_array_equal(model.inertial_parameters, parameters)
        return dyn_ros.rnea(model, pair.data, q, v, a).copy()

    rest = p.copy()
    rest[1, 1:] = 0.0
    first = np.zeros_like(p)
    first[1] = p[1]
    peer.close(torque(p), torque(rest) + torque(first), 1e-12)
    model.inertial_parameters = p
    assert not model.is_physical[1:3].any()
    peer.close(links(model), p, 1e-14)
    with pytest.raises(ValueError, match="expected a zero first moment for mass 0"):
        _ = model.inertias
    folded = model.reduced({"panda_joint4": 0.3})
    peer.close(folded.inertial_parameters[:2], p[:2], 0.0)
    q_folded = np.delete(q, 3)
    q[3] = 0.3
    peer.close(
        dyn_ros.generalized_gravity(folded, dyn_ros.Data(folded), q_folded),
        np.delete(dyn_ros.generalized_gravity(model, pair.data, q), 3),
        1e-12,
    )


def test_payloads_are_part_of_them_and_can_be_removed():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    model.set_payload("tool", "panda_hand", 1.5, [0.0, 0.1, 0.2], BALL)
    model.set_payload("belt", "panda_link3", 2.5, [0.0, 0.1, 0.0], BALL)
    check(model)
    p = model.inertial_parameters * 1.25
    model.inertial_parameters = p
    peer.close(model.inertial_parameters, p, 1e-15)
    check(model)
    assert model.payloads == ("tool", "belt")
    floats = model._floats.copy()
    model.set_payload("more", "panda_hand", 7.0, [0.3, 0.1, 0.2], 3.0 * BALL)
    model.clear_payload("more")
    np.testing.assert_array_equal(model._floats, floats)
    model.clear_payload()
    check(model)
    bare = model._floats.copy()
    model.set_payload("tool", "panda_hand", 1.5, [0.0, 0.1, 0.2], BALL)
    model.set_payload("belt", "panda_link3", 2.5, [0.0, 0.1, 0.0], BALL)
    np.testing.assert_array_equal(model._floats, floats)
    model.clear_payload()
    np.testing.assert_array_equal(model._floats, bare)


def assigned(robot, root_joint=None, seed=9):
    model = dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint)
    model.inertial_parameters = bodies(model.njoints, seed)[0]
    return model


def test_a_copy_has_its_own():
    model = assigned("panda")
    p = model.inertial_parameters
    other = copy.copy(model)
    other.inertial_parameters = 2.0 * p
    np.testing.assert_array_equal(model.inertial_parameters, p)
    np.testing.assert_array_equal(other.inertial_parameters, 2.0 * p)
    check(model)
    check(other)


@pytest.mark.parametrize("root_joint", [None, "floating"])
def test_robots_with_locked_joints_have_them(root_joint):
    model = assigned("every_joint", root_joint)
    name = next(
        joint.name
        for joint in model.tree.joints
        if joint.kind == "revolute" and joint.mimic is None and joint.parent >= 0
    )
    folded = model.reduced({name: 0.4})
    check(folded)
    q, v = model.neutral(), np.random.default_rng(1).normal(size=model.nv)
    i = model.joint_index(name)
    q[model.idx_q[i]] = 0.4
    v[model.idx_v[i]] = 0.0
    keep_q = [k for k in range(model.nq) if k != model.idx_q[i]]
    keep = [k for k in range(model.nv) if k != model.idx_v[i]]
    peer.close(
        dyn_ros.nonlinear_effects(folded, dyn_ros.Data(folded), q[keep_q], v[keep]),
        dyn_ros.nonlinear_effects(model, dyn_ros.Data(model), q, v)[keep],
        1e-12,
    )


def test_chains_have_those_of_their_links():
    model = assigned("panda")
    forward = model.chain("panda_link0", "panda_link7")
    for name in forward.joint_names[:-1]:
        np.testing.assert_array_equal(
            forward.inertial_parameters[forward.joint_index(name)],
            model.inertial_parameters[model.joint_index(name)],
        )
    check(forward)
    backward = model.chain("panda_link7", "panda_link0")
    check(backward)
    mass = dict(zip(model.joint_names, model.inertial_parameters[:, 0]))
    peer.close(backward.inertial_parameters[0, 0], mass["panda_joint6"], 1e-12)


@pytest.mark.parametrize("joint", ["fixed", "floating"])
def test_appended_robots_keep_them(joint):
    arm, hand = assigned("ur5"), assigned("allegro_hand", seed=10)
    both = arm.append(hand, "tool0", joint=joint, prefix="hand/")
    check(both)
    p = both.inertial_parameters
    for i, name in enumerate(hand.joint_names):
        np.testing.assert_array_equal(
            p[both.joint_index("hand/" + name)], hand.inertial_parameters[i]
        )
    tip = both.inertial_parameters[both.joint_index("wrist_3_joint"), 0]
    on_it = hand.base_inertia.mass if joint == "fixed" else 0.0
    peer.close(tip, arm.inertial_parameters[-1, 0] + on_it, 1e-14)


@pytest.mark.parametrize(
    "value, why",
    [
        (
            np.zeros((7, 10)),
            "inertial_parameters: expected 9 x 10 finite numbers, got shape (7, 10)",
        ),
        (np.full((9, 10), np.nan), "inertial_parameters: expected 9 x 10 finite numbers"),
        (
            np.full((9, 10), 2e30),
            "at most 1e+30, got 2e+30 in inertial_parameters[0, 0] (joint 'panda",
        ),
    ],
)
def test_what_is_no_number_is_refused_and_changes_nothing(value, why):
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"), mimic="ignore")
    was, tree = model._floats.copy(), model.tree
    with pytest.raises(ValueError, match=re.escape(why)):
        model.inertial_parameters = value
    np.testing.assert_array_equal(model._floats, was)
    assert model.tree is tree


def test_a_plate_and_a_massless_link_are_not_positive_definite():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    p = model.inertial_parameters.copy()
    p[2], p[3] = PLATE, 0.0
    model.inertial_parameters = p
    assert not model.is_physical[[2, 3]].any() and model.is_physical.dtype == bool
    assert dyn_ros.is_physical(p, boundary=True)[[2, 3]].all()


@pytest.mark.parametrize("distance", [dyn_ros.entropic_divergence, dyn_ros.riemannian_distance])
@pytest.mark.parametrize(
    "wrong", ["abc", None, [[1, 2], [3]], np.zeros(3), np.full(10, np.nan), np.zeros(10)], ids=repr
)
def test_the_body_that_is_wrong_is_named(distance, wrong):
    body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    with pytest.raises(ValueError, match="^reference: expected"):
        distance(body, wrong)
    with pytest.raises(ValueError, match="^parameters: expected"):
        distance(wrong, body)


@peer.robots(("every_joint", "panda", "talos_reduced"))
def test_joint_placements_are_those_at_zero_position(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    dyn_ros.forward_kinematics(pair.model, pair.data, pair.model.neutral())
    fixed = [not joint.mimic for joint in pair.model.tree.joints]
    assert np.allclose(pair.data.liMi[fixed], pair.model.joint_placements[fixed], atol=1e-15)
