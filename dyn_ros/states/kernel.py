# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rules by which messages become states of a robot, compiled."""

import math

from ..cdr.decode_kernel import decode_message
from ..engine.kernel.raw import bytes_at, load32
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.declare import kernel, subroutine
from . import joint_states as rules
from . import memory as mem
from .joint_states import NEVER

REASONS = (
    "no joint names",
    "duplicate joint names",
    "numbers of positions, velocities and efforts that do not match",
    "position that is not finite",
    "position that is too large",
    "velocity that is not finite",
    "velocity that is too large",
    "stamp that is older than the last one",
    "pose of the base that is not finite or too large",
    "quaternion of the base whose norm is not 1",
    "twist of the base that is not finite or too large",
    "child_frame_id that is not the root link",
)
"""Why messages are rejected, by number."""
(
    EMPTY,
    TWICE,
    LENGTHS,
    POSITION,
    LARGE_POSITION,
    VELOCITY,
    LARGE_VELOCITY,
    LATE,
    POSE,
    NORM,
    TWIST,
    CHILD,
) = range(len(REASONS))
JUMP = len(REASONS)  # the row of stamps that jump back
FINE = -1
# what `collect` returns: DUE and JUMPED may be combined
TAKEN, DUE, JUMPED, REJECTED, UNREAD, UNSTAMPED, NEW_NAMES = 0, 1, 2, 4, 8, 16, 32
_PLAIN = 256  # encapsulation of plain CDR, little endian, without options

base_norm = kernel(rules.base_norm)
copy_base = kernel(rules.copy_base)


# --- what is wrong with a message


@kernel
def note(m, reason, message, detail):
    fault = mem.fault_of(m, reason)
    if fault[mem.NUMBER] == 0:
        fault[mem.WHERE], fault[mem.DETAIL] = message, detail
    fault[mem.NUMBER] = fault[mem.NUMBER] + 1


@kernel
def fault_in_values(m, start, layout, too_large):
    """FINE, ``too_large``, or one less if a value of a joint is not finite."""
    is_finite, is_small = True, True
    for i in range(layout[mem.FIRST], layout[mem.FIRST] + layout[mem.COUNT]):
        x = abs(m.numbers[start + mem.entry_of(m, i)[mem.PLACE]])
        if not x <= rules.LARGEST:
            is_small = False
            is_finite = is_finite and x < math.inf
    if is_small:
        return FINE
    return too_large if is_finite else too_large - 1


@kernel
def fault_of_joint_states(m, message, layout):
    size, counts, start = layout[mem.SIZE], mem.counts_of(m, message), m.start[message]
    if layout[mem.PART] == mem.NO_NAMES:
        return EMPTY
    if layout[mem.PART] == mem.DUPLICATE:
        return TWICE
    # without `in`, which loads a module of Numba at the start of each process
    has_velocities, has_efforts = counts[1] != 0, counts[2] != 0
    if (
        counts[0] != size
        or (has_velocities and counts[1] != size)
        or (has_efforts and counts[2] != size)
    ):
        return LENGTHS
    fault = fault_in_values(m, start, layout, LARGE_POSITION)
    if fault == FINE and has_velocities:
        return fault_in_values(m, start + size, layout, LARGE_VELOCITY)
    return fault


@kernel
def are_small(numbers, start, count):
    small = True
    for k in range(start, start + count):
        small = small and abs(numbers[k]) <= rules.LARGEST
    return small


@kernel
def fault_of_odometry(m, message):
    start = m.start[message]
    if m.foreign[-1 - m.layout[message]] != 0:
        return CHILD
    if not are_small(m.numbers, start, 7):
        return POSE
    if abs(base_norm(m.numbers, start) - 1.0) > rules.QUATERNION_TOLERANCE:
        return NORM
    return FINE if are_small(m.numbers, start + 7, 6) else TWIST


@kernel
def fault_of_stamp(m, part, stamp, message):
    """LATE, JUMP or FINE; what is wrong is noted, and a jump back discards the state."""
    last = part[mem.STAMP]
    if last == NEVER or last <= stamp:
        return FINE
    behind = last - stamp
    if 0 <= behind <= m.scalars[mem.ALLOWED]:  # negative after an overflow
        note(m, LATE, message, behind)
        return LATE
    note(m, JUMP, message, behind)
    m.scalars[mem.NEWEST], m.scalars[mem.IS_COMPLETE] = NEVER, False
    for slot in range(m.scalars[mem.JOINTS]):
        m.stamps[slot] = NEVER
    for k in range(m.scalars[mem.PARTS]):
        part = mem.part_of(m, k)
        part[mem.STAMP], part[mem.AHEAD] = NEVER, 0
    return JUMP


