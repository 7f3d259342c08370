# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Library for C and C++: machine code of kernels, linked with the C sources in ``runtime``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..engine.kernel.names import join_names
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.extension import native
from ..engine.machine_code.targets import TARGETS, best_target, same_architecture
from ..engine.machine_code.workers import compile_in_processes
from ..files.writing import install_files
from . import c_header, c_sources, cpp_header, packages
from .functions import find_functions

try:
    from ..engine.machine_code import emit  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'to export functions, install the compiler with `pip install "dyn_ros[compiler]"`',
        name=error.name,
    ) from None

RUNTIME = Path(__file__).parent / "runtime"
_CROSS_COMPILER_PREFIXES = {"aarch64": "aarch64-linux-gnu-"}
# Without stack protection and fortification, which need functions of the C library.
_COMPILER_FLAGS = (
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
    functions, target_names = find_functions(names), resolve_targets(targets)
    entries = [program.one for function in functions for program in function.algorithm.programs]
    compile_entries(entries, target_names, progress)
    headers = {
        "dyn_ros.h": c_header.c_header_text(functions),
        "dyn_ros.hpp": cpp_header.cpp_header_text(functions),
    }
    generated = {
        "layout.h": c_sources.layout_header(),
        "functions.c": c_sources.functions_source(functions),
    }

    def compiled_objects(target: str) -> dict[str, bytes]:
        return {entry.symbol: entry.code_for(target) for entry in entries}

    runtime_sources = sorted(RUNTIME.glob("*.c"))
    link_library(
        Path(folder), "dyn_ros", target_names, compiled_objects, headers, generated, runtime_sources
    )


def resolve_targets(targets: Sequence[str] | None) -> list[str]:
    """Return the names of targets, the most compatible first; by default, this processor.

    Raise a ValueError if one is unknown or if they are of different processors, and a
    FileNotFoundError without a compiler.
    """
    target_names = sorted(set(targets or [best_target()]))
    for target in target_names:
        if target not in TARGETS:
            raise ValueError(f"targets: no target {target!r}; available: {join_names(TARGETS)}")
    if len({TARGETS[target].triple for target in target_names}) > 1:
        raise ValueError(
            f"targets: {' and '.join(target_names)} are different processors; export each "
            "to a folder of its own"
        )
    for target in target_names:
        _tool_command(target, "gcc")
        _tool_command(target, "ar")
    return target_names


def compile_entries(
    entries: list[Entry],
    target_names: Sequence[str],
    progress: Callable[[int, int, str], object] | None,
) -> None:
    """Compile the entries that are not cached; errors are raised when their code is read."""
    missing = [entry for entry in entries if not all(map(entry.is_cached, target_names))]
    indices = iter(range(len(missing)))

    def report_progress(entry: Entry) -> None:
        """Call `progress` before an entry is compiled."""
        if progress:
            progress(next(indices, len(missing)), len(missing), entry.name)

    compile_in_processes(missing, targets=target_names, starting=report_progress)


def _tool_command(target: str, name: str) -> list[str]:
    """Return the command of "gcc" or "ar" for a target; raise a FileNotFoundError without it."""
    is_native = target in same_architecture(native().level())  # whatever DYN_ROS_TARGET names
    prefix = "" if is_native else _CROSS_COMPILER_PREFIXES.get(target, "")
    is_native_compiler = name == "gcc" and not prefix
    words = [prefix + name]
    if is_native_compiler:
        words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if not shutil.which(words[0]):
        package = f"gcc-{prefix}".removesuffix("-") if prefix else "gcc"
        raise FileNotFoundError(
            f"{words[0]} is needed to link the library for {target}: install "
            f"{package}{', or set CC' * is_native_compiler}"
        )
    return words


def run_command(command: Sequence[str]) -> None:
    """Run a command; raise an OSError with its error output if it fails."""
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise OSError(f"{shlex.join(command)[:200]} failed: {process.stderr[-2000:]}")


def link_library(
    folder: Path,
    name: str,
    target_names: Sequence[str],
    objects_of_target: Callable[[str], Mapping[str, bytes]],
    headers: Mapping[str, str],
    generated: Mapping[str, str],
    sources: Sequence[Path] = (),
    hidden_from_c: Sequence[str] = (),
) -> None:
    """Write a library to a folder: one for each target, its headers and its packages.

    ``objects_of_target`` returns the objects of a target by symbol. ``generated`` are the texts of
    generated sources by file name, ``sources`` the paths of others. ``hidden_from_c`` are symbols
    that the library exports, but the header NAME.h does not declare.
    """
    declared = re.findall(rf"\b({name}_\w+)(?:\(|;)", headers[f"{name}.h"])
    symbols = "; ".join(dict.fromkeys([*declared, *hidden_from_c]))
    version_script = f"{{ global: {symbols}; local: *; }};\n"
    with tempfile.TemporaryDirectory(prefix="dyn_ros-export-") as temporary:
        result = Path(temporary) / "result"
        write_texts(result / "include", headers)
        for target in target_names:
            build = Path(temporary) / target
            write_texts(build, {**generated, "symbols": version_script})
            for symbol, content in objects_of_target(target).items():
                (build / f"{symbol}.o").write_bytes(content)
            generated_sources = [build / file for file in generated if file.endswith(".c")]
            for source in (*sources, *generated_sources):
                run_command(
                    [
                        *_tool_command(target, "gcc"),
                        *_COMPILER_FLAGS,
                        f"-I{build}",
                        f"-I{result / 'include'}",
                        f"-I{RUNTIME}",
                        "-c",
                        str(source),
                        "-o",
                        str(build / f"{source.stem}.o"),
                    ]
                )
            lib = result / "lib"
            if target != target_names[0]:
                lib = lib / "glibc-hwcaps" / target
            _link_objects(target, lib, name, build)
        packages.write_packages(result / "lib", name)
        install_files(result, folder)
        # The loader would prefer these libraries of a former export.
        for path in folder.glob(f"lib/glibc-hwcaps/*/lib{name}.*"):
            if not (result / path.relative_to(folder)).exists():
                path.unlink()


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Create a folder and write files, texts by file name."""
    folder.mkdir(parents=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _link_objects(target: str, lib: Path, name: str, build: Path) -> None:
    """Link the objects in a folder to a shared and to a static library."""
    objects = sorted(map(str, build.glob("*.o")))
    lib.mkdir(parents=True, exist_ok=True)
    soname = packages.soname(name)
    # The loader refuses the library on processors that lack instructions of the target.
    target_flags = [f"-Wl,-z,{target}"] if target.startswith("x86") else []
    run_command(
        [
            *_tool_command(target, "gcc"),
            "-shared",
            "-nostdlib",
            *target_flags,
            f"-Wl,-soname,{soname}",
            f"-Wl,--version-script={build / 'symbols'}",
            "-Wl,--gc-sections",
            "-Wl,-z,relro,-z,now",
            "-o",
            str(lib / soname),
            *objects,
            "-lc",
        ]
    )
    run_command([*_tool_command(target, "ar"), "rcsD", str(lib / f"lib{name}.a"), *objects])
