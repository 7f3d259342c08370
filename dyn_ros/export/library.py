# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The library for C and C++: machine code of kernels, linked with the C sources in ``runtime``."""
from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..engine.kernel.compiler import Entry
from ..engine.kernel.emit import TARGETS
from ..engine.kernel.library import best_target
from ..engine.kernel.workers import compile_in_processes
from . import header, packages, sources
from .functions import Function, functions

RUNTIME = Path(__file__).parent / "runtime"
_CROSS = {"aarch64": "aarch64-linux-gnu-"}
_FLAGS = ("-std=c11", "-O2", "-DNDEBUG", "-fPIC", "-fno-math-errno", "-fno-builtin-malloc",
          "-ffunction-sections", "-fdata-sections", "-Wall", "-Wextra")


def export_library(folder: str | os.PathLike[str], names: Sequence[str] | None = None,
                   targets: Sequence[str] | None = None,
                   progress: Callable[[int, int, str], object] | None = None) -> None:
    """Write a library for C and C++, with its headers and packages for CMake and pkg-config.

    It has the same numbers as the functions of Python, for every robot: ``write_model`` writes one
    to a file. Requires a C compiler, for aarch64 a cross compiler.

    Parameters
    ----------
    folder : str or path
        Where to write ``include`` and ``lib``; it is created if necessary.
    names : sequence of str, optional
        The functions, such as ``"rnea"``. Default: all.
    targets : sequence of str, optional
        "x86-64-v2", "x86-64-v3", "x86-64-v4", or "aarch64". Default: this processor. With several,
        the loader of Linux chooses among shared libraries; the static one is for the first.
    progress : callable, optional
        Called as ``progress(done, total, name)`` before a function is compiled.

    Raises
    ------
    ValueError
        An unknown function or target, or targets of different processors (lists the valid ones).
    OSError
        There is no C compiler, or a file cannot be written.
    """
    chosen, levels = functions(names), _levels(targets)
    for level in levels:
        _tool(level, "gcc")                         # before anything is compiled
    _compile([program.one for one in chosen for program in one.algorithm.programs], levels,
             progress)
    out = Path(folder)
    include, lib = out / "include", out / "lib"
    for place in (include, lib):
        place.mkdir(parents=True, exist_ok=True)
    (include / "dyn_ros.h").write_text(header.header(chosen), encoding="utf-8")
    packages.write(out, chosen)
    for level in levels:
        place = lib if level == levels[0] else lib / "glibc-hwcaps" / level
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="dyn_ros-export-") as build:
            _link(chosen, level, Path(build), place, include)
    packages.link(lib / "libdyn_ros.so", packages.SONAME)


def _levels(targets: Sequence[str] | None) -> list[str]:
    """The targets, the one that all processors have first."""
    levels = sorted(set(targets or [best_target()]))
    for level in levels:
        if level not in TARGETS:
            raise ValueError(f"targets: no target {level!r}; available: {', '.join(TARGETS)}")
    if len({TARGETS[level].triple for level in levels}) > 1:
        raise ValueError(f"targets: {' and '.join(levels)} are different processors; export each "
                         "to a folder of its own")
    return levels


def _compile(entries: list[Entry], levels: Sequence[str],
             progress: Callable[[int, int, str], object] | None) -> None:
    """Compile what the cache does not have; errors are raised when it is read."""
    missing = [entry for entry in entries if not all(map(entry.is_cached, levels))]
    begun = iter(range(len(missing)))
    compile_in_processes(missing, targets=levels, starting=lambda entry: progress and progress(
        next(begun, len(missing)), len(missing), entry.name))


def _tool(level: str, name: str) -> list[str]:
    """The command of a compiler or of ``ar`` for a target."""
    is_native = TARGETS[level].triple == TARGETS[best_target()].triple
    prefix = "" if is_native else _CROSS.get(level, "")
    own = os.environ.get("CC", "cc") if name == "gcc" and not prefix else prefix + name
    words = shlex.split(own)
    if not shutil.which(words[0]):
        raise FileNotFoundError(f"{words[0]} is needed to link the library for {level}: install "
                                f"{f'gcc-{prefix}'.removesuffix('-') if prefix else 'gcc'}, or "
                                "set CC")
    return words


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{shlex.join(command)[:200]} failed: {done.stderr[-2000:]}")


def _link(chosen: list[Function], level: str, build: Path, out: Path, include: Path) -> None:
    """Compile the C sources, and link everything for a target."""
    (build / "layout.h").write_text(sources.layout_header())
    (build / "functions.c").write_text(sources.functions_source(chosen))
    objects = []
    for one in chosen:
        for program in one.algorithm.programs:
            objects.append(build / f"{program.one.symbol}.o")
            objects[-1].write_bytes(program.one.code_for(level))
    for source in (*sorted(RUNTIME.glob("*.c")), build / "functions.c"):
        objects.append(build / f"{source.stem}.o")
        _run([*_tool(level, "gcc"), *_FLAGS, f"-I{build}", f"-I{include}", f"-I{RUNTIME}", "-c",
              str(source), "-o", str(objects[-1])])
    paths = list(map(str, objects))
    visible = re.findall(r"\b(dyn_ros_\w+)\(", (include / "dyn_ros.h").read_text())
    script = build / "symbols"
    script.write_text(f"{{ global: {'; '.join(dict.fromkeys(visible))}; local: *; }};\n")
    _run([*_tool(level, "gcc"), "-shared", "-nostdlib", f"-Wl,-soname,{packages.SONAME}",
          f"-Wl,--version-script={script}", "-Wl,--gc-sections", "-Wl,-z,relro,-z,now",
          "-o", str(out / packages.SONAME), *paths, "-lc"])
    (out / "libdyn_ros.a").unlink(missing_ok=True)
    _run([*_tool(level, "ar"), "rcsD", str(out / "libdyn_ros.a"), *paths])
