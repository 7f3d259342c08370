# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of observers: covariances of external efforts, and samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import as_array, require_valid
from ..engine.model import Model

_SYMMETRY_TOLERANCE = 1e-6  # relative to the largest variance
_BLOCK_SIZE = 1 << 13  # samples; their intermediate results remain in the caches


def whitening_matrix(model: Model, covariance: ArrayLike) -> Array:
    """Return the inverse Cholesky factor of a covariance (nv, nv), which whitens the errors."""
    array, batched = as_array(model, "covariance", ("nv", "nv"), covariance)
    if batched:
        raise ValueError(
            f"covariance: expected shape ({model.nv}, {model.nv}), got {array.shape}; "
            "it applies to all states of a batch"
        )
    require_valid(model, "covariance", ("nv", "nv"), array)
    if np.abs(array - array.T).max(initial=0.0) > _SYMMETRY_TOLERANCE * np.abs(array).max(
        initial=0.0
    ):
        raise ValueError(
            "covariance: expected a symmetric matrix, got one that differs from its "
            f"transpose by {np.abs(array - array.T).max():.3g}"
        )
    scale = np.sqrt(np.maximum(array.diagonal(), 0.0))
    if not (scale > 0.0).all():
        k = int(np.argmin(scale))
        raise ValueError(
            f"covariance: expected positive variances, got {array[k, k]:g} in "
            f"covariance[{k}, {k}] ({model.velocity_names[k]!r})"
        )
    try:
        factor = np.linalg.cholesky(array / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        raise ValueError(
            "covariance: expected a positive definite matrix, got one with the "
            f"eigenvalue {np.linalg.eigvalsh(array)[0]:.3g}"
        ) from None
    return np.asarray(np.linalg.inv(factor) / scale)


# --- samples


class Sample(NamedTuple):
    """A state and the efforts of the motors in it."""

    time: float  # [s], or the stamp [ns]
    q: Array  # (nq,)
    v: Array  # (nv,)
    tau: Array  # (nv,)


class SampleSeries(NamedTuple):
    """Samples in order of time."""

    q: Array  # (N, nq)
    v: Array  # (N, nv)
    tau: Array  # (N, nv)
    dt: Array  # (N,), time between each sample and the previous one; (1,), one for all

    @property
    def dt_stride(self) -> int:
        """Distance of two samples in dt: 0 if one step length is for all."""
        return int(len(self.dt) > 1)

    def blocks(self) -> Iterator[tuple[slice, SampleSeries]]:
        """Yield the samples in blocks, with their rows."""
        for start in range(0, len(self.q), _BLOCK_SIZE):
            rows = slice(start, start + _BLOCK_SIZE)
            dt = self.dt[rows] if len(self.dt) > 1 else self.dt
            yield rows, SampleSeries(self.q[rows], self.v[rows], self.tau[rows], dt)


def make_sample_series(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike, dt: float | ArrayLike
) -> SampleSeries:
    """Return the samples as arrays; raise a ValueError if they are invalid."""
    configurations = _valid_samples(model, "q", "nq", q)
    velocities, efforts = (
        _valid_samples(model, "v", "nv", v),
        _valid_samples(model, "tau", "nv", tau),
    )
    count = len(configurations)
    for name, array in (("v", velocities), ("tau", efforts)):
        if len(array) != count:
            raise ValueError(f"{name}: expected {count} samples as in q, got {len(array)}")
    return SampleSeries(configurations, velocities, efforts, _valid_steps(dt, count))


def _valid_samples(model: Model, name: str, axis: str, value: ArrayLike) -> Array:
    """Return an array with a row for each sample; raise a ValueError if it is invalid."""
    array: Array
    array, batched = as_array(model, name, (axis,), value)
    if not batched:
        raise ValueError(
            f"{name}: expected shape (N, {len(array)}), one row for each sample, got {array.shape}"
        )
    require_valid(model, name, (axis,), array)
    return array


def _valid_steps(dt: float | ArrayLike, count: int) -> Array:
    """Return the step lengths, one or one for each of ``count`` samples, or raise a ValueError."""
    try:
        array = np.asarray(dt)
    except ValueError:  # a ragged list
        array = np.asarray(None)
    if array.dtype.kind not in "fiu" or array.shape not in ((), (count,)):
        raise ValueError(f"dt: expected a number or {count} of them, got {short_repr(dt)}")
    wrong = np.flatnonzero(~((array > 0.0) & np.isfinite(array)))
    if wrong.size:
        where = f" in dt[{wrong[0]}]" if array.ndim else ""
        raise ValueError(
            f"dt: expected finite numbers of more than 0 s, got {array.flat[wrong[0]]}{where}"
        )
    return np.array(array.reshape(-1), float)
