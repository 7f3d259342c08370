# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the friction of joints changes its sign, and how far its jump is seen."""
from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..engine.kernel.types import Array

FEWEST = 30             # residuals for a mean
_FAR = 32767            # samples: a reversal farther away does not matter
_PART = 4096            # samples that are processed at a time


def distances(v: Array, threshold: Array, joints: Sequence[int] | np.ndarray) -> np.ndarray:
    """Number of samples to the closest one in which a joint starts, stops or turns, (B,).

    Parameters
    ----------
    v : (B, nv) ndarray
        Velocities.
    threshold : (nv,) ndarray
        Speeds below which a joint counts as at rest.
    joints : (n,) ndarray of int
        Velocities that have friction.
    """
    count = len(v)
    distance = np.full(count, _FAR, np.int16)
    changes = np.zeros(count, bool)
    for k in joints:
        for moves in (v[:, k] > threshold[k], v[:, k] < -threshold[k]):
            changes[1:] |= moves[1:] != moves[:-1]
    found = np.flatnonzero(changes)
    for first in range(0, count if len(found) else 0, _PART):
        rows = np.arange(first, min(first + _PART, count))
        after = found[np.minimum(np.searchsorted(found, rows), len(found) - 1)]
        before = found[np.maximum(np.searchsorted(found, rows, "right") - 1, 0)]
        distance[rows] = np.minimum(np.minimum(np.abs(after - rows), np.abs(rows - before)), _FAR)
    return distance


def settled(distance: np.ndarray, squares: Array) -> int:
    """The distance from reversals beyond which squared residuals are as small as elsewhere."""
    half = int(np.median(distance))
    level = squares[distance >= half].mean()
    edges = np.unique(np.append((1.3 ** np.arange(40)).astype(int), half))
    for high, low in itertools.pairwise(edges[edges <= half][::-1]):
        near = squares[(distance >= low) & (distance < high)]
        error = near.std() / np.sqrt(len(near)) if len(near) >= FEWEST else np.inf
        if len(near) >= FEWEST and near.mean() > 1.1 * level + 4.0 * error:
            return int(high)
    return 0
