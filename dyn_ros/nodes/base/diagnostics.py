# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a node reports: log lines, counters and diagnostics."""
from __future__ import annotations

import time
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

THROTTLE = 5.0      # seconds between two log lines about the same thing


class Counts:
    """Counters since the last diagnostics."""

    def __init__(self) -> None:
        self.rejected_before = self.rejected = 0
        self.last_rejection = self.summary = ""
        self.restart()

    def restart(self) -> None:
        self.since = time.monotonic()
        self.messages = self.states = self.published = self.clipped = 0
        self.took = self.longest = 0.0
        self.rejected_before += self.rejected
        self.rejected = 0


class Report:
    """The log and the diagnostics of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._last_logged: dict[str, float] = {}
        self._last_waiting = ""
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.count = Counts()

    def rejection(self, what: str, verb: str, why: object, throttle: float = THROTTLE) -> None:
        """Count something that was rejected or failed, log it and keep the reason."""
        count = self.count
        count.rejected += 1
        count.last_rejection = f"{what}: {why}"
        count.summary = f"{what} {verb}: {why}".split("\n")[0]
        self.log(what, f"{what} {verb}: {why}", throttle, error=True)

    def log(self, key: str, text: str, throttle: float = THROTTLE, error: bool = False) -> None:
        """Log a line unless one with this key was logged within the last `throttle` seconds."""
        now = time.monotonic()
        if now - self._last_logged.get(key, -throttle) >= throttle:
            self._last_logged[key] = now
            if error:               # rclpy requires one call site per severity
                self._node.get_logger().error(text)
            else:
                self._node.get_logger().warning(text)

    def log_waiting(self, waiting: str) -> None:
        """Log what outputs wait for, if it is the same as a second ago."""
        if waiting != self._last_waiting:
            self._last_waiting = waiting
            self._last_logged.pop("waiting", None)
        elif waiting:
            self.log("waiting", waiting, 2 * THROTTLE)

    def publish(self, waiting: str, faults: Mapping[str, str], hardware: str,
                values: Mapping[str, object]) -> None:
        """Publish the diagnostics of the last second, and reset the counters.

        `waiting` is what outputs wait for, `faults` are those of parameters.
        """
        node, count = self._node, self.count
        level, summary = DiagnosticStatus.OK, "running"
        if faults:
            level, summary = DiagnosticStatus.ERROR, "; ".join(faults.values())
        elif count.rejected:
            level, summary = DiagnosticStatus.WARN, count.summary
        elif waiting:
            level, summary = DiagnosticStatus.WARN, waiting
        status = DiagnosticStatus(
            level=level, name=f"{node.get_fully_qualified_name()}: dynamics", message=summary,
            hardware_id=hardware, values=[
                KeyValue(key=key, value=str(value)) for key, value in {
                    **values,
                    "messages rejected": count.rejected_before + count.rejected,
                    "last rejection": count.last_rejection}.items()])
        message = DiagnosticArray(status=[status])
        message.header.stamp = node.get_clock().now().to_msg()
        self._publisher.publish(message)
        count.restart()
