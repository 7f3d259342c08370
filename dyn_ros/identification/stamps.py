# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Time stamps of computers that receive measurements: they jitter, and rows repeat."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from .filtering import Segment, derivatives

_IRREGULAR = 0.01       # periods: the deviation of steps above which stamps can jitter
CUTOFF = 0.01          # of the filter of the motion, relative to the rate, while shifts are sought
_ROUNDS = 5             # of shifts and noise in turn
_EXPLAINED = 0.5        # of a joint's deviation must remain at most, with shifts from other joints
_NORMAL = 1.4826        # standard deviation of normal noise over its median size
_CLOSEST = 0.01         # periods between two samples at least
_BESIDE = 3             # rows before and after in which a robot that moves has moved
_MANY = 0.5             # times the rows that moved
_FEWEST = 200           # samples


def readable(time: float) -> str:
    """A time stamp for messages, which are not longer than a line."""
    return f"{time:.6f}" if abs(time) < 1e12 else f"{time:.6g}"


def repeats(arrays: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Whether each row has the positions, velocities and efforts of the row before, (B,).

    In a motion, these are messages that were sent twice. If most are, states are published more
    often than they are measured, and none is marked.
    """
    same: Any = np.ones(len(arrays["q"]), bool)
    same[:1] = False
    for name in ("q", "v", "tau"):
        if (array := arrays[name]) is not None:
            same[1:] &= (array[1:] == array[:-1]).all(axis=1)
    moves = np.zeros(len(same) + 2 * _BESIDE, bool)
    moves[_BESIDE + 1:-_BESIDE] = (arrays["q"][1:] != arrays["q"][:-1]).any(axis=1)
    near: Any = np.lib.stride_tricks.sliding_window_view(moves, _BESIDE).any(axis=1)
    same &= near[:len(same)] & near[_BESIDE + 1:]       # before, and after
    result: NDArray[np.bool_] = same & (same.sum() < _MANY * max(moves.sum(), 1))
    return result


def common_shifts(time: Array, q: Array, segments: Sequence[Segment], rate: float) -> Array | None:
    """By how much later than its stamp each row was measured [s], (B,); None: stamps do not jitter.

    All joints of a row share one stamp, so that its error appears in the deviation of all positions
    from a smooth motion, in proportion to their velocities. Least squares, weighted by the noise of
    the joints, and biased to zero by the size of the jitter. To prove it, shifts from one half of
    the joints must explain the deviations of the other half.
    """
    shifts = np.zeros(len(time))
    explained = []
    for segment in segments:
        rows = slice(*segment)
        steps = np.diff(time[rows])
        if len(segment) < _FEWEST or q.shape[1] < 2 or np.std(steps) * rate < _IRREGULAR:
            continue
        smooth = [derivatives(time[rows], column, CUTOFF * rate, 1) for column in q[rows].T]
        deviation = q[rows] - np.stack([one[0] for one in smooth], axis=1)
        v = np.stack([one[1] for one in smooth], axis=1)
        shifts[rows], noise = _shifts(deviation, v)
        explained.append(_remaining(deviation, v, noise))
    if not explained or np.median(explained) > _EXPLAINED:
        return None
    return shifts


def shifted(time: Array, shifts: Array, segments: Sequence[Segment], period: float) -> Array:
    """Stamps with shifts; each remains after the one before it in its segment."""
    result = time + shifts
    for segment in segments:
        rows = slice(*segment)
        steps = np.arange(len(segment)) * (_CLOSEST * period)
        result[rows] = np.maximum.accumulate(result[rows] - steps) + steps
    return result


def _shifts(deviation: Array, v: Array) -> tuple[Array, Array]:
    """The shift of each row (B,), and the noise of each joint."""
    noise = _size(deviation)
    shift = np.zeros(len(v))
    for _ in range(_ROUNDS):
        weight = 1.0 / noise ** 2
        information = (v ** 2) @ weight
        raw = (v * deviation) @ weight / np.maximum(information, 1e-300)
        certain = information >= np.median(information)
        spread = float(_size(raw[certain, None])[0])
        shift = raw * information / (information + 1.0 / spread ** 2)
        noise = _size(deviation - shift[:, None] * v)
    return shift, noise


def _remaining(deviation: Array, v: Array, noise: Array) -> float:
    """What is left of the deviations of joints, with shifts from the other joints."""
    left: list[float] = []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        others = np.ones(v.shape[1], bool)
        others[half] = False
        weight = others / noise ** 2
        information = (v ** 2) @ weight
        shift = (v * deviation) @ weight / np.maximum(information, 1e-300)
        rest = _size((deviation - shift[:, None] * v)[:, half])
        left.extend(rest / _size(deviation[:, half]))
    return float(np.median(left))


def _size(x: Array) -> Array:
    """Robust standard deviation of each column."""
    size: Array = np.maximum(_NORMAL * np.median(np.abs(x), axis=0), 1e-12)
    return size
