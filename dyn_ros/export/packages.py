# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""CMake and pkg-config packages of a library."""

from __future__ import annotations

from pathlib import Path

from .. import __version__

_INTERFACE = ".".join(__version__.split(".")[:2])
_TEMPLATES = Path(__file__).parent / "templates"


def soname(name: str) -> str:
    """Return the file name of a shared library, with the version of its interface."""
    return f"lib{name}.so.{_INTERFACE}"


def write_packages(lib: Path, name: str) -> None:
    """Write the packages of a library, and the symbolic link that linkers look for.

    The package of CMake has another name than ROS packages, such as dyn_ros with its messages.
    """
    package = f"{name}_library"
    values = {
        "NAME": name,
        "PACKAGE": package,
        "VERSION": __version__,
        "INTERFACE": _INTERFACE,
        "SONAME": soname(name),
    }
    for template, path in (
        ("package.pc", f"pkgconfig/{name}.pc"),
        ("Config.cmake", f"cmake/{package}/{package}Config.cmake"),
        ("ConfigVersion.cmake", f"cmake/{package}/{package}ConfigVersion.cmake"),
    ):
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        (lib / path).parent.mkdir(parents=True, exist_ok=True)
        (lib / path).write_text(text, encoding="utf-8")
    (lib / f"lib{name}.so").symlink_to(soname(name))
