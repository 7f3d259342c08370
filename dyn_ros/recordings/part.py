# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The states of a part of a recording, from its messages in order.

A part is read from its warm-up on. If one publisher reports all joints, its states are those that
it has if the recording is read as a whole. If several do, the message that completes a state
depends on all messages before: states near the beginning of a part, and those that follow while
the publishers take turns, may be completed by the message of another one.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from ..cdr.decode import Decoder, Messages
from ..states.joint_states import States
from .formats.sources import read_span
from .formats.spans import Span
from .plan import Part
from .recording import Recording
from .selection import Owners

Progress = Callable[[int, int], object]
"""Called with the number of bytes that were read, and that will be."""


def read_part(part: Part, progress: Progress | None = None) -> Recording:
    """Read the states of a part of a recording.

    An OSError if the file cannot be read, a ValueError if two topics report the same joint.
    """
    reader, collector = _Reader(part, progress), part.collector()
    sections: tuple[list[States], ...] = [], [], []
    count = 0
    for messages in in_order(part.spans, reader.read):
        bounds = itertools.pairwise((part.begin, part.start, part.stop, part.end))
        for section, states, (start, stop) in zip(range(3), sections, bounds):
            some = between(messages, start, stop)
            if len(some):
                count += len(some) if section == 1 else 0
                states.append(collector.push(some, reader.decoder, notes=section == 1))
    problems = tuple(
        problem if times == 1 else f"{problem} ({times} times)"
        for problem, times in reader.problems.items()
    )
    warm, _, after = (sum(len(block.stamp) for block in states) for states in sections)
    joined = States.concatenate([*itertools.chain(*sections)], collector.nq, collector.nv)
    if part.joints:
        positions, velocities = part.columns()
        q, v, tau = joined.q[:, positions], joined.v[:, velocities], joined.tau[:, velocities]
        joined = joined._replace(q=q, v=v, tau=tau)
    return Recording(
        part,
        joined,
        warm,
        after,
        count,
        collector.rejected,
        problems,
        collector.resets,
        tuple(collector.missing()),
        tuple(collector.unknown),
    )


class _Reader:
    """Reads the spans of a part, and counts the problems of those that it owns."""

    def __init__(self, part: Part, progress: Progress | None) -> None:
        self.decoder = Decoder()
        self._part, self._progress = part, progress
        self._owners = Owners(part)
        self.problems: Counter[str] = Counter()
        self._total, self._done = sum(span.size for span in part.spans), 0

    def read(self, span: Span) -> Messages:
        before = Counter(self.decoder.problems)
        messages = read_span(Path(self._part.path), span, self._part.read_topics, self.decoder)
        if self._part.owns(span):
            self._check_times(span, messages)
            self.problems += Counter(self.decoder.problems) - before
        if len(self._part.topics) > 1:
            self._owners.take(messages, self.decoder)
        self._done += span.size
        if self._progress:
            self._progress(self._done, self._total)
        return messages

    def _check_times(self, span: Span, messages: Messages) -> None:
        """Report messages outside the times that a file states: plans rely on these."""
        inside = len(between(messages, span.start, span.stop + 1))
        if inside < len(messages):
            self.decoder.report(
                "messages outside the times that the file states for their chunk, "
                "which may be lost",
                len(messages) - inside,
            )


# --- messages in order of log time


def between(messages: Messages, start: int, stop: int) -> Messages:
    """Messages of a half-open interval of log times."""
    rows = slice(bisect_left(messages.log_time, start), bisect_left(messages.log_time, stop))
    return messages.take(rows)


def in_order(spans: Iterable[Span], read: Callable[[Span], Messages]) -> Iterator[Messages]:
    """Yield messages in order of log time; among equal times, in order of their spans.

    Spans are sorted by start and may overlap.
    """
    waiting, spans = Messages.none(), list(spans)
    for number, span in enumerate(spans):
        messages = merged(waiting, read(span))
        limit = spans[number + 1].start if number + 1 < len(spans) else math.inf
        ready = bisect_left(messages.log_time, limit)
        yield messages.take(slice(0, ready))
        waiting = compact(messages.take(slice(ready, len(messages))))


def merged(first: Messages, second: Messages) -> Messages:
    """Join messages in order of log time; among equal times, ``first`` comes first."""
    if not len(first):
        return second
    name_list, topic, log_time, stamp, counts = (
        np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("name_list", "topic", "log_time", "stamp", "counts")
    )
    joined = Messages(
        name_list,
        topic,
        log_time,
        stamp,
        counts,
        np.concatenate([first.start, second.start + len(first.numbers)]),
        np.concatenate([first.numbers, second.numbers]),
        first.failures + second.failures,
    )
    if not len(second) or second.log_time[0] >= first.log_time[-1]:
        return joined
    return joined.take(np.argsort(joined.log_time, kind="stable"))


def compact(messages: Messages) -> Messages:
    """Copy messages, without numbers of others."""
    sizes = np.where(messages.name_list < 0, 13, messages.counts.sum(axis=1, dtype=np.int64))
    start = np.cumsum(sizes) - sizes
    chosen = np.repeat(messages.start - start, sizes) + np.arange(sizes.sum())
    return Messages(
        messages.name_list,
        messages.topic,
        messages.log_time,
        messages.stamp,
        messages.counts,
        start,
        messages.numbers[chosen],
    )
