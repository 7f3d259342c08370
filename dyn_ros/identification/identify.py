# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of a robot's parameters from measured torques."""
from __future__ import annotations

import copy
import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..engine.algorithms import rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model import Model
from .advice import undetermined
from .arguments import row_numbers
from .base_parameters import BaseParameters, structure
from .equations import Equations, Progress, Recording
from .least_squares import (
    Estimate,
    Scale,
    correction,
    covariance,
    estimate,
    median_deviation,
    without_outliers,
)
from .physical import Reference, physical_parameters
from .result import BaseEstimate, Identification, JointResult
from .samples import Samples
from .unknowns import FEATURES, Unknowns, is_actuated, is_linear

_BLOCKS = 50            # of consecutive samples; some are held out
_DIFFERENCES = 20000    # of consecutive residuals, for their noise
_REVERSALS = 3          # times that samples near reversals are left out
_ROUNDING = 1e-14       # of a body's size
_STILL = 1e-9           # rad/s, m/s: less is rounding
_FEWEST = 3             # equations for each parameter
_POOR = 2.0             # times the noise: an error that noise does not explain
_MANY = 0.02            # of the torques: more outliers than noise has
_FEATURES = {"armature": 0, "damping": 1, "friction": 2}


def identify(model: Model, samples: Samples | Sequence[Samples], *, armature: bool = True,
             friction: bool = True, stribeck: ArrayLike | None = None,
             motor_constants: ArrayLike | None = None, noise: ArrayLike | None = None,
             regularization: float = 1.0,
             huber: float | None = 3.0, held_out: float = 0.2, seed: int = 0, threads: int = 1,
             contact_dimension: int = 3, progress: Progress | None = None) -> Identification:
    """Estimate the parameters of a robot from measured torques.

    The estimate minimizes the sum of squared differences of measured and modeled torque, each
    divided by the variance of its joint's noise, plus the divergence of each body from the one
    described. What the recording determines therefore comes from the recording, all else from the
    description. Every body remains physical: its pseudo-inertia is positive definite, so there is a
    distribution of mass that has its inertia. The minimum is unique.

    Parameters
    ----------
    model : Model
        As described. Payloads are part of the bodies that carry them.
    samples : Samples or sequence of Samples
        See ``Samples.from_arrays`` and ``Samples.from_table``.
    armature : bool
        Estimate the rotor inertia of each joint with one coordinate.
    friction : bool
        Estimate damping, Coulomb friction and a constant offset of each such joint.
    stribeck : float or (nv,) array_like, optional
        Also estimate friction that decreases with velocity, F exp(-(v / stribeck)^2) sign(v)
        [rad/s, m/s].
    motor_constants : float or (nv,) array_like, optional
        Torque per unit of measured effort, if efforts are not torques but currents, for example.
    noise : float or (nv,) array_like, optional
        Standard deviation of the noise of each measured torque [N m, N]. Estimated by default.
    regularization : float
        Weight of the divergence from the description, in units of the log-likelihood.
    huber : float or None
        Residuals above this multiple of the noise count linearly, not squared (Huber 1964). None:
        all count squared.
    held_out : float
        Fraction of the samples that a first estimate does not use. Its errors on them are those of
        ``Identification.joints``. The result is then estimated from all samples.
    seed : int
        Of the choice of these samples.
    threads : int
        Number of threads.
    contact_dimension : int
        What the contacts of the samples transmit: 3, a force at the origin of the frame; 6, also a
        moment. Contact forces need not be known; the equations that they affect are combined so
        that they cancel.
    progress : callable, optional
        Called with the fraction that is done, and a word for what is being done.

    Returns
    -------
    Identification

    Raises
    ------
    ValueError
        Samples of another model, too few samples, an option out of range, or a recording without
        motion; names the value and a remedy.

    References
    ----------
    Lee, T., Wensing, P. and Park, F. C.: Geometric robot dynamic identification: a convex
    programming approach. IEEE Transactions on Robotics 36 (2020).
    Swevers, J. et al.: Optimal robot excitation and identification. IEEE Transactions on Robotics
    and Automation 13 (1997), for the weights.
    Nakamura, T.: Corrected score function for errors-in-variables models. Biometrika 77 (1990),
    for the noise of the motion.
    White, H.: A heteroskedasticity-consistent covariance matrix estimator. Econometrica 48 (1980),
    for the intervals; by blocks of consecutive samples.

    Examples
    --------
    >>> found = dyn_ros.identify(model, recording)
    >>> predicted = found.torque(found.samples)
    >>> bool(abs(predicted - found.samples.tau).max() < 0.05)
    True
    """
    began = time.perf_counter()
    progress = progress or (lambda done, what: None)
    found = solution(model, samples, armature=armature, friction=friction, stribeck=stribeck,
                     motor_constants=motor_constants, noise=noise, regularization=regularization,
                     huber=huber, held_out=held_out, seed=seed, threads=threads,
                     contact_dimension=contact_dimension, progress=progress)
    fitted = found.fitted
    spread, count = covariance(found.problem.base, found.recording, fitted.estimate,
                               fitted.correlations, huber)
    result = found.identification(spread, count, len(found.samples), time.perf_counter() - began)
    progress(1.0, "done")
    return result


