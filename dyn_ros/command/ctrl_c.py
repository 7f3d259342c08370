# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Handlers of SIGINT, so that Ctrl-C ends the command ``dyn_ros`` without a traceback.

``dyn_ros/__init__.py`` imports this module first, for Ctrl-C while Python imports the engine, so it
imports little itself. Programs that import dyn_ros are not affected.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED_EXIT_CODE = 130  # 128 plus the number of SIGINT


def exit_immediately_on_sigint() -> None:
    """Exit immediately on SIGINT, without a traceback or cleanup."""
    _replace_handler(signal.default_int_handler, _exit_process)


def raise_on_sigint() -> None:
    """Raise a KeyboardInterrupt on SIGINT, as Python does by default."""
    _replace_handler(_exit_process, signal.default_int_handler)


def is_dyn_ros_command() -> bool:
    """Return True if this process is the command ``dyn_ros``, or ``python -m dyn_ros``."""
    name = os.path.basename(next(iter(getattr(sys, "argv", ())), ""))
    return name == "dyn_ros" or name == "-m" and "dyn_ros" in sys.orig_argv


def _replace_handler(previous: object, replacement: object) -> None:
    """Replace the handler of SIGINT if it is ``previous``; keep another program's."""
    if signal.getsignal(signal.SIGINT) is previous:
        try:  # contextlib would take longer to import      # noqa: SIM105
            signal.signal(signal.SIGINT, replacement)  # type: ignore[arg-type]
        except ValueError:  # not in the main thread
            pass


def _exit_process(number: int, frame: object) -> None:
    """Exit at once, without ending threads or flushing files."""
    os._exit(INTERRUPTED_EXIT_CODE)


if is_dyn_ros_command():
    exit_immediately_on_sigint()
