# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which terms the friction of each joint has, by the torques of stretches that were held out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..drives.efforts import torque_regressor, without_gravity
from ..engine.algorithms.dynamics.friction import step, step_change
from ..engine.algorithms.filters.low_pass import directions, presliding, presliding_changes
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Drives, Model
from ..engine.model.coordinates import is_actuated
from ..engine.model.drives import LARGEST
from .motion.filtering import AT_REST
from .motion.numerics import (
    BETTER,
    BLOCK,
    FOLDS,
    MIN_SAMPLES,
    MIN_SPEED,
    MIN_STANDARD_ERRORS,
    REGRESSION,
    RIDGE,
    normal_deviation,
)
from .samples import Samples

TERMS = ("stribeck", "root_friction", "load_friction")
OPTIONAL = (*TERMS, "friction_distance")
_SCALES = ("friction_velocity", "friction_distance", "stribeck_velocity")
_RELATIVE_SPEEDS = (0.015, 0.04, 0.1, 0.25)  # relative to the largest speed; searches start there
_MIN_RELATIVE_SPEED = 0.75 * AT_REST  # relative to the largest speed; few samples are slower
_MAX_DISTANCE = 0.04  # rad, m, over which friction turns; robots have 0.0002 to 0.003
_DISTANCES = (1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2, 0.1)  # s at the largest speed
_SEARCH_FACTORS = (1.5, 1.1)  # between neighbors in the first and the second round of a search
_OWN_FEATURES = ("armature", "damping", "offset", "friction")  # columns of a joint, in order


class FrictionTerms(NamedTuple):
    """The friction of each joint, beyond damping and Coulomb friction."""

    chosen: np.ndarray  # (3, nv) of bool, for each of ``TERMS``
    width: Array  # (nv,), velocity up to which friction grows, or 0
    is_smooth: np.ndarray  # (nv,) of bool, whether it grows as tanh(v / width), not v / width
    distance: Array  # (nv,), over which friction turns after a reversal, or 0
    stribeck: Array  # (nv,), velocity at which Stribeck friction decreases; or infinite
    limits: Array  # (2, 3, nv), of width, distance and this velocity; equal if it is given
    load: Array  # (10 njoints + nv,), bodies and armature that load the gears
    alike: list[str]  # joints with a form that the data cannot tell from others, and these

    @classmethod
    def none(cls, model: Model) -> FrictionTerms:
        """Friction without further terms."""
        return cls(
            np.zeros((len(TERMS), model.nv), bool),
            np.zeros(model.nv),
            np.zeros(model.nv, bool),
            np.zeros(model.nv),
            np.full(model.nv, np.inf),
            np.zeros((2, 3, model.nv)),
            np.concatenate([np.ravel(model.inertial_parameters), model.armature]),
            [],
        )

    def of(self, drives: Drives) -> Drives:
        """Drives whose friction turns as these terms state."""
        return drives.with_values(
            friction_velocity=self.width,
            has_smooth_friction=self.is_smooth,
            friction_distance=self.distance,
        )

    @property
    def scales(self) -> Array:
        """The widths, distances and velocities of Stribeck friction, (3, nv)."""
        return np.stack([self.width, self.distance, self.stribeck])

    @property
    def free(self) -> np.ndarray:
        """Which of these scales are estimated, (3, nv) of bool."""
        free: np.ndarray = self.limits[0] < self.limits[1]
        return free

    def changed(self, step: Array | float) -> FrictionTerms:
        """The same with a step added to the logarithms of the scales that are free, (m,)."""
        scales, free = self.scales, self.free
        scales[free] = np.clip(scales[free] * np.exp(step), *self.limits[:, free])
        return self._replace(width=scales[0], distance=scales[1], stribeck=scales[2])

    def intervals(self, names: Sequence[str], half: Array) -> dict[str, tuple[float, float]]:
        """Intervals of the scales that are free, with half widths (m,) of their logarithms."""
        values = self.scales[self.free]
        places = zip(*np.nonzero(self.free))
        with np.errstate(over="ignore"):  # the interval of an undetermined scale is infinite
            factors = np.exp(half)
        ends = zip(values / factors, values * factors)
        return {
            f"{_SCALES[n]}({names[k]})": (float(low), float(high))
            for (n, k), (low, high) in zip(places, ends)
            if n or self.width[k] > self.limits[0, 0, k]
        }

    def within(self, step: Array) -> Array:
        """A step (m,) without what leads beyond the limits."""
        sizes, after = (terms.scales[self.free] for terms in (self, self.changed(step)))
        result: Array = np.log(after / sizes)
        return result

    def direction(self, v: Array, samples: Samples) -> Array:
        """Of the friction of motors with velocities v (B, nv), from -1 to 1."""
        at_once: Array = step(v, self.width, self.is_smooth)
        return self._turned(at_once, samples.direction)

    def direction_change(self, v: Array, turned: Array | None) -> Array:
        """Its derivatives by the logarithms of widths and distances, (B, nv).

        ``turned`` are those of friction that turns over a distance.
        """
        return self._turned(step_change(v, self.width, self.is_smooth), turned)

    def _turned(self, at_once: Array, turned: Array | None) -> Array:
        return at_once if turned is None else np.where(self.distance > 0.0, turned, at_once)


