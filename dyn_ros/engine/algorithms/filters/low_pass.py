# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""First-order low pass, and the friction of motors after a reversal, which follows one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...call.algorithm import load_function
from ...kernel.types import Array
from ...kernel.vocabulary import *
from ...machine_code.compiler import Entry
from ...model.drives import Drives
from ..dynamics.friction import friction_direction

MIN_SPEED = 1e-9  # rad/s, m/s; so that directions are new after a gap, even at rest


def smooth_samples(
    x: Any,
    count: int,
    n: int,
    share: Any,
    row_stride: int,
    column_stride: int,
    value: Any,
    smooth: Any,
) -> int:
    """Compute a first-order low pass after each sample, in order; ``value`` has the last one.

        value = value + share (x - value)

    x and smooth are (count, n). share is the part of the difference that a step covers; its strides
    are 0 where all samples, or all columns, have the same.
    """
    x, share = floats_at(x), floats_at(share)
    value, smooth = floats_at(value), floats_at(smooth)
    for row in range(count):
        for k in range(n):
            part = share[row * row_stride + k * column_stride]
            value[k] = value[k] + part * (x[row * n + k] - value[k])
            smooth[row * n + k] = value[k]
    return 0


LOW_PASS = Entry("low_pass", smooth_samples, "pqqpqqpp")


def motor_directions(
    drives: Drives, v: Array, dt: Array, before: Array | None = None
) -> tuple[Array, Array]:
    """Return directions of the friction of motors with velocities v (B, nv), from -1 to 1.

    Friction that turns over a distance does so as by Dahl (1968): after a reversal, the difference
    from the sign of the velocity decreases by a factor of e in each distance; exact for constant
    velocities in the steps. At rest, where the direction is not known, it is 0.

    dt (B,) are the times since the samples before. The second result is what to pass as ``before``
    (nv,) with the samples that follow; without it, the motors have not just turned.
    """
    direction, columns = friction_direction(drives, v), np.flatnonzero(drives.friction_distance)
    if before is None:
        before, dt = np.sign(v[0]), np.append(0.0, dt[1:])
    turned = presliding_directions(
        v[:, columns], dt, drives.friction_distance[columns], before[columns]
    )
    direction[:, columns] = np.abs(direction[:, columns]) * turned
    after = np.sign(v[-1])
    after[columns] = turned[-1]
    return direction, after


def presliding_directions(v: Array, dt: Array, distance: Array, before: Array) -> Array:
    """Return the directions of the friction of motors that turn over a distance, (B, n).

    Velocities v are (B, n), the distances and the directions ``before`` are (n,).
    """
    return _smooth_directions(np.sign(v), -np.expm1(-_relative_steps(v, dt, distance)), before)


def presliding_direction_changes(
    v: Array, dt: Array, distance: Array, before: Array, change: Array
) -> tuple[Array, Array]:
    """Return ``presliding_directions`` and derivatives by the logarithms of distances, (B, n).

    ``change`` (n,) are the derivatives before.
    """
    path, sign = _relative_steps(v, dt, distance), np.sign(v)
    share = -np.expm1(-path)
    turned = _smooth_directions(sign, share, before)
    deviation = np.concatenate([before[None], turned[:-1]]) - sign
    return turned, _smooth_directions(
        deviation * path * (1.0 - share) / np.maximum(share, 1e-300), share, change
    )


def _relative_steps(v: Array, dt: Array, distance: Array) -> Array:
    """Return the distance of each step, relative to the one over which friction turns."""
    return np.maximum(np.abs(v), MIN_SPEED) * dt[:, None] / distance


def _smooth_directions(values: Array, share: Array, before: Array) -> Array:
    """Return the low pass of values (B, n); ``share`` (B, n) is the part that each step covers."""
    values, share = np.ascontiguousarray(values), np.ascontiguousarray(share)
    smooth, (count, n) = np.empty(values.shape), values.shape
    load_function(LOW_PASS)(values, count, n, share, n, 1, before.copy(), smooth)
    return smooth
