# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rules by which messages become states of a robot, compiled."""

import math

from ..cdr.decode_kernel import decode_message
from ..engine.kernel.raw import bytes_at, load32
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.declare import kernel
from . import memory as mem
from . import rules
from .joint_states import NEVER
from .rules import Reason

# reasons; compiled code has no enums
NO_NAMES = int(Reason.NO_NAMES)
DUPLICATE_NAMES = int(Reason.DUPLICATE_NAMES)
LENGTHS = int(Reason.LENGTHS)
POSITION_NOT_FINITE = int(Reason.POSITION_NOT_FINITE)
VELOCITY_NOT_FINITE = int(Reason.VELOCITY_NOT_FINITE)
LATE_STAMP = int(Reason.LATE_STAMP)
CHILD_FRAME = int(Reason.CHILD_FRAME)
STAMP_JUMP = int(Reason.STAMP_JUMP)
# what `collect` returns: DUE and JUMPED may be combined
TAKEN, DUE, JUMPED, REJECTED, UNREAD, UNSTAMPED, NEW_NAMES = 0, 1, 2, 4, 8, 16, 32
_PLAIN = 256  # encapsulation of plain CDR, little endian, without options


# --- what is wrong with a message


@kernel
def note(m, reason, message):
    """Count a reason; keep the first message that has it, and its details."""
    m.scalars[mem.LATEST_FAULT] = reason
    fault = mem.fault_of(m, reason)
    if fault[mem.NUMBER] == 0:
        fault[mem.WHERE] = message
        for k in range(rules.DETAILS):
            fault[mem.FIRST_DETAIL + k] = m.details[k]
    fault[mem.NUMBER] = fault[mem.NUMBER] + 1


@kernel
def usability_of_joints(m, start, first, layout):
    """The least usability of a field whose numbers begin at a first place of the message."""
    least = rules.USABLE
    for i in range(layout[mem.FIRST], layout[mem.FIRST] + layout[mem.COUNT]):
        place = first + mem.entry_of(m, i)[mem.PLACE]
        found = rules.usability(m.numbers[start + place])
        if found != rules.USABLE:
            least = min(least, found)
            rules.add_place(m.details, place)
    return least


@kernel
def fault_of_joint_states(m, message, layout):
    size, counts, start = layout[mem.SIZE], mem.counts_of(m, message), m.start[message]
    if layout[mem.PART] == mem.NO_NAMES:
        return NO_NAMES
    if layout[mem.PART] == mem.DUPLICATE:
        return DUPLICATE_NAMES
    if not rules.lengths_match(size, counts[0], counts[1], counts[2]):
        return LENGTHS
    least = usability_of_joints(m, start, 0, layout)
    if least != rules.USABLE:
        return POSITION_NOT_FINITE + least
    if counts[1] != 0:
        least = usability_of_joints(m, start, size, layout)
        if least != rules.USABLE:
            return VELOCITY_NOT_FINITE + least
    return rules.FINE


@kernel
def fault_of_odometry(m, message):
    if m.foreign[-1 - m.layout[message]] != 0:
        return CHILD_FRAME
    return rules.base_fault(m.numbers, m.start[message], m.details)


@kernel
def fault_of_stamp(m, part, stamp):
    """LATE_STAMP, STAMP_JUMP or FINE."""
    last = part[mem.STAMP]
    if last == NEVER or last <= stamp:
        return rules.FINE
    behind = last - stamp
    m.details[0] = behind
    # negative after an overflow
    return LATE_STAMP if 0 <= behind <= m.scalars[mem.ALLOWED] else STAMP_JUMP


@kernel
def discard_state(m):
    m.scalars[mem.NEWEST], m.scalars[mem.IS_COMPLETE] = NEVER, False
    for slot in range(m.scalars[mem.JOINTS]):
        m.stamps[slot] = NEVER
    for k in range(m.scalars[mem.PARTS]):
        part = mem.part_of(m, k)
        part[mem.STAMP], part[mem.AHEAD] = NEVER, 0


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
            m.has_effort[row] = rules.usability(m.tau[row]) == rules.USABLE
    m.scalars[mem.KNOWS_EFFORT] = are_set(m.has_effort, m.scalars[mem.NV])


@kernel
def are_set(flags, count):
    all_set = True
    for k in range(count):
        all_set = all_set and flags[k] != 0
    return all_set


@kernel
def take_odometry(m, message):
    rules.copy_base(m.scalars[mem.IS_PLANAR] != 0, m.numbers, m.start[message], m.q, m.v)
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
    m.details[0], fault = 0, rules.FINE
    if not is_odometry:
        fault = fault_of_joint_states(m, message, layout)
    elif number >= 0:
        fault = fault_of_odometry(m, message)
    if fault != rules.FINE:
        note(m, fault, message)
        return REJECTED
    if number < 0:
        return TAKEN
    part = mem.part_of(m, number)
    outcome, fault = TAKEN, fault_of_stamp(m, part, stamp)
    if fault != rules.FINE:
        note(m, fault, message)
        if fault == LATE_STAMP:
            return REJECTED
        discard_state(m)
        outcome = JUMPED
    if is_odometry:
        take_odometry(m, message)
    else:
        take_joint_states(m, message, layout)
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
