# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the torques that enforce acceleration constraints on frames of a robot."""
from typing import NamedTuple

import numpy as np
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState

from dyn_ros.msg import AccelerationConstraints, ConstrainedDynamics
from dyn_ros.srv import SolveConstrainedDynamics

from . import conversions
from .base import Output, RobotNode, run
from .constraints import Constraints, from_message, from_preset, moved_links, solve
from .inputs import COMMAND_QOS, wrenches
from .markers import VERESHCHAGIN
from .parameters import Spec
from .services import Service, external_forces, vector
from .state import Rejected

PRESETS = (
    Spec("constraints", "topic",
         "What is constrained. topic: the constraints published on ~/constraints. All others keep "
         "tip_frame from accelerating. hold_pose: along and about all axes. hold_position: along "
         "all axes. keep_upright: about horizontal axes. free_along_axis: along and about all axes "
         "except along the parameter axis.",
         choices=("topic", "hold_pose", "hold_position", "keep_upright", "free_along_axis")),
    Spec("tip_frame", "", "Link, joint or fixed joint to hold, unless constraints is topic."),
    Spec("axis", [0.0, 0.0, 1.0], "Direction of free_along_axis, of any length.", size=3),
    Spec("axis_frame", "",
         "Link in which the parameter axis is expressed, such as tip_frame; empty: the root link, "
         "or the world for a floating or planar base."),
)
SPECS = (
    *PRESETS,
    Spec("feedforward", "none",
         "Torques applied in addition to those of the constraints. gravity: the torques that hold "
         "the robot still. topic: the effort in ~/feedforward, by name, zero for joints without "
         "one.",
         choices=("none", "gravity", "topic")),
    Spec("wrench_topics", Parameter.Type.STRING_ARRAY,
         "Topics (geometry_msgs/WrenchStamped) with wrenches that act on the robot, at the origin "
         "of the link header.frame_id and expressed in it. All topics are required."),
    Spec("input_timeout", 0.5,
         "Maximum age of the last message on ~/constraints, ~/feedforward and each of "
         "wrench_topics [s]; nothing is published if one is older. 0: no limit.",
         limits=(0.0, 3600.0)),
    Spec("singularity", "relative",
         "How to treat constraints that are linearly dependent or that the robot cannot meet. "
         "relative: drop eigenvalues up to the tolerance times the largest. absolute: drop those "
         "up to the tolerance, as KDL does. damped: damped least squares.",
         choices=("relative", "absolute", "damped")),
    Spec("singularity_tolerance", 0.0,
         "Tolerance of the parameter singularity; 0: 1e-12 for relative, 1e-14 for absolute, 1e-6 "
         "for damped.", limits=(0.0, 1e5)),
    Spec("priority", "constraint",
         "What can accelerate the constrained frames. constraint: nothing. external_force: the "
         "wrenches. feedforward: the feed-forward torques. equal: both.",
         choices=("constraint", "external_force", "feedforward", "equal")),
)


class Solution(NamedTuple):
    """The solution for one state."""

    constraints: Constraints
    feedforward: np.ndarray
    torque: np.ndarray
    motion: tuple           # dyn_ros.algorithms.constraints.ConstrainedMotion


