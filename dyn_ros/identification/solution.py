# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the estimates from different samples share, and the result that is made of them."""
from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..engine.kernel.types import Array
from ..engine.model import Model
from . import least_squares
from .base_parameters import BaseParameters, undetermined
from .least_squares import Estimate, Scale
from .normal_equations import Equations
from .physical import Reference, physical_parameters
from .result import BaseEstimate, Identification, JointResult
from .samples import Samples
from .torque_equations import TorqueEquations
from .unknowns import FEATURES, Unknowns, is_actuated, is_linear

_DIFFERENCES = 20000    # of consecutive residuals, for their noise
_REVERSALS = 3          # times that samples near reversals are left out
_ROUNDING = 1e-14       # of a body's size
_FEWEST = 3             # equations for each parameter
_MANY = 0.02            # of the torques: more outliers than noise has


class Solution(NamedTuple):
    """An estimate, and what it was computed from."""

    problem: Problem
    samples: Samples
    chosen: tuple[str, ...]             # the features that are estimated
    velocity: Array                     # (nv,), of Stribeck friction
    contact_dimension: int
    described: Array                    # (p,), all parameters of the description
    held_out: tuple[slice, ...]         # samples that were held out of a first estimate
    equations: TorqueEquations          # of all samples
    fitted: Fit                         # of them
    joints: tuple[JointResult, ...]     # on the samples that were held out
    warnings: tuple[str, ...]           # but for those about outliers

    def identification(self, spread: Array, count: int, size: int,
                       seconds: float) -> Identification:
        """The result, with the covariance (b, b) of the estimate, from ``count`` blocks."""
        unknowns, base, fitted = self.problem.unknowns, self.problem.base, self.fitted
        model, warnings = unknowns.model, self.warnings
        if fitted.outliers > _MANY:
            warnings += (f"{100.0 * fitted.outliers:.1f} % of the torques differ from the model by "
                         f"more than {self.problem.huber:g} times the noise; the model lacks "
                         "something, or something touched the robot",)
        values = base_estimate(base, fitted.estimate, spread,
                               float(stdtrit(max(count - 1, 1), 0.975)),
                               self.problem.scale.typical, self.described, fitted.parameters)
        own = fitted.parameters[unknowns.bodies:].reshape(len(FEATURES), model.nv)
        return Identification(
            model=model, identified=_identified(model, unknowns, self.chosen, fitted.parameters),
            offset=own[3], stribeck=own[4], stribeck_velocity=self.velocity, joints=self.joints,
            base=values, samples=self.samples, size=size, held_out=self.held_out,
            contact_dimension=self.contact_dimension,
            undetermined=undetermined(unknowns, base, values, self.samples), warnings=warnings,
            seconds=seconds)


class Fit(NamedTuple):
    """Both estimates from some samples."""

    estimate: Estimate      # of the base parameters
    parameters: Array       # (p,), physical ones
    outliers: float         # as a fraction of the torques
    correlations: Array     # (nv,), number of samples over which the noise is correlated
    shift: Array            # (p,), added to those of least squares, since the motion is noisy


class Problem(NamedTuple):
    """What the estimates from different samples share."""

    unknowns: Unknowns
    base: BaseParameters
    reference: Reference
    scale: Scale
    noise: Array | None
    huber: float | None
    regularization: float

    def first_estimate(self, equations: TorqueEquations) -> Estimate:
        """Estimate until it is known which samples count, and how contacts are eliminated."""
        sums = equations.sums(0.0, 0.1)
        _require_equations(equations.contacts, float(sums.count.sum()), len(self.base))
        estimate = self._estimate(sums)
        if equations.contacts:          # whose elimination depends on the noise
            equations.scale_by(estimate.noise)
            estimate = self._estimate(equations.sums(0.1, 0.2))
        for _ in range(_REVERSALS):
            if not equations.leave_out_reversals(estimate.parameters):
                break
            estimate = self._estimate(equations.sums(0.2, 0.3))
        return estimate

    def fit(self, equations: TorqueEquations, estimate: Estimate, before: Fit | None, start: float,
            stop: float) -> Fit:
        """Estimate from all samples; outliers and correlated noise count less.

        If there is a fit of some of the samples, the search for physical parameters starts there,
        and the noise of the motion has the same effect.
        """
        correlations = equations.correlations(estimate.parameters)
        sums, outliers = equations.sums(start, stop), 0.0
        estimate = self._estimate(sums, correlations)
        if self.huber is not None:
            sums, estimate, outliers = least_squares.without_outliers(
                self.unknowns, self.base, self.scale, sums, equations, self.noise, correlations,
                estimate, self.huber)
        shift = before.shift if before else least_squares.correction(
            self.base, equations, estimate, self.huber)
        estimate = estimate.moved(self.base, shift)
        parameters = physical_parameters(
            self.unknowns, sums, estimate.noise, shift, self.reference, self.regularization,
            before and before.parameters)
        return Fit(estimate, parameters, outliers, correlations, shift)

    def _estimate(self, sums: Equations, correlations: Array | float = 1.0) -> Estimate:
        return least_squares.estimate(self.unknowns, self.base, self.scale, sums, self.noise,
                                      correlations)


