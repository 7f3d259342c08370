# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that find positions which change faster than their joints can move.

The collector calls `has_large_step` for each message, and `record_jumps` if there is one.
"""

import math

from ..engine.machine_code.declare import kernel, subroutine
from . import memory as mem
from .joint_states import NO_STAMP

STAMP_ERROR = 0.02
"""Error of the time between two positions [s], if a driver or a node without stamps lags behind. In
public recordings of seven robots, it is at most 0.004 s at 1 kHz, and 0.2 periods at 100 Hz."""
MAX_REPETITION = 0.1
"""Time for which a publisher may repeat a position that its source updates more slowly [s]."""
TURN = 2.0 * math.pi
POSITION_JUMPED = 64  # an outcome of `collect`


@kernel
def has_large_step(m, message, name_list, stamp):
    """Return True if joint states differ from the state by more than some smallest jump.

    Otherwise, write the stamp of each position that has changed to m.step_stamp.
    """
    start = m.start[message]
    for i in range(name_list[mem.FIRST], name_list[mem.FIRST] + name_list[mem.COUNT]):
        entry = mem.entry_of(m, i)
        step = m.numbers[start + entry[mem.PLACE]] - m.q[entry[mem.IDX_Q]]
        if abs(step) > m.smallest_jump[entry[mem.IDX_Q]]:  # false for an unknown position
            return True
        slot = entry[mem.SLOT]
        m.step_stamp[slot] = stamp if step != 0.0 else m.step_stamp[slot]
    return False


@subroutine
def record_jumps(table, message, stamp, is_late):
    """Record the jumps between the state and joint states at a stamp, and all large steps.

    Return POSITION_JUMPED, or 0 if there are no jumps. If the message is late, and is therefore not
    stored, only its jumps are recorded. `table` is the address for `memory_at`: to pass a `Memory`,
    its caller would have to keep all addresses.
    """
    m = mem.memory_at(table)
    name_list = mem.name_list_of(m, m.name_list[message])
    outcome, start, size = 0, m.start[message], name_list[mem.SIZE]
    has_velocity = mem.counts_of(m, message)[1] == size
    for i in range(name_list[mem.FIRST], name_list[mem.FIRST] + name_list[mem.COUNT]):
        entry = mem.entry_of(m, i)
        place, slot = entry[mem.PLACE], entry[mem.SLOT]
        position_before = m.q[entry[mem.IDX_Q]]
        smallest_jump = m.smallest_jump[entry[mem.IDX_Q]]
        step = m.numbers[start + place] - position_before
        if abs(step) > smallest_jump and m.stamps[slot] != NO_STAMP:
            kind, speed = classify_step(m, slot, step, smallest_jump, stamp, is_late)
            if not is_late:
                m.large_step_speed[slot], m.large_step_stamp[slot] = speed, stamp
            if kind != mem.NO_JUMP:
                jump, outcome = mem.jump_of(m, slot), POSITION_JUMPED
                jump[mem.JUMP_KIND], jump[mem.POSITION_BEFORE] = kind, position_before
                jump[mem.POSITION_AFTER] = position_before + step
            if kind == mem.WHOLE_TURNS and has_velocity:
                discard_turning_velocity(m, entry, start + size + place, stamp)
        if step != 0.0 and not is_late:
            m.step_stamp[slot] = stamp
    return outcome


@kernel
def classify_step(m, slot, step, smallest_jump, stamp, is_late):
    """Return NO_JUMP, WHOLE_TURNS or JUMP for the step of a position, and its speed without turns.

    It is a jump if its joint would be too fast, unless it continues the large step before: a motion
    is continuous, whatever the limit. Smaller steps than `smallest_jump` [rad, m] are no jumps.
    """
    since_step = 1e-9 * abs(stamp - m.step_stamp[slot])
    elapsed = max(time_since_report(m, slot, stamp), min(since_step, MAX_REPETITION))
    allowed = smallest_jump * (1.0 + elapsed / STAMP_ERROR)
    elapsed = max(elapsed, STAMP_ERROR)
    continues = m.large_step_stamp[slot] == m.step_stamp[slot] and not is_late
    expected = m.large_step_speed[slot] * elapsed if continues else 0.0
    if abs(step) <= allowed or abs(step - expected) <= allowed:
        return mem.NO_JUMP, step / elapsed
    remainder = step - TURN * math.floor(step / TURN + 0.5)
    if m.has_turns[slot] and (abs(remainder) <= allowed or abs(remainder - expected) <= allowed):
        return mem.WHOLE_TURNS, remainder / elapsed
    return mem.JUMP, step / elapsed


@kernel
def time_since_report(m, slot, stamp):
    """Return the time from the latest position of a joint to a stamp [s]."""
    return 1e-9 * abs(stamp - m.stamps[slot])


@kernel
def discard_turning_velocity(m, entry, index, stamp):
    """Make the reported velocity m.numbers[index] unknown if it contains a turn.

    Drivers that differentiate positions report such velocities.
    """
    slot = entry[mem.SLOT]
    previous_velocity = m.v[entry[mem.IDX_V]] if m.has_velocity[slot] else 0.0
    if abs(m.numbers[index] - previous_velocity) * time_since_report(m, slot, stamp) > 0.5 * TURN:
        m.numbers[index] = math.nan
