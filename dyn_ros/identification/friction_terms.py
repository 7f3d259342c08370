# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which terms the friction of each joint has, by the torques of stretches that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..drives.efforts import torque_regressor, without_gravity
from ..engine.algorithms.dynamics.friction import step
from ..engine.algorithms.filters.low_pass import directions, presliding, presliding_changes
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Drives, Model
from .motion.filtering import AT_REST, is_actuated
from .samples import Samples

TERMS = ("stribeck", "root_friction", "load_friction")
OPTIONAL = (*TERMS, "friction_distance")
STILL = 1e-9  # rad/s, m/s: less is rounding
SLOWEST = 1e-6  # rad/s, m/s: of the decrease of Stribeck friction; less is not measured
_STRETCHES = 8  # of consecutive samples, each predicted by all others
_MOST = 6  # of them, in which a term must lower the error
_BETTER = 0.96  # of the squared error, at most, with a term that is chosen
_WIDTHS = (0.03, 0.1, 0.2)  # of the largest speed: where the step of friction ends
_DISTANCES = (1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2, 0.1)  # s at the largest speed
_FURTHEST = 0.04  # rad, m: no drive's friction turns over more
_SPREADS = (2.0, 1.2)  # factors between widths or distances, of which the best is sought
_CLOSER = (1.4, 1.1)  # the same for velocities, of which far ones are alike
_DECREASES = (0.03, 0.06, 0.12, 0.25, 0.5)  # of the largest speed, of Stribeck friction
_FEWEST = 400  # samples
_PART = 4096  # samples at a time
_LONG = 1e12  # s, between samples that are not consecutive
_ROWS = 2400  # samples that terms are compared on
_OWN = 4  # columns of a joint alone: armature, damping, offset, sign of velocity
_WEIGHTINGS = 2  # of the joints by their errors
_RIDGE = 1e-6  # of each column's size: combinations that samples do not determine


class FrictionTerms(NamedTuple):
    """The friction of each joint, beyond damping and Coulomb friction."""

    chosen: np.ndarray  # (3, nv) of bool, for each of ``TERMS``
    width: Array  # (nv,), velocity up to which friction grows in proportion to it
    distance: Array  # (nv,), over which friction turns after a reversal, or 0
    stribeck: Array  # (nv,), velocity at which Stribeck friction decreases; or infinite
    limits: Array  # (2, nv), of this velocity; equal if it is given
    load: Array  # (10 njoints + nv,), bodies and armature that load the gears

    @classmethod
    def none(cls, model: Model) -> FrictionTerms:
        """Friction without further terms."""
        return cls(
            np.zeros((len(TERMS), model.nv), bool),
            np.zeros(model.nv),
            np.zeros(model.nv),
            np.full(model.nv, np.inf),
            np.zeros((2, model.nv)),
            np.concatenate([np.ravel(model.inertial_parameters), model.armature]),
        )

    def of(self, drives: Drives) -> Drives:
        """Drives whose friction turns as these terms state."""
        return drives.with_values(friction_velocity=self.width, friction_distance=self.distance)

    @property
    def free(self) -> np.ndarray:
        """Which distances and velocities of Stribeck friction are estimated, (2, nv) of bool."""
        return np.stack([self.distance > 0.0, self.chosen[0] & (self.limits[0] < self.limits[1])])

    def changed(self, step: Array | float) -> FrictionTerms:
        """The same with a step added to the logarithms of what is free, (m,)."""
        free, factor = self.free, np.ones((2, len(self.distance)))
        factor[free] = np.exp(step)
        return self._replace(
            distance=self.distance * factor[0],
            stribeck=np.where(
                free[1], np.clip(self.stribeck * factor[1], *self.limits), self.stribeck
            ),
        )

    def within(self, step: Array) -> Array:
        """A step (m,) without what leads beyond the limits."""
        sizes, after = (
            np.stack([terms.distance, terms.stribeck])[self.free]
            for terms in (self, self.changed(step))
        )
        result: Array = np.log(after / sizes)
        return result

    def direction(self, v: Array, samples: Samples) -> Array:
        """Of the friction of motors with velocities v (B, nv), from -1 to 1."""
        at_once: Array = step(v, self.width)
        if samples.direction is None:
            return at_once
        return np.where(self.distance > 0.0, samples.direction, at_once)


