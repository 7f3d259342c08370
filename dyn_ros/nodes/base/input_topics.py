# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics that the parameters of a node require, and the latest message of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy

from ...states.joint_states import Rejected
from ..messages.frame_ids import WrenchReader, frame_names_of_wrenches
from ..robot import RobotContext

COMMAND_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
SENSOR_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)

Converter: TypeAlias = Callable[[RobotContext, Any], Any]
"""Converts a message for a robot; raises a ValueError if it does not fit the robot."""

Subscription: TypeAlias = tuple[Any, Converter, QoSProfile]
"""The type of the messages, their converter and the QoS of a topic."""


class InputTopic:
    """The latest message of a topic, converted for a robot.

    `input_time` is the current time [s] by `BaseNode.input_time`.
    """

    def __init__(self, name: str, convert: Converter) -> None:
        self.name = name
        self._convert = convert
        self._robot: RobotContext | None = None  # the robot for which `_value` was converted
        self._message: Any = None
        self._value: Any = None
        self._received = 0.0

    def set_converter(self, convert: Converter) -> None:
        """Replace the converter, and convert the latest message again when it is needed."""
        if convert != self._convert:
            self._convert, self._robot = convert, None

    def receive(self, robot: RobotContext | None, message: Any, input_time: float) -> None:
        """Convert a message that is received now; keep the previous one if it is invalid."""
        if robot is None:
            raise Rejected("there is no robot yet")
        self._value = self._convert(robot, message)
        self._robot, self._message, self._received = robot, message, input_time

    def latest_value(self, robot: RobotContext, input_time: float, timeout: float) -> Any:
        """Return the converted message; raise `Rejected` if it is missing, too old or invalid.

        It is too old after `timeout` [s]; 0: never.
        """
        if self._message is None:
            raise Rejected(f"no message received on {self.name}")
        if (
            timeout and not 0.0 <= input_time - self._received <= timeout
        ):  # a negative age: the clock was set back
            raise Rejected(
                f"the last message on {self.name} is older than input_timeout, {timeout:g} s"
            )
        if self._robot is not robot:
            self._value, self._robot = self._convert(robot, self._message), robot
        return self._value


class InputTopics:
    """The subscriptions that the parameters of a node with a robot require."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._topics: dict[str, InputTopic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def check(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Raise `Rejected` if one of the topics, as for `listen`, cannot be subscribed."""
        for topic in subscriptions.keys() - self._topics.keys():
            kind, _, qos = subscriptions[topic]
            try:
                trial = self._node.create_subscription(kind, topic, lambda message: None, qos)
            except Exception as error:
                raise Rejected(
                    f"cannot subscribe to {topic!r:.80} as {kind.__name__}: {error}"
                ) from None
            self._node.destroy_subscription(trial)

    def listen(self, subscriptions: Mapping[str, Subscription]) -> None:
        """Subscribe to these topics, and to no others."""
        for topic in self._topics.keys() - subscriptions.keys():
            del self._topics[topic]
            self._node.unsubscribe(topic)
        for topic in self._topics:
            self._topics[topic].set_converter(subscriptions[topic][1])
        for topic in subscriptions.keys() - self._topics.keys():
            kind, convert, qos = subscriptions[topic]
            self._topics[topic] = input_topic = InputTopic(topic, convert)
            self._node.subscribe(kind, topic, partial(self._receive, input_topic), qos)

    def _receive(self, topic: InputTopic, message: Any) -> None:
        """Convert a message for the robot of the node."""
        topic.receive(self._node.robot, message, self._node.input_time())

    def latest_value(self, topic: str, robot: RobotContext, timeout: float) -> Any:
        """Return the converted latest message of a topic, see `InputTopic.latest_value`."""
        return self._topics[topic].latest_value(robot, self._node.input_time(), timeout)


def wrench_subscriptions(
    topics: Sequence[str],
    frames: Sequence[str] = (),
    field: str = "the parameter wrench_frames",
) -> dict[str, tuple[Any, WrenchReader, QoSProfile]]:
    """Return the subscriptions for wrenches.

    Each acts at the frame of its topic in `frames`, or, if it is empty, at the one in its header.
    `field` names the source of `frames` in error messages.
    """
    subscriptions: dict[str, tuple[Any, WrenchReader, QoSProfile]] = {}
    for topic, frame in zip(topics, frame_names_of_wrenches(field, frames, "topics", len(topics))):
        reader = WrenchReader(frame, field)
        subscribed_reader = subscriptions.setdefault(topic, (WrenchStamped, reader, SENSOR_QOS))[1]
        if subscribed_reader != reader:
            raise Rejected(
                f"{field}: {topic} has the frames {subscribed_reader.frame!r:.80} and "
                f"{frame!r:.80}; expected one frame for each topic"
            )
    return subscriptions
