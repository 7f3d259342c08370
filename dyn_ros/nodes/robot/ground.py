# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Points on the ground, as plain arrays: of zero moment, and of the support polygon."""
from __future__ import annotations

import math

import numpy as np

from dyn_ros.engine.kernel.types import Array

from ...states.joint_states import Rejected

LEAST_SUPPORT = 1e-3    # of the weight: with less vertical force, no point on the ground is known
_ROUNDING = 1e-14       # of the largest coordinate: a point so close to an edge is on it


def zero_moment_point(force: Array, moment: Array, up: Array, height: float,
                      weight: float) -> Array:
    """Point on the ground about which forces have no horizontal moment.

    For the forces that balance gravity and the rate of the centroidal momentum, it is the zero
    moment point (Vukobratovic and Borovac 2004); for those of contacts, the center of pressure, if
    all contacts are on the ground (Sardain and Bessonnet 2004).

    `force` is the sum of the forces [N], `moment` theirs about the origin [N m], `up` the unit
    normal of the ground, which is `height` above the origin [m]. Forces that hardly push up,
    compared with the `weight` of the robot [N], are `Rejected`.
    """
    vertical = float(force @ up)
    if not vertical > LEAST_SUPPORT * weight:
        raise Rejected(f"the ground exerts a vertical force of {vertical:.6g} N, expected more "
                       f"than {LEAST_SUPPORT:g} of the weight, {weight:.6g} N")
    point = (np.cross(up, moment) + height * force) / vertical
    if not np.isfinite(point).all():
        raise Rejected(f"the forces of the ground, {vertical:.6g} N up, are too large to compute "
                       "with")
    return point


def moment_about_origin(forces: Array, points: Array) -> Array:
    """Sum of wrenches (n, 6) that act at points (n, 3), about the origin: force and moment (6,)."""
    total: Array = forces.sum(axis=0)
    total[3:] += np.cross(points, forces[:, :3]).sum(axis=0)
    return total


def convex_hull(points: Array) -> Array:
    """Corners of the convex hull of points (n, 2), counterclockwise (Andrew 1979).

    Without points on an edge; both ends if all points are on one line.
    """
    ordered = np.unique(points, axis=0)         # sorted by x, then by y
    if len(ordered) < 3:
        return ordered
    least = _ROUNDING * float(np.abs(ordered).max())
    return np.array(_chain(ordered, least)[:-1] + _chain(ordered[::-1], least)[:-1])


def _chain(points: Array, least: float) -> list[Array]:
    """Return the corners from the first to the last point, at which the chain turns left."""
    corners: list[Array] = []
    for point in points:
        while len(corners) > 1 and _distance(corners[-2], corners[-1], point) <= least:
            corners.pop()
        corners.append(point)
    return corners


def _distance(a: Array, b: Array, c: Array) -> float:
    """How far b is to the right of the line from a to c."""
    along, toward = c - a, b - a
    return float((toward[0] * along[1] - toward[1] * along[0]) / math.hypot(*along))
