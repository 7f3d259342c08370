# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Submodels of a robot: with locked joints, and serial chains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from ..kernel import lie
from ..kernel.names import join_names, short_repr
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_array
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .configuration import joint_motion
from .coordinates import independent_joint_indices
from .frames import frame_number
from .inertia import Payload, link_frame
from .physical_constants import PhysicalConstants
from .urdf import ONE_DOF, Frame, Joint, Mimic, Tree
from .urdf.tree import MAX_ANGLE, MAX_URDF_NUMBER

_POSITION_ATTRIBUTES = ("lower", "upper")
_VELOCITY_ATTRIBUTES = ("velocity_limit", "effort_limit", "armature", "damping", "friction")

Carrier: TypeAlias = tuple[int, Array]
"""The joint that moves a body, -1 for the universe, and the placement (4, 4) in its frame."""


def copy_coordinates(
    model: PhysicalConstants, submodel: PhysicalConstants, names: Sequence[str] | None = None
) -> None:
    """Copy limits, armature, friction and drives of the coordinates that both models have.

    ``names`` are the names of the model's joints in the submodel, if they differ.
    """
    index = {name: i for i, name in enumerate(names or model.joint_names) if model.nvs[i]}
    submodel_rows: list[int] = []
    model_rows: list[int] = []
    for i, name in enumerate(submodel.joint_names):
        if submodel.nvs[i] and name in index:
            j = index[name]
            for attribute in _POSITION_ATTRIBUTES:
                getattr(submodel, attribute)[submodel.idx_q[i] :][: submodel.nqs[i]] = getattr(
                    model, attribute
                )[model.idx_q[j] :][: submodel.nqs[i]]
            submodel_rows += range(submodel.idx_v[i], submodel.idx_v[i] + submodel.nvs[i])
            model_rows += range(model.idx_v[j], model.idx_v[j] + model.nvs[j])
            for attribute in _VELOCITY_ATTRIBUTES:
                getattr(submodel, attribute)[submodel.idx_v[i] :][: submodel.nvs[i]] = getattr(
                    model, attribute
                )[model.idx_v[j] :][: submodel.nvs[i]]
    submodel.drives = submodel.drives.put(submodel_rows, model.drives.take(model_rows))


def _inverse_placement(X: Array) -> Array:
    inverse, R = np.eye(4), X[:3, :3].T
    inverse[:3, :3], inverse[:3, 3] = R, -R @ X[:3, 3]
    return inverse


def _moved_inertia(X: Array, inertia: Inertia) -> Inertia:
    """Return an inertia, given in a frame at X, in the frame in which X is placed."""
    return SE3.from_homogeneous(X).act(inertia)


# --- locked joints


def lock_joints(
    model: PhysicalConstants, lock: Mapping[str, float | ArrayLike]
) -> tuple[Tree, dict[str, Payload]]:
    """Return the tree and the payloads of the model with locked joints; see ``Model.reduced``.

    Its frames have the same indices as in the model.
    """
    tree = model.tree
    motions = _locked_motions(model, lock)
    carriers = _find_carriers(tree.joints, motions)
    bodies = [Inertia.zero() for _ in range(len(tree.joints) - len(motions))] + [tree.base_inertia]
    for joint, (carrier, X) in zip(tree.joints, carriers):
        bodies[carrier] = bodies[carrier] + _moved_inertia(X, joint.inertia)
    joints = tuple(
        _joint_in_reduced(joint, carriers, bodies[carriers[i][0]])
        for i, joint in enumerate(tree.joints)
        if i not in motions
    )
    frames = tuple(_frame_in_reduced(frame, carriers, motions) for frame in tree.frames)
    payloads = {
        name: _payload_in_reduced(payload, carriers) for name, payload in model._payloads.items()
    }
    return (
        replace(tree, joints=joints, frames=frames, base_inertia=bodies[-1]),
        payloads,
    )


def _locked_motions(
    model: PhysicalConstants, lock: Mapping[str, float | ArrayLike]
) -> dict[int, Array]:
    """Return the placement of each locked joint relative to its zero position, by joint index."""
    if not isinstance(lock, Mapping):
        raise TypeError(
            f"lock: expected a dict from names of joints to positions, got "
            f"{type(lock).__name__}: {short_repr(lock)}"
        )
    positions = {}
    for name, position in lock.items():
        index = _lockable_joint(model, name)
        positions[index] = _checked_position(model.tree.joints[index], model.nqs[index], position)
    for i, joint in enumerate(model.tree.joints):
        if joint.mimic and joint.mimic.joint in positions:
            (x,) = positions[joint.mimic.joint]
            positions[i] = np.array([joint.mimic.multiplier * x + joint.mimic.offset])
    return {i: joint_motion(model.tree.joints[i], x) for i, x in positions.items()}


