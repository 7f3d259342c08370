# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Coordinates of joints as smooth signals, and velocities and accelerations from their rates.

Components of quaternions are filtered like other signals: with x = the quaternion and ' its
conjugate, the angular velocity is 2 x' dx/dt and its derivative 2 x' d2x/dt2, for a quaternion of
constant length 1. Filtered ones are a little shorter, which the formulas take into account.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..engine.kernel import lie
from ..engine.kernel.types import Array
from ..engine.model.model import Model

_QUATERNION = {"floating": 3, "spherical": 0}   # kind -> its index among the numbers in q
_ANGLE = {"continuous": 0, "planar": 2}         # kind -> index of an angle without limits


class JointSlices(NamedTuple):
    """Where the numbers of a joint are in q and in v."""

    name: str
    kind: str
    q: slice
    v: slice


def joint_slices(model: Model) -> Iterator[JointSlices]:
    """Those of all joints but mimic joints."""
    for joint, q, nq, v, nv in zip(model.tree.joints, model.idx_q, model.nqs, model.idx_v,
                                   model.nvs):
        if nv:
            yield JointSlices(joint.name, joint.kind, slice(q, q + nq), slice(v, v + nv))


def make_continuous(model: Model, q: Array) -> None:
    """Remove jumps by full turns and by changes of sign from q (B, nq), in place."""
    for joint in joint_slices(model):
        if joint.kind in _ANGLE:
            angle = q[:, joint.q.start + _ANGLE[joint.kind]]
            angle[:] = np.unwrap(angle)
        if joint.kind in _QUATERNION:
            x = q[:, joint.q.start + _QUATERNION[joint.kind]:joint.q.stop]
            flips = np.sum(x[1:] * x[:-1], axis=1) < 0.0
            x[1:][np.cumsum(flips) % 2 == 1] *= -1.0


def velocities(kind: str, rates: list[Array]) -> tuple[Array, Array, Array]:
    """q (n, count), v and a (n, columns) of a joint in its frame, from filtered q, dq/dt, d2q/dt2.

    Quaternions of the result have length 1.
    """
    q, dq, ddq = rates
    if kind not in ("floating", "planar", "spherical"):
        return q, dq, ddq
    if kind == "planar":
        omega, alpha = dq[:, 2:], ddq[:, 2:]
        back = np.concatenate([np.zeros((len(q), 2)), np.sin(-0.5 * q[:, 2:]),
                               np.cos(0.5 * q[:, 2:])], axis=1)
        axis = np.array([0.0, 0.0, 1.0])
        turning, position = omega * axis, slice(0, 2)
    else:
        first = _QUATERNION[kind]
        x, omega, alpha = _turning(*(rate[:, first:] for rate in rates))
        q = np.concatenate([q[:, :first], x], axis=1)
        if kind == "spherical":
            return q, omega, alpha
        back, turning, position = lie.conjugate(x), omega, slice(0, 3)
    count = position.stop
    linear = lie.rotate(back, _padded(dq[:, position]))
    acceleration = lie.rotate(back, _padded(ddq[:, position])) - np.cross(turning, linear)
    return (q, np.concatenate([linear[:, :count], omega], axis=1),
            np.concatenate([acceleration[:, :count], alpha], axis=1))


def velocity_noise(kind: str, noise: Array) -> Array:
    """Standard deviations of the velocities of a joint from those of the rates of its q."""
    if kind in _QUATERNION:
        first = _QUATERNION[kind]
        angular = np.full(3, 2.0 * noise[first:].max())
        return angular if kind == "spherical" else np.r_[np.full(3, noise[:3].max()), angular]
    return noise


def _turning(x: Array, dx: Array, ddx: Array) -> tuple[Array, Array, Array]:
    """Unit quaternion, angular velocity and its derivative, in the joint's frame."""
    square = np.sum(x * x, axis=1, keepdims=True)
    back = lie.conjugate(x) / square
    omega = 2.0 * lie.quaternion_product(back, dx)[:, :3]
    change = 2.0 * np.sum(x * dx, axis=1, keepdims=True) / square
    alpha = 2.0 * lie.quaternion_product(back, ddx)[:, :3] - change * omega
    return x / np.sqrt(square), omega, alpha


def _padded(vectors: Array) -> Array:
    """The vectors with three components; those of the plane have two."""
    missing = 3 - vectors.shape[1]
    return np.pad(vectors, ((0, 0), (0, missing))) if missing else vectors
