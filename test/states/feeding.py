# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Three ways to feed a collector: the fields of messages, their bytes, and blocks."""

import struct
from typing import NamedTuple

import numpy as np

from dyn_ros.states import memory as mem
from dyn_ros.states.blocks import BlockCollector
from dyn_ros.states.joint_states import Reception, Rejected
from dyn_ros.states.messages import MessageCollector

SECOND = 1_000_000_000
NOW = 7 * SECOND  # the stamp of serialized messages without one


class Messages(NamedTuple):
    name_list: np.ndarray
    topic: np.ndarray
    log_time: np.ndarray
    stamp: np.ndarray
    counts: np.ndarray
    start: np.ndarray
    numbers: np.ndarray
    failures: int = 0


class Decoder:
    def __init__(self):
        self.layouts = {}
        self.name_lists, self.child_frames, self.topics, self.problems = (
            [],
            [""],
            ["/joint_states"],
            {},
        )


def packed(events, decoder, log_time=0):
    """Messages of events: (names, position, velocity, effort, stamp) or (pose, twist, stamp)."""
    name_list, counts, stamps, start, numbers = [], [], [], [], []
    for event in events:
        start.append(len(numbers))
        stamps.append(event[-1])
        if len(event) == 3:
            name_list.append(-1)
            counts.append((0, 0, 0))
            numbers += [*event[0], *event[1]]
            continue
        names = tuple(event[0])
        if names not in decoder.name_lists:
            decoder.name_lists.append(names)
        name_list.append(decoder.name_lists.index(names))
        counts.append([len(values) for values in event[1:4]])
        numbers += [x for values in event[1:4] for x in values]
    times = log_time + np.arange(len(events), dtype=np.int64)
    return Messages(
        np.array(name_list, np.int32),
        np.zeros(len(events), np.int32),
        times,
        np.array(stamps, np.int64),
        np.array(counts, np.int32).reshape(-1, 3),
        np.array(start, np.int64),
        np.array(numbers, float),
    )


class Writer:
    """Writes plain CDR of either byte order, from the header of a message on."""

    def __init__(self, stamp, frame_id, order):
        self.body, self.order = struct.pack(order + "iI", *divmod(stamp, SECOND)), order
        self.put_string(frame_id)

    def put(self, alignment, content):
        self.body += bytes(-len(self.body) % alignment) + content

    def put_count(self, count):
        self.put(4, struct.pack(self.order + "I", count))

    def put_string(self, text):
        content = text.encode() + b"\0"
        self.put_count(len(content))
        self.body += content

    def put_strings(self, texts):
        self.put_count(len(texts))
        for text in texts:
            self.put_string(text)

    def put_numbers(self, values):
        self.put_count(len(values))
        if len(values):
            self.put(8, np.array(values, self.order + "f8").tobytes())

    def message(self):
        return (b"\0\1\0\0" if self.order == "<" else b"\0\0\0\0") + self.body


def serialized(names, position, velocity, effort, stamp, frame_id="base", order="<"):
    """Joint states as plain CDR of either byte order."""
    writer = Writer(stamp, frame_id, order)
    writer.put_strings(names)
    for values in (position, velocity, effort):
        writer.put_numbers(values)
    return writer.message()


def serialized_interfaces(names, interface_names, values, stamp, frame_id="base", order="<"):
    """A DynamicJointState as plain CDR of either byte order."""
    writer = Writer(stamp, frame_id, order)
    writer.put_strings(names)
    writer.put_count(len(values))
    for entry_interfaces, entry_values in zip(interface_names, values):
        writer.put_strings(entry_interfaces)
        writer.put_numbers(entry_values)
    return writer.message()


class Fields(MessageCollector):
    """Takes the fields of messages; returns whether a state is due."""

    def receive_joint_states(self, *fields):
        return super().receive_joint_states(*fields) is Reception.NEW_STATE

    def receive_odometry(self, *fields):
        return super().receive_odometry(*fields) is Reception.NEW_STATE


class Bytes(Fields):
    """Receives the bytes of joint states; those that it could not read are counted."""

    unread = 0

    def receive_joint_states(self, *fields):
        reception = self.receive(serialized(*fields), lambda: NOW)
        if reception is Reception.UNREAD:
            self.unread += 1
            return super().receive_joint_states(*fields)
        return reception is Reception.NEW_STATE


class Blocks(BlockCollector):
    """Takes each message as a block of its own, with the interface of the others."""

    def __init__(self, model, staleness, base=None, notify=None):
        super().__init__(model, staleness, base)
        self._source, self._notify = Decoder(), notify or (lambda text: None)
        self.q, self.v, self.tau = self._arrays.q, self._arrays.v, self._arrays.tau

    @property
    def stamp(self):
        return int(self._scalars[mem.NEWEST_STAMP])

    @property
    def complete(self):
        return bool(self._scalars[mem.IS_COMPLETE])

    @property
    def velocity_known(self):
        return bool(self._arrays.has_velocity.all())

    @property
    def effort_known(self):
        return bool(self._arrays.has_effort.all())

    missing_velocity = MessageCollector.missing_velocity

    def collect_quantities(self, quantities):
        """Efforts are always collected."""

    def receive_joint_states(self, *event):
        return self._one(event)

    def receive_odometry(self, *event):
        return self._one(event)

    def _one(self, event):
        states = self.push(packed([event], self._source), self._source)
        if self.resets:
            self._notify(self.resets.example)
            self.resets = None
        for note in self.rejected.values():
            self.rejected = {}
            raise Rejected(note.example)
        return len(states.stamp) > 0


WAYS = {"fields": Fields, "bytes": Bytes, "blocks": Blocks}