def directions_of(drives: Drives, samples: Samples) -> Array:
    """The directions of the friction of the motors in samples in order of time, (B, nv)."""
    v, dt = drives.motor_velocity(samples.v), _steps(samples)
    found, before = np.empty_like(v), None
    for first in range(0, len(v), _PART):  # for less memory
        some = slice(first, first + _PART)
        found[some], before = directions(drives, v[some], dt[some], before)
    return found


def with_changes(drives: Drives, samples: Samples) -> tuple[Array, Array]:
    """These directions, and their derivatives by the logarithms of the distances, (B, nv).

    Both are 0 where friction does not turn over a distance.
    """
    v, dt, some = drives.motor_velocity(samples.v), _steps(samples), drives.friction_distance > 0.0
    found, distance = np.zeros((2, *v.shape)), drives.friction_distance[some]
    before, change = np.sign(v[0, some]), np.zeros(len(distance))
    for first in range(0, len(v), _PART):
        rows = slice(first, first + _PART)
        both = presliding_changes(v[rows, some], dt[rows], distance, before, change)
        found[:, rows, some] = np.where(v[rows, some] == 0.0, 0.0, both)
        before, change = both[0][-1], both[1][-1]
    return found[0], found[1]


def _steps(samples: Samples) -> Array:
    """Times since the sample before, (B,); long after a gap."""
    dt = np.diff(samples.time, prepend=samples.time[:1])
    is_next = np.diff(samples.segment, prepend=samples.segment[:1]) == 0
    return np.where(is_next & (dt >= 0.0), dt, _LONG)


class _Candidate(NamedTuple):
    term: int | None  # index in ``TERMS``; None: only another way to turn
    velocity: float  # at which it decreases, or 0
    turn: tuple[float, float]  # width of the ramp; distance over which friction turns
    factors: list[Array]  # of the direction


