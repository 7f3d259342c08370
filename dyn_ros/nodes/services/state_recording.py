# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Requests that record the states of a robot for some time before they respond."""

from __future__ import annotations

import array
import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dyn_ros.engine.kernel.types import Array

from ...states.joint_states import Rejected
from ..base.service import Pending

STATE_TIMEOUT = 2.0  # s; without a usable state, a request ends with an error


class RecordedStates(NamedTuple):
    """Recorded measurements, a row for each of N states."""

    time: Array  # (N,), s; zero at the first state
    columns: tuple[Array, ...]  # (N, n) each, in the order of the arguments of `Recorder.add`

    def __len__(self) -> int:
        return len(self.time)


class Recorder:
    """A recorder of rows of numbers; gaps longer than `max_gap` [s] do not count as duration."""

    def __init__(self, max_gap: float = math.inf) -> None:
        self._first_stamp = 0
        self._sizes: list[int] = []
        self._numbers = array.array("d")  # row-major
        self._max_gap, self._gap_duration, self._last_time = max_gap, 0.0, 0.0

    def add(self, stamp: int, *columns: Array) -> None:
        """Append a row: its stamp [ns], and vectors."""
        if not self._sizes:
            self._first_stamp, self._sizes = stamp, [1, *map(len, columns)]
        time = 1e-9 * (stamp - self._first_stamp)
        if time - self._last_time > self._max_gap:
            self._gap_duration += time - self._last_time
        self._last_time = time
        self._numbers.frombytes(np.concatenate(((time,), *columns)).tobytes())

    @property
    def duration(self) -> float:
        """The time from the first to the last row, without gaps [s]."""
        return self._last_time - self._gap_duration

    def recorded_states(self) -> RecordedStates:
        """Return the rows recorded so far."""
        rows = np.array(self._numbers).reshape(-1, sum(self._sizes) or 1)
        time, *columns = np.split(rows, np.cumsum(self._sizes)[:-1], axis=1)
        return RecordedStates(time[:, 0].copy(), tuple(column.copy() for column in columns))


class Task(NamedTuple):
    """A request that records states; its functions raise a ValueError to reject it."""

    service: str
    duration: float  # s
    only_settled: bool  # record only states with known external efforts
    compute: Callable[[RecordedStates], Any]  # runs in another thread
    respond: Callable[[Any, Any], None]  # arguments: result, response


class StateRecording:
    """The request that currently records states; there is at most one."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._pending: Pending = Future()
        self._recorder = Recorder()
        self._last_reception = 0.0
        self._job: Future[Any] | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def active(self) -> bool:
        """True if a request waits for its response."""
        return self._task is not None

    @property
    def needs_states(self) -> bool:
        """True if the request needs more states."""
        return self._task is not None and self._job is None

    @property
    def status(self) -> str:
        """A description of the current activity, for diagnostics; empty without a request."""
        if self._task is None:
            return ""
        if self._job is not None:
            return f"{self._task.service} computes its result"
        return (
            f"{self._task.service} measures ({self._recorder.duration:.1f} of "
            f"{self._task.duration:g} s)"
        )

    def begin(self, task: Task, now: float, max_gap: float = math.inf) -> Pending:
        """Start a request at a time [s] of a steady clock; return its future response.

        An earlier request to the same service ends, since its client may have died. While another
        service records, the request is `Rejected`.
        """
        if self._task is not None and self._task.service == task.service:
            self.abort("a new request replaced it")
        if self._task is not None:
            raise Rejected(
                f"{self.status}; call again after its response, or deactivate the node to cancel it"
            )
        self._task, self._pending, self._recorder = task, Future(), Recorder(max_gap)
        self._last_reception, self._job = now, None
        return self._pending

    def add(self, now: float, is_settled: bool, stamp: int, *columns: Array) -> None:
        """Record a state received at a time [s]; compute the result after the last one."""
        task = self._task
        if task is None or self._job is not None or task.only_settled and not is_settled:
            return
        self._last_reception = now
        self._recorder.add(stamp, *columns)
        if self._recorder.duration >= task.duration:
            recorded_states, self._recorder = self._recorder.recorded_states(), Recorder()
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, "state_recording")
            self._job = self._threads.submit(task.compute, recorded_states)

    def poll(self, now: float, reason: str) -> None:
        """Respond if the result is computed, or with a reason if no usable state has arrived."""
        if self._job is not None:
            if self._job.done():
                self._finish(self._job)
        elif self._task is not None and now - self._last_reception > STATE_TIMEOUT:
            self.abort(reason or "no states arrive")

    def _finish(self, job: Future[Any]) -> None:
        """End the request; its response is filled from the result of a job."""
        task, pending = self._task, self._pending
        assert task is not None
        self._task = self._job = None
        pending.set_result(lambda response: task.respond(job.result(), response))

    def abort(self, reason: str) -> None:
        """Respond with `success: false` and a reason."""
        task, pending = self._task, self._pending
        self._task = self._job = None
        if task is not None:
            pending.set_exception(Rejected(f"{task.service} ended early: {reason}"))

    def close(self) -> None:
        """End the thread that computes results."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
