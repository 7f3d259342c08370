# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of all nodes with outputs and services: a robot and its states."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar, TypeAlias

from nav_msgs.msg import Odometry
from rclpy.lifecycle import TransitionCallbackReturn
from visualization_msgs.msg import MarkerArray

from ...states.collector import NO_JOINTS
from ...states.joint_states import MAX_NAME_LISTS, Reception, abbreviate_names
from ...states.jumps import PositionJumps
from ...states.messages import MessageCollector
from ...states.rules import USABLE, usability
from ..messages import message_fields
from ..messages.joint_state_topics import JOINT_STATE_TOPICS, JointStateTopic
from ..messages.serialized_messages import deserialize
from ..robot import RobotContext, SettingError, State
from ..robot.context import UnknownPosition
from .command_output import CommandOutput
from .dispatch import Compute, Dispatch, process_state
from .dispatch import Output as Output
from .input_topics import InputTopics
from .lifecycle import BaseNode, parameter_description
from .marker_output import MarkerKind, MarkerOutput
from .node_parameters import DESCRIPTION_PARAMETERS, SPECS, Spec
from .process import load_kernels
from .process import run_node as run_node
from .rclpy_internals import defer_responses
from .service import SERVICE_QOS, Service, service_callback

SILENCE_DURATION = 1.0  # s without joint states; diagnostics say so

Check: TypeAlias = "tuple[Iterable[str], Callable[[RobotContext, Mapping[str, Any]], object]]"
"""Names of parameters, and a function that raises a ValueError if they do not fit a robot."""


