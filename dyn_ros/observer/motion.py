# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The samples of a motion, validated and in blocks."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.inputs import as_array, require_valid
from ..engine.model.model import Model

_BLOCK = 1 << 13         # samples: their intermediate results remain in the caches


class Motion(NamedTuple):
    """Samples in order of time."""

    q: Array                # (N, nq)
    v: Array                # (N, nv)
    tau: Array              # (N, nv)
    dt: Array               # (N,), time between each sample and the previous one; (1,), one for all

    @property
    def dt_stride(self) -> int:
        """How far the steps of two samples are apart in dt: 0 if there is one for all."""
        return int(len(self.dt) > 1)

    def rows(self, start: int, stop: int) -> Motion:
        """The samples from start to stop."""
        dt = self.dt[start:stop] if len(self.dt) > 1 else self.dt
        return Motion(self.q[start:stop], self.v[start:stop], self.tau[start:stop], dt)

    def blocks(self) -> Iterator[tuple[slice, Motion]]:
        """The samples in blocks, with their rows."""
        for start in range(0, len(self.q), _BLOCK):
            stop = min(start + _BLOCK, len(self.q))
            yield slice(start, stop), self.rows(start, stop)


def validated(model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike,
              dt: float | ArrayLike) -> Motion:
    """The motion of arrays, or a ValueError."""
    configurations = _samples(model, "q", "nq", q)
    velocities, efforts = _samples(model, "v", "nv", v), _samples(model, "tau", "nv", tau)
    count = len(configurations)
    for name, array in (("v", velocities), ("tau", efforts)):
        if len(array) != count:
            raise ValueError(f"{name}: expected {count} samples as in q, got {len(array)}")
    return Motion(configurations, velocities, efforts, _steps(dt, count))


def _samples(model: Model, name: str, axis: str, value: ArrayLike) -> Array:
    array: Array
    array, batched = as_array(model, name, (axis,), value)
    if not batched:
        raise ValueError(f"{name}: expected shape (N, {len(array)}), one row for each sample, got "
                         f"{array.shape}")
    require_valid(model, name, (axis,), array)
    return array


def _steps(dt: float | ArrayLike, count: int) -> Array:
    """The lengths of steps, one for all or one for each of ``count`` samples, or a ValueError."""
    try:
        array = np.asarray(dt)
    except ValueError:                              # a ragged list
        array = np.asarray(None)
    if array.dtype.kind not in "fiu" or array.shape not in ((), (count,)):
        raise ValueError(f"dt: expected a number or {count} of them, got {dt!r:.80}")
    wrong = np.flatnonzero(~((array > 0.0) & np.isfinite(array)))
    if wrong.size:
        where = f" in dt[{wrong[0]}]" if array.ndim else ""
        raise ValueError(f"dt: expected finite numbers of more than 0 s, got "
                         f"{array.flat[wrong[0]]}{where}")
    return np.array(array.reshape(-1), float)
