# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inertial parameters of rigid bodies: their pseudo-inertia, coordinates and distances.

The ten parameters of a body are m [kg], m cx, m cy, m cz [kg m], Ixx, Ixy, Iyy, Ixz, Iyz, Izz
about the frame's origin [kg m2], in Pinocchio's order; the dynamics is linear in them. All
functions take one body or arrays with any leading axes.

A body with these parameters exists if and only if its pseudo-inertia, a symmetric 4 x 4 matrix, is
positive semidefinite (Wensing, Kim and Slotine 2018). It is positive definite unless the mass is
in one plane.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..kernel.types import Array, ArrayLike, Scalar
from ..kernel.validation import shaped_array

# Tolerances of `is_physical` for the least eigenvalue of the second moments about the center of
# mass, relative to the largest squared distance: of gyration, or from the origin to this center.
_MIN_EIGENVALUE = 1e-12  # a body below it counts as on the boundary
_BOUNDARY_TOLERANCE = 1e-9  # equals the tolerance of Inertia.inconsistencies

__all__ = [
    "d_from_log_cholesky",
    "entropic_divergence",
    "from_log_cholesky",
    "from_pseudo_inertia",
    "is_physical",
    "log_cholesky",
    "pseudo_inertia",
    "riemannian_distance",
]

_ROWS, _COLUMNS = np.array([0, 1, 2, 0, 1, 0, 0, 1, 2]), np.array([0, 1, 2, 1, 2, 2, 3, 3, 3])
"""Rows and columns of d1 d2 d3, s12 s23 s13, t1 t2 t3 in the triangular factor."""


def pseudo_inertia(parameters: ArrayLike) -> Array:
    """Compute the second moments of the mass about the origin, [integral of r r' dm, m c; m c', m].

    Wensing, Kim and Slotine (2018).

    Returns
    -------
    (..., 4, 4) ndarray
        [kg m2, kg m, kg]; linear in the parameters.

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> P = dyn_ros.pseudo_inertia(body)
    >>> P.shape, float(P[3, 3])                               # the last entry is the mass
    ((4, 4), 2.0)
    """
    return _pseudo_inertia(shaped_array("parameters", parameters, (10,), leading=True))


