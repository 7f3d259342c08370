# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node and centroidal_node that return derivatives."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import dyn_ros
from dyn_ros import srv
from dyn_ros.engine.kernel.types import Array

from ..base.parameters import Spec
from ..base.service import Service
from ..messages import arrays
from ..messages.frames import reference_frame_id, requested_forces
from ..robot import RobotContext, State

SPEC = Spec("derivatives", True,
            "Provide the services that return derivatives. false: the first start on a machine "
            "compiles for about half as long.",
            read_only=True)


def get_rnea_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Derivatives of the efforts that a motion requires; second order on request."""
    a = arrays.vector(robot, "acceleration", request.name, request.acceleration)
    _fill(robot, request, response, state, a, dyn_ros.rnea_derivatives,
          dyn_ros.rnea_second_order_derivatives,
          ("d2tau_dqdq", "d2tau_dvdv", "d2tau_dqdv", "d2tau_dadq"),
          {"dtau_dq": "dtau_dq", "dtau_dv": "dtau_dv", "dtau_da": "M"})


def get_aba_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Derivatives of the acceleration that efforts produce; second order on request."""
    tau = arrays.vector(robot, "effort", request.name, request.effort)
    _fill(robot, request, response, state, tau, dyn_ros.aba_derivatives,
          dyn_ros.aba_second_order_derivatives,
          ("d2ddq_dqdq", "d2ddq_dvdv", "d2ddq_dqdv", "d2ddq_dtaudq"),
          {"ddq_dq": "ddq_dq", "ddq_dv": "ddq_dv", "ddq_dtau": "Minv"})


def _fill(robot: RobotContext, request: Any, response: Any, state: State, given: Array,
          first_order: Callable[..., Any], second_order: Callable[..., Iterable[Array]],
          tensors: Sequence[str], matrices: Mapping[str, str]) -> None:
    """Fill the fields of tensors in their order, and those of matrices from these of `Data`."""
    arguments = (robot.model, robot.data, state.q, state.velocity(), given,
                 requested_forces(robot, request, state.q))
    if request.second_order:            # computes the first order in data as well
        rows = np.arange(robot.model.nv)[robot.rows]
        block = np.ix_(rows, rows, rows)
        for field, tensor in zip(tensors, second_order(*arguments)):
            arrays.set_tensor(getattr(response, field), tensor[block])
    else:
        first_order(*arguments)
    for field, name in matrices.items():
        arrays.set_matrix(getattr(response, field), getattr(robot.data, name)[robot.block])


def get_frame_derivatives(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Derivatives of the velocity and of the spatial acceleration of a frame."""
    place = request.frame, request.reference_frame
    a = arrays.vector(robot, "acceleration", request.name, request.acceleration)
    dyn_ros.frame_acceleration_derivatives(
        robot.model, robot.data, state.q, state.velocity(), a, *place)
    response.header.frame_id = reference_frame_id(robot, *place)
    for field in ("v_partial_dq", "v_partial_dv", "a_partial_dq", "a_partial_dv", "a_partial_da"):
        arrays.set_matrix(getattr(response, field), getattr(robot.data, field)[:, robot.rows])


def get_centroidal_derivatives(robot: RobotContext, request: Any, response: Any,
                               state: State) -> None:
    """Derivatives of the momentum of all links about their center of mass, and of its rate.

    The link of a fixed base is included as in services/centroidal.py.
    """
    model, data, v = robot.model, robot.data, state.velocity()
    a = arrays.vector(robot, "acceleration", request.name, request.acceleration)
    response.header.frame_id = robot.world_frame
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
        arrays.set_matrix(getattr(response, field), value[:, robot.rows])


DYNAMICS_KERNELS = ("rnea_derivatives", "aba_derivatives", "rnea_second_order_derivatives",
                    "aba_second_order_derivatives", "frame_acceleration_derivatives")
DYNAMICS_SERVICES = (
    Service("~/get_rnea_derivatives", srv.GetRneaDerivatives, get_rnea_derivatives),
    Service("~/get_aba_derivatives", srv.GetAbaDerivatives, get_aba_derivatives),
    Service("~/get_frame_derivatives", srv.GetFrameDerivatives, get_frame_derivatives),
)
CENTROIDAL_KERNELS = ("centroidal_derivatives", "com_jacobian", "center_of_mass")
CENTROIDAL_SERVICES = (
    Service("~/get_centroidal_derivatives", srv.GetCentroidalDerivatives,
            get_centroidal_derivatives),
)
