# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Correction of time stamps that jitter, and detection of repeated rows and efforts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.kernel.types import Array
from ...engine.model.coordinates import joint_slices
from ...engine.model.model import Model
from .filtering import MAX_JITTER, Segment, filter_derivatives, highest_cutoff
from .numerics import FILTER_BLOCK_SIZE, MIN_SAMPLES, robust_deviation

_MAX_DEVIATION_RATIO = 0.7  # deviations with corrected stamps, relative to those measured
_MIN_SPACING = 0.3  # sampling periods between two samples
_NEIGHBOR_ROWS = 3  # rows before and after, in which a robot that moves has moved
_MIN_NEW_VALUES = 50  # fewer do not show whether a joint is published at regular intervals
_MAX_SUCCESSIVE_FRACTION = 0.1  # new values that follow another one; rounded values often do
MAX_REPEATED_FRACTION = 0.4  # relative to the rows in motion; above, rows are published too often
_MIN_REGULAR_FRACTION = 0.8  # steps between new efforts of the usual length
_MIN_COMMON_FRACTION = 0.8  # rows with a new number of a joint in which its other numbers are new


def find_repeats(arrays: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return a mask (B,) of rows with the positions, velocities and efforts of the row before.

    In a motion, these are messages that were sent twice. If most are, rows are published more often
    than they are measured, and none is marked.
    """
    is_equal = np.concatenate(
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
    moves = np.zeros(len(is_equal) + 2 * _NEIGHBOR_ROWS, bool)
    moves[_NEIGHBOR_ROWS + 1 : -_NEIGHBOR_ROWS] = (arrays["q"][1:] != arrays["q"][:-1]).any(axis=1)
    moves_nearby = np.any(np.lib.stride_tricks.sliding_window_view(moves, _NEIGHBOR_ROWS), axis=1)
    moved_before = moves_nearby[: len(is_equal)]
    moves_after = moves_nearby[_NEIGHBOR_ROWS + 1 :]
    is_exception = is_equal.sum() < MAX_REPEATED_FRACTION * max(moves.sum(), 1)
    is_repeat: NDArray[np.bool_] = is_equal & is_exception & moved_before & moves_after
    return is_repeat


def find_held_efforts(q: Array, tau: Array) -> NDArray[np.bool_] | None:
    """Return a mask (B,) of rows with the efforts of the row before; None if efforts are not held.

    Efforts that are published less often than positions repeat equally often. Efforts that are
    rounded do not.
    """
    is_equal = np.concatenate([[False], (tau[1:] == tau[:-1]).all(axis=1)])
    moves = np.concatenate([[True], (q[1:] != q[:-1]).any(axis=1)])
    if (is_equal & moves).sum() <= MAX_REPEATED_FRACTION * moves.sum():
        return None
    lengths = np.diff(np.flatnonzero(~is_equal & moves))
    if len(lengths) < MIN_SAMPLES:
        return None
    is_regular = np.abs(lengths - np.median(lengths)) <= 1.0
    return is_equal if is_regular.mean() > _MIN_REGULAR_FRACTION else None


def find_repeated_joints(model: Model, arrays: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """Return a mask (B, nv) of joints whose numbers equal the row before; None without any.

    They repeat if other joints are published more often. In rows in which only these joints are
    new, the other joints repeat.
    """
    is_equal = np.zeros(arrays["tau"].shape, bool)
    joints = [joint for joint in joint_slices(model) if joint.v.stop - joint.v.start == 1]
    moves = np.ones(len(is_equal), bool)
    moves[1:] = (arrays["q"][1:] != arrays["q"][:-1]).any(axis=1)
    is_slow = np.zeros(model.nv, bool)
    for joint in joints:
        columns = [arrays["q"][:, joint.q.start], arrays["tau"][:, joint.v.start]]
        if arrays["v"] is not None:
            columns.append(arrays["v"][:, joint.v.start])
        is_new = np.array([column[1:] != column[:-1] for column in columns])
        is_equal[1:, joint.v.start] = ~is_new.any(axis=0)
        is_slow[joint.v.start] = _is_slow(
            np.flatnonzero(~is_equal[:, joint.v.start] & moves),
            int(np.count_nonzero(is_new.all(axis=0))),
        )
    if not is_slow.any() or is_slow.all():
        return None
    is_frequent = np.zeros(model.nv, bool)
    is_frequent[[joint.v.start for joint in joints if not is_slow[joint.v.start]]] = True
    only_slow_is_new = is_equal[:, is_frequent].all(axis=1, keepdims=True)
    repeats_joints: NDArray[np.bool_] = is_equal & (is_slow | (is_frequent & only_slow_is_new))
    return repeats_joints


def _is_slow(new_rows: NDArray[np.intp], common_count: int) -> bool:
    """Return True if a joint is rarely new in successive rows, as if it were published less often.

    Numbers that are rounded repeat as well, but at irregular intervals, and each at other rows.
    All numbers of the joint are new in ``common_count`` rows.
    """
    if len(new_rows) < _MIN_NEW_VALUES:
        return False
    lengths = np.diff(new_rows)
    is_regular = np.abs(lengths - np.median(lengths)) <= 1.0
    return bool(
        np.mean(lengths == 1) < _MAX_SUCCESSIVE_FRACTION
        and (
            is_regular.mean() > _MIN_REGULAR_FRACTION
            or common_count > _MIN_COMMON_FRACTION * len(new_rows)
        )
    )


def correct_stamps(
    time: Array,
    q: Array,
    slots: NDArray[np.int_],
    pieces: Sequence[Segment],
    segments: Sequence[Segment],
    rate: float,
) -> Array | None:
    """Return stamps (B,) without their jitter [s]; None if positions show no jitter.

    Either the samples are equally spaced and the stamps are not, or all positions of a row are late
    by the same time. The longest segment shows which makes the motion smooth: deviations from a
    filtered motion are then the noise of the positions alone. Samples that are not equally spaced,
    with stamps that say so, are left as they are. ``slots`` are the numbers of the rows, with those
    that were dropped; nothing else is missing in each of the ``pieces``.
    """
    segments = [
        Segment(start, min(start + FILTER_BLOCK_SIZE, segment.stop))
        for segment in segments
        for start in range(segment.start, segment.stop, FILTER_BLOCK_SIZE)
    ]
    longest = slice(*max(segments, key=len))
    if len(time[longest]) < MIN_SAMPLES or np.std(np.diff(time[longest])) * rate < MAX_JITTER:
        return None
    even, shifted = _fit_even_grid(time, slots, pieces), time.copy()
    for rows in (slice(*segment) for segment in segments):
        even[rows] = _make_increasing(even[rows], rate)
        shifted[rows] = _make_increasing(time[rows], rate)
    deviations, v = _position_deviations(shifted[longest], q[longest], rate)
    noise = _deviation_scale(deviations - v * _estimate_shift(deviations, v)[:, None])
    measured_size, even_size, shifted_size = (
        float(np.sqrt(np.mean((_deviation_scale(values) / noise) ** 2)))
        for values in (
            _position_deviations(time[longest], q[longest], rate)[0],
            _position_deviations(even[longest], q[longest], rate)[0],
            _cross_validated_deviations(deviations, v, noise),
        )
    )
    if min(even_size, shifted_size) > _MAX_DEVIATION_RATIO * measured_size:
        return None
    if even_size < shifted_size:
        return even if np.std(even - time) * rate > MAX_JITTER else None
    for rows in (slice(*segment) for segment in segments if len(segment) > MIN_SAMPLES):
        shift = _estimate_shift(*_position_deviations(shifted[rows], q[rows], rate))
        shifted[rows] = _make_increasing(shifted[rows] + shift, rate)
    return shifted if np.std(shifted - time) * rate > MAX_JITTER else None


def _fit_even_grid(time: Array, slots: NDArray[np.int_], pieces: Sequence[Segment]) -> Array:
    """Return equally spaced times near the stamps: one period, and an offset of each piece."""
    x, mean = np.empty(len(time)), np.empty(len(time))
    for rows in (slice(*piece) for piece in pieces):
        x[rows] = slots[rows] - slots[rows].mean()
        mean[rows] = time[rows].mean()
    period = float(x @ (time - mean)) / max(float(x @ x), 1e-300)
    grid: Array = mean + period * x
    return grid


def _make_increasing(time: Array, rate: float) -> Array:
    """Return times that increase by at least the smallest spacing."""
    steps = np.arange(len(time)) * (_MIN_SPACING / rate)
    increasing: Array = np.maximum.accumulate(time - steps) + steps
    return increasing


def _position_deviations(time: Array, q: Array, rate: float) -> tuple[Array, Array]:
    """Return measured minus filtered positions, and the rates of the latter, (B, nq) each."""
    smooth, v = filter_derivatives(time, q.T, highest_cutoff(rate), 1)
    return q - smooth.T, v.T


def _estimate_shift(deviations: Array, v: Array) -> Array:
    """Return the time (B,) from the stamp of each row to its measurement [s].

    It is the least-squares solution for the deviations of all joints, weighted by their
    noise, and biased to zero by the size of the jitter.
    """
    noise = _deviation_scale(deviations)
    information = (v**2) @ noise**-2
    raw = (v * deviations) @ noise**-2 / np.maximum(information, 1e-300)
    is_certain = information >= np.median(information)
    jitter = float(_deviation_scale(raw[is_certain, None])[0])
    shift: Array = raw * information / (information + jitter**-2)
    return shift


def _cross_validated_deviations(deviations: Array, v: Array, noise: Array) -> Array:
    """Return the deviations of each joint after shifts estimated from the other joints."""
    residual = deviations.copy()
    for k in range(v.shape[1]):
        weight = np.where(np.arange(v.shape[1]) == k, 0.0, noise**-2)
        shift = (v * deviations) @ weight / np.maximum((v**2) @ weight, 1e-300)
        residual[:, k] -= shift * v[:, k]
    return residual


def _deviation_scale(x: Array) -> Array:
    """Return the robust standard deviation of each column, not 0."""
    size: Array = np.maximum(robust_deviation(x), 1e-12)
    return size
