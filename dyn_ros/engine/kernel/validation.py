# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validation of arguments: numbers, choices, arrays of one shape or with the shapes of a model.

Errors name the argument, the expected and the actual value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine_code.declare import JIT
from .fields import MAX_CONSTRAINTS, Axis
from .lie import UNIT_TOLERANCE
from .names import join_names, short_repr
from .types import Array

_FLOAT64 = np.dtype(np.float64)  # compiled code compares identities; unpickled ones differ
_CPU_DEVICES = 1, 3, 11  # of DLPack: kDLCPU, kDLCUDAHost, kDLROCMHost
# Stricter than compiled code, which rounds differently and has already rejected the quaternion.
_UNIT = (1.0 - 1e-8) * UNIT_TOLERANCE if JIT else UNIT_TOLERANCE


# --- numbers


def finite_number(name: str, value: Any) -> float:
    """Return a finite number as a float; raise a ValueError for anything else."""
    try:
        number = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:  # an integer beyond the largest float
        number = math.inf
    return number if math.isfinite(number) else float(finite_array(name, value, ()))


def positive_number(name: str, value: Any) -> float:
    """Return a finite number above zero as a float; raise a ValueError for anything else."""
    number = finite_number(name, value)
    if number <= 0.0:
        raise ValueError(f"{name}: expected a positive number, got {number:g}")
    return number


def require_bool(name: str, value: Any) -> bool:
    """Return whether a value is true; raise a TypeError if it is neither, such as an array."""
    if value is True or value is False:  # at once
        return value
    try:
        if value is not None and not isinstance(value, str):
            return bool(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name}: expected True or False, got {short_repr(value)}")


def require_choice(name: str, value: object, choices: tuple[Any, ...]) -> None:
    """Raise a ValueError if a value is not among the choices."""
    if value not in choices:
        raise ValueError(
            f"{name} is {short_repr(value)}; expected one of {join_names(choices, write=repr)}"
        )


# --- arrays of one shape


