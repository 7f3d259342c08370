# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Outputs of a node: the topics that it publishes for each state of its robot.

`RobotNode` collects joint states; for each complete state, it calls `process_state`. This finds the
outputs that have subscribers, computes the terms that these read in one call of the engine, and
calls the function that each output made for the robot.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from geometry_msgs.msg import PointStamped
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState

from dyn_ros.engine.algorithms.all_terms import Terms as AllTerms
from dyn_ros.engine.kernel.types import Array

from ...cdr.template import Template
from ...states.rate_limiter import RateLimiter
from ..messages import message_fields
from ..robot import DynamicsTerms, RobotContext, State
from .lifecycle import BaseNode
from .rclpy_internals import publish_bytes, subscription_count

SUBSCRIBER_COUNT_INTERVAL = 0.005  # s
STATE_READS = frozenset({"effort", "acceleration"})
"""Fields of a `State` that are collected only if an output reads them."""


Compute: TypeAlias = Callable[[State, DynamicsTerms], Any]
"""Computes the message, or None if an input is missing; the message may be used again."""


@dataclass(frozen=True)
class Output:
    """A topic that a node publishes for each state.

    `make(robot)` returns a function `(state, terms)` for a `RobotContext`, which returns a message
    or a `Template`, or None if an input is missing. `reads` names the results of
    `dyn_ros.all_terms` that it reads from `terms`, and the `STATE_READS` that it reads from
    `state`; a callable is called for each state, and returns None to skip it. A `stamped` message
    has a header, which gets the stamp of the state. `clear()` returns the message to publish when
    the node stops. If `has_rate`, `reads` limits the rate, and the parameter `max_rate` does not.
    """

    topic: str
    type: type
    make: Callable[[RobotContext], Compute]
    reads: tuple[str, ...] | Callable[[], Iterable[str] | None] = ()
    stamped: bool = True
    clear: Callable[[], Any] | None = None
    has_rate: bool = False

    def __post_init__(self) -> None:
        available = {*AllTerms._fields, *STATE_READS}
        unknown = [] if callable(self.reads) else sorted(set(self.reads) - available)
        if unknown:
            raise ValueError(
                f"reads: unknown {', '.join(map(repr, unknown))}; available: "
                + ", ".join(sorted(available))
            )


def effort_output(
    robot: RobotContext, read: Callable[[State, DynamicsTerms], Array | None]
) -> Compute:
    """Return a function that writes a vector (nv,) to the efforts of a JointState."""
    message = message_fields.named(JointState, robot)
    message.effort = message_fields.zeros(len(robot.names))
    template = Template(message)
    effort, rows = template.array("effort"), robot.rows

    def compute(state: State, terms: DynamicsTerms) -> Template | None:
        vector = read(state, terms)
        if vector is None:
            return None
        effort[:] = vector[rows]
        return template

    return compute


def point_output(
    robot: RobotContext, read: Callable[[State, DynamicsTerms], Array | None]
) -> Compute:
    """Return a function that writes a point (3,) in the world to a PointStamped."""
    message = PointStamped()

    def compute(state: State, terms: DynamicsTerms) -> PointStamped | None:
        position = read(state, terms)
        if position is None:
            return None
        message.header.frame_id = robot.world_frame
        message_fields.set_vector(message.point, *position.tolist())
        return message

    return compute


@dataclass(eq=False)
class _OpenOutput:
    """An output while its node is configured."""

    output: Output
    publisher: Any
    compute: Compute | None = None  # None without a robot
    terms: dict[frozenset[str], DynamicsTerms] = field(default_factory=dict)  # key: names of terms

    def __post_init__(self) -> None:
        self._constant_reads = None if callable(self.output.reads) else frozenset(self.output.reads)

    def reads(self) -> frozenset[str] | None:
        """Return the names of what the output reads for a state; None to skip the state."""
        if self._constant_reads is not None or not callable(self.output.reads):
            return self._constant_reads
        names = self.output.reads()
        return None if names is None else frozenset(names)

    def publish(self, robot: RobotContext, state: State, reads: frozenset[str]) -> bool:
        """Compute and publish a message; return False if there is none."""
        assert self.compute is not None
        terms = self.terms.get(reads)
        if terms is None:
            terms = self.terms[reads] = DynamicsTerms(robot.data, reads - STATE_READS)
        message = self.compute(state, terms)
        if message is None:
            return False
        if isinstance(message, Template):
            if self.output.stamped:
                message.set_stamp(state.stamp)
            publish_bytes(self.publisher, message.to_bytes())
            return True
        if self.output.stamped:
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(state.stamp, 1_000_000_000)
        self.publisher.publish(message)
        return True


_DueOutput: TypeAlias = "tuple[_OpenOutput, frozenset[str]]"
"""An output to publish for a state, and the names of what it reads."""


