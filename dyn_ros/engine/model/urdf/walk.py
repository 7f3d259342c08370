# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Traversal of the tree in Pinocchio's order: moving joints, frames, and placements of links."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ...spatial.inertia import Inertia
from .error import UrdfError
from .tree import Frame
from .values import placement_of

ROOT_JOINT_NAME = "root_joint"


def walk(robot, root, root_joint, inertias):
    """Traverse the tree depth first, children by joint name.

    ``inertias`` contains that of each link, in its frame. Returns the records of the moving joints
    with the index ``parent`` and ``placement``; for each link, the joint that moves it (-1 for the
    universe) and the placement of the link frame in that joint's frame; and the frames.
    """
    moving, frames, placed, nothing = [], [], {root: (-1, np.eye(4))}, Inertia.zero()
    if root_joint is not None:
        if any(joint.name == ROOT_JOINT_NAME for joint in robot.joints):
            raise UrdfError(f'a joint is named "{ROOT_JOINT_NAME}", the name of the root joint')
        root_record = SimpleNamespace(name=ROOT_JOINT_NAME, type=root_joint, axis=None, limit=None,
                                      dynamics=None)
        moving.append(_moving(root_record, -1, np.eye(4)))
        frames.append(Frame(ROOT_JOINT_NAME, "joint", 0, np.eye(4), -1, nothing))
        placed[root] = (0, np.eye(4))
    link_frames = {root: len(frames)}
    frames.append(Frame(root, "body", *placed[root], len(frames) - 1, inertias[root]))
    for joint in _depth_first(robot, root):
        parent, parent_placement = placed[joint.parent]
        placement = parent_placement @ placement_of(joint)
        if joint.type == "fixed":
            child, kind = (parent, placement), "fixed_joint"
        else:
            child, kind = (len(moving), np.eye(4)), "joint"
            moving.append(_moving(joint, parent, placement))
        placed[joint.child] = child
        link_frames[joint.child] = len(frames) + 1
        frames += [Frame(joint.name, kind, *child, link_frames[joint.parent], nothing),
                   Frame(joint.child, "body", *child, len(frames), inertias[joint.child])]
    return moving, placed, frames


def _moving(joint, parent, placement):
    return SimpleNamespace(**{**vars(joint), "parent": parent, "placement": placement})


def _depth_first(robot, root):
    children: dict[str, list[Any]] = {link.name: [] for link in robot.links}
    for joint in sorted(robot.joints, key=lambda joint: joint.name, reverse=True):
        children[joint.parent].append(joint)
    waiting = list(children[root])
    while waiting:
        joint = waiting.pop()
        yield joint
        waiting += children[joint.child]
