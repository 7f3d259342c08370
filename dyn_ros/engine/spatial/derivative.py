# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Value types for derivatives of placements: iDynTree's TransformDerivative, and a second one.

Both consist of a rotation part and a translation part, so the algebra of placements applies to
them.
"""
from __future__ import annotations

from typing import TypeAlias, TypeVar, overload

import numpy as np

from ..kernel.plain import algebra as al
from ..kernel.types import Array, ArrayLike
from .inertia import ArticulatedBodyInertia, Inertia
from .se3 import SE3
from .value import ZERO, Value, blocks, flat, frozen, numbers, require, scalar
from .vectors import Force, Motion

D = TypeVar("D", bound="Derivative")
Transformed: TypeAlias = Motion | Force | ArticulatedBodyInertia | Inertia


def _hat(motion):
    """[w] and v: the first three rows of a twist's 4 x 4 matrix."""
    motion = require("twist", motion, Motion)._tuple
    return al.SE3(al.skew(motion.angular), motion.linear)


def _after(X, D):
    """The first three rows of the product of the 4 x 4 matrices of a placement and a derivative."""
    return al.SE3(al.product(X.rotation, D.rotation), al.rotate(X.rotation, D.translation))


def _total(*terms):
    """The sum of tuples of a rotation and a translation part."""
    return al.SE3(*(tuple(map(sum, zip(*parts))) for parts in zip(*terms)))


def _times(factor, D):
    return al.SE3(*(tuple(factor * x for x in part) for part in D))


def _placement(X, name="X"):
    return require(name, X, SE3)._tuple


class Derivative(Value):
    """The derivative of a placement's homogeneous matrix: twelve numbers and a row of zeros."""

    __slots__ = ()
    _shown = ("rotation", "translation")

    def __init__(self, rotation: ArrayLike, translation: ArrayLike) -> None:
        self._set(al.SE3(flat("rotation", rotation, (3, 3)),
                         flat("translation", translation, (3,))))

    @classmethod
    def zero(cls: type[D]) -> D:
        """The derivative of a constant placement."""
        return cls(np.zeros((3, 3)), np.zeros(3))

    @classmethod
    def from_homogeneous(cls: type[D], matrix: ArrayLike) -> D:
        """Create from a 4 x 4 matrix, whose last row must be zeros.

        Parameters
        ----------
        matrix : (4, 4) array_like

        Raises
        ------
        ValueError
            Wrong shape, a number that is not finite, or a last row other than zeros.
        """
        H = numbers("matrix", matrix, (4, 4))
        if H[3].any():
            raise ValueError(f"matrix: expected a last row of zeros, got {H[3]}")
        return cls(H[:3, :3], H[:3, 3])

    @property
    def rotation(self) -> Array:
        """(3, 3) ndarray, read-only: derivative of the rotation matrix."""
        return frozen(self._tuple.rotation, (3, 3))

    @property
    def translation(self) -> Array:
        """(3,) ndarray, read-only: derivative of the translation."""
        return frozen(self._tuple.translation, 3)

    def as_homogeneous(self) -> Array:
        """(4, 4) ndarray: derivative of the homogeneous matrix, as returned by ``np.asarray``.

        The last row is zeros, as in iDynTree, whose documentation shows a 1 there.
        """
        H = np.zeros((4, 4))
        H[:3, :3], H[:3, 3] = self.rotation, self.translation
        return H

    _numbers = as_homogeneous

    def _placed(self, X):
        return self._of(_after(X, self._tuple))

    def __add__(self: D, other: D) -> D:
        if type(other) is not type(self):
            return NotImplemented
        return self._of(_total(self._tuple, other._tuple))

    def __sub__(self: D, other: D) -> D:
        if type(other) is not type(self):
            return NotImplemented
        return self + -other

    def __neg__(self: D) -> D:
        return self._of(_times(-1.0, self._tuple))

    def __mul__(self: D, other: SE3 | float) -> D:
        if isinstance(other, SE3):
            return self._of(al.compose(self._tuple, other._tuple))
        factor = scalar(other)
        if factor is None:
            return NotImplemented
        return self._of(_times(factor, self._tuple))

    def __rmul__(self: D, factor: float) -> D:
        number = scalar(factor)
        if number is None:
            return NotImplemented
        return self._of(_times(number, self._tuple))


def _adjoint(D, moment):
    return blocks(D.rotation, moment, ZERO, D.rotation)


def _adjoint_wrench(D, moment):
    return blocks(D.rotation, ZERO, moment, D.rotation)


def _cross_rotation(p, R):
    """[p] R as an array."""
    return np.array(al.product(al.skew(p), R))


