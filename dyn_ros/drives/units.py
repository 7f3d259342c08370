# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks that measured efforts can be torques, by the gravity torques of the description."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import generalized_gravity, joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.names import join_names
from ..engine.kernel.types import Array
from ..engine.model import Model
from .gravity_fit import fit_gravity

_MIN_GRAVITY_RATIO = 0.1  # relative to the largest; an unknown tool alters smaller torques
_MAX_DESCRIPTION_FACTOR = 3.0  # far beyond the errors of a description
_DOUBLED_GRAVITY_FACTOR = 1.5  # beyond it, gravity was in the effort and was added again
_MIN_EXPLAINED_FRACTION = 0.5  # fraction of the variance; a fit that explains less is not believed
_MAX_VARIANCE_RATIO = 0.25  # unexplained variance with another joint to that with its own
_MIN_EXPLAINED_BY_OTHER_JOINT = 0.9  # fraction of the variance
_MIN_EXPLAINED_BY_GRAVITY = 0.6  # fraction of the variance; loads and wrong masses leave the rest
_MAX_GRAVITY_CHANGE = 0.5  # magnitude of estimated gravity relative to declared gravity, minus 1
_MIN_FRICTION_POWER = 0.01  # relative to the power of efforts; less if their sign is wrong
_MIN_GRAVITY_ANGLE = 10.0  # degrees; a description that is wrong turns estimated gravity by less
_MIN_ZERO_OFFSET = 0.1  # relative to the RMS effort; smaller offsets do not matter
_MAX_REGRESSOR_SIZE = 5_000_000  # numbers in memory
_BLOCK_COUNT = 20  # blocks of samples; their scatter shows the standard error of an offset
_MIN_STANDARD_ERRORS = 4.0  # a smaller offset is not certain
_MIN_CONSTANT_FRACTION = 1e-3  # squared; below it, parameters of bodies imitate an offset
_RANK_TOLERANCE = 1e-4  # relative to the largest singular value of scaled columns
_COLLAPSED_MASS_RATIO = 0.2  # relative to the described mass; below it, a mass has collapsed
_MIN_MASS_FRACTION = 0.02  # relative to the robot; lighter bodies are not reported
_MIN_SPEED = 0.01  # rad/s, m/s; beyond it, Coulomb friction is complete
_MIN_DIRECTION_FRACTION = 0.05  # fewer samples in a direction do not determine friction
_MIN_REST_LOAD_RATIO = 0.5  # relative to the largest gravity torque; beyond it, more than friction
_MAX_LIMIT_RATIO = 3.0  # position relative to its limit; beyond it, in another unit or of the motor
_POSITIONS_TEXT = (
    "positions lie far beyond the limits: {}; convert them to rad or m if they are in degrees "
    "or mm, or divide them by the gear ratio if they are of the motor"
)
_REMEDY_TEXT = (
    "declare unit, gain and sign in the drives file, or estimate gains from a known load "
    "(dyn_ros identify --effort-constant estimate)"
)


def unit_warnings(model: Model, q: Array, v: Array, a: Array, effort: Array) -> list[str]:
    """Return the messages of `unit_faults`, or without any, those of `offset_warnings`."""
    return unit_faults(model, q, v, a, effort) or offset_warnings(model, q, v, a, effort)


def unit_faults(model: Model, q: Array, v: Array, a: Array, effort: Array) -> list[str]:
    """Return messages on positions that are not in rad or m and efforts that are not in N m or N.

    The part of each effort that viscous and Coulomb friction, an offset and the inertial torque
    do not explain is compared with the gravity torque of the description. Joints that gravity
    loads little are left out, and factors below 3 are taken for errors of the description.

    Parameters
    ----------
    model : Model
        The description.
    q, v, a : (B, nq), (B, nv), (B, nv) array
        Positions, velocities, and accelerations [rad, m, s].
    effort : (B, nv) array
        As measured; joints with NaN, or whose effort is constant, are left out.

    Returns
    -------
    list of str
        Messages with the joint, the figures and the remedy.
    """
    positions = _positions_beyond_limits(model, q)
    messages = [_POSITIONS_TEXT.format(", ".join(positions))] if positions else []
    if 2 * len(positions) > model.nv:  # gravity torques are unknown
        return messages
    return messages + _effort_messages(model, q, v, a, effort)


