# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Acceleration constraints from presets and messages, checked against a robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn_ros
from dyn_ros import Model
from dyn_ros.engine.algorithms.constrained.constraints import ConstrainedMotion
from dyn_ros.engine.kernel.fields import MAX_CONSTRAINTS
from dyn_ros.engine.kernel.names import join_names, short_repr
from dyn_ros.engine.kernel.types import Array

from ...states.joint_states import Rejected
from ..robot import RobotContext
from .frame_ids import axes_link, axes_rotation


@dataclass(frozen=True, eq=False)
class Constraints:
    """Acceleration constraints on frames: arguments of `dyn_ros.constrained_dynamics`."""

    frame: tuple[str, ...]  # (m,); the constrained frames
    directions: Array  # (6, m), linear and angular, with any norm
    acceleration: Array  # (m,); the desired accelerations along the directions
    axes: str | None  # link in whose axes the directions are expressed; None: the world


def constraints_from_preset(robot: RobotContext, values: Mapping[str, Any]) -> Constraints:
    """Return the constraints on `tip_frame` of the preset in the parameter `constraints`."""
    preset, tip_frame, axis_frame = (
        values[name] for name in ("constraints", "tip_frame", "axis_frame")
    )
    moving_frames = _moving_frame_names(robot.model)
    if tip_frame not in moving_frames:
        raise Rejected(
            f"tip_frame: no moving frame is named {tip_frame!r:.80}; "
            f"available: {join_names(moving_frames)}"
        )
    axes = None
    if preset == "hold_pose":
        directions = np.eye(6)
    elif preset == "hold_position":
        directions = np.eye(6)[:, :3]
    elif preset == "keep_upright":
        directions = np.zeros((6, 2))
        directions[3:] = _orthogonal_directions("gravity", robot.model.gravity)
    else:
        directions = np.eye(6)[:, 1:]
        directions[:3, :2] = _orthogonal_directions("axis", np.array(values["axis"]))
        axes = axes_link(robot, "axis_frame", axis_frame) if axis_frame else None
    m = directions.shape[1]
    return _make_constraints(robot, (tip_frame,) * m, directions, np.zeros(m), axes)


def constraints_from_message(robot: RobotContext, message: Any) -> Constraints:
    """Return the constraints of a dyn_ros/AccelerationConstraints."""
    axes = axes_link(robot, "header.frame_id", message.header.frame_id)
    rows, cols, data = message.directions.rows, message.directions.cols, message.directions.data
    if rows != 6 and (rows or cols):
        raise Rejected(f"directions: expected 6 rows (linear, angular), got {rows} x {cols}")
    if len(data) != rows * cols:
        raise Rejected(f"directions: {rows} x {cols}, but {len(data)} numbers")
    if cols > MAX_CONSTRAINTS:
        raise Rejected(f"directions: expected at most {MAX_CONSTRAINTS} columns, got {cols}")
    frames, acceleration = tuple(message.frame), np.array(message.acceleration, float)
    if len(acceleration) not in (0, cols):
        raise Rejected(
            f"acceleration: expected one number for each of the {cols} columns of "
            f"directions, or none, got {len(acceleration)}"
        )
    if not np.isfinite(acceleration).all():
        raise Rejected(
            f"acceleration: expected finite numbers, got {short_repr(acceleration.tolist())}"
        )
    return _make_constraints(
        robot,
        frames * cols if len(frames) == 1 else frames,
        np.array(data, float).reshape(6, cols),
        acceleration if len(acceleration) else np.zeros(cols),
        axes,
    )


def _make_constraints(
    robot: RobotContext,
    frames: tuple[str, ...],
    directions: Array,
    acceleration: Array,
    axes: str | None,
) -> Constraints:
    """Return `Constraints`; raise a ValueError if the engine cannot solve them at rest.

    `frames` (m,), `directions` (6, m), `acceleration` (m,) and `axes` are fields of `Constraints`.
    """
    constraints = Constraints(frames, directions, acceleration, axes)
    model = robot.model
    motion = solve_constraints(robot, model.neutral(), np.zeros(model.nv), constraints)
    if not np.isfinite(motion.constraint_generalized_forces).all():
        largest = max(np.abs(directions).max(initial=0.0), np.abs(acceleration).max(initial=0.0))
        raise Rejected(
            f"directions, acceleration: numbers up to {largest:g} are too large; scale both"
        )
    return constraints


def solve_constraints(
    robot: RobotContext,
    q: Array,
    v: Array,
    constraints: Constraints,
    tau: Array | None = None,
    f_ext: Array | None = None,
    **options: Any,
) -> ConstrainedMotion:
    """Return `dyn_ros.constrained_dynamics` under constraints, with further options.

    `tau` (nv,) are feed-forward torques, `f_ext` (njoints, 6) external wrenches; None: zero.
    """
    return dyn_ros.constrained_dynamics(
        robot.model,
        robot.data,
        q,
        v,
        constraints.frame,
        constraints.directions,
        constraints.acceleration,
        tau,
        f_ext,
        axes=constraints.axes,
        **options,
    )


def achieved_acceleration(
    robot: RobotContext, q: Array, v: Array, constraints: Constraints, ddq: Array, oMf: Array
) -> Array:
    """Return the classical accelerations of the constrained frames along the directions, (m,).

    `ddq` (nv,) are the joint accelerations, `oMf` (nframes, 4, 4) the placements of all frames at
    q.
    """
    model, data = robot.model, robot.data
    axes = None if constraints.axes is None else model.frame_index(constraints.axes)
    R = axes_rotation(axes, oMf)
    names, result = np.array(constraints.frame), np.zeros(len(constraints.frame))
    for frame in dict.fromkeys(constraints.frame):
        a = dyn_ros.frame_classical_acceleration(
            model, data, q, v, ddq, frame, dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
        )
        mask = names == frame
        result[mask] = (a.reshape(2, 3) @ R).ravel() @ constraints.directions[:, mask]
    return result


def _moving_frame_names(model: Model) -> list[str]:
    """Return the frames that a joint moves."""
    return [frame.name for frame in model.tree.frames if frame.parent >= 0]


def _orthogonal_directions(name: str, axis: Array) -> Array:
    """Return two unit vectors, the columns of a (3, 2), orthogonal to an axis and to each other."""
    largest = abs(axis).max()
    if not largest > 0.0:
        raise Rejected(f"{name} is zero and has no direction")
    axis = axis / largest  # so that squares neither overflow nor underflow
    axis /= np.linalg.norm(axis)
    k = np.argmin(abs(axis))
    first = np.eye(3)[k] - axis[k] * axis
    first /= np.linalg.norm(first)
    return np.column_stack([first, np.cross(axis, first)])
