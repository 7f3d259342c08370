# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Torque equations of a recording, in blocks, so that memory does not grow with its length.

Where contact forces are unknown, the equations are multiplied by a matrix that eliminates them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..drives.efforts import (
    exclude_subtracted_gravity,
    repeated_motors,
    torque_regressor,
    torque_regressor_product,
)
from ..engine import algorithms
from ..engine.algorithms import rnea
from ..engine.algorithms.dynamics.friction import add_compensated_gravity
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model.coordinates import has_single_coordinate
from .base_parameters import DIRECTED_FEATURES, FEATURES, Unknowns, expand_features
from .equation_sums import (
    Conditions,
    Equations,
    add_motion_noise,
    add_rows,
    add_sums,
    contact_eliminations,
    correlation_length,
    remaining_noise,
)
from .friction_terms import friction_direction_changes
from .motion.numerics import (
    BLOCK_SIZE,
    FOLDS,
    REGRESSION_SAMPLES,
    STATISTICS_SAMPLES,
    evenly_spaced,
)
from .motion.reversals import Reversals
from .samples import Samples

_MIN_REMAINING_NOISE = 0.1  # relative; a row that keeps less of its noise is not compared
_DENSE_BLOCK = BLOCK_SIZE // 8  # samples; smaller, as all columns of all rows are computed
_SUM_BLOCK = 4 * BLOCK_SIZE  # samples whose equations are added up in one call

StageProgress = Callable[[float, str], None]
"""Function that gets the completed fraction, and a word that describes the current step."""

Notify = Callable[[str], None]
"""Function that gets a message, such as a warning."""


