# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the mass, center of mass, momentum and locked inertia of a robot as it moves."""
import math

import numpy as np

import dyn_ros
from dyn_ros.msg import CentroidalState

from . import conversions
from .base import Output, RobotNode, run
from .derivative_services import CENTROIDAL_KERNELS, CENTROIDAL_SERVICES
from .derivative_services import SPEC as DERIVATIVES
from .differences import Differences
from .markers import CENTROIDAL, WHOLE
from .parameters import Spec
from .state import Refused, some

UNKNOWN = (math.nan,) * 6
TOO_LARGE = "the numbers of the state are too large to compute with"


class CentroidalNode(RobotNode):
    """Publishes `~/state` and `~/markers`; answers `~/get_centroidal_derivatives`."""

    kernels = ("all_terms", "aba")
    markers = CENTROIDAL
    specs = (
        Spec("acceleration_source", "none",
             "Where the accelerations for the rates come from. finite_difference: backward "
             "differences of the velocities by their stamps, through a first-order low pass; anew "
             "after a stamp that goes back, a gap longer than staleness, or a new robot. "
             "forward_dynamics: the measured effort, as if nothing touched the robot: a floating "
             "base flies, a planar one glides.",
             choices=("none", "finite_difference", "forward_dynamics")),
        Spec("acceleration_cutoff", 10.0,
             "Cutoff frequency of the low pass of finite_difference [Hz]; 0: no low pass.",
             limits=(0.0, 1e5)),
        DERIVATIVES,
    )

    def __init__(self, name, source=None, **kwargs):
        self.outputs = (Output("~/state", CentroidalState, self._make_state, self._terms),)
        self._whole = None, None    # when a state was received, and what `whole` tells of it
        super().__init__(name, source, **kwargs)
        if self.parameters.values["derivatives"]:
            self.kernels += CENTROIDAL_KERNELS
            self.offers += CENTROIDAL_SERVICES

    def _terms(self):
        rates = self.parameters.values["acceleration_source"] != "none"
        return (*WHOLE, "Ag", "dhg_drift") if rates else WHOLE

    def _make_state(self, robot):
        """`~/state`: mass, center of mass, inertia; momentum and rates where they are known."""
        message = CentroidalState()
        locked_inertia = conversions.matrix(message.locked_inertia, 3, 3)

        def fill():
            message.header.frame_id = robot.world_frame
            whole, h, lever = self.whole(robot)
            message.mass = whole.mass
            conversions.set_vector(message.com, *whole.com.tolist())
            locked_inertia[:] = whole.rotational
            message.velocity_valid = h is not None
            _set_momentum(whole.mass, UNKNOWN if h is None else h,
                          message.com_velocity, message.linear_momentum, message.angular_momentum)
            a = self._acceleration(robot)
            message.rates_valid = a is not None
            if a is not None:
                terms = robot.terms()
                dh = terms.Ag @ a + terms.dhg_drift
            _set_momentum(whole.mass, UNKNOWN if a is None else _moved(lever, dh),
                          message.com_acceleration, message.linear_momentum_rate,
                          message.angular_momentum_rate)
            return message
        return fill

    def whole(self, robot):
        """Inertia of the whole robot, its base link too, and its momentum about its center of mass.

        The momentum is six numbers, or None while a velocity is unknown. Third comes how far the
        center of mass of what moves is from that of the whole. Of one state it is computed once.
        """
        if self._whole[0] != robot.received:
            self._whole = robot.received, _whole(robot)
        return self._whole[1]

    def _acceleration(self, robot):
        """Of the joints, (nv,), or None where it is unknown."""
        values, state = self.parameters.values, robot.state
        source = values["acceleration_source"]
        if source == "finite_difference":
            if state.differences is None:
                state.differences = Differences(robot.model.nv, state.staleness, 0.0)
                state.tell_differences()
            state.differences.cutoff = values["acceleration_cutoff"]
            return state.differences.acceleration if state.differences.known else None
        state.differences = None
        if source == "forward_dynamics" and state.velocity_known:
            if state.takes_effort and state.effort_known:
                return self._forward_dynamics(robot)
            state.takes_effort = True
        return None

    def _forward_dynamics(self, robot):
        state = robot.state
        try:
            a = dyn_ros.aba(robot.model, robot.data, state.q, state.v, state.tau)
            if np.isfinite(a).all():
                return a
            raise Refused(TOO_LARGE)
        except (np.linalg.LinAlgError, Refused) as error:
            self.refuse("acceleration_source forward_dynamics", error)
            return None

    def _waiting_for(self):
        return super()._waiting_for() or self._missing_effort()

    def _missing_effort(self):
        state = self.robot.state
        if (self.parameters.values["acceleration_source"] == "forward_dynamics"
                and state.takes_effort and not state.effort_known):
            return "no rates, effort unknown of " + some(state.missing_effort())
        return ""


def _whole(robot):
    terms = robot.terms()
    Ig = terms.Ig
    try:
        whole = moving = dyn_ros.Inertia(Ig[0, 0], terms.com, Ig[3:, 3:])
    except ValueError:
        raise Refused(TOO_LARGE) from None
    base = robot.model.base_inertia
    if base.mass > 0.0:
        whole = moving + base
    lever = moving.com - whole.com
    return whole, _moved(lever, terms.hg) if robot.state.velocity_known else None, lever


def _moved(lever, force):
    """A momentum or its rate about the point that is `lever` back from its own, six numbers."""
    x, y, z = lever.tolist()
    fx, fy, fz, mx, my, mz = force.tolist()
    return fx, fy, fz, mx + y * fz - z * fy, my + z * fx - x * fz, mz + x * fy - y * fx


def _set_momentum(mass, momentum, com_velocity, linear, angular):
    """Set the three vectors of a momentum, or of its rate."""
    x, y, z = momentum[:3]
    conversions.set_vector(linear, x, y, z)
    conversions.set_vector(angular, *momentum[3:])
    per_mass = 1.0 / mass if mass else math.nan
    conversions.set_vector(com_velocity, x * per_mass, y * per_mass, z * per_mass)


def main(args=None):
    """Run the node until it is told to end."""
    return run(CentroidalNode, "centroidal", args)


if __name__ == "__main__":
    raise SystemExit(main())
