# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Sums of torque equations, and which samples count in them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from ..engine.algorithms import frame_jacobian, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model, ReferenceFrame
from ..engine.model.coordinates import is_actuated
from .friction_terms import FrictionTerms
from .motion.filtering import AT_REST
from .motion.numerics import (
    FOLDS,
    MIN_SPEED,
    REGRESSION,
    ROUNDING,
    ROUNDOFF,
    STATISTICS,
    evenly,
)
from .samples import Samples

_LEAST_LEFT = 0.01  # of the equations in a direction, without a stretch or other columns
_FEWEST = 3  # equations for each parameter
_ALIKE = 0.05  # correlation of neighbors: less narrows intervals by 2 %
STRETCH_COUNT = 64  # of consecutive samples, whose scatter gives the covariance
_FEWEST_RECORDINGS = 4  # the same, if errors last


class Equations(NamedTuple):
    """Sums over samples, for each row k of the model.

    With the parameters x of the row's columns, which are ``local[k]`` of the unknowns, the weighted
    sum of squared residuals is yy - 2 Wy.x + x.WW.x.
    """

    WW: Array  # (nv, c, c)
    Wy: Array  # (nv, c)
    yy: Array  # (nv,)
    weight: Array  # (nv,), sum of the weights

    @classmethod
    def nothing(cls, rows: int, columns: int) -> Equations:
        """The sums of no samples."""
        return cls(
            np.zeros((rows, columns, columns)),
            np.zeros((rows, columns)),
            np.zeros(rows),
            np.zeros(rows),
        )

    def minus(self, other: Equations) -> Equations:
        """The sums without some samples."""
        return Equations(*(mine - others for mine, others in zip(self, other)))


def add_sums(one: Any, other: Any) -> Any:
    """Add sums of different samples: numbers, arrays, or tuples of them."""
    return type(one)(*map(add_sums, one, other)) if isinstance(one, tuple) else one + other


def add_rows(sums: Equations, W: Array, y: Array, w: Array) -> None:
    """Add dense rows W (B, nv, c) with torques y and weights w (B, nv) to sums."""
    for k in range(W.shape[1]):
        root = np.sqrt(w[:, k])
        rows = root[:, None] * W[:, k]
        sums.WW[k] += rows.T @ rows
        sums.Wy[k] += (root * y[:, k]) @ rows
        sums.yy[k] += w[:, k] @ y[:, k] ** 2


def left(eliminations: Array) -> Array:
    """Standard deviation of each row's noise after the elimination, relative to that before."""
    return np.sqrt(np.maximum(np.einsum("bii->bi", eliminations), 1e-3))


def eliminations(
    model: Model,
    data: Data,
    samples: Samples,
    contact_dimension: int,
    scale: Array,
    others: Array | None = None,
) -> Array:
    """Matrices E with E J' = 0 for the contacts of each sample, (B, nv, nv).

    They are orthogonal projections of torques divided by their noise, the scale (nv,). They also
    eliminate other combinations of torques, (B, n, nv).
    """
    axes = ReferenceFrame.LOCAL_WORLD_ALIGNED
    J = np.stack(
        [frame_jacobian(model, data, samples.q, frame, axes) for frame in samples.contacts], axis=1
    )[:, :, :contact_dimension]
    if samples.in_contact is not None:
        J *= samples.in_contact[:, :, None, None]
    A = J.reshape(len(samples), -1, model.nv) / scale
    if others is not None:
        A = np.concatenate([A, others], axis=1)
    A /= np.maximum(np.linalg.norm(A, axis=2, keepdims=True), 1e-300)
    squares, vectors = np.linalg.eigh(A.swapaxes(1, 2) @ A)
    kept = vectors * (squares < ROUNDOFF)[:, None]
    return scale[:, None] * (kept @ kept.swapaxes(1, 2)) / scale


class Conditions(NamedTuple):
    """Which equations of a recording count, and how; found from samples of all of it."""

    terms: FrictionTerms
    contact_dimension: int  # 3: contacts transmit forces; 6: moments, too
    threshold: Array  # (nv,), speeds below which a joint counts as at rest [rad/s, m/s]
    measured: np.ndarray  # (nv,), whether the efforts are measured; true for a base
    scale: Array  # (nv,), noise of the rows, for the elimination of contact forces
    nearest: int = 0  # samples that are closer to a reversal do not count


