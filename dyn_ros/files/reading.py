# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading of files that may be anything: a pipe, a device, or larger than the memory."""

from __future__ import annotations

import errno
import os
import stat
from os import PathLike
from typing import BinaryIO

NAME_IN_MESSAGE = 200  # characters that a message shows of a name that is too long

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular_file(path: str | PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; raise an OSError at once if it is something else.

    Opening a pipe waits for a program that writes to it, and reading a device may never end.
    """
    try:
        return open(path, "rb", opener=_open_regular)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        name = os.fsdecode(path)
        raise OSError(
            error.errno, error.strerror, f"{name[:NAME_IN_MESSAGE]}... ({len(name)} characters)"
        ) from None


def read_regular_file(path: str | PathLike[str], max_size: int) -> bytes:
    """Return the bytes of a regular file.

    Raises an OSError if it is not a regular file, and a ValueError if it has more than ``max_size``
    bytes.
    """
    with open_regular_file(path) as file:
        content = file.read(max_size + 1)
    if len(content) > max_size:
        raise ValueError(f"the file has more than {max_size:,} bytes, which is the limit")
    return content


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file for `open`; raise an OSError that says what the path is otherwise."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.EINVAL, f"expected a regular file, but this is {kind}", path)
