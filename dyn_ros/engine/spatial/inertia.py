# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Value types for inertias of rigid and articulated bodies."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernel import algebra as al
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_number, positive_number, shaped_array
from .value import (
    Value,
    block_matrix,
    float_tuple,
    pack_symmetric,
    readonly_array,
    require_type,
    symmetric_part,
    unpack_symmetric,
)
from .vectors import Force, Motion

_Body = namedtuple("_Body", "mass com rotational")  # Symmetric, about the center of mass
_ORIGIN = (0.0, 0.0, 0.0)
_TRIANGLE_TOLERANCE = 1e-9  # excess of the largest principal moment, relative to it


def _about_com(Y: al.Inertia) -> _Body:
    """Convert a kernel's inertia, about the frame's origin, to mass, center of mass and inertia."""
    if Y.mass == 0.0:
        if any(Y.first_moment):
            raise ValueError(f"expected a zero first moment for mass 0, got {Y.first_moment} kg m")
        return _Body(0.0, _ORIGIN, Y.rotational)
    com = tuple(h / Y.mass for h in Y.first_moment)
    to_com = al.scale(-1.0, com)
    return _Body(Y.mass, com, al.inertia_moved(to_com, Y).rotational)


class Inertia(Value):
    """Inertia of a rigid body in a frame.

    The values need not be physical; ``inconsistencies`` checks this.

    Parameters
    ----------
    mass : float
        [kg]
    com : (3,) array_like
        Center of mass [m].
    rotational : (3, 3) array_like
        Rotational inertia about the center of mass, expressed in the frame [kg m2]; symmetric.

    Raises
    ------
    ValueError
        Wrong shape, a number that is not finite, or a matrix that is not symmetric; states the
        deviation.

    Notes
    -----
    ``I + J`` is the inertia of both bodies together, ``I * v`` the momentum, and
    ``np.asarray(I)`` the 6 x 6 matrix about the frame's origin. For an inertia in frame b,
    ``X_ab.act(I)`` is the inertia in frame a.

    Examples
    --------
    >>> box = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3])
    >>> print(box.rotational.round(4))
    [[0.0217 0.     0.    ]
     [0.     0.0167 0.    ]
     [0.     0.     0.0083]]
    >>> box.inconsistencies()
    ()
    """

    __slots__ = ()
    _repr_attributes = ("mass", "com", "rotational")

    def __init__(self, mass: float, com: ArrayLike, rotational: ArrayLike) -> None:
        matrix = symmetric_part("rotational", shaped_array("rotational", rotational, (3, 3)))
        self._set(
            _Body(
                finite_number("mass", mass), float_tuple("com", com, (3,)), pack_symmetric(matrix)
            )
        )

    @classmethod
    def zero(cls) -> Inertia:
        """Return the zero inertia."""
        return cls(0.0, np.zeros(3), np.zeros((3, 3)))

    @classmethod
    def from_dynamic_parameters(cls, parameters: ArrayLike) -> Inertia:
        """Create from the ten dynamic parameters, in which the equations of motion are linear.

        Parameters
        ----------
        parameters : (10,) array_like
            m [kg], m cx, m cy, m cz [kg m], Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the frame's origin
            [kg m2], in Pinocchio's order.

        Raises
        ------
        ValueError
            Wrong shape, a number that is not finite, or a first moment without mass.
        """
        m, hx, hy, hz, *S = float_tuple("parameters", parameters, (10,))
        return cls._of(_about_com(al.Inertia(m, (hx, hy, hz), al.Symmetric(*S))))

    @classmethod
    def from_box(cls, mass: float, size: ArrayLike) -> Inertia:
        """Create a solid box about its center: mass [kg], edges along x, y and z [m]."""
        x, y, z = (positive_number("size", edge) for edge in float_tuple("size", size, (3,)))
        return cls._solid(mass, (y * y + z * z) / 12, (x * x + z * z) / 12, (x * x + y * y) / 12)

    @classmethod
    def from_sphere(cls, mass: float, radius: float) -> Inertia:
        """Create a solid sphere about its center: mass [kg], radius [m]."""
        moment = 0.4 * positive_number("radius", radius) ** 2
        return cls._solid(mass, moment, moment, moment)

    @classmethod
    def from_cylinder(cls, mass: float, radius: float, length: float) -> Inertia:
        """Create a solid cylinder about its center, with its axis along z: mass [kg], sizes [m]."""
        r, h = positive_number("radius", radius), positive_number("length", length)
        across = (3.0 * r * r + h * h) / 12
        return cls._solid(mass, across, across, 0.5 * r * r)

    @classmethod
    def _solid(cls, mass: float, *moments: float) -> Inertia:
        mass = positive_number("mass", mass)
        return cls(mass, _ORIGIN, mass * np.diag(moments))

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        return self._tuple.mass

    @property
    def com(self) -> Array:
        """(3,) ndarray, read-only: center of mass [m]."""
        return readonly_array(self._tuple.com, 3)

    @property
    def rotational(self) -> Array:
        """(3, 3) ndarray, read-only: rotational inertia about the center of mass [kg m2]."""
        return readonly_array(unpack_symmetric(self._tuple.rotational), (3, 3))

    def _about_point(self, origin: Sequence[float]) -> al.Inertia:
        """Return the inertia about a point, as a kernel's tuple."""
        m, c, S = self._tuple
        return al.inertia_moved(al.sub(c, origin), al.Inertia(m, _ORIGIN, S))

    def dynamic_parameters(self) -> Array:
        """Return the dynamic parameters, (10,) ndarray, as for ``from_dynamic_parameters``."""
        m, h, S = self._about_point(_ORIGIN)
        return np.array([m, *h, *S])

    def _numbers(self) -> Array:
        return _matrix(al.articulated(self._about_point(_ORIGIN)))

    def __add__(self, other: Inertia) -> Inertia:
        if not isinstance(other, Inertia):
            return NotImplemented
        (m, c, _), (k, d, _) = self._tuple, other._tuple
        common_com = al.add(c, al.scale(k / (m + k) if m + k else 0.0, al.sub(d, c)))
        body = _about_com(
            al.inertia_add(self._about_point(common_com), other._about_point(common_com))
        )
        return self._of(body._replace(com=al.add(body.com, common_com)))

    def __mul__(self, motion: Motion) -> Force:
        if not isinstance(motion, Motion):
            return NotImplemented
        return Force._of(al.inertia_times(self._about_point(_ORIGIN), motion._tuple))

    def _placed(self, X: al.SE3) -> Inertia:
        m, c, S = self._tuple
        return self._of(
            _Body(
                m,
                al.add(al.rotate(X.rotation, c), X.translation),
                al.rotate_symmetric(X.rotation, S),
            )
        )

    def vxi(self, v: Motion) -> Array:
        """Return v x* I for a velocity v, (6, 6) ndarray."""
        return require_type("v", v, Motion).as_cross_force() @ self._numbers()

    def ivx(self, v: Motion) -> Array:
        """Return I v x for a velocity v, (6, 6) ndarray."""
        return self._numbers() @ require_type("v", v, Motion).as_cross()

    def variation(self, v: Motion) -> Array:
        """Return the rate of change of the inertia of a body with velocity v, (6, 6) ndarray.

        v x* I - I v x, expressed in a fixed frame; Featherstone (2008), section 2.13.
        """
        return self.vxi(v) - self.ivx(v)

    def pseudo_inertia(self) -> Array:
        """Return the second moments of the mass about the origin, (4, 4) ndarray [kg m2, kg m, kg].

        [integral of r r' dm, m c; m c', m], positive definite for every body that is not planar;
        Wensing, Kim and Slotine (2018).
        """
        m, h, S = self._about_point(_ORIGIN)
        P = np.empty((4, 4))
        rotational = np.reshape(unpack_symmetric(S), (3, 3))
        P[:3, :3] = 0.5 * np.trace(rotational) * np.eye(3) - rotational
        P[3, :3] = P[:3, 3] = h
        P[3, 3] = m
        return P

    def inconsistencies(self) -> tuple[str, ...]:
        """Return the reasons why the inertia is not physical: one text each, or ().

        The mass must be positive, the rotational inertia about the center of mass positive
        definite, and none of its principal moments larger than the sum of the other two
        (equality holds for a flat plate; a rounding error of 1e-9 of the largest moment is
        tolerated). These conditions are necessary and sufficient for a nonnegative mass density
        with this inertia to exist.
        """
        reasons = []
        if self.mass <= 0.0:
            reasons.append(f"the mass, {self.mass:.6g} kg, is not positive")
        low, middle, high = np.linalg.eigvalsh(self.rotational)
        if low <= 0.0:
            reasons.append(
                "the rotational inertia about the center of mass is not positive "
                f"definite: its smallest principal moment is {low:.6g} kg m2"
            )
        if high > low + middle + _TRIANGLE_TOLERANCE * max(abs(low), abs(high)):
            reasons.append(
                "the rotational inertia about the center of mass violates the triangle "
                f"inequality: its principal moment {high:.6g} kg m2 is larger than the "
                f"sum of the others, {low:.6g} + {middle:.6g} kg m2"
            )
        return tuple(reasons)


