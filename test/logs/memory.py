# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory of a command and of the processes that it starts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_SAMPLING_PERIOD = 0.05  # s


class Memory(NamedTuple):
    """Sizes of a command [bytes].

    Attributes
    ----------
    total : int
        Largest sum of the proportional set sizes of its processes: memory that several of them
        share counts once.
    process : int
        Largest resident set size of one process.
    """

    total: int
    process: int


def largest_memory(command: Sequence[str], code: int = 0) -> Memory:
    """Run a command, which ends with an exit code; return its largest memory."""
    total, process_size = 0, 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            sizes = [_process_sizes(pid) for pid in _process_tree(process.pid)]
            total = max(total, sum(proportional for _, proportional in sizes))
            process_size = max(process_size, *(resident for resident, _ in sizes))
            time.sleep(_SAMPLING_PERIOD)
        assert process.stderr is not None
        assert process.returncode == code, process.stderr.read().decode()
    return Memory(total, process_size)


def _process_sizes(pid: int) -> tuple[int, int]:
    """Return the resident and proportional set size of a process [bytes]; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    fields = dict(line.split(":") for line in lines[1:])
    resident, proportional = (
        1024 * int(fields[name].split()[0]) if name in fields else 0 for name in ("Rss", "Pss")
    )
    return resident, proportional


def _process_tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(descendant for child in children for descendant in _process_tree(int(child)))]