def _pseudo_inertia(parameters: Array) -> Array:
    """Return pseudo-inertias (..., 4, 4) of parameters (..., 10)."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = np.moveaxis(parameters, -1, 0)
    rows = [
        [0.5 * (yy + zz - xx), -xy, -xz, hx],
        [-xy, 0.5 * (xx + zz - yy), -yz, hy],
        [-xz, -yz, 0.5 * (xx + yy - zz), hz],
        [hx, hy, hz, m],
    ]
    return np.stack([np.stack(row, -1) for row in rows], -2)


def from_pseudo_inertia(matrix: ArrayLike) -> Array:
    """Convert a pseudo-inertia to parameters; the inverse of ``pseudo_inertia``.

    Parameters
    ----------
    matrix : (..., 4, 4) array_like
        Symmetric [kg m2, kg m, kg].

    Returns
    -------
    (..., 10) ndarray
        m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz [kg, kg m, kg m2].

    Raises
    ------
    ValueError
        Wrong shape, a number that is not finite, or a matrix that is not symmetric.

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> np.allclose(dyn_ros.from_pseudo_inertia(dyn_ros.pseudo_inertia(body)), body)
    True
    """
    P = shaped_array("matrix", matrix, (4, 4), leading=True)
    transposed = P.swapaxes(-1, -2)
    asymmetry, largest = (np.abs(x).max((-1, -2)) for x in (P - transposed, P))
    if (asymmetry > 1e-9 * largest).any():
        raise ValueError(
            "matrix: expected a symmetric matrix, got one that differs from its "
            f"transpose by {asymmetry.max():.3g}"
        )
    return _from_pseudo_inertia(0.5 * (P + transposed))


def _from_pseudo_inertia(P: Array) -> Array:
    """Return parameters (..., 10) of pseudo-inertias (..., 4, 4)."""
    xx, yy, zz = P[..., 0, 0], P[..., 1, 1], P[..., 2, 2]
    return np.stack(
        [
            P[..., 3, 3],
            P[..., 0, 3],
            P[..., 1, 3],
            P[..., 2, 3],
            yy + zz,
            -P[..., 0, 1],
            xx + zz,
            -P[..., 0, 2],
            -P[..., 1, 2],
            xx + yy,
        ],
        -1,
    )


def is_physical(parameters: ArrayLike, *, boundary: bool = False) -> bool | NDArray[np.bool_]:
    """Return True if a body with these parameters exists; Wensing, Kim and Slotine (2018).

    Parameters
    ----------
    boundary : bool
        False: the pseudo-inertia must be positive definite, beyond rounding errors, so that
        ``log_cholesky`` exists. True: it may be semidefinite, within a rounding error of 1e-9: the
        mass may be in a plane (a flat plate), on a line or in a point, and it may be zero.

    Returns
    -------
    bool or (...) ndarray of bool

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> bool(dyn_ros.is_physical(body))
    True
    >>> body[4] = 1.0                                         # Ixx more than Iyy + Izz
    >>> bool(dyn_ros.is_physical(body))
    False
    """
    P = pseudo_inertia(parameters)
    m, h, second = P[..., 3, 3], P[..., 3, :3], P[..., :3, :3]
    divisor = np.where(m > 0.0, m, 1.0)[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        com = h / divisor
        about_com = second / divisor[..., None] - com[..., :, None] * com[..., None, :]
        size = np.maximum(np.abs(about_com).max((-1, -2)), (com * com).sum(-1))
    in_range = np.isfinite(size)  # False after an overflow
    least_eigenvalue = np.linalg.eigvalsh(np.where(in_range[..., None, None], about_com, 0.0))[
        ..., 0
    ]
    if boundary:
        massless = (m == 0.0) & ~h.any(-1)
        result = (
            ((m > 0.0) | massless) & in_range & (least_eigenvalue >= -_BOUNDARY_TOLERANCE * size)
        )
    else:
        result = (m > 0.0) & in_range & (least_eigenvalue > _MIN_EIGENVALUE * size)
    return result if result.ndim else bool(result)


def log_cholesky(parameters: ArrayLike) -> Array:
    """Compute unconstrained coordinates of bodies that exist; Rucker and Wensing (2022).

    Each ten finite numbers are a body whose pseudo-inertia is positive definite, and conversely.
    They are the logarithms and the other entries of its triangular factor,
    P = U U', U = exp(alpha) [exp(d1), s12, s13, t1; 0, exp(d2), s23, t2; 0, 0, exp(d3), t3;
    0, 0, 0, 1].

    Returns
    -------
    (..., 10) ndarray
        alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3. The last six are lengths [m]; t is the
        center of mass, exp(2 alpha) the mass [kg].

    Raises
    ------
    ValueError
        Wrong shape, a number that is not finite, or parameters that are not physical (see
        ``is_physical``).

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> x = dyn_ros.log_cholesky(body)
    >>> np.allclose(dyn_ros.from_log_cholesky(x), body), round(float(np.exp(2.0 * x[0])), 6)
    (True, 2.0)
    """
    return _log_cholesky_of_argument("parameters", parameters)


def _log_cholesky_of_argument(name: str, parameters: ArrayLike) -> Array:
    """Compute ``log_cholesky`` of an argument with this name."""
    array = shaped_array(name, parameters, (10,), leading=True)
    physical: NDArray[np.bool_] = np.asarray(is_physical(array))
    if not physical.all():
        index = "".join(f"[{i}]" for i in np.argwhere(~physical)[0])
        raise ValueError(
            f"{name}{index}: expected a positive definite pseudo-inertia, got "
            f"{array[~physical][0].tolist()}; is_physical finds these bodies"
        )
    m = array[..., 0]
    t = array[..., 1:4] / m[..., None]
    C = _pseudo_inertia(array)[..., :3, :3] / m[..., None, None] - t[..., :, None] * t[..., None, :]
    u3 = np.sqrt(C[..., 2, 2])
    s23, s13 = C[..., 1, 2] / u3, C[..., 0, 2] / u3
    u2 = np.sqrt(C[..., 1, 1] - s23 * s23)
    s12 = (C[..., 0, 1] - s13 * s23) / u2
    u1 = np.sqrt(C[..., 0, 0] - s12 * s12 - s13 * s13)
    return np.stack(
        [
            0.5 * np.log(m),
            np.log(u1),
            np.log(u2),
            np.log(u3),
            s12,
            s23,
            s13,
            t[..., 0],
            t[..., 1],
            t[..., 2],
        ],
        -1,
    )


def from_log_cholesky(coordinates: ArrayLike) -> Array:
    """Convert coordinates to parameters; the inverse of ``log_cholesky``.

    Returns
    -------
    (..., 10) ndarray
        m, m cx, m cy, m cz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz [kg, kg m, kg m2].

    Examples
    --------
    >>> body = dyn_ros.from_log_cholesky(np.zeros(10))        # any ten numbers are a body
    >>> bool(dyn_ros.is_physical(body)), float(body[0])
    (True, 1.0)
    """
    U = _upper_factor(shaped_array("coordinates", coordinates, (10,), leading=True))
    return _from_pseudo_inertia(U @ U.swapaxes(-1, -2))


def d_from_log_cholesky(coordinates: ArrayLike) -> Array:
    """Compute the derivative of ``from_log_cholesky`` with respect to the coordinates.

    Returns
    -------
    (..., 10, 10) ndarray
        Its columns are the derivatives of the parameters with respect to each coordinate.

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> x = dyn_ros.log_cholesky(body)
    >>> D, h = dyn_ros.d_from_log_cholesky(x), 1e-6 * np.eye(10)
    >>> change = (dyn_ros.from_log_cholesky(x + h) - dyn_ros.from_log_cholesky(x - h)) / 2e-6
    >>> np.allclose(D, change.T)
    True
    """
    U = _upper_factor(shaped_array("coordinates", coordinates, (10,), leading=True))
    dU = np.zeros((*U.shape[:-2], 10, 4, 4))
    dU[..., 0, :, :] = U
    n, d = np.arange(9), np.arange(3)
    dU[..., 1 + n, _ROWS, _COLUMNS] = U[..., 3, 3, None]
    dU[..., 1 + d, d, d] = U[..., d, d]
    half_derivative = dU @ U.swapaxes(-1, -2)[..., None, :, :]
    return _from_pseudo_inertia(half_derivative + half_derivative.swapaxes(-1, -2)).swapaxes(-1, -2)


def _upper_factor(coordinates: Array) -> Array:
    """Compute the upper triangular factor U of the pseudo-inertia U U'."""
    U = np.zeros((*coordinates.shape[:-1], 4, 4))
    U[..., 3, 3] = 1.0
    U[..., _ROWS, _COLUMNS] = np.concatenate(
        [np.exp(coordinates[..., 1:4]), coordinates[..., 4:]], -1
    )
    return U * np.exp(coordinates[..., 0])[..., None, None]