class TransformDerivative(Derivative):
    """The derivative of a placement X of b in a, with respect to time or any other variable.

    Provides all methods of iDynTree's class of this name, and more. Most methods also take X.

    Parameters
    ----------
    rotation : (3, 3) array_like
        Derivative of X's rotation matrix [1/s]. It need not be tangent to the rotations.
    translation : (3,) array_like
        Derivative of X's translation [m/s].

    Raises
    ------
    ValueError
        Wrong shape, or a number that is not finite.

    Notes
    -----
    ``dX * Y`` is the derivative of X Y with Y constant, ``Y * dX`` that of Y X;
    ``dX + dZ``, ``dX - dZ``, ``-dX`` and ``2 * dX`` are linear combinations;
    ``np.asarray(dX)`` is the 4 x 4 matrix.

    Examples
    --------
    >>> X, twist = dyn_ros.SE3.identity(), dyn_ros.Motion([1.0, 0.0, 0.0], [0.0, 0.0, 2.0])
    >>> dX = dyn_ros.TransformDerivative.from_body_twist(X, twist)
    >>> dX.translation.tolist()
    [1.0, 0.0, 0.0]
    """

    __slots__ = ()

    @classmethod
    def from_body_twist(cls, X: SE3, twist: Motion) -> TransformDerivative:
        """Create from the velocity of b expressed in b: X [v].

        Parameters
        ----------
        X : SE3
        twist : Motion
            Velocity of b relative to a, expressed in b, at b's origin (LOCAL in Pinocchio).
        """
        return cls._of(_after(_placement(X), _hat(twist)))

    @classmethod
    def from_world_twist(cls, X: SE3, twist: Motion) -> TransformDerivative:
        """Create from the velocity of b expressed in a: [v] X.

        Parameters
        ----------
        X : SE3
        twist : Motion
            Velocity of b relative to a, expressed in a, at a's origin (WORLD in Pinocchio).
        """
        return cls._of(al.compose(_hat(twist), _placement(X)))

    @classmethod
    def of_composition(cls, X: SE3, dX: TransformDerivative, Y: SE3,
                       dY: TransformDerivative) -> TransformDerivative:
        """The derivative of X Y if both vary: dX Y + X dY."""
        return require("dX", dX, cls) * require("Y", Y, SE3) + require("X", X, SE3) * require(
            "dY", dY, cls)

    def _moment(self, X):
        """[dp] R + [p] dR."""
        (R, p), (dR, dp) = _placement(X), self._tuple
        return _cross_rotation(dp, R) + _cross_rotation(p, dR)

    def as_adjoint(self, X: SE3) -> Array:
        """Derivative of ``X.as_adjoint()``: [dR, [dp] R + [p] dR; 0, dR].

        Returns
        -------
        (6, 6) ndarray
        """
        return _adjoint(self._tuple, self._moment(X))

    def as_adjoint_wrench(self, X: SE3) -> Array:
        """Derivative of ``X.as_adjoint_wrench()``: [dR, 0; [dp] R + [p] dR, dR].

        Returns
        -------
        (6, 6) ndarray
        """
        return _adjoint_wrench(self._tuple, self._moment(X))

    def derivative_of_inverse(self, X: SE3) -> TransformDerivative:
        """Derivative of X^-1: -X^-1 dX X^-1.

        The rotation part is -R' dR R', the translation part -R' (dR (-R' p) + dp). This is also
        valid if dR is not tangent at R; then -R' dR R' is the derivative of R^-1 and differs
        from dR'.
        """
        inverse = al.inverse(_placement(X))
        return self._of(_times(-1.0, _after(inverse, al.compose(self._tuple, inverse))))

    @overload
    def transform(self, X: SE3, other: Motion) -> Motion: ...

    @overload
    def transform(self, X: SE3, other: Force) -> Force: ...

    @overload
    def transform(self, X: SE3,
                  other: ArticulatedBodyInertia | Inertia) -> ArticulatedBodyInertia: ...

    def transform(self, X: SE3, other: Transformed) -> Transformed:
        """Derivative of ``X.act(other)``, with ``other`` constant in b.

        Returns
        -------
        Motion, Force or ArticulatedBodyInertia
            For a Motion, the derivative of the adjoint times the motion, a Motion (iDynTree's
            documentation states a force vector); for a Force, the derivative of the wrench
            adjoint times the force; for an inertia I, dXw I Xw' + Xw I dXw' with the wrench
            adjoint Xw on both sides (iDynTree's documentation has the motion adjoint on the
            right, with which the result would not be symmetric).
        """
        if isinstance(other, Motion):
            return Motion(self.as_adjoint(X) @ np.asarray(other))
        if isinstance(other, Force):
            return Force(self.as_adjoint_wrench(X) @ np.asarray(other))
        half = self.as_adjoint_wrench(X) @ _inertia(other) @ X.as_adjoint_wrench().T
        return ArticulatedBodyInertia(half + half.T)


def _rate(dX, name="dX"):
    return require(name, dX, TransformDerivative)._tuple


def _inertia(other):
    if not isinstance(other, (ArticulatedBodyInertia, Inertia)):
        raise TypeError("other: expected Motion, Force, ArticulatedBodyInertia or Inertia, got "
                        f"{type(other).__name__}")
    return np.asarray(other)
