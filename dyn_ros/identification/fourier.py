# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Fourier series of joints that start at rest and keep limits at every instant."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.inputs import finite_array
from ..engine.model.model import Model

# Limits where there are none: of revolute joints [rad] and of prismatic joints [m]
_REACH = 3.0, 0.5
_VELOCITY = 2.0, 0.5
_ACCELERATION = 5.0, 2.0
_FARTHEST = 8.0 * math.pi, 100.0    # larger limits stand for none
_DENSE = 24                     # samples per period of the highest harmonic; at most 0.9 % more
                                # is between them (a bound for trigonometric polynomials)
_SMALLEST = 0.2                 # size of a motion, relative to the largest one


class Series:
    """Sines and cosines at times (B,) [s], with their derivatives."""

    def __init__(self, harmonics: int, period: float, time: Array) -> None:
        w = 2.0 * math.pi / period * np.arange(1, harmonics + 1)
        sine, cosine = np.sin(np.outer(time, w)), np.cos(np.outer(time, w))
        self._rows = (np.concatenate([sine, cosine], axis=1),
                      np.concatenate([w * cosine, -w * sine], axis=1),
                      np.concatenate([-w * w * sine, -w * w * cosine], axis=1))

    def motion(self, center: Array, coefficients: Array) -> tuple[Array, Array, Array]:
        """q, v and a (..., B, nv) of one series per joint.

        Centers are (..., nv), coefficients (..., nv, 2 harmonics): of sines, then of cosines.
        """
        q, v, a = ((coefficients @ rows.T).swapaxes(-1, -2) for rows in self._rows)
        return q + center[..., None, :], v, a


def at_rest(harmonics: int) -> Array:
    """Basis of the coefficients, (2 harmonics, n), whose series starts at rest.

    The velocity at time zero is the sum of the sines' factors times 1, 2, ..., the acceleration
    that of the cosines' factors times their squares.
    """
    k = np.arange(1.0, harmonics + 1)
    basis: Array = null_space(np.array([[*k, *np.zeros(harmonics)], [*np.zeros(harmonics),
                                                                     *k ** 2]]))
    return basis


