# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine that make calls, and what they have in common with a cluster's."""
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

from ..formats import compression

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Failure(NamedTuple):
    """Why a call has no value: class and text of an exception, ``errno``, traceback.

    Texts and numbers can be read in every process, unlike exceptions.
    """

    kind: str
    message: str
    number: int | None = None
    details: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception."""
        number = error.errno if isinstance(error, OSError) else None
        kind = "OSError" if isinstance(error, OSError) else type(error).__name__
        message = str(error)
        if isinstance(error, OSError) and error.strerror:
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return cls(kind, message, number, "".join(traceback.format_exception(error)))

    def __str__(self) -> str:
        """Return what a user needs to know; the name of the class if it is empty."""
        if self.kind in ("ValueError", "OSError", "Died"):
            return self.message
        return f"{self.kind}: {self.message}" if self.message else self.kind


class Job:
    """A call in another process; once it is done, it has a value or a failure."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.packed: bytes | None = None        # the value, as another process pickled it
        self.value: Any = None
        self.failure: Failure | None = None


class Workers(ABC):
    """Processes that make calls; ``slots`` is how many to submit so that no process waits."""

    slots: int

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Make a call in one of the processes."""

    @abstractmethod
    def combine(self, reduce: Callable[[Any, Any], Any], jobs: Sequence[Job]) -> Job:
        """Combine the values of jobs that are done, from left to right."""

    @abstractmethod
    def next_done(self) -> Job:
        """Wait for the next submitted job that is done; return it."""

    @abstractmethod
    def value(self, job: Job) -> Any:
        """Return the value of a job that is done and has not failed."""

    @abstractmethod
    def close(self) -> None:
        """End the processes, or the connection to them; jobs that are not done are abandoned."""

    def __enter__(self) -> Workers:
        """Return the workers."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close them."""
        self.close()


class LocalWorkers(Workers):
    """Processes on this machine: a ``ProcessPoolExecutor``, and another one if one of them dies.

    Then the calls that were under way are repeated one at a time. One that ends its process alone,
    and after ``retries`` repetitions again, fails; the others are not affected. With ``fork``, the
    first processes may be copies of this one, which start at once: nothing else runs in it.
    """

    def __init__(self, count: int, retries: int, fork: bool = False) -> None:
        self.slots, self._count, self._retries = count + 1, count, retries
        self._under_way: dict[Future[Any], Job] = {}
        self._lost: list[Job] = []              # when a process died
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
        try:
            self._under_way[self._pool.submit(_run, job.call)] = job
        except BrokenExecutor:
            self._lost.append(job)
        return job

    def combine(self, reduce: Callable[[Any, Any], Any], jobs: Sequence[Job]) -> Job:
        """Combine the values of jobs that are done, from left to right, in this process."""
        job = Job(None)
        job.value = combined(reduce, *(self.value(other) for other in jobs))
        return job

    def next_done(self) -> Job:
        """Wait for the next submitted job that is done; return it."""
        while not self._done:
            finished = wait(self._under_way, return_when=FIRST_COMPLETED).done
            if any(isinstance(future.exception(), BrokenExecutor) for future in finished):
                finished = wait(self._under_way).done
            for future in finished:
                self._take(future, self._under_way.pop(future))
            lost, self._lost = self._lost, []
            if lost:
                self._restart()
            for job in lost:
                self._repeat(job)
        return self._done.popleft()

    def _take(self, future: Future[Any], job: Job) -> None:
        """Take what a call returned, or note that a process died."""
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            self._lost.append(job)
            return
        job.packed, job.failure = (future.result() if error is None
                                   else (None, Failure.of(error)))
        self._done.append(job)

    def _repeat(self, job: Job) -> None:
        """Make a call alone."""
        for _ in range(self._retries + 1):
            future: Future[Any] = Future()
            try:
                future = self._pool.submit(_run, job.call)
            except BrokenExecutor as error:
                future.set_exception(error)
            self._take(future, job)
            if not self._lost:
                return
            self._lost.clear()
            self._restart()
        job.failure = Failure("Died", f"the process that worked on it died {self._retries + 1} "
                              "times: it ran out of memory, or the file crashes a library")
        self._done.append(job)

    def _restart(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        ended = any((process.exitcode or 0) > 0 for process in self._processes)  # killed: negative
        if ended and all(start.exception() for start in self._starts):
            raise RuntimeError("the processes do not start; a script calls what starts them below "
                               "the line `if __name__ == '__main__':`")
        self._start()

    def value(self, job: Job) -> Any:
        """Return the value of a job that is done and has not failed."""
        return job.value if job.packed is None else pickle.loads(job.packed)

    def close(self) -> None:
        """End the processes; jobs that are not done are abandoned."""
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


def _run(call: bytes) -> tuple[bytes | None, Failure | None]:
    """Make a call; return its pickled value or why there is none."""
    try:
        function, arguments = pickle.loads(call)
        return pickle.dumps(function(*arguments)), None
    except Exception as error:
        return None, Failure.of(error)


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
