# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Choice of the friction terms of each joint, by the errors of held-out torques."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..drives.efforts import exclude_subtracted_gravity, repeated_motors, torque_regressor
from ..engine.algorithms.dynamics.friction import smooth_sign, smooth_sign_change
from ..engine.algorithms.filters.low_pass import (
    motor_directions,
    presliding_direction_changes,
    presliding_directions,
)
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Drives, Model
from ..engine.model.coordinates import has_single_coordinate
from ..engine.model.drives import MAX_MEASUREMENT
from .motion.filtering import REST_SPEED_RATIO
from .motion.numerics import (
    BLOCK_SIZE,
    FOLDS,
    MAX_ERROR_RATIO,
    MIN_SAMPLES,
    MIN_SPEED,
    MIN_STANDARD_ERRORS,
    REGRESSION_SAMPLES,
    RIDGE,
    evenly_spaced,
    robust_deviation,
)
from .samples import Samples

TERMS = ("stribeck", "root_friction", "load_friction")
OPTIONAL_TERMS = (*TERMS, "friction_distance")
_SCALES = ("friction_velocity", "friction_distance", "stribeck_velocity")
_INITIAL_SPEEDS = (0.015, 0.04, 0.1, 0.25)  # relative to the largest speed; starts of searches
_MIN_RELATIVE_SPEED = (
    0.75 * REST_SPEED_RATIO
)  # relative to the largest speed; few samples are slower
_MAX_DISTANCE = 0.04  # rad, m; robots have 0.0002 to 0.003
_INITIAL_DISTANCES = (1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2, 0.1)  # s at the largest speed
_SEARCH_FACTORS = (1.5, 1.1)  # ratios of adjacent candidates, in two rounds of a search
_JOINT_FEATURES = ("armature", "damping", "offset", "friction")  # columns of a joint


class FrictionTerms(NamedTuple):
    """Friction of each joint, beyond damping and Coulomb friction."""

    chosen: np.ndarray  # (3, nv) of bool, for each of ``TERMS``
    width: Array  # (nv,) rad/s, m/s; friction grows up to this velocity; 0: a step
    is_smooth: np.ndarray  # (nv,) of bool; true: it grows as tanh(v / width), not as v / width
    distance: Array  # (nv,) rad, m; friction changes sign over it after a reversal; 0: at once
    stribeck: Array  # (nv,) rad/s, m/s; velocity at which Stribeck friction decreases, or infinite
    limits: Array  # (2, 3, nv) of width, distance and stribeck; equal if they are not estimated
    load: Array  # (10 njoints + nv,) bodies and armature that load the gears
    ambiguous: list[str]  # a text for each joint whose form of friction the data do not determine

    @classmethod
    def none(cls, model: Model) -> FrictionTerms:
        """Return friction without further terms."""
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

    def apply_to_drives(self, drives: Drives) -> Drives:
        """Return drives with these widths, shapes and distances of friction."""
        return drives.with_values(
            friction_velocity=self.width,
            has_smooth_friction=self.is_smooth,
            friction_distance=self.distance,
        )

    @property
    def has_stribeck(self) -> np.ndarray:
        """Mask of joints with Stribeck friction, (nv,) of bool; a view."""
        mask: np.ndarray = self.chosen[0]
        return mask

    @property
    def has_root(self) -> np.ndarray:
        """Mask of joints with friction that grows with the root of speed, (nv,) of bool; a view."""
        mask: np.ndarray = self.chosen[1]
        return mask

    @property
    def has_load(self) -> np.ndarray:
        """Mask of joints with load-dependent friction, (nv,) of bool; a view."""
        mask: np.ndarray = self.chosen[2]
        return mask

    @property
    def scales(self) -> Array:
        """Widths, distances and velocities of Stribeck friction, (3, nv)."""
        return np.stack([self.width, self.distance, self.stribeck])

    @property
    def is_free(self) -> np.ndarray:
        """Mask of the scales that are estimated, (3, nv) of bool."""
        mask: np.ndarray = self.limits[0] < self.limits[1]
        return mask

    def after_step(self, step: Array | float) -> FrictionTerms:
        """Return the terms after a step (m,) of the free scales' logarithms, within limits."""
        scales, free = self.scales, self.is_free
        scales[free] = np.clip(scales[free] * np.exp(step), *self.limits[:, free])
        return self._replace(width=scales[0], distance=scales[1], stribeck=scales[2])

    def scale_intervals(
        self, names: Sequence[str], half_widths: Array
    ) -> dict[str, tuple[float, float]]:
        """Return intervals of the free scales, given half widths (m,) of their logarithms.

        ``names`` (nv,) are of velocities. The keys are such as "friction_velocity(elbow)".
        """
        values = self.scales[self.is_free]
        indices = zip(*np.nonzero(self.is_free))
        with np.errstate(over="ignore"):  # the interval of an undetermined scale is infinite
            factors = np.exp(half_widths)
        intervals = zip(values / factors, values * factors)
        return {
            f"{_SCALES[n]}({names[k]})": (float(low), float(high))
            for (n, k), (low, high) in zip(indices, intervals)
            if n or self.width[k] > self.limits[0, 0, k]
        }

    def limit_step(self, step: Array) -> Array:
        """Return the part of a step (m,) that stays within the limits."""
        scales, limited_scales = (
            terms.scales[self.is_free] for terms in (self, self.after_step(step))
        )
        result: Array = np.log(limited_scales / scales)
        return result

    def direction(self, v: Array, samples: Samples) -> Array:
        """Return the direction of motor friction at velocities v (B, nv), from -1 to 1."""
        by_velocity: Array = smooth_sign(v, self.width, self.is_smooth)
        return self._select_direction(by_velocity, samples.direction)

    def direction_change(self, v: Array, distance_change: Array | None) -> Array:
        """Return derivatives of the direction by log widths and log distances, (B, nv).

        ``distance_change`` has the derivatives where friction changes sign over a distance.
        """
        return self._select_direction(
            smooth_sign_change(v, self.width, self.is_smooth), distance_change
        )

    def _select_direction(self, by_velocity: Array, by_distance: Array | None) -> Array:
        """Return ``by_distance`` where friction changes sign over a distance, else the other."""
        if by_distance is None:
            return by_velocity
        return np.where(self.distance > 0.0, by_distance, by_velocity)


