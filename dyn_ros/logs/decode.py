# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joint states and odometry of serialized messages, as arrays.

Two compiled steps. The first one walks over the records of a chunk and lists the messages of the
requested topics; there is one function for each format of files. The second one decodes them:
CDR of either byte order, or the serialization of ROS 1. A list of joint names is compared with
those that are known, string by string, because the bytes between strings are undefined. The
function returns to Python for a list that is new, and goes on. Every offset is checked: a file may
contain anything.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..spatial.compiler import Entry, kernel
from ..spatial.lanes import integers_at
from ..spatial.raw import bytes_at, load8, load16, load32, load64
from .source import CDR, JOINT_STATE, ODOMETRY, ROS1, Raw

MAX_LISTS = 1000        # bounds memory and time if a publisher never repeats its list of names
_KINDS = {(JOINT_STATE, CDR): 0, (ODOMETRY, CDR): 1, (JOINT_STATE, ROS1): 2, (ODOMETRY, ROS1): 3}
_KIND_COUNT = 4
_REASONS = ("", "the message is shorter than its contents", "the message is not CDR",
            f"more than {MAX_LISTS} different lists of names", "the log time is out of range")
_CUT, _NOT_CDR, _TOO_MANY, _BAD_TIME = range(1, 5)
_NEW_LIST = -2          # result of decode_message
_COVARIANCE = 36        # numbers


@dataclass(frozen=True, eq=False)
class Messages:
    """Decoded messages, in order of log time.

    Attributes
    ----------
    layout : (n,) ndarray of int32
        Index of the joint names in ``decoder.layouts``; -1 - k for an odometry whose child frame
        is ``decoder.children[k]``.
    topic : (n,) ndarray of int32
        Index in ``decoder.topics``.
    log_time, stamp : (n,) ndarray of int64
        [ns]. A stamp of zero in the message is replaced by the log time.
    counts : (n, 3) ndarray of int32
        Numbers of positions, velocities and efforts; 7, 6 and 0 for an odometry.
    start : (n,) ndarray of int64
        Where the numbers of a message start in ``numbers``: positions, velocities, efforts. An
        odometry has x y z qx qy qz qw, then the linear and the angular velocity.
    numbers : (m,) ndarray of float64
    bad : int
        Messages that could not be decoded; see ``decoder.problems``.
    """

    layout: NDArray[np.int32]
    topic: NDArray[np.int32]
    log_time: NDArray[np.int64]
    stamp: NDArray[np.int64]
    counts: NDArray[np.int32]
    start: NDArray[np.int64]
    numbers: NDArray[np.float64]
    bad: int = 0

    def __len__(self) -> int:
        return len(self.layout)

    def take(self, rows: slice | NDArray[Any]) -> Messages:
        """Return some of the messages; their numbers stay in place."""
        return Messages(self.layout[rows], self.topic[rows], self.log_time[rows],
                        self.stamp[rows], self.counts[rows], self.start[rows], self.numbers,
                        self.bad)

    @classmethod
    def none(cls, bad: int = 0) -> Messages:
        """Return no messages."""
        i32, i64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return cls(i32, i32, i64, i64, np.zeros((0, 3), np.int32), i64, np.zeros(0), bad)


# --- first step: the messages in a chunk. Rows of an index: code, log time, offset, length

@kernel
def code_of(channels, count, number):
    """Code of a channel by its number, or -1; every number is a code if count is negative."""
    if count < 0:
        return number
    for k in range(count):
        if channels[2 * k] == number:
            return channels[2 * k + 1]
    return -1


@kernel
def add_row(index, n, code, time, offset, length):
    index[4 * n] = code
    index[4 * n + 1] = time
    index[4 * n + 2] = offset
    index[4 * n + 3] = length


