# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares of the base parameters: estimate, noise, outliers, covariance."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from .base_parameters import BaseParameters
from .fit import decomposed
from .normal_equations import Equations
from .torque_equations import TorqueEquations
from .unknowns import Unknowns

_ROUNDS = 8             # of noise estimates
_WEIGHTINGS = 6         # of outliers
_SCORES = 12            # blocks for each base parameter, whose scatter gives the covariance
_LENGTHS = 3            # correlation lengths for each block
_SINGULAR = 1e-13       # of the largest eigenvalue of the scaled normal equations
_MEDIAN = 1.4826        # standard deviation of normal noise over its median size
_SAMPLE = 20000         # residuals for a median


class Estimate(NamedTuple):
    """Weighted least squares of the base parameters."""

    value: Array            # (b,); NaN if undetermined
    inverse: Array          # (b, b) of the normal equations
    determined: np.ndarray  # (b,) bool
    noise: Array            # (nv,) standard deviation of each row
    parameters: Array       # (p,) with these values, and zeros

    def moved(self, base: BaseParameters, shift: Array) -> Estimate:
        """The estimate with ``shift`` (p,) added to its parameters."""
        return self._replace(value=self.value + shift[base.independent],
                             parameters=self.parameters + shift)


def assembled(unknowns: Unknowns, sums: Equations, noise: Array) -> tuple[Array, Array]:
    """The normal equations of all parameters, each row divided by its variance."""
    H, g = np.zeros((len(unknowns), len(unknowns))), np.zeros(len(unknowns))
    for k, local in enumerate(sums.local):
        H[np.ix_(local, local)] += sums.WW[k] / noise[k] ** 2
        g[local] += sums.Wy[k] / noise[k] ** 2
    return H, g


class Scale(NamedTuple):
    """Sizes of the parameters."""

    typical: Array          # (b,), what base parameters typically are
    described: Array        # (b,), those of the description
    parameters: Array       # (p,), all of the description

    def shrinkage(self, value: Array, bodies: np.ndarray) -> float:
        """How much smaller the bodies of an estimate are than those of the description."""
        size, described = (np.linalg.norm(parameters[bodies] / self.typical[bodies])
                           for parameters in (value, self.described))
        return float(min(size / max(described, 1e-300), 1.0))


def estimate(unknowns: Unknowns, base: BaseParameters, scale: Scale, sums: Equations,
             noise: Array | None, correlations: Array | float = 1.0) -> Estimate:
    """Base parameters, and the noise unless it is given, in turn until they agree.

    The noise is that of independent samples that would say as much: where it is correlated over
    several samples, it is larger than the residuals.
    """
    current = _residual(sums, scale.parameters) if noise is None else noise
    bodies = base.independent < unknowns.bodies
    for _ in range(_ROUNDS):
        value, inverse, determined = _solved(unknowns, base, sums, current)
        parameters = np.zeros(len(unknowns))
        parameters[base.independent] = value
        if noise is not None:
            break
        before, current = current, _residual(sums, parameters)
        current /= np.sqrt(max(1.0 - len(base) / max(sums.count.sum(), 1.0), 1e-3))
        # The noise of a row without torque is that of the motion, times the bodies
        current *= np.sqrt(correlations)
        current[sums.yy == 0.0] /= max(scale.shrinkage(value, bodies), 1e-3)
        if np.abs(current / before - 1.0).max() < 1e-3:
            break
    return Estimate(np.where(determined, value, np.nan), inverse, determined, current, parameters)


def _residual(sums: Equations, parameters: Array) -> Array:
    """RMS residual of each row; of rows without samples, the largest."""
    squares = np.array([yy - 2.0 * Wy @ parameters[local] + parameters[local] @ WW
                        @ parameters[local] for local, WW, Wy, yy in zip(
                            sums.local, sums.WW, sums.Wy, sums.yy)])
    rounding = 1e-13 * sums.yy + 1e-24 * sums.count
    residual = np.sqrt(np.maximum(squares, rounding) / np.maximum(sums.count, 1e-300))
    largest = max(residual[sums.count > 0.0].max(initial=0.0), 1e-9)
    return np.where(sums.count > 0.0, residual, largest)


