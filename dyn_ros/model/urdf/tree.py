# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a description comes to: the moving joints, and what each carries."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...spatial.inertia import Inertia

ONE_DOF = ("revolute", "continuous", "prismatic")
MOVING = ONE_DOF + ("floating", "planar")
SUPPORTED = MOVING + ("fixed",)

FARTHEST_ANGLE = 1e14
"""rad: kernels have no sine of a larger one (`spatial.lanes.sincos`)."""

LARGEST_RATIO = 1e9
"""Of a mimic joint to its driver, and its offset: it turns no farther while positions are sane."""


@dataclass(frozen=True, eq=False)
class Mimic:
    """A dependent joint's rule: q = multiplier * q[joint] + offset.

    Attributes
    ----------
    joint : int
        Index in `Tree.joints` of the driving joint, itself independent (chains are resolved).
    multiplier, offset : float
        Unitless, m/rad or rad/m between unlike joints; rad or m.
    """

    joint: int
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class Joint:
    """A moving joint and the body that moves with it.

    Attributes
    ----------
    name : str
    kind : {"revolute", "continuous", "prismatic", "floating", "planar"}
        A planar joint moves in the x-y plane of its frame and turns about z.
    parent : int
        Index in `Tree.joints`, -1 for the universe.
    placement : (4, 4) ndarray
        The joint frame at zero position in the parent joint's frame, homogeneous.
    axis : (3,) ndarray
        Unit axis in the joint frame; for planar joints z, for floating joints without meaning.
    inertia : Inertia
        Lumped over all links fixed to the joint.
    mimic : Mimic or None
    lower, upper : float
        Position limits in rad or m; infinite for continuous, floating and planar joints.
    velocity, effort : float
        Limits in rad/s or m/s, and N m or N; infinite where the description gives none.
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


@dataclass(frozen=True, eq=False)
class Frame:
    """A named place on the robot.

    Attributes
    ----------
    name : str
    kind : {"joint", "fixed_joint", "body"}
    parent : int
        The joint it moves with (index in `Tree.joints`), -1 for the universe.
    placement : (4, 4) ndarray
        In the parent joint's frame, homogeneous.
    """

    name: str
    kind: str
    parent: int
    placement: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """A robot as `read_urdf` gives it.

    Attributes
    ----------
    name : str
    joints : tuple of Joint
        Depth first, children by joint name: Pinocchio's order. A parent precedes its children.
    frames : tuple of Frame
        Pinocchio's order, the universe left out.
    base_inertia : Inertia
        The links fixed to the universe, in the root link's frame; zero with a root joint.
    warnings : tuple of str
    """

    name: str
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...]
    base_inertia: Inertia
    warnings: tuple[str, ...]
