# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of points, and solids of uniform density."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..engine.kernel.types import Array, ArrayLike

_FLAT = 1e-9                         # thickness of a flat set of points, relative to its size
_ROUND = 64                          # points of a circle


@dataclass(frozen=True, eq=False)
class Solid:
    """A solid of uniform density.

    Attributes
    ----------
    volume : float
        [m3]
    com : (3,) ndarray
        Center of mass [m].
    covariance : (3, 3) ndarray
        Mean of (x - com) (x - com)' over the volume [m2].
    """

    volume: float
    com: Array
    covariance: Array

    def moved(self, linear: Array, offset: Array) -> Solid:
        """The image of the solid under x -> linear x + offset.

        Parameters
        ----------
        linear : (3, 3) ndarray
        offset : (3,) ndarray

        Returns
        -------
        Solid
        """
        return Solid(self.volume * abs(np.linalg.det(linear)), linear @ self.com + offset,
                     linear @ self.covariance @ linear.T)

    def inertia(self, mass: float) -> Array:
        """Rotational inertia about the center of mass [kg m2], (3, 3).

        Parameters
        ----------
        mass : float
            [kg]

        Returns
        -------
        (3, 3) ndarray
        """
        return mass * (np.trace(self.covariance) * np.eye(3) - self.covariance)

    @property
    def axes(self) -> Array:
        """Principal axes, the columns of a (3, 3) ndarray."""
        return np.linalg.eigh(self.covariance)[1]


def union(solids: Sequence[Solid]) -> Solid:
    """Combine solids, at least one of which has a volume; overlaps count twice.

    Parameters
    ----------
    solids : sequence of Solid

    Returns
    -------
    Solid
    """
    volume = sum(solid.volume for solid in solids)
    weights = np.array([solid.volume / volume for solid in solids])
    com = weights @ np.array([solid.com for solid in solids])
    about = [solid.covariance + np.outer(solid.com - com, solid.com - com) for solid in solids]
    return Solid(volume, com, np.einsum("i,ijk->jk", weights, np.array(about)))


def solid_of_triangles(triangles: Array) -> Solid:
    """The solid enclosed by triangles.

    Parameters
    ----------
    triangles : (n, 3, 3) ndarray
        Corners of a closed surface, each counterclockwise seen from outside [m].

    Returns
    -------
    Solid
        With a volume of 0 if the triangles enclose none; negative if they are turned inside out.
    """
    center = triangles.reshape(-1, 3).mean(axis=0) if len(triangles) else np.zeros(3)
    a, b, c = (triangles[:, n] - center for n in range(3))
    volumes = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0    # of tetrahedra to the center
    volume = float(volumes.sum())
    if volume == 0.0:
        return Solid(0.0, center, np.zeros((3, 3)))
    com = volumes @ (a + b + c) / (4.0 * volume)
    total = a + b + c
    second = sum(np.einsum("i,ij,ik->jk", volumes, x, x) for x in (a, b, c, total)) / 20.0
    return Solid(volume, com + center, second / volume - np.outer(com, com))


def box(x: float, y: float, z: float) -> tuple[Array, Solid]:
    """A box around the origin.

    Parameters
    ----------
    x, y, z : float
        Edge lengths [m].

    Returns
    -------
    points : (8, 3) ndarray
    solid : Solid
    """
    signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    edges = np.array([x, y, z])
    return signs * edges / 2.0, Solid(x * y * z, np.zeros(3), np.diag(edges ** 2 / 12.0))


def cylinder(radius: float, length: float) -> tuple[Array, Solid]:
    """A cylinder along z around the origin.

    Parameters
    ----------
    radius, length : float
        [m]

    Returns
    -------
    points : (n, 3) ndarray
        On its edges.
    solid : Solid
    """
    circle = radius * _circle()
    points = np.vstack([np.c_[circle, np.full(_ROUND, z)] for z in (-length / 2.0, length / 2.0)])
    covariance = np.diag([radius ** 2 / 4.0, radius ** 2 / 4.0, length ** 2 / 12.0])
    return points, Solid(math.pi * radius ** 2 * length, np.zeros(3), covariance)


