# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls for each part of many recordings, in the processes of one or many machines.

A recording is planned, which is a call too, and then worked on in parts. Few calls are submitted at
a time, so that memory does not grow with the number of recordings.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .workers import Failure, Job, Workers

FAN_IN = 8              # values that are combined at a time

Progress = Callable[[float, str], None]


class Call(NamedTuple):
    """A call that is to be made.

    ``size`` is that of what it reads, in any unit; ``number`` that of the part of a recording,
    None for its plan.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    size: float = 1.0
    number: int | None = None
    recording: int = 0


def completed(workers: Workers, *queues: deque[Call]) -> Iterator[tuple[Call, Job]]:
    """Make the calls in queues, to which others may be added; yield each as soon as it is done.

    A call is taken from the first queue that has one.
    """
    under_way: dict[Job, Call] = {}
    while True:
        while len(under_way) < workers.slots and (queue := next(filter(None, queues), None)):
            call = queue.popleft()
            under_way[workers.submit(call.function, *call.arguments)] = call
        if not under_way:
            return
        job = workers.next_done()
        yield under_way.pop(job), job


class Done(NamedTuple):
    """A part of a recording that has been worked on, or a recording that has been planned.

    ``number`` is None for a plan; ``value`` is None if there is a failure or values are combined.
    """

    recording: int
    number: int | None
    value: Any
    failure: Failure | None


class Jobs:
    """Plans recordings and works on their parts.

    ``plan(recording)`` is called in a worker. ``calls(index, planned)`` is called here and returns
    the calls for the parts, and the size of those that need no work; an exception of it ends
    everything. The sizes of recordings, in any unit, are for the progress, which is called with the
    fraction that is done and the recording. ``reduce`` combines two values, see `Total`: ``total``
    is the job with the combined value, once all is done.
    """

    def __init__(self, workers: Workers, plan: Callable[[Any], Any],
                 calls: Callable[[int, Any], tuple[list[Call], float]],
                 recordings: Sequence[Any], sizes: Sequence[float], *,
                 reduce: Callable[[Any, Any], Any] | None = None,
                 progress: Progress | None = None) -> None:
        self._workers, self._calls = workers, calls
        self._combine = partial(workers.combine, reduce) if reduce is not None else None
        self._recordings, self._sizes = recordings, sizes
        self._progress = progress or (lambda done, what: None)
        self._plans = deque(Call(plan, (recording,), recording=index)
                            for index, recording in enumerate(recordings))
        self._parts: deque[Call] = deque()
        self._under_way: dict[int, _UnderWay] = {}      # by recording
        self._finished, self._all = 0.0, sum(sizes) or 1.0
        self._top = Total(self._combine)
        self.total: Job | None = None

    def __iter__(self) -> Iterator[Done]:
        """Do everything; return what is finished as soon as it is."""
        for call, job in completed(self._workers, self._parts, self._plans):
            value = None
            if call.number is None:
                if job.failure is None:
                    value = self._workers.value(job)
                self._add_parts(call.recording, value, job.failure)
            else:
                if job.failure is None and self._combine is None:
                    value = self._workers.value(job)
                self._finish_part(call, job)
            yield Done(call.recording, call.number, value, job.failure)
        self.total = self._top.finish()

    def _add_parts(self, index: int, planned: Any, failure: Failure | None) -> None:
        calls, finished = ([], 0.0) if failure is not None else self._calls(index, planned)
        size = finished + sum(call.size for call in calls)
        unit = self._sizes[index] / size if size > 0.0 else 0.0
        self._parts.extend(call._replace(recording=index) for call in calls)
        self._under_way[index] = _UnderWay(len(calls), unit, Total(self._combine))
        self._advance(index, unit * finished if calls else self._sizes[index])
        self._finish_recording(index)

    def _finish_part(self, call: Call, job: Job) -> None:
        one = self._under_way[call.recording]
        one.left -= 1
        self._advance(call.recording, one.unit * call.size)
        if call.number is not None:
            one.total.put(call.number, None if job.failure is not None else job)
        self._finish_recording(call.recording)

    def _finish_recording(self, index: int) -> None:
        if not self._under_way[index].left:
            self._top.put(index, self._under_way.pop(index).total.finish())

    def _advance(self, index: int, share: float) -> None:
        self._finished += share
        self._progress(min(self._finished / self._all, 1.0), str(self._recordings[index]))


@dataclass
class _UnderWay:
    """A recording whose parts are worked on: how many are left, share of the progress by size."""

    left: int
    unit: float
    total: Total


class Total:
    """Combines values in the order of their numbers, eight at a time, whichever comes first.

    So the result does not depend on the number of workers. ``combine`` combines the values of
    jobs; without it there is no result. None stands for a value that is missing.
    """

    def __init__(self, combine: Callable[[Sequence[Job]], Job] | None) -> None:
        self._combine = combine
        self._early: dict[int, Job | None] = {}
        self._next = 0
        self._levels: list[list[Job | None]] = []       # of a level, values that wait for others

    def put(self, number: int, job: Job | None) -> None:
        """Add the value with a number; those from 0 on come in any order, each once."""
        if self._combine is None:
            return
        self._early[number] = job
        while self._next in self._early:
            self._add(0, self._early.pop(self._next))
            self._next += 1

    def finish(self) -> Job | None:
        """Combine what is left; None if there is nothing."""
        level = 0
        while level < len(self._levels) - 1:
            if self._levels[level]:
                self._move_up(level)
            level += 1
        return self._combined(self._levels[-1]) if self._levels else None

    def _add(self, level: int, job: Job | None) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(job)
        if len(self._levels[level]) == FAN_IN:
            self._move_up(level)

    def _move_up(self, level: int) -> None:
        jobs, self._levels[level] = self._levels[level], []
        self._add(level + 1, self._combined(jobs))

    def _combined(self, jobs: Sequence[Job | None]) -> Job | None:
        known = [job for job in jobs if job is not None]
        if self._combine is None or len(known) < 2:
            return known[0] if known else None
        return self._combine(known)
