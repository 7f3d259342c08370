# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The result of reading a description: the moving joints and their bodies."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...spatial.inertia import Inertia
from ...spatial.value import frozen

ONE_DOF = ("revolute", "continuous", "prismatic")
MOVING = ONE_DOF + ("floating", "planar")
SUPPORTED = MOVING + ("fixed",)

LARGEST = 1e30
"""kg, m, kg m^2: larger numbers are rejected, so that products of several do not overflow."""

FARTHEST_ANGLE = 1e14
"""rad: the largest angle for which kernels compute sines (`spatial.lanes.sincos`)."""

LARGEST_RATIO = 1e9
"""Limit of the multiplier and of the offset of a mimic joint, so that its angle stays in range."""


@dataclass(frozen=True, eq=False)
class Mimic:
    """A dependent joint's rule: q = multiplier * q[joint] + offset.

    Attributes
    ----------
    joint : int
        Index in `Tree.joints` of the driving joint, itself independent (chains are resolved).
    multiplier, offset : float
        The multiplier is unitless, or in m/rad or rad/m between joints of different kinds; the
        offset is in rad or m.
    """

    joint: int
    multiplier: float
    offset: float


class _ReadOnly:
    """Its arrays are read-only, also after it has been pickled."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, frozen(value, value.shape))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


@dataclass(frozen=True, eq=False)
class Joint(_ReadOnly):
    """A moving joint and the body that moves with it.

    Attributes
    ----------
    name : str
    kind : {"revolute", "continuous", "prismatic", "floating", "planar", "spherical"}
        A planar joint translates in the x-y plane of its frame and rotates about z. Only models
        that are built in Python have spherical joints.
    parent : int
        Index in `Tree.joints`, -1 for the universe.
    placement : (4, 4) ndarray
        The joint frame at zero position in the parent joint's frame, homogeneous.
    axis : (3,) ndarray
        Unit axis in the joint frame; z for planar joints, meaningless for floating and spherical
        joints.
    inertia : Inertia
        Lumped over all links fixed to the joint.
    mimic : Mimic or None
    lower, upper : float
        Position limits in rad or m; infinite for continuous joints and those with several
        coordinates.
    velocity, effort : float
        Limits in rad/s or m/s, and N m or N; infinite if the description has none.
    damping : float
        Torque per velocity in N m s/rad, or N s/m; 0 if the description has none.
    friction : float
        Coulomb friction in N m or N; 0 if the description has none.
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
    """A named frame on the robot.

    Attributes
    ----------
    name : str
    kind : {"joint", "fixed_joint", "body", "frame"}
        "frame": added to a link in Python.
    parent : int
        The joint that moves it (index in `Tree.joints`), -1 for the universe.
    placement : (4, 4) ndarray
        In the parent joint's frame, homogeneous.
    parent_frame : int
        Index in `Tree.frames`, -1 for the universe: for a joint the link that it is attached to,
        for a link the joint that connects it, for an added frame the link that it is fixed to.
    inertia : Inertia
        Of a link, in this frame; zero for others.
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

    Attributes
    ----------
    name : str
    joints : tuple of Joint
        In Pinocchio's order: depth first, children by joint name. A parent precedes its children.
    frames : tuple of Frame
        In Pinocchio's order, without the universe; frames that were added come last. A parent
        frame precedes its children.
    base_inertia : Inertia
        Inertia of the links fixed to the universe, in the world; zero with a root joint.
    warnings : tuple of str
    """

    name: str
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...]
    base_inertia: Inertia
    warnings: tuple[str, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tree:
        return self     # nothing in it can be changed
