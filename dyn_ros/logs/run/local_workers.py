# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine that make calls; `cluster.ClusterWorkers` use many machines.

Both have the methods ``submit``, ``next_done``, ``combine``, ``value`` and ``close``; ``slots`` is
how many calls to submit so that no process waits.
"""

from __future__ import annotations

import functools
import importlib.util
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...recordings.formats import compression

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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


class Failure(Exception):
    """Why a call has no value: class and text of an exception.

    Texts can be read in every process, unlike exceptions.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        if isinstance(error, Failure):
            return error
        if not isinstance(error, OSError):
            return cls(type(error).__name__, str(error))
        if not error.strerror:
            return cls("OSError", str(error))
        return cls(
            "OSError", f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        )

    def __str__(self) -> str:
        """Return the message of an error; the name of its class if the message is empty."""
        if self.kind in ("ValueError", "OSError", "Died"):
            return self.message
        return f"{self.kind}: {self.message}" if self.message else self.kind


class LocalWorkers:
    """Processes on this machine: a ``ProcessPoolExecutor``, and another one if one of them dies.

    Then the calls that were under way are repeated one at a time. One that ends its process alone,
    and after ``retries`` repetitions again, fails; the others are not affected. With ``fork``, the
    first processes may be copies of this one, which start at once: nothing else runs in it.
    """

    def __init__(self, count: int, retries: int, fork: bool = False) -> None:
        self.slots, self._count, self._retries = count + 1, count, retries
        self._under_way: dict[Future[bytes], Call] = {}
        self._done: deque[tuple[Call, Any, Failure | None]] = deque()
        self._temporary = tempfile.TemporaryDirectory(prefix="dyn_ros-")
        self._start("fork" if fork and _can_fork() else "spawn")

    def _start(self, method: str = "spawn") -> None:
        before = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(
            self._count,
            multiprocessing.get_context(method),
            _begin,
            (method == "fork", self._temporary.name),
        )
        with _prepared():  # each of these calls starts a process
            self._starts = [self._pool.submit(int) for _ in range(self._count)]
        self._processes = set(multiprocessing.active_children()) - before

    def submit(self, call: Call) -> None:
        self._under_way[self._send(call)] = call

    def _send(self, call: Call) -> Future[bytes]:
        packed = pickle.dumps((call.function, call.arguments))
        try:
            return self._pool.submit(run, _call, packed)
        except BrokenExecutor as error:
            failed = Future[bytes]()
            failed.set_exception(error)
            return failed

    def next_done(self) -> tuple[Call, Any, Failure | None]:
        """Wait for the next submitted call that is done; return it, its value, or why it failed."""
        while not self._done:
            finished = wait(self._under_way, return_when=FIRST_COMPLETED).done
            if any(isinstance(future.exception(), BrokenExecutor) for future in finished):
                finished = wait(self._under_way).done
            calls = {future: self._under_way.pop(future) for future in finished}
            lost = [call for future, call in calls.items() if not self._take(future, call)]
            if lost:
                self._restart()
            for call in lost:
                self._repeat(call)
        return self._done.popleft()

    def _take(self, future: Future[bytes], call: Call) -> bool:
        """Take what a call returned; return whether its process has survived it."""
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            return False
        self._done.append(
            (call, pickle.loads(future.result()), None)
            if error is None
            else (call, None, Failure.of(error))
        )
        return True

    def _repeat(self, call: Call) -> None:
        for _ in range(self._retries + 1):
            if self._take(self._send(call), call):
                return
            self._restart()
        self._done.append(
            (
                call,
                None,
                Failure(
                    "Died",
                    f"the process that worked on it died {self._retries + 1} times; it ran out of "
                    "memory, or the file crashes a library",
                ),
            )
        )

    def _restart(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        ended = any((process.exitcode or 0) > 0 for process in self._processes)  # killed: negative
        if ended and all(start.exception() for start in self._starts):
            raise RuntimeError(
                "the worker processes do not start; in a script, call the function "
                "that starts them below `if __name__ == '__main__':`"
            )
        self._start()

    def combine(self, reduce: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
        """Combine values from left to right, in this process."""
        return functools.reduce(reduce, values)

    def value(self, held: Any) -> Any:
        return held

    def close(self) -> None:
        """End the processes; calls that are not done are abandoned."""
        if self._under_way:
            for process in self._processes:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._temporary.cleanup()


def _can_fork() -> bool:
    """Whether this process can be copied: a lock that another thread holds would never be free."""
    return (
        sys.platform == "linux"
        and threading.active_count() == 1
        and importlib.util.find_spec("threadpoolctl") is not None
    )


@contextmanager
def _prepared() -> Iterator[None]:
    """Start processes that Ctrl-C does not interrupt before they ignore it.

    Their linear algebra does not compete for the same cores.
    """
    environment = os.environ.copy()
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name in _ONE_THREAD:
            del os.environ[name]
        os.environ.update(environment)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


# --- in the processes


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Make a call; its exception becomes one that each process can read."""
    try:
        return function(*arguments)
    except Exception as error:
        raise Failure.of(error) from None


def _call(packed: bytes) -> bytes:
    """Make a call; neither it nor its value can end the pool because it cannot be unpickled."""
    function, arguments = pickle.loads(packed)
    return pickle.dumps(function(*arguments))


def _begin(is_copy: bool, temporary: str) -> None:
    """Prepare a process: Ctrl-C is for its parent, and it ends when the parent does.

    Its copies of recordings are in a folder of the parent, because it may be killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    compression.folder = temporary
    threading.Thread(target=_end_with_parent, args=(temporary,), daemon=True).start()
    if is_copy:  # of a process whose linear algebra uses all cores
        import threadpoolctl

        threadpoolctl.threadpool_limits(1)


def _end_with_parent(temporary: str) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(temporary, ignore_errors=True)
        os._exit(1)
