# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The library: objects of machine code, linked with the sources in ``runtime``."""
from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import header, sources
from .functions import Function, functions

RUNTIME = Path(__file__).parent / "runtime"
SONAME = "libdyn_ros.so.0"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{shlex.join(command)[:500]} failed: {done.stderr[-2000:]}")


def export_library(folder: str | os.PathLike[str], names: Sequence[str] | None = None,
                   targets: Sequence[str] = ("x86-64-v3",)) -> None:
    """Write the library and its header."""
    chosen = functions(names)
    out = Path(folder)
    (out / "include").mkdir(parents=True, exist_ok=True)
    (out / "lib").mkdir(exist_ok=True)
    (out / "include" / "dyn_ros.h").write_text(header.header(chosen))
    with tempfile.TemporaryDirectory(prefix="dyn_ros-export-") as place:
        _link(chosen, targets[0], Path(place), out / "lib", out / "include")


def _link(chosen: list[Function], target: str, build: Path, out: Path, include: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc" if target == "aarch64" else "cc"
    (build / "layout.h").write_text(sources.layout_header())
    (build / "functions.c").write_text(sources.functions_source(chosen))
    objects = []
    for one in chosen:
        for program in one.algorithm.programs:
            path = build / f"{program.one.name}.o"
            path.write_bytes(program.one.object(target))
            objects.append(str(path))
    for source in (*RUNTIME.glob("*.c"), build / "functions.c"):
        path = build / f"{source.stem}.o"
        _run([compiler, "-std=c11", "-O2", "-DNDEBUG", "-fPIC", "-fno-math-errno", "-Wall",
              "-Wextra", "-Werror", f"-I{build}", f"-I{include}", f"-I{RUNTIME}", "-c", str(source),
              "-o", str(path)])
        objects.append(str(path))
    _run([compiler, "-shared", f"-Wl,-soname,{SONAME}", "-nostdlib", "-o", str(out / SONAME),
          *objects, "-lc"])
    if not (out / "libdyn_ros.so").exists():
        (out / "libdyn_ros.so").symlink_to(SONAME)
    (out / "libdyn_ros.a").unlink(missing_ok=True)
    _run(["ar", "rcsD", str(out / "libdyn_ros.a"), *objects])
