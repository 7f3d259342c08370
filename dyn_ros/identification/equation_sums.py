# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Normal equations of the torques of a recording, and the covariance of their solution."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from ..engine.algorithms import frame_jacobian, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model, ReferenceFrame
from ..engine.model.coordinates import has_single_coordinate
from .friction_terms import FrictionTerms
from .motion.filtering import REST_SPEED_RATIO
from .motion.numerics import (
    FOLDS,
    MIN_SPEED,
    REGRESSION_SAMPLES,
    RELATIVE_TOLERANCE,
    ROUNDOFF,
    STATISTICS_SAMPLES,
    evenly_spaced,
)
from .samples import Samples

_MIN_REMAINDER = 0.01  # relative information that stays in a direction when a stretch is removed
_MIN_EQUATION_RATIO = 3  # equations per parameter; samples with fewer are rejected
_MAX_NEIGHBOR_CORRELATION = 0.05  # changes of adjacent stretches; below it, intervals err by 2 %
STRETCH_COUNT = 64  # stretches of consecutive samples, whose scatter gives the covariance
_MIN_RECORDINGS = 4  # recordings whose scatter gives the covariance; fewer show only its scale


class Equations(NamedTuple):
    """Weighted sums over samples, for each row k of the model.

    x are the parameters in the row's columns, ``row_columns[k]`` of the unknowns. The weighted
    sum of squared residuals is yy - 2 Wy.x + x.WW.x.
    """

    WW: Array  # (nv, c, c)
    Wy: Array  # (nv, c)
    yy: Array  # (nv,)
    weight: Array  # (nv,) sum of the weights

    @classmethod
    def zeros(cls, rows: int, columns: int) -> Equations:
        """Return the sums of no samples."""
        return cls(
            np.zeros((rows, columns, columns)),
            np.zeros((rows, columns)),
            np.zeros(rows),
            np.zeros(rows),
        )

    def subtract(self, subset: Equations) -> Equations:
        """Return the sums without a subset of the samples."""
        return Equations(*(total - removed for total, removed in zip(self, subset)))


def add_sums(a: Any, b: Any) -> Any:
    """Add sums of different samples: numbers, arrays, or tuples of them."""
    return type(a)(*map(add_sums, a, b)) if isinstance(a, tuple) else a + b


def add_rows(sums: Equations, W: Array, y: Array, w: Array) -> None:
    """Add dense rows W (B, nv, c), with torques y and weights w (B, nv), to ``sums`` in place.

    ``sums.weight`` does not change.
    """
    for k in range(W.shape[1]):
        root = np.sqrt(w[:, k])
        rows = root[:, None] * W[:, k]
        sums.WW[k] += rows.T @ rows
        sums.Wy[k] += (root * y[:, k]) @ rows
        sums.yy[k] += w[:, k] @ y[:, k] ** 2


def remaining_noise(eliminations: Array) -> Array:
    """Return each row's noise after the elimination, relative to its noise before, (B, nv)."""
    return np.sqrt(np.maximum(np.einsum("bii->bi", eliminations), 1e-3))


def contact_eliminations(
    model: Model,
    data: Data,
    samples: Samples,
    contact_dimension: int,
    scale: Array,
    combinations: Array | None = None,
) -> Array:
    """Return matrices E (B, nv, nv) with E J' = 0 for the contacts of each sample.

    They are orthogonal projections of torques divided by their noise ``scale`` (nv,). They also
    eliminate ``combinations`` of torques, (B, n, nv).
    """
    axes = ReferenceFrame.LOCAL_WORLD_ALIGNED
    J = np.stack(
        [frame_jacobian(model, data, samples.q, frame, axes) for frame in samples.contacts], axis=1
    )[:, :, :contact_dimension]
    if samples.in_contact is not None:
        J *= samples.in_contact[:, :, None, None]
    A = J.reshape(len(samples), -1, model.nv) / scale
    if combinations is not None:
        A = np.concatenate([A, combinations], axis=1)
    A /= np.maximum(np.linalg.norm(A, axis=2, keepdims=True), 1e-300)
    squares, vectors = np.linalg.eigh(A.swapaxes(1, 2) @ A)
    null_vectors = vectors * (squares < ROUNDOFF)[:, None]
    return scale[:, None] * (null_vectors @ null_vectors.swapaxes(1, 2)) / scale


class Conditions(NamedTuple):
    """Conditions on the equations of a recording, which are derived from all its samples."""

    terms: FrictionTerms
    contact_dimension: int  # 3: contacts transmit forces; 6: moments, too
    threshold: Array  # (nv,) rad/s, m/s; a slower motor counts as at rest
    measured: np.ndarray  # (nv,) of bool; false for efforts that are constant, true for a base
    scale: Array  # (nv,) noise of the rows, used to eliminate contact forces
    reversal_margin: int = 0  # samples; those closer to a reversal do not count


