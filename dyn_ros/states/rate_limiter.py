# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rate limiters of events, by the time at which they occur or by stamps."""

import math


class RateLimiter:
    """Limiter of a rate [Hz], 0 for none: on average exactly this rate passes, and never more."""

    def __init__(self, rate: float) -> None:
        self._period = 1.0 / rate if rate else 0.0
        self._next = 0.0

    def admit(self, now: float) -> bool:
        """Return True if an event at a time [s] passes; the next one then passes a period later.

        Each call that returns True changes when the next event passes.
        """
        if now < self._next:
            return False
        self._next += self._period
        if self._next <= now:
            self._next = now + self._period
        return True


class StampLimiter:
    """Limiter of a rate [Hz] by stamps: all nodes with the same rate choose the same states.

    Time is divided into periods that start at multiples of the period since the epoch; the first
    state with a stamp in a period passes. While stamps do not advance, states pass as often by the
    time at which they are received. 0: no limit.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._period: int | None = None
        self._stamp: int | None = None
        self._received = RateLimiter(rate)

    def admit(self, stamp: int, now: float) -> bool:
        """Return True if a state with a stamp [ns] that is received at a time [s] passes.

        Remember its stamp and period: call once for each state, in the order of receipt.
        """
        if not self._rate:
            return True
        period = math.floor(stamp * 1e-9 * self._rate)
        is_repeated, is_new_period = stamp == self._stamp, period != self._period
        self._stamp, self._period = stamp, period
        return self._received.admit(now) if is_repeated else is_new_period
