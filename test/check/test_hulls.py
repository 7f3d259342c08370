# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Convex hulls, solids of uniform density, and the meshes that they are measured from."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.transform import Rotation

from dyn_ros.check.hulls import (
    Hull,
    Solid,
    measure_box,
    measure_capsule,
    measure_cylinder,
    measure_sphere,
    solid_of_triangles,
    unite_solids,
)
from dyn_ros.check.meshes import measure_mesh
from dyn_ros.check.shapes import find_extents
from dyn_ros.engine.model.urdf import read_urdf

BODIES = {
    "box": measure_box(0.3, 0.5, 0.7),
    "cylinder": measure_cylinder(0.2, 0.9),
    "sphere": measure_sphere(0.4),
    "capsule": measure_capsule(0.2, 0.9),
}


@pytest.mark.parametrize("name", BODIES)
def test_solids_of_simple_shapes_and_of_their_hulls(name):
    """The hull of a round shape is a little smaller."""
    points, solid = BODIES[name]
    hull = Hull(points)
    tolerance = 1e-12 if name == "box" else 0.01
    assert hull.solid.volume == pytest.approx(solid.volume, rel=tolerance)
    np.testing.assert_allclose(hull.solid.covariance, solid.covariance, atol=tolerance * 0.1)
    np.testing.assert_allclose(hull.solid.com, 0.0, atol=1e-12)


def test_the_inertia_of_a_solid_box():
    _, solid = measure_box(0.2, 0.1, 0.4)
    np.testing.assert_allclose(solid.inertia(2.0), np.diag([0.17, 0.2, 0.05]) / 6.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_moved_solid_is_that_of_the_moved_points(seed):
    rng = np.random.default_rng(seed)
    hull = Hull(rng.normal(size=(30, 3)))
    linear, offset = rng.normal(size=(3, 3)), rng.normal(size=3)
    moved, expected = (
        hull.solid.transformed_by(linear, offset),
        Hull(hull.points @ linear.T + offset).solid,
    )
    assert moved.volume == pytest.approx(expected.volume)
    np.testing.assert_allclose(moved.com, expected.com, atol=1e-10)
    np.testing.assert_allclose(moved.covariance, expected.covariance, atol=1e-10)


def test_two_halves_are_a_whole():
    _, half_box = measure_box(0.1, 0.3, 0.2)
    _, whole_box = measure_box(0.2, 0.3, 0.2)
    combined = unite_solids(
        [half_box.transformed_by(np.eye(3), np.array([x, 0.0, 0.0])) for x in (-0.05, 0.05)]
    )
    assert combined.volume == pytest.approx(whole_box.volume)
    np.testing.assert_allclose(combined.covariance, whole_box.covariance, atol=1e-15)


def test_triangles_that_are_turned_inside_out():
    hull = Hull(measure_box(1.0, 2.0, 3.0)[0])
    inside_out = solid_of_triangles(hull.points[hull.triangles[:, ::-1]])
    assert inside_out.volume == pytest.approx(-6.0)
    np.testing.assert_allclose(inside_out.covariance, hull.solid.covariance, atol=1e-12)


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((1, 3)),
        np.zeros((9, 3)),
        np.eye(3),
        np.c_[np.random.default_rng(0).random((20, 2)), np.ones(20)],
        np.linspace(0.0, 1.0, 5)[:, None] * np.ones(3),
    ],
)
def test_points_in_a_plane_enclose_nothing(points):
    hull = Hull(points)
    assert hull.solid.volume == 0.0 and len(hull.triangles) == 0
    assert hull.distance(points[0]) == 0.0 and hull.distance(points[0] + [0, 0, 50.0]) > 48.0


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_of_a_point(seed):
    """It is close to the smallest distance of random points in the hull, and 0 inside."""
    rng = np.random.default_rng(seed)
    hull = Hull(rng.normal(size=(25, 3)))
    weights = rng.dirichlet(np.full(len(hull.points), 0.05), size=200_000)
    hull_points = weights @ hull.points
    for point in rng.normal(scale=2.5, size=(10, 3)):
        distance = hull.distance(point)
        nearest = np.linalg.norm(hull_points - point, axis=1).min()
        assert distance <= nearest + 1e-12
        assert nearest - distance < 0.15
        inside = (
            linprog(
                np.zeros(len(hull.points)),
                A_eq=np.vstack([hull.points.T, np.ones(len(hull.points))]),
                b_eq=[*point, 1.0],
            ).status
            == 0
        )
        assert (distance == 0.0) == inside


