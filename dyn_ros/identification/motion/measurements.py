# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validation of measured arrays, and detection of glitches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.names import join_names, short_repr
from ...engine.kernel.types import Array, ArrayLike
from ...engine.kernel.validation import as_array, describe_coordinate, require_model, require_valid
from ...engine.model.drives import MAX_MEASUREMENT
from ...engine.model.model import Model
from ...recordings.tables.row_selection import format_stamp
from .numerics import BLOCK_SIZE, MIN_TRAVEL

_MIN_JUMP_RATIO = 10.0  # relative to the median second difference of positions, or the effort range
_MAX_SPAN_RATIO = 1.5  # time of seven rows, relative to the median; beyond, rows are missing
_TAIL_FRACTION = 1e-3  # efforts outside their range, on either side


def copy_rows(model: Model, name: str, axes: tuple[str | int, ...], value: ArrayLike) -> Array:
    """Return a copy of an array with a row for each sample; raise a ValueError for other shapes."""
    array, batched = as_array(require_model(model), name, axes, value)
    if not batched:
        shape = ", ".join(
            str(getattr(model, axis) if isinstance(axis, str) else axis) for axis in axes
        )
        raise ValueError(
            f"{name}: expected shape (B, {shape}), a row for each sample, got {array.shape}"
        )
    return array.copy()


def copy_stamps(time: ArrayLike) -> Array:
    """Return a copy of time stamps (B,) [s]; raise a ValueError for other shapes or types."""
    stamps = np.asarray(time)
    if stamps.ndim != 1 or len(stamps) < 2 or stamps.dtype.kind not in "fiu":
        raise ValueError(
            "time: expected the stamps of at least 2 samples in s, shape (B,), got "
            f"shape {stamps.shape} of {stamps.dtype}"
        )
    return np.array(stamps, float)


def find_glitches(model: Model, arrays: Mapping[str, Array]) -> tuple[NDArray[np.bool_], str]:
    """Return a mask (B,) of rows with a glitch, and a description of the first glitch.

    In a glitch, a position or effort jumps, and jumps back within two rows, by much more than
    positions bend or efforts vary. Motions and torques do not.
    """
    time = arrays["time"]
    is_glitch, first_glitch = np.zeros(len(time), bool), (len(time), "")
    spans = time[6:] - time[:-6]
    inner = np.zeros(0, int)
    if len(spans):
        inner = 3 + np.flatnonzero(spans < _MAX_SPAN_RATIO * np.median(spans))
    for signal, names, typical_size in (
        ("q", model.position_names, _median_second_difference),
        ("tau", model.velocity_names, _effort_range),
    ):
        for name, x in zip(names, arrays[signal].T):
            rows = _isolated_rows(x, inner, max(_MIN_JUMP_RATIO * typical_size(x), MIN_TRAVEL))
            is_glitch[rows] = True
            for row in rows[:1]:
                description = f"{name}: {x[row]:.3g} after {x[row - 1]:.3g}"
                first_glitch = min(first_glitch, (row, description))
    return is_glitch, first_glitch[1]


def _median_second_difference(x: Array) -> float:
    """Return the median absolute second difference of numbers (B,), halved; infinite if 0."""
    differences = np.abs(x[1:-1] - 0.5 * (x[:-2] + x[2:]))
    return float(np.median(differences[differences > 0.0])) if differences.any() else math.inf


def _effort_range(x: Array) -> float:
    """Return the range of efforts (B,) without their tails; infinite if 0."""
    low, high = np.quantile(x, [_TAIL_FRACTION, 1.0 - _TAIL_FRACTION])
    return float(high - low) or math.inf


def _isolated_rows(x: Array, rows: NDArray[np.int_], min_jump: float) -> NDArray[np.int_]:
    """Return the rows of a signal (B,) that are isolated from the three before and after.

    Their distance to these is at least ``min_jump``, and exceeds the spread of these. The lowest
    and the highest of the neighbors are ignored, as one may be another glitch.
    """
    rows = rows[np.abs(x[rows] - 0.5 * (x[rows - 1] + x[rows + 1])) > 0.5 * min_jump]
    neighbors = np.sort(x[rows[:, None] + np.array([-3, -2, -1, 1, 2, 3])], axis=1)
    low, high = neighbors[:, 1], neighbors[:, -2]
    distance = np.maximum(low - x[rows], x[rows] - high)
    isolated: NDArray[np.int_] = rows[distance > np.maximum(high - low, min_jump)]
    return isolated


def make_contact_mask(
    model: Model, contacts: Sequence[str], in_contact: ArrayLike | None
) -> NDArray[np.bool_] | None:
    """Return a mask (B, contacts) of the frames in contact, or None if it is not given.

    Raise a ValueError for unknown frames, or other shapes or numbers.
    """
    if isinstance(contacts, str):
        raise ValueError(
            f"contacts: expected a sequence of names, got the string {short_repr(contacts)}"
        )
    for name in contacts:
        if name not in model.frame_names:
            raise ValueError(
                f"contacts: no frame named {short_repr(name)}; available: "
                + join_names(model.frame_names)
            )
    if in_contact is None:
        return None
    mask = np.asarray(in_contact)
    if mask.ndim != 2 or mask.shape[1] != len(contacts):
        raise ValueError(
            f"in_contact: expected shape (B, {len(contacts)}), for contacts "
            f"{tuple(contacts)}, got {mask.shape}"
        )
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("in_contact: expected True and False, or 0 and 1")
    return mask.astype(bool)


def require_equal_lengths(time: Array, arrays: Mapping[str, NDArray[Any] | None]) -> None:
    """Raise a ValueError unless all arrays have as many rows as time stamps."""
    for name, array in arrays.items():
        if array is not None and len(array) != len(time):
            raise ValueError(
                f"{name}: expected a row for each of the {len(time)} time stamps, got {len(array)}"
            )


def check_measurements(
    model: Model, arrays: Mapping[str, NDArray[Any] | None], row_numbers: NDArray[np.int_]
) -> None:
    """Raise a ValueError unless the numbers can be measurements.

    ``row_numbers`` (B,) are the numbers of the rows in the recording.
    """
    time = arrays["time"]
    assert time is not None
    finite = np.isfinite(time)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"time: expected finite numbers, got {time[row]} in time[{row_numbers[row]}]"
        )
    for name, axes in (
        ("q", ("nq",)),
        ("v", ("nv",)),
        ("a", ("nv",)),
        ("tau", ("nv",)),
        ("f_ext", ("njoints", 6)),
    ):
        array = arrays[name]
        for start in range(0, len(time), BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            if array is None or (np.abs(array[block]) < MAX_MEASUREMENT).all():
                continue
            row, *columns = map(int, np.argwhere(~(np.abs(array[block]) < MAX_MEASUREMENT))[0])
            place = (start + row, *columns)
            value, index = array[place], (int(row_numbers[start + row]), *columns)
            limit = f" below {MAX_MEASUREMENT:g}" if np.isfinite(value) else ""
            raise ValueError(
                f"{name}: expected finite numbers{limit}, got {value:g} in "
                f"{name}[{', '.join(map(str, index))}]{describe_coordinate(model, axes, index)} "
                f"at time {format_stamp(time[start + row])} s; remove these samples"
            )
    if arrays["q"] is not None:
        require_valid(model, "q", ("nq",), arrays["q"])
