# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The status line of a page, and the problems below it."""
from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

from ..states.joint_states import abbreviated

FORGET = 10.0       # how long a problem stays on the page [s]
MOST_PROBLEMS = 4   # shown on the page at once


class Problems:
    """What went wrong in the last seconds."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=MOST_PROBLEMS)

    def add(self, what: str, why: object) -> None:
        """Add the last line of an error."""
        line = str(why).strip().split("\n")[-1]
        self._lines.append((time.monotonic(), f"{what}: {line}"))

    def recent(self, lasting: list[str], now: float) -> Iterable[str]:
        """Return those that last, and the others of the last seconds, each once."""
        while self._lines and now - self._lines[0][0] > FORGET:
            self._lines.popleft()
        return [*lasting, *dict.fromkeys(line for _, line in self._lines if line not in lasting)]


def text(free: bool, states: bool, unknown: Sequence[str], waits: bool, manual: bool) -> str:
    """Return where the states come from; `free`: no other program moves the robot."""
    if waits:
        return "it waits while you reach for the ball"
    if not states:
        return "no joint states: move a slider" if free else "no joint states"
    if unknown:
        return "unknown position of " + abbreviated(unknown)
    return ("moved by the sliders" if manual else "receiving joint states") + (
        "" if free else "; another program moves the robot, the sliders are read-only")
