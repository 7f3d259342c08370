# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Base class of the collectors of states, which fills the tables of the compiled rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..cdr.decode import Decoder
from ..engine.call.algorithm import load_function
from ..engine.kernel.types import Array
from ..engine.model.coordinates import independent_joint_indices
from ..engine.model.model import Model
from . import kernel
from . import memory as mem
from .joint_states import MAX_NAME_LISTS, NO_STAMP, Integers, abbreviate_names, base_kind
from .rules import BASE_NUMBERS, DETAIL_COUNT, Evidence, Reason, set_base

Base = tuple[Sequence[float], Sequence[float]]
DescribedNames = tuple[int, Integers]  # group and entries (count, 4) of a name list; see `memory`


class Joints(NamedTuple):
    """The joints whose states are collected, and the columns of their numbers."""

    names: tuple[str, ...]
    idx_q: tuple[int, ...]
    idx_v: tuple[int, ...]
    nvs: tuple[int, ...]
    neutral: Array
    ignored: frozenset[str] = frozenset()  # mimic and fixed joints
    base: str | None = None
    root_link: str = ""

    @classmethod
    def of_model(cls, model: Model) -> Joints:
        """Return the joints of a model that have coordinates of their own."""
        joints = independent_joint_indices(model)
        names = tuple(joints)
        idx_q, idx_v, nvs = (
            tuple(int(column[i]) for i in joints.values())
            for column in (model.idx_q, model.idx_v, model.nvs)
        )
        return cls(
            names,
            idx_q,
            idx_v,
            nvs,
            np.array(model.neutral(), float),
            frozenset(frame.name for frame in model.tree.frames if frame.kind != "body")
            - frozenset(names),
            base_kind(model),
            model.tree.root_link,
        )


NO_JOINTS = Joints((), (), (), (), np.zeros(0))