# --- what is taken from a message


@kernel
def take_joint_states(m, message, layout):
    start, size, counts = m.start[message], layout[mem.SIZE], mem.counts_of(m, message)
    effort = start + size + counts[1]
    has_velocity, has_effort = counts[1] == size, counts[2] == size
    for i in range(layout[mem.FIRST], layout[mem.FIRST] + layout[mem.COUNT]):
        entry = mem.entry_of(m, i)
        place, row = entry[mem.PLACE], entry[mem.V]
        m.q[entry[mem.Q]] = m.numbers[start + place]
        m.has_velocity[entry[mem.SLOT]] = has_velocity
        if has_velocity:
            m.v[row] = m.numbers[start + size + place]
        m.has_effort[row] = False
        if has_effort:
            m.tau[row] = m.numbers[effort + place]
            m.has_effort[row] = abs(m.tau[row]) <= rules.LARGEST
    m.scalars[mem.KNOWS_EFFORT] = are_set(m.has_effort, m.scalars[mem.NV])


@kernel
def are_set(flags, count):
    all_set = True
    for k in range(count):
        all_set = all_set and flags[k] != 0
    return all_set


@subroutine
def quotient(x, y):
    """Exact: inlined, divisions by one number become products with its reciprocal."""
    return x / y


@kernel
def take_odometry(m, message):
    start, is_planar = m.start[message], m.scalars[mem.IS_PLANAR] != 0
    copy_base(is_planar, m.numbers, start, m.q, m.v)
    if not is_planar:
        norm = base_norm(m.numbers, start)
        for k in range(3, 7):
            m.q[k] = quotient(m.q[k], norm)
    m.has_velocity[0] = True


# --- when a state is due


@kernel
def waits_for_others(m, part, oldest):
    """Whether a part that is recent has not reported since the last state."""
    if part[mem.AHEAD] >= 2:
        return False
    for k in range(m.scalars[mem.PARTS]):
        other = mem.part_of(m, k)
        if other[mem.AHEAD] == 0 and other[mem.STAMP] >= oldest:
            return True
    return False


@kernel
def is_due(m, part, stamp):
    """Record a message of a part; whether a state is complete and due."""
    part[mem.STAMP], part[mem.AHEAD] = stamp, min(part[mem.AHEAD] + 1, 2)
    for i in range(part[mem.FIRST], part[mem.FIRST] + part[mem.COUNT]):
        m.stamps[m.members[i]] = stamp
    newest, is_complete, waits = stamp, True, False
    if part[mem.COMPLETE] == 0:
        oldest = stamp
        for slot in range(m.scalars[mem.GIVEN], m.scalars[mem.JOINTS]):
            newest = max(newest, m.stamps[slot])
            oldest = min(oldest, m.stamps[slot])
        limit = newest - m.scalars[mem.ALLOWED]
        is_complete = oldest >= limit
        waits = is_complete and waits_for_others(m, part, limit)
    m.scalars[mem.NEWEST], m.scalars[mem.IS_COMPLETE] = newest, is_complete
    if waits or not is_complete:
        return False
    for k in range(m.scalars[mem.PARTS]):
        part = mem.part_of(m, k)
        part[mem.AHEAD] = max(part[mem.AHEAD] - 1, 0)
    return True


# --- what is made of a state


@kernel
def differentiate(m):
    """Update the accelerations: backward differences through a low pass of first order.

    A coordinate whose stamp is NEVER comes from no message: it is constant.
    """
    for i in range(m.scalars[mem.NV]):
        stamp, was_known = m.stamps[m.slots[i]], m.has_acceleration[i] != 0
        passed = stamp - m.stamps_before[i]
        is_next = passed > 0 and passed <= m.scalars[mem.ALLOWED]
        a = m.acceleration[i] if was_known else 0.0
        if is_next:
            h = 1e-9 * passed
            share = 1.0
            if was_known and m.cutoff[0] != 0.0:
                share = -math.expm1(-2.0 * math.pi * m.cutoff[0] * h)
            a = a + share * ((m.v[i] - m.v_before[i]) / h - a)
        m.acceleration[i] = a
        m.has_acceleration[i] = is_next or (passed == 0 and was_known) or stamp == NEVER
        m.v_before[i], m.stamps_before[i] = m.v[i], stamp


