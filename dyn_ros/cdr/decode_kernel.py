# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that decode joint states and odometry: CDR of either byte order, or ROS 1.

A list of joint names is compared with the lists that occurred before, string by string, because the
bytes between strings are undefined. At an unknown list, `decode` returns; its caller adds the list,
and calls again. Every offset is checked, as the bytes may contain anything.

A DynamicJointState is decoded as joint states. In place of a list of names, it has a layout: the
names of its entries and of their interfaces, see `InterfaceLayout`.

Positions are offsets in the content, and -1 behind its end. Lengths and strings are aligned to
`alignment` bytes behind `origin`, floats to `double_alignment`; ROS 1 aligns nothing.
"""

from ..engine.kernel.lanes import integers_at
from ..engine.kernel.raw import bytes_at, load8, load32, load64
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.declare import kernel, subroutine

MAX_LISTS = 1000  # bounds memory and time if a publisher never repeats its list of names
# kinds of messages: joint states and odometry of CDR, then of ROS 1; DynamicJointState of CDR
DYNAMIC_KIND = 4
KIND_COUNT = 8  # a power of two
LAYOUT_LIST = 2  # kind of the string list of a layout; see `find_string_list`
PROBLEMS = (
    "",
    "the message is shorter than its contents",
    "the message is not CDR",
    f"more than {MAX_LISTS} different lists of names",
    "the log time is out of range",
    "the numbers of its names and values differ",
)
_TRUNCATED, _NOT_CDR, _EXCESS_LISTS, _INVALID_TIME, _UNEQUAL_COUNTS = range(1, 6)
_NEW_LIST = -2  # result of decode_message: the list of names is unknown
_ERROR = -10  # result of decode_message: _ERROR - k is problem k
_COVARIANCE_SIZE = 36
_NAN_BITS = 0x7FF8000000000000


@kernel
def read_uint32(content, p, is_big_endian):
    """Return the unsigned 32-bit integer at position p, of either byte order."""
    if is_big_endian == 0:
        return load32(content, p)
    return (
        load8(content, p) << 24
        | load8(content, p + 1) << 16
        | load8(content, p + 2) << 8
        | load8(content, p + 3)
    )


@kernel
def read_float_bits(content, p, is_big_endian):
    """Return the bits of the 64-bit float at position p, of either byte order, as an integer."""
    if is_big_endian == 0:
        return load64(content, p)
    return read_uint32(content, p, 1) << 32 | read_uint32(content, p + 4, 1)


@kernel
def align_position(p, origin, width):
    """Return the next position whose distance from the origin is a multiple of `width`, 2^k."""
    return p + (origin - p & width - 1)


@kernel
def skip_string(content, p, origin, end, alignment, is_big_endian):
    """Return the position behind a string; -1 if that is behind the end."""
    p = align_position(p, origin, alignment)
    if p + 4 > end:
        return -1
    length = read_uint32(content, p, is_big_endian)
    if length > end - p - 4:
        return -1
    return p + 4 + length


@kernel
def skip_strings(content, count, p, origin, end, alignment, is_big_endian):
    """Return the position behind `count` strings; -1 if that is behind the end."""
    for _ in range(count):
        p = skip_string(content, p, origin, end, alignment, is_big_endian)
        if p < 0:
            return -1
    return p


@kernel
def match_strings(
    content, count, p, origin, end, alignment, is_big_endian, strings, place, string_count
):
    """Return the position behind a list of strings if it equals a known list; otherwise -1.

    The known list is in `strings` from `place` on: each string behind its length, of eight bytes,
    and without a final zero.
    """
    if count != string_count:
        return -1
    for _ in range(count):
        p = align_position(p, origin, alignment)
        if p + 4 > end:
            return -1
        length = read_uint32(content, p, is_big_endian)
        p = p + 4
        if length > end - p:
            return -1
        size = length
        if alignment > 1 and size > 0 and load8(content, p + size - 1) == 0:
            size = size - 1
        if load64(strings, place) != size:
            return -1
        place = place + 8
        for i in range(size):
            if load8(content, p + i) != load8(strings, place + i):
                return -1
        place = place + size
        p = p + length
    return p


@kernel
def find_string_list(
    content,
    kind,
    count,
    p,
    origin,
    end,
    alignment,
    is_big_endian,
    strings,
    lists,
    list_count,
    latest,
):
    """Return the index of a list of strings, and the position behind it; (-1, -1) if unknown.

    Reads `lists`, with four columns: kind (0 joint names, 1 a child frame, 2 a layout), number of
    strings, place in `strings`, number in the decoder. `latest` is the index that is tried first.
    """
    if latest >= 0:
        list_end = match_strings(
            content,
            count,
            p,
            origin,
            end,
            alignment,
            is_big_endian,
            strings,
            lists[4 * latest + 2],
            lists[4 * latest + 1],
        )
        if list_end >= 0:
            return latest, list_end
    for k in range(list_count):
        if lists[4 * k] == kind:
            list_end = match_strings(
                content,
                count,
                p,
                origin,
                end,
                alignment,
                is_big_endian,
                strings,
                lists[4 * k + 2],
                lists[4 * k + 1],
            )
            if list_end >= 0:
                return k, list_end
    return -1, -1


@kernel
def copy_doubles(content, p, count, is_big_endian, numbers, m):
    """Copy `count` floats at position p to `numbers` from index m on."""
    for i in range(count):
        numbers[m + i] = read_float_bits(content, p + 8 * i, is_big_endian)


@kernel
def decode_sequences(
    content, p, origin, end, double_alignment, alignment, is_big_endian, head, numbers, m
):
    """Copy positions, velocities and efforts to `numbers` from index m on; False if truncated.

    Writes their counts to head[1:4].
    """
    for k in range(3):
        p = align_position(p, origin, alignment)
        if p + 4 > end:
            return False
        count = read_uint32(content, p, is_big_endian)
        p = p + 4
        if count > 0:
            p = align_position(p, origin, double_alignment)
        if 8 * count > end - p:
            return False
        copy_doubles(content, p, count, is_big_endian, numbers, m)
        head[1 + k] = count
        m = m + count
        p = p + 8 * count
    return True


@kernel
def decode_odometry(content, p, origin, end, double_alignment, is_big_endian, head, numbers, m):
    """Copy a pose and a twist to `numbers` from index m on; return False if they are truncated.

    Writes the counts 7, 6, 0 to head[1:4].
    """
    p = align_position(p, origin, double_alignment)
    if p + 8 * (13 + 2 * _COVARIANCE_SIZE) > end:
        return False
    copy_doubles(content, p, 7, is_big_endian, numbers, m)
    copy_doubles(content, p + 8 * (7 + _COVARIANCE_SIZE), 6, is_big_endian, numbers, m + 7)
    head[1], head[2], head[3] = 7, 6, 0
    return True


# --- DynamicJointState


@kernel
def read_count(content, p, origin, end, is_big_endian):
    """Return the length of a sequence, and the position behind it; (-1, -1) behind the end."""
    p = align_position(p, origin, 4)
    if p + 4 > end:
        return -1, -1
    return read_uint32(content, p, is_big_endian), p + 4


@kernel
def find_values(p, origin, end, count):
    """Return the position of the first of `count` floats of a sequence; -1 behind the end."""
    if count > 0:
        p = align_position(p, origin, 8)
    return p if 8 * count <= end - p else -1


@kernel
def match_names(content, p, origin, end, is_big_endian, strings, place):
    """Return the position behind a sequence of strings if it equals a known one; otherwise -1.

    The known one is in `strings` from `place` on: number of strings, size of the strings, strings.
    """
    count, p = read_count(content, p, origin, end, is_big_endian)
    if p < 0:
        return -1
    string_count = load64(strings, place)
    return match_strings(
        content, count, p, origin, end, 4, is_big_endian, strings, place + 16, string_count
    )


@kernel
def read_layout(content, p, origin, end, is_big_endian, strings, place, numbers, m):
    """Copy the values of a message with a layout to `numbers` from index m on; False without it.

    The layout is in `strings` from `place` on: number of joints, names of the entries as for
    `match_names`, and for each entry the names of its interfaces and the destinations of its
    values: indices in `numbers`, or -1. Numbers for which there is no value are NaN.
    """
    joint_count = load64(strings, place)
    if 24 * joint_count > end - origin:  # its strings alone would be longer
        return False
    place = place + 8
    p = match_names(content, p, origin, end, is_big_endian, strings, place)
    if p < 0:
        return False
    entry_count = load64(strings, place)
    place = place + 16 + load64(strings, place + 8)
    count, p = read_count(content, p, origin, end, is_big_endian)
    if count != entry_count:
        return False
    for i in range(3 * joint_count):
        numbers[m + i] = _NAN_BITS
    for _ in range(entry_count):
        p = match_names(content, p, origin, end, is_big_endian, strings, place)
        if p < 0:
            return False
        interface_count = load64(strings, place)
        place = place + 16 + load64(strings, place + 8)
        count, p = read_count(content, p, origin, end, is_big_endian)
        if count != interface_count:
            return False
        p = find_values(p, origin, end, count)
        if p < 0:
            return False
        for _ in range(count):
            destination = load64(strings, place)
            if destination >= 0:
                numbers[m + destination] = read_float_bits(content, p, is_big_endian)
            p, place = p + 8, place + 8
    return True


@kernel
def find_layout(
    content, p, origin, end, is_big_endian, strings, lists, list_count, latest, numbers, m
):
    """Return the index of the layout of a message, whose values are copied as by `read_layout`.

    Returns -1 if it is unknown. `lists` and `latest` are as in `find_string_list`.
    """
    if latest >= 0 and read_layout(
        content, p, origin, end, is_big_endian, strings, lists[4 * latest + 2], numbers, m
    ):
        return latest
    for k in range(list_count):
        if lists[4 * k] == LAYOUT_LIST and read_layout(
            content, p, origin, end, is_big_endian, strings, lists[4 * k + 2], numbers, m
        ):
            return k
    return -1


@kernel
def find_layout_problem(content, p, origin, end, is_big_endian):
    """Return 0 if the names and values of a DynamicJointState are complete, or a problem."""
    entry_count, p = read_count(content, p, origin, end, is_big_endian)
    if p >= 0:
        p = skip_strings(content, entry_count, p, origin, end, 4, is_big_endian)
    if p < 0:
        return _TRUNCATED
    count, p = read_count(content, p, origin, end, is_big_endian)
    if p < 0:
        return _TRUNCATED
    if count != entry_count:
        return _UNEQUAL_COUNTS
    for _ in range(entry_count):
        interface_count, p = read_count(content, p, origin, end, is_big_endian)
        if p >= 0:
            p = skip_strings(content, interface_count, p, origin, end, 4, is_big_endian)
        if p < 0:
            return _TRUNCATED
        count, p = read_count(content, p, origin, end, is_big_endian)
        if p < 0:
            return _TRUNCATED
        if count != interface_count:
            return _UNEQUAL_COUNTS
        p = find_values(p, origin, end, count)
        if p < 0:
            return _TRUNCATED
        p = p + 8 * count
    return 0


@subroutine
def decode_dynamic_joint_state(
    content, p, origin, end, is_big_endian, strings, lists, list_count, latest, numbers, m, head
):
    """Decode a DynamicJointState behind its header as joint states; see `decode_message`.

    Not inlined: its code would slow down the messages of the other kinds.
    """
    list_index = find_layout(
        content, p, origin, end, is_big_endian, strings, lists, list_count, latest, numbers, m
    )
    if list_index >= 0:
        count = load64(strings, lists[4 * list_index + 2])
        head[1], head[2], head[3] = count, count, count
        return list_index
    problem = find_layout_problem(content, p, origin, end, is_big_endian)
    if problem == 0 and list_count >= MAX_LISTS:
        problem = _EXCESS_LISTS
    head[4], head[5], head[6], head[7] = p - origin, 0, 4, is_big_endian
    return _NEW_LIST if problem == 0 else _ERROR - problem


@kernel
def decode_message(
    content, kind, offset, length, strings, lists, list_count, latest, numbers, m, head
):
    """Decode a message; return the index of its list of names, ``_NEW_LIST``, or an error.

    Reads `length` bytes of the content from `offset` on. Writes the numbers to `numbers` from index
    m on, and head[:4]: the stamp [ns], and the counts of positions, velocities and efforts. For an
    unknown list of names, writes head[4:8]: its position, number of strings, alignment and byte
    order.
    """
    p, end, origin = offset, offset + length, offset
    double_alignment, alignment, is_big_endian = 1, 1, 0
    if kind < 2 or kind == DYNAMIC_KIND:
        if length < 4:
            return _ERROR - _TRUNCATED
        if load8(content, p) != 0 or load8(content, p + 1) > 1:
            return _ERROR - _NOT_CDR
        is_big_endian = 1 - load8(content, p + 1)
        origin, double_alignment, alignment = p + 4, 8, 4
    p = p + 4  # behind the encapsulation, or the sequence number of ROS 1
    if p + 8 > end:
        return _ERROR - _TRUNCATED
    seconds = read_uint32(content, p, is_big_endian)
    if seconds >= 1 << 31 and alignment > 1:
        seconds = seconds - (1 << 32)
    head[0] = seconds * 1_000_000_000 + read_uint32(content, p + 4, is_big_endian)
    p = skip_string(content, p + 8, origin, end, alignment, is_big_endian)
    if p < 0:
        return _ERROR - _TRUNCATED
    if kind == DYNAMIC_KIND:
        return decode_dynamic_joint_state(
            content,
            p,
            origin,
            end,
            is_big_endian,
            strings,
            lists,
            list_count,
            latest,
            numbers,
            m,
            head,
        )
    count = 1
    if kind & 1 == 0:
        p = align_position(p, origin, alignment)
        if p + 4 > end:
            return _ERROR - _TRUNCATED
        count = read_uint32(content, p, is_big_endian)
        p = p + 4
    list_index, list_end = find_string_list(
        content,
        kind & 1,
        count,
        p,
        origin,
        end,
        alignment,
        is_big_endian,
        strings,
        lists,
        list_count,
        latest,
    )
    if list_index < 0:
        if skip_strings(content, count, p, origin, end, alignment, is_big_endian) < 0:
            return _ERROR - _TRUNCATED
        if list_count >= MAX_LISTS:
            return _ERROR - _EXCESS_LISTS
        head[4], head[5], head[6], head[7] = p - origin, count, alignment, is_big_endian
        return _NEW_LIST
    if kind & 1 == 0:
        is_complete = decode_sequences(
            content,
            list_end,
            origin,
            end,
            double_alignment,
            alignment,
            is_big_endian,
            head,
            numbers,
            m,
        )
    else:
        is_complete = decode_odometry(
            content, list_end, origin, end, double_alignment, is_big_endian, head, numbers, m
        )
    return list_index if is_complete else _ERROR - _TRUNCATED


@kernel
def write_row(rows, n, a, b, c, d):
    """Write row n of `rows`, which has four columns."""
    rows[4 * n] = a
    rows[4 * n + 1] = b
    rows[4 * n + 2] = c
    rows[4 * n + 3] = d


ROW_SIZE = 8  # numbers per row of `rows`, and in `head`
PROGRESS_SIZE = 4  # next message, rows written, numbers written, code of an unknown list


def decode_messages(
    content,
    index,
    count,
    strings,
    lists,
    list_count,
    latest,
    failures,
    rows,
    numbers,
    progress,
    head,
):
    """Decode the messages of an index; return 1 at a message with an unknown list of names, else 0.

    All arguments but `count` and `list_count` are addresses. Reads `content`; `index`, with the
    columns code, log time, offset and length; and `lists` and `strings` as in `find_string_list`.
    Writes `rows`, with the columns number of the list, topic, log time, stamp, three counts, and
    start in `numbers`; `numbers`; `failures`, with a count for each code and problem; and `latest`,
    the list of the last message of each code. `progress` says where to continue, see
    ``PROGRESS_SIZE``.
    """
    content, strings, index, lists = (
        bytes_at(content),
        bytes_at(strings),
        integers_at(index),
        integers_at(lists),
    )
    latest, failures, rows, numbers, progress, head = (
        integers_at(latest),
        integers_at(failures),
        integers_at(rows),
        integers_at(numbers),
        integers_at(progress),
        integers_at(head),
    )
    i, n, m = progress[0], progress[1], progress[2]
    result = 0
    while i < count:
        code = index[4 * i]
        time = index[4 * i + 1]
        outcome = _ERROR - _INVALID_TIME
        if time >= 0:
            outcome = decode_message(
                content,
                code & KIND_COUNT - 1,
                index[4 * i + 2],
                index[4 * i + 3],
                strings,
                lists,
                list_count,
                latest[code],
                numbers,
                m,
                head,
            )
        if outcome == _NEW_LIST:
            progress[3] = code
            result = 1
            break
        if outcome < 0:
            place = code * len(PROBLEMS) + _ERROR - outcome
            failures[place] = failures[place] + 1
        else:
            latest[code] = outcome
            # A row of ``ROW_SIZE`` numbers is written as two rows of four.
            write_row(
                rows,
                2 * n,
                lists[4 * outcome + 3],
                code // KIND_COUNT,
                time,
                time if head[0] == 0 else head[0],
            )
            write_row(rows, 2 * n + 1, head[1], head[2], head[3], m)
            m = m + head[1] + head[2] + head[3]
            n = n + 1
        i = i + 1
    progress[0], progress[1], progress[2] = i, n, m
    return result


DECODE = Entry("logs-decode", decode_messages, "q" * 12)
