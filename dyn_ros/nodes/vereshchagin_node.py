# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the torques that enforce acceleration constraints on frames of a robot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState

import dyn_ros
from dyn_ros.engine.algorithms.constrained.constraints import ConstrainedMotion
from dyn_ros.engine.kernel.types import Array
from dyn_ros.msg import AccelerationConstraints, ConstrainedDynamics
from dyn_ros.srv import SolveConstrainedDynamics

from ..states.joint_states import Rejected
from .base.command_output import CommandOutput, command_parameters
from .base.dispatch import Compute, effort_writer
from .base.input_topics import COMMAND_QOS, wrench_subscriptions
from .base.node_parameters import Spec
from .base.robot_node import Output, RobotNode, run_node
from .base.service import Service
from .markers.vereshchagin_markers import VERESHCHAGIN, solution_reads
from .messages import acceleration_constraints, arrays, message_fields
from .messages.acceleration_constraints import Constraints
from .messages.frame_ids import Wrench, external_forces, requested_forces
from .robot import DynamicsTerms, RobotContext, State, once_per_state, parameter_errors

PRESET_SPECS = (
    Spec(
        "constraints",
        "topic",
        "topic: messages on ~/constraints. Others keep parts of tip_frame's acceleration at zero. "
        "hold_pose: all. hold_position: linear. keep_upright: angular about horizontal axes. "
        "free_along_axis: all except along axis.",
        choices=("topic", "hold_pose", "hold_position", "keep_upright", "free_along_axis"),
    ),
    Spec("tip_frame", "", "Frame to constrain, unless constraints is topic."),
    Spec("axis", [0.0, 0.0, 1.0], "Direction for free_along_axis, of any length.", size=3),
    Spec("axis_frame", "", "Frame in whose axes axis is expressed. Empty: the world."),
)
SPECS = (
    *PRESET_SPECS,
    Spec(
        "feedforward",
        "none",
        "Feed-forward torques. none: zero. gravity: the torques that hold the robot still. topic: "
        "effort in ~/feedforward, zero for omitted joints.",
        choices=("none", "gravity", "topic"),
    ),
    Spec(
        "wrench_topics",
        Parameter.Type.STRING_ARRAY,
        "Topics (geometry_msgs/WrenchStamped) of wrenches on the robot. All are required.",
    ),
    Spec(
        "wrench_frames",
        Parameter.Type.STRING_ARRAY,
        "Frame at whose origin the wrenches of each topic act. Empty: header.frame_id.",
    ),
    Spec(
        "input_timeout",
        0.5,
        "Maximum age of messages on ~/constraints, ~/feedforward and wrench_topics [s]. 0: no "
        "limit.",
        limits=(0.0, 3600.0),
    ),
    Spec(
        "singularity",
        "relative",
        "Dependent or impossible constraints. relative: drop eigenvalues up to "
        "singularity_tolerance times the largest. absolute: up to singularity_tolerance, as in "
        "KDL. damped: damped least squares.",
        choices=("relative", "absolute", "damped"),
    ),
    Spec(
        "singularity_tolerance",
        0.0,
        "Tolerance for singularity. 0: 1e-12 for relative, 1e-14 for absolute, 1e-6 for damped.",
        limits=(0.0, 1e5),
    ),
    Spec(
        "priority",
        "constraint",
        "Forces that override the constraints. constraint: none. external_force: the wrenches. "
        "feedforward: the feed-forward torques. equal: both.",
        choices=("constraint", "external_force", "feedforward", "equal"),
    ),
)


_read_efforts = partial(arrays.read_vector, field="effort")
"""Return the efforts in a message, (nv,), given a robot and the message."""
TOO_LARGE = (
    "the result is not finite, because the state, the constraints, the efforts or the "
    "wrenches are too large"
)


class ConstrainedSolution(NamedTuple):
    """Torques that enforce constraints, and the motion that results."""

    constraints: Constraints
    feedforward: Array  # (nv,), N m or N
    effort: Array  # (nv,), N m or N; feedforward plus constraint torques
    motion: ConstrainedMotion


def _check_preset(robot: RobotContext, values: Mapping[str, Any]) -> None:
    """Raise a ValueError if the parameters of a preset do not fit the robot."""
    if values["constraints"] != "topic":
        acceleration_constraints.constraints_from_preset(robot, values)


def _check_wrench_frames(robot: RobotContext, values: Mapping[str, Any]) -> None:
    """Raise a ValueError if one of the wrench_frames is no frame of the robot."""
    with parameter_errors("wrench_frames"):
        for frame in filter(None, values["wrench_frames"]):
            robot.model.frame_index(frame)


