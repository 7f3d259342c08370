# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states and odometry of serialized messages, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engine.call.algorithm import compiled
from .decode_kernel import DECODE, KIND_COUNT, REASONS, ROW, STATE

JOINT_STATE, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
CDR, ROS1 = "cdr", "ros1"
_KINDS = {(JOINT_STATE, CDR): 0, (ODOMETRY, CDR): 1, (JOINT_STATE, ROS1): 2, (ODOMETRY, ROS1): 3}


class Raw(NamedTuple):
    """Serialized messages, and what could not be read."""

    content: NDArray[np.uint8]
    rows: NDArray[np.int64]  # (n, 4): `Decoder.code`, log time [ns], offset and length
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Messages:
    """Decoded messages, in order of log time.

    The numbers of a message are its positions, velocities and efforts. Those of an odometry are
    x y z qx qy qz qw, then the linear and the angular velocity.
    """

    layout: NDArray[np.int32]  # index in decoder.layouts; -1 - k: odometry of child k
    topic: NDArray[np.int32]  # index in decoder.topics
    log_time: NDArray[np.int64]  # [ns]
    stamp: NDArray[np.int64]  # [ns]; the log time if the message has none
    counts: NDArray[np.int32]  # (n, 3), of positions, velocities, efforts; or 7, 6, 0
    start: NDArray[np.int64]  # in numbers
    numbers: NDArray[np.float64]
    bad: int = 0  # messages that are not decoded, see decoder.problems

    def __len__(self) -> int:
        return len(self.layout)

    def take(self, rows: slice | NDArray[Any]) -> Messages:
        """Return some of the messages; their numbers stay in place."""
        return Messages(
            self.layout[rows],
            self.topic[rows],
            self.log_time[rows],
            self.stamp[rows],
            self.counts[rows],
            self.start[rows],
            self.numbers,
            self.bad,
        )

    @classmethod
    def none(cls, bad: int = 0) -> Messages:
        """Return no messages."""
        i32, i64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(i32, i32, i64, i64, np.zeros((0, 3), np.int32), i64, np.zeros(0), bad)


class Decoder:
    """Decodes messages, and numbers what they have in common, in the order in which it occurs."""

    def __init__(self) -> None:
        self.layouts: list[tuple[str, ...]] = []  # joint names
        self.children: list[str] = []  # child frames of odometries
        self.topics: list[str] = []
        self.problems: dict[str, int] = {}  # what was not decoded or read, how many times
        # what `decode_message` recognizes
        self.strings = np.zeros(0, np.uint8)  # each behind its length, of eight bytes
        self.lists = np.zeros((0, 4), np.int64)  # kind, size, where its strings are, number
        self._slots: dict[str, int] = {}
        self._layouts: dict[tuple[str, ...], int] = {}
        self._children: dict[str, int] = {}
        self._latest = np.zeros(0, np.int64)

    def topic(self, name: str) -> int:
        """Return the number of a topic."""
        if name not in self._slots:
            self._slots[name] = len(self.topics)
            self.topics.append(name)
            self._latest = np.append(self._latest, np.full(KIND_COUNT, -1))
        return self._slots[name]

    def layout(self, names: tuple[str, ...]) -> int:
        """Return the number of a list of joint names."""
        if names not in self._layouts:
            self._layouts[names] = len(self.layouts)
            self.layouts.append(names)
        return self._layouts[names]

    def number_of(self, names: tuple[str, ...]) -> int | None:
        """Return the number of a list of joint names, or None if it is new."""
        return self._layouts.get(names)

    def child(self, frame: str) -> int:
        """Return the number, from -1 downward, of a child frame."""
        if frame not in self._children:
            self._children[frame] = len(self.children)
            self.children.append(frame)
        return -1 - self._children[frame]

    def code(self, name: str, kind: str, encoding: str) -> int | None:
        """Return the code of a channel, or None if its messages cannot be decoded."""
        number = _KINDS.get((kind, encoding))
        return None if number is None else self.topic(name) * KIND_COUNT + number

    def report(self, problem: str, count: int = 1) -> None:
        """Count a problem."""
        self.problems[problem] = self.problems.get(problem, 0) + count

    def decode(self, raw: Raw) -> Messages:
        """Decode serialized messages."""
        for problem in raw.problems:
            self.report(problem)
        content, index = raw.content, np.ascontiguousarray(raw.rows)
        rows = np.empty((len(index), ROW), np.int64)
        numbers = np.empty(int(index[:, 3].sum()) // 8 + 1)
        bad = np.zeros((len(self._latest), len(REASONS)), np.int64)
        state, head = np.zeros(STATE, np.int64), np.zeros(ROW, np.int64)
        call = compiled(DECODE)
        while True:
            if not call(
                content.ctypes.data,
                index.ctypes.data,
                len(index),
                self.strings.ctypes.data,
                self.lists.ctypes.data,
                len(self.lists),
                self._latest.ctypes.data,
                bad.ctypes.data,
                rows.ctypes.data,
                numbers.ctypes.data,
                state.ctypes.data,
                head.ctypes.data,
            ):
                break
            self._read_list(content, index[state[0]], int(state[3]), head)
        for code, reason in np.argwhere(bad).tolist():
            self.report(
                f"{self.topics[code // KIND_COUNT]}: {REASONS[reason]}", int(bad[code, reason])
            )
        return _in_order(rows[: state[1]], numbers[: state[2]], int(bad.sum()))

    def add_list(self, kind: int, number: int, strings: Sequence[bytes]) -> None:
        """Recognize a list from now on: 0, the names of a layout; 1, a child frame."""
        content = b"".join(len(string).to_bytes(8, "little") + string for string in strings)
        row = np.array([[kind, len(strings), len(self.strings), number]], np.int64)
        self.lists = np.concatenate([self.lists, row])
        self.strings = np.concatenate([self.strings, np.frombuffer(content, np.uint8)])

    def _read_list(
        self, content: NDArray[np.uint8], row: NDArray[np.int64], code: int, head: NDArray[np.int64]
    ) -> None:
        """Read the strings of a message and store them; their bounds have been checked."""
        position, count, width, big = (int(number) for number in head[4:8])
        origin = int(row[2]) + (4 if code & KIND_COUNT - 1 < 2 else 0)
        strings = list(
            _strings(content, origin, position, count, width, "big" if big else "little")
        )
        kind = code & 1
        names = tuple(string.split(b"\0")[0].decode("utf-8", "replace") for string in strings)
        number = self.child(names[0]) if kind else self.layout(names)
        self.add_list(kind, number, strings)


def _strings(
    content: NDArray[np.uint8], origin: int, position: int, count: int, width: int, order: Any
) -> Sequence[bytes]:
    """Strings that begin at a position behind the origin, without the zero at the end."""
    strings = []
    for _ in range(count):
        position += -position % width
        length = int.from_bytes(content[origin + position : origin + position + 4].tobytes(), order)
        position += 4
        string = content[origin + position : origin + position + length].tobytes()
        strings.append(string[:-1] if width > 1 and string.endswith(b"\0") else string)
        position += length
    return strings


def _in_order(rows: NDArray[np.int64], numbers: NDArray[np.float64], bad: int) -> Messages:
    """Messages in order of log time."""
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
        bad,
    )
