# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The states of a part of a recording: the same, whether it is read alone or with the others."""
from __future__ import annotations

import itertools
import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..states.blocks import BlockCollector
from ..states.states import Note, States
from . import plan as plans
from .decode import Decoder, Messages
from .files import Source, open_source, read_span
from .plan import Moment, Task
from .selection import Owners, Selection
from .source import Span

_TRIED = 3              # publishers at most, of which all combinations are tried

Progress = Callable[[int, int], object]
"""Called with the number of bytes that were read, and that will be."""


class Part(NamedTuple):
    """The states of a task, and of the time around its interval.

    Attributes
    ----------
    states : States
    warm, after : int
        How many states at the beginning and at the end belong to other tasks.
    messages : int
        Messages in the interval.
    rejected : dict of str to Note
        Those that could not be used, by reason.
    problems : tuple of str
        What could not be read.
    resets : Note or None
        Stamps that jumped back.
    missing, unknown : tuple of str
        Joints whose position is unknown at the end; names that are not joints of the robot.
    """

    states: States
    warm: int
    after: int
    messages: int
    rejected: dict[str, Note]
    problems: tuple[str, ...] = ()
    resets: Note | None = None
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def own(self) -> States:
        """The states that belong to the task."""
        return self.states.take(slice(self.warm, len(self.states.stamp) - self.after))


@dataclass
class _Reader:
    """Reads spans of a recording, and counts problems of those that a task owns."""

    path: Path
    selection: Selection
    decoder: Decoder = field(default_factory=Decoder)

    def __post_init__(self) -> None:
        self.problems: dict[str, int] = {}
        self._owners = Owners(self.selection.name, self.selection)

    def read(self, span: Span) -> Messages:
        return read_span(self.path, span, self.selection.read_topics, self.decoder)

    def in_order(self, task: Task, progress: Progress | None) -> Iterator[Messages]:
        """Messages of the time that a task reads."""
        total, done = sum(span.size for span in task.spans), 0

        def read(span: Span) -> Messages:
            nonlocal done
            before = dict(self.decoder.problems)
            messages = self.read(span)
            if task.owns(span):
                self._check_times(span, messages)
                self._add_problems(before)
            if len(self.selection.topics) > 1:
                self._owners.take(messages, self.decoder)
            done += span.size
            if progress:
                progress(done, total)
            return messages

        for messages in plans.in_order(task.spans, read):
            yield between(messages, task.begin, task.end)

    def _check_times(self, span: Span, messages: Messages) -> None:
        """Report messages outside of the times that a file states: plans rely on these."""
        inside = (bisect_left(messages.log_time, span.stop + 1)
                  - bisect_left(messages.log_time, span.start))
        if inside < len(messages):
            self.decoder.report("messages outside of the times that the file states for their "
                                "chunk, which may be lost", len(messages) - inside)

    def _add_problems(self, before: dict[str, int]) -> None:
        for problem, count in self.decoder.problems.items():
            more = count - before.get(problem, 0)
            if more:
                self.problems[problem] = self.problems.get(problem, 0) + more


def states(task: Task, selection: Selection, progress: Progress | None = None) -> Part:
    """Read the states of a task.

    Parameters
    ----------
    task : Task
        From ``tasks``.
    selection : Selection
        Of the recording.
    progress : callable, optional
        Called with bytes that were read, and bytes in total.

    Returns
    -------
    Part
        Its own states are those that this part of the recording has if it is read as a whole.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        Two topics report the same joint.
    """
    part, is_determined = _read(task, selection, progress)
    if not is_determined:
        (task,) = _with_memory(open_source(task.path), selection, [task])
        part, _ = _read(task, selection, progress)
    return part


def _read(task: Task, selection: Selection, progress: Progress | None) -> tuple[Part, bool]:
    """The states of a task, and whether they are those of the whole recording."""
    reader = _Reader(Path(task.path), selection)
    collector: BlockCollector = (pickle.loads(task.memory) if task.memory
                            else selection.collector())
    found: tuple[list[States], ...] = [], [], []
    count, before = 0, []
    for messages in reader.in_order(task, progress):
        for phase, some in enumerate((between(messages, task.begin, task.start),
                                      between(messages, task.start, task.stop),
                                      between(messages, task.stop, task.end))):
            if len(some):
                count += len(some) if phase == 1 else 0
                before += [some] if phase == 0 else []
                found[phase].append(collector.push(some, reader.decoder, notes=phase == 1))
    warm, _, after = (sum(len(each.stamp) for each in some) for some in found)
    everything = States.concatenate([each for some in found for each in some], collector.nq,
                                    collector.nv)
    part = Part(everything, warm, after, count, collector.rejected,
                tuple(_counted(reader.problems)), collector.resets, tuple(collector.missing()),
                tuple(collector.unknown))
    is_first = task.number == 0 and not before
    return part, (is_first or bool(task.memory) or collector.parts < 2
                  or _is_determined(collector, before, reader.decoder))


