# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Library of machine code that is installed with the package, and its selection.

``DYN_ROS_LIBRARY`` names another folder with a library; with ``none``, no library is used.
"""

import functools
import hashlib
import os
import platform
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ...files.json_text import load_json
from ...files.reading import open_regular_file, read_regular_file
from .extension import native
from .targets import best_target, no_higher

FILE = "libdyn_ros.so"
MANIFEST = "library.json"
_PACKAGE = Path(__file__).parents[2]
_FOLDERS = ("cdr", "engine", "logs", "observer", "states")
_MAX_MANIFEST_SIZE = 10_000_000  # bytes; it has 30,000
_REMEDY = "install dyn_ros again, or set DYN_ROS_LIBRARY to none"


class _InstalledLibrary:
    """Manifest of a library, and its code, which is loaded on first access."""

    def __init__(self, folder: Path, target: str) -> None:
        self.target, self._path = target, folder / target / FILE
        self.manifest = _read_manifest(folder / target / MANIFEST)

    @functools.cached_property
    def is_current(self) -> bool:
        """True if it was built from these sources; otherwise, entries are compared one by one."""
        return self.manifest["sources"] == digest_of_sources()

    @functools.cached_property
    def code(self) -> Any:
        try:
            if checksum_of_file(self._path) != self.manifest["checksum"]:
                raise OSError(f"{self._path}: the file is damaged")
            return open_library(self._path)
        except OSError as error:
            raise ImportError(f"{error}; {_REMEDY}") from None


def checksum_of_file(path: Path) -> str:
    """Return the SHA-256 checksum of a library. The loader would run damaged code."""
    with open_regular_file(path) as file:
        return hashlib.sha256(file.read()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = load_json(read_regular_file(path, _MAX_MANIFEST_SIZE))
    except (OSError, ValueError) as error:
        raise ImportError(f"{path}: cannot be read: {error}; {_REMEDY}") from None
    fields = {"sources": str, "entries": dict, "programs": dict, "checksum": str}
    if not isinstance(manifest, dict) or not all(
        isinstance(manifest.get(name), kind) for name, kind in fields.items()
    ):
        raise ImportError(f"{path}: expected {', '.join(fields)}; {_REMEDY}")
    return manifest


def open_library(path: str | os.PathLike[str]) -> Any:
    """Open a shared library, which stays loaded; raise an OSError if it cannot be loaded.

    The loader of Linux does not notice that a file is incomplete, or replaced after it was loaded.
    """
    real_path = os.path.realpath(path)  # otherwise the loader may search in other folders
    if not os.path.isfile(real_path):
        raise FileNotFoundError(f"{os.fspath(path)}: there is no such file")
    with open(real_path, "rb") as file:
        status, is_complete = os.fstat(file.fileno()), _is_complete(file)
    version = status.st_ino, status.st_mtime_ns, status.st_size
    if not is_complete:
        raise OSError(f"{os.fspath(path)}: the file is incomplete; write it again")
    if _opened_files.setdefault(real_path, version) != version:
        raise OSError(
            f"{os.fspath(path)}: the file has changed since it was loaded; write it to "
            "another file, or start this program again"
        )
    try:
        return native().open_library(real_path)
    except OSError as error:
        del _opened_files[real_path]
        raise OSError(
            f"{os.fspath(path)}: no shared library for this machine ({platform.machine()}): {error}"
        ) from None


_opened_files: dict[str, tuple[int, ...]] = {}  # path -> inode, time and size of the loaded file


def _is_complete(file: BinaryIO) -> bool:
    """Return True if a file has all segments that its ELF header (of 64 bits) declares."""
    header = file.read(64)
    if len(header) < 64 or header[:6] != b"\x7fELF\2\1":
        return True  # the loader reports the reason
    (start,), (size, count) = (
        struct.unpack_from(form, header, position) for form, position in (("<Q", 32), ("<2H", 54))
    )
    end = file.seek(0, os.SEEK_END)
    if size < 56 or start + size * count > end:
        return False
    file.seek(start)
    segments = file.read(size * count)
    return all(sum(struct.unpack_from("<8xQ16xQ", segments, n * size)) <= end for n in range(count))


@functools.cache
def _installed_library() -> _InstalledLibrary | None:
    configured = os.environ.get("DYN_ROS_LIBRARY", "")
    if configured == "none":
        return None
    folder = Path(configured) if configured else _PACKAGE / "library"
    for target in no_higher(best_target()):
        if os.path.isfile(folder / target / FILE):
            return _InstalledLibrary(folder, target)
    if configured:
        raise FileNotFoundError(
            f"DYN_ROS_LIBRARY: {configured} has no {FILE} for this processor "
            f"({best_target()}); set it to a folder that has, or to none"
        )
    return None


def target() -> str:
    """Return the target of the machine code in this process: the library's, or the best one."""
    library = _installed_library()
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
    """Return the digest of the sources that machine code can depend on."""
    sha = hashlib.sha256()
    for folder in _FOLDERS:
        for path in sorted((_PACKAGE / folder).rglob("*.py")):
            sha.update(f"{path.relative_to(_PACKAGE)}\0".encode() + path.read_bytes() + b"\0")
    return sha.hexdigest()


def code_address(name: str, symbol: str, digest_for: Callable[[str], str | None]) -> int:
    """Return the address of an entry's code; 0 if the library has none, or another version."""
    library = _installed_library()
    if library is None or name not in library.manifest["entries"]:
        return 0
    if not library.is_current and library.manifest["entries"][name] != digest_for(library.target):
        return 0
    return library.code.address(symbol)


def program_description(name: str) -> Any:
    """Return the description of a program, or None if the library has no current one."""
    library = _installed_library()
    if library is None or not library.is_current:
        return None
    return library.manifest["programs"].get(name)
