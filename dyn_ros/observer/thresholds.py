# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Thresholds of external efforts, and their calibration for a rate of false alarms.

A calibration takes a few minutes, and the wanted rate is one alarm in hours, so the tail of the
residuals is extrapolated. Their peaks above a level, one of each cluster, occur at a rate that
falls as exp(-(x / s)^c). c is 2 for Gaussian noise, less if errors of the model make the tail
heavy, and more if they are bounded. For a given c the average over all s that agree with the peaks
has a closed form, and so has the probability of c; the threshold is averaged over c. A short
recording therefore results in wider thresholds than a long one. A single peak that the others do
not predict, such as an abrupt stop causes, is an alarm that the recording contains.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms.dynamics.friction import max_friction_at_rest
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import finite_array, one_each, positive_number, require_entries
from ..engine.model.model import Model
from .fault_checks import typical_efforts

REST_SPEED = 0.05
"""Velocity above which the direction of friction is certain [rad/s, m/s]."""

MIN_DURATION = 10.0
"""The least duration of a calibration [s]."""

FALSE_ALARMS = 0.1
"""The rate of false alarms of a robot for which thresholds are calibrated by default [1/h]."""

MIN_NOISE = 1e-6
"""The least standard deviation of external efforts [N m, N]."""

_BLOCK = 0.25  # s; only the largest value of a block counts
# limits of the blocks above the level from which tails are fitted
_MAX_PEAK_FRACTION, _MAX_PEAKS = 0.3, 80
_MAX_CLUSTER = 4  # blocks; a longer cluster counts as several
_SHAPES = np.array([1.0, 1.5, 2.0, 3.0])  # exponents c of the tail
_SHAPE_PRIOR = np.array([0.25, 0.25, 0.35, 0.15])
# a largest peak with a lower probability in the recording, given all others, does not count
_MIN_PEAK_PROBABILITY = 1e-3
_MIN_OTHER_PEAKS = 10  # fewer do not predict a peak
# candidates for per_speed * usual speed / fixed; only the first at rest
_SPEED_RATIOS = 0.0, 0.25, 1.0, 4.0
_MAX_MEAN_RATIO = 0.8  # thresholds with per_speed relative to those without
_HOUR = 3600.0


