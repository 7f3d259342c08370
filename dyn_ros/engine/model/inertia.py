# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inertias of links: assigned ones, and payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kernel import algebra as al
from ..kernel.types import Array
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .urdf import Frame, Tree


class AssignedInertia(Inertia):
    """An inertia of any ten dynamic parameters, which it keeps exactly.

    An estimate need not be physical: with a first moment but little or no mass, the center of mass
    has no meaning. Results that are linear in the parameters are computed from these. Without
    mass, ``com`` is zero.
    """

    __slots__ = ()

    @classmethod
    def from_array(cls, parameters: Array) -> AssignedInertia:
        """Create from m, m c, and the rotational inertia about the origin, (10,)."""
        m, hx, hy, hz, *S = parameters.tolist()
        return cls._of(al.Inertia(m, (hx, hy, hz), al.Symmetric(*S)))

    def plain(self) -> Inertia:
        """Convert to an ``Inertia``; raise a ValueError if there is a first moment without mass."""
        return Inertia.from_dynamic_parameters(self.dynamic_parameters())

    @property
    def com(self) -> Array:
        """(3,) ndarray: center of mass [m]."""
        m, h, _ = self._tuple
        return np.zeros(3) if m == 0.0 else np.array(h) / m

    @property
    def rotational(self) -> Array:
        """(3, 3) ndarray: rotational inertia about the center of mass [kg m2]."""
        xx, xy, yy, xz, yz, zz = self._about(tuple(self.com.tolist())).rotational
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    def _about(self, origin: Sequence[float]) -> al.Inertia:
        """Return the inertia of kernels about a point ``origin``."""
        return al.inertia_moved(al.scale(-1.0, origin), self._tuple)

    def dynamic_parameters(self) -> Array:
        """Return the parameters, (10,) ndarray."""
        m, h, S = self._tuple
        return np.array([m, *h, *S])

    def __add__(self, other: Inertia) -> AssignedInertia:
        return self.from_array(self.dynamic_parameters() + other.dynamic_parameters())

    __radd__ = __add__

    def _placed(self, X: al.SE3) -> AssignedInertia:
        """Return the inertia, given in a frame at X, in the frame in which X is placed."""
        m, h, S = self._tuple
        turned = al.Inertia(m, al.rotate(X.rotation, h), al.rotate_symmetric(X.rotation, S))
        return self._of(al.inertia_moved(X.translation, turned))


class Payload(NamedTuple):
    """A body, the joint that moves it, and the link that it is attached to."""

    joint: int  # index in Tree.joints, -1 for the universe
    inertia: Inertia  # expressed in the frame of this joint
    frame: int  # index of the link's frame in Tree.frames


def link_frame(tree: Tree, frame: int) -> int:
    """Return the index of the link frame to which a frame belongs.

    This is the frame itself for a link, the connected link for a joint, and the link that carries
    it for a frame that was added.
    """
    if tree.frames[frame].kind == "body":
        return frame
    if tree.frames[frame].kind == "frame":
        return tree.frames[frame].parent_frame
    return next(
        i
        for i, link in enumerate(tree.frames)
        if link.kind == "body" and link.parent_frame == frame
    )


def link_parameters(frame: Frame) -> Array:
    """Return the dynamic parameters of a link, in the frame of the joint that moves it."""
    return SE3.from_homogeneous(frame.placement).act(frame.inertia).dynamic_parameters()
