# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The unknowns of a robot's torque equations: its parameters, their names and units."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model import Model

NUMBERS = ("m", "m cx", "m cy", "m cz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
FEATURES = ("armature", "damping", "friction", "offset", "stribeck")
ANGULAR_UNITS = ("kg m2", "N m s/rad", "N m", "N m", "N m")
LINEAR_UNITS = ("kg", "N s/m", "N", "N", "N")
# Within a body, in the order in which combinations are the usual ones: Ixx - Iyy, masses last
_ORDER = (4, 5, 7, 8, 9, 1, 2, 3, 6, 0)


class Unknowns:
    """The p parameters of a robot: 10 for each joint's body, then each feature for each velocity.

    ``bodies`` is the number of those of bodies, ``names`` are such as "friction(elbow)", ``active``
    (p,) whether each is estimated, ``order`` that in which they are preferred as leading ones of
    combinations, ``local`` (nv, 10 njoints + 5) the columns of each row of the equations.
    """

    def __init__(self, model: Model, chosen: Sequence[str]) -> None:
        self.model, self.bodies = model, 10 * model.njoints
        self.names = (*(f"{number}({joint})" for joint in model.joint_names for number in NUMBERS),
                      *(f"{feature}({name})" for feature in FEATURES
                        for name in model.velocity_names))
        linear = is_linear(model)
        self.units = (*("kg", *3 * ("kg m",), *6 * ("kg m2",)) * model.njoints,
                      *((LINEAR_UNITS if linear[k] else ANGULAR_UNITS)[n]
                        for n in range(len(FEATURES)) for k in range(model.nv)))
        wanted = np.isin(FEATURES, chosen)[:, None] & is_actuated(model)
        self.active = np.concatenate([np.ones(self.bodies, bool), wanted.ravel()])
        self.order = [10 * i + k for i in range(model.njoints) for k in _ORDER]
        self.order += range(self.bodies, len(self.names))
        own = self.bodies + np.arange(model.nv)[:, None] + model.nv * np.arange(len(FEATURES))
        self.local = np.hstack([np.tile(np.arange(self.bodies), (model.nv, 1)), own])

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self.names)


def in_columns(features: Array) -> Array:
    """Features of each row, (B, nv, 5), in the columns of all parameters, (B, nv, 5 nv)."""
    size, nv, _ = features.shape
    return np.einsum("bkf,kj->bkfj", features, np.eye(nv)).reshape(size, nv, -1)


def is_actuated(model: Model) -> np.ndarray:
    """Whether each velocity belongs to a joint with one coordinate, (nv,) of bool."""
    actuated = np.zeros(model.nv, bool)
    actuated[[first for first, count in zip(model.idx_v, model.nvs) if count == 1]] = True
    return actuated


def is_linear(model: Model) -> np.ndarray:
    """Whether each velocity is a length per time, (nv,) of bool."""
    return np.array([name.rpartition("/")[2].startswith("linear_") for name in
                     model.velocity_names]) | _slides(model)


def _slides(model: Model) -> np.ndarray:
    slides = np.zeros(model.nv, bool)
    slides[[first for joint, first, count in zip(model.tree.joints, model.idx_v, model.nvs)
            if count == 1 and joint.kind == "prismatic"]] = True
    return slides
