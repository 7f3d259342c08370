# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A subscriber to the messages of the dynamics node."""

import math
import time
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from ..msg import JointSpaceDynamics
from .table import Flow


class Listener:
    """A subscriber that keeps the latest message and counts all of them.

    `flow` has the latency from the stamp of the joint state to reception, by the system clock.
    """

    def __init__(self) -> None:
        self.message: JointSpaceDynamics | None = None
        self.flow = Flow()
        self._oldest_description = math.inf  # s, system clock

    def __enter__(self) -> "Listener":
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("demo_view")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        # Deep enough for the messages that arrive while a picture is drawn.
        self._node.create_subscription(JointSpaceDynamics, "dynamics/state", self._receive, 100)
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        # rclpy's annotation lacks the message's information
        callback: Any = self._receive_description
        self._node.create_subscription(String, "robot_description", callback, latched)
        return self

    def _receive_description(self, _: String, info: dict[str, Any]) -> None:
        """Keep the time at which the first description was published."""
        published = info["source_timestamp"] * 1e-9
        self._oldest_description = min(self._oldest_description, published)

    def _receive(self, message: JointSpaceDynamics) -> None:
        """Keep a message, and count it."""
        stamp = message.header.stamp
        self.message = message
        self.flow.add(stamp.sec + stamp.nanosec * 1e-9, time.time())

    def listen(self, seconds: float) -> None:
        """Receive messages for a time [s]."""
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            self._executor.spin_once(timeout_sec=remaining)

    def count_robots(self) -> int:
        """Return the number of nodes that move a robot, discovered so far.

        The demo's own page does not count: it does so only while the robot is stopped.
        """
        publishers = self._node.get_publishers_info_by_topic("joint_states")
        return sum(publisher.node_name != "viewer" for publisher in publishers)

    def has_description_before(self, seconds: float) -> bool:
        """Return True if a robot published its description before this time of the system clock."""
        return self._oldest_description < seconds

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()