class Collector:
    """Combines the latest positions and velocities of all joints into states.

    Joints are matched by name, in any order. Names that are not in the model are ignored, and so
    are mimic joints, whose state follows from their masters'. Each publisher may report a subset of
    the joints. A state is complete when every joint is known and none is more than `staleness` [s]
    behind the newest. It is then due at the rate of the fastest publisher: with the message that
    completes a round of all publishers or, if one of them lags, with each message of the others.

    NaN is unknown, for one joint and one kind of number: a joint whose position is NaN counts as
    not reported. A message that cannot be used changes nothing. If stamps jump back by more than
    `staleness` (a bag that loops, a simulation that was reset), the collected state is discarded.

    `base` is a constant pose (x y z qx qy qz qw) and twist (linear, angular, expressed in the base
    frame). Without it, a floating or planar base waits for odometry: `needs_odometry`. Raise
    `Rejected`, a ValueError, if a number is not finite or too large, or the quaternion's norm is
    not 1.
    """

    def __init__(self, model: Model | Joints, staleness: float, base: Base | None = None) -> None:
        joints = model if isinstance(model, Joints) else Joints.of_model(model)
        nv = sum(joints.nvs)
        self._joints = joints
        self.needs_odometry = joints.base is not None and base is None
        self.names = joints.names if joints.base is None else joints.names[1:]
        self._slot_of_name = {
            name: slot for slot, name in enumerate(joints.names) if name in self.names
        }
        # (joint, interface) of all efforts in messages that state their interfaces
        self.effort_interfaces: dict[tuple[str, str], None] = {}  # an ordered set
        self._described_names: dict[tuple[str, ...], DescribedNames] = {}
        self._group_numbers: dict[tuple[int, ...], int] = {}
        self._decoder = Decoder()
        self._arrays = mem.Arrays(
            name_list_rows=mem.EMPTY_TABLE,
            entries=mem.EMPTY_TABLE,
            groups=np.zeros((0, 5), np.int64),
            slots=np.repeat(np.arange(len(joints.names)), joints.nvs),
            q=joints.neutral,
            v=np.zeros(nv),
            tau=np.zeros(nv),
            stamps=np.full(len(joints.names), NO_STAMP),
            has_nan_position=np.zeros(len(joints.names), np.int64),
            has_velocity=np.zeros(len(joints.names), np.int64),
            has_effort=np.zeros(nv, np.int64),
            step_stamp=np.full(len(joints.names), NO_STAMP),
            large_step_speed=np.zeros(len(joints.names)),
            large_step_stamp=np.full(len(joints.names), NO_STAMP),
            smallest_jump=np.full(len(joints.neutral), np.inf),
            has_turns=np.zeros(len(joints.names), np.int64),
            jumps=np.zeros((len(joints.names), 3)),
            acceleration=np.zeros(nv),
            v_before=np.zeros(nv),
            stamps_before=np.full(nv, NO_STAMP),
            has_acceleration=np.zeros(nv, np.int64),
            cutoff=np.zeros(1),
            scalars=np.zeros(mem.SCALAR_COUNT, np.int64),
            faults=np.zeros((len(Reason), mem.FAULT_SIZE), np.int64),
            details=np.zeros(DETAIL_COUNT, np.int64),
        )
        self._scalars = self._arrays.scalars
        self._scalars[[mem.NEWEST_STAMP, mem.STALENESS, mem.BASE_GROUP, mem.LATEST_LIST]] = (
            NO_STAMP,
            round(staleness * 1e9),
            -1,
            -1,
        )
        self._scalars[[mem.JOINT_COUNT, mem.NQ, mem.NV]] = (
            len(joints.names),
            len(joints.neutral),
            nv,
        )
        self._scalars[mem.IS_PLANAR] = joints.base == "planar"
        self._call = load_function(kernel.COLLECT_MESSAGES)
        self._clear_efforts()
        if joints.base is not None:
            self._add_base_group()
            if base is not None:
                set_base(joints.base, self._arrays.q, self._arrays.v, *base)
                self._arrays.has_velocity[0] = self._scalars[mem.FIRST_REPORTED_SLOT] = True

    def _clear_efforts(self) -> None:
        """Mark all efforts as unknown but the zeros of a base, whose wrench no message reports."""
        has_effort = self._arrays.has_effort
        has_effort[:] = np.repeat(
            [name not in self.names for name in self._joints.names], self._joints.nvs
        )
        self._scalars[mem.KNOWS_EFFORT] = has_effort.all()

    @property
    def _reported_stamps(self) -> Integers:
        """Stamps of the joints that messages report, which exclude a constant base."""
        stamps: Integers = self._arrays.stamps[self._scalars[mem.FIRST_REPORTED_SLOT] :]
        return stamps

    def missing_position(self) -> list[str]:
        """Return the names of the joints whose position is unknown or stale."""
        newest, allowed = int(self._scalars[mem.NEWEST_STAMP]), int(self._scalars[mem.STALENESS])
        return self._joints_older_than(max(newest - allowed, NO_STAMP + 1))

    def nan_positions(self) -> list[str]:
        """Return the names of the joints whose position is NaN in the latest message with them."""
        flags = self._arrays.has_nan_position.tolist()
        return [name for name, is_nan in zip(self._joints.names, flags) if is_nan]

    def _joints_older_than(self, limit: int) -> list[str]:
        """Return the names of the joints whose stamp is below a limit."""
        names = self._joints.names[self._scalars[mem.FIRST_REPORTED_SLOT] :]
        return [name for name, stamp in zip(names, self._reported_stamps.tolist()) if stamp < limit]

    # --- the compiled rules

    def _update_addresses(self) -> None:
        """Update the addresses for compiled code, after an array was replaced."""
        self._addresses = self._arrays.addresses()
        self._address = int(self._addresses.ctypes.data)

    def _process_block(self) -> int:
        """Process the messages of the block; return the outcome of the last."""
        while (outcome := int(self._call(None, 0, self._address, NO_STAMP))) == kernel.NEW_NAMES:
            list_number = int(self._arrays.name_list[self._scalars[mem.NEXT_MESSAGE]])
            self._describe_name_list(list_number, self._decoder.name_lists[list_number])
        return outcome

    def _fault_text(self, reason: int) -> str:
        """Describe the first message of the block that was rejected for a reason."""
        arrays = self._arrays
        where, *details = arrays.faults[reason, mem.FIRST_MESSAGE :].tolist()
        list_number, numbers = int(arrays.name_list[where]), arrays.numbers[arrays.start[where] :]
        layout = self._decoder.layouts.get(list_number)
        if reason == Reason.NO_NAMES and layout and layout.entry_names:
            return (
                "no joint has the interface position; the interfaces are "
                f"{abbreviate_names(layout.distinct_interfaces)}"
            )
        if list_number < 0:
            child, root_link = self._decoder.child_frames[-1 - list_number], self._joints.root_link
            evidence = Evidence(BASE_NUMBERS, numbers, details, (), child, root_link)
        else:
            evidence = Evidence(
                self._decoder.name_lists[list_number],
                numbers,
                details,
                arrays.counts[where].tolist(),
            )
        return evidence.text(reason)

    # --- names

    def _extend_name_lists(self, count: int) -> None:
        """Add rows for new name lists until there are `count`."""
        rows = self._arrays.name_list_rows
        new_rows = np.full((max(count - len(rows), 0), 4), mem.NEW_LIST)
        self._arrays.name_list_rows = np.concatenate([rows, new_rows])

    def _describe_name_list(self, number: int, names: tuple[str, ...]) -> None:
        """Describe a name list to the compiled rules: fill its row, and append its entries."""
        if layout := self._decoder.layouts.get(number):
            interfaces = zip(names, layout.effort_interfaces)
            self.effort_interfaces |= dict.fromkeys(pair for pair in interfaces if pair[1])
        group, entries = self._described_names.get(names) or self._new_name_list(names)
        arrays = self._arrays
        arrays.name_list_rows[number] = group, len(names), len(arrays.entries), len(entries)
        arrays.entries = np.concatenate([arrays.entries, entries])
        self._update_addresses()

    def _new_name_list(self, names: tuple[str, ...]) -> DescribedNames:
        """Return the description of names that are not known yet."""
        if not names:
            return mem.EMPTY_LIST, mem.EMPTY_TABLE
        if len(set(names)) < len(names):
            return mem.DUPLICATE_LIST, mem.EMPTY_TABLE
        if len(self._described_names) >= MAX_NAME_LISTS:
            self._forget_name_lists()
        self._report_unknown_names(
            [
                name
                for name in names
                if name not in self._slot_of_name and name not in self._joints.ignored
            ]
        )
        joint_slots = [
            (i, self._slot_of_name[name])
            for i, name in enumerate(names)
            if name in self._slot_of_name
        ]
        idx_q, idx_v = self._joints.idx_q, self._joints.idx_v
        entries = np.array(
            [(i, slot, idx_q[slot], idx_v[slot]) for i, slot in joint_slots], np.int64
        ).reshape(-1, 4)
        group = (
            self._group_number([slot for _, slot in joint_slots])
            if joint_slots
            else mem.IGNORED_LIST
        )
        self._described_names[names] = group, entries
        return group, entries

    def _report_unknown_names(self, names: list[str]) -> None:
        """Report names in a new list that are not joints of the model; do nothing by default."""

    def _forget_name_lists(self) -> None:
        """Forget all name lists and groups, since lists of names never repeat."""
        self._described_names.clear()
        self._group_numbers.clear()
        rows = self._arrays.name_list_rows
        rows[(rows[:, mem.GROUP] >= 0) | (rows[:, mem.GROUP] == mem.IGNORED_LIST)] = mem.NEW_LIST
        self._arrays.entries, self._arrays.members = mem.EMPTY_TABLE, mem.EMPTY_ARRAY
        self._arrays.groups = np.zeros((0, 5), np.int64)
        self._add_base_group()

    def _add_base_group(self) -> None:
        """Add the group of a base whose state odometry reports."""
        if self.needs_odometry:
            self._scalars[mem.BASE_GROUP] = self._group_number([0])

    def _group_number(self, slots: Sequence[int]) -> int:
        """Return the number of the group with these joints; add it if it is new."""
        key = tuple(sorted(slots))
        if key not in self._group_numbers:
            groups, members = self._arrays.groups, self._arrays.members
            row = [NO_STAMP, 0, len(members), len(key), int(len(key) == len(self._reported_stamps))]
            self._arrays.groups = np.concatenate([groups, np.array([row], np.int64)])
            self._arrays.members = np.concatenate([members, np.array(key, np.int64)])
            self._group_numbers[key] = len(groups)
            self._scalars[mem.GROUP_COUNT] = len(self._group_numbers)
        return self._group_numbers[key]
