# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the links of a robot are, in plain NumPy: a page does not wait for compiled functions."""

from __future__ import annotations

import math

import numpy as np

from ...engine.kernel.lie import rotate
from ...engine.kernel.types import Array, ArrayLike
from ...engine.model.urdf import ONE_DOF, Joint, Tree


class TreeKinematics:
    """The joints of a tree, whose root link is at rest.

    `moving` are all joints; `joints`, `names` and `slots` those with a coordinate of their own: of
    one degree of freedom, except mimic joints.
    """

    def __init__(self, tree: Tree) -> None:
        self.moving = list(tree.joints)
        own = [
            i
            for i, joint in enumerate(self.moving)
            if joint.kind in ONE_DOF and joint.mimic is None
        ]
        self.own = own
        self.joints: list[Joint] = [self.moving[i] for i in own]
        self.names = [joint.name for joint in self.joints]
        self.slots = {name: slot for slot, name in enumerate(self.names)}
        self._source = np.zeros(len(self.moving), int)
        self._ratio, self._offset = np.zeros((2, len(self.moving)))
        for i, joint in enumerate(self.moving):
            if joint.mimic is not None and joint.mimic.joint in own:
                self._source[i] = own.index(joint.mimic.joint)
                self._ratio[i], self._offset[i] = joint.mimic.multiplier, joint.mimic.offset
            elif i in own:
                self._source[i], self._ratio[i] = own.index(i), 1.0
        self._points = [np.zeros((1, 3))] * (len(self.moving) + 1)  # the last ones: of the root
        for frame in tree.frames:
            self.add(frame.parent, frame.placement[None, :3, 3])

    def all_positions(self, q: ArrayLike) -> Array:
        """Return the positions of all joints (..., all) that follow from `joints` (..., n)."""
        q = np.asarray(q, float)
        known = np.concatenate([q, np.zeros((*q.shape[:-1], 1))], axis=-1)
        result: Array = known[..., self._source] * self._ratio + self._offset
        return result

    def places(self, q: Array) -> Array:
        """Return placements in the root link at positions (k, n), (joints + 1, k, 4, 4).

        The last one is the root link's, so that a parent -1 is an index, too.
        """
        positions = self.all_positions(q)
        places = np.tile(np.eye(4), (len(self.moving) + 1, len(positions), 1, 1))
        for i, joint in enumerate(self.moving):
            places[i] = places[joint.parent] @ joint.placement @ _motions(joint, positions[:, i])
        return places

    def add(self, joint: int, points: Array) -> None:
        """Add points (m, 3) that a joint (-1: the root) moves, in addition to origins of frames."""
        self._points[joint] = np.concatenate([self._points[joint], points])

    def points(self, q: Array) -> list[Array]:
        """Return where the points of each joint and, last, of the root are at positions (k, n).

        They are (k, m, 3), in the root link.
        """
        return [
            points @ np.swapaxes(place[:, :3, :3], 1, 2) + place[:, None, :3, 3]
            for place, points in zip(self.places(q), self._points)
        ]

    def heights(self, q: Array) -> Array:
        """Return the heights of the lowest points at positions (k, n), (joints + 1, k) [m].

        They are relative to the root link, whose own points are the last ones.
        """
        return np.array(
            [
                (points @ place[:, 2, :3, None])[..., 0].min(axis=1) + place[:, 2, 3]
                for place, points in zip(self.places(q), self._points)
            ]
        )

    def chain(self, joint: int) -> list[int]:
        """Return the slots of the joints from the root to a joint, itself included."""
        slots: list[int] = []
        while joint >= 0:
            if self.moving[joint].name in self.slots:
                slots.insert(0, self.slots[self.moving[joint].name])
            joint = self.moving[joint].parent
        return slots


def stroke(joint: Joint) -> tuple[float, float]:
    """Return the limits of a joint with one degree of freedom, within half a turn or 1 m."""
    reach = 1.0 if joint.kind == "prismatic" else math.pi
    lower, upper = max(joint.lower, -reach), min(joint.upper, reach)
    return (lower, upper) if lower < upper else (-reach, reach)


def rotation_matrix(q: ArrayLike) -> Array:
    """Convert unit quaternions (..., 4), scalar last, to rotation matrices (..., 3, 3)."""
    q = np.asarray(q, float)[..., None, :]
    return np.swapaxes(rotate(q, np.eye(3)), -1, -2)


def _motions(joint: Joint, q: Array) -> Array:
    """Return the displacements of a joint at positions (n,), (n, 4, 4)."""
    moved = np.tile(np.eye(4), (len(q), 1, 1))
    axis = np.asarray(joint.axis)
    if joint.kind == "prismatic":
        moved[:, :3, 3] = q[:, None] * axis
    elif joint.kind in ONE_DOF:
        half = 0.5 * q[:, None]
        moved[:, :3, :3] = rotation_matrix(np.hstack([np.sin(half) * axis, np.cos(half)]))
    return moved
