# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Vectors by name in requests; vectors, matrices and tensors in responses."""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn_ros.engine.kernel.names import listed
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import Matrix, Tensor3

from ...states.joint_states import Rejected, abbreviated, duplicates
from ..robot import RobotContext, State


def vector(robot: RobotContext, message: Any, field: str) -> Array:
    """Return a vector (nv,) of the model from a field by name; values not specified are zero."""
    names: Sequence[str] = message.name
    values: Sequence[float] = getattr(message, field)
    if len(values) != len(names):
        raise Rejected(f"{field}: {len(names)} names, but {len(values)} numbers")
    known = {name: row for row, name in enumerate(robot.model.velocity_names)}
    rows = [known.get(name, -1) for name in names]
    if -1 in rows:
        raise Rejected(
            f"{field}: there is no {names[rows.index(-1)]!r:.80}; available: {listed(known)}"
        )
    if len(set(rows)) != len(rows):
        raise Rejected(f"{field}: duplicate names: " + abbreviated(duplicates(names)))
    for name, value in zip(names, values):
        if not math.isfinite(value):
            raise Rejected(f"{field} is not finite: {name} = {value:g}")
    result = np.zeros(robot.model.nv)
    result[rows] = values
    return result


def velocity(state: State) -> Array:
    """Return all velocities of a state, zeros if one is unknown."""
    return np.zeros_like(state.velocities) if state.unknown else state.velocities


def numbers(values: Array, known: bool = True) -> array.array[float]:
    """Return a float64[] field, row-major: NaN if not known, `Rejected` if not all finite."""
    if not known:
        return array.array("d", [math.nan]) * values.size
    result = array.array("d", values.tobytes())
    if not math.isfinite(sum(result)) and not all(map(math.isfinite, result)):
        raise Rejected(
            "the result is not finite, because numbers in the request or in the state are too large"
        )
    return result


def set_matrix(message: Matrix, values: Array, known: bool = True) -> None:
    """Fill a dyn_ros/Matrix from an ndarray (rows, cols), see `numbers`."""
    message.rows, message.cols = values.shape
    message.data = numbers(values, known)


def set_tensor(message: Tensor3, values: Array) -> None:
    """Fill a dyn_ros/Tensor3 from an ndarray of three axes."""
    message.shape, message.data = values.shape, numbers(values)
