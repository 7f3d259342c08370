# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Moving joints and frames, in Pinocchio's order; axes, limits, damping and friction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...kernel.lie import unit_vector
from ...kernel.types import Array
from ...spatial.inertia import Inertia
from .text import UrdfError
from .tree import MAX_ANGLE, MAX_URDF_NUMBER, ONE_DOF, Frame, Joint, Mimic
from .values import placement_of, record_types

if TYPE_CHECKING:
    from urdf_parser_py import urdf

ROOT_JOINT_NAME = "root_joint"

MovingJoint: TypeAlias = "tuple[urdf.Joint, int, Array]"
"""The record of a joint, the index of its parent, -1 for the universe, and its placement there."""


def traverse_tree(
    robot: urdf.Robot, root: str, root_joint: str | None, inertias: Mapping[str, Inertia]
) -> tuple[list[MovingJoint], dict[str, tuple[int, Array]], list[Frame]]:
    """Traverse the tree depth first, children by joint name.

    ``inertias`` contains the inertia of each link, in its frame. Returns the moving joints, each as
    its record, the index of its parent and its placement there; for each link, the joint that
    carries it (-1 for the universe) and the placement of the link frame in that joint's frame; and
    the frames.
    """
    moving: list[MovingJoint] = []
    frames: list[Frame] = []
    carriers: dict[str, tuple[int, Array]] = {root: (-1, np.eye(4))}
    zero = Inertia.zero()
    if root_joint is not None:
        if any(joint.name == ROOT_JOINT_NAME for joint in robot.joints):
            raise UrdfError(
                f'a joint is named "{ROOT_JOINT_NAME}", the name of the {root_joint} root joint; '
                "rename it, or attach the root link to the world with a fixed root joint"
            )
        record = record_types()["joint"](ROOT_JOINT_NAME, joint_type=root_joint)
        moving.append((record, -1, np.eye(4)))
        frames.append(Frame(ROOT_JOINT_NAME, "joint", 0, np.eye(4), -1, zero))
        carriers[root] = (0, np.eye(4))
    link_frames = {root: len(frames)}
    frames.append(Frame(root, "body", *carriers[root], len(frames) - 1, inertias[root]))
    for joint in _depth_first(robot, root):
        parent, parent_placement = carriers[joint.parent]
        placement = parent_placement @ placement_of(joint)
        if joint.type == "fixed":
            carrier, kind = (parent, placement), "fixed_joint"
        else:
            carrier, kind = (len(moving), np.eye(4)), "joint"
            moving.append((joint, parent, placement))
        carriers[joint.child] = carrier
        link_frames[joint.child] = len(frames) + 1
        frames += [
            Frame(joint.name, kind, *carrier, link_frames[joint.parent], zero),
            Frame(joint.child, "body", *carrier, len(frames), inertias[joint.child]),
        ]
    return moving, carriers, frames


def _depth_first(robot: urdf.Robot, root: str) -> Iterator[urdf.Joint]:
    """Yield the joints from the root on, depth first, children by name."""
    children: dict[str, list[urdf.Joint]] = {link.name: [] for link in robot.links}
    for joint in sorted(robot.joints, key=lambda joint: joint.name, reverse=True):
        children[joint.parent].append(joint)
    stack = list(children[root])
    while stack:
        joint = stack.pop()
        yield joint
        stack += children[joint.child]


def make_joint(
    joint: urdf.Joint,
    parent: int,
    placement: Array,
    inertia: Inertia,
    rule: Mimic | None,
    warnings: list[str],
) -> Joint:
    """Return the moving joint of a record with its parent and placement, see `traverse_tree`."""
    lower, upper, velocity, effort = _joint_limits(joint, warnings)
    return Joint(
        joint.name,
        joint.type,
        parent,
        placement,
        _joint_axis(joint, warnings),
        inertia,
        rule,
        lower,
        upper,
        velocity,
        effort,
        *_damping_and_friction(joint, warnings),
    )


def _joint_axis(joint: urdf.Joint, warnings: list[str]) -> Array:
    """Return the axis of a joint, of length 1; append to the warnings if another one is ignored."""
    axis = np.array([1.0, 0.0, 0.0] if joint.axis is None else joint.axis)
    if joint.type == "floating":
        return np.array([1.0, 0.0, 0.0])
    if joint.type == "planar":
        if joint.axis is not None and (axis[0] or axis[1] or axis[2] <= 0):
            warnings.append(
                f'axis of planar joint "{joint.name}" is {_text_of_vector(axis)} and is ignored: '
                "the joint moves in the x-y plane of its frame; rotate its origin instead, and set "
                "the axis to 0 0 1"
            )
        return np.array([0.0, 0.0, 1.0])
    if not axis.any():
        raise UrdfError(f'axis of joint "{joint.name}" is zero; set a direction, such as 0 0 1')
    return unit_vector(axis)


def _text_of_vector(vector: Iterable[float]) -> str:
    return " ".join(f"{number:g}" for number in vector)


def _joint_limits(joint: urdf.Joint, warnings: list[str]) -> tuple[float, float, float, float]:
    """Return the lower, upper, velocity and effort limit."""
    limit = joint.limit
    if joint.type not in ONE_DOF or limit is None:
        if joint.type in ("revolute", "prismatic"):
            warnings.append(f'{joint.type} joint "{joint.name}" has no <limit>: assumed unlimited')
        return -math.inf, math.inf, math.inf, math.inf
    lower, upper = limit.lower, limit.upper
    max_position = MAX_URDF_NUMBER if joint.type == "prismatic" else MAX_ANGLE
    if joint.type == "continuous":
        lower, upper = -math.inf, math.inf
    elif lower > upper:
        warnings.append(
            f'joint "{joint.name}" has a lower limit {lower:g} above its upper limit {upper:g}: '
            "assumed unlimited"
        )
        lower, upper = -math.inf, math.inf
    elif lower > max_position or upper < -max_position:
        warnings.append(
            f'joint "{joint.name}" has the limits {lower:g} and {upper:g}: at most '
            f"{max_position:g} is supported"
        )
    velocity, effort = (math.inf if x is None else x for x in (limit.velocity, limit.effort))
    return lower, upper, velocity, effort


def _damping_and_friction(joint: urdf.Joint, warnings: list[str]) -> tuple[float, float]:
    """Return damping and friction of a joint; append to the warnings if they are ignored."""
    dynamics = joint.dynamics
    if dynamics is None:
        return 0.0, 0.0
    damping, friction = dynamics.damping, dynamics.friction
    for attribute, value in (("damping", damping), ("friction", friction)):
        if value < 0.0:
            raise UrdfError(f'{attribute} of joint "{joint.name}" is {value:g}; expected 0 or more')
        if value and joint.type not in ONE_DOF:
            warnings.append(
                f'{attribute} of {joint.type} joint "{joint.name}" is {value:g} and is ignored; '
                f"set model.{attribute}, which has a number for each of its velocities"
            )
    return (damping, friction) if joint.type in ONE_DOF else (0.0, 0.0)
