# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The axioms of SE(3), of its Lie algebra and of their duals, for random values."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from dyn_ros.engine.spatial import (
    SE3,
    ArticulatedBodyInertia,
    Force,
    Inertia,
    Motion,
    TransformDerivative,
    TransformSecondDerivative,
)
from peer import close

axiom = settings(max_examples=100, deadline=None, database=None)
ANGLES = [
    0.0,
    1e-300,
    1e-160,
    1e-12,
    1e-6,
    1e-2,
    0.999,
    1.001,
    np.pi / 2,
    np.pi - 1e-6,
    np.pi - 1e-9,
    np.pi - 1e-12,
]
to_pi = st.one_of(st.sampled_from(ANGLES), st.floats(0.0, np.pi - 1e-12))


def vectors(size, reach=10.0):
    return st.tuples(*[st.floats(-reach, reach)] * size).map(np.array)


@st.composite
def twists(draw, angles=to_pi):
    """Of every angle up to pi, more often of those next to 0 and pi."""
    axis = draw(vectors(3, 1.0).filter(lambda a: np.linalg.norm(a) > 1e-3))
    return Motion(draw(vectors(3)), draw(angles) * axis / np.linalg.norm(axis))


placements = twists().map(SE3.exp)
motions = vectors(6).map(Motion)
forces = vectors(6).map(Force)
articulated = vectors(36, 3.0).map(
    lambda x: ArticulatedBodyInertia(x.reshape(6, 6) + x.reshape(6, 6).T)
)
rates = vectors(12).map(lambda x: TransformDerivative(x[:9].reshape(3, 3), x[9:]))
accelerations = vectors(12).map(lambda x: TransformSecondDerivative(x[:9].reshape(3, 3), x[9:]))


@st.composite
def inertias(draw):
    """Of a cloud of point masses."""
    mass = draw(st.floats(0.1, 20.0))
    A = draw(vectors(9, 1.0)).reshape(3, 3)
    second = A @ A.T + 1e-3 * np.eye(3)
    return Inertia(mass, draw(vectors(3, 2.0)), np.trace(second) * np.eye(3) - second)


def same(a, b, scale=1.0):
    """Nearly the same numbers; ``scale`` says how large those were that they come from."""
    assert type(a) is type(b)
    a, b = np.asarray(a), np.asarray(b)
    close(a, b, rtol=1e-12, scale=max(scale, np.abs(b).max()))


# --- the group


@axiom
@given(placements, placements)
def test_closure(X, Y):
    R = (X * Y).rotation
    close(R.T @ R, np.eye(3), 1e-14)
    assert abs(np.linalg.det(R) - 1.0) < 1e-14
    same(X * Y, SE3.from_homogeneous(np.asarray(X) @ np.asarray(Y)))


@axiom
@given(placements)
def test_identity_and_inverse(X):
    one = SE3.identity()
    assert one * X == X == X * one
    same(X * X.inverse(), one, np.abs(X.translation).max())
    same(X.inverse() * X, one, np.abs(X.translation).max())
    same(X.inverse().inverse(), X)


@axiom
@given(placements, placements, placements)
def test_associativity(X, Y, Z):
    same((X * Y) * Z, X * (Y * Z), 30.0)


# --- its actions


@axiom
@given(
    placements,
    placements,
    motions,
    forces,
    inertias(),
    articulated,
    rates,
    accelerations,
    vectors(3),
)
def test_a_product_acts_as_one_after_the_other(X, Y, m, f, body, Ia, dZ, ddZ, point):
    for value, scale in ((m, 1e3), (f, 1e3), (body, 1e4), (Ia, 1e5), (dZ, 1e3), (ddZ, 1e3)):
        same((X * Y) * value, X * (Y * value), scale)
        same(X.act_inverse(X.act(value)), value, scale)
        assert SE3.identity() * value == value
    close((X * Y) * point, X * (Y * point), 1e-12, scale=100.0)
    close(X.act_inverse(X.act(point)), point, 1e-12, scale=100.0)


@axiom
@given(placements, placements)
def test_adjoints_are_homomorphisms_and_dual(X, Y):
    scale = np.abs(X.as_adjoint()).max() * np.abs(Y.as_adjoint()).max()
    for adjoint in (SE3.as_adjoint, SE3.as_adjoint_wrench):
        close(adjoint(X * Y), adjoint(X) @ adjoint(Y), 1e-12, scale)
        close(adjoint(X) @ adjoint(X.inverse()), np.eye(6), 1e-12, scale**2)
    close(X.as_adjoint_wrench(), X.inverse().as_adjoint().T, 1e-12, scale)


@axiom
@given(placements, motions, forces, articulated, vectors(15))
def test_actions_are_the_matrices(X, m, f, Ia, points):
    A, W = X.as_adjoint(), X.as_adjoint_wrench()
    close(X * m, A @ np.asarray(m), 1e-12, 1e3)
    close(X * f, W @ np.asarray(f), 1e-12, 1e3)
    close(X * Ia, W @ np.asarray(Ia) @ W.T, 1e-12, 1e5)
    points = points.reshape(5, 3)
    expected = (np.asarray(X) @ np.column_stack([points, np.ones(5)]).T).T[:, :3]
    close(X * points, expected, 1e-12, 100.0)
    close(X * points.reshape(1, 5, 3), expected[None], 1e-12, 100.0)