def entropic_divergence(parameters: ArrayLike, reference: ArrayLike) -> Scalar:
    """Compute the entropic divergence of a body from a reference; Lee, Wensing and Park (2020).

    tr(P P0^-1) - log det(P P0^-1) - 4 for the pseudo-inertias P and P0: the Bregman divergence of
    -log det, convex in the parameters. It is infinite on the boundary of what is physical, and
    independent of the units and of the frame in which both are expressed.

    Returns
    -------
    float or (...) ndarray
        0 if they are equal, otherwise positive.

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> print(dyn_ros.entropic_divergence([body, 1.1 * body], body).round(4) + 0.0)
    [0.     0.0188]
    """
    excess = _eigenvalue_ratios(parameters, reference) - 1.0
    return _float_or_array((excess - np.log1p(excess)).sum(-1))


def riemannian_distance(parameters: ArrayLike, reference: ArrayLike) -> Scalar:
    """Compute the affine-invariant distance of two bodies; Lee and Park (2018).

    The Frobenius norm of log(P0^-1/2 P P0^-1/2) for the pseudo-inertias P and P0: a metric that is
    independent of the units and of the frame in which both are expressed.

    Returns
    -------
    float or (...) ndarray
        Symmetric; without units.

    Examples
    --------
    >>> body = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3]).dynamic_parameters()
    >>> there, back = (dyn_ros.riemannian_distance(*pair) for pair in (
    ...     (body, 1.1 * body), (1.1 * body, body)))
    >>> print(round(float(there), 4), round(float(back), 4))
    0.1906 0.1906
    """
    return _float_or_array(
        np.sqrt((np.log(_eigenvalue_ratios(parameters, reference)) ** 2).sum(-1))
    )


def _eigenvalue_ratios(parameters: ArrayLike, reference: ArrayLike) -> Array:
    """Compute the eigenvalues of P P0^-1, ascending."""
    U, U0 = (
        _upper_factor(_log_cholesky_of_argument(name, body))
        for name, body in (("parameters", parameters), ("reference", reference))
    )
    singular = np.linalg.svd(np.linalg.solve(*np.broadcast_arrays(U0, U)), compute_uv=False)
    return singular[..., ::-1] ** 2


def _float_or_array(array: Array) -> Scalar:
    return array if array.ndim else float(array)
