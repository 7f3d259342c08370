# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated noise of measured motions."""
from __future__ import annotations

import dataclasses

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model import Model
from .samples import Samples


def with_noise(model: Model, samples: Samples, sigma: Array) -> tuple[Samples, Samples]:
    """Add random noise to the motion of samples, as their filter leaves it, and subtract it.

    Parameters
    ----------
    model : Model
    samples : Samples
    sigma : (3, nv) ndarray
        Its standard deviations, as ``Samples.motion_noise``.

    Returns
    -------
    more, less : Samples
        The noise of a sample is independent of that of others.
    """
    dq, dv, da = np.random.default_rng(0).standard_normal((3, len(samples), model.nv))
    # the second derivative of a stationary signal is correlated with it: E[q ddq] = -E[dq^2]
    product = sigma[0] * sigma[2]
    common = np.where(product > 0.0, sigma[1] ** 2 / np.where(product > 0.0, product, 1.0), 0.0)
    da = np.sqrt(np.maximum(1.0 - common ** 2, 0.0)) * da - common * dq
    dq, dv, da = dq * sigma[0], dv * sigma[1], da * sigma[2]
    more, less = (dataclasses.replace(
        samples, q=model.integrate(samples.q, sign * dq), v=samples.v + sign * dv,
        a=samples.a + sign * da) for sign in (1.0, -1.0))
    return more, less