def solution(model: Model, samples: Samples | Sequence[Samples], *, armature: bool, friction: bool,
             stribeck: ArrayLike | None, motor_constants: ArrayLike | None,
             noise: ArrayLike | None, regularization: float, huber: float | None, held_out: float,
             seed: int, threads: int, contact_dimension: int, progress: Progress) -> Solution:
    """Estimate the parameters; the arguments are those of ``identify``."""
    samples = _joined(model, samples)
    if motor_constants is not None:
        constants = _positive("motor_constants", motor_constants, model.nv)
        samples = dataclasses.replace(samples, tau=samples.tau * constants)
    chosen = FEATURES[not armature:1 + 3 * friction] + ("stribeck",) * (stribeck is not None)
    given = None if noise is None else _positive("noise", noise, model.nv)
    velocity = (np.full(model.nv, np.inf) if stribeck is None
                else _positive("stribeck", stribeck, model.nv))
    _require_options(regularization, huber, held_out, contact_dimension)
    unknowns = Unknowns(model, chosen)
    _require_samples(unknowns, samples)
    _require_support(model, samples)

    base = structure(unknowns)
    reference = Reference(unknowns, samples)
    described = _described(model)
    scale = Scale(reference.typical(unknowns, base.matrix), base.matrix @ described,
                  described)
    training, held = blocks(len(samples), held_out, seed)
    rows = np.concatenate([np.arange(each.start, each.stop, dtype=np.int32) for each in training])
    recording = Recording(unknowns, samples, rows, velocity, threads, progress, contact_dimension)
    warnings = [*samples.warnings, *_warnings(model, reference)]
    problem = Problem(unknowns, base, reference, scale, given, huber, regularization)

    first = problem.first_estimate(recording)
    fitted = problem.fit(recording, first, None, 0.3, 0.4)
    squares, differences = _comparison(recording, held, described, fitted.parameters)
    joints = joint_results(model, squares, _noise(differences))
    warnings += _poor(joints, is_actuated(model))
    every = recording.of_all()
    fitted = problem.fit(every, fitted.estimate, fitted, 0.4, 0.75)
    return Solution(problem, samples, chosen, velocity, contact_dimension, described, tuple(held),
                    every, fitted, joints, tuple(warnings))


