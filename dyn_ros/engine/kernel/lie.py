# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Exponential and logarithm of rotations and rigid motions, on NumPy arrays; kernels: logarithm.py.

Arrays can have any number of leading batch axes. Rotations are quaternions (x y z w); velocities
are (linear, angular), expressed in the moving frame.

Sola, Deray and Atchuthan (2018), appendices A to D; coefficients near zero use Taylor series.
"""

from collections.abc import Callable
from math import factorial

import numpy as np
from numpy.typing import NDArray

from .types import Array

UNIT_TOLERANCE = 1e-6  # largest error of the squared norm of a quaternion
MAX_SERIES_ANGLE = 1e-2  # rad; below it, four terms of a series are accurate to 1e-16
_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])  # axes, after and before x y z
_JEXP = [
    [(-1) ** k * (k - shift) / factorial(2 * k + odd) for k in range(first, first + 9)]
    for shift, first in ((2, 1), (1, 2))
    for odd in (0, 1)
]


def _polynomial(x2: Array, *coefficients: float) -> Array:
    """Return the sum of coefficients[n] x2^n, by Horner's method."""
    total = np.zeros_like(x2)
    for c in reversed(coefficients):
        total = c + x2 * total
    return total


def _divided(small: NDArray[np.bool_], series: Array, exact: Callable[[], Array]) -> Array:
    """Return the series for small angles, the exact formula for others."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(small, series, exact())


def unit_vector(direction: Array) -> Array:
    """Return the unit vector of a direction that is not zero, without underflow or overflow."""
    direction = direction / np.abs(direction).max()
    return direction / np.linalg.norm(direction)


def cross(a: Array, b: Array) -> Array:
    """Return a x b, (..., 3). For one vector ``np.cross`` takes several times as long."""
    return a.take(_NEXT, -1) * b.take(_LAST, -1) - a.take(_LAST, -1) * b.take(_NEXT, -1)


def quaternion_product(p: Array, q: Array) -> Array:
    """Return the product p q, (..., 4)."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    return np.concatenate(
        [pw * qv + qw * pv + cross(pv, qv), pw * qw - np.sum(pv * qv, -1, keepdims=True)], -1
    )