def friction_directions(drives: Drives, samples: Samples) -> Array:
    """Return the direction of motor friction in consecutive samples, (B, nv)."""
    v, dt = drives.motor_velocity(samples.v), _time_steps(samples)
    result, previous = np.empty_like(v), None
    for first in range(0, len(v), BLOCK_SIZE):
        rows = slice(first, first + BLOCK_SIZE)
        result[rows], previous = motor_directions(drives, v[rows], dt[rows], previous)
    return result


def friction_direction_changes(drives: Drives, samples: Samples) -> tuple[Array, Array]:
    """Return directions of friction, and their derivatives by log distances, each (B, nv).

    Both are 0 for motors whose friction does not depend on distance.
    """
    v = drives.motor_velocity(samples.v)
    dt = _time_steps(samples)
    joints = drives.friction_distance > 0.0
    result, distance = np.zeros((2, *v.shape)), drives.friction_distance[joints]
    previous, change = np.sign(v[0, joints]), np.zeros(len(distance))
    for first in range(0, len(v), BLOCK_SIZE):
        rows = slice(first, first + BLOCK_SIZE)
        values = presliding_direction_changes(v[rows, joints], dt[rows], distance, previous, change)
        result[:, rows, joints] = np.where(v[rows, joints] == 0.0, 0.0, values)
        previous, change = values[0][-1], values[1][-1]
    return result[0], result[1]


def _time_steps(samples: Samples) -> Array:
    """Return the time since the previous sample, (B,); a large number after a gap."""
    dt = np.diff(samples.time, prepend=samples.time[:1])
    is_next = np.diff(samples.segment, prepend=samples.segment[:1]) == 0
    return np.where(is_next & (dt >= 0.0), dt, MAX_MEASUREMENT)


