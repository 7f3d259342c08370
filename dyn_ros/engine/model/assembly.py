# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots assembled in Python: a robot attached to a frame of another one, additional frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..kernel.names import listed
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_array, require_model
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .frames import frame_number
from .link_inertias import Payload, link_frame
from .structure import Structure
from .urdf import MOVING, ONE_DOF, Frame, Joint, Tree
from .urdf.lumping import warn_massless
from .urdf.moving_joints import unit_axis
from .urdf.tree import MAX_ANGLE, MAX_URDF_NUMBER

KINDS = ("fixed", *MOVING, "spherical")
_LIMITED = ("revolute", "prismatic")


# --- arguments


def homogeneous(placement: SE3 | ArrayLike | None) -> Array:
    """The matrix of a placement, (4, 4); None is the identity."""
    if placement is None:
        return np.eye(4)
    if isinstance(placement, SE3):
        X = placement
    else:
        try:
            X = SE3.from_homogeneous(placement)
        except ValueError as error:
            raise ValueError(
                f"placement: expected a dyn_ros.SE3 or a homogeneous matrix, (4, 4); {error}"
            ) from None
    farthest = float(np.abs(X.translation).max())
    if farthest > MAX_URDF_NUMBER:
        raise ValueError(
            f"placement: expected a translation of at most {MAX_URDF_NUMBER:g} m, got {farthest:g}"
        )
    return X.as_homogeneous()


def _name(argument, value):
    if not isinstance(value, str) or not value:
        raise ValueError(f"{argument}: expected a non-empty string, got {value!r:.80}")
    return value


@dataclass(frozen=True)
class Connection:
    """The joint that connects a robot to another one; see ``Model.append``.

    ``joint`` is one of ``KINDS``; None: the root joint of the appended robot, or a fixed joint.
    ``prefix`` is that of all names of the appended robot.
    """

    joint: str | None
    name: str | None
    prefix: str
    axis: ArrayLike | None
    lower: float | None
    upper: float | None
    velocity_limit: float | None
    effort_limit: float | None

    def check(self, other: Structure) -> None:
        """Raise a ValueError if an argument does not fit the kind of joint."""
        if not isinstance(self.prefix, str):
            raise ValueError(f"prefix: expected a string, got {self.prefix!r:.80}")
        if self.name is not None:
            _name("name", self.name)
        if self.joint is not None:
            self._check_kind(other)
        for argument, kinds in (
            ("axis", ONE_DOF),
            ("lower", _LIMITED),
            ("upper", _LIMITED),
            ("velocity_limit", ONE_DOF),
            ("effort_limit", ONE_DOF),
        ):
            value = getattr(self, argument)
            if value is not None and self.joint not in kinds:
                raise ValueError(
                    f"{argument}: expected None for joint={self.joint!r}, got "
                    f"{value!r:.80}; only {listed(kinds)} joints have one"
                )

    def _check_kind(self, other):
        if self.joint not in KINDS:
            raise ValueError(
                f"joint: expected None or one of {listed(KINDS, write=repr)}, got "
                f"{self.joint!r:.80}"
            )
        if _has_root_joint(other.tree):
            raise ValueError(
                f"joint: {other.name!r} is connected by its own root joint, "
                f"{other.frame_names[0]!r}: expected None, got {self.joint!r}; to use "
                "another joint, read its description without a root joint"
            )

    def connecting_name(self, other: Structure) -> str:
        """The name of the connecting joint."""
        if self.name is not None:
            return self.name
        root = other.tree.frames[0].name
        return self.prefix + (root if _has_root_joint(other.tree) else f"{root}_joint")

    def make_joint(self, name: str, placement: Array, inertia: Inertia) -> Joint:
        """The connecting joint, if it moves; its parent is -1."""
        assert self.joint is not None
        lower, upper = self._position_limits()
        velocity, effort = (self._limit(name) for name in ("velocity_limit", "effort_limit"))
        return Joint(
            name,
            self.joint,
            -1,
            placement,
            self._unit_axis(),
            inertia,
            None,
            lower,
            upper,
            velocity,
            effort,
            0.0,
            0.0,
        )

    def _unit_axis(self):
        if self.joint not in ONE_DOF:
            return np.array([0.0, 0.0, 1.0] if self.joint == "planar" else [1.0, 0.0, 0.0])
        if self.axis is None:
            raise ValueError(
                f"axis: expected the axis of the {self.joint} joint, such as (0, 0, 1), got None"
            )
        axis = finite_array("axis", self.axis, (3,))
        if not axis.any():
            raise ValueError("axis: expected a direction, such as (0, 0, 1), got (0, 0, 0)")
        return unit_axis(axis)

    def _position_limits(self):
        lower = -np.inf if self.lower is None else _number("lower", self.lower)
        upper = np.inf if self.upper is None else _number("upper", self.upper)
        if lower > upper:
            raise ValueError(f"lower, upper: expected lower <= upper, got {lower:g} and {upper:g}")
        farthest = MAX_URDF_NUMBER if self.joint == "prismatic" else MAX_ANGLE
        if lower > farthest or upper < -farthest:
            raise ValueError(
                f"lower, upper: expected positions of at most {farthest:g}, got "
                f"{lower:g} and {upper:g}"
            )
        return lower, upper

    def _limit(self, argument):
        value = getattr(self, argument)
        if value is None:
            return np.inf
        if not _number(argument, value) >= 0.0:
            raise ValueError(f"{argument}: expected 0 or more, got {value!r}; None is unlimited")
        return float(value)