@kernel
def write_state(m, message):
    k, newest, nq, nv = (
        m.scalars[mem.STATES],
        m.scalars[mem.NEWEST],
        m.scalars[mem.NQ],
        m.scalars[mem.NV],
    )
    m.scalars[mem.STATES] = k + 1
    oldest = newest
    for slot in range(m.scalars[mem.GIVEN], m.scalars[mem.JOINTS]):
        oldest = min(oldest, m.stamps[slot])
    m.out_log_time[k], m.out_stamp[k] = m.log_time[message], newest
    m.out_behind[k] = newest - oldest
    for i in range(nq):
        m.out_q[nq * k + i] = m.q[i]
    for i in range(nv):
        m.out_v[nv * k + i] = m.v[i] if m.has_velocity[m.slots[i]] else math.nan
        m.out_tau[nv * k + i] = m.tau[i] if m.has_effort[i] else math.nan


@kernel
def finish_state(m, message):
    if m.scalars[mem.WRITES]:
        write_state(m, message)
        return
    knows_velocity = are_set(m.has_velocity, m.scalars[mem.JOINTS])
    m.scalars[mem.KNOWS_VELOCITY] = knows_velocity
    if m.scalars[mem.DIFFERENTIATES]:
        if knows_velocity:
            differentiate(m)
        else:
            for i in range(m.scalars[mem.NV]):
                m.has_acceleration[i], m.stamps_before[i] = False, NEVER
        m.scalars[mem.KNOWS_ACCELERATION] = are_set(m.has_acceleration, m.scalars[mem.NV])


# --- from messages to states


@kernel
def read(content, size, now, m):
    """Decode a serialized message as the only one of the block, if its bytes are as expected."""
    if size < 4 or size > m.scalars[mem.CAPACITY] or load32(content, 0) != _PLAIN:
        return UNREAD
    number = decode_message(
        content,
        0,
        0,
        size,
        m.known,
        m.lists,
        m.scalars[mem.LISTS],
        m.scalars[mem.LATEST_LIST],
        m.bits,
        0,
        m.head,
    )
    if number < 0:
        return UNREAD
    stamp, counts = m.head[0], mem.counts_of(m, 0)
    if stamp == 0:
        if now == NEVER:
            return UNSTAMPED
        stamp = now
    m.scalars[mem.LATEST_LIST] = number
    m.layout[0], m.stamp[0] = m.lists[4 * number + 3], stamp
    counts[0], counts[1], counts[2] = m.head[1], m.head[2], m.head[3]
    return TAKEN


@kernel
def process(m, message):
    """TAKEN, or DUE if the message completes a state, either perhaps with JUMPED; or REJECTED."""
    k, stamp = m.layout[message], m.stamp[message]
    is_odometry = k < 0
    layout = mem.layout_of(m, max(k, 0))
    number = m.scalars[mem.BASE_PART] if is_odometry else layout[mem.PART]
    fault = FINE
    if not is_odometry:
        fault = fault_of_joint_states(m, message, layout)
    elif number >= 0:
        fault = fault_of_odometry(m, message)
    if fault != FINE:
        note(m, fault, message, 0)
        return REJECTED
    if number < 0:
        return TAKEN
    part = mem.part_of(m, number)
    fault = fault_of_stamp(m, part, stamp, message)
    if fault == LATE:
        return REJECTED
    if is_odometry:
        take_odometry(m, message)
    else:
        take_joint_states(m, message, layout)
    outcome = JUMPED if fault == JUMP else TAKEN
    if is_due(m, part, stamp):
        finish_state(m, message)
        return outcome + DUE
    return outcome


def collect(content, size, table, now):
    """Process the messages of the block, or a serialized one that becomes the block.

    Empty content stands for those in the block. `table` is the address of the addresses of the
    arrays of `Memory`; `now` the stamp of a serialized message that has none, or NEVER [ns].

    Returns the outcome of the last message. UNREAD: the serialized message is not plain CDR, little
    endian, or has names that are new, or is too large; it has had no effect. UNSTAMPED: as before,
    it has no stamp. NEW_NAMES: the next message of the block has a layout that is not described
    yet.
    """
    m = mem.memory_at(table)
    outcome = TAKEN
    if size > 0:
        outcome = read(bytes_at(content), size, now, m)
        if outcome != TAKEN:
            return outcome
    for message in range(m.scalars[mem.MESSAGE], m.scalars[mem.END]):
        m.scalars[mem.MESSAGE] = message
        k = m.layout[message]
        if k >= 0 and mem.layout_of(m, k)[mem.PART] == mem.NEW:
            return NEW_NAMES
        outcome = process(m, message)
    m.scalars[mem.MESSAGE] = 0
    return outcome


COLLECT = Entry("states-collect", collect, "pqqq")
