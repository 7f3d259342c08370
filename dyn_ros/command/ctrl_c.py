# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends the command ``dyn_ros`` without a traceback, also while Python imports the engine.

``dyn_ros/__init__.py`` imports this module first, so it imports little itself. Programs that import
dyn_ros are not affected.
"""

from __future__ import annotations

import os
import signal
import sys

CODE = 130  # exit code of a program that Ctrl-C has ended


def end_at_once() -> None:
    """From now on, let Ctrl-C end this process: nothing of it has to be finished."""
    _replace(signal.default_int_handler, _end)


def interrupt() -> None:
    """From now on, let Ctrl-C raise a KeyboardInterrupt, as usual."""
    _replace(_end, signal.default_int_handler)


def is_command() -> bool:
    """Whether this process is the command ``dyn_ros``, or ``python -m dyn_ros``."""
    name = os.path.basename(next(iter(getattr(sys, "argv", ())), ""))
    return name == "dyn_ros" or name == "-m" and "dyn_ros" in sys.orig_argv


def _replace(before: object, after: object) -> None:
    """Replace the handler; one of another program, or that Ctrl-C is ignored, remains."""
    if signal.getsignal(signal.SIGINT) is before:
        try:  # contextlib would take longer to import      # noqa: SIM105
            signal.signal(signal.SIGINT, after)  # type: ignore[arg-type]
        except ValueError:  # not in the main thread
            pass


def _end(number: int, frame: object) -> None:
    os._exit(CODE)


if is_command():
    end_at_once()