def conjugate(q: Array) -> Array:
    """Return the inverse of unit quaternions, (..., 4)."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def rotate(q: Array, a: Array) -> Array:
    """Rotate vectors a, (..., 3), by unit quaternions q, (..., 4)."""
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * cross(u, a)
    return a + w * t + cross(u, t)


def _ratio(x: Array, y: Array, limit: float) -> Array:
    """Return x / y, or the limit if y is zero."""
    return np.divide(x, y, out=np.full_like(y, limit), where=y > 0.0)


def quaternion_exp(w: Array) -> Array:
    """Return unit quaternions, (..., 4), of rotation vectors, (..., 3) [rad]."""
    angle = np.linalg.norm(w, axis=-1, keepdims=True)
    half = 0.5 * angle
    return np.concatenate([_ratio(np.sin(half), angle, 0.5) * w, np.cos(half)], -1)


def quaternion_log(q: Array) -> Array:
    """Return rotation vectors, (..., 3), of norm pi at most, of unit quaternions, (..., 4)."""
    q = np.where(q[..., 3:] < 0.0, -q, q)
    n = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    return _ratio(2.0 * np.arctan2(n, q[..., 3:]), n, 2.0) * q[..., :3]


def matrix_quaternion(R: Array) -> Array:
    """Return unit quaternions, (..., 4), w >= 0, of rotation matrices, (..., 3, 3).

    Each row of 4 q q' is a multiple of q; the longest one is accurate for every angle.
    """
    flat = R.reshape(-1, 9)
    x, y, z = flat[:, 0], flat[:, 4], flat[:, 8]
    squares = np.empty((len(flat), 4))  # 4 q_i^2 - 1
    squares[:, 0], squares[:, 1] = x - y - z, y - z - x
    squares[:, 2], squares[:, 3] = z - x - y, x + y + z
    K = np.empty((len(flat), 16))  # rows one after the other
    K[:, 1] = K[:, 4] = flat[:, 1] + flat[:, 3]
    K[:, 2] = K[:, 8] = flat[:, 2] + flat[:, 6]
    K[:, 6] = K[:, 9] = flat[:, 5] + flat[:, 7]
    K[:, 3] = K[:, 12] = flat[:, 7] - flat[:, 5]
    K[:, 7] = K[:, 13] = flat[:, 2] - flat[:, 6]
    K[:, 11] = K[:, 14] = flat[:, 3] - flat[:, 1]
    K[:, ::5] = 1.0 + squares
    q = K.reshape(-1, 4, 4)[np.arange(len(flat)), squares.argmax(-1)]
    norm = np.sqrt((q * q).sum(-1))
    q /= np.where(q[:, 3] < 0.0, -norm, norm)[:, None]
    return q.reshape(*R.shape[:-2], 4)


def se3_exp(twist: Array) -> tuple[Array, Array]:
    """Return translations (..., 3) and unit quaternions (..., 4) of twists (..., 6)."""
    v, w = twist[..., :3], twist[..., 3:]
    x2 = np.sum(w * w, -1, keepdims=True)
    x = np.sqrt(x2)
    small = x < MAX_SERIES_ANGLE
    b = _divided(
        small,
        _polynomial(x2, 1 / 2, -1 / 24, 1 / 720, -1 / 40320),
        lambda: 2.0 * np.sin(0.5 * x) ** 2 / x2,
    )
    c = _divided(
        small,
        _polynomial(x2, 1 / 6, -1 / 120, 1 / 5040, -1 / 362880),
        lambda: (x - np.sin(x)) / (x * x2),
    )
    wv = cross(w, v)
    return v + b * wv + c * cross(w, wv), quaternion_exp(w)


def se3_log(p: Array, q: Array) -> Array:
    """Return twists (..., 6) of translations (..., 3) and unit quaternions (..., 4)."""
    w = quaternion_log(q)
    x2 = np.sum(w * w, -1, keepdims=True)
    x = np.sqrt(x2)
    c = _divided(
        x < MAX_SERIES_ANGLE,
        _polynomial(x2, 1 / 12, 1 / 720, 1 / 30240, 1 / 1209600),
        lambda: (1.0 - 0.5 * x / np.tan(0.5 * x)) / x2,
    )
    wp = cross(w, p)
    return np.concatenate([p - 0.5 * wp + c * cross(w, wp), w], -1)


def se3_jexp(twist: Array) -> Array:
    """Return right Jacobians (..., 6, 6) of exp: exp(x + dx) = exp(x) exp(J dx), to first order.

    Bullo and Murray (1995): the series of (-ad)^k / (k + 1)!, reduced to a polynomial in ad of
    degree 5.
    """
    x2 = np.sum(twist[..., 3:] ** 2, -1)[..., None, None]
    x = np.sqrt(x2)
    s, c = np.sin(x), np.cos(x)
    exact = (
        lambda: (4.0 - x * s - 4.0 * c) / (2.0 * x2),
        lambda: (4.0 * x - 5.0 * s + x * c) / (2.0 * x2 * x),
        lambda: (2.0 - x * s - 2.0 * c) / (2.0 * x2**2),
        lambda: (2.0 * x - 3.0 * s + x * c) / (2.0 * x2**2 * x),
    )
    coefficients = [
        _divided(x < 1.0, _polynomial(x2, *series), function)
        for series, function in zip(_JEXP, exact)
    ]
    identity, minus_ad = np.eye(6), -_ad(twist)
    total = np.zeros_like(minus_ad)
    for a in reversed(coefficients):
        total = minus_ad @ (a * identity + total)
    return identity + total


def se3_jlog(twist: Array) -> Array:
    """Return inverses (..., 6, 6) of ``se3_jexp``: log(exp(x) exp(dx)) = x + J dx + ..."""
    J = se3_jexp(twist)
    J[..., :3, :3] = J[..., 3:, 3:] = np.linalg.inv(J[..., 3:, 3:])
    J[..., :3, 3:] = -J[..., :3, :3] @ J[..., :3, 3:] @ J[..., :3, :3]
    return J


def se3_adjoint(p: Array, q: Array) -> Array:
    """Return adjoint matrices (..., 6, 6) of translations (..., 3) and quaternions (..., 4)."""
    eye, adjoint = np.eye(3), np.zeros((*p.shape[:-1], 6, 6))
    columns = rotate(q[..., None, :], eye)  # the rows of R'
    adjoint[..., :3, :3] = adjoint[..., 3:, 3:] = columns.swapaxes(-1, -2)
    adjoint[..., :3, 3:] = cross(p[..., None, :], columns).swapaxes(-1, -2)
    return adjoint


def _ad(twist: Array) -> Array:
    """Return the matrices ad, with ad m = twist x m."""
    v, w = twist[..., :3], twist[..., 3:]
    eye, ad = np.eye(3), np.zeros((*twist.shape, 6))
    ad[..., :3, :3] = ad[..., 3:, 3:] = cross(w[..., None, :], eye).swapaxes(-1, -2)
    ad[..., :3, 3:] = cross(v[..., None, :], eye).swapaxes(-1, -2)
    return ad
