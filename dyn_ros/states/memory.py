# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The arrays of a collector, for Python and for compiled code.

A *block* is what is processed at once: decoded messages, or one. A *part* is a set of joints that
one publisher reports, and an *entry* one joint in a list of names.
"""

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel.lanes import floats_at, integers_at
from ..engine.kernel.raw import bytes_at
from ..engine.machine_code.declare import kernel
from .rules import DETAILS

Memory = namedtuple(
    "Memory",
    (
        # the block, and the states that it completes
        "layout",
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
        # serialized messages: the lists of names, and what is decoded first
        "known",
        "lists",
        "head",
        # what the messages mean: tables with the rows that are described below
        "layouts",
        "entries",
        "parts",
        "members",
        "foreign",
        "slots",
        # the state: numbers, the stamp of each joint, and which of them are known
        "q",
        "v",
        "tau",
        "stamps",
        "has_velocity",
        "has_effort",
        # the accelerations, and the velocities of the state before
        "acceleration",
        "v_before",
        "stamps_before",
        "has_acceleration",
        "cutoff",
        "scalars",
        # what is wrong: by reason, and the details of the message that is processed
        "faults",
        "details",
    ),
)
"""Arrays of 64-bit numbers in compiled code: pointers, or addresses of tables."""
BLOCK = Memory._fields[:13]

# a layout: its part, number of names, first of its entries, number of entries
PART, SIZE, FIRST, COUNT = range(4)
NEW, IGNORED, NO_NAMES, DUPLICATE = -1, -2, -3, -4  # instead of a part
# an entry: place in the message, slot of the joint, index in q and in v
PLACE, SLOT, Q, V = range(4)
# a part; FIRST and COUNT of its slots among the members
STAMP, AHEAD = 0, 1
COMPLETE = 4
# a fault: how many messages have it, which one was the first, and the details of that
NUMBER, WHERE, FIRST_DETAIL = range(3)
FAULT = FIRST_DETAIL + DETAILS  # numbers of a fault
# scalars; the first three are about the block: the next message, the end, the states written
(
    MESSAGE,
    END,
    STATES,
    NEWEST,
    ALLOWED,
    GIVEN,
    JOINTS,
    NQ,
    NV,
    PARTS,
    BASE_PART,
    IS_PLANAR,
    IS_COMPLETE,
    KNOWS_VELOCITY,
    KNOWS_EFFORT,
    KNOWS_ACCELERATION,
    WRITES,
    DIFFERENTIATES,
    CAPACITY,
    LISTS,
    LATEST_LIST,
    LATEST_FAULT,
    SCALARS,
) = range(23)


class Arrays(SimpleNamespace):
    """The same arrays in Python, by their names; those that are not given are empty."""

    def __init__(self, **arrays: Any) -> None:
        super().__init__(**dict.fromkeys(Memory._fields, EMPTY) | arrays)

    def addresses(self) -> NDArray[np.int64]:
        """Where they are, in order; valid until one of them is replaced."""
        return np.array(
            [getattr(self, name).__array_interface__["data"][0] for name in Memory._fields],
            np.int64,
        )


EMPTY, TABLE = np.zeros(0, np.int64), np.zeros((0, 4), np.int64)


@kernel
def memory_at(address):
    """The arrays from a table of their addresses, in order; tables remain addresses."""
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
        floats_at(t[28]),
        floats_at(t[29]),
        integers_at(t[30]),
        integers_at(t[31]),
        floats_at(t[32]),
        integers_at(t[33]),
        t[34],
        integers_at(t[35]),
    )


@kernel
def counts_of(m, message):
    """Numbers of positions, velocities and efforts."""
    return integers_at(m.counts + 8 * 3 * message)


@kernel
def layout_of(m, k):
    return integers_at(m.layouts + 8 * 4 * k)


@kernel
def entry_of(m, k):
    return integers_at(m.entries + 8 * 4 * k)


@kernel
def part_of(m, k):
    return integers_at(m.parts + 8 * 5 * k)


@kernel
def fault_of(m, reason):
    return integers_at(m.faults + 8 * FAULT * reason)
