# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Times of the rows of a table: in several units, as dates and durations, or in two columns.

Dates and durations are arrays of datetime64[ns], whatever the file contains; NaT is an empty cell.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array

TIMES = ("time", "__time", "timestamp")
STAMP = "stamp"  # ns, as in results; more accurate than a time in s
NO_TIME = -(2**63)  # ns, of an empty cell; NaT in numpy
MAX_STAMP = 2**62  # ns; larger stamps are in another unit

Dates: TypeAlias = NDArray[np.datetime64]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # by unit
_EPOCH = 1e9, 5e9  # s since 1970: the years 2001 to 2128
_PERIOD_RANGE = 1e-6, 10.0  # s; other sampling periods are in another unit
_MIN_ROWS = 10  # of a table whose stamps show their unit
_MAX_REPEATED_FRACTION = 0.9  # of the rows; with more than ten rows to a stamp, digits are missing
_FLOAT32_STEP = 128 * 10**9  # ns, between neighboring floats of 32 bits of the present
_SECONDS_NAME = re.compile(r"(?P<head>.*?)(secs?|seconds)")
_NANOSECONDS_ENDINGS = ("nanosec", "nanosecs", "nanoseconds", "nsec", "nsecs")
_DATE_TEXT = re.compile(
    r"\s*(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<hours>\d\d):(?P<minutes>\d\d)(?::(?P<seconds>\d\d)(?:[.,](?P<digits>\d+))?)?)?"
    r"\s*(?:Z|UTC|(?P<sign>[+-])(?P<zone_hours>\d\d):?(?P<zone_minutes>\d\d)?)?\s*"
)
_DURATION_TEXT = re.compile(
    r"\s*(?:(?P<days>-?\d+) days?,? *\+?)?"
    r"(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:[.,](?P<digits>\d+))?\s*"
)


