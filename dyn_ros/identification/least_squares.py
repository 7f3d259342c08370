# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares of the base parameters: estimate, noise, outliers, covariance, errors."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..drives.causes import LAGS, LONGEST, POOR, Errors, likely_causes
from ..engine.algorithms.regressors.normal_equations import assembled
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import is_actuated, is_linear
from .base_parameters import BaseParameters, Unknowns
from .friction_terms import FrictionTerms
from .motion.numerics import REGRESSION, ROUNDS, normal_deviation
from .normal_equations import STRETCH_COUNT, Equations, Stretches, bordered, require_equations
from .physical import WEAK_WEIGHT, Reference, decomposed, fit
from .result import JointResult
from .torque_equations import TorqueEquations

_OF_ANY_SIGN = ("offset", "stribeck", "root_friction")
_BRIEF = 0.1  # of the longest recording: others belong to the one before
_RECURRING = 4.0  # outlier limits; larger errors count as this much in the noise
_UNLIKELY = 5.0  # decrease of the log-likelihood that noise does not explain
_MAX_REGRESSOR_SIZE = 5_000_000  # numbers in memory
_MAX_LOG_STEP = 0.5  # of a width, distance or velocity of friction
MIN_STRETCH = 256  # samples; in shorter stretches, intervals of friction hold in 90 %, not 97 %


class Estimate(NamedTuple):
    """Weighted least squares of the base parameters."""

    value: Array  # (b,); NaN if undetermined
    inverse: Array  # (b, b) of the normal equations
    determined: np.ndarray  # (b,) bool
    noise: Array  # (nv,) standard deviation of each row
    parameters: Array  # (p,) with these values, and zeros


class Fit(NamedTuple):
    """Both estimates from some samples."""

    estimate: Estimate  # of the base parameters
    parameters: Array  # (p,), physical ones
    outliers: float  # as a fraction of the torques
    correlations: Array  # (nv,), number of samples over which the noise is correlated
    limit: Array  # (nv,), larger residuals count linearly
    shift: Array  # (p,), added to those of least squares, since the motion is noisy
    loose: tuple[str, ...]  # joints whose bodies are not within the known shapes of their links

    @property
    def correlation(self) -> float:
        """Number of samples that say as much as one; of all rows, as errors last in some."""
        return _common(self.correlations)