class Dispatch:
    """The outputs of a node, with their publishers while it is configured."""

    def __init__(self, node: BaseNode, outputs: Sequence[Output]) -> None:
        self._node, self._outputs = node, outputs
        self._open_outputs: list[_OpenOutput] = []
        self._subscribed_outputs: list[_OpenOutput] = []  # updated at `_count_time`
        self._subscribed_topics: frozenset[str] = frozenset()
        self._count_time = -math.inf  # s
        self.set_max_rate(0.0)

    def set_max_rate(self, rate: float) -> None:
        """Set the maximum rate [Hz]; 0: every state."""
        self._limiter = RateLimiter(rate)

    def open(self) -> None:
        """Create the publishers."""
        self._open_outputs = [
            _OpenOutput(
                output,
                self._node.create_lifecycle_publisher(
                    output.type,
                    output.topic,
                    10,
                    qos_overriding_options=QoSOverridingOptions.with_default_policies(),
                ),
            )
            for output in self._outputs
        ]

    def close(self) -> None:
        """Destroy the publishers."""
        for entry in self._open_outputs:
            self._node.destroy_lifecycle_publisher(entry.publisher)
        self._open_outputs, self._subscribed_outputs, self._count_time = [], [], -math.inf
        self._subscribed_topics = frozenset()

    def clear(self) -> None:
        """Publish the messages that clear displays, as the node stops."""
        for entry in self._open_outputs:
            if entry.output.clear:
                entry.publisher.publish(entry.output.clear())

    def make(self, robot: RobotContext) -> list[Compute]:
        """Return the functions that compute the messages for a robot, as `use` expects them."""
        return [output.make(robot) for output in self._outputs]

    def use(self, computes: Sequence[Compute] | None) -> None:
        """Compute messages with these functions; None if there is no robot."""
        self._count_time = -math.inf
        for k, entry in enumerate(self._open_outputs):
            entry.compute = computes[k] if computes else None
            entry.terms = {}

    def subscribed_topics(self) -> list[str]:
        """Return the topics that have subscribers now."""
        return [
            entry.output.topic
            for entry in self._open_outputs
            if entry.publisher.get_subscription_count()
        ]

    def recently_subscribed_topics(self, now: float) -> frozenset[str]:
        """Return the topics with subscribers at a time [s], at most 5 ms old."""
        self._count_subscribers(now)
        return self._subscribed_topics

    def _count_subscribers(self, now: float) -> None:
        if not 0.0 <= now - self._count_time < SUBSCRIBER_COUNT_INTERVAL:
            self._count_time = now
            self._subscribed_outputs = [
                entry
                for entry in self._open_outputs
                if entry.compute and subscription_count(entry.publisher)
            ]
            self._subscribed_topics = frozenset(
                entry.output.topic for entry in self._subscribed_outputs
            )

    def admits_state(self, now: float) -> bool:
        """Count a state received at a time [s]; return True if `max_rate` admits it."""
        self._node.report.count.states += 1
        return self._node.active and self._limiter.admit(now)

    def due(self, now: float, is_admitted: bool) -> list[_DueOutput]:
        """Return the outputs to publish for a state received at a time [s].

        If `max_rate` does not admit the state, only outputs with a rate of their own are due.
        """
        if not self._node.active:
            return []
        self._count_subscribers(now)
        return [
            (entry, reads)
            for entry in self._subscribed_outputs
            if (is_admitted or entry.output.has_rate) and (reads := entry.reads()) is not None
        ]

    def publish(self, robot: RobotContext, state: State, due: Sequence[_DueOutput]) -> None:
        """Compute and publish outputs that are due; count the messages and the time."""
        started, count = time.perf_counter(), self._node.report.count
        for entry, reads in due:
            count.published += entry.publish(robot, state, reads)
        duration = time.perf_counter() - started
        count.compute_time += duration
        count.max_compute_time = max(count.max_compute_time, duration)


@functools.lru_cache(maxsize=1024)
def _split_reads(reads: tuple[frozenset[str], ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the `STATE_READS` of outputs, and the names of the terms they read, sorted."""
    names: frozenset[str] = frozenset().union(*reads)
    return names & STATE_READS, tuple(sorted(names - STATE_READS))


def process_state(nodes: Sequence[Any], robot: RobotContext, received: float) -> None:
    """Publish the outputs of nodes in one process for the latest state of their robot.

    The first node owns the robot; the others publish only if it is active. Nodes whose
    `on_state_reads` is not None get every state, before outputs are computed.
    """
    source = nodes[0]
    is_admitted = source.dispatch.admits_state(received)
    due, observing = [], []
    if source.active:
        for node in nodes:
            node_admits = is_admitted and (node is source or node.dispatch.admits_state(received))
            outputs = node.dispatch.due(received, node_admits)
            if outputs:
                due.append((node, outputs))
        for node in nodes:
            if node.active:
                reads = node.on_state_reads(received)
                if reads is not None:
                    observing.append((node, reads))
    state_reads, term_names = _split_reads(
        tuple([reads for _, outputs in due for _, reads in outputs])
    )
    if observing:
        state_reads = state_reads.union(*[reads for _, reads in observing])
    state = robot.begin_state(received, state_reads)
    for node, _ in observing:
        node.guard("state", node.on_state, robot, state)
    robot.compute(state, term_names)
    for node, outputs in due:
        node.guard("publish", node.dispatch.publish, robot, state, outputs)
