# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of a robot's parameters from measured torques."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..engine.model import Model
from ..recordings.options import accept_options
from .identify_options import IdentifyOptions
from .result import Identification
from .samples import Samples
from .solution import Solution, estimate_parameters
from .torque_equations import Notify, StageProgress


@accept_options(IdentifyOptions)
def identify(
    model: Model,
    samples: Samples | Sequence[Samples],
    *,
    progress: StageProgress | None = None,
    notify: Notify | None = None,
    **options: Any,
) -> Identification:
    """Estimate the parameters of a robot from measured torques.

    The estimate minimizes the sum of squared differences of measured and modeled torque, each
    divided by the variance of its joint's noise, plus the divergence of each body from the one
    described. What the recording determines therefore comes from the recording, all else from the
    description. Every body remains physical: its pseudo-inertia is positive definite, so there is a
    distribution of mass that has its inertia. The minimum is unique.

    Parameters
    ----------
    model : Model
        The robot as described. Payloads are part of the bodies that carry them.
    samples : Samples or sequence of Samples
        See ``Samples.from_arrays`` and ``Samples.from_table``.
    **options
    progress : callable, optional
        Called with the completed fraction, and a word that describes the current step.
    notify : callable, optional
        Called with each fault of units and signs, before the estimation, which takes longer. All
        are in ``Identification.faults``.

    Raises
    ------
    ValueError
        Samples of another model, too few samples, an option out of range, or a recording without
        motion; names the value and a remedy.

    References
    ----------
    Lee, T., Wensing, P. and Park, F. C.: Geometric robot dynamic identification: a convex
    programming approach. IEEE Transactions on Robotics 36 (2020).
    Swevers, J. et al.: Optimal robot excitation and identification. IEEE Transactions on Robotics
    and Automation 13 (1997), for the weights.
    Nakamura, T.: Corrected score function for errors-in-variables models. Biometrika 77 (1990),
    for the noise of the motion.
    White, H.: A heteroskedasticity-consistent covariance matrix estimator. Econometrica 48 (1980),
    for the intervals; by blocks of consecutive samples.

    Examples
    --------
    >>> result = dyn_ros.identify(model, recording)
    >>> predicted = result.torque(result.samples)
    >>> bool(abs(predicted - result.samples.tau).max() < 0.05)
    True
    """
    start_time = time.perf_counter()
    progress = progress or (lambda done, what: None)
    notify = notify or (lambda text: None)
    result = estimate_confidence_intervals(
        estimate_parameters(model, samples, IdentifyOptions(**options), progress, notify),
        start_time,
    )
    progress(1.0, "done")
    return result


def estimate_confidence_intervals(solution: Solution, start_time: float) -> Identification:
    """Return the result of samples in memory, with confidence intervals from stretches of them.

    ``start_time`` is of `time.perf_counter`.
    """
    covariance, count = solution.estimator.covariance(solution.equations, solution.fit)
    return solution.to_identification(
        covariance, count, len(solution.samples), time.perf_counter() - start_time
    )
