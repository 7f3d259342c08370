# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that exist completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def write_whole_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write that appears under its name once it is complete and on the disk.

    Until then it is named ``.NAME.xxxxxxxx.tmp``, which readers of a folder ignore. After an error
    it is removed, and a previous file of that name remains. Its folder is created. A link is
    followed. A device or a pipe, such as ``/dev/stdout``, is written to directly. An OSError names
    ``path``.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                yield file
            return
        with _replace_when_complete(target) as file:
            yield file
    except OSError as error:
        if error.filename is not None and not _is_temporary(error.filename, target):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def write_whole_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, completely or not at all, as `write_whole_file` does."""
    with write_whole_file(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _replace_when_complete(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target``, with its permissions, after the last byte."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)


def _is_temporary(name: str | bytes, target: Path) -> bool:
    """Return True if an error names the temporary file of ``target``."""
    return os.fsdecode(name).startswith(os.fspath(target.with_name(f".{target.name[:200]}.")))


def _flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
