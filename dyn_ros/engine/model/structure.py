# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Structure of a robot: its joints, coordinates and frames, packed for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..kernel import algebra as al
from ..kernel import packing
from ..kernel.names import unknown_name
from ..kernel.types import Array, ArrayLike
from .drives import Drives
from .frames import frame_selectors
from .inertia import Payload, link_parameters
from .urdf import Joint, Tree

# kind -> suffixes of the names of its numbers in q and v
COORDINATE_SUFFIXES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "revolute": (("",), ("",)),
    "continuous": (("",), ("",)),
    "prismatic": (("",), ("",)),
    "planar": (("/x", "/y", "/theta"), ("/linear_x", "/linear_y", "/angular_z")),
    "floating": (
        ("/x", "/y", "/z", "/qx", "/qy", "/qz", "/qw"),
        ("/linear_x", "/linear_y", "/linear_z", "/angular_x", "/angular_y", "/angular_z"),
    ),
    "spherical": (("/qx", "/qy", "/qz", "/qw"), ("/angular_x", "/angular_y", "/angular_z")),
}
JOINT_KINDS = {
    "revolute": packing.REVOLUTE,
    "continuous": packing.REVOLUTE,
    "prismatic": packing.PRISMATIC,
    "planar": packing.PLANAR,
    "floating": packing.FLOATING,
    "spherical": packing.SPHERICAL,
}
# kind -> index of the unit quaternion in the position of the joint
QUATERNION_STARTS = {"floating": 3, "spherical": 0}


def _joint_constants(joint: Joint) -> Array:
    """Return the row of floats for one joint (packing.PLACE ...)."""
    row = np.zeros(packing.FLOATS_ROW)
    R, u = joint.placement[:3, :3], joint.axis
    axis_part = R
    if JOINT_KINDS[joint.kind] == packing.REVOLUTE:
        axis_part = R @ np.outer(u, u)
        row[packing.PLACE_SIN : packing.PLACE_SIN + 9] = (
            R @ np.reshape(al.skew(u), (3, 3))
        ).ravel()
        row[packing.PLACE_COS : packing.PLACE_COS + 9] = (R - axis_part).ravel()
    row[packing.PLACE : packing.PLACE + 9] = axis_part.ravel()
    row[packing.TRANSLATION : packing.TRANSLATION + 3] = joint.placement[:3, 3]
    row[packing.SLIDE : packing.SLIDE + 3] = R @ u
    row[packing.AXIS : packing.AXIS + 3] = u
    row[packing.INERTIA : packing.INERTIA + 10] = joint.inertia.dynamic_parameters()
    row[packing.RATIO] = joint.mimic.multiplier if joint.mimic else 1.0
    row[packing.SHIFT] = joint.mimic.offset if joint.mimic else 0.0
    return row


