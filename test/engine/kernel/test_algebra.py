# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The algebra on tuples against plain 3 x 3 and 6 x 6 matrices."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dyn_ros.engine.kernel import algebra as al

RNG = np.random.default_rng(11)
R = Rotation.random(random_state=3).as_matrix()
p = RNG.normal(size=3)


def motion(x):
    return al.Motion(tuple(x[:3]), tuple(x[3:]))


def force(x):
    return al.Force(tuple(x[:3]), tuple(x[3:]))


def six(m):
    return np.array([*m.linear, *m.angular])


def skew(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def symmetric(S):
    return np.array([[S.xx, S.xy, S.xz], [S.xy, S.yy, S.yz], [S.xz, S.yz, S.zz]])


def packed(S):
    return al.Symmetric(S[0, 0], S[0, 1], S[1, 1], S[0, 2], S[1, 2], S[2, 2])


def motion_matrix(v):
    """The 6 x 6 matrix of v x."""
    return np.block([[skew(v[3:]), skew(v[:3])], [np.zeros((3, 3)), skew(v[3:])]])


def child_from_parent(R, p):
    """Motions of the parent frame seen in the child frame placed at R, p."""
    return np.block([[R.T, -R.T @ skew(p)], [np.zeros((3, 3)), R.T]])


def random_inertia():
    """(kernel tuple, 6 x 6 matrix) of a rigid body about the frame's origin."""
    m, c, B = 2.5, RNG.normal(size=3), RNG.normal(size=(3, 3))
    about_origin = B @ B.T + np.eye(3) + m * (c @ c * np.eye(3) - np.outer(c, c))
    matrix = np.block([[m * np.eye(3), -m * skew(c)], [m * skew(c), about_origin]])
    return al.Inertia(m, tuple(m * c), packed(about_origin)), matrix


def articulated_matrix(Y):
    B = np.reshape(Y.cross, (3, 3))
    return np.block([[symmetric(Y.linear), B], [B.T, symmetric(Y.angular)]])


def random_articulated():
    B = RNG.normal(size=(6, 6))
    matrix = B @ B.T
    return al.ArticulatedInertia(
        packed(matrix[:3, :3]), tuple(matrix[:3, 3:].ravel()), packed(matrix[3:, 3:])
    ), matrix


def close(actual, expected):
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert np.abs(actual - expected).max() <= 1e-13 * np.abs(expected).max()


v, w, f, g = RNG.normal(size=(4, 6))


def test_cross_products_and_their_duality():
    close(six(al.motion_cross(motion(v), motion(w))), motion_matrix(v) @ w)
    close(six(al.force_cross(motion(v), force(f))), -motion_matrix(v).T @ f)
    close(al.power(force(f), motion(w)), f @ w)


def test_frames():
    X = al.SE3(tuple(R.ravel()), tuple(p))
    close(six(al.motion_to_child(X, motion(v))), child_from_parent(R, p) @ v)
    close(six(al.force_to_parent(X, force(f))), child_from_parent(R, p).T @ f)
    close(six(al.motion_moved(tuple(p), motion(v))), child_from_parent(np.eye(3), p) @ v)
    close(six(al.force_moved(tuple(p), force(f))), child_from_parent(np.eye(3), p).T @ f)
    Y = al.compose(X, X)
    close(np.reshape(Y.rotation, (3, 3)), R @ R)
    close(Y.translation, p + R @ p)
    Y = al.inverse(X)
    close(np.reshape(Y.rotation, (3, 3)), R.T)
    close(Y.translation, -R.T @ p)


def test_rotations():
    a = RNG.normal(size=3)
    close(al.rotate(tuple(R.ravel()), tuple(a)), R @ a)
    close(al.rotate_inverse(tuple(R.ravel()), tuple(a)), R.T @ a)
    S = RNG.normal(size=(3, 3))
    S = S + S.T
    close(symmetric(al.rotate_symmetric(tuple(R.ravel()), packed(S))), R @ S @ R.T)
    close(np.reshape(al.product(tuple(R.ravel()), tuple(S.ravel())), (3, 3)), R @ S)
    close(np.reshape(al.transposed(tuple(R.ravel())), (3, 3)), R.T)
    close(np.reshape(al.skew(tuple(a)), (3, 3)), skew(a))


@pytest.mark.parametrize("length", [1.0, 0.3, 7.0])
def test_a_quaternion_of_any_length_is_a_rotation(length):
    q = Rotation.random(random_state=8).as_quat()
    close(
        np.reshape(al.quaternion_rotation(*(length * q)), (3, 3)), Rotation.from_quat(q).as_matrix()
    )


def test_rigid_inertias():
    (Y, matrix), (Z, other) = random_inertia(), random_inertia()
    close(six(al.inertia_times(Y, motion(v))), matrix @ v)
    close(six(al.inertia_times(al.inertia_add(Y, Z), motion(v))), (matrix + other) @ v)
    moved = child_from_parent(np.eye(3), p)
    close(
        six(al.inertia_times(al.inertia_moved(tuple(p), Y), motion(v))),
        moved.T @ matrix @ moved @ v,
    )
    turned = child_from_parent(R, np.zeros(3))
    close(
        six(al.inertia_times(al.inertia_rotated(tuple(R.ravel()), Y), motion(v))),
        turned.T @ matrix @ turned @ v,
    )
    close(articulated_matrix(al.articulated(Y)), matrix)


def test_articulated_inertias():
    Y, matrix = random_articulated()
    close(six(al.articulated_times(Y, motion(v))), matrix @ v)
    close(articulated_matrix(al.articulated_add(Y, Y)), 2 * matrix)
    close(
        articulated_matrix(al.articulated_less_outer(Y, force(f), 0.3)),
        matrix - 0.3 * np.outer(f, f),
    )
    moved = child_from_parent(np.eye(3), p)
    close(articulated_matrix(al.articulated_moved(tuple(p), Y)), moved.T @ matrix @ moved)
    turned = child_from_parent(R, np.zeros(3))
    close(
        articulated_matrix(al.articulated_rotated(tuple(R.ravel()), Y)), turned.T @ matrix @ turned
    )
