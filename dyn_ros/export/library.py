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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..engine.kernel.names import listed
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.targets import TARGETS, best_target
from ..engine.machine_code.workers import compile_in_processes
from . import cpp_header, header, packages, sources
from .functions import functions

try:
    from ..engine.machine_code import emit  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'to export functions, install the compiler with `pip install "dyn_ros[compiler]"`',
        name=error.name,
    ) from None

RUNTIME = Path(__file__).parent / "runtime"
_CROSS = {"aarch64": "aarch64-linux-gnu-"}
# Some compilers protect the stack by default, with functions of the C library.
_FLAGS = (
    "-std=c11",
    "-O2",
    "-DNDEBUG",
    "-fPIC",
    "-fno-math-errno",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wall",
    "-Wextra",
)


def export_library(
    folder: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> None:
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
    chosen, levels = functions(names), checked_targets(targets)
    compile_entries(
        [program.one for one in chosen for program in one.algorithm.programs], levels, progress
    )
    headers = {"dyn_ros.h": header.header(chosen), "dyn_ros.hpp": cpp_header.header(chosen)}
    generated = {
        "layout.h": sources.layout_header(),
        "functions.c": sources.functions_source(chosen),
    }

    def objects(level: str) -> dict[str, bytes]:
        return {
            program.one.symbol: program.one.code_for(level)
            for one in chosen
            for program in one.algorithm.programs
        }

    link(Path(folder), "dyn_ros", levels, objects, headers, generated, sorted(RUNTIME.glob("*.c")))


def checked_targets(targets: Sequence[str] | None) -> list[str]:
    """The targets, the one that all processors have first; there is a compiler for them."""
    levels = sorted(set(targets or [best_target()]))
    for level in levels:
        if level not in TARGETS:
            raise ValueError(f"targets: no target {level!r}; available: {listed(TARGETS)}")
    if len({TARGETS[level].triple for level in levels}) > 1:
        raise ValueError(
            f"targets: {' and '.join(levels)} are different processors; export each "
            "to a folder of its own"
        )
    for level in levels:
        _tool(level, "gcc")
        _tool(level, "ar")
    return levels


def compile_entries(
    entries: list[Entry], levels: Sequence[str], progress: Callable[[int, int, str], object] | None
) -> None:
    """Compile what the cache does not have; errors are raised when it is read."""
    missing = [entry for entry in entries if not all(map(entry.is_cached, levels))]
    begun = iter(range(len(missing)))
    compile_in_processes(
        missing,
        targets=levels,
        starting=lambda entry: (
            progress and progress(next(begun, len(missing)), len(missing), entry.name)
        ),
    )


def _tool(level: str, name: str) -> list[str]:
    """The command of a compiler or of ``ar`` for a target."""
    is_native = TARGETS[level].triple == TARGETS[best_target()].triple
    prefix = "" if is_native else _CROSS.get(level, "")
    is_own = name == "gcc" and not prefix
    words = shlex.split(os.environ.get("CC", "")) or ["cc"] if is_own else [prefix + name]
    if not shutil.which(words[0]):
        package = f"gcc-{prefix}".removesuffix("-") if prefix else "gcc"
        raise FileNotFoundError(
            f"{words[0]} is needed to link the library for {level}: install "
            f"{package}{', or set CC' * is_own}"
        )
    return words


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{shlex.join(command)[:200]} failed: {done.stderr[-2000:]}")


def link(
    folder: Path,
    name: str,
    levels: Sequence[str],
    objects: Callable[[str], Mapping[str, bytes]],
    headers: Mapping[str, str],
    generated: Mapping[str, str],
    fixed: Sequence[Path] = (),
    hidden_from_c: Sequence[str] = (),
) -> None:
    """Write a library to a folder: one for each target, its headers and its packages.

    ``objects`` returns the objects of a target by symbol; ``generated`` and ``fixed`` are sources;
    ``hidden_from_c`` are symbols that the library exports, but the header NAME.h does not have.
    """
    visible = [*re.findall(rf"\b({name}_\w+)(?:\(|;)", headers[f"{name}.h"]), *hidden_from_c]
    exported = f"{{ global: {'; '.join(dict.fromkeys(visible))}; local: *; }};\n"
    with tempfile.TemporaryDirectory(prefix="dyn_ros-export-") as temporary:
        result = Path(temporary) / "result"
        _write(result / "include", headers)
        for level in levels:
            build = Path(temporary) / level
            _write(build, {**generated, "symbols": exported})
            for symbol, content in objects(level).items():
                (build / f"{symbol}.o").write_bytes(content)
            for source in (*fixed, *(build / file for file in generated if file.endswith(".c"))):
                _run(
                    [
                        *_tool(level, "gcc"),
                        *_FLAGS,
                        f"-I{build}",
                        f"-I{result / 'include'}",
                        f"-I{RUNTIME}",
                        "-c",
                        str(source),
                        "-o",
                        str(build / f"{source.stem}.o"),
                    ]
                )
            place = result / "lib"
            _link_objects(
                level, place if level == levels[0] else place / "glibc-hwcaps" / level, name, build
            )
        packages.write(result / "lib", name)
        for old in folder.glob(f"lib/glibc-hwcaps/*/lib{name}.*"):  # the loader prefers them
            old.unlink()
        _install(result, folder)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _install(result: Path, folder: Path) -> None:
    """Copy files to a folder; programs that use a library in it keep the old one."""
    for path in sorted(result.rglob("*")):
        target = folder / path.relative_to(result)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.unlink(missing_ok=True)
            shutil.copy(path, target, follow_symlinks=False)


def _link_objects(level: str, place: Path, name: str, build: Path) -> None:
    """Link the objects in a folder to a shared and to a static library."""
    objects = sorted(map(str, build.glob("*.o")))
    place.mkdir(parents=True, exist_ok=True)
    soname = packages.soname(name)
    needs = [f"-Wl,-z,{level}"] if level.startswith("x86") else []  # the loader refuses others
    _run(
        [
            *_tool(level, "gcc"),
            "-shared",
            "-nostdlib",
            *needs,
            f"-Wl,-soname,{soname}",
            f"-Wl,--version-script={build / 'symbols'}",
            "-Wl,--gc-sections",
            "-Wl,-z,relro,-z,now",
            "-o",
            str(place / soname),
            *objects,
            "-lc",
        ]
    )
    _run([*_tool(level, "ar"), "rcsD", str(place / f"lib{name}.a"), *objects])
