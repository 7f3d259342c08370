# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tree of a robot, as read from its description: moving joints and their bodies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...spatial.inertia import Inertia
from ...spatial.value import readonly_array

if TYPE_CHECKING:
    from urdf_parser_py.urdf import Robot

ONE_DOF = ("revolute", "continuous", "prismatic")
MOVING = ONE_DOF + ("floating", "planar")
SUPPORTED = MOVING + ("fixed",)

MAX_URDF_NUMBER = 1e30
"""Limit of numbers of a description [kg, m, kg m^2], so that their products do not overflow."""

MAX_ANGLE = 1e14
"""Largest angle for which kernels compute sines (`kernel.lanes.sincos`) [rad]."""

MAX_MIMIC_RATIO = 1e9
"""Limit of the multiplier and of the offset of a mimic joint, so that its angle stays in range."""


MAX_LINKS = 5_000
"""Largest number of links. The mass matrix of a chain of as many moving ones takes 0.2 GB."""


@dataclass(frozen=True, eq=False)
class Mimic:
    """Rule of a dependent joint: q = multiplier * q[joint] + offset, with the offset in rad or m.

    `joint` is the index in `Tree.joints` of the driving joint, itself independent (chains are
    resolved). The multiplier is unitless, or in m/rad or rad/m between joints of different kinds.
    """

    joint: int
    multiplier: float
    offset: float


class _ReadOnly:
    """Base of records with read-only arrays, also after they have been pickled."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, readonly_array(value, value.shape))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


@dataclass(frozen=True, eq=False)
class Joint(_ReadOnly):
    """A moving joint and the body that moves with it.

    `kind` is one of `MOVING`, or "spherical", which only models that are built in Python have. A
    planar joint translates in the x-y plane of its frame and rotates about z. `parent` is the index
    in `Tree.joints`, -1 for the universe; `placement` (4, 4), homogeneous, is the placement of the
    joint frame at zero position in the parent joint's frame. `axis` is a unit vector in the joint
    frame: z for planar joints, meaningless for floating and spherical ones. `inertia` is lumped
    over all links fixed to the joint.

    The position limits `lower` and `upper` [rad, m] are infinite for continuous joints and those
    with several coordinates. The limits `velocity` [rad/s, m/s] and `effort` [N m, N] are infinite,
    and `damping`, torque per velocity [N m s/rad, N s/m], and Coulomb `friction` [N m, N] are 0, if
    the description has none.
    """

    name: str
    kind: str
    parent: int
    placement: np.ndarray
    axis: np.ndarray
    inertia: Inertia
    mimic: Mimic | None
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float
    friction: float


@dataclass(frozen=True, eq=False)
class Frame(_ReadOnly):
    """A named frame on the robot: a "joint", "fixed_joint", "body", or a "frame" added in Python.

    `parent` is the joint that moves it (index in `Tree.joints`), -1 for the universe; `placement`
    (4, 4), homogeneous, is in that joint's frame. `parent_frame` is the index in `Tree.frames`, -1
    for the universe: for a joint the link that it is attached to, for a link the joint that
    connects it, for an added frame the link that it is fixed to. `inertia` is the inertia of a
    link, in this frame, and zero for other frames.
    """

    name: str
    kind: str
    parent: int
    placement: np.ndarray
    parent_frame: int
    inertia: Inertia


@dataclass(frozen=True, eq=False)
class Tree:
    """A robot as returned by `read_urdf`.

    Joints and frames are in Pinocchio's order: depth first, children by joint name; a parent
    precedes its children. `frames` exclude the universe; frames that were added come last.
    `base_inertia` is the inertia of the links fixed to the universe, in the world, and zero with a
    root joint. `robot` has the records that were read; None for trees of several descriptions.
    """

    name: str
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...]
    base_inertia: Inertia
    warnings: tuple[str, ...]
    robot: Robot | None = None

    @cached_property
    def links(self) -> tuple[Frame, ...]:
        """Frames of the links; the first one belongs to the root link."""
        return tuple(frame for frame in self.frames if frame.kind == "body")

    @cached_property
    def links_of_joint(self) -> dict[int, list[Frame]]:
        """Links that are fixed to each joint, by its index, and by -1 to the universe.

        The first one is the link that the joint connects.
        """
        links_of_joint: dict[int, list[Frame]] = {}
        for link in self.links:
            links_of_joint.setdefault(link.parent, []).append(link)
        return links_of_joint

    @property
    def body_links(self) -> list[str]:
        """Name of the link that each joint connects."""
        return [self.links_of_joint[joint][0].name for joint in range(len(self.joints))]

    @property
    def root_link(self) -> str:
        """Name of the link that is the root of all others."""
        return self.links[0].name

    def __deepcopy__(self, memo: dict[int, Any]) -> Tree:
        return self  # trees are immutable
