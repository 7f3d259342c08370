# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node and centroidal_node that return derivatives."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.srv import (
    GetAbaDerivatives,
    GetCentroidalDerivatives,
    GetFrameDerivatives,
    GetRneaDerivatives,
)

from ...states.states import State
from ..base.parameters import Spec
from ..base.robot import RobotContext
from ..messages.frames import reference_frame_id
from ..messages.wrenches import requested_forces
from .service import Service, set_matrix, set_tensor, vector

SPEC = Spec("derivatives", True,
            "Provide the services that return derivatives. false: the first start on a machine "
            "compiles for about half as long.",
            read_only=True)


def get_rnea_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Derivatives of the efforts that a motion requires; second order on request."""
    a = vector(robot, "acceleration", request.name, request.acceleration)
    given = (robot.model, robot.data, state.q, state.velocity(), a,
             requested_forces(robot, request, state.q))
    response.name = robot.names
    if request.second_order:            # computes the first order in data as well
        _set_tensors(robot, response, ("d2tau_dqdq", "d2tau_dvdv", "d2tau_dqdv", "d2tau_dadq"),
                     dyn_ros.rnea_second_order_derivatives(*given))
    else:
        dyn_ros.rnea_derivatives(*given)
    data = robot.data
    _set_matrices(robot, response, ("dtau_dq", "dtau_dv", "dtau_da"),
                  (data.dtau_dq, data.dtau_dv, data.M))


def get_aba_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Derivatives of the acceleration that efforts produce; second order on request."""
    tau = vector(robot, "effort", request.name, request.effort)
    given = (robot.model, robot.data, state.q, state.velocity(), tau,
             requested_forces(robot, request, state.q))
    response.name = robot.names
    if request.second_order:            # computes the first order in data as well
        _set_tensors(robot, response, ("d2ddq_dqdq", "d2ddq_dvdv", "d2ddq_dqdv",
                                        "d2ddq_dtaudq"),
                     dyn_ros.aba_second_order_derivatives(*given))
    else:
        dyn_ros.aba_derivatives(*given)
    data = robot.data
    _set_matrices(robot, response, ("ddq_dq", "ddq_dv", "ddq_dtau"),
                  (data.ddq_dq, data.ddq_dv, data.Minv))


def get_frame_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Derivatives of the velocity and of the spatial acceleration of a frame."""
    place = request.frame, request.reference_frame
    a = vector(robot, "acceleration", request.name, request.acceleration)
    dyn_ros.frame_acceleration_derivatives(
        robot.model, robot.data, state.q, state.velocity(), a, *place)
    response.header.frame_id = reference_frame_id(robot, *place)
    response.name = robot.names
    for field in ("v_partial_dq", "v_partial_dv", "a_partial_dq", "a_partial_dv", "a_partial_da"):
        set_matrix(getattr(response, field), getattr(robot.data, field)[:, robot.rows])


def get_centroidal_derivatives(robot: RobotContext, request: Any, response: Any,
                               state: State) -> None:
    """Derivatives of the momentum of all links about their center of mass, and of its rate.

    The engine excludes the link of a fixed base. That link does not move, but it shifts the
    center of mass: the total one is `share` of the way from that of the moving links to its own.
    """
    model, data, v = robot.model, robot.data, state.velocity()
    a = vector(robot, "acceleration", request.name, request.acceleration)
    response.header.frame_id = robot.world_frame
    response.name = robot.names
    dh_dq, dhdot_dq, dhdot_dv, dhdot_da = (
        x.copy() for x in dyn_ros.centroidal_derivatives(model, data, state.q, v, a))
    base = robot.base
    if base.mass > 0.0:
        share = base.mass / (base.mass + model.total_mass)
        dlever = share * dyn_ros.com_jacobian(model, data, state.q)
        lever = share * (dyn_ros.center_of_mass(model, data, state.q)[0] - base.com)
        dh = dyn_ros.centroidal_momentum_time_derivative(model, data, state.q, v, a)
        for derivative, force in ((dh_dq, data.hg), (dhdot_dq, dh)):
            derivative[3:] += np.cross(dlever, force[:3], axisa=0).T
        for derivative in (dh_dq, dhdot_dq, dhdot_dv, dhdot_da):
            derivative[3:] += np.cross(lever, derivative[:3], axisb=0).T
    for field, value in (("dh_dq", dh_dq), ("dhdot_dq", dhdot_dq),
                         ("dhdot_dv", dhdot_dv), ("dhdot_da", dhdot_da)):
        set_matrix(getattr(response, field), value[:, robot.rows])


def _set_matrices(robot: RobotContext, response: Any, fields: Iterable[str],
                  matrices: Iterable[Array]) -> None:
    for field, matrix in zip(fields, matrices):
        set_matrix(getattr(response, field), matrix[robot.block])


def _set_tensors(robot: RobotContext, response: Any, fields: Iterable[str],
                 tensors: Iterable[Array]) -> None:
    rows = np.arange(robot.model.nv)[robot.rows]
    for field, tensor in zip(fields, tensors):
        set_tensor(getattr(response, field), tensor[np.ix_(rows, rows, rows)])


DYNAMICS_KERNELS = ("rnea_derivatives", "aba_derivatives", "rnea_second_order_derivatives",
                    "aba_second_order_derivatives", "frame_acceleration_derivatives")
DYNAMICS_SERVICES = (
    Service("~/get_rnea_derivatives", GetRneaDerivatives, get_rnea_derivatives),
    Service("~/get_aba_derivatives", GetAbaDerivatives, get_aba_derivatives),
    Service("~/get_frame_derivatives", GetFrameDerivatives, get_frame_derivatives),
)
CENTROIDAL_KERNELS = ("centroidal_derivatives", "com_jacobian", "center_of_mass")
CENTROIDAL_SERVICES = (
    Service("~/get_centroidal_derivatives", GetCentroidalDerivatives, get_centroidal_derivatives),
)
