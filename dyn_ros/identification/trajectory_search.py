# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Search for the trajectory that excites a robot's parameters best: Fourier series in limits."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space, qr

from ..engine.algorithms import frame_placements, joint_friction, joint_torque_regressor, rnea
from ..engine.call.data import Data
from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import finite_array
from ..engine.model import Model
from ..engine.model.coordinates import is_linear
from ..engine.model.frames import frame_number
from .motion.numerics import RELATIVE_TOLERANCE

Box: TypeAlias = tuple[ArrayLike, ArrayLike]
"""Two opposite corners (3,) [m]: the lowest and the highest coordinates."""

# limits of revolute and of prismatic joints without limits in the description
_DEFAULT_REACH = 3.0, 0.5  # rad, m
_DEFAULT_VELOCITY = 2.0, 0.5  # rad/s, m/s
_DEFAULT_ACCELERATION = 5.0, 2.0  # rad/s2, m/s2
_MAX_STATED_LIMIT = 8.0 * math.pi, 100.0  # rad, m; larger position limits mean that there is none
_SAMPLES_PER_PERIOD = 12  # samples per period of the highest harmonic, in the optimization
_GRID_SAMPLES = 2 * _SAMPLES_PER_PERIOD  # the maximum between samples is at most 0.9 % larger
_VERIFICATION_DENSITY = 10  # relative to the optimization; samples that verify a trajectory
_LIMIT_PENALTY = 100.0  # weight of exceeded limits of torques and of the workspace
_SIGN_WIDTH = 0.05  # relative to the velocity limit; width of the smooth sign of a velocity


