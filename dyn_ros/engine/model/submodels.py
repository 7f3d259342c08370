# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a robot: a robot with locked joints, and serial chains."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..kernel import lie
from ..kernel.names import listed
from ..kernel.types import Array
from ..kernel.validation import finite_array
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .configuration import joint_motion
from .coordinates import own_joints
from .frames import frame_number
from .link_inertias import Payload, link_frame
from .urdf import ONE_DOF, Frame
from .urdf.tree import MAX_ANGLE, MAX_URDF_NUMBER

_OF_POSITIONS = ("lower", "upper")
_OF_VELOCITIES = ("velocity_limit", "effort_limit", "armature", "damping", "friction")


def copy_coordinates(model, part, names=None):
    """Copy limits, armature, friction and drives of the coordinates that both models have.

    ``names`` are those of the model's joints in the part, if they differ.
    """
    index = {name: i for i, name in enumerate(names or model.joint_names) if model.nvs[i]}
    rows: list[int] = []
    others: list[int] = []
    for i, name in enumerate(part.joint_names):
        if part.nvs[i] and name in index:
            j = index[name]
            for attribute in _OF_POSITIONS:
                getattr(part, attribute)[part.idx_q[i] :][: part.nqs[i]] = getattr(
                    model, attribute
                )[model.idx_q[j] :][: part.nqs[i]]
            rows += range(part.idx_v[i], part.idx_v[i] + part.nvs[i])
            others += range(model.idx_v[j], model.idx_v[j] + model.nvs[j])
            for attribute in _OF_VELOCITIES:
                getattr(part, attribute)[part.idx_v[i] :][: part.nvs[i]] = getattr(
                    model, attribute
                )[model.idx_v[j] :][: part.nvs[i]]
    part.drives = part.drives.put(rows, model.drives.take(others))


def _inverse(X):
    back, R = np.eye(4), X[:3, :3].T
    back[:3, :3], back[:3, 3] = R, -R @ X[:3, 3]
    return back


def _moved(X, inertia):
    return SE3.from_homogeneous(X).act(inertia)


# --- locked joints


def reduced(model, lock):
    """The tree and the payloads of the model with locked joints; see ``Model.reduced``.

    Its frames have the same indices as those of the model.
    """
    tree = model.tree
    motions = _motions(model, lock)
    places = _places(tree.joints, motions)
    bodies = [Inertia.zero() for _ in range(len(tree.joints) - len(motions))] + [tree.base_inertia]
    for joint, (kept, X) in zip(tree.joints, places):
        bodies[kept] = bodies[kept] + _moved(X, joint.inertia)
    joints = tuple(
        _joint_in_reduced(joint, places, bodies[places[i][0]])
        for i, joint in enumerate(tree.joints)
        if i not in motions
    )
    frames = tuple(_frame_in_reduced(frame, places, motions) for frame in tree.frames)
    payloads = {
        name: _payload_in_reduced(payload, places) for name, payload in model._payloads.items()
    }
    return (
        replace(tree, joints=joints, frames=frames, base_inertia=bodies[-1]),
        payloads,
    )


def _motions(model, lock):
    """The placement of each locked joint relative to its zero position, by index of the joint."""
    if not isinstance(lock, Mapping):
        raise TypeError(
            f"lock: expected a dict from names of joints to positions, got "
            f"{type(lock).__name__}: {lock!r:.80}"
        )
    positions = {}
    for name, position in lock.items():
        index = _lockable_joint(model, name)
        positions[index] = _position(model.tree.joints[index], model.nqs[index], position)
    for i, joint in enumerate(model.tree.joints):
        if joint.mimic and joint.mimic.joint in positions:
            (x,) = positions[joint.mimic.joint]
            positions[i] = np.array([joint.mimic.multiplier * x + joint.mimic.offset])
    return {i: joint_motion(model.tree.joints[i], x) for i, x in positions.items()}


