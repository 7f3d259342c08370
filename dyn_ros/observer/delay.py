# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The delay of measured efforts behind positions and velocities.

The estimate compares measured efforts with those of the model some time earlier. Of each joint the
gravity torque, the inertial torque, friction, the rotor inertia and a constant have factors of
their own, so that errors of the model, payloads and currents instead of torques change little: a
missing damping looks like a delay of the gravity torque. The deviation follows from the errors of
blocks of a second or more, which need not be independent inside, and of joints: an error of the
model lasts, but differs between joints. The jackknife shows these, with Student's quantile for as
many joints as count.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import generalized_gravity, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import finite_number, require_model
from ..engine.model.model import Model

if TYPE_CHECKING:
    from ..identification import Samples

_FEWEST = 200  # samples of a joint
_MOST = 20000
_FEWEST_COARSE = 2000  # samples with which the first candidates are compared
_COARSE = 0.005  # s: distance of the first candidates
_FINE = 1e-6  # s
_BLOCKS, _BLOCK = 40, 1.0  # at most so many blocks, of at least so many seconds
_EXACT = 1e-9  # of the efforts: a smaller error is that of the arithmetic
_STEP = 5e-4  # s: of the derivative with respect to the delay
_STILL = 0.01  # rad/s or m/s: slower is a rest
_SMOOTH = 0.01  # rad/s, m/s: Coulomb friction changes its sign at this velocity
_NORMAL = 1.96  # standard deviations: half of a 95 % interval
_LEAST = 0.05  # sampling periods: the least deviation
_SINGULAR = 1e-8
_ALL = slice(None)


class EffortDelay(NamedTuple):
    """The result of ``dyn_ros.estimate_effort_delay``.

    Attributes
    ----------
    delay : float
        Delay of measured efforts behind the positions; negative: they lead [s].
    deviation : float
        Standard deviation of the delay [s]. It includes errors of the model, as far as the delays
        of joints differ because of them.
    shares : (nv,) ndarray
        Part of each coordinate in the estimate, from 0 to 1.
    states : int
        Number of samples used.
    """

    delay: float
    deviation: float
    shares: Array
    states: int


def estimate_effort_delay(
    model: Model, time: ArrayLike, q: ArrayLike, tau: ArrayLike, *, longest: float = 0.1
) -> EffortDelay:
    """Estimate by how much measured efforts lag behind the positions.

    Nothing should touch the robot. All joints should move, with changes of direction and
    accelerations: ten seconds of a lively motion are enough. Errors of the model's inertias and
    friction, a constant payload and efforts in other units do not matter.

    Parameters
    ----------
    model, time, q, tau
        As for ``Samples.from_arrays``; efforts can also be currents, and are zero if not measured.
    longest : float
        Largest delay, forward or backward, that is considered [s].

    Raises
    ------
    ValueError
        Invalid arrays as for ``Samples.from_arrays``, too few samples, a motion that does not
        determine the delay, or a delay that is longer.

    Examples
    --------
    Efforts that arrive five samples, 50 ms, after the positions:

    >>> late = np.vstack([np.repeat(efforts[:1], 5, axis=0), efforts[:-5]])
    >>> found = dyn_ros.estimate_effort_delay(carrying, time[:600], angles[:600], late[:600])
    >>> round(float(found.delay), 3), found.states
    (0.05, 580)
    """
    from ..identification import Samples  # needs SciPy

    longest = finite_number("longest", longest)
    if longest <= 0.0:
        raise ValueError(f"longest: expected a positive time, got {longest:g} s")
    model = copy.copy(require_model(model))
    model.drives = model.drives.with_values(delay=0.0)  # which is to be found
    samples = Samples.from_arrays(model, time, q, tau)
    joints = _joints(model, samples, longest)
    delay = _best(joints, longest)
    if abs(delay) > longest - 10.0 * _FINE:
        raise ValueError(
            f"the efforts lag or lead by {longest:g} s or more; pass a larger value of"
            " longest, or check that efforts and positions are of the same motion"
        )
    deviation, shares = _deviation(joints, delay, model.nv, float(np.median(np.diff(samples.time))))
    return EffortDelay(delay, deviation, shares, len(samples))


