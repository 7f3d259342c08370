# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The service of dynamics_node that computes the efforts along a trajectory."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import dyn_ros
from dyn_ros import Model
from dyn_ros.engine.kernel.types import Array
from dyn_ros.states.joint_states import duplicates

from ...states.joint_states import LARGEST, Rejected, abbreviated
from ..messages import arrays
from ..robot import RobotContext, State


def needs_state(robot: RobotContext, request: Any) -> bool:
    """Return whether the trajectory leaves out joints, or the base moves."""
    model = robot.model
    own = [name for name, nv in zip(model.joint_names, model.nvs) if nv]
    return any(nv > 1 for nv in model.nvs) or not set(own) <= set(request.trajectory.joint_names)


def get_trajectory_efforts(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """The efforts at each point of a trajectory, and those that exceed the joints' limits."""
    q, v, a = _trajectory(robot.model, request.trajectory, state)
    tau = (dyn_ros.rnea(robot.model, robot.data, q, v, a) + robot.friction(v))[:, robot.rows]
    response.friction_included = robot.includes_friction
    limits = robot.model.effort_limit[robot.rows]
    response.name = robot.names
    arrays.set_matrix(response.effort, tau)
    response.effort_limit = limits.tolist()
    points, columns = np.nonzero(np.abs(tau) > limits)
    response.exceeding_point = points.tolist()
    response.exceeding_name = [robot.names[column] for column in columns]


def _trajectory(model: Model, trajectory: JointTrajectory,
                state: State) -> tuple[Array, Array, Array]:
    """Return q, v, a of all points: (n, nq), (n, nv), (n, nv)."""
    names, points = list(trajectory.joint_names), trajectory.points
    if not points:
        raise Rejected("trajectory: expected at least one point, got 0")
    used, joints = _own_joints(model, names)
    q = np.tile(state.q, (len(points), 1))
    others = state._replace(unknown=[name for name in state.unknown if name not in names])
    v = np.tile(others.velocity(), (len(points), 1))
    a = np.zeros_like(v)
    q_columns = [model.idx_q[joint] for joint in joints]
    v_columns = [model.idx_v[joint] for joint in joints]
    q[:, q_columns] = _of_points("positions", points, names, used, optional=False)
    v[:, v_columns] = _of_points("velocities", points, names, used)
    a[:, v_columns] = _of_points("accelerations", points, names, used)
    return q, v, a


def _own_joints(model: Model, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the indices of the names of joints with one coordinate, and of these joints."""
    if len(set(names)) != len(names):
        raise Rejected("trajectory: duplicate joint names: " + abbreviated(duplicates(names)))
    own = {name: joint for joint, name in enumerate(model.joint_names) if model.nvs[joint] == 1}
    mimics = {name for name, nv in zip(model.joint_names, model.nvs) if not nv}
    for name in names:
        if name not in own and name not in mimics:
            raise Rejected(f"trajectory: there is no joint {name!r:.80} with one coordinate; "
                           "available: " + ", ".join(own))
    used = [k for k, name in enumerate(names) if name in own]
    return used, [own[names[k]] for k in used]


def _of_points(field: str, points: Sequence[JointTrajectoryPoint], names: Sequence[str],
               used: Sequence[int], optional: bool = True) -> Array:
    """Return a field of all points, (n, len(used)); zeros where an optional one is empty."""
    result = np.zeros((len(points), len(names)))
    for i, point in enumerate(points):
        values = getattr(point, field)
        if len(values) == len(names):
            result[i] = values
        elif len(values) or not optional:
            raise Rejected(f"trajectory: point {i} has {len(values)} {field}, expected "
                           f"{len(names)}, one for each joint" + (", or none" * optional))
    usable = np.abs(result) <= LARGEST
    usable[:, np.setdiff1d(np.arange(len(names)), used)] = True
    if not usable.all():
        i, k = np.argwhere(~usable)[0]
        fault = "too large" if np.isfinite(result[i, k]) else "not finite"
        raise Rejected(f"trajectory: {field} of point {i}: {names[k]} = {result[i, k]:g} is "
                       f"{fault}")
    return result[:, used]
