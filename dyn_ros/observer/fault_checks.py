# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks of measured efforts for faults, by means over tenths of a second."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.coordinates import has_single_coordinate
from ..engine.model.model import Model

Kind = Literal["missing", "stuck", "saturated", "sign", "scale"]

PERIOD = 0.1
"""Duration of a mean [s]."""

IMPLAUSIBLE = 1000.0
"""An effort or a speed of so many times the limit of its joint cannot be a measurement."""

_DEFAULT_LIMIT = 1e3  # N m, N, rad/s, m/s; assumed where the model has no limit
_MIN_SPEED_LIMIT = 1.0  # rad/s, m/s
_TYPICAL_MOTIONS = 200  # random states for typical efforts

_SATURATION_MEMORY = 5.0  # s; an earlier saturation is not reported
_MIN_MEANS = 50  # per comparison of efforts
_MIN_EQUAL_SAMPLES = 20  # fewer do not show a constant effort
_MIN_CONSTANT_TIME = 1.0  # s; a shorter one is neither stuck nor missing
_MIN_LIMITED_FRACTION = 0.3  # samples at a limit
_LIMIT_TOLERANCE = 1e-3  # relative
_MIN_CHANGE = 0.15  # relative to the typical effort; a sensor shows such a change
_MIN_SWING = 0.05  # standard deviation relative to the typical effort; less is inconclusive
_MIN_TURNS = 4  # passages of the effort from high to low or back
_MAX_UNEXPLAINED = 0.5  # standard deviation relative to the total; above it, the model is wrong
_MIN_EXPLAINED = 0.9  # fraction of the variance
_OPPOSITE_FACTORS = 1.0 / 3.0, 3.0  # range of minus the factor of an effort of the wrong sign
# beyond these factors, efforts are in other units; heavy loads on light joints reach 15
_SAME_UNIT_FACTORS = 1.0 / 3.0, 30.0
# stricter _OPPOSITE_FACTORS and _MIN_EXPLAINED, while pushes disturb the comparison
_UNTOUCHED_OPPOSITE_FACTORS = 0.8, 1.25
_MIN_UNTOUCHED_EXPLAINED = 0.97
_UNTOUCHED_FRACTION = 0.6  # time in which nothing pushes the robot, at least
_ROBUST_FIT_ITERATIONS = 10
_MAX_PAYLOAD_ERROR = 4.0  # mean square relative to the fit of a factor
_PAYLOAD_RADII = 0.1, 0.4  # m; distances of its points from the end of the arm
_MAX_FLOATING_LOAD = 0.1  # external force on a floating base relative to the weight
_COULOMB_VELOCITY = 0.02  # rad/s, m/s; width of the sign change of Coulomb friction


@dataclasses.dataclass(frozen=True)
class EffortFault:
    """A fault of the measured efforts of a joint.

    Attributes
    ----------
    joint : str
        Name of the coordinate, as in ``model.velocity_names``.
    kind : str
        "missing": they are all zero. "stuck": all equal. "saturated": they stay at a limit.
        "sign": they have the opposite sign. "scale": they have other units.
    factor : float
        Ratio of measured efforts to efforts that the model needs; NaN unless "sign" or
        "scale".
    message : str
        Description of the fault and its remedy.
    """

    joint: str
    kind: Kind
    factor: float
    message: str

    def __str__(self) -> str:
        """Return the message."""
        return self.message


# --- efforts and speeds that are usual for a robot, and those that cannot be measurements


def typical_efforts(model: Model) -> Array:
    """Return root mean squares of the efforts of random motions with rates of 1, (nv,)."""
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(_TYPICAL_MOTIONS)])
    v, a = rng.standard_normal((2, _TYPICAL_MOTIONS, model.nv))
    efforts: Array = np.sqrt(np.mean(rnea(model, Data(model), q, v, a) ** 2, axis=0))
    return efforts


def largest_efforts(model: Model) -> Array:
    """Return ``IMPLAUSIBLE`` times the limits or larger typical efforts, (nv,) [N m, N]."""
    largest: Array = IMPLAUSIBLE * np.maximum(
        _valid_limits(model.effort_limit), typical_efforts(model)
    )
    return largest


def largest_speeds(model: Model) -> Array:
    """Return ``IMPLAUSIBLE`` times the limits, at least 1, (nv,) [rad/s, m/s]."""
    largest: Array = IMPLAUSIBLE * np.maximum(_valid_limits(model.velocity_limit), _MIN_SPEED_LIMIT)
    return largest


def _valid_limits(numbers: Array) -> Array:
    """Return limits (nv,), with ``_DEFAULT_LIMIT`` in place of missing ones."""
    return np.where((numbers > 0.0) & np.isfinite(numbers), numbers, _DEFAULT_LIMIT)


