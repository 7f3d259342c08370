# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Likely causes of torques of a joint that an identified model does not explain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import velocity_joints
from .efforts import torque_regressor

MAX_DELAY = 0.1  # s; longer delays are not tried
MAX_LAG_COUNT = 20  # delays in each direction
MAX_NOISE_RATIO = 2.0  # error relative to noise; beyond it, noise does not explain the error
_MIN_SAMPLES = 100
_STRETCH_COUNT = 10  # a cause is fitted to every second stretch, and tested on the others
_RANK_TOLERANCE = 1e-6  # relative to the largest singular value of scaled columns
_MAX_DESCRIPTION_FACTOR = 3.0  # far beyond the errors of a description
_MAX_GRAVITY_ERROR = 0.3  # error of a description, relative to its gravity torque
_MIN_FRICTION_POWER = 0.01  # relative to the power; friction takes more if the sign is right

# Fractions of the squared torque that are errors.
_MAX_ERROR_FRACTION = 0.5  # beyond it, the model is of no use
_SMALL_ERROR_FRACTION = 0.05  # below it, the sign, unit and order of the efforts are right

# Fractions of the squared error that a cause explains.
_MIN_EXPLAINED_FRACTION = 0.25  # below it, a cause is not likely
_CONTRADICTION_FRACTION = 0.5  # parameters for the joint alone; it may contradict other joints
_CLEAR_CONTRADICTION_FRACTION = 0.9  # beyond it, nothing else has to be explained
_SHARED_DELAY_FRACTION = 0.5  # beyond it, other joints probably have the same delay
_MIN_SINGLE_CAUSE_FRACTION = 0.5  # below it, coupled motors, gravity or a sign are not the cause
_MIN_JUMP_FRACTION = 0.15  # Coulomb friction of a coupled motor
_COUPLED_WITHOUT_JUMPS_FRACTION = 0.95  # beyond it, no Coulomb friction is required
_MAX_REMAINDER_RATIO = 0.5  # error that coupled motors leave, relative to the error of other causes

_UNKNOWN_TEXT = (
    "check the sign, unit and order of efforts and positions, and that both have the same "
    "time stamps"
)
_DELAY_TEXT = (
    "its efforts are {}, or filtered: {:.2g} ms explain {:.0%} of the squared error; declare "
    "delay: {:.2g} in the drives file"
)
_LOAD_FRICTION_TEXT = "friction of {:.2g} times the load explains {:.0%} of the squared error; "
_SPEED_FRICTION_TEXT = (
    "friction that grows less at high velocity explains {:.0%} of the squared error; "
)
_ALLOWED_TERM_TEXT = "allow {} with friction_terms="
_TRIED_TERM_TEXT = (
    "{} did not lower the error on samples that were held out; record "
    "longer, with more different loads and velocities"
)
_CONTRADICTION_TEXT = (
    "parameters for this joint alone would explain {:.0%} of the squared error, so it "
    "contradicts the other joints; check the sign, unit, gain and order of efforts, and that "
    "they have the time stamps of the positions"
)
_UNEXPLAINED_CONTRADICTION_TEXT = (
    "no delay or friction explains it, but parameters for this joint alone would explain "
    "{:.0%} of the squared error; check the sign, unit, gain and order of efforts, or "
    "joints and cables are flexible, friction lags, or something touches the robot"
)
_UNEXPLAINED_TEXT = (
    "no delay, gain or friction explains it; joints or cables may be flexible, friction may "
    "lag, or something may touch the robot"
)
_COUPLED_TEXT = (
    "rotor and friction of {} explain {:.0%} of the squared error, as if one motor moved "
    "both joints; {} in the drives file"
)
_SIGN_TEXT = (
    "its effort is {:.2g} times the torque of the description, so its sign is wrong; declare "
    "gain: {:.3g} in the drives file"
)
_GRAVITY_TEXT = (
    "its drive subtracts another gravity torque than this robot has, which explains {:.0%} "
    "of the squared error; set the tool and the load in the controller as they are"
)
_CONTAINED_GRAVITY_TEXT = (
    "its effort contains {:.2g} times the gravity torque of the description; do not "
    "declare gravity_compensated in the drives file"
)
_REMEDY_TEXTS = (
    "correct the sign of {} first, which may be the cause",
    "{} that move {} first, which may be the cause",
    "declare the delay of the other joints first, which may be the cause",
)


class TorqueErrors(NamedTuple):
    """Measured torques of motors and the errors of an identified model, in some samples."""

    q: Array  # (B, nq), rad or m
    v: Array  # (B, nv), rad/s or m/s
    a: Array  # (B, nv), rad/s2 or m/s2
    features: Array  # (B, choices, nv, n), columns of friction and rotors, in several choices
    error: Array  # (B, nv), N m or N, measured minus modeled; NaN if unknown
    torque: Array  # (B, lags, nv), N m or N, measured later by each lag
    lag: Array  # (lags,), s, equally spaced about 0
    steady: np.ndarray  # (B,), True if no joint starts, stops or turns nearby


