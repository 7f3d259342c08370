# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The value type for second derivatives of placements."""
from __future__ import annotations

from typing import overload

import numpy as np

from ..kernel.plain import algebra as al
from ..kernel.types import Array
from .derivative import (
    Derivative,
    TransformDerivative,
    Transformed,
    _adjoint,
    _adjoint_wrench,
    _after,
    _cross_rotation,
    _hat,
    _inertia,
    _placement,
    _rate,
    _times,
    _total,
)
from .inertia import ArticulatedBodyInertia, Inertia
from .se3 import SE3
from .value import require
from .vectors import Force, Motion


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
    ``ddX * Y`` is the second derivative of X Y with Y constant, ``Y * ddX`` that of Y X; sums
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
    def from_body_twist(cls, X: SE3, twist: Motion,
                        acceleration: Motion) -> TransformSecondDerivative:
        """Create from velocity and acceleration of b expressed in b: X ([v] [v] + [a]).

        Parameters
        ----------
        X : SE3
        twist, acceleration : Motion
            Spatial velocity and acceleration of b relative to a, expressed in b, at b's origin
            (LOCAL in Pinocchio).
        """
        v = _hat(twist)
        return cls._of(_after(_placement(X), _total(_after(v, v), _hat(acceleration))))

    @classmethod
    def from_world_twist(cls, X: SE3, twist: Motion,
                         acceleration: Motion) -> TransformSecondDerivative:
        """Create from velocity and acceleration of b expressed in a: ([v] [v] + [a]) X.

        Parameters
        ----------
        X : SE3
        twist, acceleration : Motion
            Spatial velocity and acceleration of b relative to a, expressed in a, at a's origin
            (WORLD in Pinocchio).
        """
        v = _hat(twist)
        return cls._of(al.compose(_total(_after(v, v), _hat(acceleration)), _placement(X)))

    @classmethod
    def of_composition(cls, X: SE3, dX: TransformDerivative, ddX: TransformSecondDerivative,
                       Y: SE3, dY: TransformDerivative,
                       ddY: TransformSecondDerivative) -> TransformSecondDerivative:
        """The second derivative of X Y if both vary: ddX Y + 2 dX dY + X ddY."""
        mixed = cls._of(_after(_rate(dX, "dX"), _rate(dY, "dY")))
        return require("ddX", ddX, cls) * require("Y", Y, SE3) + 2.0 * mixed + require(
            "X", X, SE3) * require("ddY", ddY, cls)

    def _moment(self, X, dX):
        """[ddp] R + 2 [dp] dR + [p] ddR."""
        (R, p), (dR, dp), (ddR, ddp) = _placement(X), _rate(dX), self._tuple
        return (_cross_rotation(ddp, R) + 2.0 * _cross_rotation(dp, dR)
                + _cross_rotation(p, ddR))

    def as_adjoint(self, X: SE3, dX: TransformDerivative) -> Array:
        """Second derivative of ``X.as_adjoint()``.

        [ddR, [ddp] R + 2 [dp] dR + [p] ddR; 0, ddR]

        Returns
        -------
        (6, 6) ndarray
        """
        return _adjoint(self._tuple, self._moment(X, dX))

    def as_adjoint_wrench(self, X: SE3, dX: TransformDerivative) -> Array:
        """Second derivative of ``X.as_adjoint_wrench()``.

        [ddR, 0; [ddp] R + 2 [dp] dR + [p] ddR, ddR]

        Returns
        -------
        (6, 6) ndarray
        """
        return _adjoint_wrench(self._tuple, self._moment(X, dX))

    def derivative_of_inverse(self, X: SE3,
                              dX: TransformDerivative) -> TransformSecondDerivative:
        """Second derivative of X^-1: 2 X^-1 dX X^-1 dX X^-1 - X^-1 ddX X^-1."""
        inverse, D = al.inverse(_placement(X)), _rate(dX)
        twice = _after(D, _after(inverse, D))
        inner = _total(_times(2.0, twice), _times(-1.0, self._tuple))
        return self._of(_after(inverse, al.compose(inner, inverse)))

    @overload
    def transform(self, X: SE3, dX: TransformDerivative, other: Motion) -> Motion: ...

    @overload
    def transform(self, X: SE3, dX: TransformDerivative, other: Force) -> Force: ...

    @overload
    def transform(self, X: SE3, dX: TransformDerivative,
                  other: ArticulatedBodyInertia | Inertia) -> ArticulatedBodyInertia: ...

    def transform(self, X: SE3, dX: TransformDerivative, other: Transformed) -> Transformed:
        """Second derivative of ``X.act(other)``, with ``other`` constant in b.

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
        half, rate = wrench @ _inertia(other) @ X.as_adjoint_wrench().T, dX.as_adjoint_wrench(X)
        return ArticulatedBodyInertia(half + half.T + 2.0 * rate @ _inertia(other) @ rate.T)
