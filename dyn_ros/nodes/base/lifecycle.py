# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of all nodes: lifecycle, parameters, the robot's topics, reports."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from std_msgs.msg import String

from dyn_ros.engine.model.urdf import read_description_file

from ..messages import message_fields
from ..messages.joint_state_topics import JOINT_STATES, JointStateTopic
from .node_parameters import LIFECYCLE_SPECS, Parameters, Spec, name_parameters
from .rclpy_internals import answer_invalid_transitions, state_label

LOG_INTERVAL = 5.0  # s; minimum between log lines with the same key
DESCRIPTION_QOS = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


def parameter_description(values: Mapping[str, Any]) -> str:
    """Return the robot description that the parameters specify, or an empty string."""
    text, path = values["robot_description"], values["robot_description_file"]
    if text or not path:
        return text
    try:
        text = read_description_file(os.path.expanduser(path))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"robot_description_file: {error}; specify the path of a URDF file, "
            'or "" to wait for the topic robot_description'
        ) from None
    if not text.strip():
        raise ValueError(f"robot_description_file: {path!r} is empty; expected a URDF")
    return text


def description_subject(values: Mapping[str, Any]) -> str:
    """Return how the log names the description that the parameters specify."""
    if values["robot_description"]:
        return "parameter robot_description"
    return f"robot_description_file {values['robot_description_file']!r}"


class Counts:
    """Counters since the last diagnostics, and the last rejection."""

    def __init__(self) -> None:
        self.rejected_before = self.rejected = 0
        self.messages_before = self.states_before = self.published_before = 0
        self.messages = self.states = self.published = 0
        self.last_rejection = self.summary = ""
        self.reset()

    def reset(self) -> None:
        """Restart all counts, and add those whose sums are published to the earlier ones."""
        self.since = time.monotonic()
        self.messages_before += self.messages
        self.states_before += self.states
        self.published_before += self.published
        self.messages = self.states = self.published = self.clipped = 0
        self.compute_time = self.max_compute_time = 0.0
        self.rejected_before += self.rejected
        self.rejected = 0


