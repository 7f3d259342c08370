# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How far the samples of a recording are from reversals, and how far from these a model fails.

Where friction makes accelerations jump, the filter of the motion spreads the jump.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...engine.kernel.types import Array
from .filtering import split_by_recording

_SPREAD = 0.7  # periods of the cutoff over which the filter spreads a jump
_LEFT_OUT = 0.6  # of the samples, at most, are near reversals
_CLIPPED = 30.0  # times the median: larger residuals count as that
_FEWEST = 30  # residuals for a mean


class Reversals:
    """Where any of some motors starts, stops or turns.

    Velocities v are (B, nv), the ``threshold`` of those at rest is (nv,), ``time`` and
    ``recording`` are (B,). ``distance`` (B,) is the number of samples to the closest reversal.
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
        self.distance = _distances(v, threshold, self._joints)

    @cached_property
    def _spread(self) -> int:
        return int(_SPREAD / (np.median(np.diff(self._time[:1000])) * self._cutoff))

    @cached_property
    def _farthest(self) -> int:
        """The distance up to which most samples of no recording are left out."""
        return int(
            min(
                np.quantile(part, _LEFT_OUT)
                for part in split_by_recording(self._recording, self.distance)
            )
        )

    def is_steady(self, rows: np.ndarray) -> np.ndarray:
        """Whether reversals are farther than the filter spreads them, (B,) of bool."""
        return np.asarray(self.distance[rows] >= min(self._spread, self._farthest))

    def unsettled(self, rows: np.ndarray, errors: Array) -> int:
        """The distance up to which errors (B, nv) in some rows are larger than elsewhere, or 0.

        If only the joint errs that turns, its friction differs from the model's; the errors of all
        others count. NaN does not.
        """
        distance = self.distance[rows]
        half, others = np.median(distance), errors.copy()
        for k in self._joints:
            near = _distances(self._v, self._threshold, [k])[rows] < half
            others[near, k] = np.nan
        known, left = (
            np.isfinite(some[distance < half]).any(axis=1).sum() for some in (errors, others)
        )
        if left > 0.5 * known:  # unless all joints turn at the same time
            errors = others
        errors = errors[:, np.isfinite(errors).any(axis=0)]
        counted = np.isfinite(errors).any(axis=1)
        if counted.sum() < 10 * _FEWEST:
            return 0
        errors, distance = errors[counted], distance[counted]
        typical = np.maximum(np.nanmedian(errors, axis=0), 1e-300)
        nearest = _settled(
            distance, np.nanmean(np.minimum(errors / typical, _CLIPPED) ** 2, axis=1)
        )
        return nearest and min(max(nearest, self._spread), self._farthest)


def _distances(v: Array, threshold: Array, joints: Sequence[int]) -> np.ndarray:
    """Number of samples to the closest one in which a joint starts, stops or turns, (B,)."""
    count = len(v)
    changes = np.zeros(count, bool)
    for k in joints:
        for moves in (v[:, k] > threshold[k], v[:, k] < -threshold[k]):
            changes[1:] |= moves[1:] != moves[:-1]
    rows = np.arange(count, dtype=np.int32)
    since = rows - np.maximum.accumulate(np.where(changes, rows, -count))
    until = np.minimum.accumulate(np.where(changes, rows, 2 * count)[::-1])[::-1] - rows
    return np.minimum(since, until)


def _settled(distance: np.ndarray, squares: Array) -> int:
    """The distance from reversals beyond which squared errors are as small as elsewhere, or 0."""
    half = int(np.median(distance))
    level = squares[distance >= half].mean()
    edges = np.unique(np.append((1.3 ** np.arange(40)).astype(int), half))
    for high, low in itertools.pairwise(edges[edges <= half][::-1]):
        near = squares[(distance >= low) & (distance < high)]
        error = near.std() / np.sqrt(len(near)) if len(near) >= _FEWEST else np.inf
        if len(near) >= _FEWEST and near.mean() > 1.1 * level + 4.0 * error:
            return int(high)
    return 0