def _require_equations(contacts: tuple[str, ...], count: float, parameters: int) -> None:
    if count >= _FEWEST * parameters:
        return
    if contacts:
        raise ValueError(
            f"samples: {count:.3g} equations remain for {parameters} parameters, without those "
            f"that unknown forces in the contacts {', '.join(contacts)} can explain; "
            "use a floating root joint if the base is not fixed, a contact dimension of 3 for "
            "points, and state for each sample which frames are in contact")
    raise ValueError(f"samples: expected at least {_FEWEST * parameters} equations of joints "
                     f"that move and whose effort is measured, got {count:.3g}; record more "
                     "motion, or check the efforts")


def base_estimate(base: BaseParameters, estimate: Estimate, spread: Array, quantile: float,
                  scale: Array, described: Array, parameters: Array) -> BaseEstimate:
    """Values, intervals, and how well each is determined."""
    deviation = np.sqrt(np.maximum(np.diag(spread), 0.0))
    deviation = np.where(estimate.determined, deviation, np.inf)
    part = deviation / scale
    half = quantile * deviation
    return BaseEstimate(
        names=base.names, units=base.units, matrix=base.matrix, before=base.matrix @ described,
        after=base.matrix @ parameters, estimate=estimate.value, deviation=deviation,
        lower=np.where(estimate.determined, estimate.value - half, -np.inf),
        upper=np.where(estimate.determined, estimate.value + half, np.inf),
        excitation=tuple("well" if x < 0.1 else "weakly" if x < 1.0 else "not" for x in part))


def described(model: Model) -> Array:
    """All parameters of the description, (p,)."""
    return np.concatenate([np.ravel(model.inertial_parameters), model.armature, model.damping,
                           model.friction, np.zeros(2 * model.nv)])


def _identified(model: Model, unknowns: Unknowns, chosen: Sequence[str],
                parameters: Array) -> Model:
    """A copy of the model with these parameters; numbers that are rounding errors are zero."""
    identified = copy.copy(model)
    bodies = parameters[:unknowns.bodies].reshape(-1, 10).copy()
    moment = bodies[:, [4, 6, 9]].sum(axis=1)
    size = np.stack([bodies[:, 0], np.sqrt(bodies[:, 0] * moment), moment], axis=1)
    bodies[np.abs(bodies) < _ROUNDING * np.repeat(size, [1, 3, 6], axis=1)] = 0.0
    identified.inertial_parameters = bodies
    own = parameters[unknowns.bodies:].reshape(len(FEATURES), model.nv)
    for name, numbers in zip(FEATURES[:3], own):        # which a model has
        if name in chosen:
            setattr(identified, name, numbers)
    return identified


def comparison(equations: TorqueEquations, held: Sequence[slice], described: Array,
               parameters: Array) -> tuple[Squares, Array]:
    """How well the models before and after explain the samples that were held out.

    Also returns the noise of each row, (nv,), from second differences of consecutive residuals.
    """
    squares, differences = Squares.nothing(equations.nv), []
    rows = np.concatenate([np.arange(block.start, block.stop) for block in held])
    for torques in equations.comparison(rows, (described, parameters)):
        squares = squares.plus(torques)
        last = max(3, _DIFFERENCES * len(torques[2]) // len(rows))
        differences.append(np.diff(torques[2][:last], 2, axis=0))
    # of white noise they are larger than it; jumps of friction are too rare to count
    return squares, least_squares.median_deviation(np.concatenate(differences)) / np.sqrt(6.0)


class Squares(NamedTuple):
    """Sums of squares: of measured torques, and of what two models leave of them, (3, nv)."""

    squares: Array
    counts: Array

    @classmethod
    def nothing(cls, nv: int) -> Squares:
        """The sums of no samples."""
        return cls(np.zeros((3, nv)), np.zeros((3, nv)))

    def plus(self, part: Sequence[Array]) -> Squares:
        """The sums with further samples: torques and residuals, (B, nv) each; NaN is missing."""
        return Squares(self.squares + [np.nansum(torques ** 2, axis=0) for torques in part],
                       self.counts + [np.isfinite(torques).sum(axis=0) for torques in part])


def joint_results(model: Model, sums: Squares, noise: Array) -> tuple[JointResult, ...]:
    """How well the models before and after explain samples that were not used."""
    rms = np.sqrt(sums.squares / np.where(sums.counts > 0.0, sums.counts, np.nan))
    linear, actuated = is_linear(model), is_actuated(model)
    return tuple(JointResult(
        name=name, unit="N" if linear[k] else "N m", before=float(rms[1, k]),
        after=float(rms[2, k]), noise=float(noise[k] if actuated[k] else rms[2, k]),
        torque=float(rms[0, k]))
        for k, name in enumerate(model.velocity_names))