class Problem(NamedTuple):
    """What the estimates from different samples share."""

    unknowns: Unknowns
    base: BaseParameters
    reference: Reference
    noise: Array | None  # (nv,), standard deviation of each row, if it is known
    huber: float | None
    regularization: float
    least: Array  # (nv,), the least noise: of rounded efforts

    def first_estimate(self, equations: TorqueEquations) -> tuple[Estimate, Equations]:
        """Estimate until it is known which samples count, and how contacts are eliminated.

        Also returns the sums of these.
        """
        sums, contacts = equations.sums(0.0, 0.1), equations.samples.contacts
        require_equations(contacts, float(sums.weight.sum()), len(self.base))
        estimate = self.estimate(sums, self.noise)
        if contacts:  # whose elimination depends on the noise
            equations.conditions = equations.conditions._replace(scale=estimate.noise)
            sums = equations.sums(0.1, 0.2)
            estimate = self.estimate(sums, self.noise)
        for _ in range(ROUNDS):
            if not equations.leave_out_reversals(estimate.parameters):
                break
            sums = equations.sums(0.2, 0.3)
            estimate = self.estimate(sums, self.noise)
        return estimate, sums

    def fit(
        self, equations: TorqueEquations, sums: Equations, first: Estimate, before: Fit | None
    ) -> Fit:
        """Estimate from samples and their sums; if there is a fit of some, near its result."""
        correlations, outliers = equations.correlations(first.parameters), 0.0
        correlation, limit = _common(correlations), np.full(len(correlations), np.inf)
        estimate = self.estimate(sums, self.noise, correlation)
        if self.huber is not None:
            sums, estimate, outliers, limit = self._without_outliers(
                sums, equations, correlation, estimate, self.huber
            )
        shift = before.shift if before else self._correction(equations, estimate, limit)
        return self.fit_with_shift(
            sums, estimate, shift, outliers, correlations, limit, before and before.parameters
        )

    def estimate(self, sums: Equations, noise: Array | None, correlation: float = 1.0) -> Estimate:
        """Base parameters, and the noise unless it is given, in turn until they agree.

        Where noise is correlated over several samples, it counts as that of independent samples
        that would say as much.
        """
        current = self._residual(sums, self.reference.described) if noise is None else noise
        for _ in range(ROUNDS):
            value, inverse, determined = self._solved(sums, current)
            parameters = np.zeros(len(self.unknowns))
            parameters[self.base.independent] = value
            if noise is not None:
                break
            before, current = current, self._residual(sums, parameters)
            current /= np.sqrt(max(1.0 - len(self.base) / max(sums.weight.sum(), 1.0), 1e-3))
            current = np.maximum(current, self.least) * np.sqrt(correlation)
            if np.abs(current / before - 1.0).max() < 1e-3:
                break
        return Estimate(
            np.where(determined, value, np.nan), inverse, determined, current, parameters
        )

    def fit_with_shift(
        self,
        sums: Equations,
        estimate: Estimate,
        shift: Array,
        outliers: float,
        correlations: Array,
        limit: Array,
        near: Array | None,
    ) -> Fit:
        """Both estimates, their least squares moved by ``shift`` (p,); the search starts near."""
        estimate = estimate._replace(
            value=estimate.value + shift[self.base.independent],
            parameters=estimate.parameters + shift,
        )
        unknowns, reference = self.unknowns, self.reference
        H, g = self._assembled(sums, estimate.noise)
        g += H @ shift
        kinds = np.repeat(
            [2 if name in _OF_ANY_SIGN else 1 for name in unknowns.features], unknowns.model.nv
        )
        kind = np.concatenate([np.zeros(unknowns.bodies, int), kinds])
        order = np.argsort(kind, kind="stable")
        order = order[unknowns.active[order]]

        def physical(some: np.ndarray) -> Array:
            parameters = np.zeros(len(unknowns))
            parameters[order] = fit(
                H[np.ix_(order, order)],
                g[order],
                reference.values[order],
                kind[order],
                self.regularization * reference.weights[order],
                None if near is None else near[order],
                reference.bounds[some][:, order],
                WEAK_WEIGHT * self.regularization,
            )
            return parameters

        parameters, loose = self._within_shapes(sums, physical, correlations)
        return Fit(estimate, parameters, outliers, correlations, limit, shift, loose)

    def _within_shapes(
        self, sums: Equations, physical: Callable[[np.ndarray], Array], correlations: Array
    ) -> tuple[Array, tuple[str, ...]]:
        """Physical parameters, and the joints whose bodies are not within the known shapes.

        These are those at the ends of the robot, where tools are attached, or else all, if bounds
        make the torques of a joint unlikely. ``physical`` estimates with some of the bounds.
        """
        bounds, of_joint = self.reference.bounds, self.reference.of_joint
        every, names = np.ones(len(bounds), bool), self.unknowns.model.joint_names
        parameters = physical(every)
        if not len(bounds):
            return parameters, ()
        free = physical(~every)
        least = self._residual(sums, free)
        for some in (every, np.isin(of_joint, self.unknowns.model.parents)):
            if not some.all():
                parameters = physical(some)
            excess = (self._residual(sums, parameters) / least) ** 2 - 1.0
            if (sums.weight * excess < 2.0 * _UNLIKELY * correlations).all():
                return parameters, tuple(names[i] for i in dict.fromkeys(of_joint[~some]))
        return free, tuple(names[i] for i in dict.fromkeys(of_joint))

    def _assembled(self, sums: Equations, noise: Array) -> tuple[Array, Array]:
        """The normal equations of all parameters, each row divided by its variance."""
        WW, Wy = sums.WW * noise[:, None, None] ** -2, sums.Wy * noise[:, None] ** -2
        if WW.shape[1] == len(self.unknowns):  # rows are combined
            return WW.sum(axis=0), Wy.sum(axis=0)
        return assembled(WW, Wy, self.unknowns.bodies)

    def _solved(self, sums: Equations, noise: Array) -> tuple[Array, Array, np.ndarray]:
        """Values, inverse of the normal equations, and which values are determined."""
        H, g = self._assembled(sums, noise)
        F, d, determined = _factors(H[np.ix_(own := self.base.independent, own)])
        return F @ (d * (F.T @ g[own])), F * d @ F.T, determined

    def _residual(self, sums: Equations, parameters: Array) -> Array:
        """RMS residual of each row; of rows without samples, the largest."""
        squares = np.array(
            [
                yy - 2.0 * Wy @ x + x @ WW @ x
                for x, WW, Wy, yy in zip(parameters[self.unknowns.local], sums.WW, sums.Wy, sums.yy)
            ]
        )
        rounding = 1e-13 * sums.yy + 1e-24 * sums.weight
        residual = np.sqrt(np.maximum(squares, rounding) / np.maximum(sums.weight, 1e-300))
        largest = max(residual[sums.weight > 0.0].max(initial=0.0), 1e-9)
        return np.where(sums.weight > 0.0, residual, largest)

    def _without_outliers(
        self,
        sums: Equations,
        equations: TorqueEquations,
        correlation: float,
        first: Estimate,
        huber: float,
    ) -> tuple[Equations, Estimate, float, Array]:
        """Reduce the weights of large residuals (Huber 1964).

        Returns the sums, the estimate, the fraction of outliers and the limits (nv,).
        """
        fitted, share, every, limit = first, 0.0, sums, first.noise
        for _ in range(ROUNDS):
            residuals, noise = equations.some_residuals(fitted.parameters), self.noise
            # the median size of residuals does not depend on outliers, but may be zero if rounded
            limit = huber * (
                np.maximum(median_deviation(residuals), self.least) if noise is None else noise
            )
            limit = np.where(limit > 0.0, limit, np.inf)
            if noise is None:
                noise = np.maximum(clipped(residuals, _RECURRING * limit), self.least)
                noise = np.where(noise > 0.0, noise, np.inf)
            excess, outliers, rows = equations.outlier_excess(fitted.parameters, limit)
            share = outliers / max(rows, 1)
            every = sums.minus(excess)
            before, fitted = fitted, self.estimate(every, noise * np.sqrt(correlation))
            deviation = np.sqrt(np.maximum(np.diag(fitted.inverse), 1e-300))
            if not (np.abs(fitted.value - before.value) > 0.05 * deviation).any():
                break
        return every, fitted, share, limit

    def _correction(self, equations: TorqueEquations, fitted: Estimate, limit: Array) -> Array:
        """What the noise of the motion takes from the parameters, (p,) (Nakamura 1990)."""
        own = self.base.independent
        added = equations.attenuation(fitted.parameters, limit, fitted.noise)
        shift = np.zeros(len(added))
        shift[own] = -fitted.inverse @ added[own]
        return shift

    def covariance(self, equations: TorqueEquations, fitted: Fit) -> tuple[Array, int]:
        """Covariance from stretches of samples, and their number; see ``stretch_covariance``."""
        ids = equations.samples.recording
        is_short = equations.size < STRETCH_COUNT * MIN_STRETCH
        count = STRETCH_COUNT // 2 if is_short else STRETCH_COUNT
        turns = [] if ids is None else (np.flatnonzero(np.diff(ids)) + 1).tolist()
        lengths = np.diff([0, *turns, equations.size])
        turns = np.array([0, *turns])[lengths > _BRIEF * lengths.max()].tolist()[1:]
        ends = [0, *turns, equations.size]
        while count > 1 and count * (len(ends) - 1) > max(STRETCH_COUNT, 2 * len(turns)):
            count //= 2
        edges = np.concatenate(
            [
                [0],
                *(
                    np.linspace(start, stop, count + 1).astype(int)[1:]
                    for start, stop in itertools.pairwise(ends)
                ),
            ]
        )
        stretches = self.stretch_sums(
            equations,
            fitted.estimate.parameters,
            fitted,
            edges,
            np.repeat(np.arange(len(ends) - 1), count),
        )
        return self.stretch_covariance(stretches, fitted.estimate)

    def stretch_sums(
        self,
        equations: TorqueEquations,
        parameters: Array,
        fitted: Fit,
        edges: np.ndarray,
        recording: np.ndarray,
    ) -> Stretches:
        """What the samples between consecutive edges contribute at an estimate (p,)."""
        return Stretches(
            recording,
            self.scores(equations, parameters, fitted, edges),
            self.stretch_equations(equations, parameters, fitted, edges),
        )

    def stretch_equations(
        self, equations: TorqueEquations, parameters: Array, fitted: Fit, edges: np.ndarray
    ) -> Array:
        """Normal equations between consecutive edges, (n, b + m, b + m), from some samples."""
        own, noise = self.base.independent, fitted.estimate.noise
        step = 1 + equations.size // REGRESSION  # of motions, which are smooth
        parts = [equations.rows[first:last:step] for first, last in itertools.pairwise(edges)]
        H = np.array(
            [self._assembled(sums, noise)[0][np.ix_(own, own)] for sums in equations.sums_of(parts)]
        )
        if equations.conditions.terms.free.any():
            others, squares = equations.friction_sums(parts, parameters, noise)
            H = bordered(H, others[:, own], squares)
        return H * (np.diff(edges) / np.maximum([len(part) for part in parts], 1))[:, None, None]

    def scores(
        self, equations: TorqueEquations, parameters: Array, fitted: Fit, edges: np.ndarray
    ) -> Array:
        """Gradients, summed over the samples between consecutive edges, (n, b + m)."""
        scores = equations.scores(parameters, fitted.limit, fitted.estimate.noise, edges)
        others = np.arange(len(parameters), scores.shape[1])
        return scores[:, np.append(self.base.independent, others)]

    def newton_step(self, stretches: Stretches, terms: FrictionTerms) -> tuple[Array, Array]:
        """What scores add to an estimate (b,), and to the logarithms of friction's scales (m,).

        Where limits stop one of these, the others go as far as they do with it.
        """
        H, scores, b = stretches.H.sum(axis=0), stretches.scores.sum(axis=0), len(self.base)
        step, stopped = np.zeros(len(scores)), np.zeros(len(scores), bool)
        while True:
            free = np.flatnonzero(~stopped)
            F, d, _ = _factors(H[np.ix_(free, free)])
            step[free] = F @ (d * (F.T @ (scores - H[:, stopped] @ step[stopped])[free]))
            limited = terms.within(np.clip(step[b:], -_MAX_LOG_STEP, _MAX_LOG_STEP))
            beyond = np.abs(limited - step[b:]) > 1e-9
            if not beyond.any():
                return step[:b], step[b:]
            step[b:], stopped[b:] = np.where(beyond, limited, step[b:]), stopped[b:] | beyond

    def stretch_covariance(self, stretches: Stretches, estimate: Estimate) -> tuple[Array, int]:
        """Covariance of the estimate and of the logarithms of friction's scales, (b + m, b + m).

        Also returns the number of independent stretches.
        """
        kinds = np.maximum(self.base.independent - self.unknowns.bodies, -1)
        kinds //= max(self.unknowns.model.nv, 1)
        sizes = np.where(kinds > 0, np.nan_to_num(estimate.value), 0.0)
        return stretches.covariance(estimate.inverse, sizes, kinds)


