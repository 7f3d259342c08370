# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States of a part of a recording, from its messages in order.

A part is read from its warm-up on. If one publisher reports all joints, its states are the same as
if the recording is read as a whole. If several do, the message that completes a state
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
from .formats import is_table
from .formats.sources import read_span
from .formats.spans import Span
from .plan import Part
from .recording import Recording
from .selection import JointTopics

ByteProgress = Callable[[int, int], object]
"""Function that gets the number of bytes read so far, and in total."""


def read_part(part: Part, progress: ByteProgress | None = None) -> Recording:
    """Read the states of a part of a recording.

    Raise an OSError if the file cannot be read, a ValueError if two topics report the same joint.
    """
    reader, collector = _SpanReader(part, progress), part.make_collector()
    sections: tuple[list[States], ...] = [], [], []  # states before, in and after the interval
    message_count = 0
    is_one_topic = is_table(Path(part.path)) and len(part.read_topics) == 1
    for messages in read_in_log_time_order(part.spans, reader.read):
        bounds = itertools.pairwise((part.read_start, part.start, part.stop, part.read_stop))
        for section, states, (start, stop) in zip(range(3), sections, bounds):
            section_messages = messages_between(messages, start, stop)
            if len(section_messages):
                message_count += len(section_messages) if section == 1 else 0
                pushed = collector.push(section_messages, reader.decoder, notes=section == 1)
                if is_one_topic and pushed.behind.any():  # rows with blank positions
                    pushed = pushed.take(np.flatnonzero(pushed.behind == 0))
                states.append(pushed)
    problems = tuple(
        problem if times == 1 else f"{problem} ({times} times)"
        for problem, times in reader.problems.items()
    )
    leading_count, _, trailing_count = (
        sum(len(block.stamp) for block in states) for states in sections
    )
    all_states = States.concatenate([*itertools.chain(*sections)], collector.nq, collector.nv)
    if part.selected_joints:
        positions, velocities = part.columns()
        q, v, tau = (
            all_states.q[:, positions],
            all_states.v[:, velocities],
            all_states.tau[:, velocities],
        )
        all_states = all_states._replace(q=q, v=v, tau=tau)
    return Recording(
        part,
        all_states,
        leading_count,
        trailing_count,
        message_count,
        collector.rejected,
        problems,
        collector.resets,
        collector.unreported,
        tuple(collector.missing_position()),
        tuple(collector.unknown),
        row_notes=dict(reader.notes),
        effort_interfaces=tuple(collector.effort_interfaces),
    )


class _SpanReader:
    """Reader of the spans of a part, which counts the problems of those in its interval."""

    def __init__(self, part: Part, progress: ByteProgress | None) -> None:
        self.decoder = Decoder()
        self._part, self._progress = part, progress
        self._joint_topics = JointTopics(part)
        self.problems: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self._total_size, self._read_size = sum(span.size for span in part.spans), 0

    def read(self, span: Span) -> Messages:
        """Return the messages of a span; raise a ValueError if two topics report the same joint."""
        previous_problems = Counter(self.decoder.problems)
        previous_notes = Counter(self.decoder.notes)
        messages = read_span(Path(self._part.path), span, self._part.read_topics, self.decoder)
        if self._part.owns(span):
            self._check_times(span, messages)
            self.problems += Counter(self.decoder.problems) - previous_problems
            self.notes += Counter(self.decoder.notes) - previous_notes
        if len(self._part.topics) > 1:
            self._joint_topics.add(messages, self.decoder)
        self._read_size += span.size
        if self._progress:
            self._progress(self._read_size, self._total_size)
        return messages

    def _check_times(self, span: Span, messages: Messages) -> None:
        """Report messages outside the times that a file states, on which plans rely."""
        count = len(messages_between(messages, span.start, span.stop + 1))
        if count < len(messages):
            self.decoder.count_problem(
                "messages outside the times that the file states for their chunk, "
                "which may be lost",
                len(messages) - count,
            )


# --- messages in order of log time


def messages_between(messages: Messages, start: int, stop: int) -> Messages:
    """Return the messages of a half-open interval of log times."""
    rows = slice(bisect_left(messages.log_time, start), bisect_left(messages.log_time, stop))
    return messages.take(rows)


def read_in_log_time_order(
    spans: Iterable[Span], read: Callable[[Span], Messages]
) -> Iterator[Messages]:
    """Yield the messages of spans in order of log time; among equal times, in order of the spans.

    Spans are sorted by start and may overlap; ``read`` returns the messages of one of them, sorted.
    """
    pending, spans = Messages.empty(), list(spans)
    for number, span in enumerate(spans):
        messages = merge_messages(pending, read(span))
        limit = spans[number + 1].start if number + 1 < len(spans) else math.inf
        count = bisect_left(messages.log_time, limit)
        yield messages.take(slice(0, count))
        pending = drop_unused_numbers(messages.take(slice(count, len(messages))))


def merge_messages(first: Messages, second: Messages) -> Messages:
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


def drop_unused_numbers(messages: Messages) -> Messages:
    """Return messages whose `numbers` contain only theirs, copied in their order."""
    sizes = np.where(messages.name_list < 0, 13, messages.counts.sum(axis=1, dtype=np.int64))
    start = np.cumsum(sizes) - sizes
    indices = np.repeat(messages.start - start, sizes) + np.arange(sizes.sum())
    return Messages(
        messages.name_list,
        messages.topic,
        messages.log_time,
        messages.stamp,
        messages.counts,
        start,
        messages.numbers[indices],
    )