@dataclasses.dataclass(frozen=True, eq=False)
class Limits:
    """Limits (nv,) of joints with a margin; those that do not move have lower = upper.

    Also how variables without limits become coefficients within them.
    """

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    margin: float

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Whether each joint moves."""
        moves: NDArray[np.bool_] = self.lower < self.upper
        return moves

    @property
    def indices(self) -> NDArray[np.int_]:
        """Indices of the joints that move."""
        return np.flatnonzero(self.moving)

    def variables(self, harmonics: int) -> int:
        """Number of variables of a trajectory."""
        return len(self.indices) * 2 * harmonics

    def coefficients(self, x: Array, harmonics: int, period: float) -> tuple[Array, Array]:
        """Turn variables of any values into series that keep the limits.

        The variables of each joint are the shape of its series, which only counts relative to its
        length, its size and its center. Sines map the latter two to what the limits allow. From
        (..., variables) to centers (..., nv) and coefficients (..., nv, 2 harmonics).
        """
        k = self.indices
        x = x.reshape(*x.shape[:-1], len(k), 2 * harmonics)
        shape = x[..., 2:] @ at_rest(harmonics).T
        shape /= np.linalg.norm(shape, axis=-1, keepdims=True)
        count = _DENSE * harmonics
        grid = Series(harmonics, period, np.arange(count) * period / count)
        f, v, a = grid.motion(np.zeros(shape.shape[:-1]), shape)
        low, high = f.min(-2), f.max(-2)
        between = 1.0 / math.cos(math.pi / _DENSE)
        reach = 0.5 * (self.upper - self.lower)[k]
        largest = np.minimum(reach / (between * 0.5 * (high - low)), np.minimum(
            self.velocity[k] / (between * np.abs(v).max(-2)),
            self.acceleration[k] / (between * np.abs(a).max(-2))))
        size = largest * (_SMALLEST + (1.0 - _SMALLEST) * 0.5 * (1.0 + np.sin(x[..., 0])))
        space = np.maximum(0.0, reach - size * between * 0.5 * (high - low))
        middle = 0.5 * (self.lower + self.upper)
        center = np.broadcast_to(middle, (*x.shape[:-2], len(middle))).copy()
        center[..., k] += space * np.sin(x[..., 1]) - size * 0.5 * (low + high)
        coefficients = np.zeros((*center.shape, 2 * harmonics))
        coefficients[..., k, :] = size[..., None] * shape
        return center, coefficients


def joint_limits(model: Model, *, rest: ArrayLike | None = None, lower: ArrayLike | None = None,
                 upper: ArrayLike | None = None, velocity: ArrayLike | None = None,
                 acceleration: ArrayLike | None = None, joints: Sequence[str] | None = None,
                 margin: float = 1.0) -> Limits:
    """Limits from arguments of ``excite``, of the model with mimic joints, or the usual ones."""
    angle = np.array([joint.kind != "prismatic" for joint in model.tree.joints
                      if joint.mimic is None])
    low, high = _position_limits(model)
    if lower is not None:
        low = _numbers("lower", lower, model.nv)
    if upper is not None:
        high = _numbers("upper", upper, model.nv)
    center = np.clip(0.0, low, high) if rest is None else finite_array("rest", rest, (model.nq,))
    reach = np.where(angle, *_REACH)
    low = np.where(_is_stop(low, angle), low, np.minimum(center, high) - reach)
    high = np.where(_is_stop(high, angle), high, np.maximum(center, low) + reach)
    fastest = np.where(_stated(model.velocity_limit), model.velocity_limit,
                       np.where(angle, *_VELOCITY))
    if velocity is not None:
        fastest = _positive("velocity_limit", velocity, model.nv)
    strongest = np.where(angle, *_ACCELERATION)
    if acceleration is not None:
        strongest = _positive("acceleration_limit", acceleration, model.nv)
    middle, half = 0.5 * (low + high), 0.5 * margin * (high - low)
    moves = _chosen(model, joints)
    narrow = moves & ~(half > 0.0)
    if narrow.any():
        k = int(np.argmax(narrow))
        raise ValueError(f"joint {model.velocity_names[k]!r} cannot move: its limits are "
                         f"{low[k]:g} and {high[k]:g}; pass the other ones as joints")
    return Limits(np.where(moves, middle - half, center), np.where(moves, middle + half, center),
                  margin * fastest, margin * strongest, margin)


def _is_stop(limit: Array, angle: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether position limits are those of a joint, not large numbers that stand for none."""
    is_stop: NDArray[np.bool_] = np.abs(limit) <= np.where(angle, *_FARTHEST)
    return is_stop


def _position_limits(model: Model) -> tuple[Array, Array]:
    """Of all joints, within those of the joints that mimic them."""
    low, high = model.lower.copy(), model.upper.copy()
    for joint, k in zip(model.tree.joints, model.idx_q):
        if joint.mimic and joint.mimic.multiplier:
            ends = np.sort((np.array([joint.lower, joint.upper]) - joint.mimic.offset)
                           / joint.mimic.multiplier)
            low[k], high[k] = max(low[k], ends[0]), min(high[k], ends[1])
    return low, high


def _chosen(model: Model, joints: Sequence[str] | None) -> NDArray[np.bool_]:
    """Whether each coordinate moves."""
    names = model.velocity_names
    if joints is None:
        return np.ones(len(names), bool)
    if isinstance(joints, str):
        raise ValueError(f"joints: expected a sequence of names, got the string {joints!r}")
    for name in joints:
        if name not in names:
            raise ValueError(f"joints: no joint named {name!r} that moves by itself; available: "
                             f"{', '.join(names)}")
    if not len(joints):
        raise ValueError("joints: expected at least one name")
    return np.isin(names, joints)


def _stated(limit: Array) -> NDArray[np.bool_]:
    """Whether limits are numbers above zero: descriptions often contain zeros."""
    is_stated: NDArray[np.bool_] = np.isfinite(limit) & (limit > 0.0)
    return is_stated


def _numbers(name: str, value: ArrayLike, count: int) -> Array:
    array = np.asarray(value, float)
    if array.shape not in ((), (count,)) or np.isnan(array).any():
        raise ValueError(f"{name}: expected a number, or {count} numbers, got {value!r:.80}")
    return np.broadcast_to(array, (count,)).copy()


def _positive(name: str, value: ArrayLike, count: int) -> Array:
    array = _numbers(name, value, count)
    if not (np.isfinite(array) & (array > 0.0)).all():
        raise ValueError(f"{name}: expected finite numbers above 0, got {value!r:.80}")
    return array
