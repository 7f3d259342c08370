# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validation of array arguments; errors name the expected and the actual value."""

import sys

import numpy as np

from ..kernel.fields import MAX_CONSTRAINTS
from ..kernel.lie import UNIT_TOLERANCE
from ..machine_code.declare import JIT
from ..spatial.value import real_array, require_finite_entries

_FLOAT64 = np.dtype(np.float64)  # compiled code compares identities; unpickled ones differ
# Stricter than compiled code, which rounds differently and has already rejected the quaternion.
_UNIT = (1.0 - 1e-8) * UNIT_TOLERANCE if JIT else UNIT_TOLERANCE


def as_array(model, name, axes, value):
    """A contiguous float64 array for one state or a batch, and whether it has a leading axis.

    ``axes`` is the shape for one state, as ints and "nq", "nv", "njoints"; "constraints" as the
    last axis allows any length up to ``MAX_CONSTRAINTS``. Raises a ValueError for another shape,
    or a dtype that is not real.
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
    array = real_array(value, _expected, name, shape)
    if _is_masked(value):
        raise ValueError(f"{_expected(name, shape)}, got masked numbers, {value!r:.80}; fill them")
    batched = array.ndim == len(shape) + 1
    actual = array.shape[batched:]
    if "m" in shape and actual and actual[-1] <= MAX_CONSTRAINTS:
        actual = (*actual[:-1], "m")
    if actual != shape:
        raise ValueError(f"{_expected(name, shape)}, got {array.shape}")
    if array.dtype is not _FLOAT64 or not array.flags.carray:
        array = np.require(array, np.float64, ("C", "A"))
    return array, batched


def _is_masked(value):
    """Whether an array has masked entries; such arrays exist only once numpy.ma is imported.

    The import occupies 6 MB.
    """
    # another thread may be importing it
    is_masked = getattr(sys.modules.get("numpy.ma"), "is_masked", None)
    return is_masked is not None and is_masked(value)


def _expected(name, shape):
    """Return the beginning of an error message, with the expected shape."""
    inner = ", ".join(map(str, shape))
    most = f" (m at most {MAX_CONSTRAINTS})" if "m" in shape else ""
    return (
        f"{name}: expected shape ({inner}{',' * (len(shape) == 1)}), "
        f"or (B, {inner}) for a batch{most}"
    )


def require_model(model):
    """Return the model; raise a TypeError if it is not one."""
    if not hasattr(model, "_frame_selectors"):
        raise TypeError(
            f"model: expected a dyn_ros.Model, got {type(model).__name__}: {model!r:.80}"
        )
    return model


def flag(name, value):
    """Whether something is true, or a TypeError: an array of several numbers is neither."""
    if value is True or value is False:  # at once
        return value
    try:
        if value is not None and not isinstance(value, str):
            return bool(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name}: expected True or False, got {value!r:.80}")


def finite_array(name, value, shape):
    """Convert to a finite float64 array of one shape, or raise a ValueError."""
    numbers = " x ".join(map(str, shape)) + " finite numbers" if shape else "a finite number"
    expected = f"{name}: expected {numbers}"
    try:
        array = np.asarray(value)
    except ValueError:  # a ragged list
        raise ValueError(f"{expected}, got {value!r:.80}") from None
    is_real = array.dtype.kind in "fiub"  # a string is not a number
    if is_real and array.shape != shape:
        raise ValueError(f"{expected}, got shape {array.shape}: {value!r:.80}")
    if not is_real or _is_masked(value) or not np.isfinite(array).all():
        raise ValueError(f"{expected}, got {value!r:.80}")
    return array.astype(float)


def one_each(name, value, count):
    """Convert a number, or ``count`` numbers, to a finite array (count,), or raise a ValueError."""
    is_one = not isinstance(value, (list, tuple)) and np.ndim(value) == 0
    return finite_array(name, np.full(count, value) if is_one else value, (count,))


def positive_each(name, value, count, least=0.0):
    """Convert as ``one_each``, or raise a ValueError; all are above 0, and at least ``least``."""
    array = one_each(name, value, count)
    if not ((array > 0.0) & (array >= least)).all():
        expected = f"numbers of at least {least:g}" if least else "positive numbers"
        raise ValueError(f"{name}: expected {expected}, got {array.min():g}")
    return array


def require_valid(model, name, axes, array):
    """Raise a ValueError if a number is not finite or a quaternion not unit; accept None."""
    if array is None:
        return
    require_finite(model, name, axes, array)
    if axes == ("nq",):
        _require_unit_quaternions(model, name, array)


def require_equal(expected, numbers):
    """Raise a ValueError if the numbers, by argument name, differ."""
    if len(set(numbers.values())) > 1:
        raise ValueError(
            f"{expected}, got " + ", ".join(f"{name}: {n}" for name, n in numbers.items())
        )


def coordinate(model, axes, index):
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


def require_finite(model, name, axes, array):
    """Raise a ValueError if a number is not finite."""
    require_finite_entries(name, array, lambda index: coordinate(model, axes, index))


def _require_unit_quaternions(model, name, array):
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
                f"{coordinate(model, ('nq',), (k,))}, got length "
                f"{np.sqrt(squares[index]):.9g}; normalize it"
            )
