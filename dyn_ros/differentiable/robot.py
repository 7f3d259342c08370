# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure of a robot as NumPy arrays, for array expressions."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.types import Array
from ..engine.model.model import Model

_KIND_COLUMNS = {"planar": (0, 1, 5), "floating": (0, 1, 2, 3, 4, 5), "spherical": (3, 4, 5)}


class Robot(NamedTuple):
    """The structure of a robot.

    A column is one of a joint's motion subspace; mimic joints have columns of their own.
    """

    positions: tuple[tuple[str, slice, slice], ...]
    """The kind of each joint, and its parts of q and v, in the order of q; without mimic joints."""
    columns: Array
    """Motion subspaces, (ncolumns, 6), in the frames of the joints, with the multipliers."""
    column_joints: NDArray[np.intp]
    """The joint of each column, (ncolumns,)."""
    column_velocities: Array
    """1 if a column belongs to a velocity, (ncolumns, nv)."""
    carries: Array
    """1 if the joint of a column carries a body, (ncolumns, njoints)."""
    frame_joints: NDArray[np.intp]
    """The joint that moves each frame, or -1, (nframes,)."""
    frame_placements: Array
    """Placements of frames in the joint that moves them, (nframes, 4, 4)."""


_robots: Any = weakref.WeakKeyDictionary()


def robot_of(model: Model) -> Robot:
    """Return the structure of a model."""
    robot: Robot | None = _robots.get(model)
    if robot is None:
        robot = _robots[model] = _read_structure(model)
    return robot


def _read_structure(model: Model) -> Robot:
    columns, joints, velocities = [], [], []
    for i, joint in enumerate(model.tree.joints):
        for c, motion in enumerate(_subspace(joint)):
            columns.append(motion)
            joints.append(i)
            velocities.append(model.idx_v[i] + c)
    n = len(columns)
    selection = np.zeros((n, model.nv))
    selection[np.arange(n), velocities] = 1.0
    carries = np.zeros((n, model.njoints))
    for i, support in enumerate(model.supports):
        carries[[k for k, j in enumerate(joints) if j in support], i] = 1.0
    frames = model.tree.frames
    parts = zip(model.tree.joints, model.idx_q, model.nqs, model.idx_v, model.nvs)
    positions = [
        (joint.kind, slice(k, k + nq), slice(i, i + nv))
        for joint, k, nq, i, nv in parts
        if not joint.mimic
    ]
    return Robot(
        tuple(sorted(positions, key=lambda position: position[1].start)),
        np.array(columns).reshape(n, 6),
        np.array(joints, np.intp),
        selection,
        carries,
        np.array([frame.parent for frame in frames], np.intp),
        np.array([frame.placement for frame in frames]).reshape(-1, 4, 4),
    )


def _subspace(joint: Any) -> Array:
    """Return the columns of a joint's motion subspace as rows, with its multiplier."""
    if joint.kind in _KIND_COLUMNS:
        return np.eye(6)[list(_KIND_COLUMNS[joint.kind])]
    motion = np.zeros((1, 6))
    motion[0, slice(0, 3) if joint.kind == "prismatic" else slice(3, 6)] = joint.axis
    return motion * (joint.mimic.multiplier if joint.mimic else 1.0)
