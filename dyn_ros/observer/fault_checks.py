# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How faults of measured efforts are found: means of tenths of a second, and what they show."""

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
from ..engine.model.coordinates import is_actuated
from ..engine.model.model import Model

Kind = Literal["missing", "stuck", "saturated", "sign", "scale"]

PERIOD = 0.1
"""Duration of a mean [s]."""

IMPLAUSIBLE = 1000.0
"""An effort or a speed of so many times the limit of its joint cannot be a measurement."""

_UNLIMITED = 1e3  # N m, N, rad/s, m/s: the limit that is assumed where there is none
_LEAST_LIMIT = 1.0  # rad/s, m/s: of speeds
_RANDOM = 200  # configurations of typical efforts

_RECENT = 5.0  # s: a saturation is reported for so long
_FEWEST = 50  # means with which efforts are compared
_SEVERAL = 20  # equal samples: a constant
_RUN = 1.0  # s for which a constant effort lasts that is stuck or missing
_CLIPPED = 0.3  # part of the samples at a limit
_AT_LIMIT = 1e-3  # of the limit
_CHANGES = 0.15  # of the typical effort of a joint: a change that a sensor shows
_SWING = 0.05  # of the same: standard deviation of a motion that says something
_TURNS = 4  # times that the effort passes from high to low or back
_HALF = 0.5  # of the standard deviation: explained by less, an effort is wrong
_EXPLAINED = 0.9  # part of the variance
_OPPOSITE = 1.0 / 3.0, 3.0  # minus the factors between which an effort has the wrong sign
_UNITS = 1.0 / 3.0, 30.0  # the factors beyond which efforts are in other units: heavy loads
# on light joints reach 15
_MIRRORED = 0.8, 1.25  # the same, and the part of the variance, while pushes disturb the
_MIRROR = 0.97  # comparison
_UNTOUCHED = 0.6  # part of the time in which nothing pushes the robot, at least
_ITERATIONS = 10  # of a fit that pushes do not disturb
_SIMILAR = 4.0  # ratio of mean squares of errors that a payload explains as well
_RADII = 0.1, 0.4  # m: of the points of a payload
_FLOATING_LOAD = 0.1  # of the weight: an external force on a floating base
_SMOOTH = 0.02  # rad/s, m/s


