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

from ..engine import algorithms
from ..engine.algorithms import rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import ReferenceFrame
from . import normal_equations as ne
from .samples import Samples, is_measured
from .unknowns import FEATURES, Unknowns, in_columns, is_actuated

_DEPENDENT = 1e-12      # squared size of a combination of unit forces that counts as zero
_LITTLE = 0.1           # of a row's noise: where less is left, the row says nothing
_DENSE = 512           # of these, where all columns of all rows are computed
_STRETCHES = 4          # of consecutive samples, for their correlation
_SAMPLE = 20000         # residuals that are compared with their distance from reversals
_SPREAD = 0.7           # periods of the cutoff over which the filter spreads a jump
_LEFT_OUT = 0.6         # of the samples, at most, are near reversals
_CLIPPED = 30.0         # times the median: larger residuals count as that
_NOISY = 2000           # samples whose noise is simulated
_SUMMED = 16384         # samples whose equations are added up in one call
BLOCK = 4096            # samples that are processed at a time
_AT_REST = 0.01         # of a joint's largest speed; the sign of slower velocities is noise

Progress = Callable[[float, str], None]


class TorqueEquations:
    """Samples, and the equations that they contribute.

    ``rows`` are the indices of the samples to use, ascending; ``stribeck`` (nv,) is the velocity at
    which this friction has decreased to a third [rad/s, m/s]; contacts of dimension 3 transmit
    forces, of 6 also moments. Conditions are those of the recording that the samples are from.
    """

    def __init__(self, unknowns: Unknowns, samples: Samples, rows: np.ndarray,
                 stribeck: Array, threads: int, progress: Progress,
                 contact_dimension: int, conditions: ne.Conditions | None = None) -> None:
        self._unknowns, self._samples, self._rows = unknowns, samples, rows
        self._stribeck, self._threads, self._progress = stribeck, threads, progress
        self._model = copy.copy(unknowns.model)
        self._model.armature = np.zeros(self._model.nv)
        # each estimate writes the numbers that the algorithms read; the links remain as they are
        self._inertias = self._model._packed_inertias
        self._data = Data(self._model)
        self._actuated = is_actuated(self._model)
        self._has_friction = bool(unknowns.active[unknowns.bodies + self._model.nv:].any())
        self._dimension = contact_dimension
        self.conditions = conditions or self._own_conditions()
        self._distance = ne.distances(samples.v, self.conditions.threshold,
                                   np.flatnonzero(self._actuated & self._has_friction))
        self._drop_near_reversals()
        self._local = ne.columns(unknowns, bool(samples.contacts))

    def _own_conditions(self) -> ne.Conditions:
        """Those of the samples, before it is known how far reversals matter."""
        threshold = np.where(self._actuated, _AT_REST * ne.fastest(self._samples), 0.0)
        return ne.Conditions(threshold, is_measured(self._samples) | ~self._actuated, 0,
                          self._torque_scale() if self._samples.contacts else np.ones(self.nv))

    def _drop_near_reversals(self) -> None:
        weight = np.where(self._distance >= self.conditions.nearest, self._samples.weight, 0.0)
        self._samples = dataclasses.replace(self._samples, weight=weight)

    @property
    def nv(self) -> int:
        """Number of rows of a sample."""
        return self._model.nv

    @property
    def indices(self) -> np.ndarray:
        """Of the samples that are used."""
        return self._rows

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self._rows)

    @property
    def contacts(self) -> tuple[str, ...]:
        """Names of the frames whose contact forces are eliminated."""
        return self._samples.contacts

    def of_all(self) -> TorqueEquations:
        """The same for all samples, but for those near reversals that are left out here."""
        equations = copy.copy(self)     # which shares the model
        equations._rows = np.arange(len(self._samples), dtype=np.int32)
        return equations

    def features(self, samples: Samples) -> Array:
        """The columns of each row for armature and friction, (B, nv, 5); zeros for base joints."""
        features = np.empty((len(samples), self._model.nv, len(FEATURES)))
        for n, column in enumerate(self._columns(samples)):
            features[..., n] = column
        features[:, ~self._actuated] = 0.0
        return features

    def _columns(self, samples: Samples) -> tuple[Array | float, ...]:
        """What each of ``FEATURES`` multiplies, (B, nv)."""
        v = samples.v
        direction = np.sign(v) * (np.abs(v) > self.conditions.threshold)
        decreasing = direction
        if np.isfinite(self._stribeck).any():
            decreasing = direction * np.exp(-(v / self._stribeck) ** 2)
        return samples.a, v, direction, 1.0, decreasing

    def weights(self, samples: Samples) -> Array:
        """Weights of the rows of each sample, (B, nv).

        If friction is estimated, a joint's row counts only while the joint moves: at rest, friction
        balances any torque up to its breakaway torque.
        """
        return samples.weight[:, None] * self._is_known(samples)

    def _is_known(self, samples: Samples) -> np.ndarray:
        """Whether each row's torque and its friction's direction are known, (B, nv) of bool."""
        if not self._has_friction:
            return np.broadcast_to(self.conditions.measured, samples.v.shape)
        moves = np.abs(samples.v) > self.conditions.threshold
        return (moves & self.conditions.measured) | ~self._actuated

    def torques(self, samples: Samples, parameters: Array) -> Array:
        """Modelled torques, (B, nv)."""
        bodies = self._unknowns.bodies
        self._inertias[:] = parameters[:bodies].reshape(-1, 10)
        own = parameters[bodies:].reshape(len(FEATURES), self.nv) * self._actuated
        torques = rnea(self._model, self._data, samples.q, samples.v, samples.a, samples.f_ext,
                       threads=self._threads)
        for column, numbers in zip(self._columns(samples), own):
            if numbers.any():
                torques += column * numbers
        return torques

    def residuals(self, samples: Samples, parameters: Array) -> tuple[Array, Array | float]:
        """Measured minus modeled torques, and the part of the noise that is left in them.

        What unknown contact forces can explain is eliminated, and with it some of the noise.
        """
        r = samples.tau - self.torques(samples, parameters)
        if not samples.contacts:
            return r, 1.0
        E = self._eliminations(samples)
        return np.einsum("bij,bj->bi", E, r), _left(E)

    # -- sums over the recording

    def sums(self, start: float, stop: float) -> ne.Equations:
        """The normal equations; progress goes from ``start`` to ``stop``."""
        sums = ne.Equations.nothing(self._local)
        for done, samples in self._parts(_SUMMED):
            sums.add(self._of(samples, self.weights(samples)))
            self._progress(start + done * (stop - start), "equations")
        return sums

    def excess(self, parameters: Array, limit: Array) -> tuple[ne.Equations, int, int]:
        """What residuals above the limit of their row contribute too much.

        Also returns their number, and that of all residuals that count.
        """
        sums, outliers, rows, first = ne.Equations.nothing(self._local), 0, 0, 0
        indices: list[np.ndarray] = []
        excesses: list[Array] = []
        for _, samples in self._parts():
            r, left = self.residuals(samples, parameters)
            weights = self.weights(samples)
            rows += int((weights > 0.0).sum())
            weights *= 1.0 - np.minimum(1.0, limit * left / np.maximum(np.abs(r), 1e-300))
            outliers += int((weights > 0.0).sum())
            some = np.flatnonzero(weights.any(axis=1))
            indices.append(self._rows[first + some])
            excesses.append(weights[some])
            first += len(samples)
            if sum(map(len, indices)) > _SUMMED or first >= self.size:
                sums.add(self._of(self._samples.take(np.concatenate(indices)),
                                  np.concatenate(excesses)))
                indices, excesses = [], []
        return sums, outliers, rows

    def scores(self, parameters: Array, limit: Array, noise: Array, length: int) -> Array:
        """Gradients of the cost, summed over blocks of ``length`` samples: (blocks, p)."""
        scores = []
        for done, samples in self._parts():
            starts = np.arange(0, len(samples), length)    # as in block_sizes
            scores.append(np.hstack([np.add.reduceat(gradients, starts) for gradients in
                                     self._gradients(samples, parameters, limit, noise)]))
            self._progress(0.75 + 0.25 * done, "intervals")
        return np.concatenate(scores)

    def _gradients(self, samples: Samples, parameters: Array, limit: Array,
                   noise: Array) -> tuple[Array, Array]:
        """Negative gradients of the cost of each sample, in parts: of bodies, of features."""
        r = samples.tau - self.torques(samples, parameters)
        weights = self.weights(samples) / noise ** 2
        if samples.contacts:
            E = self._eliminations(samples)
            r = np.einsum("bij,bj->bi", E, r)
            r = np.clip(r, -limit * _left(E), limit * _left(E)) * weights
            r = np.einsum("bji,bj->bi", E, r)
        else:
            r = np.clip(r, -limit, limit) * weights
        bodies = algorithms.joint_torque_regressor_product(
            self._model, self._data, samples.q, samples.v, samples.a, r, threads=self._threads)
        return bodies, np.einsum("bkf,bk->bfk", self.features(samples), r).reshape(len(r), -1)

    def attenuation(self, parameters: Array, limit: Array, noise: Array) -> Array:
        """What the noise of the motion adds to the sum of ``scores`` on average, (p,).

        As much noise again is added to the motion of some samples, and subtracted from it.
        """
        total, sigma = np.zeros(len(parameters)), self._samples.motion_noise
        if sigma is None or not sigma.any():
            return total
        samples = self._samples.take(self._some(_NOISY))
        for share, moved in zip((0.5, 0.5, -1.0),
                                (*ne.with_noise(self._model, samples, sigma), samples)):
            total += share * np.concatenate([gradients.sum(axis=0) for gradients in
                                             self._gradients(moved, parameters, limit, noise)])
        return total * (self.size / len(samples))

    def block_sizes(self, length: int) -> Array:
        """Number of samples of each block of ``scores``."""
        parts = [min(BLOCK, self.size - first) for first in range(0, self.size, BLOCK)]
        return np.array([min(length, part - start) for part in parts
                         for start in range(0, part, length)], float)

    def some_residuals(self, parameters: Array, count: int) -> Array:
        """Residuals of about ``count`` samples, (B, nv), before the elimination of contact forces.

        NaN in rows without weight.
        """
        samples = self._samples.take(self._some(count))
        r, left = self.residuals(samples, parameters)
        return np.where(self.weights(samples) > 0.0, r / left, np.nan)

    def comparison(self, rows: np.ndarray, parameters: Sequence[Array]) -> Iterator[list[Array]]:
        """Measured torques of some samples, and the residuals of each set of parameters, in parts.

        Residuals of rows without weight are NaN, such as those whose friction is unknown. Where
        contact forces are eliminated, residuals are as large as if their noise were complete.
        """
        for first in range(0, len(rows), BLOCK):
            samples = self._samples.take(rows[first:first + BLOCK])
            known = self.weights(samples) > 0.0
            columns = [samples.tau]
            for one in parameters:
                r, left = self.residuals(samples, one)
                columns.append(np.where(known & (left > _LITTLE), r / left, np.nan))
            yield columns

    def _parts(self, size: int = BLOCK) -> Iterator[tuple[float, Samples]]:
        """Some samples at a time, and the fraction that they complete."""
        for first in range(0, self.size, size):
            samples = self._samples.take(self._rows[first:first + size])
            yield min(1.0, (first + size) / self.size), samples

    def _some(self, count: int) -> np.ndarray:
        """Indices of about this many samples."""
        return self._rows[::1 + self.size // count]

    def _of(self, samples: Samples, weights: Array) -> ne.Equations:
        if not len(samples):
            return ne.Equations.nothing(self._local)
        if samples.contacts:
            return self._without_contact_forces(samples, weights)
        WW, Wy, yy = algorithms.normal_equations(
            self._model, self._data, samples.q, samples.v, samples.a, self._known(samples),
            self.features(samples), weights, threads=self._threads)
        return ne.Equations(self._local, WW, Wy, yy, weights.sum(axis=0))

    def _without_contact_forces(self, samples: Samples, weights: Array) -> ne.Equations:
        """The equations multiplied by matrices that eliminate the contact forces."""
        sums = ne.Equations.nothing(self._local)
        for first in range(0, len(samples), _DENSE):
            part, w = samples.take(slice(first, first + _DENSE)), weights[first:first + _DENSE]
            E = self._eliminations(part)
            bodies = algorithms.joint_torque_regressor(
                self._model, self._data, part.q, part.v, part.a, threads=self._threads)
            W = E @ np.concatenate([bodies, in_columns(self.features(part))], axis=2)
            y = np.einsum("bij,bj->bi", E, self._known(part))
            for k in range(self._model.nv):
                root = np.sqrt(w[:, k])
                rows = root[:, None] * W[:, k]
                sums.WW[k] += rows.T @ rows
                sums.Wy[k] += (root * y[:, k]) @ rows
                sums.yy[k] += w[:, k] @ y[:, k] ** 2
                sums.count[k] += w[:, k] @ E[:, k, k]
        return sums

    def _eliminations(self, samples: Samples) -> Array:
        """Matrices E with E J' = 0 for the contacts of each sample, (B, nv, nv).

        They also eliminate the unknown friction of joints at rest. They are orthogonal projections
        of torques divided by their noise.
        """
        axes = ReferenceFrame.LOCAL_WORLD_ALIGNED
        J = np.stack([algorithms.frame_jacobian(self._model, self._data, samples.q, frame, axes)
                      for frame in samples.contacts], axis=1)[:, :, :self._dimension]
        if samples.in_contact is not None:
            J *= samples.in_contact[:, :, None, None]
        at_rest = np.eye(self._model.nv) * ~self._is_known(samples)[:, None]
        scale = self.conditions.scale
        A = np.concatenate([J.reshape(len(samples), -1, self._model.nv) / scale, at_rest], axis=1)
        A /= np.maximum(np.linalg.norm(A, axis=2, keepdims=True), 1e-300)
        squares, vectors = np.linalg.eigh(A.swapaxes(1, 2) @ A)
        left = vectors * (squares < _DEPENDENT)[:, None]
        return scale[:, None] * (left @ left.swapaxes(1, 2)) / scale

    def leave_out_reversals(self, parameters: Array) -> bool:
        """Leave out samples near reversals if their residuals are larger than those of others.

        Where the friction of a joint changes its sign, the accelerations of all joints jump. The
        filter of the motion spreads the jump over some samples; how many is seen in the residuals.
        Returns whether more samples are left out than before.
        """
        rows = self._some(_SAMPLE)
        samples, distance = self._samples.take(rows), self._distance[rows]
        r, left = self.residuals(samples, parameters)
        r = np.where(self.weights(samples) > 0.0, np.abs(r / left), np.nan)
        r = r[:, np.isfinite(r).any(axis=0)]
        counted = np.isfinite(r).any(axis=1)
        if counted.sum() < 10 * ne.FEWEST:
            return False
        r, distance = r[counted], distance[counted]
        typical = np.maximum(np.nanmedian(r, axis=0), 1e-300)
        squares = np.nanmean(np.minimum(r / typical, _CLIPPED) ** 2, axis=1)
        nearest = ne.settled(distance, squares)
        if nearest == 0:
            return False
        step = float(np.median(np.diff(self._samples.time[:1000])))
        spread = min(_SPREAD / (step * self._samples.cutoff), np.quantile(distance, _LEFT_OUT))
        nearest = max(nearest, int(spread))
        before = np.count_nonzero(self._samples.weight)
        self.conditions = self.conditions._replace(nearest=max(nearest, self.conditions.nearest))
        self._drop_near_reversals()
        return bool(np.count_nonzero(self._samples.weight) < before)

    def scale_by(self, noise: Array) -> None:
        """Eliminate contact forces by projections that are orthogonal for this noise."""
        self.conditions = self.conditions._replace(scale=noise)

    def correlations(self, parameters: Array) -> Array:
        """Number of consecutive samples over which the residuals of each row are correlated.

        That many samples say as much about the parameters as one whose noise is independent.
        """
        sums, length = [], min(BLOCK, 1 << (self.size // _STRETCHES).bit_length() - 1)
        for first in np.linspace(0, self.size - length, _STRETCHES).astype(int):
            samples = self._samples.take(self._rows[first:first + length])
            r = self.residuals(samples, parameters)[0] * (self.weights(samples) > 0.0)
            sums.append([ne.correlation_length(x) for x in r.T])
        return np.median(sums, axis=0)

    def _torque_scale(self) -> Array:
        """RMS torques of each row, as the description has them."""
        some = self._samples.take(slice(None, None, 1 + len(self._samples) // 2000))
        model = self._unknowns.model
        torque = rnea(model, Data(model), some.q, some.v, some.a)
        return np.sqrt((torque ** 2).mean(axis=0)) + 1e-6

    def _known(self, samples: Samples) -> Array:
        """Measured torque and that of external forces, tau + J' f, (B, nv)."""
        if samples.f_ext is None:
            return samples.tau
        state = samples.q, samples.v, samples.a
        free = rnea(self._model, self._data, *state, threads=self._threads)
        forced = rnea(self._model, self._data, *state, samples.f_ext, threads=self._threads)
        return samples.tau + (free - forced)


def _left(eliminations: Array) -> Array:
    """Standard deviation of each row's noise after the elimination, relative to that before."""
    return np.sqrt(np.maximum(np.einsum("bii->bi", eliminations), 1e-3))
