# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Collector of the states of a recording, from blocks of decoded messages."""

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
    """Collector of the states of a recording, which counts rejected messages and raises nothing.

    The base is as for `MessageCollector`. `rejected` counts messages by the label of their
    `Reason`; `resets` counts stamps that jumped back by more than the staleness, which discards
    the collected state, and `unreported` messages with a position of NaN. `unknown` are names that
    are not joints of the model.
    """

    def __init__(
        self, model: Model | Joints, staleness: float = STALENESS, base: Base | None = None
    ) -> None:
        super().__init__(model, staleness, base)
        self.rejected: dict[str, Note] = {}
        self.resets: Note | None = None
        self.unreported: Note | None = None
        self.unknown: dict[str, None] = {}
        self._scalars[mem.WRITES_STATES] = True

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

        `decoder` has the names that they refer to; it may have more than at the last call.
        `notes`: add them to `rejected`, `resets` and `unreported`. Raise a ValueError if counts,
        starts or name lists are outside of the numbers and lists.
        """
        if decoder is not self._decoder:
            self._decoder = decoder
            self._arrays.name_list_rows = self._arrays.entries = mem.EMPTY_TABLE
        _check_bounds(messages, len(decoder.name_lists))
        self._extend_name_lists(len(decoder.name_lists))
        states = States.empty(len(messages.name_list), self.nq, self.nv)
        self._load_block(messages, states)
        self._process_block()
        if notes:
            self._collect_notes()
        self._arrays.faults[:] = 0
        for name in mem.BLOCK_FIELDS:
            setattr(self._arrays, name, mem.EMPTY_ARRAY)
        return states.take(slice(0, int(self._scalars[mem.STATE_COUNT])))

    def _load_block(self, messages: Messages, states: States) -> None:
        """Set the arrays of the block to the messages, and to memory for the states."""
        arrays = self._arrays
        for name in ("name_list", "log_time", "stamp", "counts", "start"):
            setattr(arrays, name, np.ascontiguousarray(getattr(messages, name), np.int64))
        arrays.numbers = np.ascontiguousarray(messages.numbers, float)
        for name, array in states._asdict().items():
            setattr(arrays, f"out_{name}", array)
        root_link = self._joints.root_link
        arrays.is_foreign_frame = np.array(
            [not is_root_link(child, root_link) for child in self._decoder.child_frames], np.int64
        )
        self._scalars[[mem.NEXT_MESSAGE, mem.MESSAGE_END, mem.STATE_COUNT]] = (
            0,
            len(arrays.name_list),
            0,
        )
        self._update_addresses()

    def _report_unknown_names(self, names: list[str]) -> None:
        """Add the names to `unknown`."""
        self.unknown |= dict.fromkeys(names)

    def _collect_notes(self) -> None:
        """Add the faults that the compiled rules have recorded to the notes."""
        for reason in map(int, np.flatnonzero(self._arrays.faults[:, mem.FAULT_COUNT])):
            count, message = map(int, self._arrays.faults[reason, : mem.FIRST_DETAIL])
            note = Note(count, int(self._arrays.log_time[message]), self._fault_text(reason))
            if reason == Reason.STAMP_JUMP:
                self.resets = self.resets.merge(note) if self.resets else note
                continue
            if reason == Reason.UNKNOWN_POSITION:
                self.unreported = self.unreported.merge(note) if self.unreported else note
                continue
            label = REASONS[reason].label
            earlier_note = self.rejected.get(label)
            self.rejected[label] = earlier_note.merge(note) if earlier_note else note


def _check_bounds(messages: Messages, list_count: int) -> None:
    """Raise a ValueError if a message is outside of the numbers; compiled code does not check."""
    name_list, counts, start = messages.name_list, messages.counts, messages.start
    stop = start + np.where(name_list < 0, 13, counts.sum(axis=1, dtype=np.int64))
    if len(name_list) and (
        start.min() < 0
        or counts.min() < 0
        or stop.max() > len(messages.numbers)
        or name_list.max() >= list_count
    ):
        raise ValueError("messages: expected name lists, counts and starts within the numbers")