def index_mcap(content, size, channels, count, index, state):
    """List the messages among records of MCAP; all arguments but two are addresses.

    With a negative count schemas and channels are listed too, with the codes -3 and -4, up to the
    first chunk or the end of the data. The state becomes the number of rows, and the offset of
    the first byte that was not read as part of a whole record.
    """
    content, channels = bytes_at(content), integers_at(channels)
    index, state = integers_at(index), integers_at(state)
    position = 0
    n = 0
    while position + 9 <= size:
        length = load64(content, position + 1)
        if length < 0 or length > size - position - 9:
            break
        start = position + 9
        opcode = load8(content, position)
        if opcode == 5 and length >= 22:
            code = code_of(channels, count, load16(content, start))
            if code >= 0:
                add_row(index, n, code, load64(content, start + 6), start + 22, length - 22)
                n = n + 1
        elif count < 0 and (opcode == 3 or opcode == 4):
            add_row(index, n, -opcode, 0, start, length)
            n = n + 1
        elif count < 0 and (opcode == 6 or opcode == 15):
            break
        position = start + length
    state[0] = n
    state[1] = position
    return 0


MIN_MCAP_RECORD = 9


def index_ros1(content, size, channels, count, index, state):
    """List the messages among records of a ROS 1 bag, as ``index_mcap``.

    With a negative count connections are listed too, with the code -7 and all of the record.
    """
    content, channels = bytes_at(content), integers_at(channels)
    index, state = integers_at(index), integers_at(state)
    position = 0
    n = 0
    while position + 8 <= size:
        header = load32(content, position)
        if header > size - position - 8:
            break
        length = load32(content, position + 4 + header)
        start = position + 8 + header
        if length > size - start:
            break
        opcode, number, time = 0, -1, -1
        field = position + 4
        while field + 4 <= start - 4:
            width = load32(content, field)
            field = field + 4
            if width > start - 4 - field:
                break
            name = load8(content, field)
            if width == 4 and name == 111 and load8(content, field + 2) == 61:          # op=
                opcode = load8(content, field + 3)
            elif width == 9 and name == 99 and load8(content, field + 4) == 61:         # conn=
                number = load32(content, field + 5)
            elif width == 13 and name == 116 and load8(content, field + 4) == 61:       # time=
                time = (load32(content, field + 5) * 1_000_000_000
                        + load32(content, field + 9))
            field = field + width
        if opcode == 2 and number >= 0:
            code = code_of(channels, count, number)
            if code >= 0:
                add_row(index, n, code, time, start, length)
                n = n + 1
        elif count < 0 and opcode == 7:
            add_row(index, n, -7, 0, position, start + length - position)
            n = n + 1
        position = start + length
    state[0] = n
    state[1] = position
    return 0


MIN_ROS1_RECORD = 8


# --- second step: one message. Positions are offsets in content; -1 is one behind its end

@kernel
def integer(content, p, big):
    """Unsigned 32-bit integer of either byte order."""
    if big == 0:
        return load32(content, p)
    return (load8(content, p) << 24 | load8(content, p + 1) << 16 | load8(content, p + 2) << 8
            | load8(content, p + 3))


@kernel
def bits(content, p, big):
    """The bits of a float of either byte order, as an integer."""
    if big == 0:
        return load64(content, p)
    return integer(content, p, 1) << 32 | integer(content, p + 4, 1)


@kernel
def aligned(p, origin, width):
    """Next position that is a multiple of the width, a power of two, behind the origin."""
    return p + (origin - p & width - 1)


@kernel
def skip_string(content, p, origin, end, width, big):
    """Position behind a string."""
    p = aligned(p, origin, width)
    if p + 4 > end:
        return -1
    length = integer(content, p, big)
    if length > end - p - 4:
        return -1
    return p + 4 + length


@kernel
def skip_strings(content, count, p, origin, end, width, big):
    """Position behind several strings."""
    for _ in range(count):
        p = skip_string(content, p, origin, end, width, big)
        if p < 0:
            return -1
    return p


@kernel
def match(content, count, p, origin, end, width, big, known, place, known_count):
    """Position behind strings that are those known at a place, else -1.

    Known strings are stored as their length, of eight bytes, and their bytes, without the zero
    that ends a string of CDR.
    """
    if count != known_count:
        return -1
    for _ in range(count):
        p = aligned(p, origin, width)
        if p + 4 > end:
            return -1
        length = integer(content, p, big)
        p = p + 4
        if length > end - p:
            return -1
        size = length
        if width > 1 and size > 0 and load8(content, p + size - 1) == 0:
            size = size - 1
        if load64(known, place) != size:
            return -1
        place = place + 8
        for i in range(size):
            if load8(content, p + i) != load8(known, place + i):
                return -1
        place = place + size
        p = p + length
    return p


