# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rows of contacts as array expressions; see ``dyn_ros.Contact`` and ``contact_dynamics``.

    M ddq + nle = tau + J' lambda,  J ddq + drift + damping lambda = kp err - kd J v

The drift is the acceleration of the contact frames for ddq = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..engine.algorithms.contacts.contacts import Contact
from ..engine.model.frames import ReferenceFrame, frame_number
from ..engine.model.model import Model
from . import kinematics as kin
from .library import Library
from .motion import cosine_ratio, cross, sine_ratio, times

_IDENTITY_ANGLE = 1e-2  # rad; below it, the series of the logarithm are accurate to 1e-16


class ContactRows(NamedTuple):
    """Rows of contacts: J (..., rows, nv), and J ddq that the contacts require, (..., rows)."""

    jacobian: Any
    acceleration: Any


class _Bodies(NamedTuple):
    """Motions that all contacts use, expressed in the world at its origin."""

    placements: Any
    v: Any
    columns: Any
    velocities: Any
    drifts: Any
    """Accelerations of bodies for ddq = 0, (..., njoints, 6)."""


class _Side(NamedTuple):
    """A frame of a contact, and the body that it is fixed to."""

    X: Any
    columns: Any
    velocity: Any
    drift: Any


def motion_cross(lib: Library, v: Any, m: Any) -> Any:
    """Return v x m of motions."""
    linear = cross(lib, v[..., 3:], m[..., :3]) + cross(lib, v[..., :3], m[..., 3:])
    return lib.xp.concatenate([linear, cross(lib, v[..., 3:], m[..., 3:])], -1)


def contact_rows(
    lib: Library, model: Model, placements: Any, v: Any, contacts: Sequence[Contact]
) -> ContactRows:
    """Return the rows of all contacts, one after the other."""
    columns, velocities = kin.body_motion(lib, model, placements, v)
    robot = lib.robot(model)
    carriers = lib.xp.asarray(robot.column_joints)
    rates = kin.column_rates(lib, model, v)[..., None]
    turned = rates * motion_cross(lib, velocities[..., carriers, :], columns)
    drifts = lib.constant(robot.carries.T, turned) @ turned
    bodies = _Bodies(placements, v, columns, velocities, drifts)
    rows = [_rows_of_contact(lib, model, bodies, contact) for contact in contacts]
    return ContactRows(
        lib.xp.concatenate([row.jacobian for row in rows], -2),
        lib.xp.concatenate([row.acceleration for row in rows], -1),
    )


def _side(lib: Library, model: Model, bodies: _Bodies, frame: Any, placement: Any) -> _Side:
    """Return one frame of a contact; it is fixed to the world if ``frame`` is None."""
    X = lib.constant(placement.as_homogeneous(), bodies.placements)
    joint, still = -1, 0.0 * bodies.drifts[..., 0, :]
    if frame is not None:
        number = frame_number(model, frame)
        joint = int(lib.robot(model).frame_joints[number])
        X = kin.frame_placement(lib, model, bodies.placements, number) @ X
    columns = kin.carried_by(lib, model, joint, bodies.columns)[..., None] * bodies.columns
    if joint < 0:
        return _Side(X, columns, still, still)
    return _Side(X, columns, bodies.velocities[..., joint, :], bodies.drifts[..., joint, :])


def _rows_of_contact(lib: Library, model: Model, bodies: _Bodies, contact: Contact) -> ContactRows:
    first = _side(lib, model, bodies, contact.frame, contact.placement)
    second = _side(lib, model, bodies, contact.other, contact.other_placement)
    rows = _point_rows if contact.dimension == 3 else _pose_rows
    return rows(lib, model, first, second, contact)


def _point_velocity(lib: Library, p: Any, m: Any) -> Any:
    """Return the velocity of a point at p."""
    return m[..., :3] + cross(lib, m[..., 3:], p)


def _point_acceleration(lib: Library, p: Any, side: _Side) -> Any:
    """Return the classical acceleration of a point at p of a body, for ddq = 0."""
    velocity = _point_velocity(lib, p, side.velocity)
    return _point_velocity(lib, p, side.drift) + cross(lib, side.velocity[..., 3:], velocity)