def _lockable_joint(model, name):
    """Index of an independent joint."""
    fixed = (frame.name for frame in model.tree.frames if frame.kind == "fixed_joint")
    independent = listed(own_joints(model))
    if name not in model.joint_names:
        what = "is fixed already" if name in fixed else "is unknown"
        raise ValueError(f"lock: joint {name!r:.80} {what}; available: {independent}")
    index = model.joint_names.index(name)
    mimic = model.tree.joints[index].mimic
    if mimic:
        master = model.joint_names[mimic.joint]
        raise ValueError(
            f"lock: joint {name!r} mimics joint {master!r}; lock {master!r}, which "
            'locks both, or read the description with mimic="ignore"'
        )
    return index


def _position(joint, nq, value):
    """The validated position of a joint, (nq,)."""
    what = f"position of joint {joint.name!r}"
    x = finite_array(what, value, () if nq == 1 else (nq,)).reshape(nq)
    farthest = MAX_URDF_NUMBER if joint.kind in ("prismatic", "floating") else MAX_ANGLE
    if np.abs(x).max() > farthest:
        raise ValueError(f"{what}: expected at most {farthest:g}, got {value!r:.80}")
    rotation = x[-4:]
    if (
        joint.kind in ("floating", "spherical")
        and not abs(rotation @ rotation - 1.0) < lie.UNIT_TOLERANCE
    ):
        after = " after x y z" if joint.kind == "floating" else ""
        raise ValueError(
            f"{what}: expected a unit quaternion (x y z w){after}, got length "
            f"{np.linalg.norm(rotation):.9g}; normalize it"
        )
    return x


def _places(joints, motions):
    """For each joint the kept joint that moves it, -1 for the universe, and its placement there.

    Kept joints are numbered in their order; the universe follows as the last item.
    """
    places: list[tuple[int, Array]] = []
    count = 0
    for i, joint in enumerate(joints):
        if i in motions:
            kept, X = places[joint.parent] if joint.parent >= 0 else (-1, np.eye(4))
            places.append((kept, X @ joint.placement @ motions[i]))
        else:
            places.append((count, np.eye(4)))
            count += 1
    return [*places, (-1, np.eye(4))]


def _joint_in_reduced(joint, places, inertia):
    parent, X = places[joint.parent]
    mimic = joint.mimic and replace(joint.mimic, joint=places[joint.mimic.joint][0])
    return replace(
        joint, parent=parent, placement=X @ joint.placement, mimic=mimic, inertia=inertia
    )


def _frame_in_reduced(frame, places, motions):
    parent, X = places[frame.parent]
    kind = "fixed_joint" if frame.kind == "joint" and frame.parent in motions else frame.kind
    return replace(frame, kind=kind, parent=parent, placement=X @ frame.placement)


def _payload_in_reduced(payload, places):
    joint, X = places[payload.joint]
    return Payload(joint, _moved(X, payload.inertia), payload.frame)


# --- serial chains


def chain(model, root, tip):
    """The tree and the payloads of a serial chain; see ``Model.chain``."""
    frames = model.tree.frames
    first, last = (
        link_frame(model.tree, frame_number(model, frame, argument))
        for argument, frame in (("root", root), ("tip", tip))
    )
    up, down = _links_to_root(frames, first), _links_to_root(frames, last)
    while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
        up.pop()
        down.pop()
    path = _Chain(model, first)
    for link, above in pairwise(up):
        path.ascend(link, above)
    for link, below in pairwise(down[::-1]):
        path.descend(link, below)
    path.append_added_frames()
    return path.tree(), path.payloads()


def _links_to_root(frames, link):
    """Indices of a link and of those above it, up to the root link."""
    links = [link]
    while True:
        joint = frames[links[-1]].parent_frame
        if joint < 0 or frames[joint].parent_frame < 0:
            return links
        links.append(frames[joint].parent_frame)


