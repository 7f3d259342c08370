# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which terms the friction of each joint has, by the torques of stretches that were held out."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.algorithms.dynamics.friction import step
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from .motion.filtering import is_actuated
from .samples import Samples

TERMS = ("stribeck", "root_friction", "load_friction")
_STRETCHES = 8          # of consecutive samples; two halves of them predict each other
_MOST = 6               # of them, in which a term must lower the error
_BETTER = 0.96          # of the squared error, at most, with a term that is chosen
_WIDTHS = (0.01, 0.03, 0.1, 0.2)        # of the largest speed: where the step of friction ends
_DECREASES = (0.03, 0.06, 0.12, 0.25, 0.5)  # of the largest speed, of Stribeck friction
_AT_REST = 0.01         # of the largest speed; the sign of slower velocities is noise
_FEWEST = 400           # samples
_ROWS = 2400            # samples that terms are compared on
_OWN = 4                # columns of a joint alone: armature, damping, Coulomb friction, offset
_WEIGHTINGS = 2         # of the joints by their errors
_SINGULAR = 1e-6        # relative to the largest eigenvalue


class FrictionTerms(NamedTuple):
    """The friction of each joint, beyond damping and Coulomb friction."""

    chosen: np.ndarray      # (3, nv) of bool, for each of ``TERMS``
    width: Array            # (nv,), velocity up to which friction grows in proportion to it
    stribeck: Array         # (nv,), velocity at which Stribeck friction decreases; or infinite
    load: Array             # (10 njoints + nv,), bodies and armature that load the gears

    @classmethod
    def none(cls, model: Model) -> FrictionTerms:
        """Friction without further terms."""
        return cls(np.zeros((len(TERMS), model.nv), bool), np.zeros(model.nv),
                   np.full(model.nv, np.inf), np.concatenate(
                       [np.ravel(model.inertial_parameters), model.armature]))


