# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares of base parameters: estimate, noise, outliers, covariance, errors."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from ..drives.causes import (
    MAX_DELAY,
    MAX_LAG_COUNT,
    MAX_NOISE_RATIO,
    TorqueErrors,
    likely_causes,
)
from ..engine.algorithms.regressors.normal_equations import assemble
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import has_single_coordinate, is_linear
from .base_parameters import BaseParameters, Unknowns
from .equation_sums import (
    STRETCH_COUNT,
    Equations,
    Stretches,
    border_equations,
    require_equations,
)
from .friction_terms import FrictionTerms
from .motion.numerics import MAX_ROUNDS, REGRESSION_SAMPLES, robust_deviation
from .physical import (
    BODY_NUMBER,
    POSITIVE_NUMBER,
    SIGNED_NUMBER,
    WEAK_WEIGHT,
    Reference,
    fit_physical,
    invert_scaled,
)
from .result import JointResult
from .torque_equations import TorqueEquations

_SIGNED_FEATURES = ("offset", "stribeck", "root_friction")
_MIN_RELATIVE_LENGTH = 0.1  # relative to the longest recording; shorter ones join the previous one
_MAX_NOISE_RESIDUAL = 4.0  # outlier limits; larger residuals are clipped in estimates of noise
_MAX_LIKELIHOOD_LOSS = 5.0  # log-likelihood; above it, efforts contradict the shapes of links
_MAX_REGRESSOR_SIZE = 5_000_000  # numbers in memory
_MAX_LOG_STEP = 0.5  # logarithm of a friction scale, per Gauss-Newton step
MIN_STRETCH_LENGTH = 256  # samples; shorter ones cover friction in 90 % of cases, not 97 %


class Estimate(NamedTuple):
    """Weighted least squares of the base parameters."""

    value: Array  # (b,); NaN if undetermined
    inverse: Array  # (b, b) inverse of the normal equations
    is_determined: np.ndarray  # (b,) of bool
    noise: Array  # (nv,) N m, N; standard deviation of each row
    parameters: Array  # (p,) ``value`` in the independent columns, zeros elsewhere


class Fit(NamedTuple):
    """The least-squares estimate and the physical estimate from the same samples."""

    estimate: Estimate
    parameters: Array  # (p,), physically consistent
    outliers: float  # fraction of the torques
    correlations: Array  # (nv,) samples over which the noise is correlated
    limit: Array  # (nv,) N m, N; larger residuals count linearly
    shift: Array  # (p,) was added to least squares, to correct it for the noise of the motion
    outside_shapes: tuple[str, ...]  # joints whose bodies are outside the shapes of their links

    @property
    def correlation(self) -> float:
        """Correlation length of the noise [samples], the median over rows.

        N samples are worth N / correlation independent ones.
        """
        return _median_correlation(self.correlations)


