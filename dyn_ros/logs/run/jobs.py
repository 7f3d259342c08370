# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls for each part of many recordings, in the processes of one or many machines.

Each recording is planned by a call, and then processed in parts. Only a few calls are submitted at
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

StageProgress = Callable[[float, str], None]
"""A function that is called with the fraction that is done, and a word for what is being done."""


def run_calls(workers: Workers, *queues: deque[Call]) -> Iterator[tuple[Call, Any, Failure | None]]:
    """Make the calls in queues, which may grow meanwhile; yield each as soon as it is done.

    A call is taken from the first queue that is not empty. Each is yielded with a handle of its
    value, which ``workers.value`` fetches from where it was computed, and the failure if it failed.
    """
    running = 0
    while True:
        while running < workers.slots and (queue := next(filter(None, queues), None)):
            workers.submit(queue.popleft())
            running += 1
        if not running:
            return
        running -= 1
        yield workers.next_done()


class Jobs:
    """An iterator that plans recordings and processes their parts.

    It yields each call as soon as it is done, including calls of ``plan_recording``, with its value
    or its failure. The value is None if the call failed or values are combined.

    Parameters
    ----------
    workers : Workers
    plan_recording : callable
        Called in a worker with a recording; returns its plan, which ``make_part_calls`` requires.
    make_part_calls : callable
        Called in this process with the index of a recording and its plan. Returns the calls for its
        parts, and the size of the parts that need no work. Its exceptions end the iteration.
    recordings : sequence
    sizes : sequence of float
        Sizes of the recordings, in any unit, for the progress.
    reduce : callable, optional
        Combines two values, see `Reduction`. Once the iteration has ended, the list ``total``
        contains the combined value; it is empty if there is none.
    progress : callable, optional
        Called with the fraction that is done, and the recording, after each call was yielded.
    """

    def __init__(
        self,
        workers: Workers,
        plan_recording: Callable[[Any], Any],
        make_part_calls: Callable[[int, Any], tuple[list[Call], float]],
        recordings: Sequence[Any],
        sizes: Sequence[float],
        *,
        reduce: Callable[[Any, Any], Any] | None = None,
        progress: StageProgress | None = None,
    ) -> None:
        self._workers, self._make_part_calls, self._reduce = workers, make_part_calls, reduce
        self._recordings, self._sizes = recordings, sizes
        self._progress = progress or (lambda fraction, name: None)
        self._plans = deque(
            Call(plan_recording, (recording,), recording=index)
            for index, recording in enumerate(recordings)
        )
        self._parts: deque[Call] = deque()
        self._unfinished_parts: dict[int, int] = {}  # index of recording: count
        self._reductions: dict[int, Reduction] = {}  # index of recording: reduction
        self._finished_size, self._total_size = 0.0, sum(sizes) or 1.0
        self._total_reduction = Reduction(workers, reduce)
        self.total: list[Any] = []

    def __iter__(self) -> Iterator[tuple[Call, Any, Failure | None]]:
        for call, handle, failure in run_calls(self._workers, self._parts, self._plans):
            is_part = call.number is not None
            is_combined = is_part and self._reduce is not None
            value = None if failure or is_combined else self._workers.value(handle)
            if is_part:
                self._finish_part(call, [handle] if is_combined and not failure else [])
            else:
                self._add_parts(call.recording, value, failure)
            yield call, value, failure
            # after the caller has counted what is done
            fraction = min(self._finished_size / self._total_size, 1.0)
            self._progress(fraction, str(self._recordings[call.recording]))
        self.total = [self._workers.value(handle) for handle in self._total_reduction.finish()]

    def _add_parts(self, index: int, plan: Any, failure: Failure | None) -> None:
        """Add the calls for the parts of a recording, by its plan, or none if that failed."""
        calls, finished = ([], 0.0) if failure is not None else self._make_part_calls(index, plan)
        size = finished + sum(call.size for call in calls)
        unit = self._sizes[index] / size if size > 0.0 else 0.0
        self._parts.extend(call._replace(recording=index, size=unit * call.size) for call in calls)
        self._unfinished_parts[index], self._reductions[index] = (
            len(calls),
            Reduction(self._workers, self._reduce),
        )
        self._finished_size += unit * finished if calls else self._sizes[index]
        self._finish_recording(index)

    def _finish_part(self, call: Call, values: Sequence[Any]) -> None:
        """Note that a part is done, with its value in a sequence, which may be empty."""
        self._unfinished_parts[call.recording] -= 1
        self._finished_size += call.size
        self._reductions[call.recording].put(call.number or 0, values)
        self._finish_recording(call.recording)

    def _finish_recording(self, index: int) -> None:
        """Add the value of a recording to the total if all its parts are done."""
        if not self._unfinished_parts[index]:
            self._total_reduction.put(index, self._reductions.pop(index).finish())


class Reduction:
    """Values that are combined in the order of their numbers, whichever comes first.

    ``FAN_IN`` values are combined at a time, so the result does not depend on the number of
    workers. Each value is in a sequence, which is empty if the value is missing.
    """

    def __init__(self, workers: Workers, reduce: Callable[[Any, Any], Any] | None) -> None:
        self._workers, self._reduce = workers, reduce
        self._pending: dict[int, Sequence[Any]] = {}  # number: value
        self._next = 0
        self._levels: list[list[Sequence[Any]]] = []  # values that are combined FAN_IN at a time

    def put(self, number: int, values: Sequence[Any]) -> None:
        """Add the value with a number; numbers from 0 come in any order, each once."""
        self._pending[number] = values
        while self._next in self._pending:
            self._add_values(self._pending.pop(self._next))
            self._next += 1

    def _add_values(self, values: Sequence[Any]) -> None:
        """Add the next value, and combine values of levels that are full."""
        for level in self._levels:
            level.append(values)
            if len(level) < FAN_IN:
                return
            values = self._combine(level)
            level.clear()
        self._levels.append([values])

    def finish(self) -> Sequence[Any]:
        """Return the combined value in a sequence, which is empty if there are no values."""
        values: Sequence[Any] = ()
        for level in self._levels:
            values = self._combine([*level, values])
        return values

    def _combine(self, level: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Combine the values of a level."""
        present_values = [value for values in level for value in values]
        if self._reduce is None or len(present_values) < 2:
            return present_values
        return [self._workers.combine(self._reduce, present_values)]
