# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mean force of a contact."""

import dataclasses

import numpy as np
import pytest

import dyn_ros
from dyn_ros.nodes.robot.observation import ContactAverage

from ..conftest import ARM7

MODEL = dyn_ros.Model.from_urdf_file(ARM7)
Q = np.array([0.3, 0.6, 0.2, 1.2, 0.4, 0.7, 0.1])
STEP = 1_000_000


@pytest.fixture
def contact():
    data = dyn_ros.Data(MODEL)
    J = dyn_ros.frame_jacobian(MODEL, data, Q, "tool", 2).copy()

    def isolated(force, noise=0.0, rng=None):
        tau = J.T[:, :3] @ force
        if noise:
            tau = tau + noise * rng.standard_normal(MODEL.nv)
        return dyn_ros.isolate_contact(
            MODEL, data, Q, tau, 0.05, covariance=max(noise, 1e-3) ** 2 * np.eye(MODEL.nv)
        )

    return isolated


def test_first_is_unchanged_and_constant_force_remains(contact):
    average, measured = ContactAverage(0.2), contact([1.0, 5.0, -2.0])
    for n in range(5):
        mean = average.update(measured, n * STEP)
        assert np.allclose(mean.force, measured.force, rtol=1e-14)
        assert np.allclose(mean.point, measured.point, rtol=1e-12)
        assert mean.magnitude == pytest.approx(np.linalg.norm(measured.force))


def test_is_the_weighted_mean_until_its_duration_has_passed(contact):
    average, rng = ContactAverage(1.0), np.random.default_rng(0)
    contacts = [contact([1.0, 5.0, -2.0], 0.02, rng) for _ in range(20)]
    means = [average.update(measured, n * STEP) for n, measured in enumerate(contacts)]
    assert all(measured.determined for measured in contacts)
    forces = np.array([measured.force for measured in contacts])
    weights = [1.0 / np.trace(measured.covariance) for measured in contacts]
    assert np.allclose(means[-1].force, np.average(forces, axis=0, weights=weights), rtol=1e-12)
    true = np.array([1.0, 5.0, -2.0])
    assert np.linalg.norm(means[-1].force - true) < 0.5 * np.sqrt(
        np.mean(np.sum((forces - true) ** 2, axis=1))
    )


def test_forces_of_an_uncertain_link_count_little(contact):
    average, sure = ContactAverage(0.2), contact([1.0, 5.0, -2.0])
    off = dataclasses.replace(
        sure,
        force=sure.force + [5.0, 0.0, 0.0],
        covariance=sure.covariance + 4.0 * np.eye(3),
        point=sure.point + 0.05,
        point_deviation=0.08,
    )
    for n in range(100):
        mean = average.update(off if 20 <= n < 60 else sure, n * STEP)
    assert np.linalg.norm(mean.force - sure.force) < 0.01
    assert np.linalg.norm(mean.point - sure.point) < 1e-3


def test_the_line_of_another_link_starts_its_own_mean(contact):
    average, rng = ContactAverage(1.0), np.random.default_rng(1)
    for n in range(50):
        average.update(contact([1.0, 5.0, -2.0]), n * STEP)
    points = []
    for n in range(50, 70):
        measured = dataclasses.replace(
            contact([1.0, 5.0, -2.0]), link="another", point=rng.standard_normal(3)
        )
        points.append(measured.point)
        mean = average.update(measured, n * STEP)
    assert np.allclose(mean.point, np.mean(points, axis=0))


def test_follows_a_change_with_its_time_constant(contact):
    average = ContactAverage(0.1)
    for n in range(1000):
        average.update(contact([0.0, 5.0, 0.0]), n * STEP)
    for n in range(1000, 1100):
        mean = average.update(contact([0.0, 10.0, 0.0]), n * STEP)
    assert mean.force[1] == pytest.approx(10.0 - 5.0 * np.exp(-1.0), rel=1e-3)


def test_what_is_not_determined_is_unchanged_and_forgets_nothing(contact):
    average, measured = ContactAverage(0.1), contact([0.0, 5.0, 0.0])
    average.update(measured, 0)
    none = contact([0.0, 0.0, 0.0])
    assert average.update(none, STEP) is none
    assert average.update(measured, 2 * STEP).force == pytest.approx(measured.force)


def test_without_duration_and_repeated_stamps(contact):
    measured = contact([0.0, 5.0, 0.0])
    assert ContactAverage(0.0).update(measured, 0) is measured
    average = ContactAverage(0.1)
    average.update(measured, 0)
    assert average.update(contact([0.0, 9.0, 0.0]), 0).force == pytest.approx(measured.force)
