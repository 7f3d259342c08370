# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The search for a trajectory that reveals a robot's parameters."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from ..engine.algorithms import frame_placements, joint_friction, joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model import Model
from ..engine.model.frames import frame_number
from ..engine.model.inputs import finite_array
from .fourier import Limits, Series

Box: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Two opposite corners (3,) [m]: the lowest and the highest coordinates."""

_ITERATIONS = 60
_SAMPLES = 12                   # per period of the highest harmonic, for the optimization
_FINE = 10                      # times more to verify a trajectory
_CANDIDATES = 20                # random trajectories per start
_SINGULAR = 1e-16               # smallest eigenvalue that counts
_STEP = 1e-5                    # of finite differences
_TOGETHER = 16                  # trajectories that are evaluated at a time
_PENALTY = 100.0                # for limits of torques and of the workspace
_SMOOTH = 0.05                  # sign(v) is smooth below this part of the velocity limit
_DEPENDENT = 1e-8               # of a column's length


def _penalty(excess: Array) -> Array:
    """Of limits that are exceeded."""
    return _PENALTY * excess * (1.0 + excess)


def _box(frame: str, corners: Box) -> Array:
    """The lowest and the highest coordinates of a box, (2, 3)."""
    box = finite_array(f"workspace[{frame!r}]", corners, (2, 3))
    if not (box[0] < box[1]).all():
        raise ValueError(f"workspace[{frame!r}]: expected the lowest coordinates first, then "
                         f"higher ones, got {box[0].tolist()} and {box[1].tolist()}")
    return box


class Trajectory(NamedTuple):
    """A trajectory that has been verified; see ``Series.motion``."""

    deviation: float        # logarithm of the RMS deviation of the base parameters, or infinite
    center: Array
    coefficients: Array
    fault: str = ""         # what exceeds limits


class TrajectorySearch:
    """The search for a trajectory.

    The variables are, for each joint that moves, the shape of its series, its size and its center,
    scaled so that every vector of variables keeps the limits of the joints.
    """

    def __init__(self, model: Model, limits: Limits, period: float, harmonics: int,
                 workspace: Mapping[str, Box], armature: bool) -> None:
        self.model, self.limits, self.data = model, limits, Data(model)
        self.period, self.harmonics = period, harmonics
        self.series = self._series(_SAMPLES * harmonics)
        if not isinstance(workspace, Mapping):
            raise TypeError("workspace: expected a dict of frames and boxes, such as {'tool': "
                            f"(low, high)}}, got {type(workspace).__name__}: {workspace!r:.80}")
        self.boxes = [(frame_number(model, frame, "workspace"), _box(frame, box))
                      for frame, box in workspace.items()]
        effort = model.effort_limit
        known = (effort > 0.0) & np.isfinite(effort)
        self.effort = np.where(known, limits.margin * effort, np.inf)
        self.row_weight = self._row_weight()
        count = 10 * model.njoints + 4 * len(limits.indices)
        self.base = np.arange(count)
        if not armature:
            self.base = np.delete(self.base, 10 * model.njoints + np.arange(len(limits.indices)))
        self.base, self.sizes = self._structure()

    def _series(self, count: int) -> Series:
        return Series(self.harmonics, self.period, np.arange(count) * self.period / count)

    def _structure(self) -> tuple[NDArray[np.int_], Array]:
        """Columns of the regressor that no others determine (Gautier 1991), and their sizes.

        A size is the RMS of a column for random motions within the limits.
        """
        rng = np.random.default_rng(0)
        q = rng.uniform(self.limits.lower, self.limits.upper, (300, self.model.nv))
        v = self.limits.moving * rng.uniform(-1.0, 1.0, q.shape) * self.limits.velocity
        a = self.limits.moving * rng.uniform(-1.0, 1.0, q.shape) * self.limits.acceleration
        W = (self.row_weight[:, None] * self.regressor(q, v, a)).reshape(q.size, -1)
        sizes = np.sqrt(np.mean(W * W, axis=0))
        used = np.flatnonzero(sizes > 1e-10 * sizes.max())
        triangle, order = qr(W[:, used] / sizes[used], mode="r", pivoting=True)
        diagonal = np.abs(np.diag(triangle))
        kept = np.sort(used[order[:int(np.sum(diagonal > _DEPENDENT * diagonal[0]))]])
        return self.base[kept], sizes[kept]

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """The chosen columns of the regressor of torques with friction, (B, nv, columns).

        The columns are 10 for each body, then rotor inertia, viscous friction, Coulomb friction,
        which is smooth here, and offset of each joint that moves.
        """
        bodies = joint_torque_regressor(self.model, self.data, q, v, a)
        first, k = bodies.shape[2], self.limits.indices
        chosen = self.base < first
        own = np.zeros((*v.shape, len(self.base)))
        own[:, :, chosen] = bodies[:, :, self.base[chosen]]
        slow = _SMOOTH * self.limits.velocity[k]
        features = (a[:, k], v[:, k], np.tanh(v[:, k] / slow), np.ones((len(v), len(k))))
        for column in np.flatnonzero(~chosen):
            kind, joint = divmod(int(self.base[column]) - first, len(k))
            own[:, k[joint], column] = features[kind][:, joint]
        return own

    def _row_weight(self) -> Array:
        """The inverse of the noise of each torque, in proportion to its limit if all have one."""
        if not np.isfinite(self.effort).all():
            return np.ones(self.model.nv)
        weight: Array = np.median(self.effort) / self.effort
        return weight

    def base_regressor(self, motion: tuple[Array, Array, Array]) -> Array:
        """Base regressors of trajectories with a leading axis, (count, rows, b).

        Rows are in proportion to the noise of the torques, columns to their sizes.
        """
        count, steps, nv = motion[0].shape
        Y = self.regressor(*(one.reshape(-1, nv) for one in motion))
        Y *= self.row_weight[:, None] / (math.sqrt(steps) * self.sizes)
        return Y.reshape(count, steps * nv, -1)

    def deviation(self, motion: tuple[Array, Array, Array]) -> float:
        """Logarithm of the RMS standard deviation of the base parameters."""
        (Y,) = self.base_regressor(motion)
        values = np.linalg.eigvalsh(Y.T @ Y)
        return 0.5 * math.log(np.mean(1.0 / np.maximum(values, _SINGULAR)))

    def condition(self, motion: tuple[Array, Array, Array]) -> float:
        """Condition number of a base regressor with columns of equal length."""
        (Y,) = self.base_regressor(motion)
        values = np.linalg.svd(Y / np.linalg.norm(Y, axis=0), compute_uv=False)
        return float(values[0] / values[-1])

    def excess(self, motion: tuple[Array, Array, Array]) -> Array:
        """By how much trajectories exceed torques, in parts of their limits, and boxes, in m."""
        q, v, a = (one.reshape(-1, one.shape[-1]) for one in motion)
        over = np.zeros(len(q))
        if np.isfinite(self.effort).any():
            tau = rnea(self.model, self.data, q, v, a) + joint_friction(self.model, v)
            over = np.maximum(0.0, (np.abs(tau) / self.effort - 1.0).max(axis=1))
        if self.boxes:
            placements = frame_placements(self.model, self.data, q)
            for frame, (low, high) in self.boxes:
                p = placements[:, frame, :3, 3]
                over = np.maximum(over, np.maximum(low - p, p - high).max(axis=1))
        worst: Array = over.reshape(motion[0].shape[:2]).max(axis=1)
        return worst

    def motion(self, x: Array) -> tuple[Array, Array, Array]:
        """Trajectories of vectors of variables (count, n)."""
        return self.series.motion(*self.coefficients(x))

    def coefficients(self, x: Array) -> tuple[Array, Array]:
        """Centers and coefficients of vectors of variables (..., n)."""
        return self.limits.coefficients(x, self.harmonics, self.period)

    def objective(self, x: Array) -> float:
        """The deviation and a penalty, of a vector of variables (n,)."""
        motion = self.motion(x[None])
        return self.deviation(motion) + float(_penalty(self.excess(motion)[0]))

    def gradient(self, x: Array) -> tuple[float, Array]:
        """The objective and its derivatives.

        With the regressor Y and G = Y' Y, the change of the trace of G^-1 is the sum of all entries
        of -2 Y G^-2, each times the change of Y, which is a difference.
        """
        motion = self.motion(x[None])
        (Y,) = self.base_regressor(motion)
        values, vectors = np.linalg.eigh(Y.T @ Y)
        values = np.maximum(values, _SINGULAR)
        trace = float(np.sum(1.0 / values))
        change = -Y @ (vectors / values ** 2 @ vectors.T) / trace
        penalty = _penalty(self.excess(motion)[0])
        points, slopes = x + _STEP * np.eye(len(x)), []
        for start in range(0, len(points), _TOGETHER):
            motion = self.motion(points[start:start + _TOGETHER])
            moved = np.einsum("kij,ij->k", self.base_regressor(motion) - Y, change)
            slopes.append((moved + _penalty(self.excess(motion)) - penalty) / _STEP)
        value = 0.5 * math.log(trace / len(values)) + float(penalty)
        return value, np.concatenate(slopes)

    def solve(self, rng: np.random.Generator) -> Trajectory:
        """Improve the best of a few random trajectories."""
        from scipy.optimize import minimize  # 30 MB, which other parts do not need
        x = min(rng.standard_normal((_CANDIDATES, self.limits.variables(self.harmonics))),
                key=self.objective)
        x = minimize(self.gradient, x, jac=True, method="L-BFGS-B",
                     options={"maxiter": _ITERATIONS}).x
        return self._verified(*self.coefficients(x))

    def _verified(self, center: Array, coefficients: Array) -> Trajectory:
        """Verify the limits at dense instants; make the motion smaller until it keeps them."""
        fine = self._series(_FINE * _SAMPLES * self.harmonics)
        for size in np.linspace(1.0, 0.1, 19):
            moved = fine.motion(center[None], size * coefficients[None])
            over = float(self.excess(moved)[0])
            if over <= 0.0:
                return Trajectory(self.deviation(moved), center, size * coefficients)
        return Trajectory(math.inf, center, coefficients, self._fault(moved))

    def _fault(self, motion: tuple[Array, Array, Array]) -> str:
        """What the smallest motion exceeds."""
        q, v, a = (one[0] for one in motion)
        tau = rnea(self.model, self.data, q, v, a) + joint_friction(self.model, v)
        load = np.abs(tau).max(axis=0) / self.effort
        if load.max() > 1.0:
            k = int(np.argmax(load))
            return (f"joint {self.model.velocity_names[k]!r} needs an effort of "
                    f"{np.abs(tau[:, k]).max():.4g}; its limit with the margin is "
                    f"{self.effort[k]:.4g}")
        return "the frames of workspace leave their boxes"

    def sampled(self, best: Trajectory, rate: float, periods: int
                ) -> tuple[Array, tuple[Array, Array, Array], Array, float]:
        """Times, motion, torques and condition number of a solution."""
        count = max(2, round(periods * self.period * rate))
        time = np.linspace(0.0, periods * self.period, count + 1)
        motion = Series(self.harmonics, self.period, time).motion(best.center, best.coefficients)
        tau = rnea(self.model, self.data, *motion) + joint_friction(self.model, motion[1])
        condition = self.condition(self.series.motion(best.center[None], best.coefficients[None]))
        return time, motion, tau, condition
