# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Why an identified model does not explain the torques of a joint: causes, tried in turn."""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model

LONGEST = 0.1           # s: of delays that are tried
LAGS = 20               # of them, forward and backward
_EXPLAINED = 0.25       # of the squared error that a cause explains, if it is likely
POOR = 2.0              # times the noise: an error that noise does not explain
_OWN = 0.9              # of the squared error that parameters for the joint alone explain
_NOTHING = 0.5          # of the squared torque: the model explains next to nothing
_LITTLE = 0.05          # of it: the sign, unit and order of the efforts are right
_STRETCHES = 10         # every other one determines the factor of a cause
_FEWEST = 100           # samples
_SINGULAR = 1e-6        # of the largest singular value of scaled columns
UNKNOWN = ("check the sign, unit and order of efforts and positions, and that both have the same "
           "time stamps")
_LATE = ("its efforts are {}, or filtered: {:.2g} ms explain {:.0%} of the squared error; declare "
         "delay: {:.2g} in the drives file")
_LOAD = ("friction of {:.2g} times the load explains {:.0%} of the squared error; allow "
         "load_friction (--friction-terms)")
_SPEED = ("friction that grows less at high velocity explains {:.0%} of the squared error; allow "
          "root_friction and stribeck (--friction-terms)")
_ALONE = ("parameters for this joint alone would explain {:.0%} of the squared error; check the "
          "sign, unit, gain and order of its efforts")
_OTHER = ("no delay, gain or friction explains it; joints or cables may be flexible, or "
          "something may touch the robot")
_FIRST = "declare the delay of the other joints first, which may be the cause"
_CERTAIN = 0.5          # of the squared error: a delay that other joints probably have as well


class Errors(NamedTuple):
    """What an identified model leaves of the torques of motors, in some samples."""

    q: Array            # (B, nq) [rad, m]
    v: Array            # (B, nv)
    a: Array            # (B, nv)
    features: Array     # (B, nv, n), columns of friction and rotors that were fitted
    error: Array        # (B, nv), measured minus modeled [N m, N]; NaN if unknown
    torque: Array       # (B, lags, nv), measured later [N m, N]
    lag: Array          # (lags,), by how much [s], equally spaced about 0


def likely_causes(model: Model, errors: Errors, noise: Mapping[int, float]) -> dict[int, str]:
    """The likely cause of the errors of some rows of an identified model, and a remedy.

    ``noise`` has the standard deviation of the torques of these rows [N m, N]. Of the error that
    parameters for a row alone do not explain, each cause explains a part: torques of other times,
    or an additional term of friction. The largest part decides.
    """
    W = joint_torque_regressor(model, Data(model), errors.q, errors.v, errors.a)
    W = model.drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    v = model.drives.motor_velocity(errors.v)
    causes = {k: _cause(errors, W, v[:, k], k, one, model.drives.delay[k])
              for k, one in noise.items()}
    if any(late > _CERTAIN for _, late in causes.values()):
        causes = {k: (_FIRST if text in (_OTHER, UNKNOWN) else text, late)
                  for k, (text, late) in causes.items()}
    return {k: text for k, (text, _) in causes.items()}


def _cause(errors: Errors, W: Array, v: Array, k: int, noise: float, declared: float
           ) -> tuple[str, float]:
    """The cause for row k, and the part of its squared error that a delay explains.

    ``W`` (B, nv, n) are the columns of bodies, ``v`` (B,) is the velocity, ``declared`` the delay.
    """
    known = np.isfinite(errors.error[:, k])
    if known.sum() < _FEWEST:
        return UNKNOWN, 0.0
    v, error, torque = v[known], errors.error[known, k], errors.torque[known, :, k]
    measured = torque[:, len(errors.lag) // 2]
    part = float(error @ error) / max(float(measured @ measured), 1e-300)
    if part > _NOTHING:
        return UNKNOWN, 0.0
    basis = _basis(np.hstack([W[known, k], errors.features[known, k]]))
    left = np.square(torque - basis @ (basis.T @ torque)).sum(axis=0)
    own = error - basis @ (basis.T @ error)
    late, delay = _delay(left, errors.lag)
    load, factor = _explained(np.abs(measured - error) * np.sign(v), basis, own)
    speed, _ = _explained(np.sqrt(np.abs(v)) * np.sign(v), basis, own)
    best, alone = max(late, load, speed), 1.0 - float(own @ own) / float(error @ error)
    if best > _EXPLAINED and best == late:
        text = _LATE.format("late" if delay > 0.0 else "early", abs(1e3 * delay), late,
                            declared + delay)
    elif best > _EXPLAINED:
        text = _LOAD.format(factor, load) if best == load else _SPEED.format(speed)
    elif alone > _OWN and own @ own < len(own) * (POOR * noise) ** 2:
        text = _ALONE.format(alone)
    else:
        text = _OTHER if part < _LITTLE else UNKNOWN
    return text, late


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
    before, least, after = left[n - 1:n + 2]
    shift = 0.5 * (before - after) / max(before - 2.0 * least + after, 1e-300)
    return share, float(lag[n] + shift * (lag[1] - lag[0]))


def _explained(column: Array, basis: Array, error: Array) -> tuple[float, float]:
    """The part of the squared error that a column explains elsewhere, and its factor."""
    column = column - basis @ (basis.T @ column)
    odd, left = np.arange(len(error)) * _STRETCHES // len(error) % 2 == 1, 0.0
    for fitted in (odd, ~odd):
        c, e = column[fitted], error[fitted]
        rest = error[~fitted] - column[~fitted] * (c @ e) / max(float(c @ c), 1e-300)
        left += float(rest @ rest)
    return (1.0 - left / max(float(error @ error), 1e-300),
            float(column @ error) / max(float(column @ column), 1e-300))
