# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What went wrong, for the page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

FORGET = 10.0  # how long a problem stays on the page [s]
MOST_PROBLEMS = 4  # shown on the page at once


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
