# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A low pass of the first order, and what turns like it: friction after a reversal."""
from __future__ import annotations

import numpy as np

from ...call.algorithm import compiled
from ...kernel import lanes as la
from ...kernel.types import Array
from ...machine_code.compiler import Entry
from ...model.drives import Drives
from ..dynamics.friction import step


def smooth_samples(x, count, n, share, row_stride, column_stride, value, smooth):
    """The low pass of the first order after each sample, in order, and the last one in ``value``.

    x and smooth are (count, n). share is the part of the difference that a step covers; its strides
    are 0 where all samples, or all columns, have the same.
    """
    x, share = la.floats_at(x), la.floats_at(share)
    value, smooth = la.floats_at(value), la.floats_at(smooth)
    for row in range(count):
        for k in range(n):
            part = share[row * row_stride + k * column_stride]
            value[k] = value[k] + part * (x[row * n + k] - value[k])
            smooth[row * n + k] = value[k]
    return 0


LOW_PASS = Entry("low_pass", smooth_samples, "pqqpqqpp")


def directions(drives: Drives, v: Array, dt: Array, before: Array | None = None) -> Array:
    """Directions of the friction of motors with velocities v (B, nv), from -1 to 1.

    dt (B,) are the times since the samples before. Before the first, directions were ``before``
    (nv,); without it, those of the first depend on the velocity alone.
    """
    found = step(v, drives.friction_velocity)
    if before is None:
        before, dt = found[0], np.append(0.0, dt[1:])
    some = np.flatnonzero(drives.friction_distance)
    path = np.abs(v[:, some]) * dt[:, None] / drives.friction_distance[some]
    found[:, some] = presliding(found[:, some], path, before[some])
    return found


def presliding(sign: Array, path: Array, before: Array) -> Array:
    """The directions of the friction of motors after each sample, (B, n).

    Their differences from the ``sign`` (B, n) of velocities decrease by a factor of e in each
    distance over which friction turns; ``path`` (B, n) is what motors moved since the sample
    before, as a multiple of this distance. Dahl (1968); exact for constant velocities.
    """
    found, (count, n) = np.empty(path.shape), path.shape
    sign, share = map(np.ascontiguousarray, (sign, -np.expm1(-path)))
    compiled(LOW_PASS)(sign, count, n, share, n, 1, before.copy(), found)
    return found
