# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Cache of compiled kernels: a private folder with one checked file per entry.

Code that is loaded from the cache is executed. Folders and files that another user owns or can
write to are therefore not used, and no part of a file is interpreted before all of it is verified.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

_FILE_HEADER = b"dyn_ros kernel 6\n"
_CHECKSUM_SIZE = hashlib.sha256().digest_size
_MAX_UNUSED_DAYS = 60
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class _NotPrivateError(Exception):
    """Another user could place code in a folder; the message states the reason and a remedy."""


def _owner_name(uid: int) -> str:
    return "root" if uid == 0 else f"user {uid}"


def _require_private(folder: Path) -> None:
    """Raise if another user owns a folder, can write to it, or can replace it.

    Its parent folders may belong to root, and others may be able to write to them if the sticky
    bit is set, as for /tmp.
    """
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    if status.st_uid != os.getuid():
        raise _NotPrivateError(
            f"{folder} belongs to {_owner_name(status.st_uid)}; use a folder of your own"
        )
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise _NotPrivateError(
            f"others can write to {folder}; check its content and run "
            f"`chmod go-w {folder}`, or use another folder"
        )
    for parent in folder.parents:
        status = os.lstat(parent)
        if status.st_uid not in (0, os.getuid()):
            raise _NotPrivateError(
                f"{parent} belongs to {_owner_name(status.st_uid)}, who could replace "
                f"{folder}; use a folder of your own"
            )
        if status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX:
            raise _NotPrivateError(
                f"others can write to {parent} and could replace {folder}; run "
                f"`chmod go-w {parent}`, or use another folder"
            )


def _make_private(folder: Path) -> Path:
    """Create a folder if necessary and return its real path; raises OSError or _NotPrivate."""
    folder = Path(os.path.realpath(folder))
    missing = [parent for parent in (folder, *folder.parents) if not os.path.lexists(parent)]
    for parent in reversed(missing):
        with contextlib.suppress(FileExistsError):  # created by another process
            parent.mkdir(mode=0o700)
    _require_private(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} is not writable")
    return folder


def _candidate_folders() -> Iterator[Path]:
    configured = os.environ.get("DYN_ROS_CACHE_DIR")
    if configured:
        yield Path(configured)
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(user_cache):
        yield Path(user_cache) / "dyn_ros"
    temporary = Path(tempfile.gettempdir()) / f"dyn_ros-{os.getuid()}"
    if not temporary.is_symlink():
        yield temporary


def _private_root() -> Path:
    """Return the first usable folder; one warning names those that are not private."""
    rejected = []
    for candidate in _candidate_folders():
        try:
            root = _make_private(candidate)
            break
        except _NotPrivateError as error:
            rejected.append(str(error))
        except OSError:
            continue
    else:
        root = Path(tempfile.mkdtemp(prefix="dyn_ros-"))
    if rejected:
        warnings.warn(
            f"dyn_ros stores compiled code in {root}: " + "; ".join(rejected),
            RuntimeWarning,
            stacklevel=2,
        )
    return root


def compiler_versions() -> tuple[str, ...]:
    """Return the versions of the compiler, and of Python, on whose bytecode digests depend."""
    import importlib.metadata  # a tenth of the import time of dyn_ros

    packages = []
    for name in ("numba", "llvmlite"):
        try:
            packages.append(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            packages.append("")
    return *packages, sys.implementation.cache_tag


@functools.cache
def cache_folder() -> Path:
    """Return the existing folder of the compiled kernels for these versions of Numba and Python.

    Its parent is ``DYN_ROS_CACHE_DIR`` if set, otherwise ``dyn_ros`` in ``XDG_CACHE_HOME`` or
    ``~/.cache``, or a temporary folder if none of these is writable. A folder that another user
    owns or can write to is not used, and a warning is issued. Entries that were not used for 60
    days are removed.
    """
    digest = hashlib.sha256(repr((_FILE_HEADER, compiler_versions())).encode()).hexdigest()[:16]
    root = _private_root()
    try:
        folder = _make_private(root / f"kernels-{digest}")
    except (OSError, _NotPrivateError) as error:
        folder = Path(tempfile.mkdtemp(prefix="dyn_ros-")) / f"kernels-{digest}"
        folder.mkdir(mode=0o700)
        warnings.warn(
            f"dyn_ros keeps compiled code in {folder}, for this process only: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
    with contextlib.suppress(OSError):
        os.utime(folder)
    for path in (*root.glob("kernels-*"), *folder.iterdir()):
        with contextlib.suppress(OSError):  # another process may remove it too
            if time.time() - path.lstat().st_mtime > _MAX_UNUSED_DAYS * 86400:
                _remove_file(path)
    return folder


def _remove_file(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _content_checksum(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _is_own_file(status: os.stat_result) -> bool:
    """Return True for a regular file that only this user can write."""
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & _WRITABLE_BY_OTHERS
    )


def is_private(path: Path) -> bool:
    """Return True if a file in the cache exists, and no other user can have written it."""
    try:
        _require_private(path.parent)
        return _is_own_file(os.lstat(path))
    except (OSError, _NotPrivateError):
        return False


def read_entry(name: str) -> bytes | None:
    """Return the content of an entry; None if it is missing, damaged or not private."""
    try:
        path = cache_folder() / name
        _require_private(path.parent)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not _is_own_file(os.fstat(descriptor)):
                return None
            file_content = file.read()
    except (OSError, _NotPrivateError):
        return None
    header_size = len(_FILE_HEADER) + _CHECKSUM_SIZE
    header, content = file_content[:header_size], file_content[header_size:]
    if header != _FILE_HEADER + _content_checksum(name, content):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # keeps the entry for another 60 days
    return content


def write_entry(name: str, content: bytes) -> None:
    """Store an entry atomically, replacing an existing one.

    If an OSError is raised, a previous entry may have been removed.
    """
    path = cache_folder() / name
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:40]}-", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(_FILE_HEADER + _content_checksum(name, content) + content)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
