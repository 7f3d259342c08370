# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arrays in requests and responses: vectors by name, matrices and tensors."""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn_ros.engine.kernel.names import join_names
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import Matrix, Tensor3

from ...states.joint_states import Rejected, abbreviate_names, find_duplicates
from ..robot import RobotContext, State


def read_vector(robot: RobotContext, message: Any, field: str) -> Array:
    """Return a vector (nv,) from the fields `name` and `field` of a message.

    Values of omitted names are zero. Raises `Rejected` if a name is unknown or duplicate, or a
    value is not finite.
    """
    names: Sequence[str] = message.name
    values: Sequence[float] = getattr(message, field)
    if len(values) != len(names):
        raise Rejected(f"{field}: {len(names)} names, but {len(values)} numbers")
    row_of_name = {name: row for row, name in enumerate(robot.model.velocity_names)}
    rows = [row_of_name.get(name, -1) for name in names]
    if -1 in rows:
        raise Rejected(
            f"{field}: there is no {names[rows.index(-1)]!r:.80}; "
            f"available: {join_names(row_of_name)}"
        )
    if len(set(rows)) != len(rows):
        raise Rejected(f"{field}: duplicate names: " + abbreviate_names(find_duplicates(names)))
    for name, value in zip(names, values):
        if not math.isfinite(value):
            raise Rejected(f"{field} is not finite: {name} = {value:g}")
    result = np.zeros(robot.model.nv)
    result[rows] = values
    return result


def velocity_or_zeros(state: State) -> Array:
    """Return the velocities of a state, (nv,); zeros if one is unknown."""
    return np.zeros_like(state.raw_velocities) if state.unknown else state.raw_velocities


def to_float64_field(values: Array, valid: bool = True) -> array.array[float]:
    """Return values as a float64[] field, row-major; raise `Rejected` if one is not finite.

    If not `valid`, the field is NaN.
    """
    if not valid:
        return array.array("d", [math.nan]) * values.size
    result = array.array("d", values.tobytes())
    if not math.isfinite(sum(result)) and not all(map(math.isfinite, result)):
        raise Rejected(
            "the result is not finite, because numbers in the request or in the state are too large"
        )
    return result


def set_matrix(message: Matrix, values: Array, valid: bool = True) -> None:
    """Fill a dyn_ros/Matrix from an ndarray (rows, cols); `valid` as for `to_float64_field`."""
    message.rows, message.cols = values.shape
    message.data = to_float64_field(values, valid)


def set_tensor(message: Tensor3, values: Array) -> None:
    """Fill a dyn_ros/Tensor3 from an ndarray (n, m, k)."""
    message.shape, message.data = values.shape, to_float64_field(values)
