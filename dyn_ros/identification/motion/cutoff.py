# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Choice of the cutoff of the motion filter, by the prediction of held-out torques.

Spectra of positions do not show what is motion of the robot and what comes from stamps, gears and
controllers. Torques do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...engine.algorithms import normal_equations
from ...engine.algorithms.regressors.normal_equations import assemble
from ...engine.call.data import Data
from ...engine.kernel.types import Array
from ...engine.model.coordinates import JointSlices, has_single_coordinate, joint_slices
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

_CUTOFF_RATIOS = (0.7, 0.5, 0.35, 0.25)  # relative to the first cutoff

MotionFilter = Callable[[Sequence[JointSlices], Segment, slice, float], tuple[Array, Array, Array]]
"""Function that returns filtered q, v and a of joints in rows of a segment, for a cutoff [Hz]."""


class Stretch(NamedTuple):
    """Positions, velocities, accelerations and torques of consecutive samples."""

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
    filter_motion: MotionFilter,
) -> float:
    """Return the first of two limits of the cutoff [Hz], or a lower one with smaller torque errors.

    It is not below the second limit. All candidates are compared on the same samples of the
    recording; ``tau`` (B, nv) are its torques, which are the only forces.
    """
    first, lowest = limits
    margin = settling_samples(rate, max(lowest, first * _CUTOFF_RATIOS[-1]))
    pieces = _choose_pieces(
        [(segment.start + margin, segment.stop - margin) for segment in segments]
    )
    step = 1 + sum(map(len, pieces)) // REGRESSION_SAMPLES
    if not has_single_coordinate(model).all() or len(pieces) < FOLDS // 2:
        return first

    joints, windows = list(joint_slices(model)), _join_windows(pieces, margin)

    def filtered_stretches(cutoff: float) -> list[Stretch]:
        """Return the filtered pieces for a cutoff [Hz]."""
        return [
            _cut_stretch(motion, tau, piece, window, step)
            for window in windows
            for motion in [filter_motion(joints, window, slice(None), cutoff)]
            for piece in pieces
            if window.start <= piece.start < window.stop
        ]

    stretches = filtered_stretches(first)
    max_speeds = np.abs(np.concatenate([stretch.v for stretch in stretches])).max(axis=0)
    moves = [np.abs(stretch.v) > REST_SPEED_RATIO * max_speeds for stretch in stretches]
    reference = _held_out_errors(model, stretches, moves)
    if not reference.size:
        return first
    best, min_change = first, 0.0
    for ratio in _CUTOFF_RATIOS:
        cutoff = ratio * first
        if cutoff < lowest:
            break
        errors = _held_out_errors(model, filtered_stretches(cutoff), moves)
        changes = np.nanmean(np.log(errors / reference), axis=1)
        if changes.mean() >= min_change:
            break
        min_change = changes.mean()
        noise_limit = -MIN_STANDARD_ERRORS * changes.std() / np.sqrt(len(changes))
        if min_change < min(np.log(MAX_ERROR_RATIO), noise_limit):
            best = cutoff
    return best


def _choose_pieces(inner: Sequence[tuple[int, int]]) -> list[Segment]:
    """Return stretches of about equal length, evenly distributed over a recording."""
    length = max(sum(max(stop - start, 0) for start, stop in inner) / FOLDS, 1.0)
    pieces = []
    for start, stop in inner:
        ends = np.linspace(start, stop, round(max(stop - start, 0) / length) + 1).astype(int)
        pieces += [
            Segment(int(begin), int(min(begin + BLOCK_SIZE, end)))
            for begin, end in itertools.pairwise(ends)
        ]
    chosen = np.linspace(0, len(pieces) - 1, min(len(pieces), 2 * FOLDS)).round()
    return [pieces[int(n)] for n in chosen]


def _join_windows(pieces: Sequence[Segment], margin: int) -> list[Segment]:
    """Return the pieces with margins, in which the filter settles; join windows that overlap."""
    windows: list[Segment] = []
    for piece in pieces:
        start, stop = piece.start - margin, piece.stop + margin
        if windows and start < windows[-1].stop:
            start = windows.pop().start
        windows.append(Segment(start, stop))
    return windows


