# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Points on the ground and the shapes of contacts: against what is known of them."""

import numpy as np
import pytest

from dyn_ros.nodes.robot.ground import convex_hull, moment_about_origin, zero_moment_point
from dyn_ros.viewer.scene import geometry

UP = np.array([0.0, 0.0, 1.0])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def direction(rng):
    vector = rng.normal(size=3)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("seed", range(5))
def test_there_is_no_horizontal_moment_about_the_point(seed):
    rng = np.random.default_rng(seed)
    up, height = direction(rng), rng.normal()
    force, moment = rng.normal(size=3) + 10.0 * up, rng.normal(size=3)
    point = zero_moment_point(force, moment, up, height, 10.0)
    close(point @ up, height)
    close(np.cross(up, moment - np.cross(point, force)), 0.0)


def test_of_forces_on_the_ground_it_is_the_mean_and_inside_their_hull():
    rng = np.random.default_rng(7)
    points = np.column_stack([rng.normal(size=(6, 2)), np.full(6, 0.3)])
    forces = np.zeros((6, 6))
    forces[:, :2], forces[:, 2] = rng.normal(size=(6, 2)), rng.uniform(1.0, 5.0, 6)
    total = moment_about_origin(forces, points)
    point = zero_moment_point(total[:3], total[3:], UP, 0.3, 20.0)
    close(point, forces[:, 2] @ points / forces[:, 2].sum())
    with_it = convex_hull(np.vstack([points[:, :2], point[:2]]))
    close(with_it, convex_hull(points[:, :2]))


@pytest.mark.parametrize(
    "force, weight, why",
    [
        ([5.0, 0.0, 0.0], 20.0, "force of 0 N, expected more than 0.001 of the weight, 20 N"),
        ([0.0, 0.0, -1.0], 20.0, "a vertical force of -1 N"),
        ([0.0, 0.0, 0.02], 20.0, "a vertical force of 0.02 N"),
        ([0.0, 0.0, 0.0], 0.0, "a vertical force of 0 N"),
        ([0.0, 0.0, np.nan], 20.0, "a vertical force of nan N"),
        ([0.0, 0.0, np.inf], 20.0, "too large to compute with"),
    ],
)
def test_without_support_there_is_no_point(force, weight, why):
    with pytest.raises(ValueError, match=why), np.errstate(invalid="ignore"):
        zero_moment_point(np.array(force), np.ones(3), UP, 0.1, weight)


def test_a_hull_goes_around_all_points():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(50, 2))
    hull = convex_hull(points)
    ahead = np.roll(hull, -1, axis=0) - hull
    beside = points[:, None] - hull
    turn = ahead[:, 0] * beside[..., 1] - ahead[:, 1] * beside[..., 0]
    assert (turn >= -1e-12).all() and 3 <= len(hull) < 50
    assert {tuple(corner) for corner in hull} <= {tuple(point) for point in points}


def test_points_on_an_edge_are_no_corners_whatever_their_rounding():
    rng = np.random.default_rng(4)
    for _ in range(300):
        corners = rng.normal(size=(3, 2)) * 10.0 ** rng.uniform(-2, 2) + rng.normal(size=2)
        parts = rng.uniform(size=(3, 1))
        between = parts * corners + (1.0 - parts) * np.roll(corners, 1, axis=0)
        hull = convex_hull(np.concatenate([corners, between]))
        assert {tuple(corner) for corner in hull} == {tuple(corner) for corner in corners}


@pytest.mark.parametrize(
    "points, hull",
    [
        ([[1.0, 2.0]], [[1.0, 2.0]]),
        ([[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0]]),
        ([[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]),
        ([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0]], [[0.0, 0.0], [2.0, 2.0]]),
        ([[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 3.0]]),
        (
            [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0]],
            [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
        ),
    ],
)
def test_hulls_of_few_points(points, hull):
    close(convex_hull(np.array(points)), hull)


def test_a_cone_is_one_line_along_its_edges_and_rim():
    up = direction(np.random.default_rng(5))
    line = geometry.cone_outline(up, 0.4, 0.3)
    along = line @ up
    beside = np.linalg.norm(line - np.multiply.outer(along, up), axis=1)
    rim = along > 0.2
    close(along[rim], 0.4)
    close(beside[rim], 0.3)
    close(line[~rim], 0.0)
    assert (~rim).sum() == geometry.CONE_EDGES and not rim[-1]
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    assert (steps > 0.0).all() and steps.max() < 0.5 + 1e-12


def test_forces_outside_a_cone_slip():
    forces = np.array(
        [
            [0.0, 0.0, 1.0],
            [0.6, 0.0, 1.0],
            [0.0, -0.8, 1.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, -1.0],
            [0.1, 0.0, -1.0],
        ]
    )
    assert geometry.is_outside_cone(forces, UP, 0.7).tolist() == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]
