# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The bodies of a robot that can be touched, and the most probable wrench on each.

Each link is a hypothesis: the efforts are noise, plus what a wrench w on this link causes. Before
anything is measured, w is normally distributed: the force with a standard deviation ``force``, the
moment about the center of the link with this times the length of the link. The best wrench of each
hypothesis is the minimum of a quadratic cost. Its evidence, the probability of the efforts, follows
from the cost and a determinant. The determinant decides in favor of the link nearest to the root
that explains the efforts: further links, whose joints could have felt a force, but did not, are
less probable.

A single contact exerts a force along a line and no torque, f . m = 0. The minimum of the cost under
this condition is found exactly: in coordinates in which the cost is a squared distance and the
condition is sum(k_i x_i^2) = 0, each x_i is divided by 1 + nu k_i, and nu is the only zero of a
monotone function.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import velocity_joints

_MIN_LINK_LENGTH = 0.05  # m
MAX_COST_INCREASE = 9.0  # squared standard deviations; a link with more is not possible
_MAX_SCORE_INCREASE = 40.0  # twice the log ratio of evidences; a link with more is not examined
_MAX_LINKS = 8  # examined links
_TORQUE_COST = 16.0  # squared standard deviations; cost of a contact that exerts a torque
_MAX_WHITENED_EFFORT = 1e6  # standard deviations
_MAX_NEWTON_STEPS = 100
_ROUNDING_ERROR = 1e-12  # relative
_MIN_SQUARE = 1e-300  # prevents a division by zero
_PRIOR_WIDENING = 10.0  # factor of the standard deviation of unknown forces
_MAX_SOLUTION_DISTANCE = 1e3  # standard deviations; a second solution beyond is impossible
_HALF_EXCHANGE = 0.5 * np.eye(6)[[3, 4, 5, 0, 1, 2]]  # w' G w = f . m


# --- the bodies, and what a wrench on each causes at the joints


class TouchableBodies(NamedTuple):
    """The nb bodies of a robot that can be touched, and the joints that move them."""

    numbers: Array  # (nb,), index of the joint that carries each body
    names: tuple[str, ...]  # (nb,), first link of each body
    centers: Array  # (nb, 3), in the frames of their joints [m]
    lengths: Array  # (nb,) [m]
    moves: Array  # (nb, ncolumns): 1 if a column of the Jacobian moves the body, or 0
    rows: Array | None  # (nv, ncolumns): 1 where a column belongs to a velocity; None: all
    joints: tuple[str, ...]  # (nv,), name of the joint of each velocity


_bodies_of_models: WeakKeyDictionary[Model, TouchableBodies] = WeakKeyDictionary()


def touchable_bodies(model: Model) -> TouchableBodies:
    """Return the bodies of a model, computed once."""
    if model not in _bodies_of_models:
        _bodies_of_models[model] = _find_bodies(model)
    return _bodies_of_models[model]


def _find_bodies(model: Model) -> TouchableBodies:
    """Find the bodies with mass, and the columns of the Jacobian that move each."""
    joints = model.tree.joints
    numbers = [j for j, joint in enumerate(joints) if joint.inertia.mass > 0.0]
    boxes = [_body_box(model, j) for j in numbers]
    columns = [1 if joint.mimic else model.nvs[j] for j, joint in enumerate(joints)]
    owner = np.repeat(np.arange(model.njoints), columns)
    velocities = [model.idx_v[j] + k for j in range(model.njoints) for k in range(columns[j])]
    moves = np.array([[float(i in model.supports[j]) for i in owner] for j in numbers])
    rows = np.eye(model.nv)[:, velocities]
    names = tuple(model.tree.body_links[j] for j in numbers)
    return TouchableBodies(
        np.array(numbers, int),
        names,
        np.array([box[0] for box in boxes]),
        np.array([box[1] for box in boxes]),
        moves,
        None if np.array_equal(rows, np.eye(model.nv)) else rows,
        tuple(model.joint_names[j] for j in velocity_joints(model)),
    )


def _body_box(model: Model, j: int) -> tuple[Array, float]:
    """Return center and diagonal of the box around the frames of a body and its child joints."""
    points = [np.zeros(3)]
    points += [joint.placement[:3, 3] for joint in model.tree.joints if joint.parent == j]
    for frame in model.tree.frames:
        if frame.parent == j:
            points.append(frame.placement[:3, 3])
            if frame.inertia.mass > 0.0:
                points.append(
                    frame.placement[:3, :3] @ np.asarray(frame.inertia.com) + frame.placement[:3, 3]
                )
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    return 0.5 * (low + high), max(float(np.linalg.norm(high - low)), _MIN_LINK_LENGTH)


class BodyPlaces(NamedTuple):
    """The bodies at a configuration, in the world."""

    origins: Array  # (nb, 3)
    centers: Array  # (nb, 3)
    columns: Array  # (nb, nv, 6): efforts of a wrench at the center of each body


