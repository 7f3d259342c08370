# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states and odometry of serialized messages, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.call.algorithm import load_function
from .decode_kernel import (
    DECODE,
    DYNAMIC_KIND,
    KIND_COUNT,
    LAYOUT_LIST,
    PROBLEMS,
    PROGRESS_SIZE,
    ROW_SIZE,
)
from .interface_layout import InterfaceLayout

JOINT_STATE, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
DYNAMIC_JOINT_STATE = "control_msgs/msg/DynamicJointState"
CDR, ROS1 = "cdr", "ros1"
KINDS = {
    (JOINT_STATE, CDR): 0,
    (ODOMETRY, CDR): 1,
    (JOINT_STATE, ROS1): 2,
    (ODOMETRY, ROS1): 3,
    (DYNAMIC_JOINT_STATE, CDR): DYNAMIC_KIND,
}
"""Kinds of messages for compiled code, by type and encoding."""


class Raw(NamedTuple):
    """Serialized messages, and descriptions of the problems in reading them."""

    content: NDArray[np.uint8]
    # (n, 4): `Decoder.channel_code`, log time [ns], offset and length in the content [bytes]
    message_index: NDArray[np.int64]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Messages:
    """Decoded messages, in order of log time.

    The numbers of a message are its positions, velocities and efforts. Those of an odometry are
    x y z qx qy qz qw, then the linear and the angular velocity.
    """

    name_list: NDArray[np.int32]  # index in decoder.name_lists; -1 - k: odometry of child frame k
    topic: NDArray[np.int32]  # index in decoder.topics
    log_time: NDArray[np.int64]  # [ns]
    stamp: NDArray[np.int64]  # [ns]; the log time if the message has none
    counts: NDArray[np.int32]  # (n, 3): positions, velocities, efforts; odometry: 7, 6, 0
    start: NDArray[np.int64]  # index of the first number in `numbers`
    numbers: NDArray[np.float64]
    failures: int = 0  # messages that were not decoded; see decoder.problems

    def __len__(self) -> int:
        return len(self.name_list)

    def take(self, rows: slice | NDArray[Any]) -> Messages:
        """Return the messages of these rows; their numbers are not copied."""
        return Messages(
            self.name_list[rows],
            self.topic[rows],
            self.log_time[rows],
            self.stamp[rows],
            self.counts[rows],
            self.start[rows],
            self.numbers,
            self.failures,
        )

    @classmethod
    def empty(cls, failures: int = 0) -> Messages:
        """Return no messages."""
        i32, i64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(i32, i32, i64, i64, np.zeros((0, 3), np.int32), i64, np.zeros(0), failures)