def _cut_stretch(
    motion: tuple[Array, Array, Array], tau: Array, piece: Segment, window: Segment, step: int
) -> Stretch:
    """Return every step-th sample of a piece, from the motion of its window."""
    rows = slice(piece.start - window.start, piece.stop - window.start, step)
    q, v, a = (values[rows] for values in motion)
    return Stretch(q, v, a, tau[piece.start : piece.stop : step])


def _held_out_errors(
    model: Model, stretches: Sequence[Stretch], moves: Sequence[np.ndarray]
) -> Array:
    """Return RMS torque errors with parameters from the other stretches, (stretches, joints).

    They are NaN where a joint does not move. Joints that move in fewer than half of the stretches
    are left out.
    """
    data = Data(model)
    sums = [_joint_equations(model, data, stretch, mask) for stretch, mask in zip(stretches, moves)]
    H, g, squares = (np.array(values) for values in zip(*sums))
    counts = np.array([mask.sum(axis=0) for mask in moves], float)
    is_known = (counts > 0.0) & (squares > 0.0)
    joints = np.flatnonzero(is_known.mean(axis=0) > 0.5)
    if not is_known[:, joints].any(axis=1).all() or not joints.size:
        return np.zeros((len(stretches), 0))
    total = np.maximum(counts.sum(axis=0), 1.0)
    A, b = _sum_joints(model, H, g, squares.sum(axis=0) / total, joints)
    cost = _squared_errors(
        H, g, squares, _solve_parameters(model, A.sum(axis=0), b.sum(axis=0))
    ).sum(axis=0)
    variance = np.maximum(cost, 1e-12 * squares.sum(axis=0)) / total
    A, b = _sum_joints(model, H, g, variance, joints)
    cost = _squared_errors(
        H, g, squares, _solve_parameters(model, A.sum(axis=0) - A, b.sum(axis=0) - b)
    )
    squared = np.maximum(cost / np.maximum(counts, 1.0), 1e-12 * variance)
    return np.sqrt(np.where(is_known, squared, np.nan)[:, joints])


def _joint_equations(
    model: Model, data: Data, stretch: Stretch, mask: np.ndarray
) -> tuple[Array, Array, Array]:
    """Return normal equations of each joint and sums of squared torques, of samples in a mask."""
    q, v, a, tau = stretch
    features = np.stack([a, v, np.sign(v), np.ones_like(v)], axis=2)
    sums = normal_equations(model, data, q, v, a, tau, features, mask.astype(float))
    return sums.WW, sums.Wy, sums.yy


def _sum_joints(
    model: Model, H: Array, g: Array, variance: Array, joints: np.ndarray
) -> tuple[Array, Array]:
    """Return weighted normal equations of all joints in each stretch, (n, p, p) and (n, p)."""
    weights = np.zeros(model.nv)
    weights[joints] = 1.0 / variance[joints]
    sums = [
        assemble(matrix * weights[:, None, None], vector * weights[:, None], 10 * model.njoints)
        for matrix, vector in zip(H, g)
    ]
    return np.array([A for A, _ in sums]), np.array([b for _, b in sums])


def _solve_parameters(model: Model, A: Array, b: Array) -> Array:
    """Return the parameters of each joint's row, (..., nv, c), by least squares of all joints."""
    scale = np.sqrt(np.diagonal(A, axis1=-2, axis2=-1))
    scale = np.where(scale > 0.0, scale, 1.0)
    A = A / scale[..., None] / scale[..., None, :] + RIDGE * np.eye(A.shape[-1])
    x = np.linalg.solve(A, (b / scale)[..., None])[..., 0] / scale
    body_count = 10 * model.njoints
    joint_parameters = x[..., body_count:].reshape(*x.shape[:-1], -1, model.nv).swapaxes(-1, -2)
    body_parameters = np.broadcast_to(
        x[..., None, :body_count], (*joint_parameters.shape[:-1], body_count)
    )
    return np.concatenate([body_parameters, joint_parameters], axis=-1)


def _squared_errors(H: Array, g: Array, squares: Array, x: Array) -> Array:
    """Return the sum of squared errors of each joint."""
    cost: Array = np.sum(x * ((H @ x[..., None])[..., 0] - 2.0 * g), axis=-1) + squares
    return cost
