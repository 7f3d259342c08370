# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Why an identified model does not explain the torques of a joint: causes, tried in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import velocity_joints
from .efforts import torque_regressor

LONGEST = 0.1  # s: of delays that are tried
LAGS = 20  # of them, forward and backward
_EXPLAINED = 0.25  # of the squared error that a cause explains, if it is likely
POOR = 2.0  # times the noise: an error that noise does not explain
_MOSTLY = 0.5  # of the squared error that parameters for the joint alone explain
_ALL = 0.9  # of it: so much that nothing else has to be explained
_NOTHING = 0.5  # of the squared torque: the model explains next to nothing
_LITTLE = 0.05  # of it: the sign, unit and order of the efforts are right
_STRETCHES = 10  # every other one determines the factor of a cause
_FEWEST = 100  # samples
_SINGULAR = 1e-6  # of the largest singular value of scaled columns
UNKNOWN = (
    "check the sign, unit and order of efforts and positions, and that both have the same "
    "time stamps"
)
_LATE = (
    "its efforts are {}, or filtered: {:.2g} ms explain {:.0%} of the squared error; declare "
    "delay: {:.2g} in the drives file"
)
_LOAD = (
    "friction of {:.2g} times the load explains {:.0%} of the squared error; allow "
    "load_friction (--friction-terms)"
)
_SPEED = (
    "friction that grows less at high velocity explains {:.0%} of the squared error; allow "
    "root_friction and stribeck (--friction-terms)"
)
_ALONE = (
    "parameters for this joint alone would explain {:.0%} of the squared error, so it "
    "contradicts the other joints; check the sign, unit, gain and order of efforts, and that "
    "they have the time stamps of the positions"
)
_EITHER = (
    "no delay or friction explains it, but parameters for this joint alone would explain "
    "{:.0%} of the squared error; check the sign, unit, gain and order of efforts, or "
    "joints and cables are flexible, friction lags, or something touches the robot"
)
_OTHER = (
    "no delay, gain or friction explains it; joints or cables may be flexible, friction may "
    "lag, or something may touch the robot"
)
_COUPLED = (
    "rotor and friction of {} explain {:.0%} of the squared error, as if one motor moved "
    "both joints; {} in the drives file"
)
_SIGN = (
    "its effort is {:.2g} times the torque of the description, so its sign is wrong; declare "
    "gain: {:.3g} in the drives file"
)
_GRAVITY = (
    "its drive subtracts another gravity torque than this robot has, which explains {:.0%} "
    "of the squared error; set the tool and the load in the controller as they are"
)
_CONTAINED = (
    "its effort contains {:.2g} times the gravity torque of the description; do not "
    "declare gravity_compensated in the drives file"
)
_FIRST = (
    "correct the sign of {} first, which may be the cause",
    "{} that move {} first, which may be the cause",
    "declare the delay of the other joints first, which may be the cause",
)
_CERTAIN = 0.5  # of the squared error: a delay that other joints probably have as well
_OF_BOTH = 0.5  # of it: of one other joint, if a motor moves both
_JUMPS = 0.15  # of it, at least: of the Coulomb friction of this motor
_NEARLY = 0.95  # of the squared error: even without jumps, one motor moves both
_CLEARLY = 0.5  # of what other causes leave of it, at most
_FACTOR = 3.0  # far beyond the errors of a description
_NEAR = 0.3  # of the gravity torque of the description: errors of it
_LOST = 0.01  # of the power, that friction takes at least if the sign is right


class Errors(NamedTuple):
    """What an identified model leaves of the torques of motors, in some samples."""

    q: Array  # (B, nq) [rad, m]
    v: Array  # (B, nv)
    a: Array  # (B, nv)
    features: Array  # (B, choices, nv, n), columns of friction and rotors that may explain it
    error: Array  # (B, nv), measured minus modeled [N m, N]; NaN if unknown
    torque: Array  # (B, lags, nv), measured later [N m, N]
    lag: Array  # (lags,), by how much [s], equally spaced about 0
    steady: np.ndarray  # (B,) of bool, whether no joint starts, stops or turns nearby


def likely_causes(model: Model, errors: Errors, noise: Mapping[int, float]) -> dict[int, str]:
    """The likely cause of the errors of some rows of an identified model, and a remedy.

    ``noise`` has the standard deviation of the torques of these rows [N m, N]. Of the error that
    parameters for a row alone do not explain, each cause explains a part: torques of other times,
    an additional term of friction, or the motor of another joint. The largest part decides. An
    effort of the wrong sign fits the description by a negative factor.
    """
    W = torque_regressor(model, Data(model), errors.q, errors.v, errors.a)
    W = model.drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    moving = errors._replace(
        v=model.drives.motor_velocity(errors.v), a=model.drives.motor_velocity(errors.a)
    )
    of_gravity: dict[int, _Cause | None] = {}
    if model.drives.is_compensated.any():
        still = np.zeros_like(errors.v)
        G = joint_torque_regressor(model, Data(model), errors.q, still, still)
        of_gravity = {
            k: _of_gravity(model, moving, W, G, k) for k in noise if model.drives.is_compensated[k]
        }
    causes = {k: of_gravity.get(k) or _cause(model, moving, W, k, one) for k, one in noise.items()}
    return {k: _text(k, cause, causes.values()) for k, cause in causes.items()}


