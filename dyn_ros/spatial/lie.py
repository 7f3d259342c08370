"""Exponential and logarithm of rotations and rigid motions, on NumPy arrays.

Any number of batch axes in front.

Rotations are quaternions (x y z w), velocities are (linear, angular) in the moving frame.
Sola, Deray and Atchuthan (2018), appendices A to D; the coefficients' series near zero are
Taylor's.
"""
import numpy as np

_SMALL = 1e-2                        # below it six terms are exact to 1e-16


def _series(x2, *coefficients):
    total = np.zeros_like(x2)
    for c in reversed(coefficients):
        total = c + x2 * total
    return total


def _divided(small, series, exact):
    """The series where the angle is small, the exact formula elsewhere."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(small, series, exact())


def quaternion_product(p, q):
    """p q, (..., 4)."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    return np.concatenate([pw * qv + qw * pv + np.cross(pv, qv),
                           pw * qw - np.sum(pv * qv, -1, keepdims=True)], -1)


def conjugate(q):
    """The inverse of unit quaternions, (..., 4)."""
    return q * np.array([-1.0, -1.0, -1.0, 1.0])


def rotate(q, a):
    """Vectors a, (..., 3), turned by unit quaternions q, (..., 4)."""
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * np.cross(u, a)
    return a + w * t + np.cross(u, t)


def quaternion_exp(w):
    """Unit quaternions, (..., 4), of rotation vectors, (..., 3) [rad]."""
    half = 0.5 * np.linalg.norm(w, axis=-1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(half / np.pi) * w, np.cos(half)], -1)


def quaternion_log(q):
    """Rotation vectors, (..., 3), no longer than pi, of unit quaternions, (..., 4)."""
    q = np.where(q[..., 3:] < 0.0, -q, q)
    n = np.linalg.norm(q[..., :3], axis=-1, keepdims=True)
    w = q[..., 3:]
    r2 = (n / w) ** 2 if np.all(w) else np.divide(n, w, where=w > 0, out=np.ones_like(n)) ** 2
    ratio = _divided(n < _SMALL, 2.0 / np.where(w > 0, w, 1.0) * _series(
        r2, 1.0, -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11), lambda: 2.0 * np.arctan2(n, w) / n)
    return ratio * q[..., :3]


def se3_exp(twist):
    """Translations (..., 3) and unit quaternions (..., 4) of twists (..., 6)."""
    v, w = twist[..., :3], twist[..., 3:]
    x2 = np.sum(w * w, -1, keepdims=True)
    x = np.sqrt(x2)
    small = x < _SMALL
    b = _divided(small, _series(x2, 1 / 2, -1 / 24, 1 / 720, -1 / 40320),
                 lambda: 2.0 * np.sin(0.5 * x) ** 2 / x2)
    c = _divided(small, _series(x2, 1 / 6, -1 / 120, 1 / 5040, -1 / 362880),
                 lambda: (x - np.sin(x)) / (x * x2))
    wv = np.cross(w, v)
    return v + b * wv + c * np.cross(w, wv), quaternion_exp(w)


def se3_log(p, q):
    """Twists (..., 6) of translations (..., 3) and unit quaternions (..., 4)."""
    w = quaternion_log(q)
    x2 = np.sum(w * w, -1, keepdims=True)
    x = np.sqrt(x2)
    c = _divided(x < _SMALL, _series(x2, 1 / 12, 1 / 720, 1 / 30240, 1 / 1209600),
                 lambda: (1.0 - 0.5 * x / np.tan(0.5 * x)) / x2)
    wp = np.cross(w, p)
    return np.concatenate([p - 0.5 * wp + c * np.cross(w, wp), w], -1)


def se2_exp(twist):
    """(x, y, angle), (..., 3), of planar twists (x, y, angle), (..., 3)."""
    p, q = se3_exp(_raised(twist))
    return np.concatenate([p[..., :2], twist[..., 2:]], -1)


def se2_log(pose):
    """Planar twists (..., 3) of (x, y, angle), (..., 3); the angle's short way round."""
    half = 0.5 * pose[..., 2:]
    zero = np.zeros_like(half)
    q = np.concatenate([zero, zero, np.sin(half), np.cos(half)], -1)
    twist = se3_log(np.concatenate([pose[..., :2], zero], -1), q)
    return twist[..., [0, 1, 5]]


def _raised(planar):
    raised = np.zeros((*planar.shape[:-1], 6))
    raised[..., [0, 1, 5]] = planar
    return raised
