# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rows of a table that can be used: those in an interval, without corrupt ones at the ends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array
from ...engine.model.drives import MAX_MEASUREMENT
from ...engine.model.moments import Moment, interval

GAP = 3.5  # sampling periods without a sample that end a segment
LAST_STAMP = 2**62  # ns: a later one is in another unit
_FARTHEST = 1e9  # s: no recording is twice that long
_END = 0.05  # of the rows, at each end, among which corrupt ones are left out


def readable(time: float) -> str:
    """A time stamp for messages, which are not longer than a line."""
    return f"{time:.6f}" if abs(time) < 1e12 else f"{time:.6g}"


def within(
    since: Moment | None, until: Moment | None, time: Array, *columns: Array
) -> tuple[Array, ...]:
    """The rows of columns in a half-open interval, and their times [s]."""
    rows = rows_within(since, until, time)
    if not len(time):
        raise ValueError("the table has no rows")
    if not rows.any():
        raise ValueError(
            f"since, until: no sample is in this interval, got {since!r} to {until!r};"
            f" the stamps are {readable(time.min())} to {readable(time.max())} s"
        )
    return *(column[rows] for column in columns), time[rows]


def rows_within(since: Moment | None, until: Moment | None, time: Array) -> NDArray[np.bool_]:
    """Which rows are in a half-open interval."""
    if (since is None and until is None) or not len(time) or not np.isfinite(time[0]):
        return np.ones(len(time), bool)
    first, passed = round(1e9 * float(time[0])), np.round(1e9 * (time - time[0]))
    begin, end = interval(since, until, first, first + 1 + round(float(np.nanmax(passed))))
    rows: NDArray[np.bool_] = (passed >= begin - first) & (passed < end - first)
    return rows


def measured_rows(time: Array, raw: Mapping[str, Array | None]) -> slice:
    """The rows after the last corrupt one at the beginning, and before the first one at the end.

    A recording that was started or cut in the middle of a row begins or ends with numbers that
    cannot be. `arrays.check` of the identification names those elsewhere.
    """
    count, end = len(time), int(_END * len(time))
    if not np.isfinite(time).any() or any(
        array is not None and len(array) != count for array in raw.values()
    ):
        return slice(0, count)
    corrupt = ~(np.abs(time - np.median(time[np.isfinite(time)])) < _FARTHEST)
    for rows in (slice(0, end), slice(count - end, count)):
        for array in raw.values():
            if array is not None:
                outside = ~(np.abs(array[rows]) < MAX_MEASUREMENT)
                corrupt[rows] |= outside.any(axis=tuple(range(1, outside.ndim)))
    if corrupt[end : count - end].any():
        return slice(0, count)
    first, last = np.flatnonzero(corrupt[:end]), np.flatnonzero(corrupt[count - end :])
    return slice(
        int(first[-1]) + 1 if len(first) else 0, count - end + int(last[0]) if len(last) else count
    )
