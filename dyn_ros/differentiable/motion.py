# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rotations, rigid motions and configurations, as array expressions.

Sola, Deray and Atchuthan (2018), appendices A to D. Near zero, coefficients are Taylor series in
the squared angle, so that derivatives exist there.
"""

from __future__ import annotations

from math import factorial
from typing import Any

from ..engine.model.model import Model
from .library import Library

MAX_SERIES_ANGLE = 0.5  # rad; below it, ten terms of a series are accurate to 1e-16
_TERMS = 10


def cross(lib: Library, a: Any, b: Any) -> Any:
    """Return a x b, (..., 3)."""
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    return lib.xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1)


def times(A: Any, x: Any) -> Any:
    """Return A x, of (..., m, n) and (..., n)."""
    return (A @ x[..., None])[..., 0]


def _coefficient(lib: Library, x2: Any, first: int, exact: Any) -> Any:
    """Return the sum of (-1)^k x2^k / (2 k + first)!, by ``exact`` of the angle if it is large."""
    xp = lib.xp
    small = x2 < MAX_SERIES_ANGLE**2
    near, far = xp.where(small, x2, 0.0 * x2), xp.where(small, 1.0 + 0.0 * x2, x2)
    total = 0.0 * near
    for k in reversed(range(_TERMS)):
        total = (-1) ** k / factorial(2 * k + first) + near * total
    return xp.where(small, total, exact(xp.sqrt(far)))


def sine_ratio(lib: Library, x2: Any) -> Any:
    """Return sin x / x."""
    return _coefficient(lib, x2, 1, lambda x: lib.xp.sin(x) / x)


def cosine_ratio(lib: Library, x2: Any) -> Any:
    """Return (1 - cos x) / x^2."""
    return _coefficient(lib, x2, 2, lambda x: (1.0 - lib.xp.cos(x)) / (x * x))


def _sine_remainder(lib: Library, x2: Any) -> Any:
    """Return (x - sin x) / x^3."""
    return _coefficient(lib, x2, 3, lambda x: (x - lib.xp.sin(x)) / (x * x * x))


def quaternion_product(lib: Library, p: Any, q: Any) -> Any:
    """Return the product p q of quaternions (x, y, z, w)."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = pw * qv + qw * pv + cross(lib, pv, qv)
    return lib.xp.concatenate([vector, pw * qw - (pv * qv).sum(-1)[..., None]], -1)


def quaternion_exponential(lib: Library, w: Any) -> Any:
    """Return the quaternion of a rotation vector (..., 3)."""
    half = 0.5 * w
    x2 = (half * half).sum(-1)[..., None]
    # cos x = 1 - x^2 (1 - cos x) / x^2, whose derivatives exist at zero
    cosine = 1.0 - x2 * cosine_ratio(lib, x2)
    return lib.xp.concatenate([sine_ratio(lib, x2) * half, cosine], -1)


def normalized(lib: Library, quaternion: Any) -> Any:
    """Return a unit quaternion."""
    return quaternion / lib.xp.sqrt((quaternion * quaternion).sum(-1)[..., None])


def rotate_by_quaternion(lib: Library, quaternion: Any, x: Any) -> Any:
    """Return the rotated vector, for a unit quaternion."""
    u, w = quaternion[..., :3], quaternion[..., 3:]
    t = 2.0 * cross(lib, u, x)
    return x + w * t + cross(lib, u, t)


def exponential_translation(lib: Library, v: Any, w: Any) -> Any:
    """Return the translation of the rigid motion exp(v, w)."""
    x2 = (w * w).sum(-1)[..., None]
    wv = cross(lib, w, v)
    return v + cosine_ratio(lib, x2) * wv + _sine_remainder(lib, x2) * cross(lib, w, wv)


def integrate(lib: Library, model: Model, q: Any, v: Any) -> Any:
    """Return configurations moved along velocities, see ``Model.integrate``."""
    xp = lib.xp
    lead = xp.broadcast_shapes(tuple(q.shape[:-1]), tuple(v.shape[:-1]))
    q, v = xp.broadcast_to(q, (*lead, model.nq)), xp.broadcast_to(v, (*lead, model.nv))
    parts = []
    for kind, coordinates, velocities in lib.robot(model).positions:
        x, dx = q[..., coordinates], v[..., velocities]
        if kind == "floating":
            rotation = normalized(lib, x[..., 3:])
            step = exponential_translation(lib, dx[..., :3], dx[..., 3:])
            turned = quaternion_product(lib, rotation, quaternion_exponential(lib, dx[..., 3:]))
            parts += [x[..., :3] + rotate_by_quaternion(lib, rotation, step), turned]
        elif kind == "spherical":
            parts.append(
                quaternion_product(lib, normalized(lib, x), quaternion_exponential(lib, dx))
            )
        elif kind == "planar":
            parts.append(_integrate_planar(lib, x, dx))
        else:
            parts.append(x + dx)
    return xp.concatenate(parts, -1) if parts else q


