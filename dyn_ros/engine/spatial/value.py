# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Base of all public value types."""

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


def float_tuple(name: str, value: ArrayLike, shape: tuple[int, ...]) -> tuple[float, ...]:
    """Return numbers of a shape as Python floats, row-major; raise a ValueError if it differs."""
    return tuple(shaped_array(name, value, shape).ravel().tolist())


def require_type(name: str, value: object, kind: type[T]) -> T:
    """Return a value; raise a TypeError if it is of another class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def symmetric_part(name: str, matrix: Array) -> Array:
    """Return the symmetric part of a matrix; raise a ValueError if it is not symmetric."""
    asymmetry = np.abs(matrix - matrix.T).max()
    if asymmetry > 1e-9 * np.abs(matrix).max():
        raise ValueError(
            f"{name}: expected a symmetric matrix, got one that differs from its "
            f"transpose by {asymmetry:.3g}"
        )
    return 0.5 * (matrix + matrix.T)


def readonly_array(numbers: ArrayLike, shape: int | tuple[int, ...]) -> Array:
    """Convert a kernel's tuple to a read-only array."""
    array = np.array(numbers).reshape(shape)
    array.setflags(write=False)
    return array


def pack_symmetric(S: Array) -> al.Symmetric:
    """Convert a symmetric 3 x 3 array to the six numbers of the kernels."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = S.tolist()
    return al.Symmetric(xx, xy, yy, xz, yz, zz)


def unpack_symmetric(S: al.Symmetric) -> tuple[float, ...]:
    """Convert the six numbers of the kernels to the nine of a symmetric 3 x 3 matrix."""
    return S.xx, S.xy, S.xz, S.xy, S.yy, S.yz, S.xz, S.yz, S.zz


def block_matrix(A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike) -> Array:
    """Return the 6 x 6 array [A B; C D] of four 3 x 3 matrices of nine numbers each."""
    rows = np.array([A, B, C, D]).reshape(2, 2, 3, 3)
    return rows.swapaxes(1, 2).reshape(6, 6)


_NUMBER_TYPES = (int, float, np.integer, np.floating)
ZERO_MATRIX = (0.0,) * 9
"""The nine numbers of the 3 x 3 zero matrix."""


def _text_of_array(array: NDArray[Any]) -> str:
    if array.ndim:
        return f"[{', '.join(map(_text_of_array, array))}]"
    return f"{array + 0.0:.6g}"  # no -0


class Value:
    """Immutable numbers, stored as the tuple that the algebra of the kernels uses.

    ``np.asarray(x)`` returns a new array, ``==`` compares exactly, and ``isclose`` compares
    within tolerances. Values are not hashable, because computed numbers are rarely equal bit by
    bit.
    """

    __slots__ = ("_tuple",)
    __hash__ = None  # type: ignore[assignment]
    _repr_attributes: ClassVar[tuple[str, ...]]  # attributes in the representation
    _tuple: Any
    __array_ufunc__ = None  # NumPy defers 2.0 * x to the class

    @classmethod
    def _of(cls: type[V], parts: Any) -> V:
        """Create a value from a kernel's tuple, without checks."""
        value = object.__new__(cls)
        object.__setattr__(value, "_tuple", parts)
        return value

    def _set(self, parts: Any) -> None:
        object.__setattr__(self, "_tuple", parts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; create a new one")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self) -> tuple[Any, ...]:
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
        """Return True if another value of this class is equal within tolerances.

        In each part (a vector, a matrix), the largest difference may be ``atol`` plus ``rtol``
        times the largest magnitude.
        """
        require_type("other", other, type(self))
        rtol, atol = finite_number("rtol", rtol), finite_number("atol", atol)
        return all(
            _is_close(np.ravel(a), np.ravel(b), rtol, atol)
            for a, b in zip(self._tuple, other._tuple)
        )

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}={_text_of_array(np.asarray(getattr(self, name)))}"
            for name in self._repr_attributes
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
        number = finite_factor(factor)
        if number is None:
            return NotImplemented
        return self._of(self._scale(number, self._tuple))


def _is_close(a: Array, b: Array, rtol: float, atol: float) -> bool:
    return bool(np.abs(a - b).max() <= atol + rtol * max(np.abs(a).max(), np.abs(b).max()))


def finite_factor(factor: object) -> float | None:
    """Return a finite number to multiply by, or None if the factor is not a number."""
    return finite_number("factor", factor) if isinstance(factor, _NUMBER_TYPES) else None
