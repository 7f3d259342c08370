# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory of a command and of the processes that it starts."""
from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_EVERY = 0.05       # s between two looks


def largest_memory(command: Sequence[str]) -> int:
    """Run a command; return the largest sum of the sizes of its processes [bytes].

    Memory that several processes share counts once: these are proportional set sizes.
    """
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            most = max(most, sum(map(_proportional_size, _family(process.pid))))
            time.sleep(_EVERY)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read().decode()
    return most


def _proportional_size(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    except (OSError, StopIteration):        # it has ended
        return 0


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(each for child in children for each in _family(int(child)))]