def _point_rows(
    lib: Library, model: Model, first: _Side, second: _Side, contact: Contact
) -> ContactRows:
    """Return the three rows of the relative position of two origins."""
    p, q = kin.translation(first.X), kin.translation(second.X)
    columns = _point_velocity(lib, p[..., None, :], first.columns) - _point_velocity(
        lib, q[..., None, :], second.columns
    )
    velocity = _point_velocity(lib, p, first.velocity) - _point_velocity(lib, q, second.velocity)
    drift = _point_acceleration(lib, p, first) - _point_acceleration(lib, q, second)
    required = contact.kp * (q - p) - contact.kd * velocity - drift
    J = kin.jacobian_of_columns(lib, model, columns)
    if contact.reference_frame == ReferenceFrame.LOCAL:
        R = kin.rotation(first.X).swapaxes(-1, -2)
        J, required = R @ J, times(R, required)
    return ContactRows(J, required)


def _pose_rows(
    lib: Library, model: Model, first: _Side, second: _Side, contact: Contact
) -> ContactRows:
    """Return the six rows of the relative pose."""
    axes = contact.reference_frame
    relative = first.velocity - second.velocity
    drift = first.drift - second.drift
    if axes == ReferenceFrame.LOCAL:
        drift = drift + motion_cross(lib, first.velocity, second.velocity)
    columns = kin.in_reference_frame(
        lib, first.X[..., None, :, :], first.columns - second.columns, axes
    )
    required = -kin.in_reference_frame(lib, first.X, contact.kd * relative + drift, axes)
    if contact.kp:
        error = logarithm(lib, inverse(lib, first.X) @ second.X)
        world = kin.placed_motion(lib, first.X, error)
        required = required + contact.kp * kin.in_reference_frame(lib, first.X, world, axes)
    return ContactRows(kin.jacobian_of_columns(lib, model, columns), required)


def inverse(lib: Library, X: Any) -> Any:
    """Return the inverse of placements."""
    R = kin.rotation(X).swapaxes(-1, -2)
    upper = lib.xp.concatenate([R, -(R @ X[..., :3, 3:])], -1)
    last = lib.xp.broadcast_to(X[..., 3:, :], (*upper.shape[:-2], 1, 4))
    return lib.xp.concatenate([upper, last], -2)


def logarithm(lib: Library, X: Any) -> Any:
    """Return the motion (..., 6) whose exponential is a placement with an angle less than pi."""
    xp, R = lib.xp, kin.rotation(X)
    skew = 0.5 * xp.stack(
        [
            R[..., 2, 1] - R[..., 1, 2],
            R[..., 0, 2] - R[..., 2, 0],
            R[..., 1, 0] - R[..., 0, 1],
        ],
        -1,
    )
    cosine = 0.5 * (R[..., 0, 0] + R[..., 1, 1] + R[..., 2, 2] - 1.0)[..., None]
    w = skew * _angle_over_sine(lib, (skew * skew).sum(-1)[..., None], cosine)
    x2 = (w * w).sum(-1)[..., None]
    # V^-1 p = p - w x p / 2 + c w x (w x p), with V of the exponential
    small = x2 < _IDENTITY_ANGLE**2
    safe = xp.where(small, 1.0 + 0.0 * x2, x2)
    exact = (1.0 - 0.5 * sine_ratio(lib, safe) / cosine_ratio(lib, safe)) / safe
    c = xp.where(small, 1.0 / 12.0 + x2 / 720.0 + x2 * x2 / 30240.0, exact)
    p = kin.translation(X)
    wp = cross(lib, w, p)
    return xp.concatenate([p - 0.5 * wp + c * cross(lib, w, wp), w], -1)


def _angle_over_sine(lib: Library, s2: Any, cosine: Any) -> Any:
    """Return x / sin x, for sin(x)^2 and cos x, with x from 0 to pi."""
    xp = lib.xp
    small = (s2 < _IDENTITY_ANGLE**2) & (cosine > 0.0)
    near, far = xp.where(small, s2, 0.0 * s2), xp.where(small, 0.5 + 0.0 * s2, s2)
    series = 1.0 + near * (1 / 6 + near * (3 / 40 + near * (5 / 112 + near * (35 / 1152))))
    sine = xp.sqrt(far)
    return xp.where(small, series, xp.arctan2(sine, cosine) / sine)
