# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Signals that ask the process of a node to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_PERIOD = 1.0  # s; after a signal, before the process is forced to exit


class StopSignals:
    """SIGINT and SIGTERM, from entering this context to the end of the process.

    A signal interrupts nothing: it sets `received`, which the main thread looks at, and ends the
    wait of an executor. If the main thread has not left the context `GRACE_PERIOD` later, for
    instance because LLVM compiles, the process exits with code 0. After the context, signals are
    ignored.

    The handlers of rclpy are not used. They shut down rclpy in another thread; if the events
    executor registers a node at this moment, it cannot remove the callbacks that it has already
    registered, and aborts the process.
    """

    def __init__(self) -> None:
        self.received = False
        self._executor: Any = None
        self._executor_lock = threading.Lock()
        self._left = threading.Event()

    def __enter__(self) -> StopSignals:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        # Python writes the number of a signal at once; it calls handlers only between instructions
        # of the main thread, which may be waiting or compiling
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, _continue)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        self._left.set()
        os.close(self._write_end)  # ends the thread
        self._thread.join()
        os.close(self._read_end)

    @contextlib.contextmanager
    def ending_wait(self, executor: Any) -> Iterator[None]:
        """Let signals end the wait of an executor, within this context."""
        with self._executor_lock:
            self._executor = executor
        try:
            yield
        finally:
            with self._executor_lock:
                self._executor = None

    def _watch(self) -> None:
        """Wait for a signal or for the end of the context."""
        while number := os.read(self._read_end, 1):
            if number[0] in STOP_SIGNALS:
                self._stop()

    def _stop(self) -> None:
        self.received = True
        with self._executor_lock:
            if self._executor is not None:
                self._executor.create_task(lambda: None)
        if not self._left.wait(GRACE_PERIOD):
            os._exit(0)


def _continue(number: int, frame: FrameType | None) -> None:
    """Handle a signal by nothing more than what Python writes to the pipe."""


stop_signals = StopSignals()
