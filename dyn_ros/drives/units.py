# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether measured efforts can be torques, by the gravity torques of the description."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..engine.algorithms import generalized_gravity, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model

_LOADED = 0.1           # of the largest spread of gravity torque; an unknown tool alters the rest
_FACTOR = 3.0           # far beyond the errors of a description
_EXPLAINED = 0.5        # part of the variance that a fit must explain to be believed
_OTHER = 0.25           # of the variance that is left: half the error
_ALMOST = 0.9           # part of the variance that another joint must explain
_BEYOND = 3.0           # times the limit, where positions are of the motor
_REMEDY = ("declare unit, gain and sign in the drives file, or estimate gains from a known load "
           "(--effort-constant estimate)")


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
    return [*_far_positions(model, q), *_wrong_efforts(model, q, v, a, effort)]


def _far_positions(model: Model, q: Array) -> Iterator[str]:
    if model.nq != model.nv:
        return
    limit = np.maximum(np.abs(model.lower), np.abs(model.upper))
    largest = np.abs(q).max(axis=0)
    for k in np.flatnonzero(np.isfinite(limit) & (limit > 0.0) & (largest > _BEYOND * limit)):
        yield (f"{model.velocity_names[k]}: positions up to {largest[k]:.3g} lie far beyond the "
               f"limit of {limit[k]:.3g}: are they of the motor? Divide them by the gear ratio")


def _wrong_efforts(model: Model, q: Array, v: Array, a: Array, effort: Array) -> Iterator[str]:
    data = Data(model)
    gravity = np.array(generalized_gravity(model, data, q))
    inertial = np.array(rnea(model, data, q, v, a)) - gravity
    spread = gravity.std(axis=0)
    loaded = np.flatnonzero((spread > max(_LOADED * spread.max(initial=0.0), 1e-9))
                            & (effort.std(axis=0) > 0.0))         # not NaN
    columns = {int(j): np.column_stack([np.ones(len(v)), v[:, j], np.sign(v[:, j]), inertial[:, j],
                                        gravity[:, j]]) for j in loaded}
    for k, own in columns.items():
        left = {j: _left(A, effort[:, k]) for j, A in columns.items()}
        other = min(left, key=lambda j: left[j])
        if left[other] < min(_OTHER * left[k], 1.0 - _ALMOST):
            yield (f"{model.velocity_names[k]}: the motion of {model.velocity_names[other]} "
                   f"explains {1.0 - left[other]:.0%} of its effort, its own {1.0 - left[k]:.0%}: "
                   "check the order of the columns")
            continue
        Q = np.linalg.qr(own[:, :4])[0]
        rest = effort[:, k] - Q @ (Q.T @ effort[:, k])
        G = gravity[:, k] - Q @ (Q.T @ gravity[:, k])
        square, variance = max(float(G @ G), 1e-300), max(float(rest @ rest), 1e-300)
        scale = float(G @ rest) / square
        moved = float(np.linalg.lstsq(own, effort[:, k])[0][3])
        yield from _compared(model.velocity_names[k], scale, scale ** 2 * square / variance,
                             float(np.sqrt(variance / square)), moved)


def _left(A: Array, effort: Array) -> float:
    """The part of the variance of an effort that columns do not explain."""
    rest = effort - A @ np.linalg.lstsq(A, effort)[0]
    return float(rest.var() / max(float(effort.var()), 1e-300))


def _compared(name: str, scale: float, explained: float, ratio: float, inertial: float
              ) -> Iterator[str]:
    """Messages on one joint.

    ``scale`` and ``inertial`` are its effort, relative to the torques of gravity and of motion;
    ``explained`` is the part of the variance that gravity explains, and ``ratio`` the spread of
    the effort, relative to gravity.
    """
    if explained > _EXPLAINED and scale < 0.0:
        yield (f"{name}: its effort is {scale:.3g} times the gravity torque of the description: "
               f"the sign is opposite; {_REMEDY}")
    elif (explained > _EXPLAINED and not 1.0 / _FACTOR < scale < _FACTOR
          or ratio < 1.0 / _FACTOR and inertial < 1.0 / _FACTOR):
        yield (f"{name}: its effort is {scale:.3g} times the gravity torque of the description: "
               f"these are not N m, but perhaps A or motor torques; {_REMEDY}")
    elif explained < _EXPLAINED and ratio < 1.0 / _FACTOR:
        yield (f"{name}: its effort does not depend on gravity ({scale:.2g} times the gravity "
               "torque of the description): if it is already subtracted, declare it in the "
               "drives file")