class Estimator(NamedTuple):
    """Estimator of the parameters of one robot: weighted least squares, then physical bodies.

    Least squares estimates the base parameters, see `Estimate`. The physical estimate minimizes the
    same cost plus the divergence from the reference, over all parameters.
    """

    unknowns: Unknowns
    base: BaseParameters
    reference: Reference
    noise: Array | None  # (nv,) standard deviation of each row; None: estimated
    huber: float | None  # noise standard deviations; larger residuals count linearly
    regularization: float  # weight of the divergence from the description
    min_noise: Array  # (nv,) noise of rounded efforts

    def find_first_estimate(self, equations: TorqueEquations) -> tuple[Estimate, Equations]:
        """Estimate repeatedly, to find the samples that count and the scale of eliminations.

        Changes ``equations``: ``conditions.scale`` if there are contacts, and the weights of
        samples near reversals, see `TorqueEquations.leave_out_reversals`. Returns the estimate, and
        the sums of the samples that count. Raise a ValueError if there are too few equations.
        """
        sums, contacts = equations.sums(progress_range=(0.0, 0.1)), equations.samples.contacts
        require_equations(contacts, float(sums.weight.sum()), len(self.base))
        estimate = self.estimate_base_parameters(sums, self.noise)
        if contacts:  # their elimination depends on the noise
            equations.conditions = equations.conditions._replace(scale=estimate.noise)
            sums = equations.sums(progress_range=(0.1, 0.2))
            estimate = self.estimate_base_parameters(sums, self.noise)
        for _ in range(MAX_ROUNDS):
            if not equations.leave_out_reversals(estimate.parameters):
                break
            sums = equations.sums(progress_range=(0.2, 0.3))
            estimate = self.estimate_base_parameters(sums, self.noise)
        return estimate, sums

    def fit_samples(
        self,
        equations: TorqueEquations,
        sums: Equations,
        first_estimate: Estimate,
        previous_fit: Fit | None,
    ) -> Fit:
        """Fit the samples of equations, whose normal equations are ``sums``.

        1. Find the correlation of the noise in the residuals of ``first_estimate``.
        2. Estimate by least squares, and again with outliers counting linearly.
        3. Correct the estimate for the noise of the motion, by the shift of the previous fit if
           there is one.
        4. Search for the physical estimate, starting at the previous fit's.
        """
        correlations, outliers = equations.correlations(first_estimate.parameters), 0.0
        correlation, limit = _median_correlation(correlations), np.full(len(correlations), np.inf)
        estimate = self.estimate_base_parameters(sums, self.noise, correlation)
        if self.huber is not None:
            sums, estimate, outliers, limit = self._downweight_outliers(
                sums, equations, correlation, estimate, self.huber
            )
        shift = (
            previous_fit.shift
            if previous_fit
            else self._attenuation_shift(equations, estimate, limit)
        )
        return self.fit_with_shift(
            sums,
            estimate,
            shift,
            outliers,
            correlations,
            limit,
            previous_fit and previous_fit.parameters,
        )

    def estimate_base_parameters(
        self, sums: Equations, noise: Array | None, correlation: float = 1.0
    ) -> Estimate:
        """Estimate base parameters, and the noise unless it is given, in turn until they agree.

        Noise that is correlated over several samples is scaled to independent samples with
        as much information.
        """
        sigma = (
            self._rms_residual(sums, self.reference.described_parameters)
            if noise is None
            else noise
        )
        for _ in range(MAX_ROUNDS):
            value, inverse, is_determined = self._solve_equations(sums, sigma)
            parameters = np.zeros(len(self.unknowns))
            parameters[self.base.independent] = value
            if noise is not None:
                break
            previous, sigma = sigma, self._rms_residual(sums, parameters)
            sigma /= np.sqrt(max(1.0 - len(self.base) / max(sums.weight.sum(), 1.0), 1e-3))
            sigma = np.maximum(sigma, self.min_noise) * np.sqrt(correlation)
            if np.abs(sigma / previous - 1.0).max() < 1e-3:
                break
        return Estimate(
            np.where(is_determined, value, np.nan), inverse, is_determined, sigma, parameters
        )

    def fit_with_shift(
        self,
        sums: Equations,
        estimate: Estimate,
        shift: Array,
        outliers: float,
        correlations: Array,
        limit: Array,
        initial: Array | None,
    ) -> Fit:
        """Return both estimates, from normal equations and their least-squares ``estimate``.

        ``shift`` (p,) is added to least squares, and moves the minimum of the cost of the physical
        estimate as much. The search for it starts at ``initial`` (p,), or at the reference.
        ``outliers`` and ``limit`` are stored in the result.
        """
        estimate = estimate._replace(
            value=estimate.value + shift[self.base.independent],
            parameters=estimate.parameters + shift,
        )
        unknowns, reference = self.unknowns, self.reference
        H, g = self._assemble(sums, estimate.noise)
        g += H @ shift
        feature_kinds = np.repeat(
            [
                SIGNED_NUMBER if name in _SIGNED_FEATURES else POSITIVE_NUMBER
                for name in unknowns.features
            ],
            unknowns.model.nv,
        )
        kinds = np.concatenate([np.full(unknowns.body_parameter_count, BODY_NUMBER), feature_kinds])
        order = np.argsort(kinds, kind="stable")
        order = order[unknowns.is_active[order]]

        def fit_within(bound_mask: np.ndarray) -> Array:
            """Return the physical parameters (p,) within the bounds in a mask."""
            parameters = np.zeros(len(unknowns))
            parameters[order] = fit_physical(
                H[np.ix_(order, order)],
                g[order],
                reference.values[order],
                kinds[order],
                self.regularization * reference.weights[order],
                None if initial is None else initial[order],
                reference.bounds[bound_mask][:, order],
                WEAK_WEIGHT * self.regularization,
            )
            return parameters

        parameters, outside_shapes = self._fit_within_shapes(sums, fit_within, correlations)
        return Fit(estimate, parameters, outliers, correlations, limit, shift, outside_shapes)

    def _fit_within_shapes(
        self, sums: Equations, fit_within: Callable[[np.ndarray], Array], correlations: Array
    ) -> tuple[Array, tuple[str, ...]]:
        """Return physical parameters, and the joints whose bodies are outside the known shapes.

        Bounds that make the torques of a joint unlikely are dropped: first the bounds of bodies at
        the ends of the robot, where tools are attached, then all. ``fit_within`` estimates with
        the bounds in a mask.
        """
        bounds, bound_joints = self.reference.bounds, self.reference.bound_joints
        all_bounds, names = np.ones(len(bounds), bool), self.unknowns.model.joint_names
        parameters = fit_within(all_bounds)
        if not len(bounds):
            return parameters, ()
        unbounded = fit_within(~all_bounds)
        min_residual = self._rms_residual(sums, unbounded)
        for bound_mask in (all_bounds, np.isin(bound_joints, self.unknowns.model.parents)):
            if not bound_mask.all():
                parameters = fit_within(bound_mask)
            excess = (self._rms_residual(sums, parameters) / min_residual) ** 2 - 1.0
            if (sums.weight * excess < 2.0 * _MAX_LIKELIHOOD_LOSS * correlations).all():
                return parameters, tuple(names[i] for i in dict.fromkeys(bound_joints[~bound_mask]))
        return unbounded, tuple(names[i] for i in dict.fromkeys(bound_joints))

    def _assemble(self, sums: Equations, noise: Array) -> tuple[Array, Array]:
        """Return the normal equations of all parameters, each row divided by its variance."""
        WW, Wy = sums.WW * noise[:, None, None] ** -2, sums.Wy * noise[:, None] ** -2
        if WW.shape[1] == len(self.unknowns):  # rows are combined
            return WW.sum(axis=0), Wy.sum(axis=0)
        return assemble(WW, Wy, self.unknowns.body_parameter_count)

    def _solve_equations(self, sums: Equations, noise: Array) -> tuple[Array, Array, np.ndarray]:
        """Return values (b,), the inverse of the equations, and a mask of determined values."""
        H, g = self._assemble(sums, noise)
        independent = self.base.independent
        F, d, is_determined = _invert_equations(H[np.ix_(independent, independent)])
        return F @ (d * (F.T @ g[independent])), F * d @ F.T, is_determined

    def _rms_residual(self, sums: Equations, parameters: Array) -> Array:
        """Return the RMS residual of each row (nv,); the largest one for rows without samples."""
        squares = np.array(
            [
                yy - 2.0 * Wy @ x + x @ WW @ x
                for x, WW, Wy, yy in zip(
                    parameters[self.unknowns.row_columns], sums.WW, sums.Wy, sums.yy
                )
            ]
        )
        rounding = 1e-13 * sums.yy + 1e-24 * sums.weight
        residual = np.sqrt(np.maximum(squares, rounding) / np.maximum(sums.weight, 1e-300))
        largest = max(residual[sums.weight > 0.0].max(initial=0.0), 1e-9)
        return np.where(sums.weight > 0.0, residual, largest)

    def _downweight_outliers(
        self,
        sums: Equations,
        equations: TorqueEquations,
        correlation: float,
        first_estimate: Estimate,
        huber: float,
    ) -> tuple[Equations, Estimate, float, Array]:
        """Estimate with residuals above a limit counting linearly, not squared (Huber 1964).

        The limit is ``huber`` times the noise, which is estimated unless it was specified. The
        weights are reduced in the returned sums, not in the equations. Returns the sums, the
        estimate, the fraction of outliers and the limits (nv,) [N m, N].
        """
        estimate, outlier_fraction, reduced_sums = first_estimate, 0.0, sums
        limit = first_estimate.noise
        for _ in range(MAX_ROUNDS):
            residuals, noise = equations.subsampled_residuals(estimate.parameters), self.noise
            # the median is robust to outliers, but may be zero if efforts are rounded
            limit = huber * (
                np.maximum(median_deviation(residuals), self.min_noise) if noise is None else noise
            )
            limit = np.where(limit > 0.0, limit, np.inf)
            if noise is None:
                noise = np.maximum(
                    clipped_rms(residuals, _MAX_NOISE_RESIDUAL * limit), self.min_noise
                )
                noise = np.where(noise > 0.0, noise, np.inf)
            excess, outliers, rows = equations.outlier_excess(estimate.parameters, limit)
            outlier_fraction = outliers / max(rows, 1)
            reduced_sums = sums.subtract(excess)
            previous, estimate = (
                estimate,
                self.estimate_base_parameters(reduced_sums, noise * np.sqrt(correlation)),
            )
            deviation = np.sqrt(np.maximum(np.diag(estimate.inverse), 1e-300))
            if not (np.abs(estimate.value - previous.value) > 0.05 * deviation).any():
                break
        return reduced_sums, estimate, outlier_fraction, limit

    def _attenuation_shift(
        self, equations: TorqueEquations, estimate: Estimate, limit: Array
    ) -> Array:
        """Return the correction of parameters for the noise of the motion, (p,) (Nakamura 1990)."""
        independent = self.base.independent
        attenuation = equations.attenuation(estimate.parameters, limit, estimate.noise)
        shift = np.zeros(len(attenuation))
        shift[independent] = -estimate.inverse @ attenuation[independent]
        return shift

    def covariance(self, equations: TorqueEquations, fit: Fit) -> tuple[Array, int]:
        """Return the covariance by ``stretch_covariance``, and the number of stretches."""
        recordings = equations.samples.recording
        is_short = equations.size < STRETCH_COUNT * MIN_STRETCH_LENGTH
        count = STRETCH_COUNT // 2 if is_short else STRETCH_COUNT
        starts = [] if recordings is None else (np.flatnonzero(np.diff(recordings)) + 1).tolist()
        lengths = np.diff([0, *starts, equations.size])
        starts = np.array([0, *starts])[lengths > _MIN_RELATIVE_LENGTH * lengths.max()].tolist()[1:]
        ends = [0, *starts, equations.size]
        while count > 1 and count * (len(ends) - 1) > max(STRETCH_COUNT, 2 * len(starts)):
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
            fit.estimate.parameters,
            fit,
            edges,
            np.repeat(np.arange(len(ends) - 1), count),
        )
        return self.stretch_covariance(stretches, fit.estimate)

    def stretch_sums(
        self,
        equations: TorqueEquations,
        parameters: Array,
        fit: Fit,
        edges: np.ndarray,
        recording: np.ndarray,
    ) -> Stretches:
        """Return the contributions of samples between consecutive edges, at an estimate (p,)."""
        return Stretches(
            recording,
            self.scores(equations, parameters, fit, edges),
            self.stretch_equations(equations, parameters, fit, edges),
        )

    def stretch_equations(
        self, equations: TorqueEquations, parameters: Array, fit: Fit, edges: np.ndarray
    ) -> Array:
        """Return normal equations between consecutive edges, (n, b + m, b + m), from a subset."""
        independent, noise = self.base.independent, fit.estimate.noise
        # motions are smooth, so that a subset is enough
        step = 1 + equations.size // REGRESSION_SAMPLES
        row_sets = [equations.rows[first:last:step] for first, last in itertools.pairwise(edges)]
        H = np.array(
            [
                self._assemble(sums, noise)[0][np.ix_(independent, independent)]
                for sums in equations.row_sums(row_sets)
            ]
        )
        if equations.conditions.terms.is_free.any():
            products, squares = equations.friction_sums(row_sets, parameters, noise)
            H = border_equations(H, products[:, independent], squares)
        return H * (np.diff(edges) / np.maximum([len(rows) for rows in row_sets], 1))[:, None, None]

    def scores(
        self, equations: TorqueEquations, parameters: Array, fit: Fit, edges: np.ndarray
    ) -> Array:
        """Return gradients of the cost, summed between consecutive edges, (n, b + m)."""
        scores = equations.scores(parameters, fit.limit, fit.estimate.noise, edges)
        scale_columns = np.arange(len(parameters), scores.shape[1])
        return scores[:, np.append(self.base.independent, scale_columns)]

    def newton_step(self, stretches: Stretches, terms: FrictionTerms) -> tuple[Array, Array]:
        """Return the Gauss-Newton step of an estimate (b,) and of log friction scales (m,).

        A scale that reaches its limit is fixed there, and the step of the others is solved again.
        """
        H, scores, b = stretches.H.sum(axis=0), stretches.scores.sum(axis=0), len(self.base)
        step, fixed = np.zeros(len(scores)), np.zeros(len(scores), bool)
        while True:
            free = np.flatnonzero(~fixed)
            F, d, _ = _invert_equations(H[np.ix_(free, free)])
            step[free] = F @ (d * (F.T @ (scores - H[:, fixed] @ step[fixed])[free]))
            limited_step = terms.limit_step(np.clip(step[b:], -_MAX_LOG_STEP, _MAX_LOG_STEP))
            exceeds = np.abs(limited_step - step[b:]) > 1e-9
            if not exceeds.any():
                return step[:b], step[b:]
            step[b:], fixed[b:] = np.where(exceeds, limited_step, step[b:]), fixed[b:] | exceeds

    def stretch_covariance(self, stretches: Stretches, estimate: Estimate) -> tuple[Array, int]:
        """Return the covariance of the estimate and the log friction scales, (b + m, b + m).

        Also returns the number of independent stretches.
        """
        # -1: of a body; else index in `features`
        feature_numbers = np.maximum(self.base.independent - self.unknowns.body_parameter_count, -1)
        feature_numbers //= max(self.unknowns.model.nv, 1)
        sizes = np.where(feature_numbers > 0, np.nan_to_num(estimate.value), 0.0)
        return stretches.covariance(estimate.inverse, sizes, feature_numbers)


