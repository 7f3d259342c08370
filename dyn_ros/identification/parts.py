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
from .identify import Solution
from .least_squares import Fit, Problem, joint_results, squares_of
from .normal_equations import Conditions, Equations
from .result import Identification
from .samples import Samples
from .torque_equations import TorqueEquations

_PRECISION = 0.05       # of the standard deviation of an estimate


class Sums(NamedTuple):
    """What parts contribute to the estimate; ``normal_equations.add`` adds them."""

    equations: Equations    # without what outliers contribute too much
    outliers: int
    rows: int               # number of all residuals
    size: int               # number of samples
    squares: Array          # see ``squares_of``; of the parts that the first estimate does not know
    scatter: Array          # (b + 2, b + 2), products of gradients of blocks, their sizes, and 1


class Stage(NamedTuple):
    """What a first estimate decides for all parts."""

    problem: Problem
    conditions: Conditions
    fitted: Fit
    estimate: Array         # (p,), of which residuals are outliers or not
    constants: Array                # (nv,) of the motors
    length: int             # number of samples of a block

    def sums(self, samples: Samples, rows: np.ndarray, is_known: bool) -> Sums:
        """What rows of some samples contribute; ``is_known``: also to the first estimate."""
        problem, fitted, noise = self.problem, self.fitted, self.fitted.estimate.noise
        samples = dataclasses.replace(samples, tau=rescaled(
            problem.unknowns.model, samples.q, samples.tau, self.constants))
        part = TorqueEquations(problem.unknowns, samples, rows.astype(np.int32), self.conditions)
        equations, outliers, count = part.sums(0.0, 0.0), 0, 0
        if problem.huber is not None:
            excess, outliers, count = part.excess(self.estimate, fitted.limit)
            equations = equations.minus(excess)
        squares = np.zeros((2, 3, len(noise)))
        models = problem.reference.described, fitted.parameters
        for torques in part.comparison(rows[:0] if is_known else rows, models):
            squares += squares_of(torques)
        scores, sizes = part.scores(self.estimate, fitted.limit, noise, self.length)
        blocks = np.column_stack([scores[:, problem.base.independent], sizes,
                                  np.ones(len(sizes))])
        return Sums(equations, outliers, count, len(rows), squares, blocks.T @ blocks)

    def decides(self, fitted: Fit, total: Sums) -> bool:
        """Whether a fit depends on the estimate that decided which residuals are outliers.

        An error of that one appears in the fit times the fraction of outliers.
        """
        estimate = fitted.estimate
        deviation = np.sqrt(np.maximum(np.diag(estimate.inverse), 1e-300))
        change = np.abs(estimate.parameters - self.estimate)[self.problem.base.independent]
        change /= deviation
        return bool(total.outliers * change.max(initial=0.0) > _PRECISION * max(total.rows, 1))


def stage_after(first: Solution, share: float) -> Stage:
    """The stage after a first estimate; all samples are ``share`` times those that it knows."""
    problem, fitted = first.problem, first.fitted
    return Stage(problem, first.equations.conditions, fitted, fitted.estimate.parameters,
                 first.constants,
                 problem.block_length(int(share * len(first.samples)), fitted.correlations))


def fit(first: Solution, total: Sums) -> Fit:
    """Both estimates from the sums of all parts."""
    problem, before = first.problem, first.fitted
    noise = problem.noise if problem.huber is None else before.estimate.noise
    estimate = problem.estimate(total.equations, noise, before.correlation)
    return problem.shifted(total.equations, estimate, before.shift,
                           total.outliers / max(total.rows, 1), before.correlations,
                           before.limit, before.parameters)


def identification(first: Solution, total: Sums, fitted: Fit, warnings: Sequence[str],
                   seconds: float) -> Identification:
    """The result of all parts; ``warnings`` are added to the warnings of the first estimate."""
    problem, joints, blocks = first.problem, first.joints, int(total.scatter[-1, -1])
    if total.squares[1, 0].any():
        joints = joint_results(problem.unknowns.model, total.squares,
                               np.array([joint.noise for joint in joints]))
    inverse = fitted.estimate.inverse
    spread = inverse @ _centered(total.scatter) @ inverse * problem.small_sample(blocks)
    final = first._replace(fitted=fitted, joints=joints, warnings=(*first.warnings, *warnings))
    return final.identification(spread, blocks, total.size, seconds)


def _centered(scatter: Array) -> Array:
    """The products of gradients less what they have in common at a first estimate, (b, b)."""
    gradients, sizes = scatter[:-2], scatter[-2]
    mean = gradients[:, -1] / max(sizes[-1], 1.0)
    cross = np.outer(mean, gradients[:, -2])
    return gradients[:, :-2] - cross - cross.T + sizes[-2] * np.outer(mean, mean)