@axiom
@given(placements, motions, forces)
def test_power_is_the_same_in_every_frame(X, m, f):
    assert abs((X * m).dot(X * f) - m.dot(f)) < 1e-9
    assert m.dot(f) == f.dot(m)


# --- the algebra


@axiom
@given(motions, motions, motions, forces)
def test_cross_products(a, b, c, f):
    same(a.cross(b), -b.cross(a))
    same(a.cross(a), Motion.zero(), 1e3)
    jacobi = a.cross(b.cross(c)) + b.cross(c.cross(a)) + c.cross(a.cross(b))
    same(jacobi, Motion.zero(), 1e4)
    assert abs(a.cross(b).dot(f) + b.dot(a.cross(f))) < 1e-9
    same(a.cross(b).cross(f), a.cross(b.cross(f)) - b.cross(a.cross(f)), 1e4)
    same(Motion(a.as_cross() @ np.asarray(b)), a.cross(b), 1e3)
    same(Force(a.as_cross_force() @ np.asarray(f)), a.cross(f), 1e3)


@axiom
@given(placements, motions, motions, forces)
def test_cross_products_are_brought_along(X, a, b, f):
    same(X * a.cross(b), (X * a).cross(X * b), 1e5)
    same(X * a.cross(f), (X * a).cross(X * f), 1e5)


@axiom
@given(motions, motions, st.floats(-10.0, 10.0).filter(lambda s: abs(s) > 1e-3))
def test_a_vector_space(a, b, s):
    assert a + b == b + a
    assert a - b == a + -b
    assert a + Motion.zero() == a and a - a == Motion.zero()
    same(s * (a + b), s * a + b * s, 100.0)
    same(s * a / s, a)


# --- exp and log


@axiom
@given(twists())
def test_exp_and_log_undo_each_other(m):
    X = SE3.exp(m)
    same(X.log(), m)
    same(SE3.exp(X.log()), X)


@axiom
@given(placements, twists())
def test_exp_is_brought_along(X, m):
    same(SE3.exp(X * m), X * SE3.exp(m) * X.inverse(), 1e3)


@axiom
@given(twists(st.sampled_from([0.0, 1e-9, 0.3, 2.0, np.pi])))
def test_exp_is_the_matrix_exponential_and_adjoint(m):
    matrix = np.zeros((4, 4))
    matrix[:3, :3], matrix[:3, 3] = m.as_cross()[:3, :3], m.linear
    close(SE3.exp(m), expm(matrix), 1e-12)
    close(SE3.exp(m).as_adjoint(), expm(m.as_cross()), 1e-12)
    close(SE3.exp(m).as_adjoint_wrench(), expm(m.as_cross_force()), 1e-12)


@axiom
@given(twists(st.floats(0.0, np.pi - 1e-3)))
def test_jacobians(m):
    J = SE3.jexp(m)
    close(SE3.exp(m).jlog() @ J, np.eye(6), 1e-11, np.abs(J).max() ** 2)
    close(J @ np.asarray(m), m, 1e-12, scale=100.0)
    close(SE3.jexp(-m), SE3.exp(m).as_adjoint() @ J, 1e-12, scale=1e3)


@axiom
@given(placements, placements, st.floats(-1.0, 2.0))
def test_interpolation(X, Y, u):
    same(X.interpolate(Y, 0.0), X, 100.0)
    same(X.interpolate(Y, 1.0), Y, 100.0)
    assert X.interpolate(X, u).isclose(X, atol=1e-9)
    half = X.interpolate(Y, 0.5)
    same(half.inverse() * Y, X.inverse() * half, 1e3)


# --- inertias


@axiom
@given(placements, inertias(), inertias(), motions)
def test_momentum_is_brought_along_and_added(X, a, b, v):
    same((X * a) * (X * v), X * (a * v), 1e5)
    same((a + b) * v, a * v + b * v, 1e3)
    same(a + b, b + a, 1e3)
    same(X * (a + b), X * a + X * b, 1e5)
    same(ArticulatedBodyInertia(X * a), X * ArticulatedBodyInertia(a), 1e5)
    same(ArticulatedBodyInertia(a) * v, a * v, 1e3)
    assert not (X * a + b).inconsistencies()


@axiom
@given(inertias(), inertias(), inertias())
def test_bodies_are_added_in_any_order(a, b, c):
    for one, other in zip(((a + b) + c)._tuple, (a + (b + c))._tuple):
        close(one, other, 1e-12, scale=100.0)
    assert a + Inertia.zero() == a


@axiom
@given(inertias(), motions)
def test_variation_is_the_rate_of_change(body, v):
    rate = body.variation(v)
    close(rate, rate.T, 1e-12, scale=1e3)
    close(rate @ np.asarray(v), v.cross(body * v), 1e-12, scale=1e5)
    moved = [np.asarray(SE3.exp(step * v) * body) for step in (1e-5, -1e-5)]
    close((moved[0] - moved[1]) / 2e-5, rate, 1e-6, scale=1e5)