class TorqueEquations:
    """Torque equations of the samples in ``rows``, ascending indices.

    The conditions are derived from the whole recording.
    """

    def __init__(
        self,
        unknowns: Unknowns,
        samples: Samples,
        rows: np.ndarray,
        conditions: Conditions,
        threads: int = 1,
        progress: StageProgress | None = None,
    ) -> None:
        self.samples = dataclasses.replace(
            samples,
            tau=exclude_subtracted_gravity(unknowns.model, samples.q, samples.tau),
            direction=None,
        )
        self.rows, self.conditions = rows, conditions
        self._unknowns, self._threads = unknowns, threads
        self._progress = progress or (lambda done, what: None)
        self._model = copy.copy(unknowns.model)
        self._model.armature = np.zeros(self._model.nv)
        # a robot whose torques load the gears
        self._load_model = copy.copy(self._model)
        # a robot without gravity, which drives may subtract
        self._weightless_model = copy.copy(self._model)
        self._weightless_model.gravity = np.zeros(3)
        # the algorithms read these numbers, which each estimate overwrites; the links do not change
        self._inertias = self._model._packed_inertias
        self._data, self._load_data = Data(self._model), Data(self._load_model)
        self._has_single_coordinate, self._drives = (
            has_single_coordinate(self._model),
            self._model.drives,
        )
        self._has_friction = bool(
            unknowns.is_active[unknowns.body_parameter_count + self._model.nv :].any()
        )
        self.change_friction()
        self.reversals = Reversals(
            self._drives.motor_velocity(samples.v),
            conditions.threshold,
            np.flatnonzero(self._has_single_coordinate & self._has_friction),
            samples.time,
            samples.cutoff,
            samples.recording,
        )
        self._drop_near_reversals()

    def change_friction(self, step: Array | float = 0.0) -> None:
        """Add a step (m,) to the logarithms of the free scales of friction.

        Changes the terms in the conditions, and the direction of friction in the samples.
        """
        terms = self.conditions.terms.after_step(step)
        self.conditions = self.conditions._replace(terms=terms)
        if terms.distance.any():
            direction, self._direction_changes = friction_direction_changes(
                terms.apply_to_drives(self._drives), self.samples
            )
            self.samples = dataclasses.replace(self.samples, direction=direction)

    def _drop_near_reversals(self) -> None:
        """Set the weights of samples within the margin of a reversal to 0."""
        near = self.reversals.distance < self.conditions.reversal_margin
        self.samples = dataclasses.replace(
            self.samples, weight=np.where(near, 0.0, self.samples.weight)
        )

    @property
    def size(self) -> int:
        """Number of samples in use."""
        return len(self.rows)

    def with_rows(self, rows: np.ndarray) -> TorqueEquations:
        """Return the equations of other samples, under the same conditions; shares the model."""
        equations = copy.copy(self)
        equations.rows = rows.astype(np.int32)
        return equations

    def features(self, samples: Samples) -> Array:
        """Return the columns of armature and friction, (B, nv, F); zeros for base joints."""
        names = self._unknowns.features
        features = np.empty((len(samples), self._model.nv, len(names)))
        for n, column in enumerate(self._columns(samples)[: len(names)]):
            features[..., n] = column
        features[:, ~self._has_single_coordinate] = 0.0
        return features

    def _columns(
        self, samples: Samples, direction: Array | None = None
    ) -> tuple[Array | float, ...]:
        """Return the factor of each feature, (B, nv) or a number; ``direction`` is of friction."""
        v, terms = self._drives.motor_velocity(samples.v), self.conditions.terms
        direction = terms.direction(v, samples) if direction is None else direction
        direction = direction * (np.abs(v) > self.conditions.threshold)
        stribeck = root = loaded = direction
        if terms.has_stribeck.any():
            stribeck = direction * np.exp(-((v / terms.stribeck) ** 2))
        if terms.has_root.any():
            root = direction * np.sqrt(np.abs(v))
        if terms.has_load.any():
            loaded = direction * np.abs(self._load(samples))
        return (self._drives.motor_velocity(samples.a), v, direction, 1.0, stribeck, root, loaded)

    def _load(self, samples: Samples) -> Array:
        """Return the torques that the gears transmit, by the latest estimate, (B, nv)."""
        bodies, load = self._unknowns.body_parameter_count, self.conditions.terms.load
        self._load_model._packed_inertias[:] = load[:bodies].reshape(-1, 10)
        self._load_model.armature[:] = load[bodies:]
        torque = rnea(
            self._load_model,
            self._load_data,
            samples.q,
            samples.v,
            samples.a,
            samples.f_ext,
            threads=self._threads,
        )
        torque = exclude_subtracted_gravity(self._load_model, samples.q, torque)
        return self._drives.to_motors(
            add_compensated_gravity(
                self._unknowns.model, Data(self._unknowns.model), samples.q, torque
            )
        )

    def update_load(self, parameters: Array) -> Array:
        """Load the gears by an estimate (p,); return the relative change of the load, (nv,).

        Changes the load in the terms of the conditions, if a joint has friction by load.
        """
        if not self.conditions.terms.has_load.any():
            return np.zeros(self._model.nv)
        samples = self.samples.take(self._spread_rows(REGRESSION_SAMPLES))
        end = self._unknowns.body_parameter_count + self._model.nv
        before = self._load(samples)
        terms = self.conditions.terms._replace(load=parameters[:end].copy())
        self.conditions = self.conditions._replace(terms=terms)
        change, size = (
            np.sqrt((torque**2).mean(axis=0)) for torque in (self._load(samples) - before, before)
        )
        return change / np.maximum(size, 1e-300)

    def weights(self, samples: Samples) -> Array:
        """Return the weights of the rows of each sample, (B, nv)."""
        return samples.weight[:, None] * self._is_known(samples)

    def _is_known(self, samples: Samples) -> np.ndarray:
        """Return True for rows with known torque and direction of friction, (B, nv) of bool."""
        is_measured = self.conditions.measured
        if samples.repeats is not None:
            is_measured = is_measured & ~repeated_motors(self._drives, samples.repeats)
        if not self._has_friction:
            return np.broadcast_to(is_measured, samples.v.shape)
        # at rest, friction balances any torque up to its breakaway torque
        is_moving = np.abs(self._drives.motor_velocity(samples.v)) > self.conditions.threshold
        return (is_moving & is_measured) | ~self._has_single_coordinate

    def torques(self, samples: Samples, parameters: Array) -> Array:
        """Return the modeled torques of the motors, (B, nv)."""
        bodies = self._unknowns.body_parameter_count
        self._inertias[:] = parameters[:bodies].reshape(-1, 10)
        feature_values = (
            parameters[bodies:].reshape(-1, self._model.nv) * self._has_single_coordinate
        )
        torques = rnea(
            self._model,
            self._data,
            samples.q,
            samples.v,
            samples.a,
            samples.f_ext,
            threads=self._threads,
        )
        torques = self._drives.to_motors(
            exclude_subtracted_gravity(self._model, samples.q, torques)
        )
        for column, values in zip(self._columns(samples), feature_values):
            if values.any():
                torques += column * values
        return torques

    def residuals(self, samples: Samples, parameters: Array) -> tuple[Array, Array | float]:
        """Return measured minus modeled torques, and the relative noise that remains in them."""
        return self._compare(samples, self.torques(samples, parameters))

    def _compare(self, samples: Samples, torques: Array) -> tuple[Array, Array | float]:
        """Return measured minus modeled torques, and the relative noise that remains in them."""
        r = self._drives.to_motors(samples.tau) - torques
        if not samples.contacts:
            return r, 1.0
        E = self._eliminations(samples)
        return np.einsum("bij,bj->bi", E, r), remaining_noise(E)

    # --- sums over the recording

    def sums(self, progress_range: tuple[float, float] = (0.0, 1.0)) -> Equations:
        """Return the normal equations of all rows in use.

        Report progress from the first to the second fraction of ``progress_range``.
        """
        start, stop = progress_range
        sums = self._zero_sums()
        for done, samples in self._blocks(_SUM_BLOCK):
            sums = add_sums(sums, self._sum_samples(samples, self.weights(samples)))
            self._progress(start + done * (stop - start), "equations")
        return sums

    def row_sums(self, row_sets: Sequence[np.ndarray]) -> Iterator[Equations]:
        """Yield the normal equations of each set of rows; all fit in memory together."""
        samples = self.samples.take(np.concatenate(row_sets))
        weights, edges = self.weights(samples), np.cumsum([0, *map(len, row_sets)])
        is_plain = not samples.contacts and self._drives.coupling is None
        columns = (*self._regressor_columns(samples), weights) if is_plain else ()
        for rows in map(slice, edges[:-1], edges[1:]):
            if is_plain and rows.start < rows.stop:
                yield self._sum_rows(*(column[rows] for column in columns))
            else:
                yield self._sum_samples(samples.take(rows), weights[rows])

    def outlier_excess(self, parameters: Array, limit: Array) -> tuple[Equations, int, int]:
        """Return the sums to subtract for outliers, their number, and the number of residuals.

        Residuals above the limit (nv,) count linearly (Huber 1964).
        """
        sums, outliers, count, first = self._zero_sums(), 0, 0, 0
        indices: list[np.ndarray] = []
        excess_weights: list[Array] = []
        for _, samples in self._blocks():
            r, remaining = self.residuals(samples, parameters)
            weights = self.weights(samples)
            count += int((weights > 0.0).sum())
            weights *= 1.0 - np.minimum(1.0, limit * remaining / np.maximum(np.abs(r), 1e-300))
            outliers += int((weights > 0.0).sum())
            outlier_rows = np.flatnonzero(weights.any(axis=1))
            indices.append(self.rows[first + outlier_rows])
            excess_weights.append(weights[outlier_rows])
            first += len(samples)
            if sum(map(len, indices)) > _SUM_BLOCK or first >= self.size:
                samples = self.samples.take(np.concatenate(indices))
                sums = add_sums(sums, self._sum_samples(samples, np.concatenate(excess_weights)))
                indices, excess_weights = [], []
        return sums, outliers, count

    def scores(self, parameters: Array, limit: Array, noise: Array, edges: np.ndarray) -> Array:
        """Return gradients of the cost, summed between consecutive edges, (n, p + m).

        The last m are derivatives by the logarithms of the free scales of friction.
        """
        joints = np.nonzero(self.conditions.terms.is_free)[1]
        scores, first = np.zeros((len(edges) - 1, len(parameters) + len(joints))), 0
        for _, samples in self._blocks():
            affected = np.flatnonzero(
                (edges[1:] > np.maximum(edges[:-1], first)) & (edges[:-1] < first + len(samples))
            )
            r = self._weighted_residuals(samples, parameters, limit, noise)
            changes = self._friction_changes(
                self.rows[first : first + len(samples)], samples, parameters
            )
            gradients = np.hstack([*self._products(samples, r), changes * r[:, joints]])
            scores[affected] += np.add.reduceat(gradients, np.maximum(edges[affected] - first, 0))
            first += len(samples)
        return scores

    def _weighted_residuals(
        self, samples: Samples, parameters: Array, limit: Array, noise: Array
    ) -> Array:
        """Return residuals, clipped to the limits, over the variance of their noise, (B, nv).

        ``limit`` and ``noise`` are (nv,) [N m, N].
        """
        r = self._drives.to_motors(samples.tau) - self.torques(samples, parameters)
        weights = self.weights(samples) / noise**2
        if samples.contacts:
            E = self._eliminations(samples)
            r = np.einsum("bij,bj->bi", E, r)
            r = np.clip(r, -limit * remaining_noise(E), limit * remaining_noise(E)) * weights
            return np.einsum("bji,bj->bi", E, r)
        return np.clip(r, -limit, limit) * weights

    def _products(self, samples: Samples, r: Array) -> tuple[Array, Array]:
        """Multiply the transposed equations by r (B, nv); return bodies' and features' products."""
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
        """Return derivatives of motor torques by the logarithms of free friction scales, (B, m)."""
        terms, v = self.conditions.terms, self._drives.motor_velocity(samples.v)
        feature_values = parameters[self._unknowns.body_parameter_count :].reshape(
            -1, self._model.nv
        )
        changes = np.zeros((len(rows), *terms.is_free.shape))
        if terms.is_free[:2].any():
            change = None if samples.direction is None else self._direction_changes[rows]
            columns = self._columns(samples, terms.direction_change(v, change))
            changes[:, 0] = changes[:, 1] = sum(
                column * values
                for n, (column, values) in enumerate(zip(columns, feature_values))
                if FEATURES[n] in DIRECTED_FEATURES
            )
        if terms.is_free[2].any():
            n = FEATURES.index("stribeck")
            changes[:, 2] = (
                self._columns(samples)[n] * feature_values[n] * 2.0 * (v / terms.stribeck) ** 2
            )
        return changes[:, terms.is_free]

    def friction_sums(
        self, row_sets: Sequence[np.ndarray], parameters: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Return the friction scales' columns of the normal equations of sets of rows.

        These are products with the parameters, (n, p, m), and with each other, (n, m, m).
        """
        joints, rows = np.nonzero(self.conditions.terms.is_free)[1], np.concatenate(row_sets)
        samples, ends = self.samples.take(rows), np.cumsum(list(map(len, row_sets)))[:-1]
        changes = self._friction_changes(rows, samples, parameters)
        weighted = changes * (self.weights(samples) / noise**2)[:, joints]

        def sum_sets(values: Array) -> Array:
            """Return the sums of values (B, ...) over each set of rows, (n, ...)."""
            return np.stack([block.sum(axis=0) for block in np.split(values, ends)])

        joint_masks = np.arange(len(noise)) == joints[:, None]
        products = [
            sum_sets(np.hstack(self._products(samples, column[:, None] * mask)))
            for column, mask in zip(weighted.T, joint_masks)
        ]
        squares = np.where(joints == joints[:, None], weighted[:, :, None] * changes[:, None], 0.0)
        return np.stack(products, axis=2), sum_sets(squares)

    def attenuation(self, parameters: Array, limit: Array, noise: Array) -> Array:
        """Return the mean contribution of the noise of the motion to ``scores``, (p,).

        The same amount of noise is added to the motion of a subset, and subtracted from it.
        """
        total, sigma = np.zeros(len(parameters)), self.samples.motion_noise
        if sigma is None or not sigma.any():
            return total
        samples = self.samples.take(self._spread_rows(BLOCK_SIZE // 2))
        for factor, noisy in zip(
            (0.5, 0.5, -1.0), (*add_motion_noise(self._model, samples, sigma), samples)
        ):
            r = self._weighted_residuals(noisy, parameters, limit, noise)
            total += factor * np.concatenate(
                [gradients.sum(axis=0) for gradients in self._products(noisy, r)]
            )
        return total * (self.size / len(samples))

    def subsampled_residuals(self, parameters: Array) -> Array:
        """Return residuals of a subset, scaled to complete noise, (B, nv); NaN without weight."""
        samples = self.samples.take(self._spread_rows(STATISTICS_SAMPLES))
        r, remaining = self.residuals(samples, parameters)
        return np.where(self.weights(samples) > 0.0, r / remaining, np.nan)

    def torques_and_residuals(
        self, rows: np.ndarray, models: Sequence[Callable[[Samples], Array]]
    ) -> Iterator[list[Array]]:
        """Yield, block by block, measured torques of rows and the residuals of each model.

        Models are functions that return the torques (B, nv) of motors in samples.
        """
        for first in range(0, len(rows), BLOCK_SIZE):
            samples = self._take(rows[first : first + BLOCK_SIZE])
            has_weight = self.weights(samples) > 0.0
            columns = [self._drives.to_motors(samples.tau)]
            for model in models:
                r, remaining = self._compare(samples, model(samples))
                columns.append(
                    np.where(has_weight & (remaining > _MIN_REMAINING_NOISE), r / remaining, np.nan)
                )
            yield columns

    def _blocks(self, size: int = BLOCK_SIZE) -> Iterator[tuple[float, Samples]]:
        """Yield the fraction that is done after each block of samples, and the block."""
        for first in range(0, self.size, size):
            samples = self._take(self.rows[first : first + size])
            yield min(1.0, (first + size) / self.size), samples

    def _take(self, rows: np.ndarray) -> Samples:
        """Return the samples of ascending rows; views if they are consecutive."""
        is_range = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        return self.samples.take(slice(rows[0], rows[-1] + 1) if is_range else rows)

    def _spread_rows(self, count: int) -> np.ndarray:
        """Return the indices of about ``count`` samples, evenly spread."""
        repeats = self.samples.repeats
        return self.rows[
            evenly_spaced(self.size, count, None if repeats is None else repeats[self.rows])
        ]

    def _zero_sums(self) -> Equations:
        """Return the sums of no samples."""
        return Equations.zeros(*self._unknowns.row_columns.shape)

    def _sum_samples(self, samples: Samples, weights: Array) -> Equations:
        """Sum the equations of samples."""
        if not len(samples):
            return self._zero_sums()
        if samples.contacts or self._drives.coupling is not None:
            return self._sum_combined_rows(samples, weights)
        return self._sum_rows(*self._regressor_columns(samples), weights)

    def _regressor_columns(self, samples: Samples) -> tuple[Array, ...]:
        """Return what the normal equations are summed from: q, v, a, torques and features."""
        return (
            samples.q,
            samples.v,
            samples.a,
            self._known_torque(samples),
            self.features(samples),
        )

    def _sum_rows(self, *rows: Array) -> Equations:
        """Sum the equations of samples: q, v, a, torques, features and weights."""
        WW, Wy, yy = algorithms.normal_equations(
            self._model, self._data, *rows, threads=self._threads
        )
        is_weightless = self._drives.is_compensated
        if is_weightless.any():
            sums = algorithms.normal_equations(
                self._weightless_model, Data(self._weightless_model), *rows, threads=self._threads
            )
            WW[is_weightless], Wy[is_weightless] = sums.WW[is_weightless], sums.Wy[is_weightless]
        return Equations(WW, Wy, yy, rows[-1].sum(axis=0))

    def _sum_combined_rows(self, samples: Samples, weights: Array) -> Equations:
        """Sum the equations of coupled motors, or those that contact forces do not enter."""
        sums = self._zero_sums()
        for first in range(0, len(samples), _DENSE_BLOCK):
            block = samples.take(slice(first, first + _DENSE_BLOCK))
            w = weights[first : first + _DENSE_BLOCK]
            W = torque_regressor(self._model, self._data, block.q, block.v, block.a, self._threads)
            features = self.features(block)
            y = self._known_torque(block)
            row_weights = w
            if block.contacts:
                E = self._eliminations(block)
                W = E @ np.concatenate([W, expand_features(features)], axis=2)
                y, row_weights = np.einsum("bij,bj->bi", E, y), w * np.einsum("bkk->bk", E)
            else:
                W = self._drives.to_motors(W.swapaxes(1, 2)).swapaxes(1, 2)
                W = np.concatenate([W, features], axis=2)
            add_rows(sums, W, y, w)
            sums.weight[:] += row_weights.sum(axis=0)
        return sums

    def _eliminations(self, samples: Samples) -> Array:
        """Return matrices that eliminate contacts and friction of joints at rest, (B, nv, nv)."""
        at_rest = np.eye(self._model.nv) * ~self._is_known(samples)[:, None]
        return contact_eliminations(
            self._model,
            self._data,
            samples,
            self.conditions.contact_dimension,
            self.conditions.scale,
            at_rest,
        )

    def leave_out_reversals(self, parameters: Array) -> bool:
        """Leave out samples near reversals if residuals are larger there; return True if it did.

        Widens the margin in the conditions, and sets the weights of these samples to 0.
        """
        margin = self.reversals.affected_distance(
            self._spread_rows(STATISTICS_SAMPLES), np.abs(self.subsampled_residuals(parameters))
        )
        before = np.count_nonzero(self.samples.weight)
        self.conditions = self.conditions._replace(
            reversal_margin=max(margin, self.conditions.reversal_margin)
        )
        self._drop_near_reversals()
        return bool(np.count_nonzero(self.samples.weight) < before)

    def correlations(self, parameters: Array) -> Array:
        """Return the number of samples over which residuals of each row are correlated, (nv,)."""
        stretches = FOLDS // 2
        lengths, block_size = [], min(BLOCK_SIZE, 1 << (self.size // stretches).bit_length() - 1)
        for first in np.linspace(0, self.size - block_size, stretches).astype(int):
            samples = self._take(self.rows[first : first + block_size])
            r = self.residuals(samples, parameters)[0] * (self.weights(samples) > 0.0)
            lengths.append([correlation_length(x) for x in r.T])
        return np.median(lengths, axis=0)

    def _known_torque(self, samples: Samples) -> Array:
        """Return the motor torques, measured plus of external forces, tau + J' f, (B, nv)."""
        if samples.f_ext is None:
            return self._drives.to_motors(samples.tau)
        motion = samples.q, samples.v, samples.a
        free = rnea(self._model, self._data, *motion, threads=self._threads)
        forced = rnea(self._model, self._data, *motion, samples.f_ext, threads=self._threads)
        return self._drives.to_motors(samples.tau + (free - forced))
