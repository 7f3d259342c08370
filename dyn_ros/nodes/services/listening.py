# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Requests that record the states of a robot for a while before they respond."""

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

PATIENCE = 2.0  # time without a usable state after which listening ends [s]


class Record(NamedTuple):
    """What has been measured: one row for each of N states."""

    time: Array  # (N,), from the first state on [s]
    columns: tuple[Array, ...]  # (N, n) each, in the order in which they were added

    def __len__(self) -> int:
        return len(self.time)


class Recorder:
    """Rows of numbers with their stamps; a gap longer than `max_gap` [s] does not count."""

    def __init__(self, max_gap: float = math.inf) -> None:
        self._first = 0
        self._sizes: list[int] = []  # of the columns
        self._numbers = array.array("d")  # the rows, one after the other
        self._max_gap, self._gaps, self._last = max_gap, 0.0, 0.0

    def add(self, stamp: int, *columns: Array) -> None:
        """Append a row: its stamp [ns], and vectors."""
        if not self._sizes:
            self._first, self._sizes = stamp, [1, *map(len, columns)]
        time = 1e-9 * (stamp - self._first)
        if time - self._last > self._max_gap:
            self._gaps += time - self._last
        self._last = time
        self._numbers.frombytes(np.concatenate(((time,), *columns)).tobytes())

    @property
    def duration(self) -> float:
        """Time from the first to the last row, without gaps [s]."""
        return self._last - self._gaps

    def record(self) -> Record:
        rows = np.array(self._numbers).reshape(-1, sum(self._sizes) or 1)
        time, *columns = np.split(rows, np.cumsum(self._sizes)[:-1], axis=1)
        return Record(time[:, 0].copy(), tuple(column.copy() for column in columns))


class Task(NamedTuple):
    """What a request wants; its functions raise a ValueError to reject it."""

    service: str
    duration: float  # how long to listen [s]
    settled: bool  # whether only states count for which external efforts are known
    compute: Callable[[Record], Any]  # runs in another thread, while the node continues
    respond: Callable[[Any, Any], None]  # applies the result and fills the response


class Listening:
    """At most one request at a time that records states."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._pending: Pending = Future()
        self._recorder = Recorder()
        self._progress = 0.0
        self._job: Future[Any] | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def active(self) -> bool:
        """Whether a request waits for its response."""
        return self._task is not None

    @property
    def listens(self) -> bool:
        """Whether it needs more states."""
        return self._task is not None and self._job is None

    @property
    def text(self) -> str:
        """What it does, for diagnostics; empty if nothing."""
        if self._task is None:
            return ""
        if self._job is not None:
            return f"{self._task.service} computes its result"
        return (
            f"{self._task.service} measures ({self._recorder.duration:.1f} of "
            f"{self._task.duration:g} s)"
        )

    def begin(self, task: Task, now: float, max_gap: float = math.inf) -> Pending:
        """Start at a time [s]; return the response to come.

        An earlier request to the same service ends: its client may have died; one to another
        service has this one `Rejected`.
        """
        if self._task is not None and self._task.service == task.service:
            self.abort("a new request replaced it")
        if self._task is not None:
            raise Rejected(
                f"{self.text}; call again after its response, or deactivate the node to cancel it"
            )
        self._task, self._pending, self._recorder = task, Future(), Recorder(max_gap)
        self._progress, self._job = now, None
        return self._pending

    def add(self, now: float, settled: bool, stamp: int, *columns: Array) -> None:
        """Take a state received at a time [s]; ignored if its request does not use it."""
        task = self._task
        if task is None or self._job is not None or task.settled and not settled:
            return
        self._progress = now
        self._recorder.add(stamp, *columns)
        if self._recorder.duration >= task.duration:
            record, self._recorder = self._recorder.record(), Recorder()
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, "listening")
            self._job = self._threads.submit(task.compute, record)

    def poll(self, now: float, why: str) -> None:
        """Respond if the result is there, or if nothing has arrived for too long: why."""
        if self._job is not None:
            if self._job.done():
                self._finish(self._job)
        elif self._task is not None and now - self._progress > PATIENCE:
            self.abort(why or "no states arrive")

    def _finish(self, job: Future[Any]) -> None:
        task, pending = self._task, self._pending
        assert task is not None
        self._task = self._job = None
        pending.set_result(lambda response: task.respond(job.result(), response))

    def abort(self, why: str) -> None:
        """Respond with `success: false` and a reason."""
        task, pending = self._task, self._pending
        self._task = self._job = None
        if task is not None:
            pending.set_exception(Rejected(f"{task.service} ended early: {why}"))

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
