# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Exponential and logarithm: inverse of each other at every angle, and SciPy's rotations."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dyn_ros.engine.kernel import lie

RNG = np.random.default_rng(2)
ANGLES = [
    0.0,
    1e-300,
    1e-12,
    1e-6,
    0.0099,
    0.0101,
    0.5,
    0.999,
    1.001,
    2.0,
    3.0,
    np.pi - 1e-7,
    np.pi - 1e-12,
]


def twists(angle, count=20):
    x = RNG.normal(size=(count, 6))
    x[:, 3:] *= angle / np.linalg.norm(x[:, 3:], axis=1, keepdims=True)
    return x


@pytest.mark.parametrize("angle", ANGLES)
def test_exp_and_log_undo_each_other(angle):
    x = twists(angle)
    p, q = lie.se3_exp(x)
    assert np.abs(np.linalg.norm(q, axis=1) - 1.0).max() < 1e-15
    assert np.abs(lie.se3_log(p, q) - x).max() < 1e-12
    assert np.abs(lie.se3_log(p, -q) - x).max() < 1e-12


@pytest.mark.parametrize("angle", ANGLES)
def test_rotations_are_scipys(angle):
    w = twists(angle)[:, 3:]
    q = lie.quaternion_exp(w)
    expected = Rotation.from_rotvec(w)
    assert np.abs(Rotation.from_quat(q).as_matrix() - expected.as_matrix()).max() < 3e-15
    a = RNG.normal(size=w.shape)
    assert np.abs(lie.rotate(q, a) - expected.apply(a)).max() < 1e-14
    assert np.abs(lie.rotate(lie.conjugate(q), lie.rotate(q, a)) - a).max() < 1e-14
    product = (Rotation.from_quat(q) * Rotation.from_quat(q[::-1])).as_matrix()
    got = Rotation.from_quat(lie.quaternion_product(q, q[::-1])).as_matrix()
    assert np.abs(got - product).max() < 3e-15


@pytest.mark.parametrize("angle", ANGLES)
def test_a_rotation_matrix_gives_its_quaternion_and_vector(angle):
    w = twists(angle)[:, 3:]
    q = lie.matrix_quaternion(Rotation.from_rotvec(w).as_matrix())
    assert np.abs(q - lie.quaternion_exp(w)).max() < 1e-15
    assert np.abs(lie.quaternion_log(q) - w).max() < 1e-15 * max(angle, 1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("w", [0.0, -0.0, 5e-324, 1e-310, 1e-200, -1e-200, 1e-17])
def test_half_a_turn_and_what_is_next_to_it(w):
    axis = np.array([0.6, 0.0, -0.8])
    q = np.append(axis, w)
    expected = np.copysign(np.pi - 2.0 * abs(w), w if w else 1.0) * axis
    assert np.abs(lie.quaternion_log(q) - expected).max() < 1e-15
    both = lie.quaternion_log(np.array([q, [0.0, 0.0, 0.0, 1.0]]))
    assert np.abs(both - [expected, np.zeros(3)]).max() < 1e-15
    half = lie.matrix_quaternion(2.0 * np.outer(axis, axis) - np.eye(3))
    assert min(np.abs(half - [*axis, 0.0]).max(), np.abs(half + [*axis, 0.0]).max()) < 1e-15


@pytest.mark.parametrize("angle", [10.0, 1e3, 1e6])
def test_many_turns_keep_a_quaternion_unit(angle):
    q = lie.quaternion_exp(twists(angle, 200)[:, 3:])
    assert np.abs(np.linalg.norm(q, axis=1) - 1.0).max() < 1e-15


def ad(x):
    """The 6 x 6 matrix of x x, linear part first."""

    def skew(a):
        return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])

    return np.block([[skew(x[3:]), skew(x[:3])], [np.zeros((3, 3)), skew(x[3:])]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("angle", [*ANGLES, np.pi])
def test_jacobians_of_exp_and_log(angle):
    x = twists(angle)
    J, inverse = lie.se3_jexp(x), lie.se3_jlog(x)
    for k in range(len(x)):
        term = total = np.eye(6)
        for n in range(2, 60):
            term = -term @ ad(x[k]) / n
            total = total + term
        assert np.abs(J[k] - total).max() < 1e-13
        assert np.abs(inverse[k] @ J[k] - np.eye(6)).max() < 1e-14
        assert np.array_equal(lie.se3_jexp(x[k]), J[k])


def test_jacobians_are_derivatives():
    x, step = twists(2.0, 1)[0], 1e-5
    p, q = lie.se3_exp(x)
    J = np.empty((6, 6))
    for k, dx in enumerate(step * np.eye(6)):
        moved = [lie.se3_exp(x + sign * dx) for sign in (1.0, -1.0)]
        plus, minus = (
            lie.se3_log(
                lie.rotate(lie.conjugate(q), pk - p), lie.quaternion_product(lie.conjugate(q), qk)
            )
            for pk, qk in moved
        )
        J[:, k] = (plus - minus) / (2.0 * step)
    assert np.abs(J - lie.se3_jexp(x)).max() < 1e-9


def test_exp_is_the_matrix_exponential():
    from scipy.linalg import expm

    for x in twists(1.3, 5):
        w = x[3:]
        matrix = np.zeros((4, 4))
        matrix[:3, :3] = [[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]]
        matrix[:3, 3] = x[:3]
        p, q = lie.se3_exp(x)
        expected = expm(matrix)
        assert np.abs(p - expected[:3, 3]).max() < 1e-14
        assert np.abs(Rotation.from_quat(q).as_matrix() - expected[:3, :3]).max() < 1e-14
