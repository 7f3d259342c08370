# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shapes that visualize dynamics, as plain arrays: ellipsoids, boxes, arrows.

Independent of ROS.
"""

from __future__ import annotations

import numpy as np

from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.kernel.types import Array, ArrayLike

ELLIPSOID = 2.0 * 5.0**0.5  # diameter of a homogeneous ellipsoid / spread of its mass
BOX = 12.0**0.5  # edge of a homogeneous box / spread of its mass
FULL_ARC = 1.5 * np.pi  # angle of the longest curved arrow [rad]
ARC_STEPS = 12  # straight segments of the arc of a curved arrow
CURVED_POINTS = 3 + 1 + ARC_STEPS  # of a curved arrow, including its head
CONE_EDGES = 8  # straight lines from the apex of a cone to its rim
RIM_STEPS = 4  # straight segments of the rim between two of them
FLATTEST = 0.02  # smallest ratio of the shortest to the longest axis of a force
#                                 ellipsoid

_BACK = np.linspace(1.0, 0.0, 1 + ARC_STEPS)  # of the angle, from the tip back to the start


def principal_spread(mass: float | ArrayLike, rotational: ArrayLike) -> tuple[Array, Array]:
    """Spread (..., 3) of a body's mass along its principal axes, columns of a rotation (..., 3, 3).

    A moment of inertia about the center of mass [kg m2] is the sum of the second moments along the
    two other axes, so the mean square distance along axis k is (trace / 2 - I_k) / mass. The spread
    is its root [m], zero if the inertia is not physical. Multiplied by `ELLIPSOID` or `BOX`, it is
    the width of the homogeneous body with this inertia.
    """
    moments, axes = np.linalg.eigh(rotational)
    squares = 0.5 * moments.sum(-1, keepdims=True) - moments
    spread = np.sqrt(np.maximum(squares, 0.0) / np.asarray(mass)[..., None])
    return spread, _right_handed(axes)


def velocity_ellipsoid(J: ArrayLike) -> tuple[Array, Array]:
    """Velocities of a point for joint velocities of norm 1 (Yoshikawa 1985).

    From its linear Jacobian (3, n): semi-axes (3,) in descending order, and a rotation whose
    columns are their directions.
    """
    axes, values, _ = np.linalg.svd(J)
    half = np.zeros(3)
    half[: len(values)] = values
    return half, _right_handed(axes)


def force_half_axes(half: Array) -> Array:
    """Semi-axes of the force ellipsoid at a point, for joint torques of norm 1 (Yoshikawa 1985).

    The axes are those of `velocity_ellipsoid`, the lengths the inverses, limited to 1 / `FLATTEST`
    times the shortest one: where the point cannot move, a force requires no torque.
    """
    return 1.0 / np.maximum(half, FLATTEST * half[0]) if half[0] > 0.0 else np.zeros(3)


def across(axes: ArrayLike) -> tuple[Array, Array]:
    """Two unit vectors, (n, 3) each, that form right-handed axes with unit vectors (n, 3).

    Duff et al. (2017), Building an Orthonormal Basis, Revisited.
    """
    x, y, z = np.asarray(axes, float).T
    up = np.copysign(1.0, z)
    a = -1.0 / (up + z)
    b = a * x * y
    first, second = np.empty((len(x), 3)), np.empty((len(x), 3))
    first[:, 0], first[:, 1], first[:, 2] = 1.0 + up * a * x * x, up * b, -up * x
    second[:, 0], second[:, 1], second[:, 2] = b, up + a * y * y, -y
    return first, second


def curved_arrows(
    centers: Array, first: Array, second: Array, radii: ArrayLike, angles: ArrayLike
) -> Array:
    """Points (n, CURVED_POINTS, 3) of arrows curved about axes, each as one line.

    `first` and `second` (n, 3) are unit vectors perpendicular to each axis: where the arrow starts,
    and a quarter turn further. Angles about the axis [rad] are up to `FULL_ARC`. The first three
    points are the barbs with the tip between them, the others the arc from the tip to the start.
    """
    radii, angles = np.asarray(radii, float)[:, None], np.asarray(angles, float)[:, None]
    turned = (angles * _BACK)[:, None]  # components before points: long rows are fast
    cos, sin = np.cos(turned), np.sin(turned)
    tip = cos[..., 0] * first + sin[..., 0] * second
    ahead = np.sign(angles) * (cos[..., 0] * second - sin[..., 0] * first)
    size = radii * np.minimum(0.35, 0.5 * abs(angles))
    end, barb = centers + radii * tip, 0.5 * size * tip
    back = end - size * ahead
    points = np.empty((len(centers), 3, CURVED_POINTS))
    points[..., 0], points[..., 1], points[..., 2] = back + barb, end, back - barb
    points[..., 3:] = centers[..., None] + radii[..., None] * (
        cos * first[..., None] + sin * second[..., None]
    )
    return points.transpose(0, 2, 1)


def cone(up: Array, height: float, radius: float) -> Array:
    """One line along the edges and the rim of a cone with its apex at the origin [m].

    `up` is a unit vector from the apex to the center of the rim. Between two edges, the line
    follows the rim, then returns to the apex.
    """
    first, second = (vectors[0] for vectors in across(up[None]))
    edges = np.arange(CONE_EDGES)[:, None] + np.linspace(0.0, 1.0, 1 + RIM_STEPS)
    angles = (2.0 * np.pi / CONE_EDGES * edges)[..., None]
    rim = height * up + radius * (np.cos(angles) * first + np.sin(angles) * second)
    return np.concatenate([rim, np.zeros((CONE_EDGES, 1, 3))], axis=1).reshape(-1, 3)


def outside_cone(vectors: Array, up: Array, coefficient: float) -> Array:
    """Whether each of (n, 3) vectors is outside the friction cone of a coefficient about `up`."""
    along = vectors @ up
    beside = np.linalg.norm(vectors - np.multiply.outer(along, up), axis=-1)
    return beside > coefficient * along


def facing(up: Array) -> Array:
    """The quaternion, (4,), of a rotation whose z axis is a unit vector."""
    first, second = (vectors[0] for vectors in across(up[None]))
    return matrix_quaternion(np.stack([first, second, up], axis=-1))


def on_ground(point: Array, up: Array, height: float) -> Array:
    """Project a point along `up` onto the plane at this height."""
    return point + (height - point @ up) * up


def upward(gravity: ArrayLike) -> Array:
    """Unit vector opposite to gravity; z if gravity is zero."""
    size = np.linalg.norm(gravity)
    return -np.asarray(gravity) / size if size > 0.0 else np.array([0.0, 0.0, 1.0])


def _right_handed(axes: Array) -> Array:
    """Make columns a rotation: negate the first one if they are left-handed."""
    axes = axes.copy()
    axes[..., 0] *= np.sign(np.linalg.det(axes))[..., None]
    return axes
