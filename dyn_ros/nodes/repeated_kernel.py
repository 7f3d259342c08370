# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The compiled function that takes joint states of a known layout into a robot's state."""
from numba import types

from ..engine.kernel.compiler import Entry, kernel
from ..engine.kernel.lanes import floats_at, integers_at
from ..engine.kernel.raw import bytes_at, bytes_of, load8, load32, load64, load_float
from ..states.joint_states import LARGEST

REFUSED = -1
# The table: the size of a message, the address of one, and of the rows (start, stop) of its bytes
# that are constant; the rows (byte of the position, of the velocity, index in q, index in v, index
# in stamps) of the joints; the addresses of q, v and stamps
SIZE, IMAGE, NSPANS, SPANS, NJOINTS, JOINTS, Q, V, STAMPS, LENGTH = range(10)
_SEC, _NANOSEC, _LARGEST_SEC = 4, 8, (1 << 31) - 1


@kernel
def has_same_bytes(a, b, start, stop):
    """Whether two messages have the same bytes from start to stop."""
    i = start
    while i + 8 <= stop:
        if load64(a, i) != load64(b, i):
            return False
        i = i + 8
    while i < stop:
        if load8(a, i) != load8(b, i):
            return False
        i = i + 1
    return True


@kernel
def has_layout(a, size, table):
    if size < table[SIZE]:
        return False
    image, spans = bytes_at(table[IMAGE]), integers_at(table[SPANS])
    for k in range(table[NSPANS]):
        if not has_same_bytes(a, image, spans[2 * k], spans[2 * k + 1]):
            return False
    return True


@kernel
def is_usable(a, joints, count):
    """Whether all positions and velocities are finite and not too large."""
    usable = True
    for k in range(count):
        usable = (usable and abs(load_float(a, joints[5 * k])) <= LARGEST
                  and abs(load_float(a, joints[5 * k + 1])) <= LARGEST)
    return usable


def take(content, table, last):
    """Store positions, velocities and stamp of a message.

    Parameters
    ----------
    content : bytes
        The serialized message.
    table : int
        Address of the table.
    last : int
        The stamp of the message before [ns].

    Returns
    -------
    int
        The stamp [ns]; or REFUSED, and nothing is stored, for a message of another layout, without
        a stamp, older than the last one, or with a number that cannot be used.
    """
    a, table = bytes_of(content), integers_at(table)
    joints, count = integers_at(table[JOINTS]), table[NJOINTS]
    if not has_layout(a, len(content), table):
        return REFUSED
    sec = load32(a, _SEC)
    stamp = 1_000_000_000 * sec + load32(a, _NANOSEC)
    if sec > _LARGEST_SEC or stamp == 0 or stamp < last or not is_usable(a, joints, count):
        return REFUSED
    q, v, stamps = floats_at(table[Q]), floats_at(table[V]), integers_at(table[STAMPS])
    for k in range(count):
        q[joints[5 * k + 2]] = load_float(a, joints[5 * k])
        v[joints[5 * k + 3]] = load_float(a, joints[5 * k + 1])
        stamps[joints[5 * k + 4]] = stamp
    return stamp


TAKE = Entry("nodes-take", take, types.int64(
    types.Bytes(types.uint8, 1, "C"), types.int64, types.int64), nogil=False)
