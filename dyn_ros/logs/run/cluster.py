# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Worker processes of a Dask cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from .local_workers import Call, Failure, run_call

_CONNECTION_TIMEOUT = 10.0  # s
_WORKER_TIMEOUT = 60.0  # s
_COUNT_PERIOD = 5.0  # s, between counts of the threads of workers
_LOST_STATUSES = "cancelled", "lost"
_CONNECTION_ERRORS = (
    OSError,
    asyncio.CancelledError,
    asyncio.TimeoutError,
    concurrent.futures.CancelledError,
)


class ClusterWorkers:
    """Worker processes of the Dask cluster whose scheduler has an address.

    Values stay on the processes that computed them until they are fetched. If a process dies, the
    scheduler repeats its tasks elsewhere, as often as ``distributed.scheduler.allowed-failures``
    in its configuration.
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
            if not address.startswith("inproc:"):  # Client reports a bad address, but does not end
                distributed.comm.get_address_host_port(address)
            self._client = distributed.Client(
                address, timeout=_CONNECTION_TIMEOUT, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise ValueError(
                f"scheduler: no connection to {address!r}: {error or 'no answer'}; "
                "start `dask scheduler`, and pass the address that it "
                "prints"
            ) from None
        self._completed = distributed.as_completed(loop=self._client.loop)
        self._running: dict[Any, Call] = {}  # a call for each future
        self._slots, self._count_time = 1, -_COUNT_PERIOD
        try:
            self._client.wait_for_workers(1, timeout=_WORKER_TIMEOUT)
        except TimeoutError:
            self._client.close()
            raise ValueError(
                f"scheduler: {address!r} has no workers; start `dask worker "
                f"{address} --nthreads 1` on each machine"
            ) from None

    @property
    def slots(self) -> int:
        """Number of calls to submit at a time, two for each thread of the workers."""
        if time.monotonic() > self._count_time + _COUNT_PERIOD:
            with suppress(OSError):  # next_done reports a connection that is lost
                self._slots = 2 * max(1, sum(self._client.nthreads().values()))
            self._count_time = time.monotonic()
        return self._slots

    def submit(self, call: Call) -> None:
        """Let a process make a call."""
        future = self._submit_task(run_call, call.function, *call.arguments)
        self._running[future] = call
        self._completed.add(future)

    def _submit_task(self, *call: Any) -> Any:
        """Submit a call to the cluster; return its future."""
        with self._translate_errors():
            return self._client.submit(*call, pure=False)

    def next_done(self) -> tuple[Call, Any, Failure | None]:
        """Wait for the next submitted call; return it, its future and its failure."""
        future = next(self._completed)
        call, failure = self._running.pop(future), None
        with self._translate_errors():
            if future.status in _LOST_STATUSES:
                raise asyncio.CancelledError
            if future.status == "error":
                failure = _make_failure(future.exception())
        return call, future, failure

    def combine(self, reduce: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
        """Combine values from left to right on a worker; return the future of the result."""
        return self._submit_task(run_call, _reduce_values, reduce, *values)

    def value(self, future: Any) -> Any:
        """Fetch the value of a call or combination."""
        with self._translate_errors():
            return future.result()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise a ConnectionError if the block fails because the scheduler or a value is lost."""
        try:
            yield
        except _CONNECTION_ERRORS:
            raise ConnectionError(
                f"the scheduler {self._address!r} ended, or cancelled the jobs; "
                "start it and run the same again"
            ) from None
        except Failure as error:  # only combinations are not reported by `next_done`
            raise RuntimeError(f"reduce: {error}") from None
        except Exception as error:
            raise ConnectionError(
                f"a value was lost with its worker: {_make_failure(error)}; run the same again"
            ) from error

    def close(self) -> None:
        """End the connection; calls that are not done are cancelled."""
        with suppress(*_CONNECTION_ERRORS):
            self._client.cancel(list(self._running))
        self._client.close()


def _reduce_values(reduce: Callable[[Any, Any], Any], *values: Any) -> Any:
    """Combine values from left to right."""
    return functools.reduce(reduce, values)


def _make_failure(error: BaseException) -> Failure:
    """Return the failure of an exception of a task."""
    if type(error).__name__ == "KilledWorker":
        return Failure(
            "Died",
            "the workers that worked on it died, one after the other; they ran "
            "out of memory, or the file crashes a library",
        )
    return Failure.of_exception(error)
