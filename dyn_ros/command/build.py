# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Build the extension, and the library of machine code that dyn_ros loads instead of compiling.

    python -m dyn_ros.command.build --out dyn_ros [--what all|host|nodes|none] [--target ...]

A library requires Numba, and a C compiler for linking.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import dyn_ros.logs.kernels  # noqa: F401 - declares entries

from ..differentiable.operations import OPERATIONS, all_entries
from ..engine.call.algorithm import ALGORITHMS, Program
from ..engine.call.batch_rows import SINGLE
from ..engine.kernel.lanes import LANES
from ..engine.machine_code import extension, library
from ..engine.machine_code.compiler import ENTRIES, Entry
from ..engine.machine_code.targets import TARGETS, best_target, same_architecture
from ..engine.machine_code.workers import compile_in_processes, worker_environment
from ..files.writing import install_files

all_entries()  # declares them, as the next lines do
for _algorithm in ALGORITHMS.values():
    if not _algorithm.needs_double:
        for _program in _algorithm.programs:
            _program.entry_for(SINGLE)
BATCH_ENTRIES_OF_NODES = ("joint_torque_regressor-lanes", "rnea-lanes")


def build_library(out: Path, entries: Sequence[Entry], targets: Sequence[str]) -> None:
    """Compile entries for targets, and link a library for each."""
    matching_targets = [target for target in targets if TARGETS[target].lanes == LANES]
    if other_targets := [target for target in targets if target not in matching_targets]:
        _compile_entries([entry for entry in entries if not entry.name.endswith("-lanes")], targets)
        _build_in_process(out, entries, other_targets)
    if matching_targets:
        _compile_entries(entries, matching_targets)
        _link_libraries(out, entries, matching_targets)


def _build_in_process(out: Path, entries: Sequence[Entry], targets: Sequence[str]) -> None:
    """Build libraries in a process with the number of lanes of their targets."""
    names = [entry.name for entry in entries]
    code = (
        "from pathlib import Path\nfrom dyn_ros.command.build import ENTRIES, build_library\n"
        f"entries = [ENTRIES[name] for name in {names}]\n"
        f"build_library(Path({str(out)!r}), entries, {targets})"
    )
    variables = {**worker_environment(), "DYN_ROS_LIBRARY": "none", "DYN_ROS_TARGET": targets[0]}
    if subprocess.run([sys.executable, "-c", code], env=variables).returncode:
        sys.exit(1)


def _compile_entries(entries: Sequence[Entry], targets: Sequence[str]) -> None:
    """Compile entries into the cache."""
    started = 0

    def report_progress(entry: Entry) -> None:
        """Print how many entries have been started, before an entry is compiled."""
        nonlocal started
        started += 1
        if sys.stderr.isatty() or started % 25 == 0:
            print(
                f"compiling {started} of {len(uncached_entries)} functions",
                file=sys.stderr,
                end="\r" if sys.stderr.isatty() else "\n",
                flush=True,
            )

    uncached_entries = [
        entry for entry in entries if not all(entry.is_cached(target) for target in targets)
    ]
    compile_in_processes(uncached_entries, starting=report_progress, targets=targets)


def _programs() -> Iterator[Program]:
    """Yield the programs of all algorithms and operations."""
    for algorithm in ALGORITHMS.values():
        yield from algorithm.programs
    for operation in OPERATIONS.values():
        yield from operation.programs.programs
        if operation.gradient_programs:
            yield from operation.gradient_programs.programs


def _link_libraries(out: Path, entries: Sequence[Entry], targets: Sequence[str]) -> None:
    """Link a library for each target, and describe it."""
    manifest = {
        "sources": library.digest_of_sources(),
        "programs": {program.name: program.description() for program in _programs()},
    }
    for target in targets:
        with tempfile.TemporaryDirectory() as temporary:
            result = Path(temporary)
            _link_library(entries, target, result / library.FILE)
            checksum = library.checksum_of_file(result / library.FILE)
            digests = {entry.name: entry.digest_for(target) for entry in entries}
            of_target = {"entries": digests, "checksum": checksum}
            (result / library.MANIFEST).write_text(json.dumps(manifest | of_target))
            install_files(result, out / target)


def link_command(target: str) -> list[str]:
    """Return the command that links for a target."""
    if target == "aarch64" and platform.machine() != "aarch64":
        return ["aarch64-linux-gnu-gcc"]
    return extension.c_compiler()


def _link_library(entries: Sequence[Entry], target: str, path: Path) -> None:
    """Link the code of entries for a target into a library."""
    with tempfile.TemporaryDirectory() as objects:
        for entry in entries:
            Path(objects, f"{entry.symbol}.o").write_bytes(entry.code_for(target))
        command = [
            *link_command(target),
            "-shared",
            "-nostdlib",
            "-Wl,--gc-sections",
            "-Wl,-s",
            f"-Wl,-soname,{library.FILE}",
            "-o",
            str(path),
            *map(str, sorted(Path(objects).iterdir())),
            "-lm",
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            sys.exit(
                f"linking for {target} needs {command[0]}; install it, or leave the target out"
            )
        except subprocess.CalledProcessError as error:
            sys.exit(f"{shlex.join(command)[:200]} ... failed: {error.stderr[-2000:]}")


def main() -> None:
    """Build the extension, and the library that the command line requires."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the package")
    parser.add_argument(
        "--what",
        choices=["all", "host", "nodes", "none"],
        default="host",
        help="library of all functions for all processors of this architecture, "
        "or for the one that builds it (default), or only of what nodes call, "
        "or no library",
    )
    parser.add_argument("--target", nargs="+", choices=TARGETS, help="other processors")
    options = parser.parse_args()
    folder = options.out / "engine" / "machine_code"
    folder.mkdir(parents=True, exist_ok=True)
    extension.build(folder / f"_native{extension.SUFFIX}")
    if options.what == "none" or sys.platform != "linux":  # libraries are ELF files
        return
    targets = options.target or (
        same_architecture(best_target()) if options.what == "all" else [best_target()]
    )
    entries = [
        entry
        for entry in ENTRIES.values()
        if options.what != "nodes"
        or not entry.name.endswith("-lanes")
        or entry.name in BATCH_ENTRIES_OF_NODES
    ]
    build_library(options.out / "library", entries, targets)


if __name__ == "__main__":
    main()
