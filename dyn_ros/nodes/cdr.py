# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states read from their bytes: rclpy's conversion costs more than the dynamics.

What is found is compared with what rclpy reads before a layout is relied on. Padding is ignored:
rclpy does not initialize it, and it differs between messages of the same publisher. Only plain
little-endian CDR is read in this way.
"""
from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import JointState

from .cdr_parser import HEADER, MAX_LAYOUTS, PLAIN, Parser, deserialized

Floats = npt.NDArray[np.float64]

_STAMP = struct.Struct("<iI")


class JointStateFields(NamedTuple):
    """What a JointState contains.

    Attributes
    ----------
    stamp : int
        [ns].
    name : tuple of str
        The same object for each message with these names.
    position, velocity, effort : ndarray
        As received: of any length, and not necessarily finite. May be read-only.
    """

    stamp: int
    name: tuple[str, ...]
    position: Floats
    velocity: Floats
    effort: Floats


class Layout:
    """All messages of some frame_id, names, and numbers of positions, velocities and efforts."""

    def __init__(self, data: bytes, name: tuple[str, ...]) -> None:
        parser = Parser(data)
        parser.variable(_STAMP.size, 4)
        parser.constants()                              # frame_id
        parser.count()
        for _ in name:
            parser.constants()
        blocks = [parser.variables(8, 8) for _ in range(3)]
        self.name = name
        self.struct = parser.layout()
        self.constant = self.struct.unpack_from(data)   # everything but stamp, padding, numbers
        self.spans, self.image = parser.spans, data     # where that is, and in which message
        used = [(start, stop) for start, stop in blocks if start < stop] or [(0, 0)]
        self.start, self.stop = used[0][0], used[-1][1]
        self.position, self.velocity, self.effort = (
            slice((start - self.start) // 8, (stop - self.start) // 8) if start < stop
            else slice(0, 0) for start, stop in blocks)

    def fields(self, data: bytes) -> JointStateFields:
        """The fields of a message of this layout."""
        sec, nanosec = _STAMP.unpack_from(data, HEADER)
        numbers = np.frombuffer(data[self.start:self.stop])     # a copy: doubles are aligned
        return JointStateFields(sec * 1_000_000_000 + nanosec, self.name, numbers[self.position],
                                numbers[self.velocity], numbers[self.effort])


class JointStateReader:
    """Reads serialized sensor_msgs/JointState, as a subscription with `raw=True` receives them.

    A message whose layout is known is read from its bytes. rclpy reads every other one: the first
    of a layout, and those with an encapsulation other than plain little-endian CDR.
    """

    def __init__(self) -> None:
        self.latest: Layout | None = None       # of the latest message; None: rclpy has read it
        self._layouts: list[Layout] = []
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def read(self, data: bytes) -> JointStateFields:
        """The fields of a serialized message.

        Parameters
        ----------
        data : bytes
            The message, including its encapsulation.

        Returns
        -------
        JointStateFields
            What rclpy would read.

        Raises
        ------
        ValueError
            The bytes are not a JointState.
        """
        size = len(data)
        for layout in self._layouts:
            if size >= layout.struct.size and layout.struct.unpack_from(data) == layout.constant:
                self.latest = layout
                return layout.fields(data)
        self.latest = None
        return self._read_typed(data)

    def _read_typed(self, data: bytes) -> JointStateFields:
        message = deserialized(data, JointState, "sensor_msgs/JointState")
        stamp = message.header.stamp
        fields = JointStateFields(
            stamp.sec * 1_000_000_000 + stamp.nanosec, self._name(tuple(message.name)),
            np.array(message.position), np.array(message.velocity), np.array(message.effort))
        self._remember(data, fields)
        return fields

    def _name(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The tuple with these names that was returned before, if there is one."""
        if len(self._names) >= MAX_LAYOUTS and name not in self._names:
            self._names.clear()
        return self._names.setdefault(name, name)

    def _remember(self, data: bytes, fields: JointStateFields) -> None:
        """Keep the layout of a message, if the bytes read in it are what rclpy read."""
        if not data.startswith(PLAIN):
            return
        try:
            layout = Layout(data, fields.name)
            found = layout.fields(data)
        except (struct.error, ValueError):
            return
        if found.stamp == fields.stamp and all(
                ours.tobytes() == theirs.tobytes()
                for ours, theirs in zip(found[2:], fields[2:])):
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts.append(layout)
