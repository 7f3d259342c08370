# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls a function for each part of many recordings, in the processes of one or many machines.

A recording is planned, which is a job too, and then worked on in parts. Few jobs are submitted at a
time, so that memory does not grow with the number of recordings.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from .workers import Failure, Job, Workers

FAN_IN = 8              # values that are combined at a time

Progress = Callable[[float, str], None]


class Part(NamedTuple):
    """A part of a recording.

    Attributes
    ----------
    number : int
        From 0, in order of time.
    arguments : tuple
        What the function is called with.
    size : float
        Of what has to be read, in any unit.
    """

    number: int
    arguments: tuple[Any, ...]
    size: float


class Planned(NamedTuple):
    """A recording whose parts are known.

    Attributes
    ----------
    recording : int
        Its index.
    value : Any
        What its plan returned.
    failure : Failure or None
        Why it has no plan.
    number : None
        It is not a part.
    """

    recording: int
    value: Any
    failure: Failure | None
    number: None = None


class Done(NamedTuple):
    """A part of a recording that has been worked on.

    Attributes
    ----------
    recording, number : int
        Index of the recording, and number of the part.
    value : Any
        What the function returned; None if the values are combined.
    failure : Failure or None
        Why there is none.
    """

    recording: int
    number: int
    value: Any
    failure: Failure | None


class Jobs:
    """Plans recordings and works on their parts.

    Parameters
    ----------
    workers : Workers
    plan : callable or None
        ``plan(recording)`` is called in a worker and describes the parts. None: the recording
        describes itself.
    parts : callable
        ``parts(index, described)`` is called here and returns a list of Part and the size of those
        that need no work. An exception of it ends everything.
    work : callable
        ``work(*part.arguments)`` is called in a worker.
    recordings : sequence
        Arguments of ``plan``.
    sizes : sequence of float
        Of the recordings in any unit, for the progress.
    reduce : callable, optional
        Combines two values. Values are combined in the order of the parts, eight at a time,
        whichever is finished first: the result does not depend on the number of workers.
    progress : callable, optional
        Called with the fraction that is done and the recording.

    Attributes
    ----------
    total : Job or None
        The combined value, once all is done.
    """

    def __init__(self, workers: Workers, plan: Callable[[Any], Any] | None,
                 parts: Callable[[int, Any], tuple[list[Part], float]], work: Callable[..., Any],
                 recordings: Sequence[Any], sizes: Sequence[float], *,
                 reduce: Callable[[Any, Any], Any] | None = None,
                 progress: Progress | None = None) -> None:
        self._workers, self._plan, self._parts, self._work = workers, plan, parts, work
        self._recordings, self._sizes = recordings, sizes
        self._reduce, self._progress = reduce, progress or (lambda done, what: None)
        self._unplanned = deque(range(len(recordings)))
        self._ready: deque[tuple[int, Part, float]] = deque()
        self._under_way: dict[Job, Callable[[Job], Planned | Done | None]] = {}
        self._finished, self._all = 0.0, sum(sizes) or 1.0
        self.total: Job | None = None
        self._trees: dict[int, _Tree] = {}
        self._top = _Tree(len(recordings), self._combine, self._set_total)

    def _set_total(self, job: Job | None) -> None:
        self.total = job

    def __iter__(self) -> Iterator[Planned | Done]:
        """Do everything; return what is finished as soon as it is."""
        while True:
            self._submit()
            if not self._under_way:
                return
            job = self._workers.next_done()
            event = self._under_way.pop(job)(job)
            if event is not None:
                yield event

    def _submit(self) -> None:
        free = self._workers.slots - len(self._under_way)
        while free > 0 and (self._ready or self._unplanned):
            if self._ready:
                index, part, share = self._ready.popleft()
                self._send(partial(self._worked, index, part.number, share), self._work,
                           *part.arguments)
            else:
                index = self._unplanned.popleft()
                if self._plan is None:
                    self._describe(index, self._recordings[index])
                    continue
                self._send(partial(self._was_planned, index), self._plan, self._recordings[index])
            free -= 1

    def _send(self, then: Callable[[Job], Planned | Done | None], function: Callable[..., Any],
              *arguments: Any) -> None:
        self._under_way[self._workers.submit(function, *arguments)] = then

    # -- when a job is done

    def _was_planned(self, index: int, job: Job) -> Planned:
        if job.failure is not None:
            self._advance(index, self._sizes[index])
            self._top.put(0, index, None)
            return Planned(index, None, job.failure)
        described = self._workers.value(job)
        self._describe(index, described)
        return Planned(index, described, None)

    def _describe(self, index: int, described: Any) -> None:
        parts, finished = self._parts(index, described)
        whole = finished + sum(part.size for part in parts)
        unit = self._sizes[index] / whole if whole > 0.0 else 0.0
        self._ready.extend((index, part, unit * part.size) for part in parts)
        self._advance(index, unit * finished if parts else self._sizes[index])
        if self._reduce is not None:
            tree = _Tree(len(parts), self._combine, partial(self._top.put, 0, index))
            self._trees[index] = tree
            for leaf, part in enumerate(parts):
                tree.leaves[part.number] = leaf
            tree.start()

    def _worked(self, index: int, number: int, share: float, job: Job) -> Done:
        self._advance(index, share)
        if self._reduce is not None:
            tree = self._trees[index]
            tree.put(0, tree.leaves[number], None if job.failure is not None else job)
            return Done(index, number, None, job.failure)
        if job.failure is not None:
            return Done(index, number, None, job.failure)
        return Done(index, number, self._workers.value(job), None)

    def _advance(self, index: int, share: float) -> None:
        self._finished += share
        self._progress(min(self._finished / self._all, 1.0), str(self._recordings[index]))

    def _combine(self, jobs: Sequence[Job], then: Callable[[Job], None]) -> None:
        def combined(job: Job) -> None:
            if job.failure is not None:
                raise RuntimeError(f"reduce: {job.failure}")
            then(job)
        assert self._reduce is not None
        self._under_way[self._workers.combine(self._reduce, jobs)] = combined


class _Tree:
    """Combines values in their order, a few at a time; None stands for one that is missing.

    Parameters
    ----------
    count : int
        Number of values.
    combine : callable
        ``combine(jobs, then)`` combines the values of jobs, and calls ``then`` with the new job.
    finish : callable
        Called with the last one.
    """

    def __init__(self, count: int, combine: Callable[[Sequence[Job], Callable[[Job], None]], None],
                 finish: Callable[[Job | None], None]) -> None:
        self._combine, self._finish = combine, finish
        self._counts = [count]
        while self._counts[-1] > 1:
            self._counts.append(-(-self._counts[-1] // FAN_IN))
        self._values: dict[tuple[int, int], dict[int, Job | None]] = {}
        self.leaves: dict[int, int] = {}

    def start(self) -> None:
        """Finish if there is nothing to wait for."""
        if self._counts[0] == 0:
            self._finish(None)

    def put(self, level: int, index: int, job: Job | None) -> None:
        """Set a value: of a leaf on level 0."""
        if level == len(self._counts) - 1:
            self._finish(job)
            return
        group = index // FAN_IN
        values = self._values.setdefault((level, group), {})
        values[index] = job
        if len(values) < min(FAN_IN, self._counts[level] - group * FAN_IN):
            return
        del self._values[level, group]
        found = [each for _, each in sorted(values.items()) if each is not None]
        above = partial(self.put, level + 1, group)
        if len(found) > 1:
            self._combine(found, above)
        else:
            above(found[0] if found else None)
