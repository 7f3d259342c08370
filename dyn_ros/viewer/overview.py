# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The torques of a whole recording, as far as it has been read, for plots of a few pixels."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array

INTERVAL_COUNT = 300  # a plot in the right panel is about 200 px wide


class Overview:
    """Lowest and highest torques in intervals of a recording of parts, from start to stop [ns].

    `part_numbers` are those to read, at most one for each interval, so that the work is bounded.
    They are in an order in which the first ones are spread over the whole recording. Threads may
    call all methods at the same time.
    """

    def __init__(
        self, start: int, stop: int, part_count: int, shape: tuple[int, ...], max_gap: float
    ) -> None:
        """Start without torques, of a `shape` (curves, joints); see `curves` for the gap [s]."""
        self._start, self._width = start, max(stop - start, 1) / INTERVAL_COUNT  # ns
        self._max_gap = max(1e9 * max_gap, 1.5 * self._width)  # ns
        self._low = np.full((INTERVAL_COUNT, *shape), np.nan)
        self._high = self._low.copy()
        self._times = np.full((INTERVAL_COUNT, 2), np.nan)  # ns since start; of first, last state
        numbers = np.unique(np.linspace(0, part_count - 1, min(part_count, INTERVAL_COUNT)).round())
        self.part_numbers = [int(numbers[k]) for k in coarse_to_fine(len(numbers))]
        self._read: set[int] = set()
        self._curves: tuple[Array, Array] | None = None
        self._lock = threading.Lock()

    def next_part(self) -> int | None:
        """Return the number of the next part to read; None if all have been."""
        return next((number for number in self.part_numbers if number not in self._read), None)

    @property
    def fraction(self) -> float:
        """Fraction of the parts to read that has been read."""
        return len(self._read.intersection(self.part_numbers)) / len(self.part_numbers)

    def add(self, number: int, log_time: NDArray[np.int64], torques: Array) -> None:
        """Add the torques (k, curves, joints) of a part, at log times (k,) [ns] that increase."""
        if number in self._read:
            return
        with self._lock:
            self._read.add(number)
            if not len(log_time):
                return
            times = (log_time - self._start).astype(float)
            intervals = np.clip((times / self._width).astype(int), 0, INTERVAL_COUNT - 1)
            first = np.flatnonzero(np.diff(intervals, prepend=-1))
            rows = intervals[first]
            self._low[rows] = np.fmin(self._low[rows], np.fmin.reduceat(torques, first))
            self._high[rows] = np.fmax(self._high[rows], np.fmax.reduceat(torques, first))
            last = np.append(first[1:], len(times)) - 1
            self._times[rows, 0] = np.fmin(self._times[rows, 0], times[first])
            self._times[rows, 1] = np.fmax(self._times[rows, 1], times[last])
            self._curves = None

    def curves(self) -> tuple[Array, Array]:
        """Return times (k,) [s] since the start, and torques (k, curves, joints).

        Each interval with states has its lowest and its highest torques, at the times of its first
        and last state. A row of NaN separates states with a larger gap. Return the same arrays as
        before unless parts were added.
        """
        with self._lock:
            if self._curves is None:
                rows = np.flatnonzero(np.isfinite(self._times[:, 0]))
                times = self._times[rows]
                torques = np.stack([self._low[rows], self._high[rows]], axis=1)
                gaps = np.flatnonzero(times[1:, 0] - times[:-1, 1] > self._max_gap)
                self._curves = (
                    np.insert(1e-9 * times.ravel(), 2 * (gaps + 1), 1e-9 * times[gaps, 1]),
                    np.insert(
                        torques.reshape(-1, *torques.shape[2:]), 2 * (gaps + 1), np.nan, axis=0
                    ),
                )
            return self._curves


def coarse_to_fine(count: int) -> Sequence[int]:
    """Return 0 to count - 1 in an order whose beginnings are spread evenly."""
    bits = max(count - 1, 1).bit_length()
    return sorted(range(count), key=lambda number: f"{number:0{bits}b}"[::-1])