def _is_determined(collector: BlockCollector, before: Sequence[Messages], decoder: Decoder) -> bool:
    """Whether the rounds after these messages are the same, whatever they were before them."""
    if collector.parts > _TRIED or not before:
        return False
    earliest = min(int(messages.stamp.min()) for messages in before)
    content, results = pickle.dumps(collector), set()
    for ahead in itertools.product((-1, 0, 1, 2), repeat=collector.parts):
        trial: BlockCollector = pickle.loads(content)
        trial.start_rounds(ahead, earliest - 1)
        for messages in before:
            trial.push(messages, decoder, notes=False)
        results.add(trial.rounds())
        if len(results) > 1:
            return False
    return True


def between(messages: Messages, start: int, stop: int) -> Messages:
    """Messages of a half-open interval of log times."""
    rows = slice(bisect_left(messages.log_time, start), bisect_left(messages.log_time, stop))
    return messages.take(rows)


def _counted(problems: dict[str, int]) -> Iterator[str]:
    for problem, count in problems.items():
        yield problem if count == 1 else f"{problem} ({count} times)"


# --- tasks

def tasks(source: Source, selection: Selection, since: Moment | None = None,
          until: Moment | None = None, size: float = plans.SIZE,
          overlap: float | tuple[float, float] = plans.OVERLAP) -> list[Task]:
    """Divide a recording into tasks whose states do not depend on where it is divided.

    If one publisher reports all joints, its latest messages determine the state. If several do,
    when a state is due depends on all messages before: then the recording is read once here, and
    each task contains what the collector knows at its begin. Further publishers that are not seen
    here, since they send seldom, are found by ``states``, which reads what is before if needed.

    Parameters
    ----------
    source : Source
    selection : Selection
    since, until, size, overlap
        As for ``plan``. The overlap before the interval is at least twice the staleness.

    Returns
    -------
    list of Task

    Raises
    ------
    ValueError
        As for ``plan``.
    """
    before, after = overlap if isinstance(overlap, tuple) else (overlap, 0.0)
    before = max(before, 2.0 * selection.staleness)
    found = plans.plan(source, since, until, size, (before, after))
    if not found or found[0].begin <= min(span.start for span in source.spans) and len(found) < 2:
        return found
    return _with_memory(source, selection, found) if _forms_rounds(selection, found) else found


def _forms_rounds(selection: Selection, found: Sequence[Task]) -> bool:
    """Whether several publishers report the state, as seen in one span of each task."""
    collector = selection.collector()
    if collector.needs_odometry:
        return True
    reader = _Reader(Path(found[0].path), selection)
    for task in found:
        for span in [each for each in task.spans if task.owns(each)][:1]:
            collector.push(reader.read(span), reader.decoder, notes=False)
        if collector.parts > 1:
            return True
    return False


def _with_memory(source: Source, selection: Selection, found: Sequence[Task]) -> list[Task]:
    """Read the recording up to the begin of the last task; add the collector at each begin."""
    reader, collector = _Reader(Path(source.path), selection), selection.collector()
    spans = [span for span in source.spans if span.start < found[-1].begin]
    result: list[Task] = []
    for messages in plans.in_order(spans, reader.read):
        last = int(messages.log_time[-1]) if len(messages) else 0
        while len(result) < len(found) and found[len(result)].begin <= last:
            task = found[len(result)]
            cut = bisect_left(messages.log_time, task.begin)
            collector.push(messages.take(slice(0, cut)), reader.decoder, notes=False)
            messages = messages.take(slice(cut, len(messages)))
            result.append(task._replace(memory=pickle.dumps(collector)))
        collector.push(messages, reader.decoder, notes=False)
    rest = found[len(result):]
    return [*result, *(task._replace(memory=pickle.dumps(collector)) for task in rest)]