def recording_conditions(
    model: Model, samples: Samples, terms: FrictionTerms, contact_dimension: int
) -> Conditions:
    """Return the conditions of a recording, as if reversals did not matter."""
    has_coordinate, v = (
        has_single_coordinate(model),
        samples.v[evenly_spaced(len(samples), STATISTICS_SAMPLES)],
    )
    max_speed = np.quantile(np.abs(model.drives.motor_velocity(v)), 0.99, axis=0)
    # a sensor that does not work reports a constant
    measured = (np.ptp(model.drives.to_motors(samples.tau), axis=0) > 0.0) | ~has_coordinate
    scale = np.ones(model.nv)
    if samples.contacts:  # RMS torques of the description
        subset = samples.take(evenly_spaced(len(samples), REGRESSION_SAMPLES))
        torque = rnea(model, Data(model), subset.q, subset.v, subset.a)
        scale = np.sqrt((torque**2).mean(axis=0)) + 1e-6
    threshold = np.where(has_coordinate, np.maximum(REST_SPEED_RATIO * max_speed, MIN_SPEED), 0.0)
    return Conditions(terms, contact_dimension, threshold, measured, scale)


def require_equations(contacts: tuple[str, ...], count: float, parameters: int) -> None:
    """Raise a ValueError if samples leave too few equations for the parameters."""
    if count >= _MIN_EQUATION_RATIO * parameters:
        return
    if contacts:
        raise ValueError(
            f"samples: {count:.3g} equations remain for {parameters} parameters, without those "
            f"that unknown forces in the contacts {', '.join(contacts)} can explain; "
            "use a floating root joint if the base is not fixed, a contact dimension of 3 for "
            "points, and state for each sample which frames are in contact"
        )
    raise ValueError(
        f"samples: expected at least {_MIN_EQUATION_RATIO * parameters} equations of joints "
        f"that move and whose effort is measured, got {count:.3g}; record more "
        "motion, or check the efforts"
    )


# --- samples


def rounding_deviation(efforts: Array) -> Array:
    """Return the standard deviation (n,) of the rounding of efforts (B, n): step / sqrt(12)."""
    steps = np.diff(
        np.sort(efforts[evenly_spaced(len(efforts), STATISTICS_SAMPLES)], axis=0), axis=0
    )
    rounding = RELATIVE_TOLERANCE * np.maximum(
        efforts.max(axis=0, initial=0.0), -efforts.min(axis=0, initial=0.0)
    )
    step = np.where(steps > rounding, steps, np.inf).min(axis=0, initial=np.inf)
    return np.where(np.isfinite(step), step, 0.0) / np.sqrt(12.0)


