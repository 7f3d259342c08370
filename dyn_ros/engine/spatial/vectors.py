# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Value types for spatial vectors: motions and forces.

Featherstone, Rigid Body Dynamics Algorithms (2008), chapter 2, with linear and angular parts
exchanged.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np

from ..kernel import algebra as al
from ..kernel.types import Array, ArrayLike
from .value import (
    ZERO_MATRIX,
    Linear,
    block_matrix,
    finite_factor,
    float_tuple,
    readonly_array,
    require_type,
)

V = TypeVar("V", bound="_Vector")
Vector = TypeVar("Vector", "Motion", "Force")


class _Vector(Linear):
    """Six numbers, linear part first."""

    __slots__ = ()
    _repr_attributes = ("linear", "angular")
    _kind: ClassVar[Any]

    def __init__(self, vector: ArrayLike, angular: ArrayLike | None = None) -> None:
        if angular is None:
            numbers = float_tuple("vector", vector, (6,))
            linear, angular = numbers[:3], numbers[3:]
        else:
            linear = float_tuple("linear", vector, (3,))
            angular = float_tuple("angular", angular, (3,))
        self._set(self._kind(linear, angular))

    @classmethod
    def zero(cls: type[V]) -> V:
        """Return the zero vector."""
        return cls(np.zeros(6))

    @property
    def linear(self) -> Array:
        """(3,) ndarray, read-only."""
        return readonly_array(self._tuple.linear, 3)

    @property
    def angular(self) -> Array:
        """(3,) ndarray, read-only."""
        return readonly_array(self._tuple.angular, 3)

    def _numbers(self) -> Array:
        return np.array(self._tuple.linear + self._tuple.angular)

    __mul__ = Linear.__rmul__

    def __truediv__(self: V, divisor: float) -> V:
        number = finite_factor(divisor)
        if number is None:
            return NotImplemented
        return self * (1.0 / number)


class Motion(_Vector):
    """A spatial velocity (twist), acceleration or small displacement.

    Parameters
    ----------
    vector : (6,) array_like
        Linear part [m/s], the velocity of the body-fixed point at the frame's origin, then
        angular part [rad/s]; or only the linear part, (3,).
    angular : (3,) array_like, optional
        Angular part, if ``vector`` has three numbers.

    Raises
    ------
    ValueError
        Wrong shape, or a number that is not finite.

    Notes
    -----
    ``a + b``, ``a - b``, ``-a``, ``2 * a`` and ``a / 2`` are Motions; ``np.asarray(a)`` returns
    the six numbers. Accelerations are spatial; the classical acceleration of the origin has the
    additional term w x v.

    Examples
    --------
    >>> twist = dyn_ros.Motion([1.0, 0.0, 0.0], [0.0, 0.0, 2.0])
    >>> np.allclose(twist.cross(twist), 0.0)
    True
    >>> np.allclose(dyn_ros.SE3(np.eye(3), [0.0, 1.0, 0.0]) * twist, [3.0, 0.0, 0.0, 0.0, 0.0, 2.0])
    True
    """

    __slots__ = ()
    _kind = al.Motion
    _add, _scale = staticmethod(al.motion_add), staticmethod(al.motion_scale)

    def cross(self, other: Vector) -> Vector:
        """Return v x m for a Motion, or v x* f for a Force; Featherstone (2008), section 2.9.

        This is the rate of change of a vector that is constant in a frame with velocity v.

        Parameters
        ----------
        other : Motion or Force
            Expressed in the same frame. The result is of its class.
        """
        if isinstance(other, Motion):
            return Motion._of(al.motion_cross(self._tuple, other._tuple))
        return Force._of(al.force_cross(self._tuple, require_type("other", other, Force)._tuple))

    def dot(self, force: Force) -> float:
        """Return the power [W] of a Force at this velocity, both expressed in the same frame."""
        return al.power(require_type("force", force, Force)._tuple, self._tuple)

    def as_cross(self) -> Array:
        """Return the (6, 6) ndarray with which ``m.as_cross() @ n`` is m x n."""
        v, w = al.skew(self._tuple.linear), al.skew(self._tuple.angular)
        return block_matrix(w, v, ZERO_MATRIX, w)

    def as_cross_force(self) -> Array:
        """Return the (6, 6) ndarray with which ``m.as_cross_force() @ f`` is m x* f."""
        v, w = al.skew(self._tuple.linear), al.skew(self._tuple.angular)
        return block_matrix(w, ZERO_MATRIX, v, w)

    def _placed(self, X: al.SE3) -> Motion:
        return Motion._of(al.motion_to_parent(X, self._tuple))


class Force(_Vector):
    """A spatial force (wrench) or momentum.

    Parameters
    ----------
    vector : (6,) array_like
        Force [N], then moment about the frame's origin [N m]; or only the force, (3,).
    angular : (3,) array_like, optional
        Moment, if ``vector`` has three numbers.

    Raises
    ------
    ValueError
        Wrong shape, or a number that is not finite.

    Notes
    -----
    ``f + g``, ``f - g``, ``-f``, ``2 * f`` and ``f / 2`` are Forces; ``np.asarray(f)`` returns
    the six numbers.

    Examples
    --------
    >>> force = dyn_ros.Force([0.0, 0.0, 10.0], [0.0, 0.0, 0.0])
    >>> force.dot(dyn_ros.Motion([0.0, 0.0, 0.5, 0.0, 0.0, 0.0]))               # W
    5.0
    """

    __slots__ = ()
    _kind = al.Force
    _add, _scale = staticmethod(al.force_add), staticmethod(al.force_scale)

    def dot(self, motion: Motion) -> float:
        """Return the power [W] of this force at a velocity, both expressed in the same frame."""
        return al.power(self._tuple, require_type("motion", motion, Motion)._tuple)

    def _placed(self, X: al.SE3) -> Force:
        return Force._of(al.force_to_parent(X, self._tuple))