class Series:
    """Sines and cosines at times (B,) [s], with their derivatives."""

    def __init__(self, harmonics: int, period: float, time: Array) -> None:
        w = 2.0 * math.pi / period * np.arange(1, harmonics + 1)
        sine, cosine = np.sin(np.outer(time, w)), np.cos(np.outer(time, w))
        self._rows = (
            np.concatenate([sine, cosine], axis=1),
            np.concatenate([w * cosine, -w * sine], axis=1),
            np.concatenate([-w * w * sine, -w * w * cosine], axis=1),
        )

    def motion(self, center: Array, coefficients: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a (..., B, nv) of one series per joint.

        Centers are (..., nv), coefficients (..., nv, 2 harmonics): of sines, then of cosines.
        """
        q, v, a = ((coefficients @ rows.T).swapaxes(-1, -2) for rows in self._rows)
        return q + center[..., None, :], v, a


def rest_basis(harmonics: int) -> Array:
    """Return a basis of the coefficients, (2 harmonics, n), whose series starts at rest."""
    k, zeros = np.arange(1.0, harmonics + 1), np.zeros(harmonics)
    # rows: velocity and acceleration at time zero
    return np.asarray(null_space(np.array([[*k, *zeros], [*zeros, *k**2]])))


@dataclasses.dataclass(frozen=True, eq=False)
class Limits:
    """Limits (nv,) of joints with a margin; those that do not move have lower = upper."""

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    margin: float

    @property
    def indices(self) -> NDArray[np.int_]:
        """Indices of the joints that move."""
        return np.flatnonzero(self.lower < self.upper)

    def coefficients(self, x: Array, harmonics: int, period: float) -> tuple[Array, Array]:
        """Turn variables of any values into series that keep the limits.

        The variables of each joint are the shape of its series, which only counts relative to its
        length, its size and its center. Sines map the latter two to what the limits allow. From
        (..., variables) to centers (..., nv) and coefficients (..., nv, 2 harmonics).
        """
        k = self.indices
        x = x.reshape(*x.shape[:-1], len(k), 2 * harmonics)
        shape = x[..., 2:] @ rest_basis(harmonics).T
        shape /= np.linalg.norm(shape, axis=-1, keepdims=True)
        count = _GRID_SAMPLES * harmonics
        grid = Series(harmonics, period, np.arange(count) * period / count)
        f, v, a = grid.motion(np.zeros(shape.shape[:-1]), shape)
        low, high = f.min(-2), f.max(-2)
        overshoot = 1.0 / math.cos(math.pi / _GRID_SAMPLES)
        reach = 0.5 * (self.upper - self.lower)[k]
        max_size = np.minimum(
            reach / (overshoot * 0.5 * (high - low)),
            np.minimum(
                self.velocity[k] / (overshoot * np.abs(v).max(-2)),
                self.acceleration[k] / (overshoot * np.abs(a).max(-2)),
            ),
        )
        min_relative_size = 0.2
        size = max_size * (
            min_relative_size + (1.0 - min_relative_size) * 0.5 * (1.0 + np.sin(x[..., 0]))
        )
        free_range = np.maximum(0.0, reach - size * overshoot * 0.5 * (high - low))
        middle = 0.5 * (self.lower + self.upper)
        center = np.broadcast_to(middle, (*x.shape[:-2], len(middle))).copy()
        center[..., k] += free_range * np.sin(x[..., 1]) - size * 0.5 * (low + high)
        coefficients = np.zeros((*center.shape, 2 * harmonics))
        coefficients[..., k, :] = size[..., None] * shape
        return center, coefficients


def joint_limits(
    model: Model,
    *,
    rest: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    velocity: ArrayLike | None = None,
    acceleration: ArrayLike | None = None,
    joints: Sequence[str] | None = None,
    margin: float = 1.0,
) -> Limits:
    """Return limits from arguments of ``excite``, from the model, or by default."""
    angle = ~is_linear(model)
    low, high = _position_limits(model)
    if lower is not None:
        low = _numbers_per_joint("lower", lower, model.nv)
    if upper is not None:
        high = _numbers_per_joint("upper", upper, model.nv)
    center = np.clip(0.0, low, high) if rest is None else finite_array("rest", rest, (model.nq,))
    reach = np.where(angle, *_DEFAULT_REACH)
    low = np.where(_is_limited(low, angle), low, np.minimum(center, high) - reach)
    high = np.where(_is_limited(high, angle), high, np.maximum(center, low) + reach)
    is_stated = np.isfinite(model.velocity_limit) & (model.velocity_limit > 0.0)
    velocity_limit = np.where(is_stated, model.velocity_limit, np.where(angle, *_DEFAULT_VELOCITY))
    if velocity is not None:
        velocity_limit = _positive_per_joint("velocity_limit", velocity, model.nv)
    acceleration_limit = np.where(angle, *_DEFAULT_ACCELERATION)
    if acceleration is not None:
        acceleration_limit = _positive_per_joint("acceleration_limit", acceleration, model.nv)
    middle, half_range = 0.5 * (low + high), 0.5 * margin * (high - low)
    is_moving = _moving_joints(model, joints)
    is_immovable = is_moving & ~(half_range > 0.0)
    if is_immovable.any():
        k = int(np.argmax(is_immovable))
        raise ValueError(
            f"joint {model.velocity_names[k]!r} cannot move, because its limits are "
            f"{low[k]:g} and {high[k]:g}; pass the other ones as joints"
        )
    return Limits(
        np.where(is_moving, middle - half_range, center),
        np.where(is_moving, middle + half_range, center),
        margin * velocity_limit,
        margin * acceleration_limit,
        margin,
    )


def _is_limited(limit: Array, angle: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return True for position limits, False for large numbers that stand for none."""
    return np.asarray(np.abs(limit) <= np.where(angle, *_MAX_STATED_LIMIT))


def _position_limits(model: Model) -> tuple[Array, Array]:
    """Return position limits of all joints, within the limits of joints that mimic them."""
    low, high = model.lower.copy(), model.upper.copy()
    for joint, k in zip(model.tree.joints, model.idx_q):
        if joint.mimic and joint.mimic.multiplier:
            ends = np.sort(
                (np.array([joint.lower, joint.upper]) - joint.mimic.offset) / joint.mimic.multiplier
            )
            low[k], high[k] = max(low[k], ends[0]), min(high[k], ends[1])
    return low, high


def _moving_joints(model: Model, joints: Sequence[str] | None) -> NDArray[np.bool_]:
    """Return a mask of the named joints; raise a ValueError for unknown names."""
    names = model.velocity_names
    if joints is None:
        return np.ones(len(names), bool)
    if isinstance(joints, str):
        raise ValueError(
            f"joints: expected a sequence of names, got the string {short_repr(joints)}"
        )
    for name in joints:
        if name not in names:
            raise ValueError(
                f"joints: no joint named {name!r} that moves by itself; available: "
                f"{', '.join(names)}"
            )
    if not len(joints):
        raise ValueError("joints: expected at least one name")
    return np.isin(names, joints)


def _numbers_per_joint(name: str, value: ArrayLike, count: int) -> Array:
    """Return one number for each joint; raise a ValueError for another shape or NaN."""
    array = np.asarray(value, float)
    if array.shape not in ((), (count,)) or np.isnan(array).any():
        raise ValueError(f"{name}: expected a number, or {count} numbers, got {short_repr(value)}")
    return np.broadcast_to(array, (count,)).copy()


def _positive_per_joint(name: str, value: ArrayLike, count: int) -> Array:
    """Return one positive number for each joint; raise a ValueError for others."""
    array = _numbers_per_joint(name, value, count)
    if not (np.isfinite(array) & (array > 0.0)).all():
        raise ValueError(f"{name}: expected finite numbers above 0, got {short_repr(value)}")
    return array


# --- the search


def _limit_penalty(excess: Array) -> Array:
    """Return the penalty of limits that are exceeded."""
    return _LIMIT_PENALTY * excess * (1.0 + excess)


def _validate_box(frame: str, corners: Box) -> Array:
    """Return the lowest and the highest coordinates of a box, (2, 3)."""
    box = finite_array(f"workspace[{frame!r}]", corners, (2, 3))
    if not (box[0] < box[1]).all():
        raise ValueError(
            f"workspace[{frame!r}]: expected the lowest coordinates first, then "
            f"higher ones, got {box[0].tolist()} and {box[1].tolist()}"
        )
    return box


class Trajectory(NamedTuple):
    """Trajectory after the verification of its limits; see ``Series.motion``.

    It is only usable if its fault is empty.
    """

    deviation: float  # logarithm of the RMS deviation of base parameters; infinite with a fault
    center: Array
    coefficients: Array
    fault: str = ""  # text about an exceeded limit, or empty


class TrajectorySearch:
    """Search for a trajectory by random starts and L-BFGS.

    The variables are, for each joint that moves, the shape of its series, its size and its center,
    scaled so that every vector of variables keeps the limits of the joints.
    """

    def __init__(
        self,
        model: Model,
        limits: Limits,
        period: float,
        harmonics: int,
        workspace: Mapping[str, Box],
        armature: bool,
    ) -> None:
        self.model, self.limits, self.data = model, limits, Data(model)
        self.period, self.harmonics = period, harmonics
        self.series = self._make_series(_SAMPLES_PER_PERIOD * harmonics)
        if not isinstance(workspace, Mapping):
            raise TypeError(
                "workspace: expected a dict of frames and boxes, such as {'tool': "
                f"(low, high)}}, got {type(workspace).__name__}: {short_repr(workspace)}"
            )
        self.boxes = [
            (frame_number(model, frame, "workspace"), _validate_box(frame, box))
            for frame, box in workspace.items()
        ]
        effort = model.effort_limit
        has_limit = (effort > 0.0) & np.isfinite(effort)
        self.effort = np.where(has_limit, limits.margin * effort, np.inf)
        # the inverse of the noise of each torque, in proportion to its limit if all have one
        self.row_weight = (
            np.median(self.effort) / self.effort if has_limit.all() else np.ones(model.nv)
        )
        # columns of all bodies, then armature, damping, friction and offset of joints that move
        features = model.nv * np.arange(0 if armature else 1, 4)[:, None] + limits.indices
        self.base = np.append(np.arange(10 * model.njoints), 10 * model.njoints + features)
        self.base, self.sizes = self._find_independent_columns()

    def _make_series(self, count: int) -> Series:
        """Return the series at ``count`` equally spaced times of a period."""
        return Series(self.harmonics, self.period, np.arange(count) * self.period / count)

    def _find_independent_columns(self) -> tuple[NDArray[np.int_], Array]:
        """Return independent columns of the regressor (Gautier 1991), and their RMS."""
        rng = np.random.default_rng(0)
        q = rng.uniform(self.limits.lower, self.limits.upper, (300, self.model.nv))
        moving = self.limits.lower < self.limits.upper
        v = moving * rng.uniform(-1.0, 1.0, q.shape) * self.limits.velocity
        a = moving * rng.uniform(-1.0, 1.0, q.shape) * self.limits.acceleration
        W = (self.row_weight[:, None] * self.regressor(q, v, a)).reshape(q.size, -1)
        sizes = np.sqrt(np.mean(W * W, axis=0))
        nonzero = np.flatnonzero(sizes > 1e-10 * sizes.max())
        triangle, order = qr(W[:, nonzero] / sizes[nonzero], mode="r", pivoting=True)
        diagonal = np.abs(np.diag(triangle))
        independent = np.sort(
            nonzero[order[: int(np.sum(diagonal > RELATIVE_TOLERANCE * diagonal[0]))]]
        )
        return self.base[independent], sizes[independent]

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Return the base columns of the torque regressor, (B, nv, b), with smooth friction."""
        smooth_sign = np.tanh(v / (_SIGN_WIDTH * self.limits.velocity))
        features = a, v, smooth_sign, np.ones_like(v)
        bodies = joint_torque_regressor(self.model, self.data, q, v, a)
        count = int(np.searchsorted(self.base, bodies.shape[2]))
        Y = np.zeros((*bodies.shape[:2], len(self.base)))
        Y[:, :, :count] = np.take(bodies, self.base[:count], axis=2, mode="clip")  # faster
        for column, number in enumerate(self.base[count:] - bodies.shape[2], count):
            feature, joint = divmod(number, self.model.nv)
            Y[:, joint, column] = features[feature][:, joint]
        return Y

    def base_regressor(self, motion: tuple[Array, Array, Array]) -> Array:
        """Return base regressors (count, rows, b), scaled by noise of rows and sizes of columns.

        ``motion`` is q, v and a of trajectories, (count, steps, nv) each.
        """
        count, steps, nv = motion[0].shape
        Y = self.regressor(*(array.reshape(-1, nv) for array in motion))
        Y *= self.row_weight[:, None] / (math.sqrt(steps) * self.sizes)
        return Y.reshape(count, steps * nv, -1)

    def deviation(self, motion: tuple[Array, Array, Array]) -> float:
        """Return the logarithm of the RMS standard deviation of the base parameters.

        ``motion`` is of one trajectory: q, v and a, (1, steps, nv) each.
        """
        (Y,) = self.base_regressor(motion)
        values = np.linalg.eigvalsh(Y.T @ Y)
        return 0.5 * math.log(np.mean(1.0 / np.maximum(values, np.finfo(float).eps)))

    def condition_number(self, motion: tuple[Array, Array, Array]) -> float:
        """Return the condition number of a base regressor with columns of equal length."""
        (Y,) = self.base_regressor(motion)
        values = np.linalg.svd(Y / np.linalg.norm(Y, axis=0), compute_uv=False)
        return float(values[0] / values[-1])

    def limit_excess(self, motion: tuple[Array, Array, Array]) -> Array:
        """Return the largest relative excess of torque limits, or excess of boxes [m], (count,)."""
        q, v, a = (array.reshape(-1, array.shape[-1]) for array in motion)
        excess = np.zeros(len(q))
        if np.isfinite(self.effort).any():
            tau = self._motor_torque(q, v, a)
            excess = np.maximum(0.0, (np.abs(tau) / self.effort - 1.0).max(axis=1))
        if self.boxes:
            placements = frame_placements(self.model, self.data, q)
            for frame, (low, high) in self.boxes:
                p = placements[:, frame, :3, 3]
                excess = np.maximum(excess, np.maximum(low - p, p - high).max(axis=1))
        largest_excess: Array = excess.reshape(motion[0].shape[:2]).max(axis=1)
        return largest_excess

    def motion(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the trajectories of vectors of variables (count, n)."""
        return self.series.motion(*self.limits.coefficients(x, self.harmonics, self.period))

    def objective(self, x: Array) -> float:
        """Return the deviation with a penalty, of a vector of variables (n,)."""
        motion = self.motion(x[None])
        return self.deviation(motion) + float(_limit_penalty(self.limit_excess(motion)[0]))

    def objective_gradient(self, x: Array) -> tuple[float, Array]:
        """Return the objective and its derivatives (n,) at a vector of variables (n,).

        With the regressor Y and G = Y' Y, the change of the trace of G^-1 is the sum of all entries
        of -2 Y G^-2, each times the change of Y, which is a difference.
        """
        motion = self.motion(x[None])
        (Y,) = self.base_regressor(motion)
        values, vectors = np.linalg.eigh(Y.T @ Y)
        values = np.maximum(values, np.finfo(float).eps)
        trace = float(np.sum(1.0 / values))
        change = -Y @ (vectors / values**2 @ vectors.T) / trace
        penalty = _limit_penalty(self.limit_excess(motion)[0])
        step = 1e-5  # finite differences
        points, slopes = x + step * np.eye(len(x)), []
        batch_size = 16  # trajectories; more leave the cache
        for start in range(0, len(points), batch_size):
            motion = self.motion(points[start : start + batch_size])
            changes = np.einsum("kij,ij->k", self.base_regressor(motion) - Y, change)
            slopes.append((changes + _limit_penalty(self.limit_excess(motion)) - penalty) / step)
        value = 0.5 * math.log(trace / len(values)) + float(penalty)
        return value, np.concatenate(slopes)

    def find_trajectory(
        self,
        rng: np.random.Generator,
        progress: Callable[[float], object],
        candidates: int = 20,
        iterations: int = 60,
    ) -> Trajectory:
        """Return the best of a few random trajectories, improved by L-BFGS, with verified limits.

        ``progress`` is called with the fraction of the iterations that are done. If the trajectory
        exceeds a limit even if it is made smaller, its deviation is infinite and its fault is set.
        """
        from scipy.optimize import minimize  # the import takes 30 MB

        variables = 2 * self.harmonics * len(self.limits.indices)
        x = min(rng.standard_normal((candidates, variables)), key=self.objective)
        iteration = itertools.count(1)
        x = minimize(
            self.objective_gradient,
            x,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations},
            callback=lambda x: progress(next(iteration) / iterations),
        ).x
        return self._verify_limits(*self.limits.coefficients(x, self.harmonics, self.period))

    def _verify_limits(self, center: Array, coefficients: Array) -> Trajectory:
        """Verify the limits at dense instants; make the motion smaller until it keeps them.

        Return a trajectory with a fault if none of the sizes does.
        """
        dense_series = self._make_series(
            _VERIFICATION_DENSITY * _SAMPLES_PER_PERIOD * self.harmonics
        )
        for size in np.linspace(1.0, 0.1, 19):
            motion = dense_series.motion(center[None], size * coefficients[None])
            excess = float(self.limit_excess(motion)[0])
            if excess <= 0.0:
                return Trajectory(self.deviation(motion), center, size * coefficients)
        return Trajectory(math.inf, center, coefficients, self._describe_fault(motion))

    def _motor_torque(self, q: Array, v: Array, a: Array) -> Array:
        """Return the torques of the motors, with friction, (B, nv)."""
        tau = rnea(self.model, self.data, q, v, a)
        return tau + joint_friction(self.model, v, tau)

    def _describe_fault(self, motion: tuple[Array, Array, Array]) -> str:
        """Return a text about the limit that the smallest motion exceeds."""
        q, v, a = (array[0] for array in motion)
        tau = self._motor_torque(q, v, a)
        load = np.abs(tau).max(axis=0) / self.effort
        if load.max() > 1.0:
            k = int(np.argmax(load))
            return (
                f"joint {self.model.velocity_names[k]!r} needs an effort of "
                f"{np.abs(tau[:, k]).max():.4g}; its limit with the margin is "
                f"{self.effort[k]:.4g}"
            )
        return "the frames of workspace leave their boxes"

    def sample_trajectory(
        self, trajectory: Trajectory, rate: float, periods: int
    ) -> tuple[Array, tuple[Array, Array, Array], Array, float]:
        """Return times, motion, torques and condition number of a trajectory."""
        count = max(2, round(periods * self.period * rate))
        time = np.linspace(0.0, periods * self.period, count + 1)
        motion = Series(self.harmonics, self.period, time).motion(
            trajectory.center, trajectory.coefficients
        )
        tau = self._motor_torque(*motion)
        condition = self.condition_number(
            self.series.motion(trajectory.center[None], trajectory.coefficients[None])
        )
        return time, motion, tau, condition