def choose_terms(
    model: Model, samples: Samples, stribeck: Array, allowed: Sequence[str] = OPTIONAL
) -> FrictionTerms:
    """The terms that lower the error of torques that were held out, for each joint.

    A term is chosen if it lowers the squared error of its joint by more than 4 %, and in most
    stretches. ``stribeck`` (nv,) is finite where Stribeck friction is wanted, at this velocity.
    """
    terms = FrictionTerms.none(model)
    given = np.isfinite(stribeck)
    terms.chosen[0], terms.stribeck[given] = given, stribeck[given]
    rows = np.arange(0, len(samples), 1 + len(samples) // _ROWS)
    some = samples.take(rows[: len(rows) // _STRETCHES * _STRETCHES])
    if len(some) < _FEWEST or samples.contacts:
        return terms
    v = model.drives.motor_velocity(some.v)
    joints = measured_joints(model, v, model.drives.to_motors(some.tau))
    if not len(joints):
        return terms
    tau = model.drives.to_motors(without_gravity(model, some.q, some.tau))
    gravity = model.drives.to_motors(some.tau) - tau  # which only loads the gears
    fastest = np.quantile(np.abs(v), 0.99, axis=0)
    moves = (np.abs(v) > AT_REST * fastest)[:, joints].T
    bodies = 10 * model.njoints
    held = _HeldOut(bodies, _torque_rows(model, some, joints), tau[:, joints].T, moves)
    terms.load[:] = 0.0
    terms.load[:bodies], terms.load[bodies + joints] = held.x[:bodies], held.x[bodies::_OWN]
    every, dt, rows = model.drives.motor_velocity(samples.v), _steps(samples), rows[: len(some)]
    for n, k in enumerate(joints):
        direction = partial(_direction, every[:, [k]], dt, rows)
        held.exchange(
            n,
            _chosen(
                terms,
                int(k),
                v[:, k],
                moves[n],
                direction,
                np.abs(held.load(n) + gravity[:, k]),
                partial(held.errors, n),
                allowed,
            ),
        )
    return terms


def _direction(v: Array, dt: Array, rows: np.ndarray, width: float, distance: float) -> Array:
    """The direction in some rows of friction with a ramp, or that turns over a distance.

    v (B, 1) and dt (B,) are of all samples.
    """
    if not distance:
        return step(v[rows, 0], width)
    return presliding(v, dt, np.array([distance]), np.sign(v[0]))[rows, 0]


def _chosen(
    terms: FrictionTerms,
    k: int,
    v: Array,
    moves: np.ndarray,
    direction: Callable[[float, float], Array],
    load: Array,
    errors: Callable[[Array], tuple[Array, Array]],
    allowed: Sequence[str],
) -> Array:
    """Add what lowers the error of a joint to the terms; the columns of its friction, (B, c).

    ``v``, ``moves`` and ``load`` are (B,), as is the ``direction`` for a width and a distance;
    ``errors`` has the errors with choices of columns, and the smallest coefficients of the last
    ones.
    """
    fastest = float(np.quantile(np.abs(v), 0.99))
    distances = fastest * np.array(_DISTANCES if "friction_distance" in allowed else ())

    def decreasing(velocity: float) -> Array:
        return np.exp(-((v / velocity) ** 2))

    @cache
    def directed(turn: tuple[float, float]) -> Array:
        return direction(*turn) * moves

    def columns(turn: tuple[float, float], *factors: Array) -> Array:
        return np.stack([directed(turn), *(directed(turn) * one for one in factors)], axis=1)

    def narrowed(columns_of: Callable[[float], Array], spreads: Sequence[float]) -> float:
        """The factor of a width, distance or velocity with the least error, by a parabola."""
        factor = 1.0
        for spread in spreads:
            tried = factor * spread ** np.arange(-2.0, 3.0)
            error = errors(np.stack([columns_of(float(one)) for one in tried]))[0].sum(axis=1)
            n = min(max(int(error.argmin()), 1), len(tried) - 2)
            before, least, after = error[n - 1 : n + 2]
            bend = max(before - 2.0 * least + after, 1e-12 * least)
            factor = tried[n] * spread ** np.clip(0.5 * (before - after) / bend, -1.0, 1.0)
        return float(factor)

    place = 0  # of Stribeck friction among the factors
    factors = [decreasing(float(terms.stribeck[k]))] if terms.chosen[0, k] else []
    while True:  # add what lowers it most
        turn, others = (float(terms.width[k]), float(terms.distance[k])), []
        turns = [_Candidate(None, 0.0, turn, factors)]  # the present choice
        if not any(turn):
            turns += [
                _Candidate(None, 0.0, one, factors)
                for one in (
                    *((share * fastest, 0.0) for share in _WIDTHS),
                    *((0.0, one) for one in distances if one < _FURTHEST),
                )
            ]
        if "load_friction" in allowed and not terms.chosen[2, k]:
            others.append(_Candidate(2, 0.0, turn, [*factors, load]))
        if "root_friction" in allowed and not terms.chosen[:2, k].any():
            others.append(_Candidate(1, 0.0, turn, [*factors, np.sqrt(np.abs(v))]))
        if "stribeck" in allowed and not terms.chosen[:2, k].any():
            others += [
                _Candidate(0, share * fastest, turn, [*factors, decreasing(share * fastest)])
                for share in _DECREASES
            ]
        tried = [
            pair
            for some in (turns, others)
            if some
            for pair in zip(
                *errors(np.stack([columns(one.turn, *one.factors) for one in some])), some
            )
        ]
        error = tried[0][0]
        better = [
            (found, one)
            for found, coefficient, one in tried
            if _is_better(found, error) and (one.term != 2 or coefficient > 0.0)
        ]
        if not better:
            break
        best = min(better, key=lambda pair: pair[0].sum())[1]
        factors, (terms.width[k], terms.distance[k]) = best.factors, best.turn
        if best.term is not None:
            terms.chosen[best.term, k] = True
        if best.velocity:
            terms.stribeck[k] = best.velocity
            terms.limits[:, k] = 0.2 * _DECREASES[0] * fastest, 1.5 * _DECREASES[-1] * fastest
            place = len(factors) - 1
    if any(turn):
        factor = narrowed(lambda x: columns((x * turn[0], x * turn[1]), *factors), _SPREADS)
        terms.width[k], terms.distance[k] = turn = factor * turn[0], factor * turn[1]
    if terms.free[1, k]:
        velocity = float(terms.stribeck[k])

        def with_velocity(x: float) -> list[Array]:
            return [*factors[:place], decreasing(x * velocity), *factors[place + 1 :]]

        factor = narrowed(lambda x: columns(turn, *with_velocity(x)), _CLOSER)
        terms.stribeck[k] = np.clip(factor * velocity, *terms.limits[:, k])
        factors = with_velocity(terms.stribeck[k] / velocity)
    return columns(turn, *factors)


def _is_better(found: Array, error: Array) -> bool:
    return bool(found.sum() < _BETTER * error.sum() and (found < error).sum() >= _MOST)


class _HeldOut:
    """Least squares of some samples of all joints, with one stretch held out at a time.

    ``rows`` are, for each joint, the parameters of the bodies that it moves, and the columns (B, p)
    of these and of its own; ``torque`` and ``counts`` are (joints, B). B is a multiple of the
    number of stretches. The rows of samples that do not count become zero. Each joint is
    weighted by its error. ``x`` is the estimate from all stretches: of ``bodies`` parameters, then
    of each joint.
    """

    def __init__(
        self, bodies: int, rows: Sequence[tuple[slice, Array]], torque: Array, counts: np.ndarray
    ) -> None:
        self._torque = _in_stretches(torque * counts)
        self._moved, columns = zip(*rows)
        self._rows = _in_stretches(some * count[:, None] for some, count in zip(columns, counts))
        self._columns = [
            np.r_[moved, first : first + _OWN]
            for moved, first in zip(self._moved, range(bodies, bodies + _OWN * len(rows), _OWN))
        ]
        self._sums = [self._sums_of(n) for n in range(len(rows))]
        self._size: Array = np.std(torque * counts, axis=1)
        for _ in range(_WEIGHTINGS):
            self._weighted()
            error = [
                y - A @ self.x[columns]
                for A, y, columns in zip(self._rows, self._torque, self._columns)
            ]
            self._size = np.maximum(
                np.sqrt(np.mean(np.square(error), axis=(1, 2))), 1e-9 * self._size
            )
        self._solve()

    def _sums_of(self, n: int) -> tuple[Array, Array]:
        """The normal equations of a joint in each stretch."""
        transposed = self._rows[n].swapaxes(1, 2)
        return transposed @ self._rows[n], (transposed @ self._torque[n][..., None])[..., 0]

    def _weighted(self) -> tuple[Array, Array]:
        """The normal equations of all joints in each stretch; finds the estimate from all."""
        count = 1 + max(int(columns[-1]) for columns in self._columns)
        H, g = np.zeros((_STRETCHES, count, count)), np.zeros((_STRETCHES, count))
        for moved, columns, (squares, products), size in zip(
            self._moved, self._columns, self._sums, self._size
        ):
            squares, products, n = squares / size**2, products / size**2, _length(moved)
            own = columns[n:]
            H[:, moved, moved] += squares[:, :n, :n]
            H[:, moved, own] = squares[:, :n, n:]
            H[:, own, moved] = squares[:, n:, :n]
            H[:, own[:, None], own] = squares[:, n:, n:]
            g[:, moved] += products[:, :n]
            g[:, own] = products[:, n:]
        self.x = _inverse(H.sum(axis=0)) @ g.sum(axis=0)
        return H, g

    def _solve(self) -> None:
        H, g = self._weighted()
        self._right = g.sum(axis=0) - g
        self._inverse = _inverse(H.sum(axis=0) - H)

    def _place_of_sign(self, n: int) -> int:
        """Index of the sign of the velocity among the columns of a joint."""
        return _length(self._moved[n]) + _OWN - 1

    def load(self, n: int) -> Array:
        """The torque of the bodies and of a joint's armature, (B,)."""
        some = slice(_length(self._moved[n]) + 1)
        torque: Array = (self._rows[n][..., some] @ self.x[self._columns[n][some]]).ravel()
        return torque

    def errors(self, n: int, columns: Array) -> tuple[Array, Array]:
        """Squared errors of a joint, (m, stretches), each predicted from the other stretches.

        The joint has other columns, m choices (m, B, c), in place of the sign of its velocity; the
        rows of samples that do not count are zero. Also returns the smallest coefficients of the
        last ones, (m,). By partial regression (Frisch and Waugh 1933), for which the normal
        equations of all joints are solved once.
        """
        A, y, size = self._rows[n], self._torque[n][..., None], self._size[n]
        C = np.ascontiguousarray(columns.reshape(len(columns), *y.shape[:2], -1).swapaxes(0, 1))
        (stretches, m, B, c), transposed = C.shape, C.swapaxes(2, 3)
        torque = np.broadcast_to(y[:, None], (stretches, m, B, 1))
        squares = transposed @ np.concatenate([C, torque], axis=3)
        products = transposed.reshape(stretches, m * c, B) @ A
        squares, products = ((sums.sum(axis=0) - sums) / size**2 for sums in (squares, products))
        some = self._columns[n]
        own = some[self._place_of_sign(n)]
        rows = self._inverse[:, own, None]
        inverse = self._inverse[:, some] - rows[..., some].swapaxes(1, 2) * (
            rows / self._inverse[:, own, own, None, None]
        )  # without the sign's column
        M, z = inverse[..., some] @ products.swapaxes(1, 2), inverse @ self._right[..., None]

        def of_each(columns: Array) -> Array:
            return columns.reshape(stretches, -1, m, c).swapaxes(1, 2)

        each = products.reshape(stretches, m, c, -1)
        x = _inverse(squares[..., :-1] - each @ of_each(M)) @ (
            squares[..., -1:] - each @ z[:, None]
        )
        rest = (y - A @ z)[:, None] - (C - of_each(A @ M)) @ x
        return (rest**2).sum(axis=(2, 3)).T / size**2, x[..., -1, 0].min(axis=0)

    def exchange(self, n: int, columns: Array) -> None:
        """Give a joint other columns (B, c) in place of the sign of its velocity; solve again."""
        own = self._place_of_sign(n)
        columns = columns.reshape(*self._torque[n].shape, -1)
        if (columns[..., 0] == self._rows[n][..., own]).all() and columns.shape[-1] == 1:
            return
        self._rows[n] = np.concatenate([self._rows[n], columns[..., 1:]], axis=2)
        self._rows[n][..., own] = columns[..., 0]
        more = len(self.x) + np.arange(columns.shape[-1] - 1)
        self._columns[n] = np.append(self._columns[n], more)
        self._sums[n] = self._sums_of(n)
        self._solve()


def _in_stretches(values: Iterable[Array]) -> list[Array]:
    """Samples (B, ...) of each joint as (stretches, B / stretches, ...)."""
    return [own.reshape(_STRETCHES, -1, *own.shape[1:]) for own in values]


def _inverse(H: Array) -> Array:
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(H, axis1=-2, axis2=-1), 1e-300))
    scale = scale[..., None] * scale[..., None, :]
    return np.asarray(np.linalg.inv(H * scale + _RIDGE * np.eye(H.shape[-1])) * scale)


def _length(some: slice) -> int:
    return int(some.stop - some.start)


def _torque_rows(model: Model, samples: Samples, joints: np.ndarray) -> list[tuple[slice, Array]]:
    """For each motor, the parameters of the bodies that it moves, and its columns (B, p)."""
    W = torque_regressor(model, Data(model), samples.q, samples.v, samples.a)
    W = model.drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    v, a = model.drives.motor_velocity(samples.v), model.drives.motor_velocity(samples.a)
    own, rows = np.stack([a, v, np.ones_like(v), np.sign(v)], axis=2), []
    for k in joints:
        used = np.flatnonzero(W[:, k].any(axis=0))
        moved = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 0)
        rows.append((moved, np.hstack([W[:, k, moved], own[:, k]])))
    return rows


def measured_joints(model: Model, v: Array, tau: Array) -> np.ndarray:
    """Indices of velocities of joints that move and whose torque is measured."""
    return np.flatnonzero(
        is_actuated(model) & (np.ptp(tau, axis=0) > 0.0) & (np.ptp(v, axis=0) > STILL)
    )