def sphere(radius: float) -> tuple[Array, Solid]:
    """A sphere around the origin.

    Parameters
    ----------
    radius : float
        [m]

    Returns
    -------
    points : (n, 3) ndarray
        On its surface.
    solid : Solid
    """
    angles = np.linspace(0.0, math.pi, _ROUND // 2 + 1)
    points = np.vstack([np.c_[math.sin(angle) * _circle(), np.full(_ROUND, math.cos(angle))]
                        for angle in angles])
    return radius * points, Solid(4.0 / 3.0 * math.pi * radius ** 3, np.zeros(3),
                                  radius ** 2 / 5.0 * np.eye(3))


def _circle():
    angles = np.linspace(0.0, 2.0 * math.pi, _ROUND, endpoint=False)
    return np.c_[np.cos(angles), np.sin(angles)]


class Hull:
    """The convex hull of points.

    Parameters
    ----------
    points : (n, 3) array_like
        At least one [m].

    Attributes
    ----------
    points : (m, 3) ndarray
        Its corners; all points if they are in a plane.
    triangles : (k, 3) ndarray of int
        Its surface, as rows of `points`; counterclockwise seen from outside. Empty if the points
        are in a plane.
    solid : Solid
        With a volume of 0 if the points are in a plane.
    radius : float
        Distance of the farthest point from the center [m].
    """

    def __init__(self, points: ArrayLike):
        self.points: Array = np.asarray(points, float).reshape(-1, 3)
        self.triangles: Array = np.empty((0, 3), int)
        self._normals, self._heights = np.empty((0, 3)), np.empty(0)
        if _thick(self.points):
            self._enclose()
        self.solid = solid_of_triangles(self.points[self.triangles])
        center = self.solid.com if len(self.triangles) else self.points.mean(axis=0)
        self.radius = float(np.linalg.norm(self.points - center, axis=1).max())

    def _enclose(self):
        from scipy.spatial import ConvexHull, QhullError
        try:
            hull = ConvexHull(self.points)
        except QhullError:
            return
        number = np.full(len(self.points), -1)
        number[hull.vertices] = np.arange(len(hull.vertices))
        self._normals, self._heights = hull.equations[:, :3], -hull.equations[:, 3]
        a, b, c = (self.points[hull.simplices[:, n]] for n in range(3))
        inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), self._normals) < 0.0
        self.triangles = number[hull.simplices]
        self.triangles[inward] = self.triangles[inward][:, ::-1]
        self.points = self.points[hull.vertices]

    def interval(self, direction: Array) -> tuple[float, float]:
        """How far it extends along a direction.

        Parameters
        ----------
        direction : (3,) ndarray

        Returns
        -------
        low, high : float
            The least and the largest ``direction @ point`` of its points.
        """
        along = self.points @ direction
        return float(along.min()), float(along.max())

    def distance(self, point: Array) -> float:
        """Distance of a point from the hull [m]; 0 inside.

        Parameters
        ----------
        point : (3,) ndarray

        Returns
        -------
        float
        """
        if len(self.triangles) and (self._normals @ point <= self._heights).all():
            return 0.0
        corners = self.points[self.triangles]
        if not len(corners):
            return float(np.linalg.norm(self.points - point, axis=1).min())
        to_edges = min(_to_segments(point, corners[:, n], corners[:, (n + 1) % 3]).min()
                       for n in range(3))
        return min(float(to_edges), _to_faces(point, corners, self._normals, self._heights))


def _thick(points):
    """Whether the points are not in a plane."""
    if len(points) < 4:
        return False
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return spread[2] > _FLAT * spread[0]


def _to_segments(point, starts, ends):
    along = ends - starts
    squared = np.einsum("ij,ij->i", along, along)
    part = np.einsum("ij,ij->i", point - starts, along) / np.where(squared > 0.0, squared, 1.0)
    nearest = starts + np.clip(part, 0.0, 1.0)[:, None] * along
    return np.linalg.norm(nearest - point, axis=1)


def _to_faces(point, corners, normals, heights):
    """Distance from the nearest triangle whose inside is above or below the point."""
    above = normals @ point - heights
    foot = point - above[:, None] * normals
    inside = np.ones(len(corners), bool)
    for n in range(3):
        start, end = corners[:, n], corners[:, (n + 1) % 3]
        turn = np.cross(end - start, foot - start)
        inside &= np.einsum("ij,ij->i", turn, normals) >= 0.0
    return float(np.abs(above[inside]).min(initial=np.inf))
