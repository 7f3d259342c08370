# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Estimation of a robot's parameters: friction terms, least squares, and physical bodies."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..drives.efforts import exclude_subtracted_gravity, rescale_torques
from ..drives.units import collapsed_masses, offset_warnings, unit_faults
from ..engine.algorithms import rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.kernel.validation import one_each, require_model
from ..engine.model import Model
from ..engine.model.coordinates import has_single_coordinate, joint_slices
from .base_parameters import FEATURES, Unknowns, find_base_parameters, undetermined_remedies
from .equation_sums import (
    Equations,
    Stretches,
    add_sums,
    recording_conditions,
    rounding_deviation,
)
from .friction_terms import TERMS, FrictionTerms, choose_terms
from .identify_options import IdentifyOptions
from .least_squares import (
    Estimator,
    Fit,
    joint_results,
    median_deviation,
    sum_squares,
    unexplained_error_warnings,
)
from .motion.filtering import split_by_recording
from .motion.numerics import (
    MIN_SPEED,
    MIN_TRAVEL,
    NOISE_LIMIT,
    REGRESSION_SAMPLES,
    STATISTICS_SAMPLES,
    evenly_spaced,
    second_differences,
)
from .physical import Reference
from .plain_least_squares import fit_plain_models
from .result import BaseEstimate, Identification, JointResult, PlainModel
from .samples import Samples
from .torque_equations import Notify, StageProgress, TorqueEquations

_HELD_OUT_STRETCHES = 3  # stretches of consecutive samples that are held out
_HELD_OUT_WITH_CONTACTS = 10  # stretches; many, so that they contain all combinations of contacts
_MAX_LOAD_CHANGE = 0.2  # relative; above it, load-dependent friction is not identifiable
_MAX_OUTLIER_FRACTION = 0.02  # relative to the number of torques; noise has fewer
MIN_LOG_STEP = 0.02  # logarithm of a friction scale; a smaller step needs no further one


class Solution(NamedTuple):
    """An estimate, with the estimator and the samples that it was computed from.

    `faults` are messages on units and signs, which make the estimate unusable; `warnings` are the
    others.
    """

    estimator: Estimator
    samples: Samples
    equations: TorqueEquations
    fit: Fit
    held_out: tuple[slice, ...]  # stretches of samples that the first estimate did not use
    joints: tuple[JointResult, ...]  # errors are on the held-out samples
    plain_model: PlainModel  # plain least squares of all samples
    faults: tuple[str, ...]
    warnings: tuple[str, ...]  # outliers are added by ``to_identification``
    constants: Array  # (nv,) motor constants, torque per unit of effort

    def to_identification(
        self, covariance: Array, stretch_count: int, size: int, seconds: float
    ) -> Identification:
        """Return the result, with a covariance that was estimated from stretches of samples.

        ``covariance`` (b + m, b + m) is of base parameters and log friction scales, ``size`` the
        number of samples. Adds warnings about outliers, shapes and masses.
        """
        estimator, fit, conditions = self.estimator, self.fit, self.equations.conditions
        unknowns, warnings = estimator.unknowns, self.warnings
        if fit.outliers > _MAX_OUTLIER_FRACTION:
            warnings += (
                f"{100.0 * fit.outliers:.1f} % of the torques differ from the model by "
                f"more than {estimator.huber:g} times the noise; the model lacks "
                "something, or something touched the robot",
            )
        if fit.outside_shapes:
            warnings += (
                f"the bodies of {', '.join(fit.outside_shapes)} are outside the shapes of their "
                "links; the shapes are ignored, because the efforts contradict them: "
                "if no other warning says why, the description lacks something that is "
                "attached there, or meshes are wrong",
            )
        subset = self.samples.take(evenly_spaced(len(self.samples), REGRESSION_SAMPLES))
        faults = (
            *self.faults,
            *collapsed_masses(
                unknowns.model,
                fit.parameters[: unknowns.body_parameter_count].reshape(-1, 10),
                subset.q,
                subset.v,
                subset.a,
                subset.tau,
            ),
        )
        quantile, base_count = float(stdtrit(max(stretch_count - 1, 1), 0.975)), len(estimator.base)
        base = _base_estimate(estimator, fit, covariance[:base_count, :base_count], quantile)
        log_half_width = quantile * np.sqrt(np.maximum(np.diag(covariance)[base_count:], 0.0))
        parameters = _clear_rounding_errors(unknowns, fit.parameters, subset)
        features = _feature_values(unknowns, parameters)
        return Identification(
            model=unknowns.model,
            identified=_identified_model(
                unknowns, self._smoothed_terms(), parameters, self.constants
            ),
            offset=features["offset"],
            stribeck=features["stribeck"],
            stribeck_velocity=conditions.terms.stribeck,
            joints=self.joints,
            base=base,
            least_squares=self.plain_model,
            friction_intervals=conditions.terms.scale_intervals(
                unknowns.model.velocity_names, log_half_width
            ),
            samples=self.samples,
            size=size,
            held_out=self.held_out,
            contact_dimension=conditions.contact_dimension,
            undetermined=undetermined_remedies(unknowns, estimator.base, base, self.samples),
            faults=faults,
            warnings=(*faults, *warnings),
            seconds=seconds,
        )

    def _smoothed_terms(self) -> FrictionTerms:
        """Return friction terms that are smooth where noise decides the sign of velocities."""
        conditions, noise = self.equations.conditions, self.samples.motion_noise
        if noise is None or "friction" not in self.estimator.unknowns.chosen_features:
            return conditions.terms
        coupling, squares = self.estimator.unknowns.model.drives.coupling, noise[1] ** 2
        noise_speed = NOISE_LIMIT * np.sqrt(squares if coupling is None else coupling**2 @ squares)
        terms = conditions.terms
        is_step = terms.width <= terms.limits[0, 0]
        width = np.where(is_step, 0.0, terms.width)
        return terms._replace(
            width=np.maximum(width, np.minimum(noise_speed, conditions.threshold)),
            is_smooth=terms.is_smooth & ~is_step,
        )


