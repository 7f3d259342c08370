# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Torque per unit of measured effort, from recordings with and without a load of known mass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve
from scipy.special import stdtrit

from ..engine.algorithms import joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.kernel.validation import require_model
from ..engine.model import Model
from .base_parameters import Unknowns, in_columns, structure
from .friction_terms import choose_terms, directions_of, measured_joints
from .identify_options import IdentifyOptions
from .motion.filtering import AT_REST
from .motion.numerics import FOLDS, REGRESSION, ROUNDOFF
from .normal_equations import jackknife
from .payload import payload_columns
from .physical import decomposed
from .samples import Samples

_STRETCHES = 2 * FOLDS  # per recording; their scatter gives the intervals
_WIDEST = 50.0  # by which gains differ from a typical one, at most
_LEAST = 1.1 / _WIDEST  # times a typical one: inverse gains at the bounds of the search
_ROUNDS = 4  # of gains, the load on the gears, and noise
_FARTHEST = 0.3  # m: typical distance of a load's center from its frame, a weak prior


@dataclass(frozen=True)
class GainEstimate:
    """The result of ``dyn_ros.estimate_gains``.

    Attributes
    ----------
    gain : (nv,) ndarray
        Torque per unit of measured effort, of either sign; NaN for joints that were not measured,
        or whose drives subtract gravity.
    lower, upper : (nv,) ndarray
        95 % confidence intervals of the gains.
    center : (loads, 3) ndarray
        Center of mass of each load, expressed in its frame [m].
    error : (nv,) ndarray
        RMS difference of measured and modeled efforts, in their own unit.

    Examples
    --------
    >>> found = dyn_ros.estimate_gains(model, recording, loaded, 0.5, "tool")
    >>> bool((found.lower < 1.0).all() and (found.upper > 1.0).all())    # they are torques
    True
    """

    gain: Array
    lower: Array
    upper: Array
    center: Array
    error: Array


class _Recording(NamedTuple):
    """One recording: regressors of its samples."""

    samples: Samples
    direction: Array  # (B, nv) of friction
    Y: Array  # (B, n, b) of the robot's base parameters, for the joints that count
    L: Array  # (B, n, 10) of the load in its frame; empty without one
    load: int  # number of the load, or -1


def estimate_gains(
    model: Model,
    free: Samples | Sequence[Samples],
    loaded: Samples | Sequence[Samples],
    mass: float | Sequence[float],
    frame: str | Sequence[str],
) -> GainEstimate:
    """Estimate the torque per unit of effort of each joint from loads of known mass.

    The unknowns are the gains, the robot's base parameters, the center and inertia of each load,
    and the friction and offset of each joint in each recording. Efforts are the noisy side, so
    that the estimate maximizes the likelihood of the efforts: the sum of squared differences of
    measured efforts and modeled torques divided by the gains is the least. Without a load, any
    multiple of all gains and inertias explains the efforts as well.

    Parameters
    ----------
    model : Model
        Without the load. Its inertias are rough: the search begins with them.
    free, loaded : Samples, or sequence of Samples
        Motions without, and with a load: the same motion, on the same day.
    mass : float, or sequence of float
        Of the load in each of ``loaded`` [kg].
    frame : str, or sequence of str
        To whose link each load is attached, close to it: its name.

    Raises
    ------
    ValueError
        An unknown frame, a mass that is not positive, a description without masses, or
        recordings that do not determine the gains; names a remedy.

    References
    ----------
    Gautier, M. and Briot, S.: Global identification of joint drive gains and dynamic parameters of
    robots. Journal of Dynamic Systems, Measurement, and Control 136 (2014), for the use of a load.
    Golub, G. and Pereyra, V.: The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate. SIAM Journal on Numerical Analysis 10 (1973).

    Examples
    --------
    The arm carries 0.5 kg in the second recording:

    >>> found = dyn_ros.estimate_gains(model, recording, loaded, 0.5, "tool")
    >>> np.allclose(found.gain, 1.0, atol=0.1)
    True
    """
    require_model(model)
    problem = _Problem(
        model,
        _several(free),
        _several(loaded),
        _masses(mass, _several(loaded)),
        [frame] if isinstance(frame, str) else list(frame),
    )
    return problem.solve()


def _several(samples: Samples | Sequence[Samples]) -> list[Samples]:
    return [samples] if isinstance(samples, Samples) else list(samples)


