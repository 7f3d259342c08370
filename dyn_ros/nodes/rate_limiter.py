# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rate limiting. Independent of ROS."""


class RateLimiter:
    """Limits a rate: events pass at most this often, and on average exactly this often.

    Parameters
    ----------
    rate : float
        [Hz]; 0: no limit.
    """

    def __init__(self, rate: float) -> None:
        self._period = 1.0 / rate if rate else 0.0
        self._next = 0.0

    def due(self, now: float) -> bool:
        """Whether an event at a time [s] passes; if so, the next one passes a period later."""
        if now < self._next:
            return False
        self._next += self._period
        if self._next <= now:
            self._next = now + self._period
        return True
