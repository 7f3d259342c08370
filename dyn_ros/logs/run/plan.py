# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings in parts that are read independently, each with a warm-up before it.

Where parts begin depends on the times and sizes of spans alone, not on who reads them.
"""
from __future__ import annotations

import datetime
import decimal
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ..formats.sources import Source
from ..formats.spans import Span

Moment: TypeAlias = "float | str | datetime.datetime"
"""Seconds since the epoch, an ISO date, or ``"+S"``: seconds after the start of a recording."""

SIZE = 32e6
"""Size of a part [bytes, uncompressed]: read and computed within seconds, in little memory."""

WARM_UP = 1.0
"""By how much a part starts before its interval [s], or twice the staleness if that is more."""


class Part(NamedTuple):
    """A part of a recording: the states whose last message was recorded in an interval.

    ``start`` and ``stop`` bound it, half-open; ``begin`` and ``end`` what is read, which is more
    [ns, log time]. The number is its place among the parts, from 0; the spans are those that are
    read; the size is that of those that start in the interval [bytes, uncompressed].
    """

    path: str
    number: int
    start: int
    stop: int
    spans: tuple[Span, ...]
    size: int
    begin: int
    end: int

    def owns(self, span: Span) -> bool:
        """Whether a span starts in the interval; each span is in that of one part."""
        return self.start <= span.start < self.stop


def plan(source: Source, staleness: float, since: Moment | None = None,
         until: Moment | None = None, size: float = SIZE,
         overlap: tuple[float, float] = (0.0, 0.0)) -> list[Part]:
    """Divide a recording, or a half-open interval of it, into parts; none if it is empty.

    A span is never divided. The overlap is what a part needs before and after its interval [s];
    before it, at least the warm-up is read, after which all joints are known.
    """
    before, after = max(overlap[0], WARM_UP, 2.0 * staleness), overlap[1]
    cuts = _cuts(source.spans, *interval(source, since, until), size)
    return [_part(source, number, (start, stop), round(1e9 * before), round(1e9 * after))
            for number, (start, stop) in enumerate(itertools.pairwise(cuts))]


def interval(source: Source, since: Moment | None, until: Moment | None) -> tuple[int, int]:
    """The half-open interval of log times of a recording, or a part of it [ns]."""
    spans = source.spans
    first = min((span.start for span in spans), default=0)
    last = 1 + max((span.stop for span in spans), default=first - 1)
    begin = first if since is None else moment(since, first, "since")
    end = last if until is None else moment(until, first, "until")
    if since is not None and until is not None and begin >= end:
        raise ValueError(f"since, until: expected an interval, got {since!r} to {until!r}")
    return max(begin, first), min(end, last)


def _cuts(spans: Sequence[Span], first: int, last: int, size: float) -> list[int]:
    if first >= last:
        return []
    cuts, filled = [first], 0.0
    for span in spans:
        if span.stop < first or span.start >= last:
            continue
        if filled >= size and span.start > cuts[-1]:
            cuts.append(span.start)
            filled = 0.0
        filled += span.size
    return [*cuts, last]


def _part(source: Source, number: int, bounds: tuple[int, int], before: int, after: int) -> Part:
    start, stop = bounds
    begin, end = start - before, stop + after
    spans = tuple(span for span in source.spans if span.stop >= begin and span.start < end)
    size = sum(span.size for span in spans if start <= span.start < stop)
    return Part(str(source.path), number, start, stop, spans, size, begin, end)


# --- moments

_RELATIVE = re.compile(r"\s*\+\s*(?P<seconds>[0-9.eE+-]+)\s*(?:s\s*)?")


def moment(value: Moment, start: int, name: str = "time") -> int:
    """Convert a moment to nanoseconds since the epoch; ``start`` is that of the recording [ns].

    A ValueError names the argument if it is none.
    """
    nanoseconds = _nanoseconds(value, start)
    if nanoseconds is None:
        raise ValueError(f"{name}: expected seconds since the epoch, a date in ISO format such as "
                         f"2025-03-01T12:00, or +S, seconds after the start; got {value!r:.80}")
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
    return round(number * 10 ** 9) if number.is_finite() and abs(number) < 9e9 else None


def _of_date(date: datetime.datetime) -> int:
    if date.tzinfo is None:
        date = date.replace(tzinfo=datetime.timezone.utc)
    passed = date - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
    return (passed.days * 86400 + passed.seconds) * 10 ** 9 + passed.microseconds * 1000