def estimate_parameters(
    model: Model,
    samples: Samples | Sequence[Samples],
    options: IdentifyOptions,
    progress: StageProgress,
    notify: Notify,
) -> Solution:
    """Estimate the parameters of a robot; see ``identify``.

    0. Find faults of units and signs, before the steps that take long.
    1. Choose the friction terms of each joint.
    2. Fit the training samples, and measure errors on the held-out samples.
    3. Take one Gauss-Newton step of the widths, distances and velocities of friction.
    4. Fit all samples, starting at the first fit.
    """
    samples = _join_recordings(model, samples)
    constants = np.ones(model.nv)
    if options.motor_constants is not None:
        constants = one_each("motor_constants", options.motor_constants, model.nv)
        if not constants.all():
            raise ValueError(
                f"motor_constants: expected numbers other than 0, got {constants.tolist()}"
            )
        samples = dataclasses.replace(
            samples, tau=rescale_torques(model, samples.q, samples.tau, constants)
        )
    faults = effort_unit_faults(model, samples)
    for text in faults:
        notify(text)
    features = FEATURES[not options.armature : 1 + 3 * options.friction]
    noise = None if options.noise is None else one_each("noise", options.noise, model.nv, above=0.0)
    velocity = (
        np.full(model.nv, np.inf)
        if options.stribeck is None
        else one_each("stribeck", options.stribeck, model.nv, least=MIN_SPEED)
    )
    training_slices, held_out_slices = split_held_out(
        len(samples),
        options.held_out,
        options.seed,
        _HELD_OUT_WITH_CONTACTS if samples.contacts else _HELD_OUT_STRETCHES,
    )

    def make_estimator(terms: FrictionTerms) -> tuple[Estimator, TorqueEquations]:
        """Return the estimator for friction terms, and the equations of the training samples."""
        unknowns = Unknowns(model, features, bool(samples.contacts), dict(zip(TERMS, terms.chosen)))
        _require_samples(unknowns, samples)
        base = find_base_parameters(unknowns)
        estimator = Estimator(
            unknowns,
            base,
            Reference(unknowns, base, samples, options.shapes),
            noise,
            options.huber,
            options.regularization,
            rounding_deviation(
                model.drives.to_motors(exclude_subtracted_gravity(model, samples.q, samples.tau))
            ),
        )
        return estimator, TorqueEquations(
            unknowns,
            samples,
            _row_indices(training_slices),
            recording_conditions(model, samples, terms, options.contact_dimension),
            options.threads,
            progress,
        )

    terms, tried_terms = FrictionTerms.none(model), frozenset[str]()
    if options.friction or options.stribeck is not None:
        tried_terms = frozenset(options.allowed_terms)
        terms = choose_terms(model, samples, velocity, options.huber, options.allowed_terms)
    _require_support(model, samples)
    estimator, equations, sums, fit = _fit_training_data(make_estimator, terms)
    training_rows, held_out_rows = map(_row_indices, (training_slices, held_out_slices))
    plain_models = fit_plain_models(
        estimator, samples, equations.conditions, (training_rows, held_out_rows)
    )
    joints = _held_out_results(estimator, equations, held_out_rows, plain_models[0], fit.parameters)
    warnings = [
        *(() if faults else effort_offset_warnings(model, samples)),
        *samples.warnings,
        *_unmoved_joint_warnings(model, samples),
        *(
            f"the body of joint {name!r} is not physical in the description; the estimate is "
            "regularized towards one that is"
            for name in estimator.reference.unphysical_joints
        ),
        *unexplained_error_warnings(model, equations, joints, fit.parameters, noise, tried_terms),
        *_friction_form_warnings(terms),
    ]
    # columns of loads and of friction scales change with the estimate
    has_new_equations = terms.has_load.any() or terms.is_free.any()
    if not has_new_equations:
        sums = add_sums(sums, equations.with_rows(held_out_rows).sums(progress_range=(0.4, 0.7)))
    equations = equations.with_rows(np.arange(len(samples), dtype=np.int32))
    if terms.is_free.any():
        fit = _refine_friction_scales(estimator, equations, fit)
    if has_new_equations:
        sums = equations.sums(progress_range=(0.4, 0.7))
    fit = estimator.fit_samples(equations, sums, fit.estimate, fit)
    return Solution(
        estimator,
        samples,
        equations,
        fit,
        tuple(held_out_slices),
        joints,
        plain_models[-1],
        tuple(faults),
        tuple(warnings),
        constants,
    )


