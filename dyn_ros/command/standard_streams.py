# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of the command, which may be full, closed, or a pipe nobody reads."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable

from .failures import OutputError


class _Output(io.TextIOWrapper):
    """Standard output; raises an `OutputError` where it cannot be written, and ignores the rest.

    If a program such as ``head`` reads no more, the command ends with code 1, without a message.
    """

    def write(self, text: str) -> int:
        return self._attempt(lambda: super(_Output, self).write(text))

    def flush(self) -> None:
        self._attempt(super().flush)

    def _attempt(self, write: Callable[[], int | None]) -> int:
        try:
            return write() or 0
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise SystemExit(1) from None
            raise OutputError(f"standard output: {error.strerror}") from error


class _ErrorOutput(io.TextIOWrapper):
    """Standard error; what cannot be written is lost, since no other place remains for it."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def replace_standard_streams() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr``, which are None if a shell has closed them.

    Characters that their encodings lack are replaced. Closed descriptors are opened, so that no
    other file gets their numbers; what is written to a closed output is an error.
    """
    for descriptor, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)
    output, errors = sys.stdout, sys.stderr
    sys.stdout = _Output(
        open(1, "wb", closefd=False),
        encoding=output.encoding if output else None,
        errors="replace",
        line_buffering=os.isatty(1),
    )
    sys.stderr = _ErrorOutput(
        open(2, "wb", buffering=0, closefd=False),
        encoding=errors.encoding if errors else None,
        errors="backslashreplace",
        write_through=True,
    )