def _invert_equations(H: Array) -> tuple[Array, Array, np.ndarray]:
    """Return F, d with the inverse F d F' of normal equations, and a mask of determined values."""
    diagonal = np.diag(H)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    F, d, is_determined = invert_scaled(H, scale)
    return F, d, is_determined & (diagonal > 0.0)


def _median_correlation(correlations: Array) -> float:
    """Return one correlation length for all rows."""
    return float(np.median(correlations))


def median_deviation(residuals: Array) -> Array:
    """Return the standard deviation of each column by the median of its finite sizes, or NaN."""
    finite_columns = [values[np.isfinite(values)] for values in residuals.T]
    return np.array(
        [robust_deviation(values) if len(values) else np.nan for values in finite_columns]
    )


def clipped_rms(residuals: Array, limit: Array) -> Array:
    """Return the RMS of each column's finite numbers, clipped to the limit (n,)."""
    is_finite = np.isfinite(residuals)
    squares = np.where(is_finite, np.minimum(np.abs(residuals), limit), 0.0) ** 2
    return np.sqrt(squares.sum(axis=0) / np.maximum(is_finite.sum(axis=0), 1))


# --- residuals


def sum_squares(torques: Sequence[Array]) -> Array:
    """Return sums of squares and counts, (2, n, nv), of n arrays (B, nv) without their NaN."""
    return np.array(
        [
            [np.nansum(tau**2, axis=0) for tau in torques],
            [np.isfinite(tau).sum(axis=0) for tau in torques],
        ]
    )