def _positions_beyond_limits(model: Model, q: Array) -> list[str]:
    """Return the joints whose positions lie far beyond their limits, with these numbers."""
    if model.nq != model.nv:
        return []
    limit = np.maximum(np.abs(model.lower), np.abs(model.upper))
    largest = np.abs(q).max(axis=0)
    return [
        f"{model.velocity_names[k]} (up to {largest[k]:.3g}, the limit is {limit[k]:.3g})"
        for k in np.flatnonzero(
            np.isfinite(limit) & (limit > 0.0) & (largest > _MAX_LIMIT_RATIO * limit)
        )
    ]


def degrees_hint(kind: str, x: float, lower: float, upper: float) -> str:
    """Return a question if the position of a joint [rad] is probably in degrees, otherwise "".

    It then lies far beyond its limits in rad, and within them in degrees.
    """
    radians, limit = math.radians(x), max(abs(lower), abs(upper))
    if kind != "revolute" or abs(x) < _MAX_LIMIT_RATIO * limit or not lower <= radians <= upper:
        return ""
    return f"did you mean {x:g} degrees = {radians:.4g} rad?"


def collapsed_masses(
    model: Model, parameters: Array, q: Array, v: Array, a: Array, torque: Array
) -> list[str]:
    """Return a message if estimated masses are far below the description, otherwise none.

    Parameters
    ----------
    model : Model
        The description.
    parameters : (njoints, 10) array
        Estimated, as ``Model.inertial_parameters``.
    q, v, a, torque : (B, nq), (B, nv), (B, nv), (B, nv) array
        Positions, velocities, accelerations, and torques at the joints [rad, m, s, N m, N].
    """
    described, estimated = model.inertial_parameters[:, 0], parameters[:, 0]
    bodies = np.flatnonzero(
        (estimated < _COLLAPSED_MASS_RATIO * described)
        & (described > _MIN_MASS_FRACTION * described.sum())
    )
    if not len(bodies):
        return []
    expected = np.array(rnea(model, Data(model), q, v, a))
    ratios = np.array(
        [
            np.linalg.lstsq(np.column_stack([x, np.ones(len(x)), w, np.sign(w)]), tau)[0][0]
            if x.std() > 0.0
            else np.nan
            for x, w, tau in zip(expected.T, v.T, torque.T)
        ]
    )
    scale, where = np.nanmedian([*ratios, np.nan]), "median of the joints"
    if (
        scale > 1.0 / _MAX_DESCRIPTION_FACTOR
    ):  # other bodies carry the load, or the description is wrong
        joint_ratios = ratios[_first_rows(model)]
        bodies = bodies[joint_ratios[bodies] < 1.0 / _MAX_DESCRIPTION_FACTOR]
        if not len(bodies):
            return []
        least = bodies[np.argmin(joint_ratios[bodies])]
        scale, where = joint_ratios[least], f"of {model.joint_names[least]}"
    masses = (
        f"{estimated[i]:.3g} kg instead of {described[i]:.3g} kg for the body of "
        f"{model.joint_names[i]}"
        for i in sorted(bodies, key=lambda i: -described[i])
    )
    return [
        f"masses collapsed, so they are not usable: {join_names(masses, most=3)}. Measured torques "
        f"are {scale:.2g} times the torques of the description ({where}). "
        f"The likely cause is {_collapse_cause(model, bodies)}"
    ]


def _first_rows(model: Model) -> NDArray[Any]:
    """Return the first row in v of each joint; an arbitrary row for a mimic joint."""
    rows: NDArray[Any] = np.minimum(np.cumsum(model.nvs) - model.nvs, model.nv - 1)
    return rows


def _collapse_cause(model: Model, bodies: NDArray[Any]) -> str:
    """Return what the drives of bodies whose masses collapsed do not declare yet, and a remedy."""
    rows, drives = _first_rows(model)[bodies], model.drives
    declared = [model.joint_names[i] for i in bodies[drives.is_compensated[rows]]]
    gravity = ", or gravity that is already subtracted"
    if declared:
        gravity += f", which is declared for {', '.join(declared)} only"
    if len(declared) == len(bodies):
        gravity = " (gravity is declared as subtracted, so they depend on inertia only)"
    remedy = _REMEDY_TEXT
    if (drives.gain[rows] != 1.0).all():
        remedy = remedy.replace("declare unit, gain and sign", "check gain and sign")
    return (
        f"the unit or gain of the efforts{gravity}; {remedy}. Until then, set these efforts to "
        "0 in all rows, which leaves them out: they also spoil the bodies of other joints"
    )


