# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Value types for derivatives of placements: iDynTree's TransformDerivative, and a second one.

Both consist of a rotation part and a translation part, so the algebra of placements applies to
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar, overload

import numpy as np

from ..kernel import algebra as al
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import shaped_array
from .inertia import ArticulatedBodyInertia, Inertia
from .se3 import SE3, Homogeneous
from .value import ZERO_MATRIX, Linear, block_matrix, float_tuple, require_type
from .vectors import Force, Motion, Vector

D = TypeVar("D", bound="Derivative")
Transformed: TypeAlias = Motion | Force | ArticulatedBodyInertia | Inertia


def _hat(motion: Motion) -> al.SE3:
    """Return the first three rows of a twist's 4 x 4 matrix: [w] and v."""
    motion = require_type("twist", motion, Motion)._tuple
    return al.SE3(al.skew(motion.angular), motion.linear)


def _product(X: al.SE3, D: al.SE3) -> al.SE3:
    """Return the first three rows of the product X D of 4 x 4 matrices."""
    return al.SE3(al.product(X.rotation, D.rotation), al.rotate(X.rotation, D.translation))


def _sum(*terms: al.SE3) -> al.SE3:
    """Sum tuples of a rotation and a translation part."""
    rotations, translations = zip(*terms)
    return al.SE3(tuple(map(sum, zip(*rotations))), tuple(map(sum, zip(*translations))))


def _scaled(factor: float, D: al.SE3) -> al.SE3:
    return al.SE3(*(tuple(factor * x for x in numbers) for numbers in D))


def _checked_placement(X: SE3) -> al.SE3:
    return require_type("X", X, SE3)._tuple


def _checked_derivative(dX: TransformDerivative, name: str = "dX") -> al.SE3:
    return require_type(name, dX, TransformDerivative)._tuple


def _inertia_matrix(other: ArticulatedBodyInertia | Inertia) -> Array:
    if not isinstance(other, (ArticulatedBodyInertia, Inertia)):
        raise TypeError(
            "other: expected Motion, Force, ArticulatedBodyInertia or Inertia, got "
            f"{type(other).__name__}"
        )
    return np.asarray(other)


def _cross_rotation(p: Sequence[float], R: Sequence[float]) -> Array:
    """Return [p] R as an array."""
    return np.array(al.product(al.skew(p), R))