@pytest.mark.parametrize(
    "point, distance",
    [
        ((2.0, 0.0, 0.0), 1.5),
        ((2.0, 2.0, 0.0), np.sqrt(2 * 1.5**2)),
        ((2.0, 2.0, 2.0), np.sqrt(3 * 1.5**2)),
        ((0.2, 0.1, -0.3), 0.0),
        ((0.1, 0.2, -3.0), 2.5),
    ],
)
def test_the_distance_from_a_cube(point, distance):
    """To a face, an edge and a corner."""
    turn = Rotation.from_euler("xyz", [0.3, -0.7, 1.1]).as_matrix()
    hull = Hull(measure_box(1.0, 1.0, 1.0)[0] @ turn.T)
    assert hull.distance(turn @ point) == pytest.approx(distance, abs=1e-12)


def write_stl(path, triangles):
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join("vertex {} {} {}\n".format(*corner) for corner in triangle)
        + "endloop\nendfacet\n"
        for triangle in triangles
    )
    path.write_text(f"solid s\n{facets}endsolid s\n")
    return path


def test_a_closed_mesh_is_measured_itself_and_an_open_one_by_its_hull(tmp_path):
    """Two cubes, 1 m apart; without one triangle they are open."""
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    cube = Hull(measure_box(1.0, 1.0, 1.0)[0])
    corners = cube.points[cube.triangles]
    triangles = np.vstack([corners - [1.0, 0, 0], corners + [1.0, 0, 0]])
    points, solid = measure_mesh(write_stl(tmp_path / "closed.stl", triangles))
    assert len(points) == 8 and solid.volume == pytest.approx(2.0)
    assert solid.covariance[0, 0] == pytest.approx(1.0 + 1.0 / 12.0)
    _, solid = measure_mesh(write_stl(tmp_path / "open.stl", triangles[:-1]))
    assert solid.volume == pytest.approx(3.0)
    _, solid = measure_mesh(write_stl(tmp_path / "inside_out.stl", triangles[:, ::-1]))
    assert isinstance(solid, Solid) and solid.volume == pytest.approx(2.0)


def test_a_link_is_known_by_its_visual_shapes_if_those_for_collisions_are_not():
    ball = '<geometry><sphere radius="0.1"/></geometry>'
    mesh = '<geometry><mesh filename="nowhere.stl"/></geometry>'
    text = f"""<robot name="r"><link name="a"><visual>{ball}</visual>
      <collision>{mesh}</collision></link><link name="b"><visual>{ball}</visual><visual>{mesh}
      </visual></link><link name="c"/><joint name="j" type="fixed"><parent link="a"/>
      <child link="b"/></joint><joint name="k" type="revolute"><origin xyz="0 0 1"
      rpy="1.5707963267948966 0 0"/><parent link="b"/><child link="c"/></joint></robot>"""
    (extents,) = find_extents(text, read_urdf(text))
    assert extents.links["a"].own is not None and extents.links["b"].own is None
    assert extents.links["a"].allowed is None  # b is fixed to it, and massless
    assert extents.links["c"].own is extents.links["c"].allowed is None
    assert extents.bodies == {"a": "a", "b": "a", "c": "c"}
    np.testing.assert_allclose(
        extents.placements["c"][:3, 2:], [[0, 0], [-1, 0], [0, 1]], atol=1e-15
    )


def test_a_collision_box_does_not_stand_in_for_a_missing_mesh(tmp_path):
    pytest.importorskip("trimesh", reason="no viser: pip install viser")
    square = '<geometry><box size="1 1 1"/></geometry>'
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    write_stl(tmp_path / "corner.stl", corners[[[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]])
    here = '<geometry><mesh filename="corner.stl"/></geometry>'
    gone = '<visual><geometry><mesh filename="nowhere.stl"/></geometry></visual>'

    def link_extent(shapes):
        text = f'<robot name="r"><link name="a">{shapes}</link></robot>'
        return find_extents(text, read_urdf(text), [tmp_path])[0].links["a"].own

    assert link_extent(f"{gone}<collision>{square}</collision>") is None
    assert link_extent(f"<collision>{square}</collision>") is not None
    assert link_extent(f"{gone}<collision>{here}</collision>") is not None