def _factors(H: Array) -> tuple[Array, Array, np.ndarray]:
    """F and d with the inverse F d F' of normal equations, and which values they determine."""
    diagonal = np.diag(H)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    F, d, determined = decomposed(H, scale)
    return F, d, determined & (diagonal > 0.0)


def _common(correlations: Array) -> float:
    """One correlation length for all rows."""
    return float(np.median(correlations))


def median_deviation(residuals: Array) -> Array:
    """Standard deviation of each column from the median size of its finite numbers, or NaN."""
    columns = [column[np.isfinite(column)] for column in residuals.T]
    return np.array([normal_deviation(known) if len(known) else np.nan for known in columns])


def clipped(residuals: Array, limit: Array) -> Array:
    """RMS of each column's finite numbers, of which larger ones count as the limit (n,)."""
    counted = np.isfinite(residuals)
    squares = np.where(counted, np.minimum(np.abs(residuals), limit), 0.0) ** 2
    return np.sqrt(squares.sum(axis=0) / np.maximum(counted.sum(axis=0), 1))


# --- what is left


def sum_squares(torques: Sequence[Array]) -> Array:
    """Sums of squares and counts, (2, n, nv), of n arrays (B, nv); NaN is missing."""
    return np.array(
        [
            [np.nansum(tau**2, axis=0) for tau in torques],
            [np.isfinite(tau).sum(axis=0) for tau in torques],
        ]
    )


