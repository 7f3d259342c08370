# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The configurations of joints, which are subgroups of SE(3), on arrays with leading batch axes.

Kernels compute placements in ``joints.py``; these serve functions that have no ``Data``.
"""
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..kernel import lie
from ..kernel.plain import algebra as al
from ..kernel.types import Array


def single(model):
    """Indices into q and v of the joints with one coordinate."""
    pairs = [(q, v) for q, v, nq in zip(model.idx_q, model.idx_v, model.nqs) if nq == 1]
    return tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)


def position(model, index, q):
    """The position of a joint, (..., nq), in a configuration."""
    joint, start = model.tree.joints[index], model.idx_q[index]
    if joint.mimic:
        return joint.mimic.multiplier * q[..., start:start + 1] + joint.mimic.offset
    return q[..., start:start + model.nqs[index]]


def joint_motion(joint, x):
    """The placement of a joint's frame at position x, (..., nq), in its frame at position zero."""
    X = np.tile(np.eye(4), (*np.shape(x)[:-1], 1, 1))
    if joint.kind in ("floating", "spherical"):
        R = al.quaternion_rotation(*np.moveaxis(x[..., -4:], -1, 0))
        X[..., :3, :3] = np.stack(R, -1).reshape(X[..., :3, :3].shape)
        if joint.kind == "floating":
            X[..., :3, 3] = x[..., :3]
    elif joint.kind == "planar":
        X[..., :3, :3] = _rotation(joint.axis, x[..., 2])
        X[..., :2, 3] = x[..., :2]
    elif joint.kind == "prismatic":
        X[..., :3, 3] = x * joint.axis
    else:
        X[..., :3, :3] = _rotation(joint.axis, x[..., 0])
    return X


def _rotation(axis, angle):
    """Rodrigues' formula."""
    along, across = np.outer(axis, axis), np.reshape(al.skew(axis), (3, 3))
    angle = np.asarray(angle)[..., None, None]
    return along + np.cos(angle) * (np.eye(3) - along) + np.sin(angle) * across


# --- joints with several coordinates: q moved by v, and the v that moves q0 to q1

def _turn(angle, xy):
    c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
    x, y = xy[..., :1], xy[..., 1:]
    return np.concatenate([c * x - s * y, s * x + c * y], -1)


def normalized(quaternion):
    return quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)


def _integrate_floating(q, v):
    p, turn = lie.se3_exp(v)
    rotation = normalized(lie.quaternion_product(q[..., 3:], turn))
    return np.concatenate([q[..., :3] + lie.rotate(q[..., 3:], p), rotation], -1)


def _difference_floating(q0, q1):
    back = lie.conjugate(q0[..., 3:])
    return lie.se3_log(lie.rotate(back, q1[..., :3] - q0[..., :3]),
                       lie.quaternion_product(back, q1[..., 3:]))


def _integrate_planar(q, v):
    p, _ = lie.se3_exp(_GROUPS["planar"].twist(v))
    return np.concatenate([q[..., :2] + _turn(q[..., 2], p[..., :2]), q[..., 2:] + v[..., 2:]], -1)


def _difference_planar(q0, q1):
    p = _turn(-q0[..., 2], q1[..., :2] - q0[..., :2])
    half = 0.5 * (q1[..., 2:] - q0[..., 2:])
    zero = np.zeros_like(half)
    twist = lie.se3_log(np.concatenate([p, zero], -1),
                        np.concatenate([zero, zero, np.sin(half), np.cos(half)], -1))
    return twist[..., [0, 1, 5]]                    # with the angle in [-pi, pi]


def _integrate_spherical(q, v):
    return normalized(lie.quaternion_product(q, lie.quaternion_exp(v)))


def _difference_spherical(q0, q1):
    return lie.quaternion_log(lie.quaternion_product(lie.conjugate(q0), q1))


class _LieGroup(NamedTuple):
    """The configurations of a joint with several coordinates, a subgroup of SE(3)."""

    components: list[int]       # of a twist: those of v
    integrate: Callable[[Array, Array], Array]
    difference: Callable[[Array, Array], Array]

    def twist(self, v):
        """The twists (..., 6) of velocities."""
        twist = np.zeros((*v.shape[:-1], 6))
        twist[..., self.components] = v
        return twist

    def block(self, matrix):
        """The rows and columns of v in a matrix of SE(3), which leaves the subgroup invariant."""
        return matrix[..., self.components, :][..., self.components]


_GROUPS = {"floating": _LieGroup(list(range(6)), _integrate_floating, _difference_floating),
           "planar": _LieGroup([0, 1, 5], _integrate_planar, _difference_planar),
           "spherical": _LieGroup([3, 4, 5], _integrate_spherical, _difference_spherical)}


def several(model):
    """The group, and the slices of q and v, of each joint with several coordinates."""
    for joint, q, nq, v, nv in zip(model.tree.joints, model.idx_q, model.nqs, model.idx_v,
                                   model.nvs):
        if joint.kind in _GROUPS:
            yield _GROUPS[joint.kind], slice(q, q + nq), slice(v, v + nv)