def directions_of(drives: Drives, samples: Samples) -> Array:
    """The directions of the friction of the motors in samples in order of time, (B, nv)."""
    v, dt = drives.motor_velocity(samples.v), _steps(samples)
    found, before = np.empty_like(v), None
    for first in range(0, len(v), BLOCK):  # for less memory
        some = slice(first, first + BLOCK)
        found[some], before = directions(drives, v[some], dt[some], before)
    return found


def with_changes(drives: Drives, samples: Samples) -> tuple[Array, Array]:
    """These directions, and their derivatives by the logarithms of the distances, (B, nv).

    Both are 0 where friction does not turn over a distance.
    """
    v, dt, some = drives.motor_velocity(samples.v), _steps(samples), drives.friction_distance > 0.0
    found, distance = np.zeros((2, *v.shape)), drives.friction_distance[some]
    before, change = np.sign(v[0, some]), np.zeros(len(distance))
    for first in range(0, len(v), BLOCK):
        rows = slice(first, first + BLOCK)
        both = presliding_changes(v[rows, some], dt[rows], distance, before, change)
        found[:, rows, some] = np.where(v[rows, some] == 0.0, 0.0, both)
        before, change = both[0][-1], both[1][-1]
    return found[0], found[1]


def _steps(samples: Samples) -> Array:
    """Times since the sample before, (B,); long after a gap."""
    dt = np.diff(samples.time, prepend=samples.time[:1])
    is_next = np.diff(samples.segment, prepend=samples.segment[:1]) == 0
    return np.where(is_next & (dt >= 0.0), dt, LARGEST)


class _Form(NamedTuple):
    """A form of a joint's friction: how it turns, and its terms beyond Coulomb friction."""

    width: float = 0.0
    is_smooth: bool = False
    distance: float = 0.0
    velocity: float = 0.0  # at which Stribeck friction decreases; 0: there is none
    has_root: bool = False
    has_load: bool = False

    @property
    def depends_on_velocity(self) -> bool:
        """Whether friction depends on the velocity beyond its step."""
        return self.velocity > 0.0 or self.has_root

    @property
    def complexity(self) -> int:
        """The number of terms that depend on motion."""
        return any(self.turn) + self.depends_on_velocity + self.has_load

    @property
    def at_once(self) -> _Form:
        """The same terms with a step."""
        return self.with_turn(_Form())

    def with_turn(self, other: _Form) -> _Form:
        """The same terms with the turn of another form."""
        return self._replace(width=other.width, is_smooth=other.is_smooth, distance=other.distance)

    @property
    def turn(self) -> tuple[float, bool, float]:
        """Width, shape and distance of the turn."""
        return self[:3]

    def __str__(self) -> str:
        turn = "friction_distance" if self.distance else "smooth_friction" * self.is_smooth
        names = [
            turn or "friction_velocity" * (self.width > 0.0),
            "stribeck" * (self.velocity > 0.0),
            "root_friction" * self.has_root,
        ]
        return " and ".join(filter(None, names)) or "a step"


