# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The cutoff of the filter of the motion, by how well torques are predicted that were held out.

Spectra of positions do not show what is motion of the robot and what comes from stamps, gears and
controllers. Torques do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...engine.algorithms import normal_equations
from ...engine.algorithms.regressors.normal_equations import assembled
from ...engine.call.data import Data
from ...engine.kernel.types import Array
from ...engine.model.coordinates import JointSlices, is_actuated, joint_slices
from ...engine.model.model import Model
from .filtering import REST_SPEED_RATIO, Segment, settling_samples
from .numerics import (
    BLOCK_SIZE,
    FOLDS,
    MAX_ERROR_RATIO,
    MIN_STANDARD_ERRORS,
    REGRESSION_SAMPLES,
    RIDGE,
)

_CANDIDATES = (0.7, 0.5, 0.35, 0.25)  # of the first cutoff

Rates = Callable[[Sequence[JointSlices], Segment, slice, float], tuple[Array, Array, Array]]
"""Filtered q, v and a of consecutive joints in some rows of a segment, for a cutoff."""


class Stretch(NamedTuple):
    """Consecutive samples: positions, velocities, accelerations and torques."""

    q: Array
    v: Array
    a: Array
    tau: Array


def cutoff_from_torques(
    model: Model,
    tau: Array,
    segments: Sequence[Segment],
    rate: float,
    limits: tuple[float, float],
    rates: Rates,
) -> float:
    """The first of two cutoffs [Hz], or a lower one, not below the second, if torques prefer it.

    All candidates are compared on the same samples of the recording; ``tau`` are its torques, which
    are the only forces.
    """
    first, lowest = limits
    margin = settling_samples(rate, max(lowest, first * _CANDIDATES[-1]))
    pieces = _pieces([(one.start + margin, one.stop - margin) for one in segments])
    step = 1 + sum(map(len, pieces)) // REGRESSION_SAMPLES
    if not is_actuated(model).all() or len(pieces) < FOLDS // 2:
        return first

    joints, windows = list(joint_slices(model)), _windows(pieces, margin)

    def stretches(cutoff: float) -> list[Stretch]:
        return [
            _stretch(motion, tau, piece, window, step)
            for window in windows
            for motion in [rates(joints, window, slice(None), cutoff)]
            for piece in pieces
            if window.start <= piece.start < window.stop
        ]

    motion = stretches(first)
    speeds = np.abs(np.concatenate([one.v for one in motion])).max(axis=0)
    moves = [np.abs(one.v) > REST_SPEED_RATIO * speeds for one in motion]
    reference = _errors(model, motion, moves)
    if not reference.size:
        return first
    best, least = first, 0.0
    for share in _CANDIDATES:
        cutoff = share * first
        if cutoff < lowest:
            break
        gain = np.nanmean(np.log(_errors(model, stretches(cutoff), moves) / reference), axis=1)
        if gain.mean() >= least:
            break
        least = gain.mean()
        if least < min(
            np.log(MAX_ERROR_RATIO), -MIN_STANDARD_ERRORS * gain.std() / np.sqrt(len(gain))
        ):
            best = cutoff
    return best


def _pieces(inner: Sequence[tuple[int, int]]) -> list[Segment]:
    """Stretches of about equal length, evenly from all of a recording."""
    length = max(sum(max(stop - start, 0) for start, stop in inner) / FOLDS, 1.0)
    pieces = []
    for start, stop in inner:
        ends = np.linspace(start, stop, round(max(stop - start, 0) / length) + 1).astype(int)
        pieces += [
            Segment(int(one), int(min(one + BLOCK_SIZE, other)))
            for one, other in itertools.pairwise(ends)
        ]
    chosen = np.linspace(0, len(pieces) - 1, min(len(pieces), 2 * FOLDS)).round()
    return [pieces[int(n)] for n in chosen]


def _windows(pieces: Sequence[Segment], margin: int) -> list[Segment]:
    """Pieces and margins, in which the filter settles; those that overlap are one."""
    windows: list[Segment] = []
    for piece in pieces:
        start, stop = piece.start - margin, piece.stop + margin
        if windows and start < windows[-1].stop:
            start = windows.pop().start
        windows.append(Segment(start, stop))
    return windows