class _Joint:
    """The measured efforts of a joint, and the model's prediction at other times.

    Samples near a rest or a reversal do not count: a joint that sticks turns its friction around
    earlier than its velocity, which looks like efforts that lead.
    """

    def __init__(self, k: int, samples: Samples, columns: Array, longest: float) -> None:
        from scipy.interpolate import CubicSpline

        self.k = k
        v = samples.v[:, k]
        is_slow = np.abs(v) < _STILL
        is_slow[1:] |= v[1:] * v[:-1] < 0.0  # a reversal
        rows = _inner(samples, longest, is_slow)
        rows = rows[:: math.ceil(len(rows) / _MOST) if len(rows) else 1]
        self.time, self.weight = samples.time[rows], np.sqrt(samples.weight[rows])
        self.measured = samples.tau[rows, k] * self.weight
        self._splines = (
            [
                (
                    np.flatnonzero((rows >= segment.start) & (rows < segment.stop)),
                    CubicSpline(samples.time[segment], columns[segment]),
                )
                for segment in _segments(samples)
            ]
            if len(rows)
            else []
        )

    def features(self, delay: float, rows: slice) -> Array:
        """What the efforts consist of, some time before the samples, (rows, 6)."""
        features = np.ones((len(self.time), 6))
        for chosen, spline in self._splines:
            if len(self._splines) == 1:
                chosen = chosen[rows]
            features[chosen, :4] = spline(self.time[chosen] - delay)
        features = features[rows]
        features[:, 4] = np.tanh(features[:, 2] / _SMOOTH)
        return features * self.weight[rows, None]

    def errors(self, delay: float, rows: slice = _ALL) -> tuple[Array, Array, Array]:
        """The errors of the best factors of the features, these factors, and a basis of both."""
        X, y = self.features(delay, rows), self.measured[rows]
        scale = np.sqrt((X * X).sum(axis=0))
        U, s, Vt = np.linalg.svd(X / np.where(scale > 0.0, scale, 1.0), full_matrices=False)
        U, s, Vt = U[:, s > _SINGULAR], s[s > _SINGULAR], Vt[s > _SINGULAR]
        part = U.T @ y
        factor = (part / s) @ Vt / np.where(scale > 0.0, scale, 1.0)
        return y - U @ part, factor, U

    def variance(self, error: Array, rows: slice = _ALL) -> float:
        y = self.measured[rows]
        return float(error @ error + _EXACT**2 * (y @ y)) / len(error)

    def cost(self, delay: float, rows: slice) -> float:
        """Minus the logarithm of the likelihood, without constants."""
        error = self.errors(delay, rows)[0]
        return 0.5 * len(error) * math.log(self.variance(error, rows))

    def score(self, delay: float) -> tuple[float, Array]:
        """The information about the delay, and the contributions of the samples to its error."""
        error, factor, basis = self.errors(delay)
        change = (
            (self.features(delay + _STEP, _ALL) - self.features(delay - _STEP, _ALL))
            @ factor
            / (2.0 * _STEP)
        )
        change -= basis @ (basis.T @ change)
        variance = self.variance(error)
        return float(change @ change) / variance, error * change / variance


def _joints(model: Model, samples: Samples, longest: float) -> list[_Joint]:
    """The joints that move and whose efforts are measured."""
    data = Data(model)
    gravity = generalized_gravity(model, data, samples.q)
    inertial = rnea(model, data, samples.q, samples.v, samples.a) - gravity
    joints = [
        _Joint(
            k,
            samples,
            np.stack([gravity[:, k], inertial[:, k], samples.v[:, k], samples.a[:, k]], axis=1),
            longest,
        )
        for k in range(model.nv)
        if np.ptp(samples.tau[:, k]) > 0.0
    ]
    measured = [joint for joint in joints if len(joint.time) >= _FEWEST]
    if not measured:
        most = max((len(joint.time) for joint in joints), default=0)
        raise ValueError(
            f"expected joints in motion whose efforts are measured, with at least {_FEWEST} "
            f"samples more than {longest:g} s from rests, reversals and gaps, got {len(joints)} "
            f"measured joints with at most {most} such samples; move the robot for longer"
        )
    return measured