def choose_terms(
    model: Model,
    samples: Samples,
    stribeck: Array,
    huber: float | None,
    allowed: Sequence[str] = OPTIONAL,
) -> FrictionTerms:
    """Return the terms that lower the error of torques that were held out, for each joint.

    A term is chosen if it lowers the squared error of its joint by more than 4 %; a step with a
    width, if it lowers the error by more than that scatters. ``stribeck`` (nv,) is finite where
    Stribeck friction is wanted, at this velocity. Errors above ``huber`` times their standard
    deviation count linearly, as in the estimate: a push would otherwise decide.
    """
    terms = FrictionTerms.none(model)
    given = np.isfinite(stribeck)
    terms.chosen[0], terms.stribeck[given] = given, stribeck[given]
    rows = np.arange(0, len(samples), 1 + len(samples) // REGRESSION)
    some = samples.take(rows[: len(rows) // FOLDS * FOLDS])
    if len(some) < 2 * MIN_SAMPLES or samples.contacts:  # with fewer, terms increase errors
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
    held = _HeldOut(bodies, _torque_rows(model, some, joints), tau[:, joints].T, moves, huber)
    terms.load[:] = 0.0
    terms.load[:bodies], terms.load[bodies + joints] = (
        held.x[:bodies],
        held.x[bodies :: len(_OWN_FEATURES)],
    )
    every, dt, rows = model.drives.motor_velocity(samples.v), _steps(samples), rows[: len(some)]
    for n, k in enumerate(joints):
        search = _Search(
            v[:, k],
            held.weights[n].ravel(),
            partial(_direction, every[:, [k]], dt, rows),
            np.abs(held.load(n) + gravity[:, k]),
            partial(held.errors, n, *held.without_sign(n)),
            allowed,
            float(stribeck[k]) if given[k] else 0.0,
        )
        form, others = search.form()
        terms.width[k], terms.is_smooth[k], terms.distance[k] = form.turn
        terms.chosen[:, k] = form.velocity > 0.0, form.has_root, form.has_load
        terms.stribeck[k] = form.velocity or np.inf
        terms.limits[:, :, k] = search.limits(form).T
        if others:
            names = ", ".join(dict.fromkeys(map(str, others)))
            terms.alike.append(f"{model.velocity_names[k]} ({form}, or {names})")
        held.exchange(n, np.column_stack(search.columns(form)))
    return terms


def _direction(
    v: Array, dt: Array, rows: np.ndarray, width: float, is_smooth: bool, distance: float
) -> Array:
    """The direction of friction in some rows; v (B, 1) and dt (B,) are of all samples."""
    if not distance:
        return step(v[rows, 0], width, is_smooth)
    return presliding(v, dt, np.array([distance]), np.sign(v[0]))[rows, 0]


class _Search:
    """A search for the form of a joint's friction with the least error of held-out torques.

    Velocities ``v``, the weights of the samples and the load are (B,), as is the ``direction`` for
    a width, shape and distance; ``errors`` has the errors with choices of columns, and the smallest
    coefficients of the last ones.
    """

    def __init__(
        self,
        v: Array,
        weights: Array,
        direction: Callable[[float, bool, float], Array],
        load: Array,
        errors: Callable[[Array], tuple[Array, Array]],
        allowed: Sequence[str],
        given: float,
    ) -> None:
        self._v, self._load, self._errors = v, load, errors
        self._directed = cache(lambda *turn: direction(*turn) * weights)
        self._given, self._allowed = given, allowed
        fastest = float(np.quantile(np.abs(v), 0.99))
        self._speeds = _MIN_RELATIVE_SPEED * fastest, fastest
        self._ramps = [_Form(share * fastest) for share in _RELATIVE_SPEEDS]
        self._smooth_steps = [ramp._replace(is_smooth=True) for ramp in self._ramps]
        self._distances = [
            _Form(distance=share * fastest)
            for share in (_DISTANCES if "friction_distance" in allowed else ())
            if share * fastest < _MAX_DISTANCE
        ]
        self._known: dict[_Form, tuple[Array, float]] = {}  # errors and last coefficients
        self._terms: list[dict[str, Any]] = []
        if "root_friction" in allowed and not given:
            self._terms.append({"has_root": True})
        if "stribeck" in allowed and not given:
            self._terms += [{"velocity": share * fastest} for share in _RELATIVE_SPEEDS]

    def limits(self, form: _Form) -> Array:
        """Of width, distance and velocity, (3, 2); equal where they are not estimated."""
        given = self._given, self._given
        limits = self._speeds, (0.0, _MAX_DISTANCE), given if self._given else self._speeds
        scales = form.width, form.distance, form.velocity
        return np.array([limit if scale else (0.0, 0.0) for limit, scale in zip(limits, scales)])

    def columns(self, form: _Form) -> list[Array]:
        """Return the columns of the terms of a form, (B,) each."""
        direction = self._directed(*form.turn)
        columns = [direction]
        if form.velocity:
            columns.append(direction * np.exp(-((self._v / form.velocity) ** 2)))
        if form.has_root:
            columns.append(direction * np.sqrt(np.abs(self._v)))
        if form.has_load:
            columns.append(direction * self._load)
        return columns

    def _errors_of(self, forms: Sequence[_Form]) -> tuple[Array, Array]:
        """Errors in each stretch, (m, stretches), and last coefficients, of as many columns."""
        if new := [form for form in dict.fromkeys(forms) if form not in self._known]:
            columns = np.array([self.columns(form) for form in new])
            self._known |= zip(new, zip(*self._errors(columns.swapaxes(1, 2))))
        errors, coefficients = zip(*(self._known[form] for form in forms))
        return np.array(errors), np.array(coefficients)

    def _least(self, forms: Sequence[_Form]) -> tuple[_Form, Array]:
        """The form with the least error, and this error, (stretches,)."""
        error = self._errors_of(forms)[0]
        n = int(error.sum(axis=1).argmin())
        return forms[n], error[n]

    def _narrowed(self, form: _Form, name: str) -> _Form:
        """The form with the width, distance or velocity of the least error, by a parabola."""
        value: float = getattr(form, name)
        for spread in _SEARCH_FACTORS if value else ():
            tried = value * spread ** np.arange(-2.0, 3.0)
            forms = [_with(form, name, one) for one in tried]
            error = self._errors_of(forms)[0].sum(axis=1)
            n = min(max(int(error.argmin()), 1), len(tried) - 2)
            before, least, after = error[n - 1 : n + 2]
            bend = max(before - 2.0 * least + after, 1e-12 * least)
            value = tried[n] * spread ** np.clip(0.5 * (before - after) / bend, -1.0, 1.0)
        return _with(form, name, value)

    def _turning(self, form: _Form) -> list[_Form]:
        """Return a step, and the best turn of each kind that errs less; terms are as in a form."""
        kinds = [
            [form.with_turn(turn) for turn in turns]
            for turns in (self._smooth_steps, self._ramps, self._distances)
            if turns
        ]
        turning, (low, high) = [form.at_once], self._speeds
        errors = iter(self._errors_of([*turning, *itertools.chain(*kinds)])[0].sum(axis=1))
        error_at_once = next(errors)
        for kind in kinds:
            best, error = min(zip(kind, errors), key=lambda pair: pair[1])
            if error >= error_at_once:
                continue
            best = self._narrowed(best, "distance" if best.distance else "width")
            if best.distance < _MAX_DISTANCE and (not best.width or low < best.width < high):
                turning.append(best)
        return turning

    def _turned(self, form: _Form) -> tuple[_Form, Array]:
        """The form with the turn of the least error, and this error, (stretches,)."""
        found = self._turning(form)
        errors = self._errors_of(found)[0]
        return min(
            (
                (one, error)
                for one, error in zip(found, errors)
                if not any(one.turn) or (_is_better if one.distance else _is_told)(error, errors[0])
            ),
            key=lambda pair: pair[1].sum(),
        )

    def _refined(self, form: _Form) -> tuple[_Form, Array]:
        """The form with the velocity and the turn of the least error, and this error."""
        form, error = self._turned(self._with_velocity(form))
        return self._least([form, self._with_velocity(form)]) if any(form.turn) else (form, error)

    def _with_velocity(self, form: _Form) -> _Form:
        """The form with the velocity of the least error."""
        if not form.velocity or self._given:
            return form
        found = self._narrowed(form, "velocity")
        return found._replace(velocity=float(np.clip(found.velocity, *self._speeds)))

    def form(self) -> tuple[_Form, list[_Form]]:
        """The form with the least error, and others of which the data cannot tell it."""
        form, error = self._turned(_Form(velocity=self._given))
        while (more := self._with_a_term(form, error)) is not None:
            form, error = more
        return form, self._alike(form, error)

    def _with_a_term(self, form: _Form, error: Array) -> tuple[_Form, Array] | None:
        """The form with the term that lowers its error most, if one does; and the error."""
        others = []
        if "load_friction" in self._allowed and not form.has_load:
            others.append(form._replace(has_load=True))
        terms = [] if form.depends_on_velocity else self._terms
        others += [
            turn._replace(**term) for turn in dict.fromkeys([form, form.at_once]) for term in terms
        ]
        if not others:
            return None
        errors, coefficients = self._errors_of(others)
        if terms and (errors.sum(axis=1) < error.sum()).any():
            # a wide step resembles these terms
            wide = [
                form.with_turn(turn)._replace(**term)
                for turn in self._smooth_steps
                for term in terms
            ]
            others += wide
            more = self._errors_of(wide)
            errors = np.concatenate([errors, more[0]])
            coefficients = np.concatenate([coefficients, more[1]])
        plain = self._errors_of([form.at_once])[0][0] if any(form.turn) else error
        better = [
            (found.sum(), other)
            for found, coefficient, other in zip(errors, coefficients, others)
            if _is_better(found, plain if other.complexity == form.complexity else error)
            and (other.complexity > form.complexity or _is_told(found, error))
            and (other.has_load == form.has_load or coefficient > 0.0)
        ]
        if not better:
            return None
        best = min(better)[1]
        if best.has_load and not form.has_load:
            return self._turned(best)
        steps = [one for one in others if one.depends_on_velocity and not any(one.turn)]
        kinds = ([one for one in steps if one.has_root == is_root] for is_root in (False, True))
        starts = best, *(self._least(kind)[0] for kind in kinds if kind)
        return min(map(self._refined, starts), key=lambda pair: pair[1].sum())

    def _alike(self, form: _Form, error: Array) -> list[_Form]:
        """Forms with as many terms that do not err more, if this is not a step alone."""
        plain = _Form(has_load=form.has_load)
        if form == plain:
            return []
        if not _is_better(error, self._errors_of([form.at_once])[0][0]):
            form = form.at_once  # as its turn matters little
        if self._given or not _is_better(error, self._errors_of([plain])[0][0]):
            return []
        others, bases = [], [plain]
        if "root_friction" in self._allowed:
            bases.append(plain._replace(has_root=True))
        if "stribeck" in self._allowed:
            forms = [plain._replace(**term) for term in self._terms if "velocity" in term]
            bases.append(self._with_velocity(self._least(forms)[0]))
        for base in bases:
            others += self._turning(base) if form.complexity > base.complexity else [base]
        return [
            other
            for other in others
            if other.complexity == form.complexity
            and str(other) != str(form)
            and not _is_told(error, self._errors_of([other])[0][0])
        ]


def _with(form: _Form, name: str, value: float) -> _Form:
    values: dict[str, Any] = {name: float(value)}
    return form._replace(**values)


def _is_better(found: Array, error: Array) -> bool:
    return bool(found.sum() < BETTER**2 * error.sum())


def _is_told(error: Array, other: Array) -> bool:
    """Whether another error is larger by more than its scatter over the stretches."""
    more = other - error
    return bool(more.mean() > MIN_STANDARD_ERRORS * more.std(ddof=1) / np.sqrt(len(more)))


class _HeldOut:
    """Least squares of some samples of all joints, with one stretch held out at a time.

    ``rows`` are, for each joint, the parameters of the bodies that it moves, and the columns (B, p)
    of these and of its own; ``torque`` and ``counts`` are (joints, B). B is a multiple of the
    number of stretches. Rows and torques are multiplied by the ``weights`` of their samples, 0 for
    those that do not count and less than 1 for outliers (Huber 1964). Each joint is weighted by its
    error. ``x`` is the estimate from all stretches: of ``bodies`` parameters, then of each joint.
    """

    def __init__(
        self,
        bodies: int,
        rows: Sequence[tuple[slice, Array]],
        torque: Array,
        counts: np.ndarray,
        huber: float | None,
    ) -> None:
        self._moved = [moved for moved, _ in rows]
        self._columns = [
            np.r_[moved, bodies + len(_OWN_FEATURES) * n + np.arange(len(_OWN_FEATURES))]
            for n, moved in enumerate(self._moved)
        ]
        self.weights = _in_stretches(counts.astype(float))
        self._torque = _in_stretches(torque * counts)
        self._rows = _in_stretches(
            columns * count[:, None] for (_, columns), count in zip(rows, counts)
        )
        self._sums = [self._sums_of(n) for n in range(len(rows))]
        self._size: Array = np.std(torque * counts, axis=1)
        for _ in range(2):  # the estimate depends on the weights
            self._weighted()
            for n in range(len(rows)):
                if huber is not None:
                    self._weigh(n, huber)
                size = np.sqrt(np.mean(self._errors(n) ** 2))
                self._size[n] = max(size, 1e-9 * self._size[n])
        self._solve()

    def _errors(self, n: int) -> Array:
        """The errors of a joint with the estimate from all stretches, times the weights."""
        errors: Array = self._torque[n] - self._rows[n] @ self.x[self._columns[n]]
        return errors

    def _weigh(self, n: int, huber: float) -> None:
        """Multiply the rows and torques of a joint by the weights that its errors give."""
        old_weights = self.weights[n]
        counted = old_weights > 0.0
        errors = self._errors(n)[counted] / old_weights[counted]
        limit = max(huber * float(normal_deviation(errors)), 1e-9 * self._size[n])
        weights = np.sqrt(limit / np.maximum(np.abs(errors), limit))
        if (weights == old_weights[counted]).all():
            return
        factors = np.zeros_like(old_weights)
        factors[counted] = weights / old_weights[counted]
        self.weights[n] = old_weights * factors
        self._torque[n] = self._torque[n] * factors
        self._rows[n] = self._rows[n] * factors[..., None]
        self._sums[n] = self._sums_of(n)

    def _sums_of(self, n: int) -> tuple[Array, Array]:
        """The normal equations of a joint in each stretch."""
        transposed = self._rows[n].swapaxes(1, 2)
        return transposed @ self._rows[n], (transposed @ self._torque[n][..., None])[..., 0]

    def _weighted(self) -> tuple[Array, Array]:
        """The normal equations of all joints in each stretch; finds the estimate from all."""
        count = 1 + max(int(columns[-1]) for columns in self._columns)
        H, g = np.zeros((FOLDS, count, count)), np.zeros((FOLDS, count))
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
        return _length(self._moved[n]) + len(_OWN_FEATURES) - 1

    def load(self, n: int) -> Array:
        """The torque of the bodies and of a joint's armature, (B,); 0 in rows without weight."""
        columns, weights = slice(_length(self._moved[n]) + 1), self.weights[n]
        torque: Array = self._rows[n][..., columns] @ self.x[self._columns[n][columns]]
        return np.divide(torque, weights, out=np.zeros_like(torque), where=weights > 0.0).ravel()

    def without_sign(self, n: int) -> tuple[Array, Array]:
        """Covariances (stretches, p, p) and estimates (stretches, p, 1) of a joint's parameters.

        Without each stretch, and without the column of the sign of the joint's velocity.
        """
        columns = self._columns[n]
        sign = columns[self._place_of_sign(n)]
        rows = self._inverse[:, sign, None]
        inverse = self._inverse[:, columns] - rows[..., columns].swapaxes(1, 2) * (
            rows / self._inverse[:, sign, sign, None, None]
        )
        return inverse[..., columns], inverse @ self._right[..., None]

    def errors(self, n: int, inverse: Array, z: Array, columns: Array) -> tuple[Array, Array]:
        """Squared errors of a joint, (m, stretches), each predicted from the other stretches.

        The joint has other columns, m choices (m, B, c), in place of the sign of its velocity,
        multiplied by the weights; ``inverse`` and ``z`` are from ``without_sign``. Also returns the
        smallest coefficients of the last ones, (m,). By partial regression (Frisch and Waugh 1933),
        for which the normal equations of all joints are solved once.
        """
        A, y, size = self._rows[n], self._torque[n][..., None], self._size[n]
        C = np.ascontiguousarray(columns.reshape(len(columns), *y.shape[:2], -1).swapaxes(0, 1))
        (stretches, m, B, c), transposed = C.shape, C.swapaxes(2, 3)
        rows = transposed.reshape(stretches, m * c, B)
        CC, Cy, CA = (
            (sums.sum(axis=0) - sums) / size**2
            for sums in (transposed @ C, (rows @ y).reshape(stretches, m, c, 1), rows @ A)
        )

        def of_each(columns: Array) -> Array:
            return columns.reshape(stretches, -1, m, c).swapaxes(1, 2)

        M, each = of_each(inverse @ CA.swapaxes(1, 2)), CA.reshape(stretches, m, c, -1)
        x = _inverse(CC - each @ M) @ (Cy - each @ z[:, None])
        parameters = z - (M @ x)[..., 0].swapaxes(1, 2)
        residuals = y - A @ parameters - (C @ x)[..., 0].swapaxes(1, 2)
        return (residuals**2).sum(axis=1).T / size**2, x[..., -1, 0].min(axis=0)

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
    return [own.reshape(FOLDS, -1, *own.shape[1:]) for own in values]


def _inverse(H: Array) -> Array:
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(H, axis1=-2, axis2=-1), 1e-300))
    scale = scale[..., None] * scale[..., None, :]
    return np.asarray(np.linalg.inv(H * scale + RIDGE * np.eye(H.shape[-1])) * scale)


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
        is_actuated(model) & (np.ptp(tau, axis=0) > 0.0) & (np.ptp(v, axis=0) > MIN_SPEED)
    )
