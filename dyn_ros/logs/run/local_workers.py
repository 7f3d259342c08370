# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Worker processes on this machine; `cluster.ClusterWorkers` are on many machines.

Both have the methods ``submit``, ``next_done``, ``combine``, ``value`` and ``close``; ``slots`` is
the number of calls to submit at a time so that no process waits.
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

_THREAD_COUNT_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Call(NamedTuple):
    """A call to be made by a worker, for a part of a recording or for its plan."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    size: float = 1.0  # amount of data that it reads, in any unit
    number: int | None = None  # number of the part; None: the plan of a recording
    recording: int = 0  # index of the recording


class Failure(Exception):
    """Class name and text of the exception of a call.

    Unlike the exception, they can be unpickled in every process.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    @classmethod
    def of_exception(cls, error: BaseException) -> Failure:
        """Return the failure that an exception causes."""
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
    """Worker processes on this machine, in a ``ProcessPoolExecutor``.

    If a process dies, the pool is replaced, and the calls that were running are repeated one at a
    time. A call that ends its process ``retries + 1`` times fails; other calls are not affected.
    With ``fork``, the first processes may be forks of this one, which start at once; use it only if
    nothing else runs in this process.
    """

    def __init__(self, count: int, retries: int, fork: bool = False) -> None:
        self.slots, self._count, self._retries = count + 1, count, retries
        self._running: dict[Future[bytes], Call] = {}
        self._finished: deque[tuple[Call, Any, Failure | None]] = deque()
        self._temporary = tempfile.TemporaryDirectory(prefix="dyn_ros-")
        self._start_pool("fork" if fork and _can_fork() else "spawn")

    def _start_pool(self, method: str = "spawn") -> None:
        """Start the processes, by "spawn" or "fork"."""
        other_children = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(
            self._count,
            multiprocessing.get_context(method),
            _initialize_worker,
            (method == "fork", self._temporary.name),
        )
        with _worker_environment():  # the first calls start the processes
            self._start_calls = [self._pool.submit(int) for _ in range(self._count)]
        self._processes = set(multiprocessing.active_children()) - other_children

    def submit(self, call: Call) -> None:
        """Let a process make a call."""
        self._running[self._send_call(call)] = call

    def _send_call(self, call: Call) -> Future[bytes]:
        """Submit a call to the pool; return its future."""
        packed = pickle.dumps((call.function, call.arguments))
        try:
            return self._pool.submit(run_call, _run_pickled, packed)
        except BrokenExecutor as error:
            failed = Future[bytes]()
            failed.set_exception(error)
            return failed

    def next_done(self) -> tuple[Call, Any, Failure | None]:
        """Wait for the next submitted call; return it, and its value or failure."""
        while not self._finished:
            finished = wait(self._running, return_when=FIRST_COMPLETED).done
            if any(isinstance(future.exception(), BrokenExecutor) for future in finished):
                finished = wait(self._running).done
            calls = {future: self._running.pop(future) for future in finished}
            lost_calls = [call for future, call in calls.items() if not self._collect(future, call)]
            if lost_calls:
                self._restart_pool()
            for call in lost_calls:
                self._retry(call)
        return self._finished.popleft()

    def _collect(self, future: Future[bytes], call: Call) -> bool:
        """Store the outcome of a call; return False if its process died."""
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            return False
        self._finished.append(
            (call, pickle.loads(future.result()), None)
            if error is None
            else (call, None, Failure.of_exception(error))
        )
        return True

    def _retry(self, call: Call) -> None:
        """Repeat a call whose process died, up to ``retries + 1`` times."""
        for _ in range(self._retries + 1):
            if self._collect(self._send_call(call), call):
                return
            self._restart_pool()
        self._finished.append(
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

    def _restart_pool(self) -> None:
        """Replace a pool of which a process died; raise a RuntimeError if none could start."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        # an exit code is negative if a signal killed the process
        has_failed = any((process.exitcode or 0) > 0 for process in self._processes)
        if has_failed and all(call.exception() for call in self._start_calls):
            raise RuntimeError(
                "the worker processes do not start; in a script, call the function "
                "that starts them below `if __name__ == '__main__':`"
            )
        self._start_pool()

    def combine(self, reduce: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
        """Combine values from left to right, in this process."""
        return functools.reduce(reduce, values)

    def value(self, handle: Any) -> Any:
        """Return the value of a call or combination, which is in this process."""
        return handle

    def close(self) -> None:
        """End the processes; running calls are abandoned."""
        if self._running:
            for process in self._processes:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._temporary.cleanup()


def _can_fork() -> bool:
    """Return True if forks of this process work.

    With other threads they may not: a lock that another thread holds is never released in a fork.
    """
    return (
        sys.platform == "linux"
        and threading.active_count() == 1
        and importlib.util.find_spec("threadpoolctl") is not None
    )


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Let processes that are started in the block use one thread for linear algebra each.

    SIGINT is blocked until they ignore it.
    """
    environment = os.environ.copy()
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(dict.fromkeys(_THREAD_COUNT_VARIABLES, "1"))
    try:
        yield
    finally:
        for name in _THREAD_COUNT_VARIABLES:
            del os.environ[name]
        os.environ.update(environment)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


# --- in the processes


def run_call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; raise a `Failure`, which every process can unpickle, for its exceptions."""
    try:
        return function(*arguments)
    except Exception as error:
        raise Failure.of_exception(error) from None


def _run_pickled(packed: bytes) -> bytes:
    """Make a pickled call; return its pickled value.

    So a function or value that cannot be unpickled does not end the pool.
    """
    function, arguments = pickle.loads(packed)
    return pickle.dumps(function(*arguments))


def _initialize_worker(is_forked: bool, temporary: str) -> None:
    """Let a process ignore SIGINT, and exit when its parent does.

    It decompresses recordings into a folder of the parent, who removes them if the process is
    killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    compression.folder = temporary
    threading.Thread(target=_exit_with_parent, args=(temporary,), daemon=True).start()
    if is_forked:  # inherits the threads of a process whose linear algebra uses all cores
        import threadpoolctl

        threadpoolctl.threadpool_limits(1)


def _exit_with_parent(temporary: str) -> None:
    """Wait for the end of the parent process; then remove its temporary files and exit."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(temporary, ignore_errors=True)
        os._exit(1)
