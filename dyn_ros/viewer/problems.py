# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Problems that the page shows for some seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

MAX_PROBLEM_AGE = 10.0  # s
MAX_PROBLEMS = 4  # shown at once


class Problems:
    """The problems of the last seconds."""

    def __init__(self) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=MAX_PROBLEMS)

    def add(self, subject: str, reason: object) -> None:
        """Add a problem with a subject, such as a topic; of the reason, only the last line."""
        line = str(reason).strip().split("\n")[-1]
        self._lines.append((time.monotonic(), f"{subject}: {line}"))

    def recent(self, permanent: list[str], now: float) -> Iterable[str]:
        """Return the permanent problems and the problems of the last seconds, each once."""
        while self._lines and now - self._lines[0][0] > MAX_PROBLEM_AGE:
            self._lines.popleft()
        recent_lines = (line for _, line in self._lines if line not in permanent)
        return [*permanent, *dict.fromkeys(recent_lines)]
