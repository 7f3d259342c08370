# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics that a node's parameters name, and the latest message of each."""
from functools import partial
from typing import NamedTuple

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions

from . import conversions
from .services import external_forces
from .state import Refused

TOLD = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
MEASURED = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class Inlet:
    """The latest message of a topic, as the numbers that a robot takes from it.

    Parameters
    ----------
    topic : str
    read : callable(robot, message)
        Gives those numbers, or a ValueError for a message that does not fit.
    """

    def __init__(self, topic, read):
        self.topic = topic
        self._read = read
        self._message = None

    def take(self, robot, message, now):
        """A message, at a time [s]; one that does not fit is a ValueError and changes nothing."""
        if robot is None:
            raise Refused("there is no robot yet")
        self._numbers = self._read(robot, message)
        self._robot, self._message, self._came = robot, message, now

    def numbers(self, robot, now, timeout):
        """Those of the latest message; Refused where none came in time or it does not fit."""
        if self._message is None:
            raise Refused(f"nothing has come on {self.topic}")
        if timeout and not 0.0 <= now - self._came <= timeout:      # below 0: time was set back
            raise Refused(f"the last message on {self.topic} is older than input_timeout, "
                          f"{timeout:g} s")
        if self._robot is not robot:
            self._numbers, self._robot = self._read(robot, self._message), robot
        return self._numbers


class Inputs:
    """What a node listens to because its parameters say so.

    Parameters
    ----------
    node : RobotNode
        Its `on_input(inlet, message)` is told each message.
    """

    def __init__(self, node):
        self._node = node
        self._open = {}         # of each topic: inlet, subscription

    def __contains__(self, topic):
        return topic in self._open

    def check(self, wanted):
        """Refused where one of these topics, as for `listen`, cannot be listened to."""
        for topic in wanted.keys() - self._open.keys():
            kind, _, qos = wanted[topic]
            try:
                trial = self._node.create_subscription(kind, topic, lambda message: None, qos)
            except Exception as error:
                raise Refused(f"cannot listen to {topic!r:.80}, which should tell a "
                              f"{kind.__name__}: {error}") from None
            self._node.destroy_subscription(trial)

    def listen(self, wanted):
        """To these topics alone: of each the type, what reads it (see `Inlet`), and its QoS."""
        for topic in self._open.keys() - wanted.keys():
            self._node.destroy_subscription(self._open.pop(topic)[1])
        for topic in wanted.keys() - self._open.keys():
            kind, read, qos = wanted[topic]
            inlet = Inlet(topic, read)
            self._open[topic] = inlet, self._node.create_subscription(
                kind, topic, partial(self._node.on_input, inlet), qos,
                qos_overriding_options=QoSOverridingOptions.with_default_policies())

    def numbers(self, topic, robot, timeout):
        """What the latest message of a topic tells; Refused where there is none in time [s]."""
        inlet, _ = self._open[topic]
        return inlet.numbers(robot, self._node.now(), timeout)


class Wrench(NamedTuple):
    """A wrench on a frame, at its origin and in its axes."""

    frame: int
    numbers: np.ndarray     # (6,): force, moment
    f_ext: np.ndarray       # (njoints, 6): the same on the joints


def wrenches(topics):
    """What to listen to for wrenches on these topics."""
    return dict.fromkeys(topics, (WrenchStamped, _wrench, MEASURED))


def _wrench(robot, message):
    return Wrench(robot.model.frame_index(message.header.frame_id),
                  np.array(conversions.wrench_numbers(message.wrench)),
                  external_forces(robot, [message]))
