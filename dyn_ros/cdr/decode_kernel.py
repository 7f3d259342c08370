# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that decode joint states and odometry: CDR of either byte order, or ROS 1.

A list of joint names is compared with those that are known, string by string, because the bytes
between strings are undefined. The function returns for a list that is new; its caller adds it, and
calls again. Every offset is checked: the bytes may contain anything.
"""

from ..engine.kernel.lanes import integers_at
from ..engine.kernel.raw import bytes_at, load8, load32, load64
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.declare import kernel

MAX_LISTS = 1000  # bounds memory and time if a publisher never repeats its list of names
KIND_COUNT = 4  # joint states and odometry of CDR, then of ROS 1; see decode_message
REASONS = (
    "",
    "the message is shorter than its contents",
    "the message is not CDR",
    f"more than {MAX_LISTS} different lists of names",
    "the log time is out of range",
)
_CUT, _NOT_CDR, _TOO_MANY, _BAD_TIME = range(1, 5)
_NEW_LIST = -2  # result of decode_message
_COVARIANCE = 36  # numbers


# Positions are offsets in content; -1 is one behind its end


@kernel
def integer(content, p, big):
    """Unsigned 32-bit integer of either byte order."""
    if big == 0:
        return load32(content, p)
    return (
        load8(content, p) << 24
        | load8(content, p + 1) << 16
        | load8(content, p + 2) << 8
        | load8(content, p + 3)
    )


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
    """Position behind strings that are those known at a place, where no zero ends them; else -1."""
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
        behind = match(
            content,
            count,
            p,
            origin,
            end,
            width,
            big,
            known,
            lists[4 * latest + 2],
            lists[4 * latest + 1],
        )
        if behind >= 0:
            return latest, behind
    for k in range(list_count):
        if lists[4 * k] == kind:
            behind = match(
                content,
                count,
                p,
                origin,
                end,
                width,
                big,
                known,
                lists[4 * k + 2],
                lists[4 * k + 1],
            )
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
def decode_message(
    content, kind, offset, length, known, lists, list_count, latest, numbers, m, head
):
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
    p = p + 4  # behind the encapsulation, or the sequence number of ROS 1
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
    known_list, behind = find_list(
        content, kind & 1, count, p, origin, end, width, big, known, lists, list_count, latest
    )
    if known_list < 0:
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
    return known_list if whole else -10 - _CUT


@kernel
def add_row(rows, n, a, b, c, d):
    """Write row n of a matrix of four columns."""
    rows[4 * n] = a
    rows[4 * n + 1] = b
    rows[4 * n + 2] = c
    rows[4 * n + 3] = d


ROW = 8  # numbers in a row of messages, and in a head
STATE = 4  # next message, rows, numbers, code of a new list


def decode(
    content, index, count, known, lists, list_count, latest, bad, rows, numbers, state, head
):
    """Decode the messages of an index; all arguments but two counts are addresses.

    Returns 1 at a message with a new list of names. Rows of messages: number of the list, topic,
    log time, stamp, three counts, start. latest has the list of the last message of each code.
    """
    content, known, index, lists = (
        bytes_at(content),
        bytes_at(known),
        integers_at(index),
        integers_at(lists),
    )
    latest, bad, rows, numbers, state, head = (
        integers_at(latest),
        integers_at(bad),
        integers_at(rows),
        integers_at(numbers),
        integers_at(state),
        integers_at(head),
    )
    i, n, m = state[0], state[1], state[2]
    result = 0
    while i < count:
        code = index[4 * i]
        time = index[4 * i + 1]
        outcome = -10 - _BAD_TIME
        if time >= 0:
            outcome = decode_message(
                content,
                code & KIND_COUNT - 1,
                index[4 * i + 2],
                index[4 * i + 3],
                known,
                lists,
                list_count,
                latest[code],
                numbers,
                m,
                head,
            )
        if outcome == _NEW_LIST:
            state[3] = code
            result = 1
            break
        if outcome < 0:
            place = code * len(REASONS) - 10 - outcome
            bad[place] = bad[place] + 1
        else:
            latest[code] = outcome
            add_row(
                rows,
                2 * n,
                lists[4 * outcome + 3],
                code // KIND_COUNT,
                time,
                time if head[0] == 0 else head[0],
            )
            add_row(rows, 2 * n + 1, head[1], head[2], head[3], m)
            m = m + head[1] + head[2] + head[3]
            n = n + 1
        i = i + 1
    state[0], state[1], state[2] = i, n, m
    return result


DECODE = Entry("logs-decode", decode, "q" * 12)
