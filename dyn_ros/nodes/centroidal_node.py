# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the mass, center of mass, momentum and locked inertia of a moving robot."""
import math

import numpy as np

import dyn_ros
from dyn_ros.msg import CentroidalState

from . import conversions
from .base import Output, RobotNode, run
from .centroidal_services import KERNELS, SERVICES
from .derivative_services import CENTROIDAL_KERNELS, CENTROIDAL_SERVICES
from .derivative_services import SPEC as DERIVATIVES
from .differences import Differences
from .markers import CENTROIDAL, WHOLE
from .parameters import Spec
from .state import Rejected, abbreviated

UNKNOWN = (math.nan,) * 6
TOO_LARGE = "the numbers in the state are too large to compute with"


class CentroidalNode(RobotNode):
    """Publishes `~/state` and `~/markers`; provides services."""

    kernels = ("all_terms", "aba", *KERNELS)
    offers = SERVICES
    markers = CENTROIDAL
    specs = (
        Spec("acceleration_source", "none",
             "Source of the accelerations for the rates. finite_difference: backward differences "
             "of the velocities through a first-order low pass, which restarts after a stamp that "
             "goes back, a gap longer than staleness, or a new robot. forward_dynamics: computed "
             "from the measured effort without contact forces, so a floating base is in free "
             "flight and a planar base slides.",
             choices=("none", "finite_difference", "forward_dynamics")),
        Spec("acceleration_cutoff", 10.0,
             "Cutoff frequency of the low pass of finite_difference [Hz]; 0: no low pass.",
             limits=(0.0, 1e5)),
        DERIVATIVES,
    )

    def __init__(self, name, source=None, **kwargs):
        self.outputs = (Output("~/state", CentroidalState, self._make_state, self._terms),)
        self._whole = None, None    # when a state was received, and the result of `whole` for it
        super().__init__(name, source, **kwargs)
        if self.parameters.values["derivatives"]:
            self.kernels += CENTROIDAL_KERNELS
            self.offers += CENTROIDAL_SERVICES

    def _terms(self):
        rates = self.parameters.values["acceleration_source"] != "none"
        return (*WHOLE, "Ag", "dhg_drift") if rates else WHOLE

    def _make_state(self, robot):
        """`~/state`: mass, center of mass and locked inertia; momentum and rates if known."""
        message = CentroidalState()

        def fill():
            message.header.frame_id = robot.world_frame
            whole, h, lever = self.whole(robot)
            message.mass = whole.mass
            conversions.set_vector(message.com, *whole.com.tolist())
            conversions.set_inertia(message.locked_inertia, whole)
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
        """Return inertia, momentum and lever of the whole robot, base link included.

        The momentum, about the center of mass, is six numbers, or None if a velocity is unknown.
        The lever points from the center of mass of the whole robot to that of the moving links.
        Both are computed once for each state.
        """
        if self._whole[0] != robot.received:
            self._whole = robot.received, _whole(robot)
        return self._whole[1]

    def _acceleration(self, robot):
        """Return the joint accelerations, (nv,), or None if they are unknown."""
        values, state = self.parameters.values, robot.state
        source = values["acceleration_source"]
        if source == "finite_difference":
            if state.differences is None:
                state.differences = Differences(robot.model.nv, state.staleness, 0.0)
                state.update_differences()
            state.differences.cutoff = values["acceleration_cutoff"]
            return state.differences.acceleration if state.differences.known else None
        state.differences = None
        if source == "forward_dynamics" and state.velocity_known:
            if state.collects_effort and state.effort_known:
                return self._forward_dynamics(robot)
            state.collects_effort = True
        return None

    def _forward_dynamics(self, robot):
        state = robot.state
        try:
            a = dyn_ros.aba(robot.model, robot.data, state.q, state.v, state.tau)
            if np.isfinite(a).all():
                return a
            raise Rejected(TOO_LARGE)
        except (np.linalg.LinAlgError, Rejected) as error:
            self.reject("acceleration_source forward_dynamics", error)
            return None

    def _waiting_for(self):
        return super()._waiting_for() or self._missing_effort()

    def _missing_effort(self):
        state = self.robot.state
        if (self.parameters.values["acceleration_source"] == "forward_dynamics"
                and state.collects_effort and not state.effort_known):
            return "no rates: unknown effort of " + abbreviated(state.missing_effort())
        return ""


def _whole(robot):
    terms = robot.terms()
    Ig = terms.Ig
    try:
        whole = moving = dyn_ros.Inertia(Ig[0, 0], terms.com, Ig[3:, 3:])
    except ValueError:
        raise Rejected(TOO_LARGE) from None
    base = robot.model.base_inertia
    if base.mass > 0.0:
        whole = moving + base
    lever = moving.com - whole.com
    return whole, _moved(lever, terms.hg) if robot.state.velocity_known else None, lever


def _moved(lever, force):
    """Shift a momentum or its rate to the point at -`lever` from its own; returns six numbers."""
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
    """Run the node until it is asked to shut down."""
    return run(CentroidalNode, "centroidal", args)


if __name__ == "__main__":
    raise SystemExit(main())
