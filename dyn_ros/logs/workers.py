# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Processes that work on recordings: those of this machine. ``cluster.py`` has others."""
from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import compression

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Failure(NamedTuple):
    """Why a job has no value.

    Attributes
    ----------
    kind : str
        Name of the class of the exception.
    message : str
        Its text.
    number : int or None
        The number of an ``OSError``, such as ``errno.ENOSPC``.
    details : str
        Its traceback.
    """

    kind: str
    message: str
    number: int | None = None
    details: str = ""

    def __str__(self) -> str:
        """Return what a user needs to know; the name of the class if it is empty."""
        if self.kind in ("ValueError", "OSError", "Died"):
            return self.message
        return f"{self.kind}: {self.message}" if self.message else self.kind


def failure_of(error: BaseException) -> Failure:
    """Describe an exception by texts and numbers, which another process can always read."""
    number = error.errno if isinstance(error, OSError) else None
    kind = "OSError" if isinstance(error, OSError) else type(error).__name__
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return Failure(kind, message, number, "".join(traceback.format_exception(error)))


class Job:
    """A call that is to be made in another process.

    Attributes
    ----------
    failure : Failure or None
        Why it has no value, once it is done.
    """

    def __init__(self, call: Any) -> None:
        self.call, self.failure = call, None    # type: Any, Failure | None
        self.value: Any = None
        self.deaths = 0                         # of processes that made this call alone


class Workers(ABC):
    """Processes that make calls.

    Attributes
    ----------
    slots : int
        Number of jobs to submit at a time, so that no process ever waits.
    """

    slots: int

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Make a call in one of the processes."""

    @abstractmethod
    def combine(self, reduce: Callable[[Any, Any], Any], jobs: Sequence[Job]) -> Job:
        """Combine the values of jobs that are done, from left to right."""

    @abstractmethod
    def next_done(self) -> Job:
        """Wait for the next job that is done; return it."""

    @abstractmethod
    def value(self, job: Job) -> Any:
        """Return the value of a job that is done and has not failed."""

    @abstractmethod
    def close(self) -> None:
        """End the processes, or the connection to them; jobs that are not done are abandoned."""


class LocalWorkers(Workers):
    """Processes on this machine.

    If one of them dies, the jobs that were under way are repeated one at a time. A job that still
    ends its process after ``retries`` repetitions fails; the others are not affected.

    Parameters
    ----------
    count : int
        Number of processes.
    retries : int
    fork : bool
        Whether the first processes may be copies of this one, which start at once: nothing else
        runs in it.
    """

    def __init__(self, count: int, retries: int, fork: bool = False) -> None:
        self.slots, self._retries = count + 1, retries
        self._count = count
        self._waiting: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._under_way: dict[Future[Any], Job] = {}
        self._done: deque[Job] = deque()
        self._temporary = tempfile.TemporaryDirectory(prefix="dyn_ros-")
        self._start("fork" if fork and _can_fork() else "spawn")

    def _start(self, method: str = "spawn") -> None:
        before = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(self._count, multiprocessing.get_context(method), _begin,
                                         (method == "fork", self._temporary.name))
        with _one_thread_each(), _ctrl_c_waits():       # each of these starts a process
            self._starts = [self._pool.submit(int) for _ in range(self._count)]
        self._processes = set(multiprocessing.active_children()) - before

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Make a call in one of the processes."""
        job = Job(pickle.dumps((function, arguments)))
        self._waiting.append(job)
        self._launch()
        return job

    def combine(self, reduce: Callable[[Any, Any], Any], jobs: Sequence[Job]) -> Job:
        """Combine the values of jobs that are done, from left to right, in this process."""
        job = Job(None)
        job.value = combined(reduce, *(self.value(each) for each in jobs))
        self._done.append(job)
        return job

    def _launch(self) -> None:
        if self._suspects:
            if not self._under_way:
                self._send(self._suspects.popleft())
            return
        while self._waiting and len(self._under_way) < self.slots:
            self._send(self._waiting.popleft())

    def _send(self, job: Job) -> None:
        try:
            self._under_way[self._pool.submit(_run, job.call)] = job
        except BrokenExecutor:                  # a process died meanwhile
            self._suspects.appendleft(job)
            if not self._under_way:
                self._restart([])

    def next_done(self) -> Job:
        """Wait for the next job that is done; return it."""
        while not self._done:
            self._collect()
            self._launch()
        return self._done.popleft()

    def _collect(self) -> None:
        finished = wait(self._under_way, return_when=FIRST_COMPLETED).done
        if any(isinstance(future.exception(), BrokenExecutor) for future in finished):
            finished = wait(self._under_way).done
        dead = []
        for future in finished:
            job = self._under_way.pop(future)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                dead.append(job)
                continue
            job.value, job.failure = future.result() if error is None else (None, failure_of(error))
            self._done.append(job)
        if dead:
            self._restart(dead)

    def _restart(self, dead: list[Job]) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._cannot_start():
            raise RuntimeError("the processes do not start; a script calls what starts them below "
                               "the line `if __name__ == '__main__':`")
        if len(dead) == 1:
            dead[0].deaths += 1
            if dead[0].deaths > self._retries:
                dead[0].failure = Failure(
                    "Died", f"the process that worked on it died {dead[0].deaths} times: it ran "
                    "out of memory, or the file crashes a library")
                self._done.append(dead.pop())
        self._suspects.extendleft(reversed(dead))
        self._start()

    def _cannot_start(self) -> bool:
        """Whether the processes ended by themselves before any of them made a call."""
        ended = any((process.exitcode or 0) > 0 for process in self._processes)  # killed: negative
        return ended and all(start.exception() for start in self._starts)

    def value(self, job: Job) -> Any:
        """Return the value of a job that is done and has not failed."""
        return pickle.loads(job.value) if isinstance(job.value, _Packed) else job.value

    def close(self) -> None:
        """End the processes; jobs that are not done are abandoned."""
        self._waiting.clear()
        if self._under_way:
            for process in self._processes:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._temporary.cleanup()


def _can_fork() -> bool:
    """Whether this process can be copied: a lock that another thread holds would never be free."""
    return (sys.platform == "linux" and threading.active_count() == 1
            and importlib.util.find_spec("threadpoolctl") is not None)


def combined(reduce: Callable[[Any, Any], Any], *values: Any) -> Any:
    """Combine values from left to right."""
    total = values[0]
    for value in values[1:]:
        total = reduce(total, value)
    return total


# -- in the processes

class _Packed(bytes):
    """A value that another process pickled; it is read when it is needed."""


def _begin(is_copy: bool, temporary: str) -> None:
    """Prepare a process: Ctrl-C is for its parent, and it ends when the parent does.

    Its copies of recordings are in a folder of the parent, because it may be killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    compression.folder = temporary
    threading.Thread(target=_end_with_parent, args=(temporary,), daemon=True).start()
    if is_copy:             # of a process whose linear algebra uses all cores
        import threadpoolctl
        threadpoolctl.threadpool_limits(1)


def _end_with_parent(temporary: str) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(temporary, ignore_errors=True)
        os._exit(1)


def _run(call: bytes) -> tuple[_Packed | None, Failure | None]:
    """Make a call; return its value or why there is none."""
    try:
        function, arguments = pickle.loads(call)
        return _Packed(pickle.dumps(function(*arguments))), None
    except Exception as error:
        return None, failure_of(error)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Start processes that Ctrl-C does not interrupt before they ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Start processes whose linear algebra does not compete for the same cores."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