class VereshchaginNode(RobotNode):
    """Publishes `~/constraint_torques`, `~/solution` and `~/markers`; provides `~/solve`."""

    kernels: tuple[str, ...] = (
        "constrained_dynamics",
        "all_terms",
        "frame_placements",
        "frame_classical_acceleration",
    )
    markers = VERESHCHAGIN
    specs = (*SPECS, *command_parameters("constraint_torques"))
    checks = (
        ([spec.name for spec in PRESET_SPECS], _check_preset),
        (["wrench_frames"], _check_wrench_frames),
    )

    def __init__(self, name: str, robot_owner: RobotNode | None = None, **kwargs: Any) -> None:
        self.command = CommandOutput(
            self, {"constraint_torques": (self._reads, self._constraint_torques)}
        )
        self.outputs = (
            Output("~/constraint_torques", JointState, self._make_constraint_torques, self._reads),
            Output(
                "~/solution",
                ConstrainedDynamics,
                self._make_solution,
                lambda: ("oMf", *self._reads()),
            ),
            self.command.output,
        )
        self.provided_services = (
            Service("~/solve", SolveConstrainedDynamics, self._solve_request),
        )
        self._cached_preset = lru_cache(1)(
            lambda robot, changes: acceleration_constraints.constraints_from_preset(
                robot, self.parameters.values
            )
        )
        super().__init__(name, robot_owner, **kwargs)

    # --- inputs

    def required_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return ~/constraints, ~/feedforward and wrench_topics, as the parameters require."""
        subscriptions = wrench_subscriptions(values["wrench_topics"], values["wrench_frames"])
        topic_subscriptions = {
            "~/constraints": (
                AccelerationConstraints,
                acceleration_constraints.constraints_from_message,
                COMMAND_QOS,
            ),
            "~/feedforward": (JointState, _read_efforts, COMMAND_QOS),
        }
        for topic in topic_subscriptions.keys() & subscriptions.keys():
            raise Rejected(f"wrench_topics: {topic} is not a topic for wrenches")
        return subscriptions | {
            topic: subscription
            for topic, subscription in topic_subscriptions.items()
            if values[topic.removeprefix("~/")] == "topic"
        }

    def _latest_input(self, topic: str, robot: RobotContext) -> Any:
        """Return the latest converted message of a topic, see `InputTopic.latest_value`."""
        return self.inputs.latest_value(topic, robot, self.parameters.values["input_timeout"])

    def _constraints(self, robot: RobotContext) -> Constraints:
        """Return the active constraints; like the methods below, raise a ValueError if missing."""
        if "~/constraints" in self.inputs:
            return self._latest_input("~/constraints", robot)
        return self._cached_preset(robot, self.parameters.changes)

    def _received_feedforward(self, robot: RobotContext) -> Array:
        """Return the torques received on ~/feedforward, (nv,); zeros without this topic."""
        if "~/feedforward" in self.inputs:
            return self._latest_input("~/feedforward", robot)
        return np.zeros(robot.model.nv)

    def _reads(self) -> Iterable[str]:
        """Return the names of what `solution` reads, as in `Output.reads`."""
        return solution_reads(self.parameters.values)

    def _wrenches(self, robot: RobotContext) -> list[Wrench]:
        """Return the latest wrench of each of the wrench_topics."""
        topics = dict.fromkeys(self.parameters.values["wrench_topics"])  # unique
        return [self._latest_input(topic, robot) for topic in topics]

    def waiting_reason(self) -> str:
        """Return why outputs are not published, also a missing input, or an empty string."""
        waiting = super().waiting_reason()
        if waiting or self.robot is None or not self.dispatch.subscribed_topics():
            return waiting
        try:
            for read in (self._constraints, self._received_feedforward, self._wrenches):
                read(self.robot)
        except ValueError as error:
            return f"nothing is published: {error}"
        return ""

    # --- solutions

    @once_per_state
    def solution(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> ConstrainedSolution | None:
        """Return the solution for a state, or None if an input is missing."""
        if state.v is None:
            return None
        gravity = self.parameters.values["feedforward"] == "gravity"
        try:
            inputs = (
                self._constraints(robot),
                terms.g.copy() if gravity else self._received_feedforward(robot),
                external_forces(robot, self._wrenches(robot), state.q),
            )
        except ValueError:  # reported by waiting_reason
            return None
        try:
            return self._solve_for(robot, state.q, state.v, *inputs)
        except ValueError as error:
            self.reject("state", error)
            return None

    def _constraint_torques(
        self, robot: RobotContext, state: State, terms: DynamicsTerms
    ) -> Array | None:
        """Return feedforward plus constraint torques, (nv,); None if an input is missing.

        None also after positions have jumped, since a controller may follow these torques.
        """
        if robot.collector.jumps.command_fault():
            return None
        solution = self.solution(robot, state, terms)
        return None if solution is None else solution.effort

    def _solve_for(
        self,
        robot: RobotContext,
        q: Array,
        v: Array,
        constraints: Constraints,
        feedforward: Array,
        f_ext: Array | None,
    ) -> ConstrainedSolution:
        """Return the solution with these inputs; raise `Rejected` if it is not finite.

        `feedforward` is (nv,) [N m, N], `f_ext` (njoints, 6) or None.
        """
        values = self.parameters.values
        motion = acceleration_constraints.solve_constraints(
            robot,
            q,
            v,
            constraints,
            feedforward,
            f_ext,
            singularity=values["singularity"],
            tolerance=values["singularity_tolerance"] or None,
            priority=values["priority"],
        )
        effort = feedforward + motion.constraint_generalized_forces
        if not (np.isfinite(effort).all() and np.isfinite(motion.ddq).all()):
            raise Rejected(TOO_LARGE)
        return ConstrainedSolution(constraints, feedforward, effort, motion)

    def _make_constraint_torques(self, robot: RobotContext) -> Compute:
        """Prepare `~/constraint_torques`: the torques to send to the joints."""
        return effort_writer(robot, partial(self._constraint_torques, robot))

    def _make_solution(self, robot: RobotContext) -> Compute:
        """Prepare `~/solution`: motion, torques and constraints at one instant."""
        latest: Any = None, None, None

        def compute(state: State, terms: DynamicsTerms) -> ConstrainedDynamics | None:
            nonlocal latest
            solution = self.solution(robot, state, terms)
            if solution is None:
                return None
            if latest[0] is not solution.constraints:
                message = ConstrainedDynamics()
                latest = (
                    solution.constraints,
                    message,
                    _make_solution_writer(robot, solution.constraints, message),
                )
            _, message, write = latest
            message.header.frame_id = robot.world_frame
            write(solution, state.q, state.require_velocities(), terms.oMf)
            return message

        return compute

    def _solve_request(
        self, robot: RobotContext, request: Any, response: Any, state: State
    ) -> None:
        """Compute the motion under the constraints in the request, or under the active ones."""
        message = request.constraints
        if (
            message.header.frame_id
            or message.frame
            or len(message.directions.data)
            or len(message.acceleration)
        ):
            constraints = acceleration_constraints.constraints_from_message(robot, message)
        else:
            constraints = self._constraints(robot)
        feedforward = _read_efforts(robot, request)
        q, v = state.q, state.require_velocities()
        solution = self._solve_for(
            robot, q, v, constraints, feedforward, requested_forces(robot, request, q)
        )
        response.header.frame_id = robot.world_frame
        response.solution.header = response.header
        oMf = dyn_ros.frame_placements(robot.model, robot.data, q)
        _make_solution_writer(robot, constraints, response.solution)(solution, q, v, oMf)
        if not np.isfinite(response.solution.achieved_acceleration).all():
            raise Rejected(TOO_LARGE)


def _make_solution_writer(
    robot: RobotContext,
    constraints: Constraints,
    message: ConstrainedDynamics,
) -> Callable[[ConstrainedSolution, Array, Array, Array], None]:
    """Return a function that fills a ConstrainedDynamics with solutions for these constraints."""
    message.name = robot.names
    joint_fields = [
        message_fields.array_view(message, field, len(robot.names))
        for field in (
            "acceleration",
            "effort",
            "feedforward",
            "constraint_generalized_forces",
            "kdl_constraint_torques",
            "kdl_total_torque",
        )
    ]
    message_constraints, m = message.constraints, len(constraints.frame)
    message_constraints.frame = list(constraints.frame)
    message_fields.matrix_view(message_constraints.directions, 6, m)[:] = constraints.directions
    message_fields.array_view(message_constraints, "acceleration", m)[:] = constraints.acceleration
    nu, achieved = (
        message_fields.array_view(message, field, m) for field in ("nu", "achieved_acceleration")
    )
    message.link = robot.model.tree.body_links
    link_accelerations = message_fields.matrix_view(
        message.link_accelerations, len(message.link), 6
    )

    def write(solution: ConstrainedSolution, q: Array, v: Array, oMf: Array) -> None:
        motion = solution.motion
        message_constraints.header.frame_id = constraints.axes or robot.world_frame
        for numbers, vector in zip(
            joint_fields,
            (
                motion.ddq,
                solution.effort,
                solution.feedforward,
                motion.constraint_generalized_forces,
                motion.constraint_torques,
                motion.total_torque,
            ),
        ):
            numbers[:] = vector[robot.rows]
        nu[:] = motion.nu
        achieved[:] = acceleration_constraints.achieved_acceleration(
            robot, q, v, constraints, motion.ddq, oMf
        )
        message.rank = motion.rank
        link_accelerations[:] = motion.link_accelerations

    return write


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    return run_node(VereshchaginNode, "vereshchagin", args)


if __name__ == "__main__":
    raise SystemExit(main())
