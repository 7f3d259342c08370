# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics that a node subscribes to because of its parameters, and the latest message of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy

from ...states.joint_states import Rejected
from ..messages.frames import WrenchReader, frames_of
from ..robot import RobotContext

COMMAND_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
SENSOR_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)

Read: TypeAlias = Callable[[RobotContext, Any], Any]
"""Converts a message for a robot; raises a ValueError if it does not fit the robot."""

Subscription: TypeAlias = tuple[Any, Read, QoSProfile]
"""The type of the messages, their converter and the QoS of a topic."""


class InputTopic:
    """The latest message of a topic, converted for a robot."""

    def __init__(self, name: str, read: Read) -> None:
        self.name = name
        self._read = read
        self._robot: RobotContext | None = None  # that `_numbers` belongs to
        self._message: Any = None
        self._numbers: Any = None
        self._received = 0.0

    def set_reader(self, read: Read) -> None:
        """Replace the converter, with which the latest message is converted again."""
        if read != self._read:
            self._read, self._robot = read, None

    def receive(self, robot: RobotContext | None, message: Any, now: float) -> None:
        """Convert a message received at a time [s]; a ValueError leaves the last one in place."""
        if robot is None:
            raise Rejected("there is no robot yet")
        self._numbers = self._read(robot, message)
        self._robot, self._message, self._received = robot, message, now

    def numbers(self, robot: RobotContext, now: float, timeout: float) -> Any:
        """Return the latest conversion; raise `Rejected` if it is missing, too old or invalid."""
        if self._message is None:
            raise Rejected(f"no message received on {self.name}")
        if timeout and not 0.0 <= now - self._received <= timeout:  # below 0: time was set back
            raise Rejected(
                f"the last message on {self.name} is older than input_timeout, {timeout:g} s"
            )
        if self._robot is not robot:
            self._numbers, self._robot = self._read(robot, self._message), robot
        return self._numbers


class Inputs:
    """The subscriptions that the parameters of a node with a robot require."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._open: dict[str, InputTopic] = {}  # by name

    def __contains__(self, topic: str) -> bool:
        return topic in self._open

    def check(self, wanted: Mapping[str, Subscription]) -> None:
        """Raise `Rejected` if one of these topics, given as for `listen`, cannot be subscribed."""
        for topic in wanted.keys() - self._open.keys():
            kind, _, qos = wanted[topic]
            try:
                trial = self._node.create_subscription(kind, topic, lambda message: None, qos)
            except Exception as error:
                raise Rejected(
                    f"cannot subscribe to {topic!r:.80} as {kind.__name__}: {error}"
                ) from None
            self._node.destroy_subscription(trial)

    def listen(self, wanted: Mapping[str, Subscription]) -> None:
        """Subscribe to exactly these topics: by name, the type, the converter and the QoS."""
        for topic in self._open.keys() - wanted.keys():
            del self._open[topic]
            self._node.unsubscribe(topic)
        for topic in self._open:
            self._open[topic].set_reader(wanted[topic][1])
        for topic in wanted.keys() - self._open.keys():
            kind, read, qos = wanted[topic]
            latest = InputTopic(topic, read)
            self._node.subscribe(kind, topic, partial(self._receive, latest), qos)
            self._open[topic] = latest

    def _receive(self, topic: InputTopic, message: Any) -> None:
        topic.receive(self._node.robot, message, self._node.now())

    def numbers(self, topic: str, robot: RobotContext, timeout: float) -> Any:
        """Return the conversion of a topic's latest message; `Rejected` if older than timeout."""
        return self._open[topic].numbers(robot, self._node.now(), timeout)


def wrenches(
    topics: Sequence[str],
    frames: Sequence[str] = (),
    field: str = "the parameter wrench_frames",
) -> dict[str, tuple[Any, WrenchReader, QoSProfile]]:
    """Return the subscriptions for wrenches, which act at `frames`, or at those in the headers."""
    subscriptions: dict[str, tuple[Any, WrenchReader, QoSProfile]] = {}
    for topic, frame in zip(topics, frames_of(field, frames, "topics", len(topics))):
        reader = WrenchReader(frame, field)
        known = subscriptions.setdefault(topic, (WrenchStamped, reader, SENSOR_QOS))[1]
        if known != reader:
            raise Rejected(
                f"{field}: {topic} has the frames {known.frame!r:.80} and "
                f"{frame!r:.80}; expected one frame for each topic"
            )
    return subscriptions
