# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Errors that end the command ``dyn_ros`` with one sentence on standard error.

``dyn_ros/__init__.py`` imports this module first, for errors while Python imports the engine, so it
imports little itself. Programs that import dyn_ros are not affected.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

from .ctrl_c import INTERRUPTED_EXIT_CODE, is_dyn_ros_command

EXIT_CODE = 2
UNUSABLE_EXIT_CODE = 3  # there are results, and warnings that make them unusable

_NO_MEMORY = "there is not enough memory; end other programs, or raise the limit (ulimit -v)"
# What the loader of libraries, the system and Python say without memory.
_NO_MEMORY_TEXTS = (
    "failed to map segment",
    "Cannot allocate memory",
    "cannot allocate memory",
    "can't start new thread",
)


class OutputError(Exception):
    """Standard output cannot be written; the message states the reason."""


def describe_error(error: BaseException) -> str:
    """Return a sentence about an error: its message, or where an unexpected error was raised.

    The traceback of an unexpected error is written to a temporary file, which the sentence names.
    """
    if _is_memory_error(error):
        return _NO_MEMORY
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if isinstance(error, (ImportError, OSError, OutputError)):
        return " ".join(str(error).split())
    message = " ".join(str(error).split())
    return (
        f"unexpected {type(error).__name__}: {message:.300}; please report it"
        f"{_save_traceback(error)}"
    )


def report_error(error: BaseException, command: str | None = None) -> None:
    """Print a sentence about an error to standard error, if it can be written."""
    name = f"dyn_ros {command}" if command else "dyn_ros"
    try:  # contextlib would take longer to import      # noqa: SIM105
        print(f"{name}: {describe_error(error)}", file=sys.stderr or sys.__stderr__, flush=True)
    except (AttributeError, OSError):
        pass


def _is_memory_error(error: BaseException) -> bool:
    """Return True if an error, or one of its causes, is a lack of memory."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or any(text in str(cause) for text in _NO_MEMORY_TEXTS):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _save_traceback(error: BaseException) -> str:
    """Write the traceback to a temporary file; return the end of a sentence that names it."""
    import tempfile
    import traceback

    lines = traceback.format_exception(error)
    try:
        descriptor, path = tempfile.mkstemp(prefix="dyn_ros-error-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    except OSError:
        (*_, last) = traceback.extract_tb(error.__traceback__)
        return f", with its place, {last.filename}:{last.lineno}"
    return f", with the file {path}"


def _exit_after_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Report an error that nothing has caught, and exit immediately."""
    if isinstance(error, KeyboardInterrupt):
        os._exit(INTERRUPTED_EXIT_CODE)
    report_error(error)
    os._exit(EXIT_CODE)


if is_dyn_ros_command():
    sys.excepthook = _exit_after_error
