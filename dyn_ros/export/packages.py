# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The packages for CMake and pkg-config, and the header for C++."""
from __future__ import annotations

from pathlib import Path

from .. import __version__
from . import cpp_header
from .functions import Function

_INTERFACE = ".".join(__version__.split(".")[:2])
SONAME = f"libdyn_ros.so.{_INTERFACE}"
_TEMPLATES = Path(__file__).parent / "templates"


def write(out: Path, chosen: list[Function]) -> None:
    """Write everything but libraries and the header for C."""
    (out / "include" / "dyn_ros.hpp").write_text(cpp_header.header(chosen), encoding="utf-8")
    for template, place in (("dyn_ros.pc", "lib/pkgconfig"),
                            ("dyn_rosConfig.cmake", "lib/cmake/dyn_ros"),
                            ("dyn_rosConfigVersion.cmake", "lib/cmake/dyn_ros")):
        folder = out / place
        folder.mkdir(parents=True, exist_ok=True)
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        for name, value in (("VERSION", __version__), ("INTERFACE", _INTERFACE),
                            ("SONAME", SONAME)):
            text = text.replace(f"@{name}@", value)
        (folder / template).write_text(text, encoding="utf-8")


def link(path: Path, target: str) -> None:
    """Make a symbolic link, or replace it."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)
