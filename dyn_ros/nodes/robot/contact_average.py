# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mean of the force of a contact over a short time."""
from __future__ import annotations

import dataclasses
import math

from dyn_ros.engine.kernel.types import Array
from dyn_ros.observer import IsolatedContact

_LEAST_VARIANCE = 1e-18     # N2, m2


class ContactAverage:
    """Averages the force, in the world, and the line of action of a contact over a `duration` [s].

    The noise of the efforts turns the force of a single state by several degrees. A low pass of
    the efforts would distort it while the robot turns; the force itself can be averaged. Each
    contact counts by the inverse of its variance: while the link is uncertain, its force may be
    far off. The duration is a time constant; until so much time has passed, it is the weighted mean
    of all contacts. 0: none.
    """

    def __init__(self, duration: float) -> None:
        self.duration = duration
        self._force, self._point = _Mean(duration), _Mean(duration)
        self._link = ""

    def update(self, contact: IsolatedContact, stamp: int) -> IsolatedContact:
        """Return a contact with the mean force, and the mean line of action of its link.

        One that is not determined is returned as it is; the stamp is in ns.
        """
        if not contact.determined or self.duration <= 0.0:
            return contact
        force = self._force.update(contact.force, float(contact.covariance.trace()), stamp)
        if not contact.line_valid or self._link != contact.link:
            self._point = _Mean(self.duration)
        point = contact.point
        if contact.line_valid:
            point = self._point.update(point, contact.point_deviation ** 2, stamp)
            self._link = contact.link
        size = math.sqrt(float(force @ force))
        if size == 0.0:
            return contact
        return dataclasses.replace(contact, force=force, magnitude=size, direction=force / size,
                                   point=point)


class _Mean:
    """The mean of vectors, each weighted by the inverse of its variance."""

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self._mean: Array | None = None
        self._weight = 0.0
        self._stamp = self._first = 0

    def update(self, value: Array, variance: float, stamp: int) -> Array:
        weight = 1.0 / max(variance, _LEAST_VARIANCE)
        if self._mean is None:
            self._mean, self._weight, self._first = value, weight, stamp
        else:
            dt, elapsed = 1e-9 * (stamp - self._stamp), 1e-9 * (stamp - self._first)
            if dt > 0.0:
                share = max(dt / (elapsed + dt), -math.expm1(-dt / self._duration))
                self._weight += share * (weight - self._weight)
                self._mean = self._mean + share * weight / self._weight * (value - self._mean)
        self._stamp = stamp
        return self._mean
