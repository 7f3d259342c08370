# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimation of gravity, and thereby of how a robot is mounted, from a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..drives.gravity_fit import fit_gravity
from ..engine.algorithms import generalized_gravity, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.kernel.validation import require_model
from ..engine.model import Model
from .motion.numerics import REGRESSION_SAMPLES, evenly_spaced
from .samples import Samples

_MIN_GRAVITY = 1.0  # m/s2; the Moon has 1.6, and errors of inertias imitate less


@dataclass(frozen=True)
class GravityEstimate:
    """Result of ``dyn_ros.estimate_gravity``.

    Attributes
    ----------
    gravity : (3,) ndarray
        Gravity in the world, the axes of the description's root link [m/s2].
    lower, upper : (3,) ndarray
        95 % confidence intervals [m/s2].

    Examples
    --------
    >>> found = dyn_ros.estimate_gravity(model, recording)
    >>> np.allclose(found.gravity, [0.0, 0.0, -9.81], atol=0.01)
    True
    """

    gravity: Array
    lower: Array
    upper: Array


def estimate_gravity(model: Model, samples: Samples | Sequence[Samples]) -> GravityEstimate:
    """Estimate the gravity that explains the torques of a recording.

    The masses are taken from the model, and the intervals do not include their errors. Each joint
    has viscous and Coulomb friction and an offset. Joints whose drives subtract gravity do not
    count.

    Parameters
    ----------
    model : Model
        The robot as described; its own gravity does not matter.
    samples : Samples or sequence of Samples
        Motions of a robot with a fixed base, without contacts.

    Raises
    ------
    ValueError
        Samples with contacts or of another robot, a motion that does not determine gravity, or
        torques without gravity; names a remedy.

    Examples
    --------
    >>> found = dyn_ros.estimate_gravity(model, recording)
    >>> bool((found.lower <= [0.0, 0.0, -9.81]).all())
    True
    """
    require_model(model)
    joined = samples if isinstance(samples, Samples) else Samples.concatenate(samples)
    if joined.v.shape[1] != model.nv or joined.contacts:
        raise ValueError(
            f"samples: expected a recording without contacts of {model!r}, got {joined!r} with "
            f"the contacts {joined.contacts}"
        )
    subset = joined.take(evenly_spaced(len(joined), REGRESSION_SAMPLES))
    data = Data(model)
    motion = subset.q, subset.v, subset.a, subset.f_ext
    inertial = np.array(rnea(model, data, *motion)) - generalized_gravity(model, data, subset.q)
    fit = fit_gravity(model, subset.q, subset.v, inertial, subset.tau)
    if fit is None:
        raise ValueError(
            "samples: the motion does not determine gravity; record efforts of joints that gravity "
            "loads in several directions, such as a shoulder and an elbow, or pass gravity="
        )
    if np.linalg.norm(fit.gravity) < _MIN_GRAVITY:
        raise ValueError(
            "samples: the torques contain no gravity; if the drives subtract it, declare "
            "gravity_compensated in the drives file, and pass gravity="
        )
    return GravityEstimate(
        fit.gravity, fit.gravity - fit.half_widths, fit.gravity + fit.half_widths
    )
