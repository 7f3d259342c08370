# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Selection of the rows of a table: complete, in an interval, without corrupt ones at the ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array
from ...engine.model.drives import MAX_MEASUREMENT
from ...engine.model.moments import Moment, recording_interval

MAX_GAP_PERIODS = 3.5  # sampling periods; a longer gap ends a segment
_MAX_TIME_DISTANCE = 1e9  # s, from the median of the stamps
_END_FRACTION = 0.05  # rows at each end; corrupt rows elsewhere are errors


def format_stamp(time: float) -> str:
    """Return a time stamp [s] for messages, at most a line."""
    return f"{time:.6f}" if abs(time) < 1e12 else f"{time:.6g}"


def find_complete_rows(
    columns: Iterable[tuple[Sequence[str | None], Array]],
    count: int,
    name: str = "the table",
    first_row: int = 0,
) -> tuple[NDArray[np.bool_] | None, str]:
    """Return a mask of the rows without NaN in any column, and a warning on the other rows.

    ``columns`` are arrays (B, n) with the names of their columns. The mask is None if all rows are
    complete. Raise a ValueError if none is. ``first_row`` is the number of the first row.
    """
    is_complete = np.ones(count, bool)
    blank_counts: dict[str, int] = {}
    for names, array in columns:
        if not np.isnan(array.sum()):
            continue
        for column_name, column in zip(map(str, names), array.T):
            is_blank = np.isnan(column)
            if is_blank.any():
                is_complete &= ~is_blank
                blank_counts[column_name] = int(np.count_nonzero(is_blank))
    if not blank_counts:
        return None, ""
    blank_names = sorted(blank_counts, key=lambda name: -blank_counts[name])
    if not is_complete.any():
        counts = ", ".join(f"{name!r} in {blank_counts[name]}" for name in blank_names[:4])
        counts += " ..." if len(blank_names) > 4 else ""
        raise ValueError(
            f"{name} has no row with numbers in all columns of the robot; of {count} rows, "
            f"these are blank: {counts}; interpolate "
            "columns with other stamps, or lock joints that were not measured with lock="
        )
    rows = first_row + np.flatnonzero(~is_complete)
    is_contiguous = len(rows) == rows[-1] - rows[0] + 1
    place = f"{rows[0]} to {rows[-1]}" if is_contiguous else f"the first is {rows[0]}"
    worst = f" ({blank_counts[blank_names[0]]})" if blank_counts[blank_names[0]] < len(rows) else ""
    return is_complete, (
        f"{describe_blank_rows(blank_names, worst).format(f'{len(rows)} of {count}')}: {place}, "
        "counted from 0"
    )


def describe_blank_rows(names: Sequence[str], first_count: str = "") -> str:
    """Return the warning on rows that lack something, with {} in place of their number."""
    more = f" and {len(names) - 1} more columns" if len(names) > 1 else ""
    name = escape_braces(repr(names[0]))
    return f"left out {{}} rows that are blank in the column {name}{first_count}{more}"


def escape_braces(text: str) -> str:
    """Return a text that ``format`` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def select_interval(
    since: Moment | None, until: Moment | None, time: Array, *columns: NDArray[Any]
) -> tuple[NDArray[Any], ...]:
    """Return the rows of columns in a half-open interval, and their times [s]; views if all are."""
    rows = interval_mask(since, until, time)
    if not len(time):
        raise ValueError("the table has no rows")
    if not rows.any():
        raise ValueError(
            f"since, until: no sample is in this interval, got {since!r} to {until!r};"
            f" the stamps are {format_stamp(time.min())} to {format_stamp(time.max())} s"
        )
    if rows.all():
        return *columns, time
    return *(column[rows] for column in columns), time[rows]


def interval_mask(since: Moment | None, until: Moment | None, time: Array) -> NDArray[np.bool_]:
    """Return a mask of the rows in a half-open interval."""
    if (since is None and until is None) or not len(time) or not np.isfinite(time[0]):
        return np.ones(len(time), bool)
    first, elapsed = round(1e9 * float(time[0])), np.round(1e9 * (time - time[0]))
    begin, end = recording_interval(
        since, until, first, first + 1 + round(float(np.nanmax(elapsed)))
    )
    rows: NDArray[np.bool_] = (elapsed >= begin - first) & (elapsed < end - first)
    return rows


def uncorrupted_rows(time: Array, raw: Mapping[str, Array | None]) -> slice:
    """Return the rows after the last corrupt one at the beginning, and before the first at the end.

    A recording that was started or cut in the middle of a row begins or ends with absurd numbers.
    Identification reports those elsewhere, see `measurements.check_measurements`. NaN is unknown,
    not corrupt.
    """
    count, end_count = len(time), int(_END_FRACTION * len(time))
    if not np.isfinite(time).any() or any(
        array is not None and len(array) != count for array in raw.values()
    ):
        return slice(0, count)
    is_corrupt = np.abs(time - np.median(time[np.isfinite(time)])) >= _MAX_TIME_DISTANCE
    for rows in (slice(0, end_count), slice(count - end_count, count)):
        for array in raw.values():
            if array is not None:
                is_absurd = np.abs(array[rows]) >= MAX_MEASUREMENT
                is_corrupt[rows] |= is_absurd.any(axis=tuple(range(1, is_absurd.ndim)))
    if is_corrupt[end_count : count - end_count].any():
        return slice(0, count)
    leading = np.flatnonzero(is_corrupt[:end_count])
    trailing = np.flatnonzero(is_corrupt[count - end_count :])
    return slice(
        int(leading[-1]) + 1 if len(leading) else 0,
        count - end_count + int(trailing[0]) if len(trailing) else count,
    )
