# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shapes of markers: against bodies and mappings that are known."""

import itertools

import numpy as np
import pytest

from dyn_ros.engine.kernel.lie import quaternion_exp, rotate
from dyn_ros.viewer.scene import geometry


def close(actual, expected, atol=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=atol)


def rotation(rng):
    return rotate(quaternion_exp(rng.normal(size=3)), np.eye(3)).T


def moments(square):
    """Principal moments per mass, of the mean squares along three axes."""
    return square.sum() - square


@pytest.mark.parametrize(
    "share, factor", [(20.0, geometry.ELLIPSOID_WIDTH), (12.0, geometry.BOX_WIDTH)]
)
def test_a_homogeneous_body_is_found_again(share, factor):
    """Along its axes the mass of an ellipsoid spreads by width^2 / 20, of a box by width^2 / 12."""
    rng = np.random.default_rng(1)
    mass = rng.uniform(0.1, 9.0, 20)
    widths = np.sort(rng.uniform(0.01, 2.0, (20, 3)), axis=-1)[:, ::-1]
    R = np.array([rotation(rng) for _ in mass])
    rotational = np.array(
        [m * r @ np.diag(moments(w**2 / share)) @ r.T for m, w, r in zip(mass, widths, R)]
    )
    spread, axes = geometry.principal_spread(mass, rotational)
    np.testing.assert_allclose(factor * spread, widths, rtol=1e-9)
    close(np.linalg.det(axes), 1.0)
    again = (
        axes
        @ (mass[:, None, None] * np.array([np.diag(moments(s**2)) for s in spread]))
        @ np.swapaxes(axes, -1, -2)
    )
    close(again, rotational)


def test_of_one_body_too_and_a_rod_has_no_width():
    spread, axes = geometry.principal_spread(2.0, np.diag([6.0, 6.0, 0.0]))
    close(np.sort(spread), [0.0, 0.0, 3.0**0.5])
    close(abs(axes[:, np.argmax(spread)]), [0, 0, 1])


def test_an_inertia_that_no_body_has_gives_no_nan():
    spread, _ = geometry.principal_spread(1.0, np.diag([5.0, 1.0, 1.0]))
    close(np.sort(spread), [0.0, 2.5**0.5, 2.5**0.5])


@pytest.mark.parametrize("joints", [0, 1, 2, 3, 7, 30])
def test_the_velocity_ellipsoid_reaches_as_far_as_the_joints_do(joints):
    """Along d unit joint velocities reach |J' d|, an ellipsoid |diag(half) axes' d|."""
    rng = np.random.default_rng(joints)
    J = rng.normal(size=(3, joints))
    half, axes = geometry.velocity_ellipsoid(J)
    assert list(half) == sorted(half, reverse=True)
    close(np.linalg.det(axes), 1.0)
    for d in rng.normal(size=(20, 3)):
        close(np.linalg.norm(half * (axes.T @ d)), np.linalg.norm(J.T @ d))


def test_the_force_ellipsoid_is_the_inverse_and_not_endless():
    rng = np.random.default_rng(2)
    J = rng.normal(size=(3, 5))
    half, axes = geometry.velocity_ellipsoid(J)
    reach = geometry.force_semi_axes(half)
    for direction in rng.normal(size=(20, 3)):
        direction /= np.linalg.norm(direction)
        force = axes @ (reach * direction)
        close(force @ (J @ J.T) @ force, 1.0)  # tau' tau of its torques tau = J' force
    close(
        geometry.force_semi_axes(np.array([2.0, 1.0, 0.0])),
        [0.5, 1.0, 0.5 / geometry.MIN_AXIS_RATIO],
    )
    close(geometry.force_semi_axes(np.zeros(3)), np.zeros(3))


def test_across_completes_right_handed_axes():
    rng = np.random.default_rng(3)
    axes = np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(50, 3))])
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    first, second = geometry.perpendicular_vectors(axes)
    for columns in zip(first, second, axes):
        R = np.array(columns).T
        close(R.T @ R, np.eye(3))
        close(np.linalg.det(R), 1.0)
    assert [each.shape for each in geometry.perpendicular_vectors(np.zeros((0, 3)))] == [
        (0, 3),
        (0, 3),
    ]


@pytest.mark.parametrize("angle", [-geometry.MAX_ARC, -1.0, -0.01, 0.01, 1.0, geometry.MAX_ARC])
def test_a_curved_arrow_turns_about_its_axis(angle):
    rng = np.random.default_rng(4)
    R, center, radius = rotation(rng), rng.normal(size=3), 0.3
    [points] = geometry.curved_arrow_points(
        center[None], R[None, :, 0], R[None, :, 1], [radius], [angle]
    )
    assert len(points) == geometry.CURVED_ARROW_POINTS
    x, y, z = R.T @ (points - center).T
    close(z, np.zeros(len(points)))
    turned = np.linspace(angle, 0.0, len(points) - 3)
    close(x[3:], radius * np.cos(turned))
    close(y[3:], radius * np.sin(turned))
    tip = points[3]
    close(points[1], tip)
    ahead = np.sign(angle) * (R @ [-np.sin(angle), np.cos(angle), 0.0])
    barbs = points[[0, 2]] - tip
    assert (barbs @ ahead < 0.0).all()
    close(barbs[0] @ ahead, barbs[1] @ ahead)
    close(barbs[0] + barbs[1], 2.0 * (barbs[0] @ ahead) * ahead)
    assert np.linalg.norm(barbs[0]) < radius * abs(angle)
    assert geometry.curved_arrow_points(*np.zeros((3, 0, 3)), [], []).shape == (0, len(points), 3)


def test_the_ground_is_reached_along_gravity():
    up = geometry.up_direction([3.0, 0.0, -4.0])
    close(up, [-0.6, 0.0, 0.8])
    point = np.array([1.0, 2.0, 3.0])
    ground = geometry.project_to_ground(point, up, 0.25)
    close(ground @ up, 0.25)
    close(np.cross(ground - point, up), np.zeros(3))
    close(geometry.up_direction(np.zeros(3)), [0, 0, 1])


def test_the_outline_of_an_ellipsoid_is_three_circles():
    points = geometry.ellipsoid_outline()
    close(np.linalg.norm(points, axis=1), 1.0)
    assert (np.linalg.norm(np.diff(points, axis=0), axis=1) < 0.27).all()  # no line across
    for axis in range(3):
        assert (abs(points[:, axis]) < 1e-12).sum() >= geometry.OUTLINE_STEPS


def test_the_outline_of_a_box_is_its_edges():
    points = geometry.box_outline()
    edges = {frozenset(map(tuple, ends)) for ends in itertools.pairwise(points)}
    assert len(edges) == 12
    assert all(np.count_nonzero(np.diff(list(edge), axis=0)) == 1 for edge in edges)
    assert (abs(points) == 1.0).all()