def place_bodies(data: Data, J: Array, bodies: TouchableBodies) -> BodyPlaces:
    """Return the bodies at a configuration; J (6, ncolumns) is from ``joint_jacobians``."""
    X = data.oMi[bodies.numbers]
    origins = X[:, :3, 3]
    centers = (X[:, :3, :3] @ bodies.centers[:, :, None])[:, :, 0] + origins
    angular = J[3:].T
    columns = np.empty((len(centers), len(angular), 6))
    columns[..., :3] = J[:3].T + angular @ skew(centers)
    columns[..., 3:] = angular
    columns *= bodies.moves[:, :, None]
    if bodies.rows is not None:
        columns = bodies.rows @ columns
    return BodyPlaces(origins, centers, columns)


def skew(c: Array) -> Array:
    """Return the cross-product matrices X of vectors (..., 3): X @ w = c x w, and w @ X = w x c."""
    X = np.zeros((*c.shape, 3))
    X[..., 0, 1], X[..., 0, 2], X[..., 1, 2] = -c[..., 2], c[..., 1], -c[..., 0]
    X[..., 1, 0], X[..., 2, 0], X[..., 2, 1] = c[..., 2], -c[..., 1], c[..., 0]
    return X


# --- the most probable wrenches


class Hypothesis(NamedTuple):
    """A link that may be touched, with the most probable wrench at its center."""

    body: int
    cost: float  # squared distance from the efforts and from zero
    score: float  # -2 log(evidence), less a constant
    residual: Array  # (nv,): what the wrench does not explain
    wrench: Array  # (6,)
    covariance: Array  # (6, 6), with what the efforts do not determine
    is_pure_force: bool
    linear: Array  # (6,): the wrench if there were a torque
    linear_covariance: Array  # (6, 6)


def rank_hypotheses(
    places: BodyPlaces, W: Array, tau: Array, lengths: Array, force: float
) -> list[Hypothesis]:
    """Return the links that may be touched, most probable first.

    W (nv, nv) whitens the efforts ``tau`` (nv,), see ``whitening_matrix``; ``lengths`` (nb,) [m]
    and ``force`` [N] scale the moments and forces expected on each of ``places``. In the
    coordinates x = sqrt(1 + s^2) V' z, the cost is |x - x0|^2 plus a constant.
    """
    units = np.full((len(lengths), 6), force)
    units[:, 3:] *= lengths[:, None]
    Y, t = _limit_weights((W @ places.columns) * units[:, None, :], W @ tau)
    body_indices, logdet = _screen_bodies(Y, t)
    U, s, Vt = np.linalg.svd(_pad_to_six_rows(Y[body_indices]), full_matrices=False)
    U, units = U[:, : len(t)], units[body_indices]
    root = np.sqrt(1.0 + s * s)
    projection = t @ U
    x0 = s / root * projection
    residuals = t - _multiply_vectors(U, projection)
    constant = (residuals * residuals).sum(axis=1) + ((projection / root) ** 2).sum(axis=1)
    T = units[:, :, None] * np.swapaxes(Vt, 1, 2) / root[:, None, :]  # w = T x
    scale = (units[:, 0] * units[:, 5])[:, None, None]
    k, Q = np.linalg.eigh(np.swapaxes(T, 1, 2) @ _HALF_EXCHANGE @ T / scale)
    T, x0 = T @ Q, _multiply_vectors(np.swapaxes(Q, 1, 2), x0)
    nu = np.array([_find_multiplier(*pair) for pair in zip(k.tolist(), x0.tolist())])
    shrink_factors = 1.0 / (1.0 + nu[:, None] * k)
    x = shrink_factors * x0
    pure_force_cost = ((x - x0) ** 2).sum(axis=1)
    is_pure_force = pure_force_cost <= _TORQUE_COST
    linear = _multiply_vectors(T, x0)
    wrench = np.where(is_pure_force[:, None], _multiply_vectors(T, x), linear)
    wrench_covariances, force_covariances = _wrench_covariances(units, s, Vt, projection, wrench)
    covariances: Array = np.where(
        is_pure_force[:, None, None], force_covariances, wrench_covariances
    )
    cost = constant + np.minimum(pure_force_cost, _TORQUE_COST)
    residual = tau - _multiply_vectors(places.columns[body_indices], wrench)
    score = cost + logdet
    return [
        Hypothesis(
            int(body_indices[n]),
            float(cost[n]),
            float(score[n]),
            residual[n],
            wrench[n],
            covariances[n],
            bool(is_pure_force[n]),
            linear[n],
            wrench_covariances[n],
        )
        for n in np.argsort(score)
    ]