def _stretch(
    motion: tuple[Array, Array, Array], tau: Array, piece: Segment, window: Segment, step: int
) -> Stretch:
    """Samples of a piece, whose motion is part of a window."""
    rows = slice(piece.start - window.start, piece.stop - window.start, step)
    q, v, a = (values[rows] for values in motion)
    return Stretch(q, v, a, tau[piece.start : piece.stop : step])


def _errors(model: Model, motion: Sequence[Stretch], moves: Sequence[np.ndarray]) -> Array:
    """RMS torque errors in each stretch with parameters from the others, (stretches, joints).

    NaN where a joint does not move; without joints that move in fewer than half of the stretches.
    """
    data = Data(model)
    sums = [_equations(model, data, one, weights) for one, weights in zip(motion, moves)]
    H, g, squares = (np.array(values) for values in zip(*sums))
    counts = np.array([weights.sum(axis=0) for weights in moves], float)
    known = (counts > 0.0) & (squares > 0.0)
    joints = np.flatnonzero(known.mean(axis=0) > 0.5)
    if not known[:, joints].any(axis=1).all() or not joints.size:
        return np.zeros((len(motion), 0))
    total = np.maximum(counts.sum(axis=0), 1.0)
    A, b = _weighted(model, H, g, squares.sum(axis=0) / total, joints)
    cost = _cost(H, g, squares, _solution(model, A.sum(axis=0), b.sum(axis=0))).sum(axis=0)
    variance = np.maximum(cost, 1e-12 * squares.sum(axis=0)) / total
    A, b = _weighted(model, H, g, variance, joints)
    cost = _cost(H, g, squares, _solution(model, A.sum(axis=0) - A, b.sum(axis=0) - b))
    squared = np.maximum(cost / np.maximum(counts, 1.0), 1e-12 * variance)
    return np.sqrt(np.where(known, squared, np.nan)[:, joints])


def _equations(
    model: Model, data: Data, one: Stretch, weights: np.ndarray
) -> tuple[Array, Array, Array]:
    features = np.stack([one.a, one.v, np.sign(one.v), np.ones_like(one.v)], axis=2)
    sums = normal_equations(
        model, data, one.q, one.v, one.a, one.tau, features, weights.astype(float)
    )
    return sums.WW, sums.Wy, sums.yy


def _weighted(
    model: Model, H: Array, g: Array, variance: Array, joints: np.ndarray
) -> tuple[Array, Array]:
    """The normal equations of all joints in each stretch, (n, p, p) and (n, p)."""
    known = np.zeros(model.nv)
    known[joints] = 1.0 / variance[joints]
    sums = [
        assembled(one * known[:, None, None], other * known[:, None], 10 * model.njoints)
        for one, other in zip(H, g)
    ]
    return np.array([A for A, _ in sums]), np.array([b for _, b in sums])


def _solution(model: Model, A: Array, b: Array) -> Array:
    """The parameters of each joint's row, (..., nv, c), by least squares of all joints."""
    scale = np.sqrt(np.diagonal(A, axis1=-2, axis2=-1))
    scale = np.where(scale > 0.0, scale, 1.0)
    A = A / scale[..., None] / scale[..., None, :] + RIDGE * np.eye(A.shape[-1])
    x = np.linalg.solve(A, (b / scale)[..., None])[..., 0] / scale
    bodies = 10 * model.njoints
    own = x[..., bodies:].reshape(*x.shape[:-1], -1, model.nv).swapaxes(-1, -2)
    shared = np.broadcast_to(x[..., None, :bodies], (*own.shape[:-1], bodies))
    return np.concatenate([shared, own], axis=-1)


def _cost(H: Array, g: Array, squares: Array, x: Array) -> Array:
    """Sum of the squared errors of each joint."""
    cost: Array = np.sum(x * ((H @ x[..., None])[..., 0] - 2.0 * g), axis=-1) + squares
    return cost
