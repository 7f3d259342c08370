# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inertias that were assigned."""
import numpy as np

from ..kernel.plain import algebra as al
from ..kernel.types import Array
from ..spatial.inertia import Inertia


class AssignedInertia(Inertia):
    """An inertia of any ten dynamic parameters, which it keeps exactly.

    The parameters of an estimate need not be physical: a first moment without mass, or with little
    of it, has no meaningful center of mass. All that is linear in the parameters is computed from
    them; ``com`` is zero without mass.
    """

    __slots__ = ()

    @classmethod
    def from_array(cls, parameters: Array) -> "AssignedInertia":
        """Create from m, m c, and the rotational inertia about the origin, (10,)."""
        m, hx, hy, hz, *S = parameters.tolist()
        return cls._of(al.Inertia(m, (hx, hy, hz), al.Symmetric(*S)))

    def plain(self) -> Inertia:
        """The same as an ``Inertia``; raises a ValueError if it has a first moment without mass."""
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

    def _about(self, origin):
        return al.inertia_moved(al.scale(-1.0, origin), self._tuple)

    def dynamic_parameters(self) -> Array:
        """(10,) ndarray: the parameters."""
        m, h, S = self._tuple
        return np.array([m, *h, *S])

    def __add__(self, other: Inertia) -> "AssignedInertia":
        return self.from_array(self.dynamic_parameters() + other.dynamic_parameters())

    __radd__ = __add__

    def _placed(self, X):
        m, h, S = self._tuple
        turned = al.Inertia(m, al.rotate(X.rotation, h), al.rotate_symmetric(X.rotation, S))
        return self._of(al.inertia_moved(X.translation, turned))