def joint_results(model: Model, squares: Array, noise: Array) -> tuple[JointResult, ...]:
    """The results from squares of measured torques, and of what two models leave of them."""
    torque, before, after = np.sqrt(squares[0] / np.where(squares[1] > 0.0, squares[1], np.nan))
    linear, actuated = is_linear(model), is_actuated(model)
    return tuple(
        JointResult(
            name=name,
            unit="N" if linear[k] else "N m",
            before=float(before[k]),
            after=float(after[k]),
            noise=float(noise[k] if actuated[k] else after[k]),
            torque=float(torque[k]),
        )
        for k, name in enumerate(model.velocity_names)
    )


def unexplained(
    model: Model,
    equations: TorqueEquations,
    joints: Sequence[JointResult],
    parameters: Array,
    given: Array | None,
) -> list[str]:
    """Warnings of joints whose errors are larger than their noise, with likely causes.

    The noise may be larger if it was given, (nv,).
    """
    least = np.zeros(model.nv) if given is None else given
    poor = [
        k
        for k in np.flatnonzero(is_actuated(model)).tolist()
        if joints[k].after > max(POOR * max(joints[k].noise, least[k]), 1e-3 * joints[k].torque)
    ]
    if not poor:
        return []
    causes = likely_causes(
        model, _errors(model, equations, parameters), {k: joints[k].noise for k in poor}
    )
    found: dict[str, list[str]] = {}
    for k, cause in causes.items():
        found.setdefault(cause, []).append(
            f"{joints[k].name} ({joints[k].after / max(joints[k].noise, 1e-300):.3g})"
        )
    return [
        "the error of the identified model is more than the noise of the measured torque, by "
        f"the factor in parentheses: {', '.join(names)}; {cause}"
        for cause, names in found.items()
    ]


