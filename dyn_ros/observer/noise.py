# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts as arguments, and their covariance as weights."""
from __future__ import annotations

import numpy as np

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model import Model
from ..engine.model.inputs import as_array, finite_array, require_model, require_valid

_SYMMETRIC = 1e-6       # of the largest variance


def external_effort(model: Model, tau_ext: ArrayLike) -> Array:
    """External efforts as an array (nv,) or (B, nv) of finite numbers."""
    array, _ = as_array(require_model(model), "tau_ext", ("nv",), tau_ext)
    require_valid(model, "tau_ext", ("nv",), array)
    return np.asarray(array)


def whitener(model: Model, covariance: ArrayLike) -> Array:
    """The inverse Cholesky factor of a covariance (nv, nv), which makes the errors unit noise."""
    array, batched = as_array(model, "covariance", ("nv", "nv"), covariance)
    if batched:
        raise ValueError(f"covariance: expected shape ({model.nv}, {model.nv}), got {array.shape}; "
                         "it applies to all states of a batch")
    require_valid(model, "covariance", ("nv", "nv"), array)
    if np.abs(array - array.T).max(initial=0.0) > _SYMMETRIC * np.abs(array).max(initial=0.0):
        raise ValueError("covariance: expected a symmetric matrix, got entries that differ from "
                         f"those of its transpose by {np.abs(array - array.T).max():.3g}")
    scale = np.sqrt(np.maximum(array.diagonal(), 0.0))
    if not (scale > 0.0).all():
        k = int(np.argmin(scale))
        raise ValueError(f"covariance: expected positive variances, got {array[k, k]:g} in "
                         f"covariance[{k}, {k}] ({model.velocity_names[k]!r})")
    try:
        factor = np.linalg.cholesky(array / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        raise ValueError("covariance: expected a positive definite matrix, got one with the "
                         f"eigenvalue {np.linalg.eigvalsh(array)[0]:.3g}") from None
    return np.asarray(np.linalg.inv(factor) / scale)


def positive(name: str, value: float) -> float:
    """A finite number above zero."""
    number = float(finite_array(name, value, ()))
    if number <= 0.0:
        raise ValueError(f"{name}: expected a positive number, got {number:g}")
    return number
