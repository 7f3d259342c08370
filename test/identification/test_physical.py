# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The convex estimate: its derivatives, its minimum, and that bodies are physical."""

import numpy as np
import pytest
from identification.robots import load

import dyn_ros
from dyn_ros.identification.physical import BASIS, Bodies, fit_physical


@pytest.fixture
def reference():
    return load("ur10").inertial_parameters[1:4]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_basis_is_orthonormal():
    np.testing.assert_allclose(np.einsum("kij,lij->kl", BASIS, BASIS), np.eye(10), atol=1e-15)


def test_the_start_is_the_reference(reference):
    bodies = Bodies(reference)
    parameters = np.einsum("nij,nj->ni", bodies.transforms, bodies.start)
    np.testing.assert_allclose(parameters, reference, atol=1e-12)
    value, gradient, hessian = bodies.divergence(bodies.start)
    assert np.abs(value).max() < 1e-12
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    np.testing.assert_allclose(hessian, np.broadcast_to(np.eye(10), hessian.shape), atol=1e-12)


def test_the_divergence_is_that_of_the_pseudo_inertias(reference, rng):
    bodies = Bodies(reference)
    z = bodies.start + 0.1 * rng.normal(size=bodies.start.shape)
    parameters = np.einsum("nij,nj->ni", bodies.transforms, z)
    value, gradient, hessian = bodies.divergence(z)
    np.testing.assert_allclose(value, dyn_ros.entropic_divergence(parameters, reference), rtol=1e-9)
    h = 1e-6
    for n, k in ((0, 0), (1, 4), (2, 9)):
        step = np.zeros_like(z)
        step[n, k] = h
        ahead, behind = bodies.divergence(z + step), bodies.divergence(z - step)
        assert gradient[n, k] == pytest.approx(
            (ahead[0] - behind[0])[n] / (2.0 * h), rel=1e-5, abs=1e-8
        )
        np.testing.assert_allclose(
            hessian[n, :, k], (ahead[1] - behind[1])[n] / (2.0 * h), rtol=1e-5, atol=1e-6
        )


def test_not_physical_is_infinite(reference):
    bodies = Bodies(reference)
    assert np.isinf(bodies.divergence(-bodies.start)[0]).all()


def test_without_data_the_reference_remains(reference):
    x = np.concatenate([reference.ravel(), [0.3, 2.0]])
    kind = np.array([0] * 30 + [1, 2])
    parameters = fit_physical(np.zeros((32, 32)), np.zeros(32), x, kind, np.ones(32))
    np.testing.assert_allclose(parameters[:31], x[:31], rtol=1e-7, atol=1e-10)
    assert parameters[31] == 0.0  # a number of any sign is drawn to zero


def test_with_much_data_the_data_decide(reference, rng):
    truth = reference * (1.0 + 0.05 * rng.uniform(size=(3, 1)))
    W = rng.normal(size=(400, 30)) / np.maximum(np.abs(reference.ravel()), 1e-3)
    H, g = W.T @ W * 1e8, W.T @ (W @ truth.ravel()) * 1e8
    parameters = fit_physical(H, g, reference.ravel(), np.zeros(30, int), np.ones(30))
    np.testing.assert_allclose(parameters, truth.ravel(), rtol=1e-5, atol=1e-8)


def test_the_minimum_has_no_slope(reference, rng):
    """At the minimum, the gradient of the whole cost vanishes, in the description's own scale."""
    W = rng.normal(size=(20, 30))
    H, g = W.T @ W, W.T @ rng.normal(size=20)
    x = fit_physical(H, g, reference.ravel(), np.zeros(30, int), np.full(30, 2.0))
    bodies = Bodies(reference)
    z = np.linalg.solve(bodies.transforms, x.reshape(3, 10, 1))[..., 0]
    slope = 2.0 * bodies.divergence(z)[1]
    slope += np.einsum("nij,ni->nj", bodies.transforms, (H @ x - g).reshape(3, 10))
    assert np.abs(slope).max() < 1e-4


def test_data_that_contradict_physics(reference, rng):
    """Data of a body with negative moments: the estimate is physical."""
    impossible = reference.copy()
    impossible[:, 4:] *= -1.0
    impossible[0, 0] = -5.0
    H = np.eye(30) * 1e10
    parameters = fit_physical(
        H, H @ impossible.ravel(), reference.ravel(), np.zeros(30, int), np.ones(30)
    )
    assert dyn_ros.is_physical(parameters.reshape(3, 10)).all()


def test_positive_numbers_stay_positive():
    H = np.eye(2) * 1e8
    parameters = fit_physical(
        H, H @ np.array([-1.0, 3.0]), np.array([0.1, 0.1]), np.array([1, 1]), np.ones(2)
    )
    assert 0.0 < parameters[0] < 1e-3
    assert parameters[1] == pytest.approx(3.0, rel=1e-6)
