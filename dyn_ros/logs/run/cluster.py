# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Processes of a Dask cluster that work on recordings."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .local_workers import Call, Failure, run

_CONNECT = 10.0  # s
_FIRST_WORKER = 60.0  # s
_COUNT = 5.0  # s between counts of workers
_LOST = "cancelled", "lost"
_GONE = (OSError, asyncio.CancelledError, asyncio.TimeoutError, concurrent.futures.CancelledError)


class ClusterWorkers:
    """Processes of a Dask cluster, by the address of its scheduler.

    Values stay on the processes that computed them until they are needed. If a process dies, the
    scheduler repeats its jobs elsewhere; how often is its setting
    ``distributed.scheduler.allowed-failures``.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise ImportError(
                "a cluster requires distributed, here and on each worker: "
                'pip install "dyn_ros[logs,cluster]"'
            ) from None
        self._address = address
        try:
            if not address.startswith("inproc:"):  # Client reports this, but does not end
                distributed.comm.get_address_host_port(address)
            self._client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"scheduler: no connection to {address!r}: {error or 'no answer'}; "
                "start `dask scheduler`, and pass the address that it "
                "prints"
            ) from None
        self._completed = distributed.as_completed(loop=self._client.loop)
        self._under_way: dict[Any, Call] = {}  # by future
        self._slots, self._counted = 1, -_COUNT
        try:
            self._client.wait_for_workers(1, timeout=_FIRST_WORKER)
        except TimeoutError:
            self._client.close()
            raise ValueError(
                f"scheduler: {address!r} has no workers; start `dask worker "
                f"{address} --nthreads 1` on each machine"
            ) from None

    @property
    def slots(self) -> int:
        """Number of jobs to submit at a time: two for each thread of the workers."""
        if time.monotonic() > self._counted + _COUNT:
            with suppress(OSError):  # next_done reports a connection that is lost
                self._slots = 2 * max(1, sum(self._client.nthreads().values()))
            self._counted = time.monotonic()
        return self._slots

    def submit(self, call: Call) -> None:
        future = self._submit(run, call.function, *call.arguments)
        self._under_way[future] = call
        self._completed.add(future)

    def _submit(self, *call: Any) -> Any:
        with self._connected():
            return self._client.submit(*call, pure=False)

    def next_done(self) -> tuple[Call, Any, Failure | None]:
        """Wait for the next call that is done; return it, the future of its value, or a failure."""
        future = next(self._completed)
        call, failure = self._under_way.pop(future), None
        with self._connected():
            if future.status in _LOST:
                raise asyncio.CancelledError
            if future.status == "error":
                failure = _failure(future.exception())
        return call, future, failure

    def combine(self, reduce: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
        """Combine values from left to right, where they are; return the future of the result."""
        return self._submit(run, _combined, reduce, *values)

    def value(self, held: Any) -> Any:
        with self._connected():
            return held.result()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Report a connection that is lost, and a value that is lost and cannot be repeated."""
        try:
            yield
        except _GONE:
            raise ConnectionError(
                f"the scheduler {self._address!r} ended, or cancelled the jobs; "
                "start it and run the same again"
            ) from None
        except Failure as error:  # of combined values
            raise RuntimeError(f"reduce: {error}") from None
        except Exception as error:
            raise ConnectionError(
                f"a value was lost with its worker: {_failure(error)}; run the same again"
            ) from error

    def close(self) -> None:
        """End the connection; calls that are not done are cancelled."""
        with suppress(*_GONE):
            self._client.cancel(list(self._under_way))
        self._client.close()


def _combined(reduce: Callable[[Any, Any], Any], *values: Any) -> Any:
    return functools.reduce(reduce, values)


def _failure(error: BaseException) -> Failure:
    if type(error).__name__ == "KilledWorker":
        return Failure(
            "Died",
            "the workers that worked on it died, one after the other; they ran "
            "out of memory, or the file crashes a library",
        )
    return Failure.of(error)