def _masses(mass: float | Sequence[float], loaded: Sequence[Samples]) -> list[float]:
    masses = [float(one) for one in np.atleast_1d(np.asarray(mass, float))]
    masses = masses * len(loaded) if len(masses) == 1 else masses
    if len(masses) != len(loaded) or not loaded:
        raise ValueError(
            f"mass: expected one for each of {len(loaded)} recordings with a load, "
            f"got {len(masses)}"
        )
    for one in masses:
        if not 0.0 < one < np.inf:
            raise ValueError(f"mass: expected more than 0 kg, got {one:g}")
    return masses


class _Problem:
    """Efforts of joints: (Y theta + L phi) / gain + friction, with the mass in phi known.

    All but the inverse gains c are linear for given c: theta, the loads' other nine numbers, and
    friction, which c does not multiply.
    """

    def __init__(
        self,
        model: Model,
        free: Sequence[Samples],
        loaded: Sequence[Samples],
        masses: Sequence[float],
        frames: Sequence[str],
    ) -> None:
        if not free:
            raise ValueError("free: expected at least one recording without a load")
        frames = list(frames) * len(loaded) if len(frames) == 1 else list(frames)
        if len(frames) != len(loaded):
            raise ValueError(
                f"frame: expected one for each of {len(loaded)} recordings with a "
                f"load, got {len(frames)}"
            )
        some = [one.take(slice(None, None, 1 + len(one) // REGRESSION)) for one in (*free, *loaded)]
        self.model, self.masses = model, masses
        joints = set(np.flatnonzero(~model.drives.is_compensated).tolist())
        for one in some:
            joints &= set(measured_joints(model, one.v, one.tau).tolist())
        self.joints = np.array(sorted(joints), int)
        if not len(self.joints):
            raise ValueError(
                "free, loaded: no joint moves and has efforts with gravity in all "
                "recordings; record the same motion with and without the load, with "
                "measured efforts"
            )
        base = structure(Unknowns(model, ("armature",)))
        self.independent = base.independent
        every = Samples.concatenate(list(some[: len(free)]))
        self.terms = choose_terms(model, every, np.full(model.nv, np.inf), IdentifyOptions.huber)
        self.recordings = [
            self._recording(one, n - len(free), frames) for n, one in enumerate(some)
        ]
        self.count = len(base.independent)
        self.loads = len(loaded)
        self.typical = 1.0  # inverse gain
        self.sigma = np.array(
            [
                np.sqrt(np.mean(np.concatenate([one.tau[:, k] for one in some]) ** 2))
                for k in self.joints
            ]
        )

    def _recording(self, samples: Samples, load: int, frames: Sequence[str]) -> _Recording:
        model = self.model
        direction = directions_of(self.terms.of(model.drives), samples)
        W = joint_torque_regressor(model, Data(model), samples.q, samples.v, samples.a)
        rotors = in_columns(samples.a[:, :, None])
        Y = np.concatenate([W, rotors], axis=2)[:, self.joints][:, :, self.independent]
        if load < 0:
            return _Recording(samples, direction, Y, np.zeros((*Y.shape[:2], 10)), -1)
        columns, own = payload_columns(model, model.frame_index(frames[load]))
        return _Recording(samples, direction, Y, W[:, self.joints][:, :, columns] @ own, load)

    def _rows(self, k: int) -> list[Array]:
        """Samples in which joint k moves, of each recording."""
        speeds = [np.abs(one.samples.v[:, k]) for one in self.recordings]
        return [speed > AT_REST * np.quantile(speed, 0.99) for speed in speeds]

    # --- columns

    def _friction(self, one: _Recording, n: int, torque: Array) -> Array:
        """Columns of friction and offset of joint n in a recording, (B, columns)."""
        k, v = self.joints[n], one.samples.v[:, self.joints[n]]
        s = one.direction[:, k]
        columns = [v, s, np.ones_like(v)]
        if self.terms.chosen[0, k]:
            columns.append(s * np.exp(-((v / self.terms.stribeck[k]) ** 2)))
        if self.terms.chosen[1, k]:
            columns.append(s * np.sqrt(np.abs(v)))
        columns.append(s * np.abs(torque))
        return np.column_stack(columns)

    def _torque(self, one: _Recording, x: Array) -> Array:
        """Torques of the robot and its load, (B, n)."""
        theta, phi = x[: self.count], x[self.count : self.count + 9 * self.loads].reshape(-1, 9)
        torque = one.Y @ theta
        if one.load >= 0:
            torque = torque + one.L @ np.concatenate([[self.masses[one.load]], phi[one.load]])
        return torque

    def _blocks(self, torques: Sequence[Array]) -> list[list[tuple[Array, Array, Array, Array]]]:
        """For each joint and recording: inertial columns, friction's, the known, and efforts."""
        shared = self.count + 9 * self.loads
        result = []
        for n, k in enumerate(self.joints):
            own = []
            for one, torque, rows in zip(self.recordings, torques, self._rows(int(k))):
                known = np.zeros(len(one.samples))
                A = np.zeros((len(one.samples), shared))
                A[:, : self.count] = one.Y[:, n]
                if one.load >= 0:
                    A[:, self.count + 9 * one.load :][:, :9] = one.L[:, n, 1:]
                    known = one.L[:, n, 0] * self.masses[one.load]
                F = self._friction(one, n, torque[:, n])
                own.append((A[rows], F[rows], known[rows], one.samples.tau[rows, k]))
            result.append(own)
        return result

    # --- the estimate

    def solve(self) -> GainEstimate:
        """Gains, the load on the gears and the noise in turn."""
        torques = [np.zeros((len(one.samples), len(self.joints))) for one in self.recordings]
        starts = self._starts(torques)
        for round_ in range(_ROUNDS):
            reduced = [_Reduced(own) for own in self._blocks(torques)]
            c, x, _ = self._best(reduced, starts, round_ == 0)
            torques = [self._torque(one, x) for one in self.recordings]
            self.sigma = np.array([one.error(c[n], x) for n, one in enumerate(reduced)])
            starts = [c]
        return self._result(c, x, self._blocks(torques))

    def _starts(self, torques: Sequence[Array]) -> list[Array]:
        """Inverse gains to start from: as the description has it, and the same for all joints."""
        data, found = Data(self.model), np.zeros(len(self.joints))
        moves = np.zeros(len(found), bool)
        blocks = self._blocks(torques)
        for n, k in enumerate(self.joints):
            products = np.zeros(2)
            for one, (_, F, _, effort), rows in zip(self.recordings, blocks[n], self._rows(int(k))):
                s = one.samples
                modeled = rnea(self.model, data, s.q, s.v, s.a)[rows, k]
                Q = np.linalg.qr(F[:, :3])[0]
                modeled = modeled - Q @ (Q.T @ modeled)
                products += modeled @ effort, modeled @ modeled
            found[n] = products[0] / max(products[1], 1e-300)
            moves[n] = products[1] > 0.0
        if not moves.any():
            raise ValueError(
                "model: no joint moves a mass in the description, with which the "
                "search for gains begins; write rough masses and inertias, such as "
                "half or twice the real ones"
            )
        found = np.where(np.abs(found) > 1e-6, found, 1e-6)
        self.typical = np.exp(np.median(np.log(np.abs(found))))
        sign = np.where(found < 0.0, -1.0, 1.0)
        return [
            sign * np.clip(np.abs(found), self.typical / _WIDEST, self.typical * _WIDEST),
            sign * self.typical,
        ]

    def _best(
        self, reduced: Sequence[_Reduced], starts: Sequence[Array], flips: bool
    ) -> tuple[Array, Array, float]:
        """The best of several searches, and of searches with the other sign of one joint."""
        best = min((self._fitted(reduced, start) for start in starts), key=lambda one: one[2])
        for _ in range(len(self.joints) if flips else 0):
            others = [
                self._fitted(
                    reduced,
                    np.where(
                        np.arange(len(self.joints)) == n, -np.sign(best[0]) * self.typical, best[0]
                    ),
                )
                for n in range(len(self.joints))
            ]
            found = min(others, key=lambda one: one[2])
            if found[2] >= best[2]:
                break
            best = found
        return best

    def _fitted(self, reduced: Sequence[_Reduced], c: Array) -> tuple[Array, Array, float]:
        """The inverse gains with the least cost, the shared parameters, and the cost."""
        from scipy.optimize import least_squares  # 0.1 s, which most users do not need

        sign = np.sign(c)

        def residuals(z: Array) -> Array:
            return self._solved(reduced, sign * np.exp(z))[1]

        widest = np.log(_WIDEST * self.typical), np.log(self.typical / _WIDEST)
        found = least_squares(residuals, np.log(np.abs(c)), bounds=widest[::-1], max_nfev=40)
        c = sign * np.exp(found.x)
        return c, self._solved(reduced, c)[0], float(found.cost)

    def _solved(self, reduced: Sequence[_Reduced], c: Array) -> tuple[Array, Array]:
        """Shared parameters for given inverse gains, and what remains, divided by the noise."""
        A = np.vstack([one.R * c[n] / self.sigma[n] for n, one in enumerate(reduced)])
        b = np.concatenate(
            [(one.effort - c[n] * one.known) / self.sigma[n] for n, one in enumerate(reduced)]
        )
        prior = np.zeros((9 * self.loads, A.shape[1]))
        prior[:, self.count :] = np.diag(
            np.concatenate(
                [1.0 / (m * np.repeat([_FARTHEST, _FARTHEST**2], [3, 6])) for m in self.masses]
            )
        )
        A, b = np.vstack([A, prior]), np.concatenate([b, np.zeros(len(prior))])
        length = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
        scaled = A / length
        H = scaled.T @ scaled + ROUNDOFF * np.eye(A.shape[1])
        x = solve(H, scaled.T @ b, assume_a="pos") / length
        return x, b - A @ x

    def _result(
        self, c: Array, x: Array, blocks: Sequence[Sequence[tuple[Array, ...]]]
    ) -> GainEstimate:
        """Intervals from estimates without one stretch of consecutive samples."""
        shared, count = len(x), len(self.joints)
        scores = np.zeros((len(self.recordings), _STRETCHES, count + shared))
        squares = np.zeros((*scores.shape, count + shared))
        error = np.zeros(count)
        for n, own in enumerate(blocks):
            residual, samples = 0.0, 0
            for r, (A, F, known, effort) in enumerate(own):
                torque = A @ x + known
                J = np.zeros((len(A), count + shared))
                J[:, n], J[:, count:] = torque, c[n] * A
                Q = np.linalg.qr(F)[0]
                J -= Q @ (Q.T @ J)
                rest = effort - c[n] * torque
                rest -= Q @ (Q.T @ rest)
                residual, samples = residual + float(rest @ rest), samples + len(rest)
                for m, rows in enumerate(np.array_split(np.arange(len(rest)), _STRETCHES)):
                    scores[r, m] += J[rows].T @ rest[rows] / self.sigma[n] ** 2
                    squares[r, m] += J[rows].T @ J[rows] / self.sigma[n] ** 2
            error[n] = np.sqrt(residual / samples)
        weak = np.concatenate(
            [(m * np.repeat([_FARTHEST, _FARTHEST**2], [3, 6])) ** -2.0 for m in self.masses]
        )
        H = squares.sum(axis=(0, 1))
        H[count + self.count :, count + self.count :] += np.diag(weak)
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        F, d, _ = decomposed(H, scale)
        spread, stretches = jackknife(scores, squares, F * d @ F.T)
        wide = float(stdtrit(stretches - 1, 0.975)) * np.sqrt(np.diag(spread)[:count])
        return self._named(c, wide, x, error)

    def _named(self, c: Array, wide: Array, x: Array, error: Array) -> GainEstimate:
        gain, lower, upper, errors = np.full((4, self.model.nv), np.nan)
        gain[self.joints], errors[self.joints] = 1.0 / c, error
        ends = np.sort([1.0 / (c - wide), 1.0 / (c + wide)], axis=0)
        certain = np.abs(c) > wide  # otherwise the effort does not depend on the load
        if not certain.any() or np.median(np.abs(c)) < _LEAST * self.typical:
            raise ValueError(
                "loaded: no gain is determined, since the efforts show no load, or a "
                "much smaller or larger one than "
                f"{', '.join(f'{mass:g} kg' for mass in self.masses)}; check its mass,"
                " in kg, its frame, and that these recordings are with it, the others "
                "without"
            )
        lower[self.joints] = np.where(certain, ends[0], -np.inf)
        upper[self.joints] = np.where(certain, ends[1], np.inf)
        phi = x[self.count :].reshape(-1, 9)
        return GainEstimate(gain, lower, upper, phi[:, :3] / np.array(self.masses)[:, None], errors)


class _Reduced:
    """The equations of one joint, without what friction can explain, as few rows (QR)."""

    def __init__(self, own: Sequence[tuple[Array, Array, Array, Array]]) -> None:
        rows = []
        self._samples = 0
        for A, F, known, effort in own:
            M = np.column_stack([A, known, effort])
            Q = np.linalg.qr(F)[0]
            rows.append(np.linalg.qr(M - Q @ (Q.T @ M), mode="r"))
            self._samples += len(A)
        R = np.asarray(np.linalg.qr(np.vstack(rows), mode="r"))
        self.R, self.known, self.effort = R[:, :-2], R[:, -2], R[:, -1]

    def error(self, c: float, x: Array) -> float:
        """RMS of what is left of the efforts."""
        rest = self.effort - c * (self.R @ x + self.known)
        return float(np.sqrt(rest @ rest / max(self._samples, 1)))
