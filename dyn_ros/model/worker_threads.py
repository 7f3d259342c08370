# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Worker threads for batches."""
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")


class WorkerThreads:
    """Threads that wait for work.

    They are kept for the next batch: starting a thread takes longer than it saves for a short
    batch. A forked process starts its own threads.
    """

    def __init__(self) -> None:
        self._process, self._count = os.getpid(), 0
        self._executor: ThreadPoolExecutor | None = None
        self._parts: list[Future] = []              # of the current or the last batch

    def share(self, part: Callable[[int], Result], starts: Sequence[int]) -> list[Result]:
        """Call ``part`` for each start: the first in this thread, the others in workers."""
        executor = self._at_least(len(starts) - 1)
        parts = self._parts = []
        try:
            for start in starts[1:]:
                parts.append(executor.submit(part, start))
            return [part(starts[0])] + [other.result() for other in parts]
        except BaseException:                       # Ctrl-C: no part may continue in the next batch
            self._executor = None                   # interrupted, it may hold its locks for good
            self._end_parts()
            raise

    def _at_least(self, count: int) -> ThreadPoolExecutor:
        if self._process != os.getpid():
            self.__init__()                         # type: ignore[misc]
        self._end_parts()
        if self._executor is None or self._count < count:
            self._executor, self._count = ThreadPoolExecutor(count), count
        return self._executor

    def _end_parts(self) -> None:
        """Wait for the remaining parts of an interrupted batch; Ctrl-C interrupts the wait."""
        if self._parts:
            for part in self._parts:
                part.cancel()
            wait(self._parts)
