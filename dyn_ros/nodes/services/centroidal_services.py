# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The services of centroidal_node. All links are included.

The engine excludes the link of a fixed base. That link does not move, but it shifts the center of
mass: com = (1 - base_fraction) com_moving + base_fraction com_base, where base_fraction is its
fraction of the total mass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.srv import GetCentroidalDerivatives, GetCentroidalMap, GetComJacobian

from ..base.service import Service
from ..messages import arrays, message_fields
from ..robot import RobotContext, State


def get_com_jacobian(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the Jacobian of the center of mass and, if known, its time variation."""
    model, data = robot.model, robot.data
    mass, base_fraction, _ = _set_mass_and_com(robot, response, state)
    J = (1.0 - base_fraction) * dyn_ros.com_jacobian(model, data, state.q)
    arrays.set_matrix(response.jacobian, J[:, robot.rows])
    dAg = dyn_ros.dccrba(model, data, state.q, arrays.velocity_or_zeros(state))
    dJ = dAg[:3] / mass if mass else np.zeros_like(J)
    arrays.set_matrix(response.jacobian_time_variation, dJ[:, robot.rows], response.velocity_valid)


def get_centroidal_map(robot: RobotContext, request: Any, response: Any, state: State) -> None:
    """Compute the centroidal map from velocities to momentum and, if known, its time variation."""
    model, data = robot.model, robot.data
    _, base_fraction, lever = _set_mass_and_com(robot, response, state)
    dyn_ros.dccrba(model, data, state.q, arrays.velocity_or_zeros(state))
    arrays.set_matrix(response.centroidal_map, _shift_momenta(data.Ag, lever)[:, robot.rows])
    dAg = _shift_momenta(data.dAg, lever)
    dAg[3:] += np.cross(base_fraction * data.vcom, data.Ag[:3], axisb=0).T
    arrays.set_matrix(
        response.centroidal_map_time_variation, dAg[:, robot.rows], response.velocity_valid
    )


def get_centroidal_derivatives(
    robot: RobotContext, request: Any, response: Any, state: State
) -> None:
    """Compute derivatives of the momentum about the center of mass, and of its rate."""
    model, data, q, v = robot.model, robot.data, state.q, state.require_velocities()
    a = arrays.read_vector(robot, request, "acceleration")
    response.header.frame_id = robot.world_frame
    derivatives = [x.copy() for x in dyn_ros.centroidal_derivatives(model, data, q, v, a)]
    if robot.base.mass > 0.0:
        _, _, base_fraction, lever = _center_of_mass(robot, q)
        dlever = base_fraction * dyn_ros.com_jacobian(model, data, q)
        dh = dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a)
        for derivative, force in zip(derivatives, (data.hg, dh)):
            derivative[3:] += np.cross(dlever, force[:3], axisa=0).T
        derivatives = [_shift_momenta(derivative, lever) for derivative in derivatives]
    for field, derivative in zip(("dh_dq", "dhdot_dq", "dhdot_dv", "dhdot_da"), derivatives):
        arrays.set_matrix(getattr(response, field), derivative[:, robot.rows])


def _set_mass_and_com(
    robot: RobotContext, response: Any, state: State
) -> tuple[float, float, Array]:
    """Set header, mass and center of mass; return mass, base_fraction and lever (see below)."""
    com, mass, base_fraction, lever = _center_of_mass(robot, state.q)
    response.header.frame_id = robot.world_frame
    response.mass = mass
    message_fields.set_vector(response.com, *arrays.to_float64_field(com - lever))
    return mass, base_fraction, lever


def _center_of_mass(robot: RobotContext, q: Array) -> tuple[Array, float, float, Array]:
    """Return the center of mass of the moving links, the total mass, base_fraction and lever.

    The lever points from the center of mass of all links to that of the moving links.
    """
    base = robot.base
    com = dyn_ros.center_of_mass(robot.model, robot.data, q)[0]
    mass = robot.model.total_mass + base.mass
    base_fraction = base.mass / mass if mass else 0.0
    return com, mass, base_fraction, base_fraction * (com - base.com)


def _shift_momenta(momenta: Array, lever: Array) -> Array:
    """Return momenta, (6, n), about a point that is displaced by -`lever` [m]."""
    shifted = momenta.copy()
    shifted[3:] += np.cross(lever, momenta[:3], axisb=0).T
    return shifted


KERNELS = ("center_of_mass", "com_jacobian", "dccrba")
SERVICES = (
    Service("~/get_com_jacobian", GetComJacobian, get_com_jacobian),
    Service("~/get_centroidal_map", GetCentroidalMap, get_centroidal_map),
)
DERIVATIVE_KERNELS = ("centroidal_derivatives", "com_jacobian", "center_of_mass")
DERIVATIVE_SERVICES = (
    Service("~/get_centroidal_derivatives", GetCentroidalDerivatives, get_centroidal_derivatives),
)