class VereshchaginNode(RobotNode):
    """Publishes `~/constraint_torques`, `~/solution` and `~/markers`; provides `~/solve`."""

    kernels = ("constrained_dynamics", "all_terms")
    markers = VERESHCHAGIN
    specs = SPECS

    def __init__(self, name, source=None, **kwargs):
        self.outputs = (Output("~/constraint_torques", JointState, self._make_torques,
                               self._terms),
                        Output("~/solution", ConstrainedDynamics, self._make_solution,
                               self._terms))
        self.offers = (Service("~/solve", SolveConstrainedDynamics, self._answer),)
        self._preset = None, None   # a robot, and the constraints that the parameters specify
        self._solved = None, None   # when a state was received, and its solution
        super().__init__(name, source, **kwargs)

    # Inputs

    def _accept_parameters(self, values, changed):
        super()._accept_parameters(values, changed)
        robot = self._candidate[0] if self._candidate else self.robot
        if robot and values["constraints"] != "topic" and any(
                spec.name in changed for spec in PRESETS):
            _of_parameters(robot, values)

    def _parameters_changed(self, changed):
        super()._parameters_changed(changed)
        self._preset = None, None

    def wanted_inputs(self, values):
        """Return the subscriptions for constraints, feed-forward torques and wrenches."""
        wanted = wrenches(values["wrench_topics"])
        own = {"~/constraints": (AccelerationConstraints, from_message, COMMAND_QOS),
               "~/feedforward": (JointState, _efforts, COMMAND_QOS)}
        for topic in own.keys() & wanted.keys():
            raise Rejected(f"wrench_topics: {topic} is not a topic for wrenches")
        return wanted | {topic: how for topic, how in own.items() if values[topic[2:]] == "topic"}

    def _numbers(self, topic, robot):
        return self.inputs.numbers(topic, robot, self.parameters.values["input_timeout"])

    def _constraints(self, robot):
        """Return the active constraints; like the two methods below, a ValueError if missing."""
        if "~/constraints" in self.inputs:
            return self._numbers("~/constraints", robot)
        if self._preset[0] is not robot:
            self._preset = robot, _of_parameters(robot, self.parameters.values)
        return self._preset[1]

    def _received_feedforward(self, robot):
        if "~/feedforward" in self.inputs:
            return self._numbers("~/feedforward", robot)
        return np.zeros(robot.model.nv)

    def _feedforward(self, robot):
        if self.parameters.values["feedforward"] == "gravity":
            return robot.terms().g.copy()
        return self._received_feedforward(robot)

    def _terms(self):
        return ("g",) if self.parameters.values["feedforward"] == "gravity" else ()

    def _wrenches(self, robot):
        topics = dict.fromkeys(self.parameters.values["wrench_topics"])     # each once, in order
        return sum(self._numbers(topic, robot).f_ext for topic in topics) if topics else None

    def _waiting_for(self):
        waiting = super()._waiting_for()
        if waiting or not any(
                publisher.get_subscription_count() for publisher in self._output_publishers):
            return waiting
        try:
            for each in (self._constraints, self._received_feedforward, self._wrenches):
                each(self.robot)
        except ValueError as error:
            return f"nothing is published: {error}"
        return ""

    # Solutions

    def solution(self, robot):
        """Return the solution for the state being published, or None if an input is missing."""
        if self._solved[0] != robot.received:
            self._solved = robot.received, self._solve(robot)
        return self._solved[1]

    def _solve(self, robot):
        state = robot.state
        if not state.velocity_known:
            return None
        try:
            given = self._constraints(robot), self._feedforward(robot), self._wrenches(robot)
        except ValueError:          # reported by _waiting_for
            return None
        try:
            return self._solve_for(robot, state.q, state.v, *given)
        except ValueError as error:
            self.reject("state", error)
            return None

    def _solve_for(self, robot, q, v, constraints, feedforward, f_ext):
        values = self.parameters.values
        motion = solve(robot, q, v, constraints, feedforward, f_ext,
                       singularity=values["singularity"],
                       tolerance=values["singularity_tolerance"] or None,
                       priority=values["priority"])
        torque = feedforward + motion.constraint_generalized_forces
        if not (np.isfinite(torque).all() and np.isfinite(motion.ddq).all()):
            raise Rejected("the result is not finite: the state, the constraints, the torques or "
                           "the wrenches are too large to compute with")
        return Solution(constraints, feedforward, torque, motion)

    def _make_torques(self, robot):
        """`~/constraint_torques`: the torques to send to the joints."""
        message, effort = conversions.joint_effort(robot)

        def fill():
            solution = self.solution(robot)
            if solution is None:
                return None
            effort[:] = solution.torque[robot.rows]
            return message
        return fill

    def _make_solution(self, robot):
        """`~/solution`: motion, torques, constraints and KDL's results at one instant."""
        made = None, None, None

        def fill():
            nonlocal made
            solution = self.solution(robot)
            if solution is None:
                return None
            if made[0] is not solution.constraints:
                message = ConstrainedDynamics()
                made = solution.constraints, message, _writer(
                    robot, solution.constraints, message)
            _, message, write = made
            message.header.frame_id = robot.world_frame
            write(solution)
            return message
        return fill

    def _answer(self, robot, request, response, state):
        """The motion under the constraints in the request, or under the active ones."""
        given = request.constraints
        if given.header.frame_id or given.frame or len(given.directions.data) or len(
                given.accelerations):
            constraints = from_message(robot, given)
        else:
            constraints = self._constraints(robot)
        feedforward = vector(robot, "effort", request.name, request.effort)
        solution = self._solve_for(robot, state.q, state.velocity(), constraints, feedforward,
                                   external_forces(robot, request.wrenches))
        response.header.frame_id = robot.world_frame
        response.solution.header = response.header
        _writer(robot, constraints, response.solution)(solution)


def _of_parameters(robot, values):
    return from_preset(robot, values["constraints"], values["tip_frame"], values["axis"],
                       values["axis_frame"])


def _efforts(robot, message):
    return vector(robot, "effort", message.name, message.effort)


def _writer(robot, constraints, message):
    """Prepare a ConstrainedDynamics for these constraints; return a function that fills it."""
    message.name = robot.names
    ddq, torque, feedforward, forces, kdl_constraint, kdl_total = (
        conversions.numbers(message, field, len(robot.names))
        for field in ("ddq", "torque", "feedforward", "constraint_generalized_forces",
                      "constraint_torques", "total_torque"))
    message_constraints, m = message.constraints, len(constraints.frame)
    message_constraints.frame = list(constraints.frame)
    conversions.matrix(message_constraints.directions, m, 6)[:] = constraints.directions.T
    conversions.numbers(message_constraints, "accelerations", m)[:] = constraints.accelerations
    nu = conversions.numbers(message, "nu", m)
    message.link = moved_links(robot.model)
    accelerations = conversions.matrix(message.link_accelerations, len(message.link), 6)

    def write(solution):
        motion, rows = solution.motion, robot.rows
        message_constraints.header.frame_id = constraints.axes or robot.world_frame
        ddq[:] = motion.ddq[rows]
        torque[:] = solution.torque[rows]
        feedforward[:] = solution.feedforward[rows]
        forces[:] = motion.constraint_generalized_forces[rows]
        kdl_constraint[:] = motion.constraint_torques[rows]
        kdl_total[:] = motion.total_torque[rows]
        nu[:] = motion.nu
        message.rank = motion.rank
        accelerations[:] = motion.link_accelerations
    return write


def main(args=None):
    """Run the node until it is asked to shut down."""
    return run(VereshchaginNode, "vereshchagin", args)


if __name__ == "__main__":
    raise SystemExit(main())