def _errors(model: Model, equations: TorqueEquations, parameters: Array) -> Errors:
    """What parameters leave of the torques of some samples."""
    samples, drives = equations.samples, model.drives
    period = float(np.median(np.diff(samples.time)))
    step = max(1, math.ceil(LONGEST / (LAGS * period)))
    count = min(LAGS, int(LONGEST / (step * period)), (len(samples) - 1) // (4 * step))
    lags = step * np.arange(-count, count + 1)
    tried = min(2 * REGRESSION, _MAX_REGRESSOR_SIZE // (10 * model.nv * model.njoints))
    rows = np.arange(lags[-1], len(samples) - lags[-1], 1 + len(samples) // tried)
    rows = rows[samples.segment[rows - lags[-1]] == samples.segment[rows + lags[-1]]]
    some = samples.take(rows)
    known = (equations.weights(some) > 0.0) & (not samples.contacts)
    features = [equations.features(some)]
    if some.direction is not None:  # friction that turns later resembles a delay
        features.append(equations.features(dataclasses.replace(some, direction=None)))
    return Errors(
        some.q,
        some.v,
        some.a,
        np.stack(features, axis=1),
        np.where(known, equations.residuals(some, parameters)[0], np.nan),
        drives.to_motors(samples.tau[rows[:, None] + lags]),
        period * lags.astype(float),
        equations.reversals.is_steady(rows),
    )