class ArticulatedBodyInertia(Value):
    """A symmetric inertia that maps motions to forces; Featherstone (2008), chapter 7.

    Parameters
    ----------
    matrix : (6, 6) array_like or Inertia
        Symmetric; linear part first [kg, kg m, kg m2].

    Raises
    ------
    ValueError
        Wrong shape, a number that is not finite, or a matrix that is not symmetric; states the
        deviation.

    Notes
    -----
    ``A + B`` and ``A - B`` are inertias, ``A * motion`` is a Force, and ``np.asarray(A)`` is the
    matrix.

    Examples
    --------
    >>> box = dyn_ros.Inertia.from_box(2.0, [0.1, 0.2, 0.3])
    >>> force = dyn_ros.ArticulatedBodyInertia(box) * dyn_ros.Motion([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    >>> np.asarray(force).tolist()
    [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    """

    __slots__ = ()
    _repr_attributes = ("matrix",)

    def __init__(self, matrix: ArrayLike) -> None:
        M = symmetric_part("matrix", shaped_array("matrix", matrix, (6, 6)))
        self._set(
            al.ArticulatedInertia(
                pack_symmetric(M[:3, :3]),
                tuple(M[:3, 3:].ravel().tolist()),
                pack_symmetric(M[3:, 3:]),
            )
        )

    @classmethod
    def zero(cls) -> ArticulatedBodyInertia:
        """Return the zero inertia."""
        return cls(np.zeros((6, 6)))

    @property
    def matrix(self) -> Array:
        """(6, 6) ndarray, read-only; ``np.asarray`` returns a copy."""
        return readonly_array(self._numbers(), (6, 6))

    def _numbers(self) -> Array:
        return _matrix(self._tuple)

    def __add__(self, other: ArticulatedBodyInertia) -> ArticulatedBodyInertia:
        if not isinstance(other, ArticulatedBodyInertia):
            return NotImplemented
        return self._of(al.articulated_add(self._tuple, other._tuple))

    def __sub__(self, other: ArticulatedBodyInertia) -> ArticulatedBodyInertia:
        if not isinstance(other, ArticulatedBodyInertia):
            return NotImplemented
        return ArticulatedBodyInertia(self._numbers() - other._numbers())

    def __mul__(self, motion: Motion) -> Force:
        if not isinstance(motion, Motion):
            return NotImplemented
        return Force._of(al.articulated_times(self._tuple, motion._tuple))

    def _placed(self, X: al.SE3) -> ArticulatedBodyInertia:
        return self._of(
            al.articulated_moved(X.translation, al.articulated_rotated(X.rotation, self._tuple))
        )


def _matrix(Y: Any) -> Array:
    """Return the (6, 6) array of a kernel's articulated inertia."""
    return block_matrix(
        unpack_symmetric(Y.linear), Y.cross, al.transposed(Y.cross), unpack_symmetric(Y.angular)
    )
