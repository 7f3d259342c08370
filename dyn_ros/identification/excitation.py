# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Motions to record: periodic trajectories that reveal a robot's parameters."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from ..engine.algorithms import frame_placements, joint_friction, joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model import Model
from ..engine.model.frames import frame_number
from ..engine.model.inputs import finite_array, require_model
from . import trajectory_file
from .fourier import Limits, Series, joint_limits
from .samples import Samples

Box: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Two opposite corners (3,) [m]: the lowest and the highest coordinates."""

_STARTS = 3
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
_MANY = 10 ** 7                 # samples of a trajectory


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Excitation:
    """A trajectory to record for identification.

    Every joint moves along a Fourier series, and all have the same period. It starts and ends at
    rest, where velocities and accelerations are zero. Move the robot to ``q[0]`` first.

    Attributes
    ----------
    model : Model
    time : (B,) ndarray
        From 0 [s].
    q, v, a : (B, nv) ndarray
        Positions, velocities and accelerations.
    tau : (B, nv) ndarray
        Torques of the motors according to the model, with its friction [N m, N].
    condition : float
        Condition number of the base regressor of the trajectory, with columns of equal length and
        rows divided by the limits of the torques.
    period : float
        [s]; the duration is a multiple of it.
    center : (nv,) ndarray
        Mean positions.
    coefficients : (nv, 2, harmonics) ndarray
        Factors of the sines and cosines of 1, 2, ... times the angle 2 pi t / period.

    Examples
    --------
    >>> motion = dyn_ros.excite(
    ...     model, duration=4.0, period=4.0, harmonics=3, rate=50.0, starts=1,
    ...     joints=model.joint_names[-2:])
    >>> motion.q.shape, motion.samples().tau.shape
    ((201, 7), (201, 7))
    """

    model: Model
    time: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    condition: float
    period: float
    center: Array
    coefficients: Array

    def __repr__(self) -> str:
        """Return the robot, the duration and the condition number."""
        return (f"Excitation({self.model.name!r}, {self.time[-1]:g} s, "
                f"condition={self.condition:.3g})")

    def at(self, time: ArrayLike) -> tuple[Array, Array, Array]:
        """Positions, velocities and accelerations at other times.

        Parameters
        ----------
        time : (B,) array_like
            [s].

        Returns
        -------
        q, v, a : (B, nv) ndarray
        """
        nv, _, harmonics = self.coefficients.shape
        series = Series(harmonics, self.period, np.asarray(time, float))
        return series.motion(self.center, self.coefficients.reshape(nv, -1))

    def samples(self) -> Samples:
        """Return the trajectory as a recording of the model, without noise."""
        return Samples.from_arrays(self.model, self.time, self.q, self.tau, self.v, self.a)

    def write(self, path: str | PathLike[str], rate: float = 10.0) -> None:
        r"""Write the trajectory to a file.

        ``.yaml`` and ``.json`` are a trajectory_msgs/JointTrajectory, which ``ros2 topic pub``
        accepts. Its points have positions, velocities and accelerations, between which controllers
        interpolate by splines of fifth degree::

            ros2 topic pub --once /joint_trajectory_controller/joint_trajectory \
              trajectory_msgs/msg/JointTrajectory "$(cat motion.yaml)"

        ``.csv`` has the columns ``time``, ``position.NAME``, ``velocity.NAME``,
        ``acceleration.NAME`` and ``effort.NAME``.

        Parameters
        ----------
        path : str or PathLike
        rate : float
            Points per second of a JointTrajectory. A command line is limited to 128 kB.

        Raises
        ------
        ValueError
            Another suffix, or a rate that is not positive.
        """
        rate = float(finite_array("rate", rate, ()))
        if rate <= 0.0:
            raise ValueError(f"rate: expected points per second, more than 0, got {rate:g}")
        if trajectory_file.suffix(path) == ".csv":
            self.samples().to_table(self.model, path)
            return
        if self.time[-1] * rate > _MANY:
            raise ValueError(f"rate: expected at most {_MANY:g} points, got {rate:g} per second "
                             f"for {self.time[-1]:g} s; pass a smaller one")
        count = max(2, round(self.time[-1] * rate) + 1)
        time = np.linspace(0.0, self.time[-1], count)
        trajectory_file.write(path, self.model.velocity_names, time, *self.at(time))


def excite(model: Model, *, duration: float = 20.0, period: float = 10.0, harmonics: int = 5,
           rate: float = 100.0, margin: float = 0.9, rest: ArrayLike | None = None,
           velocity_limit: ArrayLike | None = None, acceleration_limit: ArrayLike | None = None,
           lower: ArrayLike | None = None, upper: ArrayLike | None = None,
           joints: Sequence[str] | None = None, workspace: Mapping[str, Box] | None = None,
           armature: bool = True, starts: int = _STARTS, seed: int = 0,
           progress: Callable[[int, int], object] | None = None) -> Excitation:
    """Compute a periodic trajectory that reveals a robot's parameters.

    Each joint moves along a Fourier series (Swevers et al. 1997), whose coefficients minimize the
    RMS standard deviation of the base parameters (A-optimality), each relative to what it
    contributes to the torques of random motions within the limits. Compared with the smallest
    condition number, it rewards large motions as well: standard deviations are about 40 % smaller,
    at a condition number within 15 % of the smallest. The noise of torques is in proportion to
    their limits. The regressor includes viscous friction, Coulomb friction and offsets. Several
    random starts are improved by L-BFGS; the best one is returned.

    Positions, velocities and accelerations keep their limits at every instant, which follows from
    the series; torques and the workspace do so at instants ten times as dense as those of the
    optimization. **Collisions of the robot with itself, the floor or other things are not
    checked**: use ``workspace`` and look at the motion before you run it.

    Parameters
    ----------
    model : Model
        A robot with a fixed base, whose joints have one coordinate. Its torques and its limits are
        those of the description; the margin is for what is wrong in it.
    duration : float
        [s], rounded to whole periods.
    period : float
        [s]. Longer ones allow larger motions within the limits of the velocities.
    harmonics : int
        Number of sines and cosines of each joint, at least 3.
    rate : float
        Samples of the result per second.
    margin : float
        Part of the limits that is used, more than 0 and at most 1. Position limits shrink
        around their middle.
    rest : (nq,) array_like, optional
        Positions of the joints that do not move; by default zero, or the closest limit.
    velocity_limit, acceleration_limit : float or (nv,) array_like, optional
        [rad/s, m/s] and [rad/s2, m/s2]. By default the model's velocity limits, or 2 rad/s and
        0.5 m/s if there are none; and 5 rad/s2 and 2 m/s2.
    lower, upper : (nq,) array_like, optional
        Position limits that replace the model's. Where there are none, or numbers above 8 pi rad
        or 100 m that stand for none, they are 3 rad or 0.5 m before and after ``rest``.
    joints : sequence of str, optional
        Names of the joints to move; by default all. The others rest.
    workspace : dict of str to (low, high), optional
        By name of a frame, the corners of the box (3,) [m] in which its origin stays, in the world.
    armature : bool
        Whether rotor inertias are among the parameters.
    starts : int
        Number of random starts.
    seed : int
        The same seed returns the same trajectory.
    progress : callable, optional
        Called with the number of completed starts and of all.

    Returns
    -------
    Excitation

    Raises
    ------
    ValueError
        An argument that is invalid, a joint with several coordinates, or limits that no trajectory
        keeps.

    References
    ----------
    Swevers, J., Ganseman, C., Tuekel, D. B., De Schutter, J. and Van Brussel, H.: Optimal robot
    excitation and identification. IEEE Transactions on Robotics and Automation 13 (1997).

    Examples
    --------
    Two joints move for 4 s, within their limits, from rest to rest:

    >>> motion = dyn_ros.excite(
    ...     model, duration=4.0, period=4.0, harmonics=3, rate=50.0, starts=1,
    ...     joints=model.joint_names[-2:])
    >>> bool((abs(motion.v) <= model.velocity_limit).all()), np.allclose(motion.v[0], 0.0)
    (True, True)
    """
    _require_single_coordinates(model)
    number = {"period": period, "duration": duration, "rate": rate, "margin": margin}
    for name, value in number.items():
        if not float(finite_array(name, value, ())) > 0.0:
            raise ValueError(f"{name}: expected more than 0, got {value!r}")
    if margin > 1.0:
        raise ValueError(f"margin: expected at most 1, got {margin!r}")
    if harmonics < 3 or starts < 1:
        raise ValueError("expected at least 3 harmonics, which start at rest, and 1 start, got "
                         f"harmonics={harmonics!r}, starts={starts!r}")
    if seed < 0:
        raise ValueError(f"seed: expected an integer >= 0, got {seed}")
    if max(period, duration) * rate > _MANY:
        raise ValueError(f"duration: expected at most {_MANY:g} samples of the result, got a "
                         f"period of {period:g} s and a duration of {duration:g} s at "
                         f"rate={rate:g}; pass smaller ones")
    limits = joint_limits(model, rest=rest, lower=lower, upper=upper, velocity=velocity_limit,
                          acceleration=acceleration_limit, joints=joints, margin=margin)
    problem = _Problem(model, limits, period, harmonics, workspace or {}, armature)
    rng = np.random.default_rng(seed)
    found = []
    for start in range(starts):
        found.append(problem.solve(rng))
        if progress is not None:
            progress(start + 1, starts)
    best = min(found, key=lambda one: one.deviation)
    if best.fault:
        raise ValueError(f"no trajectory was found that keeps the limits: {best.fault}. Narrow "
                         "lower and upper to positions that keep them, or pass other limits")
    return problem.excitation(best, rate, max(1, round(duration / period)))


def _require_single_coordinates(model: Model) -> None:
    several = [f"{joint.name!r} ({joint.kind})" for joint, nv in zip(
        require_model(model).tree.joints, model.nvs) if nv > 1]
    if several:
        raise ValueError(f"model: expected joints with one coordinate, got {', '.join(several)}; "
                         "lock them with model.reduced(), or load the robot without a root joint")
    if not model.nv:
        raise ValueError("model: the robot has no joints that move")


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


class Solution(NamedTuple):
    """A trajectory that has been verified.

    Attributes
    ----------
    deviation : float
        Logarithm of the RMS standard deviation of the base parameters; infinite if the trajectory
        exceeds limits.
    center, coefficients : ndarray
        See ``Series.motion``.
    fault : str
        What exceeds limits.
    """

    deviation: float
    center: Array
    coefficients: Array
    fault: str = ""


class _Problem:
    """The optimization of a trajectory.

    The variables are, for each joint that moves, the shape of its series, its size and its center,
    scaled so that every vector of variables keeps the limits of the joints.
    """

    def __init__(self, model: Model, limits: Limits, period: float, harmonics: int,
                 workspace: Mapping[str, Box], armature: bool) -> None:
        self.model, self.limits, self.data = model, limits, Data(model)
        self.period, self.harmonics = period, harmonics
        self.series = self._series(_SAMPLES * harmonics)
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

    def solve(self, rng: np.random.Generator) -> Solution:
        """Improve the best of a few random trajectories."""
        from scipy.optimize import minimize  # 30 MB, which other parts do not need
        x = min(rng.standard_normal((_CANDIDATES, self.limits.variables(self.harmonics))),
                key=self.objective)
        x = minimize(self.gradient, x, jac=True, method="L-BFGS-B",
                     options={"maxiter": _ITERATIONS}).x
        return self._verified(*self.coefficients(x))

    def _verified(self, center: Array, coefficients: Array) -> Solution:
        """Verify the limits at dense instants; make the motion smaller until it keeps them."""
        fine = self._series(_FINE * _SAMPLES * self.harmonics)
        for size in np.linspace(1.0, 0.1, 19):
            moved = fine.motion(center[None], size * coefficients[None])
            over = float(self.excess(moved)[0])
            if over <= 0.0:
                return Solution(self.deviation(moved), center, size * coefficients)
        return Solution(math.inf, center, coefficients, self._fault(moved))

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

    def excitation(self, best: Solution, rate: float, periods: int) -> Excitation:
        """The trajectory of a solution."""
        count = max(2, round(periods * self.period * rate))
        time = np.linspace(0.0, periods * self.period, count + 1)
        q, v, a = Series(self.harmonics, self.period, time).motion(best.center, best.coefficients)
        tau = rnea(self.model, self.data, q, v, a) + joint_friction(self.model, v)
        condition = self.condition(self.series.motion(best.center[None], best.coefficients[None]))
        factors = best.coefficients.reshape(self.model.nv, 2, self.harmonics)
        return Excitation(self.model, time, q, v, a, tau, condition, self.period, best.center,
                          factors)