@kernel
def find_list(content, kind, count, p, origin, end, width, big, known, lists, list_count, latest):
    """Index of a list of strings, and the position behind it: (-1, -1) if it is not known.

    Rows of lists: kind, number of strings, place in known, public number.
    """
    if latest >= 0:
        behind = match(content, count, p, origin, end, width, big, known, lists[4 * latest + 2],
                       lists[4 * latest + 1])
        if behind >= 0:
            return latest, behind
    for k in range(list_count):
        if lists[4 * k] == kind:
            behind = match(content, count, p, origin, end, width, big, known, lists[4 * k + 2],
                           lists[4 * k + 1])
            if behind >= 0:
                return k, behind
    return -1, -1


@kernel
def copy_numbers(content, p, count, big, numbers, m):
    for i in range(count):
        numbers[m + i] = bits(content, p + 8 * i, big)


@kernel
def decode_sequences(content, p, origin, end, wide, width, big, head, numbers, m):
    """Copy three sequences of floats: True unless they are cut."""
    for k in range(3):
        p = aligned(p, origin, width)
        if p + 4 > end:
            return False
        count = integer(content, p, big)
        p = p + 4
        if count > 0:
            p = aligned(p, origin, wide)
        if 8 * count > end - p:
            return False
        copy_numbers(content, p, count, big, numbers, m)
        head[1 + k] = count
        m = m + count
        p = p + 8 * count
    return True


@kernel
def decode_odometry(content, p, origin, end, wide, big, head, numbers, m):
    """Copy a pose and a twist: True unless they are cut."""
    p = aligned(p, origin, wide)
    if p + 8 * (13 + 2 * _COVARIANCE) > end:
        return False
    copy_numbers(content, p, 7, big, numbers, m)
    copy_numbers(content, p + 8 * (7 + _COVARIANCE), 6, big, numbers, m + 7)
    head[1], head[2], head[3] = 7, 6, 0
    return True


@kernel
def decode_message(content, kind, offset, length, known, lists, list_count, latest, numbers, m,
                   head):
    """Decode a message: index of its list of names, or minus the reason, or ``_NEW_LIST``.

    The head becomes its stamp and the numbers of positions, velocities and efforts; for a new
    list of names where it starts, its number of strings, the width and the byte order.
    """
    p, end, origin = offset, offset + length, offset
    wide, width, big = 1, 1, 0
    if kind < 2:
        if length < 4:
            return -10 - _CUT
        if load8(content, p) != 0 or load8(content, p + 1) > 1:
            return -10 - _NOT_CDR
        big = 1 - load8(content, p + 1)
        origin, wide, width = p + 4, 8, 4
    p = p + 4                           # behind the encapsulation, or the sequence number of ROS 1
    if p + 8 > end:
        return -10 - _CUT
    seconds = integer(content, p, big)
    if seconds >= 1 << 31 and kind < 2:
        seconds = seconds - (1 << 32)
    head[0] = seconds * 1_000_000_000 + integer(content, p + 4, big)
    p = skip_string(content, p + 8, origin, end, width, big)
    if p < 0:
        return -10 - _CUT
    count = 1
    if kind & 1 == 0:
        p = aligned(p, origin, width)
        if p + 4 > end:
            return -10 - _CUT
        count = integer(content, p, big)
        p = p + 4
    found, behind = find_list(content, kind & 1, count, p, origin, end, width, big, known, lists,
                              list_count, latest)
    if found < 0:
        if skip_strings(content, count, p, origin, end, width, big) < 0:
            return -10 - _CUT
        if list_count >= MAX_LISTS:
            return -10 - _TOO_MANY
        head[4], head[5], head[6], head[7] = p - origin, count, width, big
        return _NEW_LIST
    if kind & 1 == 0:
        whole = decode_sequences(content, behind, origin, end, wide, width, big, head, numbers, m)
    else:
        whole = decode_odometry(content, behind, origin, end, wide, big, head, numbers, m)
    return found if whole else -10 - _CUT


ROW = 8                     # numbers in a row of messages, and in a head
_STATE = 4                  # next message, rows, numbers, code of a new list