def _effort_messages(model: Model, q: Array, v: Array, a: Array, effort: Array) -> list[str]:
    """Return warnings of efforts that are not in N m or N."""
    data = Data(model)
    gravity = np.array(generalized_gravity(model, data, q))
    inertial = np.array(rnea(model, data, q, v, a)) - gravity
    spread = gravity.std(axis=0)
    is_measured = effort.std(axis=0) > 0.0  # False if NaN
    if np.abs(v).max(axis=1, initial=0.0).mean() < _MIN_SPEED:
        return list(_rest_messages(model, gravity.mean(axis=0), effort.mean(axis=0)))
    is_loaded = spread > max(_MIN_GRAVITY_RATIO * spread.max(initial=0.0), 1e-9)
    columns = {
        int(j): np.column_stack(
            [np.ones(len(v)), v[:, j], np.sign(v[:, j]), inertial[:, j], gravity[:, j]]
        )
        for j in np.flatnonzero(is_measured)
    }
    loaded_columns = {j: A for j, A in columns.items() if is_loaded[j]}
    min_gravity = _MIN_GRAVITY_RATIO * float(np.abs(gravity.mean(axis=0)).max(initial=0.0))
    has_one_motor = _has_one_motor(model)
    unexplained = {j: _unexplained_variance(A, effort) for j, A in columns.items()}

    def gravity_messages(k: int, A: Array) -> list[str]:
        tau = effort[:, k]
        candidates = [
            j
            for j, B in loaded_columns.items()
            if k in loaded_columns
            or has_one_motor[k]
            and _moves_both_ways(v[:, k])
            and _contains_gravity(B, tau)
        ]
        fractions = {j: float(unexplained[j][k]) for j in (*candidates, k)}
        return (
            [*_other_joint_messages(model, k, fractions)]
            or k in loaded_columns
            and [*_gravity_messages(model, k, A, tau)]
            or [*_subtracted_gravity_messages(model.velocity_names[k], A, tau, min_gravity)]
        )

    if messages := _gravity_direction_messages(model, q, v, inertial, effort):
        return messages
    return [text for k, A in columns.items() for text in gravity_messages(k, A)]


