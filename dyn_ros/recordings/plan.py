# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings in parts that are read independently, each with a warm-up before it.

Where parts begin depends on the times and sizes of spans alone, not on who reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from ..engine.model import moments
from ..engine.model.moments import Moment
from .formats.sources import Source
from .formats.spans import Span

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
        """Whether a span starts in the interval; each span is in the interval of one part."""
        return self.start <= span.start < self.stop


def plan(
    source: Source,
    staleness: float,
    since: Moment | None = None,
    until: Moment | None = None,
    size: float = SIZE,
    overlap: tuple[float, float] = (0.0, 0.0),
) -> list[Part]:
    """Divide a recording, or a half-open interval of it, into parts; none if it is empty.

    A span is never divided. The overlap is what a part needs before and after its interval [s];
    before it, at least the warm-up is read, after which all joints are known.
    """
    before, after = max(overlap[0], WARM_UP, 2.0 * staleness), overlap[1]
    cuts = _cuts(source.spans, *interval(source, since, until), size)
    return [
        _part(source, number, (start, stop), round(1e9 * before), round(1e9 * after))
        for number, (start, stop) in enumerate(itertools.pairwise(cuts))
    ]


def interval(source: Source, since: Moment | None, until: Moment | None) -> tuple[int, int]:
    """The half-open interval of log times of a recording, or a part of it [ns]."""
    spans = source.spans
    first = min((span.start for span in spans), default=0)
    last = 1 + max((span.stop for span in spans), default=first - 1)
    return moments.interval(since, until, first, last)


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