def _lockable_joint(model: PhysicalConstants, name: str) -> int:
    """Return the index of an independent joint; raise a ValueError for any other name."""
    fixed = (frame.name for frame in model.tree.frames if frame.kind == "fixed_joint")
    independent = join_names(independent_joint_indices(model))
    if name not in model.joint_names:
        reason = "is fixed already" if name in fixed else "is unknown"
        raise ValueError(f"lock: joint {short_repr(name)} {reason}; available: {independent}")
    index = model.joint_names.index(name)
    mimic = model.tree.joints[index].mimic
    if mimic:
        master = model.joint_names[mimic.joint]
        raise ValueError(
            f"lock: joint {name!r} mimics joint {master!r}; lock {master!r}, which "
            'locks both, or read the description with mimic="ignore"'
        )
    return index


def _checked_position(joint: Joint, nq: int, value: float | ArrayLike) -> Array:
    """Return the position of a joint, (nq,); raise a ValueError if it is invalid."""
    label = f"position of joint {joint.name!r}"
    x = finite_array(label, value, () if nq == 1 else (nq,)).reshape(nq)
    limit = MAX_URDF_NUMBER if joint.kind in ("prismatic", "floating") else MAX_ANGLE
    if np.abs(x).max() > limit:
        raise ValueError(f"{label}: expected at most {limit:g}, got {short_repr(value)}")
    rotation = x[-4:]
    if (
        joint.kind in ("floating", "spherical")
        and not abs(rotation @ rotation - 1.0) < lie.UNIT_TOLERANCE
    ):
        position_part = " after x y z" if joint.kind == "floating" else ""
        raise ValueError(
            f"{label}: expected a unit quaternion (x y z w){position_part}, got length "
            f"{np.linalg.norm(rotation):.9g}; normalize it"
        )
    return x


def _find_carriers(joints: Sequence[Joint], motions: Mapping[int, Array]) -> list[Carrier]:
    """Return for each joint the remaining joint that carries it, and its placement there.

    Remaining joints are numbered in their order; the universe follows as the last item.
    """
    carriers: list[tuple[int, Array]] = []
    nremaining = 0
    for i, joint in enumerate(joints):
        if i in motions:
            carrier, X = carriers[joint.parent] if joint.parent >= 0 else (-1, np.eye(4))
            carriers.append((carrier, X @ joint.placement @ motions[i]))
        else:
            carriers.append((nremaining, np.eye(4)))
            nremaining += 1
    return [*carriers, (-1, np.eye(4))]


def _joint_in_reduced(joint: Joint, carriers: Sequence[Carrier], inertia: Inertia) -> Joint:
    """Return a joint as a child of its carrier in the reduced robot, with another inertia."""
    parent, X = carriers[joint.parent]
    mimic = joint.mimic and replace(joint.mimic, joint=carriers[joint.mimic.joint][0])
    return replace(
        joint, parent=parent, placement=X @ joint.placement, mimic=mimic, inertia=inertia
    )


def _frame_in_reduced(frame: Frame, carriers: Sequence[Carrier], motions: Collection[int]) -> Frame:
    """Return a frame in the reduced robot; frames of locked joints become fixed joints."""
    parent, X = carriers[frame.parent]
    kind = "fixed_joint" if frame.kind == "joint" and frame.parent in motions else frame.kind
    return replace(frame, kind=kind, parent=parent, placement=X @ frame.placement)


def _payload_in_reduced(payload: Payload, carriers: Sequence[Carrier]) -> Payload:
    """Return a payload as carried by a joint of the reduced robot."""
    joint, X = carriers[payload.joint]
    return Payload(joint, _moved_inertia(X, payload.inertia), payload.frame)


# --- serial chains


def extract_chain(
    model: PhysicalConstants, root: str | int, tip: str | int
) -> tuple[Tree, dict[str, Payload]]:
    """Return the tree and the payloads of a serial chain; see ``Model.chain``."""
    frames = model.tree.frames
    root_link, tip_link = (
        link_frame(model.tree, frame_number(model, frame, argument))
        for argument, frame in (("root", root), ("tip", tip))
    )
    ascending, descending = _links_to_root(frames, root_link), _links_to_root(frames, tip_link)
    while len(ascending) > 1 and len(descending) > 1 and ascending[-2] == descending[-2]:
        ascending.pop()
        descending.pop()
    builder = _ChainBuilder(model, root_link)
    for link, parent in pairwise(ascending):
        builder.ascend(link, parent)
    for link, child in pairwise(descending[::-1]):
        builder.descend(link, child)
    builder.append_added_frames()
    return builder.tree(), builder.payloads()


def _links_to_root(frames: Sequence[Frame], link: int) -> list[int]:
    """Return the indices of a link and of its ancestors, up to the root link."""
    links = [link]
    while True:
        joint = frames[links[-1]].parent_frame
        if joint < 0 or frames[joint].parent_frame < 0:
            return links
        links.append(frames[joint].parent_frame)