def _limit_weights(Y: Array, t: Array) -> tuple[Array, Array]:
    """Return Y and t with less weight of extreme efforts, so that H can be inverted."""
    largest = np.maximum(np.abs(Y).max(axis=(0, 2)), np.abs(t))
    if largest.max() <= _MAX_WHITENED_EFFORT:
        return Y, t
    weights = np.minimum(1.0, _MAX_WHITENED_EFFORT / np.maximum(largest, 1.0))
    return Y * weights[:, None], t * weights


def _multiply_vectors(A: Array, x: Array) -> Array:
    """Return the products of n matrices and n vectors, (n, i, j) and (n, j)."""
    product: Array = (A @ x[:, :, None])[:, :, 0]
    return product


def _pad_to_six_rows(Y: Array) -> Array:
    """Return Y with at least six rows, by appending zeros."""
    if Y.shape[1] >= 6:
        return Y
    return np.concatenate([Y, np.zeros((len(Y), 6 - Y.shape[1], 6))], axis=1)


def _screen_bodies(Y: Array, t: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the bodies that may be touched, most probable first, and log determinants of each.

    Y (nb, nv, 6) and t (nv,) are whitened; any wrench is allowed.
    """
    Yt = np.swapaxes(Y, 1, 2)
    H = Yt @ Y + np.eye(6)
    z = np.asarray(np.linalg.solve(H, Yt @ t[:, None])[:, :, 0], float)
    residuals = t - _multiply_vectors(Y, z)
    cost = (residuals * residuals).sum(axis=1) + (z * z).sum(axis=1)
    logdet = np.linalg.slogdet(H)[1]
    score = cost + logdet
    is_likely = (score <= score.min() + _MAX_SCORE_INCREASE) | (
        cost <= cost.min() + MAX_COST_INCREASE + _TORQUE_COST
    )
    body_indices = np.flatnonzero(is_likely)
    body_indices = body_indices[np.argsort(score[body_indices])][:_MAX_LINKS]
    return body_indices, logdet[body_indices]


def _find_multiplier(k: list[float], x: list[float]) -> float:
    """Return the zero nu of sum(k x^2 / (1 + nu k)^2), where each 1 + nu k is positive.

    The sum decreases in nu. Newton's method, with bisection where it leaves the interval.
    """
    low, high = -1.0 / k[-1], -1.0 / k[0]
    nu = 0.0
    pairs = [(a, a * b * b) for a, b in zip(k, x)]
    for _ in range(_MAX_NEWTON_STEPS):
        value = slope = total = 0.0
        for a, w in pairs:
            d = 1.0 / (1.0 + nu * a)
            term = w * d * d
            value += term
            total += abs(term)
            slope -= 2.0 * term * a * d
        if abs(value) <= _ROUNDING_ERROR * total:
            return nu
        if value > 0.0:
            low = nu
        else:
            high = nu
        nu -= value / slope
        if not low < nu < high:
            nu = 0.5 * (low + high)
            if not low < nu < high:
                break
    return nu


def _wrench_covariances(
    units: Array, s: Array, Vt: Array, projection: Array, wrench: Array
) -> tuple[Array, Array]:
    """Return covariances of wrenches, and of wrenches without torque, (n, 6, 6).

    Here forces and moments are normally distributed with standard deviations that are
    ``_PRIOR_WIDENING`` times as large, so that nothing counts as determined because of this
    assumption. Wrenches without torque lie on a surface; their covariance is the one in its tangent
    plane and, with five joints, includes a second solution: five joints show all but one direction
    of wrenches, and on a line there are up to two pure forces.
    """
    root = np.sqrt(_PRIOR_WIDENING**-2 + s * s)
    T = units[:, :, None] * np.swapaxes(Vt, 1, 2) / root[:, None, :]  # w = T x
    x = root * _multiply_vectors(Vt, wrench / units)
    g = _multiply_vectors(np.swapaxes(T, 1, 2), _multiply_vectors(_HALF_EXCHANGE[None], wrench))
    normal = g / np.sqrt(np.maximum((g * g).sum(axis=1), _MIN_SQUARE))[:, None]
    inner = np.eye(6) - normal[:, :, None] * normal[:, None, :]
    # along the direction that is known least, the torque is slope t + curvature t^2
    last = T[:, :, 5]
    curvature, slope = (last[:, :3] * last[:, 3:]).sum(axis=1), 2.0 * g[:, 5]
    second = np.abs(slope) < _MAX_SOLUTION_DISTANCE * np.abs(curvature)
    move = np.where(second, -slope / np.where(second, curvature, 1.0), 0.0)
    excess = move * (2.0 * (x[:, 5] - (s / root * projection)[:, 5]) + move)
    odds = np.exp(-0.5 * np.clip(excess, 0.0, 700.0))
    inner[:, 5, 5] += (move / (1.0 + odds)) ** 2 * odds
    back = np.swapaxes(T, 1, 2)
    return T @ back, T @ inner @ back
