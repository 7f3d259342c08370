# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The coordinates of a robot: the joints that they belong to, and their units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .structure import Structure

_LINEAR_COUNTS = {"prismatic": 1, "planar": 2, "floating": 3}  # linear velocities come first


class JointSlices(NamedTuple):
    """The coordinates of a joint in q and v."""

    name: str
    kind: str
    q: slice
    v: slice


def joint_slices(model: Structure) -> Iterator[JointSlices]:
    """Yield the slices of all joints except mimic joints."""
    for joint, q, nq, v, nv in zip(
        model.tree.joints, model.idx_q, model.nqs, model.idx_v, model.nvs
    ):
        if nv:
            yield JointSlices(joint.name, joint.kind, slice(q, q + nq), slice(v, v + nv))


def independent_joint_indices(model: Structure) -> dict[str, int]:
    """Return the names and indices of joints with own coordinates: all except mimic joints."""
    return {name: i for i, name in enumerate(model.joint_names) if model.nvs[i]}


def single_coordinate_joints(model: Structure) -> dict[str, int]:
    """Return the names and indices of joints with exactly one coordinate of their own."""
    return {name: i for i, name in enumerate(model.joint_names) if model.nvs[i] == 1}


def velocity_joints(model: Structure) -> list[int]:
    """Return the index of the joint of each velocity; of mimic joints, that of their master."""
    return [i for i, nv in enumerate(model.nvs) for _ in range(nv)]


def has_single_coordinate(model: Structure) -> NDArray[np.bool_]:
    """Return a mask, (nv,): True for each velocity of a joint with exactly one coordinate.

    It is True with or without a motor.
    """
    return np.array([model.nvs[i] == 1 for i in velocity_joints(model)], bool)


def is_linear(model: Structure) -> NDArray[np.bool_]:
    """Return a mask, (nv,): True for each velocity that is a length per time."""
    linear = np.zeros(model.nv, bool)
    for joint in joint_slices(model):
        linear[joint.v][: _LINEAR_COUNTS.get(joint.kind, 0)] = True
    return linear