@dataclasses.dataclass(frozen=True)
class EffortFault:
    """What is wrong with the measured efforts of a joint.

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
        What was found, and what would correct it.
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
    """Root mean squares of the efforts of random motions with rates of 1, (nv,)."""
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(_RANDOM)])
    v, a = rng.standard_normal((2, _RANDOM, model.nv))
    efforts: Array = np.sqrt(np.mean(rnea(model, Data(model), q, v, a) ** 2, axis=0))
    return efforts


def largest_efforts(model: Model) -> Array:
    """``IMPLAUSIBLE`` times limits [N m, N], or times typical efforts that are larger, (nv,)."""
    largest: Array = IMPLAUSIBLE * np.maximum(_limits(model.effort_limit), typical_efforts(model))
    return largest


def largest_speeds(model: Model) -> Array:
    """``IMPLAUSIBLE`` times limits [rad/s, m/s], or times 1 if this is larger, (nv,)."""
    largest: Array = IMPLAUSIBLE * np.maximum(_limits(model.velocity_limit), _LEAST_LIMIT)
    return largest


def _limits(numbers: Array) -> Array:
    return np.where((numbers > 0.0) & np.isfinite(numbers), numbers, _UNLIMITED)


# --- means of tenths of a second


class IntervalMeans(NamedTuple):
    """Means over a tenth of a second, or over many in order of time: with another axis in front."""

    q: Array  # (nq,), at its end; all others but the last are (nv,)
    v: Array  # at its end
    tau: Array  # mean of the filtered measured efforts
    needed: Array  # mean of what the model needs
    external: Array  # mean of external efforts
    constant: Array  # the measured effort if all are equal, or NaN
    size: Array  # largest measured effort
    is_limited: NDArray[np.bool_]  # whether they stay at the limit of the description
    samples: NDArray[np.int_]  # number of samples, ()


def interval_means(
    q: Array, v: Array, block: list[tuple[Array, Array, Array]], limit: Array
) -> IntervalMeans:
    """Return means of samples: measured efforts, these filtered, and external efforts, (nv,)."""
    raw, tau, external = (np.array(column) for column in zip(*block))
    mean, outside = tau.mean(axis=0), external.mean(axis=0)
    size = np.abs(raw)
    near = np.abs(size - limit) <= _AT_LIMIT * limit
    return IntervalMeans(
        np.array(q, float),
        np.array(v, float),
        mean,
        mean + outside,
        outside,
        np.where((raw == raw[0]).all(axis=0), raw[0], np.nan),
        size.max(axis=0),
        (near.mean(axis=0) > _CLIPPED) & (limit > 0.0),
        np.array(len(raw)),
    )


# --- checks


def check(
    model: Model, data: Data, typical: Array, rows: Sequence[IntervalMeans]
) -> tuple[EffortFault, ...]:
    """What is wrong with the efforts in these rows."""
    if not model.nv:
        return ()
    table = IntervalMeans(*(np.array(column) for column in zip(*rows)))
    single = np.flatnonzero(is_actuated(model)).tolist()
    if model.tree.joints[0].kind == "floating":
        weight = model.total_mass * float(np.linalg.norm(model.gravity))
        free = np.linalg.norm(table.external[:, :3], axis=1) < _FLOATING_LOAD * weight
        table = IntervalMeans(*(column[free] for column in table))
        if not len(table.q):
            return ()
    faults = {}
    for k in single:
        fault = _constant(model, table, typical[k], k) or _limited(model, table, typical[k], k)
        if fault:
            faults[k] = fault
    factors = {
        k: factor
        for k in single
        if k not in faults and (factor := _factor(table, typical[k], k)) is not None
    }
    suspects = {k for k, one in factors.items() if one.is_suspect}
    for k in sorted(suspects):
        if not _is_payload(model, data, table, factors, suspects, k):
            faults[k] = _described(model, k, factors[k].value)
    return tuple(faults[k] for k in sorted(faults))


def _constant(model: Model, table: IntervalMeans, typical: float, k: int) -> EffortFault | None:
    """An effort that is zero although it is needed, or does not change although it should."""
    name, value = model.velocity_names[k], table.constant[-1, k]
    if np.isnan(value):
        return None
    others = np.flatnonzero(~(table.constant[:, k] == value))
    run = slice(int(others[-1]) + 1 if others.size else 0, None)
    if len(table.q[run]) * PERIOD < _RUN or int(table.samples[run].sum()) < _SEVERAL:
        return None
    needed, least = table.needed[run, k], _CHANGES * typical
    if value == 0.0 and np.quantile(np.abs(needed), 0.1) > least + model.friction[k]:
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
        and np.ptp(needed) > least + 2.0 * model.friction[k]
        and not (
            abs(value) == table.size[:, k].max() > table.size[:, k].min()
            and (needed * np.sign(value)).min() > abs(value) - least - model.friction[k]
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


def _limited(model: Model, table: IntervalMeans, typical: float, k: int) -> EffortFault | None:
    """An effort that stays at its limit, or at its extreme although more is needed."""
    name, recent = model.velocity_names[k], slice(-round(_RECENT / PERIOD), None)
    if table.is_limited[recent, k].any():
        return EffortFault(
            name,
            "saturated",
            math.nan,
            (
                f"efforts of {name} are saturated at their limit, {model.effort_limit[k]:g}, so "
                "external efforts are wrong"
            ),
        )
    value, needed = table.constant[recent, k], table.needed[recent, k]
    largest = table.size[:, k].max()
    clipped = (
        (np.abs(value) == largest)
        & (largest > 0.0)
        & (needed * value > 0.0)
        & (np.abs(needed) > largest + _CHANGES * typical + model.friction[k])
    )
    if clipped.any() and (table.size[:, k] < largest).any():
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


class _Factor(NamedTuple):
    """By what the needed effort of a joint is to be multiplied to be the measured one."""

    value: float
    error: float  # mean square that remains
    is_proportional: bool  # whether this explains the measured efforts
    rows: NDArray[np.bool_]  # those that have been compared

    @property
    def is_suspect(self) -> bool:
        """Whether the measured efforts are in proportion, and the factor far from 1."""
        low, high = _UNITS
        return self.is_proportional and (
            -_OPPOSITE[1] < self.value < -_OPPOSITE[0] or not low <= abs(self.value) <= high
        )


def _factor(table: IntervalMeans, typical: float, k: int) -> _Factor | None:
    """Compare measured and needed efforts, whatever the friction; None if inconclusive.

    If pushes disturb the comparison, a wrong sign shows in the rest of the time.
    """
    factor = _compared(table, typical, k, np.ones(len(table.q), bool))
    if factor is None or factor.is_proportional or factor.value > 0.0:
        return factor
    rest = _compared(table, typical, k, _untouched(table, k), _MIRROR)
    is_opposite = rest and rest.is_proportional and -_MIRRORED[1] < rest.value < -_MIRRORED[0]
    return rest if is_opposite else factor


def _compared(
    table: IntervalMeans,
    typical: float,
    k: int,
    rows: NDArray[np.bool_],
    explained: float = _EXPLAINED,
) -> _Factor | None:
    if np.count_nonzero(rows) < _FEWEST:
        return None
    other = _friction_columns(table.v[rows, k])
    needed, tau = _without(other, table.needed[rows, k]), _without(other, table.tau[rows, k])
    swing = float(np.std(needed))
    if not swing > _SWING * typical or _turns(needed, swing) < _TURNS:
        return None
    value = float(needed @ tau) / float(needed @ needed)
    error = float(np.mean((tau - value * needed) ** 2))
    variance = float(np.mean(tau**2))
    return _Factor(value, error, variance > 0.0 and error < (1.0 - explained) * variance, rows)


def _untouched(table: IntervalMeans, k: int) -> NDArray[np.bool_]:
    """The rows that agree best with any factor and friction: the least sum of absolute errors."""
    basis, tau = _friction_columns(table.v[:, k]), table.tau[:, k]
    needed = _without(basis, table.needed[:, k])
    columns = np.column_stack([basis, needed / np.linalg.norm(needed)])
    weight, error = np.ones(len(tau)), np.zeros(len(tau))
    for _ in range(_ITERATIONS):
        weighted = weight[:, None] * columns
        error = np.abs(
            tau - columns @ np.linalg.lstsq(weighted.T @ columns, weighted.T @ tau, rcond=None)[0]
        )
        weight = 1.0 / np.maximum(error, 1e-3 * error.max(initial=1e-300))
    best: NDArray[np.bool_] = error <= np.quantile(error, _UNTOUCHED)
    return best


def _friction_columns(v: Array) -> Array:
    """A constant and friction at velocities (rows,), orthonormal, (rows, 3)."""
    columns = np.stack([np.ones(len(v)), v, np.tanh(v / _SMOOTH)], axis=1)
    Q: Array = np.linalg.qr(columns)[0]
    return Q


def _without(basis: Array, values: Array) -> Array:
    rest: Array = values - basis @ (basis.T @ values)
    return rest


def _turns(values: Array, size: float) -> int:
    """How often values pass from above their usual size to below its negative, or back."""
    side = np.sign(values)[np.abs(values) > 0.7 * size]
    return int(np.sum(side[1:] != side[:-1]))


def _described(model: Model, k: int, factor: float) -> EffortFault:
    name = model.velocity_names[k]
    if -_OPPOSITE[1] < factor < -_OPPOSITE[0]:
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
    """Whether the model explains less than half of the efforts of an untouched robot, (nv,).

    Unlike a fault, this does not say what is wrong: the model, friction, exchanged joints. Measured
    and external efforts are (B, nv).
    """
    error = external.std(axis=0)
    unexplained: NDArray[np.bool_] = (error > _HALF * (tau + external).std(axis=0)) & (
        error > _CHANGES * typical_efforts(model)
    )
    return unexplained


# --- payloads


def _is_payload(
    model: Model,
    data: Data,
    table: IntervalMeans,
    factors: dict[int, _Factor],
    suspects: set[int],
    k: int,
) -> bool:
    """Whether a payload at the end of the arm explains the efforts of a joint, about as well.

    Other joints that are not suspect must agree. The payload consists of points around the end.
    """
    from scipy.optimize import nnls

    joint = model.idx_v.index(k)
    joints = [j for j in factors if j == k or j not in suspects]
    Y = joint_torque_regressor(model, data, table.q, table.v, np.gradient(table.v, PERIOD, axis=0))
    for leaf in [j for j in model.subtrees[joint] if not model.children[j]]:
        A, b = [], []
        for j in joints:
            rows, scale = factors[j].rows, math.sqrt(factors[j].error) or 1.0
            basis = _friction_columns(table.v[rows, j])
            columns = Y[rows, j, 10 * leaf : 10 * leaf + 10] @ _POINTS
            A.append(_without(basis, columns) / scale)
            b.append(_without(basis, (table.tau - table.needed)[rows, j]) / scale)
        masses, _ = nnls(np.concatenate(A), np.concatenate(b))
        own = joints.index(k)
        error = float(np.mean((b[own] - A[own] @ masses) ** 2))
        if error < _SIMILAR and masses.sum() < model.total_mass:
            return True
    return False


def _points() -> Array:
    """Parameters of points of 1 kg in and around the origin, (10, number of points)."""
    axes = np.concatenate([np.eye(3), -np.eye(3)])
    places = np.concatenate([np.zeros((1, 3)), *(radius * axes for radius in _RADII)])
    return np.array(
        [
            [1.0, x, y, z, y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
            for x, y, z in places
        ]
    ).T


_POINTS = _points()
