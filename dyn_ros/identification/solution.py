# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An estimate of a robot's parameters, by least squares and as physical bodies."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..drives.efforts import rescaled, without_gravity
from ..drives.units import collapsed_masses, unit_warnings
from ..engine.algorithms import rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.kernel.validation import one_each, require_model
from ..engine.model import Model
from ..engine.model.coordinates import is_actuated, joint_slices
from .base_parameters import FEATURES, Unknowns, structure, undetermined
from .friction_terms import TERMS, FrictionTerms, choose_terms
from .identify_options import IdentifyOptions
from .least_squares import (
    Fit,
    Problem,
    joint_results,
    median_deviation,
    sum_squares,
    unexplained,
)
from .motion.filtering import of_each
from .motion.numerics import MIN_SPEED, MIN_TRAVEL, NOISE_LIMIT, REGRESSION, STATISTICS, evenly
from .normal_equations import Equations, Stretches, add_sums, conditions_of, resolution
from .physical import Reference
from .result import BaseEstimate, Identification, JointResult
from .samples import Samples
from .torque_equations import Progress, TorqueEquations

_HELD = 3  # stretches of consecutive samples that are held out
_HELD_CONTACTS = 10  # the same with contacts, all combinations of which should be held out
_OTHERWISE = 0.2  # of its load: a change with which a gear's friction is not determined
_MANY = 0.02  # of the torques: more outliers than noise has
MIN_LOG_STEP = 0.02  # logarithmic step of a scale of friction after which another changes nothing


class Solution(NamedTuple):
    """An estimate, and what it was computed from."""

    problem: Problem
    samples: Samples
    equations: TorqueEquations  # of all samples
    fit: Fit
    held_out: tuple[slice, ...]  # samples that were held out of a first estimate
    joints: tuple[JointResult, ...]  # with errors on the held-out samples
    warnings: tuple[str, ...]  # except about outliers
    constants: Array  # (nv,) of the motors

    def identification(
        self, spread: Array, count: int, size: int, seconds: float
    ) -> Identification:
        """The result, with the covariance that ``stretch_covariance`` has from ``count`` blocks."""
        problem, fit, conditions = self.problem, self.fit, self.equations.conditions
        unknowns, warnings = problem.unknowns, self.warnings
        if fit.outliers > _MANY:
            warnings += (
                f"{100.0 * fit.outliers:.1f} % of the torques differ from the model by "
                f"more than {problem.huber:g} times the noise; the model lacks "
                "something, or something touched the robot",
            )
        if fit.loose:
            warnings += (
                f"the bodies of {', '.join(fit.loose)} are outside the shapes of their "
                "links; the shapes are ignored, because the efforts contradict them: "
                "if no other warning says why, the description lacks something that is "
                "attached there, or meshes are wrong",
            )
        some = self.samples.take(evenly(len(self.samples), REGRESSION))
        warnings += tuple(
            collapsed_masses(
                unknowns.model,
                fit.parameters[: unknowns.bodies].reshape(-1, 10),
                some.q,
                some.v,
                some.a,
                some.tau,
            )
        )
        quantile, b = float(stdtrit(max(count - 1, 1), 0.975)), len(problem.base)
        base = _base_estimate(problem, fit, spread[:b, :b], quantile)
        half = quantile * np.sqrt(np.maximum(np.diag(spread)[b:], 0.0))
        parameters = _without_rounding(unknowns, fit.parameters, some)
        own = parameters[unknowns.bodies :].reshape(len(unknowns.features), -1)
        return Identification(
            model=unknowns.model,
            identified=_identified(unknowns, self._terms(), parameters, self.constants),
            offset=own[3],
            stribeck=own[4],
            stribeck_velocity=conditions.terms.stribeck,
            joints=self.joints,
            base=base,
            friction_intervals=conditions.terms.intervals(unknowns.model.velocity_names, half),
            samples=self.samples,
            size=size,
            held_out=self.held_out,
            contact_dimension=conditions.contact_dimension,
            undetermined=undetermined(unknowns, problem.base, base, self.samples),
            warnings=warnings,
            seconds=seconds,
        )

    def _terms(self) -> FrictionTerms:
        """Terms of friction that is small at rest, where noise decides the sign of velocities."""
        conditions, noise = self.equations.conditions, self.samples.motion_noise
        if noise is None or "friction" not in self.problem.unknowns.chosen:
            return conditions.terms
        coupling, squares = self.problem.unknowns.model.drives.coupling, noise[1] ** 2
        slow = NOISE_LIMIT * np.sqrt(squares if coupling is None else coupling**2 @ squares)
        terms = conditions.terms
        is_step = terms.width <= terms.limits[0, 0]
        width = np.where(is_step, 0.0, terms.width)
        return terms._replace(
            width=np.maximum(width, np.minimum(slow, conditions.threshold)),
            is_smooth=terms.is_smooth & ~is_step,
        )


