# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Accelerations from a sequence of velocities: smoothed differences. Independent of ROS."""
import math

import numpy as np
from numpy.typing import NDArray

from dyn_ros.engine.kernel.types import Array
from dyn_ros.states.joint_states import NEVER


class Differences:
    """Backward differences of velocities with respect to their stamps, through a low pass.

    For each coordinate, with h the time between its last two stamps::

        difference = (v - v_before) / h
        share = 1 - exp(-2 pi cutoff h)
        acceleration = acceleration_before + share (difference - acceleration_before)

    This is the response of a first-order low pass to a difference that is held for the time h,
    for any interval between messages. A slowly varying signal is delayed by
    h / 2 + h / (exp(2 pi cutoff h) - 1), about 1 / (2 pi cutoff). The filter starts with the first
    difference. It restarts if a stamp goes back or is more than `gap` after the previous one. A
    coordinate whose stamp does not change keeps its acceleration.

    Parameters
    ----------
    nv : int
        Number of coordinates.
    gap : float
        Longest interval between two stamps for a difference [s].
    cutoff : float
        Cutoff frequency of the low pass, with a gain of 71 % [Hz]; 0: no low pass.

    Attributes
    ----------
    acceleration : ndarray (nv,)
        Overwritten by the next `update`.
    cutoff : float
    """

    def __init__(self, nv: int, gap: float, cutoff: float = 0.0) -> None:
        self.acceleration = np.zeros(nv)
        self.cutoff = cutoff
        self._gap = round(gap * 1e9)
        self._v = np.zeros(nv)
        self._stamps = np.full(nv, NEVER)
        self._known = np.zeros(nv, bool)

    @property
    def known(self) -> bool:
        """Whether the acceleration of every coordinate is known."""
        return bool(self._known.all())

    def reset(self) -> None:
        """Discard all velocities."""
        self._stamps[:] = NEVER
        self._known[:] = False

    def update(self, v: Array, stamps: NDArray[np.int64]) -> None:
        """Process the next velocities [rad/s, m/s], (nv,), and the stamp of each [ns], (nv,).

        A velocity with the stamp `NEVER` comes from no message: it is constant.
        """
        passed = stamps - self._stamps
        fresh = (passed > 0) & (passed <= self._gap)
        self.acceleration[~self._known] = 0.0
        h = 1e-9 * passed[fresh]
        share = np.ones(len(h))
        if self.cutoff:
            share = np.where(self._known[fresh], -np.expm1(-2.0 * math.pi * self.cutoff * h), 1.0)
        difference = (v[fresh] - self._v[fresh]) / h
        self.acceleration[fresh] += share * (difference - self.acceleration[fresh])
        self._known = fresh | (passed == 0) & self._known | (stamps == NEVER)
        self._v[:] = v
        self._stamps[:] = stamps
