# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Gains of drives (torque per unit of effort) from motions with and without a known load."""

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
from .base_parameters import Unknowns, expand_features, find_base_parameters
from .equation_sums import jackknife
from .friction_terms import choose_terms, friction_directions, measured_joints
from .identify_options import IdentifyOptions
from .motion.filtering import REST_SPEED_RATIO
from .motion.numerics import FOLDS, REGRESSION_SAMPLES, ROUNDOFF
from .payload import payload_columns
from .physical import invert_scaled
from .samples import Samples

_STRETCH_COUNT = 2 * FOLDS  # stretches of a recording, whose scatter gives the intervals
_MAX_GAIN_RATIO = 50.0  # relative to a typical gain, or its inverse; bounds of the search
_MIN_INVERSE_GAIN = 1.1 / _MAX_GAIN_RATIO  # relative to a typical one; lower means at the bound
_GAIN_ROUNDS = 4  # alternating estimates of gains, loads on gears, and noise
_PRIOR_DISTANCE = 0.3  # m; weak prior of the distance from a load's frame to its center


@dataclass(frozen=True)
class GainEstimate:
    """Result of ``dyn_ros.estimate_gains``.

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
    """A recording with its regressors, for the n joints whose gains are estimated."""

    samples: Samples
    direction: Array  # (B, nv) direction of friction
    Y: Array  # (B, n, b) regressor of the robot's base parameters
    L: Array  # (B, n, 10) regressor of the load in its frame; zeros without a load
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
        The robot without the load. Rough inertias are enough: the search begins with them.
    free, loaded : Samples, or sequence of Samples
        Motions without, and with a load: the same motion, on the same day.
    mass : float, or sequence of float
        Mass of the load in each of ``loaded`` [kg].
    frame : str, or sequence of str
        Name of a frame close to each load, whose link carries the load.

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
    estimator = _GainEstimator(
        model,
        _list_recordings(free),
        _list_recordings(loaded),
        _require_masses(mass, _list_recordings(loaded)),
        [frame] if isinstance(frame, str) else list(frame),
    )
    return estimator.estimate_gains()


def _list_recordings(samples: Samples | Sequence[Samples]) -> list[Samples]:
    """Return one or several recordings as a list."""
    return [samples] if isinstance(samples, Samples) else list(samples)


def _require_masses(mass: float | Sequence[float], loaded: Sequence[Samples]) -> list[float]:
    """Return the mass in each recording; raise a ValueError if one is missing or not positive."""
    masses = [float(value) for value in np.atleast_1d(np.asarray(mass, float))]
    masses = masses * len(loaded) if len(masses) == 1 else masses
    if len(masses) != len(loaded) or not loaded:
        raise ValueError(
            f"mass: expected one for each of {len(loaded)} recordings with a load, "
            f"got {len(masses)}"
        )
    for value in masses:
        if not 0.0 < value < np.inf:
            raise ValueError(f"mass: expected more than 0 kg, got {value:g}")
    return masses


class _Equations(NamedTuple):
    """Equations of one joint in the samples of a recording in which it moves."""

    A: Array  # (B, shared parameters)
    F: Array  # (B, columns) friction and offset
    known_torque: Array  # (B,) N m, N; torque of the known mass
    effort: Array  # (B,) measured


class _GainEstimator:
    """Estimator of gains, by the model (Y theta + L phi) / gain + friction of efforts.

    phi are the ten parameters of a load, the first of which, its mass, is known.

    For given inverse gains c (joints,), all other unknowns are linear: theta, the other nine
    numbers of each load, and friction, which c does not multiply. The shared parameters x are
    theta, (base_count,), followed by these numbers of each load, (9 load_count,). ``sigma``
    (joints,) is the standard deviation of each joint's effort.
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
        subsets = [
            samples.take(slice(None, None, 1 + len(samples) // REGRESSION_SAMPLES))
            for samples in (*free, *loaded)
        ]
        self.model, self.masses = model, masses
        joints = set(np.flatnonzero(~model.drives.is_compensated).tolist())
        for samples in subsets:
            joints &= set(measured_joints(model, samples.v, samples.tau).tolist())
        self.joints = np.array(sorted(joints), int)
        if not len(self.joints):
            raise ValueError(
                "free, loaded: no joint moves and has efforts with gravity in all "
                "recordings; record the same motion with and without the load, with "
                "measured efforts"
            )
        base = find_base_parameters(Unknowns(model, ("armature",)))
        self.independent = base.independent
        unloaded = Samples.concatenate(list(subsets[: len(free)]))
        self.terms = choose_terms(model, unloaded, np.full(model.nv, np.inf), IdentifyOptions.huber)
        self.recordings = [
            self._make_recording(samples, n - len(free), frames)
            for n, samples in enumerate(subsets)
        ]
        self.base_count = len(base.independent)
        self.load_count = len(loaded)
        self.typical_inverse_gain = 1.0  # inverse gain
        self.sigma = np.array(
            [
                np.sqrt(np.mean(np.concatenate([samples.tau[:, k] for samples in subsets]) ** 2))
                for k in self.joints
            ]
        )

    def _make_recording(self, samples: Samples, load: int, frames: Sequence[str]) -> _Recording:
        """Compute the regressors of a recording."""
        model = self.model
        direction = friction_directions(self.terms.apply_to_drives(model.drives), samples)
        W = joint_torque_regressor(model, Data(model), samples.q, samples.v, samples.a)
        rotors = expand_features(samples.a[:, :, None])
        Y = np.concatenate([W, rotors], axis=2)[:, self.joints][:, :, self.independent]
        if load < 0:
            return _Recording(samples, direction, Y, np.zeros((*Y.shape[:2], 10)), -1)
        columns, transform = payload_columns(model, model.frame_index(frames[load]))
        return _Recording(samples, direction, Y, W[:, self.joints][:, :, columns] @ transform, load)

    def _moving_rows(self, k: int) -> list[Array]:
        """Return masks of the samples in which joint k moves, for each recording."""
        speeds = [np.abs(recording.samples.v[:, k]) for recording in self.recordings]
        return [speed > REST_SPEED_RATIO * np.quantile(speed, 0.99) for speed in speeds]

    # --- columns

    def _friction_columns(self, recording: _Recording, n: int, torque: Array) -> Array:
        """Return the columns of friction and offset of joint n in a recording, (B, columns)."""
        k, v = self.joints[n], recording.samples.v[:, self.joints[n]]
        direction = recording.direction[:, k]
        columns = [v, direction, np.ones_like(v)]
        if self.terms.has_stribeck[k]:
            columns.append(direction * np.exp(-((v / self.terms.stribeck[k]) ** 2)))
        if self.terms.has_root[k]:
            columns.append(direction * np.sqrt(np.abs(v)))
        columns.append(direction * np.abs(torque))
        return np.column_stack(columns)

    def _modeled_torque(self, recording: _Recording, x: Array) -> Array:
        """Return the torques of the robot and its load, (B, n)."""
        theta, phi = (
            x[: self.base_count],
            x[self.base_count : self.base_count + 9 * self.load_count].reshape(-1, 9),
        )
        torque = recording.Y @ theta
        if recording.load >= 0:
            torque = torque + recording.L @ np.concatenate(
                [[self.masses[recording.load]], phi[recording.load]]
            )
        return torque

    def _joint_equations(self, torques: Sequence[Array]) -> list[list[_Equations]]:
        """Return the ``_Equations`` of each joint in each recording."""
        shared_count = self.base_count + 9 * self.load_count
        result = []
        for n, k in enumerate(self.joints):
            joint_equations = []
            for recording, torque, rows in zip(self.recordings, torques, self._moving_rows(int(k))):
                known_torque = np.zeros(len(recording.samples))
                A = np.zeros((len(recording.samples), shared_count))
                A[:, : self.base_count] = recording.Y[:, n]
                if recording.load >= 0:
                    A[:, self.base_count + 9 * recording.load :][:, :9] = recording.L[:, n, 1:]
                    known_torque = recording.L[:, n, 0] * self.masses[recording.load]
                F = self._friction_columns(recording, n, torque[:, n])
                joint_equations.append(
                    _Equations(A[rows], F[rows], known_torque[rows], recording.samples.tau[rows, k])
                )
            result.append(joint_equations)
        return result

    # --- the estimate

    def estimate_gains(self) -> GainEstimate:
        """Estimate gains, the load on the gears and the noise in turn.

        Writes ``typical_inverse_gain`` and ``sigma``.
        """
        torques = [
            np.zeros((len(recording.samples), len(self.joints))) for recording in self.recordings
        ]
        starts = self._initial_gains(torques)
        for round_ in range(_GAIN_ROUNDS):
            reduced = [_ReducedEquations(equations) for equations in self._joint_equations(torques)]
            c, x, _ = self._search_gains(reduced, starts, round_ == 0)
            torques = [self._modeled_torque(recording, x) for recording in self.recordings]
            self.sigma = np.array([equations.error(c[n], x) for n, equations in enumerate(reduced)])
            starts = [c]
        return self._make_result(c, x, self._joint_equations(torques))

    def _initial_gains(self, torques: Sequence[Array]) -> list[Array]:
        """Return inverse gains to start from: by the description, and one for all joints."""
        data, inverse_gains = Data(self.model), np.zeros(len(self.joints))
        has_torque = np.zeros(len(inverse_gains), bool)
        equations = self._joint_equations(torques)
        for n, k in enumerate(self.joints):
            products = np.zeros(2)
            for recording, (_, F, _, effort), rows in zip(
                self.recordings, equations[n], self._moving_rows(int(k))
            ):
                s = recording.samples
                modeled = rnea(self.model, data, s.q, s.v, s.a)[rows, k]
                Q = np.linalg.qr(F[:, :3])[0]
                modeled = modeled - Q @ (Q.T @ modeled)
                products += modeled @ effort, modeled @ modeled
            inverse_gains[n] = products[0] / max(products[1], 1e-300)
            has_torque[n] = products[1] > 0.0
        if not has_torque.any():
            raise ValueError(
                "model: no joint moves a mass in the description, with which the "
                "search for gains begins; write rough masses and inertias, such as "
                "half or twice the real ones"
            )
        inverse_gains = np.where(np.abs(inverse_gains) > 1e-6, inverse_gains, 1e-6)
        self.typical_inverse_gain = np.exp(np.median(np.log(np.abs(inverse_gains))))
        sign = np.where(inverse_gains < 0.0, -1.0, 1.0)
        return [
            sign
            * np.clip(
                np.abs(inverse_gains),
                self.typical_inverse_gain / _MAX_GAIN_RATIO,
                self.typical_inverse_gain * _MAX_GAIN_RATIO,
            ),
            sign * self.typical_inverse_gain,
        ]

    def _search_gains(
        self, reduced: Sequence[_ReducedEquations], starts: Sequence[Array], flip_signs: bool
    ) -> tuple[Array, Array, float]:
        """Search from several starts; ``flip_signs``: also with the other sign of each joint.

        Returns the inverse gains, the shared parameters and the cost, see `_fit_gains`.
        """
        best = min((self._fit_gains(reduced, start) for start in starts), key=_search_cost)
        for _ in range(len(self.joints) if flip_signs else 0):
            flipped = [
                self._fit_gains(
                    reduced,
                    np.where(
                        np.arange(len(self.joints)) == n,
                        -np.sign(best[0]) * self.typical_inverse_gain,
                        best[0],
                    ),
                )
                for n in range(len(self.joints))
            ]
            candidate = min(flipped, key=_search_cost)
            if candidate[2] >= best[2]:
                break
            best = candidate
        return best

    def _fit_gains(
        self, reduced: Sequence[_ReducedEquations], c: Array
    ) -> tuple[Array, Array, float]:
        """Return the inverse gains with the least cost, the shared parameters, and the cost."""
        from scipy.optimize import least_squares  # the import takes 0.1 s

        sign = np.sign(c)

        def residuals(z: Array) -> Array:
            """Return residuals over the noise, for logarithms z of the inverse gains' sizes."""
            return self._solve_linear(reduced, sign * np.exp(z))[1]

        bounds = (
            np.log(self.typical_inverse_gain / _MAX_GAIN_RATIO),
            np.log(_MAX_GAIN_RATIO * self.typical_inverse_gain),
        )
        result = least_squares(residuals, np.log(np.abs(c)), bounds=bounds, max_nfev=40)
        c = sign * np.exp(result.x)
        return c, self._solve_linear(reduced, c)[0], float(result.cost)

    def _solve_linear(self, reduced: Sequence[_ReducedEquations], c: Array) -> tuple[Array, Array]:
        """Return the shared parameters for given inverse gains, and residuals over the noise."""
        A = np.vstack([equations.R * c[n] / self.sigma[n] for n, equations in enumerate(reduced)])
        b = np.concatenate(
            [
                (equations.effort - c[n] * equations.known_torque) / self.sigma[n]
                for n, equations in enumerate(reduced)
            ]
        )
        prior = np.zeros((9 * self.load_count, A.shape[1]))
        prior[:, self.base_count :] = np.diag(
            np.concatenate(
                [
                    1.0 / (m * np.repeat([_PRIOR_DISTANCE, _PRIOR_DISTANCE**2], [3, 6]))
                    for m in self.masses
                ]
            )
        )
        A, b = np.vstack([A, prior]), np.concatenate([b, np.zeros(len(prior))])
        length = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
        scaled = A / length
        H = scaled.T @ scaled + ROUNDOFF * np.eye(A.shape[1])
        x = solve(H, scaled.T @ b, assume_a="pos") / length
        return x, b - A @ x

    def _make_result(
        self, c: Array, x: Array, equations: Sequence[Sequence[_Equations]]
    ) -> GainEstimate:
        """Return the result, with intervals from leaving out one stretch of samples at a time.

        c are inverse gains and x the shared parameters, see the class; the equations are of each
        joint in each recording.
        """
        shared_count, count = len(x), len(self.joints)
        scores = np.zeros((len(self.recordings), _STRETCH_COUNT, count + shared_count))
        squares = np.zeros((*scores.shape, count + shared_count))
        error = np.zeros(count)
        for n, joint_equations in enumerate(equations):
            sum_of_squares, sample_count = 0.0, 0
            for r, (A, F, known_torque, effort) in enumerate(joint_equations):
                torque = A @ x + known_torque
                J = np.zeros((len(A), count + shared_count))
                J[:, n], J[:, count:] = torque, c[n] * A
                Q = np.linalg.qr(F)[0]
                J -= Q @ (Q.T @ J)
                residual = effort - c[n] * torque
                residual -= Q @ (Q.T @ residual)
                sum_of_squares = sum_of_squares + float(residual @ residual)
                sample_count = sample_count + len(residual)
                for m, rows in enumerate(np.array_split(np.arange(len(residual)), _STRETCH_COUNT)):
                    scores[r, m] += J[rows].T @ residual[rows] / self.sigma[n] ** 2
                    squares[r, m] += J[rows].T @ J[rows] / self.sigma[n] ** 2
            error[n] = np.sqrt(sum_of_squares / sample_count)
        prior = np.concatenate(
            [
                (m * np.repeat([_PRIOR_DISTANCE, _PRIOR_DISTANCE**2], [3, 6])) ** -2.0
                for m in self.masses
            ]
        )
        H = squares.sum(axis=(0, 1))
        H[count + self.base_count :, count + self.base_count :] += np.diag(prior)
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        factor, d, _ = invert_scaled(H, scale)
        covariance, stretch_count = jackknife(scores, squares, factor * d @ factor.T)
        half_width = float(stdtrit(stretch_count - 1, 0.975)) * np.sqrt(np.diag(covariance)[:count])
        return self._to_gain_estimate(c, half_width, x, error)

    def _to_gain_estimate(
        self, c: Array, half_width: Array, x: Array, error: Array
    ) -> GainEstimate:
        """Return gains and their intervals, from inverse gains c and half of their intervals.

        Raise a ValueError if no gain is determined.
        """
        gain, lower, upper, errors = np.full((4, self.model.nv), np.nan)
        gain[self.joints], errors[self.joints] = 1.0 / c, error
        interval = np.sort([1.0 / (c - half_width), 1.0 / (c + half_width)], axis=0)
        is_certain = np.abs(c) > half_width  # else, the effort may not depend on the load
        if (
            not is_certain.any()
            or np.median(np.abs(c)) < _MIN_INVERSE_GAIN * self.typical_inverse_gain
        ):
            raise ValueError(
                "loaded: no gain is determined, since the efforts show no load, or a "
                "much smaller or larger one than "
                f"{', '.join(f'{mass:g} kg' for mass in self.masses)}; check its mass,"
                " in kg, its frame, and that these recordings are with it, the others "
                "without"
            )
        lower[self.joints] = np.where(is_certain, interval[0], -np.inf)
        upper[self.joints] = np.where(is_certain, interval[1], np.inf)
        phi = x[self.base_count :].reshape(-1, 9)
        return GainEstimate(gain, lower, upper, phi[:, :3] / np.array(self.masses)[:, None], errors)


def _search_cost(fit: tuple[Array, Array, float]) -> float:
    """Return the cost of the result of a search."""
    return fit[2]


class _ReducedEquations:
    """Equations of one joint, projected off the columns of friction, as few rows (QR)."""

    def __init__(self, equations: Sequence[_Equations]) -> None:
        rows = []
        self._sample_count = 0
        for A, F, known_torque, effort in equations:
            M = np.column_stack([A, known_torque, effort])
            Q = np.linalg.qr(F)[0]
            rows.append(np.linalg.qr(M - Q @ (Q.T @ M), mode="r"))
            self._sample_count += len(A)
        R = np.asarray(np.linalg.qr(np.vstack(rows), mode="r"))
        self.R, self.known_torque, self.effort = R[:, :-2], R[:, -2], R[:, -1]

    def error(self, c: float, x: Array) -> float:
        """Return the RMS residual of the efforts."""
        residual = self.effort - c * (self.R @ x + self.known_torque)
        return float(np.sqrt(residual @ residual / max(self._sample_count, 1)))
