# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Build the library of machine code that dyn_ros loads instead of compiling.

    python -m dyn_ros.command.build --out dyn_ros/library [--target x86-64-v3 ...]

Requires Numba, and a C compiler for linking.
"""
from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import dyn_ros.logs.kernels     # noqa: F401 - declares entries

from ..engine.call.algorithm import ALGORITHMS
from ..engine.kernel import library
from ..engine.kernel.compiler import ENTRIES, Entry
from ..engine.kernel.emit import TARGETS
from ..engine.kernel.workers import compile_in_processes

_LINKERS = {"aarch64": "aarch64-linux-gnu-gcc"}


def build(out: Path, targets: Sequence[str], progress: bool = True) -> None:
    """Compile all entries for each target, and link a library for each."""
    entries = list(ENTRIES.values())
    begun = []

    def starting(entry: Entry) -> None:
        begun.append(entry)
        if progress:
            print(f"\r[{len(begun)}/{len(entries)}] {entry.name:40.40}", end="", file=sys.stderr)

    missing = [entry for entry in entries
               if not all(entry.is_cached(target) for target in targets)]
    compile_in_processes(missing, starting=starting, targets=targets)
    out.mkdir(parents=True, exist_ok=True)
    for target in targets:
        if progress:
            print(f"\rlinking for {target:60}", file=sys.stderr)
        _link(entries, target, out / target)
    (out / library.MANIFEST).write_text(json.dumps({
        "sources": library.digest_of_sources(),
        "entries": {entry.name: entry.digest for entry in entries},
        "programs": {program.name: program.description() for algorithm in ALGORITHMS.values()
                     for program in algorithm.programs}}))


def _link(entries: Sequence[Entry], target: str, folder: Path) -> None:
    """Link the objects of entries; raises OSError or RuntimeError without a linker."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    own = sysconfig.get_config_var("CC") or "cc"
    command = shlex.split(own if TARGETS[target].triple.startswith(
        sysconfig.get_platform().split("-")[-1]) else _LINKERS.get(target, own))
    with tempfile.TemporaryDirectory() as objects:
        for entry in entries:
            Path(objects, f"{entry.symbol}.o").write_bytes(entry.object(target))
        done = subprocess.run(
            [*command, "-shared", "-nostdlib", "-Wl,--gc-sections", "-Wl,-s",
             f"-Wl,-soname,{library.FILE}", "-o", str(folder / library.FILE),
             *map(str, sorted(Path(objects).iterdir()))], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"linking for {target} failed: {shlex.join(command)}: "
                           f"{done.stderr[-2000:]}")


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the library")
    parser.add_argument("--target", nargs="+", choices=list(TARGETS),
                        default=[library.best_target()], help="default: this processor")
    arguments = parser.parse_args()
    build(arguments.out, arguments.target)


if __name__ == "__main__":
    main()