def correlation_length(x: Array) -> float:
    """Return the sum of the autocorrelation of a signal over all lags up to its first end."""
    if len(x) < 10 or not x.any():
        return 1.0
    spectrum = np.abs(np.fft.rfft(x, 2 * len(x))) ** 2
    correlation = np.fft.irfft(spectrum)[: len(x) // 2]
    end = int(np.argmax(np.append(correlation < 0.1 * correlation[0], True)))
    return float(1.0 + 2.0 * correlation[1:end].sum() / correlation[0])


@dataclasses.dataclass(frozen=True)
class Stretches:
    """Contributions of stretches of samples to an estimate, in order of time."""

    recording: np.ndarray  # (n,) of int, number of the recording
    scores: Array  # (n, b), gradients
    H: Array  # (n, b, b), normal equations

    def __add__(self, other: Stretches) -> Stretches:
        joined = Stretches(
            np.append(self.recording, other.recording),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.H, other.H]),
        )
        count = len(joined.recording)
        return joined if count <= 4 * STRETCH_COUNT else joined.merge(np.arange(0, count, 2))

    def merge(self, starts: np.ndarray) -> Stretches:
        """Merge each stretch at ``starts`` with those that follow it, up to the next start."""
        return Stretches(
            self.recording[starts],
            np.add.reduceat(self.scores, starts),
            np.add.reduceat(self.H, starts),
        )

    def after_change(self, change: Array) -> Stretches:
        """Return the contributions at an estimate that differs by ``change`` (b,)."""
        return dataclasses.replace(self, scores=self.scores - self.H[..., : len(change)] @ change)

    def covariance(
        self, inverse: Array, sizes: Array, feature_numbers: np.ndarray
    ) -> tuple[Array, int]:
        """Return the `jackknife` of the b base parameters and the m scales of friction.

        ``inverse`` (b, b), ``sizes`` (b,) and ``feature_numbers`` (b,) are of base parameters.
        """
        scale_count = self.H.shape[1] - len(sizes)
        inverse = invert_bordered(inverse, self.H.sum(axis=0))
        _, first, counts = np.unique(self.recording, return_index=True, return_counts=True)
        if counts.min() * len(first) < 2 * FOLDS:  # too few to compare recordings
            first, counts = first[:1], counts.sum(keepdims=True)
        count = 1 << int(counts.min()).bit_length() - 1  # a power of 2: jackknife halves it
        starts = (first[:, None] + np.arange(count) * counts[:, None] // count).ravel()
        merged, shape = self.merge(starts), (len(first), count, len(inverse))
        return jackknife(
            merged.scores.reshape(shape),
            merged.H.reshape(*shape, len(inverse)),
            inverse,
            np.append(sizes, np.zeros(scale_count)),
            np.append(feature_numbers, np.full(scale_count, -1)),
        )


def jackknife(
    scores: Array,
    H: Array,
    inverse: Array,
    sizes: Array | None = None,
    feature_numbers: np.ndarray | None = None,
) -> tuple[Array, int]:
    """Return the covariance (b, b) of an estimate by leaving out stretches, and their number.

    ``scores`` (recordings, n, b) and ``H`` (recordings, n, b, b) are the gradients and the normal
    equations of each stretch, ``inverse`` (b, b) the inverse of their sum. Adjacent stretches with
    correlated errors are merged (Flyvbjerg and Petersen 1989), and so are all stretches of a
    recording if errors differ more between recordings than within them, as when friction changes.
    Two or three recordings only determine one scale of this change for all parameters with one of
    the ``feature_numbers`` (b,), which are positive for friction (Birge 1932): a common factor, or
    a fraction of their ``sizes`` (b,). Each recording propagates its share of the change to all
    parameters. Other parameters are widened by the variance that remains.
    """
    scale = np.sqrt(np.maximum(np.diag(inverse), 1e-300))
    squares, vectors = np.linalg.eigh(inverse / scale / scale[:, None])
    roots = np.sqrt(np.maximum(squares, 0.0))
    F = scale[:, None] * vectors * roots
    scores, H = scores @ F, F.T @ H @ F
    changes = leave_one_out_changes(scores, H, F)
    recording_changes = leave_one_out_changes(
        scores.sum(axis=1, keepdims=True), H.sum(axis=1, keepdims=True), F
    )
    while scores.shape[1] > 1 and scores[..., 0].size >= 2 * FOLDS:
        products = (changes[:, ::2] * changes[:, 1::2]).sum(axis=(0, 1))
        if (
            2.0 * np.mean(products / np.maximum(_jackknife_variance(changes), 1e-300))
            <= _MAX_NEIGHBOR_CORRELATION
        ):
            break
        scores, H = scores[:, ::2] + scores[:, 1::2], H[:, ::2] + H[:, 1::2]
        changes = leave_one_out_changes(scores, H, F)
    ratio = _jackknife_variance(recording_changes) / np.maximum(
        _jackknife_variance(changes), 1e-300
    )
    if len(recording_changes) >= _MIN_RECORDINGS and ratio.mean() > 1.0:
        changes = recording_changes
    changes = changes.reshape(-1, len(F))
    covariance: Array = changes.T @ changes * (1.0 - 1.0 / len(changes))
    if (
        sizes is not None
        and feature_numbers is not None
        and 1 < len(recording_changes) < _MIN_RECORDINGS
    ):
        F_inverse = vectors.T / scale / np.where(roots > 0.0, roots, np.inf)[:, None]
        covariance = _add_recording_variance(
            covariance,
            _jackknife_variance(recording_changes),
            F @ H.sum(axis=1) @ F_inverse,
            sizes,
            feature_numbers,
        )
    return covariance, len(changes)


def _add_recording_variance(
    covariance: Array, variance: Array, shares: Array, sizes: Array, feature_numbers: np.ndarray
) -> Array:
    """Add to a covariance what changes between two or three recordings.

    ``variance`` (b,) is the variance between recordings; ``shares`` (recordings, b, b) map the
    parameters of each recording to the estimate.
    """
    count = len(shares)
    factor = np.where(
        feature_numbers > 0,
        _variance_ratio(covariance, variance, sizes, feature_numbers, count),
        1.0,
    )
    friction_shares = shares * np.sqrt(count * (factor - 1.0))
    covariance = covariance + (friction_shares @ covariance @ friction_shares.swapaxes(1, 2)).sum(
        axis=0
    )
    factor = np.where(
        feature_numbers > 0,
        1.0,
        _variance_ratio(covariance, variance, sizes, feature_numbers, count),
    )
    return covariance * np.sqrt(factor[:, None] * factor)


def _variance_ratio(
    covariance: Array, variance: Array, sizes: Array, feature_numbers: np.ndarray, count: int
) -> Array:
    """Return the ratio of the variance between recordings to the covariance's diagonal, (b,).

    Parameters with the same feature number share one ratio, or their change is a common fraction
    of their sizes.
    """
    sampling_variance, factor = (
        np.maximum(np.diag(covariance), 1e-300),
        np.ones(len(feature_numbers)),
    )
    for mask in (feature_numbers == number for number in np.unique(feature_numbers)):
        relative_change = (variance[mask] - sampling_variance[mask]).sum() / (
            float(np.sum(sizes[mask] ** 2)) or 1.0
        )
        ratio = np.maximum(
            np.mean(variance[mask] / sampling_variance[mask]),
            1.0 + relative_change * sizes[mask] ** 2 / sampling_variance[mask],
        )
        t = stdtrit((count - 1) * mask.sum(), 0.975) / ndtri(0.975)  # Student's t: few numbers
        factor[mask] = np.where(ratio > 1.0, t**2 * ratio, 1.0)
    return factor


def leave_one_out_changes(scores: Array, H: Array, F: Array) -> Array:
    """Return the change of an estimate when each stretch is left out, (recordings, n, b).

    ``scores`` (recordings, n, m) and ``H`` (recordings, n, m, m) are the gradients and the normal
    equations of each stretch, in coordinates in which the sum of all H is the identity; ``F``
    (b, m) maps these coordinates to the estimate.
    """
    identity = np.eye(len(F.T))
    try:
        np.linalg.cholesky((1.0 - _MIN_REMAINDER) * identity - H)
        steps = np.linalg.solve(identity - H, scores[..., None])[..., 0]
    except np.linalg.LinAlgError:  # a stretch determines some direction alone
        share, axes = np.linalg.eigh(H)
        steps = np.einsum("rnij,rni->rnj", axes, scores) / np.maximum(1.0 - share, _MIN_REMAINDER)
        steps = np.einsum("rnij,rnj->rni", axes, steps)
    changes: Array = steps @ F.T
    return changes


def _jackknife_variance(changes: Array) -> Array:
    """Return the jackknife variance of each parameter, (b,)."""
    variance: Array = (changes**2).sum(axis=(0, 1)) * (1.0 - 1.0 / changes[..., 0].size)
    return variance


def border_equations(H: Array, cross: Array, squares: Array) -> Array:
    """Append m unknowns, with cross terms (n, b, m) and squares (n, m, m), to H (n, b, b)."""
    return np.block([[H, cross], [cross.swapaxes(1, 2), squares]])


def invert_bordered(inverse: Array, H: Array) -> Array:
    """Return the inverse of bordered equations H (b + m, b + m), given the first b's inverse."""
    b = len(inverse)
    cross, squares = H[:b, b:], H[b:, b:]
    inverse_cross, scale = inverse @ cross, 1.0 / np.sqrt(np.maximum(np.diag(squares), 1e-300))
    shares, axes = np.linalg.eigh((squares - cross.T @ inverse_cross) * scale * scale[:, None])
    axes *= scale[:, None]
    corner = axes / np.maximum(shares, _MIN_REMAINDER) @ axes.T
    return np.block(
        [
            [inverse + inverse_cross @ corner @ inverse_cross.T, -inverse_cross @ corner],
            [-corner @ inverse_cross.T, corner],
        ]
    )


def add_motion_noise(model: Model, samples: Samples, sigma: Array) -> tuple[Samples, Samples]:
    """Return samples with noise ``sigma`` (3, nv) added to their motion, and subtracted."""
    dq, dv, da = np.random.default_rng(0).standard_normal((3, len(samples), model.nv))
    # the second derivative of a stationary signal is correlated with it: E[q ddq] = -E[dq^2]
    product = sigma[0] * sigma[2]
    correlation = np.where(
        product > 0.0, sigma[1] ** 2 / np.where(product > 0.0, product, 1.0), 0.0
    )
    da = np.sqrt(np.maximum(1.0 - correlation**2, 0.0)) * da - correlation * dq
    dq, dv, da = dq * sigma[0], dv * sigma[1], da * sigma[2]
    plus, minus = (
        dataclasses.replace(
            samples,
            q=model.integrate(samples.q, sign * dq),
            v=samples.v + sign * dv,
            a=samples.a + sign * da,
        )
        for sign in (1.0, -1.0)
    )
    return plus, minus