def _fit_training_data(
    make_estimator: Callable[[FrictionTerms], tuple[Estimator, TorqueEquations]],
    terms: FrictionTerms,
) -> tuple[Estimator, TorqueEquations, Equations, Fit]:
    """Fit the training samples; drop load friction of joints whose load is not identifiable.

    Returns the estimator, the equations, their sums and the fit. Changes ``terms.has_load``.
    """
    while True:
        estimator, equations = make_estimator(terms)
        first_estimate, sums = estimator.find_first_estimate(equations)
        if terms.has_load.any():
            equations.update_load(first_estimate.parameters)
            first_estimate = estimator.estimate_base_parameters(
                equations.sums(progress_range=(0.3, 0.3)), estimator.noise
            )
            equations.update_load(first_estimate.parameters)
            sums = equations.sums(progress_range=(0.3, 0.4))
        fit = estimator.fit_samples(equations, sums, first_estimate, None)
        # physical bodies change the load of a gear if an offset can replace gravity
        is_unknown = terms.has_load & (equations.update_load(fit.parameters) > _MAX_LOAD_CHANGE)
        if not is_unknown.any():
            return estimator, equations, sums, fit
        terms.has_load[is_unknown] = False


def _refine_friction_scales(
    estimator: Estimator, equations: TorqueEquations, first_fit: Fit
) -> Fit:
    """Return the fit after a Gauss-Newton step of the free scales of friction.

    Only its least-squares estimate moves. Changes the friction terms of the equations.
    """
    parameters, edges = first_fit.estimate.parameters.copy(), np.array([0, equations.size])
    scores = estimator.scores(equations, parameters, first_fit, edges)
    H = estimator.stretch_equations(equations, parameters, first_fit, edges)
    change, step = estimator.newton_step(
        Stretches(edges[:1], scores, H), equations.conditions.terms
    )
    parameters[estimator.base.independent] += change
    equations.change_friction(step)
    return first_fit._replace(estimate=first_fit.estimate._replace(parameters=parameters))


def split_held_out(
    count: int, held_out: float, seed: int, stretches: int = _HELD_OUT_STRETCHES
) -> tuple[list[slice], list[slice]]:
    """Divide samples into stretches to use for training, and stretches to hold out.

    Stretches are long, since short ones would resemble the training samples around them.
    """
    edges = np.linspace(0, count, max(3, round(stretches / held_out)) + 1).astype(int)
    slices = [slice(int(start), int(stop)) for start, stop in itertools.pairwise(edges)]
    permutation = np.random.default_rng(seed).permutation(len(slices))
    held_numbers = set(
        permutation[: min(max(1, round(held_out * len(slices))), len(slices) - 1)].tolist()
    )
    return (
        [rows for n, rows in enumerate(slices) if n not in held_numbers],
        [rows for n, rows in enumerate(slices) if n in held_numbers],
    )


def _row_indices(slices: Sequence[slice]) -> np.ndarray:
    """Return the indices of all rows in some slices."""
    return np.concatenate([np.arange(block.start, block.stop, dtype=np.int32) for block in slices])


# --- input