# --- means of intervals


class IntervalMeans(NamedTuple):
    """Means over an interval of ``PERIOD``, or of five samples if these take longer.

    For n successive intervals, each array has another axis in front, (n, ...).
    """

    q: Array  # (nq,), at the end
    v: Array  # (nv,), at the end
    tau: Array  # (nv,), mean of the filtered measured efforts
    needed: Array  # (nv,), mean of the efforts that the model needs
    external: Array  # (nv,), mean of external efforts
    constant: Array  # (nv,), the measured effort if all are equal, or NaN
    size: Array  # (nv,), largest absolute measured effort
    is_limited: NDArray[np.bool_]  # (nv,), efforts stay at the limit of the description
    samples: NDArray[np.int_]  # number of samples, ()


def average_interval(
    q: Array, v: Array, block: list[tuple[Array, Array, Array]], limit: Array
) -> IntervalMeans:
    """Return the means of an interval that ends at q and v.

    ``block`` has, for each sample, the measured efforts, these filtered, and the external efforts,
    (nv,) each; ``limit`` (nv,) is the effort limit of the description, 0 or less without one.
    """
    raw, tau, external = (np.array(column) for column in zip(*block))
    mean, mean_external = tau.mean(axis=0), external.mean(axis=0)
    size = np.abs(raw)
    near = np.abs(size - limit) <= _LIMIT_TOLERANCE * limit
    return IntervalMeans(
        np.array(q, float),
        np.array(v, float),
        mean,
        mean + mean_external,
        mean_external,
        np.where((raw == raw[0]).all(axis=0), raw[0], np.nan),
        size.max(axis=0),
        (near.mean(axis=0) > _MIN_LIMITED_FRACTION) & (limit > 0.0),
        np.array(len(raw)),
    )


# --- checks


def find_faults_in_means(
    model: Model, data: Data, typical_effort: Array, intervals: Sequence[IntervalMeans]
) -> tuple[EffortFault, ...]:
    """Return the faults of measured efforts, found in means, at most one for each coordinate.

    ``intervals`` are successive ones, in order of time; ``typical_effort`` (nv,) is from
    ``typical_efforts`` [N m, N]. With a floating base, only intervals count in which almost nothing
    carries it.
    """
    if not model.nv:
        return ()
    means = IntervalMeans(*(np.array(column) for column in zip(*intervals)))
    coordinates = np.flatnonzero(has_single_coordinate(model)).tolist()
    if model.tree.joints[0].kind == "floating":
        weight = model.total_mass * float(np.linalg.norm(model.gravity))
        is_unloaded = np.linalg.norm(means.external[:, :3], axis=1) < _MAX_FLOATING_LOAD * weight
        means = IntervalMeans(*(column[is_unloaded] for column in means))
        if not len(means.q):
            return ()
    faults = {}
    for k in coordinates:
        fault = _constant_effort_fault(model, means, typical_effort[k], k) or _saturation_fault(
            model, means, typical_effort[k], k
        )
        if fault:
            faults[k] = fault
    factors = {
        k: factor
        for k in coordinates
        if k not in faults and (factor := _effort_factor(means, typical_effort[k], k)) is not None
    }
    suspects = {k for k, factor in factors.items() if factor.is_suspect}
    for k in sorted(suspects):
        if not _is_payload(model, data, means, factors, suspects, k):
            faults[k] = _factor_fault(model, k, factors[k].value)
    return tuple(faults[k] for k in sorted(faults))


def _constant_effort_fault(
    model: Model, means: IntervalMeans, typical_effort: float, k: int
) -> EffortFault | None:
    """Return the fault of an effort that is zero or constant although the model needs others."""
    name, value = model.velocity_names[k], means.constant[-1, k]
    if np.isnan(value):
        return None
    other_intervals = np.flatnonzero(~(means.constant[:, k] == value))
    latest = slice(int(other_intervals[-1]) + 1 if other_intervals.size else 0, None)
    if (
        len(means.q[latest]) * PERIOD < _MIN_CONSTANT_TIME
        or int(means.samples[latest].sum()) < _MIN_EQUAL_SAMPLES
    ):
        return None
    needed, min_change = means.needed[latest, k], _MIN_CHANGE * typical_effort
    if value == 0.0 and np.quantile(np.abs(needed), 0.1) > min_change + model.friction[k]:
        return EffortFault(
            name,
            "missing",
            math.nan,
            (
                f"efforts of {name} are all zero, but the model needs {np.mean(needed):.3g}; they "
                "are not measured, or a brake holds the joint"
            ),
        )
    if (
        value != 0.0
        and np.ptp(needed) > min_change + 2.0 * model.friction[k]
        and not (
            abs(value) == means.size[:, k].max() > means.size[:, k].min()
            and (needed * np.sign(value)).min() > abs(value) - min_change - model.friction[k]
        )
    ):
        return EffortFault(
            name,
            "stuck",
            math.nan,
            (
                f"efforts of {name} are stuck at {value:.6g}, while the model needs "
                f"{needed.min():.3g} to {needed.max():.3g}; check the sensor"
            ),
        )
    return None


