# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How often something is let through. No ROS here."""


class Pace:
    """Lets something through at most so often, and on the average just that often.

    Parameters
    ----------
    rate : float
        [Hz]; 0: always.
    """

    def __init__(self, rate):
        self._period = 1.0 / rate if rate else 0.0
        self._next = 0.0

    def due(self, now):
        """Whether it is time, at a time [s]; if so, the next one is a period later."""
        if now < self._next:
            return False
        self._next += self._period
        if self._next <= now:
            self._next = now + self._period
        return True