def conditions_of(
    model: Model, samples: Samples, terms: FrictionTerms, contact_dimension: int
) -> Conditions:
    """The conditions of a recording, before it is known how far reversals matter."""
    actuated, v = is_actuated(model), samples.v[evenly(len(samples), STATISTICS)]
    fastest = np.quantile(np.abs(model.drives.motor_velocity(v)), 0.99, axis=0)
    # a sensor that does not work shows a constant
    measured = (np.ptp(model.drives.to_motors(samples.tau), axis=0) > 0.0) | ~actuated
    scale = np.ones(model.nv)
    if samples.contacts:  # the RMS torques that the description has
        some = samples.take(evenly(len(samples), REGRESSION))
        torque = rnea(model, Data(model), some.q, some.v, some.a)
        scale = np.sqrt((torque**2).mean(axis=0)) + 1e-6
    threshold = np.where(actuated, np.maximum(AT_REST * fastest, MIN_SPEED), 0.0)
    return Conditions(terms, contact_dimension, threshold, measured, scale)


def require_equations(contacts: tuple[str, ...], count: float, parameters: int) -> None:
    """Reject samples that leave too few equations for the parameters."""
    if count >= _FEWEST * parameters:
        return
    if contacts:
        raise ValueError(
            f"samples: {count:.3g} equations remain for {parameters} parameters, without those "
            f"that unknown forces in the contacts {', '.join(contacts)} can explain; "
            "use a floating root joint if the base is not fixed, a contact dimension of 3 for "
            "points, and state for each sample which frames are in contact"
        )
    raise ValueError(
        f"samples: expected at least {_FEWEST * parameters} equations of joints "
        f"that move and whose effort is measured, got {count:.3g}; record more "
        "motion, or check the efforts"
    )


# --- samples


def resolution(efforts: Array) -> Array:
    """Standard deviation of the rounding of efforts (B, n), (n,): their step over sqrt(12)."""
    steps = np.diff(np.sort(efforts[evenly(len(efforts), STATISTICS)], axis=0), axis=0)
    rounding = ROUNDING * np.maximum(
        efforts.max(axis=0, initial=0.0), -efforts.min(axis=0, initial=0.0)
    )
    least = np.where(steps > rounding, steps, np.inf).min(axis=0, initial=np.inf)
    return np.where(np.isfinite(least), least, 0.0) / np.sqrt(12.0)