class Clock(NamedTuple):
    """Columns with the time of a table, and their unit.

    Attributes
    ----------
    names : tuple of str
        One column; or two, with seconds and nanoseconds.
    unit : str
        Of numbers; dates have none.
    is_certain : bool
        False if the unit is assumed to be s, as neither name nor size show it.
    note : str
        Warning about a unit that only the size shows, or "".
    """

    names: tuple[str, ...]
    unit: str = "s"
    is_certain: bool = False
    note: str = ""

    def with_unit_of(self, cells: Sequence[NDArray[Any]]) -> Clock:
        """Return the clock with the unit that the cells of its columns show, if they do.

        Times since 1970 differ by a factor of 1000 between units, and robots have existed since
        2001.
        """
        if self.is_certain or len(self.names) > 1 or not len(cells[0]):
            return self
        if cells[0].dtype.kind == "M":
            return self._replace(is_certain=True)
        numbers = cells[0].astype(float)
        finite = numbers[np.isfinite(numbers)]
        typical = float(np.median(finite)) if len(finite) else 0.0
        for unit, nanoseconds in _NANOSECONDS.items():
            seconds = typical * 1e-9 * nanoseconds
            if _EPOCH[0] <= seconds <= _EPOCH[1]:
                date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
                note = (
                    f"the column {self.names[0]!r} contains stamps such as {typical:.0f}, which "
                    f"are read as {unit} since 1970: {date:%Y-%m-%d}"
                )
                return self._replace(unit=unit, is_certain=True, note="" if unit == "s" else note)
        return self

    def to_stamps(self, cells: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Return the times of rows [ns] from the cells of the columns; or NO_TIME."""
        if cells[0].dtype.kind == "M":
            return cells[0].view(np.int64)
        factor = _NANOSECONDS[self.unit]
        if cells[0].dtype == np.int64 and factor == 1 and len(cells) == 1:
            return limit_stamps(cells[0])
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.round(cells[0].astype(float) * factor)
            if len(cells) > 1:
                scaled = scaled + np.round(cells[1].astype(float))
        return limit_stamps(scaled)

    def to_seconds(self, cells: Sequence[NDArray[Any]]) -> Array:
        """Return the times of rows [s] from the cells of the columns; or NaN."""
        if cells[0].dtype.kind == "M":
            stamps = cells[0].view(np.int64)
            return np.where(stamps == NO_TIME, np.nan, 1e-9 * stamps)
        time = cells[0].astype(float, copy=False)
        if self.unit != "s":
            time = time / (10**9 / _NANOSECONDS[self.unit])
        return time if len(cells) == 1 else time + 1e-9 * cells[1]


def limit_stamps(stamps: NDArray[Any]) -> NDArray[np.int64]:
    """Return stamps [ns] as integers; those that cannot be times are NO_TIME."""
    is_usable = (stamps > -MAX_STAMP) & (stamps < MAX_STAMP)
    return np.where(is_usable, stamps, NO_TIME).astype(np.int64)


# --- columns


def named_clock(names: Iterable[str]) -> Clock | None:
    """Return the clock of a column such as "time" or "time_ms", or of two columns; or None."""
    available = dict.fromkeys(names)
    with_units = [f"{name}_{unit}" for name in TIMES for unit in _NANOSECONDS]
    for name in (*TIMES, *with_units, STAMP):
        if name in available:
            return column_clock(name)
    for name in available:
        match = _SECONDS_NAME.fullmatch(name)
        for ending in _NANOSECONDS_ENDINGS if match else ():
            if match and match["head"] + ending in available:
                return Clock((name, match["head"] + ending), is_certain=True)
    return None


def column_clock(name: str) -> Clock:
    """Return the clock of a column, with the unit in its name, such as "time_ms"."""
    if name == STAMP:
        return Clock((name,), "ns", is_certain=True)
    unit = name.rpartition("_")[2]
    return Clock((name,), unit, True) if unit in _NANOSECONDS else Clock((name,))


# --- text


def parse_times(texts: Iterable[Any]) -> Dates:
    """Return ISO dates and durations such as "0 days 00:01:02.5"; NaT for other texts."""
    stamps = np.array([_parse_time(str(text)) for text in texts], np.int64)
    return stamps.view("M8[ns]")


def is_time(text: str) -> bool:
    """Return True if a text is a date or a duration."""
    return _parse_time(text) != NO_TIME


def _parse_time(text: str) -> int:
    """Return an ISO date, in UTC unless it states its zone, or a duration, in ns; or NO_TIME."""
    if match := _DATE_TEXT.fullmatch(text):
        days = _days_since_epoch(match["date"])
        if days is None:
            return NO_TIME
        zone = 60 * int(match["zone_hours"] or 0) + int(match["zone_minutes"] or 0)
        zone = -zone if match["sign"] == "-" else zone
    elif match := _DURATION_TEXT.fullmatch(text):
        days, zone = int(match["days"] or 0), 0
    else:
        return NO_TIME
    minutes = 60 * (24 * days + int(match["hours"] or 0)) + int(match["minutes"] or 0) - zone
    seconds = 60 * minutes + int(match["seconds"] or 0)
    return seconds * 10**9 + int((match["digits"] or "")[:9].ljust(9, "0"))


@functools.lru_cache(64)
def _days_since_epoch(date: str) -> int | None:
    """Return the days from 1970 to a date, or None if there is no such day."""
    try:
        return datetime.date.fromisoformat(date).toordinal() - datetime.date(1970, 1, 1).toordinal()
    except ValueError:
        return None


# --- checks


class StampCheck:
    """Check of the stamps of a table, which are added block by block."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = self._repeated = 0
        self._first: list[int] = []  # different stamps [ns]
        self._last: int | None = None
        self._periods: list[float] = []  # s, median of each block
        self._is_whole = self._is_coarse = True  # multiples of 1 s and of the float32 step

    def add(self, stamps: NDArray[np.int64]) -> None:
        """Add stamps without NO_TIME [ns]."""
        if not len(stamps):
            return
        steps = np.diff(stamps, prepend=stamps[:1] if self._last is None else self._last)
        self._repeated += int(np.count_nonzero(steps == 0)) - (self._last is None)
        self._count += len(stamps)
        if len(self._first) < 3:
            new = [*self._first, *stamps[np.flatnonzero(steps)[:3]].tolist()]
            self._first = list(dict.fromkeys([*stamps[:1].tolist(), *new]))[:3]
        forward = steps[steps > 0]
        if len(forward):
            self._periods.append(1e-9 * float(np.median(forward)))
        self._is_whole = self._is_whole and not (stamps % 10**9).any()
        self._is_coarse = self._is_whole and not (stamps % _FLOAT32_STEP).any()
        self._last = int(stamps[-1])

    def error(self) -> str:
        """Return what is wrong with the stamps, and what would do; or ""."""
        if self._count < _MIN_ROWS:
            return ""
        column = " and ".join(map(repr, self._clock.names))
        example = f"{1e-9 * self._first[0]:.10g}"
        remedy = "write the time of each row"
        if self._is_coarse and self._first[0]:
            remedy = "floats of 32 bits resolve the epoch to 128 s only; write them with 64 bits"
        if self._repeated == self._count - 1:
            return (
                f"time: expected stamps that increase, got {example} s in all {self._count} rows "
                f"of the column {column}; {remedy}"
            )
        if self._repeated > _MAX_REPEATED_FRACTION * self._count:
            remedy = remedy if self._is_coarse else "write more digits"
            return (
                f"time: expected stamps that increase, got {self._repeated} of {self._count} rows "
                f"that repeat a stamp, such as {example} s, in the column {column}; {remedy}"
            )
        period = float(np.median(self._periods)) if self._periods else 0.0
        is_plausible = _PERIOD_RANGE[0] < period <= _PERIOD_RANGE[1] and not (
            self._is_whole and period >= 1.0
        )
        if self._clock.is_certain or not self._periods or is_plausible:
            return ""
        name = "time" if self._clock.names[0] not in TIMES else self._clock.names[0]
        stamps = ", ".join(f"{1e-9 * stamp:.6g}" for stamp in self._first)
        return (
            f"time: expected stamps in s, got {stamps}, {period:.6g} s apart, in the column "
            f"{column}; convert other units to s, or state the unit in the name of the column: "
            f"'{name}_ms', '{name}_us' or '{name}_ns', or '{name}_s' if they are in s"
        )
