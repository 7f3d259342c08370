# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Distances of samples from reversals of the motion, and the distance up to which a model fails.

Where friction makes accelerations jump, the filter of the motion spreads the jump.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...engine.kernel.types import Array
from .filtering import split_by_recording

_JUMP_SPREAD = 0.7  # periods of the cutoff; the filter spreads a jump over them
_MAX_EXCLUDED_FRACTION = 0.6  # samples near reversals, relative to all
_MAX_RESIDUAL_RATIO = 30.0  # relative to the median; larger residuals are clipped
_MIN_RESIDUALS = 30  # residuals in a mean


class Reversals:
    """Samples in which a motor starts, stops or turns, and the distances of all samples from them.

    Velocities v are (B, nv), their ``threshold`` at rest is (nv,), ``time`` [s] and ``recording``
    are (B,). ``distance`` (B,) is the number of samples to the closest reversal.
    """

    def __init__(
        self,
        v: Array,
        threshold: Array,
        joints: np.ndarray,
        time: Array,
        cutoff: float,
        recording: np.ndarray | None,
    ) -> None:
        self._v, self._threshold, self._joints = v, threshold, joints.tolist()
        self._time, self._cutoff, self._recording = time, cutoff, recording
        self.distance = _reversal_distances(v, threshold, self._joints)

    @cached_property
    def _spread(self) -> int:
        """Number of samples over which the filter spreads a jump."""
        return int(_JUMP_SPREAD / (np.median(np.diff(self._time[:1000])) * self._cutoff))

    @cached_property
    def _max_distance(self) -> int:
        """Largest distance up to which samples of all recordings may be left out."""
        return int(
            min(
                np.quantile(distances, _MAX_EXCLUDED_FRACTION)
                for distances in split_by_recording(self._recording, self.distance)
            )
        )

    def is_steady(self, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the rows in which the filter spreads no reversal."""
        return np.asarray(self.distance[rows] >= min(self._spread, self._max_distance))

    def affected_distance(self, rows: np.ndarray, errors: Array) -> int:
        """Return the distance up to which errors (B, nv) in rows are larger than elsewhere, or 0.

        If only the joint that turns has larger errors, its friction differs from the model's, and
        the errors of the other joints count. NaN does not count.
        """
        distance = self.distance[rows]
        median_distance, errors_of_others = np.median(distance), errors.copy()
        for k in self._joints:
            is_near = _reversal_distances(self._v, self._threshold, [k])[rows] < median_distance
            errors_of_others[is_near, k] = np.nan
        count, count_of_others = (
            np.isfinite(values[distance < median_distance]).any(axis=1).sum()
            for values in (errors, errors_of_others)
        )
        if count_of_others > 0.5 * count:  # unless all joints turn at the same time
            errors = errors_of_others
        errors = errors[:, np.isfinite(errors).any(axis=0)]
        is_counted = np.isfinite(errors).any(axis=1)
        if is_counted.sum() < 10 * _MIN_RESIDUALS:
            return 0
        errors, distance = errors[is_counted], distance[is_counted]
        median_error = np.maximum(np.nanmedian(errors, axis=0), 1e-300)
        clipped = np.minimum(errors / median_error, _MAX_RESIDUAL_RATIO)
        distance_limit = _find_affected_distance(distance, np.nanmean(clipped**2, axis=1))
        return distance_limit and min(max(distance_limit, self._spread), self._max_distance)


def _reversal_distances(v: Array, threshold: Array, joints: Sequence[int]) -> np.ndarray:
    """Return the number of samples (B,) to the closest start, stop or turn of a joint."""
    count = len(v)
    changes = np.zeros(count, bool)
    for k in joints:
        for moves in (v[:, k] > threshold[k], v[:, k] < -threshold[k]):
            changes[1:] |= moves[1:] != moves[:-1]
    rows = np.arange(count, dtype=np.int32)
    since = rows - np.maximum.accumulate(np.where(changes, rows, -count))
    until = np.minimum.accumulate(np.where(changes, rows, 2 * count)[::-1])[::-1] - rows
    return np.minimum(since, until)


def _find_affected_distance(distance: np.ndarray, squares: Array) -> int:
    """Return the distance from reversals up to which squares are larger than elsewhere, or 0."""
    median_distance = int(np.median(distance))
    level = squares[distance >= median_distance].mean()
    edges = np.unique(np.append((1.3 ** np.arange(40)).astype(int), median_distance))
    for high, low in itertools.pairwise(edges[edges <= median_distance][::-1]):
        ring = squares[(distance >= low) & (distance < high)]
        error = ring.std() / np.sqrt(len(ring)) if len(ring) >= _MIN_RESIDUALS else np.inf
        if len(ring) >= _MIN_RESIDUALS and ring.mean() > 1.1 * level + 4.0 * error:
            return int(high)
    return 0
