# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The compiled part of the collector: from messages to states.

Its tables are arrays of integers; the constants below are their columns. A *part* is a set of
joints that one publisher reports, and an *entry* one joint in a list of names.
"""
import math

from numba import types

from ..engine.kernel.compiler import Entry, kernel
from ..states.joint_states import LARGEST, NEVER

# columns of a layout: its part, number of names, first of its entries, number of entries
PART, SIZE, FIRST, COUNT = range(4)
NEW, IGNORED, NO_NAMES, DUPLICATE = -1, -2, -3, -4      # instead of a part
# columns of an entry: place in the message, slot of the joint, index in q and in v
PLACE, SLOT, Q, V = range(4)
# columns of a part; FIRST and COUNT of its slots
STAMP, AHEAD = 0, 1
COMPLETE = 4
# scalars
MESSAGE, ODOMETRY, STATES, NEWEST, ALLOWED, GIVEN, BASE_PART = range(7)
# columns of a fault, one row for each reason
NUMBER, WHERE, DETAIL = range(3)

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
(EMPTY, TWICE, LENGTHS, POSITION, LARGE_POSITION, VELOCITY, LARGE_VELOCITY, LATE, POSE,
 NORM, TWIST, CHILD) = range(len(REASONS))
JUMP = len(REASONS)            # the row of stamps that jump back
FINE = -1


@kernel
def note(faults, reason, message, detail):
    if faults[reason, NUMBER] == 0:
        faults[reason, WHERE] = message
        faults[reason, DETAIL] = detail
    faults[reason, NUMBER] = faults[reason, NUMBER] + 1


@kernel
def fault_of(numbers, start, entries, first, count, too_large):
    """A reason if one of the values is not finite or too large, otherwise FINE."""
    is_finite, is_small = True, True
    for i in range(first, first + count):
        x = abs(numbers[start + entries[i, PLACE]])
        if not x <= LARGEST:
            is_small = False
            if not x < math.inf:
                is_finite = False
    if is_small:
        return FINE
    return too_large if is_finite else too_large - 1


@kernel
def comes_late(parts, part, stamp, stamps, scalars, faults, message):
    """Whether a message comes late; discards the state if stamps jump back."""
    last = parts[part, STAMP]
    if last == NEVER or last <= stamp:
        return False
    behind = last - stamp
    if 0 <= behind <= scalars[ALLOWED]:          # negative after an overflow
        note(faults, LATE, message, behind)
        return True
    note(faults, JUMP, message, behind)
    scalars[NEWEST] = NEVER
    for slot in range(len(stamps)):
        stamps[slot] = NEVER
    for each in range(len(parts)):
        parts[each, STAMP] = NEVER
        parts[each, AHEAD] = 0
    return False


@kernel
def waits_for_others(parts, part, oldest):
    """Whether a part that is recent has not reported since the last state."""
    if parts[part, AHEAD] >= 2:
        return False
    for each in range(len(parts)):
        if parts[each, AHEAD] == 0 and parts[each, STAMP] >= oldest:
            return True
    return False


@kernel
def is_due(parts, part, members, stamp, stamps, scalars):
    """Record a message of a part; whether a state is complete and due."""
    parts[part, STAMP] = stamp
    parts[part, AHEAD] = min(parts[part, AHEAD] + 1, 2)
    first = parts[part, FIRST]
    for i in range(first, first + parts[part, COUNT]):
        stamps[members[i]] = stamp
    newest = stamp
    if parts[part, COMPLETE] == 0:
        oldest = stamp
        for slot in range(scalars[GIVEN], len(stamps)):
            newest = max(newest, stamps[slot])
            oldest = min(oldest, stamps[slot])
        limit = newest - scalars[ALLOWED]
        if oldest < limit or waits_for_others(parts, part, limit):
            scalars[NEWEST] = newest
            return False
    scalars[NEWEST] = newest
    for each in range(len(parts)):
        parts[each, AHEAD] = max(parts[each, AHEAD] - 1, 0)
    return True


@kernel
def take_values(numbers, start, counts, message, entries, first, count, q, v, tau, has_velocity,
                has_effort):
    """Take the values of accepted joint states."""
    size = counts[message, 0]
    effort = start + size + counts[message, 1]
    with_velocity, with_effort = counts[message, 1] == size, counts[message, 2] == size
    for i in range(first, first + count):
        place, row = entries[i, PLACE], entries[i, V]
        q[entries[i, Q]] = numbers[start + place]
        has_velocity[entries[i, SLOT]] = with_velocity
        if with_velocity:
            v[row] = numbers[start + size + place]
        has_effort[row] = False
        if with_effort:
            tau[row] = numbers[effort + place]
            has_effort[row] = abs(tau[row]) <= LARGEST


@kernel
def fault_in_values(numbers, start, counts, message, entries, first, count):
    fault = fault_of(numbers, start, entries, first, count, LARGE_POSITION)
    if fault == FINE and counts[message, 1] > 0:
        return fault_of(numbers, start + counts[message, 0], entries, first, count,
                        LARGE_VELOCITY)
    return fault


@kernel
def write_state(k, log_time, scalars, stamps, slots, q, v, tau, has_velocity, has_effort,
                out_log_time, out_stamp, out_q, out_v, out_tau, out_behind):
    newest = scalars[NEWEST]
    oldest = newest
    for slot in range(scalars[GIVEN], len(stamps)):
        oldest = min(oldest, stamps[slot])
    out_log_time[k], out_stamp[k], out_behind[k] = log_time, newest, newest - oldest
    for i in range(len(q)):
        out_q[k, i] = q[i]
    for row in range(len(v)):
        out_v[k, row] = v[row] if has_velocity[slots[row]] else math.nan
        out_tau[k, row] = tau[row] if has_effort[row] else math.nan


@kernel
def take_odometry(i, part, stamp, base_faults, base_q, base_v, parts, q, v, stamps, has_velocity,
                  scalars, faults, message):
    """Take the pose and twist of a base, if they can be used; returns whether they were."""
    if base_faults[i] != FINE:
        note(faults, base_faults[i], message, 0)
        return False
    if comes_late(parts, part, stamp, stamps, scalars, faults, message):
        return False
    for k in range(base_q.shape[1]):
        q[k] = base_q[i, k]
    for k in range(base_v.shape[1]):
        v[k] = base_v[i, k]
    has_velocity[0] = True
    return True


@kernel
def fault_of_layout(counts, message, part, size):
    """Why joint states cannot be used, whatever their values are, or FINE."""
    if part == NO_NAMES:
        return EMPTY
    if part == DUPLICATE:
        return TWICE
    if (counts[message, 0] != size or counts[message, 1] not in (0, size)
            or counts[message, 2] not in (0, size)):
        return LENGTHS
    return FINE


@kernel
def take_joint_states(layout, start, stamp, counts, numbers, layouts, entries, parts, q, v, tau,
                      stamps, has_velocity, has_effort, scalars, faults, message):
    """Take the values of joint states, if they can be used; returns whether they were."""
    part = layouts[layout, PART]
    fault = fault_of_layout(counts, message, part, layouts[layout, SIZE])
    first, count = layouts[layout, FIRST], layouts[layout, COUNT]
    if fault == FINE and part >= 0:
        fault = fault_in_values(numbers, start, counts, message, entries, first, count)
    if fault != FINE:
        note(faults, fault, message, 0)
        return False
    if part < 0 or comes_late(parts, part, stamp, stamps, scalars, faults, message):
        return False
    take_values(numbers, start, counts, message, entries, first, count, q, v, tau, has_velocity,
                has_effort)
    return True


def collect(layout, log_time, stamp, counts, start, numbers, base_faults, base_q, base_v, layouts,
            entries, parts, members, slots, q, v, tau, stamps, has_velocity, has_effort, scalars,
            faults, out_log_time, out_stamp, out_q, out_v, out_tau, out_behind):
    """Process messages until the end, or until one with a layout that is new.

    Returns
    -------
    int
        The number of messages that have been processed.
    """
    for message in range(scalars[MESSAGE], len(layout)):
        scalars[MESSAGE] = message
        which, when = layout[message], stamp[message]
        part = scalars[BASE_PART]
        if which >= 0:
            part = layouts[which, PART]
            if part == NEW:
                return message
            is_taken = take_joint_states(
                which, start[message], when, counts, numbers, layouts, entries, parts, q, v, tau,
                stamps, has_velocity, has_effort, scalars, faults, message)
        elif part < 0:
            is_taken = False
        else:
            i = scalars[ODOMETRY]
            scalars[ODOMETRY] = i + 1
            is_taken = take_odometry(i, part, when, base_faults, base_q, base_v, parts, q, v,
                                     stamps, has_velocity, scalars, faults, message)
        if is_taken and is_due(parts, part, members, when, stamps, scalars):
            write_state(scalars[STATES], log_time[message], scalars, stamps, slots, q, v, tau,
                        has_velocity, has_effort, out_log_time, out_stamp, out_q, out_v, out_tau,
                        out_behind)
            scalars[STATES] = scalars[STATES] + 1
    return len(layout)


def _array(number: types.Type, dimensions: int) -> types.Array:
    return types.Array(number, dimensions, "C")


_LONGS, _TABLE = _array(types.int64, 1), _array(types.int64, 2)
_FLOATS, _ROWS, _FLAGS = (_array(types.float64, 1), _array(types.float64, 2),
                          _array(types.boolean, 1))
COLLECT = Entry("logs-collect", collect, types.int64(
    _array(types.int32, 1), _LONGS, _LONGS, _array(types.int32, 2), _LONGS, _FLOATS,
    _LONGS, _ROWS, _ROWS, _TABLE, _TABLE, _TABLE, _LONGS, _LONGS, _FLOATS, _FLOATS, _FLOATS,
    _LONGS, _FLAGS, _FLAGS, _LONGS, _TABLE, _LONGS, _LONGS, _ROWS, _ROWS, _ROWS, _LONGS),
    nogil=True)
