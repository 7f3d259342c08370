# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether measured efforts can be torques, by the gravity torques of the description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.algorithms import generalized_gravity, joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.names import listed
from ..engine.kernel.types import Array
from ..engine.model import Model

_LOADED = 0.1  # of the largest spread of gravity torque; an unknown tool alters the rest
_FACTOR = 3.0  # far beyond the errors of a description
_TWICE = 1.5  # times the gravity torque: it was in the effort, and was added again
_EXPLAINED = 0.5  # part of the variance that a fit must explain to be believed
_OTHER = 0.25  # of the variance that is left: half the error
_ALMOST = 0.9  # part of the variance that another joint must explain
_WRONG = 0.1  # of the RMS effort: a zero that matters, if it is also above friction
_NUMBERS = 5_000_000  # of a regressor in memory
_BLOCKS = 20  # of samples, whose scatter shows the error of a zero
_CERTAIN = 4.0  # times this error is less than the zero
_OWN = 1e-3  # of a constant torque that no parameters of the bodies imitate, at least
_SINGULAR = 1e-4  # of the largest singular value of scaled columns
_COLLAPSED = 0.2  # of the described mass
_COUNTS = 0.02  # of the mass of the robot: lighter bodies are not reported
_MOVES = 0.01  # rad/s, m/s: Coulomb friction is complete
_BOTH = 0.05  # of the samples are in each direction, at least
_MOST = 0.5  # of the largest gravity torque: more than friction
_BEYOND = 3.0  # times the limit, where positions are of the motor
_FAR = (
    "positions lie far beyond the limits: {}; convert them to rad or m if they are in degrees "
    "or mm, or divide them by the gear ratio if they are of the motor"
)
_REMEDY = (
    "declare unit, gain and sign in the drives file, or estimate gains from a known load "
    "(dyn_ros identify --effort-constant estimate)"
)


