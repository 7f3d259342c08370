# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Placements of joints as homogeneous matrices, on NumPy arrays with any leading batch axes.

Kernels have their own in ``joints.py``; these serve functions that have no ``Data``.
"""
import numpy as np

from ..kernel.plain import algebra as al


def joint_motion(joint, x):
    """The placement of a joint's frame at position x, (..., nq), in its frame at position zero."""
    X = np.zeros((*np.shape(x)[:-1], 4, 4))
    X[...] = np.eye(4)
    if joint.kind == "floating":
        R = al.quaternion_rotation(*(x[..., k] for k in range(3, 7)))
        X[..., :3, :3] = np.stack(R, -1).reshape(X[..., :3, :3].shape)
        X[..., :3, 3] = x[..., :3]
    elif joint.kind == "spherical":
        R = al.quaternion_rotation(*(x[..., k] for k in range(4)))
        X[..., :3, :3] = np.stack(R, -1).reshape(X[..., :3, :3].shape)
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


class Placements:
    """Placements of joints in the world; only those that are asked for are computed."""

    def __init__(self, model, q):
        self._model, self._q = model, q     # validated
        self._known = {-1: np.eye(4)}

    def __getitem__(self, joint):
        """The placement of a joint, (4, 4) or (B, 4, 4); -1 is the universe."""
        path, joints = [], self._model.tree.joints
        while joint not in self._known:
            path.append(joint)
            joint = joints[joint].parent
        X = self._known[joint]
        for joint in reversed(path):
            X = X @ joints[joint].placement @ joint_motion(joints[joint], self._position(joint))
            self._known[joint] = X
        return X

    def _position(self, index):
        joint, start = self._model.tree.joints[index], self._model.idx_q[index]
        if joint.mimic:
            return joint.mimic.multiplier * self._q[..., start:start + 1] + joint.mimic.offset
        return self._q[..., start:start + self._model.nqs[index]]
