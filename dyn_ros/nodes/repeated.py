# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states that repeat: with the same names as those before, only with other numbers."""
from __future__ import annotations

import numpy as np

from .cdr import JointStateFields, Layout
from .repeated_kernel import LENGTH, TAKE
from .state import StateCollector, Whole


class RepeatedStates:
    """Takes joint states into a robot's state by one compiled function, without reading them.

    It does the same as `JointStateReader.read` and `StateCollector.joint_states`. Between two
    messages the processor's caches forget most of Python's code, which then takes five times as
    long as in a loop.

    Parameters
    ----------
    layout : Layout
        The layout of the messages.
    fields : JointStateFields
        The latest one.
    state : StateCollector
        The state that has taken it.
    whole : Whole
        Where its numbers belong, see `StateCollector.whole`.
    """

    def __init__(self, layout: Layout, fields: JointStateFields, state: StateCollector,
                 whole: Whole) -> None:
        self.layout, self.state = layout, state
        self._fields, self._data = fields, b""
        self._whole = whole
        joints = np.column_stack((
            layout.start + 8 * (layout.position.start + whole.entries),
            layout.start + 8 * (layout.velocity.start + whole.entries),
            whole.q, whole.v, whole.slots)).astype(np.int64)
        spans = np.array(layout.spans, np.int64)
        image = np.frombuffer(layout.image, np.uint8)
        self._kept = joints, spans, image       # the table has their addresses
        self._table = np.zeros(LENGTH, np.int64)
        self._table[:] = (
            layout.struct.size, image.ctypes.data, len(spans), spans.ctypes.data, len(joints),
            joints.ctypes.data, state.q.ctypes.data, state.v.ctypes.data,
            whole.stamps.ctypes.data)
        self._address = self._table.ctypes.data

    @classmethod
    def after(cls, layout: Layout, fields: JointStateFields,
              state: StateCollector) -> RepeatedStates | None:
        """Return what takes messages like this one, which has been taken; None if nothing can."""
        whole = state.whole(fields.name)
        if TAKE.call is None or whole is None or not len(fields.velocity):
            return None
        return cls(layout, fields, state, whole)

    def take(self, data: bytes) -> bool:
        """Take a serialized message; return False, without an effect, if it has to be read."""
        if self.state.collects_more:
            return False
        stamp = TAKE.call(data, self._address, self.state.stamp)
        if stamp < 0:
            return False
        self.state.taken(self._whole, stamp)
        self._data = data
        return True

    def restart(self, fields: JointStateFields) -> None:
        """Continue after a message that had to be read."""
        self._fields, self._data = fields, b""

    @property
    def fields(self) -> JointStateFields:
        """The latest message."""
        return self.layout.fields(self._data) if self._data else self._fields
