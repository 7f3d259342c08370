# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What all collectors of states have in common: the tables of the compiled rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..cdr.decode import Decoder
from ..engine.call.algorithm import compiled
from ..engine.kernel.types import Array
from ..engine.model.coordinates import own_joints
from ..engine.model.model import Model
from . import kernel
from . import memory as mem
from .joint_states import MAX_LAYOUTS, NEVER, Integers, base_kind
from .rules import BASE_NUMBERS, DETAILS, Evidence, Reason, set_base

Base = tuple[Sequence[float], Sequence[float]]
Layout = tuple[int, Integers]  # the part, and the entries (count, 4); see `memory`


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
    def of(cls, model: Model) -> Joints:
        """The joints of a model that have coordinates of their own."""
        own = own_joints(model)
        names = tuple(own)
        idx_q, idx_v, nvs = (
            tuple(int(column[i]) for i in own.values())
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

    A message that cannot be used changes nothing. If stamps jump back by more than `staleness` (a
    bag that loops, a simulation that was reset), the collected state is discarded.

    `base` is a constant pose (x y z qx qy qz qw) and twist (linear, angular, expressed in the base
    frame). Without it, a floating or planar base waits for odometry: `needs_odometry`. Raises
    `Rejected`, a ValueError, if a number is not finite or too large, or the quaternion's norm is
    not 1.
    """

    def __init__(self, model: Model | Joints, staleness: float, base: Base | None = None) -> None:
        joints = model if isinstance(model, Joints) else Joints.of(model)
        nv = sum(joints.nvs)
        self._joints = joints
        self.needs_odometry = joints.base is not None and base is None
        self.names = joints.names if joints.base is None else joints.names[1:]
        self._slots = {name: slot for slot, name in enumerate(joints.names) if name in self.names}
        self._layouts: dict[tuple[str, ...], Layout] = {}  # of lists of names
        self._part_of: dict[tuple[int, ...], int] = {}
        self._decoder = Decoder()
        self._arrays = mem.Arrays(
            layouts=mem.TABLE,
            entries=mem.TABLE,
            parts=np.zeros((0, 5), np.int64),
            slots=np.repeat(np.arange(len(joints.names)), joints.nvs),
            q=joints.neutral,
            v=np.zeros(nv),
            tau=np.zeros(nv),
            stamps=np.full(len(joints.names), NEVER),
            has_velocity=np.zeros(len(joints.names), np.int64),
            has_effort=np.zeros(nv, np.int64),
            acceleration=np.zeros(nv),
            v_before=np.zeros(nv),
            stamps_before=np.full(nv, NEVER),
            has_acceleration=np.zeros(nv, np.int64),
            cutoff=np.zeros(1),
            scalars=np.zeros(mem.SCALARS, np.int64),
            faults=np.zeros((len(Reason), mem.FAULT), np.int64),
            details=np.zeros(DETAILS, np.int64),
        )
        self._scalars = self._arrays.scalars
        self._scalars[[mem.NEWEST, mem.ALLOWED, mem.BASE_PART, mem.LATEST_LIST]] = (
            NEVER,
            round(staleness * 1e9),
            -1,
            -1,
        )
        self._scalars[[mem.JOINTS, mem.NQ, mem.NV]] = len(joints.names), len(joints.neutral), nv
        self._scalars[mem.IS_PLANAR] = joints.base == "planar"
        self._call = compiled(kernel.COLLECT)
        self._clear_efforts()
        if joints.base is not None:
            self._add_base_part()
            if base is not None:
                set_base(joints.base, self._arrays.q, self._arrays.v, *base)
                self._arrays.has_velocity[0] = self._scalars[mem.GIVEN] = True

    def _clear_efforts(self) -> None:
        """All are unknown; a base has zeros, as no message reports its wrench."""
        has_effort = self._arrays.has_effort
        has_effort[:] = np.repeat(
            [name not in self.names for name in self._joints.names], self._joints.nvs
        )
        self._scalars[mem.KNOWS_EFFORT] = has_effort.all()

    @property
    def _live(self) -> Integers:
        """The stamps of what messages report."""
        stamps: Integers = self._arrays.stamps[self._scalars[mem.GIVEN] :]
        return stamps

    def missing(self) -> list[str]:
        """Return the names of the joints whose position is unknown or stale."""
        newest, allowed = int(self._scalars[mem.NEWEST]), int(self._scalars[mem.ALLOWED])
        return self._older(max(newest - allowed, NEVER + 1))

    def _older(self, limit: int) -> list[str]:
        """The joints whose stamp is below a limit."""
        names = self._joints.names[self._scalars[mem.GIVEN] :]
        return [name for name, stamp in zip(names, self._live.tolist()) if stamp < limit]

    # --- the compiled rules

    def _link(self) -> None:
        """Note where the arrays are: after one of them was replaced."""
        self._addresses = self._arrays.addresses()
        self._address = int(self._addresses.ctypes.data)

    def _run(self) -> int:
        """Process the messages of the block; return the outcome of the last."""
        while (outcome := int(self._call(None, 0, self._address, NEVER))) == kernel.NEW_NAMES:
            layout = int(self._arrays.layout[self._scalars[mem.MESSAGE]])
            self._describe(layout, self._decoder.layouts[layout])
        return outcome

    def _text(self, reason: int) -> str:
        """Describe the first message of the block that was rejected for a reason."""
        arrays = self._arrays
        where, *details = arrays.faults[reason, mem.WHERE :].tolist()
        layout, numbers = int(arrays.layout[where]), arrays.numbers[arrays.start[where] :]
        if layout < 0:
            child, root_link = self._decoder.children[-1 - layout], self._joints.root_link
            evidence = Evidence(BASE_NUMBERS, numbers, details, (), child, root_link)
        else:
            evidence = Evidence(
                self._decoder.layouts[layout], numbers, details, arrays.counts[where].tolist()
            )
        return evidence.text(reason)

    # --- names

    def _grow(self, count: int) -> None:
        """Make room for as many layouts as the decoder has."""
        layouts = self._arrays.layouts
        more = np.full((max(count - len(layouts), 0), 4), mem.NEW)
        self._arrays.layouts = np.concatenate([layouts, more])

    def _describe(self, number: int, names: tuple[str, ...]) -> None:
        """Describe a layout to the compiled rules."""
        part, entries = self._layouts.get(names) or self._new_layout(names)
        arrays = self._arrays
        arrays.layouts[number] = part, len(names), len(arrays.entries), len(entries)
        arrays.entries = np.concatenate([arrays.entries, entries])
        self._link()

    def _new_layout(self, names: tuple[str, ...]) -> Layout:
        if not names:
            return mem.NO_NAMES, mem.TABLE
        if len(set(names)) < len(names):
            return mem.DUPLICATE, mem.TABLE
        if len(self._layouts) >= MAX_LAYOUTS:
            self._forget()
        self._take_unknown(
            [name for name in names if name not in self._slots and name not in self._joints.ignored]
        )
        used = [(i, self._slots[name]) for i, name in enumerate(names) if name in self._slots]
        idx_q, idx_v = self._joints.idx_q, self._joints.idx_v
        entries = np.array(
            [(i, slot, idx_q[slot], idx_v[slot]) for i, slot in used], np.int64
        ).reshape(-1, 4)
        part = self._part([slot for _, slot in used]) if used else mem.IGNORED
        self._layouts[names] = part, entries
        return part, entries

    def _take_unknown(self, names: list[str]) -> None:
        """Process the names in a new list that are not joints of the model."""

    def _forget(self) -> None:
        """Forget all layouts and parts, since lists of names never repeat."""
        self._layouts.clear()
        self._part_of.clear()
        layouts = self._arrays.layouts
        layouts[(layouts[:, mem.PART] >= 0) | (layouts[:, mem.PART] == mem.IGNORED)] = mem.NEW
        self._arrays.entries, self._arrays.members = mem.TABLE, mem.EMPTY
        self._arrays.parts = np.zeros((0, 5), np.int64)
        self._add_base_part()

    def _add_base_part(self) -> None:
        if self.needs_odometry:
            self._scalars[mem.BASE_PART] = self._part([0])

    def _part(self, slots: Sequence[int]) -> int:
        """The number of the part with these joints."""
        key = tuple(sorted(slots))
        if key not in self._part_of:
            parts, members = self._arrays.parts, self._arrays.members
            row = [NEVER, 0, len(members), len(key), int(len(key) == len(self._live))]
            self._arrays.parts = np.concatenate([parts, np.array([row], np.int64)])
            self._arrays.members = np.concatenate([members, np.array(key, np.int64)])
            self._part_of[key] = len(parts)
            self._scalars[mem.PARTS] = len(self._part_of)
        return self._part_of[key]