class _Cause(NamedTuple):
    """The cause for a row; ``first`` is a remedy with its priority, for rows with a vague cause.

    It is for all of these, or for the row ``other`` and those that contradict other joints.
    """

    text: str
    is_vague: bool = False
    first: tuple[int, str] | None = None
    other: int | None = None
    contradicts: bool = False


def _text(k: int, own: _Cause, causes: Iterable[_Cause]) -> str:
    """The text for row k, by its own cause and the causes of all rows."""
    first = [
        cause.first
        for cause in causes
        if cause.first and (own.contradicts or cause.other in (None, k))
    ]
    return min(first)[1] if first and own.is_vague else own.text


def _cause(model: Model, errors: Errors, W: Array, k: int, noise: float) -> _Cause:
    """The cause for row k; ``W`` (B, nv, n) are the columns of bodies, errors are of motors."""
    known = np.isfinite(errors.error[:, k])
    if known.sum() < _FEWEST:
        return _Cause(UNKNOWN, True)
    names, W = model.velocity_names, W[known, k]
    errors = errors._replace(
        **{name: rows[known] for name, rows in errors._asdict().items() if name != "lag"}
    )
    v, error, torque = errors.v[:, k], errors.error[:, k], errors.torque[..., k]
    measured = torque[:, len(errors.lag) // 2]
    factor = _factor(W @ np.ravel(model.inertial_parameters), v, errors.a[:, k], measured)
    if factor < 0.0:
        size = 1.0 if factor < -1.0 / _FACTOR else -factor  # or in another unit
        return _Cause(
            _SIGN.format(factor, -model.drives.gain[k] / size),
            first=(0, _FIRST[0].format(names[k])),
        )
    part = float(error @ error) / max(float(measured @ measured), 1e-300)
    if part > _NOTHING:
        return _Cause(UNKNOWN, True)
    choices = errors.features[..., k, :].swapaxes(0, 1)
    bases = [_basis(np.hstack([W, columns])) for columns in choices]
    basis, rest = min(
        ((basis, torque - basis @ (basis.T @ torque)) for basis in bases),
        key=lambda pair: float(np.square(pair[1]).sum(axis=0).min()),
    )
    left, own = np.square(rest), rest[:, len(errors.lag) // 2]
    late, delay = _delay(left.sum(axis=0), errors.lag)
    # a filter delays the jumps of friction less than all else
    delay = _delay(left[errors.steady].sum(axis=0), errors.lag)[1] or delay
    load, friction = _explained(np.abs(measured - error) * np.sign(v), basis, own)
    speed, _ = _explained(np.sqrt(np.abs(v)) * np.sign(v), basis, own)
    best, alone = max(late, load, speed), 1.0 - float(own @ own) / float(error @ error)
    is_noise = own @ own < len(own) * (POOR * noise) ** 2
    both, j, less = _coupled(errors, k, basis, own)
    angles = errors.q[:, [model.idx_q[velocity_joints(model)[one]] for one in (k, j)]]
    spring = max(
        _explained(np.column_stack([angle, angle**2]), basis, own)[0] for angle in angles.T
    )
    others = max(best, less, spring)
    contradiction = _Cause((_ALONE if is_noise else _EITHER).format(alone), True, contradicts=True)
    if alone > _ALL:
        return contradiction
    if both > _OF_BOTH and 1.0 - both < _CLEARLY * (1.0 - others) and not is_noise:
        coupling = model.drives.coupling
        declared = coupling is not None and np.count_nonzero(coupling[:, [k, j]]) > 2
        remedy = "check the matrix of motors" if declared else "declare motors"
        return _Cause(
            _COUPLED.format(names[j], both, remedy),
            first=(1, _FIRST[1].format(remedy, f"{names[j]} and {names[k]}")),
            other=j,
        )
    if best > _EXPLAINED and best == late:
        return _Cause(
            _LATE.format(
                "late" if delay > 0.0 else "early",
                abs(1e3 * delay),
                late,
                model.drives.delay[k] + delay,
            ),
            first=(2, _FIRST[2]) if late > _CERTAIN else None,
        )
    if best > _EXPLAINED:
        return _Cause(_LOAD.format(friction, load) if best == load else _SPEED.format(speed))
    if alone > _MOSTLY:
        return contradiction
    return _Cause(_OTHER if part < _LITTLE else UNKNOWN, True)


def _of_gravity(model: Model, errors: Errors, W: Array, G: Array, k: int) -> _Cause | None:
    """The cause for row k, if gravity torques with columns G (B, nv, n) explain its error."""
    known = np.isfinite(errors.error[:, k])
    if known.sum() < _FEWEST or not G[:, k].any():
        return None
    basis = _basis(np.hstack([W[known, k], errors.features[known, 0, k]]))
    error = errors.error[known, k] - basis @ (basis.T @ errors.error[known, k])
    part, _ = _explained(G[known, k], basis, error)
    if part < _OF_BOTH:
        return None
    own, scale = _explained(G[known, k] @ np.ravel(model.inertial_parameters), basis, error)
    is_contained = own > _OF_BOTH and abs(scale - 1.0) < _NEAR
    return _Cause(_CONTAINED.format(scale) if is_contained else _GRAVITY.format(part))


def _factor(expected: Array, v: Array, a: Array, measured: Array) -> float:
    """The factor of the described torque in the measured one, if its sign is certainly wrong.

    Otherwise it is 0. Friction and a rotor are estimated with it: this friction does not brake.
    """
    A = np.column_stack([v, np.sign(v), np.ones(len(v)), a, expected])
    x = np.linalg.lstsq(A, measured)[0]
    Q = np.linalg.qr(A[:, :4])[0]
    rest, own = (column - Q @ (Q.T @ column) for column in (measured, expected))
    explained = x[4] ** 2 * float(own @ own) / max(float(rest @ rest), 1e-300)
    power = float(v @ A[:, :2] @ x[:2]) / max(float(np.abs(v * measured).sum()), 1e-300)
    is_wrong = -_FACTOR < x[4] < 0.0 and explained > _OF_BOTH and power < _LOST
    return float(x[4]) if is_wrong else 0.0


def _coupled(errors: Errors, k: int, basis: Array, error: Array) -> tuple[float, int, float]:
    """The part of the squared error that the likeliest other joint explains, which, and the next.

    Coulomb friction has to explain some, since little else jumps where another joint reverses, or
    nearly all of the error is explained.
    """
    v, parts = errors.v, [(0.0, k), (0.0, k)]
    for j in range(v.shape[1]):
        if j != k:
            C = np.column_stack([v[:, j], errors.a[:, j], _jumps(v[:, k], v[:, j])])
            parts.append((_explained(C, basis, error)[0], j))
    (part, j), (less, _) = sorted(parts, reverse=True)[:2]
    jumps = _explained(_jumps(v[:, k], v[:, j]), basis, error)[0]
    return part if jumps > _JUMPS or part > _NEARLY else 0.0, j, less


def _jumps(own: Array, other: Array) -> Array:
    """The signs of the velocity of another motor, which may turn with the own joint, too."""
    jumps: Array = np.sign(np.column_stack([other, own + other, own - other]))
    return jumps


def _basis(A: Array) -> Array:
    """An orthonormal basis of what the columns of parameters explain, (B, n)."""
    A = A[:, np.abs(A).max(axis=0) > 0.0]
    U, s, _ = np.linalg.svd(A / np.linalg.norm(A, axis=0), full_matrices=False)
    basis: Array = U[:, s > _SINGULAR * s[0]]
    return basis


def _delay(left: Array, lag: Array) -> tuple[float, float]:
    """The part of the squared error that torques of another time do not have, and which time.

    ``left`` are the squared errors of torques of all lags; between three, they are a parabola.
    """
    n = int(np.argmin(left))
    share = 1.0 - float(left[n] / max(left[len(lag) // 2], 1e-300))
    if not 0 < n < len(lag) - 1:
        return 0.0, 0.0
    before, least, after = left[n - 1 : n + 2]
    shift = 0.5 * (before - after) / max(before - 2.0 * least + after, 1e-300)
    return share, float(lag[n] + shift * (lag[1] - lag[0]))


def _explained(columns: Array, basis: Array, error: Array) -> tuple[float, float]:
    """The part of the squared error that columns explain elsewhere, and the factor of the first."""
    columns = columns.reshape(len(error), -1)
    columns = columns - basis @ (basis.T @ columns)
    odd, left = np.arange(len(error)) * _STRETCHES // len(error) % 2 == 1, 0.0
    for fitted in (odd, ~odd):
        x = np.linalg.lstsq(columns[fitted], error[fitted])[0]
        left += float(np.square(error[~fitted] - columns[~fitted] @ x).sum())
    return (
        1.0 - left / max(float(error @ error), 1e-300),
        float(np.linalg.lstsq(columns, error)[0][0]),
    )