def _saturation_fault(
    model: Model, means: IntervalMeans, typical_effort: float, k: int
) -> EffortFault | None:
    """Return the fault of an effort that stays at its limit, or at its extreme although it is less
    than the model needs."""
    name, recent = model.velocity_names[k], slice(-round(_SATURATION_MEMORY / PERIOD), None)
    if means.is_limited[recent, k].any():
        return EffortFault(
            name,
            "saturated",
            math.nan,
            (
                f"efforts of {name} are saturated at their limit, {model.effort_limit[k]:g}, so "
                "external efforts are wrong"
            ),
        )
    value, needed = means.constant[recent, k], means.needed[recent, k]
    largest = means.size[:, k].max()
    clipped = (
        (np.abs(value) == largest)
        & (largest > 0.0)
        & (needed * value > 0.0)
        & (np.abs(needed) > largest + _MIN_CHANGE * typical_effort + model.friction[k])
    )
    if clipped.any() and (means.size[:, k] < largest).any():
        return EffortFault(
            name,
            "saturated",
            math.nan,
            (
                f"efforts of {name} are saturated; they stay at {largest:.6g} while the model "
                f"needs {np.abs(needed[clipped]).max():.3g}"
            ),
        )
    return None


class _EffortFactor(NamedTuple):
    """Least-squares factor between the needed and the measured effort of a joint."""

    value: float
    error: float  # mean square of the residual
    is_proportional: bool  # the factor explains the measured efforts
    interval_mask: NDArray[np.bool_]  # (n,), compared intervals

    @property
    def is_suspect(self) -> bool:
        """True if the measured efforts are proportional to the needed ones, with a wrong factor."""
        low, high = _SAME_UNIT_FACTORS
        return self.is_proportional and (
            -_OPPOSITE_FACTORS[1] < self.value < -_OPPOSITE_FACTORS[0]
            or not low <= abs(self.value) <= high
        )


def _effort_factor(means: IntervalMeans, typical_effort: float, k: int) -> _EffortFactor | None:
    """Compare measured and needed efforts, whatever the friction; None if inconclusive.

    If pushes disturb the comparison, a wrong sign shows in the rest of the time.
    """
    factor = _fit_factor(means, typical_effort, k, np.ones(len(means.q), bool))
    if factor is None or factor.is_proportional or factor.value > 0.0:
        return factor
    untouched_factor = _fit_factor(
        means, typical_effort, k, _untouched_intervals(means, k), _MIN_UNTOUCHED_EXPLAINED
    )
    is_opposite = (
        untouched_factor
        and untouched_factor.is_proportional
        and -_UNTOUCHED_OPPOSITE_FACTORS[1]
        < untouched_factor.value
        < -_UNTOUCHED_OPPOSITE_FACTORS[0]
    )
    return untouched_factor if is_opposite else factor


def _fit_factor(
    means: IntervalMeans,
    typical_effort: float,
    k: int,
    interval_mask: NDArray[np.bool_],
    min_explained: float = _MIN_EXPLAINED,
) -> _EffortFactor | None:
    """Fit the factor of the efforts of coordinate k in some intervals, with any friction.

    Return None if there are too few, or the needed effort changes too little.
    """
    if np.count_nonzero(interval_mask) < _MIN_MEANS:
        return None
    friction_basis = _friction_columns(means.v[interval_mask, k])
    needed, tau = (
        _orthogonal_part(friction_basis, means.needed[interval_mask, k]),
        _orthogonal_part(friction_basis, means.tau[interval_mask, k]),
    )
    swing = float(np.std(needed))
    if not swing > _MIN_SWING * typical_effort or _count_turns(needed, swing) < _MIN_TURNS:
        return None
    value = float(needed @ tau) / float(needed @ needed)
    error = float(np.mean((tau - value * needed) ** 2))
    variance = float(np.mean(tau**2))
    return _EffortFactor(
        value, error, variance > 0.0 and error < (1.0 - min_explained) * variance, interval_mask
    )


