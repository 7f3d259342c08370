# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Assemble a robot's state from joint states and odometry, with all checks. Independent of ROS."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dyn_ros import Model
from dyn_ros.engine.kernel.types import Array
from dyn_ros.states.joint_states import (
    LARGEST,
    MAX_LAYOUTS,
    NEVER,
    Numbers,
    Rejected,
    abbreviated,
    base_kind,
    check_base,
    check_names,
    check_sizes,
    check_usable,
    jumped_back,
    late,
    set_base,
)

from .differences import Differences


class State(NamedTuple):
    """A robot's state at one instant, in the order of the model."""

    q: Array
    velocities: Array               # meaningless for the joints in `unknown`
    stamp: int = 0                  # [ns]; 0 if the state is from a request
    unknown: Sequence[str] = ()     # names of the joints whose velocity is unknown
    effort: Array | None = None     # None: not collected, or that of some joint is unknown
    acceleration: Array | None = None   # as for effort; see `Differences`

    @property
    def v(self) -> Array | None:
        """All velocities; None if one is unknown."""
        return None if self.unknown else self.velocities

    def velocity(self) -> Array:
        """Return all velocities; raise `Rejected` if one is unknown."""
        if self.unknown:
            raise Rejected(f"unknown velocity of {abbreviated(self.unknown)}: {STATE_HINT}")
        return self.velocities


STATE_HINT = "publish it on joint_states, or specify a state in the request"
Index: TypeAlias = "slice | NDArray[np.intp]"


@dataclass(eq=False)
class _Part:
    """A set of joints that one publisher reports, in any order."""

    slots: Index            # which joints
    complete: bool          # the whole state
    stamp: int = NEVER      # of its last message
    ahead: int = 0          # messages received since the last state, at most 2


@dataclass(eq=False)
class _Layout:
    """Maps the entries of a message with a certain list of names to q and v."""

    size: int               # number of names
    used: Index             # entries that are used
    q: Index
    v: Index
    part: _Part | None      # None: none of the names is a joint with its own coordinate


class Whole(NamedTuple):
    """Where the numbers of messages belong that alone make up the state, see `whole`."""

    entries: NDArray[np.intp]       # of the message, for each joint
    q: NDArray[np.intp]             # the index of each joint in q
    v: NDArray[np.intp]
    slots: NDArray[np.intp]         # and in stamps
    stamps: NDArray[np.int64]
    part: _Part