class _ChainBuilder:
    """A chain of links, from a root link that is fixed in the world."""

    def __init__(self, model: PhysicalConstants, root: int) -> None:
        self._model, self._frames = model, model.tree.frames
        self._joints: list[Joint] = []  # parents, placements and axes refer to the chain
        self._links: list[int] = []  # indices of the model's links, in the order of the chain
        self._chain_frames: list[Frame] = []
        self._link_placement = np.eye(4)  # the last link in the frame of the last joint
        self._append_link(root)

    def ascend(self, link: int, parent: int) -> None:
        """Append the parent of the last link: their joint is reversed."""
        joint_frame, joint_index = self._joint_above(link)
        if joint_index is None:
            self._append_frame(joint_frame)
        else:
            joint = self._model.tree.joints[joint_index]
            if joint.kind not in ONE_DOF:
                raise ValueError(
                    f"root: the way from {self._frames[self._links[0]].name!r} to the tip passes "
                    f"the {joint.kind} joint {joint.name!r} from its child to its parent, which "
                    f"only {join_names(ONE_DOF)} joints support; use a root above it, such as "
                    f"{self._frames[parent].name!r}"
                )
            self._append_joint(joint, self._link_placement, 0.0 - joint.axis)
            self._append_frame(joint_frame)
        self._link_placement = self._link_placement @ _inverse_placement(
            self._joint_placement(joint_frame, parent, joint_index)
        )
        self._append_link(parent)

    def descend(self, link: int, child: int) -> None:
        """Append a child of the last link."""
        joint_frame, joint_index = self._joint_above(child)
        X = self._link_placement @ self._joint_placement(joint_frame, link, joint_index)
        if joint_index is None:
            self._link_placement = X
        else:
            joint = self._model.tree.joints[joint_index]
            self._append_joint(joint, X, joint.axis)
        self._append_frame(joint_frame)
        self._append_link(child)

    def _joint_above(self, link: int) -> tuple[int, int | None]:
        """Return the index of the joint frame above a link, and of its joint unless it is fixed."""
        index = self._frames[link].parent_frame
        frame = self._frames[index]
        return index, frame.parent if frame.kind == "joint" else None

    def _joint_placement(self, joint_frame: int, parent: int, joint_index: int | None) -> Array:
        """Return the placement of a joint at position zero in the frame of its parent link."""
        X = (
            self._frames[joint_frame].placement
            if joint_index is None
            else self._model.tree.joints[joint_index].placement
        )
        return _inverse_placement(self._frames[parent].placement) @ X

    def _append_joint(self, joint: Joint, X: Array, axis: Array) -> None:
        """Append a joint to the end of the chain."""
        self._joints.append(replace(joint, parent=len(self._joints) - 1, placement=X, axis=axis))
        self._link_placement = np.eye(4)

    def _append_link(self, index: int) -> None:
        """Append the link of a frame to the end of the chain."""
        self._links.append(index)
        self._append_frame(index)

    def append_added_frames(self) -> None:
        """Append the frames that were added to links of the chain."""
        for frame in self._frames:
            if frame.kind == "frame" and frame.parent_frame in self._links:
                index, X = self._find_in_chain(frame.parent_frame)
                link = self._chain_frames[index]
                self._chain_frames.append(
                    replace(
                        frame, parent=link.parent, placement=X @ frame.placement, parent_frame=index
                    )
                )

    def _find_in_chain(self, link: int) -> tuple[int, Array]:
        """Return the index of a link's frame in the chain, and the placement of its former joint.

        The placement is that in the joint that moves the link in the chain.
        """
        index = 2 * self._links.index(link)  # links and joints alternate
        placement = self._chain_frames[index].placement
        return index, placement @ _inverse_placement(self._frames[link].placement)

    def _append_frame(self, index: int) -> None:
        """Append a frame of the end of the chain."""
        frame = self._frames[index]
        self._chain_frames.append(
            Frame(
                frame.name,
                frame.kind,
                len(self._joints) - 1,
                self._link_placement,
                len(self._chain_frames) - 1,
                frame.inertia,
            )
        )

    def tree(self) -> Tree:
        """Return the chain as a tree."""
        bodies = [Inertia.zero() for _ in range(len(self._joints) + 1)]
        for frame in self._chain_frames:
            bodies[frame.parent] = bodies[frame.parent] + _moved_inertia(
                frame.placement, frame.inertia
            )
        joints = tuple(
            replace(joint, inertia=body, mimic=self._mimic(joint.mimic))
            for joint, body in zip(self._joints, bodies)
        )
        return replace(
            self._model.tree,
            joints=joints,
            frames=tuple(self._chain_frames),
            base_inertia=bodies[-1],
        )

    def _mimic(self, mimic: Mimic | None) -> Mimic | None:
        """Return the rule of a mimic joint in the chain; None if its master is not in it."""
        if mimic is None:
            return None
        names = [joint.name for joint in self._joints]
        master = self._model.joint_names[mimic.joint]
        return replace(mimic, joint=names.index(master)) if master in names else None

    def payloads(self) -> dict[str, Payload]:
        """Return the payloads on links of the chain."""
        payloads = {}
        for name, payload in self._model._payloads.items():
            if payload.frame in self._links:
                index, X = self._find_in_chain(payload.frame)
                payloads[name] = Payload(
                    self._chain_frames[index].parent, _moved_inertia(X, payload.inertia), index
                )
        return payloads