class Solution(NamedTuple):
    """An estimate, and what it was computed from.

    Attributes
    ----------
    problem : Problem
    samples : Samples
    chosen : tuple of str
        The features that are estimated.
    velocity : (nv,) ndarray
        Of Stribeck friction.
    contact_dimension : int
    described : (p,) ndarray
        All parameters of the description.
    held_out : tuple of slice
    recording : Recording
        All samples.
    fitted : Fit
        Of them.
    joints : tuple of JointResult
        On the samples that were held out of a first estimate.
    warnings : tuple of str
        But for those about outliers.
    """

    problem: Problem
    samples: Samples
    chosen: tuple[str, ...]
    velocity: Array
    contact_dimension: int
    described: Array
    held_out: tuple[slice, ...]
    recording: Recording
    fitted: Fit
    joints: tuple[JointResult, ...]
    warnings: tuple[str, ...]

    def identification(self, spread: Array, count: int, size: int,
                       seconds: float) -> Identification:
        """The result, with the covariance (b, b) of the estimate, from ``count`` blocks."""
        unknowns, base, fitted = self.problem.unknowns, self.problem.base, self.fitted
        model, warnings = unknowns.model, self.warnings
        if fitted.outliers > _MANY:
            warnings += (f"{100.0 * fitted.outliers:.1f} % of the torques differ from the model by "
                         f"more than {self.problem.huber:g} times the noise; the model lacks "
                         "something, or something touched the robot",)
        values = base_estimate(base, fitted.estimate, spread,
                               float(stdtrit(max(count - 1, 1), 0.975)),
                               self.problem.scale.typical, self.described, fitted.parameters)
        own = fitted.parameters[unknowns.bodies:].reshape(len(FEATURES), model.nv)
        return Identification(
            model=model, identified=_identified(model, unknowns, self.chosen, fitted.parameters),
            offset=own[3], stribeck=own[4], stribeck_velocity=self.velocity, joints=self.joints,
            base=values, samples=self.samples, size=size, held_out=self.held_out,
            contact_dimension=self.contact_dimension,
            undetermined=undetermined(unknowns, base, values, self.samples), warnings=warnings,
            seconds=seconds)


class Fit(NamedTuple):
    """Both estimates from some samples.

    Attributes
    ----------
    estimate : Estimate
        Of the base parameters.
    parameters : (p,) ndarray
        Physical ones.
    outliers : float
        As a fraction of the torques.
    correlations : (nv,) ndarray
        Number of samples over which the noise is correlated.
    shift : (p,) ndarray
        By which the parameters of the estimate differ from those of least squares, since the
        motion is noisy.
    """

    estimate: Estimate
    parameters: Array
    outliers: float
    correlations: Array
    shift: Array


class Problem(NamedTuple):
    """What the estimates from different samples share."""

    unknowns: Unknowns
    base: BaseParameters
    reference: Reference
    scale: Scale
    noise: Array | None
    huber: float | None
    regularization: float

    def first_estimate(self, recording: Recording) -> Estimate:
        """Estimate until it is known which samples count, and how contacts are eliminated."""
        sums = recording.equations(0.0, 0.1)
        _require_equations(recording.contacts, float(sums.count.sum()), len(self.base))
        found = self._estimate(sums)
        if recording.contacts:          # whose elimination depends on the noise
            recording.scale_by(found.noise)
            found = self._estimate(recording.equations(0.1, 0.2))
        for _ in range(_REVERSALS):
            if not recording.leave_out_reversals(found.parameters):
                break
            found = self._estimate(recording.equations(0.2, 0.3))
        return found

    def fit(self, recording: Recording, found: Estimate, before: Fit | None, start: float,
            stop: float) -> Fit:
        """Estimate from all samples of a recording; outliers and correlated noise count less.

        If there is a fit of some of the samples, the search for physical parameters starts there,
        and the noise of the motion has the same effect.
        """
        correlations = recording.correlations(found.parameters)
        sums, outliers = recording.equations(start, stop), 0.0
        found = self._estimate(sums, correlations)
        if self.huber is not None:
            sums, found, outliers = without_outliers(
                self.unknowns, self.base, self.scale, sums, recording, self.noise, correlations,
                found, self.huber)
        shift = before.shift if before else correction(self.base, recording, found, self.huber)
        found = found.moved(self.base, shift)
        parameters = physical_parameters(self.unknowns, sums, found.noise, shift, self.reference,
                                         self.regularization, before and before.parameters)
        return Fit(found, parameters, outliers, correlations, shift)

    def _estimate(self, sums: Equations, correlations: Array | float = 1.0) -> Estimate:
        return estimate(self.unknowns, self.base, self.scale, sums, self.noise, correlations)