def solve(
    model: Model,
    samples: Samples | Sequence[Samples],
    options: IdentifyOptions,
    progress: Progress,
) -> Solution:
    """Estimate the parameters, see ``identify``."""
    samples = _joined(model, samples)
    constants = np.ones(model.nv)
    if options.motor_constants is not None:
        constants = one_each("motor_constants", options.motor_constants, model.nv)
        if not constants.all():
            raise ValueError(
                f"motor_constants: expected numbers other than 0, got {constants.tolist()}"
            )
        samples = dataclasses.replace(
            samples, tau=rescaled(model, samples.q, samples.tau, constants)
        )
    chosen = FEATURES[not options.armature : 1 + 3 * options.friction]
    given = None if options.noise is None else one_each("noise", options.noise, model.nv, above=0.0)
    velocity = (
        np.full(model.nv, np.inf)
        if options.stribeck is None
        else one_each("stribeck", options.stribeck, model.nv, least=MIN_SPEED)
    )
    training, held = blocks(
        len(samples), options.held_out, options.seed, _HELD_CONTACTS if samples.contacts else _HELD
    )

    def problem_with(terms: FrictionTerms) -> tuple[Problem, TorqueEquations]:
        unknowns = Unknowns(model, chosen, bool(samples.contacts), dict(zip(TERMS, terms.chosen)))
        _require_samples(unknowns, samples)
        base = structure(unknowns)
        problem = Problem(
            unknowns,
            base,
            Reference(unknowns, base, samples, options.shapes),
            given,
            options.huber,
            options.regularization,
            resolution(model.drives.to_motors(without_gravity(model, samples.q, samples.tau))),
        )
        return problem, TorqueEquations(
            unknowns,
            samples,
            _rows(training),
            conditions_of(model, samples, terms, options.contact_dimension),
            options.threads,
            progress,
        )

    terms = FrictionTerms.none(model)
    if options.friction or options.stribeck is not None:
        terms = choose_terms(model, samples, velocity, options.huber, options.allowed_terms)
    _require_support(model, samples)
    problem, some, sums, fitted = _fitted(problem_with, terms)
    joints = _compared(problem, some, _rows(held), fitted.parameters)
    warnings = [
        *effort_unit_warnings(model, samples),
        *samples.warnings,
        *_still(model, samples),
        *(
            f"the body of joint {name!r} is not physical in the description; the estimate is "
            "regularized towards one that is"
            for name in problem.reference.changed
        ),
        *unexplained(model, some, joints, fitted.parameters, given),
        *_unclear(terms),
    ]
    changes = terms.chosen[2].any() or terms.free.any()  # with estimates
    if not changes:
        sums = add_sums(sums, some.of(_rows(held)).sums(0.4, 0.7))
    some = some.of(np.arange(len(samples), dtype=np.int32))
    if terms.free.any():
        fitted = _with_friction(problem, some, fitted)
    if changes:
        sums = some.sums(0.4, 0.7)
    fitted = problem.fit(some, sums, fitted.estimate, fitted)
    return Solution(problem, samples, some, fitted, tuple(held), joints, tuple(warnings), constants)


def _fitted(
    problem_with: Callable[[FrictionTerms], tuple[Problem, TorqueEquations]], terms: FrictionTerms
) -> tuple[Problem, TorqueEquations, Equations, Fit]:
    """A fit of some samples, their sums; without terms of friction whose load is not known."""
    while True:
        problem, some = problem_with(terms)
        first, sums = problem.first_estimate(some)
        if terms.chosen[2].any():
            some.loaded_by(first.parameters)
            first = problem.estimate(some.sums(0.3, 0.3), problem.noise)
            some.loaded_by(first.parameters)
            sums = some.sums(0.3, 0.4)
        fitted = problem.fit(some, sums, first, None)
        # physical bodies may load a gear otherwise, if an offset can replace gravity
        unknown = terms.chosen[2] & (some.loaded_by(fitted.parameters) > _OTHERWISE)
        if not unknown.any():
            return problem, some, sums, fitted
        terms.chosen[2, unknown] = False