def _join_recordings(model: Model, samples: Samples | Sequence[Samples]) -> Samples:
    """Join recordings; raise a ValueError if they are of another robot."""
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
    """Raise a ValueError if there are too few samples, or no motion."""
    min_count = max(100, 10 * int(unknowns.is_active.sum()) // max(unknowns.model.nv, 1))
    if len(samples) < min_count:
        period = np.median(np.diff(samples.time)) if len(samples) > 1 else 0.0
        raise ValueError(
            f"samples: expected at least {min_count} to identify {unknowns.model.name!r},"
            f" got {len(samples)} that the filter leaves; record for at least "
            f"{period * (min_count - len(samples)):.2g} s longer"
        )
    if max(samples.v.max(), -samples.v.min()) < MIN_SPEED:
        raise ValueError(
            "samples: no joint moves; record a motion, such as `dyn_ros excite` computes"
        )


def effort_unit_warnings(model: Model, samples: Samples) -> list[str]:
    """Return messages on positions and efforts that are not in SI units, or whose zero is wrong."""
    return effort_unit_faults(model, samples) or effort_offset_warnings(model, samples)


def effort_unit_faults(model: Model, samples: Samples) -> list[str]:
    """Return messages on positions and efforts in other units, or of the wrong sign."""
    return _check_efforts(unit_faults, model, samples)


def effort_offset_warnings(model: Model, samples: Samples) -> list[str]:
    """Return messages on efforts whose zero is wrong; they are meaningless if there are faults."""
    return _check_efforts(offset_warnings, model, samples)


def _check_efforts(
    check: Callable[[Model, Array, Array, Array, Array], list[str]], model: Model, samples: Samples
) -> list[str]:
    """Return the messages of a check of the efforts; none if other forces act on the robot."""
    if samples.contacts or samples.f_ext is not None or not has_single_coordinate(model).all():
        return []
    subset = samples.take(evenly_spaced(len(samples), REGRESSION_SAMPLES))
    return check(model, subset.q, subset.v, subset.a, subset.tau)


def _unmoved_joint_warnings(model: Model, samples: Samples) -> list[str]:
    """Return warnings about joints that do not move in any recording."""
    travel = np.max(
        [np.ptp(q, axis=0) for q in split_by_recording(samples.recording, samples.q)], axis=0
    )
    return [
        f"joint {joint.name!r} moves by less than {MIN_TRAVEL:g} rad or m in all recordings, so "
        "its friction stays unknown, as does what only its motion shows"
        for joint in joint_slices(model)
        if travel[joint.q].max() < MIN_TRAVEL
    ]


def _friction_form_warnings(terms: FrictionTerms) -> list[str]:
    """Return a warning about joints whose form of friction the samples do not determine."""
    if not terms.ambiguous:
        return []
    return [
        "the torques do not tell some forms of friction apart, and intervals hold only for the "
        f"first form: {'; '.join(terms.ambiguous)}; record slow motion and reversals"
    ]


def _require_support(model: Model, samples: Samples) -> None:
    """Raise a ValueError if a floating base stands, but no contact or force carries it."""
    base = ~has_single_coordinate(model)
    if (
        samples.contacts
        or samples.f_ext is not None
        or samples.tau[:, base].any()
        or (not base.any())
    ):
        return
    subset = samples.take(evenly_spaced(len(samples), REGRESSION_SAMPLES))
    data, zero = Data(model), np.zeros_like(subset.v)
    base_force, weight = (
        np.sqrt((torque[:, base] ** 2).sum(axis=1).mean())
        for torque in (
            rnea(model, data, subset.q, subset.v, subset.a).copy(),
            rnea(model, data, subset.q, zero, zero),
        )
    )
    if base_force > 0.5 * weight > 0.0:
        raise ValueError(
            "samples: the efforts of the base are 0, but its motion requires "
            f"{base_force:.3g} N by the model, so something carries the robot; state "
            "which frames are in contact (columns in_contact.FRAME of a table), or "
            "pass measured forces as f_ext"
        )


# --- result


def _held_out_results(
    estimator: Estimator,
    equations: TorqueEquations,
    rows: np.ndarray,
    plain_model: PlainModel,
    parameters: Array,
) -> tuple[JointResult, ...]:
    """Compare the described, the plain and the estimated model on samples that were held out."""
    model = estimator.unknowns.model
    described, estimated = (
        partial(equations.torques, parameters=values)
        for values in (estimator.reference.described_parameters, parameters)
    )
    squares, differences = np.zeros((2, 4, model.nv)), []
    models = described, plain_model.motor_torque, estimated
    for torques in equations.torques_and_residuals(rows, models):
        squares += sum_squares(torques)
        count = max(3, STATISTICS_SAMPLES * len(torques[-1]) // len(rows))
        differences.append(second_differences(torques[-1][:count]))
    # a short held-out stretch alone does not determine the noise
    training_rows = equations.rows[: max(0, STATISTICS_SAMPLES - len(rows))]
    for torques in equations.torques_and_residuals(training_rows, (estimated,)):
        differences.append(second_differences(torques[-1]))
    # second differences of white noise have 6 times its variance; jumps of friction are rare
    noise = median_deviation(np.concatenate(differences)) / np.sqrt(6.0)
    return joint_results(model, squares, np.maximum(noise, estimator.min_noise))


def _base_estimate(
    estimator: Estimator, fit: Fit, covariance: Array, quantile: float
) -> BaseEstimate:
    """Return values, intervals and excitation of the base parameters."""
    base, value, is_determined = estimator.base, fit.estimate.value, fit.estimate.is_determined
    deviation = np.where(is_determined, np.sqrt(np.maximum(np.diag(covariance), 0.0)), np.inf)
    # intervals of least squares hold for the physical estimate: the truth is physical, too, and
    # determined parameters depend little on the description
    half_width, after = quantile * deviation, base.matrix @ fit.parameters
    size = estimator.reference.typical_sizes.copy()
    is_feature = base.independent >= estimator.unknowns.body_parameter_count
    size[is_feature] = np.fmax(size, np.abs(value))[is_feature]
    return BaseEstimate(
        names=base.names,
        units=base.units,
        matrix=base.matrix,
        before=base.matrix @ estimator.reference.described_parameters,
        after=after,
        estimate=value,
        deviation=deviation,
        lower=after - half_width,
        upper=after + half_width,
        excitation=tuple(
            "well" if x < 0.1 else "weakly" if x < 1.0 else "not" for x in deviation / size
        ),
    )


def _clear_rounding_errors(unknowns: Unknowns, parameters: Array, samples: Samples) -> Array:
    """Return a copy of the parameters (p,), with zeros for numbers that are rounding errors."""
    negligible_torque = 1e-6  # relative to the RMS torque of a motor
    body_rounding = 1e-14  # relative to the size of a body
    parameters, drives = parameters.copy(), unknowns.model.drives
    bodies = parameters[: unknowns.body_parameter_count].reshape(-1, 10)
    moment = bodies[:, [4, 6, 9]].sum(axis=1)
    size = np.stack([bodies[:, 0], np.sqrt(bodies[:, 0] * moment), moment], axis=1)
    bodies[np.abs(bodies) < body_rounding * np.repeat(size, [1, 3, 6], axis=1)] = 0.0
    feature_values = parameters[unknowns.body_parameter_count :].reshape(len(unknowns.features), -1)
    torque, a, v = (
        np.sqrt(np.mean(x**2, axis=0))
        for x in (
            drives.to_motors(samples.tau),
            *map(drives.motor_velocity, (samples.a, samples.v)),
        )
    )
    factors = np.ones_like(feature_values)
    factors[0], factors[1] = a, v  # armature, damping
    feature_values[np.abs(feature_values) * factors < negligible_torque * torque] = 0.0
    return parameters


def _feature_values(unknowns: Unknowns, parameters: Array) -> dict[str, Array]:
    """Return the values of each feature, (nv,), by its name."""
    rows = parameters[unknowns.body_parameter_count :].reshape(len(unknowns.features), -1)
    return dict(zip(unknowns.features, rows))


def _identified_model(
    unknowns: Unknowns, terms: FrictionTerms, parameters: Array, constants: Array
) -> Model:
    """Return a copy of the model with these parameters."""
    identified = copy.copy(unknowns.model)
    identified.inertial_parameters = parameters[: unknowns.body_parameter_count].reshape(-1, 10)
    features = _feature_values(unknowns, parameters)
    for name in ("armature", "damping", "friction"):
        if name in unknowns.chosen_features:
            setattr(identified, name, features[name])
    drives, rotors = identified.drives, np.zeros(unknowns.model.nv)
    if drives.coupling is not None and "armature" in unknowns.chosen_features:
        rotors = features["armature"]
        identified.armature = (drives.coupling**2).T @ rotors
    if "friction" in unknowns.chosen_features:
        drives = terms.apply_to_drives(drives)
    identified.drives = drives.with_values(
        gain=drives.gain * constants,
        stribeck_velocity=np.where(features["stribeck"] == 0.0, np.inf, terms.stribeck),
        rotor_inertia=rotors,
        **{name: features[name] for name in unknowns.features[3:]},
    )
    return identified
