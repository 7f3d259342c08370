# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States from blocks of decoded messages, as recordings have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cdr.decode import Decoder, Messages
from ..engine.model.model import Model
from . import memory as mem
from .collector import Base, Collector, Joints
from .joint_states import STALENESS, Note, States
from .rules import REASONS, Reason, check_names, is_root_link


class BlockCollector(Collector):
    """Collects the states of a recording. What is rejected is counted, and nothing is raised.

    The base is as for `MessageCollector`. `rejected` counts messages by the label of
    their `Reason`; `resets` the stamps that jumped back by more than the staleness, which
    discards the collected state. `unknown` are names that are not joints of the model.
    """

    def __init__(
        self, model: Model | Joints, staleness: float = STALENESS, base: Base | None = None
    ) -> None:
        super().__init__(model, staleness, base)
        self.rejected: dict[str, Note] = {}
        self.resets: Note | None = None
        self.unknown: dict[str, None] = {}
        self._scalars[mem.WRITES] = True

    @classmethod
    def of_names(cls, names: Sequence[str], staleness: float = STALENESS) -> BlockCollector:
        """Return a collector without a model: a position and a velocity for each unique name."""
        check_names(list(names))
        columns = tuple(range(len(names)))
        return cls(
            Joints(tuple(names), columns, columns, (1,) * len(names), np.zeros(len(names))),
            staleness,
        )

    @property
    def nq(self) -> int:
        """Number of positions of a state."""
        return len(self._arrays.q)

    @property
    def nv(self) -> int:
        """Number of velocities and efforts of a state."""
        return len(self._arrays.v)

    def push(self, messages: Messages, decoder: Decoder, notes: bool = True) -> States:
        """Process the next messages, in order of log time; return the states that they completed.

        `decoder` has the names they refer to; they may have become more since the last call.
        `notes`: count what is rejected.
        """
        if decoder is not self._decoder:
            self._decoder = decoder
            self._arrays.layouts = self._arrays.entries = mem.TABLE
        _check_bounds(messages, len(decoder.layouts))
        self._grow(len(decoder.layouts))
        states = States.empty(len(messages.layout), self.nq, self.nv)
        self._set_block(messages, states)
        self._run()
        if notes:
            self._take_notes()
        self._arrays.faults[:] = 0
        for name in mem.BLOCK:
            setattr(self._arrays, name, mem.EMPTY)
        return states.take(slice(0, int(self._scalars[mem.STATES])))

    def _set_block(self, messages: Messages, states: States) -> None:
        arrays = self._arrays
        for name in ("layout", "log_time", "stamp", "counts", "start"):
            setattr(arrays, name, np.ascontiguousarray(getattr(messages, name), np.int64))
        arrays.numbers = np.ascontiguousarray(messages.numbers, float)
        for name, array in states._asdict().items():
            setattr(arrays, f"out_{name}", array)
        root_link = self._joints.root_link
        arrays.foreign = np.array(
            [not is_root_link(child, root_link) for child in self._decoder.children], np.int64
        )
        self._scalars[[mem.MESSAGE, mem.END, mem.STATES]] = 0, len(arrays.layout), 0
        self._link()

    def _take_unknown(self, names: list[str]) -> None:
        self.unknown |= dict.fromkeys(names)

    def _take_notes(self) -> None:
        """Add what the compiled rules have noted."""
        for number in map(int, np.flatnonzero(self._arrays.faults[:, mem.NUMBER])):
            count, where = map(int, self._arrays.faults[number, : mem.FIRST_DETAIL])
            note = Note(count, int(self._arrays.log_time[where]), self._text(number))
            if number == Reason.STAMP_JUMP:
                self.resets = self.resets.plus(note) if self.resets else note
                continue
            label = REASONS[number].label
            before = self.rejected.get(label)
            self.rejected[label] = before.plus(note) if before else note


def _check_bounds(messages: Messages, layouts: int) -> None:
    """Raise a ValueError unless all messages are inside of their numbers, unlike compiled code."""
    layout, counts, start = messages.layout, messages.counts, messages.start
    stop = start + np.where(layout < 0, 13, counts.sum(axis=1, dtype=np.int64))
    if len(layout) and (
        start.min() < 0
        or counts.min() < 0
        or stop.max() > len(messages.numbers)
        or layout.max() >= layouts
    ):
        raise ValueError("messages: expected layouts, counts and starts within the numbers")