class RobotNode(BaseNode):
    """A lifecycle node that computes messages from the state of one robot.

    The robot is a `RobotContext`, made from the latest valid description and the parameters. Joint
    states and odometry are collected to states; for each state that is complete, `process_state`
    publishes the outputs that have subscribers. Services answer with the robot and the latest
    state.

    A subclass defines class attributes: `kernels` (names of the public functions that it calls,
    compiled at configure), `batch_kernels` (functions that it calls for batches), `outputs`,
    `provided_services` (its services), `markers` (the kinds that `~/markers` shows) and, for
    parameters of its own, `specs` and `checks`. If it publishes `~/command`, it sets `command`
    before it calls this initializer. A `robot_owner` is another node in this process, with the
    parameters and topics of the robot; this node then uses its robot and states.
    """

    kernels: tuple[str, ...] = ()
    batch_kernels: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    provided_services: tuple[Service, ...] = ()
    markers: ClassVar[tuple[MarkerKind, ...]] = ()
    command: CommandOutput | None = None
    checks: tuple[Check, ...] = ()

    def __init__(self, name: str, robot_owner: RobotNode | None = None, **kwargs: Any) -> None:
        # everything that hooks and parameters use is set before `super().__init__`, which declares
        # the parameters; outputs, checks and specs depend on `markers` and `command`
        self.robot_owner = robot_owner or self
        # this node and its `members`, in the order in which they publish for a state
        self.robot_users: list[RobotNode] = [self]
        self._robot: RobotContext | None = None  # None in the `members` of an owner
        self._logged_robot: tuple[list[str], list[str]] | None = None  # warnings and notes
        self._is_compiled_for_mimic = False
        # result of `_build_robot` for parameters that are being set
        self._candidate: tuple[RobotContext, list[list[Compute]]] | None = None
        self._service_servers: list[Any] = []
        self.payloads: dict[str, tuple] = {}  # shared by successive RobotContexts
        # serialized; one for each list of names, by `MessageCollector.name_list`, newest last
        self._latest_joint_states: dict[int, bytes] = {}
        self._latest_name_list = -1  # newest key of `_latest_joint_states`; -1: none yet
        self._last_received = -math.inf  # time of the latest joint states, by time.perf_counter [s]
        self._earlier_positions: dict[str, float] = {}  # received before the current robot
        self._awaited_joints: Sequence[str] = ()  # joints to lock whose positions are unknown
        self._markers = MarkerOutput(self, self.markers)
        if self.markers:
            self.kernels = tuple(dict.fromkeys((*self.kernels, *self._markers.kernels)))
            self.outputs = (
                *self.outputs,
                Output(
                    "~/markers",
                    MarkerArray,
                    self._markers.make,
                    self._markers.required_reads,
                    clear=self._markers.clear,
                    has_rate=True,
                ),
            )
        if self.command:
            self.checks = ((["command_scale"], self.command.scale_factors), *self.checks)
        self.checks = (
            ([spec.name for spec in self._markers.specs], self._markers.check),
            *self.checks,
        )
        self.inputs = InputTopics(self)
        super().__init__(
            name,
            [spec for spec in self.all_specs() if not (robot_owner and spec.rebuilds_robot)],
            listens=robot_owner is None,
            **kwargs,
        )
        if robot_owner:
            robot_owner.robot_users.append(self)
            robot_owner.members.append(self)
        self.dispatch = Dispatch(self, self.outputs)
        self.dispatch.set_max_rate(self.parameters.values["max_rate"])

    @classmethod
    def all_specs(cls) -> list[Spec]:
        """Return the parameters of the robot, of this class and of its markers."""
        return [*SPECS, *cls.specs, *MarkerOutput.marker_parameters(cls.markers)]

    @functools.cached_property
    def joint_state_topic(self) -> JointStateTopic:
        """The topic of the joint states that the parameters specify."""
        return JOINT_STATE_TOPICS[self.robot_owner.parameters.values["joint_state_source"]]

    @property
    def robot(self) -> RobotContext | None:
        """The `RobotContext` of the owner or of this node; None if there is no robot yet."""
        return self.robot_owner._robot

    # --- lifecycle

    def open(self) -> None:
        """Load kernels; create the publishers, the services and the further subscriptions."""
        if self.kernels:
            load_kernels(self, self.kernels, self.batch_kernels)
        self.dispatch.set_max_rate(self.parameters.values["max_rate"])
        self.dispatch.open()
        self._service_servers = [
            defer_responses(
                self.create_service(
                    service.type,
                    service.name,
                    service_callback(self, service),
                    qos_profile=SERVICE_QOS,
                )
            )
            for service in self.provided_services
        ]
        self.inputs.listen(self.required_inputs(self.parameters.values))
        if self.robot:
            self.dispatch.set_computes(self.dispatch.make_computes(self.robot))

    def close(self) -> None:
        """Remove what `open` created; the owner also removes the robot from all its users."""
        self.dispatch.close()
        for server in self._service_servers:
            self.destroy_service(server)
        self._service_servers = []
        self.inputs.listen({})
        if self.robot_owner is self:
            self._robot, self._awaited_joints = None, ()
            self._latest_joint_states.clear()
            self._earlier_positions.clear()
            for node in self.robot_users:
                node.dispatch.set_computes(None)

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        """Publish and answer requests from now on."""
        self.get_logger().info(
            "active" if self.robot else f"active, {self.robot_owner.missing_description()}"
        )
        return super().on_activate(state)

    def on_stop(self) -> None:
        """Log that `~/command` stops, and clear displays."""
        if self.command:
            self.command.stop("the node is not active")
        self.dispatch.clear()

    # --- parameters and robot description

    def accept_parameters(self, values: Mapping[str, Any], changed: Set[str]) -> None:
        """Reject values that do not fit the robot; build a new robot if they require one."""
        self._candidate = None
        self.inputs.check(self.required_inputs(values))
        if any(spec.rebuilds_robot and spec.name in changed for spec in SPECS):
            self._build_candidate(values, changed)
        robot = self._candidate[0] if self._candidate else self.robot
        if robot:
            for names, check in self.checks:
                if not changed.isdisjoint(names):
                    check(robot, values)

    def _build_candidate(self, values: Mapping[str, Any], changed: Set[str]) -> None:
        """Build the robot from the description in the parameters, if they change it.

        Otherwise, build it from the latest description, or from the last valid one; raise the error
        that concerns a changed parameter. With a robot, any error is raised.
        """
        if DESCRIPTION_PARAMETERS & changed:
            text = parameter_description(values)
            if text:
                self._candidate = self._build_robot(text, values)
            return
        errors: list[ValueError] = []
        for text in dict.fromkeys((self.latest_description, self.description)):
            if text:
                try:
                    self._candidate = self._build_robot(text, values)
                    return
                except ValueError as build_error:
                    errors.append(build_error)
        for error in reversed(errors):  # the description of the current robot comes first
            if self._robot or isinstance(error, SettingError) and error.parameter in changed:
                raise error

    def parameters_changed(self, changed: Set[str]) -> None:
        """Apply changed parameters; use the robot that `accept_parameters` has built for them."""
        self.dispatch.set_max_rate(self.parameters.values["max_rate"])
        if self._is_configured:
            self.inputs.listen(self.required_inputs(self.parameters.values))
        if self._candidate and self._is_configured:
            self._awaited_joints = ()
            self._set_robot(*self._candidate)
            self.latest_description = self.description = self._candidate[0].description
            self.description_fault = ""
        self._candidate = None

    def replace_robot(self, text: str) -> None:
        """Use the robot of a description (URDF); raise an exception if it is invalid."""
        self._awaited_joints = ()
        try:
            candidate = self._build_robot(text, self.parameters.values)
        except UnknownPosition as error:
            self._awaited_joints = error.names
            raise
        self._set_robot(*candidate)

    def _collect_positions(self) -> dict[str, float]:
        """Return the latest position of each joint [rad, m]; locked joints keep theirs."""
        return {
            **self._decode_positions(),
            **(self._robot.locked_positions if self._robot else {}),
        }

    def _decode_positions(self) -> dict[str, float]:
        """Return the latest received position of each joint [rad, m], by name."""
        positions = dict(self._earlier_positions)
        topic = self.joint_state_topic
        for data in self._latest_joint_states.values():
            for name, position in topic.positions(deserialize(data, topic.load_class())):
                if usability(position) == USABLE:
                    positions[name] = position
        return positions

    def _remember_joint_states(self, name_list: int, data: bytes) -> None:
        """Store joint states with a new list of names, or an earlier one, as the newest ones.

        Then use a description that has waited for their positions.
        """
        self._latest_joint_states.pop(name_list, None)
        self._latest_name_list = name_list
        if len(self._latest_joint_states) >= MAX_NAME_LISTS:
            self._latest_joint_states.clear()
        self._latest_joint_states[name_list] = data
        if self._awaited_joints and self._collect_positions().keys() >= set(self._awaited_joints):
            self._awaited_joints = ()
            self.receive_description(self.latest_description, "robot_description")

    def _build_robot(
        self,
        text: str,
        values: Mapping[str, Any],
    ) -> tuple[RobotContext, list[list[Compute]]]:
        """Return a robot and, for each of `robot_users`, the functions that compute its outputs.

        Compiles kernels for mimic joints when the first robot has some.
        """
        robot = RobotContext(
            text,
            values,
            lambda reason: self.report.log("stamps", reason),
            self.payloads,
            self._collect_positions(),
            self.joint_state_topic.type_name,
            PositionJumps(
                self.report.log,
                self._describe_publishers,
                lambda: bool(self.get_parameter("use_sim_time").value),
            ),
        )
        if self._robot and robot.collector.needs_odometry:
            robot.odometry_frame = self._robot.odometry_frame
        if 0 in robot.model.nvs and not self._is_compiled_for_mimic:
            for node in self.robot_users:
                load_kernels(node, node.kernels, node.batch_kernels, coupled=True)
            self._is_compiled_for_mimic = True
        return robot, [node.dispatch.make_computes(robot) for node in self.robot_users]

    def _describe_publishers(self) -> str:
        """Return who publishes joint states, and what to do if positions alternate."""
        topic = self.resolve_topic_name(self.joint_state_topic.name)
        names = sorted(
            f"{publisher.node_namespace.rstrip('/')}/{publisher.node_name}"
            for publisher in self.get_publishers_info_by_topic(topic)
        )
        if len(names) < 2:
            return (
                f"the only publisher on {topic} is {''.join(names) or 'unknown'}; check whether it "
                "combines two sources of this position, or the encoder"
            )
        return (
            f"two publishers report it; of {', '.join(names[:-1])} and {names[-1]}, which publish "
            f"on {topic}, stop one, or remap its topic"
        )

    def _set_robot(self, robot: RobotContext, computes: Sequence[Sequence[Compute]]) -> None:
        """Use a result of `_build_robot` from now on; log the robot and its warnings."""
        self._earlier_positions = self._decode_positions()
        self._latest_joint_states.clear()  # each robot numbers the lists of names itself
        self._robot = robot
        for node, node_computes in zip(self.robot_users, computes):
            node.dispatch.set_computes(node_computes)
        self._log_robot(robot)

    def _log_robot(self, robot: RobotContext) -> None:
        """Log the robot and its warnings, unless a parameter has changed that they do not show."""
        warnings = [f"robot_description: {warning}" for warning in robot.model.warnings[:10]]
        warnings += robot.rejected_payloads
        notes = [
            f"robot '{robot.model.name}': {robot.model.njoints} joints, {robot.model.nv} "
            f"coordinates, {robot.model.total_mass:.3f} kg moving"
        ]
        if robot.has_moving_base and not robot.collector.needs_odometry:
            notes.append(_describe_transform(robot))
        if (warnings, notes) == self._logged_robot:
            return
        self._logged_robot = warnings, notes
        for warning in warnings:
            self.get_logger().warning(warning)
        for note in notes:
            self.get_logger().info(note)

    # --- from a message to outputs

    @functools.cached_property
    def _collector_without_robot(self) -> MessageCollector:
        """A collector that checks messages while there is no robot."""
        return MessageCollector(NO_JOINTS, message_type=self.joint_state_topic.type_name)

    def required_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the topics that the parameters require, see `InputTopics.listen`."""
        return {}

    def required_state_reads(self, received: float) -> Iterable[str] | None:
        """Return which of "effort" and "acceleration" `on_state` needs; None if it is not called.

        It is called once for each state, `received` at a time by time.perf_counter [s].
        """
        return None

    def on_state(self, robot: RobotContext, state: State) -> None:
        """Process a state before outputs are computed, also if `max_rate` skips it."""

    def on_joint_states(self, data: bytes) -> None:
        """Collect serialized joint states; process the state that they complete, if any.

        Only the owner receives them. Messages that the compiled collector cannot decode are read
        by rclpy. The latest message with each list of names is kept as bytes, as `locked_joints`
        may need its positions.
        """
        received = self._last_received = time.perf_counter()
        self.report.count.messages += 1
        robot = self._robot
        collector = robot.collector if robot else self._collector_without_robot
        reception = collector.receive(data, lambda: self.get_clock().now().nanoseconds)
        if reception is Reception.UNREAD:
            topic = self.joint_state_topic
            message = deserialize(data, topic.load_class())
            reception = topic.collect(collector, message, self.message_stamp(message))
        name_list = collector.name_list[0]
        # the usual case, without further calls: the same names as in the last message
        if name_list == self._latest_name_list and not self._awaited_joints:
            self._latest_joint_states[name_list] = data
        else:
            self._remember_joint_states(name_list, data)
        if robot and reception is Reception.NEW_STATE:
            process_state(self.robot_users, robot, received)

    def on_odometry(self, message: Odometry) -> None:
        """Collect the motion of a moving base; process the state that it completes, if any."""
        received = time.perf_counter()
        robot = self._robot
        if robot is None or not robot.collector.needs_odometry:
            return
        reception = robot.collector.receive_odometry(
            message_fields.pose_numbers(message.pose.pose),
            message_fields.twist_numbers(message.twist.twist),
            self.message_stamp(message),
            message.child_frame_id,
        )
        is_first = not robot.odometry_frame and message.header.frame_id != ""
        robot.odometry_frame = message.header.frame_id
        if is_first:
            self.get_logger().info(_describe_transform(robot))
        if reception is Reception.NEW_STATE:
            process_state(self.robot_users, robot, received)

    # --- diagnostics

    def waiting_reason(self) -> str:
        """Return the reason why outputs are not published, or an empty string."""
        if not self.robot_owner.active:
            return (
                f"waiting for {self.robot_owner.get_fully_qualified_name()}, which is "
                f"{self.robot_owner.state_label}"
            )
        if self.robot_owner._awaited_joints:
            return "waiting for the position of " + abbreviate_names(
                self.robot_owner._awaited_joints
            )
        if self.robot is None:
            return self.robot_owner.missing_description()
        collector = self.robot.collector
        missing = collector.missing_position()
        if missing:
            return "; ".join(
                [
                    "waiting for the position of " + abbreviate_names(missing),
                    *self._hints(self.robot, missing),
                ]
            )
        if not collector.velocity_known:
            return "unknown velocity of " + abbreviate_names(collector.missing_velocity())
        if not self.report.count.states:
            return "; ".join(
                ["no state received in the last second", *self._hints(self.robot, collector.names)]
            )
        return ""

    def _hints(self, robot: RobotContext, missing: Sequence[str]) -> Iterator[str]:
        """Yield what may be the reason why positions of joints are missing, or not received."""
        owner, collector = self.robot_owner, robot.collector
        is_silent = time.perf_counter() - owner._last_received > SILENCE_DURATION
        if is_silent and set(missing) & set(collector.names):
            topic = owner.resolve_topic_name(owner.joint_state_topic.name)
            yield f"no message on {topic} in the last second"
        elif nan := sorted(set(collector.nan_positions()) & set(missing)):
            yield (
                f"{owner.joint_state_topic.name} has NaN for {abbreviate_names(nan)}: publish the "
                "position, or list it in locked_joints"
            )
        if collector.unknown and not is_silent:
            yield f"not in the model: {abbreviate_names(collector.unknown)}"

    def input_faults(self) -> Sequence[str]:
        """Return what is wrong with inputs while outputs are published."""
        return ()

    def diagnostic_values(self) -> dict[str, str]:
        """Return further values for the diagnostics."""
        return {}

    def diagnose(self, busy: str = "") -> None:
        """Publish diagnostics and log what the node waits for; `busy` as in `BaseNode`."""
        count, robot = self.report.count, self.robot
        waiting = self.waiting_reason() if self.active and not busy else ""
        # if all nodes of a process wait for the same, only the owner logs it
        is_logged_here = (
            self.robot_owner is self or RobotNode.waiting_reason(self.robot_owner) != waiting
        )
        # while states arrive, outputs wait for what a robot or its user need not provide
        self.report.log_waiting(waiting if is_logged_here else "", is_fault=not count.states)
        owner = self.robot_owner
        jump = robot.collector.jumps.fault() if robot else ""
        # a description that waits for the positions of its locked joints is not faulty
        faults = [
            "" if owner._awaited_joints else owner.description_fault,
            "" if jump in waiting else jump,
            waiting,
        ]
        if not self.active:
            faults = [busy or self.state_label]
        elif not waiting and not busy:
            faults += self.input_faults()
        seconds = max(time.monotonic() - count.since, 1e-3)
        age = float("inf")
        if robot and robot.collector.stamp > 0:
            age = (self.get_clock().now().nanoseconds - robot.collector.stamp) * 1e-9
        topic = owner.joint_state_topic.name
        received = {
            f"{topic} received [Hz]": f"{count.messages / seconds:.1f}",
            f"{topic} received": count.messages_before + count.messages,
        }
        self.report.publish(
            "; ".join(filter(None, faults)),
            self.parameters.faults,
            robot.model.name if robot else "",
            {
                "lifecycle state": self.state_label,
                "robot": robot.model.name if robot else "",
                "kernels": busy
                or ("compiled" if self._is_configured or not self.kernels else "not yet compiled"),
                **(received if self.robot_owner is self else {}),
                "states [Hz]": f"{count.states / seconds:.1f}",
                "states": count.states_before + count.states,
                "messages published [Hz]": f"{count.published / seconds:.1f}",
                "messages published": count.published_before + count.published,
                "computing": ", ".join(self.dispatch.subscribed_topics() if self.active else ()),
                "payloads": ", ".join(robot.payloads) if robot else "",
                "age of the state [s]": f"{age:.3f}",
                "last position jump": robot.collector.jumps.latest if robot else "",
                "compute time, mean [us]": f"{1e6 * count.compute_time / max(count.states, 1):.1f}",
                "compute time, longest [us]": f"{1e6 * count.max_compute_time:.1f}",
                **(
                    self.command.diagnostic_values(
                        waiting or ("" if self.active else self.state_label)
                    )
                    if self.command
                    else {}
                ),
                **self.diagnostic_values(),
            },
            jump,
        )


def _describe_transform(robot: RobotContext) -> str:
    """Return which transform RViz needs to show the markers of a moving base."""
    return (
        f"~/markers are expressed in '{robot.world_frame}': RViz shows them if tf contains a "
        f"transform from '{robot.world_frame}' to '{robot.root_link}', which no node of "
        "dyn_ros publishes"
    )
