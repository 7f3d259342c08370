# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of all public value types."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..kernel import algebra as al
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_number, shaped_array

T = TypeVar("T")
V = TypeVar("V", bound="Value")
L = TypeVar("L", bound="Linear")


def flat(name: str, value: ArrayLike, shape: tuple[int, ...]) -> tuple[float, ...]:
    """Return finite numbers of one shape as Python floats in row-major order, or a ValueError."""
    return tuple(shaped_array(name, value, shape).ravel().tolist())


def require(name: str, value: object, kind: type[T]) -> T:
    """Raise a TypeError for a value of another class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def symmetric(name: str, matrix: Array) -> Array:
    """Return the symmetric part of a matrix; raise a ValueError if it is not symmetric."""
    off = np.abs(matrix - matrix.T).max()
    if off > 1e-9 * np.abs(matrix).max():
        raise ValueError(
            f"{name}: expected a symmetric matrix, got one that differs from its "
            f"transpose by {off:.3g}"
        )
    return 0.5 * (matrix + matrix.T)


def frozen(part: ArrayLike, shape: int | tuple[int, ...]) -> Array:
    """Convert a kernel's tuple to a read-only array."""
    array = np.array(part).reshape(shape)
    array.setflags(write=False)
    return array


def pack(S):
    """Convert a symmetric 3 x 3 array to the six numbers of the kernels."""
    S = S.tolist()
    return al.Symmetric(S[0][0], S[0][1], S[1][1], S[0][2], S[1][2], S[2][2])


def unpack(S):
    """The inverse of ``pack``, as nine numbers."""
    return S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz


def blocks(A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike) -> Array:
    """The 6 x 6 array [A B; C D] of four 3 x 3 matrices, each given as nine numbers."""
    rows = np.array([A, B, C, D]).reshape(2, 2, 3, 3)
    return rows.swapaxes(1, 2).reshape(6, 6)


_NUMBERS = (int, float, np.integer, np.floating)
ZERO = (0.0,) * 9
"""The 3 x 3 zero matrix."""


def _text(array):
    if array.ndim:
        return f"[{', '.join(map(_text, array))}]"
    return f"{array + 0.0:.6g}"  # no -0


class Value:
    """Immutable numbers, stored as the tuple that the algebra of the kernels uses.

    ``np.asarray(x)`` returns a new array, ``==`` compares exactly, and ``isclose`` compares
    within tolerances. Values are not hashable, because computed numbers are rarely equal bit by
    bit.
    """

    __slots__ = ("_tuple",)
    __hash__ = None  # type: ignore[assignment]
    _shown: ClassVar[tuple[str, ...]]
    _tuple: Any
    __array_ufunc__ = None  # NumPy defers 2.0 * x to the class

    @classmethod
    def _of(cls: type[V], parts: Any) -> V:
        """Create a value from a kernel's tuple, without checks."""
        value = object.__new__(cls)
        object.__setattr__(value, "_tuple", parts)
        return value

    def _set(self, parts):
        object.__setattr__(self, "_tuple", parts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; create a new one")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self):
        return self._of, (self._tuple,)

    def __copy__(self: V) -> V:
        return self

    def __deepcopy__(self: V, memo: dict[int, Any]) -> V:
        return self

    def _numbers(self) -> Array:
        raise NotImplementedError

    def _placed(self: V, X: Any) -> V:
        raise NotImplementedError

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                f"a {type(self).__name__} cannot be converted to an array without a copy"
            )
        return self._numbers().astype(dtype or np.float64, copy=False)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._tuple == other._tuple

    def isclose(self: V, other: V, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
        """Whether another value of this class is equal within tolerances.

        In each part (a vector, a matrix), the largest difference may be ``atol`` plus ``rtol``
        times the largest magnitude.
        """
        require("other", other, type(self))
        rtol, atol = finite_number("rtol", rtol), finite_number("atol", atol)
        return all(
            _close(np.ravel(a), np.ravel(b), rtol, atol) for a, b in zip(self._tuple, other._tuple)
        )

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}={_text(np.asarray(getattr(self, name)))}" for name in self._shown
        )
        return f"{type(self).__name__}({parts})"


class Linear(Value):
    """Values that can be added, and multiplied by numbers."""

    __slots__ = ()
    _add: ClassVar[Any]
    _scale: ClassVar[Any]

    def __add__(self: L, other: L) -> L:
        if type(other) is not type(self):
            return NotImplemented
        return self._of(self._add(self._tuple, other._tuple))

    def __sub__(self: L, other: L) -> L:
        if type(other) is not type(self):
            return NotImplemented
        return self + -other

    def __neg__(self: L) -> L:
        return -1.0 * self

    def __rmul__(self: L, factor: float) -> L:
        number = scalar(factor)
        if number is None:
            return NotImplemented
        return self._of(self._scale(number, self._tuple))


def _close(a, b, rtol, atol):
    return bool(np.abs(a - b).max() <= atol + rtol * max(np.abs(a).max(), np.abs(b).max()))


def scalar(factor: object) -> float | None:
    """Return a finite number to multiply by, or None if the factor is not a number."""
    return finite_number("factor", factor) if isinstance(factor, _NUMBERS) else None