def decode(content, index, count, known, lists, list_count, latest, bad, rows, numbers, state,
           head):
    """Decode the messages of an index; all arguments but two counts are addresses.

    Returns 1 at a message with a new list of names. Rows of messages: number of the list, topic,
    log time, stamp, three counts, start. latest has the list of the last message of each code.
    """
    content, known, index, lists = (
        bytes_at(content), bytes_at(known), integers_at(index), integers_at(lists))
    latest, bad, rows, numbers, state, head = (
        integers_at(latest), integers_at(bad), integers_at(rows), integers_at(numbers),
        integers_at(state), integers_at(head))
    i, n, m = state[0], state[1], state[2]
    result = 0
    while i < count:
        code = index[4 * i]
        time = index[4 * i + 1]
        found = -10 - _BAD_TIME
        if time >= 0:
            found = decode_message(content, code & _KIND_COUNT - 1, index[4 * i + 2],
                                   index[4 * i + 3], known, lists, list_count, latest[code],
                                   numbers, m, head)
        if found == _NEW_LIST:
            state[3] = code
            result = 1
            break
        if found < 0:
            place = code * len(_REASONS) - 10 - found
            bad[place] = bad[place] + 1
        else:
            latest[code] = found
            add_row(rows, 2 * n, lists[4 * found + 3], code // _KIND_COUNT, time,
                    time if head[0] == 0 else head[0])
            add_row(rows, 2 * n + 1, head[1], head[2], head[3], m)
            m = m + head[1] + head[2] + head[3]
            n = n + 1
        i = i + 1
    state[0], state[1], state[2] = i, n, m
    return result


_INTEGER = types.int64
INDEX_MCAP = Entry("logs-index_mcap", index_mcap, _INTEGER(*[_INTEGER] * 6), nogil=True)
INDEX_ROS1 = Entry("logs-index_ros1", index_ros1, _INTEGER(*[_INTEGER] * 6), nogil=True)
DECODE = Entry("logs-decode", decode, _INTEGER(*[_INTEGER] * 12), nogil=True)


def compiled(entry: Entry, function: Callable[..., int]) -> Callable[..., int]:
    """The compiled function of an entry; without the compiler, the function itself."""
    entry.load()
    return entry.call or function


def prepare() -> None:
    """Compile everything, so that worker processes find it in the cache."""
    for entry in (INDEX_MCAP, INDEX_ROS1, DECODE):
        entry.load()