class _Chain:
    """A chain of links, from a root link that is fixed in the world."""

    def __init__(self, model, root):
        self._model, self._frames = model, model.tree.frames
        self._joints = []  # of the model, with their new parent, placement and axis
        self._links = []  # those of the model, in the order of the chain
        self._chain_frames = []
        self._X = np.eye(4)  # the last link in the frame of the last joint
        self._append_link(root)

    def ascend(self, link, above):
        """Append the link above the last one: their joint is reversed."""
        joint_frame, moving = self._joint_between(link)
        if moving is None:
            self._append_frame(joint_frame)
        else:
            joint = self._model.tree.joints[moving]
            if joint.kind not in ONE_DOF:
                raise ValueError(
                    f"root: the way from {self._frames[self._links[0]].name!r} to the tip passes "
                    f"the {joint.kind} joint {joint.name!r} from its child to its parent, which "
                    f"only {listed(ONE_DOF)} joints support; use a root above it, such as "
                    f"{self._frames[above].name!r}"
                )
            self._append_joint(joint, self._X, 0.0 - joint.axis)
            self._append_frame(joint_frame)
        self._X = self._X @ _inverse(self._placement(joint_frame, above, moving))
        self._append_link(above)

    def descend(self, link, below):
        """Append a link below the last one."""
        joint_frame, moving = self._joint_between(below)
        X = self._X @ self._placement(joint_frame, link, moving)
        if moving is None:
            self._X = X
        else:
            joint = self._model.tree.joints[moving]
            self._append_joint(joint, X, joint.axis)
        self._append_frame(joint_frame)
        self._append_link(below)

    def _joint_between(self, link):
        """Frame of the joint above a link; the joint itself if it is not fixed."""
        index = self._frames[link].parent_frame
        frame = self._frames[index]
        return index, frame.parent if frame.kind == "joint" else None

    def _placement(self, joint_frame, above, moving):
        """The frame of a joint, at its zero position, in the frame of the link above it."""
        X = (
            self._frames[joint_frame].placement
            if moving is None
            else self._model.tree.joints[moving].placement
        )
        return _inverse(self._frames[above].placement) @ X

    def _append_joint(self, joint, X, axis):
        self._joints.append(replace(joint, parent=len(self._joints) - 1, placement=X, axis=axis))
        self._X = np.eye(4)

    def _append_link(self, index):
        self._links.append(index)
        self._append_frame(index)

    def append_added_frames(self):
        """Append the frames that were added to links of the chain."""
        for frame in self._frames:
            if frame.kind == "frame" and frame.parent_frame in self._links:
                index, X = self._in_chain(frame.parent_frame)
                link = self._chain_frames[index]
                self._chain_frames.append(
                    replace(
                        frame, parent=link.parent, placement=X @ frame.placement, parent_frame=index
                    )
                )

    def _in_chain(self, link):
        """Index of the frame of a link in the chain, and the placement of its former joint there.

        The placement is that in the joint that moves the link in the chain.
        """
        index = 2 * self._links.index(link)  # links and joints alternate
        placement = self._chain_frames[index].placement
        return index, placement @ _inverse(self._frames[link].placement)

    def _append_frame(self, index):
        frame = self._frames[index]
        self._chain_frames.append(
            Frame(
                frame.name,
                frame.kind,
                len(self._joints) - 1,
                self._X,
                len(self._chain_frames) - 1,
                frame.inertia,
            )
        )

    def tree(self):
        """The chain as a tree."""
        bodies = [Inertia.zero() for _ in range(len(self._joints) + 1)]
        for frame in self._chain_frames:
            bodies[frame.parent] = bodies[frame.parent] + _moved(frame.placement, frame.inertia)
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

    def _mimic(self, mimic):
        """The rule of a mimic joint; None if its master is not in the chain."""
        if mimic is None:
            return None
        names = [joint.name for joint in self._joints]
        master = self._model.joint_names[mimic.joint]
        return replace(mimic, joint=names.index(master)) if master in names else None

    def payloads(self):
        """The payloads on links of the chain."""
        payloads = {}
        for name, payload in self._model._payloads.items():
            if payload.frame in self._links:
                index, X = self._in_chain(payload.frame)
                payloads[name] = Payload(
                    self._chain_frames[index].parent, _moved(X, payload.inertia), index
                )
        return payloads