class _Form(NamedTuple):
    """Form of a joint's friction: its change of sign, and its terms beyond Coulomb friction."""

    width: float = 0.0  # rad/s, m/s
    is_smooth: bool = False
    distance: float = 0.0  # rad, m
    velocity: float = 0.0  # rad/s, m/s; where Stribeck friction decreases; 0: there is none
    has_root: bool = False
    has_load: bool = False

    @property
    def depends_on_velocity(self) -> bool:
        """True if friction depends on velocity beyond its change of sign."""
        return self.velocity > 0.0 or self.has_root

    @property
    def complexity(self) -> int:
        """Number of terms that depend on motion."""
        return any(self.transition) + self.depends_on_velocity + self.has_load

    @property
    def step_form(self) -> _Form:
        """The form with the same terms, but a sign that changes in a step."""
        return self.replace_transition(_Form())

    def replace_transition(self, source: _Form) -> _Form:
        """Return the form with the change of sign of another form."""
        return self._replace(
            width=source.width, is_smooth=source.is_smooth, distance=source.distance
        )

    @property
    def transition(self) -> tuple[float, bool, float]:
        """Width, shape and distance of the change of sign."""
        return self[:3]

    def __str__(self) -> str:
        transition = "friction_distance" if self.distance else "smooth_friction" * self.is_smooth
        parts = [
            transition or "friction_velocity" * (self.width > 0.0),
            "stribeck" * (self.velocity > 0.0),
            "root_friction" * self.has_root,
        ]
        return " and ".join(filter(None, parts)) or "a step"