def index_of(entry: Entry, content: NDArray[np.uint8], codes: dict[int, int] | None
             ) -> tuple[NDArray[np.int64], int]:
    """Index of the messages in a chunk, and the size of its whole records.

    Parameters
    ----------
    entry : Entry
        ``INDEX_MCAP`` or ``INDEX_ROS1``.
    content : (n,) ndarray of uint8
        The uncompressed chunk.
    codes : dict of int to int, or None
        Codes of channels by their numbers. None: all messages, with the number of their channel
        as code, and negative codes for what defines channels.
    """
    function, least = ((index_mcap, MIN_MCAP_RECORD) if entry is INDEX_MCAP
                       else (index_ros1, MIN_ROS1_RECORD))
    channels = np.array(sorted((codes or {}).items()), np.int64).reshape(-1, 2)
    index = np.empty((len(content) // least + 1, 4), np.int64)
    state = np.zeros(2, np.int64)
    compiled(entry, function)(
        content.ctypes.data, len(content), channels.ctypes.data,
        -1 if codes is None else len(channels), index.ctypes.data, state.ctypes.data)
    return index[:state[0]], int(state[1])


class Decoder:
    """Decodes messages, and numbers what they have in common.

    Attributes
    ----------
    layouts : list of tuple of str
        Lists of joint names, in the order in which they were found.
    children : list of str
        Child frames of odometries.
    topics : list of str
    problems : dict of str to int
        Why messages could not be decoded, or parts of a file not be read, and how many.
    """

    def __init__(self) -> None:
        self.layouts: list[tuple[str, ...]] = []
        self.children: list[str] = []
        self.topics: list[str] = []
        self.problems: dict[str, int] = {}
        self._slots: dict[str, int] = {}
        self._layouts: dict[tuple[str, ...], int] = {}
        self._children: dict[str, int] = {}
        self._known = bytearray()
        self._lists = np.zeros((MAX_LISTS, 4), np.int64)
        self._list_count = 0
        self._latest = np.zeros(0, np.int64)

    def topic(self, name: str) -> int:
        """Return the number of a topic."""
        if name not in self._slots:
            self._slots[name] = len(self.topics)
            self.topics.append(name)
            self._latest = np.append(self._latest, np.full(_KIND_COUNT, -1))
        return self._slots[name]

    def layout(self, names: tuple[str, ...]) -> int:
        """Return the number of a list of joint names."""
        if names not in self._layouts:
            self._layouts[names] = len(self.layouts)
            self.layouts.append(names)
        return self._layouts[names]

    def child(self, frame: str) -> int:
        """Return the number, from -1 downward, of a child frame."""
        if frame not in self._children:
            self._children[frame] = len(self.children)
            self.children.append(frame)
        return -1 - self._children[frame]

    def code(self, name: str, kind: str, encoding: str) -> int | None:
        """Return the code of a channel, or None if its messages cannot be decoded."""
        number = _KINDS.get((kind, encoding))
        return None if number is None else self.topic(name) * _KIND_COUNT + number

    def report(self, problem: str, count: int = 1) -> None:
        """Count a problem."""
        self.problems[problem] = self.problems.get(problem, 0) + count

    def decode(self, raw: Raw) -> Messages:
        """Decode serialized messages.

        Parameters
        ----------
        raw : Raw
            With codes from ``code``.

        Returns
        -------
        Messages
        """
        for problem in raw.problems:
            self.report(problem)
        content, index = raw.content, np.ascontiguousarray(raw.rows)
        rows = np.empty((len(index), ROW), np.int64)
        numbers = np.empty(int(index[:, 3].sum()) // 8 + 1)
        bad = np.zeros((len(self._latest), len(_REASONS)), np.int64)
        state, head = np.zeros(_STATE, np.int64), np.zeros(ROW, np.int64)
        call = compiled(DECODE, decode)
        while True:
            known = np.frombuffer(bytes(self._known) + b"\0", np.uint8)
            if not call(content.ctypes.data, index.ctypes.data, len(index), known.ctypes.data,
                        self._lists.ctypes.data, self._list_count, self._latest.ctypes.data,
                        bad.ctypes.data, rows.ctypes.data, numbers.ctypes.data,
                        state.ctypes.data, head.ctypes.data):
                break
            self._add_list(content, index[state[0]], int(state[3]), head)
        for code, reason in np.argwhere(bad).tolist():
            self.report(f"{self.topics[code // _KIND_COUNT]}: {_REASONS[reason]}",
                        int(bad[code, reason]))
        return _in_order(rows[:state[1]], numbers[:state[2]], int(bad.sum()))

    def _add_list(self, content: NDArray[np.uint8], row: NDArray[np.int64], code: int,
                  head: NDArray[np.int64]) -> None:
        """Read the strings of a message and store them; their bounds have been checked."""
        position, count, width, big = (int(number) for number in head[4:8])
        origin = int(row[2]) + (4 if code & _KIND_COUNT - 1 < 2 else 0)
        strings = list(_strings(content, origin, position, count, width, "big" if big else
                                "little"))
        kind = code & 1
        names = tuple(string.split(b"\0")[0].decode("utf-8", "replace") for string in strings)
        number = self.child(names[0]) if kind else self.layout(names)
        self._lists[self._list_count] = kind, count, len(self._known), number
        self._list_count += 1
        for string in strings:
            self._known += len(string).to_bytes(8, "little") + string


def _strings(content: NDArray[np.uint8], origin: int, position: int, count: int, width: int,
             order: Any) -> Sequence[bytes]:
    """Strings that begin at a position behind the origin, without the zero at the end."""
    found = []
    for _ in range(count):
        position += -position % width
        length = int.from_bytes(content[origin + position:origin + position + 4].tobytes(), order)
        position += 4
        string = content[origin + position:origin + position + length].tobytes()
        found.append(string[:-1] if width > 1 and string.endswith(b"\0") else string)
        position += length
    return found


def _in_order(rows: NDArray[np.int64], numbers: NDArray[np.float64], bad: int) -> Messages:
    """Messages in order of log time."""
    log_time = rows[:, 2]
    if (log_time[1:] < log_time[:-1]).any():
        rows = rows[np.argsort(log_time, kind="stable")]
    return Messages(
        rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), rows[:, 2].copy(),
        rows[:, 3].copy(), rows[:, 4:7].astype(np.int32), rows[:, 7].copy(), numbers, bad)
