# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The library of machine code that is installed with the package, and how it is chosen.

``DYN_ROS_LIBRARY`` names another folder with a library, or none: ``none``.
"""
import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .extension import native

FILE = "libdyn_ros.so"
MANIFEST = "library.json"
_PACKAGE = Path(__file__).parents[2]
_FOLDERS = ("cdr", "engine", "logs", "observer", "states")
_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")


@functools.cache
def best_target() -> str:
    """The target of machine code for this processor."""
    return native().level()


class _Library:
    """The manifest of a library, and its code once it is needed."""

    def __init__(self, folder: Path, target: str) -> None:
        self._path = folder / target / FILE
        self.manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())

    @functools.cached_property
    def is_current(self) -> bool:
        """Whether it was built from these sources; otherwise some of its code may be."""
        return self.manifest["sources"] == digest_of_sources()

    @functools.cached_property
    def code(self) -> Any:
        return native().open_library(str(self._path))


@functools.cache
def _installed() -> _Library | None:
    chosen = os.environ.get("DYN_ROS_LIBRARY", "")
    if chosen == "none":
        return None
    folder = Path(chosen) if chosen else _PACKAGE / "library"
    targets = _LEVELS[_LEVELS.index(best_target()):] if best_target() in _LEVELS else (
        best_target(),)
    for target in targets:
        if (folder / target / FILE).exists():
            return _Library(folder, target)
    if chosen:
        raise FileNotFoundError(f"DYN_ROS_LIBRARY: {chosen} has no {FILE} for this processor "
                                f"({best_target()}); set it to a folder that has, or to none")
    return None


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