def _integrate_planar(lib: Library, x: Any, dx: Any) -> Any:
    """Return (x, y, angle) moved along a velocity in the frame of the joint."""
    xp, w = lib.xp, dx[..., 2]
    zero = 0.0 * w
    linear = xp.stack([dx[..., 0], dx[..., 1], zero], -1)
    angular = xp.stack([zero, zero, w], -1)
    step = exponential_translation(lib, linear, angular)
    moved = xp.stack([step[..., 0], step[..., 1], w], -1)
    return x + _turned_in_plane(lib, x[..., 2], moved)


def tangent_of_gradient(lib: Library, model: Model, q: Any, gradient: Any) -> Any:
    """Return the gradient in the tangent space, followed by nq - nv zeros.

    ``gradient`` (..., nq) is that of a function of the configuration q with normalized quaternions.
    """
    xp = lib.xp
    parts = []
    for kind, coordinates, _ in lib.robot(model).positions:
        x, g = q[..., coordinates], gradient[..., coordinates]
        if kind == "floating":
            inverse = _conjugate(lib, normalized(lib, x[..., 3:]))
            parts += [
                rotate_by_quaternion(lib, inverse, g[..., :3]),
                _turning_gradient(lib, x[..., 3:], g[..., 3:]),
            ]
        elif kind == "spherical":
            parts.append(_turning_gradient(lib, x, g))
        elif kind == "planar":
            parts.append(_turned_in_plane(lib, -x[..., 2], g))
        else:
            parts.append(g)
    if model.nq > model.nv:
        parts.append(0.0 * gradient[..., : model.nq - model.nv])
    return xp.concatenate(parts, -1) if parts else gradient


def rate_of_configuration(lib: Library, model: Model, q: Any, rate: Any) -> Any:
    """Return the rate of q (..., nq), for one whose first nv numbers are in the tangent space.

    The transpose of ``tangent_of_gradient``.
    """
    xp = lib.xp
    parts = []
    for kind, coordinates, velocities in lib.robot(model).positions:
        x, dx = q[..., coordinates], rate[..., velocities]
        if kind == "floating":
            rotation = normalized(lib, x[..., 3:])
            parts += [
                rotate_by_quaternion(lib, rotation, dx[..., :3]),
                _turning_rate(lib, x[..., 3:], dx[..., 3:]),
            ]
        elif kind == "spherical":
            parts.append(_turning_rate(lib, x, dx))
        elif kind == "planar":
            parts.append(_turned_in_plane(lib, x[..., 2], dx))
        else:
            parts.append(dx)
    return xp.concatenate(parts, -1) if parts else rate


def _turned_in_plane(lib: Library, angle: Any, x: Any) -> Any:
    """Return (x, y, z) turned about z."""
    c, s = lib.xp.cos(angle), lib.xp.sin(angle)
    return lib.xp.stack(
        [c * x[..., 0] - s * x[..., 1], s * x[..., 0] + c * x[..., 1], x[..., 2]], -1
    )


def _turning_rate(lib: Library, x: Any, w: Any) -> Any:
    """Return the rate of the quaternion x for an angular velocity w about its axes."""
    return 0.5 * quaternion_product(lib, x, lib.xp.concatenate([w, 0.0 * w[..., :1]], -1))


def _conjugate(lib: Library, quaternion: Any) -> Any:
    return lib.xp.concatenate([-quaternion[..., :3], quaternion[..., 3:]], -1)


def _turning_gradient(lib: Library, x: Any, g: Any) -> Any:
    """Return the gradient for turning about the axes of a quaternion, from that in its numbers.

    The derivative of the quaternion x for the angular velocity w is x (w, 0) / 2.
    """
    return 0.5 * quaternion_product(lib, _conjugate(lib, x), g)[..., :3]
