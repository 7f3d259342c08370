# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a robot state to published messages: outputs, and what they declare that they read."""

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
from ..messages import conversions
from ..robot import RobotContext, State, Terms
from .lifecycle import BaseNode
from .rclpy_internals import publish_bytes, subscription_count

RECOUNT = 0.005  # time after which subscribers are counted again [s]
STATE_READS = frozenset({"effort", "acceleration"})
"""What an output reads from the `State` in addition to q and v: collected only if it is read."""


Compute: TypeAlias = Callable[[State, Terms], Any]
"""Computes the message, or None if an input is missing; the message may be used again."""


@dataclass(frozen=True)
class Output:
    """A topic that a node publishes for each state.

    `make(robot)` returns a function `(state, terms)` for a `RobotContext`, which returns a message
    or a `Template`, or None if an input is missing. `reads` are the results of `dyn_ros.all_terms`
    that it reads from `terms`, and those of `STATE_READS` that it reads from `state`; a callable
    is called for each state, and returns None to skip it. A `stamped` message has a header, which
    gets the stamp of the state. `clear()` returns the message to publish when the node stops. If
    `has_rate`, `reads` limits the rate, and `max_rate` does not.
    """

    topic: str
    type: type
    make: Callable[[RobotContext], Compute]
    reads: tuple[str, ...] | Callable[[], Iterable[str] | None] = ()
    stamped: bool = True
    clear: Callable[[], Any] | None = None
    has_rate: bool = False

    def __post_init__(self) -> None:
        known = {*AllTerms._fields, *STATE_READS}
        unknown = [] if callable(self.reads) else sorted(set(self.reads) - known)
        if unknown:
            raise ValueError(
                f"reads: unknown {', '.join(map(repr, unknown))}; available: "
                + ", ".join(sorted(known))
            )


def effort_output(robot: RobotContext, read: Callable[[State, Terms], Array | None]) -> Compute:
    """Return what publishes a vector (nv,) as the effort of the rows to publish."""
    message = conversions.named(JointState, robot)
    message.effort = conversions.zeros(len(robot.names))
    template = Template(message)
    effort, rows = template.array("effort"), robot.rows

    def compute(state: State, terms: Terms) -> Template | None:
        vector = read(state, terms)
        if vector is None:
            return None
        effort[:] = vector[rows]
        return template

    return compute


def point_output(robot: RobotContext, read: Callable[[State, Terms], Array | None]) -> Compute:
    """Return what publishes a point (3,) in the world."""
    message = PointStamped()

    def compute(state: State, terms: Terms) -> PointStamped | None:
        position = read(state, terms)
        if position is None:
            return None
        message.header.frame_id = robot.world_frame
        conversions.set_vector(message.point, *position.tolist())
        return message

    return compute


@dataclass(eq=False)
class _Live:
    """An output while its node is configured."""

    output: Output
    publisher: Any
    compute: Compute | None = None  # for the current robot
    terms: dict[frozenset[str], Terms] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._always = None if callable(self.output.reads) else frozenset(self.output.reads)

    def reads(self) -> frozenset[str] | None:
        """What it reads for a state; None to skip the state."""
        if self._always is not None or not callable(self.output.reads):
            return self._always
        names = self.output.reads()
        return None if names is None else frozenset(names)

    def publish(self, robot: RobotContext, state: State, reads: frozenset[str]) -> bool:
        """Compute and publish; return whether there was a message."""
        assert self.compute is not None
        terms = self.terms.get(reads)
        if terms is None:
            terms = self.terms[reads] = Terms(robot.data, reads - STATE_READS)
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


_Due: TypeAlias = "tuple[_Live, frozenset[str]]"
"""An output to publish for a state, and what it reads."""


