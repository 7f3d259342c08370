# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that list the messages of requested topics in the records of a chunk.

There is one function for each format. Every offset is checked, as a file may contain anything.
"""

from ...cdr.decode_kernel import write_row
from ...engine.kernel.lanes import integers_at
from ...engine.kernel.raw import bytes_at, load8, load16, load32, load64
from ...engine.machine_code.compiler import Entry
from ...engine.machine_code.declare import kernel

# Rows of an index: code, log time, offset, length


@kernel
def code_of(channels, count, number):
    """Return the code of a channel by its number, or -1; the number itself if count is negative."""
    if count < 0:
        return number
    for k in range(count):
        if channels[2 * k] == number:
            return channels[2 * k + 1]
    return -1


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
        if opcode == 0:  # no record has this type
            break
        if opcode == 5 and length >= 22:
            code = code_of(channels, count, load16(content, start))
            if code >= 0:
                write_row(index, n, code, load64(content, start + 6), start + 22, length - 22)
                n = n + 1
        elif count < 0 and (opcode == 3 or opcode == 4):
            write_row(index, n, -opcode, 0, start, length)
            n = n + 1
        elif count < 0 and (opcode == 6 or opcode == 15):
            break
        position = start + length
    state[0] = n
    state[1] = position
    return 0


_O, _C, _T, _EQUALS = map(ord, "oct=")


@kernel
def ros1_fields(content, field, end):
    """Return type (or 0), number of the connection and log time (or -1) of a record header."""
    opcode, number, time = 0, -1, -1
    while field + 4 <= end:
        width = load32(content, field)
        field = field + 4
        if width > end - field:
            break
        name = load8(content, field)
        if width == 4 and name == _O and load8(content, field + 2) == _EQUALS:  # op=
            opcode = load8(content, field + 3)
        elif width == 9 and name == _C and load8(content, field + 4) == _EQUALS:  # conn=
            number = load32(content, field + 5)
        elif width == 13 and name == _T and load8(content, field + 4) == _EQUALS:  # time=
            time = load32(content, field + 5) * 1_000_000_000 + load32(content, field + 9)
        field = field + width
    return opcode, number, time


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
        opcode, number, time = ros1_fields(content, position + 4, start - 4)
        if opcode == 0:
            break
        if opcode == 2 and number >= 0:
            code = code_of(channels, count, number)
            if code >= 0:
                write_row(index, n, code, time, start, length)
                n = n + 1
        elif count < 0 and opcode == 7:
            write_row(index, n, -7, 0, position, start + length - position)
            n = n + 1
        position = start + length
    state[0] = n
    state[1] = position
    return 0


MIN_RECORD = 8  # bytes
INDEX_MCAP = Entry("logs-index_mcap", index_mcap, "q" * 6)
INDEX_ROS1 = Entry("logs-index_ros1", index_ros1, "q" * 6)
