# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bodies of an mjModel: placements of its joints, frames of joints, links and sites, inertias."""

from __future__ import annotations

import numpy as np

from ...kernel import lie
from ...kernel.types import Array
from ...spatial.inertia import Inertia
from ...spatial.se3 import SE3
from ..urdf import Frame, rotational_fault
from .names import ElementNames, given_name, unused_name
from .source import KINDS, MjModel

# enumeration mjtSameFrame: the inertial frame is the body's, or has its axes
_SAME_FRAME, _SAME_ROTATION = 1, 3


class BodyTree:
    """Joints and frames of an mjModel, in its order, which is depth first.

    A body with several joints, or whose joint is not at its origin, has massless links between:
    each joint moves a link whose frame is the joint frame. If the world has nothing but one
    free body, the world is no link, as for a description that is read with a root joint.

    Attributes
    ----------
    parents : list of int
        Joint that moves each joint, -1 for the universe.
    placements : list of (4, 4) ndarray
        Placement of each joint at position 0, in the frame of its parent.
    inertias : list of Inertia
        Inertia that each joint moves, in its frame.
    frames : list of Frame
        Frames of joints and links, then of sites.
    base_inertia : Inertia
        Inertia that is fixed to the world.
    """

    def __init__(self, source: MjModel, names: ElementNames, warnings: list[str]) -> None:
        self.parents: list[int] = []
        self.placements: list[Array] = []
        self.inertias: list[Inertia] = []
        self.frames: list[Frame] = []
        self.base_inertia = Inertia.zero()
        self._source, self._names = source, names
        self._joint_names, self._link_names = set(names.joints), set(names.bodies)
        # Of each body, the joint that moves it, its placement there, and its frame.
        self._carriers: list[tuple[int, Array]] = [(-1, np.eye(4))]
        self._link_frames = [-1]
        if not _is_free_robot(source):
            self._link_frames = [0]
            world = Frame(names.bodies[0], "body", -1, np.eye(4), -1, Inertia.zero())
            self.frames.append(world)
        for body in range(1, source.nbody):
            self._add_body(body, warnings)
        self._add_sites()

    def _add_body(self, body: int, warnings: list[str]) -> None:
        """Add the joints and the frames of a body."""
        source, name = self._source, self._names.bodies[body]
        parent = source.body_parentid[body]
        link, (carrier, X) = self._link_frames[parent], self._carriers[parent]
        X = X @ _pose(source.body_quat[body], source.body_pos[body])
        inertia = Inertia(source.body_mass[body], np.zeros(3), np.diag(source.body_inertia[body]))
        if fault := rotational_fault(inertia.rotational):
            warnings.append(f'inertia of body "{name}" {fault}')
        inertia = SE3.from_homogeneous(_inertial_pose(source, body)).act(inertia)
        first, count = source.body_jntadr[body], source.body_jntnum[body]
        for joint in range(first, first + count):
            carrier, X = self._add_joint(joint, carrier, X)
            is_body = joint == first + count - 1 and not X[:3, 3].any()
            link_name = name if is_body else self._new_link_name(self._names.joints[joint])
            link = self._add_link(
                Frame(self._names.joints[joint], "joint", carrier, np.eye(4), link, Inertia.zero()),
                link_name,
                inertia if is_body else Inertia.zero(),
            )
        if not count or X[:3, 3].any():
            connection = self._new_joint_name(name)
            link = self._add_link(
                Frame(connection, "fixed_joint", carrier, X, link, Inertia.zero()), name, inertia
            )
        self._link_frames.append(link)
        self._carriers.append((carrier, X))
        moved = SE3.from_homogeneous(X).act(inertia)
        if carrier < 0:
            self.base_inertia = self.base_inertia + moved
        else:
            self.inertias[carrier] = self.inertias[carrier] + moved

    def _add_joint(self, joint: int, parent: int, X: Array) -> tuple[int, Array]:
        """Add a joint of a body at X in its parent; return it, and the body's placement in it."""
        source, kind = self._source, KINDS[self._source.jnt_type[joint]]
        anchor = np.eye(4)
        if kind == "floating":
            X = np.eye(4)  # its position is in the world
        else:
            anchor[:3, 3] = source.jnt_pos[joint]
        self.parents.append(parent)
        self.placements.append(X @ anchor @ _zero_position(source, joint))
        self.inertias.append(Inertia.zero())
        anchor[:3, 3] *= -1.0
        return joint, anchor

    def _add_link(self, connection: Frame, name: str, inertia: Inertia) -> int:
        """Add the frames of a connection and of the link that it moves; return the latter."""
        X = connection.placement
        link = Frame(name, "body", connection.parent, X, len(self.frames), inertia)
        self.frames += [connection, link]
        return len(self.frames) - 1

    def _add_sites(self) -> None:
        """Add the frames of the sites that have a name."""
        source, taken = self._source, {frame.name for frame in self.frames}
        for site in range(source.nsite):
            name, body = given_name(source, "site", site), source.site_bodyid[site]
            if not name:
                continue
            carrier, X = self._carriers[body]
            X = X @ _pose(source.site_quat[site], source.site_pos[site])
            name = unused_name(f"{name}_site", taken) if name in taken else name
            taken.add(name)
            link = self._link_frames[body]
            self.frames.append(Frame(name, "frame", carrier, X, link, Inertia.zero()))

    def _new_link_name(self, joint: str) -> str:
        """Return a name for the massless link that a joint moves."""
        name = unused_name(f"{joint}_link", self._link_names)
        self._link_names.add(name)
        return name

    def _new_joint_name(self, body: str) -> str:
        """Return a name for the fixed joint of a body."""
        name = unused_name(f"{body}_joint", self._joint_names)
        self._joint_names.add(name)
        return name


def _is_free_robot(source: MjModel) -> bool:
    """Return True if there is one free body with all others on it, and no site on the world."""
    top_bodies = np.flatnonzero(source.body_parentid == 0)[1:]  # without the world itself
    return bool(
        len(top_bodies) == 1
        and source.njnt
        and KINDS[source.jnt_type[0]] == "floating"
        and not any(
            given_name(source, "site", site)
            for site in np.flatnonzero(source.site_bodyid == 0).tolist()
        )
    )


def _pose(quaternion: Array, translation: Array) -> Array:
    """Return the placement, (4, 4), of a quaternion w x y z and a translation."""
    return SE3.from_quaternion(np.roll(quaternion, -1), translation).as_homogeneous()


def _inertial_pose(source: MjModel, body: int) -> Array:
    """Return the placement, (4, 4), of the inertial frame that MuJoCo uses in a body.

    MuJoCo ignores offsets and rotations that are almost zero.
    """
    same_frame = source.body_sameframe[body]
    X = _pose(source.body_iquat[body], source.body_ipos[body])
    if same_frame in (_SAME_FRAME, _SAME_ROTATION):
        X[:3, :3] = np.eye(3)
    if same_frame == _SAME_FRAME:
        X[:3, 3] = 0.0
    return X


def _zero_position(source: MjModel, joint: int) -> Array:
    """Return the motion (4, 4) from the reference of a joint, where it has ``ref``, to 0."""
    kind, axis = KINDS[source.jnt_type[joint]], source.jnt_axis[joint]
    shift = -axis * source.qpos0[source.jnt_qposadr[joint]]
    if kind == "prismatic":
        return SE3(np.eye(3), shift).as_homogeneous()
    if kind == "revolute":
        return SE3.from_quaternion(lie.quaternion_exp(shift)).as_homogeneous()
    return np.eye(4)
