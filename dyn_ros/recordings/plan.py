# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Division of recordings into parts that are read independently, each after a warm-up.

The beginnings of parts depend only on the times and sizes of spans.
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
"""Constant pose (x y z qx qy qz qw) and twist of a base, instead of odometry."""

PART_SIZE = 32e6
"""Size of a part [bytes, uncompressed]; it takes seconds to read and little memory."""

WARM_UP = 1.0
"""Time that is read before the interval of a part [s], or twice the staleness if that is more."""


@dataclass(frozen=True)
class Part:
    """Part of a recording: the states whose last message was recorded in an interval.

    It can be sent to other processes.

    Attributes
    ----------
    path, name : str
        Path and name of the recording.
    model : Model or None
        The robot; None if the columns have the names in the messages.
    topics : tuple of str
        Topics of joint states.
    unread_topics : tuple of str
        Topics of DynamicJointState in the recording, which may have efforts that ``topics`` lack.
    odometry : tuple of str
        One topic of odometry, or none.
    joint_names : tuple of str
        Joints that are read; without a model, in the order of the columns.
    selected_joints : tuple of str
        Joints of the model that the `Recording` contains, in this order; empty: all.
    staleness : float
        Largest difference between the stamps within one state [s].
    base : tuple of two sequences or None
        Constant pose and twist of a base, instead of odometry.
    exclusive : bool
        Raise a ValueError if two topics report the same joint.
    number : int
        Index among the parts of the recording.
    start, stop : int
        The interval, half-open [ns, log time].
    read_start, read_stop : int
        The interval that is read, half-open, with the overlap [ns, log time].
    spans : tuple of Span
        Spans that are read, sorted by their start.
    """

    path: str
    name: str = ""
    model: Model | None = None
    topics: tuple[str, ...] = ()
    unread_topics: tuple[str, ...] = ()
    odometry: tuple[str, ...] = ()
    joint_names: tuple[str, ...] = ()
    selected_joints: tuple[str, ...] = ()
    staleness: float = STALENESS
    base: Base | None = None
    exclusive: bool = True
    number: int = 0
    start: int = 0
    stop: int = 0
    read_start: int = 0
    read_stop: int = 0
    spans: tuple[Span, ...] = ()

    @property
    def size(self) -> int:
        """Size of the spans that start in the interval [bytes, uncompressed]."""
        return sum(span.size for span in self.spans if self.owns(span))

    def owns(self, span: Span) -> bool:
        """Return True if a span starts in the interval, so that exactly one part owns each span."""
        return self.start <= span.start < self.stop

    def make_collector(self) -> BlockCollector:
        """Return a new collector of states from messages."""
        if self.model is None:
            return BlockCollector.of_names(self.joint_names, self.staleness)
        return BlockCollector(self.model, self.staleness, self.base)

    @property
    def read_topics(self) -> tuple[str, ...]:
        """Topics of joint states and odometry."""
        return (*self.topics, *self.odometry)

    def columns(self) -> tuple[list[int], list[int]]:
        """Return the columns of q and of v that belong to ``selected_joints``."""
        model = self.model
        if model is None or not self.selected_joints:
            return list(range(len(self.position_names))), list(range(len(self.velocity_names)))
        return joint_rows(model, self.selected_joints)

    @property
    def position_names(self) -> tuple[str, ...]:
        """Names of the columns of q, of all joints."""
        return self.joint_names if self.model is None else self.model.position_names

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the columns of v and effort, of all joints."""
        return self.joint_names if self.model is None else self.model.velocity_names


def whole_part(source: Source, since: Moment | None = None, until: Moment | None = None) -> Part:
    """Return a recording, or a half-open interval of it, as one part without overlap."""
    spans = source.spans
    first = min((span.start for span in spans), default=0)
    last = 1 + max((span.stop for span in spans), default=first - 1)
    start, stop = moments.recording_interval(since, until, first, last)
    return Part(str(source.path), source.name, start=start, stop=stop, spans=spans)


def divide_part(
    part: Part, size: float = PART_SIZE, overlap: tuple[float, float] = (0.0, 0.0)
) -> list[Part]:
    """Divide a part into parts of about a size [bytes]; into none if it is empty.

    A span is never divided. ``overlap`` is the time that is read before and after each interval
    [s]; before it, at least the warm-up is read, after which all joints are known. The overlap of
    ``part`` itself is ignored.
    """
    leading_time = round(1e9 * max(overlap[0], WARM_UP, 2.0 * part.staleness))
    trailing_time = round(1e9 * overlap[1])
    parts = []
    for number, (start, stop) in enumerate(itertools.pairwise(_cut_times(part, size))):
        read_start, read_stop = start - leading_time, stop + trailing_time
        spans = tuple(
            span for span in part.spans if span.stop >= read_start and span.start < read_stop
        )
        parts.append(
            replace(
                part,
                number=number,
                start=start,
                stop=stop,
                read_start=read_start,
                read_stop=read_stop,
                spans=spans,
            )
        )
    return parts


def _cut_times(part: Part, size: float) -> list[int]:
    """Return the log times [ns] at which parts start and stop."""
    if part.start >= part.stop:
        return []
    cuts, current_size = [part.start], 0.0
    for span in part.spans:
        if span.stop < part.start or span.start >= part.stop:
            continue
        if current_size >= size and span.start > cuts[-1]:
            cuts.append(span.start)
            current_size = 0.0
        current_size += span.size
    return [*cuts, part.stop]