class Structure:
    """The joints, coordinates and frames of a robot, with the attributes of ``Model``."""

    njoints: int
    nq: int
    nv: int
    nframes: int
    joint_names: tuple[str, ...]
    velocity_names: tuple[str, ...]
    position_names: tuple[str, ...]
    frame_names: tuple[str, ...]
    idx_q: tuple[int, ...]
    idx_v: tuple[int, ...]
    nqs: tuple[int, ...]
    nvs: tuple[int, ...]
    parents: tuple[int, ...]
    row_parents: tuple[int, ...]
    lower: Array
    upper: Array
    velocity_limit: Array
    effort_limit: Array
    total_mass: float
    warnings: tuple[str, ...]

    def __init__(self, tree: Tree, gravity: ArrayLike = (0.0, 0.0, -9.81)) -> None:
        if hasattr(self, "_floats"):  # Data has addresses in its memory
            raise TypeError(f"{self!r} is already initialized; create another Model")
        self.tree = tree
        self.name = tree.name
        self.warnings = tuple(tree.warnings)
        self.njoints = len(tree.joints)
        self.joint_names = tuple(joint.name for joint in tree.joints)
        self.frame_names = tuple(frame.name for frame in tree.frames)
        self.nframes = len(self.frame_names)
        self._number_coordinates(tree.joints)
        self.parents = tuple(joint.parent for joint in tree.joints)
        self.total_mass = float(sum(joint.inertia.mass for joint in tree.joints))
        self._payloads: dict[str, Payload] = {}
        self._damping, self._friction = self._damping_and_friction(tree.joints)
        self._drives = Drives.of(self.nv)
        self._pack(tree.joints)
        self.gravity = gravity

    def _number_coordinates(self, joints: Sequence[Joint]) -> None:
        """Set the names, indices and limits of the coordinates."""
        idx_q: list[int] = []
        idx_v: list[int] = []
        nqs: list[int] = []
        nvs: list[int] = []
        position_names: list[str] = []
        velocity_names: list[str] = []
        lower: list[float] = []
        upper: list[float] = []
        velocity: list[float] = []
        effort: list[float] = []
        for joint in joints:
            positions, velocities = ((), ()) if joint.mimic else COORDINATE_SUFFIXES[joint.kind]
            idx_q.append(len(position_names))
            idx_v.append(len(velocity_names))
            nqs.append(len(positions))
            nvs.append(len(velocities))
            position_names += [joint.name + suffix for suffix in positions]
            velocity_names += [joint.name + suffix for suffix in velocities]
            limited = len(velocities) == 1
            lower += [joint.lower if limited else -np.inf] * len(positions)
            upper += [joint.upper if limited else np.inf] * len(positions)
            velocity += [joint.velocity if limited else np.inf] * len(velocities)
            effort += [joint.effort if limited else np.inf] * len(velocities)
        for i, joint in enumerate(joints):
            if joint.mimic:
                idx_q[i], idx_v[i] = idx_q[joint.mimic.joint], idx_v[joint.mimic.joint]
        self.position_names = tuple(position_names)
        self.velocity_names = tuple(velocity_names)
        self.nq, self.nv = len(self.position_names), len(self.velocity_names)
        self.idx_q, self.idx_v, self.nqs, self.nvs = map(tuple, (idx_q, idx_v, nqs, nvs))
        self.lower, self.upper, self.velocity_limit, self.effort_limit = map(
            np.array, (lower, upper, velocity, effort)
        )

    def _damping_and_friction(self, joints: Sequence[Joint]) -> tuple[Array, Array]:
        """Return damping and friction of each coordinate; mimic joints add to their master's."""
        damping, friction = np.zeros((2, self.nv))
        for i, joint in enumerate(joints):
            if len(COORDINATE_SUFFIXES[joint.kind][1]) == 1:
                ratio = joint.mimic.multiplier if joint.mimic else 1.0
                damping[self.idx_v[i]] += ratio * ratio * joint.damping
                friction[self.idx_v[i]] += abs(ratio) * joint.friction
        return damping, friction

    def _pack(self, joints: Sequence[Joint]) -> None:
        """Create the tables of integers and floats that kernels read; see packing.py."""
        table = np.zeros((self.njoints + 1, packing.TREE_ROW), np.int64)
        rows = np.zeros((self.njoints + 1, packing.FLOATS_ROW))
        last_children = {parent: i for i, parent in enumerate(self.parents)}
        self._ncolumns = 0
        for i, joint in enumerate(joints):
            columns = len(COORDINATE_SUFFIXES[joint.kind][1])
            table[i + 1] = (
                joint.parent + 1,
                JOINT_KINDS[joint.kind],
                self.idx_q[i],
                self.idx_v[i],
                columns,
                self._ncolumns,
                i in last_children,
                last_children[joint.parent] == i,
            )
            rows[i + 1] = _joint_constants(joint)
            self._ncolumns += columns
        self._tree_table = table
        self._velocity_tree = self._velocity_tree_rows(joints)
        self.row_parents = tuple(self._velocity_tree[0].tolist())
        self._unit_quaternions = [
            self.idx_q[i] + QUATERNION_STARTS[joint.kind]
            for i, joint in enumerate(joints)
            if joint.kind in QUATERNION_STARTS
        ]
        numbered = list(enumerate(self.tree.frames))[::-1]  # the first frame of a name prevails
        self._frame_indices: dict[str | int, int] = {frame.name: i for i, frame in numbered}
        self._frame_indices.update({frame.name: i for i, frame in numbered if frame.kind == "body"})
        joint_frames = [i for i, frame in enumerate(self.tree.frames) if frame.kind == "joint"]
        self._frame_selectors = frame_selectors(
            {**{i: i for i in range(len(self.frame_names))}, **self._frame_indices}
        )
        self._joint_selectors = frame_selectors(
            {**dict(enumerate(joint_frames)), **dict(zip(self.joint_names, joint_frames))}
        )
        placements = [
            [*frame.placement[:3, :3].ravel(), *frame.placement[:3, 3]]
            for frame in self.tree.frames
        ]
        links = [link_parameters(frame) for frame in self.tree.frames]
        self._floats = np.concatenate(
            [
                np.zeros(3),
                np.eye(6)[list(packing.UNIT_MOTIONS)].ravel(),
                rows.ravel(),
                np.zeros(self.nv),
                np.ravel(placements),
                np.ravel(links),
            ]
        )
        self._ints = self._packed_integers(joints)

    def _packed_integers(self, joints: Sequence[Joint]) -> NDArray[np.int64]:
        """Return sizes, the tree and the lists in one array; see packing.py."""
        header = np.zeros(packing.TREE, np.int64)
        header[packing.NJOINTS] = self.njoints
        header[packing.NQ], header[packing.NV] = self.nq, self.nv
        header[packing.NALLCOLUMNS] = self._ncolumns
        header[packing.NFRAMES] = self.nframes
        header[packing.HAS_MIMIC_JOINTS] = self._has_mimic_joints = any(
            joint.mimic for joint in joints
        )
        header[packing.NUNIT] = len(self._unit_quaternions)
        tables = [header, self._tree_table.ravel(), self._velocity_tree.ravel()]
        header[packing.UNIT_LIST] = sum(map(len, tables))
        header[packing.FRAME_LIST] = header[packing.UNIT_LIST] + len(self._unit_quaternions)
        lists = [np.array(self._unit_quaternions, np.int64), *self._frame_lists()]
        return np.concatenate([*tables, *lists])

    def _frame_lists(self) -> NDArray[np.int64]:
        """Return the joints that move the frames, and the connections of frames; see packing.py."""
        frames = self.tree.frames
        connecting = list(range(len(frames)))
        parents = [-1] * len(frames)
        for i, frame in enumerate(frames):
            if frame.parent_frame < 0:
                continue
            if frame.kind == "body":
                connecting[i] = frame.parent_frame
            elif frame.kind == "frame":
                connecting[i] = connecting[frame.parent_frame]
            else:
                parents[i] = connecting[frame.parent_frame]
        carriers = [frame.parent + 1 for frame in frames]
        joints = [frame.parent + 1 if frame.kind == "joint" else 0 for frame in frames]
        return np.array([carriers, connecting, parents, joints], np.int64)

    def _velocity_tree_rows(self, joints: Sequence[Joint]) -> NDArray[np.int64]:
        """Return for each velocity its parent, or -1, and the end of its range of descendants.

        M is sparse along this tree (Featherstone 2008, section 6.4). If there are mimic joints,
        the velocities form a single chain.
        """
        parents = np.arange(-1, self.nv - 1)
        if not any(joint.mimic for joint in joints):
            last_velocity = {-1: -1}
            for i, joint in enumerate(joints):
                parents[self.idx_v[i]] = last_velocity[joint.parent]
                last_velocity[i] = self.idx_v[i] + self.nvs[i] - 1
        ends = np.arange(1, self.nv + 1)
        for k in range(self.nv - 1, -1, -1):
            if parents[k] >= 0:
                ends[parents[k]] = max(ends[parents[k]], ends[k])
        return np.array([parents, ends])

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the children of each joint, in ascending order."""
        child_lists: list[list[int]] = [[] for _ in self.parents]
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                child_lists[parent].append(i)
        return tuple(map(tuple, child_lists))

    @cached_property
    def supports(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the joints from the root to each joint, which is the last one."""
        paths: list[tuple[int, ...]] = []
        for i, parent in enumerate(self.parents):
            paths.append((*paths[parent], i) if parent >= 0 else (i,))
        return tuple(paths)

    @cached_property
    def subtrees(self) -> tuple[tuple[int, ...], ...]:
        """Indices of each joint and its descendants, which are consecutive."""
        joint_lists: list[list[int]] = [[] for _ in self.parents]
        for i, path in enumerate(self.supports):
            for ancestor in path:
                joint_lists[ancestor].append(i)
        return tuple(map(tuple, joint_lists))

    def joint_index(self, name: str) -> int:
        """Return the index of a joint in ``joint_names``; raise a ValueError if it is unknown."""
        return _index_of_name("joint", name, self.joint_names)

    def frame_index(self, name: str) -> int:
        """Return the index of a frame in ``frame_names``; raise a ValueError if it is unknown.

        If a joint and a link have the same name, the frame of the link is selected.
        """
        try:
            return self._frame_indices[name]
        except KeyError:
            return _index_of_name("frame", name, self.frame_names)


def _index_of_name(element_kind: str, name: str, names: tuple[str, ...]) -> int:
    """Return the index of a name; raise a ValueError that lists the names."""
    try:
        return names.index(name)
    except ValueError:
        raise ValueError(unknown_name(element_kind, name, names)) from None
