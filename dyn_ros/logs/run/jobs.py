# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls for each part of many recordings, in the processes of one or many machines.

A recording is planned, which is a call too, and then worked on in parts. Few calls are submitted at
a time, so that memory does not grow with the number of recordings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .local_workers import Call, Failure, LocalWorkers

if TYPE_CHECKING:
    from .cluster import ClusterWorkers

Workers: TypeAlias = "LocalWorkers | ClusterWorkers"
FAN_IN = 8  # values that are combined at a time

Progress = Callable[[float, str], None]


def completed(workers: Workers, *queues: deque[Call]) -> Iterator[tuple[Call, Any, Failure | None]]:
    """Make the calls in queues, to which others may be added; yield each as soon as it is done.

    A call is taken from the first queue that has one. A value that is yielded is where it was
    computed; ``workers.value`` fetches it.
    """
    under_way = 0
    while True:
        while under_way < workers.slots and (queue := next(filter(None, queues), None)):
            workers.submit(queue.popleft())
            under_way += 1
        if not under_way:
            return
        under_way -= 1
        yield workers.next_done()


class Jobs:
    """Plans recordings and works on their parts.

    ``plan(recording)`` is called in a worker. ``calls(index, planned)`` is called here and returns
    the calls for the parts, and the size of those that need no work; an exception of it ends
    everything. The sizes of recordings, in any unit, are for the progress, which is called with the
    fraction that is done and the recording. ``reduce`` combines two values, see `Total`: ``total``
    contains the combined value, once all is done, and is empty if there is none.

    An iteration does everything, and yields each call as soon as it is done, of plans too. Its
    value is None if it failed or values are combined.
    """

    def __init__(
        self,
        workers: Workers,
        plan: Callable[[Any], Any],
        calls: Callable[[int, Any], tuple[list[Call], float]],
        recordings: Sequence[Any],
        sizes: Sequence[float],
        *,
        reduce: Callable[[Any, Any], Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._workers, self._calls, self._reduce = workers, calls, reduce
        self._recordings, self._sizes = recordings, sizes
        self._progress = progress or (lambda done, what: None)
        self._plans = deque(
            Call(plan, (recording,), recording=index) for index, recording in enumerate(recordings)
        )
        self._parts: deque[Call] = deque()
        self._left: dict[int, int] = {}  # parts of recordings that are not finished
        self._totals: dict[int, Total] = {}  # of recordings
        self._finished, self._all = 0.0, sum(sizes) or 1.0
        self._top = Total(workers, reduce)
        self.total: list[Any] = []

    def __iter__(self) -> Iterator[tuple[Call, Any, Failure | None]]:
        for call, held, failure in completed(self._workers, self._parts, self._plans):
            is_part = call.number is not None
            is_combined = is_part and self._reduce is not None
            value = None if failure or is_combined else self._workers.value(held)
            if is_part:
                self._finish_part(call, [held] if is_combined and not failure else [])
            else:
                self._add_parts(call.recording, value, failure)
            yield call, value, failure
        self.total = [self._workers.value(held) for held in self._top.finish()]

    def _add_parts(self, index: int, planned: Any, failure: Failure | None) -> None:
        calls, finished = ([], 0.0) if failure is not None else self._calls(index, planned)
        size = finished + sum(call.size for call in calls)
        unit = self._sizes[index] / size if size > 0.0 else 0.0
        self._parts.extend(call._replace(recording=index, size=unit * call.size) for call in calls)
        self._left[index], self._totals[index] = len(calls), Total(self._workers, self._reduce)
        self._advance(index, unit * finished if calls else self._sizes[index])
        self._finish_recording(index)

    def _finish_part(self, call: Call, values: Sequence[Any]) -> None:
        self._left[call.recording] -= 1
        self._advance(call.recording, call.size)
        self._totals[call.recording].put(call.number or 0, values)
        self._finish_recording(call.recording)

    def _finish_recording(self, index: int) -> None:
        if not self._left[index]:
            self._top.put(index, self._totals.pop(index).finish())

    def _advance(self, index: int, share: float) -> None:
        self._finished += share
        self._progress(min(self._finished / self._all, 1.0), str(self._recordings[index]))


class Total:
    """Combines values in the order of their numbers, eight at a time, whichever comes first.

    So the result does not depend on the number of workers. A value is in a sequence, which is empty
    if it is missing.
    """

    def __init__(self, workers: Workers, reduce: Callable[[Any, Any], Any] | None) -> None:
        self._workers, self._reduce = workers, reduce
        self._early: dict[int, Sequence[Any]] = {}
        self._next = 0
        self._levels: list[list[Sequence[Any]]] = []  # of a level, values that wait for others

    def put(self, number: int, values: Sequence[Any]) -> None:
        """Add the value with a number; those from 0 on come in any order, each once."""
        self._early[number] = values
        while self._next in self._early:
            self._add(self._early.pop(self._next))
            self._next += 1

    def _add(self, values: Sequence[Any]) -> None:
        for level in self._levels:
            level.append(values)
            if len(level) < FAN_IN:
                return
            values = self._combined(level)
            level.clear()
        self._levels.append([values])

    def finish(self) -> Sequence[Any]:
        values: Sequence[Any] = ()
        for level in self._levels:
            values = self._combined([*level, values])
        return values

    def _combined(self, level: Sequence[Sequence[Any]]) -> Sequence[Any]:
        known = [value for values in level for value in values]
        if self._reduce is None or len(known) < 2:
            return known
        return [self._workers.combine(self._reduce, known)]
