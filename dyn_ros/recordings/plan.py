# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings in parts that are read independently, each with a warm-up before it.

Where parts begin depends on the times and sizes of spans alone, not on who reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..engine.model import moments
from ..engine.model.model import Model
from ..engine.model.moments import Moment
from ..states.blocks import BlockCollector
from ..states.joint_states import STALENESS, joint_rows
from .formats.spans import Source, Span

Base: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Constant pose (x y z qx qy qz qw) and twist of a base that moves."""

SIZE = 32e6
"""Size of a part [bytes, uncompressed]: read and computed within seconds, in little memory."""

WARM_UP = 1.0
"""By how much a part starts before its interval [s], or twice the staleness if that is more."""


@dataclass(frozen=True)
class Part:
    """A part of a recording: the states whose last message was recorded in an interval.

    It can be sent to other processes.

    Attributes
    ----------
    path, name : str
        Of the recording.
    model : Model or None
    topics : tuple of str
        Of joint states.
    odometry : tuple of str
        One topic or none.
    names : tuple of str
        The joints that are read; without a model, the order of the columns.
    joints : tuple of str
        Those that a `Recording` contains; empty: all.
    staleness : float
        [s]
    base : tuple of two sequences or None
        Instead of odometry.
    exclusive : bool
        Whether no two topics may report the same joint.
    number : int
        Its place among the parts, from 0.
    start, stop : int
        The interval, half-open [ns, log time].
    begin, end : int
        The interval that is read, which is longer [ns, log time].
    spans : tuple of Span
        Those that are read.
    """

    path: str
    name: str = ""
    model: Model | None = None
    topics: tuple[str, ...] = ()
    odometry: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    staleness: float = STALENESS
    base: Base | None = None
    exclusive: bool = True
    number: int = 0
    start: int = 0
    stop: int = 0
    begin: int = 0
    end: int = 0
    spans: tuple[Span, ...] = ()

    @property
    def size(self) -> int:
        """Size of the spans that start in the interval [bytes, uncompressed]."""
        return sum(span.size for span in self.spans if self.owns(span))

    def owns(self, span: Span) -> bool:
        """Whether a span starts in the interval; each span is in the interval of one part."""
        return self.start <= span.start < self.stop

    def collector(self) -> BlockCollector:
        if self.model is None:
            return BlockCollector.of_names(self.names, self.staleness)
        return BlockCollector(self.model, self.staleness, self.base)

    @property
    def read_topics(self) -> tuple[str, ...]:
        return (*self.topics, *self.odometry)

    def columns(self) -> tuple[list[int], list[int]]:
        """Return the columns of q and of v that belong to ``joints``."""
        model = self.model
        if model is None or not self.joints:
            return list(range(len(self.position_names))), list(range(len(self.velocity_names)))
        return joint_rows(model, self.joints)

    @property
    def position_names(self) -> tuple[str, ...]:
        return self.names if self.model is None else self.model.position_names

    @property
    def velocity_names(self) -> tuple[str, ...]:
        return self.names if self.model is None else self.model.velocity_names


def whole(source: Source, since: Moment | None = None, until: Moment | None = None) -> Part:
    """A recording, or a half-open interval of it, as one part without what surrounds it."""
    spans = source.spans
    first = min((span.start for span in spans), default=0)
    last = 1 + max((span.stop for span in spans), default=first - 1)
    start, stop = moments.interval(since, until, first, last)
    return Part(str(source.path), source.name, start=start, stop=stop, spans=spans)


def plan(part: Part, size: float = SIZE, overlap: tuple[float, float] = (0.0, 0.0)) -> list[Part]:
    """Divide a part; into none if it is empty.

    A span is never divided. The overlap is what a part needs before and after its interval [s];
    before it, at least the warm-up is read, after which all joints are known.
    """
    before = round(1e9 * max(overlap[0], WARM_UP, 2.0 * part.staleness))
    after = round(1e9 * overlap[1])
    parts = []
    for number, (start, stop) in enumerate(itertools.pairwise(_cuts(part, size))):
        begin, end = start - before, stop + after
        spans = tuple(span for span in part.spans if span.stop >= begin and span.start < end)
        parts.append(
            replace(part, number=number, start=start, stop=stop, begin=begin, end=end, spans=spans)
        )
    return parts


def _cuts(part: Part, size: float) -> list[int]:
    if part.start >= part.stop:
        return []
    cuts, filled = [part.start], 0.0
    for span in part.spans:
        if span.stop < part.start or span.start >= part.stop:
            continue
        if filled >= size and span.start > cuts[-1]:
            cuts.append(span.start)
            filled = 0.0
        filled += span.size
    return [*cuts, part.stop]
