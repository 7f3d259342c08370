# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shapes that show dynamics: ellipsoids, boxes, curved arrows, as plain arrays. No ROS here."""
import numpy as np

ELLIPSOID = 2.0 * 5.0 ** 0.5    # diameter of a homogeneous ellipsoid over the spread of its mass
BOX = 12.0 ** 0.5               # the same of a box, its edge
FULL_ARC = 1.5 * np.pi          # angle of the longest curved arrow [rad]
ARC_STEP = FULL_ARC / 12.0      # largest angle between two points of a curved arrow [rad]
FLATTEST = 0.02                 # shortest axis of a force ellipsoid over its longest, at least

_STEPS = np.arange(1 + round(FULL_ARC / ARC_STEP))


def principal_spread(mass, rotational):
    """How far a body's mass spreads along its principal axes.

    A moment of inertia is the sum of the second moments of mass along the two other axes, so
    along axis k the mean square distance is (trace / 2 - I_k) / mass.

    Parameters
    ----------
    mass : (...) array_like
        Above zero [kg].
    rotational : (..., 3, 3) array_like
        Rotational inertia about the center of mass [kg m2].

    Returns
    -------
    spread : (..., 3) ndarray
        Root mean square distance [m] along each axis; zero where no body has such an inertia.
        Times `ELLIPSOID` or `BOX`: the widths of the homogeneous body with this inertia.
    axes : (..., 3, 3) ndarray
        A rotation whose columns are those axes.
    """
    moments, axes = np.linalg.eigh(rotational)
    squares = 0.5 * moments.sum(-1, keepdims=True) - moments
    spread = np.sqrt(np.maximum(squares, 0.0) / np.asarray(mass)[..., None])
    return spread, _right_handed(axes)


def velocity_ellipsoid(J):
    """Velocities of a point for joint velocities of norm 1 (Yoshikawa 1985).

    Parameters
    ----------
    J : (3, n) array_like
        The point's linear Jacobian.

    Returns
    -------
    half : (3,) ndarray
        Half axes, the longest first: the singular values of J.
    axes : (3, 3) ndarray
        A rotation whose columns are their directions.
    """
    axes, values, _ = np.linalg.svd(J)
    half = np.zeros(3)
    half[:len(values)] = values
    return half, _right_handed(axes)


def force_half_axes(half):
    """Half axes of the forces at a point for joint torques of norm 1 (Yoshikawa 1985).

    The axes are those of `velocity_ellipsoid`, the lengths the inverses of its half axes. Along an
    axis that the point cannot move, any force needs no torque: no length is more than
    1 / `FLATTEST` times the shortest.
    """
    return 1.0 / np.maximum(half, FLATTEST * half[0]) if half[0] > 0.0 else np.zeros(3)


def across(axes):
    """Two unit vectors, (n, 3) each, that make right-handed axes with unit vectors (n, 3).

    Duff et al. (2017), Building an Orthonormal Basis, Revisited.
    """
    x, y, z = np.asarray(axes, float).T
    up = np.copysign(1.0, z)
    a = -1.0 / (up + z)
    b = a * x * y
    return (np.stack([1.0 + up * a * x * x, up * b, -up * x], axis=-1),
            np.stack([b, up + a * y * y, -y], axis=-1))


def curved_arrows(centers, first, second, radii, angles):
    """Points of arrows that turn about axes, each as one line that begins with its head.

    Parameters
    ----------
    centers : (n, 3) ndarray
    first, second : (n, 3) ndarray
        Unit vectors across each axis: where the arrow begins, and where it has come after a
        quarter turn in the positive sense.
    radii, angles : (n,) array_like
        How far away and how far about the axis [m, rad], up to `FULL_ARC`.

    Returns
    -------
    points : (n, k, 3) ndarray
    counts : (n,) ndarray of int
        How many of them are an arrow's: the first three are the barbs with the tip between them,
        the others the arc from the tip back to where it begins.
    """
    radii, angles = np.asarray(radii, float)[:, None], np.asarray(angles, float)[:, None]
    tip = np.cos(angles) * first + np.sin(angles) * second
    ahead = np.sign(angles) * (np.cos(angles) * second - np.sin(angles) * first)
    size = radii * np.minimum(0.35, 0.5 * abs(angles))
    end = centers + radii * tip
    back = end - size * ahead
    steps = np.maximum(np.ceil(abs(angles) / ARC_STEP - 1e-9), 1.0)
    turned = (angles * np.maximum(1.0 - _STEPS / steps, 0.0))[..., None]
    points = np.empty((len(centers), 3 + len(_STEPS), 3))
    points[:, 0] = back + 0.5 * size * tip
    points[:, 1] = end
    points[:, 2] = back - 0.5 * size * tip
    points[:, 3:] = centers[:, None] + radii[..., None] * (
        np.cos(turned) * first[:, None] + np.sin(turned) * second[:, None])
    return points, 4 + steps[:, 0].astype(int)


def on_ground(point, up, height):
    """Where a line along `up` through a point meets the plane at this height along it."""
    return point + (height - point @ up) * up


def upward(gravity):
    """The unit vector against gravity; z where there is none."""
    size = np.linalg.norm(gravity)
    return -np.asarray(gravity) / size if size > 0.0 else np.array([0.0, 0.0, 1.0])


def _right_handed(axes):
    """Columns as a rotation: the first one turned round where they are left-handed."""
    axes = axes.copy()
    axes[..., 0] *= np.sign(np.linalg.det(axes))[..., None]
    return axes
