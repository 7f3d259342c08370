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

_MCAP_SCHEMA, _MCAP_CHANNEL, _MCAP_MESSAGE, _MCAP_CHUNK, _MCAP_DATA_END = 3, 4, 5, 6, 15
_ROS1_MESSAGE, _ROS1_CONNECTION = 2, 7


@kernel
def find_code(channels, count, number):
    """Return the code of a channel by its number, or -1; the number itself if count is negative.

    Channels are sorted by number, as each message may have another one of many.
    """
    if count < 0:
        return number
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if channels[2 * middle] < number:
            low = middle + 1
        else:
            high = middle
    if low < count and channels[2 * low] == number:
        return channels[2 * low + 1]
    return -1


def index_mcap(content, size, channels, count, index, sizes):
    """List the messages in records of MCAP; all arguments but size and count are addresses.

    Reads content (size bytes) and channels (count pairs of number and code, sorted by number).
    Writes index, a row of code, log time, offset and length for each message, and sizes: the number
    of rows, and the offset behind the last whole record. With a negative count, schemas and
    channels are listed too, with the codes -3 and -4, up to the end of the data, and the offset is
    that of the first chunk.
    """
    content, channels = bytes_at(content), integers_at(channels)
    index, sizes = integers_at(index), integers_at(sizes)
    position = 0
    n = 0
    sizes[1] = -1
    while position + 9 <= size:
        length = load64(content, position + 1)
        if length < 0 or length > size - position - 9:
            break
        start = position + 9
        opcode = load8(content, position)
        if opcode == 0:  # no record has this type
            break
        if opcode == _MCAP_MESSAGE and length >= 22:
            code = find_code(channels, count, load16(content, start))
            if code >= 0:
                write_row(index, n, code, load64(content, start + 6), start + 22, length - 22)
                n = n + 1
        elif count < 0 and (opcode == _MCAP_SCHEMA or opcode == _MCAP_CHANNEL):  # noqa: SIM109
            write_row(index, n, -opcode, 0, start, length)
            n = n + 1
        elif count < 0 and opcode == _MCAP_CHUNK and sizes[1] < 0:
            sizes[1] = position
        elif count < 0 and opcode == _MCAP_DATA_END:
            break
        position = start + length
    sizes[0] = n
    if sizes[1] < 0:
        sizes[1] = position
    return 0


_LETTER_O, _LETTER_C, _LETTER_T, _EQUALS_SIGN = map(ord, "oct=")


@kernel
def read_ros1_header(content, field, end):
    """Return type (or 0), number of the connection and log time (or -1) of a record header."""
    opcode, number, time = 0, -1, -1
    while field + 4 <= end:
        width = load32(content, field)
        field = field + 4
        if width > end - field:
            break
        name = load8(content, field)
        if width == 4 and name == _LETTER_O and load8(content, field + 2) == _EQUALS_SIGN:  # op=
            opcode = load8(content, field + 3)
        elif (
            width == 9 and name == _LETTER_C and load8(content, field + 4) == _EQUALS_SIGN
        ):  # conn=
            number = load32(content, field + 5)
        elif (
            width == 13 and name == _LETTER_T and load8(content, field + 4) == _EQUALS_SIGN
        ):  # time=
            time = load32(content, field + 5) * 1_000_000_000 + load32(content, field + 9)
        field = field + width
    return opcode, number, time


def index_ros1(content, size, channels, count, index, sizes):
    """List the messages in records of a ROS 1 bag; reads and writes the same as ``index_mcap``.

    With a negative count, connections are listed too, with the code -7 and the whole record.
    """
    content, channels = bytes_at(content), integers_at(channels)
    index, sizes = integers_at(index), integers_at(sizes)
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
        opcode, number, time = read_ros1_header(content, position + 4, start - 4)
        if opcode == 0:
            break
        if opcode == _ROS1_MESSAGE and number >= 0:
            code = find_code(channels, count, number)
            if code >= 0:
                write_row(index, n, code, time, start, length)
                n = n + 1
        elif count < 0 and opcode == _ROS1_CONNECTION:
            write_row(index, n, -7, 0, position, start + length - position)
            n = n + 1
        position = start + length
    sizes[0] = n
    sizes[1] = position
    return 0


MIN_RECORD_SIZE = 8  # bytes
INDEX_MCAP = Entry("logs-index_mcap", index_mcap, "q" * 6)
INDEX_ROS1 = Entry("logs-index_ros1", index_ros1, "q" * 6)
