# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Moments of a recording: seconds, dates, and seconds after its start."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import TypeAlias

from ..kernel.names import short_repr

Moment: TypeAlias = "float | str | datetime.datetime"
"""Seconds since the epoch, an ISO date, or ``"+S"``, S seconds after the start of a recording."""

_RELATIVE_PATTERN = re.compile(r"\s*\+\s*(?P<seconds>[0-9.eE+-]+)\s*(?:s\s*)?")


def recording_interval(
    since: Moment | None, until: Moment | None, first: int, last: int
) -> tuple[int, int]:
    """Return the half-open interval of a recording, or from ``since`` to ``until`` [ns].

    ``first`` and ``last`` are the interval of the recording.
    """
    begin = first if since is None else to_nanoseconds(since, first, "since")
    end = last if until is None else to_nanoseconds(until, first, "until")
    if since is not None and until is not None and begin >= end:
        raise ValueError(
            f"since, until: expected an interval, got {short_repr(since)} to {short_repr(until)}"
        )
    return max(begin, first), min(end, last)


def to_nanoseconds(value: Moment, start: int, name: str = "time") -> int:
    """Convert a moment to nanoseconds since the epoch; the recording begins at ``start`` [ns].

    Raise a ValueError with the argument's name if it is not a moment.
    """
    nanoseconds = _nanoseconds(value, start)
    if nanoseconds is None:
        raise ValueError(
            f"{name}: expected seconds since the epoch, a date in ISO format such as "
            f"2025-03-01T12:00, or +S, seconds after the start; got {short_repr(value)}"
        )
    return nanoseconds


def _nanoseconds(value: Moment, start: int) -> int | None:
    """Convert a moment to nanoseconds since the epoch; None if it is not one."""
    if isinstance(value, datetime.datetime):
        return _nanoseconds_of_date(value)
    text = str(value).strip()
    relative = _RELATIVE_PATTERN.fullmatch(text) if isinstance(value, str) else None
    nanoseconds = _nanoseconds_of_seconds(relative["seconds"] if relative else text)
    if nanoseconds is not None:
        return (start if relative else 0) + nanoseconds
    try:
        return _nanoseconds_of_date(
            datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        )
    except ValueError:
        return None


def _nanoseconds_of_seconds(text: str) -> int | None:
    """Convert a decimal number of seconds to nanoseconds, without rounding it to a float."""
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    return round(number * 10**9) if number.is_finite() and abs(number) < 9e9 else None


def _nanoseconds_of_date(date: datetime.datetime) -> int:
    """Convert a date to nanoseconds since the epoch; it is in UTC without a time zone."""
    if date.tzinfo is None:
        date = date.replace(tzinfo=datetime.timezone.utc)
    since_epoch = date - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    return (
        since_epoch.days * 86400 + since_epoch.seconds
    ) * 10**9 + since_epoch.microseconds * 1000
