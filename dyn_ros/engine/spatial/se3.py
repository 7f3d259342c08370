# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Value type for placements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from ..kernel import algebra as al
from ..kernel import lie
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_number, shaped_array
from .value import ZERO_MATRIX, Value, block_matrix, float_tuple, readonly_array, require_type
from .vectors import Motion

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

V = TypeVar("V", bound=Value)

_ROTATION_TOLERANCE = 1e-9  # largest difference of an entry of R' R from the identity


def _checked_rotation(value: Any) -> tuple[float, ...]:
    """Return the nine numbers of a rotation, from a matrix or a SciPy Rotation."""
    if hasattr(value, "as_matrix"):
        value = value.as_matrix()
    R = shaped_array("rotation", value, (3, 3))
    deviation = np.abs(R.T @ R - np.eye(3)).max()
    if deviation > _ROTATION_TOLERANCE:
        raise ValueError(
            f"rotation: expected a rotation matrix, got a matrix for which R' R differs from the "
            f"identity by {deviation:.3g} (tolerance: {_ROTATION_TOLERANCE:g}); use "
            f"scipy.spatial.transform.Rotation.from_matrix to get the nearest rotation"
        )
    if np.linalg.det(R) < 0.0:
        raise ValueError(
            "rotation: expected a rotation matrix, got a reflection (its determinant is -1)"
        )
    return tuple(R.ravel().tolist())


class Homogeneous(Value):
    """A 4 x 4 matrix with a constant last row: a placement, or its derivative."""

    __slots__ = ()
    _repr_attributes = ("rotation", "translation")
    _corner: ClassVar[float]  # last number of the last row; the numbers before it are zeros

    @property
    def rotation(self) -> Array:
        """(3, 3) ndarray, read-only: the part that rotates."""
        return readonly_array(self._tuple.rotation, (3, 3))

    @property
    def translation(self) -> Array:
        """(3,) ndarray, read-only: the part that translates [m]."""
        return readonly_array(self._tuple.translation, 3)

    def as_homogeneous(self) -> Array:
        """Return the matrix, (4, 4) ndarray, as ``np.asarray`` does.

        The last row is 0 0 0 1, of derivatives zeros; iDynTree's documentation shows a 1 there.
        """
        H = np.zeros((4, 4))
        H[:3, :3], H[:3, 3], H[3, 3] = self.rotation, self.translation, self._corner
        return H

    _numbers = as_homogeneous


