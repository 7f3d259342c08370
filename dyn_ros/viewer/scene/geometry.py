# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Geometry of the markers that visualize dynamics, as plain arrays: ellipsoids, boxes, arrows.

Independent of ROS.
"""

from __future__ import annotations

import numpy as np

from dyn_ros.engine.kernel.lie import matrix_quaternion
from dyn_ros.engine.kernel.types import Array, ArrayLike

ELLIPSOID_WIDTH = 2.0 * 5.0**0.5  # diameter of a homogeneous ellipsoid / spread of its mass
BOX_WIDTH = 12.0**0.5  # edge of a homogeneous box / spread of its mass
MAX_ARC = 1.5 * np.pi  # rad; angle of the longest curved arrow
ARC_STEPS = 18  # straight segments of the arc of a curved arrow
CURVED_ARROW_POINTS = 3 + 1 + ARC_STEPS  # three points of the head, then the arc
CONE_EDGES = 8  # straight lines from the apex of a cone to its rim
OUTLINE_STEPS = 24  # straight segments of a circle; a multiple of 4
RIM_STEPS = 4  # straight segments of the rim between two edges
MIN_AXIS_RATIO = 0.02  # shortest / longest axis of a force ellipsoid

_ARC_FRACTIONS = np.linspace(1.0, 0.0, 1 + ARC_STEPS)  # 1: tip, 0: start


def principal_spread(mass: float | ArrayLike, rotational: ArrayLike) -> tuple[Array, Array]:
    """Return the spread (..., 3) of a body's mass along its principal axes, and these axes.

    The axes are the columns of a rotation (..., 3, 3). A moment of inertia about the center of mass
    [kg m2] is the sum of the second moments along the two other axes, so the mean square distance
    along axis k is (trace / 2 - I_k) / mass. The spread is its root [m], zero if the inertia is not
    physical. Multiplied by `ELLIPSOID_WIDTH` or `BOX_WIDTH`, it is the width of the homogeneous
    body with this inertia.
    """
    moments, axes = np.linalg.eigh(rotational)
    second_moments = 0.5 * moments.sum(-1, keepdims=True) - moments
    spread = np.sqrt(np.maximum(second_moments, 0.0) / np.asarray(mass)[..., None])
    return spread, _right_handed(axes)


def velocity_ellipsoid(J: ArrayLike) -> tuple[Array, Array]:
    """Return the ellipsoid of a point's velocities for joint velocities of norm 1.

    `J` is the linear Jacobian (3, n) of the point. Returned are semi-axes (3,) in descending order,
    and a rotation whose columns are their directions. Yoshikawa (1985), Manipulability of Robotic
    Mechanisms.
    """
    axes, singular_values, _ = np.linalg.svd(J)
    semi_axes = np.zeros(3)
    semi_axes[: len(singular_values)] = singular_values
    return semi_axes, _right_handed(axes)


def force_semi_axes(semi_axes: Array) -> Array:
    """Return the semi-axes of the force ellipsoid at a point, for joint torques of norm 1.

    The directions and the passed semi-axes (3,) are from `velocity_ellipsoid`. The lengths
    are their inverses, at most 1 / `MIN_AXIS_RATIO` times the shortest one: where the point cannot
    move, a force requires no torque. Yoshikawa (1985).
    """
    if semi_axes[0] > 0.0:
        return 1.0 / np.maximum(semi_axes, MIN_AXIS_RATIO * semi_axes[0])
    return np.zeros(3)


def perpendicular_vectors(axes: ArrayLike) -> tuple[Array, Array]:
    """Return two unit vectors, (n, 3) each, that form right-handed axes with unit vectors (n, 3).

    Duff et al. (2017), Building an Orthonormal Basis, Revisited.
    """
    x, y, z = np.asarray(axes, float).T
    sign = np.copysign(1.0, z)
    a = -1.0 / (sign + z)
    b = a * x * y
    first, second = np.empty((len(x), 3)), np.empty((len(x), 3))
    first[:, 0], first[:, 1], first[:, 2] = 1.0 + sign * a * x * x, sign * b, -sign * x
    second[:, 0], second[:, 1], second[:, 2] = b, sign + a * y * y, -y
    return first, second


def curved_arrow_points(
    centers: Array, first: Array, second: Array, radii: ArrayLike, angles: ArrayLike
) -> Array:
    """Return points (n, CURVED_ARROW_POINTS, 3) of arrows curved about axes, each as one line.

    `first` and `second` (n, 3) are unit vectors perpendicular to each axis: where the arrow starts,
    and a quarter turn further. Angles about the axis [rad] are up to `MAX_ARC`. The first three
    points are the barbs with the tip between them, the others the arc from the tip to the start.
    """
    radii, angles = np.asarray(radii, float)[:, None], np.asarray(angles, float)[:, None]
    arc = (angles * _ARC_FRACTIONS)[:, None]  # components before points: long rows are fast
    cos, sin = np.cos(arc), np.sin(arc)
    radial = cos[..., 0] * first + sin[..., 0] * second  # at the tip
    tangent = np.sign(angles) * (cos[..., 0] * second - sin[..., 0] * first)
    head_length = radii * np.minimum(0.35, 0.5 * abs(angles))
    tip, barb = centers + radii * radial, 0.5 * head_length * radial
    head_base = tip - head_length * tangent
    points = np.empty((len(centers), 3, CURVED_ARROW_POINTS))
    points[..., 0], points[..., 1], points[..., 2] = head_base + barb, tip, head_base - barb
    points[..., 3:] = centers[..., None] + radii[..., None] * (
        cos * first[..., None] + sin * second[..., None]
    )
    return points.transpose(0, 2, 1)


def cone_outline(up: Array, height: float, radius: float) -> Array:
    """Return one line (k, 3) along the edges and the rim of a cone with its apex at the origin [m].

    `up` is a unit vector from the apex to the center of the rim. Between two edges, the line
    follows the rim, then returns to the apex.
    """
    first, second = (vectors[0] for vectors in perpendicular_vectors(up[None]))
    edges = np.arange(CONE_EDGES)[:, None] + np.linspace(0.0, 1.0, 1 + RIM_STEPS)
    angles = (2.0 * np.pi / CONE_EDGES * edges)[..., None]
    rim = height * up + radius * (np.cos(angles) * first + np.sin(angles) * second)
    return np.concatenate([rim, np.zeros((CONE_EDGES, 1, 3))], axis=1).reshape(-1, 3)


def ellipsoid_outline() -> Array:
    """Return points (n, 3) of a line along the principal circles of the unit sphere."""
    circle = np.linspace(0.0, 2.0 * np.pi, 1 + OUTLINE_STEPS)
    arc = np.linspace(0.0, 2.5 * np.pi, 1 + 5 * OUTLINE_STEPS // 4)  # it ends on the third circle
    zeros, arc_zeros = np.zeros_like(circle), np.zeros_like(arc)
    return np.concatenate(
        [
            np.stack([np.cos(circle), np.sin(circle), zeros], axis=1),
            np.stack([np.cos(arc), arc_zeros, np.sin(arc)], axis=1),
            np.stack([zeros, np.sin(circle), np.cos(circle)], axis=1),
        ]
    )


def box_outline() -> Array:
    """Return points (n, 3) of a line along the edges of the cube from -1 to 1."""
    corners = np.array([0, 1, 3, 2, 0, 4, 5, 1, 5, 7, 3, 7, 6, 2, 6, 4])
    return np.array(2.0 * (corners[:, None] >> np.arange(3) & 1) - 1.0)


def is_outside_cone(vectors: Array, up: Array, coefficient: float) -> Array:
    """Return True for each vector (n, 3) outside the friction cone of a coefficient about `up`."""
    normal = vectors @ up
    tangential = np.linalg.norm(vectors - np.multiply.outer(normal, up), axis=-1)
    return tangential > coefficient * normal


def z_axis_quaternion(axis: Array) -> Array:
    """Return the quaternion (4,) of a rotation whose z axis is a unit vector (3,)."""
    first, second = (vectors[0] for vectors in perpendicular_vectors(axis[None]))
    return matrix_quaternion(np.stack([first, second, axis], axis=-1))


def project_to_ground(point: Array, up: Array, height: float) -> Array:
    """Project a point along `up` onto the plane at this height."""
    return point + (height - point @ up) * up


def up_direction(gravity: ArrayLike) -> Array:
    """Return the unit vector opposite to gravity; z if gravity is zero."""
    norm = np.linalg.norm(gravity)
    return -np.asarray(gravity) / norm if norm > 0.0 else np.array([0.0, 0.0, 1.0])


def _right_handed(axes: Array) -> Array:
    """Return orthonormal columns as a rotation: negate the first one if they are left-handed."""
    axes = axes.copy()
    axes[..., 0] *= np.sign(np.linalg.det(axes))[..., None]
    return axes
