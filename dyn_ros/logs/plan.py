# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings in parts that are processed independently, and the messages of a part in order."""
from __future__ import annotations

import datetime
import decimal
import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from .decode import Messages
from .source import Span

Moment: TypeAlias = "float | str | datetime.datetime"
"""Seconds since the epoch, an ISO date, or ``"+S"``: seconds after the start of a recording."""

SIZE = 32e6
"""Size of a part [bytes, uncompressed]: read and computed within seconds, in little memory."""

OVERLAP = 1.0
"""By how much a part starts before its interval [s]."""


class Planned(Protocol):
    """What a plan reads of a `Source`."""

    @property
    def path(self) -> Path: ...
    @property
    def spans(self) -> Sequence[Span]: ...


class Task(NamedTuple):
    """A part of a recording: the states whose last message was recorded in an interval.

    Attributes
    ----------
    path : str
        Of the recording.
    number : int
        Its place among the parts, from 0.
    start, stop : int
        Half-open interval of log times [ns].
    spans : tuple of Span
        Those that contain messages of the interval, and of the time before and after it that is
        read as well.
    size : int
        Uncompressed size of those that start in the interval [bytes].
    begin, end : int
        Half-open interval of the log times that are read [ns].
    memory : bytes
        The collector before the first message that is read; empty: a new one.
    """

    path: str
    number: int
    start: int
    stop: int
    spans: tuple[Span, ...]
    size: int
    begin: int
    end: int
    memory: bytes = b""

    def owns(self, span: Span) -> bool:
        """Whether a span starts in the interval; each span is in that of one part."""
        return self.start <= span.start < self.stop


def plan(source: Planned, since: Moment | None = None, until: Moment | None = None,
         size: float = SIZE, overlap: float | tuple[float, float] = OVERLAP) -> list[Task]:
    """Divide a recording into parts; only the times and sizes of its spans matter.

    Parameters
    ----------
    source : Source
    since, until : float, str or datetime, optional
        Half-open interval of log times, see `Moment`.
    size : float
        Of a part [bytes, uncompressed]; a span is never divided.
    overlap : float or (float, float)
        By how much a part starts before its interval, and ends after it [s]; one number: before.

    Returns
    -------
    list of Task
        In order of time; none if there is nothing in the interval.

    Raises
    ------
    ValueError
        A moment that is not understood, or since is not before until.
    """
    before, after = overlap if isinstance(overlap, tuple) else (overlap, 0.0)
    first, last = interval(source, since, until)
    cuts = _cuts(source.spans, first, last, size)
    return [_task(source, number, (start, stop), _ns(before), _ns(after))
            for number, (start, stop) in enumerate(itertools.pairwise(cuts))]


def interval(source: Planned, since: Moment | None, until: Moment | None) -> tuple[int, int]:
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
    """Where parts begin, and where the last one ends."""
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


def _task(source: Planned, number: int, bounds: tuple[int, int], before: int, after: int) -> Task:
    start, stop = bounds
    begin, end = start - before, stop + after
    spans = tuple(span for span in source.spans if span.stop >= begin and span.start < end)
    task = Task(str(source.path), number, start, stop, spans, 0, begin, end)
    return task._replace(size=sum(span.size for span in spans if task.owns(span)))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


# --- moments

_RELATIVE = re.compile(r"\s*\+\s*(?P<seconds>[0-9.eE+-]+)\s*(?:s\s*)?")


def moment(value: Moment, start: int, name: str = "time") -> int:
    """Convert a moment to nanoseconds since the epoch.

    Parameters
    ----------
    value : float, str or datetime
        Seconds since the epoch; a date and time in ISO format, in UTC unless it states its zone;
        or ``"+S"``, seconds after the start.
    start : int
        Of the recording [ns].
    name : str
        Of the argument, for the message of an error.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        It is none of these.
    """
    found = _nanoseconds(value, start)
    if found is None:
        raise ValueError(f"{name}: expected seconds since the epoch, a date in ISO format such as "
                         f"2025-03-01T12:00, or +S, seconds after the start; got {value!r:.80}")
    return found


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


# --- messages in order

def in_order(spans: Iterable[Span], read: Callable[[Span], Messages]) -> Iterator[Messages]:
    """Yield messages in order of log time, those of equal times in order of their spans.

    Parameters
    ----------
    spans : iterable of Span
        Sorted by start; they may overlap.
    read : callable
        Returns the messages of a span, in order of log time.

    Yields
    ------
    Messages
    """
    waiting, spans = Messages.none(), list(spans)
    for number, span in enumerate(spans):
        messages = merged(waiting, read(span))
        limit = spans[number + 1].start if number + 1 < len(spans) else math.inf
        ready = bisect_left(messages.log_time, limit)
        yield messages.take(slice(0, ready))
        waiting = compact(messages.take(slice(ready, len(messages))))


def merged(first: Messages, second: Messages) -> Messages:
    """Join messages in order of log time; among equal times, those of ``first`` come first."""
    if not len(first):
        return second
    layout, topic, log_time, stamp, counts = (
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("layout", "topic", "log_time", "stamp", "counts"))
    joined = Messages(layout, topic, log_time, stamp, counts,
                      np.concatenate([first.start, second.start + len(first.numbers)]),
                      np.concatenate([first.numbers, second.numbers]), first.bad + second.bad)
    if not len(second) or second.log_time[0] >= first.log_time[-1]:
        return joined
    return joined.take(np.argsort(joined.log_time, kind="stable"))


def compact(messages: Messages) -> Messages:
    """Copy messages, without numbers of others."""
    sizes = np.where(messages.layout < 0, 13, messages.counts.sum(axis=1, dtype=np.int64))
    start = np.cumsum(sizes) - sizes
    chosen = np.repeat(messages.start - start, sizes) + np.arange(sizes.sum())
    return Messages(messages.layout, messages.topic, messages.log_time, messages.stamp,
                    messages.counts, start, messages.numbers[chosen])
