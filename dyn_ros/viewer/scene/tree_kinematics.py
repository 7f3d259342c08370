# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics of a robot in plain NumPy, which a page need not compile."""

from __future__ import annotations

import math

import numpy as np

from ...engine.kernel.lie import rotate
from ...engine.kernel.types import Array, ArrayLike
from ...engine.model.urdf import ONE_DOF, Joint, Tree


class TreeKinematics:
    """The joints of a tree, whose root link is fixed, and points that they move.

    `tree_joints` are all joints of the tree. `joints` are the independent ones: those with one
    degree of freedom, except mimic joints. A *slot* is an index into `joints`, `names` and
    `tree_indices`, which are their indices in `tree_joints`; `slots` are by name.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree_joints = list(tree.joints)
        indices = [
            i
            for i, joint in enumerate(self.tree_joints)
            if joint.kind in ONE_DOF and joint.mimic is None
        ]
        self.tree_indices = indices
        self.joints: list[Joint] = [self.tree_joints[i] for i in indices]
        self.names = [joint.name for joint in self.joints]
        self.slots = {name: slot for slot, name in enumerate(self.names)}
        # q of tree joint i = multiplier[i] * q of joints[slot_of_joint[i]] + offset[i]
        self._slot_of_joint = np.zeros(len(self.tree_joints), int)
        self._multiplier, self._offset = np.zeros((2, len(self.tree_joints)))
        for i, joint in enumerate(self.tree_joints):
            if joint.mimic is not None and joint.mimic.joint in indices:
                self._slot_of_joint[i] = indices.index(joint.mimic.joint)
                self._multiplier[i], self._offset[i] = joint.mimic.multiplier, joint.mimic.offset
            elif i in indices:
                self._slot_of_joint[i], self._multiplier[i] = indices.index(i), 1.0
        self._points = [np.zeros((1, 3))] * (len(self.tree_joints) + 1)  # last: root link
        for frame in tree.frames:
            self.add_points(frame.parent, frame.placement[None, :3, 3])

    def all_positions(self, q: ArrayLike) -> Array:
        """Return the positions of all tree joints (..., joints) from independent ones (..., n)."""
        q = np.asarray(q, float)
        # a robot without independent joints has a zero to select, too
        padded = np.concatenate([q, np.zeros((*q.shape[:-1], 1))], axis=-1)
        positions: Array = padded[..., self._slot_of_joint] * self._multiplier + self._offset
        return positions

    def placements(self, q: Array) -> Array:
        """Return placements (joints + 1, k, 4, 4) of all tree joints at positions (k, n).

        They are expressed in the root link, whose own placement is the last one, so that the parent
        -1 is an index, too.
        """
        positions = self.all_positions(q)
        X = np.tile(np.eye(4), (len(self.tree_joints) + 1, len(positions), 1, 1))
        for i, joint in enumerate(self.tree_joints):
            X[i] = X[joint.parent] @ joint.placement @ _joint_transforms(joint, positions[:, i])
        return X

    def add_points(self, joint: int, points: Array) -> None:
        """Add points (m, 3) to the frame origins that a tree joint moves; -1 is the root link."""
        self._points[joint] = np.concatenate([self._points[joint], points])

    def points(self, q: Array) -> list[Array]:
        """Return the points (k, m, 3) of each tree joint at positions (k, n), in the root link.

        The last ones are the points of the root link.
        """
        return self.points_at(self.placements(q))

    def points_at(self, placements: Array) -> list[Array]:
        """Return the same points at placements (joints + 1, k, 4, 4) of all tree joints."""
        return [
            points @ np.swapaxes(X[:, :3, :3], 1, 2) + X[:, None, :3, 3]
            for X, points in zip(placements, self._points)
        ]

    def heights(self, q: Array) -> Array:
        """Return the heights (joints + 1, k) of the lowest points at positions (k, n) [m].

        They are relative to the root link, whose own lowest points are the last row.
        """
        return np.array(
            [
                (points @ X[:, 2, :3, None])[..., 0].min(axis=1) + X[:, 2, 3]
                for X, points in zip(self.placements(q), self._points)
            ]
        )

    def chain(self, joint: int) -> list[int]:
        """Return the slots of the joints from the root to a tree joint, itself included."""
        slots: list[int] = []
        while joint >= 0:
            if self.tree_joints[joint].name in self.slots:
                slots.insert(0, self.slots[self.tree_joints[joint].name])
            joint = self.tree_joints[joint].parent
        return slots


def display_range(joint: Joint) -> tuple[float, float]:
    """Return the limits of a joint with one degree of freedom, within half a turn or 1 m."""
    max_position = 1.0 if joint.kind == "prismatic" else math.pi
    lower, upper = max(joint.lower, -max_position), min(joint.upper, max_position)
    return (lower, upper) if lower < upper else (-max_position, max_position)


def rotation_matrix(q: ArrayLike) -> Array:
    """Convert unit quaternions (..., 4), scalar last, to rotation matrices (..., 3, 3)."""
    q = np.asarray(q, float)[..., None, :]
    return np.swapaxes(rotate(q, np.eye(3)), -1, -2)


def _joint_transforms(joint: Joint, q: Array) -> Array:
    """Return the transforms (k, 4, 4) across a joint at positions (k,)."""
    X = np.tile(np.eye(4), (len(q), 1, 1))
    axis = np.asarray(joint.axis)
    if joint.kind == "prismatic":
        X[:, :3, 3] = q[:, None] * axis
    elif joint.kind in ONE_DOF:
        half_angle = 0.5 * q[:, None]
        quaternion = np.hstack([np.sin(half_angle) * axis, np.cos(half_angle)])
        X[:, :3, :3] = rotation_matrix(quaternion)
    return X
