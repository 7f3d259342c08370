# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that collect messages into states of a robot.

`m` is the `Memory` of a collector, `message` the index of a message in its block.
"""

import math

from ..cdr.decode_kernel import DYNAMIC_KIND, decode_message
from ..engine.kernel.raw import bytes_at, load32
from ..engine.machine_code.compiler import Entry
from ..engine.machine_code.declare import kernel
from . import memory as mem
from . import rules
from .joint_states import NO_STAMP
from .jump_kernel import has_large_step, record_jumps
from .rules import Reason

# reasons; compiled code has no enums
NO_NAMES = int(Reason.NO_NAMES)
DUPLICATE_NAMES = int(Reason.DUPLICATE_NAMES)
LENGTHS = int(Reason.LENGTHS)
POSITION_NOT_FINITE = int(Reason.POSITION_NOT_FINITE)
VELOCITY_NOT_FINITE = int(Reason.VELOCITY_NOT_FINITE)
LATE_STAMP = int(Reason.LATE_STAMP)
CHILD_FRAME = int(Reason.CHILD_FRAME)
UNKNOWN_POSITION = int(Reason.UNKNOWN_POSITION)
STAMP_JUMP = int(Reason.STAMP_JUMP)
# outcomes of `collect`; NEW_STATE, STAMP_JUMPED and POSITION_JUMPED may be combined, or
# REJECTED and POSITION_JUMPED
ACCEPTED, NEW_STATE, STAMP_JUMPED, REJECTED, UNREAD, UNSTAMPED, NEW_NAMES = 0, 1, 2, 4, 8, 16, 32
_PLAIN_ENCAPSULATION = 256  # first four bytes of plain CDR, little endian, without options


# --- checks of a message


@kernel
def count_fault(m, reason, message):
    """Count a fault in its row of faults; keep the first message that has it, and m.details."""
    fault = mem.fault_of(m, reason)
    if fault[mem.FAULT_COUNT] == 0:
        fault[mem.FIRST_MESSAGE] = message
        for k in range(rules.DETAIL_COUNT):
            fault[mem.FIRST_DETAIL + k] = m.details[k]
    fault[mem.FAULT_COUNT] = fault[mem.FAULT_COUNT] + 1


@kernel
def record_fault(m, reason, message):
    """Count a fault, and keep it as the latest one."""
    m.scalars[mem.LATEST_FAULT] = reason
    count_fault(m, reason, message)


@kernel
def least_joint_usability(m, start, first, name_list):
    """Return the least usability of a field of joint states whose numbers begin at place `first`.

    Adds the places of unusable numbers to m.details. Numbers of ignored joints do not matter, nor
    do unknown numbers.
    """
    least = rules.USABLE
    for i in range(name_list[mem.FIRST], name_list[mem.FIRST] + name_list[mem.COUNT]):
        place = first + mem.entry_of(m, i)[mem.PLACE]
        number = m.numbers[start + place]
        joint_usability = rules.usability(number)
        if joint_usability != rules.USABLE and not rules.is_unknown(number):
            least = min(least, joint_usability)
            rules.add_place(m.details, place)
    return least


@kernel
def find_joint_state_fault(m, message, name_list):
    """Return the reason to reject joint states, or NO_FAULT.

    Appends the places of unusable numbers to m.details.
    """
    size, counts, start = name_list[mem.SIZE], mem.counts_of(m, message), m.start[message]
    if name_list[mem.GROUP] == mem.EMPTY_LIST:
        return NO_NAMES
    if name_list[mem.GROUP] == mem.DUPLICATE_LIST:
        return DUPLICATE_NAMES
    if not rules.lengths_match(size, counts[0], counts[1], counts[2]):
        return LENGTHS
    if rules.all_usable(m.numbers, start, size + counts[1]):
        return rules.NO_FAULT
    least = least_joint_usability(m, start, 0, name_list)
    if least != rules.USABLE:
        return POSITION_NOT_FINITE + least
    if counts[1] != 0:
        least = least_joint_usability(m, start, size, name_list)
        if least != rules.USABLE:
            return VELOCITY_NOT_FINITE + least
    return rules.NO_FAULT


@kernel
def find_odometry_fault(m, message):
    """Return the reason to reject odometry, or NO_FAULT.

    Appends the places of unusable numbers to m.details.
    """
    if m.is_foreign_frame[-1 - m.name_list[message]] != 0:
        return CHILD_FRAME
    return rules.find_base_fault(m.numbers, m.start[message], m.details, True)


@kernel
def find_stamp_fault(m, group, stamp):
    """Return LATE_STAMP, STAMP_JUMP or NO_FAULT; write the lag [ns] to m.details[STAMP_LAG]."""
    last = group[mem.STAMP]
    if last == NO_STAMP or last <= stamp:
        return rules.NO_FAULT
    behind = last - stamp
    m.details[rules.STAMP_LAG] = behind
    # `behind` is negative after an overflow
    return LATE_STAMP if 0 <= behind <= m.scalars[mem.STALENESS] else STAMP_JUMP


@kernel
def discard_state(m):
    """Reset the stamps of all joints and groups, as if no message had been received."""
    m.scalars[mem.NEWEST_STAMP], m.scalars[mem.IS_COMPLETE] = NO_STAMP, False
    for slot in range(m.scalars[mem.JOINT_COUNT]):
        m.stamps[slot] = NO_STAMP
    for k in range(m.scalars[mem.GROUP_COUNT]):
        group = mem.group_of(m, k)
        group[mem.STAMP], group[mem.UNUSED_REPORTS] = NO_STAMP, 0


# --- storing of a message


@kernel
def store_joint_states(m, message, name_list, stamp):
    """Copy the numbers of joint states to q, v, tau, stamps and the flags of known numbers.

    A joint whose position is unknown counts as not reported: its place is appended to m.details.
    Returns the number of reported joints.
    """
    reported_count, m.details[rules.PLACE_COUNT] = 0, 0
    start, size, counts = m.start[message], name_list[mem.SIZE], mem.counts_of(m, message)
    effort = start + size + counts[1]
    has_velocity, has_effort = counts[1] == size, counts[2] == size
    for i in range(name_list[mem.FIRST], name_list[mem.FIRST] + name_list[mem.COUNT]):
        entry = mem.entry_of(m, i)
        place, row, slot = entry[mem.PLACE], entry[mem.IDX_V], entry[mem.SLOT]
        position = m.numbers[start + place]
        m.has_nan_position[slot] = rules.is_unknown(position)
        if rules.is_unknown(position):
            rules.add_place(m.details, place)
        else:
            reported_count = reported_count + 1
            m.q[entry[mem.IDX_Q]], m.stamps[slot] = position, stamp
            m.has_velocity[slot] = False
            if has_velocity and not rules.is_unknown(m.numbers[start + size + place]):
                m.v[row], m.has_velocity[slot] = m.numbers[start + size + place], True
            m.has_effort[row] = False
            if has_effort:
                m.tau[row] = m.numbers[effort + place]
                m.has_effort[row] = rules.usability(m.tau[row]) == rules.USABLE
    m.scalars[mem.KNOWS_EFFORT] = all_set(m.has_effort, m.scalars[mem.NV])
    return reported_count


@kernel
def all_set(flags, count):
    """Return True if none of the first `count` flags is zero."""
    all_nonzero = True
    for k in range(count):
        all_nonzero = all_nonzero and flags[k] != 0
    return all_nonzero


@kernel
def store_odometry(m, message, stamp):
    """Copy a pose and a twist to the first rows of q and v. Returns 1, the number of joints.

    The velocity of the base is known if no number of the twist that it takes is unknown.
    """
    is_planar = m.scalars[mem.IS_PLANAR] != 0
    rules.copy_base(is_planar, m.numbers, m.start[message], m.q, m.v)
    has_velocity = True
    for k in range(3 if is_planar else 6):
        has_velocity = has_velocity and not rules.is_unknown(m.v[k])
    m.has_velocity[0], m.stamps[0] = has_velocity, stamp
    return 1


# --- completion of a state


@kernel
def waits_for_groups(m, group, oldest):
    """Return True if a group that reported since `oldest` has not reported after the last state.

    A group that reported twice after it does not wait.
    """
    if group[mem.UNUSED_REPORTS] >= 2:
        return False
    for k in range(m.scalars[mem.GROUP_COUNT]):
        other_group = mem.group_of(m, k)
        if other_group[mem.UNUSED_REPORTS] == 0 and other_group[mem.STAMP] >= oldest:
            return True
    return False


@kernel
def record_report(m, group, stamp, reported_count):
    """Record that joints of a group were reported at a stamp; return True if a state is due.

    A state is due if it is complete and does not wait for other groups. `reported_count` is the
    number of these joints. Writes UNUSED_REPORTS of the group, and the scalars NEWEST_STAMP and
    IS_COMPLETE.
    """
    group[mem.STAMP], group[mem.UNUSED_REPORTS] = stamp, min(group[mem.UNUSED_REPORTS] + 1, 2)
    newest, is_complete, waits = stamp, True, False
    if group[mem.HAS_ALL_JOINTS] == 0 or reported_count < group[mem.COUNT]:
        oldest = stamp
        for slot in range(m.scalars[mem.FIRST_REPORTED_SLOT], m.scalars[mem.JOINT_COUNT]):
            newest = max(newest, m.stamps[slot])
            oldest = min(oldest, m.stamps[slot])
        limit = newest - m.scalars[mem.STALENESS]
        is_complete = oldest >= limit
        waits = is_complete and waits_for_groups(m, group, limit)
    m.scalars[mem.NEWEST_STAMP], m.scalars[mem.IS_COMPLETE] = newest, is_complete
    if waits or not is_complete:
        return False
    for k in range(m.scalars[mem.GROUP_COUNT]):
        group = mem.group_of(m, k)
        group[mem.UNUSED_REPORTS] = max(group[mem.UNUSED_REPORTS] - 1, 0)
    return True


# --- processing of a state


@kernel
def update_accelerations(m):
    """Update the accelerations: backward differences through a low pass of first order.

    Writes acceleration and has_acceleration, and v_before and stamps_before for the next state. A
    coordinate whose stamp is NO_STAMP comes from no message: it is constant.
    """
    for i in range(m.scalars[mem.NV]):
        stamp, was_known = m.stamps[m.slots[i]], m.has_acceleration[i] != 0
        passed = stamp - m.stamps_before[i]
        is_next = passed > 0 and passed <= m.scalars[mem.STALENESS]
        a = m.acceleration[i] if was_known else 0.0
        if is_next:
            h = 1e-9 * passed
            share = 1.0
            if was_known and m.cutoff[0] != 0.0:
                share = -math.expm1(-2.0 * math.pi * m.cutoff[0] * h)
            a = a + share * ((m.v[i] - m.v_before[i]) / h - a)
        m.acceleration[i] = a
        m.has_acceleration[i] = is_next or (passed == 0 and was_known) or stamp == NO_STAMP
        m.v_before[i], m.stamps_before[i] = m.v[i], stamp


@kernel
def write_state(m, message):
    """Append the state to the arrays out_...; numbers that are unknown become NaN."""
    k, newest, nq, nv = (
        m.scalars[mem.STATE_COUNT],
        m.scalars[mem.NEWEST_STAMP],
        m.scalars[mem.NQ],
        m.scalars[mem.NV],
    )
    m.scalars[mem.STATE_COUNT] = k + 1
    oldest = newest
    for slot in range(m.scalars[mem.FIRST_REPORTED_SLOT], m.scalars[mem.JOINT_COUNT]):
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
    """Write the state to the arrays out_..., or update its accelerations and flags."""
    if m.scalars[mem.WRITES_STATES]:
        write_state(m, message)
        return
    knows_velocity = all_set(m.has_velocity, m.scalars[mem.JOINT_COUNT])
    m.scalars[mem.KNOWS_VELOCITY] = knows_velocity
    if m.scalars[mem.DIFFERENTIATES]:
        if knows_velocity:
            update_accelerations(m)
        else:
            for i in range(m.scalars[mem.NV]):
                m.has_acceleration[i], m.stamps_before[i] = False, NO_STAMP
        m.scalars[mem.KNOWS_ACCELERATION] = all_set(m.has_acceleration, m.scalars[mem.NV])


# --- from messages to states


@kernel
def read_message(content, size, now, m, kind):
    """Decode serialized joint states as the only message of the block; see `decode_message`.

    Returns ACCEPTED, UNREAD or UNSTAMPED, see `collect`.
    """
    if size < 4 or size > m.scalars[mem.CAPACITY] or load32(content, 0) != _PLAIN_ENCAPSULATION:
        return UNREAD
    number = decode_message(
        content,
        kind,
        0,
        size,
        m.strings,
        m.string_lists,
        m.scalars[mem.LIST_COUNT],
        m.scalars[mem.LATEST_LIST],
        m.bits,
        0,
        m.head,
    )
    if number < 0:
        return UNREAD
    stamp, counts = m.head[0], mem.counts_of(m, 0)
    if stamp == 0:
        if now == NO_STAMP:
            return UNSTAMPED
        stamp = now
    m.scalars[mem.LATEST_LIST] = number
    m.name_list[0], m.stamp[0] = m.string_lists[4 * number + 3], stamp
    counts[0], counts[1], counts[2] = m.head[1], m.head[2], m.head[3]
    return ACCEPTED


@kernel
def process_message(table, m, message):
    """Process a message; return its outcome, see `collect`."""
    number, stamp = m.name_list[message], m.stamp[message]
    is_odometry = number < 0
    name_list = mem.name_list_of(m, max(number, 0))
    group_number = m.scalars[mem.BASE_GROUP] if is_odometry else name_list[mem.GROUP]
    m.details[rules.PLACE_COUNT], fault = 0, rules.NO_FAULT
    if not is_odometry:
        fault = find_joint_state_fault(m, message, name_list)
    elif group_number >= 0:
        fault = find_odometry_fault(m, message)
    if fault != rules.NO_FAULT:
        record_fault(m, fault, message)
        return REJECTED
    if group_number < 0:
        return ACCEPTED
    group = mem.group_of(m, group_number)
    outcome, fault = ACCEPTED, find_stamp_fault(m, group, stamp)
    if not is_odometry and has_large_step(m, message, name_list, stamp):
        is_late = fault == LATE_STAMP
        # after a jump of stamps, the time between the positions is unknown
        at = group[mem.STAMP] if fault == STAMP_JUMP else stamp
        outcome = record_jumps(table, message, at, is_late)
    if fault != rules.NO_FAULT:
        record_fault(m, fault, message)
        if fault == LATE_STAMP:
            return outcome + REJECTED
        discard_state(m)
        outcome = outcome + STAMP_JUMPED
    if is_odometry:
        reported_count = store_odometry(m, message, stamp)
    else:
        reported_count = store_joint_states(m, message, name_list, stamp)
        if reported_count < name_list[mem.COUNT]:
            count_fault(m, UNKNOWN_POSITION, message)
    if reported_count > 0 and record_report(m, group, stamp, reported_count):
        finish_state(m, message)
        return outcome + NEW_STATE
    return outcome


@kernel
def collect(content, size, table, now, kind):
    """Process the messages of the block, or a serialized message that becomes the block.

    `size` is 0 for the block. `table` is the address of the addresses of the arrays of `Memory`;
    `now` the stamp of a serialized message that has none, or NO_STAMP [ns]; `kind` its kind, see
    `decode_message`.

    Returns the outcome of the last message. ACCEPTED: it completes no state that is due. NEW_STATE:
    it does. STAMP_JUMPED: it discarded the collected state. REJECTED: it has a fault.
    POSITION_JUMPED: `jumps` has its jumps until the caller clears them. UNREAD: the serialized
    message is not plain little-endian CDR, or has new names, or is too large; it has had no effect.
    UNSTAMPED: it has had no effect, as it has no stamp. NEW_NAMES: the name list of the next
    message of the block is not described yet.
    """
    m = mem.memory_at(table)
    outcome = ACCEPTED
    if size > 0:
        outcome = read_message(bytes_at(content), size, now, m, kind)
        if outcome != ACCEPTED:
            return outcome
    for message in range(m.scalars[mem.NEXT_MESSAGE], m.scalars[mem.MESSAGE_END]):
        m.scalars[mem.NEXT_MESSAGE] = message
        list_number = m.name_list[message]
        if list_number >= 0 and mem.name_list_of(m, list_number)[mem.GROUP] == mem.NEW_LIST:
            return NEW_NAMES
        outcome = process_message(table, m, message)
    m.scalars[mem.NEXT_MESSAGE] = 0
    return outcome


def collect_messages(content, size, table, now):
    """Process the block, or a serialized JointState; see `collect`."""
    return collect(content, size, table, now, 0)


def collect_dynamic_messages(content, size, table, now):
    """Process the block, or a serialized DynamicJointState; see `collect`."""
    return collect(content, size, table, now, DYNAMIC_KIND)


# one for each type, since branches for another one would slow down joint states by 3 %
COLLECT_MESSAGES = Entry("states-collect", collect_messages, "pqqq")
COLLECT_DYNAMIC_MESSAGES = Entry("states-collect-dynamic", collect_dynamic_messages, "pqqq")
