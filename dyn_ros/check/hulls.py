# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of points, and solids of uniform density.

Boxes, cylinders, spheres and capsules are examined without trimesh, which only reads meshes: SciPy
computes the hulls and the distances from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array, ArrayLike

_FLATNESS_TOLERANCE = 1e-9  # thickness relative to size; thinner points are in a plane
_CIRCLE_POINTS = 64
_DISTANCE_TOLERANCE = 1e-13  # relative to the size of a hull; smaller distances are 0


class Solid(NamedTuple):
    """Solid of uniform density: volume [m3], center of mass (3,) [m] and covariance (3, 3) [m2].

    The covariance is the mean of (x - com) (x - com)' over the volume.
    """

    volume: float
    com: Array
    covariance: Array

    def transformed_by(self, linear: Array, offset: Array) -> Solid:
        """Return the image of the solid under x -> linear x + offset, (3, 3) and (3,) [m]."""
        return Solid(
            self.volume * abs(np.linalg.det(linear)),
            linear @ self.com + offset,
            linear @ self.covariance @ linear.T,
        )

    def inertia(self, mass: float) -> Array:
        """Return the rotational inertia about the center of mass [kg m2], (3, 3)."""
        return mass * (np.trace(self.covariance) * np.eye(3) - self.covariance)


def unite_solids(solids: Sequence[Solid]) -> Solid:
    """Combine solids, at least one of which has a volume; overlaps count twice."""
    volumes, coms, covariances = map(np.array, zip(*solids))
    weights = volumes / volumes.sum()
    com = weights @ coms
    about_com = covariances + np.einsum("ij,ik->ijk", coms - com, coms - com)
    return Solid(float(volumes.sum()), com, np.einsum("i,ijk->jk", weights, about_com))


def solid_of_triangles(triangles: Array) -> Solid:
    """Return the solid in a closed surface of triangles (n, 3, 3), counterclockwise from outside.

    Its volume is 0 if they enclose nothing, and negative if they are turned inside out.
    """
    center = triangles.reshape(-1, 3).mean(axis=0) if len(triangles) else np.zeros(3)
    a, b, c = (triangles[:, n] - center for n in range(3))
    # Signed volumes, first and second moments of the tetrahedra between triangles and center.
    volumes = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0
    volume = float(volumes.sum())
    if volume == 0.0:
        return Solid(0.0, center, np.zeros((3, 3)))
    total = a + b + c
    com = volumes @ total / (4.0 * volume)
    second = sum(np.einsum("i,ij,ik->jk", volumes, x, x) for x in (a, b, c, total)) / 20.0
    return Solid(volume, com + center, second / volume - np.outer(com, com))


def measure_box(x: float, y: float, z: float) -> tuple[Array, Solid]:
    """Return the corners and the solid of a box around the origin with these edge lengths [m]."""
    signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    edges = np.array([x, y, z])
    return signs * edges / 2.0, Solid(x * y * z, np.zeros(3), np.diag(edges**2 / 12.0))


def measure_cylinder(radius: float, length: float) -> tuple[Array, Solid]:
    """Return points on the edges and the solid of a cylinder along z around the origin [m]."""
    circle = radius * _unit_circle()
    points = np.vstack(
        [np.c_[circle, np.full(_CIRCLE_POINTS, z)] for z in (-length / 2.0, length / 2.0)]
    )
    covariance = np.diag([radius**2 / 4.0, radius**2 / 4.0, length**2 / 12.0])
    return points, Solid(math.pi * radius**2 * length, np.zeros(3), covariance)