class Derivative(Homogeneous, Linear):
    """The derivative of a placement's homogeneous matrix: twelve numbers and a row of zeros."""

    __slots__ = ()
    _corner = 0.0
    _add, _scale = staticmethod(_sum), staticmethod(_scaled)

    def __init__(self, rotation: ArrayLike, translation: ArrayLike) -> None:
        self._set(
            al.SE3(
                float_tuple("rotation", rotation, (3, 3)),
                float_tuple("translation", translation, (3,)),
            )
        )

    @classmethod
    def zero(cls: type[D]) -> D:
        """Return the derivative of a constant placement, zero."""
        return cls(np.zeros((3, 3)), np.zeros(3))

    @classmethod
    def from_homogeneous(cls: type[D], matrix: ArrayLike) -> D:
        """Create from a (4, 4) array_like; a ValueError if its last row is not zeros."""
        H = shaped_array("matrix", matrix, (4, 4))
        if H[3].any():
            raise ValueError(f"matrix: expected a last row of zeros, got {H[3]}")
        return cls(H[:3, :3], H[:3, 3])

    def _placed(self: D, X: al.SE3) -> D:
        return self._of(_product(X, self._tuple))

    def __mul__(self: D, other: SE3 | float) -> D:
        if isinstance(other, SE3):
            return self._of(al.compose(self._tuple, other._tuple))
        return self.__rmul__(other)

    def _adjoint(self, moment: Array) -> Array:
        R = self._tuple.rotation
        return block_matrix(R, moment, ZERO_MATRIX, R)

    def _adjoint_wrench(self, moment: Array) -> Array:
        R = self._tuple.rotation
        return block_matrix(R, ZERO_MATRIX, moment, R)


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
    ``dX * Y`` is the derivative of X Y with Y constant, ``Y * dX`` of Y X;
    ``dX + dZ``, ``dX - dZ``, ``-dX`` and ``2 * dX`` are linear combinations;
    ``np.asarray(dX)`` is the 4 x 4 matrix. Its last row is zeros, as in iDynTree, whose
    documentation shows a 1 there.

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
        """Return X [v], from the velocity v of b relative to a.

        The velocity is expressed in b, at b's origin (LOCAL in Pinocchio).
        """
        return cls._of(_product(_checked_placement(X), _hat(twist)))

    @classmethod
    def from_world_twist(cls, X: SE3, twist: Motion) -> TransformDerivative:
        """Return [v] X, from the velocity v of b relative to a.

        The velocity is expressed in a, at a's origin (WORLD in Pinocchio).
        """
        return cls._of(al.compose(_hat(twist), _checked_placement(X)))

    @classmethod
    def of_composition(
        cls, X: SE3, dX: TransformDerivative, Y: SE3, dY: TransformDerivative
    ) -> TransformDerivative:
        """Return the derivative of X Y if both vary: dX Y + X dY."""
        dX_Y = require_type("dX", dX, cls) * require_type("Y", Y, SE3)
        return dX_Y + require_type("X", X, SE3) * require_type("dY", dY, cls)

    def _moment(self, X: SE3) -> Array:
        """Compute [dp] R + [p] dR."""
        (R, p), (dR, dp) = _checked_placement(X), self._tuple
        return _cross_rotation(dp, R) + _cross_rotation(p, dR)

    def as_adjoint(self, X: SE3) -> Array:
        """Return the derivative of ``X.as_adjoint()``, (6, 6) ndarray.

        [dR, [dp] R + [p] dR; 0, dR]
        """
        return self._adjoint(self._moment(X))

    def as_adjoint_wrench(self, X: SE3) -> Array:
        """Return the derivative of ``X.as_adjoint_wrench()``, (6, 6) ndarray.

        [dR, 0; [dp] R + [p] dR, dR]
        """
        return self._adjoint_wrench(self._moment(X))

    def derivative_of_inverse(self, X: SE3) -> TransformDerivative:
        """Compute the derivative of X^-1: -X^-1 dX X^-1.

        The rotation part is -R' dR R', the translation part -R' (dR (-R' p) + dp). This is also
        valid if dR is not tangent at R; then -R' dR R' is the derivative of R^-1 and differs
        from dR'.
        """
        inverse = al.inverse(_checked_placement(X))
        return self._of(_scaled(-1.0, _product(inverse, al.compose(self._tuple, inverse))))

    @overload
    def transform(self, X: SE3, other: Vector) -> Vector: ...

    @overload
    def transform(
        self, X: SE3, other: ArticulatedBodyInertia | Inertia
    ) -> ArticulatedBodyInertia: ...

    def transform(self, X: SE3, other: Transformed) -> Transformed:
        """Compute the derivative of ``X.act(other)``, with ``other`` constant in b.

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
        half = self.as_adjoint_wrench(X) @ _inertia_matrix(other) @ X.as_adjoint_wrench().T
        return ArticulatedBodyInertia(half + half.T)


class TransformSecondDerivative(Derivative):
    """The second derivative of a placement X of b in a, with respect to time or any variable.

    Parameters
    ----------
    rotation : (3, 3) array_like
        Second derivative of X's rotation matrix [1/s2].
    translation : (3,) array_like
        Second derivative of X's translation [m/s2].

    Raises
    ------
    ValueError
        Wrong shape, or a number that is not finite.

    Notes
    -----
    ``ddX * Y`` is the second derivative of X Y with Y constant, ``Y * ddX`` of Y X; sums
    and multiples are as for a TransformDerivative.

    Examples
    --------
    A point that circles with 2 rad/s accelerates toward the center:

    >>> X, twist = dyn_ros.SE3.identity(), dyn_ros.Motion(np.zeros(3), [0.0, 0.0, 2.0])
    >>> ddX = dyn_ros.TransformSecondDerivative.from_body_twist(
    ...     X, twist, dyn_ros.Motion(np.zeros(6)))
    >>> (ddX.rotation @ [1.0, 0.0, 0.0]).tolist()
    [-4.0, 0.0, 0.0]
    """

    __slots__ = ()

    @classmethod
    def from_body_twist(
        cls, X: SE3, twist: Motion, acceleration: Motion
    ) -> TransformSecondDerivative:
        """Return X ([v] [v] + [a]), from the spatial velocity and acceleration of b relative to a.

        They are expressed in b, at b's origin (LOCAL in Pinocchio).
        """
        v = _hat(twist)
        return cls._of(_product(_checked_placement(X), _sum(_product(v, v), _hat(acceleration))))

    @classmethod
    def from_world_twist(
        cls, X: SE3, twist: Motion, acceleration: Motion
    ) -> TransformSecondDerivative:
        """Return ([v] [v] + [a]) X, from the spatial velocity and acceleration of b relative to a.

        They are expressed in a, at a's origin (WORLD in Pinocchio).
        """
        v = _hat(twist)
        return cls._of(al.compose(_sum(_product(v, v), _hat(acceleration)), _checked_placement(X)))

    @classmethod
    def of_composition(
        cls,
        X: SE3,
        dX: TransformDerivative,
        ddX: TransformSecondDerivative,
        Y: SE3,
        dY: TransformDerivative,
        ddY: TransformSecondDerivative,
    ) -> TransformSecondDerivative:
        """Return the second derivative of X Y if both vary: ddX Y + 2 dX dY + X ddY."""
        mixed = cls._of(_product(_checked_derivative(dX, "dX"), _checked_derivative(dY, "dY")))
        return (
            require_type("ddX", ddX, cls) * require_type("Y", Y, SE3)
            + 2.0 * mixed
            + require_type("X", X, SE3) * require_type("ddY", ddY, cls)
        )

    def _moment(self, X: SE3, dX: TransformDerivative) -> Array:
        """Compute [ddp] R + 2 [dp] dR + [p] ddR."""
        (R, p), (dR, dp), (ddR, ddp) = _checked_placement(X), _checked_derivative(dX), self._tuple
        return _cross_rotation(ddp, R) + 2.0 * _cross_rotation(dp, dR) + _cross_rotation(p, ddR)

    def as_adjoint(self, X: SE3, dX: TransformDerivative) -> Array:
        """Return the second derivative of ``X.as_adjoint()``, (6, 6) ndarray.

        [ddR, [ddp] R + 2 [dp] dR + [p] ddR; 0, ddR]
        """
        return self._adjoint(self._moment(X, dX))

    def as_adjoint_wrench(self, X: SE3, dX: TransformDerivative) -> Array:
        """Return the second derivative of ``X.as_adjoint_wrench()``, (6, 6) ndarray.

        [ddR, 0; [ddp] R + 2 [dp] dR + [p] ddR, ddR]
        """
        return self._adjoint_wrench(self._moment(X, dX))

    def derivative_of_inverse(self, X: SE3, dX: TransformDerivative) -> TransformSecondDerivative:
        """Compute the second derivative of X^-1: 2 X^-1 dX X^-1 dX X^-1 - X^-1 ddX X^-1."""
        inverse, D = al.inverse(_checked_placement(X)), _checked_derivative(dX)
        twice = _product(D, _product(inverse, D))
        inner = _sum(_scaled(2.0, twice), _scaled(-1.0, self._tuple))
        return self._of(_product(inverse, al.compose(inner, inverse)))

    @overload
    def transform(self, X: SE3, dX: TransformDerivative, other: Vector) -> Vector: ...

    @overload
    def transform(
        self, X: SE3, dX: TransformDerivative, other: ArticulatedBodyInertia | Inertia
    ) -> ArticulatedBodyInertia: ...

    def transform(self, X: SE3, dX: TransformDerivative, other: Transformed) -> Transformed:
        """Compute the second derivative of ``X.act(other)``, with ``other`` constant in b.

        Returns
        -------
        Motion, Force or ArticulatedBodyInertia
            As for a TransformDerivative; for an inertia I,
            ddXw I Xw' + 2 dXw I dXw' + Xw I ddXw'.
        """
        if isinstance(other, Motion):
            return Motion(self.as_adjoint(X, dX) @ np.asarray(other))
        wrench = self.as_adjoint_wrench(X, dX)
        if isinstance(other, Force):
            return Force(wrench @ np.asarray(other))
        I, rate = _inertia_matrix(other), dX.as_adjoint_wrench(X)
        half = wrench @ I @ X.as_adjoint_wrench().T
        return ArticulatedBodyInertia(half + half.T + 2.0 * rate @ I @ rate.T)
