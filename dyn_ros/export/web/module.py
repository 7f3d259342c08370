# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""WebAssembly module: machine code of kernels, linked with the C sources of the library."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ...engine.kernel.names import join_names
from ...engine.machine_code.targets import WEB_TARGETS
from ...files.writing import install_files
from .. import c_header, c_sources
from ..c_library import RUNTIME, compile_entries, run_command, write_texts
from ..functions import find_functions
from .javascript_module import module_texts

WEB_RUNTIME = Path(__file__).parent / "runtime"
_COMPILER_FLAGS = (
    "-std=c11",
    "-Os",
    "-DNDEBUG",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-math-errno",
    "-fno-stack-protector",
    "-mbulk-memory",
    "-Wall",
    "-Wextra",
)
_STACK_SIZE = 65536  # bytes; calls of all functions need less than 4096
# The members of C structures that JavaScript reads and writes.
MEMBERS = {
    "model": (
        "nq nv njoints nframes ncolumns checks lower upper velocity_limit effort_limit damping "
        "friction gravity armature"
    ),
    "joint": "name parent frame idx_q idx_v nq nv",
    "frame": "name joint is_link",
    "contact": "frame dimension reference_frame other placement other_placement kp kd",
    "contact_settings": "damping max_iterations residual restitution",
    "contacts": "rows",
    "constraints": "rows",
}


def export_web_module(
    folder: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    target: str = "wasm32",
    progress: Callable[[int, int, str], object] | None = None,
) -> None:
    """Write a WebAssembly module, and an ES module with types whose functions call it.

    It has the numbers of the library for x86-64-v2, bit for bit, for every robot. Requires clang
    and wasm-ld, or the Python package ziglang.

    Parameters
    ----------
    folder : str or path
        Where to write ``dyn_ros.wasm``, ``dyn_ros.mjs`` and so on; it is created if necessary.
    names : sequence of str, optional
        The functions, such as ``"rnea"``. Default: all.
    target : str
        "wasm32", or "wasm32-without-simd" for browsers of before 2023.
    progress : callable, optional
        Called as ``progress(done, total, name)`` before a function is compiled.

    Raises
    ------
    ValueError
        An unknown function or target (lists the valid ones).
    OSError
        There is no compiler or linker, or a file cannot be written.
    """
    functions = find_functions(names)
    if target not in WEB_TARGETS:
        raise ValueError(f"target: no target {target!r}; available: {join_names(WEB_TARGETS)}")
    compiler, linker = find_tools()
    entries = [program.one for function in functions for program in function.algorithm.programs]
    compile_entries(entries, [target], progress)
    header = c_header.c_header_text(functions)
    with tempfile.TemporaryDirectory(prefix="dyn_ros-export-") as temporary:
        build, result = Path(temporary) / "build", Path(temporary) / "result"
        generated = {
            "dyn_ros.h": header,
            "layout.h": c_sources.layout_header(),
            "functions.c": c_sources.functions_source(functions),
            "members.c": _members_source(),
        }
        write_texts(build, generated)
        for entry in entries:
            (build / f"{entry.symbol}.o").write_bytes(entry.code_for(target))
        sources = [*RUNTIME.glob("*.c"), *WEB_RUNTIME.glob("*.c"), *build.glob("*.c")]
        has_simd = "+simd128" in WEB_TARGETS[target].features
        for source in sorted(sources):
            run_command(
                [
                    *compiler,
                    *_COMPILER_FLAGS,
                    "-msimd128" if has_simd else "-mno-simd128",
                    f"-I{build}",
                    f"-I{RUNTIME}",
                    f"-I{WEB_RUNTIME / 'include'}",
                    "-c",
                    str(source),
                    "-o",
                    str(build / f"{source.stem}.o"),
                ]
            )
        write_texts(result, module_texts(functions, MEMBERS))
        _link(linker, build, _exported_symbols(header), result / "dyn_ros.wasm")
        install_files(result, Path(folder))


def find_tools() -> tuple[list[str], list[str]]:
    """Return the commands of the compiler and of the linker; raise a FileNotFoundError without."""
    if shutil.which("clang") and shutil.which("wasm-ld"):
        return ["clang", "--target=wasm32-unknown-unknown"], ["wasm-ld"]
    if importlib.util.find_spec("ziglang"):
        zig = [sys.executable, "-m", "ziglang"]
        return [*zig, "cc", "-target", "wasm32-freestanding"], [*zig, "wasm-ld"]
    raise FileNotFoundError(
        "clang and wasm-ld are needed to link for WebAssembly: install clang and lld (on Debian "
        "and Ubuntu: sudo apt install clang lld), or run `pip install ziglang`"
    )


def _members_source() -> str:
    """Return the C source of the sizes of structures and the offsets of their members."""
    numbers = []
    for structure, members in MEMBERS.items():
        numbers.append(f"sizeof(dyn_ros_{structure})")
        numbers += [f"offsetof(dyn_ros_{structure}, {member})" for member in members.split()]
    lines = "".join(f"  (int){number},\n" for number in numbers)
    return f'#include "runtime.h"\n\nconst int dyn_ros_members[] = {{\n{lines}}};\n'


def _exported_symbols(header: str) -> list[str]:
    """Return what JavaScript can access: the functions of the header and the offsets."""
    declared = set(re.findall(r"\b(dyn_ros_\w+)\(", header)) - {"dyn_ros_read_file"}
    return [*sorted(declared), "dyn_ros_members", "__heap_base"]


def _link(linker: Sequence[str], build: Path, symbols: Sequence[str], path: Path) -> None:
    """Link all objects of a folder to a module."""
    run_command(
        [
            *linker,
            "--no-entry",
            "--stack-first",
            "-z",
            f"stack-size={_STACK_SIZE}",
            "-O2",
            "--gc-sections",
            "--strip-all",
            "--fatal-warnings",
            *[f"--export-if-defined={symbol}" for symbol in symbols],
            *sorted(map(str, build.glob("*.o"))),
            "-o",
            str(path),
        ]
    )
