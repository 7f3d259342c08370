# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The torque equations of a recording, in parts: memory does not grow with its length.

Where contact forces are unknown, the equations are multiplied by a matrix that eliminates them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..drives.efforts import torque_regressor, torque_regressor_product, without_gravity
from ..engine import algorithms
from ..engine.algorithms import rnea
from ..engine.algorithms.dynamics.friction import with_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.coordinates import is_actuated
from . import normal_equations as ne
from .base_parameters import DIRECTED, FEATURES, Unknowns, in_columns
from .friction_terms import with_changes
from .motion.numerics import BLOCK, FOLDS, REGRESSION, STATISTICS
from .motion.reversals import Reversals
from .samples import Samples

_LITTLE = 0.1  # of a row's noise: where less is left, the row says nothing
_DENSE = BLOCK // 8  # samples, where all columns of all rows are computed
_SUMMED = 4 * BLOCK  # samples whose equations are added up in one call

Progress = Callable[[float, str], None]


class TorqueEquations:
    """Samples, and the equations that they contribute.

    ``rows`` are the indices of the samples to use, ascending; the conditions are those of the
    recording that the samples are from.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        samples: Samples,
        rows: np.ndarray,
        conditions: ne.Conditions,
        threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self.samples = dataclasses.replace(
            samples, tau=without_gravity(unknowns.model, samples.q, samples.tau), direction=None
        )
        self.rows, self.conditions = rows, conditions
        self._unknowns, self._threads = unknowns, threads
        self._progress = progress or (lambda done, what: None)
        self._model = copy.copy(unknowns.model)
        self._model.armature = np.zeros(self._model.nv)
        self._loading = copy.copy(self._model)  # whose torques load the gears
        self._falling = copy.copy(self._model)  # without gravity, which drives may subtract
        self._falling.gravity = np.zeros(3)
        # each estimate writes the numbers that the algorithms read; the links remain as they are
        self._inertias = self._model._packed_inertias
        self._data, self._loading_data = Data(self._model), Data(self._loading)
        self._actuated, self._drives = is_actuated(self._model), self._model.drives
        self._has_friction = bool(unknowns.active[unknowns.bodies + self._model.nv :].any())
        self.change_friction()
        self.reversals = Reversals(
            self._drives.motor_velocity(samples.v),
            conditions.threshold,
            np.flatnonzero(self._actuated & self._has_friction),
            samples.time,
            samples.cutoff,
            samples.recording,
        )
        self._drop_near_reversals()

    def change_friction(self, step: Array | float = 0.0) -> None:
        """Add a step to the logarithms of friction's scales that are free, (m,)."""
        terms = self.conditions.terms.changed(step)
        self.conditions = self.conditions._replace(terms=terms)
        if terms.distance.any():
            direction, self._changes = with_changes(terms.of(self._drives), self.samples)
            self.samples = dataclasses.replace(self.samples, direction=direction)

    def _drop_near_reversals(self) -> None:
        near = self.reversals.distance < self.conditions.nearest
        self.samples = dataclasses.replace(
            self.samples, weight=np.where(near, 0.0, self.samples.weight)
        )

    @property
    def size(self) -> int:
        return len(self.rows)

    def of(self, rows: np.ndarray) -> TorqueEquations:
        """The same for other samples, but for those near reversals that are left out here."""
        equations = copy.copy(self)  # which shares the model
        equations.rows = rows.astype(np.int32)
        return equations

    def features(self, samples: Samples) -> Array:
        """The columns of each row for armature and friction, (B, nv, F); zeros for base joints."""
        names = self._unknowns.features
        features = np.empty((len(samples), self._model.nv, len(names)))
        for n, column in enumerate(self._columns(samples)[: len(names)]):
            features[..., n] = column
        features[:, ~self._actuated] = 0.0
        return features

    def _columns(
        self, samples: Samples, direction: Array | None = None
    ) -> tuple[Array | float, ...]:
        """What each of the features multiplies, (B, nv); also for another direction."""
        v, terms = self._drives.motor_velocity(samples.v), self.conditions.terms
        direction = terms.direction(v, samples) if direction is None else direction
        direction = direction * (np.abs(v) > self.conditions.threshold)
        decreasing = root = loaded = direction
        if terms.chosen[0].any():
            decreasing = direction * np.exp(-((v / terms.stribeck) ** 2))
        if terms.chosen[1].any():
            root = direction * np.sqrt(np.abs(v))
        if terms.chosen[2].any():
            loaded = direction * np.abs(self._load(samples))
        return (self._drives.motor_velocity(samples.a), v, direction, 1.0, decreasing, root, loaded)

    def _load(self, samples: Samples) -> Array:
        """Torques that the gears transmit, as far as it is known, (B, nv)."""
        bodies, load = self._unknowns.bodies, self.conditions.terms.load
        self._loading._packed_inertias[:] = load[:bodies].reshape(-1, 10)
        self._loading.armature[:] = load[bodies:]
        torque = rnea(
            self._loading,
            self._loading_data,
            samples.q,
            samples.v,
            samples.a,
            samples.f_ext,
            threads=self._threads,
        )
        torque = without_gravity(self._loading, samples.q, torque)
        return self._drives.to_motors(
            with_gravity(self._unknowns.model, Data(self._unknowns.model), samples.q, torque)
        )

    def loaded_by(self, parameters: Array) -> Array:
        """The torques of an estimate (p,) load the gears; their relative change, (nv,)."""
        if not self.conditions.terms.chosen[2].any():
            return np.zeros(self._model.nv)
        samples, end = (
            self.samples.take(self._some(REGRESSION)),
            self._unknowns.bodies + self._model.nv,
        )
        before = self._load(samples)
        terms = self.conditions.terms._replace(load=parameters[:end].copy())
        self.conditions = self.conditions._replace(terms=terms)
        change, size = (
            np.sqrt((torque**2).mean(axis=0)) for torque in (self._load(samples) - before, before)
        )
        return change / np.maximum(size, 1e-300)

    def weights(self, samples: Samples) -> Array:
        """Weights of the rows of each sample, (B, nv)."""
        return samples.weight[:, None] * self._is_known(samples)

    def _is_known(self, samples: Samples) -> np.ndarray:
        """Whether each row's torque and its friction's direction are known, (B, nv) of bool."""
        if not self._has_friction:
            return np.broadcast_to(self.conditions.measured, samples.v.shape)
        # at rest, friction balances any torque up to its breakaway torque
        moves = np.abs(self._drives.motor_velocity(samples.v)) > self.conditions.threshold
        return (moves & self.conditions.measured) | ~self._actuated

    def torques(self, samples: Samples, parameters: Array) -> Array:
        """Modelled torques of the motors, (B, nv)."""
        bodies = self._unknowns.bodies
        self._inertias[:] = parameters[:bodies].reshape(-1, 10)
        own = parameters[bodies:].reshape(-1, self._model.nv) * self._actuated
        torques = rnea(
            self._model,
            self._data,
            samples.q,
            samples.v,
            samples.a,
            samples.f_ext,
            threads=self._threads,
        )
        torques = self._drives.to_motors(without_gravity(self._model, samples.q, torques))
        for column, numbers in zip(self._columns(samples), own):
            if numbers.any():
                torques += column * numbers
        return torques

    def residuals(self, samples: Samples, parameters: Array) -> tuple[Array, Array | float]:
        """Measured minus modeled torques, and the part of the noise that is left in them."""
        r = self._drives.to_motors(samples.tau) - self.torques(samples, parameters)
        if not samples.contacts:
            return r, 1.0
        E = self._eliminations(samples)
        return np.einsum("bij,bj->bi", E, r), ne.left(E)

    # --- sums over the recording

    def sums(self, start: float, stop: float) -> ne.Equations:
        """The normal equations; progress goes from ``start`` to ``stop``."""
        sums = self._nothing()
        for done, samples in self._parts(_SUMMED):
            sums = ne.add_sums(sums, self._of(samples, self.weights(samples)))
            self._progress(start + done * (stop - start), "equations")
        return sums

    def sums_of(self, parts: Sequence[np.ndarray]) -> Iterator[ne.Equations]:
        """The normal equations of each of some sets of rows, which are few together."""
        samples = self.samples.take(np.concatenate(parts))
        weights, edges = self.weights(samples), np.cumsum([0, *map(len, parts)])
        is_plain = not samples.contacts and self._drives.coupling is None
        state = (*self._state(samples), weights) if is_plain else ()
        for some in map(slice, edges[:-1], edges[1:]):
            if is_plain and some.start < some.stop:
                yield self._added(*(column[some] for column in state))
            else:
                yield self._of(samples.take(some), weights[some])

    def outlier_excess(self, parameters: Array, limit: Array) -> tuple[ne.Equations, int, int]:
        """What residuals above the limit add too much, their number, and the number of all."""
        sums, outliers, rows, first = self._nothing(), 0, 0, 0
        indices: list[np.ndarray] = []
        excesses: list[Array] = []
        for _, samples in self._parts():
            r, left = self.residuals(samples, parameters)
            weights = self.weights(samples)
            rows += int((weights > 0.0).sum())
            weights *= 1.0 - np.minimum(1.0, limit * left / np.maximum(np.abs(r), 1e-300))
            outliers += int((weights > 0.0).sum())
            some = np.flatnonzero(weights.any(axis=1))
            indices.append(self.rows[first + some])
            excesses.append(weights[some])
            first += len(samples)
            if sum(map(len, indices)) > _SUMMED or first >= self.size:
                samples = self.samples.take(np.concatenate(indices))
                sums = ne.add_sums(sums, self._of(samples, np.concatenate(excesses)))
                indices, excesses = [], []
        return sums, outliers, rows

    def scores(self, parameters: Array, limit: Array, noise: Array, edges: np.ndarray) -> Array:
        """Gradients of the cost, summed over the samples between consecutive edges, (n, p + m).

        The last m are of the logarithms of friction's scales that are free.
        """
        joints = np.nonzero(self.conditions.terms.free)[1]
        scores, first = np.zeros((len(edges) - 1, len(parameters) + len(joints))), 0
        for _, samples in self._parts():
            some = np.flatnonzero(
                (edges[1:] > np.maximum(edges[:-1], first)) & (edges[:-1] < first + len(samples))
            )
            r = self._weighted(samples, parameters, limit, noise)
            changes = self._friction_changes(
                self.rows[first : first + len(samples)], samples, parameters
            )
            gradients = np.hstack([*self._products(samples, r), changes * r[:, joints]])
            scores[some] += np.add.reduceat(gradients, np.maximum(edges[some] - first, 0))
            first += len(samples)
        return scores

    def _weighted(self, samples: Samples, parameters: Array, limit: Array, noise: Array) -> Array:
        """Residuals up to the limits, divided by the variance of their noise, (B, nv)."""
        r = self._drives.to_motors(samples.tau) - self.torques(samples, parameters)
        weights = self.weights(samples) / noise**2
        if samples.contacts:
            E = self._eliminations(samples)
            r = np.einsum("bij,bj->bi", E, r)
            r = np.clip(r, -limit * ne.left(E), limit * ne.left(E)) * weights
            return np.einsum("bji,bj->bi", E, r)
        return np.clip(r, -limit, limit) * weights

    def _products(self, samples: Samples, r: Array) -> tuple[Array, Array]:
        """The transposed equations times numbers of each row (B, nv): of bodies, of features."""
        bodies = torque_regressor_product(
            self._model,
            self._data,
            samples.q,
            samples.v,
            samples.a,
            self._drives.from_motor_gradient(r),
            self._threads,
        )
        return bodies, np.einsum("bkf,bk->bfk", self.features(samples), r).reshape(len(r), -1)

    def _friction_changes(self, rows: np.ndarray, samples: Samples, parameters: Array) -> Array:
        """Derivatives of each motor's torque by the logarithms of what is free in it, (B, m)."""
        terms, v = self.conditions.terms, self._drives.motor_velocity(samples.v)
        own = parameters[self._unknowns.bodies :].reshape(-1, self._model.nv)
        changes = np.zeros((len(rows), *terms.free.shape))
        if terms.free[:2].any():
            turned = None if samples.direction is None else self._changes[rows]
            columns = self._columns(samples, terms.direction_change(v, turned))
            changes[:, 0] = changes[:, 1] = sum(
                column * numbers
                for n, (column, numbers) in enumerate(zip(columns, own))
                if FEATURES[n] in DIRECTED
            )
        if terms.free[2].any():
            changes[:, 2] = self._columns(samples)[4] * own[4] * 2.0 * (v / terms.stribeck) ** 2
        return changes[:, terms.free]

    def friction_sums(
        self, parts: Sequence[np.ndarray], parameters: Array, noise: Array
    ) -> tuple[Array, Array]:
        """What these add to the normal equations of sets of rows, (n, p, m), (n, m, m)."""
        joints, rows = np.nonzero(self.conditions.terms.free)[1], np.concatenate(parts)
        samples, ends = self.samples.take(rows), np.cumsum(list(map(len, parts)))[:-1]
        changes = self._friction_changes(rows, samples, parameters)
        weighted = changes * (self.weights(samples) / noise**2)[:, joints]

        def added(values: Array) -> Array:
            return np.stack([each.sum(axis=0) for each in np.split(values, ends)])

        own = np.arange(len(noise)) == joints[:, None]
        others = [
            added(np.hstack(self._products(samples, column[:, None] * is_own)))
            for column, is_own in zip(weighted.T, own)
        ]
        squares = np.where(joints == joints[:, None], weighted[:, :, None] * changes[:, None], 0.0)
        return np.stack(others, axis=2), added(squares)

    def attenuation(self, parameters: Array, limit: Array, noise: Array) -> Array:
        """What the noise of the motion adds to the sum of ``scores`` on average, (p,).

        As much noise again is added to the motion of some samples, and subtracted from it.
        """
        total, sigma = np.zeros(len(parameters)), self.samples.motion_noise
        if sigma is None or not sigma.any():
            return total
        samples = self.samples.take(self._some(BLOCK // 2))
        for share, moved in zip(
            (0.5, 0.5, -1.0), (*ne.with_noise(self._model, samples, sigma), samples)
        ):
            r = self._weighted(moved, parameters, limit, noise)
            total += share * np.concatenate(
                [gradients.sum(axis=0) for gradients in self._products(moved, r)]
            )
        return total * (self.size / len(samples))

    def some_residuals(self, parameters: Array) -> Array:
        """As large as if their noise were complete, (B, nv); NaN in rows without weight."""
        samples = self.samples.take(self._some(STATISTICS))
        r, left = self.residuals(samples, parameters)
        return np.where(self.weights(samples) > 0.0, r / left, np.nan)

    def torques_and_residuals(
        self, rows: np.ndarray, parameters: Sequence[Array]
    ) -> Iterator[list[Array]]:
        """Measured torques of some samples, and what sets of parameters leave, in parts."""
        for first in range(0, len(rows), BLOCK):
            samples = self._take(rows[first : first + BLOCK])
            known = self.weights(samples) > 0.0
            columns = [self._drives.to_motors(samples.tau)]
            for one in parameters:
                r, left = self.residuals(samples, one)
                columns.append(np.where(known & (left > _LITTLE), r / left, np.nan))
            yield columns

    def _parts(self, size: int = BLOCK) -> Iterator[tuple[float, Samples]]:
        """Some samples at a time, and the fraction that they complete."""
        for first in range(0, self.size, size):
            samples = self._take(self.rows[first : first + size])
            yield min(1.0, (first + size) / self.size), samples

    def _take(self, rows: np.ndarray) -> Samples:
        """Samples of ascending rows; views of them if they are consecutive."""
        is_range = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        return self.samples.take(slice(rows[0], rows[-1] + 1) if is_range else rows)

    def _some(self, count: int) -> np.ndarray:
        """Indices of about this many samples."""
        return self.rows[:: 1 + self.size // count]

    def _nothing(self) -> ne.Equations:
        return ne.Equations.nothing(*self._unknowns.local.shape)

    def _of(self, samples: Samples, weights: Array) -> ne.Equations:
        if not len(samples):
            return self._nothing()
        if samples.contacts or self._drives.coupling is not None:
            return self._of_combinations(samples, weights)
        return self._added(*self._state(samples), weights)

    def _state(self, samples: Samples) -> tuple[Array, ...]:
        return (samples.q, samples.v, samples.a, self._known(samples), self.features(samples))

    def _added(self, *rows: Array) -> ne.Equations:
        """The equations of samples: q, v, a, torques, features and weights."""
        WW, Wy, yy = algorithms.normal_equations(
            self._model, self._data, *rows, threads=self._threads
        )
        falls = self._drives.is_compensated
        if falls.any():
            others = algorithms.normal_equations(
                self._falling, Data(self._falling), *rows, threads=self._threads
            )
            WW[falls], Wy[falls] = others.WW[falls], others.Wy[falls]
        return ne.Equations(WW, Wy, yy, rows[-1].sum(axis=0))

    def _of_combinations(self, samples: Samples, weights: Array) -> ne.Equations:
        """The equations of motors that move several joints each, or without contact forces."""
        sums = self._nothing()
        for first in range(0, len(samples), _DENSE):
            part, w = samples.take(slice(first, first + _DENSE)), weights[first : first + _DENSE]
            W, features, y = (
                torque_regressor(self._model, self._data, part.q, part.v, part.a, self._threads),
                self.features(part),
                self._known(part),
            )
            counted = w
            if part.contacts:
                E = self._eliminations(part)
                W = E @ np.concatenate([W, in_columns(features)], axis=2)
                y, counted = np.einsum("bij,bj->bi", E, y), w * np.einsum("bkk->bk", E)
            else:
                W = self._drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
                W = np.concatenate([W, features], axis=2)
            ne.add_rows(sums, W, y, w)
            sums.weight[:] += counted.sum(axis=0)
        return sums

    def _eliminations(self, samples: Samples) -> Array:
        """Eliminations of contacts and of unknown friction of joints at rest, (B, nv, nv)."""
        at_rest = np.eye(self._model.nv) * ~self._is_known(samples)[:, None]
        return ne.eliminations(
            self._model,
            self._data,
            samples,
            self.conditions.contact_dimension,
            self.conditions.scale,
            at_rest,
        )

    def leave_out_reversals(self, parameters: Array) -> bool:
        """Leave out samples near reversals if residuals are larger there; whether it did."""
        nearest = self.reversals.unsettled(
            self._some(STATISTICS), np.abs(self.some_residuals(parameters))
        )
        before = np.count_nonzero(self.samples.weight)
        self.conditions = self.conditions._replace(nearest=max(nearest, self.conditions.nearest))
        self._drop_near_reversals()
        return bool(np.count_nonzero(self.samples.weight) < before)

    def correlations(self, parameters: Array) -> Array:
        """Number of consecutive samples over which the residuals of each row are correlated."""
        stretches = FOLDS // 2
        sums, length = [], min(BLOCK, 1 << (self.size // stretches).bit_length() - 1)
        for first in np.linspace(0, self.size - length, stretches).astype(int):
            samples = self._take(self.rows[first : first + length])
            r = self.residuals(samples, parameters)[0] * (self.weights(samples) > 0.0)
            sums.append([ne.correlation_length(x) for x in r.T])
        return np.median(sums, axis=0)

    def _known(self, samples: Samples) -> Array:
        """Measured torque and the torque of external forces, tau + J' f, of motors, (B, nv)."""
        if samples.f_ext is None:
            return self._drives.to_motors(samples.tau)
        state = samples.q, samples.v, samples.a
        free = rnea(self._model, self._data, *state, threads=self._threads)
        forced = rnea(self._model, self._data, *state, samples.f_ext, threads=self._threads)
        return self._drives.to_motors(samples.tau + (free - forced))