def blocks(count: int, held_out: float, seed: int) -> tuple[list[slice], list[slice]]:
    """Divide samples into blocks of consecutive ones: those to use, and those to hold out."""
    edges = np.linspace(0, count, min(_BLOCKS, count // 10) + 1).astype(int)
    every = [slice(int(start), int(stop)) for start, stop in itertools.pairwise(edges)]
    order = np.random.default_rng(seed).permutation(len(every))
    held = set(order[:max(1, round(held_out * len(every)))].tolist())
    return ([each for n, each in enumerate(every) if n not in held],
            [each for n, each in enumerate(every) if n in held])


# -- input

def _joined(model: Model, samples: Samples | Sequence[Samples]) -> Samples:
    if not isinstance(samples, Samples):
        samples = Samples.concatenate(samples)
    if samples.q.shape[1:] != (model.nq,) or samples.v.shape[1:] != (model.nv,):
        raise ValueError(f"samples: of a robot with nq = {samples.q.shape[1]}, nv = "
                         f"{samples.v.shape[1]}, but {model!r} has nq = {model.nq}, nv = "
                         f"{model.nv}; create the samples with this model")
    return samples


def _positive(name: str, value: ArrayLike, count: int) -> Array:
    array = row_numbers(name, value, count)
    if not (array > 0.0).all():
        raise ValueError(f"{name}: expected positive numbers, got {array.min():g}")
    return array


def _require_options(regularization: float, huber: float | None, held_out: float,
                     contact_dimension: int) -> None:
    for name, value in (("regularization", regularization), ("huber", huber)):
        if value is not None and not 0.0 < value < np.inf:
            raise ValueError(f"{name}: expected a positive number, got {value!r}")
    if not 0.0 < held_out < 0.9:
        raise ValueError(f"held_out: expected a fraction between 0 and 0.9, got {held_out!r}")
    if contact_dimension not in (3, 6):
        raise ValueError(f"contact_dimension: expected 3 or 6, got {contact_dimension!r}")


def _require_samples(unknowns: Unknowns, samples: Samples) -> None:
    needed = max(100, 10 * int(unknowns.active.sum()) // max(unknowns.model.nv, 1))
    if len(samples) < needed:
        raise ValueError(f"samples: expected at least {needed} to identify {unknowns.model!r}, got "
                         f"{len(samples)}; record for longer")
    if max(samples.v.max(), -samples.v.min()) < _STILL:
        raise ValueError("samples: no joint moves; record a motion, such as one of dyn_ros.excite")


def _require_support(model: Model, samples: Samples) -> None:
    """Reject a floating base that stands although nothing is known to carry it."""
    base = ~is_actuated(model)
    if samples.contacts or samples.f_ext is not None or samples.tau[:, base].any() or (
            not base.any()):
        return
    some = samples.take(slice(None, None, 1 + len(samples) // 2000))
    data, still = Data(model), np.zeros_like(some.v)
    needed, weight = (np.sqrt((torque[:, base] ** 2).sum(axis=1).mean()) for torque in (
        rnea(model, data, some.q, some.v, some.a).copy(),
        rnea(model, data, some.q, still, still)))
    if needed > 0.5 * weight > 0.0:
        raise ValueError("samples: the efforts of the base are 0, but its motion requires "
                         f"{needed:.3g} N, as the model has it: something carries the robot; state "
                         "which frames are in contact (columns in_contact.FRAME of a table), or "
                         "pass measured forces as f_ext")


def _require_equations(contacts: tuple[str, ...], count: float, parameters: int) -> None:
    if count >= _FEWEST * parameters:
        return
    if contacts:
        raise ValueError(
            f"samples: {count:.3g} equations remain for {parameters} parameters, without those "
            f"that unknown forces in the contacts {', '.join(contacts)} can explain; "
            "use a floating root joint if the base is not fixed, a contact dimension of 3 for "
            "points, and state for each sample which frames are in contact")
    raise ValueError(f"samples: expected at least {_FEWEST * parameters} equations of joints "
                     f"that move and whose effort is measured, got {count:.3g}; record more "
                     "motion, or check the efforts")


def _poor(joints: Sequence[JointResult], actuated: np.ndarray) -> list[str]:
    """A warning if noise does not explain the error of joints that the estimate leaves."""
    found = [f"{joint.name} ({joint.after / max(joint.noise, 1e-300):.3g})"
             for joint, counts in zip(joints, actuated)
             if counts and joint.after > max(_POOR * joint.noise, 1e-3 * joint.torque)]
    if not found:
        return []
    return ["the error of the identified model is more than the noise of the measured torque, by "
            f"the factor in parentheses: {', '.join(found)}; check the sign, unit and order of "
            "efforts and positions, and that both have the same time stamps"]


def _warnings(model: Model, reference: Reference) -> list[str]:
    return [f"the body of joint {name!r} is not physical in the description; the estimate is "
            "regularized towards one that is" for name in reference.changed]


# -- result

def base_estimate(base: BaseParameters, found: Estimate, spread: Array, quantile: float,
                  scale: Array, described: Array, parameters: Array) -> BaseEstimate:
    """Values, intervals, and how well each is determined."""
    deviation = np.sqrt(np.maximum(np.diag(spread), 0.0))
    deviation = np.where(found.determined, deviation, np.inf)
    part = deviation / scale
    half = quantile * deviation
    return BaseEstimate(
        names=base.names, units=base.units, matrix=base.matrix, before=base.matrix @ described,
        after=base.matrix @ parameters, estimate=found.value, deviation=deviation,
        lower=np.where(found.determined, found.value - half, -np.inf),
        upper=np.where(found.determined, found.value + half, np.inf),
        excitation=tuple("well" if x < 0.1 else "weakly" if x < 1.0 else "not" for x in part))


def _described(model: Model) -> Array:
    """All parameters of the description, (p,)."""
    return np.concatenate([np.ravel(model.inertial_parameters), model.armature, model.damping,
                           model.friction, np.zeros(2 * model.nv)])


def _identified(model: Model, unknowns: Unknowns, chosen: Sequence[str],
                parameters: Array) -> Model:
    """A copy of the model with these parameters; numbers that are rounding errors are zero."""
    identified = copy.copy(model)
    bodies = parameters[:unknowns.bodies].reshape(-1, 10).copy()
    moment = bodies[:, [4, 6, 9]].sum(axis=1)
    size = np.stack([bodies[:, 0], np.sqrt(bodies[:, 0] * moment), moment], axis=1)
    bodies[np.abs(bodies) < _ROUNDING * np.repeat(size, [1, 3, 6], axis=1)] = 0.0
    identified.inertial_parameters = bodies
    own = parameters[unknowns.bodies:].reshape(len(FEATURES), model.nv)
    for name, n in _FEATURES.items():
        if name in chosen:
            setattr(identified, name, own[n])
    return identified


def _comparison(recording: Recording, held: Sequence[slice], described: Array,
                parameters: Array) -> tuple[Squares, Array]:
    """How well the models before and after explain the samples that were held out.

    Also returns differences of consecutive residuals.
    """
    found, differences = Squares.nothing(recording.nv), []
    rows = np.concatenate([np.arange(each.start, each.stop) for each in held])
    for part in recording.comparison(rows, (described, parameters)):
        found = found.plus(part)
        differences.append(np.diff(part[2][:max(3, _DIFFERENCES * len(part[2]) // len(rows))], 2,
                                   axis=0))
    return found, np.concatenate(differences)


def _noise(differences: Array) -> Array:
    """Noise of each row, (nv,), from second differences of its residuals."""
    # of white noise they are larger than it; jumps of friction are too rare to count
    return median_deviation(differences) / np.sqrt(6.0)


class Squares(NamedTuple):
    """Sums of squares: of measured torques, and of what two models leave of them, (3, nv)."""

    squares: Array
    counts: Array

    @classmethod
    def nothing(cls, nv: int) -> Squares:
        """The sums of no samples."""
        return cls(np.zeros((3, nv)), np.zeros((3, nv)))

    def plus(self, part: Sequence[Array]) -> Squares:
        """The sums with further samples: torques and residuals, (B, nv) each; NaN is missing."""
        return Squares(self.squares + [np.nansum(each ** 2, axis=0) for each in part],
                       self.counts + [np.isfinite(each).sum(axis=0) for each in part])


def joint_results(model: Model, found: Squares, noise: Array) -> tuple[JointResult, ...]:
    """How well the models before and after explain samples that were not used."""
    rms = np.sqrt(found.squares / np.where(found.counts > 0.0, found.counts, np.nan))
    linear, actuated = is_linear(model), is_actuated(model)
    return tuple(JointResult(
        name=name, unit="N" if linear[k] else "N m", before=float(rms[1, k]),
        after=float(rms[2, k]), noise=float(noise[k] if actuated[k] else rms[2, k]),
        torque=float(rms[0, k]))
        for k, name in enumerate(model.velocity_names))
