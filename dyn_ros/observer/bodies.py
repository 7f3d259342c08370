# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The bodies of a robot that can be touched, and what a wrench on each causes at the joints."""
from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..engine.algorithms import joint_jacobians
from ..engine.call.data import Data
from ..engine.kernel.types import Array, ArrayLike
from ..engine.model import Model

_SHORTEST = 0.05                # m: length of a link


class Bodies(NamedTuple):
    """The bodies that can be touched, nb, and the joints that move them."""

    numbers: Array              # of their joints, (nb,)
    names: tuple[str, ...]      # of their first links
    centers: Array              # in the frames of their joints, (nb, 3)
    lengths: Array              # (nb,)
    moves: Array                # (nb, ncolumns): 1 if a column of the Jacobian moves the body, or 0
    rows: Array | None          # (nv, ncolumns): 1 where a column belongs to a velocity; None: all
    joints: tuple[str, ...]     # of each velocity, the name of its joint


_known: WeakKeyDictionary[Model, Bodies] = WeakKeyDictionary()


def bodies_of(model: Model) -> Bodies:
    """Those of a model, found once."""
    if model not in _known:
        _known[model] = _find_bodies(model)
    return _known[model]


def _find_bodies(model: Model) -> Bodies:
    joints, frames = model.tree.joints, model.tree.frames
    numbers = [j for j, joint in enumerate(joints) if joint.inertia.mass > 0.0]
    boxes = [_box(model, j) for j in numbers]
    columns = [1 if joint.mimic else model.nvs[j] for j, joint in enumerate(joints)]
    owner = np.repeat(np.arange(model.njoints), columns)
    velocities = [model.idx_v[j] + k for j in range(model.njoints) for k in range(columns[j])]
    moves = np.array([[float(i in model.supports[j]) for i in owner] for j in numbers])
    rows = np.eye(model.nv)[:, velocities]
    names = tuple(next(frame.name for frame in frames
                       if frame.parent == j and frame.kind == "body") for j in numbers)
    of_velocity = [""] * model.nv
    for j in reversed(range(model.njoints)):        # the master, not those that mimic it
        for k in range(model.idx_v[j], model.idx_v[j] + model.nvs[j]):
            of_velocity[k] = model.joint_names[j]
    return Bodies(np.array(numbers, int), names, np.array([box[0] for box in boxes]),
                   np.array([box[1] for box in boxes]), moves,
                   None if np.array_equal(rows, np.eye(model.nv)) else rows, tuple(of_velocity))


def _box(model: Model, j: int) -> tuple[Array, float]:
    """Center and diagonal of the box around the frames of a body and the joints that it carries."""
    points = [np.zeros(3)]
    points += [joint.placement[:3, 3] for joint in model.tree.joints if joint.parent == j]
    for frame in model.tree.frames:
        if frame.parent == j:
            points.append(frame.placement[:3, 3])
            if frame.inertia.mass > 0.0:
                points.append(frame.placement[:3, :3] @ np.asarray(frame.inertia.com)
                              + frame.placement[:3, 3])
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    return 0.5 * (low + high), max(float(np.linalg.norm(high - low)), _SHORTEST)


class Places(NamedTuple):
    """The bodies at a configuration, in the world."""

    origins: Array              # (nb, 3)
    centers: Array              # (nb, 3)
    columns: Array              # (nb, nv, 6): efforts of a wrench at the center of each body


def jacobian(model: Model, data: Data, q: ArrayLike) -> Array:
    """Columns of all joints in the world, (6, ncolumns), of a single state; fills ``data.oMi``."""
    J = joint_jacobians(model, data, q)
    if J.ndim > 2:
        raise ValueError(f"q: expected a single state, got a batch of shape {np.shape(q)}; pass "
                         "one state after the other")
    return J


def places_of(data: Data, J: Array, bodies: Bodies) -> Places:
    """The bodies at the configuration of ``jacobian``, whose result is J."""
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
    return Places(origins, centers, columns)


def skew(c: Array) -> Array:
    """The cross-product matrices X of vectors (..., 3): X @ w = c x w, and w @ X = w x c."""
    X = np.zeros((*c.shape, 3))
    X[..., 0, 1], X[..., 0, 2], X[..., 1, 2] = -c[..., 2], c[..., 1], -c[..., 0]
    X[..., 1, 0], X[..., 2, 0], X[..., 2, 1] = c[..., 2], -c[..., 1], c[..., 0]
    return X