@dataclasses.dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds above which an external effort counts as a contact.

    They are ``fixed + per_speed * abs(v)``, and near rest ``at_rest * (1 - abs(v) / 0.05)`` more:
    Coulomb friction at rest is anything up to its size, and the sign of a small velocity may be
    wrong. External efforts lag; the observer node compares them with speeds that pass the same low
    passes.

    Attributes
    ----------
    fixed : (nv,) ndarray
        [N m, N].
    per_speed : (nv,) ndarray
        Added for each rad/s or m/s [N m s, N s].
    at_rest : (nv,) ndarray
        Added at rest, less at velocities up to 0.05 rad/s or m/s [N m, N].

    Raises
    ------
    ValueError
        Numbers that are negative or not finite, or of different lengths.

    Examples
    --------
    >>> limits = dyn_ros.Thresholds(np.full(7, 2.0), per_speed=np.full(7, 0.5))
    >>> limits.exceeded([2.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], v).tolist()
    [True, False, False, False, False, False, False]
    """

    fixed: Array
    per_speed: Array | float = 0.0
    at_rest: Array | float = 0.0

    def __post_init__(self) -> None:
        fixed = finite_array("fixed", self.fixed, (np.size(self.fixed),))
        for name in ("fixed", "per_speed", "at_rest"):
            values = one_each(name, getattr(self, name), len(fixed))
            require_entries(name, values, values >= 0.0, "numbers that are not negative")
            object.__setattr__(self, name, values)

    def of(self, v: ArrayLike) -> Array:
        """Return the thresholds at a velocity.

        Parameters
        ----------
        v : (nv,) or (B, nv) array_like
            [rad/s, m/s].

        Returns
        -------
        (nv,) or (B, nv) ndarray
            [N m, N].
        """
        speed = np.abs(v)
        limits: Array = (
            self.fixed
            + self.per_speed * speed
            + self.at_rest * np.maximum(1.0 - speed / REST_SPEED, 0.0)
        )
        return limits

    def exceeded(self, external: ArrayLike, v: ArrayLike) -> NDArray[np.bool_]:
        """Return True where an external effort exceeds its threshold.

        Parameters
        ----------
        external, v : (nv,) or (B, nv) array_like
            [N m, N], [rad/s, m/s].

        Returns
        -------
        (nv,) or (B, nv) ndarray of bool
        """
        exceeded: NDArray[np.bool_] = np.abs(external) > self.of(v)
        return exceeded


def _empty_array() -> Array:
    return np.zeros(0)


@dataclasses.dataclass(frozen=True, eq=False)
class CalibratedThresholds(Thresholds):
    """Result of ``dyn_ros.calibrate_thresholds``: thresholds, and the data behind them.

    Attributes
    ----------
    fixed, per_speed, at_rest : (nv,) ndarray
        See ``Thresholds``.
    mean, deviation : (nv,) ndarray
        Of the external efforts, in which nothing touched the robot [N m, N].
    largest : (nv,) ndarray
        Largest external effort of each coordinate, relative to its threshold at that speed; zero
        if both are zero.
    peaks : (nv,) ndarray of int
        Number of independent peaks from which each tail was extrapolated.
    shape : (nv,) ndarray
        Shape of each tail, from 2 for Gaussian noise down to 1 for heavy tails.
    duration : float
        [s].
    false_alarms : float
        The wanted rate of the robot [1/h].
    """

    mean: Array = dataclasses.field(default_factory=_empty_array)
    deviation: Array = dataclasses.field(default_factory=_empty_array)
    largest: Array = dataclasses.field(default_factory=_empty_array)
    peaks: NDArray[np.int_] = dataclasses.field(default_factory=lambda: np.zeros(0, int))
    shape: Array = dataclasses.field(default_factory=_empty_array)
    duration: float = 0.0
    false_alarms: float = math.inf

    @property
    def extrapolated(self) -> bool:
        """True if the recording is too short to contain one false alarm at the wanted rate."""
        return self.duration * self.false_alarms < _HOUR


def calibrated_parameters(calibration: CalibratedThresholds) -> dict[str, list[float]]:
    """Return the parameters of the observer node that a calibration sets."""
    numbers = {
        "thresholds.fixed": calibration.fixed,
        "thresholds.per_speed": calibration.per_speed,
        "thresholds.at_rest": calibration.at_rest,
        "noise.external": np.maximum(np.hypot(calibration.mean, calibration.deviation), MIN_NOISE),
    }
    return {name: np.asarray(values).tolist() for name, values in numbers.items()}


def friction_at_rest(model: Model) -> Array:
    """Return the largest friction at rest, (nv,), with typical loads [N m, N]."""
    load = typical_efforts(model) if model.drives.load_friction.any() else np.zeros(model.nv)
    return max_friction_at_rest(model, load)


def calibrate_thresholds(
    external: ArrayLike,
    v: ArrayLike,
    dt: float,
    false_alarms: float = FALSE_ALARMS,
    *,
    friction: float | ArrayLike = 0.0,
    least: float | ArrayLike = 0.0,
) -> CalibratedThresholds:
    """Compute thresholds for a rate of false alarms from a motion without contacts.

    Record the robot for a minute or more, with motions like the later ones: motions that are not
    in the recording, such as faster ones, may cause false alarms. A term in proportion to speed is
    added if it makes thresholds smaller on average. The tails are extrapolated as by Naess and
    Gaidai (2009). A single event that no other effort predicts does not count: ``largest`` is then
    above 1. In simulation, the rate of false alarms in other motions was half of the wanted rate
    for Gaussian noise, and three times the wanted rate for noise with exponential tails.

    Parameters
    ----------
    external : (B, nv) array_like
        External efforts of an observer, settled: without its start [N m, N].
    v : (B, nv) array_like
        Velocities or speeds [rad/s, m/s]; if they change while the observer lags, through the same
        low passes.
    dt : float
        Sampling period [s].
    false_alarms : float
        Wanted rate for the whole robot [1/h].
    friction : float or (nv,) array_like
        Friction that is unknown at rest, such as ``model.friction`` [N m, N]. It is independent of
        the errors in motion: at rest, the threshold is the root of the sum of squares, or more if
        there were larger efforts than the friction.
    least : float or (nv,) array_like
        Fixed thresholds are not smaller than this [N m, N].

    Raises
    ------
    ValueError
        Fewer than 10 s, a number that is not finite, or a rate that is not positive.

    Examples
    --------
    >>> quiet = np.random.default_rng(0).normal(0.0, 0.2, (20000, 7))
    >>> found = dyn_ros.calibrate_thresholds(quiet, np.zeros((20000, 7)), 0.001, false_alarms=1.0)
    >>> found.duration, bool((found.fixed > 0.6).all()), bool(found.extrapolated)
    (20.0, True, True)
    >>> limits = dyn_ros.Thresholds(found.fixed, found.per_speed, found.at_rest)
    >>> limits.exceeded(np.full(7, 5.0), np.zeros(7)).tolist()
    [True, True, True, True, True, True, True]
    """
    residual, speed = finite_rows("external", external), finite_rows("v", v)
    if residual.shape != speed.shape:
        raise ValueError(f"v: expected the shape of external, {residual.shape}, got {speed.shape}")
    dt = positive_number("dt", dt)
    alarm_rate = positive_number("false_alarms", false_alarms)
    if not len(residual) * dt >= MIN_DURATION:
        raise ValueError(
            f"external: expected at least {MIN_DURATION:g} s of motion, got "
            f"{len(residual) * dt:.3g} s; a longer motion is required"
        )
    nv = residual.shape[1]
    bounds = one_each("friction", friction, nv), one_each("least", least, nv)
    Thresholds(bounds[1], at_rest=bounds[0])  # checks that they are not negative
    rate = alarm_rate / (_HOUR * max(nv, 1))
    tails = [
        _coordinate_threshold(
            np.abs(residual[:, k]),
            np.abs(speed[:, k]),
            dt,
            rate,
            *(float(bound[k]) for bound in bounds),
        )
        for k in range(nv)
    ]
    fixed, per_speed, at_rest, peaks, shape = np.reshape(tails, (nv, 5)).T
    limits = Thresholds(fixed, per_speed, at_rest)
    threshold = limits.of(speed)
    relative = np.divide(
        np.abs(residual), threshold, out=np.zeros(residual.shape), where=threshold > 0.0
    )
    return CalibratedThresholds(
        limits.fixed,
        limits.per_speed,
        limits.at_rest,
        residual.mean(axis=0),
        residual.std(axis=0),
        relative.max(axis=0),
        peaks.astype(int),
        shape.copy(),
        len(residual) * dt,
        alarm_rate,
    )


def finite_rows(name: str, value: ArrayLike) -> Array:
    """Convert to a finite array with a row for each sample, or raise a ValueError."""
    shape = np.shape(value)
    if len(shape) != 2:
        raise ValueError(f"{name}: expected shape (B, nv), a row for each sample, got {shape}")
    return finite_array(name, value, shape)


def _coordinate_threshold(
    size: Array, speed: Array, dt: float, rate: float, friction: float, least: float
) -> tuple[float, float, float, float, float]:
    """Return the threshold of one coordinate: fixed, per speed, at rest; number of peaks; shape.

    The part in proportion to speed makes thresholds smallest on average. Friction at rest is
    bounded: only what exceeds it has a tail.
    """
    slowness = np.maximum(1.0 - speed / REST_SPEED, 0.0)
    excess = np.maximum(size - friction * slowness, 0.0)
    usual = math.sqrt(float(np.mean(speed**2)))
    candidates = []
    for ratio in _SPEED_RATIOS if usual > REST_SPEED else _SPEED_RATIOS[:1]:
        scale = 1.0 + ratio / usual * speed if ratio else np.ones(len(speed))
        level, peaks, shape = _tail_level(excess / scale, dt, rate)
        candidates.append((level * float(scale.mean()), ratio, level, peaks, shape))
    best = min(candidates)
    if not best[0] < _MAX_MEAN_RATIO * candidates[0][0]:
        best = candidates[0]
    _, ratio, fixed, peaks, shape = best
    per_speed = fixed * ratio / usual if ratio else 0.0
    fixed = max(fixed, least)
    rest_level, _, _ = _tail_level(np.where(slowness > 0.5, excess, 0.0), dt, rate)
    at_rest = math.hypot(fixed, friction + rest_level) if friction else rest_level
    return fixed, per_speed, max(at_rest - fixed, 0.0), peaks, shape


def _tail_level(values: Array, dt: float, rate: float) -> tuple[float, int, float]:
    """Return the level that values exceed at a rate, the number of peaks, and the tail's shape."""
    peaks, start, span = _find_peaks(values, dt)
    if not start > 0.0 or not peaks.max(initial=0.0) > start:
        return float(values.max()), len(peaks), 2.0
    x = np.sort(peaks / start)  # the unit does not matter
    if (
        len(x) > _MIN_OTHER_PEAKS
        and x[-1] > _extrapolate_tail(x[:-1], span, _MIN_PEAK_PROBABILITY / span)[0]
    ):
        x = x[:-1]
    level, shape = _extrapolate_tail(x, span, rate)
    return level * start, len(x), shape


