# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States from the messages of a recording, by the rules of the nodes' `StateCollector`."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine.call.algorithm import compiled
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from ..states.joint_states import (
    LARGEST,
    MAX_LAYOUTS,
    NEVER,
    QUATERNION_TOLERANCE,
    STALENESS,
    Rejected,
    base_kind,
    check_base,
    check_child_frame,
    check_names,
    check_sizes,
    check_usable,
    jumped_back,
    late,
    set_base,
)
from .collect_kernel import (
    ALLOWED,
    BASE_PART,
    CHILD,
    COLLECT,
    DUPLICATE,
    FINE,
    GIVEN,
    IGNORED,
    JUMP,
    LATE,
    MESSAGE,
    NEW,
    NEWEST,
    NO_NAMES,
    NORM,
    NUMBER,
    ODOMETRY,
    PART,
    POSE,
    REASONS,
    STATES,
    TWIST,
)
from .states import Integers, Note, States


class Messages(Protocol):
    """The messages that a collector processes, see `source.Messages`."""

    @property
    def layout(self) -> NDArray[np.int32]: ...
    @property
    def log_time(self) -> Integers: ...
    @property
    def stamp(self) -> Integers: ...
    @property
    def counts(self) -> NDArray[np.int32]: ...
    @property
    def start(self) -> Integers: ...
    @property
    def numbers(self) -> Array: ...


class Names(Protocol):
    """The names that messages refer to, see `decode.Decoder`."""

    @property
    def layouts(self) -> Sequence[tuple[str, ...]]: ...
    @property
    def children(self) -> Sequence[str]: ...


# --- odometry

_SIZES = {"floating": (7, 6), "planar": (3, 3)}


def _base_faults(poses: Array, twists: Array) -> Integers:
    """Why each pose and twist of a base is rejected, or FINE."""
    faults = np.full(len(poses), FINE, np.int64)
    with np.errstate(invalid="ignore"):
        faults[~(np.abs(twists) <= LARGEST).all(axis=1)] = TWIST
        faults[np.abs(_norms(poses) - 1.0) > QUATERNION_TOLERANCE] = NORM
        faults[~(np.abs(poses) <= LARGEST).all(axis=1)] = POSE
    return faults


def _base_states(kind: str, poses: Array, twists: Array) -> tuple[Array, Array]:
    """Coordinates and velocities of a base for usable poses and twists, as `set_base`."""
    x, y, z, w = poses[:, 3:].T
    if kind == "planar":
        yaw = map(math.atan2, (2.0 * (w * z + x * y)).tolist(),
                  (1.0 - 2.0 * (y * y + z * z)).tolist())
        return np.column_stack([poses[:, :2], list(yaw)]), twists[:, [0, 1, 5]]
    return np.column_stack([poses[:, :3], poses[:, 3:] / _norms(poses)[:, None]]), twists


def _norms(poses: Array) -> Array:
    """The norms of their quaternions, to the last digit those of a node."""
    return np.fromiter(map(math.hypot, *poses[:, 3:].T.tolist()), float, len(poses))


class _Base(NamedTuple):
    """Odometry as the compiled part takes it: faults, coordinates, velocities."""

    faults: Integers
    q: Array
    v: Array


# --- the collector

class _Joints(NamedTuple):
    """The joints whose states are collected, and the columns of their numbers."""

    names: tuple[str, ...]
    idx_q: tuple[int, ...]
    idx_v: tuple[int, ...]
    nvs: tuple[int, ...]
    neutral: Array
    ignored: frozenset[str] = frozenset()       # mimic joints
    base: str | None = None
    root_link: str = ""


def _joints(model: Model) -> _Joints:
    """The joints of a model that have coordinates of their own."""
    own = [i for i, joint in enumerate(model.tree.joints) if joint.mimic is None]
    names = tuple(model.joint_names[i] for i in own)
    idx_q, idx_v, nvs = (tuple(int(each[i]) for i in own)
                         for each in (model.idx_q, model.idx_v, model.nvs))
    return _Joints(names, idx_q, idx_v, nvs, np.array(model.neutral(), float),
                   frozenset(model.joint_names) - frozenset(names), base_kind(model),
                   next(frame.name for frame in model.tree.frames if frame.kind == "body"))


class _Layout(NamedTuple):
    """What the compiled part reads of a list of names."""

    part: int
    size: int
    entries: Integers           # (count, 4)