def _best(joints: list[_Joint], longest: float) -> float:
    """The delay with the smallest errors."""
    from scipy.optimize import minimize_scalar  # 30 MB, which an observer does not need

    def cost(delay: float, step: int = 1) -> float:
        return sum(joint.cost(delay, slice(None, None, step)) for joint in joints)

    count = 2 * max(2, math.ceil(longest / _COARSE)) + 1
    delays = np.linspace(-longest, longest, count)
    step = max(1, min(len(joint.time) for joint in joints) // _FEWEST_COARSE)
    k = int(np.argmin([cost(delay, step) for delay in delays]))
    low, high = delays[max(k - 1, 0)], delays[min(k + 1, count - 1)]
    return float(
        minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": _FINE}).x
    )


def _deviation(joints: list[_Joint], delay: float, nv: int, period: float) -> tuple[float, Array]:
    """The standard deviation of the delay, and the part of each coordinate in it."""
    from scipy.special import stdtrit

    information, cells = np.zeros(nv), np.zeros((nv, _BLOCKS + 1))
    start = min(joint.time[0] for joint in joints)
    length = max(_BLOCK, (max(joint.time[-1] for joint in joints) - start) / _BLOCKS)
    for joint in joints:
        information[joint.k], score = joint.score(delay)
        block = np.clip((joint.time - start) / length, 0, _BLOCKS).astype(int)
        cells[joint.k] = np.bincount(block, score, _BLOCKS + 1)
    total = float(information.sum())
    if not total > 0.0:
        raise ValueError(
            "the motion does not determine the delay; move the joints with "
            "accelerations and changes of direction"
        )
    of_blocks = max(float(np.square(cells.sum(axis=0)).sum()) / total**2, 1.0 / total)
    # by how much the delay changes without one of the joints; few joints show little of it
    others = np.maximum(total - information, _SINGULAR * total)
    changes = (cells.sum(axis=1) / others)[information > 0.0]
    shares = information / total
    wider = float(stdtrit(1.0 / float(shares @ shares), 0.975)) / _NORMAL
    of_joints = float(changes @ changes) * (1.0 - 1.0 / len(changes)) * wider**2
    return math.sqrt(of_blocks + of_joints + (_LEAST * period) ** 2), shares


def _segments(samples: Samples) -> list[slice]:
    """The rows of each segment that a spline can have."""
    from ..identification.motion.filtering import split_at_cuts  # needs SciPy

    return [slice(*one) for one in split_at_cuts(np.diff(samples.segment) != 0) if len(one) > 3]


def _inner(samples: Samples, margin: float, is_slow: NDArray[np.bool_]) -> NDArray[np.int_]:
    """The rows that are farther than this from the ends of their segments, and from rests."""
    time, keep = samples.time, np.zeros(len(samples), bool)
    for one in _segments(samples):
        ends = [
            (time[one.start] - 1.0, time[one.start]),
            (time[one.stop - 1], time[one.stop - 1] + 1.0),
        ]
        edges = np.flatnonzero(np.diff(np.r_[False, is_slow[one], False]))
        rests = [
            (time[one.start + first], time[one.start + last - 1])
            for first, last in edges.reshape(-1, 2)
        ]
        keep[one] = True
        for first, last in [*ends, *rests]:
            start, stop = np.searchsorted(time[one], (first - margin, last + margin))
            keep[one.start + start : one.start + stop] = False
    return np.flatnonzero(keep)