def likely_causes(
    model: Model,
    errors: TorqueErrors,
    noise: Mapping[int, float],
    tried_terms: Collection[str] = (),
) -> dict[int, str]:
    """Return the likely cause of the errors of some rows of an identified model, and a remedy.

    ``noise`` has the standard deviation of the torques of these rows [N m, N]; ``tried_terms`` are
    the terms of friction that the identification has tried. Of the error that
    parameters for a row alone do not explain, each cause explains a fraction: torques of other
    times, an additional term of friction, or the motor of another joint. The cause with the largest
    fraction is likely. An effort of the wrong sign fits the description by a negative factor.
    """
    W = torque_regressor(model, Data(model), errors.q, errors.v, errors.a)
    W = model.drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    motor_errors = errors._replace(
        v=model.drives.motor_velocity(errors.v), a=model.drives.motor_velocity(errors.a)
    )
    gravity_causes: dict[int, _Cause | None] = {}
    if model.drives.is_compensated.any():
        zero = np.zeros_like(errors.v)
        G = joint_torque_regressor(model, Data(model), errors.q, zero, zero)
        gravity_causes = {
            k: _find_gravity_cause(model, motor_errors, W, G, k)
            for k in noise
            if model.drives.is_compensated[k]
        }
    causes = {
        k: gravity_causes.get(k) or _find_cause(model, motor_errors, W, k, deviation, tried_terms)
        for k, deviation in noise.items()
    }
    return {k: _text_for_row(k, cause, causes.values()) for k, cause in causes.items()}


class _Cause(NamedTuple):
    """The cause of the errors of a row."""

    text: str
    is_vague: bool = False  # True: the remedy of another row comes first
    remedy: tuple[int, str] | None = None  # priority (0 first), and text for rows with vague causes
    coupled_row: int | None = None  # the remedy concerns this row only; None: all rows
    contradicts_joints: bool = False  # True: remedies for every row concern this one


def _text_for_row(k: int, row_cause: _Cause, causes: Iterable[_Cause]) -> str:
    """Return the text for row k, from its cause and the causes of all rows."""
    remedies = [
        cause.remedy
        for cause in causes
        if cause.remedy and (row_cause.contradicts_joints or cause.coupled_row in (None, k))
    ]
    return min(remedies)[1] if remedies and row_cause.is_vague else row_cause.text


def _term_text(names: Sequence[str], tried_terms: Collection[str]) -> str:
    """Return what to do about terms of friction that would explain an error."""
    joined = " and ".join(names)
    if set(names) <= set(tried_terms):
        return _TRIED_TERM_TEXT.format(joined)
    return _ALLOWED_TERM_TEXT.format(joined)


