# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The arrays of a recording, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array, ArrayLike
from ...engine.kernel.validation import as_array, coordinate, require_model, require_valid
from ...engine.model.drives import MAX_MEASUREMENT
from ...engine.model.model import Model
from ...recordings.tables.rows import readable
from .numerics import BLOCK_SIZE, MIN_TRAVEL

_JUMP = 10.0  # times the typical bend of positions, or the range of efforts
_GAP = 1.5  # times the typical time of seven rows: some are missing
_RARE = 1e-3  # of the efforts on either side, which this range lacks


def copied_rows(model: Model, name: str, axes: tuple[str | int, ...], value: ArrayLike) -> Array:
    """A copy of an array with a row for each sample, checked."""
    array, batched = as_array(require_model(model), name, axes, value)
    if not batched:
        shape = ", ".join(
            str(getattr(model, axis) if isinstance(axis, str) else axis) for axis in axes
        )
        raise ValueError(
            f"{name}: expected shape (B, {shape}), a row for each sample, got {array.shape}"
        )
    return array.copy()


def stamps_of(time: ArrayLike) -> Array:
    stamps = np.asarray(time)
    if stamps.ndim != 1 or len(stamps) < 2 or stamps.dtype.kind not in "fiu":
        raise ValueError(
            "time: expected the stamps of at least 2 samples in s, shape (B,), got "
            f"shape {stamps.shape} of {stamps.dtype}"
        )
    return np.array(stamps, float)


def glitches(model: Model, arrays: Mapping[str, Array]) -> tuple[NDArray[np.bool_], str]:
    """Which rows have a position or effort that jumps, and jumps back within two rows; the first.

    As motions and torques do not: by much more than positions bend, or efforts vary.
    """
    time = arrays["time"]
    found, first, spans = np.zeros(len(time), bool), (len(time), ""), time[6:] - time[:-6]
    inner = 3 + np.flatnonzero(spans < _GAP * np.median(spans)) if len(spans) else np.zeros(0, int)
    for signal, names, typical in (
        ("q", model.position_names, _bend),
        ("tau", model.velocity_names, _range),
    ):
        for name, x in zip(names, arrays[signal].T):
            rows = _apart(x, inner, max(_JUMP * typical(x), MIN_TRAVEL))
            found[rows] = True
            for row in rows[:1]:
                first = min(first, (row, f"{name}: {x[row]:.3g} after {x[row - 1]:.3g}"))
    return found, first[1]


def _bend(x: Array) -> float:
    """How far numbers (B,) typically are from the middle of those before and after."""
    bends = np.abs(x[1:-1] - 0.5 * (x[:-2] + x[2:]))
    return float(np.median(bends[bends > 0.0])) if bends.any() else math.inf


def _range(x: Array) -> float:
    low, high = np.quantile(x, [_RARE, 1.0 - _RARE])
    return float(high - low) or math.inf


def _apart(x: Array, rows: NDArray[np.int_], least: float) -> NDArray[np.int_]:
    """Rows of a signal (B,) that are farther from the three before and after than these are apart.

    By ``least``, too. One of them on either side does not count, as it may be another glitch.
    """
    rows = rows[np.abs(x[rows] - 0.5 * (x[rows - 1] + x[rows + 1])) > 0.5 * least]
    near = np.sort(x[rows[:, None] + np.array([-3, -2, -1, 1, 2, 3])], axis=1)
    low, high = near[:, 1], near[:, -2]
    far = np.maximum(low - x[rows], x[rows] - high) > np.maximum(high - low, least)
    result: NDArray[np.int_] = rows[far]
    return result


def known_contacts(
    model: Model, contacts: Sequence[str], in_contact: ArrayLike | None
) -> NDArray[np.bool_] | None:
    """Whether each of the frames is in contact in each sample, checked."""
    if isinstance(contacts, str):
        raise ValueError(f"contacts: expected a sequence of names, got the string {contacts!r}")
    for name in contacts:
        if name not in model.frame_names:
            raise ValueError(
                f"contacts: no frame named {name!r}; available: {', '.join(model.frame_names)}"
            )
    if in_contact is None:
        return None
    state = np.asarray(in_contact)
    if state.ndim != 2 or state.shape[1] != len(contacts):
        raise ValueError(
            f"in_contact: expected shape (B, {len(contacts)}), for contacts "
            f"{tuple(contacts)}, got {state.shape}"
        )
    if not np.isin(state, (0, 1)).all():
        raise ValueError("in_contact: expected True and False, or 0 and 1")
    return state.astype(bool)


def check(
    model: Model,
    time: Array,
    raw: dict[str, Array | None],
    in_contact: NDArray[np.bool_] | None,
    rows: slice,
) -> None:
    """Raise a ValueError unless the numbers of the rows are measurements.

    All arrays have as many rows as time stamps.
    """
    finite = np.isfinite(time)
    if not finite[rows].all():
        index = rows.start + int(np.argmin(finite[rows]))
        raise ValueError(f"time: expected finite numbers, got {time[index]} in time[{index}]")
    for name, array in (*raw.items(), ("in_contact", in_contact)):
        if array is not None and len(array) != len(time):
            raise ValueError(
                f"{name}: expected a row for each of the {len(time)} time stamps, got {len(array)}"
            )
    for name, array in raw.items():
        axes = {"q": ("nq",), "f_ext": ("njoints", 6)}.get(name, ("nv",))
        for start in range(rows.start, rows.stop, BLOCK_SIZE):
            some = slice(start, min(start + BLOCK_SIZE, rows.stop))
            if array is None or (np.abs(array[some]) < MAX_MEASUREMENT).all():
                continue
            row, *rest = map(int, np.argwhere(~(np.abs(array[some]) < MAX_MEASUREMENT))[0])
            index = (start + row, *rest)
            limit = f" below {MAX_MEASUREMENT:g}" if np.isfinite(array[index]) else ""
            raise ValueError(
                f"{name}: expected finite numbers{limit}, got {array[index]:g} in "
                f"{name}[{', '.join(map(str, index))}]{coordinate(model, axes, index)} at time "
                f"{readable(time[start + row])} s; remove these samples"
            )
    if (q := raw["q"]) is not None:
        require_valid(model, "q", ("nq",), q[rows])