def joint_results(model: Model, squares: Array, noise: Array) -> tuple[JointResult, ...]:
    """Return the RMS torques and errors of all joints.

    ``squares`` (2, 4, nv) are sums of squares and counts, see `sum_squares`, of measured torques
    and of the residuals of the described model, plain least squares and the identified model.
    ``noise`` is (nv,) [N m, N].
    """
    torque, before, least_squares, after = np.sqrt(
        squares[0] / np.where(squares[1] > 0.0, squares[1], np.nan)
    )
    linear_rows, single_rows = is_linear(model), has_single_coordinate(model)
    return tuple(
        JointResult(
            name=name,
            unit="N" if linear_rows[k] else "N m",
            before=float(before[k]),
            least_squares=float(least_squares[k]),
            after=float(after[k]),
            noise=float(noise[k] if single_rows[k] else after[k]),
            torque=float(torque[k]),
        )
        for k, name in enumerate(model.velocity_names)
    )


def unexplained_error_warnings(
    model: Model,
    equations: TorqueEquations,
    joints: Sequence[JointResult],
    parameters: Array,
    noise: Array | None,
    tried_terms: Collection[str],
) -> list[str]:
    """Return warnings about joints with errors above their noise, with likely causes.

    ``noise`` (nv,), if it was specified, is a lower bound of it. ``tried_terms`` are the terms of
    friction that the identification has tried.
    """
    min_noise = np.zeros(model.nv) if noise is None else noise
    unexplained_joints = [
        k
        for k in np.flatnonzero(has_single_coordinate(model)).tolist()
        if joints[k].after
        > max(MAX_NOISE_RATIO * max(joints[k].noise, min_noise[k]), 1e-3 * joints[k].torque)
    ]
    if not unexplained_joints:
        return []
    causes = likely_causes(
        model,
        _residual_data(model, equations, parameters),
        {k: joints[k].noise for k in unexplained_joints},
        tried_terms,
    )
    joints_by_cause: dict[str, list[str]] = {}
    for k, cause in causes.items():
        joints_by_cause.setdefault(cause, []).append(
            f"{joints[k].name} ({joints[k].after:.2g}, {_noise_text(joints[k])} {joints[k].unit})"
        )
    return [
        "the error of the identified model is more than the noise of the measured torque (error, "
        f"noise): {', '.join(joint_texts)}; {cause}"
        for cause, joint_texts in joints_by_cause.items()
    ]


