# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Time stamps of computers that receive measurements: they jitter, and rows repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array
from .filtering import MAX_JITTER, Segment, derivatives, highest_cutoff
from .numerics import FILTER_BLOCK_SIZE, MIN_SAMPLES, robust_deviation

_EXPLAINED = 0.7  # of the deviations remain: less than half of their power is something else
_CLOSEST = 0.3  # periods between two samples at least
_BESIDE = 3  # rows before and after in which a robot that moves has moved
REPEATED = 0.4  # of the rows in motion: more repeat if they are published too often
_REGULAR = 0.8  # of the steps between new efforts, at least


def repeats(arrays: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Whether each row has the positions, velocities and efforts of the row before, (B,).

    In a motion, these are messages that were sent twice. If most are, states are published more
    often than they are measured, and none is marked.
    """
    same = np.concatenate(
        [
            [False],
            np.logical_and.reduce(
                [
                    (array[1:] == array[:-1]).all(axis=1)
                    for name in ("q", "v", "tau")
                    if (array := arrays[name]) is not None
                ]
            ),
        ]
    )
    moves = np.zeros(len(same) + 2 * _BESIDE, bool)
    moves[_BESIDE + 1 : -_BESIDE] = (arrays["q"][1:] != arrays["q"][:-1]).any(axis=1)
    near = np.any(np.lib.stride_tricks.sliding_window_view(moves, _BESIDE), axis=1)
    few = same.sum() < REPEATED * max(moves.sum(), 1)
    result: NDArray[np.bool_] = same & few & near[: len(same)] & near[_BESIDE + 1 :]
    return result


def held(q: Array, tau: Array) -> NDArray[np.bool_] | None:
    """Whether each row has the efforts of the row before, (B,); None if efforts are not held.

    Efforts that are published less often than positions repeat equally often. Efforts that are
    rounded do not.
    """
    same = np.concatenate([[False], (tau[1:] == tau[:-1]).all(axis=1)])
    moves = np.concatenate([[True], (q[1:] != q[:-1]).any(axis=1)])
    if (same & moves).sum() <= REPEATED * moves.sum():
        return None
    lengths = np.diff(np.flatnonzero(~same & moves))
    regular = np.abs(lengths - np.median(lengths)) <= 1.0 if len(lengths) else lengths
    return same if len(lengths) >= MIN_SAMPLES and regular.mean() > _REGULAR else None


def corrected(
    time: Array,
    q: Array,
    slots: NDArray[np.int_],
    pieces: Sequence[Segment],
    segments: Sequence[Segment],
    rate: float,
) -> Array | None:
    """Stamps without their jitter [s], (B,); None: they have none that the positions show.

    Either the samples are equally spaced and the stamps are not, or all positions of a row are late
    by the same time. The longest segment shows which makes the motion smooth: deviations from a
    filtered motion are then the noise of the positions alone. Samples that are not equally spaced,
    with stamps that say so, are left as they are. ``slots`` are the numbers of the rows, with those
    that were dropped; nothing else is missing in each of the ``pieces``.
    """
    segments = [
        Segment(start, min(start + FILTER_BLOCK_SIZE, one.stop))
        for one in segments
        for start in range(one.start, one.stop, FILTER_BLOCK_SIZE)
    ]
    longest = slice(*max(segments, key=len))
    if len(time[longest]) < MIN_SAMPLES or np.std(np.diff(time[longest])) * rate < MAX_JITTER:
        return None
    equal, shifted = _grid(time, slots, pieces), time.copy()
    for rows in (slice(*segment) for segment in segments):
        equal[rows], shifted[rows] = _in_order(equal[rows], rate), _in_order(time[rows], rate)
    deviation, v = _deviation(shifted[longest], q[longest], rate)
    noise = _size(deviation - v * _shift(deviation, v)[:, None])
    sizes = [
        float(np.sqrt(np.mean((_size(one) / noise) ** 2)))
        for one in (
            _deviation(time[longest], q[longest], rate)[0],
            _deviation(equal[longest], q[longest], rate)[0],
            _from_others(deviation, v, noise),
        )
    ]
    if min(sizes[1:]) > _EXPLAINED * sizes[0]:
        return None
    if sizes[1] < sizes[2]:
        return equal if np.std(equal - time) * rate > MAX_JITTER else None
    for rows in (slice(*segment) for segment in segments if len(segment) > MIN_SAMPLES):
        shift = _shift(*_deviation(shifted[rows], q[rows], rate))
        shifted[rows] = _in_order(shifted[rows] + shift, rate)
    return shifted if np.std(shifted - time) * rate > MAX_JITTER else None


def _grid(time: Array, slots: NDArray[np.int_], pieces: Sequence[Segment]) -> Array:
    """Equally spaced times near the stamps: of one period, each piece with its own offset."""
    x, mean = np.empty(len(time)), np.empty(len(time))
    for rows in (slice(*piece) for piece in pieces):
        x[rows] = slots[rows] - slots[rows].mean()
        mean[rows] = time[rows].mean()
    period = float(x @ (time - mean)) / max(float(x @ x), 1e-300)
    result: Array = mean + period * x
    return result


def _in_order(time: Array, rate: float) -> Array:
    """Times that increase."""
    steps = np.arange(len(time)) * (_CLOSEST / rate)
    result: Array = np.maximum.accumulate(time - steps) + steps
    return result


def _deviation(time: Array, q: Array, rate: float) -> tuple[Array, Array]:
    """Measured minus filtered positions, and the rates of the latter, (B, nq) each."""
    smooth, v = derivatives(time, q.T, highest_cutoff(rate), 1)
    return q - smooth.T, v.T


def _shift(deviation: Array, v: Array) -> Array:
    """By how much later than its stamp each row was measured, (B,).

    Least squares of the deviations of all joints, weighted by their noise, and biased to zero by
    the size of the jitter.
    """
    noise = _size(deviation)
    information = (v**2) @ noise**-2
    raw = (v * deviation) @ noise**-2 / np.maximum(information, 1e-300)
    certain = information >= np.median(information)
    jitter = float(_size(raw[certain, None])[0])
    shift: Array = raw * information / (information + jitter**-2)
    return shift


def _from_others(deviation: Array, v: Array, noise: Array) -> Array:
    """What is left of the deviations of joints, with shifts that the other joints show."""
    left = deviation.copy()
    for k in range(v.shape[1]):
        weight = np.where(np.arange(v.shape[1]) == k, 0.0, noise**-2)
        shift = (v * deviation) @ weight / np.maximum((v**2) @ weight, 1e-300)
        left[:, k] -= shift * v[:, k]
    return left


def _size(x: Array) -> Array:
    """Robust standard deviation of each column."""
    size: Array = np.maximum(robust_deviation(x), 1e-12)
    return size