class StateCollector:
    """Combines the latest positions and velocities of all joints into one state.

    Joints are matched by name, in any order. Names that are not in the model are ignored, and so
    are mimic joints, whose state follows from their masters'. Each publisher may report a subset
    of the joints. A state is complete when every joint is known and none is more than `staleness`
    behind the newest. It is then due at the rate of the fastest publisher: with the message that
    completes a round of all publishers or, if one of them lags, with each message of the others.

    A message that cannot be used raises `Rejected` and changes nothing. If stamps jump back by
    more than `staleness` (a bag that loops, a simulation that was reset), the collected state is
    discarded and `notify` is called.

    Parameters
    ----------
    model : dyn_ros.Model
        The base may be floating or planar (first joint below the universe); any other joint of
        several degrees of freedom is a `ValueError`, as no message reports its state.
    staleness : float
        Largest difference between stamps within one state [s].
    base : tuple of two arrays, optional
        Constant pose (x y z qx qy qz qw) and twist (linear, angular, expressed in the base frame)
        of the base. If omitted, a floating or planar base waits for `odometry`. Raises `Rejected`,
        a ValueError, if it is not finite or too large, or if the quaternion's norm is not 1.
    notify : callable(str), optional
        Called when the collected state is discarded.

    Attributes
    ----------
    q, v : ndarray (nq,), (nv,)
        The state, in the order of the model; overwritten by the next message.
    stamp : int
        The newest stamp in it [ns].
    constant : bool
        Whether the state does not depend on messages: no joints, and no base with odometry.
    needs_odometry : bool
        Whether the base's pose and twist come from `odometry`.
    complete : bool
        False if the position of some joint is unknown or stale; q must not be used then.
    velocity_known : bool
        False if the velocity of some joint is unknown; v must not be used then.
    collects_effort : bool
        Whether efforts are collected, see `collect`.
    tau : ndarray (nv,)
        The efforts, in the order of the model; zero for a base, whose wrench is not reported.
    cutoff : float
        Cutoff frequency of the low pass of the accelerations, see `Differences` [Hz].
    """

    def __init__(self, model: Model, staleness: float,
                 base: tuple[Sequence[float], Sequence[float]] | None = None,
                 notify: Callable[[str], object] | None = None) -> None:
        self.q = np.array(model.neutral(), float)
        self.v = np.zeros(model.nv)
        self.stamp = NEVER
        self.collects_effort = False
        self.tau = np.zeros(model.nv)
        self._differences = Differences(model.nv, staleness)
        self._differentiates = False
        self.staleness = staleness
        self._notify = notify or (lambda text: None)
        joints = [i for i, joint in enumerate(model.tree.joints) if joint.mimic is None]
        self._names = [model.joint_names[i] for i in joints]
        self._slots = {name: slot for slot, name in enumerate(self._names)}
        self._mimics = set(model.joint_names) - self._slots.keys()
        self._idx_q = [int(model.idx_q[i]) for i in joints]
        self._idx_v = [int(model.idx_v[i]) for i in joints]
        self._stamps = np.full(len(joints), NEVER)
        self._velocities = np.zeros(len(joints), bool)
        self._slot_of_row = np.repeat(np.arange(len(joints)), [model.nvs[i] for i in joints])
        self._row_names = model.velocity_names
        self._efforts = np.zeros(model.nv, bool)
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self._parts: dict[tuple[int, ...], _Part] = {}
        self._unknown: tuple[str, ...] = ()
        self._base = base_kind(model)
        self.needs_odometry = self._base is not None and base is None
        if self._base is not None:
            del self._slots[self._names[0]]
            self._efforts[:model.nvs[0]] = True
            if base is not None:
                check_base(*base)
                set_base(self._base, self.q, self.v, *base)
                self._velocities[0] = True
        given = self._base is not None and not self.needs_odometry
        self._live = self._stamps[given:]        # a view: stamps of what messages report
        self.complete = self.constant = not len(self._live)
        self.velocity_known = self.constant

    @property
    def staleness(self) -> float:
        return self._staleness * 1e-9

    @staleness.setter
    def staleness(self, seconds: float) -> None:
        self._staleness = round(seconds * 1e9)

    @property
    def cutoff(self) -> float:
        return self._differences.cutoff

    @cutoff.setter
    def cutoff(self, frequency: float) -> None:
        self._differences.cutoff = frequency

    def collect(self, reads: Iterable[str]) -> None:
        """Collect "effort" or "acceleration" from now on: efforts with the next message."""
        if "effort" in reads:
            self.collects_effort = True
        if "acceleration" in reads and not self._differentiates:
            self._differentiates = True
            self._update_differences()

    def latest(self) -> State:
        """Return the latest state; its arrays are overwritten by the next message."""
        return State(
            self.q, self.v, self.stamp,
            () if self.velocity_known else self.missing_velocity(),
            self.tau if self.collects_effort and self.effort_known else None,
            self._differences.acceleration
            if self._differentiates and self._differences.known else None)

    def joint_states(self, names: Sequence[str], position: Numbers,
                     velocity: Numbers, effort: Numbers, stamp: int) -> bool:
        """Process the fields of a sensor_msgs/JointState; the stamp is in ns.

        Returns
        -------
        bool
            Whether a state is complete and due.

        Raises
        ------
        Rejected
            No names, duplicate names, lengths that do not match, a value for a joint of the model
            that is not finite or exceeds `LARGEST`, or a stamp slightly older than the last one.
        """
        key = tuple(names)
        layout = self._layouts.get(key) or self._new_layout(key)
        size = layout.size
        check_sizes(size, position, velocity, effort)
        part = layout.part
        if part is None:
            return False
        q = self._checked("position", position, layout, key)
        if size == len(velocity):
            v = self._checked("velocity", velocity, layout, key)
            self._check_order(part, stamp)
            self.v[layout.v] = v
            self._velocities[part.slots] = True
        else:
            self._check_order(part, stamp)
            self._velocities[part.slots] = False
        if self.collects_effort:
            self._take_effort(effort, layout)
        self.q[layout.q] = q
        return self._collected(part, stamp)

    def whole(self, names: tuple[str, ...]) -> Whole | None:
        """Return where the numbers of messages with a list of names belong.

        None if there are none with these names, if joints are missing in them, or if a state
        begins with messages of other joints. Unless `collects_more`, the caller may write usable
        positions and velocities to q and v, and the stamp to `stamps`, and then call `taken`.
        """
        layout = self._layouts.get(names)
        if layout is None or layout.part is None or not layout.part.complete or any(
                each.ahead for each in self._parts.values() if each is not layout.part):
            return None
        slots = sorted(self._slots[name] for name in names if name in self._slots)
        return Whole(np.arange(layout.size)[layout.used], np.arange(len(self.q))[layout.q],
                     np.arange(len(self.v))[layout.v], np.array(slots), self._stamps, layout.part)

    def taken(self, whole: Whole, stamp: int) -> None:
        """Continue after the numbers of a message have been written, as described at `whole`."""
        whole.part.stamp = self.stamp = stamp

    @property
    def collects_more(self) -> bool:
        """Whether efforts or accelerations are collected."""
        return self.collects_effort or self._differentiates

    def odometry(self, pose: Sequence[float], twist: Sequence[float], stamp: int) -> bool:
        """Process the base's pose (x y z qx qy qz qw) in the world and twist in the base frame.

        Returns and raises like `joint_states`; ignored if the base does not move.
        """
        if self._base is None or not self.needs_odometry:
            return False
        check_base(pose, twist)
        part = self._part([0])
        self._check_order(part, stamp)
        set_base(self._base, self.q, self.v, pose, twist)
        self._velocities[0] = True
        return self._collected(part, stamp)

    def missing(self) -> list[str]:
        """Return the names of the joints whose position is unknown or stale."""
        names = self._names[-len(self._live):]
        limit = max(self.stamp - self._staleness, NEVER + 1)
        return [name for name, stamp in zip(names, self._live) if stamp < limit]

    def behind(self, seconds: float) -> list[str]:
        """Return the names of the joints that are more than this behind the newest [s]."""
        limit = self.stamp - round(seconds * 1e9)
        if not len(self._live) or self._live.min() >= limit:
            return []
        names = self._names[-len(self._live):]
        return [name for name, stamp in zip(names, self._live) if stamp < limit]

    def missing_velocity(self) -> list[str]:
        """Return the names of the joints whose velocity is unknown."""
        return [self._names[i] for i in np.flatnonzero(~self._velocities)]

    def missing_effort(self) -> list[str]:
        """Return the names of the joints whose effort is unknown."""
        return [self._row_names[row] for row in np.flatnonzero(~self._efforts)]

    @property
    def effort_known(self) -> bool:
        """False if the effort of some joint is unknown; tau must not be used then."""
        return bool(self._efforts.all())

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names that are not joints of the model, from the latest list of names that was new."""
        return self._unknown

    def _new_layout(self, names: tuple[str, ...]) -> _Layout:
        if not names:
            raise Rejected("no joint names")
        check_names(names)
        if len(self._layouts) >= MAX_LAYOUTS:
            self._layouts.clear()
            self._parts.clear()
        used = [i for i, name in enumerate(names) if name in self._slots]
        slots = [self._slots[names[i]] for i in used]
        self._unknown = tuple(
            name for name in names if name not in self._slots and name not in self._mimics)
        layout = _Layout(
            size=len(names),
            used=_index(used),
            q=_index([self._idx_q[slot] for slot in slots]),
            v=_index([self._idx_v[slot] for slot in slots]),
            part=self._part(slots) if slots else None)
        self._layouts[names] = layout
        return layout

    def _part(self, slots: Sequence[int]) -> _Part:
        slots = sorted(slots)
        key = tuple(slots)
        if key not in self._parts:
            self._parts[key] = _Part(_index(slots), complete=len(slots) == len(self._live))
        return self._parts[key]

    def _checked(self, field: str, values: Numbers, layout: _Layout,
                 names: tuple[str, ...]) -> Array:
        used = np.asarray(values, float)[layout.used]
        with np.errstate(over="ignore"):
            usable = used.dot(used) <= LARGEST          # far faster than naming what is wrong
        if not usable:
            check_usable(field, np.array(names)[layout.used].tolist(), used.tolist())
        return used

    def _take_effort(self, effort: Numbers, layout: _Layout) -> None:
        """Record the efforts; one that is missing or NaN is unknown, as not every driver has it."""
        if len(effort) == layout.size:
            used = np.asarray(effort, float)[layout.used]
            self.tau[layout.v] = used
            self._efforts[layout.v] = np.abs(used) <= LARGEST
        else:
            self._efforts[layout.v] = False

    def _check_order(self, part: _Part, stamp: int) -> None:
        behind = part.stamp - stamp
        if behind <= 0:
            return
        if behind <= self._staleness:
            raise Rejected(late(behind))
        self._notify(jumped_back(behind))
        self.stamp, self.complete = NEVER, False
        self._stamps[:] = NEVER
        for each in self._parts.values():
            each.stamp, each.ahead = NEVER, 0

    def _collected(self, part: _Part, stamp: int) -> bool:
        part.stamp = stamp
        part.ahead = min(part.ahead + 1, 2)
        self._stamps[part.slots] = stamp
        if part.complete:
            self.stamp, self.complete = stamp, True
        else:
            self.stamp = int(self._live.max())
            oldest = self.stamp - self._staleness
            self.complete = bool(self._live.min() >= oldest)
            if not self.complete:
                return False
            if part.ahead < 2 and any(
                    not each.ahead and each.stamp >= oldest for each in self._parts.values()):
                return False
        for each in self._parts.values():
            each.ahead = max(each.ahead - 1, 0)
        self.velocity_known = all(self._velocities.tolist())
        if self._differentiates:
            self._update_differences()
        return True

    def _update_differences(self) -> None:
        if self.velocity_known:
            self._differences.update(self.v, self._stamps[self._slot_of_row])
        else:
            self._differences.reset()


def _index(numbers: list[int]) -> Index:
    """Return a slice if the numbers are consecutive (faster), otherwise an index array."""
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return slice(numbers[0], numbers[0] + len(numbers))
    return np.array(numbers, dtype=np.intp)
