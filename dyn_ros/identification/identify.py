# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of a robot's parameters from measured torques."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..engine.kernel.types import ArrayLike
from ..engine.model import Model
from .result import Identification
from .samples import Samples
from .shapes import Shapes
from .solution import solution
from .torque_equations import Progress


def identify(
    model: Model,
    samples: Samples | Sequence[Samples],
    *,
    armature: bool = True,
    friction: bool = True,
    stribeck: ArrayLike | None = None,
    friction_terms: Sequence[str] | None = None,
    motor_constants: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    regularization: float = 1.0,
    huber: float | None = 5.0,
    held_out: float = 0.2,
    seed: int = 0,
    threads: int = 1,
    contact_dimension: int = 3,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
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
        As described. Payloads are part of the bodies that carry them.
    samples : Samples or sequence of Samples
        See ``Samples.from_arrays`` and ``Samples.from_table``.
    armature : bool
        Estimate the rotor inertia of each joint with one coordinate whose effort is not measured
        on the link side; there it is 0.
    friction : bool
        Estimate damping, Coulomb friction and a constant offset of each such joint.
    stribeck : float or (nv,) array_like, optional
        Also estimate friction that decreases with velocity, F exp(-(v / stribeck)^2) sign(v)
        [rad/s, m/s]. F has any sign.
    friction_terms : sequence of str, optional
        Further terms of friction that may be chosen, of "stribeck", "root_friction",
        "load_friction" and "friction_distance", as in ``Drives``; by default all. A joint has a
        term if it lowers the error of torques that were held out. Distances and velocities of
        terms are estimated, and intervals contain their errors. The sign of velocities becomes
        a ramp at low speed by the same criterion, and where it is only noise, below ten times the
        noise of velocities.
    motor_constants : float or (nv,) array_like, optional
        Torque per unit of measured effort, if efforts are not torques but currents, for example;
        of either sign. Multiplies the gains of ``model.drives``.
    noise : float or (nv,) array_like, optional
        Standard deviation of the noise of each measured torque [N m, N]. Estimated by default.
    regularization : float
        Weight of the divergence from the description, in units of the log-likelihood.
    huber : float or None
        Residuals above this multiple of the noise count linearly, not squared (Huber 1964); normal
        noise exceeds 5 in one of two million samples. None: all count squared.
    held_out : float
        Fraction of the samples that a first estimate does not use, in a few whole stretches.
        ``Identification.joints`` has its errors on them. The result is then estimated from all
        samples. Both have the same terms of friction, which are chosen with all samples.
    seed : int
        Of the choice of these samples.
    threads : int
        Number of threads.
    contact_dimension : int
        What the contacts of the samples transmit: 3, a force at the origin of the frame; 6, also a
        moment. Contact forces need not be known; the equations that they affect are combined so
        that they cancel.
    shapes : dict of str to (n, 3) array_like, optional
        By the name of each link whose shapes are known, points whose convex hull contains its mass
        [m], as from ``link_shapes``. The mass of a body remains within the hull of its links; it
        has no bounds if a link is missing, or carries a payload.
    progress : callable, optional
        Called with the fraction that is done, and a word for what is being done.

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
    began = time.perf_counter()
    progress = progress or (lambda done, what: None)
    solved = solution(
        model,
        samples,
        armature=armature,
        friction=friction,
        stribeck=stribeck,
        friction_terms=friction_terms,
        motor_constants=motor_constants,
        noise=noise,
        regularization=regularization,
        huber=huber,
        held_out=held_out,
        seed=seed,
        threads=threads,
        contact_dimension=contact_dimension,
        shapes=shapes,
        progress=progress,
    )
    spread, count = solved.problem.covariance(solved.equations, solved.fitted)
    result = solved.identification(spread, count, len(solved.samples), time.perf_counter() - began)
    progress(1.0, "done")
    return result