def _find_cause(
    model: Model,
    errors: TorqueErrors,
    W: Array,
    k: int,
    noise: float,
    tried_terms: Collection[str],
) -> _Cause:
    """Return the cause for row k; ``W`` (B, nv, n) are columns of bodies, errors are of motors."""
    is_known = np.isfinite(errors.error[:, k])
    if is_known.sum() < _MIN_SAMPLES:
        return _Cause(_UNKNOWN_TEXT, True)
    names, W = model.velocity_names, W[is_known, k]
    torque, choices = errors.torque[is_known, :, k], errors.features[is_known, :, k]
    motion = {name: getattr(errors, name)[is_known] for name in ("q", "v", "a", "steady")}
    errors = errors._replace(**motion)
    v, error = errors.v[:, k], errors.error[is_known, k]
    measured = torque[:, len(errors.lag) // 2]
    factor = _wrong_sign_factor(
        W @ np.ravel(model.inertial_parameters), v, errors.a[:, k], measured
    )
    if factor < 0.0:
        # a smaller factor means another unit as well
        scale = 1.0 if factor < -1.0 / _MAX_DESCRIPTION_FACTOR else -factor
        return _Cause(
            _SIGN_TEXT.format(factor, -model.drives.gain[k] / scale),
            remedy=(0, _REMEDY_TEXTS[0].format(names[k])),
        )
    error_fraction = float(error @ error) / max(float(measured @ measured), 1e-300)
    if error_fraction > _MAX_ERROR_FRACTION:
        return _Cause(_UNKNOWN_TEXT, True)
    bases = (_orthonormal_basis(np.hstack([W, columns])) for columns in choices.swapaxes(0, 1))
    # residuals (B, lags) of parameters for this row alone, with the better choice of features
    basis, residuals = min(
        ((basis, torque - basis @ (basis.T @ torque)) for basis in bases),
        key=lambda pair: float(np.square(pair[1]).sum(axis=0).min()),
    )
    squares, residual = np.square(residuals), residuals[:, len(errors.lag) // 2]
    delay_fraction, delay = _fit_delay(squares.sum(axis=0), errors.lag)
    # a filter delays jumps of friction less than the rest of the torque
    delay = _fit_delay(squares[errors.steady].sum(axis=0), errors.lag)[1] or delay
    load = np.abs(measured - error) * np.sign(v)
    load_fraction, load_friction = _explained_fraction(load, basis, residual)
    speed_fraction, _ = _explained_fraction(np.sqrt(np.abs(v)) * np.sign(v), basis, residual)
    max_fraction = max(delay_fraction, load_fraction, speed_fraction)
    alone_fraction = 1.0 - float(residual @ residual) / float(error @ error)
    is_noise = residual @ residual < len(residual) * (MAX_NOISE_RATIO * noise) ** 2
    coupled_fraction, j, next_fraction = _most_coupled_motor(errors, k, basis, residual)
    angles = errors.q[:, [model.idx_q[velocity_joints(model)[row]] for row in (k, j)]]
    spring_fraction = max(
        _explained_fraction(np.column_stack([angle, angle**2]), basis, residual)[0]
        for angle in angles.T
    )
    uncoupled_fraction = max(max_fraction, next_fraction, spring_fraction)
    text = _CONTRADICTION_TEXT if is_noise else _UNEXPLAINED_CONTRADICTION_TEXT
    contradiction = _Cause(text.format(alone_fraction), True, contradicts_joints=True)
    if alone_fraction > _CLEAR_CONTRADICTION_FRACTION:
        return contradiction
    if (
        coupled_fraction > _MIN_SINGLE_CAUSE_FRACTION
        and 1.0 - coupled_fraction < _MAX_REMAINDER_RATIO * (1.0 - uncoupled_fraction)
        and not is_noise
    ):
        coupling = model.drives.coupling
        is_declared = coupling is not None and np.count_nonzero(coupling[:, [k, j]]) > 2
        remedy = "check the matrix of motors" if is_declared else "declare motors"
        return _Cause(
            _COUPLED_TEXT.format(names[j], coupled_fraction, remedy),
            remedy=(1, _REMEDY_TEXTS[1].format(remedy, f"{names[j]} and {names[k]}")),
            coupled_row=j,
        )
    if max_fraction > _MIN_EXPLAINED_FRACTION and max_fraction == delay_fraction:
        return _Cause(
            _DELAY_TEXT.format(
                "late" if delay > 0.0 else "early",
                abs(1e3 * delay),
                delay_fraction,
                model.drives.delay[k] + delay,
            ),
            remedy=(2, _REMEDY_TEXTS[2]) if delay_fraction > _SHARED_DELAY_FRACTION else None,
        )
    if max_fraction > _MIN_EXPLAINED_FRACTION and max_fraction == load_fraction:
        text = _LOAD_FRICTION_TEXT.format(load_friction, load_fraction)
        return _Cause(text + _term_text(["load_friction"], tried_terms))
    if max_fraction > _MIN_EXPLAINED_FRACTION:
        text = _SPEED_FRICTION_TEXT.format(speed_fraction)
        return _Cause(text + _term_text(["root_friction", "stribeck"], tried_terms))
    if alone_fraction > _CONTRADICTION_FRACTION:
        return contradiction
    text = _UNEXPLAINED_TEXT if error_fraction < _SMALL_ERROR_FRACTION else _UNKNOWN_TEXT
    return _Cause(text, True)


def _find_gravity_cause(
    model: Model, errors: TorqueErrors, W: Array, G: Array, k: int
) -> _Cause | None:
    """Return the cause for row k if gravity torques, columns G (B, nv, n), explain its error."""
    is_known = np.isfinite(errors.error[:, k])
    if is_known.sum() < _MIN_SAMPLES or not G[:, k].any():
        return None
    basis = _orthonormal_basis(np.hstack([W[is_known, k], errors.features[is_known, 0, k]]))
    error = errors.error[is_known, k] - basis @ (basis.T @ errors.error[is_known, k])
    gravity_fraction, _ = _explained_fraction(G[is_known, k], basis, error)
    if gravity_fraction < _MIN_SINGLE_CAUSE_FRACTION:
        return None
    described_gravity = G[is_known, k] @ np.ravel(model.inertial_parameters)
    described_fraction, scale = _explained_fraction(described_gravity, basis, error)
    if described_fraction > _MIN_SINGLE_CAUSE_FRACTION and abs(scale - 1.0) < _MAX_GRAVITY_ERROR:
        return _Cause(_CONTAINED_GRAVITY_TEXT.format(scale))
    return _Cause(_GRAVITY_TEXT.format(gravity_fraction))


def _wrong_sign_factor(expected: Array, v: Array, a: Array, measured: Array) -> float:
    """Return the factor of the described torque in the measured one if its sign is wrong, else 0.

    Friction and a rotor are estimated with it. If the sign is wrong, this friction does not brake.
    """
    A = np.column_stack([v, np.sign(v), np.ones(len(v)), a, expected])
    x = np.linalg.lstsq(A, measured)[0]
    Q = np.linalg.qr(A[:, :4])[0]
    residual, model_column = (column - Q @ (Q.T @ column) for column in (measured, expected))
    explained = (
        x[4] ** 2 * float(model_column @ model_column) / max(float(residual @ residual), 1e-300)
    )
    power = float(v @ A[:, :2] @ x[:2]) / max(float(np.abs(v * measured).sum()), 1e-300)
    is_wrong = (
        -_MAX_DESCRIPTION_FACTOR < x[4] < 0.0
        and explained > _MIN_SINGLE_CAUSE_FRACTION
        and power < _MIN_FRICTION_POWER
    )
    return float(x[4]) if is_wrong else 0.0


def _most_coupled_motor(
    errors: TorqueErrors, k: int, basis: Array, error: Array
) -> tuple[float, int, float]:
    """Return the fraction of the squared error that another motor explains, its row, and the next.

    The last number is the fraction that the second best motor explains. Coulomb friction has to
    explain a fraction, since little else jumps where another joint reverses, unless the motor
    explains nearly the whole error.
    """
    v, fractions = errors.v, [(0.0, k), (0.0, k)]
    for j in range(v.shape[1]):
        if j != k:
            C = np.column_stack([v[:, j], errors.a[:, j], _friction_signs(v[:, k], v[:, j])])
            fractions.append((_explained_fraction(C, basis, error)[0], j))
    (fraction, j), (next_fraction, _) = sorted(fractions, reverse=True)[:2]
    jump_fraction = _explained_fraction(_friction_signs(v[:, k], v[:, j]), basis, error)[0]
    is_motor = jump_fraction > _MIN_JUMP_FRACTION or fraction > _COUPLED_WITHOUT_JUMPS_FRACTION
    return fraction if is_motor else 0.0, j, next_fraction


def _friction_signs(joint_v: Array, motor_v: Array) -> Array:
    """Return the signs of the velocity of another motor, which may turn with the joint, too."""
    signs: Array = np.sign(np.column_stack([motor_v, joint_v + motor_v, joint_v - motor_v]))
    return signs


def _orthonormal_basis(A: Array) -> Array:
    """Return an orthonormal basis of the span of columns, (B, n)."""
    A = A[:, np.abs(A).max(axis=0) > 0.0]
    U, s, _ = np.linalg.svd(A / np.linalg.norm(A, axis=0), full_matrices=False)
    basis: Array = U[:, s > _RANK_TOLERANCE * s[0]]
    return basis


def _fit_delay(squares: Array, lag: Array) -> tuple[float, float]:
    """Return the fraction of the squared error that a delay explains, and the delay [s].

    ``squares`` are the squared errors of torques at all lags. A parabola through the least of them
    and its neighbors has its minimum at the delay.
    """
    n = int(np.argmin(squares))
    fraction = 1.0 - float(squares[n] / max(squares[len(lag) // 2], 1e-300))
    if not 0 < n < len(lag) - 1:
        return 0.0, 0.0
    error_before, min_error, error_after = squares[n - 1 : n + 2]
    curvature = max(error_before - 2.0 * min_error + error_after, 1e-300)
    shift = 0.5 * (error_before - error_after) / curvature
    return fraction, float(lag[n] + shift * (lag[1] - lag[0]))


def _explained_fraction(columns: Array, basis: Array, error: Array) -> tuple[float, float]:
    """Return the fraction of the squared error that columns explain, and the first coefficient.

    The error in each half of the stretches is explained with coefficients from the other half.
    """
    columns = columns.reshape(len(error), -1)
    columns = columns - basis @ (basis.T @ columns)
    is_odd = np.arange(len(error)) * _STRETCH_COUNT // len(error) % 2 == 1
    unexplained = 0.0
    for is_training in (is_odd, ~is_odd):
        x = np.linalg.lstsq(columns[is_training], error[is_training])[0]
        unexplained += float(np.square(error[~is_training] - columns[~is_training] @ x).sum())
    return (
        1.0 - unexplained / max(float(error @ error), 1e-300),
        float(np.linalg.lstsq(columns, error)[0][0]),
    )