def correlation_length(x: Array) -> float:
    """The sum of the correlations of a signal with itself at all lags, until they end."""
    if len(x) < 10 or not x.any():
        return 1.0
    spectrum = np.abs(np.fft.rfft(x, 2 * len(x))) ** 2
    correlation = np.fft.irfft(spectrum)[: len(x) // 2]
    end = int(np.argmax(np.append(correlation < 0.1 * correlation[0], True)))
    return float(1.0 + 2.0 * correlation[1:end].sum() / correlation[0])


@dataclasses.dataclass(frozen=True)
class Stretches:
    """What stretches of samples contribute to an estimate; sums are over all, in order."""

    recording: np.ndarray  # (n,) of int
    scores: Array  # (n, b), gradients
    H: Array  # (n, b, b), normal equations

    def __add__(self, other: Stretches) -> Stretches:
        every = Stretches(
            np.append(self.recording, other.recording),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.H, other.H]),
        )
        count = len(every.recording)
        return every if count <= 4 * STRETCH_COUNT else every.merge(np.arange(0, count, 2))

    def merge(self, starts: np.ndarray) -> Stretches:
        """Each with those that follow, up to the next one of ``starts``."""
        return Stretches(
            self.recording[starts],
            np.add.reduceat(self.scores, starts),
            np.add.reduceat(self.H, starts),
        )

    def after_change(self, change: Array) -> Stretches:
        """The same at an estimate with another value (b,)."""
        return dataclasses.replace(self, scores=self.scores - self.H[..., : len(change)] @ change)

    def covariance(self, inverse: Array, sizes: Array, kinds: np.ndarray) -> tuple[Array, int]:
        """See ``jackknife``; of the first b parameters, then of the m others."""
        more = self.H.shape[1] - len(sizes)
        inverse = bordered_inverse(inverse, self.H.sum(axis=0))
        _, first, counts = np.unique(self.recording, return_index=True, return_counts=True)
        if counts.min() * len(first) < 2 * FOLDS:  # too few to compare recordings
            first, counts = first[:1], counts.sum(keepdims=True)
        count = 1 << int(counts.min()).bit_length() - 1  # which can be halved
        starts = (first[:, None] + np.arange(count) * counts[:, None] // count).ravel()
        each, shape = self.merge(starts), (len(first), count, len(inverse))
        return jackknife(
            each.scores.reshape(shape),
            each.H.reshape(*shape, len(inverse)),
            inverse,
            np.append(sizes, np.zeros(more)),
            np.append(kinds, np.full(more, -1)),
        )


def jackknife(
    scores: Array,
    H: Array,
    inverse: Array,
    sizes: Array | None = None,
    kinds: np.ndarray | None = None,
) -> tuple[Array, int]:
    """Covariance (b, b) of an estimate from those without one stretch of samples, and their number.

    ``scores`` (recordings, n, b) and ``H`` (recordings, n, b, b) are the gradients and the normal
    equations of each stretch, ``inverse`` (b, b) the inverse of their sum. Where neighbors err
    alike, errors last longer: they count as one stretch (Flyvbjerg and Petersen 1989). So do all of
    a recording if their errors are more alike than others, as of friction that changes between
    recordings. Two or three recordings show how much it changes for all parameters of one of the
    ``kinds`` (b,) together, which are positive for friction (Birge 1932), perhaps by a fraction of
    their ``sizes`` (b,); each recording takes its own share of the change into all parameters.
    Those of other kinds are widened by what is left.
    """
    scale = np.sqrt(np.maximum(np.diag(inverse), 1e-300))
    squares, vectors = np.linalg.eigh(inverse / scale / scale[:, None])
    roots = np.sqrt(np.maximum(squares, 0.0))
    F = scale[:, None] * vectors * roots
    scores, H = scores @ F, F.T @ H @ F
    changes = changes_without(scores, H, F)
    whole = changes_without(scores.sum(axis=1, keepdims=True), H.sum(axis=1, keepdims=True), F)
    while scores.shape[1] > 1 and scores[..., 0].size >= 2 * FOLDS:
        products = (changes[:, ::2] * changes[:, 1::2]).sum(axis=(0, 1))
        if 2.0 * np.mean(products / np.maximum(_variance(changes), 1e-300)) <= _ALIKE:
            break
        scores, H = scores[:, ::2] + scores[:, 1::2], H[:, ::2] + H[:, 1::2]
        changes = changes_without(scores, H, F)
    ratio = _variance(whole) / np.maximum(_variance(changes), 1e-300)
    if len(whole) >= _FEWEST_RECORDINGS and ratio.mean() > 1.0:
        changes = whole
    changes = changes.reshape(-1, len(F))
    covariance: Array = changes.T @ changes * (1.0 - 1.0 / len(changes))
    if sizes is not None and kinds is not None and 1 < len(whole) < _FEWEST_RECORDINGS:
        back = vectors.T / scale / np.where(roots > 0.0, roots, np.inf)[:, None]  # inverse of F
        covariance = _changing(covariance, _variance(whole), F @ H.sum(axis=1) @ back, sizes, kinds)
    return covariance, len(changes)


def _changing(
    covariance: Array, variance: Array, shares: Array, sizes: Array, kinds: np.ndarray
) -> Array:
    """The covariance with what changes between few recordings.

    ``variance`` (b,) is between whole recordings, ``shares`` (recordings, b, b) from the parameters
    of each recording to the estimate.
    """
    count = len(shares)
    factor = np.where(kinds > 0, _widening(covariance, variance, sizes, kinds, count), 1.0)
    of_friction = shares * np.sqrt(count * (factor - 1.0))
    covariance = covariance + (of_friction @ covariance @ of_friction.swapaxes(1, 2)).sum(axis=0)
    factor = np.where(kinds > 0, 1.0, _widening(covariance, variance, sizes, kinds, count))
    return covariance * np.sqrt(factor[:, None] * factor)


def _widening(
    covariance: Array, variance: Array, sizes: Array, kinds: np.ndarray, count: int
) -> Array:
    """By how much larger the variance between recordings is, (b,).

    Either it is as much larger for all of a kind, or the change is a fraction of their sizes.
    """
    own, factor = np.maximum(np.diag(covariance), 1e-300), np.ones(len(kinds))
    for some in (kinds == kind for kind in np.unique(kinds)):
        more = (variance[some] - own[some]).sum() / (float(np.sum(sizes[some] ** 2)) or 1.0)
        larger = np.maximum(
            np.mean(variance[some] / own[some]), 1.0 + more * sizes[some] ** 2 / own[some]
        )
        t = stdtrit((count - 1) * some.sum(), 0.975) / ndtri(0.975)  # of few numbers, as Student's
        factor[some] = np.where(larger > 1.0, t**2 * larger, 1.0)
    return factor


def changes_without(scores: Array, H: Array, F: Array) -> Array:
    """How much an estimate changes without each stretch of samples, (recordings, n, b).

    ``scores`` (recordings, n, m) and ``H`` (recordings, n, m, m) are the gradients and the normal
    equations of each stretch, in coordinates in which the sum of all H is the identity; ``F``
    (b, m) is from these coordinates to the estimate.
    """
    one = np.eye(len(F.T))
    try:
        np.linalg.cholesky((1.0 - _LEAST_LEFT) * one - H)
        left = np.linalg.solve(one - H, scores[..., None])[..., 0]
    except np.linalg.LinAlgError:  # little would be left in some directions
        share, axes = np.linalg.eigh(H)
        left = np.einsum("rnij,rni->rnj", axes, scores) / np.maximum(1.0 - share, _LEAST_LEFT)
        left = np.einsum("rnij,rnj->rni", axes, left)
    changes: Array = left @ F.T
    return changes


def _variance(changes: Array) -> Array:
    """The variance of each parameter, (b,)."""
    variance: Array = (changes**2).sum(axis=(0, 1)) * (1.0 - 1.0 / changes[..., 0].size)
    return variance


def bordered(H: Array, others: Array, squares: Array) -> Array:
    """Normal equations (n, b, b) with m unknowns more, with their own ones (n, m, m)."""
    return np.block([[H, others], [others.swapaxes(1, 2), squares]])


def bordered_inverse(inverse: Array, H: Array) -> Array:
    """The inverse (b + m, b + m) of bordered normal equations H, from that of the first b."""
    b = len(inverse)
    others, squares = H[:b, b:], H[b:, b:]
    solved, scale = inverse @ others, 1.0 / np.sqrt(np.maximum(np.diag(squares), 1e-300))
    shares, axes = np.linalg.eigh((squares - others.T @ solved) * scale * scale[:, None])
    axes *= scale[:, None]
    own = axes / np.maximum(shares, _LEAST_LEFT) @ axes.T
    return np.block([[inverse + solved @ own @ solved.T, -solved @ own], [-own @ solved.T, own]])


def with_noise(model: Model, samples: Samples, sigma: Array) -> tuple[Samples, Samples]:
    """Samples with noise added to their motion, as the filter leaves it, and subtracted."""
    dq, dv, da = np.random.default_rng(0).standard_normal((3, len(samples), model.nv))
    # the second derivative of a stationary signal is correlated with it: E[q ddq] = -E[dq^2]
    product = sigma[0] * sigma[2]
    common = np.where(product > 0.0, sigma[1] ** 2 / np.where(product > 0.0, product, 1.0), 0.0)
    da = np.sqrt(np.maximum(1.0 - common**2, 0.0)) * da - common * dq
    dq, dv, da = dq * sigma[0], dv * sigma[1], da * sigma[2]
    more, less = (
        dataclasses.replace(
            samples,
            q=model.integrate(samples.q, sign * dq),
            v=samples.v + sign * dv,
            a=samples.a + sign * da,
        )
        for sign in (1.0, -1.0)
    )
    return more, less