def _untouched_intervals(means: IntervalMeans, k: int) -> NDArray[np.bool_]:
    """Return a mask (n,) of the intervals that agree best with any factor and friction.

    The fit minimizes absolute errors.
    """
    basis, tau = _friction_columns(means.v[:, k]), means.tau[:, k]
    needed = _orthogonal_part(basis, means.needed[:, k])
    columns = np.column_stack([basis, needed / np.linalg.norm(needed)])
    weight, error = np.ones(len(tau)), np.zeros(len(tau))
    for _ in range(_ROBUST_FIT_ITERATIONS):
        weighted = weight[:, None] * columns
        error = np.abs(
            tau - columns @ np.linalg.lstsq(weighted.T @ columns, weighted.T @ tau, rcond=None)[0]
        )
        weight = 1.0 / np.maximum(error, 1e-3 * error.max(initial=1e-300))
    best: NDArray[np.bool_] = error <= np.quantile(error, _UNTOUCHED_FRACTION)
    return best


def _friction_columns(v: Array) -> Array:
    """Return an orthonormal basis of a constant and friction at velocities (rows,), (rows, 3)."""
    columns = np.stack([np.ones(len(v)), v, np.tanh(v / _COULOMB_VELOCITY)], axis=1)
    Q: Array = np.linalg.qr(columns)[0]
    return Q


def _orthogonal_part(basis: Array, values: Array) -> Array:
    """Return the component of values that is orthogonal to a basis."""
    residual: Array = values - basis @ (basis.T @ values)
    return residual


def _count_turns(values: Array, size: float) -> int:
    """Count passages of values from above 0.7 times their size to below its negative, or back."""
    side = np.sign(values)[np.abs(values) > 0.7 * size]
    return int(np.sum(side[1:] != side[:-1]))


def _factor_fault(model: Model, k: int, factor: float) -> EffortFault:
    """Return the fault of coordinate k whose efforts are the needed ones times a factor."""
    name = model.velocity_names[k]
    if -_OPPOSITE_FACTORS[1] < factor < -_OPPOSITE_FACTORS[0]:
        return EffortFault(
            name,
            "sign",
            factor,
            (
                f"efforts of {name} have the opposite sign, {factor:.2f} times what the model "
                "needs; change the sign of effort_constant"
            ),
        )
    return EffortFault(
        name,
        "scale",
        factor,
        (
            f"efforts of {name} are {factor:.2g} times what the model needs; if they are currents, "
            f"multiply effort_constant by {1.0 / factor:.3g}"
        ),
    )


def is_unexplained(model: Model, tau: Array, external: Array) -> NDArray[np.bool_]:
    """Return True where the model explains less than half of an untouched robot's efforts, (nv,).

    Unlike a fault, this does not say what is wrong: the model, friction, exchanged joints. Measured
    and external efforts are (B, nv).
    """
    error = external.std(axis=0)
    unexplained: NDArray[np.bool_] = (error > _MAX_UNEXPLAINED * (tau + external).std(axis=0)) & (
        error > _MIN_CHANGE * typical_efforts(model)
    )
    return unexplained


# --- payloads


def _is_payload(
    model: Model,
    data: Data,
    means: IntervalMeans,
    factors: dict[int, _EffortFactor],
    suspects: set[int],
    k: int,
) -> bool:
    """Return True if a payload at the end of the arm explains the efforts of a joint about as well.

    Other joints that are not suspect must agree. The payload consists of points around the end.
    """
    from scipy.optimize import nnls

    joint = model.idx_v.index(k)
    joints = [j for j in factors if j == k or j not in suspects]
    Y = joint_torque_regressor(model, data, means.q, means.v, np.gradient(means.v, PERIOD, axis=0))
    for leaf in [j for j in model.subtrees[joint] if not model.children[j]]:
        A, b = [], []
        for j in joints:
            mask, scale = factors[j].interval_mask, math.sqrt(factors[j].error) or 1.0
            basis = _friction_columns(means.v[mask, j])
            columns = Y[mask, j, 10 * leaf : 10 * leaf + 10] @ _PAYLOAD_POINTS
            A.append(_orthogonal_part(basis, columns) / scale)
            b.append(_orthogonal_part(basis, (means.tau - means.needed)[mask, j]) / scale)
        masses, _ = nnls(np.concatenate(A), np.concatenate(b))
        joint_row = joints.index(k)
        error = float(np.mean((b[joint_row] - A[joint_row] @ masses) ** 2))
        if error < _MAX_PAYLOAD_ERROR and masses.sum() < model.total_mass:
            return True
    return False


def _payload_points() -> Array:
    """Return the parameters of points of 1 kg in and around the origin, (10, number of points)."""
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    places = np.concatenate([np.zeros((1, 3)), *(radius * axes for radius in _PAYLOAD_RADII)])
    return np.array(
        [
            [1.0, x, y, z, y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
            for x, y, z in places
        ]
    ).T


_PAYLOAD_POINTS = _payload_points()
