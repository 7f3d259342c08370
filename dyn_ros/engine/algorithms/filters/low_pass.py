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


def smooth_samples(x, count, n, share, share_stride, value, smooth):
    """The low pass of the first order after each sample, in order, and the last one in ``value``.

    x and smooth are (count, n). share is the part of the difference that a step covers;
    share_stride is 0 for one step of all samples, 1 for one for each sample.
    """
    x, share = la.floats_at(x), la.floats_at(share)
    value, smooth = la.floats_at(value), la.floats_at(smooth)
    for row in range(count):
        part = share[row * share_stride]
        for k in range(n):
            value[k] = value[k] + part * (x[row * n + k] - value[k])
            smooth[row * n + k] = value[k]
    return 0


LOW_PASS = Entry("low_pass", smooth_samples, "pqqpqpp")


def directions(drives: Drives, v: Array, dt: Array, before: Array | None = None) -> Array:
    """Directions of the friction of motors with velocities v (B, nv), from -1 to 1.

    dt (B,) are the times since the samples before. Before the first, directions were ``before``
    (nv,); without it, those of the first depend on the velocity alone.
    """
    found = step(v, drives.friction_velocity)
    if before is None:
        before, dt = found[0], np.append(0.0, dt[1:])
    for k, distance in enumerate(drives.friction_distance):
        if distance:
            path = np.abs(v[:, k]) * dt / distance
            found[:, k] = presliding(found[:, k], path, before[k])
    return found


def presliding(sign: Array, path: Array, start: float) -> Array:
    """The direction of the friction of one motor after each sample, (B,).

    Its difference from the ``sign`` (B,) of the velocity decreases by a factor of e in each
    distance over which friction turns; ``path`` (B,) is what the motor moved since the sample
    before, as a multiple of this distance. Dahl (1968); exact for constant velocities.
    """
    direction = np.empty(len(path))
    compiled(LOW_PASS)(np.ascontiguousarray(sign), len(path), 1, -np.expm1(-path), 1,
                       np.array([start]), direction)
    return direction
