# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Worker threads for batches, which Ctrl-C cannot block.

A ``ThreadPoolExecutor`` has locks that are taken in Python code. Ctrl-C may come right after that
and leave one of them locked, and then its threads never end. Here, what threads share is built into
the interpreter: a queue, locks and the entries of a dictionary, which change in one step.
"""

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any


class _Part:
    """One part of a batch, computed by a worker or by the thread that has called."""

    def __init__(self, work: Callable[[int], Any], start: int) -> None:
        self._work, self._start = work, start
        self._result: Any = None
        self._error: BaseException | None = None
        self._has_ended = False  # set by the worker
        self._running = threading.Lock()  # held while the worker computes
        self._running.acquire()

    def claim(self, by_worker: bool) -> bool:
        """Return True for the first of worker and caller that asks: it computes the part."""
        return self.__dict__.setdefault("_by_worker", by_worker) is by_worker

    def compute(self) -> None:
        self._result = self._work(self._start)

    def compute_as_worker(self) -> None:
        """Compute it, and keep an error for the thread that has called."""
        try:
            self.compute()
        except BaseException as error:
            self._error = error
        finally:
            self._has_ended = True
            self._running.release()

    def wait(self) -> None:
        """Wait until a worker has computed it; Ctrl-C interrupts the wait."""
        while not self._has_ended:
            self._running.acquire()

    def result(self) -> Any:
        if not self.claim(by_worker=False):
            self.wait()
        if self._error:
            raise self._error
        return self._result


def _compute_parts(parts: "SimpleQueue[_Part | None]") -> None:
    """Compute parts until there is a None."""
    while (part := parts.get()) is not None:
        if part.claim(by_worker=True):
            part.compute_as_worker()
        del part  # its arrays can be freed
    parts.put(None)  # ends the other threads


class WorkerThreads:
    """Threads that wait for work.

    They are kept for the next batch: starting a thread takes longer than it saves for a short
    batch. A forked process starts its own threads.
    """

    def __init__(self) -> None:
        self._process, self._count = os.getpid(), 0
        self._queue: SimpleQueue[_Part | None] = SimpleQueue()
        self._parts: list[_Part] = []  # the current batch's

    def __del__(self) -> None:
        self._queue.put(None)

    def share(self, work: Callable[[int], Any], starts: Sequence[int]) -> list[Any]:
        """Call ``work`` for each start: the first in this thread, the others in workers.

        This thread also computes the parts that no worker has begun by then.
        """
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]
        self._end_parts()
        parts = self._parts = [_Part(work, start) for start in starts]
        try:
            self._start_threads(len(parts) - 1)
            for part in parts[1:]:
                self._queue.put(part)
            for part in parts:
                if part.claim(by_worker=False):
                    part.compute()
            results = [part.result() for part in parts]
        except BaseException:  # Ctrl-C: no part may continue in the next batch
            self._end_parts()
            raise
        self._parts = []
        return results

    def _start_threads(self, count: int) -> None:
        while self._count < count:
            try:
                threading.Thread(
                    target=_compute_parts,
                    args=(self._queue,),
                    daemon=True,
                    name=f"dyn_ros-batch-{self._count}",
                ).start()
            except RuntimeError:  # the system allows no more
                return
            self._count += 1

    def _end_parts(self) -> None:
        """Wait for the remaining parts of an interrupted batch; Ctrl-C interrupts the wait."""
        for part in self._parts:
            if not part.claim(by_worker=False):
                part.wait()
