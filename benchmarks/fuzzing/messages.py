# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Damaged messages, and requests with values of any kind."""

import array
import math
import re

from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from dyn_ros.nodes.base.service import service_callback
from dyn_ros.nodes.messages.serialized_messages import deserialize

from .mutations import UNUSUAL_INTEGERS, UNUSUAL_NUMBERS, UNUSUAL_WORDS, mutate_bytes
from .node import start_nodes


class Target:
    """Passes a damaged message or a request to the nodes, as rclpy does."""

    TIMEOUT = 10.0  # s of processor time
    DOCUMENTED_ERRORS = ValueError

    def __init__(self, folder):
        self.nodes = start_nodes()
        names = self.nodes[0].robot.model.joint_names
        self.states, self.odometry = [], []
        for k in range(8):
            values = [math.sin(0.1 * k + i) for i in range(7)]
            message = JointState(name=names[k % 3 :], position=values[k % 3 :])
            if k % 2:
                message.velocity, message.effort = values[k % 3 :], values[k % 3 :]
            message.header.stamp.sec = 1 + k
            self.states.append(serialize_message(message))
            odometry = Odometry()
            odometry.pose.pose.position.x, odometry.child_frame_id = 0.1 * k, "base_link"
            self.odometry.append(serialize_message(odometry))
        self.services = [
            (service, service_callback(node, service))
            for node in self.nodes
            for service in node.provided_services
        ]
        self.frames = self.nodes[0].robot.model.frame_names
        for node in self.nodes:  # as if each output had a subscriber
            for output in node.dispatch._configured_outputs:
                kind = output.publisher.msg_type
                topic = output.publisher.topic_name
                self.nodes[0].create_subscription(kind, topic, lambda message: None, 1)

    def run(self, rng):
        kind = rng.random()
        if kind < 0.6:
            data = rng.choice(self.states)
            if rng.random() < 0.95:
                data = mutate_bytes(rng, data, self.states)
            self.nodes[0].on_joint_states(data)
        elif kind < 0.75:
            data = mutate_bytes(rng, rng.choice(self.odometry), self.odometry)
            self.nodes[0].on_odometry(deserialize(data, Odometry))
        else:
            service, call = rng.choice(self.services)
            request = service.type.Request()
            self.fill(rng, request)
            response = call(request, service.type.Response())
            if hasattr(response, "success"):
                assert response.success or response.message
                return response.success

    def fill(self, rng, message, depth=0):
        """Set some fields of a message to unusual values."""
        for name, kind in message.get_fields_and_field_types().items():
            if rng.random() < 0.5:
                value = self.value(rng, kind, getattr(message, name), depth)
                setattr(message, name, value)

    def value(self, rng, kind, current, depth):
        """Return a value for a field of a type such as ``sequence<double>``."""
        if match := re.fullmatch(r"sequence<(.*)>", kind):
            count = rng.choice((0, 1, 2, 6, 7, 7, 7, 7, 8, 50))
            if isinstance(current, array.array):
                return array.array(
                    current.typecode,
                    [self.value(rng, match[1], None, depth) for _ in range(count)],
                )
            if "/" in match[1]:
                return current
            return [self.value(rng, match[1], None, depth) for _ in range(count)]
        if kind.startswith("string"):
            words = (*self.frames, *UNUSUAL_WORDS[:40])
            return rng.choice(words).replace("\x00", "").replace("\ud800", "")
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in ("double", "float"):
            return rng.choice(UNUSUAL_NUMBERS) if rng.random() < 0.3 else rng.gauss(0.0, 1.0)
        if kind.startswith(("int", "uint", "octet", "byte")):
            bits = int(re.sub(r"\D", "", kind) or 8)
            return rng.choice(UNUSUAL_INTEGERS) & ((1 << (bits - 1)) - 1)
        if hasattr(current, "get_fields_and_field_types"):
            if depth < 4:
                self.fill(rng, current, depth + 1)
            return current
        return current