def _solved(unknowns: Unknowns, base: BaseParameters, sums: Equations,
            noise: Array) -> tuple[Array, Array, np.ndarray]:
    """Values, inverse of the normal equations, and which values are determined."""
    H, g = assembled(unknowns, sums, noise)
    own = H[np.ix_(base.independent, base.independent)]
    diagonal = np.diag(own)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    F, d, determined = decomposed(own, scale, _SINGULAR)
    return F @ (d * (F.T @ g[base.independent])), F * d @ F.T, determined & (diagonal > 0.0)


def without_outliers(unknowns: Unknowns, base: BaseParameters, scale: Scale, sums: Equations,
                     equations: TorqueEquations, given: Array | None, correlations: Array,
                     first: Estimate, huber: float) -> tuple[Equations, Estimate, float]:
    """Reduce the weights of large residuals (Huber 1964), and estimate again.

    Returns the sums with these weights, the estimate, and the fraction of outliers.
    """
    fitted, share, every = first, 0.0, sums
    for _ in range(_WEIGHTINGS):
        noise = given if given is not None else _spread(equations, fitted)
        excess, outliers, rows = equations.excess(fitted.parameters, huber * noise)
        share = outliers / max(rows, 1)
        every = sums.minus(excess)
        before, fitted = fitted, estimate(unknowns, base, scale, every,
                                          noise * np.sqrt(correlations))
        deviation = np.sqrt(np.maximum(np.diag(fitted.inverse), 1e-300))
        if not (np.abs(fitted.value - before.value) > 0.05 * deviation).any():
            break
    return every, fitted, share


def _spread(equations: TorqueEquations, fitted: Estimate) -> Array:
    """Noise of each row from the median size of its residuals, which outliers do not affect."""
    spread = median_deviation(equations.some_residuals(fitted.parameters, _SAMPLE))
    return np.where(spread > 0.0, spread, np.inf)


def median_deviation(residuals: Array) -> Array:
    """Standard deviation of each column from the median size of its finite numbers, or NaN."""
    columns = [np.abs(column[np.isfinite(column)]) for column in residuals.T]
    return np.array([_MEDIAN * np.median(sizes) if len(sizes) else np.nan for sizes in columns])


def correction(base: BaseParameters, equations: TorqueEquations, fitted: Estimate,
               huber: float | None) -> Array:
    """What to add to the parameters of an estimate because the motion is noisy, (p,).

    Noise makes regressors larger, and with it parameters smaller (Nakamura, Corrected score
    function for errors-in-variables models, Biometrika 77, 1990).
    """
    added = equations.attenuation(fitted.parameters, fitted.noise * (huber or np.inf), fitted.noise)
    shift = np.zeros(len(added))
    shift[base.independent] = -fitted.inverse @ added[base.independent]
    return shift


def covariance(base: BaseParameters, equations: TorqueEquations, fitted: Estimate,
               correlations: Array, huber: float | None) -> tuple[Array, int]:
    """Covariance of the estimate, (b, b), from the scatter of blocks of consecutive samples.

    Holds for noise that depends on the motion or is correlated over a few samples (White 1980;
    Liang and Zeger 1986). Also returns the number of blocks.
    """
    length = block_length(base, equations.size, correlations)
    limit = fitted.noise * (huber or np.inf)
    scores = equations.scores(fitted.parameters, limit, fitted.noise, length)[:, base.independent]
    half = fitted.inverse @ scores.T
    return half @ half.T * small_sample(len(scores), len(base), len(fitted.noise)), len(scores)


def block_length(base: BaseParameters, size: int, correlations: Array) -> int:
    """Number of samples of each block of a recording of ``size`` samples."""
    return max(int(_LENGTHS * correlations.max()), size // (_SCORES * max(len(base), 1)), 1)


def small_sample(blocks: int, parameters: int, rows: int) -> float:
    """How much fitted residuals underestimate the scatter of that many blocks of rows."""
    return blocks / max(blocks - 1, 1) / max(1.0 - parameters / (blocks * rows), 0.1)
