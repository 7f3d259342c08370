# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the mass, center of mass, momentum and locked inertia of a moving robot."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped

import dyn_ros
from dyn_ros.engine.kernel.types import Array
from dyn_ros.engine.model.bodies import moved
from dyn_ros.msg import CentroidalState

from ..cdr.template import Template
from ..states.joint_states import Rejected, abbreviated
from . import feet
from .base.dispatch import Compute, point_output
from .base.parameters import Spec
from .base.robot_node import Output, RobotNode, run
from .base.service import Service
from .markers.centroidal import CENTROIDAL, CONTACT
from .robot import RobotContext, State, Terms, once_per_state
from .robot.support import TOO_LARGE, CompositeBody, composite_body, rate_reads
from .services import centroidal, derivative


class CentroidalNode(RobotNode):
    """Publishes the state of the whole robot and what the ground exerts; provides services."""

    kernels: tuple[str, ...] = ("all_terms", "aba", "contact_dynamics", "contact_forces",
                                *centroidal.KERNELS)
    offers: tuple[Service, ...] = centroidal.SERVICES
    markers = (*CENTROIDAL, *CONTACT)
    specs = (
        Spec("acceleration_source", "none",
             "Source of the accelerations for the rates. finite_difference: backward differences "
             "of the velocities through a first-order low pass, which restarts after a stamp that "
             "goes back, a gap longer than staleness, or a new robot. forward_dynamics: computed "
             "from the measured effort while contact_frames do not accelerate; without them, a "
             "floating base is in free flight and a planar base slides.",
             choices=("none", "finite_difference", "forward_dynamics")),
        Spec("acceleration_cutoff", 10.0,
             "Cutoff frequency of the low pass of finite_difference [Hz]; 0: no low pass.",
             limits=(0.0, 1e5)),
        *feet.SPECS,
        derivative.SPEC,
    )

    def __init__(self, name: str, source: RobotNode | None = None, **kwargs: Any) -> None:
        self.feet = feet.Feet(self)
        self.outputs = (Output("~/state", CentroidalState, self._make_state, self._reads),
                        *self.feet.outputs,
                        Output("~/zmp", PointStamped, self._make_zmp, self._reads))
        super().__init__(name, source, **kwargs)
        if self.parameters.values["derivatives"]:
            self.kernels += derivative.CENTROIDAL_KERNELS
            self.offers += derivative.CENTROIDAL_SERVICES

    def accept_for_robot(self, robot: RobotContext, values: Mapping[str, Any],
                         changed: Set[str]) -> None:
        super().accept_for_robot(robot, values, changed)
        self.feet.check(robot, values, changed)

    def wanted_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the subscription for the contacts."""
        return self.feet.wanted_inputs(values)

    def parameters_changed(self, changed: Set[str]) -> None:
        super().parameters_changed(changed)
        if self.robot:
            self.robot.state.cutoff = self.parameters.values["acceleration_cutoff"]

    def _reads(self) -> Iterable[str]:
        return rate_reads(self.parameters.values)

    def _make_state(self, robot: RobotContext) -> Compute:
        """`~/state`: mass, center of mass and locked inertia; momentum and rates if known."""
        robot.state.cutoff = self.parameters.values["acceleration_cutoff"]
        made: dict[tuple[str, bool, bool], _Writer] = {}

        def compute(state: State, terms: Terms) -> Template:
            body, rate = composite_body(robot, state, terms), self._rate(robot, state, terms)
            key = robot.world_frame, body.momentum is not None, rate is not None
            if key not in made:
                made.clear()
                made[key] = _Writer(*key)
            return made[key].write(body, rate)
        return compute

    def _make_zmp(self, robot: RobotContext) -> Compute:
        """`~/zmp`: the zero moment point on the ground, if the rates are known."""
        return point_output(robot, partial(self.zero_moment_point, robot))

    def zero_moment_point(self, robot: RobotContext, state: State, terms: Terms) -> Array | None:
        """Return the zero moment point [m], (3,), or None; `waiting_for` states the reason."""
        rate = self._rate(robot, state, terms)
        if rate is None:
            return None
        body = composite_body(robot, state, terms).body
        force = np.array(rate[:3]) - body.mass * robot.model.gravity
        moment = np.array(rate[3:]) + np.cross(body.com, force)
        return self.feet.ground_point("~/zmp", robot, np.concatenate([force, moment]))

    # Rates

    @once_per_state
    def _rate(self, robot: RobotContext, state: State, terms: Terms) -> Sequence[float] | None:
        """Return the rate of the momentum about the center of mass, six numbers, or None."""
        a = self._acceleration(robot, state, terms)
        if a is None:
            return None
        lever = composite_body(robot, state, terms).lever
        return moved(lever, (terms.Ag @ a + terms.dhg_drift).tolist())

    def _acceleration(self, robot: RobotContext, state: State, terms: Terms) -> Array | None:
        """Return the joint accelerations, (nv,), or None if they are unknown."""
        values = self.parameters.values
        if values["acceleration_source"] == "finite_difference":
            return state.acceleration
        if (values["acceleration_source"] != "forward_dynamics" or state.v is None
                or state.effort is None):
            return None
        if values["contact_frames"]:
            support = self.feet.support(robot, state, terms)
            return None if support is None else support.acceleration
        return self._forward_dynamics(robot, state.q, state.v, state.effort)

    def _forward_dynamics(self, robot: RobotContext, q: Array, v: Array,
                          effort: Array) -> Array | None:
        try:
            a = dyn_ros.aba(robot.model, robot.data, q, v, effort)
            if np.isfinite(a).all():
                return a
            raise Rejected(TOO_LARGE)
        except (np.linalg.LinAlgError, Rejected) as error:
            self.reject("acceleration_source forward_dynamics", error)
            return None

    def waiting_for(self) -> str:
        return super().waiting_for() or "; ".join(filter(None, (
            self._missing_effort(), self._missing_points())))

    def _missing_effort(self) -> str:
        assert self.robot is not None
        state = self.robot.state
        if (self.parameters.values["acceleration_source"] == "forward_dynamics"
                and state.collects_effort and not state.effort_known):
            return "no rates: unknown effort of " + abbreviated(state.missing_effort())
        return ""

    def _missing_points(self) -> str:
        assert self.robot is not None
        subscribed = self.dispatch.subscribed()
        reasons = [self.feet.waiting_for(self.robot, subscribed)]
        if "~/zmp" in subscribed and self.parameters.values["acceleration_source"] == "none":
            reasons.append("no ~/zmp: the rates are unknown, because acceleration_source is none")
        return "; ".join(filter(None, reasons))


class _Writer:
    """Writes a CentroidalState; its frame_id and its flags are constant."""

    def __init__(self, frame_id: str, velocity_valid: bool, rates_valid: bool) -> None:
        message = CentroidalState(velocity_valid=velocity_valid, rates_valid=rates_valid)
        message.header.frame_id = frame_id
        self._template = template = Template(message)
        self._mass, self._com, self._inertia = (
            template.array(name) for name in ("mass", "com", "locked_inertia"))
        self._momentum, self._rate = (
            [template.array(name) for name in names] for names in (
                ("com_velocity", "linear_momentum", "angular_momentum"),
                ("com_acceleration", "linear_momentum_rate", "angular_momentum_rate")))
        for field in (*self._momentum, *self._rate):
            field[:] = math.nan

    def write(self, composite: CompositeBody, rate: Sequence[float] | None) -> Template:
        """Write the robot as one body, and the rate of its momentum if it is known."""
        body = composite.body
        self._mass[0], self._com[:] = body.mass, body.com
        self._inertia[:] = body.mass, *body.com, *body.rotational
        for fields, momentum in ((self._momentum, composite.momentum), (self._rate, rate)):
            if momentum is not None:
                velocity, linear, angular = fields
                linear[:], angular[:] = momentum[:3], momentum[3:]
                velocity[:] = linear / body.mass if body.mass else math.nan
        return self._template


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    return run(CentroidalNode, "centroidal", args)


if __name__ == "__main__":
    raise SystemExit(main())
