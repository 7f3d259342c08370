# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The library of machine code that is installed with the package, and how it is chosen.

``DYN_ROS_LIBRARY`` names another folder with a library, or none: ``none``.
"""
import functools
import json
import os
from pathlib import Path
from typing import Any

from .extension import native

FILE = "libdyn_ros.so"
MANIFEST = "library.json"
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
    def code(self) -> Any:
        return native().open_library(str(self._path))


@functools.cache
def _installed() -> _Library | None:
    chosen = os.environ.get("DYN_ROS_LIBRARY", "")
    if chosen == "none":
        return None
    folder = Path(chosen) if chosen else Path(__file__).parents[2] / "library"
    targets = _LEVELS[_LEVELS.index(best_target()):] if best_target() in _LEVELS else (
        best_target(),)
    for target in targets:
        if (folder / target / FILE).exists():
            return _Library(folder, target)
    if chosen:
        raise FileNotFoundError(f"DYN_ROS_LIBRARY: {chosen} has no {FILE} for this processor "
                                f"({best_target()}); set it to a folder that has, or to none")
    return None


def address(name: str, symbol: str, digest: str | None) -> int:
    """Address of an entry's code, or 0 if the library does not have it as it would be compiled."""
    library = _installed()
    if library is None or library.manifest["entries"].get(name) != digest:
        return 0
    return library.code.address(symbol)
