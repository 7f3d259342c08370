# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Assembly of robots in Python: a robot attached to a frame of another one, additional frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..kernel.lie import unit_vector
from ..kernel.names import join_names, short_repr
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_array, require_model
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .frames import frame_number
from .inertia import Payload, link_frame
from .physical_constants import PhysicalConstants
from .urdf import MOVING, ONE_DOF, Frame, Joint, Tree
from .urdf.lumping import warn_massless
from .urdf.tree import MAX_ANGLE, MAX_URDF_NUMBER

KINDS = ("fixed", *MOVING, "spherical")
_KINDS_WITH_POSITION_LIMITS = ("revolute", "prismatic")


# --- arguments


def homogeneous(placement: SE3 | ArrayLike | None) -> Array:
    """Return the matrix of a placement, (4, 4); None is the identity."""
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
    distance = float(np.abs(X.translation).max())
    if distance > MAX_URDF_NUMBER:
        raise ValueError(
            f"placement: expected a translation of at most {MAX_URDF_NUMBER:g} m, got {distance:g}"
        )
    return X.as_homogeneous()


def _checked_name(argument: str, value: object) -> str:
    """Return a name; raise a ValueError if it is not a string, or empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{argument}: expected a non-empty string, got {short_repr(value)}")
    return value


@dataclass(frozen=True)
class Connection:
    """The joint that connects a robot to another one; see ``Model.append``.

    ``joint`` is one of ``KINDS``, or None for the root joint of the appended robot or, if it has
    none, a fixed joint. ``prefix`` is put before all names of the appended robot.
    """

    joint: str | None
    name: str | None
    prefix: str
    axis: ArrayLike | None
    lower: float | None
    upper: float | None
    velocity_limit: float | None
    effort_limit: float | None

    def check(self, appendage: PhysicalConstants) -> None:
        """Raise a ValueError if an argument does not fit the kind of joint."""
        if not isinstance(self.prefix, str):
            raise ValueError(f"prefix: expected a string, got {short_repr(self.prefix)}")
        if self.name is not None:
            _checked_name("name", self.name)
        if self.joint is not None:
            self._check_kind(appendage)
        for argument, kinds in (
            ("axis", ONE_DOF),
            ("lower", _KINDS_WITH_POSITION_LIMITS),
            ("upper", _KINDS_WITH_POSITION_LIMITS),
            ("velocity_limit", ONE_DOF),
            ("effort_limit", ONE_DOF),
        ):
            value = getattr(self, argument)
            if value is not None and self.joint not in kinds:
                raise ValueError(
                    f"{argument}: expected None for joint={self.joint!r}, got "
                    f"{short_repr(value)}; only {join_names(kinds)} joints have one"
                )

    def _check_kind(self, appendage: PhysicalConstants) -> None:
        """Raise a ValueError if no joint of this kind can connect the appendage."""
        if self.joint not in KINDS:
            raise ValueError(
                f"joint: expected None or one of {join_names(KINDS, write=repr)}, got "
                f"{short_repr(self.joint)}"
            )
        if _has_root_joint(appendage.tree):
            raise ValueError(
                f"joint: {appendage.name!r} is connected by its own root joint, "
                f"{appendage.frame_names[0]!r}: expected None, got {self.joint!r}; to use "
                "another joint, read its description without a root joint"
            )

    def connecting_name(self, appendage: PhysicalConstants) -> str:
        """Return the name of the connecting joint."""
        if self.name is not None:
            return self.name
        root = appendage.tree.frames[0].name
        return self.prefix + (root if _has_root_joint(appendage.tree) else f"{root}_joint")

    def make_joint(self, name: str, placement: Array, inertia: Inertia) -> Joint:
        """Return the connecting joint, which must move; its parent is -1."""
        assert self.joint is not None
        lower, upper = self._position_limits()
        velocity, effort = (self._limit(name) for name in ("velocity_limit", "effort_limit"))
        return Joint(
            name,
            self.joint,
            -1,
            placement,
            self._joint_axis(),
            inertia,
            None,
            lower,
            upper,
            velocity,
            effort,
            0.0,
            0.0,
        )

    def _joint_axis(self) -> Array:
        """Return the axis of the joint, of length 1; raise a ValueError without one."""
        if self.joint not in ONE_DOF:
            return np.array([0.0, 0.0, 1.0] if self.joint == "planar" else [1.0, 0.0, 0.0])
        if self.axis is None:
            raise ValueError(
                f"axis: expected the axis of the {self.joint} joint, such as (0, 0, 1), got None"
            )
        axis = finite_array("axis", self.axis, (3,))
        if not axis.any():
            raise ValueError("axis: expected a direction, such as (0, 0, 1), got (0, 0, 0)")
        return unit_vector(axis)

    def _position_limits(self) -> tuple[float, float]:
        """Return lower and upper position, infinite by default; raise a ValueError if not valid."""
        lower = -np.inf if self.lower is None else _checked_number("lower", self.lower)
        upper = np.inf if self.upper is None else _checked_number("upper", self.upper)
        if lower > upper:
            raise ValueError(f"lower, upper: expected lower <= upper, got {lower:g} and {upper:g}")
        limit = MAX_URDF_NUMBER if self.joint == "prismatic" else MAX_ANGLE
        if lower > limit or upper < -limit:
            raise ValueError(
                f"lower, upper: expected positions of at most {limit:g}, got "
                f"{lower:g} and {upper:g}"
            )
        return lower, upper

    def _limit(self, argument: str) -> float:
        """Return the limit in an attribute, infinite by default; raise a ValueError if negative."""
        value = getattr(self, argument)
        if value is None:
            return np.inf
        if not _checked_number(argument, value) >= 0.0:
            raise ValueError(
                f"{argument}: expected 0 or more, got {short_repr(value)}; None is unlimited"
            )
        return float(value)


def _checked_number(argument: str, value: Any) -> float:
    """Return a float, which can be infinite; raise a ValueError if it is not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if np.isnan(number) or isinstance(value, str):
        raise ValueError(
            f"{argument}: expected a number, which can be infinite, got {short_repr(value)}"
        )
    return number