def measure_sphere(radius: float) -> tuple[Array, Solid]:
    """Return points on the surface and the solid of a sphere around the origin [m]."""
    angles = np.linspace(0.0, math.pi, _CIRCLE_POINTS // 2 + 1)
    points = np.vstack(
        [
            np.c_[math.sin(angle) * _unit_circle(), np.full(_CIRCLE_POINTS, math.cos(angle))]
            for angle in angles
        ]
    )
    return radius * points, Solid(
        4.0 / 3.0 * math.pi * radius**3, np.zeros(3), radius**2 / 5.0 * np.eye(3)
    )


def measure_capsule(radius: float, length: float) -> tuple[Array, Solid]:
    """Return points on the surface and the solid of a capsule along z around the origin [m].

    ``length`` is the length of its cylinder, without the hemispheres at its ends.
    """
    sphere, _ = measure_sphere(radius)
    edges, cylinder = measure_cylinder(radius, length)
    center = 0.375 * radius  # distance from the flat side of a hemisphere to its center of mass
    covariance = np.diag(radius**2 / 5.0 - np.array([0.0, 0.0, center**2]))
    hemisphere = Solid(2.0 / 3.0 * math.pi * radius**3, np.zeros(3), covariance)
    ends = np.array([0.0, 0.0, length / 2.0])
    offset = np.array([0.0, 0.0, length / 2.0 + center])
    points = np.vstack([edges, sphere + np.sign(sphere[:, 2:]) * ends])
    if not radius:
        return points, cylinder
    return points, unite_solids(
        [cylinder, hemisphere._replace(com=offset), hemisphere._replace(com=-offset)]
    )


def _unit_circle() -> Array:
    """Return points on the circle of radius 1 around the origin, (_CIRCLE_POINTS, 2)."""
    angles = np.linspace(0.0, 2.0 * math.pi, _CIRCLE_POINTS, endpoint=False)
    return np.c_[np.cos(angles), np.sin(angles)]


class Hull:
    """Convex hull of one or more points (n, 3) [m].

    `points` (m, 3) are its corners, `triangles` (k, 3) its surface as rows of them,
    counterclockwise seen from outside. If the points are in a plane, `points` are all of them,
    `triangles` is empty, and the solid has a volume of 0. `radius` is the distance of the farthest
    point from the center [m].
    """

    def __init__(self, points: ArrayLike) -> None:
        self.points: Array = np.asarray(points, float).reshape(-1, 3)
        self.triangles: NDArray[np.int_] = np.empty((0, 3), int)
        if _span_space(self.points):
            self._find_surface()
        self.solid = solid_of_triangles(self.points[self.triangles])
        center = self.solid.com if len(self.triangles) else self.points.mean(axis=0)
        self.radius = float(np.linalg.norm(self.points - center, axis=1).max())

    def _find_surface(self) -> None:
        """Set ``points`` to the corners of the hull and ``triangles`` to its surface.

        Leaves both as they are if Qhull finds no volume.
        """
        from scipy.spatial import ConvexHull, QhullError

        try:
            hull = ConvexHull(self.points)
        except QhullError:
            return
        a, b, c = (self.points[hull.simplices[:, n]] for n in range(3))
        inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0.0
        corners, triangles = np.unique(hull.simplices, return_inverse=True)
        self.triangles = triangles.reshape(-1, 3)
        self.triangles[inward] = self.triangles[inward][:, ::-1]
        self.points = self.points[corners]

    def distance(self, point: Array) -> float:
        """Return the distance of a point from the hull [m]; 0 inside.

        The weights w >= 0 of the corners p that minimize |w (p - point)|^2 + (sum of w - 1)^2 are,
        divided by their sum, those of the nearest point.
        """
        from scipy.optimize import nnls

        to_points = (self.points - point).T
        size = np.linalg.norm(to_points, axis=0).max() or 1.0
        weights, _ = nnls(np.vstack([to_points / size, np.ones(len(self.points))]), [0, 0, 0, 1])
        distance = float(np.linalg.norm(to_points @ weights / weights.sum()))
        return distance if distance > _DISTANCE_TOLERANCE * size else 0.0


def _span_space(points: Array) -> bool:
    """Return True if the points are not in a plane."""
    if len(points) < 4:
        return False
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return bool(spread[2] > _FLATNESS_TOLERANCE * spread[0])
