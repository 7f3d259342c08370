# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The library of machine code that is installed with the package, and how it is chosen.

``DYN_ROS_LIBRARY`` names another folder with a library, or none: ``none``.
"""

import functools
import hashlib
import json
import os
import platform
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from .extension import native
from .targets import best_target, no_higher

FILE = "libdyn_ros.so"
MANIFEST = "library.json"
_PACKAGE = Path(__file__).parents[2]
_FOLDERS = ("cdr", "engine", "logs", "observer", "states")
_REMEDY = "install dyn_ros again, or set DYN_ROS_LIBRARY to none"


class _Library:
    """The manifest of a library, and its code once it is needed."""

    def __init__(self, folder: Path, target: str) -> None:
        self.target, self._path = target, folder / target / FILE
        self.manifest = _read_manifest(folder / target / MANIFEST)

    @functools.cached_property
    def is_current(self) -> bool:
        """Whether it was built from these sources; otherwise some of its code may be."""
        return self.manifest["sources"] == digest_of_sources()

    @functools.cached_property
    def code(self) -> Any:
        try:
            return open_library(self._path)
        except OSError as error:
            raise ImportError(f"{error}; {_REMEDY}") from None


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ImportError(f"{path}: cannot be read: {error}; {_REMEDY}") from None
    parts = {"sources": str, "entries": dict, "programs": dict}
    if not isinstance(manifest, dict) or not all(
        isinstance(manifest.get(name), kind) for name, kind in parts.items()
    ):
        raise ImportError(f"{path}: expected {', '.join(parts)}; {_REMEDY}")
    return manifest


def open_library(path: str | os.PathLike[str]) -> Any:
    """Open a shared library, for good; OSError if it cannot be loaded.

    The loader of Linux does not notice that a file is incomplete, or replaced after it was loaded.
    """
    place = os.path.realpath(path)  # otherwise the loader may search in other folders
    if not os.path.isfile(place):
        raise FileNotFoundError(f"{os.fspath(path)}: there is no such file")
    with open(place, "rb") as file:
        status, is_whole = os.fstat(file.fileno()), _is_whole(file)
    state = status.st_ino, status.st_mtime_ns, status.st_size
    if not is_whole:
        raise OSError(f"{os.fspath(path)}: the file is incomplete; write it again")
    if _opened.setdefault(place, state) != state:
        raise OSError(
            f"{os.fspath(path)}: the file has changed since it was loaded; write it to "
            "another file, or start this program again"
        )
    try:
        return native().open_library(place)
    except OSError as error:
        del _opened[place]
        raise OSError(
            f"{os.fspath(path)}: no shared library for this machine ({platform.machine()}): {error}"
        ) from None


_opened: dict[str, tuple[int, ...]] = {}  # files, as they were


def _is_whole(file: BinaryIO) -> bool:
    """Whether a file has all that must be loaded according to its ELF header (of 64 bits)."""
    header = file.read(64)
    if len(header) < 64 or header[:6] != b"\x7fELF\2\1":
        return True  # the loader says what is wrong
    (start,), (size, count) = (
        struct.unpack_from(form, header, place) for form, place in (("<Q", 32), ("<2H", 54))
    )
    end = file.seek(0, os.SEEK_END)
    if size < 56 or start + size * count > end:
        return False
    file.seek(start)
    segments = file.read(size * count)
    return all(sum(struct.unpack_from("<8xQ16xQ", segments, n * size)) <= end for n in range(count))


@functools.cache
def _installed() -> _Library | None:
    chosen = os.environ.get("DYN_ROS_LIBRARY", "")
    if chosen == "none":
        return None
    folder = Path(chosen) if chosen else _PACKAGE / "library"
    for target in no_higher(best_target()):
        if os.path.isfile(folder / target / FILE):
            return _Library(folder, target)
    if chosen:
        raise FileNotFoundError(
            f"DYN_ROS_LIBRARY: {chosen} has no {FILE} for this processor "
            f"({best_target()}); set it to a folder that has, or to none"
        )
    return None


def target() -> str:
    """The target of the machine code in this process: the library's, or the best one."""
    library = _installed()
    return library.target if library else best_target()


def require_runnable() -> None:
    """Raise an error if this processor cannot run the code of ``target()``."""
    level = native().level()
    if target() and target() not in no_higher(level):
        raise RuntimeError(
            f"DYN_ROS_TARGET: this processor ({level}) cannot run code for "
            f"{target()}; unset it, or set it to an earlier level"
        )


@functools.cache
def digest_of_sources() -> str:
    """Digest of the sources that machine code can depend on."""
    sha = hashlib.sha256()
    for folder in _FOLDERS:
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            sha.update(f"{path.relative_to(_PACKAGE)}\0".encode() + path.read_bytes() + b"\0")
    return sha.hexdigest()


def address(name: str, symbol: str, digest: Callable[[], str | None]) -> int:
    """Address of an entry's code, or 0 if the library does not have it as it would be compiled."""
    library = _installed()
    if library is None or name not in library.manifest["entries"]:
        return 0
    if not library.is_current and library.manifest["entries"][name] != digest():
        return 0
    return library.code.address(symbol)


def program(name: str) -> Any:
    """The description of a program, or None if the library has no current one."""
    library = _installed()
    if library is None or not library.is_current:
        return None
    return library.manifest["programs"].get(name)
