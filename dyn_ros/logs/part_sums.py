# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An identification from parts of recordings: what each contributes, and the result of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..drives.efforts import rescaled
from ..engine.kernel.types import Array
from ..identification.least_squares import Fit, Problem, joint_results, sum_squares
from ..identification.normal_equations import STRETCH_COUNT, Conditions, Equations, Stretches
from ..identification.result import Identification
from ..identification.samples import Samples
from ..identification.solution import MIN_LOG_STEP, Solution
from ..identification.torque_equations import TorqueEquations

_PRECISION = 0.05  # of the standard deviation of an estimate


class Sums(NamedTuple):
    """What parts contribute to the estimate; ``normal_equations.add_sums`` adds them."""

    equations: Equations  # without what outliers contribute too much
    outliers: int
    rows: int  # number of all residuals
    size: int  # number of samples
    squares: Array  # see ``sum_squares``; of the parts that the first estimate does not know
    stretches: Stretches


class Stage(NamedTuple):
    """What a first estimate decides for all parts."""

    problem: Problem
    conditions: Conditions
    fitted: Fit
    estimate: Array  # (p,), of which residuals are outliers or not
    constants: Array  # (nv,) of the motors
    stretches: int  # of each part

    def sums(self, samples: Samples, rows: np.ndarray, is_known: bool, recording: int) -> Sums:
        """What rows of a recording contribute; ``is_known``: also to the first estimate."""
        problem, fitted = self.problem, self.fitted
        samples = dataclasses.replace(
            samples, tau=rescaled(problem.unknowns.model, samples.q, samples.tau, self.constants)
        )
        part = TorqueEquations(problem.unknowns, samples, rows.astype(np.int32), self.conditions)
        equations, outliers, count = part.sums(0.0, 0.0), 0, 0
        if problem.huber is not None:
            excess, outliers, count = part.outlier_excess(self.estimate, fitted.limit)
            equations = equations.minus(excess)
        squares = np.zeros((2, 3, len(fitted.limit)))
        models = problem.reference.described, fitted.parameters
        for torques in part.torques_and_residuals(rows[:0] if is_known else rows, models):
            squares += sum_squares(torques)
        stretches = problem.stretch_sums(
            part,
            self.estimate,
            fitted,
            np.linspace(0, len(rows), self.stretches + 1).astype(int),
            np.full(self.stretches, recording),
        )
        return Sums(equations, outliers, count, len(rows), squares, stretches)

    def decides(self, fitted: Fit, step: Array, total: Sums) -> bool:
        """Whether a fit depends on the estimate that decided which residuals are outliers.

        An error of that one appears in the fit times the fraction of outliers; that of the
        distances and velocities of friction, squared.
        """
        estimate = fitted.estimate
        deviation = np.sqrt(np.maximum(np.diag(estimate.inverse), 1e-300))
        change = np.abs(estimate.parameters - self.estimate)[self.problem.base.independent]
        change /= deviation
        return bool(
            total.outliers * change.max(initial=0.0) > _PRECISION * max(total.rows, 1)
            or np.abs(step).max(initial=0.0) > MIN_LOG_STEP
        )

    def after(self, fitted: Fit, step: Array) -> Stage:
        """The stage after a fit, and a step of the logarithms of friction's terms (m,)."""
        return self._replace(
            estimate=fitted.estimate.parameters,
            conditions=self.conditions._replace(terms=self.conditions.terms.with_step(step)),
        )


def stage_after(first: Solution, count: int) -> Stage:
    """The stage after a first estimate, for that many parts."""
    fit = first.fit
    return Stage(
        first.problem,
        first.equations.conditions,
        fit,
        fit.estimate.parameters,
        first.constants,
        1 + STRETCH_COUNT // count,
    )


def fit(first: Solution, stage: Stage, total: Sums) -> tuple[Fit, Array]:
    """Both estimates from the sums of all parts; the step of friction's terms, (m,)."""
    problem, before = first.problem, first.fit
    noise = problem.noise if problem.huber is None else before.estimate.noise
    estimate = problem.estimate(total.equations, noise, before.correlation)
    shift, own = before.shift.copy(), problem.base.independent
    change, step = problem.newton_step(
        total.stretches.after_change((estimate.parameters - stage.estimate)[own]),
        stage.conditions.terms,
    )
    if len(step):
        shift[own] += change
    return problem.fit_with_shift(
        total.equations,
        estimate,
        shift,
        total.outliers / max(total.rows, 1),
        before.correlations,
        before.limit,
        before.parameters,
    ), step


def identification(
    first: Solution,
    stage: Stage,
    total: Sums,
    fitted: Fit,
    step: Array,
    warnings: Sequence[str],
    seconds: float,
) -> Identification:
    """The result of all parts; ``warnings`` are added to the warnings of the first estimate."""
    problem, joints = first.problem, first.joints
    if total.squares[1, 0].any():
        joints = joint_results(
            problem.unknowns.model, total.squares, np.array([joint.noise for joint in joints])
        )
    change = (fitted.estimate.parameters - stage.estimate)[problem.base.independent]
    spread, count = problem.stretch_covariance(
        total.stretches.after_change(np.append(change, step)), fitted.estimate
    )
    first.equations.conditions = stage.after(fitted, step).conditions
    final = first._replace(fit=fitted, joints=joints, warnings=(*first.warnings, *warnings))
    return final.identification(spread, count, total.size, seconds)
