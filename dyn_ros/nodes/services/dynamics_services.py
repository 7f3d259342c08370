# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import dyn_ros
from dyn_ros import Data, Model, ReferenceFrame, srv
from dyn_ros.engine.kernel.names import join_names
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.coordinates import independent_joint_indices, single_coordinate_joints
from dyn_ros.engine.model.frames import frame_number

from ...states.joint_states import MAX_MAGNITUDE, Rejected, abbreviate_names, find_duplicates
from ..base.service import Service
from ..messages import arrays, message_fields
from ..messages.frame_ids import reference_frame_id, requested_forces
from ..robot import RobotContext, State
from . import model_services


def get_jacobian(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the Jacobian of a frame and, on request, its time variation and Hessian."""
    model, data, point = robot.model, robot.data, request.offset
    frames = request.frame, request.reference_frame
    offset = np.array([point.x, point.y, point.z]) if point != Point() else None
    if request.time_variation:
        dJ = dyn_ros.frame_jacobian_time_variation(
            model, data, state.q, state.require_velocities(), *frames, offset
        )
        J = data.frame_jacobian
        arrays.set_matrix(response.jacobian_time_variation, dJ[:, robot.rows])
    else:
        J = dyn_ros.frame_jacobian(model, data, state.q, *frames, offset)
    response.header.frame_id = reference_frame_id(robot, *frames)
    arrays.set_matrix(response.jacobian, J[:, robot.rows])
    if request.hessian:
        H = point_hessian(model, data, state.q, *frames, offset)
        arrays.set_tensor(response.hessian, H[:, robot.rows][:, :, robot.rows])


def point_hessian(
    model: Model,
    data: Data,
    q: Array,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    offset: Array | None = None,
) -> Array:
    """Return the derivative of the Jacobian of a point that moves with a frame, (6, nv, nv).

    The point, at `offset` (3,) in the axes of the frame [m], is irrelevant for WORLD.
    """
    H = dyn_ros.frame_hessian(model, data, q, frame, reference_frame)
    if offset is None or reference_frame == ReferenceFrame.WORLD:
        return H
    H = H.copy()
    if reference_frame == ReferenceFrame.LOCAL:  # constant lever
        H[:3] += np.cross(H[3:], offset, axisa=0, axisc=0)
        return H
    index = frame_number(model, frame)
    lever = dyn_ros.frame_placements(model, data, q)[index, :3, :3] @ offset
    w = dyn_ros.frame_jacobian(model, data, q, frame, reference_frame)[3:]
    dlever = np.cross(w, lever, axisa=0)  # (nv, 3): along each coordinate
    H[:3] += np.cross(H[3:], lever, axisa=0, axisc=0)
    H[:3] += np.moveaxis(np.cross(w.T[:, None], dlever[None]), -1, 0)
    return H


def get_frame_state(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the pose of a frame and, if known, its velocity and acceleration."""
    model, data = robot.model, robot.data
    frames = request.frame, request.reference_frame
    index = frame_number(model, request.frame)
    a = arrays.read_vector(robot, request, "acceleration")
    placement = dyn_ros.frame_placements(model, data, state.q)[index]
    arrays.to_float64_field(placement)
    message_fields.set_pose(response.pose.pose, placement)
    response.pose.header.stamp = response.header.stamp
    response.pose.header.frame_id = robot.world_frame
    v = arrays.velocity_or_zeros(state)
    velocity = dyn_ros.frame_velocity(model, data, state.q, v, *frames)
    acceleration = dyn_ros.frame_acceleration(model, data, state.q, v, a, *frames)
    response.header.frame_id = reference_frame_id(robot, *frames)
    for twist, values in (
        (response.velocity, velocity),
        (response.acceleration, acceleration),
        (response.classical_acceleration, data.frame_classical_acceleration),
    ):
        message_fields.set_twist(twist, arrays.to_float64_field(values, response.velocity_valid))


def get_inverse_dynamics(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the efforts that produce an acceleration."""
    a = arrays.read_vector(robot, request, "acceleration")
    tau = dyn_ros.rnea(
        robot.model,
        robot.data,
        state.q,
        state.require_velocities(),
        a,
        requested_forces(robot, request, state.q),
    )
    effort = tau + robot.friction(state.require_velocities(), tau)
    response.effort = arrays.to_float64_field(effort[robot.rows])
    response.friction_included = robot.includes_friction


def get_forward_dynamics(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the acceleration that efforts produce."""
    tau = arrays.read_vector(robot, request, "effort")
    a = dyn_ros.aba(
        robot.model,
        robot.data,
        state.q,
        state.require_velocities(),
        tau,
        requested_forces(robot, request, state.q),
    )
    response.acceleration = arrays.to_float64_field(a[robot.rows])


def get_dynamics(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the inertia matrix and gravity and, if known, nle and the Coriolis matrix."""
    arguments = robot.model, robot.data, state.q
    motion_arguments, velocity_valid = (
        (*arguments, arrays.velocity_or_zeros(state)),
        response.velocity_valid,
    )
    arrays.set_matrix(response.inertia, dyn_ros.crba(*arguments)[robot.block])
    response.gravity = arrays.to_float64_field(dyn_ros.generalized_gravity(*arguments)[robot.rows])
    response.nle = arrays.to_float64_field(
        dyn_ros.nonlinear_effects(*motion_arguments)[robot.rows], velocity_valid
    )
    arrays.set_matrix(
        response.coriolis, dyn_ros.coriolis_matrix(*motion_arguments)[robot.block], velocity_valid
    )


def get_energies(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the potential energy and, if known, the kinetic and mechanical energy."""
    data = robot.data
    response.header.frame_id = robot.world_frame
    dyn_ros.mechanical_energy(robot.model, data, state.q, arrays.velocity_or_zeros(state))
    [response.potential] = arrays.to_float64_field(np.array([data.potential_energy]))
    response.kinetic, response.mechanical = arrays.to_float64_field(
        np.array([data.kinetic_energy, data.mechanical_energy]), response.velocity_valid
    )


def needs_state(robot: RobotContext, request: Any) -> bool:
    """Return True if the trajectory omits independent joints, or the base moves."""
    model = robot.model
    required_joints = independent_joint_indices(model).keys()
    return any(nv > 1 for nv in model.nvs) or not required_joints <= set(
        request.trajectory.joint_names
    )


def get_trajectory_efforts(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the efforts at each point of a trajectory, and which exceed their limits."""
    q, v, a = _read_trajectory(robot.model, request.trajectory, state)
    tau = dyn_ros.rnea(robot.model, robot.data, q, v, a)
    tau = (tau + robot.friction(v, tau))[:, robot.rows]
    response.friction_included = robot.includes_friction
    limits = robot.model.effort_limit[robot.rows]
    arrays.set_matrix(response.effort, tau)
    response.effort_limit = limits.tolist()
    points, columns = np.nonzero(np.abs(tau) > limits)
    response.exceeding_point = points.tolist()
    response.exceeding_name = [robot.names[column] for column in columns]


def _read_trajectory(
    model: Model, trajectory: JointTrajectory, state: State
) -> tuple[Array, Array, Array]:
    """Return q, v, a of all points: (n, nq), (n, nv), (n, nv); omitted joints are as in `state`."""
    names, points = list(trajectory.joint_names), trajectory.points
    if not points:
        raise Rejected("trajectory: expected at least one point, got 0")
    columns, joints = _trajectory_joints(model, names)
    q = np.tile(state.q, (len(points), 1))
    unnamed_joints = state._replace(unknown=[name for name in state.unknown if name not in names])
    v = np.tile(unnamed_joints.require_velocities(), (len(points), 1))
    a = np.zeros_like(v)
    q_columns = [model.idx_q[joint] for joint in joints]
    v_columns = [model.idx_v[joint] for joint in joints]
    q[:, q_columns] = _stack_points("positions", points, names, columns, optional=False)
    v[:, v_columns] = _stack_points("velocities", points, names, columns)
    a[:, v_columns] = _stack_points("accelerations", points, names, columns)
    return q, v, a


def _trajectory_joints(model: Model, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the columns of joints with one coordinate in a trajectory, and the joints' indices.

    Columns of mimic joints are ignored.
    """
    if len(set(names)) != len(names):
        raise Rejected(
            "trajectory: duplicate joint names: " + abbreviate_names(find_duplicates(names))
        )
    joint_indices = single_coordinate_joints(model)
    mimics = set(model.joint_names) - independent_joint_indices(model).keys()
    for name in names:
        if name not in joint_indices and name not in mimics:
            raise Rejected(
                f"trajectory: there is no joint {name!r:.80} with one coordinate; "
                f"available: {join_names(joint_indices)}"
            )
    columns = [k for k, name in enumerate(names) if name in joint_indices]
    return columns, [joint_indices[names[k]] for k in columns]


def _stack_points(
    field: str,
    points: Sequence[JointTrajectoryPoint],
    names: Sequence[str],
    columns: Sequence[int],
    optional: bool = True,
) -> Array:
    """Return columns of a field of all points, (n, len(columns)); an empty optional field is 0."""
    result = np.zeros((len(points), len(names)))
    for i, point in enumerate(points):
        values = getattr(point, field)
        if len(values) == len(names):
            result[i] = values
        elif len(values) or not optional:
            raise Rejected(
                f"trajectory: point {i} has {len(values)} {field}, expected "
                f"{len(names)}, one for each joint" + (", or none" * optional)
            )
    usable = np.abs(result) <= MAX_MAGNITUDE
    usable[:, np.setdiff1d(np.arange(len(names)), columns)] = True
    if not usable.all():
        i, k = np.argwhere(~usable)[0]
        fault = "too large" if np.isfinite(result[i, k]) else "not finite"
        raise Rejected(
            f"trajectory: {field} of point {i}: {names[k]} = {result[i, k]:g} is {fault}"
        )
    return result[:, columns]


def get_rnea_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute first derivatives of inverse dynamics and, on request, second derivatives."""
    a = arrays.read_vector(robot, request, "acceleration")
    _fill_derivatives(
        robot,
        request,
        response,
        state,
        a,
        dyn_ros.rnea_derivatives,
        dyn_ros.rnea_second_order_derivatives,
        ("d2tau_dqdq", "d2tau_dvdv", "d2tau_dqdv", "d2tau_dadq"),
        {"dtau_dq": "dtau_dq", "dtau_dv": "dtau_dv", "dtau_da": "M"},
    )


def get_aba_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute first derivatives of forward dynamics and, on request, second derivatives."""
    tau = arrays.read_vector(robot, request, "effort")
    _fill_derivatives(
        robot,
        request,
        response,
        state,
        tau,
        dyn_ros.aba_derivatives,
        dyn_ros.aba_second_order_derivatives,
        ("d2ddq_dqdq", "d2ddq_dvdv", "d2ddq_dqdv", "d2ddq_dtaudq"),
        {"ddq_dq": "ddq_dq", "ddq_dv": "ddq_dv", "ddq_dtau": "Minv"},
    )


def _fill_derivatives(
    robot: RobotContext,
    request: Any,
    response: Any,
    state: State,
    a_or_tau: Array,
    first_order: Callable[..., Any],
    second_order: Callable[..., Iterable[Array]],
    tensors: Sequence[str],
    matrices: Mapping[str, str],
) -> None:
    """Fill a response with derivatives.

    `tensors` are its fields for the results of `second_order`, in their order; `matrices` are its
    fields for first derivatives, each with the field of `Data` that has it.
    """
    arguments = (
        robot.model,
        robot.data,
        state.q,
        state.require_velocities(),
        a_or_tau,
        requested_forces(robot, request, state.q),
    )
    if request.second_order:  # computes the first order in data as well
        rows = np.arange(robot.model.nv)[robot.rows]
        block = np.ix_(rows, rows, rows)
        for field, tensor in zip(tensors, second_order(*arguments)):
            arrays.set_tensor(getattr(response, field), tensor[block])
    else:
        first_order(*arguments)
    for field, name in matrices.items():
        arrays.set_matrix(getattr(response, field), getattr(robot.data, name)[robot.block])


def get_frame_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute derivatives of the velocity and acceleration of a frame."""
    frames = request.frame, request.reference_frame
    a = arrays.read_vector(robot, request, "acceleration")
    dyn_ros.frame_acceleration_derivatives(
        robot.model, robot.data, state.q, state.require_velocities(), a, *frames
    )
    response.header.frame_id = reference_frame_id(robot, *frames)
    for field in ("v_partial_dq", "v_partial_dv", "a_partial_dq", "a_partial_dv", "a_partial_da"):
        arrays.set_matrix(getattr(response, field), getattr(robot.data, field)[:, robot.rows])


KERNELS = (
    "frame_jacobian",
    "frame_jacobian_time_variation",
    "frame_hessian",
    "frame_placements",
    "frame_velocity",
    "frame_acceleration",
    "rnea",
    "aba",
    "crba",
    "generalized_gravity",
    "nonlinear_effects",
    "coriolis_matrix",
    "mechanical_energy",
)
BATCH_KERNELS = ("rnea",)
SERVICES = (
    Service("~/get_jacobian", srv.GetJacobian, get_jacobian),
    Service("~/get_frame_state", srv.GetFrameState, get_frame_state),
    Service("~/get_inverse_dynamics", srv.GetInverseDynamics, get_inverse_dynamics),
    Service("~/get_forward_dynamics", srv.GetForwardDynamics, get_forward_dynamics),
    Service("~/get_dynamics", srv.GetDynamics, get_dynamics),
    Service("~/get_energies", srv.GetEnergies, get_energies),
    Service(
        "~/get_trajectory_efforts", srv.GetTrajectoryEfforts, get_trajectory_efforts, needs_state
    ),
    *model_services.SERVICES,
)
DERIVATIVE_KERNELS = (
    "rnea_derivatives",
    "aba_derivatives",
    "rnea_second_order_derivatives",
    "aba_second_order_derivatives",
    "frame_acceleration_derivatives",
)
DERIVATIVE_SERVICES = (
    Service("~/get_rnea_derivatives", srv.GetRneaDerivatives, get_rnea_derivatives),
    Service("~/get_aba_derivatives", srv.GetAbaDerivatives, get_aba_derivatives),
    Service("~/get_frame_derivatives", srv.GetFrameDerivatives, get_frame_derivatives),
)