class Collector:
    """Combines the messages of a recording into states, exactly as the nodes do.

    The rules are those of `nodes.state.StateCollector`: joints by name in any order, subsets from
    several publishers, staleness, rounds, late stamps, jumps back. What a node rejects is counted
    here, and nothing is raised. Efforts are always collected.

    Parameters
    ----------
    model : dyn_ros.Model
    staleness : float
        Largest difference between stamps within one state [s].
    base : tuple of two arrays, optional
        Constant pose and twist of a base that moves. If omitted, they come from odometry.

    Attributes
    ----------
    names : tuple of str
        The joints that messages report.
    needs_odometry : bool
        Whether the pose and twist of the base come from odometry.
    rejected : dict of str to Note
        Messages that were rejected, by reason, see `REASONS`.
    resets : Note or None
        Stamps that jumped back by more than the staleness: the collected state was discarded.
    unknown : dict of str to None
        Names that are not joints of the model.

    Raises
    ------
    ValueError
        A joint other than the base has several degrees of freedom, or the base cannot be used.
    """

    def __init__(self, model: Model, staleness: float = STALENESS,
                 base: tuple[Sequence[float], Sequence[float]] | None = None) -> None:
        self._start(_joints(model), staleness, base)

    @classmethod
    def of_names(cls, names: Sequence[str], staleness: float = STALENESS) -> Collector:
        """Return a collector without a model: a position and a velocity for each name.

        Parameters
        ----------
        names : sequence of str
            Unique; the order of the columns.
        staleness : float
            Largest difference between stamps within one state [s].

        Returns
        -------
        Collector
        """
        check_names(list(names))
        count = len(names)
        collector = cls.__new__(cls)
        collector._start(_Joints(tuple(names), tuple(range(count)), tuple(range(count)),
                                 (1,) * count, np.zeros(count)), staleness, None)
        return collector

    def _start(self, joints: _Joints, staleness: float,
               base: tuple[Sequence[float], Sequence[float]] | None) -> None:
        names, nv = joints.names, sum(joints.nvs)
        self._joints = joints
        self.needs_odometry = joints.base is not None and base is None
        self.names = names if joints.base is None else names[1:]
        self._slots = {name: slot for slot, name in enumerate(names) if name in self.names}
        self.rejected: dict[str, Note] = {}
        self.resets: Note | None = None
        self.unknown: dict[str, None] = {}
        self._slot_of_row = np.repeat(np.arange(len(names), dtype=np.int64), joints.nvs)
        self._q, self._v, self._tau = np.array(joints.neutral), np.zeros(nv), np.zeros(nv)
        self._stamps = np.full(len(names), NEVER, np.int64)
        self._has_velocity, self._has_effort = np.zeros(len(names), bool), np.zeros(nv, bool)
        self._scalars = np.zeros(7, np.int64)
        self._scalars[[NEWEST, ALLOWED, BASE_PART]] = NEVER, round(staleness * 1e9), -1
        self._faults = np.zeros((len(REASONS) + 1, 3), np.int64)
        self._layouts: dict[tuple[str, ...], _Layout] = {}      # those that a node remembers
        self._part_of: dict[tuple[int, ...], int] = {}
        self._parts, self._members = np.zeros((0, 5), np.int64), np.zeros(0, np.int64)
        self._decoder: Names | None = None
        self._clear_tables()
        if joints.base is None:
            return
        self._has_effort[:joints.nvs[0]] = True
        if base is not None:
            check_base(*base)
            set_base(joints.base, self._q, self._v, *base)
            self._has_velocity[0] = True
            self._scalars[GIVEN] = 1
        self._add_base_part()

    @property
    def nq(self) -> int:
        """Number of positions of a state."""
        return len(self._q)

    @property
    def nv(self) -> int:
        """Number of velocities and efforts of a state."""
        return len(self._v)

    @property
    def parts(self) -> int:
        """Number of sets of joints that are reported together; several form rounds."""
        return len(self._parts)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to go on; another decoder will number the layouts."""
        kept = dict(self.__dict__, _decoder=None, rejected={}, resets=None)
        del kept["_table"], kept["_entries"]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a collector that forgot its decoder and its notes."""
        self.__dict__.update(state)
        self._clear_tables()

    def _clear_tables(self) -> None:
        self._table, self._entries = np.zeros((0, 4), np.int64), np.zeros((0, 4), np.int64)

    def rounds(self) -> bytes:
        """Return what decides when the next states are due."""
        return self._parts.tobytes() + self._stamps.tobytes()

    def start_rounds(self, ahead: Sequence[int], stamp: int) -> None:
        """Pretend that each part has reported so often since the last state; -1: never."""
        self._stamps[int(self._scalars[GIVEN]):] = stamp
        for part, number in enumerate(ahead):
            self._parts[part, :2] = (NEVER, 0) if number < 0 else (stamp, number)

    def push(self, messages: Messages, decoder: Names, notes: bool = True) -> States:
        """Process the next messages, in order of the time when they were recorded.

        Parameters
        ----------
        messages : source.Messages
        decoder : decode.Decoder
            That decoded them; its layouts may have become more since the last call.
        notes : bool
            Whether to count what is rejected.

        Returns
        -------
        States
            Those that these messages completed.
        """
        if decoder is not self._decoder:
            self._decoder = decoder
            self._clear_tables()
        layout = np.ascontiguousarray(messages.layout, np.int32)
        log_time, stamp, start = (np.ascontiguousarray(array, np.int64) for array in (
            messages.log_time, messages.stamp, messages.start))
        counts = np.ascontiguousarray(messages.counts, np.int32)
        numbers = np.ascontiguousarray(messages.numbers, float)
        _check_bounds(layout, counts, start, numbers, len(decoder.layouts))
        base = self._odometry(layout, start, numbers, decoder)
        self._grow(len(decoder.layouts))
        states = States.empty(len(layout), self.nq, self.nv)
        self._scalars[[MESSAGE, ODOMETRY, STATES]] = 0
        self._faults[:] = 0
        call, done = compiled(COLLECT), 0
        while done < len(layout):
            done = call(
                layout, log_time, stamp, counts, start, numbers, *base, self._table,
                self._entries, self._parts, self._members, self._slot_of_row, self._q, self._v,
                self._tau, self._stamps, self._has_velocity, self._has_effort, self._scalars,
                self._faults, *states[:-1], states.behind)
            if done < len(layout):
                self._add(int(layout[done]), decoder.layouts[layout[done]])
        if notes:
            self._take_notes(messages, decoder)
        return states.take(slice(0, int(self._scalars[STATES])))

    def missing(self) -> list[str]:
        """Return the names of the joints whose position is unknown or stale, as in a node."""
        given, stamps = int(self._scalars[GIVEN]), self._stamps
        limit = max(int(stamps[given:].max(initial=NEVER)) - int(self._scalars[ALLOWED]), NEVER + 1)
        return [name for name, stamp in zip(self._joints.names[given:], stamps[given:].tolist())
                if stamp < limit]

    # -- names

    def _grow(self, count: int) -> None:
        """Make room in the table for the layouts of the decoder."""
        more = count - len(self._table)
        if more > 0:
            rows = np.full((more, 4), NEW, np.int64)
            self._table = np.concatenate([self._table, rows])

    def _add(self, number: int, names: tuple[str, ...]) -> None:
        """Describe a layout to the compiled part."""
        layout = self._layouts.get(names) or self._new_layout(names)
        first = len(self._entries)
        self._table[number] = layout.part, layout.size, first, len(layout.entries)
        self._entries = np.concatenate([self._entries, layout.entries])

    def _new_layout(self, names: tuple[str, ...]) -> _Layout:
        none = np.zeros((0, 4), np.int64)
        if not names:
            return _Layout(NO_NAMES, 0, none)
        if len(set(names)) < len(names):
            return _Layout(DUPLICATE, len(names), none)
        if len(self._layouts) >= MAX_LAYOUTS:
            self._forget()
        used = [(i, self._slots[name]) for i, name in enumerate(names) if name in self._slots]
        self.unknown |= dict.fromkeys(
            name for name in names if name not in self._slots and name not in self._joints.ignored)
        idx_q, idx_v = self._joints.idx_q, self._joints.idx_v
        entries = np.array([(i, slot, idx_q[slot], idx_v[slot]) for i, slot in used],
                           np.int64).reshape(-1, 4)
        part = self._part([slot for _, slot in used]) if used else IGNORED
        layout = self._layouts[names] = _Layout(part, len(names), entries)
        return layout

    def _forget(self) -> None:
        """Forget all layouts and parts, as a node does if lists of names never repeat."""
        self._layouts.clear()
        self._part_of.clear()
        self._parts, self._members = np.zeros((0, 5), np.int64), np.zeros(0, np.int64)
        known = (self._table[:, PART] >= 0) | (self._table[:, PART] == IGNORED)
        self._table[known] = NEW
        self._entries = np.zeros((0, 4), np.int64)
        self._add_base_part()

    def _add_base_part(self) -> None:
        if self.needs_odometry:
            self._scalars[BASE_PART] = self._part([0])

    def _part(self, slots: Sequence[int]) -> int:
        """The number of the part with these joints."""
        key = tuple(sorted(slots))
        if key not in self._part_of:
            self._part_of[key] = len(self._parts)
            live = len(self._stamps) - int(self._scalars[GIVEN])
            row = [NEVER, 0, len(self._members), len(key), int(len(key) == live)]
            self._parts = np.concatenate([self._parts, np.array([row], np.int64)])
            self._members = np.concatenate([self._members, np.array(key, np.int64)])
        return self._part_of[key]

    # -- odometry

    def _odometry(self, layout: NDArray[np.int32], start: Integers, numbers: Array,
                  decoder: Names) -> _Base:
        chosen = np.flatnonzero(layout < 0) if self.needs_odometry else np.zeros(0, np.intp)
        rows = numbers[start[chosen, None] + np.arange(13)]
        poses, twists = rows[:, :7], rows[:, 7:]
        kind = self._joints.base or "floating"
        faults = _base_faults(poses, twists)
        foreign = [k for k, child in enumerate(decoder.children) if self._is_foreign(child)]
        if foreign and len(chosen):
            faults[np.isin(-1 - layout[chosen], foreign)] = CHILD
        nq, nv = _SIZES[kind]
        q, v = np.empty((len(rows), nq)), np.empty((len(rows), nv))
        fine = faults == FINE
        if fine.any():
            q[fine], v[fine] = _base_states(kind, poses[fine], twists[fine])
        return _Base(faults, q, v)

    def _is_foreign(self, child: str) -> bool:
        try:
            check_child_frame(child, self._joints.root_link)
        except Rejected:
            return True
        return False

    # -- what was not used

    def _take_notes(self, messages: Messages, decoder: Names) -> None:
        """Add what the compiled part has noted."""
        for number in map(int, np.flatnonzero(self._faults[:, NUMBER])):
            count, where, detail = map(int, self._faults[number])
            found = Note(count, int(messages.log_time[where]),
                         self._example(number, messages, decoder, where, detail))
            if number == JUMP:
                self.resets = self.resets.plus(found) if self.resets else found
                continue
            reason = REASONS[number]
            before = self.rejected.get(reason)
            self.rejected[reason] = before.plus(found) if before else found

    def _example(self, number: int, messages: Messages, decoder: Names, where: int,
                 detail: int) -> str:
        """What a node would have logged for a message."""
        if number in (LATE, JUMP):
            return (late if number == LATE else jumped_back)(detail)
        which = int(messages.layout[where])
        values = _Values.of(messages, where)
        try:
            if which < 0:
                check_child_frame(decoder.children[-1 - which], self._joints.root_link)
                check_base(values.all[:7], values.all[7:13])
            else:
                self._check(decoder.layouts[which], values)
        except Rejected as error:
            return str(error)
        return REASONS[number]

    def _check(self, names: tuple[str, ...], values: _Values) -> None:
        """Raise what a node raises for joint states that cannot be used."""
        if not names:
            raise Rejected("no joint names")
        check_names(names)
        check_sizes(len(names), values.position, values.velocity, values.effort)
        used = [i for i, name in enumerate(names) if name in self._slots]
        for field, numbers in (("position", values.position), ("velocity", values.velocity)):
            if numbers:
                check_usable(field, [names[i] for i in used], [numbers[i] for i in used])


class _Values(NamedTuple):
    """The numbers of a message."""

    position: list[float]
    velocity: list[float]
    effort: list[float]
    all: list[float]

    @classmethod
    def of(cls, messages: Messages, where: int) -> _Values:
        start, counts = int(messages.start[where]), messages.counts[where].tolist()
        stops = np.cumsum([0, *counts]).tolist()
        total = 13 if messages.layout[where] < 0 else stops[-1]
        found = messages.numbers[start:start + total].tolist()
        return cls(found[:stops[1]], found[stops[1]:stops[2]], found[stops[2]:stops[3]], found)


def _check_bounds(layout: NDArray[np.int32], counts: NDArray[np.int32], start: Integers,
                  numbers: Array, layouts: int) -> None:
    """Raise a ValueError unless all messages are inside of their numbers, unlike compiled code."""
    stop = start + np.where(layout < 0, 13, counts.sum(axis=1, dtype=np.int64))
    if len(layout) and (start.min() < 0 or counts.min() < 0 or stop.max() > len(numbers)
                        or layout.max() >= layouts):
        raise ValueError("messages: expected layouts, counts and starts inside of their numbers")