def choose_terms(
    model: Model,
    samples: Samples,
    stribeck: Array,
    huber: float | None,
    allowed: Sequence[str] = OPTIONAL_TERMS,
) -> FrictionTerms:
    """Choose the friction terms of each joint that lower the error of held-out torques.

    A term is chosen if it lowers the squared error of its joint by more than 4 %; a step with a
    width, if it lowers the error by more than that scatters. ``stribeck`` (nv,) is finite where
    Stribeck friction is wanted, at this velocity. Errors above ``huber`` times their standard
    deviation count linearly, as in the estimate: a push would otherwise decide.
    """
    terms = FrictionTerms.none(model)
    is_specified = np.isfinite(stribeck)
    terms.has_stribeck[:] = is_specified
    terms.stribeck[is_specified] = stribeck[is_specified]
    selection = evenly_spaced(len(samples), REGRESSION_SAMPLES, samples.repeats)
    rows = np.arange(len(samples))[selection]
    subset = samples.take(rows[: len(rows) // FOLDS * FOLDS])
    # fewer samples do not determine terms, which then increase errors
    if len(subset) < 2 * MIN_SAMPLES or samples.contacts:
        return terms
    v = model.drives.motor_velocity(subset.v)
    joints = measured_joints(model, v, model.drives.to_motors(subset.tau))
    if not len(joints):
        return terms
    tau = model.drives.to_motors(exclude_subtracted_gravity(model, subset.q, subset.tau))
    gravity = model.drives.to_motors(subset.tau) - tau  # loads the gears, but is compensated
    max_speed = np.quantile(np.abs(v), 0.99, axis=0)
    counts = np.abs(v) > REST_SPEED_RATIO * max_speed
    if subset.repeats is not None:
        counts &= ~repeated_motors(model.drives, subset.repeats)
    bodies = 10 * model.njoints
    least_squares = _HeldOutLeastSquares(
        bodies, _torque_rows(model, subset, joints), tau[:, joints].T, counts[:, joints].T, huber
    )
    terms.load[:] = 0.0
    terms.load[:bodies] = least_squares.x[:bodies]
    terms.load[bodies + joints] = least_squares.x[bodies :: len(_JOINT_FEATURES)]
    motor_velocity = model.drives.motor_velocity(samples.v)
    dt = _time_steps(samples)
    rows = rows[: len(subset)]
    for n, k in enumerate(joints):
        search = _FormSearch(
            v[:, k],
            least_squares.weights[n].ravel(),
            partial(_transition_direction, motor_velocity[:, [k]], dt, rows),
            np.abs(least_squares.joint_load(n) + gravity[:, k]),
            partial(least_squares.held_out_errors, n, *least_squares.leave_out_sign(n)),
            allowed,
            float(stribeck[k]) if is_specified[k] else 0.0,
        )
        form, alternatives = search.find_form()
        terms.width[k], terms.is_smooth[k], terms.distance[k] = form.transition
        terms.chosen[:, k] = form.velocity > 0.0, form.has_root, form.has_load
        terms.stribeck[k] = form.velocity or np.inf
        terms.limits[:, :, k] = search.limits(form).T
        if alternatives:
            names = ", ".join(dict.fromkeys(map(str, alternatives)))
            terms.ambiguous.append(f"{model.velocity_names[k]} ({form}, or {names})")
        least_squares.replace_sign(n, np.column_stack(search.columns(form)))
    return terms


def _transition_direction(
    v: Array, dt: Array, rows: np.ndarray, width: float, is_smooth: bool, distance: float
) -> Array:
    """Return the direction of friction in rows of samples with v (B, 1) and dt (B,)."""
    if not distance:
        return smooth_sign(v[rows, 0], width, is_smooth)
    return presliding_directions(v, dt, np.array([distance]), np.sign(v[0]))[rows, 0]


class _FormSearch:
    """Search for the form of a joint's friction with the least error of held-out torques.

    Velocities ``v``, the weights of the samples and the load are (B,), as is the ``direction`` for
    a width, shape and distance. ``errors`` computes the errors with choices of columns, and the
    smallest coefficients of the last column. ``stribeck`` is the specified velocity, or 0.
    """

    def __init__(
        self,
        v: Array,
        weights: Array,
        direction: Callable[[float, bool, float], Array],
        load: Array,
        errors: Callable[[Array], tuple[Array, Array]],
        allowed: Sequence[str],
        stribeck: float,
    ) -> None:
        self._v, self._load, self._errors = v, load, errors
        self._directions = cache(lambda *transition: direction(*transition) * weights)
        self._stribeck, self._allowed = stribeck, allowed
        max_speed = float(np.quantile(np.abs(v), 0.99))
        self._speeds = _MIN_RELATIVE_SPEED * max_speed, max_speed
        self._ramps = [_Form(share * max_speed) for share in _INITIAL_SPEEDS]
        self._smooth_steps = [ramp._replace(is_smooth=True) for ramp in self._ramps]
        self._distances = [
            _Form(distance=share * max_speed)
            for share in (_INITIAL_DISTANCES if "friction_distance" in allowed else ())
            if share * max_speed < _MAX_DISTANCE
        ]
        self._results: dict[_Form, tuple[Array, float]] = {}  # errors and smallest last coefficient
        self._terms: list[dict[str, Any]] = []
        if "root_friction" in allowed and not stribeck:
            self._terms.append({"has_root": True})
        if "stribeck" in allowed and not stribeck:
            self._terms += [{"velocity": share * max_speed} for share in _INITIAL_SPEEDS]

    def limits(self, form: _Form) -> Array:
        """Return limits of width, distance and velocity, (3, 2); equal if not estimated."""
        fixed = self._stribeck, self._stribeck
        limits = self._speeds, (0.0, _MAX_DISTANCE), fixed if self._stribeck else self._speeds
        scales = form.width, form.distance, form.velocity
        return np.array([limit if scale else (0.0, 0.0) for limit, scale in zip(limits, scales)])

    def columns(self, form: _Form) -> list[Array]:
        """Return the weighted columns of the terms of a form, (B,) each."""
        direction = self._directions(*form.transition)
        columns = [direction]
        if form.velocity:
            columns.append(direction * np.exp(-((self._v / form.velocity) ** 2)))
        if form.has_root:
            columns.append(direction * np.sqrt(np.abs(self._v)))
        if form.has_load:
            columns.append(direction * self._load)
        return columns

    def _form_errors(self, forms: Sequence[_Form]) -> tuple[Array, Array]:
        """Return the errors of forms in each stretch, (m, stretches), and last coefficients (m,).

        All forms have the same number of columns.
        """
        if new_forms := [form for form in dict.fromkeys(forms) if form not in self._results]:
            columns = np.array([self.columns(form) for form in new_forms])
            self._results |= zip(new_forms, zip(*self._errors(columns.swapaxes(1, 2))))
        errors, coefficients = zip(*(self._results[form] for form in forms))
        return np.array(errors), np.array(coefficients)

    def _best_form(self, forms: Sequence[_Form]) -> tuple[_Form, Array]:
        """Return the form with the least error, and this error, (stretches,)."""
        error = self._form_errors(forms)[0]
        n = int(error.sum(axis=1).argmin())
        return forms[n], error[n]

    def _refine_scale(self, form: _Form, name: str) -> _Form:
        """Minimize the error over a width, distance or velocity, by parabolic interpolation."""
        value: float = getattr(form, name)
        for ratio in _SEARCH_FACTORS if value else ():
            candidates = value * ratio ** np.arange(-2.0, 3.0)
            forms = [_replace_scale(form, name, candidate) for candidate in candidates]
            error = self._form_errors(forms)[0].sum(axis=1)
            n = min(max(int(error.argmin()), 1), len(candidates) - 2)
            lower, center, upper = error[n - 1 : n + 2]
            curvature = max(lower - 2.0 * center + upper, 1e-12 * center)
            value = candidates[n] * ratio ** np.clip(0.5 * (lower - upper) / curvature, -1.0, 1.0)
        return _replace_scale(form, name, value)

    def _transition_candidates(self, form: _Form) -> list[_Form]:
        """Return the form with a step, and with the best transition of each kind that errs less."""
        kinds = [
            [form.replace_transition(transition) for transition in transitions]
            for transitions in (self._smooth_steps, self._ramps, self._distances)
            if transitions
        ]
        candidates, (low, high) = [form.step_form], self._speeds
        errors = iter(self._form_errors([*candidates, *itertools.chain(*kinds)])[0].sum(axis=1))
        step_error = next(errors)
        for kind in kinds:
            best, error = min(zip(kind, errors), key=lambda pair: pair[1])
            if error >= step_error:
                continue
            best = self._refine_scale(best, "distance" if best.distance else "width")
            if best.distance < _MAX_DISTANCE and (not best.width or low < best.width < high):
                candidates.append(best)
        return candidates

    def _choose_transition(self, form: _Form) -> tuple[_Form, Array]:
        """Return the form with the best change of sign, and its error, (stretches,)."""
        candidates = self._transition_candidates(form)
        errors = self._form_errors(candidates)[0]
        return min(
            (
                (candidate, error)
                for candidate, error in zip(candidates, errors)
                if not any(candidate.transition)
                or (_is_better if candidate.distance else _is_significantly_better)(
                    error, errors[0]
                )
            ),
            key=lambda pair: pair[1].sum(),
        )

    def _refine_form(self, form: _Form) -> tuple[_Form, Array]:
        """Return the form with the best velocity and change of sign, and its error."""
        form, error = self._choose_transition(self._refine_velocity(form))
        return (
            self._best_form([form, self._refine_velocity(form)])
            if any(form.transition)
            else (form, error)
        )

    def _refine_velocity(self, form: _Form) -> _Form:
        """Return the form with the best velocity of Stribeck friction."""
        if not form.velocity or self._stribeck:
            return form
        refined = self._refine_scale(form, "velocity")
        return refined._replace(velocity=float(np.clip(refined.velocity, *self._speeds)))

    def find_form(self) -> tuple[_Form, list[_Form]]:
        """Return the form with the least error, and forms that fit the data as well."""
        form, error = self._choose_transition(_Form(velocity=self._stribeck))
        while (extended := self._add_term(form, error)) is not None:
            form, error = extended
        return form, self._ambiguous_forms(form, error)

    def _add_term(self, form: _Form, error: Array) -> tuple[_Form, Array] | None:
        """Return the form with the term that lowers the error most, and its error, or None."""
        candidates = []
        if "load_friction" in self._allowed and not form.has_load:
            candidates.append(form._replace(has_load=True))
        terms = [] if form.depends_on_velocity else self._terms
        candidates += [
            base_form._replace(**term)
            for base_form in dict.fromkeys([form, form.step_form])
            for term in terms
        ]
        if not candidates:
            return None
        errors, coefficients = self._form_errors(candidates)
        if terms and (errors.sum(axis=1) < error.sum()).any():
            # a wide step resembles these terms
            wide_forms = [
                form.replace_transition(transition)._replace(**term)
                for transition in self._smooth_steps
                for term in terms
            ]
            candidates += wide_forms
            wide_results = self._form_errors(wide_forms)
            errors = np.concatenate([errors, wide_results[0]])
            coefficients = np.concatenate([coefficients, wide_results[1]])
        step_error = self._form_errors([form.step_form])[0][0] if any(form.transition) else error
        better_candidates = [
            (candidate_error.sum(), candidate)
            for candidate_error, coefficient, candidate in zip(errors, coefficients, candidates)
            if _is_better(
                candidate_error, step_error if candidate.complexity == form.complexity else error
            )
            and (
                candidate.complexity > form.complexity
                or _is_significantly_better(candidate_error, error)
            )
            and (candidate.has_load == form.has_load or coefficient > 0.0)
        ]
        if not better_candidates:
            return None
        best = min(better_candidates)[1]
        if best.has_load and not form.has_load:
            return self._choose_transition(best)
        step_forms = [
            step_form
            for step_form in candidates
            if step_form.depends_on_velocity and not any(step_form.transition)
        ]
        kinds = (
            [step_form for step_form in step_forms if step_form.has_root == is_root]
            for is_root in (False, True)
        )
        starts = best, *(self._best_form(kind)[0] for kind in kinds if kind)
        return min(map(self._refine_form, starts), key=lambda pair: pair[1].sum())

    def _ambiguous_forms(self, form: _Form, error: Array) -> list[_Form]:
        """Return forms with as many terms and no larger error, unless the form is a step alone."""
        plain_form = _Form(has_load=form.has_load)
        if form == plain_form:
            return []
        if not _is_better(error, self._form_errors([form.step_form])[0][0]):
            form = form.step_form  # its change of sign matters little
        if self._stribeck or not _is_better(error, self._form_errors([plain_form])[0][0]):
            return []
        alternatives, bases = [], [plain_form]
        if "root_friction" in self._allowed:
            bases.append(plain_form._replace(has_root=True))
        if "stribeck" in self._allowed:
            forms = [plain_form._replace(**term) for term in self._terms if "velocity" in term]
            bases.append(self._refine_velocity(self._best_form(forms)[0]))
        for base in bases:
            alternatives += (
                self._transition_candidates(base) if form.complexity > base.complexity else [base]
            )
        return [
            alternative
            for alternative in alternatives
            if alternative.complexity == form.complexity
            and str(alternative) != str(form)
            and not _is_significantly_better(error, self._form_errors([alternative])[0][0])
        ]


def _replace_scale(form: _Form, name: str, value: float) -> _Form:
    """Return the form with another width, distance or velocity."""
    values: dict[str, Any] = {name: float(value)}
    return form._replace(**values)


def _is_better(error: Array, reference: Array) -> bool:
    """Return True if an error (stretches,) is smaller than a reference by more than noise."""
    return bool(error.sum() < MAX_ERROR_RATIO**2 * reference.sum())


def _is_significantly_better(error: Array, reference: Array) -> bool:
    """Return True if an error is smaller by more than the difference scatters over stretches."""
    decrease = reference - error
    scatter = decrease.std(ddof=1) / np.sqrt(len(decrease))
    return bool(decrease.mean() > MIN_STANDARD_ERRORS * scatter)


class _HeldOutLeastSquares:
    """Least squares of the torques of all joints, with one stretch held out at a time.

    ``rows`` has, for each joint, a slice of the parameters of bodies that it moves, and the columns
    (B, p) of these parameters and of its own. ``torque`` and ``counts`` are (joints, B), where B is
    a multiple of the number of stretches. Rows and torques are multiplied by the ``weights`` of
    their samples: 0 for samples that do not count, less than 1 for outliers (Huber 1964). Each
    joint is weighted by its error. ``x`` is the estimate from all stretches: parameters of bodies,
    then of each joint.
    """

    def __init__(
        self,
        bodies: int,
        rows: Sequence[tuple[slice, Array]],
        torque: Array,
        counts: np.ndarray,
        huber: float | None,
    ) -> None:
        self._body_columns = [bodies_of_joint for bodies_of_joint, _ in rows]
        self._columns = [
            np.r_[
                bodies_of_joint, bodies + len(_JOINT_FEATURES) * n + np.arange(len(_JOINT_FEATURES))
            ]
            for n, bodies_of_joint in enumerate(self._body_columns)
        ]
        self.weights = _reshape_to_stretches(counts.astype(float))
        self._torque = _reshape_to_stretches(torque * counts)
        self._rows = _reshape_to_stretches(
            columns * count[:, None] for (_, columns), count in zip(rows, counts)
        )
        self._sums = [self._normal_equations(n) for n in range(len(rows))]
        self._size: Array = np.std(torque * counts, axis=1)
        for _ in range(2):  # weights and estimate depend on each other
            self._estimate_parameters()
            for n in range(len(rows)):
                if huber is not None:
                    self._weigh_errors(n, huber)
                size = np.sqrt(np.mean(self._errors(n) ** 2))
                self._size[n] = max(size, 1e-9 * self._size[n])
        self._solve_without_stretches()

    def _errors(self, n: int) -> Array:
        """Return the weighted errors of a joint with the estimate from all stretches."""
        errors: Array = self._torque[n] - self._rows[n] @ self.x[self._columns[n]]
        return errors

    def _weigh_errors(self, n: int, huber: float) -> None:
        """Multiply the rows and torques of a joint by weights that its errors determine."""
        old_weights = self.weights[n]
        counted = old_weights > 0.0
        errors = self._errors(n)[counted] / old_weights[counted]
        limit = max(huber * float(robust_deviation(errors)), 1e-9 * self._size[n])
        weights = np.sqrt(limit / np.maximum(np.abs(errors), limit))
        if (weights == old_weights[counted]).all():
            return
        factors = np.zeros_like(old_weights)
        factors[counted] = weights / old_weights[counted]
        self.weights[n] = old_weights * factors
        self._torque[n] = self._torque[n] * factors
        self._rows[n] = self._rows[n] * factors[..., None]
        self._sums[n] = self._normal_equations(n)

    def _normal_equations(self, n: int) -> tuple[Array, Array]:
        """Return the normal equations of a joint in each stretch."""
        transposed = self._rows[n].swapaxes(1, 2)
        return transposed @ self._rows[n], (transposed @ self._torque[n][..., None])[..., 0]

    def _estimate_parameters(self) -> tuple[Array, Array]:
        """Return the normal equations of all joints in each stretch; set the estimate ``x``."""
        count = 1 + max(int(columns[-1]) for columns in self._columns)
        H, g = np.zeros((FOLDS, count, count)), np.zeros((FOLDS, count))
        for bodies, columns, (squares, products), size in zip(
            self._body_columns, self._columns, self._sums, self._size
        ):
            squares, products, n = squares / size**2, products / size**2, _slice_length(bodies)
            joint = columns[n:]
            H[:, bodies, bodies] += squares[:, :n, :n]
            H[:, bodies, joint] = squares[:, :n, n:]
            H[:, joint, bodies] = squares[:, n:, :n]
            H[:, joint[:, None], joint] = squares[:, n:, n:]
            g[:, bodies] += products[:, :n]
            g[:, joint] = products[:, n:]
        self.x = _invert_with_ridge(H.sum(axis=0)) @ g.sum(axis=0)
        return H, g

    def _solve_without_stretches(self) -> None:
        """Solve the normal equations without each stretch."""
        H, g = self._estimate_parameters()
        self._training_g = g.sum(axis=0) - g
        self._training_inverse = _invert_with_ridge(H.sum(axis=0) - H)

    def _sign_index(self, n: int) -> int:
        """Return the index of the sign of the velocity among the columns of a joint."""
        return _slice_length(self._body_columns[n]) + len(_JOINT_FEATURES) - 1

    def joint_load(self, n: int) -> Array:
        """Return the torque of bodies and armature of a joint, (B,); 0 in rows without weight."""
        columns, weights = slice(_slice_length(self._body_columns[n]) + 1), self.weights[n]
        torque: Array = self._rows[n][..., columns] @ self.x[self._columns[n][columns]]
        return np.divide(torque, weights, out=np.zeros_like(torque), where=weights > 0.0).ravel()

    def leave_out_sign(self, n: int) -> tuple[Array, Array]:
        """Return covariances (stretches, p, p) and estimates (stretches, p, 1) of a joint.

        Each is without one stretch, and without the column of the sign of the joint's velocity.
        """
        columns = self._columns[n]
        sign = columns[self._sign_index(n)]
        rows = self._training_inverse[:, sign, None]
        inverse = self._training_inverse[:, columns] - rows[..., columns].swapaxes(1, 2) * (
            rows / self._training_inverse[:, sign, sign, None, None]
        )
        return inverse[..., columns], inverse @ self._training_g[..., None]

    def held_out_errors(
        self, n: int, inverse: Array, z: Array, columns: Array
    ) -> tuple[Array, Array]:
        """Return squared errors of a joint, (m, stretches), predicted from the other stretches.

        m choices of weighted columns (m, B, c) replace the sign of the joint's velocity;
        ``inverse`` and ``z`` are from ``leave_out_sign``. Also returns the smallest coefficients of
        the last columns, (m,). Partial regression (Frisch and Waugh 1933) needs only one solution
        of the normal equations of all joints.
        """
        A, y, size = self._rows[n], self._torque[n][..., None], self._size[n]
        C = np.ascontiguousarray(columns.reshape(len(columns), *y.shape[:2], -1).swapaxes(0, 1))
        (stretches, m, B, c), transposed = C.shape, C.swapaxes(2, 3)
        rows = transposed.reshape(stretches, m * c, B)
        CC, Cy, CA = (
            (sums.sum(axis=0) - sums) / size**2
            for sums in (transposed @ C, (rows @ y).reshape(stretches, m, c, 1), rows @ A)
        )

        def split_choices(columns: Array) -> Array:
            """Reshape columns (stretches, p, m c) to (stretches, m, p, c)."""
            return columns.reshape(stretches, -1, m, c).swapaxes(1, 2)

        M, CA_choices = split_choices(inverse @ CA.swapaxes(1, 2)), CA.reshape(stretches, m, c, -1)
        x = _invert_with_ridge(CC - CA_choices @ M) @ (Cy - CA_choices @ z[:, None])
        parameters = z - (M @ x)[..., 0].swapaxes(1, 2)
        residuals = y - A @ parameters - (C @ x)[..., 0].swapaxes(1, 2)
        return (residuals**2).sum(axis=1).T / size**2, x[..., -1, 0].min(axis=0)

    def replace_sign(self, n: int, columns: Array) -> None:
        """Replace the sign of a joint's velocity by columns (B, c), and solve again."""
        sign = self._sign_index(n)
        columns = columns.reshape(*self._torque[n].shape, -1)
        if (columns[..., 0] == self._rows[n][..., sign]).all() and columns.shape[-1] == 1:
            return
        self._rows[n] = np.concatenate([self._rows[n], columns[..., 1:]], axis=2)
        self._rows[n][..., sign] = columns[..., 0]
        added = len(self.x) + np.arange(columns.shape[-1] - 1)
        self._columns[n] = np.append(self._columns[n], added)
        self._sums[n] = self._normal_equations(n)
        self._solve_without_stretches()


def _reshape_to_stretches(values: Iterable[Array]) -> list[Array]:
    """Reshape samples (B, ...) of each joint to (stretches, B / stretches, ...)."""
    return [array.reshape(FOLDS, -1, *array.shape[1:]) for array in values]


def _invert_with_ridge(H: Array) -> Array:
    """Return the inverse of normal equations (..., p, p), with a ridge for rank deficiency."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(H, axis1=-2, axis2=-1), 1e-300))
    scale = scale[..., None] * scale[..., None, :]
    return np.asarray(np.linalg.inv(H * scale + RIDGE * np.eye(H.shape[-1])) * scale)


def _slice_length(interval: slice) -> int:
    """Return the number of elements of a slice."""
    return int(interval.stop - interval.start)


def _torque_rows(model: Model, samples: Samples, joints: np.ndarray) -> list[tuple[slice, Array]]:
    """Return, for each motor, the parameters of bodies that it moves, and its columns (B, p)."""
    W = torque_regressor(model, Data(model), samples.q, samples.v, samples.a)
    W = model.drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    v, a = model.drives.motor_velocity(samples.v), model.drives.motor_velocity(samples.a)
    joint_columns, rows = np.stack([a, v, np.ones_like(v), np.sign(v)], axis=2), []
    for k in joints:
        nonzero = np.flatnonzero(W[:, k].any(axis=0))
        bodies = slice(int(nonzero[0]), int(nonzero[-1]) + 1) if nonzero.size else slice(0, 0)
        rows.append((bodies, np.hstack([W[:, k, bodies], joint_columns[:, k]])))
    return rows


def measured_joints(model: Model, v: Array, tau: Array) -> np.ndarray:
    """Return the velocity indices of joints that move and whose torque is measured."""
    return np.flatnonzero(
        has_single_coordinate(model) & (np.ptp(tau, axis=0) > 0.0) & (np.ptp(v, axis=0) > MIN_SPEED)
    )
