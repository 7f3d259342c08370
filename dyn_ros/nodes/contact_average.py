# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mean of the force of a contact over a short time. Independent of ROS."""
from __future__ import annotations

import dataclasses
import math

from dyn_ros.model.types import Array
from dyn_ros.observer import IsolatedContact


class ContactAverage:
    """Averages the force, in the world, and the line of action of a contact.

    The noise of the efforts turns the force of a single state by several degrees. A low pass of
    the efforts would distort it while the robot turns; the force itself can be averaged.

    Parameters
    ----------
    duration : float
        Time constant of the mean [s]; 0: none. Until so much time has passed, it is the mean of
        all contacts.
    """

    def __init__(self, duration: float) -> None:
        self.duration = duration
        self._force: Array | None = None
        self._point: Array | None = None
        self._link = ""
        self._stamp = self._first = 0

    def update(self, found: IsolatedContact, stamp: int) -> IsolatedContact:
        """Return a contact with the mean force, and the mean line of action of its link.

        Parameters
        ----------
        found : IsolatedContact
            One that is not determined is returned as it is.
        stamp : int
            [ns].
        """
        if not found.determined or self.duration <= 0.0:
            return found
        if self._force is None:
            self._force, self._first = found.force, stamp
        else:
            self._force = self._mixed(self._force, found.force, stamp)
        if not found.line_valid or self._link != found.link:
            self._point = None
        point = found.point
        if found.line_valid:
            point = point if self._point is None else self._mixed(self._point, point, stamp)
            self._point, self._link = point, found.link
        self._stamp = stamp
        size = math.sqrt(float(self._force @ self._force))
        if size == 0.0:
            return found
        return dataclasses.replace(found, force=self._force, magnitude=size,
                                   direction=self._force / size, point=point)

    def _mixed(self, mean: Array, value: Array, stamp: int) -> Array:
        dt, elapsed = 1e-9 * (stamp - self._stamp), 1e-9 * (stamp - self._first)
        if dt <= 0.0:
            return mean
        share = max(dt / (elapsed + dt), -math.expm1(-dt / self.duration))
        return mean + share * (value - mean)