def _with_friction(problem: Problem, some: TorqueEquations, first: Fit) -> Fit:
    """The fit after a step of Gauss and Newton in the scales of friction that are free."""
    parameters, edges = first.estimate.parameters.copy(), np.array([0, some.size])
    scores = problem.scores(some, parameters, first, edges)
    H = problem.stretch_equations(some, parameters, first, edges)
    change, step = problem.newton_step(Stretches(edges[:1], scores, H), some.conditions.terms)
    parameters[problem.base.independent] += change
    some.change_friction(step)
    return first._replace(estimate=first.estimate._replace(parameters=parameters))


def blocks(
    count: int, held_out: float, seed: int, stretches: int = _HELD
) -> tuple[list[slice], list[slice]]:
    """Divide samples into stretches of consecutive ones: those to use, and those to hold out.

    Few are held out: short ones between samples that are used would resemble these.
    """
    edges = np.linspace(0, count, max(3, round(stretches / held_out)) + 1).astype(int)
    every = [slice(int(start), int(stop)) for start, stop in itertools.pairwise(edges)]
    order = np.random.default_rng(seed).permutation(len(every))
    held = set(order[: min(max(1, round(held_out * len(every))), len(every) - 1)].tolist())
    return (
        [rows for n, rows in enumerate(every) if n not in held],
        [rows for n, rows in enumerate(every) if n in held],
    )


def _rows(some: Sequence[slice]) -> np.ndarray:
    return np.concatenate([np.arange(block.start, block.stop, dtype=np.int32) for block in some])


# --- input


def _joined(model: Model, samples: Samples | Sequence[Samples]) -> Samples:
    require_model(model)
    if not isinstance(samples, Samples):
        samples = Samples.concatenate(samples)
    if samples.q.shape[1:] != (model.nq,) or samples.v.shape[1:] != (model.nv,):
        raise ValueError(
            f"samples: of a robot with nq = {samples.q.shape[1]}, nv = "
            f"{samples.v.shape[1]}, but {model!r} has nq = {model.nq}, nv = "
            f"{model.nv}; create the samples with this model"
        )
    return samples


