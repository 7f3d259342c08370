# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The configurations of joints with several coordinates: subgroups of SE(3)."""
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..kernel import lie
from ..kernel.types import Array


def single(model):
    """Indices into q and v of the joints with one coordinate."""
    pairs = [(q, v) for q, v, nq in zip(model.idx_q, model.idx_v, model.nqs) if nq == 1]
    return tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)


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
    step = lie.se2_exp(v)
    return np.concatenate([q[..., :2] + _turn(q[..., 2], step[..., :2]),
                           q[..., 2:] + step[..., 2:]], -1)


def _difference_planar(q0, q1):
    return lie.se2_log(np.concatenate(
        [_turn(-q0[..., 2], q1[..., :2] - q0[..., :2]), q1[..., 2:] - q0[..., 2:]], -1))


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
