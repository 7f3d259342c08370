# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The logarithm of a placement and its derivative, for kernels, without branches; NumPy: lie.py.

Murray, Li and Sastry, A Mathematical Introduction to Robotic Manipulation (1994), appendix A;
Bullo and Murray, "Proportional derivative (PD) control on the Euclidean group" (1995).
"""

import math

from ..machine_code.declare import kernel
from .algebra import Motion, add, cross, dot, motion_add, motion_cross, motion_scale, scale, sub
from .lanes import select_above, sincos, sqrt

_MIN_DIVISOR = 1e-300
_MAX_SERIES_SQUARE = 0.1  # rad2; below it, the first omitted term of a series is 1e-16
# Coefficients of powers of x2: (1 - x/2 cot(x/2)) / x2, and the factors of ad^2 and ad^4
_THIRD = (
    1 / 12,
    1 / 720,
    1 / 30240,
    1 / 1209600,
    1 / 47900160,
    691 / 1307674368000,
    1 / 74724249600,
)
_SQUARE = tuple((1 - n) * b for n, b in enumerate(_THIRD))
_FOURTH = tuple(-(n + 1) * b for n, b in enumerate(_THIRD[1:]))


@kernel
def _polynomial(x2, coefficients):
    """Return the sum of coefficients[n] x2^n, by Horner's method."""
    total = coefficients[len(coefficients) - 1] + 0.0 * x2  # a number of the type of x2
    for n in range(len(coefficients) - 2, -1, -1):
        total = coefficients[n] + x2 * total
    return total


@kernel
def half_angle(s, c):
    """Return the angle in [0, pi/2] with sine s and cosine c.

    An approximation within 0.004 is corrected by the arcsine of the sine of its error.
    """
    swapped = select_above(s, c, s, c)
    z = select_above(s, c, c, s) / swapped
    a = z * (0.25 * math.pi + 0.273 * (1.0 - z))
    a = select_above(s, c, 0.5 * math.pi - a, a)
    sin_a, cos_a = sincos(a)
    e = s * cos_a - c * sin_a
    return a + e * (1.0 + e * e * (1.0 / 6.0 + e * e * (3.0 / 40.0)))


@kernel
def rotation_quaternion(R):
    """Return the unit quaternion (x, y, z, w), w >= 0, of a rotation matrix, for every angle.

    Each row of 4 q q' is a multiple of q; the longest one is used.
    """
    squares = (R[0] - R[4] - R[8], R[4] - R[8] - R[0], R[8] - R[0] - R[4], R[0] + R[4] + R[8])
    xy, yz, xz = R[1] + R[3], R[5] + R[7], R[2] + R[6]
    x, y, z = R[7] - R[5], R[2] - R[6], R[3] - R[1]
    rows = (
        (1.0 + squares[0], xy, xz, x),
        (xy, 1.0 + squares[1], yz, y),
        (xz, yz, 1.0 + squares[2], z),
        (x, y, z, 1.0 + squares[3]),
    )
    q, longest = rows[3], squares[3]
    for n in range(3):
        row = rows[n]
        q = (
            select_above(squares[n], longest, row[0], q[0]),
            select_above(squares[n], longest, row[1], q[1]),
            select_above(squares[n], longest, row[2], q[2]),
            select_above(squares[n], longest, row[3], q[3]),
        )
        longest = select_above(squares[n], longest, squares[n], longest)
    length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    s = select_above(0.0, q[3], -1.0, 1.0) / length
    return s * q[0], s * q[1], s * q[2], s * q[3]


@kernel
def log3(R):
    """Return the rotation vector of R, of length up to pi."""
    x, y, z, w = rotation_quaternion(R)
    s = sqrt(x * x + y * y + z * z)
    k = select_above(s, 1e-150, 2.0 * half_angle(s, w) / (s + _MIN_DIVISOR), 2.0)
    return k * x, k * y, k * z


@kernel
def _third(x2):
    """Return (1 - x/2 cot(x/2)) / x2."""
    x = sqrt(x2)
    s, c = sincos(0.5 * x)
    exact = (1.0 - 0.5 * x * c / (s + _MIN_DIVISOR)) / (x2 + _MIN_DIVISOR)
    return select_above(x2, _MAX_SERIES_SQUARE, exact, _polynomial(x2, _THIRD))


@kernel
def log6(X):
    """Return the motion that moves the identity to X in one unit of time."""
    w, p = log3(X.rotation), X.translation
    wp = cross(w, p)
    return Motion(add(sub(p, scale(0.5, wp)), scale(_third(dot(w, w)), cross(w, wp))), w)


@kernel
def log6_rate(m, d):
    """Return the derivative of m = log6(X), if X moves along d: X exp(t d).

    d + ad d / 2 + a ad^2 d + b ad^4 d, with ad = m x, and a and b such that the polynomial and
    its derivative agree with z / (1 - exp(-z)) at the eigenvalues of ad.
    """
    x2 = dot(m.angular, m.angular)
    x = sqrt(x2)
    s, c = sincos(0.5 * x)
    cot = c / (s + _MIN_DIVISOR)
    g = 0.5 * x * cot - 1.0
    slope = 0.25 * x * cot - 0.125 * x2 / (s * s + _MIN_DIVISOR)  # dg/dx x2
    a = select_above(
        x2, _MAX_SERIES_SQUARE, (slope - 2.0 * g) / (x2 + _MIN_DIVISOR), _polynomial(x2, _SQUARE)
    )
    b = select_above(
        x2, _MAX_SERIES_SQUARE, (slope - g) / (x2 * x2 + _MIN_DIVISOR), _polynomial(x2, _FOURTH)
    )
    ad = motion_cross(m, d)
    ad2 = motion_cross(m, ad)
    ad4 = motion_cross(m, motion_cross(m, ad2))
    return motion_add(
        motion_add(d, motion_scale(0.5, ad)), motion_add(motion_scale(a, ad2), motion_scale(b, ad4))
    )
