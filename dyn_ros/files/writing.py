# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that exist completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def write_whole_file(path: str | PathLike[str], create_folder: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write that appears under its name once it is complete and on the disk.

    Until then it is named ``.NAME.xxxxxxxx.tmp``, which readers of a folder ignore. After an error
    it is removed, and a previous file of that name remains. A link is followed. A device or a pipe,
    such as ``/dev/stdout``, is written to directly. An OSError names ``path``.

    With ``create_folder``, missing folders are created; after an error, they are removed.
    """
    target = Path(os.path.realpath(path))
    with _name_in_errors(path, target):
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                yield file
            return
        folder = _created_folder(target.parent) if create_folder else contextlib.nullcontext()
        with folder, _replacement(target) as temporary, open(temporary, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())


def write_whole_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, completely or not at all, as `write_whole_file` does."""
    with write_whole_file(path) as file:
        file.write(text.encode())


def write_whole_files(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: all of them are complete before the first one appears."""
    with contextlib.ExitStack() as stack:
        for path, content in contents.items():
            file = stack.enter_context(write_whole_file(path))
            file.write(content)
            file.flush()


def install_files(source: Path, folder: Path) -> None:
    """Copy the files and links below ``source`` to the same places below ``folder``.

    All of them are complete before the first one appears. Programs that use a file that is replaced
    keep it. An OSError names the file below ``folder``.
    """
    with contextlib.ExitStack() as stack:
        for path in sorted(source.rglob("*")):
            if path.is_symlink() or path.is_file():
                target = folder / path.relative_to(source)
                stack.enter_context(_name_in_errors(target, target))
                stack.enter_context(_created_folder(target.parent))
                temporary = stack.enter_context(_replacement(target))
                _copy_file(path, temporary)


@contextlib.contextmanager
def _name_in_errors(path: str | PathLike[str], target: Path) -> Iterator[None]:
    """Raise OSErrors of the temporary file of ``target``, or of no file, with the name ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not _is_temporary(error.filename, target):
            raise
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


@contextlib.contextmanager
def _replacement(target: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces ``target`` at the end of the block.

    After an error, it is removed.
    """
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)


@contextlib.contextmanager
def _created_folder(folder: Path) -> Iterator[None]:
    """Create a folder and those above it; after an error in the block, remove them if empty."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in missing:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _is_temporary(name: str | bytes, target: Path) -> bool:
    """Return True if an error names the temporary file of ``target``."""
    return os.fsdecode(name).startswith(os.fspath(target.with_name(f".{target.name[:200]}.")))


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file with its permissions, or a link, to the disk."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    with open(target, "wb") as file:
        os.fchmod(file.fileno(), stat.S_IMODE(source.stat().st_mode))
        file.write(source.read_bytes())
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