class Decoder:
    """Decoder of messages; it numbers topics, lists of names and child frames as they occur."""

    def __init__(self) -> None:
        self.name_lists: list[tuple[str, ...]] = []  # lists of joint names
        self.layouts: dict[int, InterfaceLayout] = {}  # by the number of their names in name_lists
        self.child_frames: list[str] = []  # child_frame_id of odometry
        self.topics: list[str] = []
        self.problems: dict[str, int] = {}  # number of messages with each problem
        self.notes: dict[str, int] = {}  # rows that each note is about, which {} stands for
        # the lists of strings that `decode_message` recognizes
        self.strings = np.zeros(0, np.uint8)  # each string behind its length, of eight bytes
        self.string_lists = np.zeros((0, 4), np.int64)  # see `find_string_list`
        self._topic_numbers: dict[str, int] = {}
        self._name_list_numbers: dict[tuple[str, ...] | InterfaceLayout, int] = {}
        self._child_frame_numbers: dict[str, int] = {}
        self._latest_lists = np.zeros(0, np.int64)

    def topic_number(self, name: str) -> int:
        """Return the number of a topic, a new one if it did not occur before."""
        if name not in self._topic_numbers:
            self._topic_numbers[name] = len(self.topics)
            self.topics.append(name)
        return self._topic_numbers[name]

    def name_list_number(self, names: tuple[str, ...]) -> int:
        """Return the number of a list of joint names, a new one if it did not occur before."""
        if names not in self._name_list_numbers:
            self._name_list_numbers[names] = len(self.name_lists)
            self.name_lists.append(names)
        return self._name_list_numbers[names]

    def find_name_list(self, names: tuple[str, ...] | InterfaceLayout) -> int | None:
        """Return the number of a list of joint names, or of a layout, or None if it is new."""
        return self._name_list_numbers.get(names)

    def add_layout(self, layout: InterfaceLayout) -> int:
        """Recognize a layout from now on; return the number of its joint names."""
        number = self._name_list_numbers[layout] = len(self.name_lists)
        self.name_lists.append(layout.names)
        self.layouts[number] = layout
        self._append_list(LAYOUT_LIST, len(layout.entry_names), number, layout.to_bytes())
        return number

    def child_frame_number(self, frame: str) -> int:
        """Return the number, from -1 downward, of a child frame; a new one if it is new."""
        if frame not in self._child_frame_numbers:
            self._child_frame_numbers[frame] = len(self.child_frames)
            self.child_frames.append(frame)
        return -1 - self._child_frame_numbers[frame]

    def channel_code(self, name: str, kind: str, encoding: str) -> int | None:
        """Return the code of a channel, or None if its messages cannot be decoded."""
        number = KINDS.get((kind, encoding))
        return None if number is None else self.topic_number(name) * KIND_COUNT + number

    def count_problem(self, problem: str, count: int = 1) -> None:
        """Add ``count`` messages with a problem to ``problems``."""
        self.problems[problem] = self.problems.get(problem, 0) + count

    def count_note(self, note: str, count: int = 1) -> None:
        """Add ``count`` rows to a note on unusual but valid content."""
        self.notes[note] = self.notes.get(note, 0) + count

    def decode(self, raw: Raw) -> Messages:
        """Return the decoded messages, and count in `problems` what cannot be decoded."""
        for problem in raw.problems:
            self.count_problem(problem)
        new_count = KIND_COUNT * len(self.topics) - len(self._latest_lists)
        self._latest_lists = np.append(self._latest_lists, np.full(new_count, -1))
        content, index = raw.content, np.ascontiguousarray(raw.message_index)
        rows = np.empty((len(index), ROW_SIZE), np.int64)
        numbers = np.empty(int(index[:, 3].sum()) // 8 + 1)
        failures = np.zeros((len(self._latest_lists), len(PROBLEMS)), np.int64)
        progress, head = np.zeros(PROGRESS_SIZE, np.int64), np.zeros(ROW_SIZE, np.int64)
        call = load_function(DECODE)
        while True:
            if not call(
                content.ctypes.data,
                index.ctypes.data,
                len(index),
                self.strings.ctypes.data,
                self.string_lists.ctypes.data,
                len(self.string_lists),
                self._latest_lists.ctypes.data,
                failures.ctypes.data,
                rows.ctypes.data,
                numbers.ctypes.data,
                progress.ctypes.data,
                head.ctypes.data,
            ):
                break
            self._add_unknown_list(content, index[progress[0]], int(progress[3]), head)
        for code, reason in np.argwhere(failures).tolist():
            self.count_problem(
                f"{self.topics[code // KIND_COUNT]}: {PROBLEMS[reason]}",
                int(failures[code, reason]),
            )
        return _sorted_by_time(rows[: progress[1]], numbers[: progress[2]], int(failures.sum()))

    def add_string_list(self, kind: int, number: int, strings: Sequence[bytes]) -> None:
        """Recognize a list from now on, of joint names (kind 0) or of one child frame (kind 1)."""
        content = b"".join(len(string).to_bytes(8, "little") + string for string in strings)
        self._append_list(kind, len(strings), number, content)

    def _append_list(self, kind: int, size: int, number: int, content: bytes) -> None:
        """Append a row to the string lists, and its content to the strings."""
        row = np.array([[kind, size, len(self.strings), number]], np.int64)
        self.string_lists = np.concatenate([self.string_lists, row])
        self.strings = np.concatenate([self.strings, np.frombuffer(content, np.uint8)])

    def _add_unknown_list(
        self, content: NDArray[np.uint8], row: NDArray[np.int64], code: int, head: NDArray[np.int64]
    ) -> None:
        """Add the unknown list of strings at which `decode_messages` returned.

        It has checked their bounds.
        """
        position, count, alignment, is_big_endian = (int(number) for number in head[4:8])
        message_kind = code & KIND_COUNT - 1
        origin = int(row[2]) + (0 if message_kind in (2, 3) else 4)
        reader = _StringReader(content, origin, alignment, "big" if is_big_endian else "little")
        if message_kind == DYNAMIC_KIND:
            self.add_layout(reader.read_layout(position))
            return
        strings, _ = reader.read_strings(position, count)
        kind = code & 1
        names = tuple(string.split(b"\0")[0].decode("utf-8", "replace") for string in strings)
        number = self.child_frame_number(names[0]) if kind else self.name_list_number(names)
        self.add_string_list(kind, number, strings)


class _StringReader(NamedTuple):
    """Reader of the strings of a message, at positions behind an origin."""

    content: NDArray[np.uint8]
    origin: int
    alignment: int
    byte_order: Any

    def _read_count(self, position: int) -> tuple[int, int]:
        """Return the integer at the next aligned position, and the position behind it."""
        position += -position % self.alignment
        start = self.origin + position
        return int.from_bytes(self.content[start : start + 4].tobytes(), self.byte_order), (
            position + 4
        )

    def read_strings(self, position: int, count: int) -> tuple[list[bytes], int]:
        """Return strings without final zeros, and the position behind them."""
        strings = []
        for _ in range(count):
            length, position = self._read_count(position)
            start = self.origin + position
            string = self.content[start : start + length].tobytes()
            is_terminated = self.alignment > 1 and string.endswith(b"\0")
            strings.append(string[:-1] if is_terminated else string)
            position += length
        return strings, position

    def read_layout(self, position: int) -> InterfaceLayout:
        """Return the layout of a DynamicJointState from the position of its entries' names on."""
        entry_names, position = self.read_strings(*self._read_count(position)[::-1])
        interface_names = []
        _, position = self._read_count(position)
        for _ in entry_names:
            names, position = self.read_strings(*self._read_count(position)[::-1])
            interface_names.append(tuple(names))
            value_count, position = self._read_count(position)
            if value_count:
                position += -position % 8 + 8 * value_count
        return InterfaceLayout(tuple(entry_names), tuple(interface_names))


def _sorted_by_time(
    rows: NDArray[np.int64], numbers: NDArray[np.float64], failures: int
) -> Messages:
    """Return the messages in order of log time."""
    log_time = rows[:, 2]
    if (log_time[1:] < log_time[:-1]).any():
        rows = rows[np.argsort(log_time, kind="stable")]
    return Messages(
        rows[:, 0].astype(np.int32),
        rows[:, 1].astype(np.int32),
        rows[:, 2].copy(),
        rows[:, 3].copy(),
        rows[:, 4:7].astype(np.int32),
        rows[:, 7].copy(),
        numbers,
        failures,
    )