def finite_array(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Return finite numbers of one shape as a new float64 array; raise a ValueError otherwise."""
    numbers = " x ".join(map(str, shape)) + " finite numbers" if shape else "a finite number"
    expected = f"{name}: expected {numbers}"
    try:
        array = _to_numpy(value)
    except ValueError as error:  # a ragged list, or an array of another library
        is_list = isinstance(value, (list, tuple))
        found = short_repr(value) if is_list else f"a {type(value).__name__}: {error}"
        raise ValueError(f"{expected}, got {found}") from None
    is_real = array.dtype.kind in "fiub"  # a string is not a number
    if is_real and array.shape != shape:
        raise ValueError(f"{expected}, got shape {array.shape}: {short_repr(value)}")
    if not is_real or _is_masked(value) or not np.isfinite(array).all():
        raise ValueError(f"{expected}, got {short_repr(value)}")
    return array.astype(np.float64)


def shaped_array(name: str, value: Any, shape: tuple[int, ...], leading: bool = False) -> Array:
    """Return finite numbers of one shape as a new float64 array; raise a ValueError otherwise.

    With ``leading``, there can be any axes before those of ``shape``. As opposed to
    ``finite_array``, errors show the shape, and the index of a number that is not finite.
    """
    axes = f"(..., {', '.join(map(str, shape))})" if leading else shape
    expected = f"{name}: expected shape {axes}"
    array = _real_array(value, str, expected)
    if (array.shape[-len(shape) :] if leading else array.shape) != shape:
        raise ValueError(f"{expected}, got {array.shape}")
    require_entries(name, array, np.isfinite(array), "finite numbers")
    return array.astype(np.float64)


def one_each(
    name: str, value: Any, count: int, *, above: float | None = None, least: float | None = None
) -> Array:
    """Return one number for all, or ``count`` numbers, as a new finite array (count,).

    Raises a ValueError for anything else, including numbers that are not ``above`` a bound, or
    below the ``least`` one.
    """
    is_one = not isinstance(value, (list, tuple)) and np.ndim(value) == 0
    array = finite_array(name, np.full(count, value) if is_one else value, (count,))
    if above is not None:
        expected = f"numbers above {above:g}" if above else "positive numbers"
        require_entries(name, array, array > above, expected)
    if least is not None:
        require_entries(name, array, array >= least, f"numbers of at least {least:g}")
    return array


def require_entries(
    name: str,
    array: Array,
    accepted: NDArray[np.bool_],
    expected: str,
    where: Callable[[tuple[int, ...]], str] | None = None,
) -> None:
    """Raise a ValueError that names the first entry that is not accepted, and where it belongs."""
    if not accepted.all():
        index = tuple(map(int, np.argwhere(~accepted)[0]))
        place = f" in {name}[{', '.join(map(str, index))}]" if index else ""
        raise ValueError(
            f"{name}: expected {expected}, got {array[index]:g}{place}"
            f"{where(index) if where else ''}"
        )


# --- arrays with a shape of the model


def require_model(model: Any) -> Any:
    """Return the model; raise a TypeError if it is not one."""
    if not hasattr(model, "_frame_selectors"):
        raise TypeError(
            f"model: expected a dyn_ros.Model, got {type(model).__name__}: {short_repr(model)}"
        )
    return model


def as_array(
    model: Any,
    name: str,
    axes: tuple[Axis, ...],
    value: Any,
    dtype: np.dtype[Any] = _FLOAT64,
) -> tuple[Array, bool]:
    """Return a contiguous array for one state or a batch, and whether it is a batch.

    ``axes`` is the shape for one state, as ints and "nq", "nv", "njoints"; "constraints" as the
    last axis allows any length up to ``MAX_CONSTRAINTS``. Raises a ValueError for another shape,
    or a dtype that is not real. The numbers are not checked.
    """
    shape = tuple(
        [
            "m"
            if axis == "constraints"
            else getattr(model, axis)
            if isinstance(axis, str)
            else axis
            for axis in axes
        ]
    )
    array = _real_array(value, _expected_shape, name, shape)
    if _is_masked(value):
        raise ValueError(
            f"{_expected_shape(name, shape)}, got masked numbers, {short_repr(value)}; fill them"
        )
    batched = array.ndim == len(shape) + 1
    actual: tuple[Any, ...] = array.shape[batched:]
    if "m" in shape and actual and actual[-1] <= MAX_CONSTRAINTS:
        actual = (*actual[:-1], "m")
    if actual != shape:
        raise ValueError(f"{_expected_shape(name, shape)}, got {array.shape}")
    if array.dtype != dtype or not array.flags.carray:
        with np.errstate(over="ignore"):  # too large for float32: rejected as not finite
            array = np.require(array, dtype, ("C", "A"))
    return array, batched


def require_writable(
    name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any] = _FLOAT64
) -> Array:
    """Return an array for results if it has the layout that compiled code writes.

    Raises a ValueError for anything else. Subclasses other than ``np.memmap`` may hide numbers.
    """
    if not isinstance(value, np.ndarray):
        found = f"a {type(value).__name__}"
    elif type(value) not in (np.ndarray, np.memmap):
        found = f"a {type(value).__name__}; pass a view, x.view(np.ndarray)"
    elif value.dtype != dtype:
        found = f"dtype {value.dtype.str}"
    elif value.shape != shape:
        found = f"shape {value.shape}"
    elif not value.flags.c_contiguous or not value.flags.aligned:
        found = f"one with strides {value.strides}"
    elif not value.flags.writeable:
        found = "a read-only one"
    else:
        return value
    raise ValueError(
        f"{name}: expected a writable, C-contiguous array of {dtype}, shape {shape}, got {found}"
    )


def require_valid(model: Any, name: str, axes: tuple[Axis, ...], array: Array | None) -> None:
    """Raise a ValueError if a number is not finite or a quaternion not unit; accept None."""
    if array is None:
        return
    require_entries(
        name,
        array,
        np.isfinite(array),
        "finite numbers",
        lambda index: describe_coordinate(model, axes, index),
    )
    if axes == ("nq",):
        _require_unit_quaternions(model, name, array)


def valid_array(model: Any, name: str, axes: tuple[Axis, ...], value: Any) -> Array:
    """Return a contiguous float64 array for one state or a batch.

    Raises a ValueError as ``as_array`` and ``require_valid``.
    """
    array, _ = as_array(model, name, axes, value)
    require_valid(model, name, axes, array)
    return array


def require_equal(expected: str, numbers: dict[str, int]) -> None:
    """Raise a ValueError if the numbers, by argument name, differ."""
    if len(set(numbers.values())) > 1:
        raise ValueError(
            f"{expected}, got " + ", ".join(f"{name}: {n}" for name, n in numbers.items())
        )


def describe_coordinate(model: Any, axes: tuple[Axis, ...], index: tuple[int, ...]) -> str:
    """Return the coordinate or joint that a number belongs to, in parentheses, or ""."""
    if axes[0] == "njoints":
        return f" (joint {model.joint_names[index[-2]]!r})"
    if axes[0] == "nv":
        return f" ({model.velocity_names[index[-len(axes)]]!r})"
    if axes[0] != "nq":
        return ""
    (owner,) = (
        name
        for name, start, count in zip(model.joint_names, model.idx_q, model.nqs)
        if start <= index[-1] < start + count
    )
    return f" (joint {owner!r})"


# --- parts


def _real_array(value: Any, expected: Callable[..., str], *words: object) -> NDArray[Any]:
    """Return an array of real numbers; any other value is a ValueError of expected(*words)."""
    try:
        array = _to_numpy(value)
    except ValueError as error:  # a ragged list
        raise ValueError(f"{expected(*words)}, got a {type(value).__name__}: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{expected(*words)} of real numbers, got dtype {array.dtype}: {short_repr(value)}"
        )
    return array


def _to_numpy(value: Any) -> NDArray[Any]:
    """Return an array, without a copy for one of another library in the memory of the CPU.

    Raise a ValueError that says what would do for one on another device, or that its library does
    not convert, such as a tensor that requires a gradient.
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return np.asarray(value)
    try:
        is_on_cpu = int(value.__dlpack_device__()[0]) in _CPU_DEVICES
        if is_on_cpu:
            return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    raise ValueError(
        "its numbers are on a device; copy them to the CPU, for example with x.cpu() or "
        "jax.device_get(x)"
    )


def _is_masked(value: Any) -> bool:
    """Return True if an array has masked entries; such arrays exist only once numpy.ma is imported.

    The import occupies 6 MB.
    """
    # another thread may be importing it
    is_masked = getattr(sys.modules.get("numpy.ma"), "is_masked", None)
    return is_masked is not None and bool(is_masked(value))


def _expected_shape(name: str, shape: tuple[Any, ...]) -> str:
    """Return the beginning of an error message, with the expected shape."""
    inner = ", ".join(map(str, shape))
    most = f" (m at most {MAX_CONSTRAINTS})" if "m" in shape else ""
    return (
        f"{name}: expected shape ({inner}{',' * (len(shape) == 1)}), "
        f"or (B, {inner}) for a batch{most}"
    )


def _require_unit_quaternions(model: Any, name: str, array: Array) -> None:
    """Raise a ValueError if a quaternion in configurations (..., nq) is not normalized."""
    for k in model._unit_quaternions:
        x, y, z, w = np.moveaxis(array[..., k : k + 4], -1, 0)
        with np.errstate(over="ignore"):
            squares = x * x + y * y + z * z + w * w
        unit = np.abs(squares - 1.0) < _UNIT
        if not unit.all():
            index = tuple(np.argwhere(~unit)[0])
            row = "".join(f"{n}, " for n in index)
            raise ValueError(
                f"{name}: expected a unit quaternion (x y z w) in {name}[{row}{k}:{k + 4}]"
                f"{describe_coordinate(model, ('nq',), (k,))}, got length "
                f"{np.sqrt(squares[index]):.9g}; normalize it"
            )