class Report:
    """The log and the diagnostics of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._last_logged: dict[str, float] = {}
        self._last_waiting, self._is_waiting_logged = "", False
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.count = Counts()

    def record_rejection(
        self, subject: str, verb: str, reason: object, interval: float = LOG_INTERVAL
    ) -> None:
        """Count and log that a subject was "rejected" or has "failed"; keep the reason."""
        count = self.count
        count.rejected += 1
        count.last_rejection = f"{subject}: {reason}"
        count.summary = f"{subject} {verb}: {reason}".split("\n")[0]
        self.log(subject, f"{subject} {verb}: {reason}", interval, error=True)

    def log(self, key: str, text: str, interval: float = LOG_INTERVAL, error: bool = False) -> None:
        """Log a line, unless one with this key was logged within the last `interval` [s]."""
        now = time.monotonic()
        if now - self._last_logged.get(key, -interval) >= interval:
            self._last_logged[key] = now
            if error:  # rclpy requires one call site per severity
                self._node.get_logger().error(text)
            else:
                self._node.get_logger().warning(text)

    def log_waiting(self, waiting: str, is_fault: bool = True) -> None:
        """Log what outputs wait for, once it has not changed between two calls.

        A fault is a warning, which is repeated; anything else is information.
        """
        if waiting != self._last_waiting:
            self._last_waiting, self._is_waiting_logged = waiting, False
            self._last_logged.pop("waiting", None)
        elif waiting and is_fault:
            self.log("waiting", waiting, 2 * LOG_INTERVAL)
        elif waiting and not self._is_waiting_logged:
            self._is_waiting_logged = True
            self._node.get_logger().info(waiting)

    def publish(
        self,
        waiting: str,
        faults: Mapping[str, str],
        hardware: str,
        values: Mapping[str, object],
        jump: str = "",
    ) -> None:
        """Publish the diagnostics, and reset the counters.

        `waiting` is the reason why nothing is published, `faults` has a text for each invalid
        parameter, and `hardware` is the name of the robot. `jump` describes positions that jump,
        which rejected messages must not hide: two publishers can be the cause of both.
        """
        node, count = self._node, self.count
        level, summary = DiagnosticStatus.OK, "running"
        if faults:
            level, summary = DiagnosticStatus.ERROR, "; ".join(faults.values())
        elif count.rejected:
            level, summary = DiagnosticStatus.WARN, "; ".join(filter(None, (jump, count.summary)))
        elif waiting:
            level, summary = DiagnosticStatus.WARN, waiting
        status = DiagnosticStatus(
            level=level,
            name=f"{node.get_fully_qualified_name()}: dynamics",
            message=summary,
            hardware_id=hardware,
            values=[
                KeyValue(key=key, value=str(value))
                for key, value in {
                    **values,
                    "messages rejected": count.rejected_before + count.rejected,
                    "last rejection": count.last_rejection,
                }.items()
            ],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = node.get_clock().now().to_msg()
        self._publisher.publish(message)
        count.reset()


class BaseNode(LifecycleNode):
    """A lifecycle node that subscribes to a robot's description, joint states and odometry.

    `start` configures and activates it; while it is configured, it subscribes to these topics, and
    passes them to the hooks. Exceptions in callbacks are logged and counted, see `guard`.

    A subclass implements `open`, `close`, `replace_robot`, `on_joint_states`, `on_odometry` and
    `diagnose`; it extends `accept_parameters` and `parameters_changed`. The values of its `specs`
    are in `self.parameters.values`. If `listens`, it subscribes to the robot's topics; otherwise,
    another node in its process does.
    """

    specs: ClassVar[tuple[Spec, ...]] = ()
    state_queue_depth: ClassVar[int] = 100  # messages

    def __init__(
        self, name: str, specs: Sequence[Spec], listens: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(name, **kwargs)
        answer_invalid_transitions(
            self,
            lambda: self.reject(
                "change_state",
                "there is no such transition from the current state; "
                "`ros2 lifecycle list` with the node's name lists the available ones",
            ),
        )
        self.members: list[
            BaseNode
        ] = []  # other nodes of this process, which `start` starts after this one
        self._has_robot_topics = listens
        self._active = self._is_configured = False
        self._subscriptions_of_topic: dict[str, Any] = {}
        self.report = Report(self)
        self.description = ""  # URDF text; empty without a robot
        self.latest_description = ""  # URDF text; can be invalid
        self.description_fault = ""  # why the latest description is not used
        self.parameters = Parameters(self, specs, self.accept_parameters, self.parameters_changed)
        self.create_timer(
            1.0,
            lambda: self.guard("diagnose", self.diagnose),
            clock=Clock(clock_type=ClockType.STEADY_TIME),
        )

    @classmethod
    def all_specs(cls) -> list[Spec]:
        """Return all parameters of the node."""
        return [*LIFECYCLE_SPECS, *cls.specs]

    @property
    def active(self) -> bool:
        """True if the node publishes and answers service requests."""
        return self._active

    @property
    def joint_state_topic(self) -> JointStateTopic:
        """The topic of the joint states."""
        return JOINT_STATES

    @property
    def state_label(self) -> str:
        """The state of the lifecycle, such as "active"."""
        return state_label(self)

    # --- hooks of subclasses

    def open(self) -> None:
        """Create what the node provides while it is configured."""

    def close(self) -> None:
        """Remove what `open` created."""

    def replace_robot(self, text: str) -> None:
        """Use the robot of a description (URDF); raise an exception if it is invalid."""

    def on_joint_states(self, data: bytes) -> None:
        """Process serialized joint states; raise `Rejected` if they cannot be used."""

    def on_odometry(self, message: Odometry) -> None:
        """Process the pose and twist of the base; raise `Rejected` if they cannot be used."""

    def diagnose(self, busy: str = "") -> None:
        """Publish diagnostics; `busy` describes an operation in progress, such as compiling."""

    def on_stop(self) -> None:
        """Process the end of publishing, when an active node is deactivated or shut down."""

    def accept_parameters(self, values: Mapping[str, Any], changed: Set[str]) -> None:
        """Raise a ValueError with the reason to reject a change of parameters."""

    def parameters_changed(self, changed: Set[str]) -> None:
        """Apply changed parameters."""

    # --- lifecycle

    def start(self) -> None:
        """Configure and activate this node and its members, each according to its autostart."""
        if self.parameters.values["autostart"]:
            if self._has_robot_topics and not self.parameters.faults:
                parameter_description(
                    self.parameters.values
                )  # raises a ValueError if there is no file
            if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
                self.trigger_activate()
        for node in self.members:
            node.start()

    def end(self) -> None:
        """Release what outlives the node; called once before the process ends."""

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        """Create topics and services; load the robot that the parameters specify."""
        try:
            if self.parameters.faults:
                raise ValueError("; ".join(self.parameters.faults.values()))
            text = parameter_description(self.parameters.values) if self._has_robot_topics else ""
            self.open()
            self._is_configured = True
            if self._has_robot_topics:
                self._subscribe_to_robot()
                if text:
                    self.receive_description(text, description_subject(self.parameters.values))
        except Exception as error:
            self._close()
            self.fail("configure", error)
            return TransitionCallbackReturn.FAILURE
        return super().on_configure(state)

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        """Publish and answer requests from now on."""
        self._active = True
        return super().on_activate(state)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        """Stop publishing; subscriptions and the robot stay."""
        self._stop()
        return super().on_deactivate(state)

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        """Remove what `on_configure` created."""
        self._close()
        return super().on_cleanup(state)

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        """Remove what `on_configure` created."""
        self._close()
        return super().on_shutdown(state)

    def on_error(self, state: Any) -> TransitionCallbackReturn:
        """Remove what `on_configure` created, after an exception in a transition."""
        self._close()
        return super().on_error(state)

    def _stop(self) -> None:
        """Call `on_stop` once if the node is active."""
        if self._active:
            self._active = False
            self.on_stop()

    def _close(self) -> None:
        """Stop, call `close`, and remove all subscriptions and the description."""
        self._stop()
        self._is_configured = False
        self.close()
        for topic in list(self._subscriptions_of_topic):
            self.unsubscribe(topic)
        self.description = self.description_fault = ""

    # --- topics

    def subscribe(
        self,
        kind: type,
        topic: str,
        callback: Callable[[Any], object],
        qos: QoSProfile,
        raw: bool = False,
    ) -> None:
        """Subscribe until `unsubscribe` or cleanup; report exceptions of the callback."""
        self._subscriptions_of_topic[topic] = self.create_subscription(
            kind,
            topic,
            partial(self.guard, topic, callback),
            qos,
            raw=raw,
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription that `subscribe` made for a topic."""
        self.destroy_subscription(self._subscriptions_of_topic.pop(topic))

    def _subscribe_to_robot(self) -> None:
        """Subscribe to robot_description, to joint states as bytes, and to odom."""
        self.subscribe(
            String,
            "robot_description",
            lambda message: self.receive_description(message.data, "topic robot_description"),
            DESCRIPTION_QOS,
        )
        qos = QoSProfile(depth=self.state_queue_depth, reliability=ReliabilityPolicy.BEST_EFFORT)
        topic = self.joint_state_topic
        self.subscribe(topic.load_class(), topic.name, self.on_joint_states, qos, raw=True)
        self.subscribe(Odometry, "odom", self.on_odometry, qos)

    def receive_description(self, text: str, subject: str) -> None:
        """Use a description (URDF) and remember it; if it is invalid, log it and keep the robot.

        `subject` names the topic or parameter in the log, as in `reject`.
        """
        self.latest_description, self.description_fault = text, ""
        if self.description == text:
            return
        try:
            self.replace_robot(text)
        except Exception as error:
            consequence = (
                "keeping the current robot" if self.description else "there is no robot yet"
            )
            reason = f"{self.advise(error)} ({consequence})"
            self.description_fault = f"{subject} rejected: {reason}".split("\n")[0]
            self.reject(subject, reason, interval=0.0)
            return
        self.description = text

    def missing_description(self) -> str:
        """Return a sentence on the topic from which the node expects a description."""
        topic = self.resolve_topic_name("robot_description")
        count = self.count_publishers(topic)
        publishers = "1 publisher" if count == 1 else f"{count or 'no'} publishers"
        return f"waiting for robot_description: the topic {topic} has {publishers}"

    def message_stamp(self, message: Any) -> int:
        """Return the stamp of a message [ns], or the current time if it has none."""
        return (
            message_fields.stamp_nanoseconds(message.header.stamp)
            or self.get_clock().now().nanoseconds
        )

    def input_time(self) -> float:
        """Return the time [s] for the age of inputs: the simulated time if the node uses it."""
        clock: Any = self.get_clock()
        if clock.ros_time_is_active:
            return 1e-9 * clock.now().nanoseconds
        return time.monotonic()

    # --- reports

    def guard(self, subject: str, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function; report exceptions, so that they do not end the node."""
        try:
            function(*arguments)
        except ValueError as error:
            self.reject(subject, error)
        except Exception as error:
            self.fail(subject, f"{error}\n{traceback.format_exc()}")

    def reject(self, subject: str, reason: object, interval: float = LOG_INTERVAL) -> None:
        """Count a rejected input, log it and keep the reason for the diagnostics."""
        self.report.record_rejection(subject, "rejected", self.advise(reason), interval)

    def fail(self, subject: str, reason: object) -> None:
        """Count a failed operation, log it and keep the reason for the diagnostics."""
        self.report.record_rejection(subject, "failed", self.advise(reason))

    def advise(self, text: object) -> str:
        """Return a message that names parameters of the node, see `name_parameters`."""
        return name_parameters(self.all_specs(), text)
