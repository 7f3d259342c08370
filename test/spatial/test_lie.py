"""Exponential and logarithm: inverse of each other at every angle, and SciPy's rotations."""
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dyn_ros.spatial import lie

RNG = np.random.default_rng(2)
ANGLES = [0.0, 1e-300, 1e-12, 1e-6, 0.0099, 0.0101, 0.5, 2.0, 3.0, np.pi - 1e-7, np.pi - 1e-12]


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


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.3, -2.0, 3.1])
def test_planar_exp_and_log(angle):
    x = np.array([0.7, -1.2, angle])
    pose = lie.se2_exp(x)
    assert pose[2] == angle
    assert np.abs(lie.se2_log(pose) - x).max() < 1e-13