def offset_warnings(model: Model, q: Array, v: Array, a: Array, effort: Array) -> list[str]:
    """Return messages on efforts with a constant part that bodies and friction do not explain.

    The arguments are those of `unit_faults`.
    """
    joints = [
        k
        for k in np.flatnonzero((effort.std(axis=0) > 0.0) & _has_one_motor(model))
        if _moves_both_ways(v[:, k])
    ]
    if not joints:
        return []
    rows = slice(None, None, 1 + 10 * v.size * model.njoints // _MAX_REGRESSOR_SIZE)
    W = joint_torque_regressor(model, Data(model), q[rows], v[rows], a[rows])
    return [
        text
        for k in joints
        for text in _offset_messages(model.velocity_names[k], v[rows, k], W[:, k], effort[rows, k])
    ]


def _has_one_motor(model: Model) -> NDArray[np.bool_]:
    """Return a mask, (nv,): True unless several motors move the joint, with friction of each."""
    coupling = model.drives.coupling
    if coupling is None:
        return np.ones(model.nv, bool)
    return np.count_nonzero(coupling, 0) == 1


def _gravity_direction_messages(
    model: Model, q: Array, v: Array, inertial: Array, effort: Array
) -> list[str]:
    """Return a message if gravity of another direction explains the efforts of all joints."""
    fit = fit_gravity(model, q, v, inertial, effort)
    if fit is None:
        return []
    g, declared = fit.gravity, np.array(model.gravity)
    size, declared_size = float(np.linalg.norm(g)), float(np.linalg.norm(declared))
    cosine = float(g @ declared) / max(size * declared_size, 1e-300)
    angle = float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
    remainder, declared_remainder = map(fit.unexplained_variance, (g, declared))
    if (
        abs(size - declared_size) > _MAX_GRAVITY_CHANGE * declared_size
        or angle < _MIN_GRAVITY_ANGLE
        or remainder > 1.0 - _MIN_EXPLAINED_BY_GRAVITY
        or remainder > _MAX_VARIANCE_RATIO * declared_remainder
        or cosine < 0.0
        and fit.friction_power < _MIN_FRICTION_POWER  # efforts of the wrong sign look the same
    ):
        return []
    numbers = " ".join(f"{round(x, 2) + 0.0:g}" for x in g)
    intervals = " ".join(f"{x:.1g}" for x in fit.half_widths)
    declared_numbers = " ".join(f"{x:g}" for x in declared)
    return [
        f"gravity points {angle:.0f} degrees away from declared gravity, as if the robot were "
        f"mounted on a ceiling, a wall or a slope: {numbers} m/s2 (95 % intervals of "
        f"+- {intervals}) explains {1.0 - remainder:.0%} of the efforts' variance, "
        f"{declared_numbers} explains "
        f"{max(1.0 - declared_remainder, 0.0):.0%}; use {numbers} for model.gravity, and for "
        "the parameter gravity of the nodes"
    ]


def _rest_messages(model: Model, gravity: Array, effort: Array) -> Iterator[str]:
    """Yield messages on mean efforts of a robot almost at rest; friction may hide small errors."""
    min_gravity = _MIN_REST_LOAD_RATIO * np.abs(gravity).max(initial=1e-9)
    for k in np.flatnonzero(np.abs(gravity) > min_gravity):
        if (
            not np.isnan(effort[k])
            and not 1.0 / _MAX_DESCRIPTION_FACTOR < effort[k] / gravity[k] < _MAX_DESCRIPTION_FACTOR
        ):
            yield (
                f"{model.velocity_names[k]}: at rest, its effort is {effort[k]:.3g} with a "
                f"gravity torque of {gravity[k]:.3g} in the description; it is in another unit, "
                "such as A, its sign or zero is wrong, or gravity is already subtracted; "
                f"{_REMEDY_TEXT}"
            )


def _other_joint_messages(model: Model, k: int, unexplained: dict[int, float]) -> Iterator[str]:
    """Yield a message if another joint, which gravity loads, explains the effort of joint k.

    ``unexplained`` is the fraction of the variance of this effort that each joint leaves.
    """
    j = min(unexplained, key=lambda joint: unexplained[joint])
    if unexplained[j] < min(
        _MAX_VARIANCE_RATIO * unexplained[k], 1.0 - _MIN_EXPLAINED_BY_OTHER_JOINT
    ):
        yield (
            f"{model.velocity_names[k]}: the motion of {model.velocity_names[j]} "
            f"explains {1.0 - unexplained[j]:.0%} of its effort, its own "
            f"{1.0 - unexplained[k]:.0%}; check the order of the columns"
        )


def _contains_gravity(A: Array, effort: Array) -> bool:
    """Return True if an effort contains the gravity torque of a joint's columns, in N m."""
    return bool(
        1.0 / _MAX_DESCRIPTION_FACTOR < np.linalg.lstsq(A, effort)[0][4] < _MAX_DESCRIPTION_FACTOR
    )


def _gravity_messages(model: Model, k: int, A: Array, effort: Array) -> Iterator[str]:
    """Yield messages on the effort of joint k, which gravity loads; A are its columns."""
    Q = np.linalg.qr(A[:, :4])[0]
    residual, G = effort - Q @ (Q.T @ effort), A[:, 4] - Q @ (Q.T @ A[:, 4])
    square, variance = max(float(G @ G), 1e-300), max(float(residual @ residual), 1e-300)
    scale = float(G @ residual) / square
    inertial_scale = float(np.linalg.lstsq(A, effort)[0][3])
    explained = scale**2 * square / variance
    if (
        model.drives.is_compensated[k]
        and explained > _MIN_EXPLAINED_FRACTION
        and scale > _DOUBLED_GRAVITY_FACTOR
    ):
        yield (
            f"{model.velocity_names[k]}: its effort contains {scale - 1.0:.3g} times the "
            "gravity torque of the description; do not declare gravity_compensated in the "
            "drives file"
        )
        return
    yield from _scale_messages(
        model.velocity_names[k], scale, explained, float(np.sqrt(variance / square)), inertial_scale
    )


def _subtracted_gravity_messages(
    name: str, A: Array, effort: Array, min_gravity: float
) -> Iterator[str]:
    """Yield a message on an effort without the constant gravity torque of the description.

    Gravity torques below ``min_gravity`` are not expected in it.
    """
    gravity, mean = A[:, 4], float(effort.mean())
    expected = float(gravity.mean())
    if _moves_both_ways(A[:, 1]) and abs(expected) > max(
        gravity.std(), min_gravity, _MAX_DESCRIPTION_FACTOR * abs(mean)
    ):
        yield (
            f"{name}: at rest, its effort is {mean:.2g} with a gravity torque of {expected:.3g} "
            "in the description; if gravity is already subtracted, declare gravity_compensated "
            "in the drives file"
        )


def _moves_both_ways(v: Array) -> bool:
    """Return True if a joint moves in both directions; otherwise, friction may have any value."""
    return bool(min((v > _MIN_SPEED).mean(), (v < -_MIN_SPEED).mean()) >= _MIN_DIRECTION_FRACTION)


def _offset_messages(name: str, v: Array, W: Array, effort: Array) -> Iterator[str]:
    """Yield a message on the effort of a joint with a constant part; see `offset_warnings`.

    ``W`` are the columns of the parameters of the bodies, which may have any values. Samples at
    rest are left out, as friction may have any value there.
    """
    moves = np.abs(v) > _MIN_SPEED
    v, W, effort = v[moves], W[moves], effort[moves]
    X = np.column_stack([np.sign(v), v, W[:, np.abs(W).max(axis=0) > 0.0]])
    X /= np.linalg.norm(X, axis=0)
    squares, V = np.linalg.eigh(X.T @ X)  # faster than singular values
    is_determined = squares > _RANK_TOLERANCE**2 * squares[-1]
    squares, V = squares[is_determined], V[:, is_determined]

    def coefficients(y: Array) -> Array:
        return V @ ((X.T @ y) @ V / squares)

    constant = 1.0 - X @ coefficients(np.ones(len(X)))
    constant_square = float(constant @ constant)
    if constant_square < _MIN_CONSTANT_FRACTION * len(constant):
        return
    offset = float(constant @ effort) / constant_square
    x = coefficients(effort - offset)
    scores = constant * (effort - offset - X @ x) / constant_square
    sums = np.add.reduceat(scores, np.arange(0, len(scores), 1 + len(scores) // _BLOCK_COUNT))
    error = _MIN_STANDARD_ERRORS * float(np.sqrt(sums @ sums))
    friction = float(x[0]) / np.sqrt(len(v))
    if abs(offset) - error > abs(friction) + _MIN_ZERO_OFFSET * np.sqrt(np.mean(effort**2)):
        yield (
            f"{name}: at rest, its effort is {abs(offset):.2g} "
            f"{'more' if offset > 0.0 else 'less'} than gravity, and friction is "
            f"{abs(friction):.2g}; set the zero of the sensor, or declare the offset in the "
            "drives file"
        )


def _unexplained_variance(A: Array, efforts: Array) -> Array:
    """Return the fraction of the variance of each effort (B, n) that columns leave, (n,)."""
    Q = np.linalg.qr(A)[0]
    variance: Array = (efforts - Q @ (Q.T @ efforts)).var(axis=0)
    return variance / np.maximum(efforts.var(axis=0), 1e-300)


def _scale_messages(
    name: str, scale: float, explained: float, ratio: float, inertial_scale: float
) -> Iterator[str]:
    """Yield a message on an effort that is not in N m or N.

    ``scale`` and ``inertial_scale`` are the effort relative to the torques of gravity and of
    motion; ``explained`` is the fraction of the variance that gravity explains, and ``ratio`` the
    spread of the effort relative to the spread of gravity.
    """
    if explained > _MIN_EXPLAINED_FRACTION and scale < 0.0:
        yield (
            f"{name}: its effort is {scale:.3g} times the gravity torque of the description, "
            f"so its sign is wrong; {_REMEDY_TEXT}"
        )
    elif (
        explained > _MIN_EXPLAINED_FRACTION
        and not 1.0 / _MAX_DESCRIPTION_FACTOR < scale < _MAX_DESCRIPTION_FACTOR
        or ratio < 1.0 / _MAX_DESCRIPTION_FACTOR
        and inertial_scale < 1.0 / _MAX_DESCRIPTION_FACTOR
    ):
        yield (
            f"{name}: its effort is {scale:.3g} times the gravity torque of the description, "
            f"so it is not in N m, but perhaps in A or a motor torque; {_REMEDY_TEXT}"
        )
    elif explained < _MIN_EXPLAINED_FRACTION and ratio < 1.0 / _MAX_DESCRIPTION_FACTOR:
        yield (
            f"{name}: its effort does not depend on gravity ({scale:.2g} times the gravity "
            "torque of the description); if it is already subtracted, declare it in the "
            "drives file"
        )
