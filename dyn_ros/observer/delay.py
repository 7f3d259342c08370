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

_MIN_SAMPLES = 200  # per joint
_MAX_SAMPLES = 20000  # per joint
_MIN_GRID_SAMPLES = 2000  # per joint, for the comparison of the grid
_GRID_STEP = 0.005  # s; distance of the delays that are compared first
_DELAY_TOLERANCE = 1e-6  # s
_MAX_BLOCKS = 40
_MIN_BLOCK_DURATION = 1.0  # s
_ROUNDING_ERROR = 1e-9  # relative to the efforts
_DIFFERENCE_STEP = 5e-4  # s; for the derivative with respect to the delay
_REST_SPEED = 0.01  # rad/s, m/s; a slower joint may stick
_COULOMB_VELOCITY = 0.01  # rad/s, m/s; width of the sign change of Coulomb friction
_NORMAL_QUANTILE = 1.96  # standard deviations; half of a 95 % interval
_MIN_DEVIATION = 0.05  # sampling periods
_SINGULAR_TOLERANCE = 1e-8  # relative
_ALL_ROWS = slice(None)


class EffortDelay(NamedTuple):
    """Result of ``dyn_ros.estimate_effort_delay``.

    Attributes
    ----------
    delay : float
        Delay of measured efforts behind the positions; negative: they lead [s].
    deviation : float
        Standard deviation of the delay [s]. It includes errors of the model, as far as they make
        the delays of joints differ.
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
    model.drives = model.drives.with_values(delay=0.0)
    samples = Samples.from_arrays(model, time, q, tau)
    joints = _measured_joints(model, samples, longest)
    delay = _most_likely_delay(joints, longest)
    if abs(delay) > longest - 10.0 * _DELAY_TOLERANCE:
        raise ValueError(
            f"the efforts lag or lead by {longest:g} s or more; pass a larger value of"
            " longest, or check that efforts and positions are of the same motion"
        )
    deviation, shares = _delay_deviation(
        joints, delay, model.nv, float(np.median(np.diff(samples.time)))
    )
    return EffortDelay(delay, deviation, shares, len(samples))


class _JointEfforts:
    """Measured efforts of a joint, and the model's prediction at other times.

    Samples near a rest or a reversal do not count: a joint that sticks turns its friction around
    earlier than its velocity, which looks like efforts that lead.
    """

    def __init__(self, k: int, samples: Samples, columns: Array, longest: float) -> None:
        from scipy.interpolate import CubicSpline

        self.k = k
        v = samples.v[:, k]
        is_slow = np.abs(v) < _REST_SPEED
        is_slow[1:] |= v[1:] * v[:-1] < 0.0  # a reversal
        rows = _rows_in_motion(samples, longest, is_slow)
        rows = rows[:: math.ceil(len(rows) / _MAX_SAMPLES) if len(rows) else 1]
        self.time, self.weight = samples.time[rows], np.sqrt(samples.weight[rows])
        self.measured = samples.tau[rows, k] * self.weight
        self._splines = (
            [
                (
                    np.flatnonzero((rows >= segment.start) & (rows < segment.stop)),
                    CubicSpline(samples.time[segment], columns[segment]),
                )
                for segment in _spline_segments(samples)
            ]
            if len(rows)
            else []
        )

    def features(self, delay: float, rows: slice) -> Array:
        """Return the components of the modeled effort a delay [s] before the samples, (rows, 6).

        They are gravity, inertial torque, velocity, acceleration, Coulomb friction, and 1.
        """
        features = np.ones((len(self.time), 6))
        for segment_rows, spline in self._splines:
            if len(self._splines) == 1:
                segment_rows = segment_rows[rows]
            features[segment_rows, :4] = spline(self.time[segment_rows] - delay)
        features = features[rows]
        features[:, 4] = np.tanh(features[:, 2] / _COULOMB_VELOCITY)
        return features * self.weight[rows, None]

    def errors(self, delay: float, rows: slice = _ALL_ROWS) -> tuple[Array, Array, Array]:
        """Return the residuals of a least-squares fit, its factors, and a basis of the features."""
        X, y = self.features(delay, rows), self.measured[rows]
        scale = np.sqrt((X * X).sum(axis=0))
        U, s, Vt = np.linalg.svd(X / np.where(scale > 0.0, scale, 1.0), full_matrices=False)
        U, s, Vt = (
            U[:, s > _SINGULAR_TOLERANCE],
            s[s > _SINGULAR_TOLERANCE],
            Vt[s > _SINGULAR_TOLERANCE],
        )
        projection = U.T @ y
        factor = (projection / s) @ Vt / np.where(scale > 0.0, scale, 1.0)
        return y - U @ projection, factor, U

    def variance(self, error: Array, rows: slice = _ALL_ROWS) -> float:
        """Return the mean square of residuals, with at least their rounding error."""
        y = self.measured[rows]
        return float(error @ error + _ROUNDING_ERROR**2 * (y @ y)) / len(error)

    def cost(self, delay: float, rows: slice) -> float:
        """Return minus the logarithm of the likelihood, without constants."""
        error = self.errors(delay, rows)[0]
        return 0.5 * len(error) * math.log(self.variance(error, rows))

    def score(self, delay: float) -> tuple[float, Array]:
        """Return the information about the delay, and the score of each sample."""
        error, factor, basis = self.errors(delay)
        change = (
            (
                self.features(delay + _DIFFERENCE_STEP, _ALL_ROWS)
                - self.features(delay - _DIFFERENCE_STEP, _ALL_ROWS)
            )
            @ factor
            / (2.0 * _DIFFERENCE_STEP)
        )
        change -= basis @ (basis.T @ change)
        variance = self.variance(error)
        return float(change @ change) / variance, error * change / variance


def _measured_joints(model: Model, samples: Samples, longest: float) -> list[_JointEfforts]:
    """Return the joints that move and whose efforts are measured; raise a ValueError if none."""
    data = Data(model)
    gravity = generalized_gravity(model, data, samples.q)
    inertial = rnea(model, data, samples.q, samples.v, samples.a) - gravity
    joints = [
        _JointEfforts(
            k,
            samples,
            np.stack([gravity[:, k], inertial[:, k], samples.v[:, k], samples.a[:, k]], axis=1),
            longest,
        )
        for k in range(model.nv)
        if np.ptp(samples.tau[:, k]) > 0.0
    ]
    measured = [joint for joint in joints if len(joint.time) >= _MIN_SAMPLES]
    if not measured:
        max_count = max((len(joint.time) for joint in joints), default=0)
        raise ValueError(
            f"expected joints in motion whose efforts are measured, with at least {_MIN_SAMPLES} "
            f"samples more than {longest:g} s from rests, reversals and gaps, got {len(joints)} "
            f"measured joints with at most {max_count} such samples; move the robot for longer"
        )
    return measured


def _most_likely_delay(joints: list[_JointEfforts], longest: float) -> float:
    """Return the delay with the highest likelihood: the best of a grid, refined [s]."""
    from scipy.optimize import minimize_scalar  # 30 MB, which an observer does not need

    def cost(delay: float, step: int = 1) -> float:
        return sum(joint.cost(delay, slice(None, None, step)) for joint in joints)

    count = 2 * max(2, math.ceil(longest / _GRID_STEP)) + 1
    delays = np.linspace(-longest, longest, count)
    step = max(1, min(len(joint.time) for joint in joints) // _MIN_GRID_SAMPLES)
    k = int(np.argmin([cost(delay, step) for delay in delays]))
    low, high = delays[max(k - 1, 0)], delays[min(k + 1, count - 1)]
    return float(
        minimize_scalar(
            cost, bounds=(low, high), method="bounded", options={"xatol": _DELAY_TOLERANCE}
        ).x
    )


def _delay_deviation(
    joints: list[_JointEfforts], delay: float, nv: int, period: float
) -> tuple[float, Array]:
    """Return the standard deviation of the delay, and the share of each coordinate in it."""
    from scipy.special import stdtrit

    information, block_scores = np.zeros(nv), np.zeros((nv, _MAX_BLOCKS + 1))
    start = min(joint.time[0] for joint in joints)
    length = max(
        _MIN_BLOCK_DURATION, (max(joint.time[-1] for joint in joints) - start) / _MAX_BLOCKS
    )
    for joint in joints:
        information[joint.k], score = joint.score(delay)
        block = np.clip((joint.time - start) / length, 0, _MAX_BLOCKS).astype(int)
        block_scores[joint.k] = np.bincount(block, score, _MAX_BLOCKS + 1)
    total = float(information.sum())
    if not total > 0.0:
        raise ValueError(
            "the motion does not determine the delay; move the joints with "
            "accelerations and changes of direction"
        )
    block_variance = max(float(np.square(block_scores.sum(axis=0)).sum()) / total**2, 1.0 / total)
    # changes of the delay without each joint; with few joints they underestimate the deviation
    remaining_information = np.maximum(total - information, _SINGULAR_TOLERANCE * total)
    changes = (block_scores.sum(axis=1) / remaining_information)[information > 0.0]
    shares = information / total
    student_ratio = float(stdtrit(1.0 / float(shares @ shares), 0.975)) / _NORMAL_QUANTILE
    joint_variance = float(changes @ changes) * (1.0 - 1.0 / len(changes)) * student_ratio**2
    return math.sqrt(block_variance + joint_variance + (_MIN_DEVIATION * period) ** 2), shares


def _spline_segments(samples: Samples) -> list[slice]:
    """Return the rows of each segment that is long enough for a spline."""
    from ..identification.motion.filtering import split_at_cuts  # needs SciPy

    return [
        slice(*bounds) for bounds in split_at_cuts(np.diff(samples.segment) != 0) if len(bounds) > 3
    ]


def _rows_in_motion(
    samples: Samples, margin: float, is_slow: NDArray[np.bool_]
) -> NDArray[np.int_]:
    """Return the rows farther than a margin [s] from the ends of their segments, and from rests."""
    time, keep = samples.time, np.zeros(len(samples), bool)
    for segment in _spline_segments(samples):
        ends = [
            (time[segment.start] - 1.0, time[segment.start]),
            (time[segment.stop - 1], time[segment.stop - 1] + 1.0),
        ]
        edges = np.flatnonzero(np.diff(np.r_[False, is_slow[segment], False]))
        rests = [
            (time[segment.start + first], time[segment.start + last - 1])
            for first, last in edges.reshape(-1, 2)
        ]
        keep[segment] = True
        for first, last in [*ends, *rests]:
            start, stop = np.searchsorted(time[segment], (first - margin, last + margin))
            keep[segment.start + start : segment.start + stop] = False
    return np.flatnonzero(keep)
