# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Moments of a recording as users write them."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import TypeAlias

Moment: TypeAlias = "float | str | datetime.datetime"
"""Seconds since the epoch, an ISO date, or ``"+S"``: seconds after the start of a recording."""

_RELATIVE = re.compile(r"\s*\+\s*(?P<seconds>[0-9.eE+-]+)\s*(?:s\s*)?")


def interval(since: Moment | None, until: Moment | None, first: int, last: int) -> tuple[int, int]:
    """The half-open interval of a recording from ``first`` to ``last``, or a part of it [ns]."""
    begin = first if since is None else moment(since, first, "since")
    end = last if until is None else moment(until, first, "until")
    if since is not None and until is not None and begin >= end:
        raise ValueError(f"since, until: expected an interval, got {since!r} to {until!r}")
    return max(begin, first), min(end, last)


def moment(value: Moment, start: int, name: str = "time") -> int:
    """Convert a moment to nanoseconds since the epoch; the recording begins at ``start`` [ns].

    A ValueError names the argument if it is none.
    """
    nanoseconds = _nanoseconds(value, start)
    if nanoseconds is None:
        raise ValueError(
            f"{name}: expected seconds since the epoch, a date in ISO format such as "
            f"2025-03-01T12:00, or +S, seconds after the start; got {value!r:.80}"
        )
    return nanoseconds


def _nanoseconds(value: Moment, start: int) -> int | None:
    if isinstance(value, datetime.datetime):
        return _of_date(value)
    text = str(value).strip()
    relative = _RELATIVE.fullmatch(text) if isinstance(value, str) else None
    seconds = _seconds(relative["seconds"] if relative else text)
    if seconds is not None:
        return (start if relative else 0) + seconds
    try:
        return _of_date(datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text)))
    except ValueError:
        return None


def _seconds(text: str) -> int | None:
    """Nanoseconds of a decimal number of seconds, without rounding it to a float."""
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    return round(number * 10**9) if number.is_finite() and abs(number) < 9e9 else None


def _of_date(date: datetime.datetime) -> int:
    if date.tzinfo is None:
        date = date.replace(tzinfo=datetime.timezone.utc)
    passed = date - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    return (passed.days * 86400 + passed.seconds) * 10**9 + passed.microseconds * 1000