def _has_root_joint(tree: Tree) -> bool:
    """Return True if a joint connects the root link to the world."""
    return tree.frames[0].kind != "body"


# --- a robot attached to another one


class Assembly(NamedTuple):
    """A tree and its payloads.

    During the assembly, joint -1 and frame -1 stand for the carrier of the tree, which is a joint
    or the universe.
    """

    tree: Tree
    payloads: dict[str, Payload]


def append_robot(
    model: PhysicalConstants,
    appendage: PhysicalConstants,
    frame: str | int,
    placement: SE3 | ArrayLike | None,
    connection: Connection,
) -> tuple[Assembly, tuple[str, ...]]:
    """Return the model with the appendage attached, and the names that its joints have in it.

    See ``Model.append``.
    """
    require_model(appendage)
    connection.check(appendage)
    point = _AttachmentPoint(model, frame, homogeneous(placement))
    name = connection.connecting_name(appendage)
    attachment = _rename_robot(appendage, connection.prefix, name)
    _require_new_names(model, appendage, attachment, name)
    attachment = _connect_robot(attachment, connection, name, point.X)
    names = tuple(joint.name for joint in attachment.tree.joints)
    assembly = _merge_robots(Assembly(model.tree, model._payloads), attachment, point, name)
    warnings = _combined_warnings(model.tree, appendage.tree)
    warn_massless(assembly.tree.joints, warnings)
    return (
        assembly._replace(tree=replace(assembly.tree, warnings=tuple(warnings), robot=None)),
        names[len(names) - appendage.njoints :],
    )


def _rename_robot(appendage: PhysicalConstants, prefix: str, name: str) -> Assembly:
    """Return a robot with a prefix before all names, and a new name of its root joint, if any."""
    tree = appendage.tree
    joints = [replace(joint, name=prefix + joint.name) for joint in tree.joints]
    frames = [replace(frame, name=prefix + frame.name) for frame in tree.frames]
    if _has_root_joint(tree):
        if frames[0].kind == "joint":
            joints[0] = replace(joints[0], name=name)
        frames[0] = replace(frames[0], name=name)
    payloads = {prefix + key: payload for key, payload in appendage._payloads.items()}
    return Assembly(replace(tree, joints=tuple(joints), frames=tuple(frames)), payloads)


def _require_new_names(
    model: PhysicalConstants, appendage: PhysicalConstants, attachment: Assembly, name: str
) -> None:
    """Raise a ValueError if two frames or payloads have the same name."""
    frame_names = [
        frame.name for frame in attachment.tree.frames[_has_root_joint(attachment.tree) :]
    ]
    if name in frame_names or name in model.frame_names:
        owner = appendage.name if name in frame_names else model.name
        raise ValueError(
            f"name: {owner!r} has a frame named {name!r}; pass another name for the "
            "connecting joint"
        )
    for element_kind, names, new_names in (
        ("frames", model.frame_names, frame_names),
        ("payloads", model.payloads, attachment.payloads),
    ):
        existing_names = set(names)
        duplicates = [new_name for new_name in new_names if new_name in existing_names]
        if duplicates:
            raise ValueError(
                f"prefix: both robots have {element_kind} named "
                f"{join_names(duplicates, write=repr)}; "
                f"pass another prefix, such as {appendage.name + '/'!r}"
            )


class _AttachmentPoint:
    """The point where a robot is attached: a link, and the joint that moves it.

    ``X`` is the placement (4, 4) in the frame of that joint.
    """

    def __init__(self, model: PhysicalConstants, frame: str | int, X: Array) -> None:
        frames = model.tree.frames
        number = frame_number(model, frame)
        self.link, self.joint = link_frame(model.tree, number), frames[number].parent
        self.X = frames[number].placement @ X

    def row(self, frames: Sequence[Frame], name: str) -> int:
        """Return the index of the frame of a new joint: before its siblings with later names."""
        subtree, end = {self.link}, self.link + 1
        for i in range(end, _count_description_frames(frames)):
            if frames[i].parent_frame == self.link and frames[i].name > name:
                return i
            if frames[i].parent_frame in subtree:
                subtree.add(i)
                end = i + 1
        return end