def _extrapolate_tail(x: Array, span: float, rate: float) -> tuple[float, float]:
    """Return the level that peaks, which start at 1, exceed at a rate, and their tail's shape."""
    count = len(x)
    powers = x[:, None] ** _SHAPES - 1.0
    mean = powers.mean(axis=0)
    evidence = (
        np.log(_SHAPE_PRIOR) + count * np.log(_SHAPES / mean) + (_SHAPES - 1.0) * np.log(x).sum()
    )
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    # (1 + y / count)^-count is the average of exp(-y) over all scales that agree with the peaks
    y = count * math.expm1(max(math.log(count / (span * rate)), 0.0) / count)
    levels = (1.0 + mean * y) ** (1.0 / _SHAPES)
    return float(weight @ levels), float(weight @ _SHAPES)


def _find_peaks(values: Array, dt: float) -> tuple[Array, float, float]:
    """Return the largest values of clusters above a level, the level, and the duration."""
    length = max(1, round(_BLOCK / dt))
    blocks = values[: len(values) // length * length].reshape(-1, length).max(axis=1)
    start = float(np.quantile(blocks, 1.0 - min(_MAX_PEAK_FRACTION, _MAX_PEAKS / len(blocks))))
    above = np.flatnonzero(blocks > start)
    opens = np.diff(above, prepend=-2) > 1
    run = np.maximum.accumulate(np.where(opens, np.arange(len(above)), 0))
    first = np.flatnonzero((np.arange(len(above)) - run) % _MAX_CLUSTER == 0)
    peaks = np.maximum.reduceat(blocks[above], first) if len(first) else blocks[:0]
    return peaks, start, len(blocks) * length * dt