def _number(argument, value):
    """A float that can be infinite."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if np.isnan(number) or isinstance(value, str):
        raise ValueError(f"{argument}: expected a number, which can be infinite, got {value!r:.80}")
    return number


def _has_root_joint(tree):
    return tree.frames[0].kind != "body"


# --- a robot attached to another one


class Robot(NamedTuple):
    """A tree and its payloads.

    While robots are assembled, joint -1 and frame -1 are what carries the tree: a joint, or the
    universe.
    """

    tree: Tree
    payloads: dict[str, Payload]


def appended(
    model: Structure,
    other: Structure,
    frame: str | int,
    placement: SE3 | ArrayLike | None,
    connection: Connection,
) -> tuple[Robot, tuple[str, ...]]:
    """The model with another robot attached, and the names of the other's joints in it.

    See ``Model.append``.
    """
    require_model(other)
    connection.check(other)
    place = _AttachmentPoint(model, frame, homogeneous(placement))
    name = connection.connecting_name(other)
    theirs = _renamed(other, connection.prefix, name)
    _require_new_names(model, other, theirs, name)
    theirs = _connected(theirs, connection, name, place.X)
    names = tuple(joint.name for joint in theirs.tree.joints)
    robot = _merged(Robot(model.tree, model._payloads), theirs, place, name)
    warnings = _warnings(model.tree, other.tree)
    warn_massless(robot.tree.joints, warnings)
    return (
        robot._replace(tree=replace(robot.tree, warnings=tuple(warnings), robot=None)),
        names[len(names) - other.njoints :],
    )


def _renamed(other, prefix, name):
    """The robot with a prefix before all names, and with the name of its root joint, if any."""
    tree = other.tree
    joints = [replace(joint, name=prefix + joint.name) for joint in tree.joints]
    frames = [replace(frame, name=prefix + frame.name) for frame in tree.frames]
    if _has_root_joint(tree):
        if frames[0].kind == "joint":
            joints[0] = replace(joints[0], name=name)
        frames[0] = replace(frames[0], name=name)
    payloads = {prefix + key: payload for key, payload in other._payloads.items()}
    return Robot(replace(tree, joints=tuple(joints), frames=tuple(frames)), payloads)


def _require_new_names(model, other, theirs, name):
    """Raise a ValueError if two frames or payloads have the same name."""
    added = [frame.name for frame in theirs.tree.frames[_has_root_joint(theirs.tree) :]]
    if name in added or name in model.frame_names:
        owner = other.name if name in added else model.name
        raise ValueError(
            f"name: {owner!r} has a frame named {name!r}; pass another name for the "
            "connecting joint"
        )
    for what, names, new in (
        ("frames", model.frame_names, added),
        ("payloads", model.payloads, theirs.payloads),
    ):
        taken = set(names)
        both = [own for own in new if own in taken]
        if both:
            raise ValueError(
                f"prefix: both robots have {what} named {listed(both, write=repr)}; "
                f"pass another prefix, such as {other.name + '/'!r}"
            )


class _AttachmentPoint:
    """Where a robot is attached: a link, the joint that moves it, and a placement in it."""

    def __init__(self, model, frame, X):
        frames = model.tree.frames
        number = frame_number(model, frame)
        self.link, self.joint = link_frame(model.tree, number), frames[number].parent
        self.X = frames[number].placement @ X

    def row(self, frames, name):
        """Index of the frame of a new joint: before its siblings with later names."""
        below, end = {self.link}, self.link + 1
        for i in range(end, _count_without_added(frames)):
            if frames[i].parent_frame == self.link and frames[i].name > name:
                return i
            if frames[i].parent_frame in below:
                below.add(i)
                end = i + 1
        return end


def _count_without_added(frames):
    """Number of frames without those that were added, which come last."""
    return sum(frame.kind != "frame" for frame in frames)


def _connected(robot, connection, name, X):
    """The robot with its connecting joint, placed at X in what carries it."""
    count, joints = len(robot.tree.frames), len(robot.tree.joints)
    if _has_root_joint(robot.tree):
        return _renumbered(robot, _numbers(joints), _numbers(count), X)
    frames = _numbers(count, shift=1, outside=0)
    if connection.joint in (None, "fixed"):
        tree, payloads = _renumbered(robot, _numbers(joints), frames, X)
        frame = Frame(name, "fixed_joint", -1, X, -1, Inertia.zero())
        return Robot(replace(tree, frames=(frame, *tree.frames)), payloads)
    tree, payloads = _renumbered(robot, _numbers(joints, shift=1, outside=0), frames, np.eye(4))
    joint = connection.make_joint(name, X, tree.base_inertia)
    frame = Frame(name, "joint", 0, np.eye(4), -1, Inertia.zero())
    return Robot(
        replace(
            tree,
            joints=(joint, *tree.joints),
            frames=(frame, *tree.frames),
            base_inertia=Inertia.zero(),
        ),
        payloads,
    )


def _merged(ours, theirs, place, name):
    """Two robots in one numbering: depth first, children by joint name."""
    row = place.row(ours.tree.frames, name)
    first = sum(frame.kind == "joint" for frame in ours.tree.frames[:row])
    count, kept = len(theirs.tree.joints), _count_without_added(theirs.tree.frames)
    added = len(ours.tree.frames)  # before those that were added to theirs
    joints = _numbers(len(ours.tree.joints), first, count)
    frames = _numbers(added, row, kept)
    carrier, link = joints[place.joint], frames[place.link]
    a, loads = _renumbered(ours, joints, frames, np.eye(4))
    b, more = _renumbered(
        theirs,
        _numbers(count, shift=first, outside=carrier),
        {
            **_numbers(len(theirs.tree.frames), shift=added),
            **_numbers(kept, shift=row, outside=link),
        },
        np.eye(4),
    )
    bodies = [*a.joints[:first], *b.joints, *a.joints[first:]]
    base = a.base_inertia
    if carrier < 0:
        base = base + b.base_inertia
    else:
        body = bodies[carrier]
        bodies[carrier] = replace(body, inertia=body.inertia + b.base_inertia)
    return Robot(
        replace(
            a,
            joints=tuple(bodies),
            base_inertia=base,
            frames=(*a.frames[:row], *b.frames[:kept], *a.frames[row:], *b.frames[kept:]),
        ),
        {**loads, **more},
    )


def _numbers(count, first=0, shift=0, outside=-1):
    """New numbers: those from the first one on are shifted; -1 becomes ``outside``."""
    return {-1: outside, **{i: i + shift if i >= first else i for i in range(count)}}


def _renumbered(robot, joints, frames, X):
    """The robot with new numbers of joints and frames, by their old ones, placed at X."""
    act = SE3.from_homogeneous(X).act

    def placed(parent, placement):
        return X @ placement if parent < 0 else placement

    new_joints = tuple(
        replace(
            joint,
            parent=joints[joint.parent],
            placement=placed(joint.parent, joint.placement),
            mimic=joint.mimic and replace(joint.mimic, joint=joints[joint.mimic.joint]),
        )
        for joint in robot.tree.joints
    )
    new_frames = tuple(
        replace(
            frame,
            parent=joints[frame.parent],
            placement=placed(frame.parent, frame.placement),
            parent_frame=frames[frame.parent_frame],
        )
        for frame in robot.tree.frames
    )
    payloads = {
        name: Payload(joints[joint], act(inertia) if joint < 0 else inertia, frames[frame])
        for name, (joint, inertia, frame) in robot.payloads.items()
    }
    return Robot(
        replace(
            robot.tree,
            joints=new_joints,
            frames=new_frames,
            base_inertia=act(robot.tree.base_inertia),
        ),
        payloads,
    )


def _warnings(tree, other):
    """The warnings of both robots, without those about joints that move no inertia."""
    return _without_massless(tree) + [f"{other.name}: {text}" for text in _without_massless(other)]


def _without_massless(tree):
    massless: list[str] = []
    warn_massless(tree.joints, massless)
    return [text for text in tree.warnings if text not in massless]


# --- frames


def with_frame(
    model: Structure, name: str, parent_frame: str | int, placement: SE3 | ArrayLike | None
) -> Tree:
    """The tree with one more frame; see ``Model.with_frame``."""
    tree = model.tree
    if _name("name", name) in model.frame_names:
        raise ValueError(f"name: there is a frame named {name!r}; pass another name")
    number = frame_number(model, parent_frame, "parent_frame")
    parent = tree.frames[number]
    frame = Frame(
        name,
        "frame",
        parent.parent,
        parent.placement @ homogeneous(placement),
        link_frame(tree, number),
        Inertia.zero(),
    )
    return replace(tree, frames=(*tree.frames, frame))