def _count_description_frames(frames: Sequence[Frame]) -> int:
    """Count the frames of descriptions, which come before those that were added."""
    return sum(frame.kind != "frame" for frame in frames)


def _connect_robot(robot: Assembly, connection: Connection, name: str, X: Array) -> Assembly:
    """Return the robot with its connecting joint, placed at X in its carrier."""
    count, joints = len(robot.tree.frames), len(robot.tree.joints)
    if _has_root_joint(robot.tree):
        return _renumber_robot(robot, _shifted_numbers(joints), _shifted_numbers(count), X)
    frames = _shifted_numbers(count, shift=1, outside=0)
    if connection.joint in (None, "fixed"):
        tree, payloads = _renumber_robot(robot, _shifted_numbers(joints), frames, X)
        frame = Frame(name, "fixed_joint", -1, X, -1, Inertia.zero())
        return Assembly(replace(tree, frames=(frame, *tree.frames)), payloads)
    tree, payloads = _renumber_robot(
        robot, _shifted_numbers(joints, shift=1, outside=0), frames, np.eye(4)
    )
    joint = connection.make_joint(name, X, tree.base_inertia)
    frame = Frame(name, "joint", 0, np.eye(4), -1, Inertia.zero())
    return Assembly(
        replace(
            tree,
            joints=(joint, *tree.joints),
            frames=(frame, *tree.frames),
            base_inertia=Inertia.zero(),
        ),
        payloads,
    )


def _merge_robots(
    host: Assembly, attachment: Assembly, point: _AttachmentPoint, name: str
) -> Assembly:
    """Return two robots in one numbering: depth first, children by joint name."""
    row = point.row(host.tree.frames, name)
    first_joint = sum(frame.kind == "joint" for frame in host.tree.frames[:row])
    njoints = len(attachment.tree.joints)
    nframes = _count_description_frames(attachment.tree.frames)
    nhost_frames = len(host.tree.frames)
    joints = _shifted_numbers(len(host.tree.joints), first_joint, njoints)
    frames = _shifted_numbers(nhost_frames, row, nframes)
    carrier, link = joints[point.joint], frames[point.link]
    host_tree, host_payloads = _renumber_robot(host, joints, frames, np.eye(4))
    tree, payloads = _renumber_robot(
        attachment,
        _shifted_numbers(njoints, shift=first_joint, outside=carrier),
        {
            **_shifted_numbers(len(attachment.tree.frames), shift=nhost_frames),
            **_shifted_numbers(nframes, shift=row, outside=link),
        },
        np.eye(4),
    )
    all_joints = [*host_tree.joints[:first_joint], *tree.joints, *host_tree.joints[first_joint:]]
    base = host_tree.base_inertia
    if carrier < 0:
        base = base + tree.base_inertia
    else:
        body = all_joints[carrier]
        all_joints[carrier] = replace(body, inertia=body.inertia + tree.base_inertia)
    return Assembly(
        replace(
            host_tree,
            joints=tuple(all_joints),
            base_inertia=base,
            frames=(
                *host_tree.frames[:row],
                *tree.frames[:nframes],
                *host_tree.frames[row:],
                *tree.frames[nframes:],
            ),
        ),
        {**host_payloads, **payloads},
    )


def _shifted_numbers(
    count: int, first: int = 0, shift: int = 0, outside: int = -1
) -> dict[int, int]:
    """Return new numbers by old ones: shifted from ``first`` on; -1 becomes ``outside``."""
    return {-1: outside, **{i: i + shift if i >= first else i for i in range(count)}}


def _renumber_robot(
    robot: Assembly, joints: Mapping[int, int], frames: Mapping[int, int], X: Array
) -> Assembly:
    """Return the robot, placed at X, with new numbers of joints and frames.

    ``joints`` and ``frames`` contain the new numbers by the old ones.
    """
    act = SE3.from_homogeneous(X).act

    def placed(parent: int, placement: Array) -> Array:
        """Return a placement in its parent, or in the carrier for children of the root."""
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
    return Assembly(
        replace(
            robot.tree,
            joints=new_joints,
            frames=new_frames,
            base_inertia=act(robot.tree.base_inertia),
        ),
        payloads,
    )


def _combined_warnings(tree: Tree, appendage: Tree) -> list[str]:
    """Return the warnings of both robots, without those about joints that move no inertia."""
    return _warnings_without_massless(tree) + [
        f"{appendage.name}: {text}" for text in _warnings_without_massless(appendage)
    ]


def _warnings_without_massless(tree: Tree) -> list[str]:
    """Return the warnings of a robot, without warnings of joints that move no inertia."""
    massless: list[str] = []
    warn_massless(tree.joints, massless)
    return [text for text in tree.warnings if text not in massless]


# --- frames


def add_frame(
    model: PhysicalConstants, name: str, parent_frame: str | int, placement: SE3 | ArrayLike | None
) -> Tree:
    """Return the tree with one more frame; see ``Model.with_frame``."""
    tree = model.tree
    if _checked_name("name", name) in model.frame_names:
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
