# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of dynamics_node and centroidal_node that return derivatives."""
import numpy as np

import dyn_ros
from dyn_ros.srv import GetAbaDerivatives, GetCentroidalDerivatives, GetRneaDerivatives

from .parameters import Spec
from .services import Service, external_forces, numbers, set_matrix, vector

SPEC = Spec("derivatives", True,
            "Provide the services that return derivatives. false: the first start on a machine "
            "compiles for about half as long.",
            read_only=True)


def get_rnea_derivatives(robot, request, response, state):
    """Derivatives of the torques that a motion requires; second order on request."""
    a = vector(robot, "acceleration", request.name, request.acceleration)
    given = (robot.model, robot.data, state.q, state.velocity(), a,
             external_forces(robot, request.wrenches))
    response.name = robot.names
    if request.second_order:            # computes the first order in data as well
        _set_tensors(robot, response, ("d2tau_dqdq", "d2tau_dvdv", "d2tau_dqdv", "d2tau_dadq"),
                     dyn_ros.rnea_second_order_derivatives(*given))
    else:
        dyn_ros.rnea_derivatives(*given)
    data = robot.data
    _set_matrices(robot, response, ("dtau_dq", "dtau_dv", "dtau_da"),
                  (data.dtau_dq, data.dtau_dv, data.M))


def get_aba_derivatives(robot, request, response, state):
    """Derivatives of the acceleration that torques produce; second order on request."""
    tau = vector(robot, "effort", request.name, request.effort)
    given = (robot.model, robot.data, state.q, state.velocity(), tau,
             external_forces(robot, request.wrenches))
    response.name = robot.names
    if request.second_order:            # computes the first order in data as well
        _set_tensors(robot, response, ("d2a_dqdq", "d2a_dvdv", "d2a_dqdv", "d2a_dtaudq"),
                     dyn_ros.aba_second_order_derivatives(*given))
    else:
        dyn_ros.aba_derivatives(*given)
    data = robot.data
    _set_matrices(robot, response, ("da_dq", "da_dv", "da_dtau"),
                  (data.ddq_dq, data.ddq_dv, data.Minv))


def get_centroidal_derivatives(robot, request, response, state):
    """Derivatives of the momentum of all links about their center of mass, and of its rate.

    The engine excludes the link of a fixed base. That link does not move, but it shifts the
    center of mass: the total one is `share` of the way from that of the moving links to its own.
    """
    model, data, v = robot.model, robot.data, state.velocity()
    a = vector(robot, "acceleration", request.name, request.acceleration)
    response.header.frame_id = robot.world_frame
    response.name = robot.names
    dh_dq, dhdot_dq, dhdot_dv, dh_dv = (
        x.copy() for x in dyn_ros.centroidal_derivatives(model, data, state.q, v, a))
    base = model.base_inertia
    if base.mass > 0.0:
        share = base.mass / (base.mass + model.total_mass)
        dlever = share * dyn_ros.com_jacobian(model, data, state.q)
        lever = share * (dyn_ros.center_of_mass(model, data, state.q)[0] - base.com)
        dh = dyn_ros.centroidal_momentum_time_derivative(model, data, state.q, v, a)
        for derivative, force in ((dh_dq, data.hg), (dhdot_dq, dh)):
            derivative[3:] += np.cross(dlever, force[:3], axisa=0).T
        for derivative in (dh_dq, dhdot_dq, dhdot_dv, dh_dv):
            derivative[3:] += np.cross(lever, derivative[:3], axisb=0).T
    for field, value in (("dh_dq", dh_dq), ("dh_dv", dh_dv), ("dhdot_dq", dhdot_dq),
                         ("dhdot_dv", dhdot_dv)):
        set_matrix(getattr(response, field), value[:, robot.rows])


def _set_matrices(robot, response, fields, matrices):
    for field, matrix in zip(fields, matrices):
        set_matrix(getattr(response, field), matrix[robot.block])


def _set_tensors(robot, response, fields, tensors):
    rows = np.arange(robot.model.nv)[robot.rows]
    for field, tensor in zip(fields, tensors):
        block, target = tensor[np.ix_(rows, rows, rows)], getattr(response, field)
        target.shape, target.data = block.shape, numbers(block)


DYNAMICS_KERNELS = ("rnea_derivatives", "aba_derivatives", "rnea_second_order_derivatives",
                    "aba_second_order_derivatives")
DYNAMICS_SERVICES = (
    Service("~/get_rnea_derivatives", GetRneaDerivatives, get_rnea_derivatives),
    Service("~/get_aba_derivatives", GetAbaDerivatives, get_aba_derivatives),
)
CENTROIDAL_KERNELS = ("centroidal_derivatives", "com_jacobian", "center_of_mass")
CENTROIDAL_SERVICES = (
    Service("~/get_centroidal_derivatives", GetCentroidalDerivatives, get_centroidal_derivatives),
)