def _noise_text(joint: JointResult) -> str:
    """Return the noise of a joint, or an upper bound, as filtered efforts show too little."""
    least_noise = 0.01 * joint.after
    return f"below {least_noise:.1g}" if joint.noise < least_noise else f"{joint.noise:.1g}"


def _residual_data(model: Model, equations: TorqueEquations, parameters: Array) -> TorqueErrors:
    """Collect residuals and motions of a subset of samples, to find causes of errors."""
    samples, drives = equations.samples, model.drives
    period = float(np.median(np.diff(samples.time)))
    step = max(1, math.ceil(MAX_DELAY / (MAX_LAG_COUNT * period)))
    count = min(MAX_LAG_COUNT, int(MAX_DELAY / (step * period)), (len(samples) - 1) // (4 * step))
    lags = step * np.arange(-count, count + 1)
    subset_size = min(
        2 * REGRESSION_SAMPLES, _MAX_REGRESSOR_SIZE // (10 * model.nv * model.njoints)
    )
    rows = np.arange(lags[-1], len(samples) - lags[-1], 1 + len(samples) // subset_size)
    rows = rows[samples.segment[rows - lags[-1]] == samples.segment[rows + lags[-1]]]
    subset = samples.take(rows)
    is_known = (equations.weights(subset) > 0.0) & (not samples.contacts)
    features = [equations.features(subset)]
    if subset.direction is not None:  # friction that turns over a distance resembles a delay
        features.append(equations.features(dataclasses.replace(subset, direction=None)))
    return TorqueErrors(
        subset.q,
        subset.v,
        subset.a,
        np.stack(features, axis=1),
        np.where(is_known, equations.residuals(subset, parameters)[0], np.nan),
        drives.to_motors(samples.tau[rows[:, None] + lags]),
        period * lags.astype(float),
        equations.reversals.is_steady(rows),
    )