class Dispatch:
    """The outputs of a node."""

    def __init__(self, node: BaseNode, outputs: Sequence[Output]) -> None:
        self._node, self._outputs = node, outputs
        self._live: list[_Live] = []
        self._subscribed: list[_Live] = []  # those that had subscribers when last counted
        self._watched: frozenset[str] = frozenset()  # their topics
        self._counted = -math.inf  # the time of that [s]
        self.limit(0.0)

    def limit(self, rate: float) -> None:
        """Publish at most this often [Hz]; 0: every state."""
        self._limiter = RateLimiter(rate)

    def open(self) -> None:
        self._live = [
            _Live(
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
        for live in self._live:
            self._node.destroy_lifecycle_publisher(live.publisher)
        self._live, self._subscribed, self._counted = [], [], -math.inf
        self._watched = frozenset()

    def clear(self) -> None:
        """Remove from displays what the outputs have shown."""
        for live in self._live:
            if live.output.clear:
                live.publisher.publish(live.output.clear())

    def make(self, robot: RobotContext) -> list[Compute]:
        """Return the functions that compute the messages for a robot, for `use`."""
        return [output.make(robot) for output in self._outputs]

    def use(self, computes: Sequence[Compute] | None) -> None:
        """Use these functions from now on; None if there is no robot."""
        self._counted = -math.inf
        for k, live in enumerate(self._live):
            live.compute = computes[k] if computes else None
            live.terms = {}

    def subscribed(self) -> list[str]:
        return [live.output.topic for live in self._live if live.publisher.get_subscription_count()]

    def watched(self, now: float) -> frozenset[str]:
        """Return the topics that have subscribers at a time [s], as `due` counts them."""
        self._count(now)
        return self._watched

    def _count(self, now: float) -> None:
        if not 0.0 <= now - self._counted < RECOUNT:
            self._counted = now
            self._subscribed = [
                live for live in self._live if live.compute and subscription_count(live.publisher)
            ]
            self._watched = frozenset(live.output.topic for live in self._subscribed)

    def passes(self, now: float) -> bool:
        """Whether `max_rate` lets a state pass that is received at a time [s]; counts the state."""
        self._node.report.count.states += 1
        return self._node.active and self._limiter.due(now)

    def due(self, now: float, passes: bool) -> list[_Due]:
        """Return the outputs to publish at a time [s]; unless it passes, those with a rate."""
        if not self._node.active:
            return []
        self._count(now)
        return [
            (live, reads)
            for live in self._subscribed
            if (passes or live.output.has_rate) and (reads := live.reads()) is not None
        ]

    def publish(self, robot: RobotContext, state: State, due: Sequence[_Due]) -> None:
        started, count = time.perf_counter(), self._node.report.count
        for live, reads in due:
            count.published += live.publish(robot, state, reads)
        took = time.perf_counter() - started
        count.took += took
        count.longest = max(count.longest, took)


@functools.lru_cache(maxsize=1024)
def _split(reads: tuple[frozenset[str], ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return what outputs read from the state, and which terms they read, sorted."""
    every: frozenset[str] = frozenset().union(*reads)
    return every & STATE_READS, tuple(sorted(every - STATE_READS))


def process_state(nodes: Sequence[Any], robot: RobotContext, received: float) -> None:
    """Publish the outputs of nodes in one process for the latest state of their robot.

    The first node owns the robot; the others publish only if it does. Nodes that follow every
    state get it first, also if nothing is due.
    """
    source = nodes[0]
    passes = source.dispatch.passes(received)
    due, following = [], []
    if source.active:
        for node in nodes:
            is_passed = passes and (node is source or node.dispatch.passes(received))
            outputs = node.dispatch.due(received, is_passed)
            if outputs:
                due.append((node, outputs))
        for node in nodes:
            if node.active:
                reads = node.follows(received)
                if reads is not None:
                    following.append((node, reads))
    of_state, names = _split(tuple([reads for _, outputs in due for _, reads in outputs]))
    if following:
        of_state = of_state.union(*[reads for _, reads in following])
    state = robot.begin_state(received, of_state)
    for node, _ in following:
        node.guard("state", node.on_state, robot, state)
    robot.compute(state, names)
    for node, outputs in due:
        node.guard("publish", node.dispatch.publish, robot, state, outputs)
