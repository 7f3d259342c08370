# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Sums that parts of recordings contribute to an identification, and the result of all parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..drives.efforts import rescale_torques
from ..engine.kernel.types import Array
from ..identification.equation_sums import STRETCH_COUNT, Conditions, Equations, Stretches
from ..identification.least_squares import Estimator, Fit, joint_results, sum_squares
from ..identification.result import Identification, PlainModel
from ..identification.samples import Samples
from ..identification.solution import MIN_LOG_STEP, Solution
from ..identification.torque_equations import TorqueEquations

_MAX_ERROR = 0.05  # relative to the standard deviation; an estimate with more requires a pass


class Sums(NamedTuple):
    """Contributions of parts to the estimate; ``equation_sums.add_sums`` adds them."""

    equations: Equations  # without the excess contribution of outliers
    outlier_count: int  # residuals that are outliers
    residual_count: int
    sample_count: int
    squares: Array  # see ``sum_squares``; only of parts that are not in the first estimate
    stretches: Stretches


class Pass(NamedTuple):
    """A pass over all parts, with the noise and the limits of outliers of the first estimate."""

    estimator: Estimator
    conditions: Conditions
    fit: Fit  # the first estimate
    plain_model: PlainModel  # plain least squares of the samples of the first estimate
    parameters: Array  # (p,), whose residuals decide which samples are outliers
    constants: Array  # (nv,), constants of the motors
    stretch_count: int  # stretches of each part

    def sum_part(
        self, samples: Samples, rows: np.ndarray, is_in_first_estimate: bool, recording: int
    ) -> Sums:
        """Return the contribution of a part of the recording with the index ``recording``.

        ``rows`` are the rows of samples that belong to the part, without its surroundings.
        """
        estimator, fit = self.estimator, self.fit
        samples = dataclasses.replace(
            samples,
            tau=rescale_torques(estimator.unknowns.model, samples.q, samples.tau, self.constants),
        )
        part = TorqueEquations(estimator.unknowns, samples, rows.astype(np.int32), self.conditions)
        equations, outliers, count = part.sums(), 0, 0
        if estimator.huber is not None:
            excess, outliers, count = part.outlier_excess(self.parameters, fit.limit)
            equations = equations.subtract(excess)
        squares = np.zeros((2, 4, len(fit.limit)))
        described, estimated = (
            partial(part.torques, parameters=values)
            for values in (estimator.reference.described_parameters, fit.parameters)
        )
        models = described, self.plain_model.motor_torque, estimated
        for torques in part.torques_and_residuals(
            rows[:0] if is_in_first_estimate else rows, models
        ):
            squares += sum_squares(torques)
        stretches = estimator.stretch_sums(
            part,
            self.parameters,
            fit,
            np.linspace(0, len(rows), self.stretch_count + 1).astype(int),
            np.full(self.stretch_count, recording),
        )
        return Sums(equations, outliers, count, len(rows), squares, stretches)

    def requires_next_pass(self, fit: Fit, step: Array, total: Sums) -> bool:
        """Return True if the fit of this pass depends on the estimate before it.

        An error of that estimate appears in the fit times the fraction of outliers, and an error of
        the distances and velocities of friction, squared.
        """
        estimate = fit.estimate
        deviation = np.sqrt(np.maximum(np.diag(estimate.inverse), 1e-300))
        change = np.abs(estimate.parameters - self.parameters)[self.estimator.base.independent]
        change /= deviation
        return bool(
            total.outlier_count * change.max(initial=0.0)
            > _MAX_ERROR * max(total.residual_count, 1)
            or np.abs(step).max(initial=0.0) > MIN_LOG_STEP
        )

    def make_next_pass(self, fit: Fit, step: Array) -> Pass:
        """Return the pass after a fit, and a step of the logarithms of friction's terms (m,)."""
        return self._replace(
            parameters=fit.estimate.parameters,
            conditions=self.conditions._replace(terms=self.conditions.terms.after_step(step)),
        )


def make_first_pass(first_solution: Solution, part_count: int) -> Pass:
    """Return the pass after a first estimate, for a number of parts."""
    fit = first_solution.fit
    return Pass(
        first_solution.estimator,
        first_solution.equations.conditions,
        fit,
        first_solution.plain_model,
        fit.estimate.parameters,
        first_solution.constants,
        1 + STRETCH_COUNT // part_count,
    )


def fit_total(first_solution: Solution, current_pass: Pass, total: Sums) -> tuple[Fit, Array]:
    """Return the fit from the sums of all parts, and the step of friction's terms (m,)."""
    estimator, first_fit = first_solution.estimator, first_solution.fit
    noise = estimator.noise if estimator.huber is None else first_fit.estimate.noise
    estimate = estimator.estimate_base_parameters(total.equations, noise, first_fit.correlation)
    shift, independent = first_fit.shift.copy(), estimator.base.independent
    moved = total.stretches.after_change(
        (estimate.parameters - current_pass.parameters)[independent]
    )
    change, step = estimator.newton_step(moved, current_pass.conditions.terms)
    if len(step):
        shift[independent] += change
    return estimator.fit_with_shift(
        total.equations,
        estimate,
        shift,
        total.outlier_count / max(total.residual_count, 1),
        first_fit.correlations,
        first_fit.limit,
        first_fit.parameters,
    ), step


def make_total_result(
    first_solution: Solution,
    current_pass: Pass,
    total: Sums,
    fit: Fit,
    step: Array,
    warnings: Sequence[str],
    seconds: float,
) -> Identification:
    """Return the result of all parts; ``warnings`` are added to the first estimate's.

    Changes the conditions of the equations of ``first_solution``. ``seconds`` is the duration of
    the identification.
    """
    estimator, joints = first_solution.estimator, first_solution.joints
    if total.squares[1, 0].any():
        joints = joint_results(
            estimator.unknowns.model, total.squares, np.array([joint.noise for joint in joints])
        )
    change = (fit.estimate.parameters - current_pass.parameters)[estimator.base.independent]
    covariance, stretch_count = estimator.stretch_covariance(
        total.stretches.after_change(np.append(change, step)), fit.estimate
    )
    first_solution.equations.conditions = current_pass.make_next_pass(fit, step).conditions
    final = first_solution._replace(
        fit=fit, joints=joints, warnings=(*first_solution.warnings, *warnings)
    )
    return final.to_identification(covariance, stretch_count, total.sample_count, seconds)
