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

    `make(robot)` returns a `Compute` for a `RobotContext`: a function `(state, terms)`, which
    returns a message or a `Template`, or None if an input is missing. `reads` names the results of
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


def effort_writer(
    robot: RobotContext, read: Callable[[State, DynamicsTerms], Array | None]
) -> Compute:
    """Return a `Compute` of a JointState whose efforts are the published rows of a vector (nv,).

    `read(state, terms)` returns the vector, or None if an input is missing.
    """
    message = message_fields.create_message(JointState, robot)
    message.effort = message_fields.zero_field(len(robot.names))
    template = Template(message)
    effort, rows = template.array("effort"), robot.rows

    def compute(state: State, terms: DynamicsTerms) -> Template | None:
        vector = read(state, terms)
        if vector is None:
            return None
        effort[:] = vector[rows]
        return template

    return compute


def point_writer(
    robot: RobotContext, read: Callable[[State, DynamicsTerms], Array | None]
) -> Compute:
    """Return a `Compute` of a PointStamped with a point (3,) [m] in the world.

    `read(state, terms)` returns the point, or None if an input is missing.
    """
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
class _ConfiguredOutput:
    """An output of a configured node: its declaration, its publisher and its current `Compute`."""

    declaration: Output
    publisher: Any
    compute: Compute | None = None  # None without a robot
    # arguments of `compute`, by the names that the output reads
    terms_of_reads: dict[frozenset[str], DynamicsTerms] = field(default_factory=dict)
    constant_reads: frozenset[str] | None = field(init=False)  # None if `reads` is a callable

    def __post_init__(self) -> None:
        reads = self.declaration.reads
        self.constant_reads = None if callable(reads) else frozenset(reads)

    def required_reads(self) -> frozenset[str] | None:
        """Return the names of what `compute` reads for a state; None to skip the state.

        Call it once for each state, as `Output.reads` may count calls to limit a rate.
        """
        if self.constant_reads is not None or not callable(self.declaration.reads):
            return self.constant_reads
        names = self.declaration.reads()
        return None if names is None else frozenset(names)

    def publish(self, robot: RobotContext, state: State, reads: frozenset[str]) -> bool:
        """Compute and publish a message with the stamp of a state; return False if there is none.

        `reads` is the result of `required_reads` for the state.
        """
        assert self.compute is not None
        terms = self.terms_of_reads.get(reads)
        if terms is None:
            terms = self.terms_of_reads[reads] = DynamicsTerms(robot.data, reads - STATE_READS)
        message = self.compute(state, terms)
        if message is None:
            return False
        if isinstance(message, Template):
            if self.declaration.stamped:
                message.set_stamp(state.stamp)
            publish_bytes(self.publisher, message.to_bytes())
            return True
        if self.declaration.stamped:
            stamp = message.header.stamp
            stamp.sec, stamp.nanosec = divmod(state.stamp, 1_000_000_000)
        self.publisher.publish(message)
        return True


_DueOutput: TypeAlias = "tuple[_ConfiguredOutput, frozenset[str]]"
"""An output to publish for a state, and the names of what it reads.

A list of these is `due_outputs` of a node."""