def choose_terms(model: Model, samples: Samples, stribeck: Array,
                 allowed: Sequence[str] = TERMS) -> FrictionTerms:
    """The terms that lower the error of torques that were held out, for each joint.

    A term is chosen if it lowers the squared error of its joint by more than 4 %, and in most
    stretches. ``stribeck`` (nv,) is finite where Stribeck friction is wanted, at this velocity.
    """
    terms = FrictionTerms.none(model)
    given = np.isfinite(stribeck)
    terms.chosen[0], terms.stribeck[given] = given, stribeck[given]
    some = samples.take(slice(None, None, 1 + len(samples) // _ROWS))
    v, tau = model.drives.motor_velocity(some.v), model.drives.to_motors(some.tau)
    counted = measured_joints(model, v, tau)
    if len(some) < _FEWEST or samples.contacts or not len(counted):
        return terms
    half = np.arange(len(some)) * _STRETCHES // len(some)
    fits = [_fit(model, some, tau, counted, half % 2 == n) for n in (0, 1)]
    terms.load[:] = np.mean([load for load, _ in fits], axis=0)
    for k in counted:
        _Joint(v[:, k], tau[:, k], int(k), half, [torque[:, k] for _, torque in fits]).choose(
            terms, allowed)
    return terms


class _Joint:
    """The friction of one joint: what is left of its torque, and candidates for columns."""

    def __init__(self, v: Array, tau: Array, k: int, stretch: np.ndarray,
                 modeled: Sequence[Array]) -> None:
        self.k, self.v, self._tau = k, v, tau
        self._stretch, self._modeled = stretch, modeled
        self._fastest = float(np.quantile(np.abs(self.v), 0.99))
        self._counts = np.abs(self.v) > _AT_REST * self._fastest

    def choose(self, terms: FrictionTerms, allowed: Sequence[str]) -> None:
        """Add what lowers the error to the terms."""
        k, width = self.k, 0.0
        columns: list[Callable[[Array], Array]] = [lambda torque: step(self.v, width)]
        if terms.chosen[0, k]:
            columns.append(self._decreasing(float(terms.stribeck[k]), width))
        error = self._errors(columns)
        for share in _WIDTHS:
            tried = share * self._fastest
            columns[0] = self._step(tried)
            found = self._errors(columns)
            if _is_better(found, error):
                error, width = found, tried
        columns[0], terms.width[k] = self._step(width), width
        for name, candidates in (
                ("load_friction", [(0.0, self._loaded(width))]),
                ("free", list(self._free(terms, allowed, width)))):
            if name != "free" and name not in allowed or not candidates:
                continue
            found, velocity, column = min(
                ((self._errors([*columns, column]), velocity, column)
                 for velocity, column in candidates), key=lambda one: one[0].sum())
            if not _is_better(found, error) or (
                    name == "load_friction" and self._coefficient([*columns, column]) <= 0.0):
                continue
            columns, error = [*columns, column], found
            terms.chosen[2 if name == "load_friction" else 0 if velocity else 1, k] = True
            if velocity:
                terms.stribeck[k] = velocity

    def _step(self, width: float) -> Callable[[Array], Array]:
        return lambda torque: step(self.v, width)

    def _loaded(self, width: float) -> Callable[[Array], Array]:
        return lambda torque: np.abs(torque) * step(self.v, width)

    def _decreasing(self, velocity: float, width: float) -> Callable[[Array], Array]:
        return lambda torque: np.exp(-(self.v / velocity) ** 2) * step(self.v, width)

    def _free(self, terms: FrictionTerms, allowed: Sequence[str], width: float
              ) -> Iterator[tuple[float, Callable[[Array], Array]]]:
        """Terms of either sign, with the velocity of Stribeck friction, or 0."""
        if "root_friction" in allowed:
            yield 0.0, lambda torque: np.sqrt(np.abs(self.v)) * step(self.v, width)
        if "stribeck" in allowed and not terms.chosen[0, self.k]:
            for share in _DECREASES:
                yield share * self._fastest, self._decreasing(share * self._fastest, width)

    def _errors(self, columns: Sequence[Callable[[Array], Array]]) -> Array:
        """Squared errors of the stretches, each predicted by the half without it."""
        errors = np.zeros(_STRETCHES)
        for n, torque in enumerate(self._modeled):
            A, y = self._equations(columns, torque)
            train = self._counts & (self._stretch % 2 == n)
            x = np.linalg.lstsq(A[train], y[train], rcond=1e-9)[0]
            rest = np.where(self._counts & ~train, y - A @ x, 0.0)
            errors += np.bincount(self._stretch, rest ** 2 * (self._stretch % 2 != n), _STRETCHES)
        return errors

    def _coefficient(self, columns: Sequence[Callable[[Array], Array]]) -> float:
        """Of the last column, the smaller one of both halves."""
        found = []
        for torque in self._modeled:
            A, y = self._equations(columns, torque)
            found.append(np.linalg.lstsq(A[self._counts], y[self._counts], rcond=1e-9)[0][-1])
        return float(min(found))

    def _equations(self, columns: Sequence[Callable[[Array], Array]], torque: Array
                   ) -> tuple[Array, Array]:
        A = np.column_stack([self.v, np.ones_like(self.v), *(one(torque) for one in columns)])
        return A, self._tau - torque


def _is_better(found: Array, error: Array) -> bool:
    return bool(found.sum() < _BETTER * error.sum() and (found < error).sum() >= _MOST)


def _fit(model: Model, some: Samples, tau: Array, joints: np.ndarray, train: np.ndarray
         ) -> tuple[Array, Array]:
    """Bodies and armature from some of the samples, and their torques (B, nv)."""
    rows = _torque_rows(model, some.q, some.v, some.a, joints)
    x = _quick_fit(rows, tau[:, joints].T, train)
    bodies = 10 * model.njoints
    load = np.concatenate([x[:bodies], np.zeros(model.nv)])
    load[bodies + joints] = x[bodies::_OWN]
    torque, a = np.zeros_like(tau), model.drives.motor_velocity(some.a)
    torque[:, joints] = (rows[:, :, :bodies] @ x[:bodies]).T + a[:, joints] * x[bodies::_OWN]
    return load, torque


# --- least squares of a few samples

def measured_joints(model: Model, v: Array, tau: Array) -> np.ndarray:
    """Indices of velocities of joints that move and whose torque is measured."""
    return np.flatnonzero(is_actuated(model) & (np.ptp(tau, axis=0) > 0.0)
                          & (np.ptp(v, axis=0) > 0.0))


def _torque_rows(model: Model, q: Array, v: Array, a: Array, joints: np.ndarray) -> Array:
    """Columns of the torques of some motors, (joints, B, 10 njoints + 4 joints)."""
    W = joint_torque_regressor(model, Data(model), q, v, a)
    drives, bodies = model.drives, W.shape[2]
    W = drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
    v, a = drives.motor_velocity(v), drives.motor_velocity(a)
    rows = np.zeros((len(joints), len(q), bodies + _OWN * len(joints)))
    for n, k in enumerate(joints):
        rows[n, :, :bodies] = W[:, k]
        rows[n, :, bodies + _OWN * n:][:, :_OWN] = np.column_stack(
            [a[:, k], v[:, k], np.sign(v[:, k]), np.ones(len(q))])
    return rows


def _quick_fit(rows: Array, torque: Array, train: np.ndarray) -> Array:
    """Parameters from some of the samples, each joint weighted by its error.

    ``rows`` are (joints, B, p), ``torque`` (joints, B), ``train`` (B,) of bool.
    """
    size = np.std(torque, axis=1)
    for _ in range(_WEIGHTINGS):
        x = _least_squares(rows[:, train] / size[:, None, None], torque[:, train] / size[:, None])
        error = torque[:, train] - rows[:, train] @ x
        size = np.maximum(np.sqrt(np.mean(error ** 2, axis=1)), 1e-9 * size)
    return x


def _least_squares(rows: Array, values: Array) -> Array:
    """The solution of the rows (..., p), without combinations that they do not determine."""
    A = rows.reshape(-1, rows.shape[-1])
    H = A.T @ A
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    squares, vectors = np.linalg.eigh(H * scale * scale[:, None])
    kept = squares > _SINGULAR * squares[-1]
    F = scale[:, None] * vectors[:, kept]
    solution: Array = F @ ((F.T @ (A.T @ values.ravel())) / squares[kept])
    return solution