def unit_warnings(model: Model, q: Array, v: Array, a: Array, effort: Array) -> list[str]:
    """What contradicts positions in rad or m and efforts in N m or N; empty if nothing does.

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
    far = _far_positions(model, q)
    found = [_FAR.format(", ".join(far))] if far else []
    if 2 * len(far) > model.nv:  # gravity torques are unknown
        return found
    return found + _wrong_efforts(model, q, v, a, effort)


def _far_positions(model: Model, q: Array) -> list[str]:
    """The joints whose positions lie far beyond their limits."""
    if model.nq != model.nv:
        return []
    limit = np.maximum(np.abs(model.lower), np.abs(model.upper))
    largest = np.abs(q).max(axis=0)
    return [
        f"{model.velocity_names[k]} (up to {largest[k]:.3g}, the limit is {limit[k]:.3g})"
        for k in np.flatnonzero(np.isfinite(limit) & (limit > 0.0) & (largest > _BEYOND * limit))
    ]


def collapsed_masses(
    model: Model, parameters: Array, q: Array, v: Array, a: Array, torque: Array
) -> list[str]:
    """A message if estimated masses are far below the description; empty otherwise.

    Parameters
    ----------
    model : Model
        The description.
    parameters : (njoints, 10) array
        Estimated, as ``Model.inertial_parameters``.
    q, v, a, torque : (B, nq), (B, nv), (B, nv), (B, nv) array
        Positions, velocities, accelerations, and torques at the joints [rad, m, s, N m, N].
    """
    before, after = model.inertial_parameters[:, 0], parameters[:, 0]
    bodies = np.flatnonzero((after < _COLLAPSED * before) & (before > _COUNTS * before.sum()))
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
    if scale > 1.0 / _FACTOR:  # other bodies carry the load, or the description is wrong
        own = ratios[_rows(model)]
        bodies = bodies[own[bodies] < 1.0 / _FACTOR]
        if not len(bodies):
            return []
        least = bodies[np.argmin(own[bodies])]
        scale, where = own[least], f"of {model.joint_names[least]}"
    heaviest = sorted(bodies, key=lambda i: -before[i])
    masses = (
        f"{after[i]:.3g} kg instead of {before[i]:.3g} kg for the body of {model.joint_names[i]}"
        for i in heaviest
    )
    return [
        f"masses collapsed, so they are not usable: {listed(masses, most=3)}. Measured torques "
        f"are {scale:.2g} times the torques of the description ({where}). "
        f"The likely cause is {_cause(model, bodies)}"
    ]


def _rows(model: Model) -> NDArray[Any]:
    """The first row in v of each joint; of one that mimics another, some row."""
    rows: NDArray[Any] = np.minimum(np.cumsum(model.nvs) - model.nvs, model.nv - 1)
    return rows


def _cause(model: Model, bodies: NDArray[Any]) -> str:
    """What the drives of some bodies, whose masses collapsed, do not declare yet, and a remedy."""
    rows, drives = _rows(model)[bodies], model.drives
    declared = [model.joint_names[i] for i in bodies[drives.is_compensated[rows]]]
    gravity = ", or gravity that is already subtracted"
    if declared:
        gravity += f", which is declared for {', '.join(declared)} only"
    if len(declared) == len(bodies):
        gravity = " (gravity is declared as subtracted, so they depend on inertia only)"
    remedy = _REMEDY
    if (drives.gain[rows] != 1.0).all():
        remedy = remedy.replace("declare unit, gain and sign", "check gain and sign")
    return (
        f"the unit or gain of the efforts{gravity}; {remedy}. Until then, set these efforts to "
        "0 in all rows, which leaves them out: they also spoil the bodies of other joints"
    )


def _wrong_efforts(model: Model, q: Array, v: Array, a: Array, effort: Array) -> list[str]:
    data = Data(model)
    gravity = np.array(generalized_gravity(model, data, q))
    inertial = np.array(rnea(model, data, q, v, a)) - gravity
    spread = gravity.std(axis=0)
    measured = effort.std(axis=0) > 0.0  # not NaN
    if np.abs(v).max(axis=1, initial=0.0).mean() < _MOVES:
        return list(_at_rest(model, gravity.mean(axis=0), effort.mean(axis=0)))
    is_loaded = spread > max(_LOADED * spread.max(initial=0.0), 1e-9)
    columns = {
        int(j): np.column_stack(
            [np.ones(len(v)), v[:, j], np.sign(v[:, j]), inertial[:, j], gravity[:, j]]
        )
        for j in np.flatnonzero(measured)
    }
    loaded = {j: A for j, A in columns.items() if is_loaded[j]}
    little = _LOADED * float(np.abs(gravity.mean(axis=0)).max(initial=0.0))
    coupling = model.drives.coupling  # other motors brake these joints as well
    alone = np.ones(model.nv, bool) if coupling is None else np.count_nonzero(coupling, 0) == 1
    left = {j: _left(A, effort) for j, A in columns.items()}

    def of_gravity(k: int, A: Array) -> list[str]:
        tau = effort[:, k]
        others = [
            j
            for j, B in loaded.items()
            if k in loaded or alone[k] and _turns(v[:, k]) and _is_torque(B, tau)
        ]
        return (
            [*_of_another(model, k, {j: float(left[j][k]) for j in (*others, k)})]
            or k in loaded
            and [*_of_gravity(model, k, A, tau)]
            or [*_subtracted(model.velocity_names[k], A, tau, little)]
        )

    if found := [text for k, A in columns.items() for text in of_gravity(k, A)]:
        return found
    some = slice(None, None, 1 + 10 * v.size * model.njoints // _NUMBERS)
    W = joint_torque_regressor(model, data, q[some], v[some], a[some])
    return [
        text
        for k, A in columns.items()
        if alone[k]
        for text in _zero(model.velocity_names[k], A[some], W[:, k], effort[some, k])
    ]


def _at_rest(model: Model, gravity: Array, effort: Array) -> Iterator[str]:
    """Messages on mean efforts of a robot almost at rest: friction may hide small errors."""
    for k in np.flatnonzero(np.abs(gravity) > _MOST * np.abs(gravity).max(initial=1e-9)):
        if not np.isnan(effort[k]) and not 1.0 / _FACTOR < effort[k] / gravity[k] < _FACTOR:
            yield (
                f"{model.velocity_names[k]}: at rest, its effort is {effort[k]:.3g} with a "
                f"gravity torque of {gravity[k]:.3g} in the description; it is in another unit, "
                "such as A, its sign or zero is wrong, or gravity is already subtracted; "
                f"{_REMEDY}"
            )


def _of_another(model: Model, k: int, left: dict[int, float]) -> Iterator[str]:
    """A message if another joint, that gravity loads, explains the effort of joint k.

    ``left`` is the part of the variance of this effort that the columns of each joint leave.
    """
    other = min(left, key=lambda j: left[j])
    if left[other] < min(_OTHER * left[k], 1.0 - _ALMOST):
        yield (
            f"{model.velocity_names[k]}: the motion of {model.velocity_names[other]} "
            f"explains {1.0 - left[other]:.0%} of its effort, its own {1.0 - left[k]:.0%}; "
            "check the order of the columns"
        )


def _is_torque(A: Array, effort: Array) -> bool:
    """Whether an effort contains the gravity torque of a joint with these columns, in N m."""
    return bool(1.0 / _FACTOR < np.linalg.lstsq(A, effort)[0][4] < _FACTOR)


def _of_gravity(model: Model, k: int, own: Array, effort: Array) -> Iterator[str]:
    """Messages on the effort of joint k, which gravity loads."""
    Q = np.linalg.qr(own[:, :4])[0]
    rest, G = effort - Q @ (Q.T @ effort), own[:, 4] - Q @ (Q.T @ own[:, 4])
    square, variance = max(float(G @ G), 1e-300), max(float(rest @ rest), 1e-300)
    scale = float(G @ rest) / square
    moved = float(np.linalg.lstsq(own, effort)[0][3])
    explained = scale**2 * square / variance
    if model.drives.is_compensated[k] and explained > _EXPLAINED and scale > _TWICE:
        yield (
            f"{model.velocity_names[k]}: its effort contains {scale - 1.0:.3g} times the "
            "gravity torque of the description; do not declare gravity_compensated in the "
            "drives file"
        )
        return
    yield from _compared(
        model.velocity_names[k], scale, explained, float(np.sqrt(variance / square)), moved
    )


def _subtracted(name: str, A: Array, effort: Array, little: float) -> Iterator[str]:
    """A message on an effort without the constant gravity torque of the description.

    Gravity torques below ``little`` are not missed.
    """
    gravity, mean = A[:, 4], float(effort.mean())
    expected = float(gravity.mean())
    if _turns(A[:, 1]) and abs(expected) > max(gravity.std(), little, _FACTOR * abs(mean)):
        yield (
            f"{name}: at rest, its effort is {mean:.2g} with a gravity torque of {expected:.3g} "
            "in the description; if gravity is already subtracted, declare gravity_compensated "
            "in the drives file"
        )


def _turns(v: Array) -> bool:
    """Whether a joint moves in both directions; else, friction may have any value."""
    return bool(min((v > _MOVES).mean(), (v < -_MOVES).mean()) >= _BOTH)


def _zero(name: str, A: Array, W: Array, effort: Array) -> Iterator[str]:
    """A message on an effort with a constant part that bodies and friction do not explain.

    ``W`` are the columns of the parameters of the bodies, whatever these are.
    """
    v = A[:, 1]
    if not _turns(v):
        return
    X = np.column_stack([np.sign(v), v, W[:, np.abs(W).max(axis=0) > 0.0]])
    X /= np.linalg.norm(X, axis=0)
    squares, V = np.linalg.eigh(X.T @ X)  # faster than singular values
    some = squares > _SINGULAR**2 * squares[-1]
    squares, V = squares[some], V[:, some]

    def coefficients(y: Array) -> Array:
        return V @ ((X.T @ y) @ V / squares)

    constant = 1.0 - X @ coefficients(np.ones(len(X)))
    square = float(constant @ constant)
    if square < _OWN * len(constant):
        return
    zero = float(constant @ effort) / square
    fitted = coefficients(effort - zero)
    scores = constant * (effort - zero - X @ fitted) / square
    sums = np.add.reduceat(scores, np.arange(0, len(scores), 1 + len(scores) // _BLOCKS))
    error = _CERTAIN * float(np.sqrt(sums @ sums))
    friction = float(fitted[0]) / np.sqrt(len(v))
    if abs(zero) - error > abs(friction) + _WRONG * np.sqrt(np.mean(effort**2)):
        yield (
            f"{name}: at rest, its effort is {abs(zero):.2g} "
            f"{'more' if zero > 0.0 else 'less'} than gravity, and friction is "
            f"{abs(friction):.2g}; set the zero of the sensor, or declare the offset in the "
            "drives file"
        )


def _left(A: Array, efforts: Array) -> Array:
    """The part of the variance of each effort (B, n) that columns do not explain, (n,)."""
    Q = np.linalg.qr(A)[0]
    part: Array = (efforts - Q @ (Q.T @ efforts)).var(axis=0)
    return part / np.maximum(efforts.var(axis=0), 1e-300)


def _compared(
    name: str, scale: float, explained: float, ratio: float, inertial: float
) -> Iterator[str]:
    """Messages on one joint.

    ``scale`` and ``inertial`` are its effort, relative to the torques of gravity and of motion;
    ``explained`` is the part of the variance that gravity explains, and ``ratio`` the spread of
    the effort, relative to gravity.
    """
    if explained > _EXPLAINED and scale < 0.0:
        yield (
            f"{name}: its effort is {scale:.3g} times the gravity torque of the description, "
            f"so its sign is wrong; {_REMEDY}"
        )
    elif (
        explained > _EXPLAINED
        and not 1.0 / _FACTOR < scale < _FACTOR
        or ratio < 1.0 / _FACTOR
        and inertial < 1.0 / _FACTOR
    ):
        yield (
            f"{name}: its effort is {scale:.3g} times the gravity torque of the description, "
            f"so it is not in N m, but perhaps in A or a motor torque; {_REMEDY}"
        )
    elif explained < _EXPLAINED and ratio < 1.0 / _FACTOR:
        yield (
            f"{name}: its effort does not depend on gravity ({scale:.2g} times the gravity "
            "torque of the description); if it is already subtracted, declare it in the "
            "drives file"
        )