class Dispatch:
    """The outputs of a node, with their publishers while it is configured.

    `received` is the time at which a state was received, by time.perf_counter [s].
    """

    def __init__(self, node: BaseNode, outputs: Sequence[Output]) -> None:
        self._node, self._outputs = node, outputs
        self._configured_outputs: list[_ConfiguredOutput] = []
        self._subscribed_outputs: list[_ConfiguredOutput] = []  # updated at `_count_time`
        self._subscribed_topics: frozenset[str] = frozenset()
        self._count_time = -math.inf  # s, by time.perf_counter
        self.set_max_rate(0.0)

    def set_max_rate(self, rate: float) -> None:
        """Set the maximum rate [Hz] of outputs without a rate of their own; 0: every state."""
        self._limiter = RateLimiter(rate)

    def open(self) -> None:
        """Create the publishers."""
        self._configured_outputs = [
            _ConfiguredOutput(
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
        for output in self._configured_outputs:
            self._node.destroy_lifecycle_publisher(output.publisher)
        self._configured_outputs, self._subscribed_outputs, self._count_time = [], [], -math.inf
        self._subscribed_topics = frozenset()

    def clear(self) -> None:
        """Publish the messages that clear displays, as the node stops."""
        for output in self._configured_outputs:
            if output.declaration.clear:
                output.publisher.publish(output.declaration.clear())

    def make_computes(self, robot: RobotContext) -> list[Compute]:
        """Return a `Compute` for each output, in the order of the outputs."""
        return [output.make(robot) for output in self._outputs]

    def set_computes(self, computes: Sequence[Compute] | None) -> None:
        """Use the result of `make_computes` from now on; None if there is no robot."""
        self._count_time = -math.inf
        for k, output in enumerate(self._configured_outputs):
            output.compute = computes[k] if computes else None
            output.terms_of_reads = {}

    def subscribed_topics(self) -> list[str]:
        """Return the topics that have subscribers now."""
        return [
            output.declaration.topic
            for output in self._configured_outputs
            if output.publisher.get_subscription_count()
        ]

    def recently_subscribed_topics(self, received: float) -> frozenset[str]:
        """Return the topics that had subscribers when last counted, at most 5 ms earlier."""
        self._count_subscribers(received)
        return self._subscribed_topics

    def _count_subscribers(self, received: float) -> None:
        """Update the outputs with subscribers, unless this was done less than 5 ms earlier."""
        if not 0.0 <= received - self._count_time < SUBSCRIBER_COUNT_INTERVAL:
            self._count_time = received
            self._subscribed_outputs = [
                output
                for output in self._configured_outputs
                if output.compute and subscription_count(output.publisher)
            ]
            self._subscribed_topics = frozenset(
                output.declaration.topic for output in self._subscribed_outputs
            )

    def count_and_admit(self, received: float) -> bool:
        """Count a state; return True if the node is active and `max_rate` admits the state.

        Call it once for each state: a state that is admitted delays the next one.
        """
        self._node.report.count.states += 1
        return self._node.active and self._limiter.admit(received)

    def due_outputs(self, received: float, is_admitted: bool) -> list[_DueOutput]:
        """Return the outputs to publish for a state; call it once for each state.

        If `max_rate` does not admit the state, only outputs with a rate of their own are due.
        """
        if not self._node.active:
            return []
        self._count_subscribers(received)
        return [
            (output, reads)
            for output in self._subscribed_outputs
            if (is_admitted or output.declaration.has_rate)
            and (reads := output.required_reads()) is not None
        ]

    def publish_outputs(
        self, robot: RobotContext, state: State, due_outputs: Sequence[_DueOutput]
    ) -> None:
        """Compute and publish the `due_outputs` of a state; count the messages and the time."""
        started, count = time.perf_counter(), self._node.report.count
        for output, reads in due_outputs:
            count.published += output.publish(robot, state, reads)
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

    The first node owns the robot; the others publish only if it is active. `on_state` of nodes
    whose `required_state_reads` is not None is called with every state, before outputs are
    computed. `received` is the time at which the state was received, by time.perf_counter [s].
    """
    robot_owner = nodes[0]
    is_admitted = robot_owner.dispatch.count_and_admit(received)
    due_nodes, observing_nodes = [], []  # (node, its due outputs), (node, names of `STATE_READS`)
    if robot_owner.active:
        for node in nodes:
            node_admits = is_admitted and (
                node is robot_owner or node.dispatch.count_and_admit(received)
            )
            outputs = node.dispatch.due_outputs(received, node_admits)
            if outputs:
                due_nodes.append((node, outputs))
        for node in nodes:
            if node.active:
                reads = node.required_state_reads(received)
                if reads is not None:
                    observing_nodes.append((node, reads))
    state_reads, term_names = _split_reads(
        tuple([reads for _, outputs in due_nodes for _, reads in outputs])
    )
    if observing_nodes:
        state_reads = state_reads.union(*[reads for _, reads in observing_nodes])
    state = robot.latest_state(received, state_reads)
    for node, _ in observing_nodes:
        node.guard("state", node.on_state, robot, state)
    robot.compute_terms(state, term_names)
    for node, outputs in due_nodes:
        node.guard("publish", node.dispatch.publish_outputs, robot, state, outputs)
