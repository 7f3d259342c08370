# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The arrays of a collector, for Python and for compiled code.

A *block* is the decoded messages that are processed by one call. A *name list* is the joint names
of a message, and an *entry* one joint in it. A *group* is a set of joints that one publisher
reports, and a *slot* the number of a joint in the collector.
"""

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.lanes import floats_at, integers_at
from ..engine.kernel.raw import bytes_at
from ..engine.machine_code.declare import kernel
from .rules import DETAIL_COUNT

Memory = namedtuple(
    "Memory",
    (
        # the block, and the states that it completes
        "name_list",
        "log_time",
        "stamp",
        "counts",
        "start",
        "numbers",
        "bits",
        "out_log_time",
        "out_stamp",
        "out_q",
        "out_v",
        "out_tau",
        "out_behind",
        # of serialized messages: see `decode_message`
        "strings",
        "string_lists",
        "head",
        # tables, whose columns are described below, and the slot of each row of v
        "name_list_rows",
        "entries",
        "groups",
        "members",
        "is_foreign_frame",
        "slots",
        # the state, the stamp of each joint, and flags of known numbers
        "q",
        "v",
        "tau",
        "stamps",
        "has_nan_position",  # in the latest message with the joint
        "has_velocity",
        "has_effort",
        # the stamp of each position's latest change, its latest large step, and what a jump is; see
        # `jump_kernel`
        "step_stamp",
        "large_step_speed",
        "large_step_stamp",
        "smallest_jump",
        "has_turns",
        "jumps",
        # the accelerations, and the velocities of the previous state
        "acceleration",
        "v_before",
        "stamps_before",
        "has_acceleration",
        "cutoff",
        "scalars",
        # faults by reason, and the details of the current message
        "faults",
        "details",
    ),
)
"""Arrays of 64-bit numbers in compiled code: pointers, or addresses of tables."""
BLOCK_FIELDS = Memory._fields[:13]

# columns of name_list_rows: the group, number of names, first entry, number of entries
GROUP, SIZE, FIRST, COUNT = range(4)
NEW_LIST, IGNORED_LIST, EMPTY_LIST, DUPLICATE_LIST = -1, -2, -3, -4  # in the column GROUP
# columns of entries: place in the message, slot of the joint, index in q and in v
PLACE, SLOT, IDX_Q, IDX_V = range(4)
# columns of groups: latest stamp, messages that no state has used yet; the slots of its joints are
# members[FIRST : FIRST + COUNT]
STAMP, UNUSED_REPORTS = 0, 1
HAS_ALL_JOINTS = 4
# columns of jumps, of floats: kind, position before and after the latest jump of a joint
JUMP_KIND, POSITION_BEFORE, POSITION_AFTER = range(3)
NO_JUMP, WHOLE_TURNS, JUMP = 0.0, 1.0, 2.0  # in the column JUMP_KIND
# columns of faults: number of messages, the first one of them, and its details
FAULT_COUNT, FIRST_MESSAGE, FIRST_DETAIL = range(3)
FAULT_SIZE = FIRST_DETAIL + DETAIL_COUNT  # columns
# scalars; the first three are counts in the block
(
    NEXT_MESSAGE,
    MESSAGE_END,
    STATE_COUNT,
    NEWEST_STAMP,
    STALENESS,
    FIRST_REPORTED_SLOT,
    JOINT_COUNT,
    NQ,
    NV,
    GROUP_COUNT,
    BASE_GROUP,
    IS_PLANAR,
    IS_COMPLETE,
    KNOWS_VELOCITY,
    KNOWS_EFFORT,
    KNOWS_ACCELERATION,
    WRITES_STATES,
    DIFFERENTIATES,
    CAPACITY,
    LIST_COUNT,
    LATEST_LIST,
    LATEST_FAULT,
    SCALAR_COUNT,
) = range(23)


class Arrays(SimpleNamespace):
    """The arrays of `Memory` in Python; they are empty by default."""

    def __init__(self, **arrays: Any) -> None:
        super().__init__(**dict.fromkeys(Memory._fields, EMPTY_ARRAY) | arrays)

    def addresses(self) -> NDArray[np.int64]:
        """Return the addresses in the order of `Memory`; valid until an array is replaced."""
        return np.array(
            [getattr(self, name).__array_interface__["data"][0] for name in Memory._fields],
            np.int64,
        )


EMPTY_ARRAY, EMPTY_TABLE = np.zeros(0, np.int64), np.zeros((0, 4), np.int64)


@kernel
def memory_at(address):
    """Return the `Memory` at an address of the addresses of its arrays; tables remain addresses."""
    t = integers_at(address)
    return Memory(
        integers_at(t[0]),
        integers_at(t[1]),
        integers_at(t[2]),
        t[3],
        integers_at(t[4]),
        floats_at(t[5]),
        integers_at(t[6]),
        integers_at(t[7]),
        integers_at(t[8]),
        floats_at(t[9]),
        floats_at(t[10]),
        floats_at(t[11]),
        integers_at(t[12]),
        bytes_at(t[13]),
        integers_at(t[14]),
        integers_at(t[15]),
        t[16],
        t[17],
        t[18],
        integers_at(t[19]),
        integers_at(t[20]),
        integers_at(t[21]),
        floats_at(t[22]),
        floats_at(t[23]),
        floats_at(t[24]),
        integers_at(t[25]),
        integers_at(t[26]),
        integers_at(t[27]),
        integers_at(t[28]),
        integers_at(t[29]),
        floats_at(t[30]),
        integers_at(t[31]),
        floats_at(t[32]),
        integers_at(t[33]),
        t[34],
        floats_at(t[35]),
        floats_at(t[36]),
        integers_at(t[37]),
        integers_at(t[38]),
        floats_at(t[39]),
        integers_at(t[40]),
        t[41],
        integers_at(t[42]),
    )


@kernel
def counts_of(m, message):
    """Return the row of a message in counts: numbers of positions, velocities and efforts."""
    return integers_at(m.counts + 8 * 3 * message)


@kernel
def name_list_of(m, k):
    """Return row k of name_list_rows: GROUP, SIZE, FIRST, COUNT."""
    return integers_at(m.name_list_rows + 8 * 4 * k)


@kernel
def entry_of(m, k):
    """Return row k of entries: PLACE, SLOT, IDX_Q, IDX_V."""
    return integers_at(m.entries + 8 * 4 * k)


@kernel
def group_of(m, k):
    """Return row k of groups: STAMP, UNUSED_REPORTS, FIRST, COUNT, HAS_ALL_JOINTS."""
    return integers_at(m.groups + 8 * 5 * k)


@kernel
def jump_of(m, slot):
    """Return row `slot` of jumps: JUMP_KIND, POSITION_BEFORE, POSITION_AFTER."""
    return floats_at(m.jumps + 8 * 3 * slot)


@kernel
def fault_of(m, reason):
    """Return the row of a reason in faults: FAULT_COUNT, FIRST_MESSAGE, details."""
    return integers_at(m.faults + 8 * FAULT_SIZE * reason)