class SE3(Homogeneous):
    """The placement of a frame in another frame: a rotation and a translation.

    It transforms from the placed frame to the other one: ``X * y`` or ``X.act(y)`` for points,
    placements, motions, forces, inertias and transform derivatives. ``X_ab * X_bc`` is the
    placement of c in a.

    Parameters
    ----------
    rotation : (3, 3) array_like or scipy.spatial.transform.Rotation
        Its columns are the axes of the placed frame. The entries of R' R may differ from the
        identity by at most 1e-9.
    translation : (3,) array_like
        The placed frame's origin [m].

    Raises
    ------
    ValueError
        Wrong shape, a number that is not finite, or a matrix that is not a rotation; states the
        deviation.

    Examples
    --------
    >>> X = dyn_ros.SE3(np.eye(3), [0.1, 0.0, 0.2])
    >>> np.allclose(X * X.inverse(), np.eye(4)), (X * [1.0, 0.0, 0.0]).tolist()
    (True, [1.1, 0.0, 0.2])
    >>> twist = X.log()
    >>> np.allclose(dyn_ros.SE3.exp(twist), X)
    True
    """

    __slots__ = ()
    _corner = 1.0

    def __init__(
        self, rotation: ArrayLike | Rotation, translation: ArrayLike = (0.0, 0.0, 0.0)
    ) -> None:
        self._set(
            al.SE3(_checked_rotation(rotation), float_tuple("translation", translation, (3,)))
        )

    @classmethod
    def identity(cls) -> SE3:
        """Return the identity placement."""
        return cls(np.eye(3))

    @classmethod
    def from_homogeneous(cls, matrix: ArrayLike) -> SE3:
        """Create from a (4, 4) array_like [R p; 0 1]; a ValueError if the last row differs."""
        H = shaped_array("matrix", matrix, (4, 4))
        if np.abs(H[3] - [0.0, 0.0, 0.0, 1.0]).max() > 1e-12:
            raise ValueError(f"matrix: expected a last row of 0 0 0 1, got {H[3]}")
        return cls(H[:3, :3], H[:3, 3])

    @classmethod
    def from_quaternion(
        cls, quaternion: ArrayLike, translation: ArrayLike = (0.0, 0.0, 0.0)
    ) -> SE3:
        """Create from a unit quaternion (x y z w) and a translation [m].

        The quaternion is normalized; a ValueError if its squared norm differs from 1 by 1e-6.
        """
        q = shaped_array("quaternion", quaternion, (4,))
        if not abs(q @ q - 1.0) < lie.UNIT_TOLERANCE:
            raise ValueError(
                f"quaternion: expected a unit quaternion (x y z w), got length "
                f"{np.linalg.norm(q):.9g}; normalize it"
            )
        return cls._of(
            al.SE3(
                al.quaternion_rotation(*q.tolist()), float_tuple("translation", translation, (3,))
            )
        )

    @classmethod
    def exp(cls, motion: ArrayLike) -> SE3:
        """Return the placement reached from the identity with a constant body-fixed twist for 1 s.

        ``motion``, a Motion or (6,) array_like, is expressed in the moving frame [m, rad].
        """
        p, q = lie.se3_exp(shaped_array("motion", motion, (6,)))
        return cls._of(al.SE3(al.quaternion_rotation(*q.tolist()), tuple(p.tolist())))

    @staticmethod
    def jexp(motion: ArrayLike) -> Array:
        """Return the right Jacobian of ``exp`` for a Motion or (6,) array_like, (6, 6) ndarray.

        exp(m + dm) = exp(m) exp(jexp(m) dm), to first order. Bullo and Murray (1995),
        Proportional derivative (PD) control on the Euclidean group.
        """
        return lie.se3_jexp(shaped_array("motion", motion, (6,)))

    def log(self) -> Motion:
        """Compute the inverse of ``exp`` [m, rad], with an angle of at most pi.

        At pi, the sign of the axis is arbitrary.
        """
        return Motion(lie.se3_log(self.translation, self.as_quaternion()))

    def jlog(self) -> Array:
        """Return the Jacobian of ``log``, the inverse of ``SE3.jexp(X.log())``, (6, 6) ndarray.

        log(X exp(dm)) = log(X) + jlog dm, to first order.
        """
        return lie.se3_jlog(np.asarray(self.log()))

    def as_quaternion(self) -> Array:
        """Return the unit quaternion (x y z w) with w >= 0, (4,) ndarray."""
        return lie.matrix_quaternion(self.rotation)

    def as_rotation(self) -> Rotation:
        """Return the rotation as a scipy.spatial.transform.Rotation."""
        from scipy.spatial.transform import Rotation

        return Rotation.from_quat(self.as_quaternion())

    def as_adjoint(self) -> Array:
        """Return the matrix by which ``act`` transforms a motion, (6, 6) ndarray: [R [p]R; 0 R]."""
        R, p = self._tuple
        return block_matrix(R, al.product(al.skew(p), R), ZERO_MATRIX, R)

    def as_adjoint_wrench(self) -> Array:
        """Return the matrix by which ``act`` transforms a force, (6, 6) ndarray: [R 0; [p]R R]."""
        R, p = self._tuple
        return block_matrix(R, ZERO_MATRIX, al.product(al.skew(p), R), R)

    def inverse(self) -> SE3:
        """Return the inverse: the placement of the outer frame in the placed frame."""
        return self._of(al.inverse(self._tuple))

    @overload
    def act(self, other: V) -> V: ...

    @overload
    def act(self, other: ArrayLike) -> Array: ...

    def act(self, other: Value | ArrayLike) -> Value | Array:
        """Transform from the placed frame to the frame in which it is placed.

        Parameters
        ----------
        other : SE3, Motion, Force, Inertia, ArticulatedBodyInertia, TransformDerivative, \
TransformSecondDerivative or (..., 3) array_like
            An array contains one point or several [m].

        Returns
        -------
        The same class, or (..., 3) ndarray
        """
        if isinstance(other, Value):
            return other._placed(self._tuple)
        array = np.asarray(other)
        points = np.moveaxis(shaped_array("points", array, (*array.shape[:-1], 3)), -1, 0)
        moved = al.add(al.rotate(self._tuple.rotation, points), self._tuple.translation)
        return np.stack(moved, -1)

    __mul__ = act

    @overload
    def act_inverse(self, other: V) -> V: ...

    @overload
    def act_inverse(self, other: ArrayLike) -> Array: ...

    def act_inverse(self, other: Value | ArrayLike) -> Value | Array:
        """Transform from the outer frame to the placed frame, as ``X.inverse().act(other)``."""
        return self.inverse().act(other)

    def _placed(self, X: al.SE3) -> SE3:
        return self._of(al.compose(X, self._tuple))

    def interpolate(self, other: SE3, u: float) -> SE3:
        """Interpolate to another placement with a constant twist.

        X exp(u log(X^-1 Y)), a screw motion of at most half a turn: this placement for u = 0, the
        other one for u = 1; values outside of [0, 1] extrapolate.
        """
        step = self.act_inverse(require_type("other", other, SE3)).log()
        return self * SE3.exp(finite_number("u", u) * step)
