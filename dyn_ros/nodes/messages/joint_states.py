# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized JointStates as arrays of numbers, without rclpy's conversion."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sensor_msgs.msg import JointState

from ...cdr.definition import definition_of
from ...cdr.layout import PLAIN, STAMP
from ...cdr.reader import Layout, Reader
from ...engine.kernel.types import Array
from .serialized import deserialized

_NUMBERS = "position", "velocity", "effort"
_BODY, _stamp_of = len(PLAIN), STAMP.unpack_from
_VARYING = frozenset(("header.stamp", *_NUMBERS))


class JointStateFields(NamedTuple):
    """What a JointState contains: the stamp [ns], and arrays of any length, as received."""

    stamp: int
    name: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array


def joint_state_reader() -> Reader[JointStateFields]:
    """Reads serialized sensor_msgs/JointState; a ValueError if the bytes are not a JointState."""
    return Reader(_deserialized, _Layout)


class _Layout(Layout[JointStateFields]):
    def __init__(self, data: bytes, fields: JointStateFields) -> None:
        super().__init__(definition_of(JointState), data, _VARYING)
        self._name = fields.name
        self._stamp = _BODY + self.items["header.stamp"].start
        self._parts = [self.items[name].part for name in _NUMBERS]
        self._end = _BODY + 8 * max(part.stop for part in self._parts)

    def read(self, data: bytes) -> JointStateFields:
        sec, nanosec = _stamp_of(data, self._stamp)
        numbers = np.frombuffer(data[_BODY:self._end])      # a copy: doubles are aligned
        position, velocity, effort = self._parts
        return JointStateFields(sec * 1_000_000_000 + nanosec, self._name, numbers[position],
                                numbers[velocity], numbers[effort])


def _deserialized(data: bytes) -> JointStateFields:
    message = deserialized(data, JointState)
    stamp = message.header.stamp
    return JointStateFields(
        stamp.sec * 1_000_000_000 + stamp.nanosec, tuple(message.name),
        *(np.array(getattr(message, name)) for name in _NUMBERS))