def _require_samples(unknowns: Unknowns, samples: Samples) -> None:
    needed = max(100, 10 * int(unknowns.active.sum()) // max(unknowns.model.nv, 1))
    if len(samples) < needed:
        period = np.median(np.diff(samples.time)) if len(samples) > 1 else 0.0
        raise ValueError(
            f"samples: expected at least {needed} to identify {unknowns.model.name!r},"
            f" got {len(samples)} that the filter leaves; record for at least "
            f"{period * (needed - len(samples)):.2g} s longer"
        )
    if max(samples.v.max(), -samples.v.min()) < MIN_SPEED:
        raise ValueError("samples: no joint moves; record a motion, such as one of dyn_ros.excite")


def effort_unit_warnings(model: Model, samples: Samples) -> list[str]:
    """Warnings of efforts that cannot be torques."""
    if samples.contacts or samples.f_ext is not None or not is_actuated(model).all():
        return []
    some = samples.take(evenly(len(samples), REGRESSION))
    return unit_warnings(model, some.q, some.v, some.a, some.tau)


def _still(model: Model, samples: Samples) -> list[str]:
    """Warnings of joints that do not move in any recording."""
    moves = np.max([np.ptp(q, axis=0) for q in of_each(samples.recording, samples.q)], axis=0)
    return [
        f"joint {joint.name!r} moves by less than {MIN_TRAVEL:g} rad or m in all recordings, so "
        "its friction stays unknown, as does what only its motion shows"
        for joint in joint_slices(model)
        if moves[joint.q].max() < MIN_TRAVEL
    ]


def _unclear(terms: FrictionTerms) -> list[str]:
    """A warning of joints with a form of friction that the samples cannot tell from another."""
    if not terms.alike:
        return []
    return [
        "the torques do not tell some forms of friction apart, and intervals hold only for the "
        f"first form: {'; '.join(terms.alike)}; record slow motion and reversals"
    ]


def _require_support(model: Model, samples: Samples) -> None:
    """Reject a floating base that stands although no contact or force carries it."""
    base = ~is_actuated(model)
    if (
        samples.contacts
        or samples.f_ext is not None
        or samples.tau[:, base].any()
        or (not base.any())
    ):
        return
    some = samples.take(evenly(len(samples), REGRESSION))
    data, still = Data(model), np.zeros_like(some.v)
    needed, weight = (
        np.sqrt((torque[:, base] ** 2).sum(axis=1).mean())
        for torque in (
            rnea(model, data, some.q, some.v, some.a).copy(),
            rnea(model, data, some.q, still, still),
        )
    )
    if needed > 0.5 * weight > 0.0:
        raise ValueError(
            "samples: the efforts of the base are 0, but its motion requires "
            f"{needed:.3g} N by the model, so something carries the robot; state "
            "which frames are in contact (columns in_contact.FRAME of a table), or "
            "pass measured forces as f_ext"
        )


# --- result


def _compared(
    problem: Problem, equations: TorqueEquations, rows: np.ndarray, parameters: Array
) -> tuple[JointResult, ...]:
    """How well the models before and after explain samples that were held out."""
    model, described = problem.unknowns.model, problem.reference.described
    squares, differences = np.zeros((2, 3, model.nv)), []
    for torques in equations.torques_and_residuals(rows, (described, parameters)):
        squares += sum_squares(torques)
        last = max(3, STATISTICS * len(torques[2]) // len(rows))
        differences.append(np.diff(torques[2][:last], 2, axis=0))
    others = equations.rows[: max(0, STATISTICS - len(rows))]  # a short stretch says little
    for torques in equations.torques_and_residuals(others, (described, parameters)):
        differences.append(np.diff(torques[2], 2, axis=0))
    # of white noise they are larger than it; jumps of friction are too rare to count
    noise = median_deviation(np.concatenate(differences)) / np.sqrt(6.0)
    return joint_results(model, squares, np.maximum(noise, problem.least))


def _base_estimate(problem: Problem, fitted: Fit, spread: Array, quantile: float) -> BaseEstimate:
    """Values, intervals, and how well each is determined."""
    base, value, determined = problem.base, fitted.estimate.value, fitted.estimate.determined
    deviation = np.where(determined, np.sqrt(np.maximum(np.diag(spread), 0.0)), np.inf)
    # The physical estimate errs no more than least squares do: the truth is physical, too, and what
    # the recording determines depends little on the description
    half, after = quantile * deviation, base.matrix @ fitted.parameters
    size = problem.reference.typical.copy()
    of_joint = base.independent >= problem.unknowns.bodies
    size[of_joint] = np.fmax(size, np.abs(value))[of_joint]
    return BaseEstimate(
        names=base.names,
        units=base.units,
        matrix=base.matrix,
        before=base.matrix @ problem.reference.described,
        after=after,
        estimate=value,
        deviation=deviation,
        lower=after - half,
        upper=after + half,
        excitation=tuple(
            "well" if x < 0.1 else "weakly" if x < 1.0 else "not" for x in deviation / size
        ),
    )


def _without_rounding(unknowns: Unknowns, parameters: Array, samples: Samples) -> Array:
    """Return the parameters, with zeros for numbers that are rounding errors."""
    negligible_torque = 1e-6  # relative to the RMS torque of a motor
    body_rounding = 1e-14  # relative to the size of a body
    parameters, drives = parameters.copy(), unknowns.model.drives
    bodies = parameters[: unknowns.bodies].reshape(-1, 10)
    moment = bodies[:, [4, 6, 9]].sum(axis=1)
    size = np.stack([bodies[:, 0], np.sqrt(bodies[:, 0] * moment), moment], axis=1)
    bodies[np.abs(bodies) < body_rounding * np.repeat(size, [1, 3, 6], axis=1)] = 0.0
    own = parameters[unknowns.bodies :].reshape(len(unknowns.features), -1)
    torque, a, v = (
        np.sqrt(np.mean(x**2, axis=0))
        for x in (
            drives.to_motors(samples.tau),
            *map(drives.motor_velocity, (samples.a, samples.v)),
        )
    )
    factors = np.ones_like(own)
    factors[0], factors[1] = a, v  # of armature and damping
    own[np.abs(own) * factors < negligible_torque * torque] = 0.0
    return parameters


def _identified(
    unknowns: Unknowns, terms: FrictionTerms, parameters: Array, constants: Array
) -> Model:
    """A copy of the model with these parameters."""
    identified = copy.copy(unknowns.model)
    identified.inertial_parameters = parameters[: unknowns.bodies].reshape(-1, 10)
    own = parameters[unknowns.bodies :].reshape(len(unknowns.features), -1)
    for name, numbers in zip(FEATURES[:3], own):  # which a model has
        if name in unknowns.chosen:
            setattr(identified, name, numbers)
    drives, rotors = identified.drives, np.zeros(unknowns.model.nv)
    if drives.coupling is not None and "armature" in unknowns.chosen:
        rotors = own[0]
        identified.armature = (drives.coupling**2).T @ rotors
    if "friction" in unknowns.chosen:
        drives = terms.of(drives)
    identified.drives = drives.with_values(
        gain=drives.gain * constants,
        stribeck_velocity=np.where(own[4] == 0.0, np.inf, terms.stribeck),
        rotor_inertia=rotors,
        **dict(zip(unknowns.features[3:], own[3:])),
    )
    return identified
